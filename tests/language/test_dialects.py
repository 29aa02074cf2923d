"What servers take differs, and is data: each dialect against a server as strict as its vendor's, refusals of each field, reasoning kept apart and paid for, models of today."

import json
import pytest
from refnb.benchmarks.tasks import FERRYMAN, find_task, task_questions
from refnb.core.runs import Seal
from refnb.core.types import CallError, DataError, FormatError
from refnb.models.language.answering import requests_about
from refnb.models.language.models import (
    Price,
    Reply,
    at_most,
    check_taken,
    cost,
    dialects,
    language_models,
    the_dialect,
    the_model,
)
from refnb.models.language.wire import read_reply
from refnb.models.registry import find_system
from refnb.models.running import run
from stub_server import Play, error
import msgspec

pytestmark = pytest.mark.usefixtures("no_keys")
QUESTIONS = task_questions(FERRYMAN)
THOUGHTS = "Who was named last?"

# What each vendor takes: anything else is refused, as it does.
TAKES = {
    "openai-reasoning": {
        "model",
        "messages",
        "max_completion_tokens",
        "reasoning_effort",
        "response_format",
    },
    "openai-responses": {
        "model",
        "input",
        "instructions",
        "max_output_tokens",
        "reasoning",
        "text",
        "store",
    },
    "anthropic-messages": {
        "model",
        "messages",
        "system",
        "max_tokens",
        "thinking",
        "output_config",
        "temperature",
    },
    "gemini": {"contents", "systemInstruction", "generationConfig"},
    "vllm": {
        "model",
        "messages",
        "temperature",
        "top_p",
        "seed",
        "max_tokens",
        "reasoning_effort",
        "structured_outputs",
        "response_format",
    },
    "sglang": {
        "model",
        "messages",
        "temperature",
        "top_p",
        "seed",
        "max_tokens",
        "reasoning_effort",
        "regex",
        "response_format",
    },
    "llama.cpp": {
        "model",
        "messages",
        "temperature",
        "top_p",
        "seed",
        "max_tokens",
        "grammar",
        "response_format",
    },
    "ollama": {
        "model",
        "messages",
        "temperature",
        "top_p",
        "seed",
        "max_tokens",
        "reasoning_effort",
        "response_format",
    },
}


def reply_in(shape: str, text: str, cut: bool = False) -> bytes:
    "A reply as a vendor sends it: 20 tokens read, 80 written, 64 of them while it reasoned."
    if shape == "responses":
        end = (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
            if cut
            else {"status": "completed"}
        )
        said = (
            [] if cut else [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
        )
        body = end | {
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHTS}]},
                *said,
            ],
            "usage": {
                "input_tokens": 20,
                "output_tokens": 80,
                "output_tokens_details": {"reasoning_tokens": 64},
            },
        }
    elif shape == "messages":
        said = [] if cut else [{"type": "text", "text": text}]
        body = {
            "content": [{"type": "thinking", "thinking": THOUGHTS, "signature": "x"}, *said],
            "stop_reason": "max_tokens" if cut else "end_turn",
            "usage": {
                "input_tokens": 20,
                "output_tokens": 80,
                "output_tokens_details": {"thinking_tokens": 64},
            },
        }
    elif shape == "gemini":
        parts = [{"text": THOUGHTS, "thought": True}, *([] if cut else [{"text": text}])]
        return json.dumps(
            {
                "candidates": [
                    {"content": {"parts": parts}, "finishReason": "MAX_TOKENS" if cut else "STOP"}
                ],
                "modelVersion": "theirs",
                "usageMetadata": {
                    "promptTokenCount": 20,
                    "candidatesTokenCount": 16,
                    "thoughtsTokenCount": 64,
                },
            }
        ).encode()
    else:
        message = {
            "role": "assistant",
            "content": None if cut else text,
            "reasoning_content": THOUGHTS,
        }
        body = {
            "choices": [{"message": message, "finish_reason": "length" if cut else "stop"}],
            "usage": {
                "prompt_tokens": 20,
                "completion_tokens": 80,
                "completion_tokens_details": {"reasoning_tokens": 64},
            },
        }
    return json.dumps(body | {"model": "theirs"}).encode()


