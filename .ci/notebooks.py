"""Every notebook in a clean namespace; its outputs must be those that are committed (pictures may differ in bytes). `--save` keeps the new ones.

A process imports what most notebooks need and forks for each of them: imports are paid once, and no notebook sees what another one did.
What only models need is imported once the other notebooks have begun.
`python .ci/notebooks.py 13_uncertainty 51_plots` runs these only; with TIMES=1 it says how many CPU seconds each took. Table notebooks are run by `refnb reproduce`, in the same `make test`.
"""

import contextlib, importlib, json, os, re, shutil, subprocess, sys, tempfile, traceback
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = (
    ".venv",
    ".venv-neighbours",
    ".git",
    ".batch",
    "__pycache__",
    ".ipynb_checkpoints",
    "_site",
)
MADE_HERE = (ROOT / "runs", ROOT / "reports/sample")  # what a clean checkout has not
SKIPPED, CELL = (
    ("slow", "gpu", "network"),
    300,
)  # cells with these flags; seconds for a cell: as in pyproject.toml
WARM = (
    "nbdev.test",
    "nbdev.showdoc",
    "fastcore.test",
    "numpy",
    "pandas",
    "scipy.stats",
    "scipy.optimize",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "msgspec",
    "yaml",
    "rapidfuzz",
    "psutil",
    "rich.table",
    "typer",
)
MODELS = (
    "torch",
    "transformers",
    "transformers.generation",
    "transformers.models.llama.modeling_llama",
    "transformers.models.bert.modeling_bert",
    "transformers.models.t5.modeling_t5",
)  # loaded once too, before the notebooks that load models, which come last
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)  # a fork has no threads but its own


def names(folder: Path) -> list[Path]:
    "The notebooks to be run; those of the package's end come first, for they take longest."
    found = [p.relative_to(folder) for p in (folder / "nbs").rglob("*.ipynb")]
    only = {Path(a).stem for a in sys.argv[1:] if not a.startswith("--")}
    if strange := only - {p.stem for p in found}:
        sys.exit(f"notebooks: there is no notebook {min(strange)}")
    return sorted(
        (
            p
            for p in found
            if "tables" not in p.parts
            and not set(p.parts) & set(LEFT_OUT)
            and (not only or p.stem in only)
        ),
        key=lambda p: p.name,
        reverse=True,
    )


# In the copy


def run_one(path: Path) -> bool:
    "Run one notebook and keep its outputs; whether that went well. What failed is told on stderr, with its cell."
    from nbdev.clean import nbdev_clean
    from nbdev.test import test_nb

    good, _ = test_nb(path, skip_flags=SKIPPED, basepath=Path.cwd(), save=True, cell_timeout=CELL)
    if good:
        nbdev_clean.__wrapped__(str(path))
    return good


def forked(path: Path) -> int:
    "Run one notebook in a process of its own; its id."
    if pid := os.fork():
        return pid
    good = False
    try:
        good = run_one(path)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(0 if good else 1)


def loads_models(path: Path) -> bool:
    "Whether a notebook imports transformers, which takes seconds."
    return bool(
        re.search(r"\bimport [\w, ]*(torch|transformers)\b", (Path.cwd() / path).read_text())
    )


def warm_models():
    "Import what models need; without the extra, the notebooks say themselves what is lacking."
    for name in MODELS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def run_all() -> int:
    "Run all notebooks of this folder, as many at a time as there are cores; how many failed."
    for name in WARM:
        importlib.import_module(name)
    todo, running, seconds, failed = sorted(names(Path.cwd()), key=loads_models), {}, {}, []
    while todo or running:
        while todo and len(running) < (os.cpu_count() or 1):
            path = todo.pop(0)
            if loads_models(path):
                warm_models()
            running[forked(Path.cwd() / path)] = path
        pid, status, used = os.wait4(-1, 0)
        path = running.pop(pid)
        seconds[path] = used.ru_utime + used.ru_stime
        if status:
            failed.append(
                f"notebooks: {path} failed"
                + (f": ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "")
            )
    if os.environ.get("TIMES"):
        for path in sorted(seconds, key=seconds.get, reverse=True):
            print(f"{seconds[path]:6.1f} s {path}")
    for line in failed:
        print(line, file=sys.stderr)
    return len(failed)


# Copy and comparison


def outputs(nb: dict) -> list:
    "What is compared: text, without pictures."
    drop = lambda o: {
        k: ({m: v for m, v in d.items() if not m.startswith("image/")} if k == "data" else d)
        for k, d in o.items()
        if k not in ("execution_count", "metadata")
    }
    return [[drop(o) for o in c["outputs"]] for c in nb["cells"] if c["cell_type"] == "code"]


def differing(old: Path, new: Path) -> list[str]:
    "Cells whose outputs are not those that are committed."
    a, b = (json.loads(p.read_text()) for p in (old, new))
    code = ["".join(c["source"]).splitlines() for c in a["cells"] if c["cell_type"] == "code"]
    return [
        f"{old.relative_to(ROOT)}: other output of the cell `{(src or [''])[-1][:70]}`"
        for src, x, y in zip(code, outputs(a), outputs(b), strict=True)
        if x != y
    ]


def main(save: bool) -> int:
    with tempfile.TemporaryDirectory() as tmp:
        copy = Path(tmp) / "copy"
        shutil.copytree(
            ROOT,
            copy,
            ignore=lambda folder, names: [
                n for n in names if n in LEFT_OUT or Path(folder) / n in MADE_HERE
            ],
        )
        env = {k: v for k, v in os.environ.items() if not k.startswith("REFNB_")} | ONE_THREAD
        env |= {"REFNB_OFFLINE": "true", "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0"}
        if run := subprocess.run(
            [sys.executable, copy / ".ci/notebooks.py", "--here", *sys.argv[1:]], cwd=copy, env=env
        ).returncode:
            return run
        if save:
            for n in names(copy):
                shutil.copy(copy / n, ROOT / n)
            return subprocess.run([sys.executable, ROOT / ".ci/readme.py"]).returncode
        bad = [f for n in names(copy) for f in differing(ROOT / n, copy / n)]
    for f in bad:
        print(f"notebooks: {f}; if it should be so, run `make outputs` and commit", file=sys.stderr)
    print(f"notebooks: {len(names(ROOT))} ran, {len(bad)} outputs differ")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(bool(run_all()) if "--here" in sys.argv else main("--save" in sys.argv))
