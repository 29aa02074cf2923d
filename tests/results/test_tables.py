"Printed values as data, rounding as papers do it, and reports in all their forms."

import math, re
from decimal import ROUND_DOWN, Decimal
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refnb.core.pages import csv_rows
from refnb.core.types import DataError, FormatError
from refnb.metrics.uncertainty import Interval
from refnb.results.printed import (
    as_printed,
    further_names,
    papers,
    printed,
    printed_again,
    read_paper,
    table_names,
    value_of,
)
from refnb.results.tables import Report, code_id
from results_reports import whole_report
from tools import ROOT

# Printed values

NUMBERS = {
    "identifyme": "1 2 3 4 5 6 7 8",
    "altentities": " ".join(map(str, range(1, 16))),
    "bookcoref": "1 2 3 4 5 6 7 8",
    "kitmus": "1 2a 2b 3 4 5 6",
}


def test_the_38_tables_stand_in_the_papers_order():
    tables = {p: [t.number for t in x.tables.values()] for p, x in papers().items()}
    assert tables == {paper: numbers.split() for paper, numbers in NUMBERS.items()}
    assert len(table_names()) == 38
    assert table_names() == [f"{p}/{t}" for p, x in papers().items() for t in x.tables]


def test_a_table_says_what_it_is_and_its_numbers_have_its_decimals():
    "Rounding a printed number as it is printed changes nothing."
    for name in table_names():
        t, report = printed(name), Report(name)
        assert t.title and (t.kind == "text" or t.metric or t.source == "none"), name
        assert bool(t.cells) <= (t.source != "none") and (t.kind != "text" or not t.cells), name
        assert t.source in ("prose", "none") or not name.startswith("identifyme"), name
        for row, cells in t.cells.items():
            for column, x in cells.items():
                cell = report.add(row, column, value_of(x))
                assert cell.paper == value_of(x) and cell.difference == 0, (name, row, column)


def test_a_number_that_is_printed_twice_is_marked_once():
    "Of 866 cells 65 repeat another table's."
    cells = [x for n in table_names() for row in printed(n).cells.values() for x in row]
    again = {f"{p}/{t}": len(printed_again(x, t)) for p, x in papers().items() for t in x.tables}
    assert len(cells) == 866 and {t: n for t, n in again.items() if n} == {
        "altentities/table_5_corpus_statistics": 3,
        "altentities/table_8_cross_domain": 3,
        "altentities/table_9_sampling_methods": 3,
        "bookcoref/table_6_window_results": 56,
    }


PAPER = """\
paper: p
title: t
cite: c
order: 1
tables:
  table_1_x: {number: "1", title: x, kind: computed, unit: percent, cells: {a: {b: 1.5}}}
"""
WRONG = [  # what is changed in it, to what, and what is said
    ("table_1_x", "table_2_x", "number 1"),
    ("kind: computed", "kind: computd", "kind"),
    ("unit: percent", "unti: percent", "unti"),
    ("1.5", "one", "float"),
    ("1.5", ".nan", "table_1_x, a, b"),
    ("1.5", ".inf", "table_1_x, a, b"),
    ("kind: computed", "kind: computed, inputs: [litbnk]", "'litbnk'"),
    ("kind: computed", "kind: computed, source: none", "source"),
    ("title: t\n", "", "title"),
]


@pytest.mark.parametrize(("old", "new", "part"), WRONG)
def test_a_wrong_file_of_printed_values_is_refused_in_one_line(tmp_path, old, new, part):
    (tmp_path / "p.yaml").write_text(PAPER)
    assert read_paper(tmp_path / "p.yaml").tables["table_1_x"].cells == {"a": {"b": 1.5}}
    (tmp_path / "p.yaml").write_text(PAPER.replace(old, new))
    with pytest.raises(FormatError, match=re.escape(part)) as e:
        read_paper(tmp_path / "p.yaml")
    assert "p.yaml" in str(e.value) and "\n" not in str(e.value)


# Rounding

DECIMALS = st.decimals(-(10**6), 10**6, places=6, allow_nan=False, allow_infinity=False)


