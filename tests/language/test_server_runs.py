"A model of a server answers a part: through `refnb run`, with a budget, after kills, and with a real server of transformers on loopback."

import contextlib, itertools, json, os, random, socket, subprocess, sys, urllib.request
from pathlib import Path
import pytest
import tools
from refnb.benchmarks.tasks import FERRYMAN, task_questions
from refnb.core.files import write_jsonl
from refnb.core.runs import Seal, load_run
from refnb.core.types import CallError, DataError
from refnb.models.language.store import SETTLED, Store
from refnb.models.running import run
from stub_server import Play, Stub, error
from asking import KEY, PRICE, SECRET
from asking import FORKING, KILLS, Forked, nobody
import msgspec


pytestmark = pytest.mark.usefixtures("no_keys")


def at(stub, **changed) -> dict:
    "Settings of a model at the stub."
    return (
        dict(base_url=stub.url, key=KEY, decoding={"max_tokens": 50}, price=PRICE, title="stub")
        | changed
    )


QUESTIONS = task_questions(FERRYMAN)


def seal_of(r) -> Seal:
    return msgspec.json.decode((r.folder / "seal.json").read_bytes(), type=Seal)


# What is asked, and how replies are read


def right(q) -> str:
    return q.options[q.right[0]].name


def knowing(say=lambda q: f"- The mention refers to: {right(q)}"):
    "A server that knows the right answers of the ferryman's questions: it finds the question by its prompt."
    from refnb.models.language.answering import requests_about
    from refnb.models.language.models import the_model

    m = the_model("gpt-4o-mini")
    by_prompt = {
        next(requests_about(m, q, form)).ask.prompt: q
        for q in QUESTIONS
        for form in ("identifyme/desc", "identifyme/letters", "identifyme/base")
    }
    by_prompt |= {p.rstrip() + "\n": q for p, q in by_prompt.items()}
    return lambda seen: Play(text=say(by_prompt[seen.prompt]))


def test_a_part_is_answered_and_scored(stub, settings):
    stub.always = knowing()
    came, s = [], settings()
    r = run(FERRYMAN, "gpt-4o-mini", s=s, on_summary=came.append, **at(stub))
    answers, by_id = r.answers(), {q.id: q for q in QUESTIONS}
    assert r.sealed and all(a.chosen == by_id[i].right for i, a in answers.items())
    assert (
        seal_of(r).models == {"stub-2026-11": len(QUESTIONS)}
        and seal_of(r).usd == pytest.approx(came[0].usd)
        and came[0].usd > 0
    )
    assert sorted(stub.asked()) == sorted(s.prompt for s in stub.seen) and len(stub.seen) == len(
        QUESTIONS
    )
    run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub))
    assert len(stub.seen) == len(QUESTIONS)  # it is whole


@pytest.mark.parametrize("constraint", ["choice", "json"])
def test_a_constrained_reply_is_read(stub, settings, constraint):
    stub.always = knowing(
        lambda q: json.dumps(
            ({"explanation": "because"} if constraint == "json" else {}) | {"answer": right(q)}
        )
    )
    r = run(FERRYMAN, "gpt-4o-mini", s=settings(), constraint=constraint, **at(stub))
    assert all(
        a.chosen == q.right and a.raw.startswith("{")
        for q in QUESTIONS
        for a in [r.answers()[q.id]]
    )
    sent = stub.seen[0].body["response_format"]["json_schema"]["schema"]
    assert [*sent["properties"]] == (
        ["explanation", "answer"] if constraint == "json" else ["answer"]
    ) and sent["additionalProperties"] is False


