"""The site: `python .ci/site/build.py [--out _site]` writes static pages that load nothing from another host.

Pages are made from the notebooks with their outputs, the reports, the package's source and the cards of the data.
A link that leads nowhere, a missing picture, an address of another host and a path of this machine fail the build;
the site that was there then stays.
"""

import argparse, base64, hashlib, html, json, posixpath, re, shutil, string, sys, tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]  # our own modules, and the package
import api, commands, pages  # noqa: E402
from markup import Page, escape  # noqa: E402
from pages import ROOT, of_root  # noqa: E402

GROUPS = {
    "core": "Core",
    "metrics": "Metrics",
    "benchmarks": "Benchmarks",
    "models": "Models",
    "results": "Results",
    "commands": "Commands",
    "tables": "Tables",
    "explore": "Explore",
}
INDEX = "searchindex.js"  # a folder that has it is a site


def hash_of(script: str) -> str:
    return base64.b64encode(
        hashlib.sha256((ROOT / "nbs/data" / script).read_bytes()).digest()
    ).decode()


POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    f"script-src 'self' 'sha256-{hash_of('viewer/page.js')}' 'sha256-{hash_of('book/page.js')}' 'sha256-{hash_of('report/page.js')}'"
)  # no script but the site's own, and those of pages inside a frame


class SiteError(Exception):
    "The site cannot be built: one line for each reason."


# Which file of the repository becomes which page


def order(path: Path) -> list:
    "As a reader counts: 2 before 10, a paper's tables before our own."
    parts = re.split(r"(\d+)", path.stem)
    return [
        path.parent.as_posix(),
        path.stem.startswith("own_"),
        *(int(x) if x.isdigit() else x for x in parts),
    ]


def notebooks() -> list[Path]:
    return sorted(
        (p for p in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts),
        key=order,
    )


def reports() -> list[Path]:
    found = (ROOT / "reports").glob("[!.]*/*.md")
    return sorted(
        (p for p in found if p.parent.name not in ("sample", "runs") and p.name != "README.md"),
        key=order,
    )


def addresses() -> dict[str, str]:
    "File of the repository -> page of the site."
    made = {of_root(p): of_root(p.with_suffix(".html")) for p in (*notebooks(), *reports())}
    made = {k: v.replace("nbs/", "notebooks/", 1) for k, v in made.items()}
    papers = {
        f"reports/{p}/README.md": f"reports/{p}/index.html"
        for p in pages.NAMES
        if (ROOT / "reports" / p / "README.md").exists()
    }
    return (
        made | papers | {"nbs/index.ipynb": "index.html", "reports/README.md": "reports/index.html"}
    )


def by_folder(
    paths: Iterable[Path], folder: str, order: Iterable[str] = pages.NAMES
) -> dict[str, list[Path]]:
    "Files below a folder, by the folder within it that holds them; `order` comes first. Its own files are under ''."
    by: dict[str, list[Path]] = {name: [] for name in ("", *order)}
    for p in paths:
        inside = p.relative_to(ROOT / folder).parts
        by.setdefault(inside[0] if len(inside) > 1 else "", []).append(p)
    return {k: v for k, v in by.items() if v}


class Site:
    "The site while it is built: its folder, its pages, its faults."

    def __init__(self, folder: Path):
        self.folder, self.addresses, self.faults, self.pages = folder, addresses(), [], []

    def add(self, page: Page) -> Page:
        self.pages.append(page)
        return page

    def write(self, address: str, content: str | bytes):
        path = self.folder / address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def picture(self, content: bytes, kind: str) -> str:
        "The address of a picture among a notebook's outputs."
        ending = re.match(r"image/(\w+)", kind)[1]
        address = f"pictures/{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
        self.write(address, content)
        return address

    def target(self, link: str, source: str, page: Page) -> str:
        "A link of a repository's file, as seen from its page."
        if re.match(r"[a-z]+:|#", link):
            return link
        name, mark, anchor = unquote(link).partition("#")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        if name.startswith("..") or not (ROOT / name).is_file():
            self.faults.append(f"{source}: the link {link} leads nowhere")
            return link
        if name not in self.addresses:
            self.write(f"files/{name}", (ROOT / name).read_bytes())
        return page.up(self.addresses.get(name, f"files/{name}")) + mark + anchor


# All pages, and the navigation


class Node(NamedTuple):
    "An entry of the navigation; one without an address only holds others."

    title: str
    address: str
    inside: list["Node"]


def node(page: Page, title: str = "", inside: list[Node] = []) -> Node:
    return Node(title or page.title, page.address, inside)


