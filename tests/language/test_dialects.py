"Dialects and providers, each against a server as strict as its vendor's; refused fields, reasoning, prices."

import json
from operator import attrgetter
from typing import NamedTuple
import pytest
import tools
from asking import SECRET, ask, at, kept, questions, seal
from refnb import find_system, run
from refnb.benchmarks.tasks import FERRYMAN, task_questions
from refnb.core.types import CallError, DataError, FormatError
from refnb.models.language.models import check_taken, dialects, read_model, the_dialect
from refnb.models.registry import entries_of, providers
from refnb.models.running import planned
from stub_server import Play, error

pytestmark = pytest.mark.usefixtures("no_keys")
QUESTIONS, STORY = questions(3), task_questions(FERRYMAN)
THOUGHTS = "Who was named last?"
OF_ALL = "model messages temperature top_p seed max_tokens response_format "
TAKES = {  # what each vendor takes: anything else is refused, as it does
    "openai-reasoning": "model messages max_completion_tokens reasoning_effort response_format",
    "openai-responses": "model input instructions max_output_tokens reasoning text store",
    "anthropic-messages": "model messages system max_tokens thinking output_config temperature",
    "gemini": "contents systemInstruction generationConfig",
    "vllm": OF_ALL + "reasoning_effort structured_outputs",
    "sglang": OF_ALL + "reasoning_effort regex",
    "llama.cpp": OF_ALL + "grammar",
    "ollama": OF_ALL + "reasoning_effort",
}


def reply_in(shape: str, text: str, cut: bool = False) -> bytes:
    "A reply as a vendor sends it: 20 tokens read, 80 written, 64 of them while it reasoned."
    used = {"input_tokens": 20, "output_tokens": 80}
    if shape == "responses":
        ended = {"status": "completed"}
        if cut:
            reason = {"reason": "max_output_tokens"}
            ended = {"status": "incomplete", "incomplete_details": reason}
        thought = {"type": "summary_text", "text": THOUGHTS}
        said = {"type": "message", "content": [{"type": "output_text", "text": text}]}
        output = [{"type": "reasoning", "summary": [thought]}, *[said] * (not cut)]
        usage = used | {"output_tokens_details": {"reasoning_tokens": 64}}
        body = ended | {"output": output, "usage": usage}
    elif shape == "messages":
        thought = {"type": "thinking", "thinking": THOUGHTS, "signature": "x"}
        body = {
            "content": [thought, *[{"type": "text", "text": text}] * (not cut)],
            "stop_reason": "max_tokens" if cut else "end_turn",
            "usage": used | {"output_tokens_details": {"thinking_tokens": 64}},
        }
    elif shape == "gemini":
        parts = [{"text": THOUGHTS, "thought": True}, *[{"text": text}] * (not cut)]
        reason = "MAX_TOKENS" if cut else "STOP"
        read, written = {"promptTokenCount": 20}, {"candidatesTokenCount": 16}
        body = {
            "candidates": [{"content": {"parts": parts}, "finishReason": reason}],
            "modelVersion": "theirs",
            "usageMetadata": read | written | {"thoughtsTokenCount": 64},
        }
    else:
        message = {"role": "assistant", "content": None if cut else text}
        message |= {"reasoning_content": THOUGHTS}
        usage = {"prompt_tokens": 20, "completion_tokens": 80}
        body = {
            "choices": [{"message": message, "finish_reason": "length" if cut else "stop"}],
            "usage": usage | {"completion_tokens_details": {"reasoning_tokens": 64}},
        }
    return json.dumps({"model": "theirs"} | body).encode()