def test_letters_are_scored_by_log_probabilities(stub, settings):

    tops = lambda q: {
        "content": [
            {
                "token": "x",
                "logprob": -1,
                "top_logprobs": [
                    {"token": chr(65 + q.right[0]), "logprob": -0.1},
                    {"token": "A" if q.right[0] else "B", "logprob": -3.0},
                ],
            }
        ]
    }
    find = knowing(lambda q: q)
    stub.always = lambda seen: Play(text="A", logprobs=tops(find(seen).text))
    r = run(
        QUESTIONS,
        "gpt-4o-mini",
        s=settings(),
        form="identifyme/letters",
        way="logprobs",
        **at(stub),
    )
    best = lambda a: a.scores.index(max(a.scores))
    assert (
        all(best(r.answers()[q.id]) == q.right[0] for q in QUESTIONS)
        and stub.seen[0].body["max_tokens"] == 1
    )
    with pytest.raises(
        CallError, match="words before the answer, which a chat does not support; choose a form"
    ):
        run(
            QUESTIONS,
            "gpt-4o-mini",
            s=settings(),
            form="identifyme/base",
            way="logprobs",
            **at(stub),
        )


def test_the_order_is_turned_back(stub, settings):
    stub.always = lambda seen: Play(text="- The mention refers to: None of the Above")
    one, other = (
        run(FERRYMAN, "gpt-4o-mini", s=settings(), order=o, **at(stub))
        for o in ("given", "reversed")
    )
    assert one.folder != other.folder and {i: a.chosen for i, a in one.answers().items()} == {
        i: a.chosen for i, a in other.answers().items()
    }
    assert len(stub.seen) == 2 * len(QUESTIONS)


# Money


def test_f20_f67_a_budget_holds_over_calls_and_a_larger_one_goes_on(stub, settings):
    s, came, spent = settings(), [], 0.0
    stub.always = knowing()
    for budget in (0.0, 0.008, 0.008, 0.012, 1.0):
        r = run(FERRYMAN, "gpt-4o-mini", s=s, budget=budget, on_summary=came.append, **at(stub))
        spent += came[-1].usd
        assert spent <= budget
    assert (
        r.sealed
        and came[0].asked == 0
        and "the budget of 0 USD is reached" in came[0].stopped
        and came[-1].stopped == ""
    )
    assert (
        came[1].asked > 0 == came[2].asked and came[3].asked > 0
    )  # the same budget again buys nothing more
    assert sum(c.asked for c in came) == len(stub.seen) == len(QUESTIONS)


def test_f67_replies_that_were_paid_and_are_no_answers_count_too(stub, settings):
    s, came = settings(), []
    stub.always = lambda seen: Play(text="")
    for _ in range(3):
        with contextlib.suppress(DataError):
            run(FERRYMAN, "gpt-4o-mini", s=s, budget=0.008, on_summary=came.append, **at(stub))
    assert 0 < came[0].usd and sum(c.usd for c in came) <= 0.008 and came[-1].usd == 0


def test_f21_a_price_that_is_unknown_stays_so(stub, settings):
    r = run(FERRYMAN, "gpt-4o-mini", s=settings(), **at(stub, price=None))
    assert seal_of(r).usd is None
    with pytest.raises(CallError, match="a budget needs a price"):
        run(
            FERRYMAN,
            "gpt-4o-mini",
            s=settings(),
            budget=1.0,
            order="reversed",
            **at(stub, price=None),
        )


def test_what_is_for_servers_alone(settings):
    for system in ("random", "smollm2-135m"):
        with pytest.raises((CallError, DataError)):
            run(FERRYMAN, system, s=settings(), budget=1.0)
    with pytest.raises(CallError, match="-1 requests at a time"):
        run(
            FERRYMAN,
            "gpt-4o-mini",
            s=settings(),
            concurrency=-1,
            key="",
            base_url="http://127.0.0.1:9/v1",
        )


# What goes wrong


def failing(*ids: str, play: Play = error(400, "no")):
    "A server that knows the answers, and fails at the questions with these ids."
    find, answers = knowing(lambda q: q.id), knowing()
    return lambda seen: play if find(seen).text in ids else answers(seen)


def summaries(s) -> list[Path]:
    return [p for p in Path(s.reports).rglob("*.json") if p.name != "part.json"]


