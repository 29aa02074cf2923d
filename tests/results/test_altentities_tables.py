"AltEntities' tables: the release, rules, sheets of answers, reports, what fills missing cells."

import csv, json, math, random, re
from collections import Counter
from pathlib import Path
import msgspec
import pandas as pd
import pytest
from hypothesis import given, strategies as st
import tools
from refnb.benchmarks.altentities.questions import DOMAINS, openings, paper_domain
from refnb.benchmarks.tasks import find_task
from refnb.core.files import read_yaml, write_atomic
from refnb.core.runs import RunInfo, open_run, questions_id
from refnb.core.settings import load_settings, packaged
from refnb.core.types import Answer, CallError, DataError, FormatError
from refnb.models.pairs.scorers import pair_settings
from refnb.models.pairs.trained import trained_systems
from refnb.models.pairs.trained import TrainedSeal, Tried
from refnb.models.registry import find_system
from refnb.benchmarks.run_summaries import write_run_summary
from refnb.results.papers.altentities import columns_of
from refnb.results.papers.altentities_labels import (
    ERROR_RULES,
    SAMPLE_TASK,
    categories_by_rule,
    category_patterns,
    corpus_here,
    words_in_common,
)
from refnb.results.papers.altentities_labels import SheetRow, answers_that_earned, read_labels
from refnb.results.papers.altentities_labels import shares_by_hand, the_labelling, write_labellings
from refnb.results.printed import notebook_of, printed, table_names
from results_reports import cells_of_report

TABLES = [n for n in table_names() if n.startswith("altentities/")]
SAMPLE = corpus_here(SAMPLE_TASK)
PAPER_DOMAINS = ("books", "recipes", "music")