def vendor(dialect: str, cut: bool = False, refuses: str = ""):
    "A server that is as strict as a vendor's. It answers every question with Ann."
    d = the_dialect(dialect)

    def always(seen) -> Play:
        if seen.path != d.path.replace("{model}", "theirs"):
            return error(404, f"no such path: {seen.path}")
        body = seen.body
        sent = set(body) | {k for x in body.values() if isinstance(x, dict) for k in x}
        wrong = [k for k in body if k not in TAKES[dialect].split()] + [refuses] * (refuses in sent)
        if wrong:
            what = f"Unsupported parameter: '{wrong[0]}' is not supported with this model."
            return error(400, what, "unsupported_parameter", None if refuses else wrong[0])
        return Play(body=reply_in(d.shape, "- The mention refers to: Ann", cut))

    return always


def asked(stub, settings, dialect: str, cut: bool = False, refuses: str = "", **changed):
    "A run at such a server."
    stub.always = vendor(dialect, cut, refuses)
    how = dict(dialect=dialect, base_url=stub.url, key="") | changed
    return run(QUESTIONS, "openai/theirs", s=settings(), **how)


@pytest.mark.parametrize("dialect", TAKES)
def test_each_vendor_is_asked_as_it_wants(stub, settings, dialect):
    d, n = the_dialect(dialect), len(QUESTIONS)
    how = {} if d.decoding else {"decoding": {"max_tokens": 90, "seed": 1}}
    r = asked(stub, settings, dialect, **how, **{"effort": "low"} if "effort" in d.fields else {})
    assert r.complete and len(stub.seen) == n
    assert all(a.chosen and a.reasoning == THOUGHTS for a in r.answers().values())
    assert seal(r)["tokens"] == {"read": 20 * n, "written": 80 * n, "reasoning": 64 * n}
    assert seal(r)["models"] == {"theirs": n}
    headers = stub.seen[0].headers
    assert all(name.lower() in headers for name in d.headers or ["Authorization"])
    assert not d.headers or "authorization" not in headers


BOUND = [(name, c) for name, d in dialects().items() if name in TAKES for c in d.constraints]


@pytest.mark.parametrize("dialect, constraint", BOUND)
def test_what_a_reply_is_held_to_is_passed_on(stub, settings, dialect, constraint):
    r = asked(stub, settings, dialect, constraint=constraint)
    assert r.complete and all(a.chosen for a in r.answers().values())
    assert constraint != "regex" or "Ann|Bea" in stub.seen[0].raw.decode()


@pytest.mark.parametrize("dialect", [name for name in TAKES if "-" in name or name == "gemini"])
def test_reasoning_that_eats_the_whole_limit_is_a_cut_reply(stub, settings, dialect):
    r = asked(stub, settings, dialect, cut=True)
    assert seal(r)["reasons"] == {"cut": len(QUESTIONS)}


class Vendor(NamedTuple):
    "What a provider takes and tells, by its documentation."

    takes: str  # fields of a body, besides model and messages
    message: dict  # of a reply
    used: dict = {}  # beside the usual counts
    end: str = "stop"
    tells: str = THOUGHTS  # of its reasoning
    cached: int = 0
    reasoned: int = 0


ANN = "- The mention refers to: Ann"
COMMON = "temperature top_p stop "
SAID, APART = {"content": ANN}, {"content": ANN, "reasoning": THOUGHTS}
REASONED = {"completion_tokens_details": {"reasoning_tokens": 64}}
SEEN = {"prompt_tokens_details": {"cached_tokens": 5}}
PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHTS}]},
    {"type": "text", "text": ANN},
]
HELD = "response_format"
PROVIDERS = {
    "openrouter": Vendor(
        f"{COMMON} seed max_tokens top_k reasoning provider {HELD}",
        *(APART, REASONED | SEEN, "stop", THOUGHTS, 5, 64),
    ),
    "azure": Vendor(f"{COMMON} seed max_tokens {HELD}", SAID, SEEN, tells="", cached=5),
    "bedrock": Vendor(
        f"{COMMON} max_completion_tokens reasoning_effort {HELD}",
        {"content": f"<reasoning>{THOUGHTS}</reasoning>{ANN}"},
    ),
    "groq": Vendor(
        f"{COMMON} seed max_completion_tokens reasoning_effort",
        *(APART, REASONED | SEEN | {"total_time": 0.1}, "stop", THOUGHTS, 5, 64),
    ),
    "mistral": Vendor(
        f"{COMMON} random_seed max_tokens top_k reasoning_effort {HELD}", {"content": PARTS}
    ),
    "together": Vendor(f"{COMMON} seed max_tokens top_k reasoning_effort {HELD}", APART, end="eos"),
    "deepseek": Vendor(
        f"{COMMON} max_tokens reasoning_effort",
        {"content": ANN, "reasoning_content": THOUGHTS},
        REASONED | SEEN | {"prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 15},
        *("stop", THOUGHTS, 5, 64),
    ),
    "xai": Vendor(  # it counts reasoning apart
        f"{COMMON} seed max_tokens reasoning_effort {HELD}",
        *(SAID, REASONED | {"completion_tokens": 16}, "stop", "", 0, 64),
    ),
    "hf": Vendor(f"{COMMON} seed max_tokens {HELD}", APART),
}
GIVEN = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 90, "seed": 1, "stop": ["\n\n"]}


