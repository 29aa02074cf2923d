"Texts of others are only texts in every medium: terminal, Markdown, LaTeX, CSV, figures."

import ast, csv, io, json, re, sys
from pathlib import Path
import pytest
from hypothesis import given, strategies as st
from pages_markup import Markup, file_name, hostile_board, hostile_report, rendered, seen
from payloads import HOSTILE, SCORE, STEERING, write_files
import refnb.commands
from refnb.core.pages import csv_line, csv_rows, inert, to_md, to_tex
from refnb.core.settings import load_settings
from refnb.metrics.uncertainty import Interval
from refnb.results.plots import dots, lines
from tools import here, live_in, one_line

ANY = st.one_of(st.text(max_size=40), st.sampled_from(HOSTILE))
FORMULAS = tuple("=+-@\t\r\n＝＋－＠")


# Terminal


@given(ANY)
def test_nothing_steers_a_terminal(text):
    got = inert(text)
    assert not re.search(STEERING, got) and not set(got) & {"\n", "\t"}
    assert got.encode().decode() == got == "".join(map(inert, text))
    assert got == text or not text.isprintable()


def test_letters_of_all_scripts_stay():
    for text in ("Zoë 王 🦊", "می\u200cخواهم", "👩\u200d🚀", "a\u00a0b"):
        assert inert(text) == text


def test_the_command_line_prints_through_one_function():
    files = Path(refnb.commands.__file__).parent.glob("*.py")
    nodes = [n for f in files for n in ast.walk(ast.parse(f.read_text()))]
    names = [ast.unparse(n.func) for n in nodes if isinstance(n, ast.Call)]
    others = ("stdout.write", "stderr.write", "typer.echo", "secho")
    assert names.count("print") == 1 and not [n for n in names if n.endswith(others)]


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    "A folder with questions and answers full of hostile texts, on a machine that has nothing else."
    live_in(monkeypatch, tmp_path)
    write_files(tmp_path)
    return tmp_path


def test_scores_by_hostile_groups_are_lines_of_text_or_json(home, capsys):
    said = here(capsys, *SCORE)
    assert said.status == 0 and not re.search(STEERING, said.all)
    groups = [line.split("\t")[0] for line in said.out.splitlines()[2:]]
    assert sorted(groups) == sorted(map(inert, HOSTILE))

    said = here(capsys, *SCORE, "--json")
    assert said.status == 0 and re.fullmatch(r"[\n -~]*", said.out)
    assert set(json.loads(said.out)["groups"]) == {"all", *HOSTILE}


def test_a_table_on_a_terminal_reads_no_markup(home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "4000")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    said = here(capsys, *SCORE)
    bare = re.sub(r"\x1b\[[\d;]*m", "", said.out)
    assert said.status == 0 and not re.search(STEERING, bare)
    assert not [t for t in HOSTILE if inert(t) not in bare]


FAILS = """\
from pathlib import Path
text = lambda: Path("text").read_bytes().decode()
def unknown(outcomes): raise RuntimeError(text())
def disk(outcomes): raise OSError(5, text(), text())
"""


def test_an_error_that_names_a_text_is_one_line_of_text(home, capsys):
    (home / "fails.py").write_text(FAILS)
    for text in HOSTILE:
        (home / "text").write_bytes(text.encode())
        (home / "fields.jsonl").write_text(json.dumps({"id": "a", text: 1}))
        for args in (
            ("score", "choice", text),
            ("list", "runs", text),
            ("view", text),
            ("run", text, "random"),
            ("score", "choice", "a.jsonl", "--gold", "fields.jsonl"),
            (*SCORE[:-2], "--metric", "fails.py:unknown"),
            (*SCORE[:-2], "--metric", "fails.py:disk"),
        ):
            said = here(capsys, *args)
            assert said.status in (1, 2) and not re.search(STEERING, said.all), (args, said)
            one_line(said, said.status)
        traceback = here(capsys, *args, "--debug").err
        assert "Traceback" in traceback and not re.search(STEERING, traceback), text


# Markdown

