"Questions that are asked several times: with their options in every rotation, or with several draws; kills between two samples."

import json, random
from collections import Counter
import msgspec
import pytest
import tools
from hypothesis import given, strategies as st
from asking import KEY, PRICE, SECRET
from refnb.benchmarks.tasks import FERRYMAN, task_questions
from refnb.core.runs import Seal, load_run, majority, record_key
from refnb.core.types import NONE, Answer, CallError, Option, Question
from refnb.metrics.samples import score_samples
from refnb.models.language.answering import position_of, requests_about
from refnb.models.language.models import Ask, the_model
from refnb.models.language.prompts import in_order, turned_back, turns
from refnb.models.language.store import Store
from refnb.models.running import planned, run
from stub_server import Play, Stub
from asking import FORKING, KILLS, Forked, contents


QUESTIONS = task_questions(FERRYMAN)
LEAD = "- The mention refers to: "
WARM = {"temperature": 1.0, "max_tokens": 50, "seed": 7}


def at(stub, **changed) -> dict:
    "Settings of a model at the stub."
    return (
        dict(
            base_url=stub.url,
            key=KEY,
            decoding=WARM,
            price=PRICE,
            title="stub",
            form="identifyme/base",
        )
        | changed
    )


def options_of(prompt: str) -> list[str]:
    "The options as a prompt shows them."
    return prompt.partition("Options for the answer:\n")[2].partition("\n\n")[0].split("\n")


def drawing(seen) -> Play:
    "A reply that depends on the prompt and the seed."
    shown = options_of(seen.prompt)
    return Play(
        text=LEAD + random.Random(f"{seen.prompt} {seen.body.get('seed')}").choice(shown[:3])
    )


def seal_of(r) -> Seal:
    return msgspec.json.decode((r.folder / "seal.json").read_bytes(), type=Seal)


# Draws


@pytest.mark.usefixtures("no_keys")
def test_each_question_is_asked_k_times_and_has_one_answer(stub, settings):
    stub.always, s = drawing, settings()
    r = run(FERRYMAN, "gpt-4o-mini", s=s, samples=3, **at(stub))
    assert len(stub.seen) == 3 * len(QUESTIONS) == seal_of(r).answers and seal_of(
        r
    ).questions == len(QUESTIONS) == len(r.answers())
    assert (
        {len(x) for x in r.samples().values()} == {3}
        and "samples=3" in r.info.system
        and r.info.settings["samples"] == 3
    )
    assert {i: majority(x) for i, x in r.samples().items()} == r.answers() and len(
        {len(set(a.chosen for a in x)) for x in r.samples().values()}
    ) > 1
    run(FERRYMAN, "gpt-4o-mini", s=s, samples=3, **at(stub))
    assert len(stub.seen) == 3 * len(QUESTIONS)  # nobody is asked again
    one = run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub))
    assert len(stub.seen) == 3 * len(QUESTIONS) and {
        i: a.chosen for i, a in one.answers().items()
    } == {i: x[0].chosen for i, x in r.samples().items()}  # the first draw is what a single one is
    run(FERRYMAN, "gpt-4o-mini", s=s, samples=5, **at(stub))
    assert len(stub.seen) == 5 * len(QUESTIONS)  # two more draws of each


@pytest.mark.usefixtures("no_keys")
def test_draws_without_a_seed_are_bought_one_by_one(stub, settings):
    stub.always = lambda seen: Play(text=LEAD + options_of(seen.prompt)[len(stub.seen) % 2])
    r = run(
        FERRYMAN, "gpt-4o-mini", s=settings(), samples=4, **at(stub, decoding={"temperature": 1.0})
    )
    assert (
        len(stub.seen) == 4 * len(QUESTIONS)
        and all("seed" not in x.body for x in stub.seen)
        and any(a.scores and not a.chosen for a in r.answers().values())
    )


@pytest.mark.usefixtures("no_keys")
def test_an_interrupt_between_two_samples_loses_nothing(stub, settings, tmp_path):
    stub.always, calls, s = drawing, 0, settings(runs=str(tmp_path / "other"))
    want = run(FERRYMAN, "gpt-4o-mini", s=settings(), samples=3, **at(stub))
    asked, rng = len(stub.seen), random.Random(3)
    while True:
        calls, stop = calls + 1, rng.randint(1, 40)

        def progress(n, total, first=[None], stop=stop):
            assert total == 3 * len(QUESTIONS)
            first[0] = n if first[0] is None else first[0]
            if n - first[0] >= stop:
                raise KeyboardInterrupt

        try:
            r = run(FERRYMAN, "gpt-4o-mini", s=s, samples=3, progress=progress, **at(stub))
        except KeyboardInterrupt:
            continue
        break
    assert calls > 2 and r.samples().keys() == want.samples().keys()
    assert {i: [a.chosen for a in x] for i, x in r.samples().items()} == {
        i: [a.chosen for a in x] for i, x in want.samples().items()
    }
    assert len(stub.seen) - asked <= 3 * len(QUESTIONS) + 8 * calls  # what was under way, at most


