"Solved examples before a question: where they are from, that none leaks an answer, and what a run records of them."

import msgspec
import pytest
from asking import KEY, PRICE
from refnb.benchmarks.tasks import FERRYMAN, SAMPLE, find_task, task_questions
from refnb.core.types import CallError, DataError
from refnb.models.language.prompts import examples_for, examples_from, no_examples, render
from refnb.models.registry import find_system
from refnb.models.running import planned, run
from stub_server import Play


QUESTIONS = task_questions(FERRYMAN)


def at(stub, **changed) -> dict:
    "Settings of a model at the stub, which gets two examples from the other stories."
    return (
        dict(
            base_url=stub.url,
            key=KEY,
            price=PRICE,
            title="stub",
            form="choice/names",
            shots=2,
            examples=SAMPLE,
        )
        | changed
    )


@pytest.mark.usefixtures("no_keys")
def test_the_same_solved_examples_precede_every_question(stub, settings):
    stub.always, s = lambda seen: Play(text="None of the Above"), settings()
    r = run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub))
    text = examples_for(find_task(FERRYMAN, s), "choice/names", 2, SAMPLE)
    assert (
        r.sealed
        and {x.prompt.startswith(text) for x in stub.seen} == {True}
        and text.count("Answer with one of these names") == 2
    )
    assert (
        "shots=2" in r.info.system
        and r.info.settings["shots"] == 2
        and len(r.info.settings["examples"]) == 16
    )
    assert text[:200] not in (r.folder / "run.json").read_text()  # it may be a benchmark's text
    run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub))
    assert len(stub.seen) == len(QUESTIONS)  # the run is found again
    run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub, shots=1))
    assert len(stub.seen) == 2 * len(QUESTIONS)  # other prompts, another run


def test_examples_end_with_the_right_answer_and_are_about_other_documents():
    task, whole = find_task(FERRYMAN), task_questions(SAMPLE)
    others = {q.doc_key for q in whole} - {q.doc_key for q in QUESTIONS}
    text, docs = "", []
    for n in range(1, 8):
        more = examples_for(task, "choice/names", n, SAMPLE)
        assert more.startswith(text)  # more examples go on from fewer
        [q] = [
            q
            for q in whole
            if q.text in more[len(text) :]
            and more.endswith(f"\n\n{q.options[q.right[0]].name}\n\n")
            and render(q, "choice/names").rstrip() in more[len(text) :]
        ]
        text = more
        docs.append(q.doc_key)
    assert set(docs[: len(others)]) == others  # one of each document before a second
    letters = examples_for(task, "choice/letters", 1, SAMPLE)
    assert letters.rstrip()[-1].isalpha() and letters.rstrip()[-2] == "\n"


@pytest.mark.parametrize(
    "task,source",
    [
        ("altentities/books/oracle/test", "altentities/books/oracle/dev"),
        ("gap/test", "gap/dev"),
        ("sample/identifyme", ""),
    ],
)
def test_examples_come_from_the_development_part(task, source):
    assert examples_from(find_task(task)) == source
    assert bool(no_examples(find_task(task), 2)) == (not source)


@pytest.mark.parametrize(
    "changed,error",
    [
        ({"form": "identifyme/desc"}, "asks for an explanation"),
        ({"shots": -1}, "say 0 or more"),
        ({"shots": "two"}, "shots cannot be 'two'"),
        ({"shots": 0}, "say -p shots=3"),
        ({"examples": "sample/nothing"}, "is neither a task nor a file"),
        ({"examples": ""}, "no development part"),
        ({"examples": FERRYMAN}, "are about documents that sample/ferryman lacks"),
        ({"shots": 400}, "ask for fewer than 400 shots"),
    ],
)
def test_examples_that_cannot_be_had(changed, error, stub, settings):
    with pytest.raises((CallError, DataError)) as e:
        planned(FERRYMAN, "gpt-4o-mini", s=settings(), **at(stub, **changed))
    assert error in str(e.value) and "\n" not in str(e.value) and not stub.seen


@pytest.mark.usefixtures("no_keys")
def test_a_run_on_a_file_is_found_by_its_name(stub, settings, tmp_path):
    from refnb.core.files import write_jsonl

    write_jsonl(tmp_path / "mine.jsonl", QUESTIONS)
    stub.always, s, changed = lambda seen: Play(text="None of the Above"), settings(), at(stub)
    r = run(tmp_path / "mine.jsonl", "gpt-4o-mini", s=s, **changed)
    assert r.sealed and find_system("gpt-4o-mini", s, **changed).is_it(r.info)
    assert not find_system("gpt-4o-mini", s, **(changed | {"shots": 3})).is_it(r.info)


def test_documents_have_no_examples(settings):
    system = find_system("gpt-4o-mini", settings(), shots=2)
    assert "for questions, not for documents" in system.lacks(find_task("sample/bookcoref"))


def test_a_model_without_examples_is_as_before(settings):
    a, b = (find_system("gpt-4o-mini", settings(), **x) for x in ({}, {"shots": 0}))
    task = find_task(FERRYMAN)
    assert a.name == b.name == "gpt-4o-mini" and msgspec.json.encode(
        a.identity(task)
    ) == msgspec.json.encode(b.identity(task))