used_by = attrgetter("tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning")


def answers_as(v: Vendor):
    "A server that refuses what a provider does not take, and answers in its words."
    choice = {"message": {"role": "assistant"} | v.message, "finish_reason": v.end}
    used = {"prompt_tokens": 20, "completion_tokens": 80, "total_tokens": 100} | v.used
    body = json.dumps({"model": "theirs", "choices": [choice], "usage": used}).encode()

    def always(seen) -> Play:
        wrong = seen.body.keys() - {"model", "messages", *v.takes.split()}
        return error(400, f"Unsupported parameter: {wrong}") if wrong else Play(body=body)

    return always


@pytest.mark.parametrize("name", PROVIDERS)
def test_each_provider_is_asked_as_its_documentation_says(stub, settings, monkeypatch, name):
    s, v, p = settings(), PROVIDERS[name], providers()[name]
    monkeypatch.setenv(p.key, SECRET)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", stub.url.removesuffix("/v1") + "/")
    stub.always, fields = answers_as(v), the_dialect(p.dialect or "openai-chat").fields
    how = {"decoding": {k: x for k, x in {**GIVEN, "top_k": 5}.items() if k in fields}}
    how |= {"effort": "low"} if "effort" in fields else {}
    how |= {} if name == "azure" else {"base_url": stub.url, "key": p.key}
    r = run(QUESTIONS, f"{name}/theirs", s=s, **how)
    assert r.complete and r.info.system.startswith(f"{name}/theirs[")
    assert {(a.chosen, a.reasoning) for a in r.answers().values()} == {((0,), v.tells)}
    assert {used_by(k.reply) for k in kept(s)} == {(20, 80, v.cached, v.reasoned)}
    seen = stub.seen[0]
    assert {*seen.body} == {"model", "messages", *v.takes.split()}
    keys = {x: seen.headers.get(x) for x in ("authorization", "api-key")}
    if name == "azure":
        assert seen.path == "/openai/deployments/theirs/chat/completions"
        assert seen.query == f"api-version={p.api_version}"
        assert keys == {"authorization": None, "api-key": SECRET}
    else:
        assert (seen.path, seen.query) == ("/chat/completions", "")
        assert keys == {"authorization": f"Bearer {SECRET}", "api-key": None}


def test_what_deepseek_broke_off_for_want_of_room_is_no_answer(stub, settings):
    stub.play(" q1 .", Play(text="Ann", finish="insufficient_system_resource"))
    got = ask(stub, QUESTIONS, settings())
    assert "1 of 3 failed (1 unfinished)" in got.error


def test_an_address_has_places_for_the_environment(settings, monkeypatch):
    at_home = lambda: find_system("bedrock/openai.gpt-oss-20b-1:0", settings()).model.base_url
    monkeypatch.delenv("AWS_REGION", raising=False)
    assert "{AWS_REGION}" in at_home()
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert at_home() == "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")
    azure = find_system("azure/gpt-5-mini", settings()).model
    assert azure.base_url == "https://mine.openai.azure.com/openai/deployments/gpt-5-mini"
    assert azure.dialect == "openai-reasoning"