def is_open(s, ids: list[str]) -> bool:
    "Whether the one run is neither complete nor summed up, and lacks exactly these questions."
    [folder] = [p.parent for p in Path(s.runs).rglob("run.json")]
    answered = load_run(folder).answers_so_far()
    return (
        not (folder / "seal.json").exists()
        and not summaries(s)
        and sorted(set(q.id for q in QUESTIONS) - set(answered)) == sorted(ids)
    )


def test_f58_f59_what_failed_stays_open_and_is_asked_again(stub, settings):
    s, ids = settings(), [q.id for q in QUESTIONS[4:7]]
    stub.always = failing(*ids)
    ask = lambda **how: run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub), **how)
    with pytest.raises(
        DataError, match=r"3 of 29 failed \(3 the server says 400\).*retries only these"
    ):
        ask()
    assert is_open(s, ids)
    with pytest.raises(DataError, match="3 of 29 failed"):
        ask(tolerate=2)
    assert is_open(s, ids)
    stub.always, before = knowing(), len(stub.seen)
    assert ask().failures() == 0 and len(stub.seen) == before + 3


def test_f58_after_a_limit(stub, settings):
    stub.always = failing(QUESTIONS[1].id)
    with pytest.raises(DataError, match="1 of 3 failed"):
        run(FERRYMAN, "gpt-4o-mini", 3, settings(), **at(stub))


@pytest.mark.parametrize("tolerate", [3, 0.11])
def test_f59_failures_are_tolerated_by_choice_and_asked_again_without_it(stub, settings, tolerate):
    s, ids = settings(), [q.id for q in QUESTIONS[4:7]]
    stub.always = failing(*ids)
    ask = lambda **how: run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub), **how)
    r = ask(tolerate=tolerate)
    assert r.sealed and r.failures() == 3 and seal_of(r).reasons == {"failed": 3}
    before = len(stub.seen)
    assert ask(tolerate=tolerate).failures() == 3 and len(stub.seen) == before, (
        "nothing is left to do"
    )
    with pytest.raises(DataError, match="3 of 29 failed"):
        ask()
    assert load_run(r.folder).failures() == 3, (
        "the complete run stays as it is while nothing better came"
    )
    stub.always = knowing()
    r = ask()
    assert (
        r.failures() == 0
        and seal_of(r).reasons == {}
        and [*r.answers()] == [q.id for q in QUESTIONS]
    )
    [summary] = summaries(s)
    assert b"failed" not in summary.read_bytes()


@pytest.mark.parametrize("tolerate", [-1, 1.5])
def test_f79_a_number_of_failures_that_is_none(settings, tolerate):
    with pytest.raises(CallError, match="say how many, or a share below 1"):
        run(FERRYMAN, "random", s=settings(), tolerate=tolerate)


