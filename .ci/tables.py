"""Make all tables by `refnb reproduce`, on refnb's sample and on what is here; `make test` runs their notebooks by .ci/notebooks.py.

`--save`, after `make reproduce`, puts the report and a link to its picture, as the last run showed them, into each notebook, so that a reader of
the repository sees results. Other outputs may show texts of others and stay out."""

import json, os, subprocess, sys
from pathlib import Path
from refnb.results.notebooks import notebook_of
from refnb.results.reproduce import choose

ROOT = Path(__file__).parents[1]


def reproduce(*how: str) -> int:
    "Run table notebooks in one thread each, for as many run at a time as there are cores."
    program = Path(sys.executable).with_name("refnb")
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([program, "reproduce", *how], env=env).returncode


def save(name: str) -> bool:
    "Put what the last run showed into a table's notebook; False: it was not run."
    path, ran = notebook_of(name), ROOT / "reports/.batch" / f"{name.replace('/', '-')}.ipynb"
    if not path or not ran.exists():
        return False
    nb, run = json.loads(path.read_text()), json.loads(ran.read_text())
    here, done = ([c for c in x["cells"] if c["cell_type"] == "code"] for x in (nb, run))
    done = [c for c in done if "injected-parameters" not in c["metadata"].get("tags", [])]
    if ["".join(c["source"]) for c in here] != ["".join(c["source"]) for c in done]:
        return False
    for cell, made in zip(here, done, strict=True):
        shown, cell["outputs"] = "".join(cell["source"]).rstrip().rpartition("\n")[2], []
        for o in made["outputs"] if shown in ("report", "figure", "picture") else []:
            data = o.get("data", {})
            if "image/png" in data and (ROOT / f"reports/{name}.png").exists():
                data = {"text/markdown": [f"![the picture](../../../reports/{name}.png)"]}
            elif "text/markdown" not in data:
                continue
            cell["outputs"].append({"data": data, "metadata": {}, "output_type": "display_data"})
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + "\n")
    return True


if __name__ == "__main__":
    names = choose(())
    if "--save" in sys.argv:
        print("without outputs:", [n for n in names if not save(n)])
    else:
        sys.exit(reproduce("--sample", *names) or reproduce(*names))