def test_a_deployment_whose_name_says_nothing_is_told_its_dialect(stub, settings, monkeypatch):
    "The server's error says how."
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", stub.url.removesuffix("/v1"))
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", SECRET)
    newer = "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    newer += "'max_completion_tokens' instead."
    stub.always = lambda seen: (
        error(400, newer, "unsupported_parameter", "max_tokens")
        if "max_tokens" in seen.body
        else Play(body=reply_in("chat", ANN))
    )
    with pytest.raises(DataError, match="-p dialect=openai-reasoning") as e:
        run(QUESTIONS, "azure/mine", s=settings())
    assert "\n" not in str(e.value) and len(stub.seen) == 1
    assert run(QUESTIONS, "azure/mine", s=settings(), dialect="openai-reasoning").complete
    assert "max_completion_tokens" in stub.seen[-1].body


REFUSED = [
    ("openai-reasoning", "reasoning_effort", {"effort": "low"}, "effort="),
    ("openai-reasoning", "max_completion_tokens", {}, "decoding.max_tokens"),
    ("openai-responses", "effort", {"effort": "low"}, "effort="),
    (
        "anthropic-messages",
        "temperature",
        {"decoding.temperature": "0"},
        "decoding.temperature=null",
    ),
    ("anthropic-messages", "output_config", {"effort": "low"}, "effort="),
    ("gemini", "thinkingConfig", {"effort": "low"}, "effort="),
    ("vllm", "top_p", {}, "decoding.top_p=null"),
    ("vllm", "seed", {"decoding.seed": "1"}, "decoding.seed=null"),
    ("vllm", "structured_outputs", {"constraint": "choice"}, "constraint=none"),
    ("ollama", "response_format", {"constraint": "choice"}, "constraint=none"),
]


@pytest.mark.parametrize("dialect, field, how, line", REFUSED)
def test_a_refused_field_is_named_with_the_line_that_omits_it(
    stub, settings, dialect, field, how, line
):
    with pytest.raises(DataError) as e:
        asked(stub, settings, dialect, refuses=field, **how)
    assert field in str(e.value) and line in str(e.value) and "\n" not in str(e.value)
    assert len(stub.seen) == 1


NOT_TAKEN = [
    ("gpt-5", {"decoding.temperature": "1"}, "temperature"),
    ("gpt-5", {"effort": "hard"}, "effort=hard, only none, minimal"),
    ("gpt-5", {"way": "logprobs"}, "way=logprobs, only reply; leave it out: -p way=reply"),
    ("gpt-5", {"thinking": "9"}, "thinking"),
    ("gpt-5", {"dialect": "openai"}, "unknown dialect"),
    ("gpt-5", {"constraint": "regex"}, "constraint=regex, only choice, json, none"),
    ("gpt-5", {"cache": True}, "cache=True"),
    ("vllm/a-model", {"batches": True}, "batches"),
    ("claude-opus-5-5", {"message": "raw"}, "message=raw"),
    ("gpt-4o-mini", {"way": "likelihood"}, "way=likelihood"),
    ("gpt-4o-mini", {"way": "logprobs", "constraint": "choice"}, "constraint=choice, only none"),
    ("azure/gpt-5", {"decoding.top_k": "5"}, "takes no top_k"),
    ("bedrock/m", {"decoding.seed": "1"}, "Bedrock, takes no seed"),
    ("groq/m", {"way": "logprobs"}, "Groq, takes no way=logprobs"),
    ("groq/m", {"constraint": "choice"}, "constraint=choice, only json, none"),
    ("mistral/m", {"way": "logprobs"}, "Mistral, takes no way=logprobs"),
    ("together/m", {"effort": "max"}, "effort=max, only low, medium, high"),
    ("together/m", {"batches": True}, "no batches"),
    ("deepseek/m", {"constraint": "json"}, "constraint=json, only none"),
    ("deepseek/m", {"decoding.seed": "1"}, "DeepSeek, takes no seed"),
    ("xai/m", {"decoding.top_k": "5"}, "xAI, takes no top_k"),
    ("hf/m", {"effort": "low"}, "Hugging Face, takes no effort"),
    ("openrouter/m", {"message": "raw"}, "OpenRouter, takes no message=raw"),
    ("local/m", {"decoding.stop": "x"}, "stop and extra are for models of a server"),
]


