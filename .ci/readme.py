"""README.md from nbs/index.ipynb: its prose, its visible code and its outputs, with links seen from the root."""

import json, re, sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def shown(cell) -> list[str]:
    "A code cell: its source unless it is hidden, then its output."
    text, out = "".join(cell["source"]), []
    if not text.startswith("#| echo: false"):
        out.append(f"```python\n{text}\n```")
    for o in cell["outputs"]:
        data = o.get("data", {})
        if "text/markdown" in data:
            out.append("".join(data["text/markdown"]))
        elif o.get("output_type") == "stream" or "text/plain" in data:
            out.append(
                "```\n" + "".join(o.get("text", data.get("text/plain", ""))).rstrip() + "\n```"
            )
    return out


def readme() -> str:
    cells = json.loads((ROOT / "nbs/index.ipynb").read_text())["cells"]
    parts = [
        x
        for c in cells
        for x in (
            ["".join(c["source"])]
            if c["cell_type"] == "markdown"
            else shown(c)
            if c["cell_type"] == "code"
            else []
        )
    ]
    text = re.sub(
        r"\]\((?!https?:|#|\.\./)", "](nbs/", "\n\n".join(p.strip() for p in parts if p.strip())
    )
    return (
        "<!-- written from nbs/index.ipynb: edit there -->\n\n" + text.replace("](../", "](") + "\n"
    )


if __name__ == "__main__":
    path = ROOT / "README.md"
    if not path.exists() or path.read_text() != readme():
        path.write_text(readme())
    sys.exit(0)
