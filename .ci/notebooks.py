"""Every notebook from a clean kernel; its outputs must be those that are committed (pictures may differ in bytes). `--save` keeps the new ones.

Table notebooks are run by `refnb reproduce`, in the same `make test`.
"""
import json, os, re, shutil, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

def outputs(nb: dict) -> list:
    "What is compared: text, without pictures."
    drop = lambda o: {k: ({m: v for m, v in d.items() if not m.startswith("image/")} if k == "data" else d) for k, d in o.items() if k not in ("execution_count", "metadata")}
    return [[drop(o) for o in c["outputs"]] for c in nb["cells"] if c["cell_type"] == "code"]

def differing(old: Path, new: Path) -> list[str]:
    "Cells whose outputs are not those that are committed."
    a, b = (json.loads(p.read_text()) for p in (old, new))
    code = ["".join(c["source"]).splitlines() for c in a["cells"] if c["cell_type"] == "code"]
    return [f"{old.relative_to(ROOT)}: other output of the cell `{(src or [''])[-1][:70]}`" for src, x, y in zip(code, outputs(a), outputs(b), strict=True) if x != y]

def main(save: bool) -> int:
    with tempfile.TemporaryDirectory() as tmp:
        copy = Path(tmp)/"copy"
        shutil.copytree(ROOT, copy, ignore=lambda folder, names: [n for n in names if n in (".venv", ".venv-neighbours", ".git", ".batch", "__pycache__", "_site") or (n == "runs" and Path(folder) == ROOT)])
        env = {k: v for k, v in os.environ.items() if not k.startswith("REFNB_")} | {"REFNB_OFFLINE": "true", "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0"}
        run = subprocess.run([BIN/"nbdev-test", "--n-workers", str(min(4, os.cpu_count() or 1)), "--save", "--skip-folder-re", r"^[_.]|^tables$", "nbs"], cwd=copy, env=env)
        if run.returncode: return run.returncode
        subprocess.run([BIN/"nbdev-clean"], cwd=copy, env={k: v for k, v in env.items() if k != "IN_TEST"}, check=True)
        names = [p.relative_to(copy) for p in sorted((copy/"nbs").rglob("*.ipynb")) if "tables" not in p.parts and not re.search(r"checkpoints", str(p))]
        if save:
            for n in names: shutil.copy(copy/n, ROOT/n)
            return subprocess.run([sys.executable, ROOT/".ci/readme.py"]).returncode
        bad = [f for n in names for f in differing(ROOT/n, copy/n)]
    for f in bad: print(f"notebooks: {f}; if it should be so, run `make outputs` and commit", file=sys.stderr)
    print(f"notebooks: {len(names)} ran, {len(bad)} outputs differ")
    return bool(bad)

if __name__ == "__main__": sys.exit(main("--save" in sys.argv))