@pytest.mark.parametrize("system, how, words", NOT_TAKEN)
def test_what_a_server_does_not_take_is_refused_before_it_is_asked(settings, system, how, words):
    with pytest.raises(CallError, match=words) as e:
        find_system(system, settings(), **how)
    assert "\n" not in str(e.value)


def test_a_name_such_as_gpt_5_is_enough(stub, settings):
    "Nothing reaches the server that it refuses, and what reasoning took is told."
    shape, bills = the_dialect("openai-reasoning").shape, []
    stub.always = lambda seen: Play(
        body=reply_in(shape, "Ann"),
        status=400 if seen.body.keys() & {"temperature", "top_p", "max_tokens"} else 200,
    )
    r = run(QUESTIONS, "openai/gpt-5", s=settings(), base_url=stub.url, on_summary=bills.append)
    assert r.complete and bills[0].tokens_reasoning == 64 * len(QUESTIONS) and bills[0].usd is None
    for system in ("openai/gpt-5", "gpt-5", "gpt-4o-mini[model=gpt-5]"):
        assert find_system(system, settings(), base_url=stub.url).name == r.info.system


def test_nobody_knows_how_long_a_model_reasons(settings):
    plan = planned(FERRYMAN, "gpt-5", s=settings())
    assert plan.usd_likely is None and plan.usd > 0


def test_models_of_today_have_a_dated_price_and_its_source():
    models = {name: read_model(entry) for name, entry in entries_of("language-model").items()}
    dated = {n: m for n, m in models.items() if m.price and m.price.source}
    assert len(dated) >= 20 and sum(m.reasons for m in dated.values()) >= 8
    for name, m in dated.items():
        check_taken(m)
        assert m.price.as_of >= "2026" and m.price.source.startswith("https://"), name
        assert m.context and m.price.output >= m.price.input > 0, name


def test_a_dialect_of_yours(stub, settings, tmp_path, monkeypatch):
    folder = tmp_path / "systems"
    mine = folder / "dialects" / "mine.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text(
        "title: mine\nfields: {max_tokens: longest, effort: how.hard}\n"
        "decoding: {temperature: null, top_p: null, max_tokens: 9}\n"
    )
    card = f"kind: openai\nmodel: x\nbase_url: {stub.url}\ndialect: mine\neffort: hard\n"
    (folder / "local-llm.yaml").write_text(card)
    monkeypatch.setenv("REFNB_SYSTEMS", str(folder))
    assert run(QUESTIONS, "local-llm", s=settings(systems=str(folder))).complete
    sent = {k: v for k, v in stub.seen[0].body.items() if k not in ("model", "messages")}
    assert sent == {"longest": 9, "how": {"hard": "hard"}}
    mine.write_text("title: mine\nfields: {max_tokens: [1]}\n")
    with pytest.raises(FormatError, match=r"mine\.yaml"):
        find_system("local-llm", settings(systems=str(folder)))


MORE = {
    "decoding.stop": '["\\n"]',
    "decoding.top_k": "5",
    "extra.repetition_penalty": "1.1",
    "extra.chat_template_kwargs.enable_thinking": "false",
    "extra.note": "as it is",
}


