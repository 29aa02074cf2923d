"Questions to servers that fail, refuse, lie, send too much or nothing; money, kills, and two buyers at a time."

import json, logging, os, random, re, signal, socket, threading, traceback, zlib
from collections import Counter
from contextlib import suppress
from pathlib import Path
import pytest
from hypothesis import given, settings as hyp, strategies as st
import tools
from asking import KEY, PRICE, SECRET, SOON, contents, go, model, one_line, questions
from refnb.benchmarks.tasks import FERRYMAN
from refnb.core.types import CallError, DataError, RefnbError
from refnb.models.language import servers
from refnb.models.language.models import Ask, Decoding, at_most, cost
from refnb.models.language.servers import Asking, hider
from refnb.models.language.store import SETTLED, Kept, Store
from refnb.models.running import run
from stub_server import Play, Stub, completion, error, reply_text
from tools import HANG

pytestmark = pytest.mark.usefixtures("no_keys")
KILLS = int(os.environ.get("TEST_KILLS", 2))

# F14: what may be better the next time

AGAIN = {
    "429": error(429, "slow down", **SOON),
    "500": error(500, "oops", **SOON),
    "502": error(502, **SOON),
    "503, a page": Play(503, SOON, body=b"<html><body>Down for\n maintenance</body></html>"),
    "529": error(529, "overloaded", **SOON),
    "a reset before the reply": Play(cut=0, reset=True),
    "a reset mid-reply": Play(cut=40, reset=True),
    "silence": Play(hang=True),
}


@pytest.mark.parametrize("play", AGAIN.values(), ids=AGAIN)
def test_f14_it_is_asked_again_and_answers(stub, store, play):
    m = model(stub, timeout=0.4 if play.hang else HANG)
    asks = questions(m, 3)
    stub.play(asks[1].prompt, [play, play])
    got, told = go(asks, m, store)
    assert {i: r.text for i, r in told.items()} == {a.id: reply_text(a.prompt) for a in asks}
    assert (got.asked, got.failed, got.requests) == (3, 0, 5)
    assert (got.lost > 0) == (play.hang or play.reset)


BROKEN = {
    "an end mid-reply": Play(cut=40),
    "half a JSON": Play(body=b'{"choices": [{"mess'),
    "an array": Play(body=b"[]"),
    "an error as a reply": Play(body=b'{"error": {"message": "upstream failed", "code": 502}}'),
    "choices of another type": Play(body=b'{"choices": "none"}'),
    "a broken model": Play(finish="error", text=""),
    "nested without end": Play(body=b'{"choices": ' + b"[" * 100_000),
    "HTML": Play(body=b"<html>busy</html>"),
}


@pytest.mark.parametrize("play", BROKEN.values(), ids=BROKEN)
def test_f14_a_broken_reply_leaves_its_question_open(stub, store, play):
    m = model(stub, retries=0)
    asks = questions(m, 3)
    stub.play(asks[1].prompt, [play])
    _, told = go(asks, m, store)
    assert [r.finish for _, r in sorted(told.items())] == ["stop", "failed", "stop"]
    assert told["q:1"].error and "\n" not in told["q:1"].error and not store.get(asks[1].key)
    _, told = go(asks, m, store)
    assert {r.finish for r in told.values()} == {"stop"} and len(stub.seen) == 4


def test_f14_a_pause_is_as_long_as_the_server_asks_for(stub, store):
    m = model(stub)
    asks = questions(m, 2)
    stub.play(asks[1].prompt, [error(429, "slow down", retry_after="0.3")])
    go(asks, m, store, concurrency=1)
    assert 0.25 < stub.seen[2].at - stub.seen[1].at < HANG


def test_f14_a_dead_server_stops_the_run(stub, store):
    m = model(stub, retries=0)
    stub.always = lambda seen: Play(503, SOON) if len(stub.seen) > 40 else None
    with pytest.raises(DataError, match="20 questions in a row failed") as e:
        go(questions(m, 400), m, store)
    assert "rerun" in one_line(e) and len(stub.seen) < 80
    assert sum(k.reply.finish == "stop" for k in store.all()) == 40


