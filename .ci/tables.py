"""Table notebooks: on the sample all of them, then on what is here those that need no more than some seconds. `--all` leaves none out.

What is left out runs on the sample all the same, so its code is tried; `make test-full` and `make reproduce` run it on what is here.
"""
import os, subprocess, sys
from pathlib import Path
from refnb.results.reproduce import choose

BIN = Path(sys.executable).parent
SLOW = {f"altentities/own_{n}" for n in ("calibration", "comparing_scorer", "neither_both", "number_of_choices", "transfer")}  # half a minute each, and more

def main(all_: bool) -> int:
    names = choose(())
    if gone := SLOW - set(names): raise SystemExit(f"tables: {', '.join(sorted(gone))}: no such table; name the slow ones in .ci/tables.py")
    left = names if all_ else [n for n in names if n not in SLOW]
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a notebook runs on every core already
    return subprocess.run([BIN/"refnb", "reproduce", "--sample"], env=env).returncode or subprocess.run([BIN/"refnb", "reproduce", *left], env=env).returncode

if __name__ == "__main__": sys.exit(main("--all" in sys.argv))
