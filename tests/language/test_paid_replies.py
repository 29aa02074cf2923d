"A reply is kept before it is read, bought once, and counted in a budget, even if it is lost."

import json, random, shutil
from pathlib import Path
import pytest
import tools
from asking import PRICE, SOON, all_right, ask, kept, questions, seal
from refnb import run
from refnb.benchmarks.tasks import FERRYMAN
from refnb.core.files import write_jsonl
from refnb.core.types import RefnbError
from refnb.models.language.models import Decoding, Request
from refnb.models.language.store import Store
from refnb.models.running import planned
from stub_server import Play, error

pytestmark = pytest.mark.usefixtures("no_keys")

# Bought once


def test_a_reply_is_bought_once_by_all_questions_and_runs(stub, settings):
    s, first = settings(), questions(20)
    got = ask(stub, first, s)
    assert all_right(got, 20) and len(stub.seen) == 20 and got.bill.usd > 0
    assert seal(got.run)["usd"] == pytest.approx(got.bill.usd)
    assert ask(stub, first, s).bill is None, "a complete run asks nothing"
    # another run, in which each of these questions stands twice
    copies = [q.changed(id=f"copy:{i}") for i, q in enumerate(first)]
    again = ask(stub, [*questions(22), *copies], s)
    assert all_right(again, 42) and len(stub.seen) == 22
    assert (again.bill.asked, again.bill.served) == (2, 40)


def test_questions_with_the_same_words_at_the_same_time_are_asked_once(stub, settings):
    stub.delay = 0.05
    copies = [q.changed(id=f"{k}{q.id}") for k in range(3) for q in questions(2)]
    got = ask(stub, copies, settings())
    assert all_right(got, 6) and (len(stub.seen), got.bill.asked, got.bill.served) == (2, 2, 4)


def test_a_lost_journal_costs_nothing(stub, settings):
    s = settings()
    stub.always = lambda seen: Play(text="Ann", finish="length") if "3 ." in seen.prompt else None
    first = ask(stub, questions(20), s)
    before, sealed = first.run.journal.read_bytes(), seal(first.run)
    shutil.rmtree(first.run.folder)
    again = ask(stub, questions(20), s, budget=0.0)
    assert (again.bill.asked, again.bill.served, len(stub.seen)) == (0, 20, 20)
    assert seal(again.run) == sealed and again.run.journal.read_bytes() == before


def test_a_reply_that_could_not_be_read_is_read_later_and_not_bought_again(stub, settings):
    "By a refnb that reads more: the bytes that came are kept, whatever was made of them."
    s, later = settings(), settings(runs=f"{settings().runs}-later")
    ask(stub, questions(3), s)
    with Store(Path(later.runs) / "replies") as store:
        for k in kept(s):
            unread = k.reply.changed(text="", finish="failed", error="the reply is broken")
            store.put(k.key, unread, k.raw)
    got = ask(stub, questions(3), later)
    assert all_right(got, 3) and len(stub.seen) == 3 and got.bill.asked == 0


def test_a_duplicate_after_a_timeout_is_one_answer_and_both_costs(stub, settings):
    stub.play(" q1 .", Play(hang=True))
    got = ask(stub, questions(2), settings(), timeout=0.4)
    assert all_right(got, 2) and (got.bill.lost, got.bill.requests, len(stub.seen)) == (1, 3, 3)
    assert len({x.headers["idempotency-key"] for x in stub.seen}) == 2
    paid = sum(a.usage.usd for a in got.answers.values())
    assert got.bill.usd_at_most > got.bill.usd == pytest.approx(paid)


OTHER = dict(
    prompt="x", system="x", message="raw", provider="local", base_url="http://x", model="x",
    revision="x", file="x", dtype="float32", way="logprobs", constraint="regex", pattern="x",
    options=("x",), version=2, dialect="vllm", effort="low", thinking=7, sample=1,
    extra={"x": 1},
)  # fmt: skip
SETTINGS = {"temperature": 0.5, "top_p": 0.5, "max_tokens": 7, "seed": 3, "top_k": 2}
SETTINGS |= {"stop": ("x",)}


