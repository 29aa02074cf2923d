"Servers that fail, refuse, break off, or send what is odd: a failure is never a score."

import gzip, json, os, re, shutil, signal, sys, threading, time, urllib.request, zlib
import contextlib, random, socket, subprocess
from collections import Counter
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
import pytest
import tools
from asking import KEY, SOON, all_right, ask, at, kept, knows, nobody, questions
from asking import seal
from refnb import load_run, run, score
from refnb.benchmarks.tasks import FERRYMAN, task_questions
from refnb.core.files import write_jsonl
from refnb.core.types import RefnbError
from refnb.results.scores import as_outcomes
from refnb.results.tables import Report
from stub_server import Play, completion, error
from tools import HANG

pytestmark = pytest.mark.usefixtures("no_keys")
GOOD = b'{"choices": [{"finish_reason": "stop", "message": {"content": "Bea"}}]}'

# Failures that leave a question open

AGAIN = {
    "429": error(429, "slow down", **SOON),
    "500": error(500, "oops", **SOON),
    "502": error(502, **SOON),
    "503, a page": Play(503, SOON, body=b"<html><body>Down for\n maintenance</body></html>"),
    "529": error(529, "overloaded", **SOON),
    "a reset before the reply": Play(cut=0, reset=True),
    "a reset mid-reply": Play(cut=40, reset=True),
    "a page of a gateway": Play(headers=SOON, body=b"<html>502 Bad Gateway</html>"),
}