def test_f58_a_server_that_is_not_there_stops_at_the_first_request(store):
    m = model("http://127.0.0.1:9/v1")
    with pytest.raises(DataError, match="the server cannot be reached .* start the server"):
        go(questions(m, 9), m, store)
    assert store.all() == []


@pytest.mark.parametrize(
    "play", [Play(body=b"<html>Welcome</html>"), Play(404, body=b"<html>?</html>"), Play(405)]
)
def test_f58_a_mistake_of_setting_up_costs_one_request(stub, store, play):
    stub.always = lambda seen: play
    m = model(stub)
    with pytest.raises(DataError) as e:
        go(questions(m, 9), m, store)
    assert "base_url" in one_line(e) and len(stub.seen) == 1
    if play.status == 200:  # it may have been billed: it is kept as it came
        assert store.all()[-1].raw == play.body


# F15: what will not be better

STOPS = {
    "key": (error(401, "Incorrect API key"), f"does not accept the key in {KEY}.*set {KEY}"),
    "key, as one vendor says": (
        Play(400, body=b'[{"error": {"message": "API key not valid. Please pass a valid one."}}]'),
        "does not accept the key",
    ),
    "access": (error(403, "no access"), "gives no reply of this model .*403.* ask for access"),
    "model": (
        error(404, "no such model"),
        "gpt-4o-mini-2024-07-18: http.* gives no reply of this model",
    ),
    "credit": (error(429, "no money", "insufficient_quota", **SOON), "there is no credit left"),
    "payment": (error(402, "pay"), "there is no credit left"),
    "field": (
        error(400, "Unsupported value: 'temperature'", param="temperature"),
        "does not take temperature .* -p decoding.temperature=null",
    ),
    "field, unnamed": (error(422, "Extra inputs are not permitted: top_p"), "does not take top_p"),
}


@pytest.mark.parametrize("play, words", STOPS.values(), ids=STOPS)
def test_f15_it_stops_all_at_once(stub, store, play, words):
    m = model(stub)
    stub.always = lambda seen: play if len(stub.seen) > 5 else None
    with pytest.raises(DataError, match=words) as e:
        go(questions(m, 100), m, store, concurrency=2)
    assert len(stub.seen) < 10 and len(one_line(e)) < 600
    alone = {"failed"} if play.status in (403, 404) else set()  # the first could be moderated
    assert {k.reply.finish for k in store.all()} - alone == {"stop"}


ALONE = {
    "too long": (error(400, "maximum context length is 8192 tokens"), "failed", "too long"),
    "too large": (error(413, "too large"), "failed", "too long"),
    "too long for a minute": (error(429, "Request too large for gpt-4o"), "failed", "too long"),
    "filtered": (error(400, "our content management policy"), "content_filter", ""),
}


@pytest.mark.parametrize("play, finish, words", ALONE.values(), ids=ALONE)
def test_f15_what_concerns_one_question_fails_alone(stub, store, play, finish, words):
    m = model(stub, retries=0)
    asks = questions(m, 30)
    for a in asks[3:28]:  # more than 20 in a row
        stub.play(a.prompt, [play] * 9)
    _, told = go(asks, m, store, concurrency=1)
    assert Counter(r.finish for r in told.values()) == {finish: 25, "stop": 5}
    assert words in told["q:4"].error


@pytest.mark.parametrize("status", [400, 403])
def test_f15_a_first_question_that_is_refused_fails_alone(stub, store, status):
    "In words that nobody knows; a second in a row stops the run, and a wrong key at once."
    m = model(stub)
    stub.always = lambda seen: error(status, "Not this one") if "q0?" in seen.prompt else None
    _, told = go(questions(m, 4), m, store)
    assert [r.finish for _, r in sorted(told.items())] == ["failed", "stop", "stop", "stop"]
    for words, requests in (("Not this one", 2), ("Invalid API key", 1)):
        stub.seen.clear()
        stub.always = lambda seen, words=words: error(status, words)
        with pytest.raises(DataError):
            go(questions(m, 9, words), m, store)
        assert len(stub.seen) == requests