@pytest.fixture(scope="module")
def real(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("tables")
    folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
    s = load_settings("/", env={}, upstream=str(upstream), offline=True, **folders)
    return corpus_here("altentities/all", s)


def committed(table: str) -> dict[tuple[str, str], dict[str, str]]:
    return cells_of_report(tools.ROOT / f"reports/altentities/{table}.csv")


# What the release has


def test_the_released_questions_use_the_known_entities(real):
    sections = Counter()
    for d in ("books", "recipes"):
        entities = {(q.section, c.wikipedia_url) for q in real.of(d) for c in q.choices}
        sections.update(section for section, _ in entities)
    counts = {"main": 642 + 466, "plot summary": 445, "preparation": 183, "ingredients": 101}
    assert sections == counts
    cells = committed("table_2_candidate_entities")
    things = [cells["different things, in questions", d]["ours"] for d in PAPER_DOMAINS]
    assert things == ["1052", "697", "600"]


def test_a_split_has_its_questions_and_missing_files_are_named(settings, upstream):
    dev = corpus_here("altentities/dev", settings(upstream=str(upstream)))
    counts = {"books": ("dev", 313), "recipes": ("dev", 315), "songs": ("dev", 312)}
    assert {d: (dev.splits(d), len(dev.of(d))) for d in DOMAINS} == counts
    nothing = corpus_here("altentities/test", settings())
    assert nothing.ids == {}
    assert all(nothing.needs(d) == "altentities" for d in DOMAINS)
    with pytest.raises(CallError, match="altentities/books"):
        corpus_here("altentities/books", settings())


# Printed values


def test_printed_tables_add_up():
    cells = printed("altentities/table_2_candidate_entities").cells
    for c in PAPER_DOMAINS:
        parts = [row.get(c, 0) for name, row in cells.items() if name != "total"]
        assert cells["total"][c] == sum(parts)
    cells = printed("altentities/table_10_error_types").cells
    assert list(cells) == list(the_labelling("errors").labels)
    assert all(sum(row[c] for row in cells.values()) == 100 for c in PAPER_DOMAINS)
    cells = printed("altentities/table_15_correct_examples").cells
    assert list(cells) == list(the_labelling("right").labels)
    assert sum(row["examples"] for row in cells.values()) == 123
    assert {d: len(set(o)) for d, o in openings().items()} == dict.fromkeys(DOMAINS, 5)


def test_printed_shares_of_errors_stand_for_forty_answers():
    cells = committed("table_10_error_types")
    labels = the_labelling("errors").labels
    counts = {c: [int(cells[f"{x}, examples", c]["ours"]) for x in labels] for c in PAPER_DOMAINS}
    assert counts == {"books": [19, 10, 0, 11], "recipes": [11, 7, 10, 12], "music": [17, 5, 9, 9]}


def test_printed_hyperparameters_lie_on_their_grids():
    grids = read_yaml(packaged("data/papers/passages/altentities_grids.yaml"), dict)
    sizes = {model: math.prod(map(len, grid.values())) for model, grid in grids.items()}
    assert sizes == {"BERT": 96, "BERT Joint": 96, "T5": 24}
    cells = printed("altentities/table_13_hyperparameters").cells
    assert len(cells) == 33
    for row, values in cells.items():
        grid = grids[row.partition(" / ")[0]]
        assert all(values[k] in grid[k] for k in values), row
    trainings = committed("table_13_hyperparameters")["all models, trainings", "settings"]
    assert trainings["ours"] == str(11 * (96 + 96 + 24))


# Rules


def test_categories_have_rules():
    assert set(the_labelling("right").labels) <= set(category_patterns())
    text = "from the sixties, with a R&B beat, and not about love"
    instruments = {"instrument or sound", "looks, sounds, tastes"}
    assert categories_by_rule(text) == {"date", "genre", "content", "negation", *instruments}
    assert categories_by_rule("the hip  hop one") == {"genre"}
    assert categories_by_rule("abouts") == set()


@given(st.text(max_size=60))
@tools.examples(50)
def test_rules_take_any_text(text):
    q = SAMPLE.of("books")[0].changed(expressions=(f"x{text}",))
    assert categories_by_rule(text) <= set(category_patterns())
    assert len(words_in_common(q, text)) == 2
    assert all(isinstance(holds(q, text), bool) for holds in ERROR_RULES.values())


# Sheets of answers


def drawn(domain="songs") -> list[SheetRow]:
    return [SheetRow(q, i) for q in SAMPLE.of(domain) for i in range(len(q.expressions))]


def fill(path: Path, labels: list[str]) -> Path:
    "Fill a sheet, as a spreadsheet might write it."
    rows = csv.DictReader(path.read_text().splitlines())
    lines = ["label,id", *(f"{x},{r['id']}" for r, x in zip(rows, labels, strict=False))]
    path.write_bytes("\ufeff".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n")
    return path


@pytest.mark.parametrize("kind", ["errors", "right"])
def test_the_same_seed_draws_the_same_sheet(tmp_path, kind):
    sheets = []
    for folder, seed in (("one", 1), ("same", 1), ("other", 2)):
        [path] = write_labellings(tmp_path / folder, kind, {"songs": drawn() * 3}, seed=seed)
        sheets.append(path.read_text())
    rows = list(csv.DictReader(sheets[0].splitlines()))
    assert len(rows) == min(the_labelling(kind).n, 3 * 63)
    assert not any(r["label"] for r in rows)
    assert sheets[0] == sheets[1] != sheets[2]


def test_labels_are_counted_once_a_sheet_is_full(tmp_path):
    [path] = write_labellings(tmp_path, "right", {"songs": drawn()})
    fill(path, [" Date ; GENRE", "album"] * 31 + ["negation"])
    shares, n, why = shares_by_hand(str(tmp_path), "right", "songs")
    counts = {k: round(v * n / 100) for k, v in shares.items() if v}
    assert counts == {"date": 31, "genre": 31, "album": 31, "negation": 1} and (n, why) == (63, "")
    fill(path, ["date"] * 31 + [""] * 32)
    assert "31 of 63" in shares_by_hand(str(tmp_path), "right", "songs")[2]
    assert "errors-songs.csv" in shares_by_hand(str(tmp_path), "errors", "songs")[2]


BAD = [
    (b"", "line 1"),
    (b"id;label\na;date\n", "line 1"),
    (b"id,label\na,dates\n", "line 2, field label: unknown label 'dates'; did you mean date"),
    (b"id,label\n,date\n", "line 2, field id"),
    (b"id,label\na,date\na,date\n", "line 3, field id"),
    (b"id,label\na,\xff\n", "UTF-8"),
    (b"id,label\na,poor reasoning\n", "'poor reasoning'"),
]


@pytest.mark.parametrize(("data", "part"), BAD)
def test_a_wrong_sheet_is_refused_in_one_line(tmp_path, data, part):
    (tmp_path / "right-songs.csv").write_bytes(data)
    with pytest.raises(FormatError, match=re.escape(part)) as e:
        read_labels(tmp_path / "right-songs.csv", "right")
    assert "\n" not in str(e.value) and "right-songs.csv" in str(e.value)


def test_an_error_has_one_type(tmp_path):
    (tmp_path / "x.csv").write_text("id,label\na,poor reasoning; wrong annotation\n")
    with pytest.raises(FormatError, match="poor reasoning and wrong annotation"):
        read_labels(tmp_path / "x.csv", "errors")


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: b"id,label\n" + t.encode()))
@tools.examples(100)
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(data)
    known = set(the_labelling("right").labels)
    try:
        assert all(set(x) <= known for x in read_labels(path, "right").values())
    except FormatError as e:
        assert "\n" not in str(e)


