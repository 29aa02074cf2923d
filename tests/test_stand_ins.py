"The paths to missing cells, with stand-ins of the right shape: runs, trainings, sheets, corpora; and the list of these paths."

import csv, os, random
import msgspec
import pytest
import tools
from refnb.benchmarks.tasks import find_task
from refnb.core.files import write_atomic
from refnb.core.runs import RunInfo, open_run, questions_id
from refnb.core.settings import load_settings
from refnb.core.types import Answer, DataError
from refnb.models.running import write_run_summary
from refnb.models.pairs.encoders import pair_settings
from refnb.models.pairs.systems import the_pair_system
from refnb.models.pairs.heads import trained_systems
from refnb.models.pairs.trained import TrainedSeal, Tried
from refnb.results.board import LACKS, board
from refnb.results.papers.altentities import columns_of
from refnb.results.plan import Plan, Planned, arguments, everything, expanded, plan
from refnb.results.board import way_of, ways
from refnb.results.printed import table_names

REPORTS = tools.ROOT / "reports"
MODEL = trained_systems()["t5"].pair.model


def answer(s, name: str, system: str, right: float, trained: str = "", model: str = MODEL):
    "A complete run that has about so many right answers."
    task, rng = find_task(name, s), random.Random(name)
    questions = task.questions
    m = the_pair_system(system).model if system == "bert-mnli" else None
    told = (
        {"trained": f"trained on {trained}", "model": model}
        if trained
        else pair_settings(m)
        if m
        else {}
    )
    run = open_run(
        RunInfo(name, system, {"questions": questions_id(questions)}, settings=told), s.runs
    )
    with run.writing() as w:
        for q in questions:
            w.add(
                Answer(
                    q.id,
                    q.right
                    if rng.random() < right
                    else tuple(i for i in range(len(q.options)) if i not in q.right)[:1],
                )
            )
    run.seal([q.id for q in questions])
    write_run_summary(run, task)


@pytest.fixture(scope="module")
def home(upstream, tmp_path_factory):
    "T5 on all tasks, trained on each domain, and on books and all for one of them; entailment and somebody's USE on one task; a search."
    home = tmp_path_factory.mktemp("stand_ins")
    s = load_settings(
        "/",
        env={},
        upstream=str(upstream),
        offline=True,
        **{k: str(home / k) for k in ("cache", "runs", "reports")},
    )
    for task, _ in columns_of("altentities/test").values():
        answer(s, task, "t5", 0.8, task.replace("/test", "/train"))
    unshown = [f"altentities/{d}/unshown/train" for d in ("books", "recipes", "songs")]
    answer(s, "altentities/recipes/unshown/test", "t5", 0.7, unshown[0])
    answer(s, "altentities/recipes/unshown/test", "t5", 0.9, "+".join(unshown), "tiny")
    for system in ("bert-mnli", "use"):
        answer(s, "altentities/books/oracle/test", system, 0.6)
    answer(s, "altentities/songs/unshown/dev", "t5", 0.8, "altentities/songs/unshown/train")
    task, recipe = (
        "altentities/books/oracle/train",
        dict(learning_rate=5e-6, per_device_train_batch_size=32),
    )
    seal = TrainedSeal(
        "t5",
        task,
        [task],
        f"trained on {task}",
        9,
        trained_systems()["t5"].pair,
        recipe,
        0.8,
        "",
        [Tried({"learning_rate": 5e-6}, 0.8), Tried({"learning_rate": 1e-6}, 0.7)],
        {},
        "a",
        "b",
    )
    write_atomic(
        home / "reports/trained/t5/altentities-books-oracle-train-abc.json",
        msgspec.json.encode(seal),
    )
    return home


@pytest.fixture(scope="module")
def made(home, upstream, make_table):
    return lambda name, **parameters: {
        (r["row"], r["column"]): r for r in make_table(home, name, upstream, **parameters)
    }


def test_runs_of_the_papers_models_fill_their_rows(made):
    rows = made("altentities/table_7_test_accuracy", systems=["random"])
    t5 = {c: r for (row, c), r in rows.items() if row == "T5"}
    assert (
        len(t5) == 12
        and all(r["ours"] and r["paper"] for r in t5.values())
        and abs(float(t5["average"]["ours"]) - 80) < 1
    )
    assert [bool(rows[m, "books / oracle"]["ours"]) for m in ("USE", "Entailment", "BERT")] == [
        True,
        True,
        False,
    ]
    assert (
        "GPU" in rows["BERT", "average"]["reason"]
        and rows["USE", "average"]["reason"] == "1 of 11 cells were answered"
    )


def test_what_was_trained_elsewhere_fills_table_8(made):
    rows = made("altentities/table_8_cross_domain")
    ours = {on: rows[on, "recipes"]["ours"] for on in ("books", "recipes", "music", "mixed")}
    assert [round(float(x), -1) if x else None for x in ours.values()] == [70, 80, None, 90]
    assert (
        rows["mixed", "recipes"]["reason"] == f"t5 was trained from tiny, not from {MODEL}"
        and rows["books", "recipes"]["reason"] == "unexplained"
    )


