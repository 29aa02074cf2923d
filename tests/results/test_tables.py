"Printed values as data, rounding as papers do it, and reports in all their forms."

import csv, hashlib, json, math, re
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refnb.core.types import CallError, DataError, FormatError
from refnb.metrics.uncertainty import Interval
from refnb.core.inert import csv_rows, to_tex
from refnb.results.board import board
from refnb.results.plan import plan
from refnb.results.printed import (
    as_printed,
    papers,
    printed,
    printed_again,
    read_paper,
    table_names,
    value_of,
)
from refnb.results.tables import LEFT_OUT, Report
from refnb.results.writers import CSV, NOT_PRINTED, Grid

# Printed values

NUMBERS = {
    "identifyme": "1 2 3 4 5 6 7 8",
    "altentities": " ".join(map(str, range(1, 16))),
    "bookcoref": "1 2 3 4 5 6 7 8",
    "kitmus": "1 2a 2b 3 4 5 6",
}
TABLES = [printed(n) for n in table_names()]
each_table = pytest.mark.parametrize("name", table_names())


def test_38_tables_in_the_papers_order():
    assert {
        p: " ".join(t.number for t in x.tables.values()) for p, x in papers().items()
    } == NUMBERS
    assert len(table_names()) == 38 and [n.partition("/")[0] for n in table_names()] == [
        p for p, x in papers().items() for _ in x.tables
    ]


def test_a_table_says_what_it_is_and_its_numbers_have_its_decimals():
    "Rounding a printed number as it is printed changes nothing."
    for name in table_names():
        t, report = printed(name), Report(name)
        assert t.title and (t.kind == "text" or t.metric or t.source == "none") and all(t.notes)
        assert bool(t.cells) <= (t.source != "none") and (t.kind != "text" or not t.cells)
        assert name.partition("/")[2].startswith(f"table_{t.number}_")
        for row, cells in t.cells.items():
            for column, x in cells.items():
                cell = report.add(row, column, value_of(x))
                assert cell.paper == value_of(x) and cell.difference == 0, (name, row, column)


def test_a_number_that_is_printed_twice_is_marked_once():
    "Of 866 cells 65 repeat another table's; 20 are levels of chance, which are no results."
    cells = [x for n in table_names() for row in printed(n).cells.values() for x in row]
    again = {
        f"{p}/{t}": len(found)
        for p, x in papers().items()
        for t in x.tables
        if (found := printed_again(x, t))
    }
    assert len(cells) == 866 and again == {
        "altentities/table_5_corpus_statistics": 3,
        "altentities/table_8_cross_domain": 3,
        "altentities/table_9_sampling_methods": 3,
        "bookcoref/table_6_window_results": 56,
    }


def test_kinds_and_sources():
    assert {t.kind for t in TABLES} == {"computed", "needs-models", "manual", "text"}
    assert {t.source for t in TABLES} <= {"table", "prose", "submission", "none"}
    assert all(
        printed(n).source in ("prose", "none") for n in table_names() if n.startswith("identifyme")
    )  # its tables are not among the sources


def test_an_unknown_table_names_the_nearest():
    with pytest.raises(CallError, match="did you mean identifyme/table_3_main_results"):
        printed("identifyme/table_3_main_reslts")
    with pytest.raises(CallError, match="unknown paper 'kitmsu'; did you mean kitmus"):
        printed("kitmsu/table_1")