def test_f58_the_command_with_nobody_listening(stub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("REFNB_REPORTS", str(tmp_path / "reports"))
    monkeypatch.delenv(KEY)
    write_jsonl(tmp_path / "mine.jsonl", QUESTIONS[:4])

    def ask(url: str):
        return tools.here(
            capsys,
            "run",
            "mine.jsonl",
            "gpt-4o-mini",
            "-p",
            "form=identifyme/desc",
            "-p",
            f"base_url={url}",
            "-p",
            "model=x",
            "-p",
            "key=",
        )

    said = ask(nobody())
    tools.one_line(said, 1, "cannot be reached")
    assert not list(tmp_path.rglob("seal.json")) and not list(
        tmp_path.rglob("reports/runs/*/*.json")
    )
    stub.always = knowing()
    assert ask(stub.url).status == 0


def test_f15_a_wrong_key_stops_all_and_nothing_is_answered(stub, settings):
    stub.always = lambda seen: error(401, f"Incorrect API key provided: {SECRET}")
    with pytest.raises(DataError, match="does not accept the key in") as e:
        run(FERRYMAN, "gpt-4o-mini", s=(s := settings()), **at(stub))
    assert SECRET not in str(e.value)
    [folder] = [p.parent for p in Path(s.runs).rglob("run.json")]
    assert not load_run(folder).answers_so_far() and all(
        SECRET.encode() not in p.read_bytes() for p in Path(s.runs).rglob("*") if p.is_file()
    )


def test_f16_ends_that_are_no_answers_are_counted(stub, settings):
    plays = [
        Play(text="The men", finish="length"),
        Play(refusal="I can't."),
        Play(text="", finish="content_filter"),
        Play(text="no idea"),
    ]
    n = iter(range(10**6))
    stub.always = lambda seen: plays[next(n) % 4]
    r = run(FERRYMAN, "gpt-4o-mini", s=settings(), concurrency=1, **at(stub))
    assert seal_of(r).reasons == {"cut": 8, "filtered": 7, "refused": 7, "unparsable": 7}


def test_a_lost_journal_costs_nothing(stub, settings):
    s, came = settings(), []
    r = run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub))
    before, seal = r.journal.read_bytes(), seal_of(r)
    r.journal.unlink()
    (r.folder / "seal.json").unlink()
    again = run(FERRYMAN, "gpt-4o-mini", s=s, budget=0.0, on_summary=came.append, **at(stub))
    assert (
        (came[0].asked, came[0].served) == (0, len(QUESTIONS))
        and seal_of(again) == seal
        and again.journal.read_bytes() == before
    )


