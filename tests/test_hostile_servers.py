"Servers that quote keys, write odd numbers, send too much or nothing, and processes that ask at the same time."

import base64, json, os, subprocess, sys, zlib
from pathlib import Path
import pytest
import tools
from refnb.benchmarks.tasks import FERRYMAN
from refnb.core.types import CallError, DataError
from refnb.models.language.language_models import Reply, ask_key
from refnb.models.language.replies import FILE, Replies
from refnb.models.running import run
from asking import KEY, QUICK, SECRET, go, model, one_line, questions
from stub_server import Play, completion

pytestmark = pytest.mark.usefixtures("no_keys")

# F60: a key that comes back


def escaped(key: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in key)


DISGUISES = {
    "plain": SECRET,
    "JSON": escaped(SECRET),
    "JSON twice": escaped(SECRET).replace("\\", "\\\\"),
    "percent": "".join(f"%{ord(c):02X}" for c in SECRET),
    "percent twice": "".join(f"%25{ord(c):02x}" for c in SECRET),
    "HTML": "".join(f"&#{ord(c)};" for c in SECRET),
    "HTML in hex": "".join(f"&#x{ord(c):x};" for c in SECRET),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 inside": base64.b64encode(f"Authorization: {SECRET}!".encode()).decode(),
    "hex": SECRET.encode().hex(),
    "backwards": SECRET[::-1],
    "halves": SECRET[: len(SECRET) // 2] + " / " + SECRET[len(SECRET) // 2 :],
    "half": SECRET[len(SECRET) // 2 :],
    "UTF-16": "\0".join(SECRET),
}


def traces(folder: Path) -> list[str]:
    "Files below a folder in which the key stands, in any of the forms above, or in a compressed column of the store."
    forms = [
        f.encode()
        for f in {*DISGUISES.values(), SECRET[: len(SECRET) // 2], SECRET[len(SECRET) // 2 :]}
        if len(f) > 8
    ]
    forms += [f.replace(b"\\", b"\\\\") for f in forms] + [
        b'"}, {"text": "'.join(SECRET[i : i + 5].encode() for i in range(0, len(SECRET), 5))
    ]
    found = [
        str(p) for p in folder.rglob("*") if p.is_file() and any(f in p.read_bytes() for f in forms)
    ]
    for p in folder.rglob(FILE):
        with Replies(p.parent) as kept:
            found += [
                f"{p}: {k.key}"
                for k in kept.kept()
                if any(f in raw for raw in kept.raws(k.key) for f in forms)
            ]
    return found


FIELDS = {
    "the text": lambda x: {
        "choices": [
            {"finish_reason": "stop", "message": {"content": f"- The mention refers to: {x}"}}
        ]
    },
    "the model": lambda x: {
        "model": f"m-{x}",
        "choices": [{"finish_reason": "stop", "message": {"content": "Bea"}}],
    },
    "the end": lambda x: {"choices": [{"finish_reason": x, "message": {"content": "Bea"}}]},
    "a field that nobody reads": lambda x: {
        "choices": [{"finish_reason": "stop", "message": {"content": "Bea"}}],
        "debug": {"headers": [f"Bearer {x}"]},
    },
    "the reasoning": lambda x: {
        "choices": [
            {
                "finish_reason": "stop",
                "message": {"content": "Bea", "reasoning_content": f"The key is {x}."},
            }
        ]
    },
    "thoughts in the text": lambda x: {
        "choices": [
            {"finish_reason": "stop", "message": {"content": f"<think>The key is {x}.</think>Bea"}}
        ]
    },
    "parts of thoughts": lambda x: {
        "choices": [
            {
                "finish_reason": "stop",
                "message": {
                    "content": [
                        {
                            "type": "thinking",
                            "thinking": [{"text": x[i : i + 5]} for i in range(0, len(x), 5)],
                        },
                        {"type": "text", "text": "Bea"},
                    ]
                },
            }
        ]
    },
    "parts": lambda x: {
        "choices": [
            {
                "finish_reason": "stop",
                "message": {"content": [{"text": x[i : i + 5]} for i in range(0, len(x), 5)]},
            }
        ]
    },
}


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_f60_a_key_that_comes_back_is_written_nowhere(stub, tmp_path, settings, field):
    bodies = [
        json.dumps(field("@@")).encode().replace(b"@@", x.encode()) for x in DISGUISES.values()
    ] + [json.dumps(field(SECRET)).encode()]
    it = iter(bodies)
    stub.always = lambda seen: Play(body=next(it))
    run(
        FERRYMAN,
        "gpt-4o-mini",
        limit=len(bodies),
        s=settings(),
        base_url=stub.url,
        key=KEY,
        rate={},
        decoding={"max_tokens": 50},
    )
    assert next(it, None) is None and traces(tmp_path) == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_f60_nor_is_one_in_an_error(stub, store, status, capfd):
    m = model(stub)
    for x in DISGUISES.values():
        stub.always = lambda seen, x=x: Play(
            status,
            {"x-quoted": SECRET},
            body=json.dumps({"error": {"message": "wrong: @@"}}).replace("@@", x).encode(),
        )
        try:
            text = str(
                [
                    r.error
                    for r in go(questions(m, 1), m, store, patience=QUICK.changed(tries=1))[
                        1
                    ].values()
                ]
            )
        except DataError as e:
            text = str(e)
        assert not any(
            f in text + capfd.readouterr().err
            for f in {*DISGUISES.values(), SECRET[:10], SECRET[-10:]}
        ), text
    assert traces(store.path.parent) == []


def test_f60_nor_one_that_a_vendor_half_hides(stub, store):
    m = model(stub)
    stub.always = lambda seen: Play(
        401,
        body=json.dumps(
            {"error": {"message": f"Incorrect API key provided: {SECRET[:9]}****{SECRET[-4:]}."}}
        ).encode(),
    )
    with pytest.raises(DataError) as e:
        go(questions(m, 1), m, store)
    assert "[key]" in one_line(e) and SECRET[-4:] not in str(e.value)


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
    assert SECRET not in got.out + got.err and list(tmp_path.iterdir()) == []


def test_f60_a_name_with_a_password_is_refused_and_not_repeated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(KEY)
    got = tools.here(
        capsys, "run", "sample/identifyme", f"vllm/mine@http://me:{SECRET}@127.0.0.1:9/v1"
    )
    assert got.status == 2 and SECRET not in got.out + got.err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "sk-abc",
        "hf_abcdefghijklmnopqrst",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "a b",
        "my.key",
        "lower_case",
    ],
)
def test_f60_what_is_no_name_of_a_variable(name):
    with pytest.raises(CallError, match="not the name of an environment variable") as e:
        model("http://127.0.0.1:9/v1", key=name)
    assert name not in one_line(e)


# F61 and F62: odd replies

NUMBERS = [1e30, 100.5, -1, None, "7", True, [3], {"a": 1}, float("nan"), float("inf")]


@pytest.mark.parametrize("odd", NUMBERS, ids=map(str, NUMBERS))
def test_f61_an_odd_number_costs_no_reply(stub, store, odd):
    m = model(stub)
    good = completion({"messages": [{"content": "x"}]}, Play(text="Bea"))
    bodies = [
        good
        | {
            "usage": {
                "prompt_tokens": odd,
                "completion_tokens": odd,
                "total_tokens": odd,
                "prompt_tokens_details": {"cached_tokens": odd},
            }
        },
        good | {"usage": odd},
        good | {"created": odd, "model": odd},
    ]
    for n, body in enumerate(bodies):
        stub.always = lambda seen, body=body: Play(body=json.dumps(body).encode())
        got, told = go(questions(m, 1, f"n{n}-"), m, store, budget=1.0)
        assert (
            [r.text for r in told.values()] == ["Bea"] and got.requests == 1 and 0 < got.usd < 0.01
        )


@pytest.mark.parametrize("p", [1e4, float("nan"), None, "x", [], -1e400])
def test_f61_an_odd_log_probability_costs_no_other(stub, store, p):
    m = model(stub, way="logprobs")
    top = [
        {"token": "B", "logprob": p},
        {"token": None, "logprob": -1.0},
        {"token": "A", "logprob": -0.5},
        {"logprob": -3.0},
    ]
    stub.always = lambda seen: Play(
        body=json.dumps(
            {
                "choices": [
                    {
                        "message": {"content": "A"},
                        "finish_reason": "stop",
                        "logprobs": {"content": [{"top_logprobs": top}]},
                    }
                ]
            }
        ).encode()
    )
    ask = questions(m, 1)[0].changed(options=("A", "B"))
    _got, told = go([ask], m, store)
    assert told[ask.id].scores[0] == pytest.approx(-0.5) and told[ask.id].scores[1] < -0.5


GOOD = b'{"choices": [{"finish_reason": "stop", "message": {"content": "Bea"}}]}'
BODIES = {
    "invalid UTF-8": GOOD.replace(b"Bea", b"B\xff\xfeea"),
    "half a character": GOOD.replace(b"Bea", b"Bea\\ud83d"),
    "two bodies": GOOD + GOOD,
    "a body before it": b'{"id": 1}\n' + GOOD,
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a line end in a string": GOOD.replace(b"Bea", b"Be\na"),
    "an event stream": b"data: " + GOOD + b"\n\ndata: [DONE]\n\n",
    "5,000 digits": GOOD[:-1] + b', "n": ' + b"9" * 5000 + b"}",
    "a name twice": GOOD.replace(b'"finish_reason"', b'"finish_reason": 7, "finish_reason"'),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_f62_an_odd_body_is_read_once_and_kept_as_it_came(stub, store, body):
    m = model(stub)
    stub.always = lambda seen: Play(body=body)
    for _ in range(2):
        _got, told = go(questions(m, 1), m, store)
    [reply] = told.values()
    assert (
        reply.text.replace("\n", "").startswith("B") and reply.text.encode() and len(stub.seen) == 1
    )
    assert store.raws(ask_key(questions(m, 1)[0])) == [body]


def test_f62_what_could_not_be_read_is_read_by_a_better_reader_and_not_bought_again(
    stub, store, monkeypatch
):
    from refnb.models.language import servers

    m, better = model(stub), servers.read_reply

    def worse(raw, ask):
        raise ValueError("a reader of last year")

    monkeypatch.setattr(servers, "read_reply", worse)
    got, told = go(questions(m, 3), m, store, patience=QUICK.changed(tries=1))
    assert got.ends == {"failed": 3} and len(stub.seen) == 3
    monkeypatch.setattr(servers, "read_reply", better)
    got, told = go(questions(m, 3), m, store)
    assert (got.ends, got.asked, got.served, len(stub.seen)) == ({"stop": 3}, 0, 3, 3)


def test_f62_a_reply_nested_without_end_fails_alone(stub, store):
    m = model(stub)
    stub.play(questions(m, 2)[0].prompt, [Play(body=b'{"choices": ' + b"[" * 100_000)])
    got, told = go(questions(m, 2), m, store)
    assert (
        got.ends == {"failed": 1, "stop": 1}
        and "nested too deep" in told["q:0"].error
        and len(stub.seen) == 2
    )


def test_a_store_of_an_earlier_refnb_goes_on(tmp_path):
    import sqlite3

    with Replies(tmp_path) as store:
        store.put("0a", Reply("Bea"))
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("alter table replies drop column raw")
    with Replies(tmp_path) as store:
        assert store.get("0a").text == "Bea" and store.raws("0a") == []
        store.put("0b", store.get("0a"), raw=b"{}")
        assert store.raws("0b") == [b"{}"]


# F63: too much, and nothing


def test_f63_a_reply_is_capped_in_bytes(stub, store):
    m = model(stub)
    stub.play(questions(m, 2)[0].prompt, [Play(text="x" * 2_000_000)] * 9)
    got, told = go(questions(m, 2), m, store, patience=QUICK.changed(room=10**6))
    assert (
        got.ends == {"failed": 1, "stop": 1}
        and "the reply is longer than 1,005,000 bytes" in told["q:0"].error
        and got.requests == 2
    )
    got, told = go(questions(m, 1), m, store, patience=QUICK.changed(room=3 * 10**6))
    assert told["q:0"].finish == "stop" and len(told["q:0"].text) > 10**6


@pytest.mark.parametrize("how", ["gzip", "deflate"])
def test_f63_a_bomb_is_not_unpacked(stub, store, how):
    pack = zlib.compressobj(9, zlib.DEFLATED, 31 if how == "gzip" else 15)
    bomb = pack.compress(GOOD[:-1] + b" " * 50_000_000 + b"}") + pack.flush()
    m = model(stub)
    stub.play(questions(m, 2)[0].prompt, [Play(headers={"content-encoding": how}, body=bomb)])
    got, told = go(questions(m, 2), m, store, patience=QUICK)
    assert (
        len(bomb) < 100_000
        and "the reply is longer than" in told["q:0"].error
        and got.ends == {"failed": 1, "stop": 1}
    )


@pytest.mark.parametrize(
    "how, pack",
    [
        ("gzip", lambda b: zlib.compress(b, wbits=31)),
        ("deflate", zlib.compress),
        ("identity", bytes),
        ("", bytes),
    ],
)
def test_f63_a_packed_reply_is_read(stub, store, how, pack):
    m = model(stub)
    stub.always = lambda seen: Play(headers={"content-encoding": how}, body=pack(GOOD))
    assert (
        go(questions(m, 1), m, store)[1]["q:0"].text == "Bea"
        and stub.seen[0].headers["accept-encoding"] == "gzip, deflate"
    )


@pytest.mark.parametrize("how, body", [("br", b"xx"), ("gzip", b"no gzip at all")])
def test_f63_what_cannot_be_unpacked_fails_alone(stub, store, how, body):
    m = model(stub)
    stub.play(questions(m, 2)[0].prompt, [Play(headers={"content-encoding": how}, body=body)])
    got, told = go(questions(m, 2), m, store)
    assert (
        got.ends == {"failed": 1, "stop": 1} and "pack" in told["q:0"].error and got.requests == 2
    )


def test_f63_a_body_that_stalls_is_given_up(stub, store):
    m, quiet = model(stub), QUICK.changed(quiet=0.05)
    stub.play(questions(m, 1)[0].prompt, [Play(cut=20, stall=True)] * 2)
    got, told = go(
        questions(m, 1), m, store, patience=quiet.changed(reply=20.0, tries=1)
    )  # without the cap the reply would end this
    assert (told["q:0"].finish, told["q:0"].error) == (
        "failed",
        "the reply began and nothing more came for 0.05 seconds; after 1 try",
    )
    got, told = go(questions(m, 1), m, store, patience=quiet)
    assert (told["q:0"].finish, told["q:0"].tries) == ("stop", 2)


def test_f63_patience_is_a_setting_that_makes_no_other_system(stub, settings, tmp_path):
    from refnb.models.registry import find_system

    s = settings()
    assert (
        find_system("gpt-4o-mini", s, **{"patience.room": "5000", "patience.quiet": "3"}).name
        == "gpt-4o-mini"
    )
    with pytest.raises(CallError, match="patience"):
        find_system("gpt-4o-mini", s, **{"patience.room": "-1"})


# F66: bought once


def test_f66_the_name_of_a_request_depends_on_the_request_alone(stub, store, tmp_path):
    m = model(stub)
    go(questions(m, 1), m, store)
    with Replies(tmp_path / "other") as other:
        go([a.changed(id="other") for a in questions(m, 1)], m, other)
    names = [seen.headers["idempotency-key"] for seen in stub.seen]
    assert names == [ask_key(questions(m, 1)[0])] * 2


ASKING = """
import sys
sys.path.insert(0, sys.argv[3])
from asking import *
from refnb.models.language.replies import Replies
m = model(sys.argv[1])
with Replies(sys.argv[2]) as store: got, told = go(questions(m, 20, "same"), m, store, concurrency=20)
assert got.ends == {"stop": 20}, got
print(got.asked)
"""


def test_f66_two_processes_buy_a_reply_once(stub, tmp_path):
    stub.always = lambda seen: Play(delay=0.3)
    env = os.environ | {KEY: SECRET}
    both = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                ASKING,
                stub.url,
                str(tmp_path / "r"),
                str(Path(__file__).parent),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        for _ in range(2)
    ]
    out = [p.communicate() for p in both]
    assert [p.returncode for p in both] == [0, 0], out
    assert sum(int(o) for o, _ in out) == len(stub.seen) == 20


def test_f66_who_was_killed_holds_nobody_up(stub, tmp_path):
    m = model(stub)
    stub.always = lambda seen: Play(hang=True)
    first = subprocess.Popen(
        [sys.executable, "-c", ASKING, stub.url, str(tmp_path / "r"), str(Path(__file__).parent)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {KEY: SECRET},
    )
    tools.wait(lambda: stub.seen, "a request under way")
    first.kill()
    first.wait()
    stub.always = lambda seen: None
    with Replies(tmp_path / "r") as store:
        got, _ = go(questions(m, 20, "same"), m, store)
    assert got.ends == {"stop": 20} and got.asked == 20
