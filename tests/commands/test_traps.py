"What would give a wrong picture in silence is told: at the first question, or in one line."

import json, os
import pytest
import tools
from refnb.benchmarks.tasks import benchmarks, task_questions
from refnb.core.corpora import load
from refnb.core.reading import write_documents
from refnb.core.types import DataError

TASK = "sample/ferryman"  # 29 questions
UPSTREAM = os.environ.get("REFNB_UPSTREAM", "")


@pytest.fixture
def refnb(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    return lambda *args: tools.here(capsys, *args)


# A function


@pytest.mark.parametrize(
    "reply", ["'Nobody'", "99", "-1", "1.0", "True", "[0]", "Answer(q.id, (99,))", "Answer('x')"]
)
def test_a_function_that_returns_no_option_is_stopped_at_the_first_question(refnb, tmp_path, reply):
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/mine.yaml").write_text("function: mine.py:answer\n")
    code = f"from refnb.core.types import Answer\ndef answer(q): return {reply}\n"
    (tmp_path / "systems/mine.py").write_text(code)
    first = task_questions(TASK)[0]
    said = tools.one_line(refnb("run", TASK, "mine"), 1, first.id, "the system returned", "None")
    assert reply.partition("(")[0].strip("'") in said
    shown = json.loads(refnb("list", "runs", "--json").out)["runs"]
    assert not any(r.get("sealed") for r in shown)


def test_a_function_may_decline_and_may_count_in_numpy(refnb, tmp_path):
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/mine.yaml").write_text("function: mine.py:answer\n")
    code = "import numpy as np\ndef answer(q): return None if 'a' in q.text[:9] else np.int64(0)\n"
    (tmp_path / "systems/mine.py").write_text(code)
    assert json.loads(refnb("run", TASK, "mine", "--json").out)["sealed"]


def test_a_function_that_returns_no_clusters_says_what_it_should():
    import refnb

    with pytest.raises(DataError, match="the system returned None.*first token"):
        refnb.run(load("sample")[:1], lambda d: None)


# Files in the wrong place


@pytest.mark.parametrize("ending", ["jsonl", "conll", "conllu"])
def test_a_file_without_clusters_is_warned_of(refnb, tmp_path, ending):
    docs = load("sample")[:2]
    write_documents(docs, gold := tmp_path / f"gold.{ending}")
    bare = [d.changed(clusters=(), names=(), labels={}) for d in docs]
    write_documents(bare, empty := tmp_path / f"empty.{ending}")
    for pair in ((gold, empty), (empty, gold), (empty, empty)):
        said = refnb("score", "coref", *pair)
        assert said.status == 0 and "documents" in said.out
        [line] = said.err.splitlines()
        assert line.startswith("refnb: ") and f"empty.{ending}" in line and "no clusters" in line
        assert json.loads(refnb("score", "coref", *pair, "--json").out)["documents"] == 2
    assert not refnb("score", "coref", gold, gold).err


ANSWERS = {
    "mine.jsonl": '{"id": "ID", "chosen": [0]}',
    "scores.jsonl": '{"scores": [0.1, 0.2], "id": "ID"}',
    "mine.csv": "id,answer\nID,A",
    "columns.csv": "note;answer;id\n;A;ID",
    "gap.tsv": "ID\tTRUE\tFALSE",
}
LOGS = {
    "log.json": '{"eval": {}, "samples": [{"id": 1, "scores": {"m": {"value": "C"}}}]}',
    "samples_x.jsonl": '{"doc_id": 0, "doc": {}, "acc": 1.0}',
}


@pytest.mark.parametrize("name", [*ANSWERS, *LOGS])
def test_a_file_of_answers_is_told_where_it_belongs(refnb, tmp_path, name):
    q = task_questions(TASK)[0]
    text = (ANSWERS | LOGS)[name].replace("[0.1, 0.2]", str([0.5] * len(q.options)))
    (tmp_path / name).write_text(text.replace("ID", q.id))
    for call in ((name, "random"), (TASK, name), (TASK, "random", name)):
        said = tools.one_line(refnb("run", *call), 2, name, "refnb score choice", "refnb compare")
        assert ("--gold" in said) == (name in ANSWERS)
    if name in ANSWERS:  # and there it is read
        assert refnb("score", "choice", name, "--gold", TASK).status == 0


def test_other_files_in_place_of_a_system(refnb, tmp_path):
    write_documents(load("sample")[:1], tmp_path / "found.conll")
    said = refnb("run", "sample/bookcoref", "found.conll")
    tools.one_line(said, 2, "found.conll", "not a system", "refnb score coref")


# A benchmark that as a whole cannot be asked


@pytest.mark.parametrize("task", ["identifyme/test", "identifyme/test/sample20", "identifyme"])
@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_the_part_that_can_be_asked_is_named(refnb, monkeypatch, task, more):
    for folder in {"", UPSTREAM}:  # whether its files are here or not
        monkeypatch.setenv("REFNB_UPSTREAM", folder)
        said = refnb("run", task, "gpt-4o-mini", *more)
        assert said.status and "identifyme/litbank/test" in said.err
        assert len(said.err.splitlines()) == 1


def test_a_benchmark_names_its_tasks(refnb):
    for name, card in benchmarks().items():
        said = tools.one_line(refnb("run", name, "random"), 2, "is a benchmark")
        assert [*card.board, *card.tasks][0] in said
