"Texts of others are only texts, whatever they say and wherever they go (F53, F68): each medium alone, then all pages in a browser."

import ast, csv, io, json, re, sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
import pytest
from hypothesis import given, strategies as st
from browser import Tab, port  # noqa: F401 (a fixture)
from payloads import HOSTILE, SCORE, STEERING, asked, write_files
from test_viewer import answered
import tools
import refnb.commands.listing as listing
import refnb.commands.terminal as terminal
from refnb.benchmarks.altentities.annotation_page import annotation_page
from refnb.benchmarks.altentities.builder import draft_of
from refnb.benchmarks.altentities.questions import read_altentities
from refnb.core.documents import Document
from refnb.core.inert import csv_line, csv_rows, inert, to_md, to_tex
from refnb.core.pages import page_data
from refnb.core.settings import packaged
from refnb.core.types import Answer, DataError, Span
from refnb.metrics.choice import outcomes
from refnb.metrics.uncertainty import Interval
from refnb.results.board import Board, Line
from refnb.results.pages.viewer import view
from refnb.results.plots import dots, slopes
from refnb.results.scores import score
from refnb.results.tables import Report

ROOT = Path(__file__).parents[1]
TABLE = "identifyme/table_3_main_results"
each = pytest.mark.parametrize("text", HOSTILE, ids=range(1, 16))
ANY = st.text(max_size=40)


def seen(text: str) -> str:
    "A text in one line, as its reader sees it."
    return inert(" ".join(text.split()))


def report(*texts: str) -> Report:
    "A report with texts as title, notes, mode, rows, columns, runs and reasons."
    r = Report(TABLE, "".join(texts))
    r.printed = r.printed.changed(title="".join(texts), notes=list(texts))
    for text in texts:
        r.add(text, text, -0.5, run=text)
        r.add(text, f"{text} 2", reason=text)
    return r


# Terminal


@given(st.one_of(ANY, st.sampled_from(HOSTILE)))
def test_f68_nothing_steers_a_terminal(text):
    got = inert(text)
    assert (
        not re.search(STEERING, got)
        and "\n" not in got
        and "\t" not in got
        and isinstance(got.encode(), bytes)
    )
    assert got == "".join(map(inert, text)) and (got == text or not text.isprintable())


def test_f68_letters_of_all_scripts_stay():
    for text in ("Zoë 王 🦊", "می\u200cخواهم", "👩\u200d🚀", "a\u00a0b"):
        assert inert(text) == text


def test_f68_the_command_line_prints_through_one_function():
    files = Path(terminal.__file__).parent.glob("*.py")
    calls = [
        n for f in files for n in ast.walk(ast.parse(f.read_text())) if isinstance(n, ast.Call)
    ]
    names = [ast.unparse(n.func) for n in calls]
    assert names.count("print") == 1 and not [
        n for n in names if n.endswith(("stdout.write", "stderr.write", "typer.echo", "secho"))
    ]


@pytest.fixture
def files(tmp_path, monkeypatch):
    "Questions and answers full of hostile texts, on a machine that has nothing else."
    for k, v in tools.clean(tmp_path).items():
        monkeypatch.setenv(k, v)
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


def test_f68_groups_of_scores_are_lines_of_text(files, capsys):
    said = tools.here(capsys, *SCORE)
    assert said.status == 0 and not re.search(STEERING, said.all)
    assert sorted(line.split("\t")[0] for line in said.out.splitlines()[2:]) == sorted(
        map(inert, HOSTILE)
    )


