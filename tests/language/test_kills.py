"Runs, samples and batches that are killed at any instant, and processes that ask at the same time."

import random, signal
from pathlib import Path
import pytest
import tools
from asking import KILLS, all_right, ask, kept, knows, questions
from asking import worker as worker
from refnb import load_run
from refnb.models.language.models import Reply
from refnb.models.language.store import Kept, Store
from stub_server import Play, Stub

pytestmark = pytest.mark.usefixtures("no_keys")
SAMPLED = {"samples": 3, "decoding": {"max_tokens": 50, "temperature": 1.0, "seed": 7}}


def at_home(settings, name: str = "home"):
    "Settings whose runs a worker shares."
    return settings(**dict.fromkeys(("runs", "reports"), f"{settings().runs}/{name}"))


@pytest.fixture
def home(settings):
    return at_home(settings)


def drawn(seen) -> Play:
    "A reply that depends on prompt and seed; some are none."
    number = random.Random(f"{seen.prompt} {seen.body.get('seed')}").randrange(9)
    text = knows(seen.prompt) if number % 3 else "Ann or Bea"
    return Play(text=text, finish="length") if number == 5 else Play(text=text)


def records(s) -> dict:
    "The records of a run that may have begun, without what depends on the clock."
    runs = [load_run(p.parent) for p in Path(s.runs).rglob("run.json")]
    found = {k: a for r in runs for k, a in r.records_so_far().items()}
    return {k: (a.chosen, a.reason, a.raw, a.usage.tokens_in) for k, a in found.items()}


@pytest.mark.parametrize("how", [{}, SAMPLED], ids=["once", "samples"])
def test_a_killed_run_goes_on_where_it_was_and_ends_as_one_that_was_not(how, settings, worker):
    "What was stored is not asked again."
    rng, kills, n = random.Random(33), 0, 40 if how else 120
    with Stub(0.004) as stub:
        stub.always, plain = drawn, at_home(settings, "plain")
        ask(stub, questions(n), plain, key="", **how)
        want = records(plain)
        while kills < KILLS:
            s, stored, done = at_home(settings, f"after {kills}"), set(), False
            while not done:
                seen = len(stub.seen)
                worker.start(stub.url, s.runs, n, **how)
                if signals := kills < KILLS and [signal.SIGKILL, signal.SIGKILL, signal.SIGINT]:
                    enough, kills = seen + rng.randint(1, n // 2), kills + 1
                    under_way = lambda enough=enough: len(stub.seen) <= enough and worker.alive
                    tools.wait(lambda under_way=under_way: not under_way(), "requests")
                done = worker.ended(rng.choice(signals) if signals else 0)
                assert done or signals
                again = {x.headers["idempotency-key"] for x in stub.seen[seen:]}
                now = {k.key for k in kept(s) if k.reply.finish != "failed"}
                assert stored <= now and not stored & again and len(records(s)) <= len(now)
                stored = now
            assert records(s) == want and len(stored) == len(want)


def test_an_interrupt_keeps_what_is_under_way(home, worker):
    with Stub(0.1) as stub:
        worker.start(stub.url, home.runs, 500, concurrency=10)
        tools.wait(lambda: len(stub.seen) > 30, "requests")
        assert not worker.ended(signal.SIGINT)
        assert len(kept(home)) == len(stub.seen) < 100


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic-messages", "gemini"])
def test_a_batch_whose_process_is_killed_is_paid_once(settings, worker, dialect):
    "At any instant: also after it was created, and before that was written down."
    how = {"batches": True, "retries": 0, "dialect": dialect}
    rng, kills, turn = random.Random(5), 0, 0
    while kills < KILLS + 2:
        s = at_home(settings, f"after {kills}")
        with Stub(0.02) as stub:
            while len(records(s)) < 20:
                seen, turn = len(stub.seen), turn + 1
                worker.start(stub.url, s.runs, 20, later=100 * turn, **how)
                if signals := kills < KILLS + 2:
                    kills += 1
                    begun = lambda seen=seen, stub=stub: len(stub.seen) > seen or not worker.alive
                    tools.wait(begun, "a request")
                    tools.wait(lambda: rng.random() < 0.2, "an instant")
                assert worker.ended(signal.SIGKILL if signals else 0) or signals
            assert len(stub.batches) == 1 and not stub.asked()
        assert len({k.key for k in kept(s)}) == 20 == len(kept(s))


# Two at a time


def test_two_processes_buy_a_reply_once(stub, home, worker):
    ask(stub, questions(1, "first"), home, key="")  # loads what asking needs
    stub.delay, stub.says = 0.3, knows
    worker.start(stub.url, home.runs, 20)
    tools.wait(lambda: len(stub.seen) > 1, "a request")
    got = ask(stub, questions(21), home, key="")  # another run, which shares its questions
    assert worker.ended() and all_right(got, 21)
    assert len(stub.seen) == 22 == len(kept(home))


def test_a_request_of_a_process_that_was_killed_is_asked_again_and_counts_as_lost(
    stub, home, worker
):
    stub.always = lambda seen: Play(hang=True)
    worker.start(stub.url, home.runs, 1)
    tools.wait(lambda: stub.seen, "a request")
    worker.ended(signal.SIGKILL)
    stub.always = lambda seen: None
    got = ask(stub, questions(2), home, key="")
    assert all_right(got, 2) and len(stub.seen) == 3
    [lost] = [k.reply for k in kept(home) if k.reply.finish == "failed"]
    assert lost.tokens_in and lost.tokens_out == 50


def test_a_store_is_shared_from_its_first_moment(tmp_path, spawn):
    code = """
import sys
from refnb.models.language.models import Reply
from refnb.models.language.store import Store
print("ready", flush=True); sys.stdin.readline()
with Store(sys.argv[1]) as store:
    for i in range(30): store.put(f"{int(sys.argv[2]):016x}{i:016x}", Reply("x"))
"""
    both = [spawn(code, tmp_path / "s", n) for n in range(2)]
    for p in both:
        p.stdout.readline()
    for p in both:
        p.stdin.write("\n")
        p.stdin.flush()
    for p in both:
        assert p.communicate()[1] == ""
    with Store(tmp_path / "s") as store:
        assert len({k.key for k in store.all()}) == 60


def test_a_claim_is_held_until_its_process_ends(tmp_path, spawn):
    code = """
import sys
from refnb.models.language.models import Reply
from refnb.models.language.store import Store
store = Store(sys.argv[1])
assert store.claim(sys.argv[2], Reply(finish="failed", error="no reply", tokens_in=9))
print("under way", flush=True); sys.stdin.readline()
"""
    key, lost = "0a" * 16, Reply(finish="failed", error="no reply", tokens_in=9)
    alive = spawn(code, tmp_path, key)
    alive.stdout.readline()
    with Store(tmp_path) as beside:
        assert beside.all() == [] and not beside.claim(key, lost)
        alive.kill()
        alive.wait()
        assert not beside.claim(key, lost) and beside.all() == [Kept(key, lost)]
        assert beside.claim(key, lost)
        beside.leave(key)
    with Store(tmp_path) as last:  # what came to its end leaves no mark
        assert last.all() == [Kept(key, lost)] and last.claim(key, lost)