@given(DECIMALS, st.integers(-3, 4), st.sampled_from(["half-up", "truncate"]))
@example(Decimal("0.285"), 2, "half-up")
@example(Decimal("2.675"), 2, "half-up")
@example(Decimal("-2.5"), 0, "half-up")
@example(Decimal("1450"), -2, "half-up")
@example(Decimal("-0.04"), 1, "truncate")
def test_rounding_is_decimal_arithmetic(x, decimals, rounding):
    "A number of few decimals, passed as a float, is rounded as if it had never been one."
    step = Decimal(10) ** -decimals
    whole = (abs(x) / step).quantize(Decimal(1), ROUND_DOWN)
    if rounding == "half-up" and abs(x) - whole * step >= step / 2:
        whole += 1
    assert as_printed(float(x), decimals, rounding) == whole * step * (-1 if x < 0 else 1)


def test_numbers_at_the_half_are_rounded_as_papers_do():
    for x, decimals, rounding, text in (
        (0.5, 0, "half-up", "1"),
        (2.5, 0, "half-up", "3"),
        (-0.5, 0, "half-up", "-1"),
        (53.35, 1, "half-up", "53.4"),
        (53.35, 1, "truncate", "53.3"),
        (99.95, 1, "half-up", "100.0"),
        (1234, -2, "half-up", "1.2E+3"),
        (0.1 + 0.2, 1, "truncate", "0.3"),
        (0.7 * 100, 0, "truncate", "70"),
        (0.29 * 100, 0, "truncate", "29"),
        (1.1 + 2.2, 1, "truncate", "3.3"),
    ):
        assert str(as_printed(x, decimals, rounding)) == text, (x, decimals, rounding)


def test_our_digits_are_compared_as_the_paper_cuts_them():
    report = Report("kitmus/table_2a_ontonotes_trained")
    report.add("ontonotes-trained / C2F", "3 entities", 0.1795)
    report.add("ontonotes-trained / Stanford statistical", "4 entities", 0.0105)
    assert report.counts()["match"] == 1
    assert "| 0.17 ✓ |" in report.markdown() and "(paper: 0.00)" in report.markdown()


# Reports

NAME = "altentities/table_1_example_responses"
MAIN = "identifyme/table_3_main_results"
NASTY = [
    "plain",
    "a\rb",
    "a\u2028b",
    "a\x0bb",
    "a, b",
    'say "so"',
    "two\nlines",
    "a\r\nb",
    "tab\there",
    "pipe | bar",
    "back\\slash",
    "50 % & $3 #1 _x_ {y} ~ ^",
    "<b>bold</b>",
    "naïve — ✓ 漢字",
    "'",
    " padded ",
    "=1+1",
    "[x](y)",
]


def report(*cells: tuple[str, str, float | str], name: str = NAME, **how) -> Report:
    "A report of these cells; a text in a number's place is a reason."
    made = Report(name, "strict", {"x": 1}, **how)
    for row, column, value in cells:
        text = isinstance(value, str)
        made.add(row, column, **({"reason": value} if text else {"ours": value}))
    return made


def test_a_line_of_the_csv_has_all_of_a_cell():
    r = Report(MAIN, "released")
    r.add("GPT-4o", "all", interval=Interval(0.81916667, 0.78, 0.85, 1200, 149), source="x@1")
    r.add("Random", "all", 8.6)
    r.add("Random", "nominal", reason="why, not", mode="strict", n=0)
    r.add("Llama-3.1-8B", "all", needs="litbank")
    assert r.csv().splitlines() == [
        "table,row,column,paper,source,ours,difference,low,high,n,mode,run,kind,needs,reason",
        f"{MAIN},GPT-4o,all,81.9,prose,81.916667,0,78,85,1200,released,x@1,match,,",
        f"{MAIN},Random,all,8,prose,8.6,1,,,,released,,unexplained,,unexplained",
        f'{MAIN},Random,nominal,,not in our sources,,,,,0,strict,,blank,,"why, not"',
        f"{MAIN},Llama-3.1-8B,all,53.3,prose,,,,,,released,,missing,litbank,"
        "its files are not here: refnb fetch litbank",
    ]


