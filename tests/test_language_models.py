"Asking servers: what they do wrong, what it costs, and what is left after a kill. Every fault is played by a stub of a server on loopback."

import asyncio, contextlib, email.utils, itertools, json, logging, math, os, random, signal, socket, sqlite3, subprocess, sys, threading, time
from datetime import UTC, datetime, timedelta
from pathlib import Path
import msgspec
import pytest
from hypothesis import assume, given, strategies as st
from refnb.core.types import CallError, DataError, FormatError, RefnbError
from refnb.models.language import batches, protocol, servers as s
from refnb.models.language.language_models import Ask, Decoding, Rate, Reply, ask_key, ask_of, cost
from refnb.models.language.replies import FILE, SETTLED, Replies
from refnb.models.language.servers import Patience, answered, ask_all
from asking import KEY, QUICK, HASTY, SECRET, Told, contents, go, model, one_line, questions
from stub_server import BatchPlay, Play, Stub, error, reply_text
from tools import FULL, HANG, examples, wait

KILLS = int(os.environ.get("TEST_KILLS", 3))
pytestmark = pytest.mark.usefixtures("no_keys")


class Clock:
    "A clock that runs only while something sleeps."

    def __init__(self):
        self.now, self.slept = 0.0, []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


# F14: what may be better the next time

AGAIN = {
    "429": error(429, "slow down"),
    "429 in seconds": error(429, "slow down", retry_after="0.05"),
    "429 in ms": error(429, "slow down", retry_after_ms="50"),
    "500": error(500, "oops"),
    "502": error(502),
    "503": Play(503, body=b"<html><body>Down for\n maintenance</body></html>"),
    "529": error(529, "overloaded"),
    "a reset before the reply": Play(cut=0, reset=True),
    "a reset mid-reply": Play(cut=40, reset=True),
    "an end mid-reply": Play(cut=40),
    "silence": Play(hang=True),
    "silence mid-reply": Play(cut=40, stall=True),
    "no JSON": Play(body=b"<html>busy</html>"),
    "half a JSON": Play(body=b'{"choices": [{"mess'),
    "an array": Play(body=b"[]"),
    "an error as a reply": Play(body=b'{"error": {"message": "upstream failed", "code": 502}}'),
    "choices of another type": Play(body=b'{"choices": "none"}'),
}


def silent(play: Play) -> bool:
    return play.hang or play.stall


@pytest.mark.parametrize("play", AGAIN.values(), ids=AGAIN)
def test_f14_it_is_asked_again_and_answers(stub, store, play):
    m = model(stub)
    stub.play(questions(m, 3)[1].prompt, [play, play])
    got, told = go(questions(m, 3), m, store, patience=HASTY if silent(play) else QUICK)
    assert [told[f"q:{i}"].tries for i in range(3)] == [1, 3, 1] and got.ends == {"stop": 3}
    assert (got.requests, len(stub.seen)) == (5, 5)
    assert len({k.key for k in store.kept()}) == 3


@pytest.mark.parametrize(
    "play", [pytest.param(p, id=name) for name, p in AGAIN.items() if name != "no JSON"]
)
def test_f14_it_is_recorded_when_patience_ends(stub, store, play):
    m, clock = model(stub), Clock()
    stub.always = lambda seen: play
    if play.status == 429:  # the server is well: the time counts, not the tries
        got, told = go(
            questions(m, 1),
            m,
            store,
            patience=QUICK.changed(total=0.3),
            clock=clock,
            sleep=clock.sleep,
        )
        assert (
            (told["q:0"].finish, told["q:0"].tries) == ("failed", len(stub.seen))
            and len(stub.seen) > 3
            and clock.now <= 0.3
        )
        return
    got, told = go(
        questions(m, 1), m, store, patience=(HASTY if silent(play) else QUICK).changed(tries=2)
    )
    reply = told["q:0"]
    assert (reply.finish, reply.tries, got.requests, len(stub.seen), got.ends) == (
        "failed",
        2,
        2,
        2,
        {"failed": 1},
    )
    assert "after 2 tries" in reply.error and "\n" not in reply.error and len(reply.error) < 400
    assert (store.get(ask_key(questions(m, 1)[0])), len({k.key for k in store.kept()})) == (None, 1)
    stub.always = lambda seen: None
    again, told = go(questions(m, 1), m, store)  # a failure is no answer for ever
    assert told["q:0"].finish == "stop" and again.asked == 1


def nobody() -> str:
    "An address of this machine where nobody listens."
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def test_f58_a_server_that_is_not_there_stops_at_the_first_request(store):
    m = model(nobody())
    with pytest.raises(DataError, match="cannot be reached.*start the server") as e:
        go(questions(m, 40), m, store, concurrency=20)
    assert one_line(e) and len(store) == 0


@pytest.mark.parametrize(
    "play",
    [
        Play(body=b"<html>Welcome</html>"),
        Play(body=b""),
        error(404, "no such model"),
        error(401, "no key"),
    ],
)
def test_f58_a_mistake_of_setting_up_costs_one_request(stub, store, play):
    m = model(stub)
    stub.always = lambda seen: play
    with pytest.raises(DataError) as e:
        go(questions(m, 40), m, store, concurrency=20)
    assert one_line(e) and len(stub.seen) == 1 and len(store) == 0


def test_f58_a_page_of_html_in_the_middle_is_an_outage(stub, store):
    "The server has answered before, so it is asked again, and what it does not answer is left open."
    m = model(stub)
    stub.play(questions(m, 9)[5].prompt, [Play(body=b"<html>busy</html>")] * 9)
    got, told = go(questions(m, 9), m, store, patience=QUICK.changed(tries=2))
    assert got.ends == {"failed": 1, "stop": 8} and told["q:5"].tries == 2


def test_f14_a_server_that_takes_no_connection(store):
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            other = stack.enter_context(socket.socket())
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                other.connect(full.getsockname())
        m = model(f"http://127.0.0.1:{full.getsockname()[1]}/v1")
        with pytest.raises(DataError, match="no connection in time"):
            go(questions(m, 1), m, store, patience=QUICK.changed(tries=2, connect=0.2, reply=5))


def test_f14_the_pauses_are_bounded_and_drawn(stub, store, tmp_path):
    m, p, slept = model(stub), Patience(tries=7, first=1, longest=10, give_up=0), []
    stub.always = lambda seen: error(503)
    for seed in (0, 1):
        clock = Clock()
        go(
            questions(m, 5, f"s{seed}"),
            m,
            store,
            patience=p,
            clock=clock,
            sleep=clock.sleep,
            rng=random.Random(seed),
            concurrency=1,
        )
        assert len(clock.slept) == 30
        for i in range(5):
            assert all(x <= min(10, 2**n) for n, x in enumerate(clock.slept[6 * i : 6 * i + 6]))
        slept.append(clock.slept)
    assert slept[0] != slept[1] and len(set(slept[0])) == 30


def test_f14_total_time_is_bounded(stub, store):
    m, clock = model(stub), Clock()
    stub.always = lambda seen: error(429, retry_after="100")
    got, told = go(
        questions(m, 1),
        m,
        store,
        patience=Patience(tries=50, total=1000),
        clock=clock,
        sleep=clock.sleep,
    )
    assert told["q:0"].finish == "failed" and 800 < clock.now < 1000 and got.requests < 12


def test_f14_too_many_at_a_time_for_a_server_that_does_not_say_how_many(stub, store):
    "Twenty requests in a fifth of a second, refused ones included: all are answered, and few are refused."
    m, times, n = model(stub), [], 300 if FULL else 120

    def limited(seen):
        times.append(seen.at)
        if sum(t > seen.at - 0.2 for t in times[-200:]) > 20:
            return error(429, "too many")

    stub.always, stub.delay = limited, 0.01
    got, told = go(
        questions(m, n),
        m,
        store,
        concurrency=100,
        patience=Patience(first=0.05, longest=1, total=60),
    )
    assert got.ends == {"stop": n} and got.requests < 3 * n


@pytest.mark.parametrize(
    "said, low, high", [("30", 30, 32), ("date", 25, 33), ("86400", 300, 302), ("nonsense", 0, 3)]
)
def test_f14_retry_after_is_honoured_with_a_cap(stub, store, said, low, high):
    m, clock = model(stub), Clock()
    if said == "date":
        said = email.utils.format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    stub.play(questions(m, 1)[0].prompt, [error(429, retry_after=said)])
    _, told = go(questions(m, 1), m, store, patience=Patience(), clock=clock, sleep=clock.sleep)
    assert told["q:0"].tries == 2 and low <= clock.now <= high


