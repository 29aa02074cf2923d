"The pages made from notebooks, reports and the cards of the data."

import ast, base64, json, re
from pathlib import Path
from refnb.results.printed import papers
from markup import FORMULAS, PLAIN, Page, code_block, escape, plain, table

ROOT = Path(__file__).parents[2]
NAMES = {p.paper: p.name for p in papers().values()}


def of_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def name(folder: str) -> str:
    return NAMES.get(folder, folder.title())


def link(address: str, text: str) -> str:
    return f'<a href="{address}">{text}</a>'


def code(x) -> str:
    return f"<code>{escape(x if isinstance(x, str) else json.dumps(x, ensure_ascii=False))}</code>"


# Notebooks


def source(cell: dict) -> str:
    return "".join(cell["source"])


def title(nb: dict) -> str:
    return re.match(r"# (.+)", source(nb["cells"][0]))[1]


def lede(nb: dict) -> str:
    return (re.search(r"^> (.+)", source(nb["cells"][0]), re.M) or ["", ""])[1]


def module_of(nb: dict) -> str | None:
    "The module that a notebook exports."
    found = (re.match(r"#\| default_exp (\S+)", source(c)) for c in nb["cells"])
    name = next((m[1] for m in found if m), None)
    return "refnb" if name == "__init__" else name and f"refnb.{name}"


def directives(cell: dict) -> tuple[set[str], str]:
    "A cell's directives for nbdev, and the rest of it."
    lines = source(cell).splitlines()
    given = {" ".join(l[2:].split()) for l in lines if l.startswith("#|")}
    return given, "\n".join(l for l in lines if not l.startswith("#|")).strip("\n")


def literals(cells: list[dict]) -> dict:
    "What cells of parameters set, the folder of the reports left out."

    def one(n):
        return (n.target if isinstance(n, ast.AnnAssign) else n.targets[0]).id, ast.literal_eval(
            n.value
        )

    return {k: v for c in cells for k, v in map(one, ast.parse(source(c)).body) if k != "out"}


def last_run(path: Path, nb: dict) -> dict:
    "A table's notebook with the outputs of its last accepted run, if that had this text and these parameters."
    try:
        ran = read(ROOT / "reports/.batch" / f"{path.parent.name}-{path.stem}.ipynb")
    except (OSError, ValueError):
        return nb

    def tagged(cells, tag: str) -> list[dict]:
        return [c for c in cells if tag in c["metadata"].get("tags", [])]

    injected = tagged(ran["cells"], "injected-parameters")
    cells = [c for c in ran["cells"] if c not in injected]
    default = literals(tagged(nb["cells"], "parameters"))
    if [*map(source, cells)] != [*map(source, nb["cells"])] or default | literals(
        injected
    ) != default:
        return nb
    pairs = zip(nb["cells"], cells)
    return nb | {
        "cells": [
            c | {"outputs": r["outputs"]} if c["cell_type"] == "code" else c for c, r in pairs
        ]
    }


def text(lines, between: str = "") -> str:
    return escape(re.sub(r"\x1b\[[\d;]*m", "", between.join(lines)))


def picture(page: Page, kind: str, data) -> str:
    "An image among the outputs, as a file of the site."
    raw = "".join(data)
    content = raw.encode() if kind == "image/svg+xml" else base64.b64decode(raw)
    return f'<img src="{page.up(page.site.picture(content, kind))}" alt="Output of the cell above">'


def output(page: Page, o: dict):
    "One output of a cell; what needs a script stays out."
    data = o.get("data", {})
    image = next((k for k in ("image/svg+xml", "image/png", "image/jpeg") if k in data), None)
    if "text" in o:
        shown = f'<pre class="{o["name"]}">{text(o["text"])}</pre>'
    elif "traceback" in o:
        shown = f'<pre class="error">{text(o["traceback"], chr(10))}</pre>'
    elif "text/html" in data:
        shown = re.sub(r"<style scoped>.*?</style>", "", "".join(data["text/html"]), flags=re.S)
    elif image:
        shown = picture(page, image, data[image])
    elif "text/markdown" in data:
        return page.markdown("".join(data["text/markdown"]))
    elif "text/plain" in data:
        shown = f"<pre>{text(data['text/plain'])}</pre>"
    else:
        return
    page.add(shown, found=False)


def defined(page: Page, markup: str) -> str:
    "A cell's code, in which every function and class has its anchor."

    def one(m):
        name = f"def-{m[2]}"
        if name in page.ids:
            return m[0]
        page.ids.add(name)
        page.defined.append(m[2])
        return f'{m[1]}<span class="f" id="{name}">'

    word = '<span class="k">(?:async|def|class)</span> '
    return re.sub(rf'((?:^|<code>)(?:{word})+)<span class="f">(?=(\w+))', one, markup, flags=re.M)


