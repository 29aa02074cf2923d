"""Table notebooks, each once: those that need more than some seconds on refnb's sample, the others on what is here. `--all` runs all of them on both, as `make test-full` does.

`--save`, after `make reproduce`, puts what the last runs showed of their reports into the notebooks, so that a reader of the repository sees results: the report and, as a link, its picture. Other outputs may show texts of others and stay out."""

import json, os, subprocess, sys
from pathlib import Path
from refnb.results.notebooks import notebook_of
from refnb.results.reproduce import choose

ROOT = Path(__file__).parents[1]
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


def save(name: str) -> bool:
    "Put the report and its picture, as the last run showed them, into a table's notebook; False: it was not run."
    path, ran = notebook_of(name), ROOT / "reports/.batch" / f"{name.replace('/', '-')}.ipynb"
    if not path or not ran.exists():
        return False
    nb = json.loads(path.read_text())
    here = [c for c in nb["cells"] if c["cell_type"] == "code"]
    done = [c for c in json.loads(ran.read_text())["cells"] if c["cell_type"] == "code"]
    done = [c for c in done if "injected-parameters" not in c["metadata"].get("tags", [])]
    if ["".join(c["source"]) for c in here] != ["".join(c["source"]) for c in done]:
        return False
    for cell, run in zip(here, done, strict=True):
        shown = "".join(cell["source"]).rstrip().rpartition("\n")[2]
        cell["outputs"] = []
        for o in run["outputs"] if shown in ("report", "figure", "picture") else []:
            data = o.get("data", {})
            if "image/png" in data and (ROOT / f"reports/{name}.png").exists():
                data = {"text/markdown": [f"![the picture](../../../reports/{name}.png)"]}
            elif "text/markdown" not in data:
                continue
            cell["outputs"].append({"data": data, "metadata": {}, "output_type": "display_data"})
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + "\n")
    return True


def main(everything: bool) -> int:
    names = choose(())
    if gone := set(SLOW) - set(names):
        raise SystemExit(
            f"tables: {', '.join(sorted(gone))}: no such table; name the slow ones in .ci/tables.py"
        )
    on_sample, here = (names, names) if everything else (SLOW, [n for n in names if n not in SLOW])
    return reproduce("--sample", *on_sample) or reproduce(*here)


if __name__ == "__main__":
    if "--save" in sys.argv:
        print("without outputs:", [n for n in choose(()) if not save(n)])
        sys.exit(0)
    sys.exit(main("--all" in sys.argv))