def test_a_sheet_is_no_formula_and_is_not_written_over(tmp_path):
    q = SAMPLE.of("songs")[0].changed(expressions=("=1+1", "@x"))
    [path] = write_labellings(tmp_path, "right", {"songs": [SheetRow(q, 0), SheetRow(q, 1)]})
    rows = csv.DictReader(path.read_text().splitlines())
    assert sorted(r["expression"] for r in rows) == ["'=1+1", "'@x"]
    with pytest.raises(CallError, match="right-songs.csv"):
        write_labellings(tmp_path, "right", {"songs": drawn()})


def test_answers_are_drawn_by_what_they_earned():
    credit = [(0.0, 0.5, 1.0)[i % 3] for i in range(63)]
    outcomes = pd.DataFrame({"id": [d.id for d in drawn()], "credit": credit})
    wrong, right = (answers_that_earned(SAMPLE.of("songs"), outcomes, c) for c in (0.0, 1.0))
    assert len(wrong) == len(right) == 21 and not {d.id for d in wrong} & {d.id for d in right}
    with pytest.raises(DataError, match=drawn()[0].id):
        answers_that_earned(SAMPLE.of("songs"), outcomes[1:], 0.0)


# Notebooks and committed reports


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_its_notebook_and_every_printed_cell(name):
    assert notebook_of(name)
    cells = committed(Path(name).name)
    assert cells and {(r, c) for r, row in printed(name).cells.items() for c in row} <= set(cells)


def test_reports_show_no_text_of_the_benchmark(real):
    "Not one expression of eight words and more is in a committed report."
    questions = [q for d in DOMAINS for q in real.of(d)]
    expressions = {" ".join(e.split()).lower() for q in questions for e in q.expressions}
    for p in (tools.ROOT / "reports/altentities").glob("table_*.md"):
        text = " ".join(p.read_text().split()).lower()
        assert not any(e in text for e in expressions if len(e.split()) > 7), p.name


def test_which_words_decide_shows_words_of_the_sample_alone():
    "Each cell of the session that shows text asks first."
    path = tools.ROOT / "nbs/explore/which_words_decide.ipynb"
    cells = ["".join(c["source"]) for c in json.loads(path.read_text())["cells"]]
    last = [c.splitlines()[-1] for c in cells if c.strip()]
    shows = [
        x for x in last if re.match(r"next\(|HTML|questions\[|\[expression_of|table\.head|\) if", x)
    ]
    assert len(shows) == 5 and all(x.count(" if sample else ") == 1 for x in shows)


# Tables that are made


@pytest.mark.parametrize(
    ("table", "kind"), [("table_10_error_types", "errors"), ("table_15_correct_examples", "right")]
)
def test_a_table_takes_filled_sheets(tmp_path, make_table, table, kind):
    "The sample's: written by one run, labelled, counted by the next."
    sheets, how = tmp_path / "sheets", dict(task=SAMPLE_TASK)
    make_table(tmp_path, f"altentities/{table}", **how, write=str(sheets))
    paths, labels = sorted(sheets.glob(f"{kind}-*.csv")), list(the_labelling(kind).labels)
    assert len(paths) == len(the_labelling(kind).domains)
    for p in paths:
        fill(p, [labels[i % 2] for i in range(len(p.read_text().splitlines()) - 1)])
    rows = make_table(tmp_path, f"altentities/{table}", **how, sheets=str(sheets))
    columns = ("examples", *map(paper_domain, DOMAINS))
    first = [r for r in rows if r["row"].startswith(f"{labels[0]}, ") and r["column"] in columns]
    numbers = [float(r["ours"]) for r in first if r["ours"]]
    assert numbers and all(45 <= x <= 100 for x in numbers)


def test_tables_of_the_sample_print_nothing(tmp_path, make_table):
    "Two of them; the batch on the sample makes all."
    one, four = (
        make_table(tmp_path, n, task=SAMPLE_TASK)
        for n in TABLES
        if n.endswith(("responses", "instructions"))
    )
    assert {r["source"] for r in [*one, *four]} == {"not in our sources"}
    assert [r["ours"] for r in one if r["row"] == "questions"] == ["15", "14", "13"]


@pytest.mark.parametrize("kind", ["test_accuracy", "dev_accuracy", "methods", "similarity"])
def test_a_system_that_answered_nothing_has_a_row_with_the_reason(tmp_path, make_table, kind):
    "There is nothing to draw then, and the numbers that the paper prints stay."
    [name] = [n for n in [*TABLES, "altentities/own_pair_similarity"] if n.endswith(kind)]
    rows = make_table(tmp_path, name, task=SAMPLE_TASK, systems=["gpt-4o"])
    assert rows and not any(r["ours"] for r in rows if "GPT-4o" in r["row"])
    assert all(r["reason"] for r in rows if r["row"] == "GPT-4o")