def vendor(dialect: str, cut: bool = False, refuses: str = ""):
    "A server that is as strict as a vendor's. It answers every question with None of the Above."
    d = the_dialect(dialect)

    def always(seen) -> Play:
        if seen.path != d.path.replace("{model}", "theirs"):
            return error(404, f"no such path: {seen.path}")
        body = seen.body
        sent = set(body) | {k for x in body.values() if isinstance(x, dict) for k in x}
        wrong = [k for k in body if k not in TAKES[dialect]] + [refuses] * (refuses in sent)
        if wrong:
            return error(
                400,
                f"Unsupported parameter: '{wrong[0]}' is not supported with this model.",
                "unsupported_parameter",
                None if refuses else wrong[0],
            )
        return Play(body=reply_in(d.shape, "- The mention refers to: None of the Above", cut))

    return always


def theirs(stub, dialect: str, **changed) -> dict:
    return dict(dialect=dialect, model="theirs", base_url=stub.url, key="") | changed


def asked(stub, settings, dialect: str, cut: bool = False, **changed):
    stub.always = vendor(dialect, cut)
    d = the_dialect(dialect)
    return run(
        FERRYMAN, f"{d.kind or 'openai'}/theirs", s=settings(), **theirs(stub, dialect, **changed)
    )


def seal_of(r) -> Seal:
    return msgspec.json.decode((r.folder / "seal.json").read_bytes(), type=Seal)


@pytest.mark.parametrize("dialect", TAKES)
def test_each_vendor_is_asked_as_it_wants(stub, settings, dialect):
    d = the_dialect(dialect)
    sampling = {} if d.decoding else {"decoding": {"max_tokens": 90, "seed": 1}}
    r = asked(
        stub, settings, dialect, **sampling, **({"effort": "low"} if "effort" in d.fields else {})
    )
    n, answers = len(QUESTIONS), r.answers().values()
    assert r.sealed and all(a.chosen and a.reasoning == THOUGHTS for a in answers)
    assert seal_of(r).tokens == {
        "read": 20 * n,
        "written": 80 * n,
        "reasoning": 64 * n,
    } and seal_of(r).models == {"theirs": n}
    assert len(stub.seen) == n
    headers = stub.seen[0].headers
    assert all(name.lower() in headers for name in d.headers or ["Authorization"])
    if d.headers:
        assert "authorization" not in headers


@pytest.mark.parametrize(
    "dialect, constraint",
    [(name, c) for name, d in dialects().items() if name in TAKES for c in d.constraints],
)
def test_what_a_reply_is_bound_to_is_passed_on(stub, settings, dialect, constraint):
    r = asked(stub, settings, dialect, constraint=constraint)
    assert r.sealed and all(a.chosen for a in r.answers().values())
    if constraint == "regex":
        assert json.dumps(QUESTIONS[0].options[0].name)[1:-1] in json.dumps(
            stub.seen[0].body
        ).replace("\\\\", "")


@pytest.mark.parametrize(
    "dialect", ["openai-reasoning", "openai-responses", "anthropic-messages", "gemini"]
)
def test_reasoning_that_eats_the_whole_limit_is_cut(stub, settings, dialect):
    r = asked(stub, settings, dialect, cut=True)
    assert {a.reason for a in r.answers().values()} == {"cut"} and seal_of(r).reasons == {
        "cut": len(QUESTIONS)
    }


REFUSED = [
    ("openai-reasoning", "reasoning_effort", "effort="),
    ("openai-reasoning", "max_completion_tokens", "decoding.max_tokens"),
    ("openai-responses", "effort", "effort="),
    ("anthropic-messages", "temperature", "decoding.temperature=null"),
    ("anthropic-messages", "output_config", "effort="),
    ("gemini", "thinkingConfig", "effort="),
    ("vllm", "top_p", "decoding.top_p=null"),
    ("vllm", "seed", "decoding.seed=null"),
    ("vllm", "structured_outputs", "constraint=none"),
    ("ollama", "response_format", "constraint=none"),
]