def notebook_pages(site: Site, written: dict[str, Page]) -> list[Node]:
    "Every notebook, and a page for each group; `written` gets the page of each module's notebook."
    nodes = []
    for group, paths in by_folder(notebooks(), "nbs", GROUPS).items():
        entries = []
        rooms = by_folder(paths, f"nbs/{group}")
        for room, inside in rooms.items():
            made = {p: site.add(pages.notebook(site, p)) for p in inside}
            written |= {
                m: page for p, page in made.items() if (m := pages.module_of(pages.read(p)))
            }
            leaves = [node(page) for page in made.values()]
            entries += [Node(pages.name(room), "", leaves)] if room else leaves
        if group:
            nodes.append(
                node(site.add(pages.group(site, group, GROUPS.get(group), rooms)), inside=entries)
            )
    return nodes


def report_pages(site: Site) -> list[Node]:
    "Every report, a page for each paper, and the board."
    nodes = []
    for folder, paths in by_folder(reports(), "reports").items():
        entries = [node(site.add(pages.report(site, p)), pages.short(p)) for p in paths]
        nodes.append(node(site.add(pages.paper(site, folder, paths)), inside=entries))
    return [node(site.add(pages.board(site)), "The board", nodes)]


def reference_pages(site: Site, written: dict[str, Page]) -> list[Node]:
    "The command line, every module by its folder, their list, and the data."
    rooms: dict[str, list[Node]] = {}
    del written["refnb"]
    for name, notebook in written.items():
        room, _, last = name.removeprefix("refnb.").rpartition(".")
        rooms.setdefault(room, []).append(node(site.add(api.module(site, name, notebook)), last))
    top = site.add(api.contents(site, ["refnb", *written]))
    inside = [
        node(site.add(api.package(site))),
        *(Node(room, "", entries) for room, entries in rooms.items()),
    ]
    return [
        node(site.add(commands.commands(site))),
        node(top, inside=inside),
        node(site.add(pages.data(site))),
    ]


def all_pages(site: Site) -> dict[str, list[Node]]:
    "Make every page; give the navigation."
    written: dict[str, Page] = {}
    made = notebook_pages(site, written)
    site.add(pages.search(site))
    return {
        "Reports": [
            *report_pages(site),
            node(site.add(pages.figures(site, reports()))),
            node(site.add(pages.book(site))),
            node(site.add(pages.ranking(site))),
        ],
        "Notebooks": made,
        "Reference": reference_pages(site, written),
    }


def flat(nodes: Iterable[Node]) -> Iterator[Node]:
    "The navigation in reading order."
    for n in nodes:
        if n.address:
            yield n
        yield from flat(n.inside)


def entry(n: Node, page: Page) -> str:
    "An entry of the navigation, as seen from a page; the way to the page is open."
    here = page.address == n.address or any(x.address == page.address for x in flat(n.inside))
    inside = (
        f"<ul>{''.join(entry(x, page) for x in n.inside)}</ul>"
        if n.inside and (here or not n.address)
        else ""
    )
    if not n.address:
        return f"<li><details{' open' if here else ''}><summary>{escape(n.title)}</summary>{inside}</details></li>"
    current = ' aria-current="page"' if n.address == page.address else ""
    return f'<li><a href="{page.up(n.address)}"{current}>{escape(n.title)}</a>{inside}</li>\n'


def menu(navigation: dict[str, list[Node]], page: Page) -> str:
    parts = (
        f"<p>{k}</p><ul>{''.join(entry(n, page) for n in nodes)}</ul>"
        for k, nodes in navigation.items()
    )
    return "\n".join(parts)


def contents(page: Page) -> str:
    "On this page."
    found = [(level, name, text) for level, name, text in page.headings if level in (2, 3)]
    if page.wide or len(found) < 2:
        return ""
    items = (
        f'<li class="level{level}"><a href="#{name}">{escape(text)}</a></li>'
        for level, name, text in found
    )
    return f'<nav class="contents" aria-label="On this page"><p>On this page</p><ul>{"".join(items)}</ul></nav>'


def turn(order: list[Node], page: Page, step: int, way: str) -> str:
    "A link to the page before or after."
    at = next((i for i, n in enumerate(order) if n.address == page.address), None)
    if at is None or not 0 <= at + step < len(order):
        return ""
    return f'<a rel="{way}" href="{page.up(order[at + step].address)}">{escape(order[at + step].title)}</a>'


