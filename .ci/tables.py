"""Table notebooks, each once: those that need more than some seconds on refnb's sample, the others on what is here. `--all` runs all of them on both, as `make test-full` does."""

import os, subprocess, sys
from pathlib import Path
from refnb.results.reproduce import choose

REFNB = Path(sys.executable).with_name("refnb")
SLOW = [
    "bookcoref/own_pipeline",
    "bookcoref/table_2_pipeline",
    "kitmus/own_weightless_systems",
]  # more than ten seconds each


def reproduce(*how: str) -> int:
    "Run table notebooks; a notebook has one thread, for as many run at a time as there are cores."
    return subprocess.run(
        [REFNB, "reproduce", *how],
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    ).returncode


def main(everything: bool) -> int:
    names = choose(())
    if gone := set(SLOW) - set(names):
        raise SystemExit(
            f"tables: {', '.join(sorted(gone))}: no such table; name the slow ones in .ci/tables.py"
        )
    on_sample, here = (names, names) if everything else (SLOW, [n for n in names if n not in SLOW])
    return reproduce("--sample", *on_sample) or reproduce(*here)


if __name__ == "__main__":
    sys.exit(main("--all" in sys.argv))
