"""Write requirements.lock: what refnb and its local models need on Linux x86_64, each package with the hashes of its wheels. Run by `make constraints`, with the path of uv.

pip's own resolver knows only the Python that runs it; uv resolves for each Python that refnb supports. Versions are those of constraints.txt, hashes those that PyPI tells. PyPI's torch needs 3 GB of CUDA packages, so torch
is the CPU build of PyTorch's own index."""

import re, subprocess, sys, tempfile, tomllib
from pathlib import Path
from urllib.parse import unquote
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
# of torch-VERSION+cpu-cpNNN-cpNNN-manylinux_2_28_x86_64.whl, one for each Python, as PyTorch's index of CPU builds lists them: another version needs others
TORCH = {
    "2.13.0": (
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
        "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
        "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",
    )
}


def resolved(uv: str, python: str, folder: Path) -> list[dict]:
    "The packages for a Python, with all their wheels; hatchling and editables build refnb itself."
    (folder / "build.in").write_text("hatchling\neditables\n")
    (folder / "torch.txt").write_text(f"torch=={max(TORCH)}\n")
    subprocess.run(
        [
            uv,
            "pip",
            "compile",
            "-q",
            ROOT / "pyproject.toml",
            folder / "build.in",
            "--extra",
            "models",
            "-c",
            ROOT / "constraints.txt",
            "-c",
            folder / "torch.txt",
            "--python-version",
            python,
            "--python-platform",
            "x86_64-manylinux_2_31",
            "--only-binary",
            ":all:",
            "-o",
            folder / "pylock.toml",
        ],
        check=True,
    )
    found = tomllib.loads((folder / "pylock.toml").read_text())["packages"]
    return [p for p in found if not re.match("nvidia|cuda|triton|torch$", p["name"])]


def best(wheels: list[dict], python: str) -> str:
    "The hash of the wheel that pip takes on Linux x86_64 with glibc 2.31 or later."
    version = tuple(map(int, python.split(".")))
    platforms = [f"manylinux_2_{n}_x86_64" for n in range(31, 4, -1)] + [
        "manylinux2014_x86_64",
        "manylinux2010_x86_64",
        "manylinux1_x86_64",
    ]
    tags = [
        *cpython_tags(version, platforms=platforms),
        *compatible_tags(version, f"cp{python.replace('.', '')}", platforms),
    ]
    rank = {t: i for i, t in reversed([*enumerate(tags)])}

    def place(w: dict) -> int:
        return min(
            rank.get(t, len(tags))
            for t in parse_wheel_filename(unquote(w["url"].rpartition("/")[2]))[3]
        )

    wheel = min(wheels, key=place)
    if place(wheel) == len(tags):
        raise SystemExit(f"lock: no wheel for Python {python}: {wheel['url'].rpartition('/')[2]}")
    return wheel["hashes"]["sha256"]


def locked(uv: str) -> str:
    "The file."
    versions: dict[tuple[str, str], dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for python in PYTHONS:
            for p in resolved(uv, python, Path(folder)):
                versions.setdefault((p["name"], p["version"]), {})[python] = best(
                    p["wheels"], python
                )
    versions["torch", f"{max(TORCH)}+cpu"] = dict(zip(PYTHONS, TORCH[max(TORCH)], strict=True))
    lines = [
        "# made by .ci/lock.py; for Python 3.11 to 3.13 on Linux x86_64: pip install --require-hashes -r requirements.lock",
        "# torch is PyTorch's CPU build: pip must know PyTorch's own index as an extra one (--extra-index-url, or PIP_EXTRA_INDEX_URL)",
    ]
    for (name, version), hashes in sorted(versions.items()):
        where = (
            ""
            if len(hashes) == len(PYTHONS)
            else " ; " + " or ".join(f'python_version == "{p}"' for p in hashes)
        )
        lines.append(
            " \\\n    ".join(
                [
                    f"{name}=={version}{where}",
                    *(f"--hash=sha256:{h}" for h in dict.fromkeys(hashes.values())),
                ]
            )
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "requirements.lock").write_text(locked(sys.argv[1]))
