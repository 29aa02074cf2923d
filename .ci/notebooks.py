"""Run the notebooks, each in a process of its own, in a copy of the repository: the library's by
nbdev's test, whose outputs must be those that are committed, and the tables', whose numbers must be
those of the committed reports where these were made from the same inputs.

`python .ci/notebooks.py 00_choice table_3_main_results` runs these alone. `--save` keeps new outputs
of the library's; those of a table are kept by `refnb reproduce`. Tables are computed from the
summaries of runs that are committed: `make test-full` makes the runs, too, and runs each table by
`refnb reproduce`."""

import csv
import gc
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path
from check import BIN, ROOT, files, write_readme

IMPORTED = """fastcore.test pandas scipy.stats matplotlib.pyplot seaborn sklearn.linear_model
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


def table_of(path: Path) -> str:
    'Tell the table that a notebook is named by, as paper/table; "": it is the library\'s.'
    return f"{path.parent.name}/{path.stem}" if "tables" in path.parts else ""


def tables_of(path: Path) -> list[str]:
    "Name the tables that a notebook makes, as paper/table."
    from refnb.results.printed import papers

    paper = path.parent.name
    also = [table for table, by in papers()[paper].made_with.items() if by == path.stem]
    return [f"{paper}/{table}" for table in (path.stem, *also)]


def as_run(path: Path) -> Path:
    "Name the notebook of a table with the parameters that are given here; the other one is read by its report."
    return path.with_name(f"run_{path.name}")


def run(path: Path, made: Path) -> None:
    "Run a notebook and end this process: the library's without files of others, a table's into the folder `made`."
    from nbdev.test import test_nb

    gc.freeze()  # it does not look through what was imported for garbage
    if name := table_of(path):
        nb = json.loads(path.read_text())
        given = next(c for c in nb["cells"] if "parameters" in c["metadata"].get("tags", []))
        given["source"].append(f"\nout = {str(made)!r}")
        if name in ON_SAMPLE:
            given["source"].append(f"\ntask = 'sample/{path.parent.name}'")
        path = as_run(path)
        path.write_text(json.dumps(nb))
    else:
        for setting in [n for n in os.environ if n.startswith("REFNB_")]:
            del os.environ[setting]
        os.environ["REFNB_OFFLINE"] = "true"
    how = dict(skip_flags="slow gpu network".split(), cell_timeout=300, save=True)
    good, _ = test_nb(path, basepath=Path.cwd(), **how)
    sys.exit(not good)


def run_all(todo: list[Path], made: Path) -> list[str]:
    "Run notebooks, as many at a time as there are cores, by forks of a process that has imported much; name those that failed."
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(IMPORTED)

    def alone(path: Path, again: bool = True) -> int | None:
        process = forks.Process(target=run, args=(path, made))
        process.start()
        process.join()
        if (code := process.exitcode) in (0, 1) or not again:  # 1: it has said what failed
            return code
        print(f"notebooks: {path.name} died (status {code}), and runs again", file=sys.stderr)
        return alone(path, again=False)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = list(pool.map(alone, todo))
    forkserver._forkserver._stop()  # and waited for: its CPU seconds, and theirs, count as ours
    return [f"{path.name} (status {code})" for path, code in zip(todo, ended) if code]


def shown(path: Path) -> list[dict]:
    "Read the code cells of a notebook, with what they show but pictures, whose bytes differ."
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    for output in (o for c in cells for o in c["outputs"]):
        data = output.get("data", {})
        output["data"] = {k: v for k, v in data.items() if not k.startswith("image/")}
    return cells


def numbers(path: Path) -> dict[tuple[str, str], str]:
    "Read the computed cells of a report, by row and column."
    rows = csv.DictReader(path.read_text().splitlines())
    return {(r["row"], r["column"]): r["ours"] for r in rows if r["ours"]}


def fault_of(old: Path, new: Path, made: Path) -> str:
    'Tell what a notebook shows or computes that is not what is committed; "": nothing.'
    if table_of(old):
        return next(filter(None, (fault_of_table(name, made) for name in tables_of(old))), "")
    cells = zip(shown(old), shown(new), strict=True)
    differs = ["".join(a["source"]).rpartition("\n")[2] for a, b in cells if a != b]
    told = f"other output of {' and '.join(f'`{last}`' for last in differs)}"
    return f"{told}; should it be so: make outputs, and commit" if differs else ""


def fault_of_table(name: str, made: Path) -> str:
    'Tell what of a table, paper/table, is not what its report says; "": nothing.'
    if not (made / f"{name}.csv").exists():
        return f"wrote no report of {name}"
    if name in ON_SAMPLE:
        return ""
    both = made / name, ROOT / "reports" / name
    here, committed = (json.loads(x.with_suffix(".json").read_text()) for x in both)
    files = {k for k, id in here["inputs"].items() if k.count("/") > 1 and id != "absent"}
    if other := [k for k in files if here["inputs"][k] != committed["inputs"].get(k)]:
        return f"{min(other)} is not what its report was made from: make reproduce, and commit"
    if here["inputs"] != committed["inputs"]:
        return ""
    ours, theirs = (numbers(x.with_suffix(".csv")) for x in both)
    known = ours if name in PARTLY else ours | theirs
    differs = [k for k in known if ours.get(k) != theirs.get(k)]
    told = f"{differs[:1]} is not what its report says: make reproduce, and commit"
    return told if differs else ""


def main(save: bool, names: list[str]) -> int:
    with tempfile.TemporaryDirectory() as tmp:
        copy, made = Path(tmp) / "copy", Path(tmp) / "made"
        for path in files():
            to = copy / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        os.chdir(copy)
        os.environ |= {f"REFNB_{k}": str(copy / k.lower()) for k in ("REPORTS", "RUNS", "CACHE")}
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        os.environ |= {"REFNB_OFFLINE": "true", "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0"}
        todo = [p for p in (copy / "nbs").rglob("*.ipynb") if not names or p.stem in names]
        todo.sort(key=lambda p: (p.stem not in LONG, p))
        if failed := run_all(todo, made):
            print(f"notebooks: failed: {' '.join(failed)}")
            return 1
        subprocess.run([BIN / "nbdev-clean"])
        faults = []
        for new in todo:
            old = ROOT / new.relative_to(copy)
            if not save:
                fault = fault_of(old, new, made)
                faults += [f"{old.relative_to(ROOT)}: {fault}"] if fault else []
            elif not table_of(old):
                shutil.copy(new, old)
    if save:
        write_readme()
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    print(f"notebooks: {len(todo)} ran, {len(faults)} are not what is committed")
    return bool(faults)


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main("--save" in words, [Path(w).stem for w in words if w != "--save"]))