@pytest.mark.parametrize("value", [None, "", "two words", "line\nend", "schlüssel"])
def test_f15_no_key(stub, store, monkeypatch, value):
    monkeypatch.delenv(KEY) if value is None else monkeypatch.setenv(KEY, value)
    with pytest.raises(DataError, match=KEY) as e:
        go(questions(model(stub), 1), model(stub), store)
    assert one_line(e) and stub.seen == []
    keyless = model(stub, key="")
    go(questions(keyless, 1), keyless, store)
    assert stub.seen[0].headers["authorization"] == "Bearer none"


# F16: how a reply ended

ENDS = {
    "cut": (Play(text="The", finish="length"), "length"),
    "refused": (Play(refusal="I can't."), "refusal"),
    "filtered": (Play(text="", finish="content_filter"), "content_filter"),
    "empty": (Play(text=""), "stop"),
    "reasoning that eats the limit": (Play(text="<think>Let me see", finish="stop"), "length"),
}


@pytest.mark.parametrize("play, finish", ENDS.values(), ids=ENDS)
def test_f16_it_is_an_answer_of_its_kind_and_not_asked_again(stub, store, play, finish):
    m = model(stub)
    stub.always = lambda seen: play
    for _ in range(2):
        _, told = go(questions(m, 2), m, store)
        assert {r.finish for r in told.values()} == {finish}
    assert len(stub.seen) == 2


def test_a_model_that_changes_its_version_is_told(stub, store):
    m = model(stub)
    stub.always = lambda seen: Play(model=f"stub-{len(stub.seen) > 6}")
    got, _ = go(questions(m, 10), m, store, concurrency=1)
    assert got.models == {"stub-False": 6, "stub-True": 4}


# F18, F20, F66, F67: money


def test_f18_a_duplicate_after_a_timeout_is_one_answer_and_both_costs(stub, store):
    m = model(stub, timeout=0.4)
    stub.play(questions(m, 1)[0].prompt, [Play(hang=True)])
    got, told = go(questions(m, 1), m, store)
    assert len(told) == 1 == got.lost and 2 == got.requests == len(stub.seen)
    assert len({s.headers["idempotency-key"] for s in stub.seen}) == 1
    assert got.usd == pytest.approx(cost(m, told["q:0"])) and got.usd_at_most > got.usd


def test_f18_the_same_words_at_the_same_time_are_asked_once(stub, store):
    m = model(stub)
    asks = [a for k in range(6) for a in [questions(m, 2)[k % 2].changed(id=f"copy {k}")]]
    got, told = go(asks, m, store)
    assert (len(stub.seen), got.asked, got.served, len(told)) == (2, 2, 4, 6)


@given(st.integers(0, 999), st.sampled_from([1, 3, 8]), st.floats(0.0002, 0.02))
@hyp(max_examples=3, deadline=None)
def test_f20_the_budget_is_never_passed(tmp_path_factory, seed, concurrency, budget):
    rng = random.Random(seed)
    with Stub() as stub, Store(tmp_path_factory.mktemp("s")) as store:
        m = model(stub)
        fault = [error(500, **SOON), Play(cut=0, reset=True), None, None, None, None]
        stub.always = lambda seen: rng.choice(fault)
        got, told = go(questions(m, 40), m, store, concurrency=concurrency, budget=budget)
    paid = sum(cost(m, k.reply) for k in store_rows(told))
    assert paid <= got.usd_at_most <= budget * (1 + 1e-9)
    assert bool(got.stopped) == (len(told) < 40)


def store_rows(told) -> list[Kept]:
    return [Kept("", r) for r in told.values()]


def test_f20_it_stops_says_so_and_goes_on(stub, store):
    m = model(stub)
    got, told = go(questions(m, 50), m, store, budget=0.0008)
    assert got.stopped.startswith("the budget of 0.0008 USD is reached") and 3 < len(told) < 50
    more, _ = go(questions(m, 50), m, store, budget=1.0, spent=got.usd)
    assert (more.served, more.asked, more.stopped) == (len(told), 50 - len(told), "")
    none, _ = go(questions(m, 3, "z"), m, store, budget=0)
    assert none.requests == 0 and none.stopped


def test_f20_requests_under_way_hold_their_part_of_the_budget(stub, store):
    m = model(stub)
    most = at_most(m, questions(m, 1)[0])
    stub.delay = 0.05
    stub.always = lambda seen: Play(usage={"prompt_tokens": 60, "completion_tokens": 50})
    got, _ = go(questions(m, 20), m, store, concurrency=8, budget=3.5 * most)
    assert 0 < got.usd <= 3.5 * most and "is reached" in got.stopped