def test_f14_a_pause_that_the_server_asks_for_is_everyones(stub, store):
    "While it lasts, no other request starts."
    m = model(stub)
    stub.play(questions(m, 1)[0].prompt, [error(429, retry_after="0.5")])
    go(questions(m, 12), m, store, concurrency=2, patience=QUICK.changed(after=1))
    at = [x.at for x in stub.seen]
    assert max(b - a for a, b in zip(at, at[1:], strict=False)) > 0.45


def test_f14_a_dead_server_stops_the_run_and_no_answer_is_made_of_it(stub, store):
    m, told = model(stub), Told()
    stub.always = lambda seen: error(503, "down") if len(stub.seen) > 30 else None
    with pytest.raises(
        DataError, match="20 questions in a row failed.*rerun when the server works"
    ) as e:
        ask_all(
            questions(m, 200),
            m,
            store,
            patience=QUICK.changed(tries=2),
            on_reply=told,
            concurrency=10,
        )
    one_line(e)
    assert {r.finish for r in told.values()} == {"stop"} and len(told) >= 25
    stub.always = lambda seen: None
    got, told = go(questions(m, 200), m, store)
    assert len(told) == 200 and {r.finish for r in told.values()} == {"stop"}


def test_f14_failures_between_answers_are_answers(stub, store):
    m = model(stub)
    stub.always = lambda seen: error(500) if hash(seen.prompt) % 2 else None
    bad = sum(hash(q.prompt) % 2 for q in questions(m, 60))
    got, told = go(questions(m, 60), m, store, patience=QUICK.changed(tries=1))
    assert got.ends == {"failed": bad, "stop": 60 - bad} and len(told) == 60


# F15: what will not be better

STOPS = [
    (error(401, f"Incorrect API key provided: {SECRET}."), f"does not accept the key in {KEY}"),
    (error(401, "Incorrect API key provided: sk-ma****************cdef."), "[key]"),
    (error(403, "No access"), f"the key in {KEY} may not use the model gpt-4o-mini"),
    (error(404, "no such model", "model_not_found"), "there is no model gpt-4o-mini"),
    (
        error(429, "You exceeded your current quota", "insufficient_quota"),
        "there is no credit left",
    ),
    (error(402, "Payment required"), "there is no credit left"),
    (
        Play(307, {"location": "http://127.0.0.1:1/v1/chat/completions"}, body=b""),
        "does not answer as a server of the protocol",
    ),
    (
        error(
            400,
            "Unsupported value: 'temperature' does not support 0",
            "unsupported_value",
            "temperature",
        ),
        "does not take temperature",
    ),
]


@pytest.mark.parametrize("play, words", STOPS, ids=[f"{p.status} {w[:20]}" for p, w in STOPS])
def test_f15_it_stops_all_at_once(stub, store, play, words):
    m = model(stub)
    stub.always = lambda seen: play if len(stub.seen) > 2 else None
    told = Told()
    with pytest.raises(RefnbError) as e:
        ask_all(questions(m, 50), m, store, patience=QUICK, on_reply=told, concurrency=1)
    assert words in one_line(e) and SECRET not in str(e.value)
    assert (
        len(stub.seen) == 3 and len(told) == 2
    )  # not tried again, nothing after it, nothing lost before it
    stub.always = lambda seen: None
    assert go(questions(m, 50), m, store)[0].asked == 48


@pytest.mark.parametrize(
    "play",
    [
        error(
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens",
            "context_length_exceeded",
            "messages",
        ),
        error(413),
        error(400, "the request exceeds the available context size", "exceed_context_size_error"),
        error(422, "prompt is too long: 210000 tokens > 200000 maximum"),
        error(400, "Input is too long for requested model"),
    ],
    ids=["openai", "413", "llama.cpp", "another", "yet another"],
)
def test_f15_a_prompt_that_is_too_long_fails_alone(stub, store, play):
    m = model(stub)
    stub.play(questions(m, 9)[4].prompt, [play] * 9)
    got, told = go(questions(m, 9), m, store)
    assert got.ends == {"failed": 1, "stop": 8} and told["q:4"].tries == 1
    assert "the prompt is too long for the model" in told["q:4"].error


def test_f15_a_prompt_that_is_too_long_for_a_minute_fails_alone(stub, store):
    m = model(stub)
    stub.play(
        questions(m, 2)[0].prompt,
        [
            error(
                429,
                "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000",
                "rate_limit_exceeded",
            )
        ]
        * 9,
    )
    assert go(questions(m, 2), m, store)[0].ends == {"failed": 1, "stop": 1} and len(stub.seen) == 2


def test_f15_half_a_character(stub, store):
    with pytest.raises(DataError, match="question q: its text is invalid Unicode") as e:
        go([ask_of(model(stub), "q", "\ud83d")], model(stub), store)
    one_line(e)


def test_f15_a_whole_part_that_is_too_long_is_answered_so(stub, store):
    "It is no sign of a server that is down."
    m = model(stub)
    stub.always = lambda seen: error(400, code="context_length_exceeded")
    assert go(questions(m, 60), m, store)[0].ends == {"failed": 60}


def test_f15_requests_that_are_refused_one_like_the_other_stop_all(stub, store):
    m = model(stub)
    stub.always = lambda seen: error(400, "what is this?")
    with pytest.raises(
        DataError,
        match="20 questions in a row failed, the last because the server says 400: what is this?",
    ):
        go(questions(m, 60), m, store)


def test_f15_a_filter_that_answers_by_a_status(stub, store):
    m = model(stub)
    stub.play(
        questions(m, 2)[0].prompt,
        [
            error(
                400,
                "The response was filtered due to the prompt triggering Azure OpenAI's content management policy",
                "content_filter",
            )
        ],
    )
    assert go(questions(m, 2), m, store)[0].ends == {"content_filter": 1, "stop": 1}


@pytest.mark.parametrize(
    "value",
    ["", "  ", None, "sk-two words-0123456789", "sk-with-é-0123456789", "sk-line\nend-0123456789"],
)
def test_f15_no_key(stub, store, monkeypatch, value):
    if value is None:
        monkeypatch.delenv(KEY)
    else:
        monkeypatch.setenv(KEY, value)
    with pytest.raises(DataError, match=f"the environment variable {KEY}") as e:
        go(questions(model(stub), 3), model(stub), store)
    assert not (value or "").strip() or value.strip() not in one_line(e)
    assert not stub.seen


def test_f15_a_key_that_is_not_needed_is_not_read(stub, store, monkeypatch):
    "What is in the store needs no server, and a server without a key gets none that is meant for another."
    m = model(stub)
    go(questions(m, 3), m, store)
    monkeypatch.delenv(KEY)
    assert go(questions(m, 3), m, store)[0].served == 3
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", SECRET)
    monkeypatch.setenv("OPENAI_ORG_ID", "our-organisation")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: Bearer {SECRET}\nx-ours: {SECRET}")
    other = model(stub, key="")
    go(questions(other, 1, "other"), other, store)
    assert (
        stub.seen[-1].headers["authorization"] == "Bearer none"
        and "openai-organization" not in stub.seen[-1].headers
    )
    assert SECRET not in str(stub.seen[-1])


# F16: replies that are no answers

ENDS = {
    "a refusal in its field": (Play(refusal="I'm sorry, I can't."), "refusal"),
    "a filter": (Play(text="The", finish="content_filter"), "content_filter"),
    "a filter of another vendor": (Play(text="", finish="SAFETY"), "content_filter"),
    "cut": (Play(text="The mention refers", finish="length"), "length"),
    "cut before a word": (Play(text="", finish="length"), "length"),
    "empty": (Play(text=""), "failed"),
    "blank": (Play(text=" \n"), "failed"),
    "no content": (
        Play(choices=[{"index": 0, "finish_reason": "stop", "message": {"role": "assistant"}}]),
        "failed",
    ),
    "no choices": (Play(choices=[]), "failed"),
}


