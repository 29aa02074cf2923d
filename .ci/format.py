"""Format the exported cells of all notebooks with ruff: `make check` calls it before it exports.

Cells that test or show something stay: their cases are read as rows.
"""
import json, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUFF = Path(sys.executable).with_name("ruff")

def exported(cell: dict) -> bool: return cell["cell_type"] == "code" and "".join(cell["source"]).startswith("#| export")

def notebooks() -> dict[Path, dict]:
    "The notebooks that export something, by path."
    found = {path: json.loads(path.read_text()) for path in sorted((ROOT/"nbs").rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts}
    return {path: nb for path, nb in found.items() if any(map(exported, nb["cells"]))}

def formatted(found: dict[Path, dict]) -> list[list]:
    "The formatted sources of the exported cells of each notebook: one call of ruff for all."
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder)/f"{i}.ipynb" for i in range(len(found))]
        for copy, nb in zip(copies, found.values(), strict=True): copy.write_text(json.dumps(nb | {"cells": list(filter(exported, nb["cells"]))}))
        subprocess.run([RUFF, "format", "-q", "--config", ROOT/"pyproject.toml", *copies], check=True)
        return [[cell["source"] for cell in json.loads(copy.read_text())["cells"]] for copy in copies]

def main():
    found = notebooks()
    for (path, nb), sources in zip(found.items(), formatted(found), strict=True):
        cells = list(filter(exported, nb["cells"]))
        if [cell["source"] for cell in cells] == sources: continue
        for cell, source in zip(cells, sources, strict=True): cell["source"] = source
        path.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + "\n")

if __name__ == "__main__": main()
