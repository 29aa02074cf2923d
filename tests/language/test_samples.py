"Questions asked in several ways: draws, orders of their options, solved examples before them."

import json, random
import pytest
import tools
from asking import SECRET, at, seal
from refnb import find_system, run
from refnb.benchmarks.tasks import FERRYMAN, SAMPLE, find_task, task_questions
from refnb.core.files import write_jsonl
from refnb.core.types import NONE, CallError, RefnbError
from refnb.models.language.prompts import examples_from
from refnb.models.running import planned
from stub_server import Play

QUESTIONS = task_questions(FERRYMAN)[:8]
LEAD = "- The mention refers to: "
FORM = "identifyme/base"
WARM = {"temperature": 1.0, "max_tokens": 50, "seed": 7}
asks = pytest.mark.usefixtures("no_keys")


def options_of(prompt: str) -> list[str]:
    "The options as a prompt shows them."
    return prompt.partition("Options for the answer:\n")[2].partition("\n\n")[0].split("\n")


def drawing(seen) -> Play:
    "A reply that depends on the prompt and the seed."
    rng = random.Random(f"{seen.prompt} {seen.body.get('seed')}")
    return Play(text=LEAD + rng.choice(options_of(seen.prompt)[:3]))


def answered(stub, s, qs=QUESTIONS, **changed):
    "A run, which is complete."
    r = run(qs, "gpt-4o-mini", s=s, **at(stub, **{"form": FORM, "decoding": WARM} | changed))
    assert r.complete
    return r


def chosen(answers: dict) -> dict:
    return {i: a.chosen for i, a in answers.items()}


# Draws


@asks
def test_each_question_is_asked_k_times_and_has_one_answer(stub, settings):
    stub.always, s, n = drawing, settings(), len(QUESTIONS)
    r = answered(stub, s, samples=3)
    assert len(stub.seen) == 3 * n == seal(r)["answers"]
    assert seal(r)["questions"] == n == len(r.answers()) and "samples=3" in r.info.system
    assert {len(x) for x in r.samples().values()} == {3}
    assert any(len({a.chosen for a in x}) > 1 for x in r.samples().values())
    one = answered(stub, s)  # the first draw is what a single one is
    assert chosen(one.answers()) == {i: x[0].chosen for i, x in r.samples().items()}
    assert len(stub.seen) == 3 * n
    answered(stub, s, samples=5)
    assert len(stub.seen) == 5 * n, "two more draws of each"


@asks
def test_draws_without_a_seed_are_bought_one_by_one(stub, settings):
    answered(stub, settings(), samples=4, decoding={"temperature": 1.0})
    assert len(stub.seen) == 4 * len(QUESTIONS) and "seed" not in stub.seen[0].body


@asks
def test_the_answer_is_what_most_draws_say(stub, settings):
    "A refusal outweighs no vote; of two that are as frequent none is chosen."
    said = ["BAA", "-B", "--B", "AB-"]
    want = [((0,), None), ((1,), None), ((), "refused"), ((), None)]
    for script, (option, reason), q in zip(said, want, QUESTIONS):
        letters = iter(script)

        def next_one(seen, letters=letters, q=q):
            x = next(letters)
            text = "" if x == "-" else LEAD + q.options["AB".index(x)].name
            return Play(text=text, refusal="No." if x == "-" else None)

        stub.always = next_one
        warm = {"temperature": 1.0}
        r = answered(stub, settings(), [q], samples=len(script), decoding=warm, concurrency=1)
        [a] = r.answers().values()
        assert (a.chosen, a.reason) == (option, reason), script
    assert a.scores[:2] == (0.5, 0.5)


@pytest.mark.parametrize(
    "how, words",
    [
        (dict(samples=2), "alike without random decoding"),
        (dict(samples=0), "0 samples"),
        (dict(samples="many"), "samples"),
        (dict(samples=2, decoding={"temperature": 1.0}, batches=True), "once"),
        (dict(order="rotations", batches=True), "once"),
        (dict(order="rotation"), "order"),
    ],
)
def test_what_cannot_be_asked_several_times_is_refused(settings, how, words):
    with pytest.raises(CallError, match=words) as e:
        run(FERRYMAN, "gpt-4o-mini", s=settings(), **how)
    assert "\n" not in str(e.value)


def test_a_plan_counts_all_requests(settings):
    warm, s = {"decoding": {"temperature": 1.0}}, settings()
    one, three = (planned(FERRYMAN, "gpt-4o-mini", s=s, samples=n, **warm) for n in (1, 3))
    assert (three.items, three.tokens_in) == (3 * one.items, 3 * one.tokens_in)


# Orders


@asks
def test_the_order_of_options_is_turned_back(stub, settings):
    stub.always, s = lambda seen: Play(text="A"), settings()
    runs = {o: answered(stub, s, form="choice/letters", order=o) for o in ("given", "reversed")}
    for q in QUESTIONS:
        last = len(q.options) - 1 - (q.options[-1].name == NONE)  # which stays at the end
        assert runs["given"].answers()[q.id].chosen == (0,)
        assert runs["reversed"].answers()[q.id].chosen == (last,)
    stub.always = lambda seen: Play(text=f"{LEAD}{NONE}")
    orders = ("given", "reversed")
    one, other = (chosen(answered(stub, s, order=o).answers()) for o in orders)
    assert one == other and len(stub.seen) == 4 * len(QUESTIONS)