@pytest.mark.parametrize("play, finish", ENDS.values(), ids=ENDS)
def test_f16_typed_counted_and_never_good(stub, store, play, finish):
    m = model(stub)
    first = questions(m, 3)[0]
    stub.play(first.prompt, [play] * 2)
    got, told = go(questions(m, 3), m, store)
    reply = told[first.id]
    assert (reply.finish, reply.tries, got.requests) == (finish, 1, 3) and got.ends == {
        finish: 1,
        "stop": 2,
    }
    assert reply.tokens_in > 0 and got.usd == pytest.approx(
        sum(cost(m, r) for r in told.values())
    )  # it was paid
    assert bool(reply.error) == (finish == "failed")
    assert store.get(ask_key(first)) is None and [k.reply for k in store.kept(ask_key(first))] == [
        reply
    ]
    go(questions(m, 3), m, store)
    assert stub.asked().count(first.prompt) == (
        2 if finish == "failed" else 1
    )  # cut, filtered and refused would be so again


def test_f16_a_reply_in_parts_and_a_reply_without_an_end(stub, store):
    m = model(stub)
    stub.play(
        questions(m, 2)[0].prompt,
        [
            Play(
                choices=[
                    {
                        "message": {
                            "content": [
                                {"type": "text", "text": "Be"},
                                {"type": "text", "text": "a"},
                            ]
                        }
                    }
                ]
            )
        ],
    )
    stub.play(questions(m, 2)[1].prompt, [Play(finish=None, text="Bea")])
    assert [r.text for r in go(questions(m, 2), m, store)[1].values()] == ["Bea", "Bea"]


def test_f16_a_server_that_counts_nothing_is_not_free(stub, store):
    m = model(stub)
    stub.always = lambda seen: Play(usage=None)
    got, told = go(questions(m, 2), m, store)
    assert told["q:0"].tokens_in == -(-len(questions(m, 1)[0].prompt) // 4) and got.usd > 0


def test_thinking_is_paid_and_the_cache_is_cheaper(stub, store):
    m = model(stub)
    stub.always = lambda seen: Play(
        usage={
            "prompt_tokens": 1000,
            "completion_tokens": 10,
            "total_tokens": 1500,
            "prompt_tokens_details": {"cached_tokens": 400},
        }
    )
    got, told = go(questions(m, 1), m, store)
    assert (told["q:0"].tokens_in, told["q:0"].tokens_out, told["q:0"].tokens_cached) == (
        1000,
        500,
        400,
    )
    assert got.usd == pytest.approx((600 * 1 + 400 * 0.5 + 500 * 2) / 1e6)


# F17: replies in JSON


@given(
    st.text(max_size=40),
    st.text(max_size=40),
    st.sampled_from(["Ann", "Bea", 'the "grey" {one}', "Zoë, of Rye"]),
    st.sampled_from(["{}", "```json\n{}\n```", "```\n{}```", " {}\n"]),
)
def test_f17_the_answer_is_taken_out_of_what_surrounds_it(before, after, name, fence):
    ask = Ask("q", "p", constraint="choice", options=("Ann", "Bea"))
    text = before + fence.replace("{}", json.dumps({"answer": name})) + after
    assume("{" not in before + after)
    assert protocol.spoken(ask, text) == name
    assert protocol.spoken(ask.changed(constraint="none"), text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"answer": "An',
        '{"answer": 1}',
        '{"answer": "Ann"} {"answer": "Bea"}',
        '{"name": "Ann"}',
        "{" * 5000,
        '{"a":' * 5000,
    ],
)
def test_f17_what_has_no_answer_stays_as_it_is(text):
    assert protocol.spoken(Ask("q", "p", constraint="json", pattern="{}"), text) == text


# F18: paid twice, answered once


def test_f18_a_duplicate_after_a_timeout_is_one_answer_and_both_costs(stub, store):
    m = model(stub)
    ask = questions(m, 1)[0]
    stub.play(ask.prompt, [Play(delay=1.5)])  # it comes, too late
    got, told = go([ask], m, store, patience=HASTY)
    time.sleep(0.6)  # if it is later still, the test is easier and still right
    assert (len(stub.seen), len(told), told["q:0"].tries, got.requests, got.lost) == (2, 1, 2, 2, 1)
    assert got.usd == pytest.approx(cost(m, told["q:0"])) and got.usd_at_most == pytest.approx(
        got.usd + protocol.worst(m, ask)
    )
    assert len(store) == 1
    assert (
        len({x.headers["idempotency-key"] for x in stub.seen}) == 1
    )  # a gateway can know it for the same


def test_f18_what_cannot_have_been_billed_is_not_counted_as_lost(stub, store):
    m = model(stub)
    stub.play(questions(m, 1)[0].prompt, [error(429), error(500), error(503)])
    got, _ = go(questions(m, 1), m, store)
    assert (got.requests, got.lost) == (4, 0) and got.usd == got.usd_at_most


def test_f18_the_same_words_at_the_same_time_are_asked_once(stub, store):
    m = model(stub)
    stub.delay = 0.05
    asks = [ask_of(m, f"q:{i}", f"Who, {i % 3}?") for i in range(30)]
    got, told = go(asks, m, store, concurrency=30)
    assert len(told) == 30 and len(stub.seen) == 3 and (got.asked, got.served) == (3, 27)


# F20 and F21: money


def billing(rng, ledger: list):
    "A server that bills what it likes within what was asked for, and sometimes does not answer though it billed."
    import httpx2

    async def answer(request):
        body = json.loads(request.content)
        await asyncio.sleep(rng.random() * 0.002)
        used = {
            "prompt_tokens": rng.randint(1, len(body["messages"][0]["content"])),
            "completion_tokens": rng.randint(0, body["max_tokens"]),
        }
        if rng.random() < 0.15:
            return httpx2.Response(rng.choice([429, 500]))
        ledger.append((used["prompt_tokens"] + 2 * used["completion_tokens"]) / 1e6)
        if rng.random() < 0.1:
            raise httpx2.ReadTimeout("too late")
        return httpx2.Response(
            200,
            json={
                "model": "m",
                "choices": [{"finish_reason": "stop", "message": {"content": "Bea"}}],
                "usage": used,
            },
        )

    return httpx2.MockTransport(answer)


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0, 0.004))
def test_f20_the_budget_is_never_passed(tmp_path_factory, seed, concurrency, budget):
    ledger, rng, m = [], random.Random(seed), model("http://127.0.0.1:9/v1")
    with Replies(tmp_path_factory.mktemp("budget")) as store:
        got, told = go(
            questions(m, 60),
            m,
            store,
            budget=budget,
            concurrency=concurrency,
            transport=billing(rng, ledger),
            patience=QUICK.changed(give_up=0),
        )
        assert sum(ledger) <= budget + 1e-12 and got.usd <= got.usd_at_most <= budget + 1e-12
        assert got.usd <= sum(ledger) + 1e-12 and sum(ledger) <= got.usd_at_most + 1e-12
        assert len(told) == got.asked and (len(told) == 60) == (not got.stopped)
        assert set(told) == {k.ask.id for k in store.kept()}


def test_f20_it_stops_says_so_and_goes_on(stub, store):
    m, told = model(stub), {}
    for _ in range(200):
        got, _told = go(
            questions(m, 40),
            m,
            store,
            budget=0.0008,
            on_reply=lambda a, r: told.update({a.id: r}),
            concurrency=7,
        )
        if not got.stopped:
            break
        assert got.stopped.startswith("the budget of 0.0008 USD is reached: ")
    assert len(told) == 40 and len(stub.seen) == 40


def test_f20_near_the_end_fewer_run_at_a_time_and_not_none(stub, store):
    "What is set aside for replies at their longest is free again when they are short."
    m = model(stub, decoding={"max_tokens": 4000})
    each = protocol.worst(m, questions(m, 1)[0])
    stub.delay = 0.01
    got, _ = go(questions(m, 100), m, store, budget=each * 3.5, concurrency=50)
    assert got.asked == 100 and not got.stopped and stub.most_open <= 3


def test_f20_a_budget_of_nothing_asks_nothing(stub, store):
    m = model(stub)
    go(questions(m, 3), m, store)
    got, told = go(questions(m, 6), m, store, budget=0, concurrency=1)
    assert (got.served, got.asked, len(stub.seen)) == (
        3,
        0,
        3,
    ) and "the budget of 0 USD is reached" in got.stopped


