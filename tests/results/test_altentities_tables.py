"AltEntities' text tables, tables counted by hand, and hyperparameters: what rules tell of the released files, sheets of answers, reports."

import csv, json, math, re
from collections import Counter
import pandas as pd
import pytest
from hypothesis import given, strategies as st
import tools
from refnb.benchmarks.altentities.questions import DOMAINS, openings, paper_domain
from refnb.core.files import read_yaml
from refnb.core.settings import load_settings, packaged
from refnb.core.types import CallError, DataError, FormatError
from refnb.results.papers.altentities_rules import (
    ERROR_RULES,
    SAMPLE_TASK,
    categories_by_rule,
    category_patterns,
    corpus_here,
    words_in_common,
)
from refnb.results.papers.altentities_sheets import (
    HEADS,
    Drawn,
    answers_that_earned,
    read_labels,
    shares_by_hand,
    the_labelling,
    write_labellings,
)
from refnb.results.notebooks import notebook_of
from refnb.results.printed import printed, table_names

REPORTS = tools.ROOT / "reports"
TABLES = [n for n in table_names() if n.startswith("altentities/")]
SAMPLE = corpus_here(SAMPLE_TASK)


@pytest.fixture(scope="module")
def real(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("tables")
    return corpus_here(
        "altentities/all",
        load_settings(
            "/",
            env={},
            upstream=str(upstream),
            offline=True,
            **{k: str(home / k) for k in ("cache", "runs", "reports")},
        ),
    )


def rows_of(table: str) -> dict:
    "A committed report by row and column."
    return {
        (r["row"], r["column"]): r
        for r in csv.DictReader((REPORTS / f"altentities/{table}.csv").read_text().splitlines())
    }


# What the release has (spec, sections 2 and 5)


def test_entities_that_questions_use(real):
    shown = Counter(
        s
        for d in ("books", "recipes")
        for s, _ in {(q.section, c.wikipedia_url) for q in real.of(d) for c in q.choices}
    )
    assert shown == {"main": 642 + 466, "plot summary": 445, "preparation": 183, "ingredients": 101}
    told = rows_of("table_2_candidate_entities")
    assert [
        told["different things, in questions", c]["ours"] for c in ("books", "recipes", "music")
    ] == ["1052", "697", "600"]


def test_a_split_and_nothing(settings, upstream):
    got = corpus_here("altentities/dev", settings(upstream=str(upstream)))
    assert {d: (got.splits(d), len(got.of(d))) for d in DOMAINS} == {
        "books": ("dev", 313),
        "recipes": ("dev", 315),
        "songs": ("dev", 312),
    } and len(got.ids) == 3
    none = corpus_here("altentities/test", settings())
    assert none.ids == {} and {none.lacks(d) for d in DOMAINS} == {
        "its files are not here: refnb fetch altentities"
    }
    with pytest.raises(CallError, match="unknown task 'altentities/books'"):
        corpus_here("altentities/books", settings())


# Printed values


def test_table_2_adds_up():
    cells = printed("altentities/table_2_candidate_entities").cells
    for c in ("books", "recipes", "music"):
        assert cells["total"][c] == sum(
            row.get(c, 0) for name, row in cells.items() if name != "total"
        )


def test_table_10_stands_for_forty():
    cells = printed("altentities/table_10_error_types").cells
    assert list(cells) == list(the_labelling("errors").labels)
    assert all(sum(row[c] for row in cells.values()) == 100 for c in ("books", "recipes", "music"))
    told = rows_of("table_10_error_types")
    counts = {
        c: [int(told[f"{label}, examples", c]["ours"]) for label in cells]
        for c in ("books", "recipes", "music")
    }
    assert counts == {"books": [19, 10, 0, 11], "recipes": [11, 7, 10, 12], "music": [17, 5, 9, 9]}


def test_table_11_has_five_openings_a_domain():
    assert {d: len(set(o)) for d, o in openings().items()} == dict.fromkeys(DOMAINS, 5)


def test_table_13_lies_on_its_grid():
    grids = read_yaml(
        packaged("data/papers/passages/altentities_grids.yaml"), dict[str, dict[str, list[float]]]
    )
    assert {m: math.prod(map(len, g.values())) for m, g in grids.items()} == {
        "BERT": 96,
        "BERT Joint": 96,
        "T5": 24,
    }
    cells = printed("altentities/table_13_hyperparameters").cells
    assert len(cells) == 33 and all(
        told[k] in grids[row.partition(" / ")[0]][k] for row, told in cells.items() for k in told
    )
    assert rows_of("table_13_hyperparameters")["all models, trainings", "settings"]["ours"] == str(
        11 * (96 + 96 + 24)
    )


def test_table_15_adds_up():
    cells = printed("altentities/table_15_correct_examples").cells
    assert (
        list(cells) == list(the_labelling("right").labels)
        and sum(row["examples"] for row in cells.values()) == 123
    )


# Rules


def test_categories_have_rules():
    assert set(the_labelling("right").labels) <= set(category_patterns())
    assert categories_by_rule("from the sixties, with a R&B beat, and not about love") == {
        "date",
        "genre",
        "content",
        "instrument or sound",
        "negation",
        "looks, sounds, tastes",
    }
    assert (
        categories_by_rule("the hip  hop one") == {"genre"}
        and categories_by_rule("abouts") == set()
    )


@given(st.text(max_size=60))
@tools.examples(150)
def test_rules_take_any_text(text):
    q = SAMPLE.of("books")[0].changed(expressions=(f"x{text}",))
    assert categories_by_rule(text) <= set(category_patterns())
    assert len(words_in_common(q, text)) == 2 and all(
        isinstance(holds(q, text), bool) for holds in ERROR_RULES.values()
    )


# Sheets of answers


def drawn(domain="songs") -> list[Drawn]:
    return [Drawn(q, i) for q in SAMPLE.of(domain) for i in range(len(q.expressions))]


def filled(path, said, key="label"):
    "A sheet with labels, as a spreadsheet might write it."
    rows = list(csv.DictReader(path.read_text().splitlines()))
    lines = [f"{key},id"] + [f"{x},{r['id']}" for r, x in zip(rows, said, strict=False)]
    path.write_bytes("\ufeff".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n")
    return path


@pytest.mark.parametrize("kind", ["errors", "right"])
def test_a_sheet_comes_back(tmp_path, kind):
    [path] = write_labellings(tmp_path, kind, {"songs": drawn() * 3}, seed=1)
    n = min(the_labelling(kind).n, 3 * 63)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert tuple(rows[0]) == HEADS and len(rows) == n and not any(r["label"] for r in rows)
    for folder, seed in (("same", 1), ("other", 2)):
        [again] = write_labellings(tmp_path / folder, kind, {"songs": drawn() * 3}, seed)
        assert (again.read_text() == path.read_text()) == (folder == "same")


def test_labels_are_counted(tmp_path):
    [path] = write_labellings(tmp_path, "right", {"songs": drawn()})
    filled(path, [" Date ; GENRE", "album"] * 31 + ["negation"])
    shares, n, why = shares_by_hand(str(tmp_path), "right", "songs")
    told = {k: round(v * n / 100) for k, v in shares.items() if v}
    assert (n, why, told) == (63, "", {"date": 31, "genre": 31, "album": 31, "negation": 1})
    filled(path, ["date"] * 31 + [""] * 32)
    no_sheet = [
        shares_by_hand(str(tmp_path), *x)[2] for x in (("right", "songs"), ("errors", "songs"))
    ]
    assert no_sheet == [
        "31 of 63 lines of the sheet have a label",
        "there is no errors-songs.csv among the sheets",
    ]


BAD = [
    (b"", "line 1: has no column 'id'"),
    (b"id;label\na;date\n", "line 1: has no column 'id'"),
    (b"id,label\na,dates\n", "line 2, field label: unknown label 'dates'; did you mean date"),
    (b"id,label\n,date\n", "line 2, field id: a line without an id"),
    (b"id,label\na,date\na,date\n", "line 3, field id: a appears twice"),
    (b"id,label\na,\xff\n", "not UTF-8"),
    (b"id,label\na,poor reasoning\n", "unknown label 'poor reasoning'"),
]


@pytest.mark.parametrize(("data", "said"), BAD)
def test_f42_a_sheet_that_is_wrong(tmp_path, data, said):
    (tmp_path / "right-songs.csv").write_bytes(data)
    with pytest.raises(FormatError, match=re.escape(said)) as e:
        read_labels(tmp_path / "right-songs.csv", "right")
    assert "\n" not in str(e.value) and "right-songs.csv" in str(e.value)


def test_an_error_has_one_type(tmp_path):
    (tmp_path / "x.csv").write_text("id,label\na,poor reasoning; wrong annotation\n")
    with pytest.raises(
        FormatError, match="2 labels, poor reasoning and wrong annotation; an error has one type"
    ):
        read_labels(tmp_path / "x.csv", "errors")


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: b"id,label\n" + t.encode()))
@tools.examples(120)
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("x") / "s.csv"
    path.write_bytes(data)
    try:
        assert all(
            set(x) <= set(the_labelling("right").labels)
            for x in read_labels(path, "right").values()
        )
    except FormatError as e:
        assert "\n" not in str(e)