def test_f20_a_server_that_adds_words_is_found_out(stub, store):
    m = model(stub)
    dear = {"prompt_tokens": 2000, "completion_tokens": 40}
    stub.always = lambda seen: Play(usage=dear)
    got, _ = go(questions(m, 50), m, store, budget=0.01, concurrency=1)
    assert got.usd <= 0.01 and got.asked == 4


@pytest.mark.parametrize("play", [Play(cut=0, reset=True), Play(body=b"{}"), Play(body=b"?")])
def test_f67_what_may_have_been_billed_is_kept_for_the_next_call(stub, settings, store, play):
    m = model(stub, retries=0)
    stub.always = lambda seen: play if len(stub.seen) > 3 else None
    got, told = go(questions(m, 12), m, store, concurrency=1)
    stored = sum(cost(m, k.reply) for k in store.all())
    assert got.lost == 9 and got.usd_at_most == pytest.approx(stored) and stored > got.usd
    how = dict(base_url=stub.url, key=KEY, decoding={"max_tokens": 50}, price=PRICE, retries=0)
    with pytest.raises(DataError, match="failed|broken"):
        run(FERRYMAN, "gpt-4o-mini", s=settings(), budget=0.006, **how)
    seen, said = len(stub.seen), []
    run(FERRYMAN, "gpt-4o-mini", s=settings(), budget=0.0001, on_summary=said.append, **how)
    assert len(stub.seen) == seen and "is reached" in said[0].stopped


@pytest.mark.parametrize("budget", [-1, float("nan"), float("inf")])
def test_f20_budgets_that_are_none(stub, store, budget):
    with pytest.raises(CallError, match="budget"):
        Asking(model(stub), store, budget=budget)
    with pytest.raises(CallError, match="price.input=1.25"):
        Asking(model(stub, price=None), store, budget=1.0)


def test_f66_two_processes_buy_a_reply_once(stub, tmp_path, spawn):
    stub.delay = 0.3
    both = [spawn(BUYER, stub.url, tmp_path, 20) for _ in range(2)]
    for p in both:
        out, err = p.communicate(timeout=HANG)
        assert out.split() == ["20"], err
    assert len(stub.seen) == 20


def test_f66_who_was_killed_holds_nobody_up(stub, tmp_path, spawn):
    stub.always = lambda seen: Play(hang=len(stub.seen) < 9)
    p = spawn(BUYER, stub.url, tmp_path, 1)
    tools.wait(lambda: stub.seen, "a request")
    p.kill()
    p.communicate()
    stub.always = lambda seen: None
    with Store(tmp_path) as store:
        m = model(stub, key="", price=None, timeout=300.0)
        assert len(go(questions(m, 1), m, store)[1]) == 1


BUYER = """
import sys
from refnb.models.language.models import ask_of, the_model
from refnb.models.language.servers import Asking
from refnb.models.language.store import Store
url, folder, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
m = the_model("gpt-4o-mini", base_url=url, key="", decoding={"max_tokens": 50}, price=None)
asks = (ask_of(m, f"q:{i}", f"Who left first, q{i}?") for i in range(n))
with Store(folder) as store:
    told = 0
    for _ in Asking(m, store, concurrency=int(sys.argv[4]) if len(sys.argv) > 4 else 4).replies(asks):
        told += 1
        if told == 30 and len(sys.argv) > 4: print("ready", flush=True)
print(told)
"""


# F33: kills


def test_f33_a_kill_at_any_instant_loses_no_paid_reply(tmp_path, spawn):
    "What was stored is never asked again, and the end is that of a run that nobody killed."
    rng, stored, seen = random.Random(33), set(), 0
    with Stub(0.004) as stub:
        stub.always = lambda s: Play(finish="length") if "3?" in s.prompt else None
        for turn in range(KILLS + 1):
            p = spawn(BUYER, stub.url, tmp_path / "s", 400, 16)
            if turn < KILLS:
                tools.wait(
                    lambda n=seen, p=p: len(stub.seen) > n or p.poll() is not None, "a request"
                )
                p.kill() if rng.random() < 0.8 else p.send_signal(signal.SIGINT)
            p.communicate(timeout=HANG)
            with Store(tmp_path / "s") as store:
                now = {k.key for k in store.all() if k.reply.finish in SETTLED}
            again = {s.headers["idempotency-key"] for s in stub.seen[seen:]}
            assert stored <= now and not stored & again
            stored, seen = now, len(stub.seen)
        with Store(tmp_path / "s") as store:
            assert len(contents(store)) == 400