def test_f20_a_server_that_adds_words_is_found_out(stub, store):
    m = model(stub)
    for i, usage in enumerate(
        [
            {"prompt_tokens": 2000, "completion_tokens": 1},
            {"prompt_tokens": 5, "completion_tokens": 1000},
        ]
    ):
        stub.always = lambda seen, usage=usage: Play(usage=usage)
        got, _ = go(questions(m, 40, f"x{i}"), m, store, budget=0.02, concurrency=1)
        assert 0.015 < got.usd <= 0.02 and got.stopped


def test_f20_an_error_while_the_last_replies_come_is_told(stub, store):
    m, told = model(stub), []

    def broken(ask, reply):
        told.append(ask)
        if len(told) == 25:
            raise ZeroDivisionError

    stub.delay = 0.05
    for limit in (0.0010, 0.0011, 0.0012, 0.0013):
        told.clear()
        try:
            got = ask_all(
                questions(m, 400, f"b{limit}"),
                m,
                store,
                patience=QUICK,
                on_reply=broken,
                budget=limit,
                concurrency=30,
            )
        except ZeroDivisionError:
            continue
        assert len(told) < 25 and got.stopped


@pytest.mark.parametrize("budget", [-1, math.nan, math.inf])
def test_f20_budgets_that_are_none(stub, store, budget):
    with pytest.raises(CallError, match="a budget of") as e:
        go(questions(model(stub), 1), model(stub), store, budget=budget)
    one_line(e)


def test_f21_a_model_without_a_price(stub, store):
    m = model(stub, price=None)
    with pytest.raises(CallError, match="a budget needs a price") as e:
        go(questions(m, 3), m, store, budget=5)
    one_line(e)
    assert not stub.seen
    got, _ = go(questions(m, 3), m, store)
    assert (got.usd, got.usd_at_most, got.asked) == (None, None, 3)


# F30, F31, F33 and F35: the store


def filled(folder: Path, n: int = 40) -> dict[str, Reply]:
    "A store with n replies in one file."
    m = model("http://127.0.0.1:9/v1")
    with Replies(folder, now=lambda: datetime(2026, 11, 20, tzinfo=UTC)) as store:
        got = {
            ask_key(q): Reply(
                f"The mention refers to: {i} é 日本 {'x' * i * 9}", model="m", tokens_in=i
            )
            for i, q in enumerate(questions(m, n))
        }
        store.put_many(
            (key, reply, q) for (key, reply), q in zip(got.items(), questions(m, n), strict=True)
        )
    return got


def test_f30_a_flipped_bit_never_changes_a_reply(tmp_path):
    want = filled(tmp_path / "s")
    path, rng, seen = tmp_path / "s" / FILE, random.Random(30), set()
    whole = path.read_bytes()
    for at in [*range(100), *rng.sample(range(100, len(whole)), 400 if FULL else 150)]:
        path.write_bytes(
            data := whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        )
        try:
            with Replies(tmp_path / "s") as store:
                for key, reply in want.items():
                    assert store.get(key) in (reply, None)
                for k in store.kept():
                    assert want[k.key] == k.reply
            seen.add("read")
        except RefnbError as e:
            assert "\n" not in str(e) and FILE in str(e)
            assert len(path.read_bytes()) >= len(data) - 4096
            seen.add(type(e).__name__)
        for side in ("-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)
    assert seen >= {"read", "DataError"}


@pytest.mark.parametrize("how", ["torn", "empty", "text", "cut"])
def test_f30_a_damaged_store_is_left_alone(tmp_path, how):
    want = filled(tmp_path / "s", 400)
    path = tmp_path / "s" / FILE
    whole = path.read_bytes()
    middle = len(whole) // 2 // 4096 * 4096
    data = {
        "torn": whole[:middle] + os.urandom(3 * 4096) + whole[middle + 3 * 4096 :],
        "empty": b"\0" * len(whole),
        "text": b"hello" * 1000,
        "cut": whole[:middle],
    }[how]
    path.write_bytes(data)
    with (
        pytest.raises(
            DataError,
            match="the store of paid replies is damaged.*it is left unchanged; `sqlite3 FILE .recover`",
        ) as e,
        Replies(tmp_path / "s") as store,
    ):
        for key in want:
            store.get(key)
        list(store.kept())
    one_line(e)
    assert path.read_bytes() == data


def test_f31_a_store_of_another_version(tmp_path):
    filled(tmp_path, 2)
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("pragma user_version=7")
    db.close()
    with pytest.raises(
        FormatError, match="is of version 7, this refnb knows 1; it is left unchanged"
    ) as e:
        Replies(tmp_path)
    one_line(e)


def test_f10_a_full_disk_stops_all_and_keeps_what_was_kept(stub, disk):
    m, told = model(stub), Told()
    stub.always = lambda seen: Play(text="word " * 800)
    with Replies(disk.path / "replies") as store:
        with pytest.raises(
            DataError, match="the store of paid replies cannot be used.*free some space"
        ) as e:
            ask_all(questions(m, 300), m, store, patience=QUICK, on_reply=told, concurrency=4)
        one_line(e)
        assert len(told) > 5 and all(
            store.get(ask_key(q)) == told[q.id] for q in questions(m, 300) if q.id in told
        )


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError) as e:
        Replies(tmp_path / "file" / "replies")
    one_line(e)


OPENING = """
import sys
from refnb.models.language.language_models import Reply
from refnb.models.language.replies import Replies
folder, who = sys.argv[1], sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
with Replies(folder) as store:
    for i in range(50): store.put(f"{who}-{i}", Reply(who))
    store.put("shared", Reply(who))
"""


def test_f32_processes_share_a_store_from_its_first_moment(tmp_path, spawn):
    started = [spawn(OPENING, tmp_path / "s", k) for k in range(6)]
    for p in started:
        assert p.stdout.readline() == "ready\n", p.communicate()
    for p in started:
        p.stdin.write("\n")
        p.stdin.flush()
    for p in started:
        assert p.wait(60) == 0, p.communicate()
    with Replies(tmp_path / "s") as store:
        assert len(store) == 306 and all(
            store.get(f"{k}-{i}").text == str(k) for k in range(6) for i in range(50)
        )
        assert store.get("shared") == next(store.kept("shared")).reply  # the first counts


