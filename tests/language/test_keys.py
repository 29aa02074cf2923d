"A key is nowhere: whatever a server says of it, in whatever spelling, nothing holds it."

import base64, html, itertools, json, logging, socket, threading, traceback
from pathlib import Path
import pytest
import tools
from asking import KEY, SECRET, SOON, ask, at, kept, questions
from hypothesis import HealthCheck, given, settings as hyp, strategies as st
from refnb import run
from refnb.core.types import RefnbError
from refnb.models.registry import find_system
from stub_server import Play, Stub, error

pytestmark = pytest.mark.usefixtures("no_keys")
QUOTED = 'sk-"made"\\up' + "-for\\tests<0123>&456789"


def spellings(key: str) -> dict[str, str]:
    "What a server, a proxy or a model may make of a key."
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)
    b64 = lambda text: base64.b64encode(text.encode()).decode()
    return {
        "plain": key,
        "JSON": json.dumps(key)[1:-1],
        "JSON, each letter": escaped,
        "JSON twice": escaped.replace("\\", "\\\\"),
        "percent": "".join(f"%{ord(c):02X}" for c in key),
        "percent twice": "".join(f"%25{ord(c):02X}" for c in key),
        "HTML, each letter": "".join(f"&#{ord(c)};" for c in key),
        "hex": key.encode().hex(),
        "base64": b64(key),
        "base64 inside": b64(f"Authorization: {key}!"),
    }


def held(data: bytes, key: str) -> list[str]:
    "The spellings of a key in some bytes, as they are or written in JSON."
    forms = spellings(key)
    return [
        k
        for k, x in forms.items()
        if any(y.encode() in data for y in {x, json.dumps(x)[1:-1], x.replace("\\", "\\\\")})
    ]


def traces(folder: Path, s, key: str) -> list:
    "What holds the key: files below a folder, and compressed bytes of the store."
    files = [p for p in folder.rglob("*") if p.is_file()]
    found = [(p, x) for p in files if (x := held(p.read_bytes(), key))]
    return found + [(k.key, x) for k in kept(s) if (x := held(k.raw, key))]


def message(said: dict, **more) -> dict:
    return {"choices": [{"finish_reason": "stop", "message": said}]} | more


FIELDS = {
    "the text": lambda x: message({"content": f"- The mention refers to: {x}"}),
    "the model": lambda x: message({"content": "Bea"}, model=f"m-{x}"),
    "what nobody reads": lambda x: message({"content": "Bea"}, debug={"h": [f"Bearer {x}"]}),
    "the reasoning": lambda x: message({"content": "Bea", "reasoning_content": f"It is {x}."}),
    "thoughts in the text": lambda x: message({"content": f"<think>It is {x}.</think>Bea"}),
    "parts": lambda x: message({"content": [{"text": x[i : i + 5]} for i in range(0, len(x), 5)]}),
}


@pytest.mark.parametrize("key", [SECRET, QUOTED], ids=["usual", "quoted"])
def test_a_key_that_comes_back_in_a_reply_is_written_nowhere(
    stub, tmp_path, settings, monkeypatch, key
):
    monkeypatch.setenv(KEY, key)
    bodies, s = [], settings()
    for field in FIELDS.values():
        # as the value of a field, and in place of a key in what is JSON already
        bodies += [json.dumps(field(x)) for x in spellings(key).values()]
        if key == SECRET:
            raw = [x for k, x in spellings(key).items() if k != "plain"]
            bodies += [json.dumps(field("@@")).replace("@@", x) for x in raw]
    said = iter(bodies)
    stub.always = lambda seen: Play(body=next(said).encode())
    got = ask(stub, questions(len(bodies)), s)
    assert got.error == "" and next(said, None) is None
    assert traces(tmp_path, s, key) == [] and "[key]" in got.run.journal.read_text()


def test_a_key_with_quotes_that_comes_back_as_html_is_covered(stub, settings, monkeypatch):
    monkeypatch.setenv(KEY, QUOTED)
    stub.always = lambda seen: Play(text=f"It is {html.escape(QUOTED)}.")
    [a] = ask(stub, questions(1), settings()).answers.values()
    assert a.raw == "It is [key]."


def test_a_key_that_comes_back_in_an_error_is_not_shown(
    stub, settings, tmp_path, capfd, monkeypatch
):
    statuses = itertools.cycle([400, 401, 403, 404, 500])
    for key in (SECRET, QUOTED):
        monkeypatch.setenv(KEY, key)
        for how, x in spellings(key).items():
            status, s = next(statuses), settings(runs=str(tmp_path / f"{len(key)} {how}"))
            body = json.dumps({"error": {"message": f"wrong: {x}"}}).encode()
            stub.always = lambda seen, p=Play(status, {"x-quoted": key}, body=body): p
            with pytest.raises(RefnbError) as e:
                run(questions(1), "gpt-4o-mini", s=s, **at(stub, retries=0))
            text = "".join(traceback.format_exception(e.value)) + capfd.readouterr().err
            assert held(text.encode(), key) == [] and traces(tmp_path, s, key) == [], (how, status)


