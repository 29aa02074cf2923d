"The paths to missing cells, with stand-ins of the right shape: runs, trainings, sheets, corpora; and the list of these paths."

import random
from collections import Counter
import msgspec
import pytest
import tools
from refnb.benchmarks.tasks import find_task
from refnb.core.files import write_atomic
from refnb.core.runs import RunInfo, open_run, questions_id
from refnb.core.settings import load_settings
from refnb.core.types import Answer
from refnb.models.running import write_run_summary
from refnb.models.pairs.encoders import pair_settings
from refnb.models.registry import find_system
from refnb.models.pairs.heads import trained_systems
from refnb.models.pairs.trained import TrainedSeal, Tried
from refnb.results.board import LACKS, board, way_of, ways
from refnb.results.papers.altentities import columns_of
from refnb.results.plan import plan
from refnb.results.printed import table_names

REPORTS = tools.ROOT / "reports"
MODEL = trained_systems()["t5"].pair.model


def answer(s, name: str, system: str, right: float, trained: str = "", model: str = MODEL):
    "A complete run that has about so many right answers."
    task, rng = find_task(name, s), random.Random(name)
    questions = task.questions
    m = find_system(system).model if system == "bert-mnli" else None
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


def test_a_corpus_of_yours_fills_its_row(tmp_path, made):
    from refnb.core.corpora import load
    from refnb.core.reading import write_documents

    docs = load("sample")
    (tmp_path / "a").mkdir()
    for d in docs:
        write_documents([d], tmp_path / f"a/{d.doc_key.replace('/', '_')}.conll")
    rows = made("bookcoref/table_1_statistics", corpora={"OntoNotes": str(tmp_path / "a")})
    assert (
        rows["OntoNotes", "documents"]["ours"] == str(len(docs))
        and rows["OntoNotes", "documents"]["paper"]
        and not rows["LongtoNotes", "documents"]["ours"]
    )
    with pytest.raises(Exception, match="unknown corpus 'Ontonotes'; did you mean OntoNotes"):
        made("bookcoref/table_1_statistics", corpora={"Ontonotes": "x"})


# The list of paths


def test_every_missing_cell_has_one_path_and_board_and_plan_agree():
    s = load_settings("/", env={}, reports=str(REPORTS))
    found, lines = plan(s=s), [x for x in board(s).papers if x.missing]
    for line in lines:
        assert sum(x.cells.get(line.name, 0) for x in found) == line.missing, line.name
    assert found.lacks == sum((x.lacks for x in lines), Counter()) and set(found.lacks) <= set(
        LACKS
    )
    assert all(x.way.commands or x.way.by_hand for x in found)
    assert "other" not in {x.name for x in found} and way_of("the moon was full") == "other"


def test_every_command_of_the_list_is_one(capsys):
    commands = [c.split() for w in ways().values() for c in w.commands]
    assert {c[0] for c in commands} == {"refnb"}
    assert {c[1] for c in commands} == {"fetch", "run", "train", "reproduce"}
    tables = {t for c in commands if c[1] == "reproduce" for t in c[2:] if "/table" in t}
    assert all(any(n.startswith(f"{t}_") for n in table_names()) for t in tables)
    said = tools.here(capsys, "reproduce", "--plan", "kitmus")
    assert said.status == 0 and "refnb fetch kitmus-predictions" in said.out
