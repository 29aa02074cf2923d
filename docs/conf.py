"""The site: notebooks with their committed outputs, reports, the Python interface, the command line.

`make site` runs `sphinx-build -c docs . _site`. Pages load nothing from another host; a link that leads nowhere fails the build."""

import ast, json, re, shutil, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
import refnb  # noqa: E402
from docutils.nodes import SkipNode  # noqa: E402
from docutils.utils.math.latex2mathml import tex2mathml  # noqa: E402
from refnb.core.extensions import parameter_comments  # noqa: E402

project, author, release = "refnb", "the refnb authors", refnb.__version__
html_title = "refnb"
root_doc = "nbs/index"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
include_patterns = [
    "nbs/**",
    "reports/**",
    "docs/**",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
]
exclude_patterns = [".*", "**/.*", "nbs/data", "reports/runs", "reports/sample", "reports/own"]
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "gfm"
nb_code_prompt_show = "Imports"
nb_code_prompt_hide = "Imports"
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type", "misc.highlighting_failure"]
suppress_warnings += ["ref.python"]  # several classes have a field named type
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_nav_level": 1,
    "navigation_depth": 3,
    "navbar_align": "left",
    "collapse_navigation": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "reports/README": []},
    "footer_start": [],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}
html_sidebars = {"reports/README": []}  # the board is as wide as the page
html_static_path, html_css_files = ["static"], ["refnb.css"]
html_show_sourcelink = False
html_extra_path = ["extra", "../nbs/llms.txt"]
html_math_renderer = "mathml"


# Pages that are made from notebooks, reports and cards

PAGES, EXTRA = ROOT / "docs/pages", ROOT / "docs/extra"
ROOMS = {
    "explore": "Explore: questions that a researcher would ask, answered on the released data.",
    "core": "Documents, files and their formats, upstream data, settings, and runs that survive a kill.",
    "metrics": "Scores of choices and of clusters, with intervals and paired tests.",
    "benchmarks": "The four benchmarks, built from their sources as their papers say.",
    "models": "Whoever answers: language models, coreference systems, pair models, rules, programs.",
    "results": "Tables with printed numbers beside computed ones, the board, and pages to look at.",
    "commands": "The command line.",
    "tables": "Notebooks that regenerate the tables of the four papers.",
}
ABOVE = {  # what the bar at the top of a page shows
    "Results": ["/reports/README", "/docs/pages/figures", "/docs/examples"],
    "Notebooks": [f"/docs/pages/{room}" for room in ROOMS],
    "Reference": """/docs/recipes /docs/extending /docs/cluster /docs/pages/command_line /docs/pages/data
        /docs/new /docs/quality /CONTRIBUTING /CODE_OF_CONDUCT /SECURITY /docs/pages/api""".split(),
}


def contents(pages: list[str], caption: str = "") -> str:
    "Return a table of contents that the navigation shows, and the page does not."
    told = f":caption: {caption}\n" if caption else ""
    lines = "\n".join(pages)
    return f"\n\n```{{toctree}}\n:hidden:\n:titlesonly:\n{told}\n{lines}\n```\n"