def test_f32_threads_share_a_store(store):
    def put(who):
        store.put_many((f"{who}-{i}", Reply(f"{who}"), None) for i in range(200))

    threads = [threading.Thread(target=put, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(store) == 1600


def test_f35_nothing_is_evicted_or_replaced(store):
    n = 3000 if FULL else 600
    for i in range(n):
        if i % 10:
            store.put(f"{i}", Reply(str(i)))
        else:
            store.put_many((f"{i}-{j}", Reply(str(j)), None) for j in range(3))
    store.put("0-0", Reply("another"))
    assert len(store) == n + n // 10 * 2 + 1 and store.get("0-0").text == "0"
    assert [k.reply.text for k in store.kept("0-0")] == ["0", "another"]


def test_a_transaction_is_whole_or_not_at_all(store):
    class Broken(Exception):
        pass

    def rows():
        yield "a", Reply("a"), None
        raise Broken

    with pytest.raises(Broken):
        store.put_many(rows())
    assert len(store) == 0
    store.put("b", Reply("b"))
    assert len(store) == 1


def test_the_words_of_a_benchmark_are_not_in_the_store(store):
    ask = Ask(
        "d:0",
        "The ferryman's letter",
        system="Be brief",
        pattern="(Ann|Bea)",
        options=("Annabel", "Beatrice"),
    )
    store.put(ask_key(ask), Reply("x"), ask)
    store.close()
    data = store.path.read_bytes()
    assert b"d:0" in data and not any(
        word in data for word in (b"ferryman", b"Be brief", b"Ann|Bea", b"Annabel")
    )


# a child for each line that is read: killed after so many seconds, or left alone
FORKING = """\
print("ready", flush=True)
for line in sys.stdin:
    delay, child = float(line), os.fork()
    if not child:
        try: answer(); os._exit(0)
        except BaseException: traceback.print_exc(); os._exit(1)
    if delay >= 0: time.sleep(delay); os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1], flush=True)
"""

ZYGOTE = (
    """
import os, signal, sys, time, traceback
from refnb.models.language.language_models import ask_of, the_model
from refnb.models.language.replies import Replies
from refnb.models.language.servers import Patience, ask_all
import openai, httpx2
url, folder, log, n = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
m = the_model("gpt-4o-mini", base_url=url, key="", rate={}, decoding={"max_tokens": 50})
def answer():
    told = os.open(log, os.O_WRONLY|os.O_CREAT|os.O_APPEND)
    with Replies(folder) as store:
        ask_all((ask_of(m, f"q:{i}", f"Who left first, q{i}?") for i in range(n)), m, store, concurrency=16, patience=Patience(first=.002, longest=.01, tries=9), on_reply=lambda a, r: os.write(told, f"{a.id} {r.finish}\\n".encode()))
"""
    + FORKING
)


class Forked:
    "Work in a process that can be started again and again, and killed each time; between two starts it is looked at."

    def __init__(self, spawn, code: str, *args):
        self.p = spawn(code, *args)
        assert self.p.stdout.readline() == "ready\n", self.p.communicate()

    def start(self, delay: float) -> bool:
        "Start once, kill after a delay (-1: never); whether it came to its end."
        self.p.stdin.write(f"{delay}\n")
        self.p.stdin.flush()
        status = int(self.p.stdout.readline() or self.p.communicate()[1])
        assert status in (0, signal.SIGKILL), self.p.communicate("")
        self.look()
        return status == 0


class Killed(Forked):
    "Three hundred questions, asked by a process that is killed and started again until all are answered."

    def __init__(self, stub: Stub, folder: Path, spawn, n: int = 300):
        self.stub, self.folder, self.log, self.n = stub, folder / "replies", folder / "told", n
        super().__init__(spawn, ZYGOTE, stub.url, self.folder, self.log, n)
        self.stored, self.asked = set(), 0

    def look(self):
        "Nothing that was stored was asked again or is gone, and nobody was told what is not stored."
        asked = self.stub.asked()
        assert not self.stored & set(asked[self.asked :])
        now = set()
        if (self.folder / FILE).exists():
            with Replies(self.folder) as store:
                now = {
                    f"Who left first, {k.ask.id.replace(':', '')}?"
                    for k in store.kept()
                    if k.reply.finish in SETTLED
                }
        told = (
            {
                f"Who left first, {line.split()[0].replace(':', '')}?"
                for line in self.log.read_text().splitlines()
            }
            if self.log.exists()
            else set()
        )
        assert self.stored <= now and told <= now
        self.stored, self.asked = now, len(asked)


def faults(seen) -> Play | None:
    "One request in seven fails at first, one reply in eleven is no good one."
    number = int(seen.prompt.split("q")[-1].rstrip("?"))
    if number % 11 == 3:
        return Play(text="The", finish="length") if number % 2 else Play(refusal="I can't.")


def test_f33_a_kill_at_any_instant_loses_no_paid_reply(tmp_path, spawn):
    rng, kills, ends = random.Random(33), 0, []
    with Stub(0.004) as stub:
        stub.always = faults
        plain = Killed(stub, tmp_path, spawn)
        assert plain.start(-1)
        with Replies(plain.folder) as store:
            want = contents(store)
        assert len(want) == 300 == len(stub.seen)
        for turn in itertools.count():
            (folder := tmp_path / f"{turn}").mkdir()
            one = Killed(stub, folder, spawn)
            one.asked, before = len(stub.seen), kills
            while not one.start(rng.uniform(0, 0.35) if kills < KILLS else -1):
                kills += 1
            with Replies(one.folder) as store:
                assert contents(store) == want
            ends.append(kills - before)
            one.p.communicate("")
            if kills >= KILLS:
                break
    assert sum(ends) >= KILLS


@pytest.mark.parametrize("where", ["script", "notebook"])
def test_f33_ctrl_c_keeps_what_is_under_way(tmp_path, spawn, where):
    "No reply that was paid for is lost, and it is said by the exit status; where a loop runs already too."
    code = """
import asyncio, sys
from refnb.models.language.language_models import ask_of, the_model
from refnb.models.language.replies import Replies
from refnb.models.language.servers import ask_all
m = the_model("gpt-4o-mini", base_url=sys.argv[1], key="", rate={})
told = []
def say(a, r):
    told.append(a.id)
    if len(told) == 30: print("ready", flush=True)
def cell():
    with Replies(sys.argv[2]) as store: ask_all((ask_of(m, f"q:{i}", f"Who, {i}?") for i in range(100000)), m, store, concurrency=10, on_reply=say)
async def notebook(): cell()
cell() if sys.argv[3] == "script" else asyncio.new_event_loop().run_until_complete(notebook())
"""
    with Stub(0.1) as stub:
        p = spawn(code, stub.url, tmp_path / "s", where)
        assert p.stdout.readline() == "ready\n", p.communicate()
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=HANG)[1]
        assert p.returncode == -signal.SIGINT and err.strip().endswith("KeyboardInterrupt"), err
        with Replies(tmp_path / "s") as store:
            assert len(store) == len(stub.seen)


# F34: the key of a reply

DECODINGS = st.builds(
    Decoding,
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    max_tokens=st.integers(1, 9999),
    seed=st.none() | st.integers(0, 2**40),
)
WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
ASK = dict(
    id=WORDS,
    prompt=WORDS,
    system=WORDS,
    message=st.sampled_from(["chat", "raw"]),
    provider=WORDS,
    base_url=WORDS,
    model=WORDS,
    revision=WORDS,
    file=WORDS,
    dtype=WORDS,
    decoding=DECODINGS,
    way=st.sampled_from(["reply", "likelihood", "logprobs"]),
    constraint=st.sampled_from(["none", "regex", "choice", "json"]),
    pattern=WORDS,
    options=st.lists(WORDS, max_size=3).map(tuple),
    version=st.integers(1, 99),
    dialect=WORDS,
    effort=WORDS,
    thinking=st.none() | st.integers(0, 9),
    shared=st.integers(0, 9),
    sample=st.integers(0, 9),
)


def test_f34_every_field_of_a_request_is_tried():
    assert set(ASK) == set(Ask.__struct_fields__) and set(Decoding.__struct_fields__) == {
        "temperature",
        "top_p",
        "max_tokens",
        "seed",
    }


@pytest.mark.parametrize("field", ASK)
def test_f34_any_change_of_what_is_asked_changes_the_key(field):
    @given(st.builds(Ask, **ASK), ASK[field])
    def law(ask, value):
        assume(repr(getattr(ask, field)) != repr(value))
        assert (ask_key(ask.changed(**{field: value})) != ask_key(ask)) == (
            field not in ("id", "shared")
        )

    law()


@given(
    st.builds(Ask, **ASK),
    st.sampled_from(["temperature", "top_p", "max_tokens", "seed"]),
    DECODINGS,
)
def test_f34_any_change_of_decoding_changes_the_key(ask, field, other):
    changed = ask.changed(decoding=ask.decoding.changed(**{field: getattr(other, field)}))
    assume(repr(changed) != repr(ask))
    assert ask_key(changed) != ask_key(ask)


def test_f34_a_server_that_the_key_does_not_name_is_not_asked(stub, store, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    m = model("", key=KEY)
    with pytest.raises(CallError, match="OPENAI_BASE_URL is set") as e:
        go(questions(m, 1), m, store)
    one_line(e)
    other = model(stub, model="another")
    with pytest.raises(CallError, match="is for gpt-4o-mini"):
        go(questions(model(stub), 1), other, store)
    assert not stub.seen


# F52: the key


def test_f52_the_key_is_nowhere(stub, tmp_path, caplog):
    "Errors, logs, representations, the store, batches: a server that repeats the key at every turn."
    import traceback

    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx2", "httpcore2", "asyncio"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    m, heard = model(stub), []
    echo = [
        Play(text=f"Your key is {SECRET}", model=SECRET),
        error(500, f"key {SECRET}"),
        error(400, f"bad {SECRET}"),
        Play(body=f"<b>{SECRET}".encode()),
        error(429, SECRET, retry_after="0"),
        Play(cut=0, reset=True),
        Play(headers={"x-echo": SECRET}),
        Play(text="", refusal=SECRET),
    ]
    stub.always = lambda seen: echo[len(stub.seen) % len(echo)]
    with Replies(tmp_path / "replies") as store:
        got, told = go(
            questions(m, 40),
            m,
            store,
            patience=QUICK.changed(give_up=0),
            progress=lambda x: heard.append(repr(x)),
        )
        heard += [repr(got), repr(told), repr(store), repr(list(store.kept()))]
        for status in (401, 403, 404, 402, 307):
            stub.always = lambda seen, status=status: error(
                status, f"wrong key {SECRET}, or Bearer {SECRET}"
            )
            try:
                go(questions(m, 1, f"s{status}"), m, store)
            except RefnbError as e:
                heard += ["".join(traceback.format_exception(e)), repr(e), str(vars(e))]
            try:
                batches.submit_batch(
                    questions(m, 1, f"b{status}"),
                    m,
                    store,
                    tmp_path / f"batch{status}",
                    patience=QUICK,
                )
            except RefnbError as e:
                heard += ["".join(traceback.format_exception(e))]
    line = s.Line(m, QUICK)
    line.open()
    heard += [repr(x) for x in (line, line.secret, line.client, vars(line))] + [caplog.text]
    asyncio.run(line.close())
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert len(heard) > 50 and len(files) > 5
    assert not [x for x in heard if SECRET in x or SECRET[3:] in x] and not [
        p for p, data in files.items() if SECRET.encode() in data
    ]
    assert all(x.headers["authorization"] == f"Bearer {SECRET}" for x in stub.seen)


def test_a_proxy_is_used_where_one_is_set(stub, store, monkeypatch):
    for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    assert not s._proxy_of("https://example.org/v1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert s._proxy_of("https://example.org/v1") == "http://127.0.0.1:9" and not s._proxy_of(
        "http://example.org/v1"
    )
    monkeypatch.setenv("no_proxy", "example.org")
    assert not s._proxy_of("https://example.org/v1")
    monkeypatch.setenv("http_proxy", stub.url.removesuffix("/v1"))
    m = model(stub, base_url="http://nowhere.invalid/v1")
    with pytest.raises(DataError, match="404"):
        go(questions(m, 1), m, store)  # the stub is no proxy, but was asked as one
    assert [x.path for x in stub.seen] == ["http://nowhere.invalid/v1/chat/completions"]


def test_all_requests_of_a_path_have_the_same_headers_but_their_name(stub, store):
    m = model(stub)
    go(questions(m, 5), m, store)
    own = ("idempotency-key", "content-length")
    assert (
        len(
            {tuple(sorted((k, v) for k, v in x.headers.items() if k not in own)) for x in stub.seen}
        )
        == 1
    )
    assert (
        len({x.headers["idempotency-key"] for x in stub.seen})
        == 5
        == len({x.prompt for x in stub.seen})
    )
    assert all(int(x.headers["content-length"]) == len(x.raw) for x in stub.seen)


def test_f52_a_secret_is_not_copied():
    import copy, pickle

    for f in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a secret is not copied"):
            f(s.Secret("X", SECRET))


@pytest.mark.parametrize(
    "url",
    [
        "https://me:pass@example.org/v1",
        "https://example.org/v1?key=abc",
        "example.org/v1",
        "ftp://example.org",
        "http://",
        "",
    ],
)
def test_f60_addresses_that_hold_more_than_an_address(url):
    with pytest.raises(CallError, match="base_url") as e:
        model("http://127.0.0.1:9/v1", base_url=url or "http:///v1")
    assert "pass" not in one_line(e) and "abc" not in str(e.value)


def test_f52_a_word_that_local_servers_take_for_a_key_is_no_secret(stub, store, monkeypatch):
    monkeypatch.setenv(KEY, "EMPTY")
    m = model(stub)
    stub.always = lambda seen: Play(text="The set is EMPTY")
    assert go(questions(m, 1), m, store)[1]["q:0"].text == "The set is EMPTY"


def test_f57_the_stub_listens_on_loopback_only(stub):
    assert [x.getsockname()[0] for x in stub.server.sockets] == ["127.0.0.1"]


# What is sent


def test_a_request_says_all_that_was_decided(stub, store):
    m = model(stub, decoding={"temperature": 0.5, "top_p": 0.9, "max_tokens": 33, "seed": 7})
    go([ask_of(m, "q", "Who?", "Be brief.")], m, store)
    assert stub.seen[0].path == "/chat/completions"
    assert stub.seen[0].body == {
        "model": "gpt-4o-mini-2024-07-18",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 33,
        "seed": 7,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Who?"},
        ],
    }


def test_a_raw_prompt_goes_to_completions(stub, store):
    m = model(stub, message="raw")
    _, told = go([ask_of(m, "q", "Ann met Bea. She")], m, store)
    assert (stub.seen[0].path, stub.seen[0].body["prompt"], told["q"].text) == (
        "/completions",
        "Ann met Bea. She",
        reply_text("Ann met Bea. She"),
    )


def test_a_schema_is_sent(stub, store):
    m = model(stub, constraint="choice")
    stub.always = lambda seen: Play(text=json.dumps({"answer": "Bea"}))
    ask = ask_of(m, "q", "Who?", options=("Ann", "Bea"))
    _, told = go([ask], m, store)
    assert stub.seen[0].body["response_format"]["json_schema"]["schema"]["properties"]["answer"][
        "enum"
    ] == ["Ann", "Bea"]
    assert protocol.spoken(ask, told["q"].text) == "Bea"
    schema = {"type": "object", "properties": {"x": {"type": "integer", "maximum": 9}}}
    go(
        [ask_of(model(stub, constraint="json"), "q", "Which?", pattern=json.dumps(schema))],
        m,
        store,
    )
    assert stub.seen[1].body["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(constraint="regex"), "cannot be held to a regular expression"),
        (dict(way="likelihood"), "does not return the likelihood"),
        (dict(constraint="choice", message="raw"), "needs message: chat"),
        (dict(way="logprobs"), "no options to score"),
        (dict(constraint="choice"), "no options to choose from"),
        (dict(constraint="json"), "is not a JSON schema"),
    ],
)
def test_what_no_server_can_do_is_said_before_anything_is_sent(stub, store, change, words):
    m = model(stub, **change)
    with pytest.raises(CallError, match=words) as e:
        go(questions(m, 5), m, store)
    one_line(e)
    assert not stub.seen