@pytest.mark.parametrize("dialect, field, line", REFUSED)
def test_a_refused_field_is_named_with_the_line_that_omits_it(stub, settings, dialect, field, line):
    stub.always = vendor(dialect, refuses=field)
    d = the_dialect(dialect)
    how = (
        {"constraint": "choice"}
        if "constraint" in line
        else {"effort": "low"}
        if "effort" in line
        else {}
    )
    if dialect == "anthropic-messages" and field == "temperature":
        how["decoding.temperature"] = "0"
    if field == "seed":
        how["decoding.seed"] = "1"
    with pytest.raises(DataError) as e:
        run(
            FERRYMAN,
            f"{d.kind or 'openai'}/theirs",
            s=settings(),
            concurrency=1,
            **theirs(stub, dialect, **how),
        )
    assert (
        f"does not take {field}" in str(e.value)
        and line in str(e.value)
        and "\n" not in str(e.value)
    )
    assert len(stub.seen) == 1


def test_gpt_5_by_its_name(stub, settings, capsys):
    "No temperature, top_p or max_tokens reaches a server that refuses them, and what reasoning took is in seal and output."
    d = the_dialect("openai-reasoning")

    def always(seen):
        for name in ("temperature", "top_p", "max_tokens"):
            if name in seen.body:
                return error(
                    400,
                    f"Unsupported parameter: '{name}' is not supported with this model.",
                    "unsupported_parameter",
                    name,
                )
        return Play(body=reply_in(d.shape, "- The mention refers to: None of the Above"))

    stub.always = always
    came = []
    r = run(FERRYMAN, "openai/gpt-5", s=settings(), base_url=stub.url, on_summary=came.append)
    assert r.sealed and came[0].tokens_reasoning == 64 * len(QUESTIONS) and came[0].usd is None
    for system in ("openai/gpt-5", "gpt-5", "gpt-4o-mini[model=gpt-5]"):
        assert (
            find_system(system, settings(), base_url=stub.url).name
            == r.info.system
            == f"openai/gpt-5@{stub.url}"
        )


def test_what_a_server_does_not_take_is_refused_before_it_is_asked(stub, settings):
    for system, how, words in [
        ("gpt-5", {"decoding.temperature": "1"}, "takes no temperature"),
        ("gpt-5", {"effort": "hard"}, "takes no effort=hard, only none, minimal"),
        (
            "gpt-5",
            {"way": "logprobs"},
            "takes no way=logprobs, only reply; leave it out: -p way=reply",
        ),
        ("gpt-5", {"thinking": "9"}, "takes no thinking"),
        ("claude-opus-5-5", {"batches": True}, "takes no batches"),
        ("gpt-5", {"dialect": "openai"}, "unknown dialect"),
        ("gpt-4o-mini", {"way": "likelihood"}, "takes no way=likelihood"),
        ("claude-opus-5-5", {"message": "raw"}, "takes no message=raw"),
        (
            "gpt-4o-mini",
            {"way": "logprobs", "constraint": "choice"},
            "takes no constraint=choice, only none",
        ),
        ("gpt-5", {"constraint": "regex"}, "takes no constraint=regex, only choice, json, none"),
    ]:
        with pytest.raises(CallError, match=words) as e:
            find_system(system, settings(), **how)
        assert "\n" not in str(e.value)


