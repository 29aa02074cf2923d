"Texts of others are only texts, whatever they say and wherever they go (F53, F68): each medium alone, then all pages in a browser."

# ruff: noqa: F811 (the fixtures of browser.py)

import ast, csv, hashlib, html, io, json, re, sys
from base64 import b64encode
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
import pytest
from hypothesis import given, strategies as st
from browser import HARMLESS, Reader, nothing_leaves, port, reader  # noqa: F401
from payloads import HOSTILE, SCORE, STEERING, asked, write_files
from servers import Tree
from test_viewer import answered
import tools
import refnb.commands.listing as listing
import refnb.commands.terminal as terminal
from refnb.benchmarks.altentities.annotation_page import annotation_page
from refnb.benchmarks.altentities.builder import draft_of
from refnb.benchmarks.altentities.questions import read_altentities
from refnb.core.documents import Document
from refnb.core.inert import csv_line, csv_rows, inert, to_md, to_tex
from refnb.core.files import CANARY
from refnb.core.settings import packaged
from refnb.core.types import Answer, DataError, Span
from refnb.metrics.choice import outcomes
from refnb.metrics.uncertainty import Interval
from refnb.results.board import Board, Line
from refnb.models.annotation.checking import correction_page
from refnb.results.pages.book_view import view_book
from refnb.results.pages.report import Entry, LeftOut, Rankings, make_rankings
from refnb.results.pages.viewer import view
from refnb.results.plots import dots, lines
from refnb.results.scores import score
from refnb.results.tables import Report

ROOT = Path(__file__).parents[2]
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
        assert data == f" {CANARY['canary']} {CANARY['wish']} ", data

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
        lines({"$a$": {t: ([1, 2], [1.0, 2.0]) for t in HOSTILE}}, "$\\b{"),
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


# The pages


def drafts(*texts: str) -> list:
    "Questions of the annotation page, a book's and a song's in turn, with a text in every field."
    released = read_altentities(packaged("data/sample/altentities.json"), "sample")
    first = {q.domain: q for q in reversed(released)}
    kinds, out = [draft_of(first[d], "sample", 0) for d in ("BOOKS", "SONGS")], []
    for k, t in enumerate(texts):
        d, choices = kinds[k % 2], []
        for j, c in enumerate(d.choices):
            choices.append(c.changed(name=f"{t} {j}", description=t, image_url=t))
        out.append(d.changed(id=f"{k} {t}", question=t, choices=tuple(choices)))
    return out


def book_of(*texts: str) -> Document:
    spans = tuple((Span(3 * k, 3 * k), Span(3 * k + 2, 3 * k + 2)) for k in range(len(texts)))
    sentences = tuple((t, "said", t) for t in texts)
    title = "".join(texts)
    return Document(title, sentences, spans, texts, meta={"title": title})


def views(folder, *texts: str):
    "Two runs with texts in every field."
    questions, runs = [asked(t, k) for k, t in enumerate(texts)], []
    for k in (0, 1):
        said = dict(scores=(1.0, -1.0))
        answers = [
            Answer(q.id, (k,), raw=q.doc_key, reasoning=q.doc_key, **said) for q in questions
        ]
        about = dict(prompt="".join(texts), settings={t: t for t in texts})
        system, part = f"{texts[0][:60]}{k}", f"toy/{texts[0][:50]}"
        runs.append(answered(folder, questions, answers, system, part, **about))
    return view(*runs)


def ranking(*texts: str) -> Rankings:
    entries = []
    for k, t in enumerate(texts):
        ids = {f"{t}{i}": float(i % 2 == k % 2) for i in range(4)}
        of = dict.fromkeys(ids, t)
        entries += [Entry(t, f"{t}{s}", "0f", "q", "accuracy", ids, of, {}, {}, 0.5) for s in "ab"]
    return Rankings(make_rankings(entries), [LeftOut(t, t, t) for t in texts])


def pages(folder, *texts: str) -> dict[str, str]:
    "Every page, with texts in every field."
    d = book_of(*texts)
    return {
        "viewer": views(folder, *texts).page(),
        "book": view_book(d, d.changed(names=()), (texts[0], texts[-1])).page(),
        "correction": correction_page(d),
        "report": ranking(*texts).page(),
        "annotation": annotation_page(drafts(*texts), "".join(texts), send="".join(texts)),
    }


@each
def test_f53_nothing_in_a_page_becomes_markup(tmp_path, text):
    known = pages(tmp_path / "plain", "plain") | {"table": views(tmp_path, "plain")._repr_html_()}
    made = pages(tmp_path / "x", text) | {"table": views(tmp_path / "y", text)._repr_html_()}
    for name, page in made.items():
        got, plain = Markup(page), Markup(known[name])
        assert got.tags == plain.tags, name
        assert [k for k, _ in got.attrs] == [k for k, _ in plain.attrs], name
        for inside in re.findall(r'json" id="\w+">(.*?)</script>', page, re.S):
            assert "<" not in inside and inside.isascii() and json.loads(inside)


def test_pages_load_and_send_nothing(tmp_path):
    leaving = r"fetch|XMLHttp|WebSocket|sendBeacon|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|import\("
    for name, page in pages(tmp_path, "plain").items():
        policy = re.search('Content-Security-Policy" content="([^"]+)"', page)[1]
        own = {
            tag: re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S)[1] for tag in ("style", "script")
        }
        for tag, inside in own.items():
            digest = b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy, name
        assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
        assert not re.search(r"url\(|@import|https?:", own["style"]), name
        assert not re.search(leaving, own["script"]), name
        loaded = [v for k, v in Markup(page).attrs if k in ("src", "href", "action", "srcset")]
        assert all(v.startswith(("data:", "#")) for v in loaded), name