@pytest.mark.parametrize("text", ["", *NASTY])
def test_any_text_survives_in_each_form(text):
    "In CSV as it is, in Markdown as one line a row."
    r = report((text, "c", 1.0), ("r", text or "c", text or "x"))
    cells = [(c["row"], c["column"], c["reason"]) for c in csv_rows(r.csv())]
    assert cells == [(text, "c", ""), ("r", text or "c", text or "x")]
    if text:
        lines = [x for x in r.markdown().splitlines() if x.startswith("| ")]
        assert len(lines) == 3 and {len(re.findall(r"(?<!\\)\|", x)) for x in lines} == {4}


def test_latex_has_one_line_a_row():
    text = report(("a & b", "50 %", 1.0), ("two\nlines", "50 %", "x_y")).latex()
    assert text.count(r" \\" + "\n") == 3 and r"a \& b & 1 " in text and r"x\_y" in text
    assert text.count(r"\begin") == text.count(r"\end")


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_numbers_in_the_csv_are_finite_and_plain(x):
    [cell] = csv_rows(report(("r", "c", x)).csv())
    if math.isfinite(x):
        assert float(cell["ours"]) == pytest.approx(x, abs=5e-7, rel=1e-9)
        assert cell["reason"] == ""
    else:
        assert cell["ours"] == "" and str(x) in cell["reason"]


def test_markdown_shows_numbers_intervals_and_reasons():
    r = Report(MAIN, "released")
    r.add("GPT-4o", "all", interval=Interval(0.81916667, 0.78, 0.85, 1200, 149))
    r.add("Random", "all", 8.6)
    r.add("Mistral-7B", "all", needs="run", reason="no run")
    text = r.markdown()
    shown = ("81.9 [78.0, 85.0] ✓ |", "8.6 (paper: 8) |", "| Mistral-7B | — (a) |", "(a) no run")
    assert all(x in text for x in shown)
    kinds = {kind: n for kind, n in r.counts().items() if n}
    assert kinds == {"match": 1, "unexplained": 1, "blank": 1}


def test_texts_of_two_sources_stand_below_one_heading():
    report = Report("identifyme/table_3_main_results")
    report.quote("Prompt", "Who is marked?", "the paper")
    report.quote("Rule", "The nearest name.", "ours")
    lines = report.markdown().splitlines()
    assert lines.count("## Texts") == 1 and {"the paper", "ours"} <= {*lines}


def test_an_interval_that_holds_every_score_is_not_shown():
    r = Report("identifyme/table_7_breakdowns")
    r.add("options: over 32", "A", interval=Interval(0.5, 0.0, 1.0, 52, 2))
    r.add("options: over 32", "B", interval=Interval(1.0, 1.0, 1.0, 52, 2))
    text = r.markdown()
    assert "| 50.0 | 100.0 [100.0, 100.0] |" in text
    assert "options: over 32, A: no interval, as over 2 documents" in text


def test_ticks_are_of_what_is_counted():
    "A constant or a level of chance beside its print has none."
    for name in [*table_names(), *further_names()]:
        page = (ROOT / "reports" / f"{name}.md").read_text()
        grid = [x for x in page.splitlines() if x.startswith("| ")]
        counted = re.search(r"^\* (\d+) of \d+ printed numbers that can be", page, re.M)
        assert sum(x.count("✓") for x in grid) == (int(counted[1]) if counted else 0), name


def test_more_than_26_reasons_have_names_of_their_own():
    text = report(*((f"r{i}", "c", f"reason {i}") for i in range(30))).markdown()
    letters = re.findall(r"^\| r\d+ \| — \((\w+)\) \|$", text, re.M)
    assert len(set(letters)) == len(letters) == 30


def test_a_cell_needs_a_number_or_a_reason_and_appears_once():
    r = report(("r", "c", 1.0))
    for again in (dict(row="r", column="d"), dict(row="r", column="c", ours=2.0)):
        with pytest.raises(DataError):
            r.add(**again)


def test_rows_of_ours_stand_in_a_block_below_those_that_are_printed():
    r = Report("kitmus/table_2a_ontonotes_trained")
    r.add("ours / coref-minilm", "2 entities", 0.28)
    r.add("random", "2 entities", 0.5, source="chance")
    rows = [line.split("|")[1].strip() for line in r.markdown().splitlines() if line[:2] == "| "]
    assert rows == ["", "random", "*not in our sources*", "ours / coref-minilm"]