def test_f33_ctrl_c_keeps_what_is_under_way(tmp_path, spawn):
    with Stub(0.1) as stub:
        p = spawn(BUYER, stub.url, tmp_path / "s", 100_000, 10)
        assert p.stdout.readline() == "ready\n", p.communicate()
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=HANG)[1]
        assert p.returncode == -signal.SIGINT and err.strip().endswith("KeyboardInterrupt"), err
        with Store(tmp_path / "s") as store:
            assert len(store.all()) == len(stub.seen)


def test_requests_are_made_as_they_are_needed_and_no_more_at_a_time(stub, store):
    m, made = model(stub), []

    def asks():
        for a in questions(m, 300):
            made.append(a)
            assert len(made) <= len(stub.seen) + 9
            yield a

    stub.delay = 0.002
    go(asks(), m, store, concurrency=8)
    assert stub.most_open <= 8 and len(made) == 300


def test_an_error_of_the_callers_own_stops_all_and_loses_nothing(stub, store):
    m = model(stub)

    def asks():
        yield from questions(m, 20)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(asks(), m, store)
    assert len(store.all()) == len(stub.seen) == 20
    with pytest.raises(DataError, match="lone surrogate"):
        go([questions(m, 1)[0].changed(prompt="\ud800")], m, store)


# F34: the key of a request

SETTINGS = {"temperature": 0.5, "top_p": 0.5, "max_tokens": 7, "seed": 3}
OTHER = dict(
    prompt="x", system="x", message="raw", provider="local", base_url="http://x", model="x",
    revision="x", file="x", dtype="float32", way="logprobs", constraint="regex", pattern="x",
    options=("x",), version=2, dialect="vllm", effort="low", thinking=7, sample=1,
)  # fmt: skip


def test_f34_any_change_of_what_is_asked_changes_the_key():
    ask = Ask("1", "Who?")
    assert {*OTHER, "id", "decoding", "shared"} == set(Ask.__struct_fields__)
    keys = {ask.changed(**{name: x}).key for name, x in OTHER.items()}
    keys |= {ask.changed(decoding=Decoding(**{k: v})).key for k, v in SETTINGS.items()}
    assert len(keys | {ask.key}) == len(OTHER) + len(SETTINGS) + 1
    assert ask.changed(id="2", shared=3).key == ask.key == "7467bae1c31130180e8778a5d930057c"


# F52 and F60: keys


def escaped(key: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in key)


def b64(text: str) -> str:
    import base64

    return base64.b64encode(text.encode()).decode()


DISGUISES = {
    "plain": SECRET,
    "JSON": escaped(SECRET),
    "JSON twice": escaped(SECRET).replace("\\", "\\\\"),
    "percent": "".join(f"%{ord(c):02X}" for c in SECRET),
    "base64": b64(SECRET),
    "base64 inside": b64(f"Authorization: {SECRET}!"),
}
FORMS = set(DISGUISES.values())


def traces(folder: Path) -> list[str]:
    "Files below a folder in which the key stands, in any of these forms, or in a compressed column of the store."
    forms = [f.encode() for f in FORMS] + [f.replace("\\", "\\\\").encode() for f in FORMS]
    found = [
        p for p in folder.rglob("*") if p.is_file() and any(f in p.read_bytes() for f in forms)
    ]
    for p in folder.rglob("replies.sqlite"):
        with Store(p.parent) as store:
            found += [k.key for k in store.all() if any(f in k.raw for f in forms)]
    return found


def said(message: dict, **more) -> dict:
    return {"choices": [{"finish_reason": "stop", "message": message}]} | more