def code_cell(page: Page, cell: dict):
    "A cell as far as its directives let it be seen."
    given, text = directives(cell)
    if given & {"hide", "include: false"}:
        return
    if text and not given & {"hide_input", "echo: false"}:
        page.add(defined(page, code_block(text)), found=False)
    if not cell["outputs"]:
        return
    page.add('<div class="output">', found=False)
    for o in cell["outputs"]:
        output(page, o)
    page.add("</div>", found=False)


def beside(page: Page, path: Path, nb: dict) -> str:
    "Where the notebook's code or its report is described."
    report = f"reports/{path.parent.name}/{path.stem}.md"
    if report in page.site.addresses:
        return f"<p>Its numbers: {link(page.up(page.site.addresses[report]), 'the report')}.</p>"
    if not (module := module_of(nb)):
        return ""
    there = link(page.up(f"api/{module}.html"), "its functions and classes")
    return f"<p>Exported as <code>{module}</code>: {there}.</p>"


def notebook(site, path: Path) -> Page:
    "The page of a notebook."
    at, nb = of_root(path), read(path)
    if "tables" in path.parts:
        nb = last_run(path, nb)
    page = Page(site, site.addresses[at], at)
    for i, cell in enumerate(nb["cells"]):
        if cell["cell_type"] == "code":
            code_cell(page, cell)
        else:
            page.markdown(source(cell), FORMULAS)
        if i == 0:
            page.add(beside(page, path, nb), found=False)
    return page


def group(site, folder: str, heading: str | None, rooms: dict[str, list[Path]]) -> Page:
    "The page of a folder of notebooks: a table for each folder in it."
    page = Page(site, f"notebooks/{folder}/index.html")
    page.markdown(f"# {heading or name(folder)}")
    for room, paths in rooms.items():
        if room:
            page.markdown(f"## {name(room)}")
        page.add(table(["notebook", "what it gives"], [about(page, p) for p in paths]))
    return page


def about(page: Page, path: Path) -> list[str]:
    "A notebook's title, as a link, and what it gives."
    nb = read(path)
    return [
        link(page.up(page.site.addresses[of_root(path)]), escape(title(nb))),
        page.inline(lede(nb)),
    ]


def search(site) -> Page:
    "The page of the search; a script fills it."
    page = Page(site, "search.html")
    page.markdown("# Search")
    page.add(
        '<p id="found" role="status">Type a word in the field above.</p>\n<ol id="results"></ol>\n'
        '<script src="searchindex.js"></script>',
        found=False,
    )
    return page


# Reports


def provenance(page: Page, path: Path):
    "What a report was made from."
    if not path.with_suffix(".json").exists():
        return
    made = read(path.with_suffix(".json"))
    cost = (made.get("versions") or {}) | (made.get("cost") or {})
    parts = [
        ("Parameters", ["parameter", "value"], made.get("parameters")),
        ("Made from", ["file or set", "id"], made.get("inputs")),
        ("Runs", ["task and system", "run"], made.get("runs")),
        ("Versions and cost", ["what", "value"], cost),
    ]
    page.add("<details><summary>Provenance: inputs, runs, versions, cost</summary>", found=False)
    for heading, head, rows in parts:
        if rows:
            page.add(
                f"<h3>{heading}</h3>"
                + table(head, [[escape(k), code(v)] for k, v in rows.items()]),
                found=False,
            )
    page.add("</details>", found=False)


def in_two_lines(cell: str) -> str:
    "An interval and a printed number below the number, in small type."
    return re.sub(r" (\[[^\[\]<]*\]|\(paper: [^()<]*\))", r"<br><small>\1</small>", cell)


def report(site, path: Path) -> Page:
    "The page of a report: its Markdown, and folded below what it was made from."
    at = of_root(path)
    page = Page(site, site.addresses[at], at, wide=True)
    page.markdown(path.read_text(), tables="numbers", cell=in_two_lines)
    provenance(page, path)
    return page


def short(path: Path) -> str:
    "A report's name in the navigation: Table 3 · …"
    head = plain(
        PLAIN.renderInline(path.read_text().splitlines()[0].removeprefix("# "), {"page": None})
    )
    m = re.search(r"Table (\w+): (.+)", head)
    return f"Table {m[1]} · {m[2]}" if m else head.removeprefix(f"{path.parent.name}: ")


def board(site) -> Page:
    "The status board."
    text = (ROOT / "reports/README.md").read_text()
    page = Page(site, "reports/index.html", "reports/README.md", wide=True)
    page.markdown(
        re.sub(r"^## \[(\w+)\]", lambda m: f"## [{name(m[1])}]", text, flags=re.M), tables="board"
    )
    return page