# Differences, explained or not, and numbers that are no results

TABLE_5 = "identifyme/table_5_entity_and_none"


@pytest.mark.parametrize(
    ("column", "ours", "others", "reason"),
    [
        # a note explains nothing: the text's own 78.7 - 30.3 is 48.4, it prints 48.3
        ("drop of rounded numbers", 48.4, {}, "unexplained"),
        ("none questions", 119.0, {"with the unanswered ones": 120.0}, "is 120"),
        ("none questions", 110.0, {"with the unanswered ones": 118.0}, "unexplained"),
    ],
)
def test_another_reading_explains_only_if_it_gives_the_printed_number(column, ours, others, reason):
    r = Report(TABLE_5)
    r.add("Gemini-1.5-Flash", column, ours, others=others)
    [cell] = csv_rows(r.csv())
    assert cell["reason"].endswith(reason)


def test_numbers_that_are_no_results_are_counted_apart():
    "Whatever their source is called, the code that adds a number says that it is none."
    r = Report(TABLE_5)
    r.add("Random", "entity", 5.0, source="random@abc", basis="chance")
    r.add("share", "entity", 5.0, source="the printed share", basis="print")
    r.add("Random forest", "a", 50.0, source="random@0123456789ab")
    assert {kind: n for kind, n in r.counts().items() if n} == {"beyond": 1, "apart": 2}


# Written reports


def test_a_written_report_names_all_that_made_it(tmp_path):
    from matplotlib.figure import Figure

    r = report(("a", "b", 1.0), ("a", "c", "no"))
    r.inputs["k"], r.runs["p:s"] = "blob", "hash"
    ends = {".csv", ".json", ".md", ".tex"}
    for figure, more in ((None, set()), (Figure((1, 1)), {".png"})):
        place = tmp_path / f"figure {bool(figure)}"
        path = r.write(place, figure)
        assert path == place / f"{NAME}.json"
        assert {p.suffix for p in path.parent.iterdir()} == ends | more
        provenance = whole_report(place, NAME)
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    expected = {
        "table": NAME,
        "mode": "strict",
        "parameters": {"x": 1},
        "inputs": {"k": "blob"},
        "runs": {"p:s": "hash"},
        "counts": {"beyond": 1, "blank": 1},
    }
    assert expected.items() <= provenance.items()
    assert {"python", "refnb", "numpy", "constraints"} <= set(provenance["versions"])
    assert "refnb.results.tables" in provenance["made_with"] and "cost" not in provenance


def test_what_was_not_asked_for_is_shown_as_printed(tmp_path):
    r = report(("Random", "all", 8.0), name=MAIN)
    r.write(tmp_path)
    assert "| GPT-4o | — (a) (paper: 81.9) |" in r.markdown()


def test_a_report_of_the_sample_compares_with_no_paper(tmp_path):
    r = report(("Random", "all", 8.0), name=MAIN, sample=True)
    r.write(tmp_path)
    assert whole_report(tmp_path, MAIN)["sample"] and r.counts()["beyond"] == 1
    assert "sample" in r.markdown() and "81.9" not in r.markdown()


LOOP = 'for x in xs:\n    write(x, "GPT-4 o")\n    close(x)\n'


@pytest.mark.parametrize(
    ("other", "same"),
    {
        "# of all\n" + LOOP.replace(":", ":  # 'each"): True,
        LOOP.replace("\n", "\n\n").strip(): True,
        LOOP.replace("    close", "close"): False,
        LOOP.replace("4 o", "4o"): False,
        LOOP.replace(" o", " #o"): False,
        LOOP.replace('"GPT-4 o"', '"""\n# a\n"""'): False,
    }.items(),
)
def test_a_hash_of_code_leaves_out_comments_and_blank_lines_alone(other, same):
    assert (code_id(other) == code_id(LOOP)) is same
    heads = [f'write("""\n# {x}\n""")' for x in "ab"]
    assert code_id(heads[0]) != code_id(heads[1])