def test_any_change_of_what_is_asked_is_another_request_and_old_keys_stay():
    ask = Request("1", "Who?")
    assert {*OTHER, "id", "decoding", "shared"} == set(Request.__struct_fields__)
    keys = {ask.changed(**{name: x}).key for name, x in OTHER.items()}
    keys |= {ask.changed(decoding=Decoding(**{k: v})).key for k, v in SETTINGS.items()}
    assert len(keys | {ask.key}) == len(OTHER) + len(SETTINGS) + 1
    assert ask.changed(id="2", shared=3).key == ask.key == "7467bae1c31130180e8778a5d930057c"


# Budgets


@pytest.mark.parametrize("seed", range(2))
def test_a_budget_is_never_passed_whatever_is_lost(stub, settings, seed):
    rng = random.Random(seed)
    faults = [error(500, **SOON), Play(cut=0, reset=True), None, None, None, None]
    stub.always = lambda seen: rng.choice(faults)
    for budget in (rng.uniform(0.0006, 0.001), rng.uniform(0.002, 0.006)):
        s = settings(runs=f"{settings().runs}{budget}")
        got = ask(stub, questions(25), s, concurrency=rng.choice([1, 3, 8]), budget=budget)
        paid = sum(a.usage.usd for a in got.answers.values())
        assert 0 < paid <= got.bill.usd_at_most <= budget * (1 + 1e-9)
        assert bool(got.bill.stopped) == (len(got.answers) < 25)


def test_a_budget_holds_over_calls_and_a_larger_one_goes_on(stub, settings):
    s, bills, spent = settings(), [], 0.0
    for budget in (0.0, 0.0012, 0.0012, 0.002, 1.0):
        got = ask(stub, questions(50), s, budget=budget)
        bills.append(got.bill)
        spent += got.bill.usd
        assert spent <= budget and ("budget" in got.bill.stopped) == (budget < 1)
    assert all_right(got, 50) and len(stub.seen) == sum(b.asked for b in bills) == 50
    assert bills[0].asked == 0 < bills[1].asked and bills[2].asked == 0 < bills[3].asked


LOST = {
    "no reply": Play(cut=0, reset=True),
    "no reply of the protocol": Play(body=b"{}"),
    "no JSON": Play(body=b"?"),
    "an empty reply": Play(text=""),
}


@pytest.mark.parametrize("play", LOST.values(), ids=LOST)
def test_what_was_billed_or_may_have_been_counts_in_the_next_calls_budget(stub, settings, play):
    s, budget = settings(), 0.003
    stub.always = lambda seen: play if len(stub.seen) > 3 else None
    first = ask(stub, questions(12), s, retries=0, concurrency=1, budget=budget)
    assert 0 < first.bill.usd_at_most <= budget
    for n in (13, 14):  # other runs, for what is left
        got = ask(stub, questions(n), s, retries=0, concurrency=1, budget=budget)
    seen = len(stub.seen)
    got = ask(stub, questions(15), s, retries=0, budget=first.bill.usd_at_most)
    assert len(stub.seen) == seen and "budget" in got.bill.stopped


USED = {"prompt_tokens": 60, "completion_tokens": 5}
BOOKED = {
    "an empty reply": Play(text="", finish=None, usage=USED),
    "a broken model": Play(text="", finish="error", usage=USED),
    "no choices": Play(body=json.dumps({"usage": USED}).encode()),
    "choices of another type": Play(choices="none", usage=USED),
}


@pytest.mark.parametrize("play", BOOKED.values(), ids=BOOKED)
def test_a_broken_or_empty_reply_that_tells_its_usage_is_booked_at_it(stub, settings, play):
    stub.play(" q1 .", play)
    got = ask(stub, questions(2), settings(), retries=0, concurrency=1)
    usd = (60 * PRICE["input"] + 5 * PRICE["output"]) / 1e6
    assert "1 of 2 failed" in got.error and got.bill.lost == 0
    assert got.bill.usd_at_most == got.bill.usd
    assert got.bill.usd == pytest.approx(usd + got.answers["q:0"].usage.usd)


