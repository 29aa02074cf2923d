"""README.md from nbs/index.ipynb: its text and what its hidden cells show, with links seen from the root."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def readme() -> str:
    parts = []
    for c in json.loads((ROOT / "nbs/index.ipynb").read_text())["cells"]:
        shown = [o["data"]["text/markdown"] for o in c.get("outputs", [])]
        parts += ["".join(x).removeprefix("#| export").strip("\n") for x in shown or [c["source"]]]
    text = re.sub(r"\]\((?!https?:|#|\.\./)", "](nbs/", "\n\n".join(parts)).replace("](../", "](")
    return f"<!-- written from nbs/index.ipynb: edit there -->\n\n{text}\n"


if __name__ == "__main__":
    path = ROOT / "README.md"
    if not path.exists() or path.read_text() != readme():
        path.write_text(readme())
