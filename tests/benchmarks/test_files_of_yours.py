"Files of your own: what they are read as, that no system sees their gold, and that they are scored by it."

import copy, json, re, sys
import pytest
import refnb
import tools
from refnb.benchmarks.given.tasks import read_items
from refnb.benchmarks.given.tasks import as_task
from refnb.benchmarks.kitmus.files import split_files
from refnb.benchmarks.kitmus.sampler import Resources, Sampler
from refnb.commands.running import result_of
from refnb.core.corpora import load
from refnb.core.documents import Document
from refnb.core.files import decoded, write_jsonl
from refnb.core.reading import write_documents
from refnb.core.settings import load_settings, packaged
from refnb.core.types import DataError, FormatError, Question
from refnb.models.systems import FunctionSystem

COPY = """
def copied(x):
    "What is right, as far as a system sees it."
    if hasattr(x, "options"):
        return x.right[0] if x.right else None
    return [c for c in x.clusters if c]
"""
COPY_PROGRAM = """
import json, sys
for line in sys.stdin:
    x = json.loads(line)
    names = x.get("names", {})
    clusters = list(names.values()) if isinstance(names, dict) else x.get("clusters", [])
    answer = {"choice": x["right"][0]} if x.get("right") else {"chosen": []}
    print(json.dumps({"id": x["id"]} | ({"clusters": clusters} if "sentences" in x else answer)))
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    "A folder with documents and questions that have gold, and systems that copy what they are given."
    tools.live_in(monkeypatch, tmp_path)
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/copy.py").write_text(COPY)
    (tmp_path / "systems/copy.yaml").write_text(
        "copied: {function: 'copy.py:copied', shapes: [choice, clusters]}\n"
    )
    (tmp_path / "copy_program.py").write_text(COPY_PROGRAM)
    documents = load("sample")
    write_documents(documents, tmp_path / "stories.jsonl")
    named = [d.changed(names=tuple(f"c{i}" for i, _ in enumerate(d.clusters))) for d in documents]
    write_documents(named, tmp_path / "named.jsonl")
    write_jsonl(tmp_path / "questions.jsonl", refnb.task("sample/ferryman").questions)
    return tmp_path


@pytest.fixture
def said(home, capsys):
    "What a command says with --json."

    def run(*call) -> dict:
        got = tools.here(capsys, *call, "--json")
        assert got.status == 0, got
        return json.loads(got.out)

    return run


PROGRAM = f"command/{sys.executable} copy_program.py"


@pytest.mark.parametrize("system", ["copied", PROGRAM])
@pytest.mark.parametrize("file", ["stories.jsonl", "named.jsonl"])
def test_who_copies_what_he_is_given_finds_no_mention(said, system, file):
    got = said("run", file, system)
    assert got["scores"]["full"]["mentions"]["f1"] == got["scores"]["full"]["conll"]["f1"] == 0
    assert len(got["scored"]) == 6


@pytest.mark.parametrize("system", ["copied", PROGRAM])
def test_who_copies_what_he_is_given_has_nothing_right(said, system):
    assert said("run", "questions.jsonl", system)["groups"]["all"]["accuracy"] == 0


@pytest.mark.parametrize("packaged_rule", [False, True])
def test_neither_a_function_nor_a_rule_of_the_package_sees_gold(home, packaged_rule):
    seen: list = []

    def copied(x):
        seen.append(x)
        return x.clusters if isinstance(x, Document) else None

    system = FunctionSystem(copied, "copied", packaged=packaged_rule)
    for task in (load("sample"), home / "questions.jsonl", "sample/bookcoref", "sample/ferryman"):
        refnb.run(task, system)
    assert all(not any(x.clusters) if isinstance(x, Document) else not x.right for x in seen)
    assert {type(x) for x in seen} == {Document, Question}


def test_a_worker_elsewhere_gets_no_gold(home):
    task = as_task(home / "stories.jsonl")
    there = copy.copy(task)  # by what pickling keeps
    assert len(task.gold) == 6 and not there.gold and there.ids == task.ids
    assert not any(d.mentions for d in there.documents)


def test_a_file_is_scored_by_its_own_gold_as_score_does(home, said):
    (home / "systems/half.py").write_text(
        "def half(d): return [[(i, i)] for i in range(0, d.size, 2)]"
    )
    (home / "systems/half.yaml").write_text(
        "half: {function: 'half.py:half', shapes: [clusters]}\n"
    )
    got = said("run", "stories.jsonl", "half")
    said("export", "stories.jsonl:half", "--to", "jsonlines", "--out", "predicted.jsonl")
    by_hand = said("score", "coref", "stories.jsonl", "predicted.jsonl")
    assert got["scores"]["full"]["b3"] == pytest.approx(by_hand["b3"])
    assert got["scores"]["full"]["conll"]["f1"] == pytest.approx(by_hand["conll"]["f1"])
    assert not list((home / "reports").rglob("*half*"))
    said("run", "stories.jsonl", "copied")
    table = said("compare", "stories.jsonl", "half", "copied")["systems"]
    assert (
        table["copied"]["CoNLL F1, full"]["value"] == 0 < table["half"]["CoNLL F1, full"]["value"]
    )
    [ranking] = said("report")["tasks"]
    assert [r["system"] for r in ranking["ranking"]] == ["half", "copied"]
    [line, other] = said("list", "runs")["runs"]
    assert {line["metric"], other["metric"]} == {"CoNLL F1, full"}


def test_a_document_without_a_mention_counts_where_another_has_some(home, said):
    first, second, *_ = load("sample")
    write_documents([first, second.changed(clusters=(), names=(), labels={})], home / "two.jsonl")
    write_documents(
        [d.changed(clusters=(), names=(), labels={}) for d in (first, second)], home / "none.jsonl"
    )
    (home / "systems/one.py").write_text("def one(d): return [[(0, 0), (1, 1)]]")
    (home / "systems/one.yaml").write_text("one: {function: 'one.py:one', shapes: [clusters]}\n")
    got = said("run", "two.jsonl", "one")
    assert len(got["scored"]) == 2
    only = said("run", "none.jsonl", "one")
    assert (only["scored"], only["scores"]) == ([], {})


def test_what_cannot_be_scored_is_complete_and_told(home, capsys):
    (home / "systems/twice.py").write_text("def twice(d): return [[(i, i)] for i in range(20)] * 2")
    (home / "systems/twice.yaml").write_text(
        "twice: {function: 'twice.py:twice', shapes: [clusters]}\n"
    )
    got = tools.here(capsys, "run", "stories.jsonl", "twice")
    assert got.status == 0 and "are not scored: " in got.out and "appear twice" in got.out


def test_to_describe_a_run_writes_nothing(home):
    "Not even the summary that its folder has lost."
    (home / "systems/none.py").write_text("def none(d): return []")
    (home / "systems/none.yaml").write_text("{function: 'none.py:none', shapes: [clusters]}\n")
    done = refnb.run("stories.jsonl", "none")
    (done.folder / "summary.json").unlink()
    before = {p: p.stat().st_mtime_ns for p in home.rglob("*")}
    task = as_task("stories.jsonl", load_settings(), frozenset(["clusters"]))
    described = result_of(done, task, "", load_settings())
    assert described["sealed"] and described["scores"] == {}
    assert {p: p.stat().st_mtime_ns for p in home.rglob("*")} == before


# Formats


def test_somebody_may_speak_of_options(home):
    talk = {"doc_key": "talk", "sentences": [["He", "said", "options"]], "clusters": [[[0, 0]]]}
    (home / "talk.jsonl").write_text(json.dumps(talk).replace('"options"', '"\\"options\\""'))
    assert isinstance(read_items(home / "talk.jsonl")[0], Document)
    talk["sentences"][0][2] = "options"
    (home / "talk.jsonl").write_text(json.dumps(talk))
    assert isinstance(read_items(home / "talk.jsonl")[0], Document)


def test_what_was_predicted_is_no_gold(home):
    resources = Resources(packaged("data/kitmus"))
    *_, test = Sampler(resources, "paper", (2,), (0, 0, 2), 0).subtasks(["background-both"])
    texts = {n.rpartition("/")[2]: x for n, x in split_files(test) if "full-text" in n}
    gold = texts["test.jsonlines"].decode()
    path = home / "x.jsonlines"
    for text in (
        re.sub('"clusters": .*}', '"clusters": []}', gold),  # not those of a text
        gold.replace('"clusters"', '"predicted_clusters"'),
        gold.replace('"clusters"', '"ner": [], "clusters"'),  # as its systems write
    ):
        assert text != gold
        path.write_text(text)
        for shapes in (["choice"], ["clusters"]):
            with pytest.raises(DataError, match="not a KITMUS text|not gold"):
                read_items(path, shapes)
    path.write_text(gold)
    assert isinstance(read_items(path)[0], Document)
    assert isinstance(read_items(path, ["choice"])[0], Question)


Q = '"id": "a", "doc_key": "d", "text": "He said: \\"no\\": no."'
TWICE = ['"id": "b"', '"id" : "b"', '"id"\t:"b"', '"meta": {"k": 1, "k": 2}', '"\\u0069d": "b"']
TWICE += ['"meta": {"x\\u0022": 1, "x\\u0022": 2}', '"options": [{"name": "x", "name": "y"}]']
ONCE = ['"right": []', '"meta": {"k": "\\u0022:"}', '"options": [{"name": "x"}, {"name": "x"}]']


@pytest.mark.parametrize("more", TWICE)
def test_a_key_that_stands_twice_is_refused(more):
    with pytest.raises(FormatError, match="twice"):
        decoded(f"{{{Q}, {more}}}".encode(), Question, "q.jsonl", 1)


@pytest.mark.parametrize("more", ONCE)
def test_keys_that_look_alike_are_read(more):
    assert decoded(f"{{{Q}, {more}}}".encode(), Question, "q.jsonl", 1).id == "a"


def test_a_task_is_named_by_what_systems_get(home):
    s = load_settings()
    docs = load("sample")
    bare = [d.changed(clusters=((),) * len(d.names), labels={}) for d in docs]
    assert as_task(bare, s).name == as_task(home / "stories.jsonl", s).name
    assert as_task(home / "named.jsonl", s).name != as_task(bare, s).name