FIELDS = {
    "the text": lambda x: said({"content": f"- The mention refers to: {x}"}),
    "the model": lambda x: said({"content": "Bea"}, model=f"m-{x}"),
    "a field that nobody reads": lambda x: said({"content": "Bea"}, debug={"h": [f"Bearer {x}"]}),
    "the reasoning": lambda x: said({"content": "Bea", "reasoning_content": f"The key is {x}."}),
    "thoughts in the text": lambda x: said({"content": f"<think>The key is {x}.</think>Bea"}),
    "parts": lambda x: said({"content": [{"text": x[i : i + 5]} for i in range(0, len(x), 5)]}),
}


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_f60_a_key_that_comes_back_is_written_nowhere(stub, tmp_path, settings, field):
    forms = [*DISGUISES.values(), SECRET]
    bodies = [json.dumps(field("@@")).replace("@@", x).encode() for x in forms[:-1]]
    it = iter([*bodies, json.dumps(field(SECRET)).encode()])
    stub.always = lambda seen: Play(body=next(it))
    how = dict(base_url=stub.url, key=KEY, decoding={"max_tokens": 50})
    run(FERRYMAN, "gpt-4o-mini", limit=len(forms), s=settings(), **how)
    assert next(it, None) is None and traces(tmp_path) == []


LETTERS = "".join(f"&#{ord(x)};" for x in SECRET)
HALVES = [SECRET[:9] + x + SECRET[9:] for x in ("\u200b", "<b></b>", "\r\n  ", "\\n")]
TWICE = "".join(f"%25{ord(x):02X}" for x in SECRET)


@pytest.mark.parametrize("shown", [SECRET.encode().hex(), LETTERS, TWICE, *HALVES])
def test_f60_further_spellings_are_covered(shown):
    assert hider(SECRET)(f"it is {shown}.") == "it is [key]."


@pytest.mark.parametrize("raw", ["HTTX {}", "HTTP/1.1 401 No\r\nX-Echo of it: {}\r\n"])
def test_f60_what_is_no_http_stops_the_run_without_the_key(store, raw):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk():
            while True:
                try:
                    with server.accept()[0] as c:
                        c.recv(9999)
                        c.sendall(f"{raw.format(SECRET)}\r\n\r\n".encode())
                except OSError:
                    return

        threading.Thread(target=talk, daemon=True).start()
        m = model(f"http://127.0.0.1:{server.getsockname()[1]}/v1", retries=0)
        with pytest.raises(DataError, match="no HTTP.* look at base_url") as e:
            go(questions(m, 3), m, store)
        server.shutdown(socket.SHUT_RDWR)
    assert SECRET not in one_line(e)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_f60_nor_is_one_in_an_error(stub, store, status, capfd):
    m = model(stub, retries=0)
    for x in DISGUISES.values():
        body = json.dumps({"error": {"message": "wrong: @@"}}).replace("@@", x).encode()
        stub.always = lambda seen, body=body: Play(status, {"x-quoted": SECRET}, body=body)
        try:
            text = str(go(questions(m, 1), m, store))
        except DataError as e:
            text = "".join(traceback.format_exception(e))
        text += capfd.readouterr().err
        assert not any(f in text for f in FORMS), text
    assert traces(store.path.parent) == []


def test_f52_the_key_is_in_no_log_and_no_representation(stub, store, caplog):
    caplog.set_level(logging.DEBUG)
    m = model(stub)
    echo = [Play(text=SECRET, model=SECRET), error(500, SECRET, **SOON), Play(refusal=SECRET)]
    stub.always = lambda seen: echo[len(stub.seen) % 3]
    asking = Asking(m, store)
    heard = [repr(x) for x in asking.replies(questions(m, 30))]
    heard += [repr(x) for x in (asking, asking.summary(), store, store.all(), asking.client)]
    assert SECRET not in "".join(heard) + caplog.text
    assert {s.headers["authorization"] for s in stub.seen} == {f"Bearer {SECRET}"}


@given(st.text(max_size=40), st.text(max_size=40))
@hyp(max_examples=25, deadline=None)
def test_f60_what_is_no_key_stays(before, after):
    assert hider(SECRET)(f"{before}{after}") == before + after
    assert SECRET not in hider(SECRET)(f"{before}{SECRET}{after}")