PAPER = """\
paper: p
title: t
cite: c
order: 1
tables:
  table_1_x: {number: "1", title: x, kind: computed, unit: percent, cells: {a: {b: 1.5}}}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("table_1_x", "table_2_x", "table 'table_2_x' has the number 1"),
        ("kind: computed", "kind: computd", "kind"),
        ("unit: percent", "unti: percent", "unti"),
        ("1.5", "one", "float"),
        ("1.5", ".nan", "table_1_x, a, b: is not a finite number"),
        ("1.5", ".inf", "table_1_x, a, b: is not a finite number"),
        ("kind: computed", "kind: computed, inputs: [litbnk]", "unknown upstream name 'litbnk'"),
        ("kind: computed", "kind: computed, source: none", "has cells, but no source"),
        ("title: t\n", "", "title"),
    ],
)
def test_a_wrong_file_of_printed_values(tmp_path, old, new, said):
    (tmp_path / "p.yaml").write_text(PAPER)
    assert read_paper(tmp_path / "p.yaml").tables["table_1_x"].cells == {"a": {"b": 1.5}}
    (tmp_path / "p.yaml").write_text(PAPER.replace(old, new))
    with pytest.raises(FormatError, match=re.escape(said)) as e:
        read_paper(tmp_path / "p.yaml")
    assert "p.yaml" in str(e.value) and "\n" not in str(e.value)


# Rounding (F50)

PLAIN = st.decimals(-(10**6), 10**6, places=6, allow_nan=False, allow_infinity=False)


@given(PLAIN, st.integers(-3, 4), st.sampled_from(["half-up", "truncate"]))
@example(Decimal("0.285"), 2, "half-up")
@example(Decimal("2.675"), 2, "half-up")
@example(Decimal("-2.5"), 0, "half-up")
@example(Decimal("1450"), -2, "half-up")
@example(Decimal("-0.04"), 1, "truncate")
def test_f50_rounding_is_decimal_arithmetic(x, decimals, rounding):
    "A number of few decimals, passed as a float, is rounded as if it had never been one."
    step = Decimal(10) ** -decimals
    whole = (abs(x) / step).quantize(Decimal(1), ROUND_DOWN)
    if rounding == "half-up" and abs(x) - whole * step >= step / 2:
        whole += 1
    assert as_printed(float(x), decimals, rounding) == whole * step * (-1 if x < 0 else 1)


@pytest.mark.parametrize(
    ("x", "decimals", "rounding", "said"),
    [
        (0.5, 0, "half-up", "1"),
        (1.5, 0, "half-up", "2"),
        (2.5, 0, "half-up", "3"),
        (53.35, 1, "half-up", "53.4"),
        (53.35, 1, "truncate", "53.3"),
        (53.39, 1, "truncate", "53.3"),
        (0.1 + 0.2, 1, "truncate", "0.3"),
        (0.7 * 100, 0, "truncate", "70"),
        (0.29 * 100, 0, "truncate", "29"),
        (1.1 + 2.2, 1, "truncate", "3.3"),
        (99.95, 1, "half-up", "100.0"),
        (1234, -2, "half-up", "1.2E+3"),
        (-0.5, 0, "half-up", "-1"),
    ],
)
def test_f50_cases(x, decimals, rounding, said):
    assert str(as_printed(x, decimals, rounding)) == said


# Reports

NAME = "altentities/table_1_example_responses"
NASTY = [
    "",
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
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def report(**cells) -> Report:
    r = Report(NAME, "strict", {"x": 1})
    for (row, column), how in cells.pop("at", {}).items():
        r.add(row, column, **how)
    return r


def read(r: Report) -> list[dict]:
    return csv_rows(r.csv())


def test_columns_of_the_csv():
    assert ",".join(CSV) == "table,row,column,paper,ours,difference,low,high,n,mode,run,reason"
    assert report().csv() == "table,row,column,paper,ours,difference,low,high,n,mode,run,reason\n"


def test_a_line_of_the_csv():
    r = Report("identifyme/table_3_main_results", "released")
    r.add("GPT-4o", "all", interval=Interval(0.81916667, 0.78, 0.85, 1200, 149), run="x@1")
    r.add("Random", "all", 8.6)
    r.add("Random", "nominal", reason="why, not", mode="strict", n=0)
    assert r.csv().splitlines()[1:] == [
        "identifyme/table_3_main_results,GPT-4o,all,81.9,81.916667,0,78,85,1200,released,x@1,",
        "identifyme/table_3_main_results,Random,all,8,8.6,1,,,,released,,unexplained",
        f'identifyme/table_3_main_results,Random,nominal,{NOT_PRINTED},,,,,0,strict,,"why, not"',
    ]


@pytest.mark.parametrize("text", NASTY)
def test_any_text_survives_the_csv(text):
    r = report(
        at={(text, "c"): dict(ours=1.0, run=text), ("r", text or "c"): dict(reason=text or "x")}
    )
    assert [(c["row"], c["column"], c["run"], c["reason"]) for c in read(r)] == [
        (text, "c", text, ""),
        ("r", text or "c", "", text or "x"),
    ]


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_numbers_in_the_csv_are_finite_and_plain(x):
    (c,) = read(report(at={("r", "c"): dict(ours=x)}))
    if math.isfinite(x):
        assert float(c["ours"]) == pytest.approx(x, abs=5e-7, rel=1e-9) and c["reason"] == ""
    else:
        assert c["ours"] == "" and c["reason"] == f"the computation gave {x}"


@pytest.mark.parametrize("text", [t for t in NASTY if t])
def test_markdown_has_one_line_per_row(text):
    r = report(at={(text, "c"): dict(ours=1.0), ("r", text): dict(reason=text)})
    lines = [l for l in r.markdown().splitlines() if l.startswith("| ")]
    assert len(lines) == 3 and {len(re.findall(r"(?<!\\)\|", l)) for l in lines} == {4}


def test_the_board_counts_each_number_once_and_by_its_kind_of_difference(tmp_path, settings):
    name = "bookcoref/table_6_window_results"
    r, row = Report(name), "off-the-shelf / BookNLP"
    r.add(row, "full / MUC", 83.12)  # printed in Table 3, too
    r.add(row, "window / MUC", 81.3)
    r.add(row, "window / B3", 50.0, because="another data set: an older one")
    r.add(row, "window / CEAFe", 20.0, others={"rounded": 23.4})
    r.add(row, "window / CoNLL", 50.0)
    r.write(tmp_path)
    (line,) = (x for x in board(settings(reports=str(tmp_path))).lines if x.name == name)
    counts = (line.match, line.explained, line.other_data, line.unexplained, line.repeated)
    assert counts == (1, 1, 1, 1, 56) and line.printed == 28 and line.state == "partial"
    lacks = plan([name], settings(reports=str(tmp_path))).lacks
    assert lacks == line.lacks and lacks.total() == 24


def test_markdown_shows_numbers_intervals_and_reasons():
    r = Report("identifyme/table_3_main_results", "released")
    r.add("GPT-4o", "all", interval=Interval(0.81916667, 0.78, 0.85, 1200, 149))
    r.add("Random", "all", 8.6)
    r.add("Mistral-7B", "all", reason="no run")
    text = r.markdown()
    assert (
        "| GPT-4o | 81.9 [78.0, 85.0] ✓ |" in text
        and "| Random | 8.6 (paper: 8) |" in text
        and "| Mistral-7B | — (a) |" in text
        and "(a) no run" in text
    )
    assert (
        "* 1 of 2 printed numbers that can be computed have the printed digits (✓)." in text
        and r.counts() == {"match": 1, "differs": 1, "beyond": 0, "missing": 1, "apart": 0}
    )


def test_more_than_26_reasons_have_names_of_their_own():
    r = report(at={(f"r{i}", "c"): dict(reason=f"reason {i}") for i in range(30)})
    assert len(set(Grid(r).text.values())) == 30


@pytest.mark.parametrize("text", NASTY)
def test_latex_escapes(text):
    escaped = to_tex(text)
    bare = re.sub(
        r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]|\$\\checkmark\$|^\{[\[*]\}",
        "",
        escaped,
    )
    assert not re.search(r"[\\&%$#_{}~^]", bare)


def test_latex_has_one_line_per_row():
    r = report(at={("a & b", "50 %"): dict(ours=1.0), ("two\nlines", "50 %"): dict(reason="x_y")})
    text = r.latex()
    assert (
        text.count(r" \\" + "\n") == 3
        and r"\raggedright a \& b & 1 " in text
        and r"x\_y" in text
        and r"\linewidth}r@{}}" in text
    )
    assert text.count(r"\begin") == text.count(r"\end")


def test_a_cell_needs_a_number_or_a_reason():
    with pytest.raises(DataError, match="has no number and no reason; say why"):
        report(at={("r", "c"): {}})
    with pytest.raises(DataError, match="appears twice"):
        r = report(at={("r", "c"): dict(ours=1.0)})
        r.add("r", "c", 2.0)


# Writing


def whole(told_at: Path) -> dict:
    told = json.loads(told_at.read_bytes())
    for f, sha in told["files"].items():
        assert hashlib.sha256((told_at.parent / f).read_bytes()).hexdigest() == sha
    return told


def test_written_files_and_their_provenance(tmp_path):
    r = report(at={("a", "b"): dict(ours=1.0, run="x@1"), ("a", "c"): dict(reason="no")})
    r.inputs["k"], r.runs["p:s"] = "blob", "hash"
    at = r.write(tmp_path)
    told = whole(at)
    assert at == tmp_path / f"{NAME}.json" and {p.name for p in at.parent.iterdir()} == {
        at.name,
        *told["files"],
    } == {f"table_1_example_responses.{e}" for e in ("csv", "json", "md", "tex")}
    assert (
        told["table"],
        told["mode"],
        told["parameters"],
        told["inputs"],
        told["runs"],
        told["counts"],
    ) == (
        NAME,
        "strict",
        {"x": 1},
        {"k": "blob"},
        {"p:s": "hash"},
        {"match": 0, "differs": 0, "beyond": 1, "missing": 1, "apart": 0},
    )
    assert {"python", "refnb", "numpy", "constraints"} <= set(told["versions"]) and told["cost"][
        "peak_mb"
    ] > 0


def test_a_picture_only_where_a_figure_is_given(tmp_path):
    from matplotlib.figure import Figure

    r = report(at={("a", "b"): dict(ours=1.0)})
    assert not list(r.write(tmp_path / "without").parent.glob("*.png"))
    at = r.write(tmp_path / "with", Figure((1, 1)))
    assert (at.with_suffix(".png")).read_bytes().startswith(
        b"\x89PNG"
    ) and "table_1_example_responses.png" in whole(at)["files"]


def test_what_was_not_asked_for_is_shown_as_printed(tmp_path):
    r = Report("identifyme/table_3_main_results", "released")
    r.add("Random", "all", 8.0)
    r.write(tmp_path)
    assert f"(a) {LEFT_OUT}" in r.markdown() and "| GPT-4o | — (a) (paper: 81.9) |" in r.markdown()


def test_a_sample_forgets_nothing_and_prints_nothing(tmp_path):
    r = Report("identifyme/table_3_main_results", "released", sample=True)
    assert r.add("Random", "all", 8.0).status == "beyond"
    assert whole(r.write(tmp_path))["sample"] and "sample" in r.markdown()


def test_committed_reports_are_whole():
    "And say of their cells what the printed values say."
    from tools import ROOT

    for at in sorted((ROOT / "reports").glob("*/table_*.json")):
        told, name = whole(at), f"{at.parent.name}/{at.stem}"
        if at.parent.name == "sample":
            continue
        cells = list(csv.DictReader((at.with_suffix(".csv")).read_text().splitlines()))
        assert (
            told["table"] == name
            and not told["sample"]
            and sum(told["counts"].values()) == len(cells)
        )
        assert {c["table"] for c in cells} == {name} and all(
            bool(c["ours"]) != bool(c["reason"])
            or c["low"] == ""
            or c["difference"] not in ("", "0")
            for c in cells
        )
        shown = {(c["row"], c["column"]): c["paper"] for c in cells}
        for row, of in printed(name).cells.items():
            for column, x in of.items():
                assert float(shown[row, column]) == value_of(x)


def test_rows_of_ours_stand_in_a_block_below_those_that_are_printed():
    r = Report("kitmus/table_2a_ontonotes_trained")
    r.add("ours / coref-minilm", "2 entities", 0.28)
    r.add("random", "2 entities", 0.5, run="chance")
    rows = [line.split("|")[1].strip() for line in r.markdown().splitlines() if line[:2] == "| "]
    assert rows == ["", "random", "*not in our sources*", "ours / coref-minilm"]


# Differences, explained or not

TABLE_5 = "identifyme/table_5_entity_and_none"


def explained(**cells) -> dict[str, str]:
    r = Report(TABLE_5)
    for column, (ours, others) in cells.items():
        r.add("Gemini-1.5-Flash", column.replace("_", " "), ours, others=others)
    return {c["column"]: c["reason"] for c in read(r)}


def test_a_note_explains_nothing():
    "The text's own 78.7 - 30.3 is 48.4; no reading of the answers gives the printed 48.3."
    assert explained(drop_of_rounded_numbers=(48.4, {})) == {
        "drop of rounded numbers": "unexplained"
    }


def test_another_reading_explains_only_if_it_gives_the_printed_number():
    assert explained(none_questions=(119.0, {"with the unanswered ones": 120.0})) == {
        "none questions": "with the unanswered ones it is 120"
    }
    assert explained(none_questions=(110.0, {"with the unanswered ones": 118.0})) == {
        "none questions": "unexplained"
    }


def test_numbers_that_are_no_results_are_counted_apart():
    r = Report(TABLE_5)
    r.add("Random", "entity", 5.0, run="random@abc")
    r.add("all", "entity", 5.0, run="random@abc")
    r.add("share", "entity", 5.0, run="the printed share")
    assert r.counts() == {"match": 0, "differs": 0, "beyond": 1, "missing": 0, "apart": 2}


def test_ours_are_rounded_and_the_papers_digits_compared_as_it_cuts_them():
    r = Report("kitmus/table_2a_ontonotes_trained")
    r.add("ontonotes-trained / C2F", "3 entities", 0.1795)
    r.add("ontonotes-trained / Stanford statistical", "4 entities", 0.0105)
    assert (
        r.counts()["match"] == 1
        and "| 0.17 ✓ |" in r.markdown()
        and "(paper: 0.00)" in r.markdown()
    )
    assert "1 of 2 computed cells agree truncated, 0 rounded" in r.markdown()


def test_every_committed_report_is_of_today():
    from refnb.results.board import read_provenance, stale
    from tools import ROOT

    for at in sorted((ROOT / "reports").glob("*/*.json")):
        told, name = json.loads(at.read_bytes()), f"{at.parent.name}/{at.stem}"
        if "table" not in told or at.parent.name in ("sample", "own"):
            continue
        assert told["inputs"], name
        assert LEFT_OUT not in at.with_suffix(".csv").read_text(), name
        made = read_provenance(name, ROOT / "reports")
        assert stale(made, ROOT / "reports") == "", f"{name}: refnb reproduce {name}"


def test_another_input_makes_just_its_reports_stale(tmp_path, settings, monkeypatch):
    "One byte of an upstream set, or one printed value: the reports that were made from it say so, and no other."
    from refnb.results import board

    made = {n: Report(n) for n in ("bookcoref/table_5_prompt", "identifyme/own_paired_comparisons")}
    for r in made.values():
        r.add("r", "c", 1.0)
        r.write(tmp_path)
    s = settings(reports=str(tmp_path))
    state = lambda: {l.name: l.report for l in board.board(s).lines if l.name in made}
    assert set(state().values()) == {"regenerated"}
    real = board.set_id
    monkeypatch.setattr(
        board, "set_id", lambda name: "0" * 16 if name == "animal-farm" else real(name)
    )
    assert state() == {
        "bookcoref/table_5_prompt": "stale: animal-farm have changed",
        "identifyme/own_paired_comparisons": "regenerated",
    }


def test_a_system_is_no_chance_because_of_its_name():
    made = Report("own/forests")
    for run in ("random-forest@0123456789ab", "reprinted@0123456789ab"):
        made.add("Random forest", run, 50.0, run=run)
        assert made.cells["Random forest", run].status == "beyond"