def test_a_limit_of_another_name(stub, store):
    m = model(stub)
    stub.always = lambda seen: (
        error(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "unsupported_parameter",
            "max_tokens",
        )
        if "max_tokens" in seen.body
        else None
    )
    got, _ = go(questions(m, 20), m, store, concurrency=1)
    assert (
        got.ends == {"stop": 20}
        and len(stub.seen) == 21
        and stub.seen[-1].body["max_completion_tokens"] == 50
    )


def chat_logprobs(*top):
    return {
        "content": [
            {
                "token": top[0][0],
                "logprob": top[0][1],
                "bytes": None,
                "top_logprobs": [{"token": t, "logprob": p, "bytes": None} for t, p in top],
            }
        ]
    }


@pytest.mark.parametrize("message", ["chat", "raw"])
def test_options_are_scored_by_the_servers_log_probabilities(stub, store, message):
    m = model(stub, way="logprobs", message=message)
    top = [("B", -0.5), (" A", -1.5), ("The", -3.0)]
    stub.always = lambda seen: Play(
        text="B",
        finish="length",
        logprobs=chat_logprobs(*top)
        if message == "chat"
        else {"tokens": ["B"], "token_logprobs": [-0.5], "top_logprobs": [dict(top)]},
    )
    _, told = go([ask_of(m, "q", "A or B?", options=("A", "B", "C"))], m, store)
    body = stub.seen[0].body
    assert (body["max_tokens"], body["logprobs"], body.get("top_logprobs")) == (
        (1, True, 20) if message == "chat" else (1, 5, None)
    )
    assert told["q"].scores == pytest.approx((-1.5, -0.5, -3.0)) and told["q"].finish == "stop"


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {"content": []},
        {"content": None},
        {"content": [{"token": "B", "logprob": -1}]},
        "yes",
        {"top_logprobs": [None]},
    ],
)
def test_a_server_without_log_probabilities(stub, store, told):
    m = model(stub, way="logprobs")
    stub.always = lambda seen: Play(text="B", finish="length", logprobs=told)
    asks = [ask_of(m, f"q{i}", f"A or B, {i}?", options=("A", "B")) for i in range(9)]
    with pytest.raises(
        DataError, match="the server tells no log-probabilities; say way: reply"
    ) as e:
        go(asks, m, store, concurrency=1)
    one_line(e)
    assert len(stub.seen) == 1 == len(store)  # paid, and kept as what it is


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["A", " A", "B", "▁B", "C", "An", "Anna", "Be", "", "?"]),
            st.floats(-30, 0),
        ),
        max_size=8,
    ),
    st.lists(
        st.sampled_from(["A", "B", "Anna", "Annabel", "Bea", "Ümit"]),
        min_size=1,
        max_size=4,
        unique=True,
    ),
)
def test_scores_are_numbers_whatever_a_server_tells(top, options):
    got = protocol._option_scores(top, tuple(options))
    assert got is None or len(got) == len(options) and all(map(math.isfinite, got))