@pytest.mark.parametrize(
    "asked",
    [
        ["-p", f"key={SECRET}"],
        ["-p", f"base_url=http://me:{SECRET}@127.0.0.1:9/v1"],
        ["-p", f"base_url=http://127.0.0.1:9/v1?key={SECRET}"],
    ],
)
def test_f60_a_key_in_the_wrong_place_is_refused_before_a_folder_exists(
    tmp_path, monkeypatch, capsys, asked
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(KEY)
    got = tools.here(capsys, "run", "sample/identifyme", "gpt-4o-mini", *asked)
    tools.one_line(got, 2, "key" if asked[1].startswith("key") else "base_url")
    name = f"vllm/mine@http://me:{SECRET}@127.0.0.1:9/v1"
    more = tools.here(capsys, "run", "sample/identifyme", name)
    assert more.status == 2 and SECRET not in got.out + got.err + more.out + more.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["sk-abc", "hf_abcdefghijklmnopqrst", "a b", "lower_case"])
def test_f60_what_is_no_name_of_a_variable(name):
    with pytest.raises(CallError, match="not the name of an environment variable") as e:
        model("http://127.0.0.1:9/v1", key=name)
    assert name not in one_line(e)


def test_f60_backslashes_and_short_keys_change_nothing_and_take_no_long_time():
    nearly = "".join(rf"\\\\u{ord(x):04x}" for x in SECRET[:-1])  # twice as JSON, and once more
    for whole in ("\\" * 200_000 + "\\u00e9", nearly):
        assert hider(SECRET)(whole) == whole
    assert hider("lm-studio")("In his studio, a standard bearer unquestionably").startswith(
        "In his studio"
    )


# F61 and F62: odd replies

NUMBERS = [1e30, 100.5, -1, None, "7", True, [3], {"a": 1}, float("nan"), float("inf")]


@pytest.mark.parametrize("odd", NUMBERS, ids=map(str, NUMBERS))
def test_f61_an_odd_number_costs_no_reply(stub, store, odd):
    m = model(stub)
    good = completion({"messages": [{"content": "x"}]}, Play(text="Bea"))
    counts = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), odd)
    usages = [counts | {"prompt_tokens_details": {"cached_tokens": odd}}, odd]
    for n, more in enumerate([*({"usage": u} for u in usages), {"created": odd, "model": odd}]):
        stub.always = lambda seen, b=good | more: Play(body=json.dumps(b).encode())
        got, told = go(questions(m, 1, f"n{n}-"), m, store, budget=1.0)
        assert [r.text for r in told.values()] == ["Bea"] and 0 < got.usd < 0.01


@pytest.mark.parametrize("p", [1e4, float("nan"), None, "x", [], -1e400])
def test_f61_an_odd_log_probability_costs_no_other(stub, store, p):
    m = model(stub, way="logprobs")
    top = [{"token": "B", "logprob": p}, {"token": None}, {"token": "A", "logprob": -0.5}]
    stub.always = lambda seen: Play(logprobs={"content": [{"top_logprobs": top}]})
    ask = questions(m, 1)[0].changed(options=("A", "B"))
    scores = go([ask], m, store)[1][ask.id].scores
    assert scores[0] == pytest.approx(-0.5) and scores[1] < -0.5


def test_a_server_without_log_probabilities(stub, store):
    m = model(stub, way="logprobs")
    with pytest.raises(DataError, match="tells no log-probabilities; say way: reply"):
        go([questions(m, 1)[0].changed(options=("A", "B"))], m, store)