def paper(site, folder: str, paths: list[Path]) -> Page:
    "The list of a paper's reports."
    text = ROOT / "reports" / folder / "README.md"
    page = Page(
        site,
        f"reports/{folder}/index.html",
        f"reports/{folder}/README.md" if text.exists() else "",
        wide=True,
    )
    title, _, rest = (text.read_text() if text.exists() else f"# {name(folder)}\n").partition("\n")
    page.markdown(f"# {name(folder)}\n\n{title.removeprefix('# ')}{rest}", tables="board")
    links = [link(page.up(site.addresses[of_root(p)]), escape(short(p))) for p in paths]
    page.add("<ul>" + "".join(f"<li>{x}</li>\n" for x in links) + "</ul>")
    return page


def figures(site, paths: list[Path]) -> Page:
    "Every picture of a report, each with a link to its page."
    page = Page(site, "figures.html", "reports/README.md", wide=True)
    page.markdown(
        "# Figures\n\n> The pictures of all reports. Dots are our numbers, lines 95 % intervals, red ticks what a paper prints; each leads to its table."
    )
    with_picture = [p for p in paths if p.with_suffix(".png").exists()]
    for folder in dict.fromkeys(p.parent.name for p in with_picture):
        page.markdown(f"## {name(folder)}")
        shown = [
            (p, page.link(f"{folder}/{p.name}"), page.link(f"{folder}/{p.stem}.png"))
            for p in with_picture
            if p.parent.name == folder
        ]
        page.add(
            '<div class="figures">'
            + "".join(
                f'<figure><a href="{to}"><img loading="lazy" src="{src}" alt=""></a><figcaption><a href="{to}">{escape(short(p))}</a></figcaption></figure>\n'
                for p, to, src in shown
            )
            + "</div>"
        )
    return page


# A book


def book(site) -> Page:
    "The sample's stories, gold beside a system without weights; the view alone is a file of its own."
    from refnb.core.corpora import sample
    from refnb.models.rules.clusters import pattern_matching
    from refnb.results.pages.book_view import view_book

    gold = sorted(sample(characters=True), key=lambda d: -d.size)
    shown = view_book(gold, [pattern_matching(d) for d in gold], ("gold", "pattern matching"))
    site.write("book-alone.html", shown.page())
    page = Page(site, "book.html", wide=True)
    page.markdown("""# A book

> Whole texts with their clusters, who is on stage when, who meets whom, and where a prediction differs from gold.

Six stories that were written for this project, and beside their gold clusters what *pattern matching* finds: every occurrence of a character's full name, and nothing else. Step through the differences with `d`.
`refnb view RUN` and `refnb view FILE` make such a page of any book.""")
    page.add(
        f"<p>{link(page.up('book-alone.html'), 'In a window of its own')}</p>{shown.frame(860)._repr_html_()}",
        found=False,
    )
    return page


# Rankings

RANKED = [
    "identifyme/test",
    *(f"altentities/{x}/unshown/test" for x in ("books", "recipes", "songs")),
    "bookcoref/gold",
    "bookcoref/split",
]


def ranking(site) -> Page:
    "The committed runs, ranked; the report alone is a file of its own, as `refnb report` writes it."
    from refnb.results.pages.report import Report, make_boards, read_summaries

    made = Report(make_boards(read_summaries(RANKED, ROOT / "reports")))
    site.write("ranking-alone.html", made.page())
    page = Page(site, "ranking.html", wide=True)
    page.markdown("""# Rankings

> The systems whose runs are committed, task by task: intervals, tie groups, and any two side by side.

`refnb report` makes such a page of your own runs.""")
    page.add(
        f"<p>{link(page.up('ranking-alone.html'), 'In a window of its own')}</p>{made.frame(860)._repr_html_()}",
        found=False,
    )
    return page


# The data


def benchmark(page: Page, b):
    "A benchmark's licence, tasks and known defects."
    for x in (f"## {name(b.benchmark)}", b.about, f"Licence: {b.licence}.", b.wish):
        page.markdown(x or "")
    page.add(table(["task", "what"], [[code(n), page.inline(t.about)] for n, t in b.tasks.items()]))
    if b.defects:
        page.markdown("Known defects:\n\n" + "\n".join(f"* {d}" for d in b.defects))


def data(site) -> Page:
    "Upstream sets, licences, and what the authors ask."
    from refnb.benchmarks.tasks import benchmarks
    from refnb.core.settings import load_settings
    from refnb.core.upstream import set_names, survey

    settings = load_settings("/", env={}, offline=True)
    page = Page(site, "data.html")
    page.markdown("""# Data

> Other people's files that refnb reads, under their own licences; it ships none of them.

`refnb fetch NAME` gets a set, and checks every file against its git blob id.""")
    rows = []
    for got in (survey(n, settings) for n in set_names()):
        about = got.about + (" (only if asked for by name)" if got.opt_in else "")
        rows.append(
            [
                code(got.name),
                page.inline(about),
                got.files,
                f"{got.size / 1e6:.1f}",
                escape(got.licence),
            ]
        )
    page.add(table(["name", "what", "files", "MB", "licence"], rows, right="files,MB"))
    for b in benchmarks().values():
        benchmark(page, b)
    return page