def test_f68_json_is_ascii_and_holds_the_texts(files, capsys):
    said = tools.here(capsys, *SCORE, "--json")
    assert (
        said.status == 0
        and re.fullmatch(r"[\n -~]*", said.out)
        and set(json.loads(said.out)["groups"]) == {"all", *HOSTILE}
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_f68_a_table_on_a_terminal_reads_no_markup(monkeypatch):
    monkeypatch.setenv("COLUMNS", "4000")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    terminal.print_table(
        [{"group": t, t: 1} for t in HOSTILE[:1]] + [{"group": t, "x": t} for t in HOSTILE]
    )
    bare = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert not re.search(STEERING, bare)
    for t in HOSTILE:
        assert inert(t) in bare, t


@pytest.mark.parametrize("debug", [(), ("--debug",)])
@each
def test_f68_an_error_is_text(capsys, monkeypatch, text, debug):
    for error in (
        DataError(text, f"where {text}", text),
        RuntimeError(text),
        OSError(5, text, text),
    ):

        def fail(s, error=error):
            raise error

        monkeypatch.setitem(listing.LISTS, "tables", fail)
        said = tools.here(capsys, "list", "tables", *debug)
        assert said.status == 1 and not re.search(STEERING, said.all)
        if not debug:
            tools.one_line(said, 1)


def test_f68_what_is_said_on_the_way_is_one_line(capsys):
    for json_ in (False, True):
        for text in HOSTILE:
            terminal.messages(json_)(text)
        out, err = capsys.readouterr()
        assert (err if json_ else out).splitlines() == [inert(t, keep="\t") for t in HOSTILE]


# Markdown


class Markup(HTMLParser):
    "The tags, attributes and text of some HTML."

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attrs, self.texts = set(), [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attrs += attrs

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def rendered(text: str) -> str:
    "Markdown as a reader shows it that lets HTML through."
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


PLACES = {
    "cell": "| a | b |\n|---|---|\n| {} | x |\n",
    "heading": "# {}\n",
    "item": "* {}\n",
    "paragraph": "(a) {}  \n(b) x\n",
    "alone": "{}\n",
}


@pytest.mark.parametrize("place", PLACES)
@each
def test_f68_a_text_in_markdown_is_text(text, place):
    pytest.importorskip("markdown_it")
    plain, got = (Markup(rendered(PLACES[place].format(to_md(t)))) for t in ("plain", text))
    assert (
        got.tags == plain.tags
        and got.attrs == plain.attrs
        and got.text == plain.text.replace("plain", seen(text))
    )


@given(ANY)
def test_f68_any_text_is_text_in_a_cell_of_markdown(text):
    pytest.importorskip("markdown_it")
    got = Markup(rendered(PLACES["cell"].format(to_md(text))))
    assert got.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert " ".join(got.text.split()) == " ".join(f"a b {seen(text)} x".split())


def pages_of_markdown(tmp_path) -> dict[str, str]:
    "Every page in Markdown, with hostile texts in every field."
    return {"report": report(*HOSTILE).markdown(), "board": "\n".join(board().values())}


def board() -> dict[str, str]:
    "The board, and the page of each paper."
    counts = (1, 1, 0, 0, Counter(), 0, 0, 0)
    line = lambda t: Line(TABLE, "3", t, "computed", *counts, f"stale: {t}", t, "1 s")
    b = Board([line(t) for t in HOSTILE])
    return {"reports/README.md": b.markdown()} | {
        f"reports/{paper}/README.md": text for paper, text in b.pages().items()
    }


def test_f53_no_page_of_markdown_becomes_markup(tmp_path):
    pytest.importorskip("markdown_it")
    ours = {
        f"{TABLE}.md",
        Path(f"{TABLE}.md").name,
        "identifyme/README.md",
        "../README.md",
        f"../../nbs/tables/{TABLE}.ipynb",
        *(f"{Path(TABLE).name}.{end}" for end in ("csv", "tex", "json")),
    }
    for name, page in pages_of_markdown(tmp_path).items():
        got = Markup(rendered(page))
        assert got.tags <= {
            "h1",
            "h2",
            "p",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "ul",
            "li",
            "em",
            "code",
            "br",
            "a",
            "img",
        }, name
        assert {k for k, _ in got.attrs} <= {"href", "src", "alt", "style"} and not re.search(
            STEERING, page
        ), name
        assert all(v in ours or v.startswith("text-align") for _, v in got.attrs), name
        for t in HOSTILE:
            assert seen(t) in " ".join(got.text.split()) or seen(t) in got.text, (name, t)


# LaTeX


@given(st.one_of(ANY, st.sampled_from(HOSTILE)))
def test_f68_nothing_of_a_text_is_a_command_of_latex(text):
    got = to_tex(text)
    bare = re.sub(
        r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]|\$\\checkmark\$|^\{[\[*]\}",
        "",
        got,
    )
    assert (
        not re.search(r"[\\&%$#_{}~^]|^[\[*]", bare)
        and "\n" not in got
        and not re.search(STEERING, got)
    )


def test_f68_a_report_in_latex_has_its_own_commands_alone():
    commands = lambda text: set(re.findall(r"\\[a-zA-Z]+", text))
    made = report(*HOSTILE).latex()
    assert commands(made) - commands(report("a").latex()) <= {
        r"\textbackslash",
        r"\textasciitilde",
        r"\textasciicircum",
        r"\allowbreak",
    }
    assert not re.search(r"^\s*[\[*]", made, re.M) and all(
        l.startswith(("\\raggedright ", " & ")) for l in made.splitlines() if l.endswith(r" \\")
    )


# CSV


@given(
    st.lists(
        st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(HOSTILE)),
        min_size=1,
        max_size=4,
    )
)
def test_f68_no_cell_is_a_formula_and_every_text_comes_back(texts):
    lines = csv_line(map(str, range(len(texts)))) + csv_line(texts)
    assert [*csv_rows(lines)[0].values()] == texts
    for cell in [*csv.reader(io.StringIO(lines, newline=""))][1]:
        assert (
            cell[:1] not in tuple("=+-@\t\r\n＝＋－＠")
            or re.fullmatch(r"-?\d+(\.\d+)?", cell)
            or not cell
        )


def test_f68_numbers_of_a_report_stay_numbers():
    r = report(*HOSTILE)
    assert [c["row"] for c in csv_rows(r.csv())] == [t for t in HOSTILE for _ in "12"] and [
        c["reason"] for c in csv_rows(r.csv())
    ][1::2] == HOSTILE
    for c in csv.DictReader(io.StringIO(r.csv(), newline="")):
        assert (
            c["ours"] in ("-0.5", "")
            and c["row"][0] not in "=+-@\t\r"
            and c["run"][:1] not in tuple("=+-@\t\r")
        )


# Figures


@pytest.mark.filterwarnings("ignore:Glyph .* missing", "ignore:constrained_layout not applied")
def test_f68_a_figure_reads_no_formula(tmp_path):
    iv = [Interval(0.5, 0.4, 0.6, 4, 1)] * len(HOSTILE)
    drawn = [
        dots({"".join(HOSTILE[:9]): {"$\\frac{": iv, "$x$": iv}}, HOSTILE, "$\\input{", "$y"),
        slopes({t: [1.0, 2.0] for t in HOSTILE}, ["$a$", "$\\b{"]),
    ]
    for k, figure in enumerate(drawn):
        figure.savefig(tmp_path / f"{k}.png", dpi=20)
        shown = [
            t for t in figure.findobj(lambda x: hasattr(x, "get_parse_math")) if "$" in t.get_text()
        ]
        assert not [
            t
            for t in figure.findobj(lambda x: hasattr(x, "get_text"))
            if re.search(STEERING, t.get_text())
        ]
        assert len(shown) > 2 and not any(t.get_parse_math() for t in shown)


# HTML


def looks(text: str) -> dict[str, str]:
    "What a notebook shows of things with a text in every field."
    q = asked(text)
    d = Document(
        text,
        ((text, "said", text),),
        ((Span(0, 0), Span(2, 2)),),
        (text,),
        {"kind": ((text, text),)},
        {"title": text},
    )
    return {
        "question": q._repr_html_(),
        "document": d._repr_html_(),
        "scores": score(outcomes([q], [Answer(q.id, (0,))]), "kind")._repr_html_(),
        "entities": d.entities().html,
    }


@each
def test_f53_what_a_notebook_shows_is_text(text):
    for (name, got), plain in zip(looks(text).items(), looks("plain").values(), strict=True):
        assert Markup(got).tags <= Markup(plain).tags | {"small"}, name
        assert {k for k, _ in Markup(got).attrs} <= {
            "style",
            "title",
            "start",
            "border",
            "class",
        }, name


@each
def test_f53_data_in_a_page_end_no_script(text):
    made = page_data({text: [text]})
    assert "<" not in made and made.isascii() and json.loads(made) == {text: [text]}


# All pages in a browser


def drafts(node: str) -> list:
    "Questions of the annotation page with hostile texts in every field."
    released = read_altentities(packaged("data/sample/altentities.json"), "sample")
    kinds = [
        draft_of(next(q for q in released if q.domain == domain), "sample", 0)
        for domain in ("BOOKS", "SONGS")
    ]

    def hostile(k: int, text: str):
        d = kinds[k % 2]
        choices = tuple(
            c.changed(name=f"{text} {j}", description=text, image_url=text)
            for j, c in enumerate(d.choices)
        )
        return d.changed(id=f"{k} {text} {node}", question=text, choices=choices)

    return [
        hostile(k, t) for k, t in enumerate([*HOSTILE, *HOSTILE])
    ]  # 15 is odd: each text is a book's and a song's


def two_runs(folder):
    "Two runs with hostile texts in every field."
    questions = [asked(t, k) for k, t in enumerate(HOSTILE)]
    for k in (0, 1):
        answers = [
            Answer(q.id, (k,), scores=(1.0, -1.0), raw=q.doc_key, reasoning=q.doc_key)
            for q in questions
        ]
        yield answered(
            folder,
            questions,
            answers,
            system="".join(HOSTILE[:2])[:90] + str(k),
            part=f"toy/{HOSTILE[1]}"[:60],
            prompt="".join(HOSTILE),
            settings={t: t for t in HOSTILE},
        )


def notebook() -> dict:
    "A notebook whose outputs hold hostile texts."
    shown = [
        {"output_type": "stream", "name": "stdout", "text": HOSTILE},
        {"output_type": "error", "traceback": HOSTILE},
    ]
    shown += [
        {"output_type": "display_data", "data": {"text/plain": HOSTILE}},
        {"output_type": "display_data", "data": {"text/markdown": "\n".join(map(to_md, HOSTILE))}},
    ]
    shown += [
        {"output_type": "display_data", "data": {"text/html": look}}
        for t in HOSTILE
        for look in looks(t).values()
    ]
    first = {
        "cell_type": "markdown",
        "metadata": {},
        "source": "# Hostile\n\n> " + " ".join(map(to_md, HOSTILE)),
    }
    return {
        "cells": [first, {"cell_type": "code", "metadata": {}, "source": "1", "outputs": shown}]
    }


@pytest.fixture
def tab(port, tmp_path):  # noqa: F811
    "A page; when the test is over nothing of others ran, asked anybody, or said an error."
    tab = Tab(port, "file://")
    yield tab
    try:
        assert not [
            u
            for u in tab.requests()
            if not u.startswith((f"file://{tmp_path}/", "data:", "about:", "blob:"))
        ]
        assert not tab.errors() and not [
            e for e in tab.events if e.get("method") == "Page.javascriptDialogOpening"
        ]
    finally:
        tab.close()


HARMLESS = """window.pwned === undefined && document.querySelectorAll('iframe').length == 0
    && [...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !a.name.startsWith('on') && !/^\\s*javascript:/i.test(a.value) || a.name == 'title'))"""


def open_page(tab: Tab, path: Path, query: str = ""):
    tab.open(str(path.with_suffix(""))[1:], query)
    assert tab.js(HARMLESS) is True, path


def texts_of(tab: Tab, where: str = "document.body") -> str:
    return tab.js(f"{where}.textContent")


def test_f53_the_viewer_shows_texts_and_runs_none(tab, tmp_path):
    view(*two_runs(tmp_path)).write(tmp_path / "page.html")
    open_page(tab, tmp_path / "page.html")
    for k, t in enumerate(HOSTILE):
        tab.js(f"choose(byId.get({json.dumps(f'{k}{t}')}))")
        assert (
            t in texts_of(tab, "document.querySelector('#question')")
            and tab.js("document.querySelector('#question h2').textContent") == f"{k}{t}"
        )
        tab.js(f"search.value = {json.dumps(t)}; seek(); clear()")
    for i in range(tab.js("fields.length")):
        tab.js(
            f"(s => {{ s.value = {i}; s.dispatchEvent(new Event('change', {{bubbles: true}})) }})(at('by'))"
        )
    assert tab.js(HARMLESS) is True


def test_f53_the_annotation_page_shows_texts_and_runs_none(tab, tmp_path, request):
    made = annotation_page(
        asks := drafts(request.node.name),
        title="".join(HOSTILE),
        send="".join(HOSTILE),
        shuffle=False,
    )
    (tmp_path / "page.html").write_text(made, encoding="utf-8", newline="")
    open_page(tab, tmp_path / "page.html")
    assert HOSTILE[0] in texts_of(tab, "document.querySelector('h1')") and HOSTILE[0] in tab.js(
        "document.title"
    )
    tab.press("Enter")
    for d in asks:
        assert (
            tab.js("current().id") == d.id
            and d.question in texts_of(tab, "document.querySelector('.cartoon')")
            and tab.js(HARMLESS) is True
        )
        assert tab.js(
            "[...document.querySelectorAll('main a')].every(a => ['https:', 'http:'].includes(a.protocol))"
        )
        tab.press("Enter")
        assert tab.js(HARMLESS) is True and d.choices[d.target_index].name.split(" (by")[0][
            :20
        ] in texts_of(tab, "document.querySelector('#meant')")
        tab.js("finish([])")


def test_f53_reports_show_texts_and_run_none(tab, tmp_path):
    "Reports, as a reader of Markdown shows them that lets HTML through and knows no policy."
    pytest.importorskip("markdown_it")
    for k, (name, text) in enumerate(pages_of_markdown(tmp_path / "reports").items()):
        path = tmp_path / f"page{k}.html"
        path.write_text(
            f"<!DOCTYPE html><meta charset=utf-8><link rel=icon href=data:,><body>{rendered(text)}",
            encoding="utf-8",
        )
        open_page(tab, path)
        assert all(seen(t) in texts_of(tab) for t in HOSTILE), name
