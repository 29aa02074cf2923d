"""Write requirements.lock by uv: what refnb and its local models need on Linux x86_64, with the hashes of wheels. Run by `make constraints`, with the path of uv.

Versions are those of constraints.txt. PyPI's torch needs 3 GB of CUDA packages, so torch is the CPU build of PyTorch's own index."""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHEEL = re.compile(r"(none-any|(cp31[123]|abi3|none)-\S*manylinux\S*x86_64\S*)\.whl$")
# of torch-VERSION+cpu-cpNNN-cpNNN-manylinux_2_28_x86_64.whl for Python 3.11 to 3.13, as PyTorch's index of CPU builds lists them: another version needs others
TORCH = """torch==2.13.0+cpu \\
    --hash=sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b \\
    --hash=sha256:4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2 \\
    --hash=sha256:3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6"""


def locked(uv: str) -> str:
    "The file, from uv's resolution for all Pythons at once; hatchling and editables build refnb itself."
    with tempfile.TemporaryDirectory() as tmp:
        build, torch, found = (Path(tmp) / x for x in ("build.in", "torch.txt", "pylock.toml"))
        build.write_text("hatchling\neditables\n")
        torch.write_text(re.sub(r"\+cpu.*", "", TORCH, flags=re.S))
        how = ["--universal", "--python-version", "3.11", "--extra", "models", "-o", found]
        pins = ["-c", ROOT / "constraints.txt", "-c", torch]
        files = [ROOT / "pyproject.toml", build]
        subprocess.run([uv, "pip", "compile", "-q", *files, *how, *pins], check=True)
        packages = tomllib.loads(found.read_text())["packages"]
    lines = [
        "# made by .ci/lock.py; for Python 3.11 to 3.13 on Linux x86_64: pip install --require-hashes -r requirements.lock",
        "# torch is PyTorch's CPU build: pip must know PyTorch's own index as an extra one (--extra-index-url, or PIP_EXTRA_INDEX_URL)",
        TORCH,
    ]
    for p in packages:
        if re.match("nvidia|cuda|triton|torch$", p["name"]):
            continue
        named = {w.get("name") or w["url"].rpartition("/")[2]: w for w in p.get("wheels", [])}
        hashes = [w["hashes"]["sha256"] for name, w in named.items() if WHEEL.search(name)]
        marker = f" ; {p['marker']}" if "marker" in p else ""
        pinned = f"{p['name']}=={p['version']}{marker}"
        lines.append(" \\\n    ".join([pinned, *(f"--hash=sha256:{h}" for h in hashes)]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "requirements.lock").write_text(locked(sys.argv[1]))
