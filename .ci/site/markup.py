"Markdown, code, formulas and tables as HTML, and the page that collects them."

import html, keyword, re
from collections.abc import Callable
from functools import cache
from itertools import groupby
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

STYLES = {
    Comment: "c",
    String: "s",
    Number: "n",
    Keyword: "k",
    Operator.Word: "k",
    Name.Decorator: "f",
    Name.Function: "f",
    Name.Class: "f",
}


@cache
def style(token) -> str:
    "The class of a token in the style sheet; most tokens have none."
    return STYLES.get(token, "") or (style(token.parent) if token.parent else "")


def escape(text: str) -> str:
    return html.escape(text, quote=False)


@cache
def lexer(language: str):
    return get_lexer_by_name(language, stripnl=False)


# most code is Python, and pygments takes a third of a build for it; a part is named by its class in the style sheet
PYTHON = re.compile(
    rf"""(?P<c>\#.*)
    |(?P<s>(?:\b[rbfuRBFU]{{1,2}})?(?:\"{{3}}[\s\S]*?\"{{3}}|'{{3}}[\s\S]*?'{{3}}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<f>(?<=\bdef\ )\w+|(?<=\bclass\ )\w+|^\ *@[\w.]+)
    |(?P<k>\b(?:{"|".join(keyword.kwlist)})\b)
    |(?P<n>\b\d[\w.]*)""",
    re.M | re.X,
)


def marked(part: re.Match) -> str:
    return f'<span class="{part.lastgroup}">{part[0]}</span>'


def highlight(text: str, language: str = "python") -> str:
    "Code with its comments, strings, numbers, keywords and names in colour."
    if language == "python":
        return PYTHON.sub(marked, escape(text)).rstrip("\n")
    try:
        tokens = lexer(language or "text").get_tokens(text)
    except ClassNotFound:
        return escape(text)
    parts = []
    for name, group in groupby(tokens, lambda t: style(t[0])):
        part = escape("".join(value for _, value in group))
        parts.append(f'<span class="{name}">{part}</span>' if name else part)
    return "".join(parts).rstrip("\n")


def code_block(text: str, language: str = "python", attributes: str = "") -> str:
    return f'<pre class="code"><code>{highlight(text, language)}</code></pre>\n'


def formula(text: str, options: dict = {}) -> str:
    "MathML, which every current browser draws without a script."
    return convert(text, display="block" if options.get("display_mode", True) else "inline")


def plain(markup: str) -> str:
    "The words of some HTML, without formulas, heads of tables and numbers in them."
    text = re.sub(
        r"<math.*?</math>|<thead>.*?</thead>|<td[^>]*>[^<A-Za-z]*</td>|<[^>]+>",
        " ",
        markup,
        flags=re.S,
    )
    return " ".join(html.unescape(text).split())


def table(head: list[str], rows: list[list], right: str = "") -> str:
    "A table of cells that are HTML; columns named in `right` are numbers."
    styles = [' class="number"' if h in right.split(",") else "" for h in head]

    def line(row, tag: str) -> str:
        return "".join(f"<{tag}{s}>{x}</{tag}>" for x, s in zip(row, styles)) + "</tr>\n"

    body = "".join("<tr>" + line(r, "td") for r in rows)
    return f'<div class="scroll"><table><thead><tr>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>\n'


# Markdown


def refine(state):
    "Give headings their anchors, and links the addresses they have on the site."
    page = state.env["page"]
    for i, token in enumerate(state.tokens):
        if token.type == "heading_open":
            text = "".join(t.content for t in state.tokens[i + 1].children)
            token.attrs["id"] = page.heading(int(token.tag[1]), text)
        for t in token.children or ():
            key = {"link_open": "href", "image": "src"}.get(t.type)
            if key:
                t.attrs[key] = page.link(t.attrs[key])


def reader(*plugins) -> MarkdownIt:
    md = MarkdownIt("commonmark", dict(html=False, highlight=code_block)).enable(
        ["table", "strikethrough"]
    )
    for plugin, options in plugins:
        md.use(plugin, renderer=formula, **options)
    md.core.ruler.push("refine", refine)
    md.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>\n')
    md.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return md


PLAIN = reader()
FORMULAS = reader((dollarmath_plugin, dict(allow_space=False)), (amsmath_plugin, {}))


class Page:
    "A page while it is made: its HTML, its headings, and the words it is found by."

    def __init__(self, site, address: str, source: str = "", wide: bool = False):
        self.site, self.address, self.source, self.wide = site, address, source, wide
        self.body, self.headings, self.ids, self.words, self.defined = [], [], set(), [], []

    @property
    def title(self) -> str:
        return self.headings[0][2]

    def places(self) -> list[tuple[str, str]]:
        "Anchors and what they are called: headings, and what the code defines."
        named = [(f"def-{n}", n) for n in self.defined if not n.startswith("_")]
        return [(name, text) for _, name, text in self.headings[1:]] + named

    def up(self, address: str) -> str:
        "The address of another page of the site, as seen from this one."
        return "../" * self.address.count("/") + address

    def link(self, link: str) -> str:
        return self.site.target(link, self.source, self) if self.source else link

    def heading(self, level: int, text: str, name: str = "") -> str:
        "The anchor of a heading."
        name = name or re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
        while name in self.ids:
            name += "-1"
        self.ids.add(name)
        self.headings.append((level, name, text))
        return name

    def add(self, markup: str, found: bool = True):
        "Some HTML; `found` by the search or not."
        self.body.append(markup)
        if found:
            self.words.append(plain(markup))

    def markdown(
        self,
        text: str,
        reader: MarkdownIt = PLAIN,
        tables: str = "",
        cell: Callable[[str], str] | None = None,
    ):
        "Some Markdown; `tables` is the class of its tables, `cell` changes the HTML of each of their cells."
        markup = reader.render(text, {"page": self})
        if cell:
            markup = re.sub(r"(?<=<td)[^>]*>.*?(?=</td>)", lambda m: cell(m[0]), markup)
        self.add(markup.replace("<table>", f'<table class="{tables}">') if tables else markup)

    def inline(self, text: str) -> str:
        return PLAIN.renderInline(text, {"page": self})