PLACES = {
    "cell": "| a | b |\n|---|---|\n| {} | x |\n",
    "heading": "# {}\n",
    "item": "* {}\n",
    "paragraph": "(a) {}  \n(b) x\n",
    "alone": "{}\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_text_in_markdown_is_text(place):
    plain = Markup(rendered(PLACES[place].format("plain")))
    for text in HOSTILE:
        got = Markup(rendered(PLACES[place].format(to_md(text))))
        assert (got.tags, got.attrs) == (plain.tags, plain.attrs), text
        assert got.text == plain.text.replace("plain", seen(text))


@given(ANY)
def test_any_text_is_text_in_a_cell_of_markdown(text):
    got = Markup(rendered(PLACES["cell"].format(to_md(text))))
    assert got.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert got.text.split() == f"a b {seen(text)} x".split()


def test_reports_and_the_board_are_text_whatever_they_name(tmp_path):
    settings = load_settings("/", env={}, offline=True, reports=str(tmp_path))
    pages = {
        "report": (hostile_report(*HOSTILE).markdown(), HOSTILE),
        "board": (hostile_board(settings, *HOSTILE), map(file_name, HOSTILE)),
    }
    tags = "h1 h2 p table thead tbody tr th td ul li em code br a img".split()
    for name, (page, texts) in pages.items():
        got = Markup(rendered(page))
        assert not re.search(STEERING, page) and got.tags <= set(tags), name
        for attr, value in got.attrs:
            assert attr in ("href", "src", "alt", "style"), name
            assert re.fullmatch(r"text-align:\w+|[\w./-]+\.(md|ipynb|csv|tex|json)", value), value
        words = " ".join(got.text.split())
        assert not [t for t in texts if seen(t) not in words and seen(t) not in got.text], name


# LaTeX


@given(ANY)
def test_nothing_of_a_text_is_a_command_of_latex(text):
    got = to_tex(text)
    letters = r"\\text(backslash|asciitilde|asciicircum|less|greater|bar)\{\}|\\[&%$#_{}]"
    signs = r"\$(\\(checkmark|le|ge|ne|approx|to)|-)\$"
    bare = re.sub(rf"{letters}|{signs}|^\{{[\[*]\}}", "", got)
    assert not re.search(r"[\\&%$#_{}~^<>|−≤≥≠≈→✓]|^[\[*]", bare)
    assert "\n" not in got and not re.search(STEERING, got)


def test_a_report_in_latex_has_its_own_commands_alone():
    commands = lambda text: set(re.findall(r"\\[a-zA-Z]+", text))
    made = hostile_report(*HOSTILE).latex()
    letters = {rf"\text{x}" for x in "backslash asciitilde asciicircum less greater bar".split()}
    letters |= {r"\allowbreak"}
    assert commands(made) <= commands(hostile_report("a").latex()) | letters
    assert not re.search(r"^\s*[\[*]", made, re.M)
    rows = [line for line in made.splitlines() if line.endswith(r" \\")]
    assert rows and all(line.startswith(("\\raggedright ", " & ")) for line in rows)


# CSV

CELL = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(HOSTILE))


@given(st.lists(CELL, min_size=1, max_size=4))
def test_no_cell_is_a_formula_and_every_text_comes_back(texts):
    lines = csv_line(map(str, range(len(texts)))) + csv_line(texts)
    assert [*csv_rows(lines)[0].values()] == texts
    for cell in [*csv.reader(io.StringIO(lines, newline=""))][1]:
        assert not cell.startswith(FORMULAS) or re.fullmatch(r"-?\d+(\.\d+)?", cell)


def test_texts_of_a_report_come_back_and_its_numbers_stay_numbers():
    text = hostile_report(*HOSTILE).csv()
    rows = csv_rows(text)
    assert [r["row"] for r in rows] == [t for t in HOSTILE for _ in range(2)]
    assert [r["reason"] for r in rows][1::2] == HOSTILE
    for r in csv.DictReader(io.StringIO(text, newline="")):  # as a table program reads it
        assert r["ours"] in ("-0.5", "") and not r["row"].startswith(FORMULAS)
        assert not r["run"].startswith(FORMULAS)


# Figures


@pytest.mark.filterwarnings("ignore:Glyph .* missing", "ignore:constrained_layout not applied")
def test_a_figure_reads_no_formula(tmp_path):
    rows = [Interval(0.5, 0.4, 0.6, 4, 1)] * len(HOSTILE)
    panels = {"".join(HOSTILE[:9]): {"$\\frac{": rows, "$x$": rows}}
    curves = {"$a$": {t: ([1, 2], [1.0, 2.0]) for t in HOSTILE}}
    for figure in (dots(panels, HOSTILE, "$\\input{", "$y"), lines(curves, "$\\b{")):
        figure.savefig(tmp_path / "figure.png", dpi=20)
        texts = figure.findobj(lambda x: hasattr(x, "get_parse_math"))
        assert not [t for t in texts if re.search(STEERING, t.get_text())]
        formulas = [t.get_parse_math() for t in texts if "$" in t.get_text()]
        assert len(formulas) > 2 and not any(formulas)
