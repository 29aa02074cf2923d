"""The site: `python .ci/site/build.py [--out _site]` writes static pages that load nothing from another host.

Pages are made from the notebooks with their outputs, the reports, the package's docstrings and the cards of the data. A link that leads
nowhere, a warning of Sphinx, an address of another host and a path of this machine fail the build; the site that was there then stays.
"""
import argparse, ast, html, json, os, posixpath, re, shutil, sys, tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT, HERE = Path(__file__).parents[2], Path(__file__).parent
GROUPS = {"core": "Core", "metrics": "Metrics", "benchmarks": "Benchmarks", "models": "Models",
          "results": "Results", "tables": "Tables", "explore": "Explore"}
NAMES = {"identifyme": "IdentifyMe", "altentities": "AltEntities", "bookcoref": "BookCoref", "kitmus": "KITMUS"}

class SiteError(Exception): "The site cannot be built: one line for each reason."


# Which file of the repository becomes which page

def order(path: Path) -> list:
    "As a reader counts: 2 before 10, a paper's tables before our own."
    return [path.parent.as_posix(), path.stem.startswith("own_"), *(int(x) if x.isdigit() else x for x in re.split(r"(\d+)", path.stem))]
def notebooks() -> list[Path]: return sorted((p for p in (ROOT/"nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts), key=order)
def reports() -> list[Path]:
    return sorted((p for p in (ROOT/"reports").glob("[!.]*/*.md") if p.parent.name not in ("sample", "runs")), key=order)
def of_root(path: Path) -> str: return path.relative_to(ROOT).as_posix()

def pages() -> dict[str, str]:
    "File of the repository -> page in Sphinx's tree, both from their roots."
    made = {of_root(p): of_root(p).replace("nbs/", "notebooks/", 1) for p in notebooks()}
    made |= {of_root(p): of_root(p) for p in reports()}
    return made | {"nbs/index.ipynb": "index.ipynb", "reports/README.md": "reports/index.md"}

class Tree:
    "Sphinx's source tree, while it is written."
    def __init__(self, folder: Path): self.folder, self.pages, self.faults = folder, pages(), []

    def write(self, page: str, text: str):
        path = self.folder/page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def target(self, link: str, at: str, page: str) -> str:
        "A link of a repository's file, as seen from its page."
        if re.match(r"[a-z]+:|#", link): return link
        name, mark, anchor = link.partition("#")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(at), name))
        if not (ROOT/name).is_file() or name.startswith(".."):
            self.faults.append(f"{at}: the link {link} leads nowhere")
            return link
        if name not in self.pages:
            (self.folder/"files"/name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT/name, self.folder/"files"/name)
        return posixpath.relpath(self.pages.get(name, f"files/{name}"), posixpath.dirname(page) or ".") + mark + anchor

    def links(self, text: str, at: str, page: str) -> str:
        "Markdown with its links seen from its page; code is left alone."
        def one(m): return m[0] if m[1] is None else f"]({self.target(m[1], at, page)})"
        return re.sub(r"```.*?```|`[^`\n]+`|\]\(([^)\s]+)\)", one, text, flags=re.S)


# Notebooks

def source(cell: dict) -> str: return "".join(cell["source"])
def title(nb: dict) -> str: return re.match(r"# (.+)", source(nb["cells"][0]))[1]
def lede(nb: dict) -> str: return (re.search(r"^> (.+)", source(nb["cells"][0]), re.M) or ["", ""])[1]
def module_of(nb: dict) -> str|None: return next((m[1] for c in nb["cells"] if (m := re.match(r"#\| default_exp (\S+)", source(c)))), None)
def markdown(text: str) -> dict: return dict(cell_type="markdown", metadata={}, source=text)

def directives(cell: dict) -> tuple[set[str], str]:
    "What nbdev is told in a cell, and the rest of it."
    lines = source(cell).splitlines()
    told = {" ".join(l[2:].split()) for l in lines if l.startswith("#|")}
    return told, "\n".join(l for l in lines if not l.startswith("#|")).strip("\n")

def literals(cells: list[dict]) -> dict:
    "What cells of parameters set, the folder of the reports left out."
    def one(n): return (n.target if isinstance(n, ast.AnnAssign) else n.targets[0]).id, ast.literal_eval(n.value)
    return {k: v for c in cells for k, v in map(one, ast.parse(source(c)).body) if k != "out"}

def last_run(path: Path, nb: dict) -> dict:
    "A table's notebook with the outputs of its last accepted run, unless that was of another text or with other parameters."
    try: ran = json.loads((ROOT/"reports/.batch"/f"{path.parent.name}-{path.stem}.ipynb").read_text())
    except (OSError, ValueError): return nb
    def tagged(cells, tag: str) -> list[dict]: return [c for c in cells if tag in c["metadata"].get("tags", [])]
    injected = tagged(ran["cells"], "injected-parameters")
    cells = [c for c in ran["cells"] if c not in injected]
    default = literals(tagged(nb["cells"], "parameters"))
    if [*map(source, cells)] != [*map(source, nb["cells"])] or default | literals(injected) != default: return nb
    return nb | {"cells": [c | {"outputs": r.get("outputs", [])} if c["cell_type"] == "code" else c for c, r in zip(nb["cells"], cells)]}

SCRIPTS = ("application/javascript", "application/vnd.jupyter.widget-view+json")

def outputs(tree: Tree, cell: dict, at: str, page: str) -> list[dict]:
    "A cell's outputs, with links seen from its page; what needs a script stays out."
    def seen(kind: str, data): return tree.links("".join(data), at, page) if kind == "text/markdown" else data
    def shown(data: dict) -> dict: return {k: seen(k, v) for k, v in data.items() if k not in SCRIPTS}
    return [o | {"data": shown(o["data"])} if "data" in o else o for o in cell["outputs"]]

def cell_of(tree: Tree, cell: dict, at: str, page: str) -> dict|None:
    "A cell as it is rendered, or nothing."
    if cell["cell_type"] == "markdown": return markdown(tree.links(source(cell), at, page))
    told, text = directives(cell)
    hidden = bool(told & {"echo: false", "hide_input"}) or not text
    if told & {"hide", "include: false"} or (hidden and not cell["outputs"]): return None
    tags = {"tags": ["remove-input"] if hidden else []}
    return dict(cell_type="code", metadata=tags, source=text, outputs=outputs(tree, cell, at, page), execution_count=None)

def beside(tree: Tree, path: Path, nb: dict, page: str) -> dict|None:
    "Where the notebook's code or its report is described."
    up = posixpath.relpath(".", posixpath.dirname(page) or ".")
    report = f"reports/{path.parent.name}/{path.stem}.md"
    if report in tree.pages: return markdown(f"Its numbers stand in [the report]({up}/{report}).")
    if not (module := module_of(nb)): return None
    name = "refnb" if module == "__init__" else f"refnb.{module}"
    return markdown(f"Exported as `{name}`: [its functions and classes]({up}/api/{name}.md).")

def notebook(tree: Tree, path: Path):
    "Write a notebook as a page."
    at, nb = of_root(path), json.loads(path.read_text())
    page = tree.pages[at]
    if "tables" in path.parts: nb = last_run(path, nb)
    cells = [cell_of(tree, c, at, page) for c in nb["cells"]]
    cells = [c for c in (cells[0], beside(tree, path, nb, page), *cells[1:]) if c]
    if at == "nbs/index.ipynb": cells.append(markdown(contents()))
    about = dict(kernelspec=nb["metadata"]["kernelspec"], language_info=dict(name="python", pygments_lexer="ipython3"))
    for i, c in enumerate(cells): c["id"] = f"cell-{i}"
    tree.write(page, json.dumps(dict(cells=cells, metadata=about, nbformat=4, nbformat_minor=5)))

def toctree(entries: list[str], *options: str) -> str: return "\n".join(["```{toctree}", *options, "", *entries, "```"])

def table(head: list[str], rows: list[list[str]], right: str = "") -> str:
    "A Markdown table; columns named in `right` are numbers."
    rule = "|".join("--:" if h in right.split(",") else "---" for h in head)
    def line(row) -> str: return "| " + " | ".join(" ".join(str(x).replace("|", "\\|").split()) for x in row) + " |"
    return "\n".join([line(head), f"|{rule}|", *map(line, rows)])

def grouped(paths: list[Path], folder: Path, order: dict[str, str]) -> dict[str, list[Path]]:
    "Files by the folder they are in, in a given order."
    by: dict[str, list[Path]] = {}
    for p in paths:
        if p.parent != folder: by.setdefault(p.relative_to(folder).parts[0], []).append(p)
    return {k: by[k] for k in [*(k for k in order if k in by), *(k for k in by if k not in order)]}

def groups() -> dict[str, list[Path]]: return grouped(notebooks(), ROOT/"nbs", GROUPS)

def contents() -> str:
    "The site's navigation."
    parts = {"Reports": ["The board <reports/index>"], "Notebooks": [f"notebooks/{g}/index" for g in groups()], "Reference": ["API <api/index>", "Data <data>"]}
    return "\n".join(toctree(entries, ":hidden:", f":caption: {name}") for name, entries in parts.items())

def group_pages(tree: Tree):
    "A page for each folder of notebooks."
    for g, paths in groups().items():
        have = [(p.relative_to(ROOT/"nbs"/g).with_suffix("").as_posix(), json.loads(p.read_text())) for p in paths]
        rows = [[f"[{title(nb)}]({name}.ipynb)", lede(nb)] for name, nb in have]
        shown = table(["notebook", "what it gives"], rows)
        tree.write(f"notebooks/{g}/index.md", f"# {GROUPS.get(g, g.title())}\n\n{shown}\n\n{toctree([n for n, _ in have], ':hidden:')}\n")


# Reports

WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"  # wide tables want the room of the right column

def picture(path: Path) -> str:
    png = path.with_suffix(".png")
    return f"![{path.stem.replace('_', ' ')}]({png.name})\n\n" if png.exists() else ""

def downloads(path: Path) -> str:
    "Links to a report's other forms, and to its notebook."
    forms = [("CSV", ".csv"), ("LaTeX", ".tex"), ("Provenance (JSON)", ".json"), ("Picture (PNG)", ".png")]
    links = [f"[{name}]({path.with_suffix(end).name})" for name, end in forms if path.with_suffix(end).exists()]
    if (ROOT/"nbs/tables"/path.parent.name/f"{path.stem}.ipynb").exists(): links.append(f"[Notebook](../../nbs/tables/{path.parent.name}/{path.stem}.ipynb)")
    return f"Also as: {' · '.join(links)}\n\n"

def code(x) -> str: return f"`{x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)}`"

def provenance(path: Path) -> str:
    "What a report was made from."
    if not path.with_suffix(".json").exists(): return ""
    told = json.loads(path.with_suffix(".json").read_text())
    parts = [("Parameters", ["parameter", "value"], told.get("parameters")), ("Made from", ["file or set", "id"], told.get("inputs")),
             ("Runs", ["task and system", "run"], told.get("runs")),
             ("Versions and cost", ["what", "value"], (told.get("versions") or {}) | (told.get("cost") or {}))]
    shown = [f"### {name}\n\n{table(head, [[k, code(v)] for k, v in rows.items()])}\n" for name, head, rows in parts if rows]
    return "\n## Provenance\n\n" + "\n".join(shown)

def report(tree: Tree, path: Path):
    "Write a report as a page: picture, table, notes, provenance."
    at, text = of_root(path), path.read_text().replace("$", r"\$")
    head, _, rest = text.partition("\n\n")
    rest = re.sub(r"(?:^\|.*\n)+", lambda m: f"```{{table}}\n:class: numbers\n\n{m[0]}```\n", rest, count=1, flags=re.M)
    extra = downloads(path) + picture(path)
    tree.write(at, f"{WIDE}{head}\n\n{tree.links(extra, at, at)}" + outside_code(tree, rest, at) + provenance(path))

def outside_code(tree: Tree, text: str, at: str) -> str:
    "A fenced table has links too."
    return "".join(tree.links(p, at, at) if not p.startswith("```") else p for p in re.split(r"(^```.*$)", text, flags=re.M))

def short(path: Path) -> str:
    "Table 3 of …, as the navigation calls it."
    head = path.read_text().splitlines()[0].removeprefix("# ")
    m = re.search(r"Table (\w+): (.+)", head)
    return f"Table {m[1]} · {m[2]}" if m else head.removeprefix(f"{path.parent.name}: ")

def board(tree: Tree):
    "The board, a page for each paper, and the reports."
    by = grouped(reports(), ROOT/"reports", NAMES)
    text = tree.links((ROOT/"reports/README.md").read_text().replace("$", r"\$"), "reports/README.md", "reports/index.md")
    text = re.sub(r"^## (\w+)$", lambda m: f"## {NAMES.get(m[1], m[1])}", text, flags=re.M)
    text = re.sub(r"(?:^\|.*\n)+", lambda m: f"```{{table}}\n:class: board\n\n{m[0]}```\n", text + "\n", flags=re.M)
    tree.write("reports/index.md", f"{WIDE}{text}\n{toctree([f'{n}/index' for n in by], ':hidden:')}\n")
    for n in by:
        entries = [f"{short(p)} <{p.stem}>" for p in by[n]]
        text = f"# {NAMES.get(n, n)}\n\nThe regenerated tables of this paper; [the board](../index.md) lists all.\n\n"
        tree.write(f"reports/{n}/index.md", f"{text}{toctree(entries, ':titlesonly:')}\n")
    for p in reports(): report(tree, p)


# The API and the data

def constants(module) -> str:
    "Names of a module that are neither function nor class."
    plain = [n for n in module.__all__ if not (hasattr(v := getattr(module, n), "__qualname__") and getattr(v, "__module__", "") == module.__name__)]
    def value(v) -> str:
        text = repr(sorted(v, key=repr)) if isinstance(v, (set, frozenset)) else repr(v)
        text = re.sub(r"<(?:function|class) ?'?(\w+)[^>]*>", r"\1", text).replace("typing.", "")
        return text[:117] + "…" if len(text) > 118 else text
    rows = [[f"`{n}`", f"`` {value(getattr(module, n))} ``"] for n in plain]
    return f"\n## Constants and types\n\n{table(['name', 'value'], rows)}\n" if rows else ""

def api(tree: Tree):
    "A page for each exported module."
    import importlib, refnb
    made = {m: p for paths in groups().values() for p in paths if (m := module_of(json.loads(p.read_text())))}
    for m, p in made.items():
        if m == "__init__": continue
        module = importlib.import_module(f"refnb.{m}")
        text = f"# refnb.{m}\n\nWritten in [{title(json.loads(p.read_text()))}](../{tree.pages[of_root(p)]}).\n\n"
        text += f"```{{eval-rst}}\n.. automodule:: refnb.{m}\n```\n{constants(module)}"
        tree.write(f"api/refnb.{m}.md", text)
    first = lambda doc: (doc or " ").splitlines()[0]
    rows = [[f"`refnb.{n}`", "[refnb.{0}](refnb.{0}.md)".format(at.partition(":")[0]), first(getattr(refnb, n).__doc__)] for n, at in refnb._NAMES.items()]
    tree.write("api/refnb.md", f"# refnb\n\n{refnb.__doc__}\n\n{table(['name', 'from', 'what'], rows)}\n")
    modules = ["refnb", *(f"refnb.{m}" for m in made if m != "__init__")]
    names = [f"{m.removeprefix('refnb.')} <{m}>" for m in modules]
    about = [[f"[{m}]({m}.md)", first(sys.modules[m].__doc__)] for m in modules]
    lede = "> Every exported function and class, with the comments beside its parameters."
    tree.write("api/index.md", f"# API\n\n{lede}\n\n{table(['module', 'what'], about)}\n\n{toctree(names, ':hidden:')}\n")

def data(tree: Tree):
    "Upstream sets, licences, and what the authors ask."
    from refnb.benchmarks.tasks import benchmarks
    from refnb.core.settings import load_settings
    from refnb.core.upstream import set_names, survey
    s = load_settings("/", env={}, offline=True)
    got = [survey(n, s) for n in set_names()]
    rows = [[f"`{g.name}`", g.about + (" (only if asked for by name)" if g.opt_in else ""), g.files, f"{g.size/1e6:.1f}", g.licence] for g in got]
    text = ["# Data", "> Other people's files that refnb reads, under their own licences; it ships none of them.",
            "`refnb fetch NAME` gets a set, and checks every file against its git blob id.",
            table(["name", "what", "files", "MB", "licence"], rows, "files,MB")]
    for b in benchmarks().values():
        text += [f"## {NAMES.get(b.benchmark, b.benchmark.title())}", b.about, f"Licence: {b.licence}.", b.wish]
        text.append(table(["task", "what"], [[f"`{n}`", t.about] for n, t in b.tasks.items()]))
        if b.defects: text += ["Known defects:", "\n".join(f"* {d}" for d in b.defects)]
    tree.write("data.md", "\n\n".join(filter(None, text)) + "\n")

def write_pages(folder: Path):
    "All that Sphinx reads."
    tree = Tree(folder)
    for p in notebooks(): notebook(tree, p)
    for step in (group_pages, board, api, data): step(tree)
    if tree.faults: raise SiteError("\n".join(tree.faults))


# Checks of what was built

LOADS = {"src", "srcset", "poster", "data", "action", "background"}
HOST = r"""\s*["'`]?\s*(?:https?:)?//"""
CSS = re.compile(rf"(?:url\(|@import\s+(?:url\()?){HOST}", re.I)
JS = re.compile(rf"(?:\b(?:from|import|(?:import|importScripts|fetch|Worker|WebSocket|EventSource|sendBeacon)\()|\.open\([^)]{{0,12}},|\.src\s*=){HOST}")

class Loads(HTMLParser):
    "What a page loads from another host. A link to be clicked is not loaded."
    def __init__(self):
        super().__init__()
        self.found, self.inside = [], ""
    def handle_starttag(self, tag, attrs):
        self.inside = tag
        for k, v in attrs:
            loaded = k in LOADS or (k == "href" and tag not in ("a", "area")) or k == "xlink:href"
            if v and ((loaded and re.search(r"(?:^|[\s,])(?:https?:)?//", v)) or (k == "style" and CSS.search(v))): self.found.append(f"<{tag} {k}={v[:80]}>")
    def handle_data(self, text):
        if (self.inside == "style" and CSS.search(text)) or (self.inside == "script" and JS.search(text)): self.found.append(f"<{self.inside}>")
    def handle_endtag(self, tag): self.inside = ""

QUICK = re.compile(r"""["'(=,]\s*(?:https?:)?//""")  # most pages have nothing that parsing could find

def foreign(text: str, kind: str) -> list[str]:
    "What a file of the site loads from another host."
    if not QUICK.search(text): return []
    if kind == ".html":
        page = Loads()
        page.feed(text)
        return page.found
    return [text[m.start():m.end() + 60] for m in {".css": CSS, ".js": JS}[kind].finditer(text)]

def dead(site: Path) -> list[str]:
    "Links within the site that lead nowhere."
    texts = {p.resolve(): p.read_text() for p in site.rglob("*.html")}
    ids = {p: set(re.findall(r'\sid="([^"]+)"', t)) for p, t in texts.items()}
    bad = []
    for p, text in texts.items():
        for link in set(re.findall(r'<a\b[^>]*?\shref="([^"]*)"', text)):
            if re.match(r"[a-z]+:", link): continue
            name, _, anchor = unquote(html.unescape(link)).partition("#")
            at = (p.parent/name.partition("?")[0]).resolve() if name else p
            if not at.is_file() or (anchor and at in ids and anchor not in ids[at]):
                bad.append(f"{p.relative_to(site.resolve())}: the link {link} leads nowhere")
    return bad

def check(site: Path, *private: str) -> list[str]:
    "Faults of a built site."
    bad = dead(site)
    for p in sorted(site.rglob("*")):
        if p.suffix not in (".html", ".css", ".js"): continue
        text = p.read_text(errors="replace")
        bad += [f"{p.relative_to(site)}: loads from another host: {x}" for x in foreign(text, p.suffix)]
        bad += [f"{p.relative_to(site)}: names the folder {x} of this machine" for x in private if x in text]
        if p.suffix == ".html" and (m := re.search(r'class="c1">(#\|[^<]*)', text)): bad.append(f"{p.relative_to(site)}: shows the directive {m[1]}")
    return bad

def build(out: Path):
    "Build aside, check, move into place."
    from sphinx.cmd.build import main as sphinx
    os.environ["MPLBACKEND"] = "agg"
    with tempfile.TemporaryDirectory() as tmp:
        pages_, site = Path(tmp)/"pages", Path(tmp)/"site"
        write_pages(pages_)
        how = ["-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-c", str(HERE), "-d", str(Path(tmp)/"doctrees")]
        if sphinx([*how, str(pages_), str(site)]): raise SiteError("Sphinx found what stands above")
        for p in [site/".buildinfo", site/"objects.inv", *site.rglob("*.map")]: p.unlink(missing_ok=True)
        if bad := check(site, str(ROOT), tmp): raise SiteError("\n".join(bad))
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists(): shutil.rmtree(out)
        shutil.copytree(site, out)

def main() -> int:
    parser = argparse.ArgumentParser(description="Build the static site.")
    parser.add_argument("--out", type=Path, default=ROOT/"_site", help="a folder; what is in it is replaced")
    out = parser.parse_args().out.resolve()
    if out.exists() and any(out.iterdir()) and not (out/"searchindex.js").exists():
        print(f"site: {out} is not empty and no site; name another folder", file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT))
    try: build(out)
    except SiteError as e:
        for line in str(e).splitlines(): print(f"site: {line}", file=sys.stderr)
        return 1
    print(f"site: {sum(1 for _ in out.rglob('*.html'))} pages in {out}")
    return 0

if __name__ == "__main__": sys.exit(main())