GOOD = b'{"choices": [{"finish_reason": "stop", "message": {"content": "Bea"}}]}'
BODIES = {
    "invalid UTF-8": GOOD.replace(b"Bea", b"B\xff\xfeea"),
    "half a character": GOOD.replace(b"Bea", b"Bea\\ud83d"),
    "two bodies": GOOD + GOOD,
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a line end in a string": GOOD.replace(b"Bea", b"Be\na"),
    "an event stream": b"data: " + GOOD + b"\n\ndata: [DONE]\n\n",
    "5,000 digits": GOOD[:-1] + b', "n": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_f62_an_odd_body_is_read_once_and_kept_as_it_came(stub, store, body):
    m = model(stub)
    stub.always = lambda seen: Play(body=body)
    for _ in range(2):
        [reply] = go(questions(m, 1), m, store)[1].values()
    assert reply.text.replace("\n", "").startswith("B") and reply.text.encode()
    assert [k.raw for k in store.all()] == [body] and len(stub.seen) == 1


def test_f62_what_could_not_be_read_is_read_by_a_better_reader_and_not_bought_again(
    stub, store, monkeypatch
):
    def worse(raw, ask):
        raise ValueError("a reader of last year")

    m, better = model(stub), servers.read_reply
    monkeypatch.setattr(servers, "read_reply", worse)
    with pytest.raises(DataError, match="a reader of last year"):
        go(questions(m, 3), m, store)
    monkeypatch.setattr(servers, "read_reply", better)
    got, told = go(questions(m, 3), m, store)
    assert {r.finish for r in told.values()} == {"stop"}
    assert (got.failed, got.asked, got.served, len(stub.seen)) == (0, 2, 1, 3)


# F63: caps


def test_f63_a_reply_is_capped_in_bytes_and_is_not_unpacked(stub, store, monkeypatch):
    monkeypatch.setattr(servers, "ROOM", 10_000)
    m = model(stub)
    bomb = zlib.compress(b'{"choices": "' + b"x" * 50_000_000, 9)
    plays = [
        Play(body=GOOD[:-1] + b" " * 20_000 + b"}"),
        Play(headers={"content-encoding": "gzip"}, body=bomb),
        Play(headers={"content-encoding": "br"}, body=b"?"),
    ]
    said = ("longer than", "came packed.*gzip", "came packed.*br")
    for n, (play, words) in enumerate(zip(plays, said, strict=True)):
        stub.always = lambda seen, play=play: play
        before = len(stub.seen)
        with suppress(DataError):  # a packed reply is no server's of the protocol
            go(questions(m, 2 if n else 1, f"n{n}-"), m, store)
        reply = store.all()[-1].reply
        assert reply.finish == "failed" and re.search(words, reply.error)
        assert len(stub.seen) == before + 1
    assert {s.headers["accept-encoding"] for s in stub.seen} == {"identity"}


def test_f63_a_body_that_stalls_is_given_up(stub, store):
    m = model(stub, timeout=0.3, retries=1)
    stub.always = lambda seen: Play(cut=30, stall=True)
    [reply] = go(questions(m, 1), m, store)[1].values()
    assert reply.finish == "failed" and "no reply within" in reply.error


def test_a_redirection_is_not_followed(stub, store):
    with Stub() as other:
        where = {"location": f"{other.url}/chat/completions"}
        stub.always = lambda seen: Play(307, where)
        with pytest.raises(DataError, match="gives no reply of this model .*307"):
            go(questions(model(stub), 1), model(stub), store)
        assert other.seen == []


# What a request says


def test_a_request_says_all_that_was_decided_and_nobody_elses_names(stub, store, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-1")
    m = model(stub, decoding={"max_tokens": 9, "temperature": 0.5, "seed": 4, "top_p": None})
    go([questions(m, 1)[0].changed(system="Be brief")], m, store)
    body, headers = stub.seen[0].body, stub.seen[0].headers
    assert body == {
        "model": "gpt-4o-mini-2024-07-18",
        "messages": [
            {"role": "system", "content": "Be brief"},
            {"role": "user", "content": "Who left first, q0?"},
        ],
        "max_tokens": 9,
        "temperature": 0.5,
        "seed": 4,
    }
    assert not {"openai-organization", "openai-project"} & headers.keys()


def test_a_proxy_is_used_where_one_is_set(stub, store, monkeypatch):
    for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HTTP_PROXY", stub.url.removesuffix("/v1"))
    m = model("http://vendor.invalid/v1")
    try:
        go(questions(m, 1), m, store)
    except RefnbError:
        pass
    assert stub.seen and "vendor.invalid" in stub.seen[0].headers["host"]


def test_heavy_packages_are_loaded_when_they_are_needed(spawn):
    code = """
import sys, refnb, refnb.models.language.systems, refnb.commands.cli
print(sorted({"openai", "httpx2", "aiohttp", "torch", "transformers", "outlines"} & set(sys.modules)))
"""
    assert spawn(code).communicate()[0] == "[]\n"