def test_rotations_show_each_option_in_each_place_once(stub, tmp_path, monkeypatch, capsys):
    "And the command tells what a model makes of places: this one likes what is first."
    tools.live_in(monkeypatch, tmp_path)
    monkeypatch.setenv("STUB_KEY", SECRET)
    stub.always = lambda seen: Play(text=LEAD + options_of(seen.prompt)[0])
    sets = {"base_url": stub.url, "key": "STUB_KEY", "form": FORM, "order": "rotations"}
    call = ["run", FERRYMAN, "gpt-4o-mini", *(f"-p {k}={v}" for k, v in sets.items())]
    call = " ".join(call).split()
    out = tools.here(capsys, *call).out
    n = sum(len(q.options) - (q.options[-1].name == NONE) for q in task_questions(FERRYMAN))
    assert f"\n{n} samples: mean accuracy " in out and "place " in out and len(stub.seen) == n
    r = json.loads(tools.here(capsys, *call, "--json").out)
    again = json.loads(tools.here(capsys, "score", "choice", r["run"], "--json").out)
    assert again["samples"] == r["samples"] and again["questions"] == 29
    places = r["samples"]["by_position"]
    assert places["0"] == 1 and {x for k, x in places.items() if k != "0"} == {0}
    assert r["samples"]["consistency"] == 0 and r["samples"]["samples"] == n


# Solved examples

SHOWN = {"form": "choice/names", "examples": SAMPLE}


def prompt_of(q, s, shots: int, **changed) -> str:
    how = SHOWN | changed | ({} if shots else {"examples": ""})
    return planned([q], "gpt-4o-mini", s=s, shots=shots, **how).prompt


@asks
def test_the_same_solved_examples_precede_every_question(stub, settings):
    s, n = settings(), len(QUESTIONS)
    r = answered(stub, s, shots=2, **SHOWN)
    texts = {x.prompt.removesuffix(prompt_of(q, s, 0)) for x in stub.seen for q in QUESTIONS}
    [text] = [t for t in texts if all(x.prompt.startswith(t) for x in stub.seen)]
    assert text.count("Answer with one of these names") == 2
    assert r.info.settings["shots"] == 2 and "shots=2" in r.info.system
    assert text[:200] not in (r.folder / "run.json").read_text(), "a benchmark's text may be closed"
    answered(stub, s, shots=2, **SHOWN)
    assert len(stub.seen) == n, "the run is found again"
    answered(stub, s, shots=1, **SHOWN)
    assert len(stub.seen) == 2 * n, "other prompts, another run"
    usual, none = (find_system("gpt-4o-mini", s, **x) for x in ({}, {"shots": 0}))
    assert usual.name == none.name == "gpt-4o-mini"


def test_examples_are_solved_and_about_other_documents(settings):
    s, known = settings(), task_questions(SAMPLE)
    others = {q.doc_key for q in known} - {q.doc_key for q in QUESTIONS}
    bare, before, docs = prompt_of(QUESTIONS[0], s, 0), "", []
    for n in range(1, 8):
        text = prompt_of(QUESTIONS[0], s, n).removesuffix(bare)
        assert text.startswith(before), "more examples go on from fewer"
        new, before = text.removeprefix(before), text
        [q] = [
            q
            for q in known
            if new.startswith(q.text) and new.endswith(f"\n\n{q.options[q.right[0]].name}\n\n")
            and new.startswith(prompt_of(q, s, 0).rstrip())
        ]  # fmt: skip
        docs.append(q.doc_key)
    assert set(docs[: len(others)]) == others, "one of each document before a second"


DEVELOPMENT = {
    "altentities/books/oracle/test": "altentities/books/oracle/dev",
    "gap/test": "gap/dev",
    "sample/identifyme": "",
}


def test_examples_come_from_the_development_part():
    assert {x: examples_from(find_task(x)) for x in DEVELOPMENT} == DEVELOPMENT


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"form": "identifyme/desc"}, "explanation"),
        ({"shots": -1}, "0 or more"),
        ({"shots": "two"}, "shots"),
        ({"shots": 0}, "-p shots=3"),
        ({"examples": "sample/nothing"}, "neither a task nor a file"),
        ({"examples": ""}, "no development part"),
        ({"examples": FERRYMAN}, "about documents that"),
        ({"shots": 400}, "fewer than 400"),
    ],
)
def test_examples_that_cannot_be_had_are_refused(settings, changed, words):
    with pytest.raises(RefnbError) as e:
        planned(FERRYMAN, "gpt-4o-mini", s=settings(), **{"shots": 2} | SHOWN | changed)
    assert words in str(e.value) and "\n" not in str(e.value)


@asks
def test_a_run_on_a_file_knows_its_system(stub, settings, tmp_path):
    write_jsonl(tmp_path / "mine.jsonl", QUESTIONS)
    s, how = settings(), at(stub, shots=2, **SHOWN)
    r = run(tmp_path / "mine.jsonl", "gpt-4o-mini", s=s, **how)
    assert find_system("gpt-4o-mini", s, **how).is_it(r.info)
    assert not find_system("gpt-4o-mini", s, **how | {"shots": 3}).is_it(r.info)