def test_a_sheet_is_no_formula_and_is_not_written_over(tmp_path):
    q = SAMPLE.of("songs")[0].changed(expressions=("=1+1", "@x"))
    [path] = write_labellings(tmp_path / "x", "right", {"songs": [Drawn(q, 0), Drawn(q, 1)]})
    rows = csv.DictReader(path.read_text().splitlines())
    assert sorted(r["expression"] for r in rows) == ["'=1+1", "'@x"]
    write_labellings(tmp_path, "right", {"songs": drawn()})
    with pytest.raises(CallError, match="is there already; it may hold labels"):
        write_labellings(tmp_path, "right", {"songs": drawn()})


def test_answers_are_drawn_by_what_they_earned():
    o = pd.DataFrame(
        {"id": [d.id for d in drawn()], "credit": [(0.0, 0.5, 1.0)[i % 3] for i in range(63)]}
    )
    got = [answers_that_earned(SAMPLE.of("songs"), o, c) for c in (0.0, 1.0)]
    assert [len(x) for x in got] == [21, 21] and not {d.id for d in got[0]} & {d.id for d in got[1]}
    with pytest.raises(
        DataError, match="1 expressions have no outcome, the first is songs-sample-29-0"
    ):
        answers_that_earned(SAMPLE.of("songs"), o[1:], 0.0)