SAMPLING = (
    """
import os, signal, sys, time, traceback
from pathlib import Path
from refnb.core.settings import load_settings
from refnb.benchmarks.tasks import FERRYMAN
from refnb.models.running import run
import openai, httpx2
url, home = sys.argv[1], sys.argv[2]
s = load_settings("/", env={}, offline=True, runs=home + "/runs", reports=home + "/reports")
def answer():
    r = run(FERRYMAN, "gpt-4o-mini", s=s, samples=4, base_url=url, key="", decoding={"temperature": 1., "max_tokens": 50, "seed": 7}, form="identifyme/base")
    assert r.sealed
"""
    + FORKING
)


class Killed(Forked):
    "A run of four samples in a process that is killed and started again until it is sealed."

    def __init__(self, stub, folder, spawn):
        self.folder, self.stored = folder, set()
        super().__init__(spawn, SAMPLING, stub.url, folder)

    def look(self):
        "Every sample in the journal has its reply in the store, and what was there stays."
        if not (path := self.folder / "runs" / "replies").exists():
            return
        with Store(path) as store:
            now = set(contents(store))
        assert self.stored <= now
        self.stored = now
        for path in self.folder.rglob("run.json"):
            assert len(load_run(path.parent).records_so_far()) <= len(now)


@pytest.mark.usefixtures("no_keys")
def test_a_kill_between_two_samples_loses_nothing(tmp_path, spawn):
    rng, kills = random.Random(5), 0
    with Stub(0.004) as stub:
        stub.always = drawing
        p = Killed(stub, tmp_path, spawn)
        while not p.start(rng.uniform(0.1, 0.5) if kills < KILLS else -1):
            kills += 1
    [seal] = tmp_path.rglob("seal.json")
    r = load_run(seal.parent)
    assert {i: len(x) for i, x in r.samples().items()} == {q.id: 4 for q in QUESTIONS} and len(
        p.stored
    ) == 4 * len(QUESTIONS)
    assert {record_key(a.id, a.sample) for x in r.samples().values() for a in x} == set(
        r.records_so_far()
    )


# Rotations


@pytest.mark.usefixtures("no_keys")
def test_rotations_show_each_option_in_each_place_once(stub, settings):
    stub.always = lambda seen: Play(
        text=LEAD + options_of(seen.prompt)[0]
    )  # a model that likes what is first
    r = run(
        FERRYMAN,
        "gpt-4o-mini",
        s=settings(),
        order="rotations",
        **at(stub, decoding={"max_tokens": 50}),
    )
    n = sum(turns(q, "rotations") for q in QUESTIONS)
    assert len(stub.seen) == n == seal_of(r).answers and "order=rotations" in r.info.system
    got = score_samples(QUESTIONS, r.samples(), lambda q, k: position_of(q, "rotations", k))
    assert (
        got.by_position[0] == 1
        and not any(a for place, a in got.by_position.items() if place)
        and got.consistency == 0
    )
    assert all(
        len(set(a.scores[:-1])) == 1
        for q, a in zip(QUESTIONS, r.answers().values(), strict=True)
        if q.options[-1].name == NONE
    )


@given(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True),
    st.booleans(),
    st.data(),
)
def test_a_rotation_is_turned_back(names, none, data):
    q = Question(
        "d:0", "d", options=tuple(map(Option, [*names, *([NONE] if none else [])])), right=(0,)
    )
    firsts = []
    for k in range(turns(q, "rotations")):
        shown, perm = in_order(q, "rotations", k)
        firsts.append(perm[0])
        i = data.draw(st.integers(0, len(perm) - 1))
        assert shown.options[i] == q.options[perm[i]] and shown.right == (
            position_of(q, "rotations", k),
        )
        assert turned_back(Answer("d:0", (i,)), perm).chosen == (perm[i],) and (
            not none or perm[-1] == len(names)
        )
    assert firsts == list(range(len(names)))


# What is hashed, said, refused