# How fast, how many, how much memory


def test_no_more_at_a_time_than_asked(stub, store):
    m = model(stub)
    stub.delay = 0.02
    go(questions(m, 60), m, store, concurrency=6)
    assert stub.most_open == 6


@pytest.mark.parametrize(
    "rate",
    [Rate(requests=60), Rate(requests=7), Rate(tokens=3000), Rate(requests=100, tokens=2000)],
)
def test_no_faster_than_the_server_allows(stub, store, rate):
    m, clock = model(stub, rate=msgspec.to_builtins(rate)), Clock()
    started = []
    stub.always = lambda seen: started.append((clock.now, len(seen.prompt)))
    go(questions(m, 100), m, store, concurrency=1, clock=clock, sleep=clock.sleep)
    used = {
        q.prompt: r.tokens_in + r.tokens_out
        for q in questions(m, 100)
        if (r := store.get(ask_key(q)))
    }
    for i, (t, _) in enumerate(started):
        window = [stub.seen[j].prompt for j, (u, _) in enumerate(started) if j >= i and u < t + 60]
        assert not rate.requests or len(window) <= rate.requests
        assert not rate.tokens or sum(used[p] for p in window[:-1]) <= rate.tokens
    per_minute = 100 / (clock.now / 60)
    assert per_minute > 0.8 * min(
        rate.requests or math.inf, (rate.tokens or math.inf) / 80
    )  # and not much slower either


def test_requests_are_made_as_they_are_needed(stub, store):
    m, taken, most = model(stub), 0, 0

    def asks():
        nonlocal taken
        for q in questions(m, 300):
            taken += 1
            yield q

    def told(a, r):
        nonlocal most
        told.n += 1
        most = max(most, taken - told.n)

    told.n = 0
    go(asks(), m, store, on_reply=told, concurrency=5)
    assert most <= 5


def test_progress_is_told(stub, store):
    m, seen = model(stub), []
    got, _ = go(questions(m, 12), m, store, progress=seen.append)
    assert (
        [x.asked for x in seen] == list(range(1, 13))
        and seen[-1].usd == got.usd
        and got.models == {"stub-2026-11": 12}
    )
    assert (got.tokens_in, got.tokens_out) == tuple(
        sum(getattr(k.reply, f) for k in store.kept()) for f in ("tokens_in", "tokens_out")
    )


@pytest.mark.parametrize("where", ["on_reply", "asks", "progress"])
def test_an_error_of_the_callers_own_stops_all_and_loses_nothing(stub, store, where):
    class Mine(Exception):
        pass

    m, calls = model(stub), []

    def broken(*args):
        calls.append(args)
        if len(calls) == 10:
            raise Mine("my own")

    def asks():
        for q in questions(m, 50):
            if where == "asks":
                broken()
            yield q

    stub.delay = 0.02
    with pytest.raises(Mine, match="my own"):
        ask_all(
            asks(),
            m,
            store,
            patience=QUICK,
            concurrency=4,
            **({where: broken} if where != "asks" else {}),
        )
    assert len(store) == len(stub.seen) < 20


def test_in_a_notebook_that_runs_a_loop_already(stub, store):
    m = model(stub)

    async def cell():
        return go(questions(m, 5), m, store)[0]

    assert asyncio.run(cell()).asked == 5

    async def another():
        return await answered(questions(m, 7), m, store, patience=QUICK)

    assert (lambda x: (x.served, x.asked))(asyncio.run(another())) == (5, 2)


def test_a_connection_is_closed_when_all_is_done(stub, store):
    m = model(stub)
    go(questions(m, 20), m, store)
    wait(lambda: not stub.open, "connections are closed")


def test_heavy_packages_are_loaded_when_they_are_needed():
    code = "import sys, refnb, refnb.models.language.servers, refnb.models.language.replies, refnb.commands.cli; print(sorted({'openai', 'httpx', 'httpx2', 'torch', 'transformers', 'llguidance', 'tenacity', 'pydantic', 'sqlite3'} & set(sys.modules)))"
    assert set(
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout.replace("'", '"')
        )
    ) <= {"sqlite3"}


# F19: batches


def submit(asks, m, store, folder, **how):
    return batches.submit_batch(asks, m, store, folder, **dict(patience=QUICK) | how)


def poll(m, folder):
    return batches.poll_batch(m, folder, patience=QUICK)


def fetch(m, store, folder):
    return batches.reconcile(m, store, folder, patience=QUICK)


def through(asks, m, store, folder, **how) -> batches.Reconciled:
    "Submit, wait, fetch."
    submit(asks, m, store, folder, **how)
    for _ in range(5):
        if all(j.state in ("ended", "done") for j in poll(m, folder)):
            break
    return fetch(m, store, folder)


def test_f19_a_batch(stub, store, tmp_path):
    m = model(stub)
    asks = questions(m, 25)
    got = through([*asks, *asks[:3]], m, store, tmp_path / "b", most=10)
    assert (got.answered, got.failed, got.unasked, len(stub.batches)) == (25, 0, 0, 3)
    assert all(
        store.get(ask_key(q)).text == reply_text(q.prompt) and store.get(ask_key(q)).batch
        for q in asks
    )
    assert got.usd == pytest.approx(sum(cost(m, k.reply) for k in store.kept())) and got.usd < sum(
        cost(m, k.reply.changed(batch=False)) for k in store.kept()
    )
    assert [j.state for j in batches.jobs(tmp_path / "b")] == ["done"] * 3
    assert (
        submit(asks, m, store, tmp_path / "b") == batches.jobs(tmp_path / "b")
        and len(stub.batches) == 3
        and not stub.asked()
    )


def test_f19_out_of_order_doubled_strange_missing_and_broken(stub, store, tmp_path):
    m = model(stub)
    asks = questions(m, 20)

    def mixed(lines):
        lines = lines[::-1]
        other = json.loads(json.dumps(lines[4]))
        other["response"]["body"]["choices"][0]["message"]["content"] = "another"
        return [*lines[2:], lines[3], other, lines[5] | {"custom_id": "of nobody"}]

    stub.batch_play = BatchPlay(output=mixed, extra=b'{"custom_id": "torn\n\nnonsense\n')
    got = through(asks, m, store, tmp_path / "b")
    assert (got.answered, got.unasked, got.doubled, got.strange, got.broken) == (18, 2, 2, 1, 2)
    assert (
        all(store.get(ask_key(q)).text == reply_text(q.prompt) for q in asks[:18])
        and store.get(ask_key(asks[18])) is None
    )
    assert len(store) == 19  # a second reply that differs was paid too
    stub.batch_play = BatchPlay()
    assert (got := through(asks, m, store, tmp_path / "b")).answered == 2 and got.unasked == 0


def test_f19_partly_failed_and_ends_of_all_kinds(stub, store, tmp_path):
    m = model(stub)
    asks = questions(m, 8)
    key = [ask_key(q) for q in asks]
    stub.batch_play = BatchPlay(
        failed={
            key[0]: {"message": "maximum context length", "code": "context_length_exceeded"},
            key[1]: {"message": "oops"},
        },
        plays={
            key[2]: Play(finish="length"),
            key[3]: Play(refusal="No."),
            key[4]: Play(text=""),
            key[5]: Play(choices=[]),
        },
    )
    got = through(asks, m, store, tmp_path / "b")
    assert (got.answered, got.failed, got.unasked) == (4, 4, 0)
    assert [r.finish if (r := store.get(k, SETTLED)) else None for k in key] == [
        None,
        None,
        "length",
        "refusal",
        None,
        None,
        "stop",
        "stop",
    ]
    assert {k.reply.finish for k in store.kept()} == {
        "failed",
        "length",
        "refusal",
        "stop",
    } and len(store) == 8


def test_f19_expired(stub, store, tmp_path):
    m = model(stub)
    asks = questions(m, 10)
    stub.batch_play = BatchPlay(
        states=("in_progress", "expired"), left=tuple(ask_key(q) for q in asks[6:])
    )
    got = through(asks, m, store, tmp_path / "b")
    assert (got.answered, got.failed, got.unasked, len(store)) == (6, 0, 4, 6)
    stub.batch_play = BatchPlay()
    assert through(asks, m, store, tmp_path / "b").answered == 4 and len(stub.batches) == 2
    assert ask_all(asks, m, store, patience=QUICK).served == 10 and not stub.asked()


