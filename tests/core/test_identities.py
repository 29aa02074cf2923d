"Runs, summaries and answers belong to their questions by content and by id, or they are refused."

import json, shutil
from pathlib import Path
import msgspec
import pytest
import refnb
from hypothesis import given, strategies as st
from core_mutations import flipped
from core_refused import refused
from refnb import Answer, Option, Question
from refnb.core.runs import RunInfo
from refnb.core.types import CallError, RefnbError, safe_name, safe_path
from refnb.models.systems import FunctionSystem
from tools import FULL, live_in

OPTIONS = tuple(map(Option, "abcde"))
QUESTIONS = [
    Question(f"q{i}", f"d{i % 3}", "Ann met Bea.", (0, 3), OPTIONS, (i % 5,), {"kind": "xy"[i % 2]})
    for i in range(12)
]
ANSWERS = [
    Answer(q.id, reason="refused") if i % 5 == 4 else Answer(q.id, (i % 4,))
    for i, q in enumerate(QUESTIONS)
]


# The identity of a run

INFO = RunInfo("made/up", "slow", {"questions": "abc", "file": "def"}, settings={"a": 0, "b": 1})
NUMBERS = [0, 0.0, -0.0, False, None, "", "0", [], {}, [0], {"x": 0}, 1, 1.0, True]
OTHER = {
    "task": ["made/other"],
    "system": ["quick"],
    "data": [{}, {"questions": "abd", "file": "def"}, {"questions": "def", "file": "abc"}],
    "mode": ["strict"],
    "settings": [{"a": x, "b": y} for x in NUMBERS for y in (1, 2)][1:],
    "prompt": ["Who is she?", "Who is he?"],
    "builder_revision": [2],
    "system_revision": [2],
    "schema": [2],
    "refnb": [],
}


def test_whatever_can_change_an_answer_makes_another_run():
    "But for the version of refnb. 0, 0.0 and False are equal in Python, and not the same setting."
    assert set(OTHER) == set(RunInfo.__struct_fields__)
    infos = [INFO, *(INFO.changed(**{k: v}) for k, values in OTHER.items() for v in values)]
    assert len({i.hash for i in infos}) == len(infos)
    for info in infos:
        turned = {k: dict(reversed(getattr(info, k).items())) for k in ("data", "settings")}
        read = msgspec.json.decode(msgspec.json.encode(info), type=RunInfo)
        same = [read, info.changed(**turned), info.changed(refnb="9.9")]
        assert {i.hash for i in same} == {info.hash}


def test_questions_that_differ_in_anything_that_is_asked_or_right_have_another_id():
    first, *rest = QUESTIONS
    changes = [
        dict(id="x"),
        dict(doc_key="e"),
        dict(text="Ann met Bea!"),
        dict(chars=(8, 11)),
        dict(chars=None),
        dict(right=()),
        dict(right=(1,)),
        dict(options=(*OPTIONS[:4], Option("f"))),
        dict(options=(*OPTIONS[:4], Option("e", "tall"))),
    ]
    tasks = [QUESTIONS, QUESTIONS[::-1], rest, *([first.changed(**c), *rest] for c in changes)]
    assert len({refnb.task(t).id for t in tasks}) == len(tasks)


@given(st.lists(st.text(max_size=300), min_size=2, max_size=8, unique=True))
def test_any_name_is_one_short_component_and_others_have_others(names):
    made = [safe_name(n) for n in names]
    assert len(set(made)) == len(names)
    assert all(len(m) <= 100 and "/" not in m and m not in ("", ".", "..") for m in made)


def test_a_run_stays_below_its_folder_whatever_its_names(settings):
    s = settings()
    names = ["..", "../x", "a/../../x", ".", "a/./b", "/etc/x", "a//b", "...", "a/..[k=v]", "\n"]
    folders = set()
    for name in [*names, *("a" * 200 + end for end in ("", "b", "c", "a"))]:
        run = refnb.run(QUESTIONS[:2], FunctionSystem(lambda q: 0, name), s=s)
        assert run.folder.resolve().is_relative_to(Path(s.runs).resolve() / "given"), name
        assert not {"", ".", ".."} & set(safe_path(name).split("/")), name
        folders.add(run.folder.parent)
    assert len(folders) == len(names) + 4


# Summaries, which stand for runs that are not here


def accuracy(system: str) -> float:
    return refnb.score(f"sample/ferryman:{system}").interval().value


class Summaries:
    "A summary and its card, whose run is gone."

    def __init__(self, s):
        refnb.run("sample/ferryman", "random", s=s)
        shutil.rmtree(s.runs)
        folder = Path(s.reports) / "sample/runs/sample/ferryman"
        [self.summary], self.card = folder.glob("random-*.json"), folder / "part.json"

    def score(self) -> float:
        return accuracy("random")

    def change(self, path: Path, change) -> None:
        "Change a file's record."
        record = json.loads(path.read_bytes())
        change(record)
        path.write_text(json.dumps(record))