def test_a_request_that_is_made_once_has_the_key_that_it_always_had():
    ask = Ask("q", "Who?", decoding=the_model("gpt-4o-mini").decoding)
    assert ask.key == ask.changed(sample=0).key != ask.changed(sample=1).key
    m = the_model("gpt-4o-mini", decoding={"temperature": 1.0})
    keys = [t.ask.key for t in requests_about(m, QUESTIONS[0], "identifyme/base", samples=3)]
    assert len(set(keys)) == 3 and msgspec.json.encode(Answer("q", sample=0)) == b'{"id":"q"}'


def test_a_plan_counts_all_requests(settings):
    once, thrice = (
        planned(FERRYMAN, "gpt-4o-mini", s=settings(), decoding={"temperature": 1.0}, samples=n)
        for n in (1, 3)
    )
    assert (thrice.items, thrice.tokens_in) == (3 * once.items, 3 * once.tokens_in)


@pytest.mark.parametrize(
    "how, said",
    [
        (dict(samples=2), "all samples are alike without random decoding"),
        (dict(samples=0), "0 samples"),
        (dict(samples="many"), "samples cannot be 'many'"),
        (
            dict(samples=2, decoding={"temperature": 1.0}, batches=True),
            "a batch asks each question once",
        ),
        (dict(order="rotations", batches=True), "a batch asks each question once"),
        (dict(order="rotation"), "order cannot be 'rotation'"),
    ],
)
def test_what_cannot_be_asked_several_times(settings, how, said):
    with pytest.raises(CallError, match=said) as e:
        run(FERRYMAN, "gpt-4o-mini", s=settings(), **how)
    assert "\n" not in str(e.value)


def test_the_command_tells_of_samples(stub, tmp_path, capsys, monkeypatch):
    stub.always = drawing
    for k, v in tools.clean(tmp_path).items():
        monkeypatch.setenv(k, v)
    monkeypatch.setenv("STUB_KEY", SECRET)
    how = [
        FERRYMAN,
        "gpt-4o-mini",
        *(
            x
            for k, v in {
                "form": "identifyme/base",
                "base_url": stub.url,
                "key": "STUB_KEY",
                "samples": 2,
                "decoding.temperature": 1,
                "decoding.seed": 1,
            }.items()
            for x in ("-p", f"{k}={v}")
        ),
    ]
    out = tools.here(capsys, "run", *how)
    assert (
        "\n58 samples: mean accuracy " in out.out and "; by the right option's place " in out.out
    ), out
    told = json.loads(tools.here(capsys, "run", *how, "--json").out)
    again = json.loads(tools.here(capsys, "score", "choice", told["run"], "--json").out)
    assert (
        told["samples"]["samples"] == 58
        and again["samples"] == told["samples"]
        and Counter(again)["questions"] == 29
    )


# A model on this machine


def test_a_local_model_goes_on_inside_a_question(settings, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    from tiny import tiny_checkpoint

    folder = tiny_checkpoint(tmp_path / "tiny", [q.text for q in QUESTIONS[:3]])
    how = dict(
        model=str(folder),
        file="",
        package="",
        dtype="float32",
        way="reply",
        constraint="regex",
        form="choice/names",
        samples=3,
        decoding={"temperature": 2.0, "max_tokens": 12},
    )
    few, s = QUESTIONS[:4], settings()
    want = run(few, "smollm2-135m", s=s, **how)
    lines = want.journal.read_bytes().splitlines(keepends=True)
    (want.folder / "seal.json").unlink()
    want.journal.write_bytes(
        b"".join(lines[:4])
    )  # one question whole, the next after its first sample
    assert (
        len(load_run(want.folder).records_so_far()),
        len(load_run(want.folder).answers_so_far()),
    ) == (4, 2)
    again = run(few, "smollm2-135m", s=s, **how)
    assert again.sealed and again.journal.read_bytes().splitlines(keepends=True)[:4] == lines[:4]
    said = [json.loads(x)["raw"] for x in lines]
    assert [a.raw for q in few for a in again.samples()[q.id]] == said and len(set(said)) > 1


def test_the_majority_of_samples():
    def said(chosen=(), scores=None, reason="", raw=""):
        return Answer("q", chosen, scores, reason=reason, raw=raw)

    a, b, none = said((0,), raw="A"), said((1,), raw="B"), said(reason="refused", raw="no")
    assert (majority([b, a, a]).chosen, majority([b, a, a]).raw) == ((0,), "A")
    assert majority([none, b]).chosen == (1,), "a refusal does not outweigh one vote"
    assert majority([none, none, b]).reason == "refused"
    shared = [said((0,), (1.0, 0.0)), said((1,), (0.0, 1.0)), none]
    both = majority(shared)
    assert (both.chosen, both.scores) == ((), (0.5, 0.5)), "of the two that have scores"