def test_f19_failed_as_a_whole(stub, store, tmp_path):
    m = model(stub)
    stub.batch_play = BatchPlay(
        states=("failed",),
        errors=(
            {
                "code": "token_limit_exceeded",
                "message": "Enqueued token limit reached",
                "line": None,
            },
        ),
    )
    got = through(questions(m, 3), m, store, tmp_path / "b")
    assert (got.unasked, got.usd, got.trouble) == (
        3,
        0.0,
        ("Enqueued token limit reached",),
    ) and len(store) == 0
    stub.batch_play = BatchPlay()
    assert through(questions(m, 3), m, store, tmp_path / "b").answered == 3


def test_f19_a_batch_still_running_is_not_fetched(stub, store, tmp_path):
    m = model(stub)
    stub.batch_play = BatchPlay(states=("in_progress",))
    submit(questions(m, 3), m, store, tmp_path / "b")
    assert [j.status for j in poll(m, tmp_path / "b")] == ["in_progress"] and fetch(
        m, store, tmp_path / "b"
    ) == batches.Reconciled()
    submit(questions(m, 5), m, store, tmp_path / "b")  # what is under way is not asked again
    assert [j.asks for j in batches.jobs(tmp_path / "b")] == [3, 2]


LOST = [Play(cut=0, reset=True), Play(cut=30), Play(hang=True), Play(body=b"{")]


@pytest.mark.parametrize("play", LOST, ids=["reset", "cut", "silence", "broken"])
def test_f19_a_creation_without_a_reply_creates_no_second(stub, store, tmp_path, play):
    m = model(stub)
    stub.play("POST /batches", [play])
    submit(questions(m, 3), m, store, tmp_path / "b", patience=HASTY)
    assert len(stub.batches) == 1 and [j.state for j in batches.jobs(tmp_path / "b")] == ["sent"]


@pytest.mark.parametrize("play", [error(429, retry_after="0"), error(500), error(503)])
def test_f19_a_creation_that_was_put_off(stub, store, tmp_path, play):
    m = model(stub)
    stub.play("POST /batches", [play] * 2)
    stub.play("POST /files", [play])
    submit(questions(m, 3), m, store, tmp_path / "b")
    assert len(stub.batches) == 1


@pytest.mark.parametrize(
    "play",
    [error(400, "Batch file is not well-formed"), error(401, f"bad key {SECRET}"), error(404)],
)
def test_f19_a_creation_that_was_refused(stub, store, tmp_path, play):
    m = model(stub)
    stub.play("POST /batches", [play])
    with pytest.raises(DataError, match="the batch was not created") as e:
        submit(questions(m, 3), m, store, tmp_path / "b")
    assert SECRET not in one_line(e) and not stub.batches
    assert [j.state for j in submit(questions(m, 3), m, store, tmp_path / "b")] == ["sent"] and len(
        stub.batches
    ) == 1


def test_f19_found_on_a_later_page(stub, store, tmp_path):
    m = model(stub)
    submit(questions(m, 3), m, store, tmp_path / "b")
    job = batches.jobs(tmp_path / "b")[0]
    for _ in range(250):
        stub._add_batch({"metadata": {"refnb": "another's"}, "input_file_id": "x"})
    batches._note(tmp_path / "b" / job.name, job, state="sending", batch="")
    assert submit([], m, store, tmp_path / "b")[0].batch == job.batch and len(stub.batches) == 251


def test_f19_a_server_without_batches(stub, store, tmp_path):
    m = model(stub)
    stub.always = lambda seen: error(404) if "/files" in seen.path else None
    with pytest.raises(DataError, match="the server has no /files; it supports no batches") as e:
        submit(questions(m, 3), m, store, tmp_path / "b")
    one_line(e)


def test_f19_two_processes_and_two_models(stub, store, tmp_path):
    from filelock import FileLock

    m = model(stub)
    submit(questions(m, 2), m, store, tmp_path / "b")
    with (
        FileLock(tmp_path / "b" / "lock"),
        pytest.raises(DataError, match="another process uses these batches") as e,
    ):
        poll(m, tmp_path / "b")
    one_line(e)
    other = model(stub, model="another")
    with pytest.raises(CallError, match="the folder holds batches of gpt-4o-mini") as e:
        submit(questions(other, 1), other, store, tmp_path / "b")
    one_line(e)


def test_f20_a_batch_has_a_budget_too(stub, store, tmp_path):
    m = model(stub)
    with pytest.raises(
        CallError, match="these questions could cost .* USD, and the budget is 0.0001"
    ) as e:
        submit(questions(m, 50), m, store, tmp_path / "b", budget=0.0001)
    one_line(e)
    assert not stub.seen and not batches.jobs(tmp_path / "b")
    assert submit(questions(m, 50), m, store, tmp_path / "b", budget=1)[0].at_most < 1
    with pytest.raises(CallError, match="a budget needs a price"):
        submit(questions(m, 1), model(stub, price=None), store, tmp_path / "c", budget=1)


class Kill(BaseException):
    "A kill at a step."


@pytest.mark.parametrize("after", range(32))
def test_f19_a_kill_at_any_step(stub, store, tmp_path, monkeypatch, after):
    "The process dies at the nth time that it would write something down, before or after it does; whoever goes on pays once."
    m, real, count, died = model(stub), batches.write_atomic, 0, 0
    asks = questions(m, 6)

    def dying(path, data):
        nonlocal count, died
        count += 1
        if count - 1 == after // 2 and not after % 2:
            died += 1
            raise Kill
        real(path, data)
        if count - 1 == after // 2:
            died += 1
            raise Kill

    monkeypatch.setattr(batches, "write_atomic", dying)
    for _ in range(8):
        try:
            submit(asks, m, store, tmp_path / "b", most=4)
            poll(m, tmp_path / "b")
            fetch(m, store, tmp_path / "b")
        except Kill:
            continue
        if all(store.get(ask_key(q)) for q in asks):
            break
    assert died == 1 and len(stub.batches) == 2 and len(store) == 6
    sent = [
        json.loads(line)["custom_id"]
        for b in stub.batches.values()
        for line in stub.files[b["input_file_id"]].splitlines()
    ]
    assert sorted(sent) == sorted(ask_key(q) for q in asks) and not stub.asked()


BATCHING = (
    """
import os, signal, sys, time, traceback
from refnb.models.language.language_models import ask_of, the_model
from refnb.models.language.replies import Replies
from refnb.models.language.batches import jobs, poll_batch, reconcile, submit_batch
from refnb.models.language.servers import Patience
import openai, httpx2
url, folder = sys.argv[1], sys.argv[2]
m, p = the_model("gpt-4o-mini", base_url=url, key="", rate={}), Patience(settle=0)
asks = [ask_of(m, f"q:{i}", f"Who left first, q{i}?") for i in range(60)]
def answer():
    with Replies(folder + "/replies") as store:
        while True:
            submit_batch(asks, m, store, folder + "/batches", most=25, patience=p)
            poll_batch(m, folder + "/batches", patience=p)
            reconcile(m, store, folder + "/batches", patience=p)
            if all(j.state == "done" for j in jobs(folder + "/batches")): break
"""
    + FORKING
)


def test_f33_a_kill_at_any_instant_pays_no_batch_twice(tmp_path, spawn):
    rng, kills = random.Random(19), 0
    for turn in itertools.count():
        (folder := tmp_path / f"{turn}").mkdir()
        with Stub(0.004) as stub:
            p = spawn(BATCHING, stub.url, folder)
            assert p.stdout.readline() == "ready\n", p.communicate()
            while True:
                p.stdin.write(f"{rng.uniform(0, 0.3) if kills < KILLS else -1}\n")
                p.stdin.flush()
                status = int(p.stdout.readline() or p.communicate()[1])
                assert status in (0, signal.SIGKILL), p.communicate("")
                if status == 0:
                    break
                kills += 1
            p.communicate("")
            assert (
                len(stub.batches)
                == 3
                == len({b["metadata"]["refnb"] for b in stub.batches.values()})
            )
            with Replies(folder / "replies") as store:
                assert len(contents(store)) == 60
        if kills >= KILLS:
            break
