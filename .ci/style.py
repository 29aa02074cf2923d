"""How plain the code and the notebooks are, beside other packages: `python .ci/style.py [NAME=PACKAGE[,NOTEBOOKS] …]`.

Without arguments, refnb beside its goals and fastcore, which is installed. A row that has no notebooks to count has a dash.
"""
import ast, io, json, re, statistics, sys, tokenize
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOALS = {"median function, lines": "8", "median function, syntax nodes": "60", "syntax nodes per code line": "10",
         "code lines over 120 columns, %": "1", "; in 1,000 code lines": "1", "comprehensions in 1,000 code lines": "70",
         "nested comprehensions, %": "3", "definitions in an exported cell": "1.2", "cells with several definitions, %": "15",
         "outputs for an exported cell": "0.6", "links in 10,000 words": "40", "“you” in 10,000 words": "60"}
FUNCTION, DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef), (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


# Code

def size(node: ast.AST) -> int: return sum(1 for _ in ast.walk(node))

def docstring_lines(tree: ast.Module) -> set[int]:
    "The lines of all docstrings."
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (*DEFINITION, ast.Module)) and ast.get_docstring(node, clean=False) is not None:
            lines.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines

def code_lines(tokens: list[tokenize.TokenInfo], tree: ast.Module) -> set[int]:
    "The lines that hold code: neither comments nor docstrings."
    lines: set[int] = set()
    for token in tokens:
        if token.type not in NO_CODE: lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(tree)

def nested(tree: ast.AST, inside: bool = False) -> int:
    "Count the comprehensions inside others."
    here = isinstance(tree, COMPREHENSION)
    return (here and inside) + sum(nested(child, inside or here) for child in ast.iter_child_nodes(tree))

def of_code(folder: Path) -> dict[str, float]:
    "Measure the modules of a package."
    count: Counter[str] = Counter()
    lengths, sizes = [], []
    for path in folder.rglob("*.py"):
        if path.name == "_modidx.py" or "tests" in path.parts: continue
        source = path.read_text()
        tree = ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
        lines, text = code_lines(tokens, tree), source.splitlines()
        functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTION)]
        lengths += [f.end_lineno - f.lineno + 1 for f in functions]
        sizes += map(size, functions)
        found = sum(isinstance(node, COMPREHENSION) for node in ast.walk(tree))
        semicolons = sum(token.string == ";" for token in tokens)
        wide = sum(len(text[n - 1]) > 120 for n in lines)
        count.update(code=len(lines), nodes=size(tree), wide=wide, semicolons=semicolons, found=found, nested=nested(tree))
    code = count["code"]
    return {"median function, lines": statistics.median(lengths), "median function, syntax nodes": statistics.median(sizes),
            "syntax nodes per code line": count["nodes"]/code, "code lines over 120 columns, %": 100*count["wide"]/code,
            "; in 1,000 code lines": 1000*count["semicolons"]/code,
            "comprehensions in 1,000 code lines": 1000*count["found"]/code,
            "nested comprehensions, %": 100*count["nested"]/max(count["found"], 1), "code lines": code}


# Notebooks

def cells(folder: Path) -> Iterator[tuple[str, str, int]]:
    "The kind, the source and the number of outputs of all cells; tables and the pages of the site are no lab pages."
    for path in folder.rglob("*.ipynb"):
        if {"tables", "explore", "_docs"} & set(path.parts) or path.name == "index.ipynb": continue
        for cell in json.loads(path.read_text())["cells"]:
            yield cell["cell_type"], "".join(cell["source"]), len(cell.get("outputs", []))

def of_notebooks(folder: Path) -> dict[str, float]:
    "Measure the notebooks that a package is exported from."
    definitions, outputs, prose = [], 0, ""
    for kind, source, shown in cells(folder):
        outputs += shown
        if kind == "markdown": prose += source + "\n"
        elif re.search(r"^#\s*\|\s*exports?i?\b|^#\s*export", source, re.M):
            plain = "\n".join(line for line in source.splitlines() if not line.startswith(("%", "!")))
            definitions.append(sum(isinstance(node, DEFINITION) for node in ast.parse(plain).body))
    cell, words = max(len(definitions), 1), max(len(prose.split()), 1)
    return {"definitions in an exported cell": sum(definitions)/cell,
            "cells with several definitions, %": 100*sum(n > 1 for n in definitions)/cell,
            "outputs for an exported cell": outputs/cell,
            "links in 10,000 words": 10_000*prose.count("](")/words,
            "“you” in 10,000 words": 10_000*len(re.findall(r"\byou\b|\byour\b", prose, re.I))/words}


def measured(argument: str) -> tuple[str, dict[str, float]]:
    "The name and the measurements of NAME=PACKAGE[,NOTEBOOKS]."
    name, _, folders = argument.partition("=")
    package, _, notebooks = folders.partition(",")
    return name, of_code(Path(package)) | (of_notebooks(Path(notebooks)) if notebooks else {})

def main():
    fastcore = Path(find_spec("fastcore").origin).parent
    columns = dict(map(measured, [f"refnb={ROOT/'refnb'},{ROOT/'nbs'}", *(sys.argv[1:] or [f"fastcore={fastcore}"])]))
    print(f"{'':38}{'goal':>8}" + "".join(f"{name[:12]:>13}" for name in columns))
    for row in [*GOALS, "code lines"]:
        values = [c.get(row) for c in columns.values()]
        shown = "".join(f"{'–' if v is None else format(v, ',.0f' if v >= 100 else '.3g'):>13}" for v in values)
        print(f"{row:38}{GOALS.get(row, ''):>8}{shown}")

if __name__ == "__main__": main()