def test_f52_a_key_is_refused_on_every_page(tmp_path, monkeypatch):
    key = "correct <horse> 'battery'"
    makers = {
        "viewer": lambda: views(tmp_path, key).page(),
        "table": lambda: views(tmp_path, key)._repr_html_(),
        "book": lambda: view_book(book_of(key)).page(),
        "correction": lambda: correction_page(book_of(key)),
        "report": lambda: ranking(key).page(),
        "annotation": lambda: annotation_page(drafts(key), key),
    }
    assert all(make() for make in makers.values())
    monkeypatch.setenv("SOME_VENDOR_API_KEY", key)
    for name, make in makers.items():
        with pytest.raises(DataError, match="environment variable SOME_VENDOR_API_KEY") as e:
            make()
        assert "horse" not in str(e.value), name
    made = views(tmp_path, "plain").page()
    assert key not in html.unescape(made) and str(tmp_path) not in made


def test_letters_stand_out_in_both_looks():
    css = packaged("data/pages/base.css").read_text()

    def light(color: str) -> float:  # relative luminance, as WCAG has it
        parts = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
        r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    looks = re.findall(r":root \{(.*?)\}", css, re.S)
    assert len(looks) == 2
    for look in looks:
        v = {name: light(c) for name, c in re.findall(r"--([\w-]+): (#\w{6})", look)}
        letters = [(a, b) for a in ("ink", "soft", "main", "good", "bad") for b in ("card", "page")]
        letters += [("ink", x) for x in ("mark", "notice", "bar", "chosen")] + [("main", "on-main")]
        lines = [(x, "card") for x in ("line", "kx", *(f"k{i}" for i in range(8)))]
        for pairs, least in ((letters, 4.5), (lines, 3)):
            for a, b in pairs:
                high, low = sorted((v[a], v[b]), reverse=True)
                assert (high + 0.05) / (low + 0.05) >= least, (a, b)


# In a browser


def test_f53_nothing_leaves_a_page(port, tmp_path):
    with Tree(tmp_path) as tree:
        for page in pages(tmp_path, "plain").values():
            tab = Reader(port, "file://")
            tab.folder = tmp_path
            try:
                tab.show(page)
                nothing_leaves(tab.js, tab, tree)
            finally:
                tab.close()


def test_f53_the_viewer_shows_texts_and_runs_none(reader, tmp_path):
    reader.show(views(tmp_path, *HOSTILE).page())
    for k, t in enumerate(HOSTILE):
        reader.js(f"choose(byId.get({json.dumps(f'{k}{t}')}))")
        assert t in reader.js("document.querySelector('#question').textContent")
        reader.js(f"search.value = {json.dumps(t)}; seek(); clear()")
    for i in range(reader.js("fields.length")):
        reader.set("by", i, "change")
    assert reader.js(HARMLESS) is True


def test_f53_a_book_shows_texts_and_runs_none(reader):
    d = book_of(*HOSTILE)
    other = d.changed(clusters=d.clusters[1:] + d.clusters[:1], names=())
    reader.show(view_book(d, other, HOSTILE[:2]).page())
    for k, t in enumerate(HOSTILE):
        reader.js(f"pick({k})")
        reader.press("n", "d")
        reader.js(f"at('search').value = at('filter').value = {json.dumps(t)}; find(); list()")
        assert reader.js(HARMLESS) is True, t
        reader.js("at('search').value = at('filter').value = ''; find(); list()")
    assert "<script>window.pwned" in reader.js("document.body.textContent")
    assert not re.search(r"[\x00-\x08\x1b\u202e]", reader.js("flow.textContent"))


def test_f53_the_correction_page_shows_texts_and_runs_none(reader):
    reader.show(correction_page(book_of(*HOSTILE)))
    reader.wait("document.activeElement.id == 'text'")
    for k, t in enumerate(HOSTILE):
        reader.press("e")
        reader.call("Input.insertText", text=f"{t[:60].strip()}{k}")
        reader.press("Enter", "n", "ArrowRight")
    assert reader.js(HARMLESS) is True and reader.js("edits.length") >= 15
    assert HOSTILE[0] in reader.js("document.querySelector('#text').textContent")


def test_f53_the_annotation_page_shows_texts_and_runs_none(reader):
    asks = drafts(*HOSTILE, *HOSTILE)  # 15 is odd: each text is a book's and a song's
    reader.show(annotation_page(asks, "".join(HOSTILE), shuffle=False, send="".join(HOSTILE)))
    assert HOSTILE[0] in reader.js("document.querySelector('h1').textContent")
    safe = "[...document.querySelectorAll('main a')].every(a => ['https:', 'http:'].includes(a.protocol))"
    reader.press("Enter")
    for d in asks:
        cartoon = reader.js("document.querySelector('.cartoon').textContent")
        assert reader.js("current().id") == d.id and d.question in cartoon
        assert reader.js(HARMLESS) is True and reader.js(safe)
        reader.press("Enter")
        assert reader.js(HARMLESS) is True
        reader.js("finish([])")


def test_f53_reports_show_texts_and_run_none(reader, tmp_path):
    "Reports, as a reader of Markdown shows them that lets HTML through and knows no policy."
    pytest.importorskip("markdown_it")
    for name, text in pages_of_markdown(tmp_path / "reports").items():
        head = "<!DOCTYPE html><meta charset=utf-8><link rel=icon href=data:,><body>"
        reader.show(head + rendered(text))
        shown = reader.js("document.body.textContent")
        assert reader.js(HARMLESS) is True and all(seen(t) in shown for t in HOSTILE), name