def in_order(path: Path) -> list:
    "Sort as a reader counts: 2 before 10, a paper's tables before our own."
    numbered = [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", path.stem)]
    return [path.parent, path.stem.startswith("own_"), *numbered]


def write_room(room: str) -> None:
    "Write a page that lists the notebooks of a room, each with the line that says what it gives."
    text = f"# {room.capitalize()}\n\n> {ROOMS[room]}\n\n| notebook | what it gives |\n|---|---|\n"
    found = sorted((ROOT / "nbs" / room).rglob("[!.]*.ipynb"), key=in_order)
    names = [p.relative_to(ROOT).with_suffix("").as_posix() for p in found]
    for path, name in zip(found, names):
        first = "".join(json.loads(path.read_text())["cells"][0]["source"])
        title, lede = re.match(r"# (.+)\n\n> (.+)", first).groups()
        text += f"| [{title}](/{name}.ipynb) | {lede} |\n"
    (PAGES / f"{room}.md").write_text(text + contents([f"/{name}" for name in names]))


def write_figures() -> None:
    "Write a page with the picture of every report."
    text = "# Figures\n\n> The pictures of all reports: dots are our numbers, lines 95 % intervals, red ticks "
    text += "what a paper prints. Each belongs to the table that its link names.\n"
    for picture in sorted((ROOT / "reports").glob("*/*.png")):
        title = picture.with_suffix(".md").read_text().splitlines()[0].lstrip("# ")
        name = f"/{picture.relative_to(ROOT).with_suffix('').as_posix()}"
        text += f"\n[{title}]({name}.md)\n\n![{title}]({name}.png)\n"
    (PAGES / "figures.md").write_text(text)


START = """<!doctype html><meta charset="utf-8"><title>refnb</title>
<meta http-equiv="refresh" content="0; url=nbs/index.html"><a href="nbs/index.html">refnb</a>"""


def write_examples() -> None:
    "Write pages as `refnb view` and `refnb report` make them, for docs/examples.md."
    from refnb.core.corpora import sample
    from refnb.models.rules import pattern_matching
    from refnb.results.pages.book_view import view_book
    from refnb.results.pages.report import Rankings, make_rankings, read_summaries

    gold = sorted(sample(characters=True), key=lambda d: -d.size)
    book = view_book(gold, [pattern_matching(d) for d in gold], ("gold", "pattern matching"))
    (EXTRA / "book.html").write_text(book.page())
    tasks = ["identifyme/test", "bookcoref/gold", "bookcoref/split"]
    tasks += [f"altentities/{domain}/unshown/test" for domain in ("books", "recipes", "songs")]
    ranking = Rankings(make_rankings(read_summaries(tasks, ROOT / "reports")))
    (EXTRA / "ranking.html").write_text(ranking.page())
    (EXTRA / "index.html").write_text(START)


def write_data() -> None:
    "Write a page of upstream sets, their licences, and what is known to be wrong in them."
    from refnb.benchmarks.tasks import benchmarks
    from refnb.core.settings import load_settings
    from refnb.core.upstream import set_names, survey

    settings = load_settings("/", env={}, offline=True)
    text = "# Data\n\n> Other people's files that refnb reads, under their own licences; it ships none of them. "
    text += "`refnb fetch NAME` gets a set, and checks each file against its git blob id.\n\n"
    text += "| name | what | files | MB | licence |\n|---|---|--:|--:|---|\n"
    for x in (survey(name, settings) for name in set_names()):
        about = f"{x.about} (only if asked for by name)" if x.opt_in else x.about
        text += f"| `{x.name}` | {about} | {x.files} | {x.size / 1e6:.1f} | {x.licence} |\n"
    for b in benchmarks().values():
        text += f"\n## {b.benchmark}\n\n{b.about}\n\nLicence: {b.licence}.\n\n{b.wish or ''}\n\n"
        text += "| task | what |\n|---|---|\n"
        text += "".join(f"| `{name}` | {task.about} |\n" for name, task in b.tasks.items())
        text += "\nKnown defects:\n\n" if b.defects else ""
        text += "".join(f"* {defect}\n" for defect in b.defects)
    (PAGES / "data.md").write_text(text)


def write_reference() -> None:
    "Write the pages of the command line, by typer, and of the Python interface."
    typer = [str(Path(sys.executable).with_name("typer")), "refnb.commands.cli"]
    how = [*typer, "utils", "docs", "--name", "refnb", "--title", "Command line"]
    said = subprocess.run(how, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    (PAGES / "command_line.md").write_text(said)
    modules = []
    for path in sorted((ROOT / "refnb").rglob("[!_]*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = f"{name}\n{'=' * len(name)}\n\n.. automodule:: {name}\n   :members:\n"
        (PAGES / "modules" / f"{name}.rst").write_text(
            text + "   :undoc-members:\n   :show-inheritance:\n"
        )
        modules.append(f"/docs/pages/modules/{name}")
    text = "# Python interface\n\nWhat `import refnb` gives; on the pages below, every module with its functions and classes.\n\n"
    for name, at in refnb._NAMES.items():
        home, _, real = at.partition(":")
        text += f"* {{py:obj}}`refnb.{name} <refnb.{home}.{real or name}>`\n"
    (PAGES / "api.md").write_text(text + contents(modules))


shutil.rmtree(PAGES, ignore_errors=True)  # with what was renamed since
(PAGES / "modules").mkdir(parents=True)
EXTRA.mkdir(exist_ok=True)
for room in ROOMS:
    write_room(room)
write_figures()
write_examples()
write_data()
write_reference()


# Notebooks, reports and docstrings as they are shown


def signatures(text: str, module: str) -> str:
    "Write a line for each public function and class of a cell that is exported: its parameters, linked to the reference."
    lines = []
    for node in ast.parse(text).body:
        name = getattr(node, "name", "_")
        if name.startswith("_"):
            continue
        call = name
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            args = node.args
            call += (
                f"({', '.join(a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs))})"
            )
        lines.append(f"{{py:obj}}`{call} <refnb.{module}.{name}>`")
    return " · ".join(dict.fromkeys(lines))


def is_imports(text: str) -> bool:
    "Tell whether a cell does nothing but import."
    try:
        return all(isinstance(x, (ast.Import, ast.ImportFrom)) for x in ast.parse(text).body)
    except SyntaxError:  # a line of IPython's
        return False


def shown(app, docname: str, source: list[str]) -> None:
    """Put pages into the navigation. Of a notebook, take out nbdev's directives with what they hide, fold imports, put its
    signatures above their code, and say where its reference and its numbers are."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".ipynb":
        source[0] = source[0].replace("](README.md", "](nbs/index.ipynb")  # made from it
        if path.name == "README.md":  # of reports: what it links to comes below it
            source[0] += contents(re.findall(r"\]\((\w+(?:/README)?)\.md\)", source[0]))
        return
    nb = json.loads(source[0])
    cells, up, exports = [], "../" * docname.count("/"), ""
    for cell in nb["cells"]:
        text = "".join(cell["source"])
        given = set(re.findall(r"^#\|\s*(\S+)", text, re.M))
        if module := re.search(r"^#\| default_exp ([a-z]\S+)", text, re.M):
            exports = module[1]
            to = f"{up}docs/pages/modules/refnb.{exports}.rst"
            cells[0]["source"] += f"\n\nExported as [`refnb.{exports}`]({to})."
        if given & {"default_exp", "hide", "include:"}:
            continue
        cell["source"] = re.sub(r"\A(#\|.*\n?)+", "", text)
        if given & {"echo:", "hide_input"}:
            cell["metadata"]["tags"] = ["remove-input"]
        elif cell["cell_type"] != "code":
            pass
        elif is_imports(cell["source"]):
            cell["metadata"]["tags"] = ["hide-input"]
        elif "export" in given and (line := signatures(cell["source"], exports)):
            above = {"cell_type": "markdown", "id": f"above-{cell['id']}", "metadata": {}}
            cells.append(above | {"source": line})
        cells.append(cell)
    report = f"reports/{path.parent.name}/{path.stem}.md"
    if "tables" in path.parts and (ROOT / report).exists():
        cells[0]["source"] += f"\n\nIts numbers: [the report]({up}{report})."
    if docname == root_doc:
        cells[-1]["source"] += "".join(contents(pages, told) for told, pages in ABOVE.items())
    language = {"language_info": {"name": "python", "pygments_lexer": "python"}}
    source[0] = json.dumps(nb | {"cells": cells, "metadata": nb["metadata"] | language})


def with_comments(app, what: str, name: str, obj, options, lines: list[str]) -> None:
    "Add the comments beside a function's parameters to its docstring; show its code marks as code."
    if lines[:1] and lines[0].startswith("Alias for field number"):
        lines.clear()  # of a named tuple
    lines[:] = [re.sub(r"(?<!`)`([^`]+)`(?!`|_)", r"``\1``", line) for line in lines]
    found = parameter_comments(obj) if what in ("function", "method") else {}
    for parameter, comment in found.items():
        field = "returns" if parameter == "return" else f"param {parameter}"
        lines += ["", f":{field}: " + re.sub(r"([*_])", r"\\\1", comment)]


def formula(block: bool):
    "Draw a formula as MathML, which every current browser shows without a script."

    def visit(self, node):
        self.body.append(tex2mathml(node.astext(), as_block=block))
        raise SkipNode

    return visit


def setup(app):
    app.connect("source-read", shown)
    app.connect("autodoc-process-docstring", with_comments)
    app.add_html_math_renderer("mathml", (formula(False), None), (formula(True), None))