def test_another_address_does_not_get_the_key(stub, settings, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up-for-this-test")
    run(FERRYMAN, "gpt-4o-mini", s=settings(), base_url=stub.url)
    assert all("made-up" not in str(s.headers) for s in stub.seen) and stub.seen


def test_nobody_knows_how_long_a_model_reasons(settings):
    plan = find_system("gpt-5", settings()).plan(find_task(FERRYMAN, settings()), QUESTIONS)
    assert plan.usd_likely is None and plan.usd > 0


def test_models_of_today_have_a_dated_price_and_its_source():
    known = {n: m for n, m in language_models().items() if m.price and m.price.source}
    assert len(known) >= 20 and sum(m.reasons for m in known.values()) >= 8
    for name, m in known.items():
        check_taken(m)
        assert (
            m.price.as_of >= "2026"
            and m.price.source.startswith("https://")
            and m.context
            and m.price.output >= m.price.input > 0
        ), name


def test_a_dialect_of_yours(stub, settings, tmp_path, monkeypatch):
    folder = tmp_path / "systems"
    (folder / "dialects").mkdir(parents=True)
    (folder / "dialects" / "mine.yaml").write_text(
        "title: mine\nfields: {max_tokens: longest, effort: how.hard}\ndecoding: {temperature: null, top_p: null, max_tokens: 9}\n"
    )
    (folder / "local-llm.yaml").write_text(
        f"kind: openai\nmodel: x\nbase_url: {stub.url}\ndialect: mine\neffort: hard\n"
    )
    monkeypatch.setenv("REFNB_SYSTEMS", str(folder))
    assert run(FERRYMAN, "local-llm", s=settings(systems=str(folder))).sealed
    assert {k: v for k, v in stub.seen[0].body.items() if k not in ("model", "messages")} == {
        "longest": 9,
        "how": {"hard": "hard"},
    }
    (folder / "dialects" / "mine.yaml").write_text("title: mine\nfields: {max_tokens: [1]}\n")
    with pytest.raises(FormatError, match=r"mine\.yaml"):
        the_dialect("mine")


def test_the_text_that_questions_share_is_marked_for_a_cache(stub, settings):
    "It changes neither the reply's key nor the run, and what it costs to keep is counted."
    stub.always = vendor("anthropic-messages")
    price = Price(1.0, 5.0, "2026-10", cached=0.1, cache_write=1.25)
    r = run(
        FERRYMAN,
        "anthropic/theirs",
        s=settings(),
        cache=True,
        form="identifyme/text-first",
        **theirs(stub, "anthropic-messages"),
    )
    first, rest = stub.seen[0].body["messages"][0]["content"]
    assert (
        first["cache_control"] == {"type": "ephemeral"}
        and first["text"].endswith(QUESTIONS[0].text)
        and "cache_control" not in rest
    )
    assert r.info.system == f"anthropic/theirs@{stub.url}[form=identifyme/text-first]"
    m = the_model("claude-opus-5-5", cache=True).changed(price=price)
    ask = next(requests_about(m, QUESTIONS[0], "identifyme/text-first")).ask
    assert (
        ask.key
        == next(
            requests_about(m.changed(cache=False), QUESTIONS[0], "identifyme/text-first")
        ).ask.key
    )
    body = {
        "content": [{"type": "text", "text": "x"}],
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 1000,
            "cache_read_input_tokens": 500,
            "output_tokens": 1,
        },
    }
    reply = read_reply(json.dumps(body).encode(), ask)
    assert cost(m, reply) == pytest.approx(
        (10 + 1000 * 1.25 + 500 * 0.1 + 1 * 5) / 1e6
    ) and at_most(m, ask) >= cost(
        m, Reply(tokens_in=200, tokens_kept=200, tokens_out=m.decoding.max_tokens)
    )
    with pytest.raises(CallError, match="takes no cache=True"):
        find_system("gpt-5", settings(), cache=True)


def test_a_file_on_the_server_is_named_without_its_folder():
    body = {"model": "/srv/models/small.gguf", "choices": [{"message": {"content": "x"}}]}
    ask = next(requests_about(the_model("gpt-4o-mini"), QUESTIONS[0], "identifyme/desc")).ask
    assert [
        read_reply(json.dumps(body | {"model": n}).encode(), ask).model
        for n in (body["model"], "C:\\models\\small.gguf", "meta/llama")
    ] == ["small.gguf", "small.gguf", "meta/llama"]