def write_pages(site: Site):
    "Every page in its frame, and the index of the search."
    navigation = all_pages(site)
    if site.faults:
        raise SiteError("\n".join(site.faults))
    order = [*flat(sum(navigation.values(), []))]
    frame = string.Template((HERE / "page.html").read_text())
    for page in site.pages:
        turns = turn(order, page, -1, "prev") + turn(order, page, 1, "next")
        site.write(
            page.address,
            frame.substitute(
                policy=POLICY,
                title=escape(page.title),
                up=page.up(""),
                menu=menu(navigation, page),
                body="".join(page.body),
                look="wide" if page.wide else "",
                contents=contents(page),
                turns=turns,
            ),
        )
    found = [[p.address, p.title, p.places(), " ".join(p.words)] for p in site.pages]
    site.write(
        INDEX, f"const PAGES = {json.dumps(found, ensure_ascii=False, separators=(',', ':'))}"
    )


# Checks of what was built

TAG = re.compile(r"""<([a-z]+)\s((?:[^"'>]|"[^"]*"|'[^']*')*)>""", re.I)
ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
LOADS = {"src", "srcset", "poster", "data", "action", "background", "xlink:href"}
HOST = r"""\s*["'`]?\s*(?:https?:)?//"""
CSS = re.compile(rf"(?:url\(|@import\s+(?:url\()?){HOST}", re.I)
JS = re.compile(
    rf"(?:\b(?:from|import|(?:import|importScripts|fetch|Worker|WebSocket|EventSource|sendBeacon)\()"
    rf"|\.open\([^)]{{0,12}},|\.src\s*=){HOST}"
)
QUICK = re.compile(r"""(?<!<a href=)["'(=,]\s*(?:https?:)?//""")  # few pages need a closer look


def loads(tag: str, name: str, value: str) -> bool:
    "Whether an attribute loads something from another host. A link to be clicked is not loaded."
    loaded = name in LOADS or (name == "href" and tag not in ("a", "area"))
    return bool(
        loaded
        and re.search(r"(?:^|[\s,])(?:https?:)?//", value)
        or name == "style"
        and CSS.search(value)
    )


def foreign(text: str, kind: str) -> list[str]:
    "What a file of the site loads from another host."
    if not QUICK.search(text):
        return []
    if kind != ".html":
        return [
            text[m.start() : m.end() + 60] for m in {".css": CSS, ".js": JS}[kind].finditer(text)
        ]
    found = [
        f"<{tag} {k}={v[:80]}>"
        for tag, rest in TAG.findall(text)
        for k, v in ATTRIBUTE.findall(rest)
        if loads(tag.lower(), k.lower(), v.strip("\"'"))
    ]
    for tag, inside in re.findall(r"<(style|script)\b[^>]*>(.*?)</", text, re.S):
        if (CSS if tag == "style" else JS).search(inside):
            found.append(f"<{tag}>")
    return found


def dead(texts: dict[str, str], files: set[str]) -> list[str]:
    "Links and pictures within the site that lead nowhere."
    ids = {at: set(re.findall(r'\sid="([^"]+)"', text)) for at, text in texts.items()}
    bad = []
    for at, text in texts.items():
        for link in set(
            re.findall(r'<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]*)"', text)
        ):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = unquote(html.unescape(link)).partition("#")
            to = (
                posixpath.normpath(posixpath.join(posixpath.dirname(at), name.partition("?")[0]))
                if name
                else at
            )
            if to not in files or (anchor and anchor not in ids.get(to, {anchor})):
                bad.append(f"{at}: the link {link} leads nowhere")
    return bad


def check(site: Path, *private: str) -> list[str]:
    "Faults of a built site."
    files = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    texts = {
        at: (site / at).read_text() for at in sorted(files) if at.endswith((".html", ".css", ".js"))
    }
    bad = dead({at: text for at, text in texts.items() if at.endswith(".html")}, files)
    for at, text in texts.items():
        if at != INDEX:
            bad += [f"{at}: loads from another host: {x}" for x in foreign(text, Path(at).suffix)]
        bad += [f"{at}: names the folder {x} of this machine" for x in private if x in text]
        if m := re.search(r'class="c">(#\|[^<]*)', text):
            bad.append(f"{at}: shows the directive {m[1]}")
    return bad


def build(out: Path):
    "Build aside, check, move into place."
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp) / "site"
        shutil.copytree(HERE / "static", folder / "static")
        write_pages(Site(folder))
        if bad := check(folder, str(ROOT), tmp):
            raise SiteError("\n".join(bad))
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists():
            shutil.rmtree(out)
        shutil.move(folder, out)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the static site.")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "_site", help="a folder; what is in it is replaced"
    )
    out = parser.parse_args().out.resolve()
    if out.exists() and any(out.iterdir()) and not (out / INDEX).exists():
        print(f"site: {out} is not empty and no site; name another folder", file=sys.stderr)
        return 2
    try:
        build(out)
    except SiteError as e:
        for line in str(e).splitlines():
            print(f"site: {line}", file=sys.stderr)
        return 1
    print(f"site: {sum(1 for _ in out.rglob('*.html'))} pages in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