def test_the_command_line(stub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(
        KEY
    )  # a variable that begins as refnb's own settings do is refused by the command line
    monkeypatch.setenv("EXAMPLE_KEY", SECRET)
    stub.always = knowing()
    write_jsonl(tmp_path / "mine.jsonl", QUESTIONS[:9])
    sets = [
        x
        for k, v in (
            ("base_url", stub.url),
            ("key", "EXAMPLE_KEY"),
            ("decoding.max_tokens", 50),
            ("price.input", 1),
            ("price.output", 2),
            ("price.as_of", "2026-11"),
        )
        for x in ("-p", f"{k}={v}")
    ] + ["-p", "form=identifyme/desc"]
    poor = tools.here(capsys, "run", "mine.jsonl", "gpt-4o-mini", "--budget", 0.0001, *sets)
    assert (
        poor.status == 0
        and "stopped: the budget of 0.0001 USD is reached" in poor.out
        and "0 new replies for 0 USD" in poor.out
    )
    rich = json.loads(
        tools.here(
            capsys, "run", "mine.jsonl", "gpt-4o-mini", "-p", "concurrency=3", "--json", *sets
        ).out
    )
    assert (
        rich["sealed"]
        and rich["groups"]["all"]["accuracy"] == 1
        and rich["server"]["asked"] == 9
        and stub.most_open <= 3
    )
    monkeypatch.delenv("EXAMPLE_KEY")
    tools.one_line(
        tools.here(capsys, "run", "mine.jsonl", "gpt-4o-mini", "-p", "order=reversed", *sets),
        1,
        "the environment variable EXAMPLE_KEY is not set",
    )
    tools.one_line(
        tools.here(capsys, "run", "mine.jsonl", "random", "--budget", 1),
        2,
        "random sends no requests to a server",
    )


# Batches


def test_f19_a_part_by_batches_one_step_a_call(stub, settings):
    "Submitted, asked after, fetched; one request failed, two were never executed and go into the next batch."
    s, came = settings(), []
    go = lambda: run(FERRYMAN, "gpt-4o-mini", s=s, batches=True, on_summary=came.append, **at(stub))
    assert not go().sealed and "1 batch under way" in came[-1].stopped and not stub.asked()
    with pytest.raises(DataError, match="29 of these questions are under way in a batch"):
        run(FERRYMAN, "gpt-4o-mini", s=s, **at(stub))
    assert not stub.asked()
    keys = [json.loads(line)["custom_id"] for f in stub.files.values() for line in f.splitlines()]
    assert len(keys) == len(QUESTIONS) == len(set(keys))
    stub.batch_play = stub.batch_play._replace(
        failed={keys[3]: {"message": "no"}},
        left=tuple(keys[7:9]),
        output=lambda lines: lines[::-1] + lines[:1],
    )
    rounds = 0
    with pytest.raises(DataError, match="1 of [0-9]+ failed .*without --batch"):
        while not go().sealed:
            rounds += 1
            assert rounds < 9
            if len(stub.batches) == 2:
                stub.batch_play = stub.batch_play._replace(
                    left=()
                )  # the second one has time for all
    assert len(stub.batches) == 2 and not stub.asked() and came[-1].stopped == ""
    assert sum(x.asked for x in came) == len(QUESTIONS) and sum(x.tokens_in for x in came)
    r = run(FERRYMAN, "gpt-4o-mini", s=s, batches=True, tolerate=1, **at(stub))
    assert r.sealed and r.failures() == 1 and not stub.asked()
    assert seal_of(r).usd == pytest.approx(
        sum(
            0.5 * (u.tokens_in * 1 + u.tokens_out * 2) / 1e6
            for a in r.answers().values()
            if (u := a.usage)
        )
    )


# Kills

RUNNER = (
    """
import os, signal, sys, time, traceback
from refnb.core.settings import load_settings
from refnb.core.files import read_jsonl
from refnb.core.types import Question
from refnb.models.running import run
import openai, httpx2
url, folder, questions = sys.argv[1], sys.argv[2], list(read_jsonl(sys.argv[3], Question))
s = load_settings("/", env={}, offline=True, runs=folder, reports=folder)
def answer(): run(questions, "gpt-4o-mini", s=s, concurrency=16, base_url=url, key="", decoding={"max_tokens": 50})
"""
    + FORKING
)


class Killed(Forked):
    "A run in a process that is killed and started again until it is sealed."

    def __init__(self, stub: Stub, folder: Path, spawn, questions: Path):
        self.folder, self.stored = folder, set()
        super().__init__(spawn, RUNNER, stub.url, folder, questions)

    def look(self):
        "Every journalled answer has its reply in the store, and what was there stays."
        if not (self.folder / "replies" / "replies.sqlite").exists():
            return
        with Store(self.folder / "replies") as store:
            now = {k.key for k in store.all() if k.reply.finish in SETTLED}
        for path in self.folder.rglob("run.json"):
            assert len(load_run(path.parent).answers_so_far()) <= len(now)
        assert self.stored <= now
        self.stored = now


def one_reply_in_nine_is_none(seen) -> Play | None:
    return (
        Play(text="The", finish="length")
        if len(seen.prompt) % 9 == 3
        else Play(refusal="I can't.")
        if len(seen.prompt) % 9 == 5
        else None
    )


def test_f33_a_killed_run_ends_with_the_seal_of_one_that_was_not(tmp_path, spawn):
    "And asks nothing twice whose reply was kept."
    rng, kills = random.Random(7), 0
    write_jsonl(
        tmp_path / "q.jsonl",
        questions := [
            q.changed(
                id=f"{q.id}/{k}",
                text=f"Part {k}. {q.text}",
                chars=(q.chars[0] + len(f"Part {k}. "), q.chars[1] + len(f"Part {k}. ")),
            )
            for k in range(4)
            for q in QUESTIONS
        ],
    )
    with Stub(0.004) as stub:
        stub.always = one_reply_in_nine_is_none
        assert Killed(stub, tmp_path / "plain", spawn, tmp_path / "q.jsonl").start(-1)
        [path] = (tmp_path / "plain").rglob("seal.json")
        want = msgspec.json.decode(path.read_bytes(), type=Seal)
        assert want.answers == len(questions) == len(stub.seen)
        for turn in itertools.count():
            one = Killed(stub, tmp_path / f"{turn}", spawn, tmp_path / "q.jsonl")
            while not one.start(rng.uniform(0, 0.5) if kills < KILLS else -1):
                kills += 1
            [path] = one.folder.rglob("seal.json")
            got = msgspec.json.decode(path.read_bytes(), type=Seal)
            assert (got.said, got.reasons, got.usd, got.models) == (
                want.said,
                want.reasons,
                want.usd,
                want.models,
            )
            with Store(one.folder / "replies") as store:
                assert len({k.key for k in store.all()}) == len(list(store.all())) == len(questions)
            one.p.communicate("")
            if kills >= KILLS:
                break


# A real server


def is_well(url: str) -> bool:
    "Whether a server answers there; that something listens is not enough."
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


def free_port() -> int:
    "A port below those that the system gives away by itself: while a server starts, no other test gets it, and nobody who looks for the server meets himself there."
    for port in random.sample(range(20_000, 30_000), 1000):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    "`transformers serve` with a tiny checkpoint, on loopback, in an environment of its own: one thread, and nothing of what the tests set."
    for name in ("fastapi", "uvicorn"):
        pytest.importorskip(name, reason="transformers serve needs it")
    from tiny import tiny_checkpoint

    folder, cache = tmp_path_factory.mktemp("tiny"), tmp_path_factory.mktemp("cache")
    tiny_checkpoint(folder, [q.text for q in QUESTIONS[:2]])
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    (cache / "hub").mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(cache),
        "TMPDIR": str(cache),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "no_proxy": "*",
    }
    env |= {
        "HF_HOME": str(cache),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    log = (cache / "log").open("wb")
    p = subprocess.Popen(
        [
            Path(sys.executable).with_name("transformers"),
            "serve",
            str(folder),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--device",
            "cpu",
            "--dtype",
            "float32",
        ],
        env=env,
        stdout=log,
        stderr=log,
    )
    try:
        tools.wait(lambda: p.poll() is not None or is_well(url), "transformers serve starts")
        if p.poll() is not None:
            pytest.fail((cache / "log").read_text()[-2000:])
        yield folder, f"{url}/v1", cache / "log"
    finally:
        p.kill()
        p.wait()
        log.close()


def test_transformers_serve_answers_as_the_same_model_does_here(served, settings):
    "Greedy, in the same precision: the same replies, through the openai client and by the local runner."
    folder, url, log = served
    few, s, same = (
        QUESTIONS[:5],
        settings(),
        dict(
            model=str(folder),
            form="choice/names",
            decoding={"max_tokens": 24},
            constraint="none",
            title="tiny",
        ),
    )
    far = run(few, "gpt-4o-mini", s=s, base_url=url, key="", price=None, **same)
    here = run(few, "smollm2-135m", s=s, file="", package="", dtype="float32", way="reply", **same)
    said = lambda r: {
        i: (a.raw, a.chosen, a.reason, a.usage.tokens_in) for i, a in r.answers().items()
    }
    assert said(far) == said(here) and far.sealed, log.read_text()[-4000:]


def test_f59_failures_that_are_tolerated_are_named_in_score_row_and_table(
    stub, settings, monkeypatch, tmp_path
):
    from refnb.results.scores import as_outcomes, score
    from refnb.results.tables import Report

    s, n = settings(), itertools.count()
    stub.always = lambda seen: error(400, "what is this?") if next(n) == 3 else None
    r = run(FERRYMAN, "gpt-4o-mini", s=s, tolerate=1, concurrency=1, **at(stub))
    monkeypatch.delenv(KEY)
    got = score(as_outcomes(r, s))
    assert seal_of(r).reasons["failed"] == 1 == got.failed
    assert "1 of these questions failed" in repr(got)
    report = Report("identifyme/table_3_main_results")
    report.use(r.info, as_outcomes(r, s))
    assert any(
        line.startswith(f"1 requests of {r.info.system} on {FERRYMAN} failed")
        for line in report.legend()
    )