@pytest.mark.parametrize("raw", ["HTTX {}", "HTTP/1.1 401 No\r\nX-Echo of it: {}\r\n"])
def test_a_key_in_what_is_no_http_is_not_shown(settings, raw):
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
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        got = ask(url, questions(3), settings(), retries=0)
        server.shutdown(socket.SHUT_RDWR)
    assert "base_url" in got.error and SECRET not in got.error


def test_a_key_is_in_no_log_and_no_representation(stub, settings, caplog):
    caplog.set_level(logging.DEBUG)
    echo = [Play(text=SECRET, model=SECRET), error(500, SECRET, **SOON), Play(refusal=SECRET)]
    stub.always = lambda seen: echo[len(stub.seen) % 3]
    s = settings()
    got = ask(stub, questions(30), s)
    system = find_system("gpt-4o-mini", s, **at(stub))
    heard = [repr(x) for x in (got, system, vars(system), kept(s))]
    assert SECRET not in "".join(heard) + caplog.text
    assert {x.headers["authorization"] for x in stub.seen} == {f"Bearer {SECRET}"}


def test_what_is_no_key_stays_as_it_came(stub, settings):
    "Nor does a long look for one take long."
    nearly = "".join(rf"\\\\u{ord(x):04x}" for x in SECRET[:-1])
    texts = ["\\" * 200_000 + "é", nearly * 50, "%73%6b-&#115; <b>sk-made</b>"]

    @given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), max_size=20))
    @hyp(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def stays(more):
        said = [f"A {x}" for x in texts + more]
        answers = iter(said)
        stub.always = lambda seen: Play(text=next(answers))
        number = next(numbers)
        s = settings(runs=f"{settings().runs}-{number}")
        got = ask(stub, questions(len(said)), s, concurrency=1)
        assert [a.raw for a in got.answers.values()] == said

    numbers = itertools.count()
    stays()


def test_a_short_key_of_a_local_server_covers_no_words(stub, settings, monkeypatch):
    monkeypatch.setenv(KEY, "in-his")
    stub.always = lambda seen: Play(text="Standing in-his studio: Ann")
    [a] = ask(stub, questions(1), settings()).answers.values()
    assert a.raw == "Standing in-his studio: Ann"


# Where a key may be


@pytest.mark.parametrize("value", [None, "", "two words", "line\nend", "schlüssel"])
def test_without_a_key_nothing_is_asked_and_its_variable_is_named(
    stub, settings, monkeypatch, value
):
    monkeypatch.delenv(KEY) if value is None else monkeypatch.setenv(KEY, value)
    got = ask(stub, questions(1), settings())
    assert KEY in got.error and stub.seen == [] and (not value or value not in got.error)


def test_a_server_that_needs_no_key_gets_none(stub, settings, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ask(stub, questions(1), settings(), key="")
    run(questions(1), "gpt-4o-mini", s=settings(), base_url=stub.url)  # another than its own
    assert len(stub.seen) == 2 and all(SECRET not in str(x.headers) for x in stub.seen)


def test_a_key_follows_no_redirection(stub, settings):
    with Stub() as other:
        stub.always = lambda seen: Play(307, {"location": f"{other.url}/chat/completions"})
        got = ask(stub, questions(1), settings())
        assert "307" in got.error and other.seen == []


@pytest.mark.parametrize(
    "setting, names",
    [
        (f"key={SECRET}", "key"),
        (f"base_url=http://me:{SECRET}@127.0.0.1:9/v1", "base_url"),
        (f"base_url=http://127.0.0.1:9/v1?key={SECRET}", "base_url"),
    ],
)
def test_a_key_in_the_wrong_place_is_refused_before_a_folder_exists(
    tmp_path, monkeypatch, capsys, setting, names
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(KEY)
    run = ["run", "sample/identifyme"]
    line = tools.one_line(
        tools.here(capsys, *run, "gpt-4o-mini", "-p", setting), 2, names, "variable"
    )
    more = tools.here(capsys, *run, f"vllm/mine@http://me:{SECRET}@127.0.0.1:9/v1")
    assert more.status == 2 and SECRET not in line + more.all and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["sk-abc", "hf_abcdefghijklmnopqrst", "a b", "lower_case"])
def test_what_is_no_name_of_a_variable_is_not_repeated(settings, name):
    got = ask("http://127.0.0.1:9/v1", questions(1), settings(), key=name)
    assert "environment variable" in got.error and name not in got.error