@pytest.fixture
def summaries(tmp_path, monkeypatch) -> Summaries:
    live_in(monkeypatch, tmp_path)
    return Summaries(refnb.core.settings.load_settings())


CHANGES = {
    "a credit": ("summary", lambda r: r["credit"].update({"sample_ferryman:0": 1.0})),
    "an answer less": ("summary", lambda r: r["credit"].pop("sample_ferryman:0")),
    "no questions": ("summary", lambda r: r["info"].update(data={})),
    "another task": ("summary", lambda r: r["info"].update(part="sample/identifyme")),
    "other questions": ("card", lambda r: r.update(questions="0" * 16)),
    "another task's card": ("card", lambda r: r.update(part="made/up")),
    "strange ids": ("card", lambda r: r.update(ids=[*r["ids"][:-1], "other"])),
    "fewer ids": ("card", lambda r: [r[k].pop() for k in ("ids", "doc", "options")]),
    "columns of other lengths": ("card", lambda r: r["options"].pop()),
    "an older schema": ("summary", lambda r: r.update(schema=0)),
    "a newer schema": ("card", lambda r: r.update(schema=2, new_field=1)),
    "no schema": ("summary", lambda r: r.pop("schema")),
    "a schema in words": ("card", lambda r: r.update(schema="1")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_summary_that_does_not_belong_is_never_scored(summaries, name):
    which, change = CHANGES[name]
    path = getattr(summaries, which)
    summaries.change(path, change)
    before = path.read_bytes()
    refused(summaries.score, ".json")
    assert path.read_bytes() == before


def test_a_damaged_summary_or_card_is_refused_in_one_line_or_scores_the_same(summaries):
    want = summaries.score()
    for path in (summaries.summary, summaries.card):
        whole = path.read_bytes()
        damage = [*flipped(whole, range(0, len(whole), 7 if FULL else 151))]
        damage += [whole[:cut] for cut in range(0, len(whole) - 1, 7 if FULL else 251)]
        for data in damage:
            path.write_bytes(data)
            try:
                assert summaries.score() == want
            except RefnbError as e:
                assert "\n" not in str(e)
        path.write_bytes(whole)


def test_a_name_that_means_several_runs_is_refused_and_they_are_named(tmp_path, monkeypatch):
    "The newest is not taken: not of runs, and not of their summaries when the runs are gone."
    live_in(monkeypatch, tmp_path)

    def guess(q):
        return 0

    runs = [refnb.run("sample/ferryman", guess)]

    def guess(q):
        return 1

    runs.append(refnb.run("sample/ferryman", guess))
    names = [f"function/guess@{r.info.hash}" for r in runs]
    for _ in range(2):
        hashes = [f"@{r.info.hash}" for r in runs]
        refused(lambda: accuracy("function/guess"), *hashes, kind=CallError)
        assert len(set(map(accuracy, names))) == 2
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)


def test_a_higher_revision_replaces_what_was_made_before(tmp_path, monkeypatch):
    live_in(monkeypatch, tmp_path)
    for revision, choice in [(2, 0), (1, 1)]:
        system = FunctionSystem(lambda q, c=choice: c, "mine", packaged=True, revision=revision)
        last = refnb.run("sample/ferryman", system)
    assert accuracy("mine") != accuracy(f"mine@{last.info.hash}")


# Answers


@given(st.permutations(range(12)), st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_answers_are_matched_by_id_in_any_order(asked, answered, left_out):
    "One that is missing is counted as wrong, and called missing."
    some = [ANSWERS[i] for i in answered if i not in left_out]
    got = refnb.outcomes([QUESTIONS[i] for i in asked], some).set_index("id")
    assert list(got.index) == [QUESTIONS[i].id for i in asked]
    for i, (q, a) in enumerate(zip(QUESTIONS, ANSWERS)):
        missing = i in left_out
        assert (got.reason[q.id] == "missing") == missing
        assert got.credit[q.id] == float(not missing and a.chosen == q.right)
        assert (got.kind[q.id], got.doc_key[q.id]) == (q.meta["kind"], q.doc_key)


@pytest.mark.parametrize(
    "questions, answers, id",
    [
        (QUESTIONS, [*ANSWERS, ANSWERS[1]], "q1"),
        (QUESTIONS, [*ANSWERS, Answer("q1", (0,))], "q1"),
        (QUESTIONS, [*ANSWERS, Answer("q12", (0,)), Answer("q13", (0,))], "q12"),
        (QUESTIONS[:11], {a.id: a for a in ANSWERS}, "q11"),
        ([*QUESTIONS, QUESTIONS[0]], ANSWERS, "q0"),
    ],
    ids=["twice", "two answers", "no question", "by id", "a question twice"],
)
def test_what_cannot_be_matched_is_refused_and_named(questions, answers, id):
    refused(lambda: refnb.outcomes(questions, answers, "a.jsonl"), "a.jsonl", id)