def test_requests_under_way_hold_their_part_of_the_budget(stub, settings):
    most = planned(
        questions(1), "gpt-4o-mini", s=settings(), price=PRICE, decoding={"max_tokens": 50}
    )
    stub.delay = 0.05
    stub.always = lambda seen: Play(usage={"prompt_tokens": 60, "completion_tokens": 50})
    got = ask(stub, questions(20), settings(), concurrency=8, budget=5 * most.usd)
    assert 0 < got.bill.usd <= 5 * most.usd and "budget" in got.bill.stopped
    assert stub.most_open < 8


def test_a_server_that_adds_words_is_found_out(stub, settings):
    stub.always = lambda seen: Play(usage={"prompt_tokens": 2000, "completion_tokens": 40})
    got = ask(stub, questions(50), settings(), budget=0.01, concurrency=1)
    assert got.bill.usd <= 0.01 and got.bill.asked == 4


def test_a_budget_holds_over_the_systems_of_a_command_with_lost_replies(
    stub, tmp_path, monkeypatch, capsys
):
    tools.live_in(monkeypatch, tmp_path)
    write_jsonl(tmp_path / "mine.jsonl", questions(20))
    stub.play(" q3 .", *[Play(cut=0, reset=True)] * 2)
    sets = {"base_url": stub.url, "key": "", "decoding.max_tokens": 50, "form": "choice/names"}
    sets |= {"price.input": 1, "price.output": 2, "concurrency": 1}
    call = ["run", "mine.jsonl", "gpt-4o-mini", "gpt-4o-mini[order=reversed]", "--json"]
    call += [x for k, v in sets.items() for x in ("-p", f"{k}={v}")]
    said = tools.here(capsys, *call, "--budget", 0.0023)
    one, other = json.loads(said.out)
    assert said.status == 1 and "2 requests without a reply are booked at" in said.err
    assert one["server"]["lost"] == 2 and other["server"]["stopped"]
    assert one["server"]["usd_at_most"] + other["server"]["usd_at_most"] <= 0.0023


@pytest.mark.parametrize("budget", [-1, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_refused(stub, settings, budget):
    assert "budget" in ask(stub, questions(1), settings(), budget=budget).error


def test_a_price_that_is_unknown_stays_so_and_no_budget_is_kept_without_it(stub, settings):
    got = ask(stub, questions(2), settings(), price=None)
    assert seal(got.run)["usd"] is None is got.bill.usd
    got = ask(stub, questions(3), settings(), price=None, budget=1.0)
    assert "price.input=" in got.error and len(stub.seen) == 2


@pytest.mark.parametrize("system", ["random", "smollm2-135m"])
def test_a_budget_is_for_servers_alone(settings, system):
    with pytest.raises(RefnbError):
        run(FERRYMAN, system, s=settings(), budget=1.0)


def test_the_command_says_what_a_budget_left_undone(stub, tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    monkeypatch.setenv("EXAMPLE_KEY", "sk-made-up")
    write_jsonl(tmp_path / "mine.jsonl", questions(9))
    sets = {"base_url": stub.url, "key": "EXAMPLE_KEY", "form": "choice/names"}
    sets |= {"decoding.max_tokens": 50, "price.input": 1, "price.output": 2}
    call = ["run", "mine.jsonl", "gpt-4o-mini"]
    call += [x for k, v in sets.items() for x in ("-p", f"{k}={v}")]
    poor = tools.here(capsys, *call, "--budget", 0.0001)
    assert poor.status == 1 and "stopped: the budget of 0.0001 USD is reached" in poor.out
    assert "0 of 9 are answered" in poor.err and len(poor.err.splitlines()) == 1
    rich = json.loads(tools.here(capsys, *call, "--json").out)
    assert rich["sealed"] and rich["server"]["asked"] == 9
    monkeypatch.delenv("EXAMPLE_KEY")
    said = tools.here(capsys, *call, "-p", "order=reversed")
    tools.one_line(said, 1, "EXAMPLE_KEY")
    said = tools.here(capsys, "run", "mine.jsonl", "random", "--budget", 1)
    tools.one_line(said, 2, "random")
