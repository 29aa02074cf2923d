"""Run the notebooks, each in a process of its own, in a copy of the repository: the library's by nbdev's test, whose outputs must be those that
are committed, and the tables', whose numbers must be those of the committed reports where these were made from the same inputs.

`--save` keeps new outputs and writes the README; `python .ci/notebooks.py 00_choice table_3_main_results` runs these alone. What most notebooks
import is imported once. Tables are computed from the summaries of runs that are committed: `make test-full` makes the runs, too, and runs each
table by `refnb reproduce`."""

import contextlib
import csv
import gc
import importlib
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
IMPORTED = """fastcore.test pandas scipy.stats matplotlib.pyplot seaborn statsmodels.api sklearn.linear_model
IPython.core.interactiveshell openai torch transformers.models.auto.modeling_auto sentence_transformers
refnb.results.reproduce refnb.results.plots refnb.models.running""".split()
# begun first, lest one core wait for them at the end
LONG = "table_1_composition 06_learning table_1_fictional_combinations what_makes_a_mention_hard".split()
# these would take a minute on what is here: refnb's sample
ON_SAMPLE = [
    "bookcoref/own_pipeline",
    "bookcoref/table_2_pipeline",
    "kitmus/own_weightless_systems",
]

# cells that need what is not here: spaCy, and the answers of a run besides its summary
PARTLY = ["altentities/table_5_corpus_statistics", "identifyme/table_5_entity_and_none"]


def run_notebook(path: Path) -> bool:
    "Run a notebook by nbdev's test, on no files of others; keep its outputs in it."
    from nbdev.test import test_nb

    for name in [n for n in os.environ if n.startswith("REFNB_")]:
        del os.environ[name]
    os.environ["REFNB_OFFLINE"] = "true"
    how = dict(skip_flags="slow gpu network".split(), cell_timeout=300, save=True)
    return test_nb(path, basepath=Path.cwd(), **how)[0]


def run_table(path: Path) -> bool:
    "Run a table's notebook; compare its report with the committed one."
    from fastcore.nbio import read_nb
    from execnb.shell import CaptureShell
    from refnb.results.execution import fault_of
    from refnb.results.reproduce import job_of

    name = f"{path.parent.name}/{path.stem}"
    job, nb, shell = job_of(name, {}, name in ON_SAMPLE), read_nb(path), CaptureShell(path)
    cells = [c for c in nb.cells if c.cell_type == "code"]
    given = next(c for c in cells if "parameters" in c.metadata.get("tags", []))
    with tempfile.TemporaryDirectory() as out:
        parameters = job.parameters | {"out": out}
        given.source += "".join(f"\n{k} = {v!r}" for k, v in parameters.items())
        try:
            shell.run_all(nb, exc_stop=True, cell_timeout=300)
        except Exception:
            print(shell.prettytb(fname=path), file=sys.stderr)
            return False
        made = {f.relative_to(out).as_posix(): f.read_bytes() for f in Path(out).glob("*/*")}
    fault = fault_of(made, name, parameters)
    if not fault and name not in ON_SAMPLE:
        new, old = (json.loads(x) for x in (made[f"{name}.json"], report(name, "json")))
        ours, theirs = (numbers(x) for x in (made[f"{name}.csv"], report(name, "csv")))
        known = ours if name in PARTLY else ours | theirs
        differs = [k for k in known if ours.get(k) != theirs.get(k)]
        if new["inputs"] == old["inputs"] and differs:
            fault = f"{differs[0]} is not what its report says: make reproduce, and commit"
    if fault:
        print(f"{name}: {fault}", file=sys.stderr)
    return not fault


def report(name: str, end: str) -> bytes:
    return Path(f"reports/{name}.{end}").read_bytes()


def numbers(text: bytes) -> dict[tuple[str, str], str]:
    "The computed cells of a report, by row and column."
    rows = csv.DictReader(text.decode().splitlines())
    return {(r["row"], r["column"]): r["ours"] for r in rows if r["ours"]}


def run_all(names: list[str]) -> int:
    "Run notebooks of this folder, as many at a time as there are cores."
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    found = sorted(p for p in Path("nbs").absolute().rglob("*.ipynb") if p.name[0] != ".")
    todo = [p for p in found if not names or p.stem in names]
    todo.sort(key=lambda p: (p.stem in LONG, p.as_posix()))
    running, bad = {}, []
    gc.freeze()  # no notebook looks through what was imported for garbage
    while todo or running:
        while todo and len(running) < (os.cpu_count() or 1):
            path = todo.pop()
            if not (pid := os.fork()):  # no notebook sees what another one did
                good = False
                try:
                    good = (run_table if "tables" in path.parts else run_notebook)(path)
                finally:
                    sys.stdout.flush()
                    os._exit(0 if good else 1)
            running[pid] = path.name
        pid, status = os.wait()
        name = running.pop(pid)
        bad += [name] if status else []
    if bad:
        print(f"notebooks: failed: {' '.join(bad)}")
    return bool(bad)


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
        ours = {k: str(copy / k) for k in ("reports", "runs", "cache")}
        env = os.environ | {f"REFNB_{k.upper()}": v for k, v in ours.items()}
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        env |= {"REFNB_OFFLINE": "true", "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0"}
        here = [sys.executable, copy / ".ci/notebooks.py", "--here"]
        if subprocess.run([*here, *(Path(n).stem for n in names)], cwd=copy, env=env).returncode:
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
    if "--here" in words:
        sys.exit(run_all(words[1:]))
    sys.exit(main("--save" in words, [w for w in words if w != "--save"]))