# What fills missing cells: stand-ins of the right shape, for runs and trainings that need a GPU

T5 = trained_systems()["t5"].pair


def answer(s, name: str, system: str, share: float, trained: str = "", model: str = T5.model):
    "A complete run that has about so many right answers."
    task, chance = find_task(name, s), random.Random(name)
    encoder = find_system(system).model if system == "bert-mnli" else None
    how = pair_settings(encoder) if encoder else {}
    if trained:
        how = {"trained": f"trained on {trained}", "model": model}
    info = RunInfo(name, system, {"questions": questions_id(task.questions)}, settings=how)
    run = open_run(info, s.runs)
    with run.writing() as journal:
        for q in task.questions:
            wrong = next(i for i in range(len(q.options)) if i not in q.right)
            journal.add(Answer(q.id, q.right if chance.random() < share else (wrong,)))
    run.seal([q.id for q in task.questions])
    write_run_summary(run, task)


@pytest.fixture(scope="module")
def filled(upstream, tmp_path_factory):
    """A function that makes a table where others have answered and trained.

    T5 on all tasks, trained on each domain, and on books and all for one of them; entailment and
    somebody's USE on one task; a search."""
    home = tmp_path_factory.mktemp("stand_ins")
    folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
    s = load_settings("/", env={}, upstream=str(upstream), offline=True, **folders)
    for task, _ in columns_of("altentities/test").values():
        answer(s, task, "t5", 0.8, task.replace("/test", "/train"))
    unshown = [f"altentities/{d}/unshown/train" for d in ("books", "recipes", "songs")]
    answer(s, "altentities/recipes/unshown/test", "t5", 0.7, unshown[0])
    answer(s, "altentities/recipes/unshown/test", "t5", 0.9, "+".join(unshown), "tiny")
    for system in ("bert-mnli", "use"):
        answer(s, "altentities/books/oracle/test", system, 0.6)
    task = "altentities/books/oracle/train"
    recipe = dict(learning_rate=5e-6, per_device_train_batch_size=32)
    tried = [Tried({"learning_rate": 5e-6}, 0.8), Tried({"learning_rate": 1e-6}, 0.7)]
    learnt = ("t5", task, [task], f"trained on {task}", 9, T5, recipe)
    seal = TrainedSeal(*learnt, 0.8, "", tried, {}, "a", "b")
    path = home / "reports/trained/t5/altentities-books-oracle-train-abc.json"
    write_atomic(path, msgspec.json.encode(seal))

    def make(name: str, **parameters) -> dict[tuple[str, str], dict[str, str]]:
        "What its notebook writes; no other run is made for it."
        with pytest.MonkeyPatch.context() as m:
            tools.live_in(m, home)
            m.setenv("REFNB_UPSTREAM", str(upstream))
            tools.run_cells(notebook_of(name), **parameters, out=str(home / "made"))
        return cells_of_report(home / f"made/{name}.csv")

    return make


def test_runs_of_the_papers_models_fill_their_rows(filled):
    cells = filled("altentities/table_7_test_accuracy", systems=[])
    t5 = {c: cell for (row, c), cell in cells.items() if row == "T5"}
    assert len(t5) == 12 and all(c["ours"] and c["paper"] for c in t5.values())
    assert abs(float(t5["average"]["ours"]) - 80) < 1
    models = ("USE", "Entailment", "BERT")
    answered = [bool(cells[m, "books / oracle"]["ours"]) for m in models]
    assert answered == [True, True, False]
    assert "GPU" in cells["BERT", "average"]["reason"]
    assert "1 of 11" in cells["USE", "average"]["reason"]


def test_what_was_trained_on_another_domain_fills_its_cells(filled):
    cells = filled("altentities/table_8_cross_domain")
    ours = [cells[on, "recipes"]["ours"] for on in (*PAPER_DOMAINS, "mixed")]
    assert [round(float(x), -1) if x else None for x in ours] == [70, 80, None, 90]
    assert T5.model in cells["mixed", "recipes"]["reason"]
    assert cells["books", "recipes"]["reason"] == "unexplained"


def test_a_search_fills_its_hyperparameters(filled):
    cells = filled("altentities/table_13_hyperparameters")
    rate, size = (cells["T5 / books / oracle", c] for c in ("learning rate", "batch size"))
    assert float(rate["ours"]) == 5e-6 and rate["difference"] == "0"
    assert size["ours"] == "32" and "2 of 24" in size["reason"]
    assert not cells["T5 / books / name", "batch size"]["ours"]
