"""Run the notebooks by nbdev's test, each in a process of its own, in a copy of the repository; their outputs must be those that are committed.

`--save` keeps new outputs and writes the README, `python .ci/notebooks.py 00_choice 05_plots` runs these alone. What most notebooks import
is imported once. Table notebooks are run by `refnb reproduce`, in the same `make test`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = {".venv", ".venv-neighbours", ".git", ".batch", "__pycache__", "_site"}
MADE_HERE = {ROOT / "runs", ROOT / "reports/sample", ROOT / "docs/pages", ROOT / "docs/extra"}
RUN = """
import contextlib, importlib, os, re, sys
from pathlib import Path
for name in "fastcore.test pandas scipy.stats matplotlib.pyplot statsmodels.api torch transformers".split():
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
from nbdev.test import test_nb
found = sorted(Path("nbs").absolute().rglob("*.ipynb"))
todo = [p for p in found if "tables" not in p.parts and re.search(sys.argv[1], p.name)]
running, bad = {}, []
while todo or running:
    while todo and len(running) < 2:
        path = todo.pop()
        if not (pid := os.fork()):  # no notebook sees what another one did
            good = False
            try:
                how = dict(skip_flags="slow gpu network".split(), cell_timeout=300, save=True)
                good, _ = test_nb(path, basepath=Path.cwd(), **how)
            finally:
                sys.stdout.flush()
                os._exit(0 if good else 1)
        running[pid] = path.name
    pid, status = os.wait()
    name = running.pop(pid)
    bad += [name] if status else []
sys.exit(f"notebooks: failed: {' '.join(bad)}" if bad else 0)
"""


def outputs(path: Path) -> list[tuple[str, list]]:
    "The last line of each code cell, and what is compared of its outputs: all but pictures, whose bytes differ."
    found = []
    for c in json.loads(path.read_text())["cells"]:
        if c["cell_type"] == "code":
            shown = [{k: v for k, v in o.items() if k != "metadata"} for o in c["outputs"]]
            for o in shown:
                o.pop("execution_count", None)
                o["data"] = {k: v for k, v in o.get("data", {}).items() if "image/" not in k}
            found.append(("".join(c["source"]).rpartition("\n")[2], shown))
    return found


def left_out(folder: str, names: list[str]) -> list[str]:
    return [n for n in names if n in LEFT_OUT or Path(folder) / n in MADE_HERE]


def main(save: bool, names: list[str]) -> int:
    with tempfile.TemporaryDirectory() as tmp:
        copy = Path(tmp) / "copy"
        shutil.copytree(ROOT, copy, ignore=left_out)
        env = {k: v for k, v in os.environ.items() if not k.startswith("REFNB_")}
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        env |= {"REFNB_OFFLINE": "true", "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0"}
        only = rf"^({'|'.join(Path(n).stem for n in names)})\.ipynb$" if names else ""
        if subprocess.run([sys.executable, "-c", RUN, only], cwd=copy, env=env).returncode:
            return 1
        subprocess.run([Path(sys.executable).with_name("nbdev-clean")], cwd=copy, env=env)
        bad, made = [], sorted((copy / "nbs").rglob("*.ipynb"))
        for new in made:
            old = ROOT / new.relative_to(copy)
            if save:
                shutil.copy(new, old)
            pairs = zip(outputs(old), outputs(new), strict=True)
            bad += [
                f"{old.relative_to(ROOT)}: other output of `{a[0]}`" for a, b in pairs if a != b
            ]
    if save:
        return subprocess.run([sys.executable, ROOT / ".ci/readme.py"]).returncode
    for f in bad:
        print(f"notebooks: {f}; should it be so: make outputs, and commit", file=sys.stderr)
    print(f"notebooks: {len(bad)} outputs differ")
    return bool(bad)


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main("--save" in words, [w for w in words if w != "--save"]))
