"Dialects, each against a server as strict as its vendor's; refused fields, reasoning, prices."

import json
import pytest
from asking import at, questions, seal
from refnb import find_system, run
from refnb.benchmarks.tasks import FERRYMAN, task_questions
from refnb.core.types import CallError, DataError, FormatError
from refnb.models.language.models import check_taken, dialects, read_model, the_dialect
from refnb.models.registry import entries_of
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
    stub.always, d = vendor(dialect, cut, refuses), the_dialect(dialect)
    how = dict(dialect=dialect, model="theirs", base_url=stub.url, key="") | changed
    return run(QUESTIONS, f"{d.kind or 'openai'}/theirs", s=settings(), **how)


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


CACHED = {"input": 1.0, "output": 5.0, "as_of": "2026-10", "cached": 0.1, "cache_write": 1.25}


def test_the_text_that_questions_share_is_marked_for_a_cache_and_paid_for(stub, settings):
    "It changes neither the run nor the reply's key, and the budget holds what it may cost."
    s, form = settings(), "identifyme/text-first"
    some, [other] = STORY[:2], STORY[2:3]
    used = {"input_tokens": 10, "cache_creation_input_tokens": 1000, "output_tokens": 1}
    body = {"content": [{"type": "text", "text": "- The mention refers to: Nobody"}]}
    body |= {"usage": used | {"cache_read_input_tokens": 500}}
    stub.always = lambda seen: Play(body=json.dumps(body).encode())
    how = at(stub, dialect="anthropic-messages", model="theirs", price=CACHED, form=form, s=s)
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