def test_sampling_methods_of_a_trained_t5(made):
    rows = made("altentities/table_9_sampling_methods", systems=["word-overlap"])
    assert all(r["ours"] for (row, _), r in rows.items() if row in ("uniform", "all"))


def test_a_search_fills_table_13(made):
    rows = made("altentities/table_13_hyperparameters")
    cell = lambda c: rows["T5 / books / oracle", c]
    assert (float(cell("learning rate")["ours"]), cell("learning rate")["difference"]) == (
        5e-6,
        "0",
    )
    assert (cell("batch size")["ours"], cell("batch size")["reason"]) == (
        "32",
        "2 of 24 settings were tried",
    ) and not rows["T5 / books / name", "batch size"]["ours"]


def test_a_filled_sheet_of_t5_fills_table_15(home, made):
    made("altentities/table_15_correct_examples", systems=["t5"], write=str(home / "sheets"))
    [sheet] = (home / "sheets").glob("*.csv")
    with sheet.open(newline="") as f:
        rows = list(csv.DictReader(f))
    with sheet.open("w", newline="") as f:
        w = csv.DictWriter(f, rows[0])
        w.writeheader()
        w.writerows(r | {"label": "genre" if i % 2 else "date"} for i, r in enumerate(rows))
    cells = made(
        "altentities/table_15_correct_examples", systems=["t5"], sheets=str(home / "sheets")
    )
    assert (cells["genre", "examples"]["ours"], cells["genre", "examples"]["paper"] != "") == (
        "50",
        True,
    )
    assert "GPU" in made("altentities/table_15_correct_examples")["genre", "examples"]["reason"]


def test_a_corpus_of_yours_fills_its_row(tmp_path, made):
    from refnb.core.corpora import load
    from refnb.core.reading import write_documents

    docs = load("sample")
    (tmp_path / "a").mkdir()
    for d in docs:
        write_documents(tmp_path / f"a/{d.doc_key.replace('/', '_')}.conll", [d])
    rows = made("bookcoref/table_1_statistics", corpora={"OntoNotes": str(tmp_path / "a")})
    assert (
        rows["OntoNotes", "documents"]["ours"] == str(len(docs))
        and rows["OntoNotes", "documents"]["paper"]
        and not rows["WikiCoref", "documents"]["ours"]
    )
    with pytest.raises(Exception, match="unknown corpus 'Ontonotes'; did you mean OntoNotes"):
        made("bookcoref/table_1_statistics", corpora={"Ontonotes": "x"})


# The list of paths


def test_every_missing_cell_has_one_path():
    found = plan(s=load_settings("/", env={}, reports=str(REPORTS)))
    missing = {
        l.name: l.missing
        for l in board(load_settings("/", env={}, reports=str(REPORTS))).papers
        if l.missing
    }
    assert {
        t: sum(x.cells.get(t, 0) for x in found) for t in missing
    } == missing and found.total == sum(missing.values())
    assert all(x.way.commands or x.way.by_hand for x in found) and LACKS


def test_every_command_of_the_list_is_one(capsys):
    verbs = {c.split()[1] for w in ways().values() for x in w.commands for c in expanded(x)}
    assert verbs == {"fetch", "run", "train", "reproduce"} and all(
        c.startswith("refnb ") for w in ways().values() for c in w.commands
    )
    tables = {
        t
        for w in ways().values()
        for c in w.commands
        if c.startswith("refnb reproduce")
        for t in c.split()[2:]
        if "/table" in t
    }
    assert all(any(n.startswith(f"{t}_") for n in table_names()) for t in tables)
    said = tools.here(capsys, "reproduce", "--plan", "kitmus")
    assert said.status == 0 and "refnb fetch kitmus-predictions" in said.out


def test_a_pattern_is_the_file_that_changed_last(tmp_path):
    for age, name in ((9, "zzz"), (1, "aaa"), (5, "mmm")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert arguments(f"refnb run a/b t5 -p checkpoint={tmp_path}/*") == [
        "run",
        "a/b",
        "t5",
        "-p",
        f"checkpoint={tmp_path}/aaa",
    ]
    assert arguments("refnb fetch 'x={A: FILE}' none/*") == ["fetch", "x={A: FILE}", "none/*"]


def test_a_way_that_fails_is_told_and_the_others_go_on(monkeypatch):
    import refnb.results.plan as module

    said, ran = [], []
    some = Plan(
        Planned(n, ways()[n], {"kitmus/table_3": 1}, 0.0)
        for n in ("kitmus-predictions", "altentities-train", "silver")
    )
    monkeypatch.setattr(module, "plan", lambda names, s: some)
    monkeypatch.setattr(module, "machine", lambda s: ["network"])
    monkeypatch.setattr(
        module, "run_command", lambda c: ran.append(c) or ("no network" if "kitmus" in c else "")
    )
    failed = everything(say=said.append)
    assert [x.name for x in failed] == ["kitmus-predictions"] and ran == [
        "refnb fetch kitmus-predictions",
        *ways()["altentities-train"].commands,
    ]
    assert (
        "2 ways, for 2 cells" in said[0] and said[1] == "refnb fetch kitmus-predictions: no network"
    )


def test_a_reason_without_a_path_is_told():
    with pytest.raises(DataError, match="no way is listed"):
        way_of("the moon was full")
