"The reference: a page for each module, read from its source."

import ast, re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple
from markup import Page, code_block, escape, table
from pages import ROOT, link

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
BEFORE = r"""(?:[^"'#]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*"""  # what is before a comment: code and strings
COMMENT = re.compile(rf"{BEFORE}#\s*(.*)")


class Module(NamedTuple):
    "A module's source, and what it defines."

    doc: str
    lines: list[str]
    defined: dict[str, ast.AST]
    exported: list[str]


def definitions(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    "Names and where they are defined; conditions are looked into."
    for n in body:
        if isinstance(n, (*Function, ast.ClassDef)):
            yield n.name, n
        elif isinstance(n, (ast.If, ast.Try)):
            yield from definitions([*n.body, *n.orelse])
        elif isinstance(n, ast.AnnAssign) and n.value:
            yield n.target.id, n.value
        elif isinstance(n, ast.Assign):
            yield from (x for t in n.targets for x in assigned(t, n.value))


def assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    "The names of an assignment; `A, B = 1, 2` are two."
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for t, v in zip(target.elts, values):
            yield from assigned(t, v)


@cache
def load(name: str) -> Module:
    "Read `refnb.core.types`."
    path = ROOT.joinpath(*name.split("."))
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    tree = ast.parse(text)
    defined = dict(definitions(tree.body))
    names = re.search(r"^__all__ = (\[.*?\])$", text, re.M | re.S)
    exported = [
        x.value for x in ast.parse(names[1]).body[0].value.elts if isinstance(x, ast.Constant)
    ]
    return Module(ast.get_docstring(tree) or "", text.splitlines(), defined, exported)


def first_line(node: ast.AST) -> str:
    return (ast.get_docstring(node) or " ").splitlines()[0]


# Signatures and comments


def annotation(kind: ast.expr) -> str:
    "A type as it is written; one in quotation marks without them."
    return kind.value if isinstance(kind, ast.Constant) and kind.value else ast.unparse(kind)


def typed(name: str, kind: ast.expr | None, value: ast.expr | None) -> str:
    "`name: type = value`, as far as there are type and value."
    text = f"{name}: {annotation(kind)}" if kind else name
    return text if value is None else f"{text}{' = ' if kind else '='}{ast.unparse(value)}"


def parameters(f) -> list[str]:
    "A function's parameters in order, with `/` and `*`."
    a = f.args
    plain = [*a.posonlyargs, *a.args]
    values = [None] * (len(plain) - len(a.defaults)) + a.defaults
    parts = [typed(x.arg, x.annotation, v) for x, v in zip(plain, values)]
    if a.posonlyargs:
        parts.insert(len(a.posonlyargs), "/")
    if a.vararg:
        parts.append(typed(f"*{a.vararg.arg}", a.vararg.annotation, None))
    elif a.kwonlyargs:
        parts.append("*")
    parts += [typed(x.arg, x.annotation, v) for x, v in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg:
        parts.append(typed(f"**{a.kwarg.arg}", a.kwarg.annotation, None))
    return [p for p in parts if p not in ("self", "cls")]


def signature(word: str, name: str, parts: list[str], returns: ast.expr | None = None) -> str:
    "A definition's first line, or one line for each parameter."
    end = f") -> {annotation(returns)}" if returns else ")"
    short = f"{word} {name}({', '.join(parts)}{end}"
    return (
        short
        if len(short) < 80
        else f"{word} {name}(\n" + "".join(f"    {p},\n" for p in parts) + end
    )


def comments(f, lines: list[str]) -> dict[str, str]:
    "The comment beside each parameter and beside what is returned."
    a = f.args
    named = {
        x.lineno: x.arg for x in (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg) if x
    }
    if f.returns:
        named[f.returns.end_lineno] = "returns"
    found = {name: COMMENT.match(lines[n - 1]) for n, name in named.items() if n < f.body[0].lineno}
    return {name: m[1] for name, m in found.items() if m}


def fields(c: ast.ClassDef, lines: list[str]) -> dict[str, str]:
    "A record's fields, with the comment beside each."
    found = {}
    for n in c.body:
        if not isinstance(n, ast.AnnAssign) or n.target.id.startswith("_"):
            continue
        m = COMMENT.match(lines[n.end_lineno - 1])
        found[typed(n.target.id, n.annotation, n.value)] = m[1] if m else ""
    return found


# Pages


def heading(page: Page, level: int, anchor: str, name: str, source: str = ""):
    page.heading(level, name, anchor)
    page.add(f'<h{level} id="{anchor}"><code>{name}</code>{source}</h{level}>', found=False)


def docstring(page: Page, node: ast.AST):
    "A docstring; an example in it is code."
    page.markdown(
        re.sub(
            r"^>>> .*(?:\n.+)*", r"```pycon\n\g<0>\n```", ast.get_docstring(node) or "", flags=re.M
        )
    )


def beside(page: Page, what: str, rows: dict[str, str]):
    "A table of the comments beside parameters or fields."
    rows = [[f"<code>{escape(k)}</code>", page.inline(v)] for k, v in rows.items()]
    if rows:
        page.add(table([what, "what it is"], rows))


def function(page: Page, f, lines: list[str]):
    word = "async def" if isinstance(f, ast.AsyncFunctionDef) else "def"
    if "property" in {ast.unparse(d) for d in f.decorator_list}:
        word = "@property\ndef"
    page.add(code_block(signature(word, f.name, parameters(f), f.returns)), found=False)
    docstring(page, f)
    beside(page, "parameter", comments(f, lines))


def class_(page: Page, c: ast.ClassDef, anchor: str, lines: list[str]):
    "A class: how it is made, its fields, its public methods."
    methods = {n.name: n for n in c.body if isinstance(n, Function)}
    init = methods.get("__init__")
    parts = parameters(init) if init else [ast.unparse(b) for b in c.bases]
    page.add(code_block(signature("class", c.name, parts)), found=False)
    docstring(page, c)
    if init:
        docstring(page, init)
        beside(page, "parameter", comments(init, lines))
    else:
        beside(page, "field", fields(c, lines))
    for name, f in methods.items():
        if name.startswith("_"):
            continue
        heading(page, 3, f"{anchor}.{name}", f"{c.name}.{name}")
        function(page, f, lines)


def constants(page: Page, values: dict[str, ast.AST]):
    "Names that are neither function nor class."

    def shown(node) -> str:
        text = ast.unparse(node)
        return f"<code>{escape(text if len(text) < 119 else text[:117] + '…')}</code>"

    if not values:
        return
    page.markdown("## Constants and types")
    page.add(table(["name", "value"], [[f"<code>{n}</code>", shown(v)] for n, v in values.items()]))


def module(site, name: str, written: Page) -> Page:
    "A module's page; `written` is the page of its notebook."
    page, it = Page(site, f"api/{name}.html"), load(name)
    there = page.up(written.address)
    page.markdown(f"# {name}\n\n{it.doc}")
    page.add(f"<p>Written in {link(there, escape(written.title))}.</p>", found=False)
    got = {n: it.defined[n] for n in it.exported}
    for n, node in got.items():
        if not isinstance(node, (*Function, ast.ClassDef)):
            continue
        heading(
            page, 2, f"{name}.{n}", n, f' <a class="source" href="{there}#def-{n}">[source]</a>'
        )
        if isinstance(node, ast.ClassDef):
            class_(page, node, f"{name}.{n}", it.lines)
        else:
            function(page, node, it.lines)
    constants(page, {n: v for n, v in got.items() if not isinstance(v, (*Function, ast.ClassDef))})
    return page


def package(site) -> Page:
    "The names that `import refnb` gives."
    import refnb

    page, rows = Page(site, "api/refnb.html"), []
    for name, at in refnb._NAMES.items():
        home, _, real = at.partition(":")
        node = load(f"refnb.{home}").defined[real or name]
        where = f"refnb.{home}.html#refnb.{home}.{real or name}"
        about = page.inline(first_line(node)) if hasattr(node, "body") else ""
        rows.append([f"<code>refnb.{name}</code>", link(where, f"refnb.{home}"), about])
    page.markdown(f"# refnb\n\n{refnb.__doc__}")
    page.add(table(["name", "from", "what"], rows))
    return page


def contents(site, modules: list[str]) -> Page:
    "The list of all modules."
    page = Page(site, "api/index.html")
    page.markdown(
        "# API\n\n> Every exported function and class, with the comments beside its parameters."
    )
    rows = [[link(f"{m}.html", m), page.inline(load(m).doc.partition("\n")[0])] for m in modules]
    page.add(table(["module", "what"], rows))
    return page