@pytest.mark.parametrize("play", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize("number", [0, 1])
def test_what_may_be_better_the_next_time_is_asked_again(stub, settings, play, number):
    stub.play(f" q{number} .", play, play)
    got = ask(stub, questions(3), settings())
    assert all_right(got, 3)
    assert (got.bill.asked, got.bill.failed, got.bill.requests) == (3, 0, 5)
    assert (got.bill.lost > 0) == play.reset


def test_one_reply_that_does_not_come_is_asked_for_again(stub, settings):
    stub.play(" q1 .", Play(hang=True))
    got = ask(stub, questions(3), settings(), timeout=0.4)
    assert all_right(got, 3) and (got.bill.lost, got.bill.requests) == (1, 4)


MUTE = {"mute": Play(hang=True), "dripping": Play(cut=20, stall=True)}


@pytest.mark.parametrize("play", MUTE.values(), ids=MUTE)
@pytest.mark.parametrize("before", [0, 4])
def test_a_server_that_replies_to_nobody_is_left_after_one_timeout(stub, settings, play, before):
    stub.always = lambda seen: play if len(stub.seen) > before else None
    start = time.monotonic()
    got = ask(stub, questions(30), settings(), timeout=1.0)
    assert "no reply within 1 seconds" in got.error and "-p timeout=" in got.error
    assert time.monotonic() - start < 1.9 and len(got.answers) == before


BROKEN = {
    "an end mid-reply": Play(cut=40),
    "a stall mid-reply": Play(cut=30, stall=True),
    "half a JSON": Play(body=b'{"choices": [{"mess'),
    "an array": Play(body=b"[]"),
    "an error as a reply": Play(body=b'{"error": {"message": "upstream failed", "code": 502}}'),
    "choices of another type": Play(body=b'{"choices": "none"}'),
    "a broken model": Play(finish="error", text=""),
    "nested without end": Play(body=b'{"choices": ' + b"[" * 100_000),
    "too many bytes": Play(body=GOOD[:-1] + b" " * 2_000_000 + b"}"),
}


@pytest.mark.parametrize("play", BROKEN.values(), ids=BROKEN)
def test_a_broken_reply_is_no_answer_and_its_question_is_asked_again(stub, settings, play):
    s, how = settings(), {"retries": 0, "timeout": 0.4 if play.stall else HANG}
    stub.play(" q1 .", play)
    got = ask(stub, questions(3), s, **how)
    assert "1 of 3 failed" in got.error and got.answers.keys() == {"q:0", "q:2"}
    assert all_right(ask(stub, questions(3), s, **how), 3) and len(stub.seen) == 4


PACKED = {
    "gzip": (gzip.compress(GOOD), ""),
    "deflate": (zlib.compress(GOOD), ""),
    "x-gzip": (gzip.compress(b'{"choices": "' + b"x" * 50_000_000), "longer than"),
    "br": (b"?", "br"),
}


@pytest.mark.parametrize("how", PACKED)
def test_a_packed_reply_is_unpacked_up_to_a_limit(stub, settings, how):
    body, fault = PACKED[how]
    stub.always = lambda seen: Play(headers={"content-encoding": how}, body=body)
    got = ask(stub, questions(3), settings())
    assert fault in got.error and len(got.answers) == 3 * (not fault)
    assert stub.seen[0].headers["accept-encoding"] == "identity"


def test_a_pause_is_as_long_as_the_server_asks_for(stub, settings):
    stub.play(" q1 .", error(429, "slow down", retry_after="0.3"))
    assert all_right(ask(stub, questions(2), settings(), concurrency=1), 2)
    assert 0.25 < stub.seen[2].at - stub.seen[1].at < HANG


def test_a_server_that_dies_stops_the_run_and_its_answers_stay(stub, settings):
    stub.always = lambda seen: Play(503, SOON) if len(stub.seen) > 40 else None
    got = ask(stub, questions(400), settings(), patience=0.2)
    assert "503" in got.error and "rerun" in got.error and "-p patience=" in got.error
    assert len(stub.seen) < 80
    assert len(got.answers) == 40


KINDS = {  # a failure, its kind, and whether it may have been billed
    "server error": (error(500, "oops"), 0),
    "web page": (Play(body=b"<html>busy</html>"), 0),
    "rejected": (error(400, "no"), 0),
    "forbidden": (error(403, "no access"), 0),
    "absent": (error(404, "no such model"), 0),
    "too long": (error(400, "maximum context length is 8192 tokens"), 0),
    "cut off": (Play(cut=0, reset=True), 1),
    "timeout": (Play(hang=True), 1),
    "broken": (Play(body=b"busy"), 1),
    "unfinished": (Play(finish="error", text=""), 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_reply_has_a_kind_which_is_stored_counted_and_told(stub, settings, kind):
    (play, lost), s = KINDS[kind], settings()
    stub.play(" q1 .", play)
    how = {"retries": 0, "timeout": 0.4 if play.hang else HANG, "concurrency": 1}
    got = ask(stub, questions(3), s, **how)
    assert f"1 of 3 failed (1 {kind})" in got.error and (got.bill.failed, got.bill.lost) == (
        1,
        lost,
    )
    kinds = [k.reply.kind for k in kept(s) if k.reply.finish == "failed"]
    assert kinds == ["lost"] * lost + [kind]


REFUSED = {"rate limit": (error(429, "slow down"), 0), "busy": (error(529, "overloaded"), 0)}
SAID = ["unreached", "retried", *REFUSED, *sorted(KINDS.keys() - {"timeout"})]


@pytest.mark.parametrize("kind", SAID)
def test_another_sentence_changes_nothing(stub, settings, monkeypatch, kind):
    "Whether a run goes on, asks again or ends, and what it counts, does not hang on words."
    play, _ = (KINDS | REFUSED).get(kind, (None, 0))

    def outcome(runs: str):
        stub.seen.clear()
        stub.plays.clear()
        stub.always = lambda seen: play
        if kind == "retried":  # the first question goes without retries, then with them
            stub.play(" q0 .", *[error(503, "down", **SOON)] * 2)
        retries = 3 if kind == "retried" else 0
        url = nobody() if kind == "unreached" else stub
        how = {"retries": retries, "patience": retries, "concurrency": 1}
        got = ask(url, questions(25), s := settings(runs=runs), **how)
        bill = [getattr(got.bill, x) for x in ("asked", "failed", "requests", "lost")]
        kinds = [k.reply.kind for k in kept(s)]
        return bool(got.error), bill, len(stub.seen), kinds, len(got.answers)

    as_it_is = outcome(f"{settings().runs}/as it is")
    monkeypatch.setattr("refnb.models.language.servers.hidden", lambda text, m: "Oh!")
    assert outcome(f"{settings().runs}/reworded") == as_it_is
    assert as_it_is[0] == (kind != "retried") and as_it_is[2] == {
        **dict.fromkeys(KINDS, 20), **dict.fromkeys(REFUSED, 1), "unreached": 0, "retried": 27,
        "broken": 1, "absent": 1, "web page": 1, "forbidden": 2, "rejected": 2, "too long": 25,
    }[kind]  # fmt: skip


# What all questions would meet

STOPS = {
    "key": (error(401, "Incorrect API key"), KEY),
    "key, as one vendor says": (
        Play(400, body=b'[{"error": {"message": "API key not valid. Please pass a valid one."}}]'),
        KEY,
    ),
    "access": (error(403, "no access"), "403.* access"),
    "model": (error(404, "no such model"), "gpt-4o-mini.*http.*404"),
    "credit": (error(429, "no money", "insufficient_quota", **SOON), "credit"),
    "payment": (error(402, "pay"), "credit"),
    "field": (
        error(400, "Unsupported value: 'temperature'", param="temperature"),
        "temperature.*-p decoding.temperature=null",
    ),
    "field, unnamed": (error(422, "Extra inputs are not permitted: top_p"), "top_p"),
}


@pytest.mark.parametrize("play, words", STOPS.values(), ids=STOPS)
def test_what_concerns_all_questions_stops_the_run_and_says_what_to_do(stub, settings, play, words):
    stub.always = lambda seen: play if len(stub.seen) > 5 else None
    got = ask(stub, questions(100), settings(), concurrency=2)
    assert re.search(words, got.error) and len(got.error) < 600
    assert len(stub.seen) < 10 and len(got.answers) == 5


MISTAKES = {
    "no JSON": Play(body=b"Welcome"),
    "a page of 404": Play(404, body=b"<html>?</html>"),
    "no POST": Play(405),
    "a redirection": Play(307, {"location": "http://127.0.0.1:9/v1"}),
}


@pytest.mark.parametrize("play", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_of_setting_up_costs_one_request(stub, settings, play):
    stub.always, s = lambda seen: play, settings()
    got = ask(stub, questions(9), s)
    assert "base_url" in got.error and len(stub.seen) == 1 and not got.answers
    if play.status == 200:  # it may have been billed: it is kept as it came
        assert kept(s)[-1].raw == play.body


ALONE = {
    "too long": (error(400, "maximum context length is 8192 tokens"), "failed"),
    "too large": (error(413, "too large"), "failed"),
    "too long for a minute": (error(429, "Request too large for gpt-4o"), "failed"),
    "filtered": (error(400, "our content management policy"), "filtered"),
}


@pytest.mark.parametrize("play, reason", ALONE.values(), ids=ALONE)
def test_what_concerns_one_question_stops_no_other(stub, settings, play, reason):
    for i in range(3, 28):  # more in a row than an outage would take
        stub.play(f" q{i} .", *[play] * 9)
    got = ask(stub, questions(30), settings(), retries=0, concurrency=1, tolerate=25)
    assert got.error == "" and seal(got.run)["reasons"] == {reason: 25}
    assert reason == "filtered" or "too long" in got.answers["q:4"].raw


@pytest.mark.parametrize("status", [400, 403])
def test_a_first_question_that_is_refused_may_be_the_only_one(stub, settings, status):
    "In words that nobody knows; a second in a row stops the run, and a wrong key at once."
    s = settings()
    stub.always = lambda seen: error(status, "Not this one") if " q0 ." in seen.prompt else None
    got = ask(stub, questions(4), s)
    assert "1 of 4 failed" in got.error and len(got.answers) == 3
    for words, requests in (("Not this one", 2), ("Invalid API key", 1)):
        stub.seen.clear()
        stub.always = lambda seen, words=words: error(status, words)
        assert ask(stub, questions(9, words[:3].lower()), s).error and len(stub.seen) == requests


def test_nobody_listening_is_told_by_the_command_and_nothing_is_scored(
    stub, tmp_path, monkeypatch, capsys
):
    tools.live_in(monkeypatch, tmp_path)
    write_jsonl(tmp_path / "mine.jsonl", questions(4))
    call = ["run", "mine.jsonl", "gpt-4o-mini", "-p", "key=", "-p", "form=choice/names"]
    line = tools.one_line(
        tools.here(capsys, *call, "-p", f"base_url={nobody()}"), 1, "cannot be reached", "rerun"
    )
    assert len(line) <= 300 and not list(tmp_path.rglob("seal.json"))
    assert not list(tmp_path.rglob("reports/runs/*/*.json"))
    stub.says = knows
    assert tools.here(capsys, *call, "-p", f"base_url={stub.url}").status == 0


def test_an_address_that_gives_pages_is_told(stub, settings):
    stub.always = lambda seen: Play(headers=SOON, body=b"<html>Welcome</html>")
    got = ask(stub, questions(9), settings())
    assert "web page" in got.error and "base_url" in got.error and len(stub.seen) == 4


# The pace


def test_a_refusal_slows_all_questions_and_is_waited_for_as_the_server_says(stub, settings):
    "Also beyond the timeout; the questions that were under way already count once."
    stub.delay = 0.05
    stub.play(" q9 .", error(429, "slow down", retry_after="0.9"))
    got = ask(stub, questions(40), settings(), timeout=0.5, concurrency=8)
    refused = next(x.at for x in stub.seen if " q9 ." in x.prompt)
    soon = [
        x for x in stub.seen if 0 < x.at - refused < 0.85
    ]  # were under way, a few on a busy machine
    assert all_right(got, 40) and len(soon) < 8 and got.bill.requests == 41


DATE = lambda seconds: formatdate(time.time() + seconds, usegmt=True)
WAITS = {
    "milliseconds": lambda: error(429, retry_after_ms="700"),
    "seconds": lambda: error(503, retry_after="0.7"),
    "a date": lambda: error(429, retry_after=DATE(2)),
    "Google": lambda: Play(429, body=b'{"error": {"details": [{"retryDelay": "0.7s"}]}}'),
    "nothing": lambda: error(503),
    "nonsense": lambda: error(503, retry_after="soon"),
    "a time that is over": lambda: error(503, retry_after="-3"),
}


@pytest.mark.parametrize("how", WAITS)
def test_a_wait_is_read_as_servers_write_it(stub, settings, how):
    stub.play(" q0 .", WAITS[how]())
    assert all_right(ask(stub, questions(1), settings()), 1)
    assert 0.45 < stub.seen[1].at - stub.seen[0].at < 3


def test_waits_grow_and_patience_ends_them(stub, settings):
    "What was refused is told as that, also where a reply has a shorter time."
    stub.always = lambda seen: error(429, "slow down") if len(stub.seen) > 2 else None
    got = ask(stub, questions(50), settings(), patience=1.6, timeout=0.3, concurrency=2)
    gaps = [b.at - a.at for a, b in pairwise(stub.seen)]
    assert "429" in got.error and "within" not in got.error and len(got.answers) == 2
    assert any(0.4 < x < 0.8 for x in gaps) and any(0.9 < x < 1.4 for x in gaps)
    assert {k.reply.kind for k in kept(settings())} == {"", "rate limit"}


def test_a_wait_that_is_longer_than_the_patience_ends_the_run_at_once(stub, settings):
    stub.always = lambda seen: error(503, retry_after="3600") if len(stub.seen) > 2 else None
    got = ask(stub, questions(50), settings(), patience=60, concurrency=1)
    assert "503" in got.error and "patience" in got.error
    assert len(got.answers) == 2 and len(stub.seen) == 3


def test_a_long_wait_is_told_and_an_interrupt_does_not_wait_for_it(stub, settings, caplog):
    stub.always = lambda seen: error(429, "slow down", retry_after="300")
    main = threading.main_thread().ident
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    threading.Timer(1.0, signal.pthread_kill, [main, signal.SIGINT]).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ask(stub, questions(3), settings(), patience=600)
    signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 5 and "all wait 300 seconds" in caplog.text


@pytest.mark.parametrize("limit", [{"requests_per_minute": 600}, {"tokens_per_minute": 27_000}])
def test_limits_a_minute_are_kept(stub, settings, limit):
    got = ask(stub, questions(12), settings(), **limit)
    took = stub.seen[-1].at - stub.seen[0].at
    assert all_right(got, 12) and 0.9 < took < 4


# Failures stay open, are counted, and are tolerated by choice


def test_what_failed_is_counted_by_kind_stays_open_and_is_asked_again(stub, settings):
    s = settings()
    stub.always = lambda seen: error(400, "no") if re.search(" q[456] ", seen.prompt) else None
    for tolerate in (0, 2):
        got = ask(stub, questions(29), s, tolerate)
        assert re.search(r"3 of 29 failed \(3 rejected\).*400.*retries", got.error)
        assert got.answers.keys() == {f"q:{i}" for i in range(29) if i not in (4, 5, 6)}
        assert not list(Path(s.runs).rglob("seal.json")) and not list(Path(s.reports).rglob("*"))
    stub.always, before = lambda seen: None, len(stub.seen)
    assert all_right(ask(stub, questions(29), s), 29) and len(stub.seen) == before + 3


def test_a_limited_run_says_what_failed(stub, settings):
    stub.play(" q1 .", error(400, "no"))
    with pytest.raises(RefnbError, match="1 of 3 failed"):
        run(questions(9), "gpt-4o-mini", limit=3, s=settings(), **at(stub))


@pytest.mark.parametrize("tolerate", [3, 0.11])
def test_failures_are_tolerated_by_choice_and_asked_again_without_it(stub, settings, tolerate):
    s, bad = settings(), set()
    how = at(stub, s=s, concurrency=1)

    def three_fail(seen):
        if seen.prompt in bad or 4 < len(stub.seen) <= 7:
            bad.add(seen.prompt)
            return error(400, "no")

    stub.always = three_fail
    r = run(FERRYMAN, "gpt-4o-mini", tolerate=tolerate, **how)
    assert r.complete and r.failures() == 3 and seal(r)["reasons"]["failed"] == 3
    before = len(stub.seen)
    assert run(FERRYMAN, "gpt-4o-mini", tolerate=tolerate, **how).failures() == 3
    assert len(stub.seen) == before
    got = score(as_outcomes(r, s))
    assert got.failed == 3 and "3 of these questions failed" in repr(got)
    report = Report("identifyme/table_3_main_results")
    report.use(r.info, as_outcomes(r, s))
    assert any(x.startswith("3 requests") and r.info.system in x for x in report.legend())
    with pytest.raises(RefnbError, match="3 of 29 failed"):
        run(FERRYMAN, "gpt-4o-mini", **how)
    assert load_run(r.folder).failures() == 3, "it stays as it is while nothing better came"
    stub.always = lambda seen: None
    r = run(FERRYMAN, "gpt-4o-mini", **how)
    assert r.failures() == 0 and "failed" not in seal(r)["reasons"]
    assert [*r.answers()] == [q.id for q in task_questions(FERRYMAN, s)]
    [summary] = [p for p in Path(s.reports).rglob("*.json") if p.name != "part.json"]
    assert b"failed" not in summary.read_bytes()


@pytest.mark.parametrize("tolerate", [-1, 1.5])
def test_a_number_of_failures_that_is_none(settings, tolerate):
    s = settings()
    with pytest.raises(RefnbError, match="say how many, or a share below 1"):
        run(FERRYMAN, "random", s=s, tolerate=tolerate)
    assert not [*Path(s.runs).rglob("run.json")], "a call that is refused leaves a run behind"


# Replies that are answers, and were not read

ENDS = {
    "cut": Play(text="The", finish="length"),
    "refused": Play(refusal="I can't."),
    "filtered": Play(text="", finish="content_filter"),
    "unparsable": Play(text=""),
}


def test_an_end_that_is_no_choice_is_an_answer_of_its_kind_and_is_not_bought_again(stub, settings):
    plays = [*ENDS.values(), Play(text="<think>Let me see"), Play(text="no idea")]
    stub.always, s = lambda seen: plays[int(re.search(r"q(\d+)", seen.prompt)[1])], settings()
    got = ask(stub, questions(6), s)
    assert [got.answers[f"q:{i}"].reason for i in range(6)] == [*ENDS, "cut", "unparsable"]
    assert seal(got.run)["reasons"] == Counter([*ENDS, "cut", "unparsable"])
    shutil.rmtree(got.run.folder)
    again = ask(stub, questions(6), s)
    assert again.answers == got.answers and len(stub.seen) == 6


def test_a_command_says_why_replies_were_not_read(stub, tmp_path, capsys, monkeypatch):
    tools.live_in(monkeypatch, tmp_path)
    write_jsonl(tmp_path / "mine.jsonl", questions(20))
    odd = iter(["<think>Who", "I cannot tell.", "A thing.", "Ann or Bea", "Bea or Ann"])
    stub.always = lambda seen: Play(text=next(odd, "Ann"))
    call = ["run", "mine.jsonl", "gpt-4o-mini", "-p", "key=", "-p", "form=choice/names"]
    call += ["-p", f"base_url={stub.url}", "-p", "concurrency=1"]
    out = tools.here(capsys, *call).out
    assert "\n5 not read: " in out and "1 cut" in out and "many replies were not read" in out
    why = json.loads(tools.here(capsys, *call, "--json").out)["not_read"]
    assert sorted(why.values()) == [1, 4]


def test_a_model_that_changes_its_version_is_told(stub, settings):
    stub.always = lambda seen: Play(model=f"stub-{len(stub.seen) > 6}")
    got = ask(stub, questions(10), settings(), concurrency=1)
    assert got.bill.models == seal(got.run)["models"] == {"stub-False": 6, "stub-True": 4}


# Odd replies

NUMBERS = [1e30, 100.5, -1, None, "7", True, [3], {"a": 1}, float("nan"), float("inf")]


def test_an_odd_number_beside_a_reply_costs_no_reply(stub, settings):
    "Nor does it spend the budget."
    good = completion({"messages": [{"content": "x"}]}, Play(text="Bea"))
    bodies = []
    for odd in NUMBERS:
        counts = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), odd)
        bodies += [good | {"usage": counts | {"prompt_tokens_details": {"cached_tokens": odd}}}]
        bodies += [good | {"usage": odd}, good | {"created": odd, "model": odd}]
    said = iter(bodies)
    stub.always = lambda seen: Play(body=json.dumps(next(said)).encode())
    got = ask(stub, questions(len(bodies)), settings(), budget=1.0)
    assert got.error == "" and {a.raw for a in got.answers.values()} == {"Bea"}
    assert 0 < got.bill.usd < 0.01 * len(bodies)


BODIES = {
    "invalid UTF-8": GOOD.replace(b"Bea", b"Bea \xff\xfe"),
    "half a character": GOOD.replace(b"Bea", b"Bea \\ud83d"),
    "two bodies": GOOD + GOOD,
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a line end in a string": GOOD.replace(b"Bea", b"Bea\n"),
    "an event stream": b"data: " + GOOD + b"\n\ndata: [DONE]\n\n",
    "5,000 digits": GOOD[:-1] + b', "n": ' + b"9" * 5000 + b"}",
}


def test_an_odd_body_is_read_and_kept_as_it_came(stub, settings):
    said, s = iter(BODIES.values()), settings()
    stub.always = lambda seen: Play(body=next(said))
    got = ask(stub, questions(len(BODIES)), s, concurrency=1)
    assert got.error == "" and all(a.raw.startswith("Bea") for a in got.answers.values())
    assert [k.raw for k in kept(s)] == [*BODIES.values()]


LETTERS = dict(form="choice/letters", way="logprobs")


@pytest.mark.parametrize("p", [1e4, float("nan"), None, "x", [], -1e400])
def test_an_odd_log_probability_costs_no_other(stub, settings, p):
    top = [{"token": "B", "logprob": p}, {"token": None}, {"token": "A", "logprob": -0.5}]
    stub.always = lambda seen: Play(logprobs={"content": [{"top_logprobs": top}]})
    scores = ask(stub, questions(1), settings(), **LETTERS).answers["q:0"].scores
    assert scores[0] == pytest.approx(-0.5) and scores[1] < -0.5
    assert stub.seen[0].body["max_tokens"] == 1


def test_log_probabilities_that_cannot_be_had_are_told(stub, settings):
    got = ask(stub, questions(1), settings(), **LETTERS)
    assert "log-probabilities" in got.error and "way: reply" in got.error
    got = ask(stub, questions(1), settings(), form="identifyme/base", way="logprobs")
    assert "choose a form" in got.error


@pytest.mark.parametrize("constraint", ["choice", "json"])
def test_a_reply_that_is_held_to_a_schema_is_read(stub, settings, constraint):
    fields = ["explanation", "answer"][constraint == "choice" :]
    stub.always = lambda seen: Play(text=json.dumps(dict.fromkeys(fields, knows(seen.prompt))))
    got = ask(stub, questions(4), settings(), constraint=constraint, form="identifyme/desc")
    assert all_right(got, 4) and all(a.raw.startswith("{") for a in got.answers.values())
    sent = stub.seen[0].body["response_format"]["json_schema"]["schema"]
    assert [*sent["properties"]] == fields and sent["additionalProperties"] is False


# What a request says


def test_a_request_says_all_that_was_decided_and_nobody_elses_names(stub, settings, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-1")
    decoding = {"max_tokens": 9, "temperature": 0.5, "seed": 4, "top_p": None}
    ask(stub, questions(1), settings(), decoding=decoding, constraint="none")
    body, headers = stub.seen[0].body, stub.seen[0].headers
    assert body.pop("messages") == [{"role": "user", "content": stub.seen[0].prompt}]
    assert body == {
        "model": "gpt-4o-mini-2024-07-18",
        "max_tokens": 9,
        "temperature": 0.5,
        "seed": 4,
    }
    assert not {"openai-organization", "openai-project"} & headers.keys()


def test_a_proxy_is_used_where_one_is_set(stub, settings, monkeypatch):
    for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HTTP_PROXY", stub.url.removesuffix("/v1"))
    ask("http://vendor.invalid/v1", questions(1), settings())
    assert stub.seen and "vendor.invalid" in stub.seen[0].headers["host"]


def test_no_more_requests_are_made_at_a_time_than_are_wanted(stub, settings):
    stub.delay = 0.002
    assert all_right(ask(stub, questions(100), settings(), concurrency=8), 100)
    assert 4 < stub.most_open <= 8
    assert "-1" in ask(stub, questions(9), settings(), concurrency=-1).error


def test_heavy_packages_are_loaded_when_they_are_needed(spawn):
    code = """
import sys, refnb, refnb.models.language.systems, refnb.commands.cli
from refnb.core.settings import load_settings
from refnb.benchmarks.tasks import find_task
from refnb.models.language.models import the_model
from refnb.models.published.inspect_tasks import inspect_samples
inspect_samples(find_task("sample/kitmus", load_settings("/", env={})), the_model("gpt-4o"))
print(sorted({"openai", "httpx2", "aiohttp", "torch", "transformers", "outlines"} & set(sys.modules)))
"""
    assert spawn(code).communicate()[0] == "[]\n"


# A real server


def is_well(url: str) -> bool:
    "Whether a server answers there; that something listens is not enough."
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


def free_port() -> int:
    "A port below those that the system gives away by itself, so that no other test gets it."
    for port in random.sample(range(20_000, 30_000), 1000):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@pytest.mark.full
def test_transformers_serve_answers_as_the_same_model_does_here(tmp_path, settings):
    "Greedy, in the same precision: the same replies, through the client and by the local runner."
    for name in ("fastapi", "uvicorn"):
        pytest.importorskip(name, reason="transformers serve needs it")
    from tiny import tiny_checkpoint

    few, cache = task_questions(FERRYMAN, settings())[:5], tmp_path / "cache"
    folder = tiny_checkpoint(tmp_path / "tiny", [q.text for q in few[:2]])
    (cache / "hub").mkdir(parents=True)
    env = dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "OMP_NUM_THREADS"), "1")
    env |= dict.fromkeys(("HOME", "TMPDIR", "HF_HOME"), str(cache))
    env |= {"PATH": os.environ["PATH"], "TOKENIZERS_PARALLELISM": "false", "no_proxy": "*"}
    port = free_port()
    url, command = f"http://127.0.0.1:{port}", Path(sys.executable).with_name("transformers")
    call = [command, "serve", folder, "--host", "127.0.0.1", "--port", port]
    call += ["--device", "cpu", "--dtype", "float32"]
    with (cache / "log").open("wb") as log:
        p = subprocess.Popen([*map(str, call)], env=env, stdout=log, stderr=log)
        try:
            tools.wait(lambda: p.poll() is not None or is_well(url), "transformers serve starts")
            assert p.poll() is None, (cache / "log").read_text()[-2000:]
            s, same = settings(), dict(model=str(folder), form="choice/names", constraint="none")
            same |= {"decoding": {"max_tokens": 24}, "title": "tiny"}
            far = run(few, "gpt-4o-mini", s=s, base_url=f"{url}/v1", key="", price=None, **same)
        finally:
            p.kill()
            p.wait()
    local = dict(file="", package="", dtype="float32", way="reply")
    here = run(few, "smollm2-135m", s=s, **local, **same)
    said = lambda r: {
        i: (a.raw, a.chosen, a.reason, a.usage.tokens_in) for i, a in r.answers().items()
    }
    assert said(far) == said(here) and far.complete