def test_stop_top_k_and_an_extra_body_are_sent_and_counted(stub, settings):
    "Each is another run and another request, however it is written."
    s, [q] = settings(), questions(1)
    sent = {"stop": ["\n"], "top_k": 5, "repetition_penalty": 1.1, "note": "as it is"}
    sent |= {"chat_template_kwargs": {"enable_thinking": False}}
    alone = [{}, *({name: text} for name, text in MORE.items())]
    folders = {ask(stub, [q], s, **how).run.folder for how in alone}
    all_at_once = ask(stub, [q], s, **MORE).run
    assert {k: stub.seen[-1].body.get(k) for k in sent} == sent
    assert len({all_at_once.folder, *folders}) == len({k.key for k in kept(s)}) == len(MORE) + 2
    typed = {"decoding.stop": ["\n"], "decoding.top_k": 5}
    inside = {k: sent[k] for k in ("repetition_penalty", "chat_template_kwargs", "note")}
    same = ask(stub, [q], s, **typed, extra=inside).run
    assert same.folder == all_at_once.folder and len(stub.seen) == len(MORE) + 2
    assert find_system("gpt-4o-mini", s, **at(stub, **MORE)).is_it(same.info)


def test_more_fields_by_the_command_line(stub, tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    call = ["run", "sample/ferryman", f"vllm/m@{stub.url}", "--limit", 1]
    given = [x for k, v in MORE.items() for x in ("-p", f"{k}={v}")]
    assert tools.here(capsys, *call, *given).status == 0
    body = stub.seen[0].body
    assert body["stop"] == ["\n"] and body["top_k"] == 5 and body["repetition_penalty"] == 1.1
    wrong = tools.here(capsys, *call, "-p", "extra.model.name=x")
    tools.one_line(wrong, 2, "extra.model.name cannot be sent", "model holds a value")
    assert len(stub.seen) == 1


CACHED = {"input": 1.0, "output": 5.0, "as_of": "2026-10", "cached": 0.1, "cache_write": 1.25}


def test_the_text_that_questions_share_is_marked_for_a_cache_and_paid_for(stub, settings):
    "It changes neither the run nor the reply's key, and the budget holds what it may cost."
    s, form = settings(), "identifyme/text-first"
    some, [other] = STORY[:2], STORY[2:3]
    used = {"input_tokens": 10, "cache_creation_input_tokens": 1000, "output_tokens": 1}
    body = {"content": [{"type": "text", "text": "- The mention refers to: Nobody"}]}
    body |= {"usage": used | {"cache_read_input_tokens": 500}}
    stub.always = lambda seen: Play(body=json.dumps(body).encode())
    how = at(stub, price=CACHED, form=form, constraint="none", s=s)
    r = run(some, "anthropic/theirs", cache=True, **how)
    first, rest = stub.seen[0].body["messages"][0]["content"]
    assert first["cache_control"] == {"type": "ephemeral"} and "cache_control" not in rest
    assert any(first["text"].endswith(q.text) for q in some)
    usd = (10 + 1000 * 1.25 + 500 * 0.1 + 1 * 5) / 1e6
    assert [a.usage.usd for a in r.answers().values()] == pytest.approx([usd] * 2)
    assert run(some, "anthropic/theirs", **how).folder == r.folder
    again = run(some[::-1], "anthropic/theirs", cache=False, **how)
    assert again.complete and len(stub.seen) == 2
    bills, size = [], len(first["text"] + rest["text"])
    poor = how | {"on_summary": bills.append, "budget": (1.1 * size + 50 * 5) / 1e6}
    run([other], "anthropic/theirs", cache=True, **poor)
    assert bills[0].stopped and len(stub.seen) == 2, "all that is read may have to be kept"
    run([other], "anthropic/theirs", **poor)
    assert not bills[1].stopped and len(stub.seen) == 3


def test_a_file_on_the_server_is_named_without_its_folder(stub, settings):
    files = {
        "/srv/models/a.gguf": "a.gguf",
        "C:\\models\\b.gguf": "b.gguf",
        "meta/llama": "meta/llama",
    }
    names = iter(files)
    stub.always = lambda seen: Play(model=next(names))
    r = run(QUESTIONS, "gpt-4o-mini", s=settings(), **at(stub))
    assert seal(r)["models"] == dict.fromkeys(sorted(files.values()), 1)