# Notebooks and reports


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_its_notebook_and_report(name):
    assert notebook_of(name) and json.loads((REPORTS / f"{name}.json").read_text())["table"] == name
    rows = rows_of(name.partition("/")[2])
    assert rows and all(
        bool(r["ours"]) != bool(r["reason"]) or (r["ours"] and r["reason"]) for r in rows.values()
    )
    assert {(r, c) for r, row in printed(name).cells.items() for c in row} <= set(rows)


def test_reports_show_no_text_of_the_benchmark(real):
    "Not one expression of eight words and more, nor a description, is in a committed report."
    said = {
        " ".join(e.split()).lower()
        for d in DOMAINS
        for q in real.of(d)
        for e in q.expressions
        if len(e.split()) > 7
    }
    for p in (REPORTS / "altentities").glob("table_*.md"):
        text = " ".join(p.read_text().split()).lower()
        assert not any(e in text for e in said), p.name


SHEETED = [("table_10_error_types", "errors"), ("table_15_correct_examples", "right")]


@pytest.mark.parametrize(("table", "kind"), SHEETED)
def test_a_table_takes_filled_sheets(tmp_path, make_table, table, kind):
    "The sample's: written by one run, labelled, counted by the next."
    one, sample = tmp_path / "one", dict(task="sample/altentities")
    make_table(tmp_path, f"altentities/{table}", **sample, write=str(one))
    paths = sorted(one.glob(f"{kind}-*.csv"))
    assert len(paths) == len(the_labelling(kind).domains)
    label = list(the_labelling(kind).labels)
    for p in paths:
        filled(p, [label[i % 2] for i in range(len(p.read_text().splitlines()) - 1)])
    rows = make_table(tmp_path, f"altentities/{table}", **sample, sheets=str(one))
    told = [
        float(r["ours"])
        for r in rows
        if r["row"].startswith(f"{label[0]}, ")
        and r["ours"]
        and r["column"] in ("examples", *map(paper_domain, DOMAINS))
    ]
    assert told and all(45 <= x <= 100 for x in told)


def test_tables_of_the_sample(tmp_path, make_table):
    "Two of them; the batch on the sample makes all."
    names = [n for n in TABLES if n.endswith(("responses", "instructions"))]
    made = {n.split("_")[1]: make_table(tmp_path, n, task="sample/altentities") for n in names}
    assert set(made) == {"1", "4"} and all(
        r["paper"] == "not in our sources" for rows in made.values() for r in rows
    )
    assert [r["ours"] for r in made["1"] if r["row"] == "questions"] == ["15", "14", "13"]


@pytest.mark.parametrize("kind", ["test_accuracy", "dev_accuracy", "methods", "similarity"])
def test_a_system_that_answered_nothing_has_a_row_with_the_reason(tmp_path, make_table, kind):
    "There is nothing to draw then, and the numbers that the paper prints stay."
    [name] = [n for n in [*TABLES, "altentities/own_pair_similarity"] if n.endswith(kind)]
    made = make_table(tmp_path, name, task="sample/altentities", systems=["gpt-4o"])
    assert made and not any(r["ours"] for r in made if "GPT-4o" in r["row"])
    assert all(r["reason"] for r in made if r["row"] == "GPT-4o")


def test_which_words_decide_says_no_text_of_real_parts():
    "The session shows words of the sample only: each cell that shows text asks first."
    cells = [
        "".join(c["source"])
        for c in json.loads((tools.ROOT / "nbs/explore/which_words_decide.ipynb").read_text())[
            "cells"
        ]
        if c["cell_type"] == "code"
    ]
    shows = [
        c
        for c in cells
        if re.search(
            r"^(?:next\(|HTML|questions\[|\[expression_of|table\.head|\) if)", c.splitlines()[-1]
        )
    ]
    assert len(shows) == 5 and all(c.splitlines()[-1].count(" if sample else ") == 1 for c in shows)
