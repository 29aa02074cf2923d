"The first hour on the command line: doctor, the list of runs, several runs in one command, devices, and quiet runs."

import json
import pytest
import refnb.commands.cli as cli
import refnb.commands.running as running
import refnb.results.doctor as doctor
import tools
from refnb.core.settings import load_settings
from refnb.models.language.models import fault_of_device
from refnb.models.weights import device_for
from refnb.core.types import DataError

TASK = "sample/ferryman"  # 29 questions


@pytest.fixture
def refnb(tmp_path, monkeypatch, capsys):
    "Run a command in this process, in an empty folder."
    tools.live_in(monkeypatch, tmp_path)
    return lambda *args: tools.here(capsys, *args)


def findings(said: tools.Said) -> dict[str, dict]:
    return {f["what"]: f for f in json.loads(said.out)["findings"]}


# doctor


def test_doctor_finds_a_machine_that_works(refnb, tmp_path):
    said = refnb("doctor", "--json")
    got = findings(said)
    assert (
        said.status == 0
        and said.err == ""
        and json.loads(said.out)["works"]
        and not any(f["fault"] for f in got.values())
    )
    assert [f["about"] for f in got.values()] == sorted(
        (f["about"] for f in got.values()), key=["installed", "reachable", "set", "missing"].index
    )
    assert {w for w in got if w.startswith("extra ")} == {
        "extra models",
        "extra ray",
        "extra hub",
        "extra dev",
    }
    assert got["runs"]["found"].startswith(f"{tmp_path}/runs: can be written, not made yet")
    assert "refnb fetch" in got["upstream sets"]["do"]
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"


def test_doctor_as_a_table(refnb):
    lines = refnb("doctor").out.splitlines()
    assert lines[0].split("\t") == ["about", "what", "found", "to do"] and {
        l.count("\t") for l in lines
    } == {3}


def test_doctor_shows_no_key(refnb, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "never shown")
    monkeypatch.setenv("REFNB_HOST", "https://me:password@example.org/files")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    said = refnb("doctor", "--json")
    assert (
        "never shown" not in said.all
        and "password" not in said.all
        and "public host (example.org)" in findings(said)
    )
    assert (
        findings(said)["OPENAI_API_KEY"]["found"],
        findings(said)["GEMINI_API_KEY"]["found"],
    ) == ("set", "not set")


def test_doctor_says_how_to_install_what_is_missing(monkeypatch):
    real = doctor.version

    def version(name):
        if name in ("ray", "torch"):
            raise doctor.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor, "version", version)
    got = {f.what: f for f in doctor.installed()}
    assert (got["extra ray"].found, got["extra ray"].do) == (
        "ray (missing)",
        "pip install 'refnb[ray]'",
    )
    assert (
        "torch (missing)" in got["extra models"].found
        and got["extra models"].do
        and not got["extra models"].fault
    )
    monkeypatch.setattr(
        doctor, "version", lambda name: version("ray" if name == "rapidfuzz" else name)
    )
    assert next(f for f in doctor.installed() if f.fault)[1:4] == (
        "required packages",
        "missing: rapidfuzz",
        "pip install refnb",
    )


@pytest.mark.parametrize("text", ["[refnb]\njbos = 3\n", "[refnb]\nno sense\n"])
def test_doctor_with_a_broken_settings_ini(refnb, tmp_path, text):
    (tmp_path / "settings.ini").write_text(text)
    said = refnb("doctor", "--json")
    tools.one_line(said, 1, "refnb: 1 fault: refnb cannot work here; see above")
    got = findings(said)
    assert (
        got["settings"]["fault"] and "settings.ini" in got["settings"]["found"] and "Python" in got
    )


def test_doctor_with_a_folder_that_cannot_be_written(refnb, tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("REFNB_RUNS", str(tmp_path / "a file" / "runs"))
    said = refnb("doctor")
    tools.one_line(said, 1, "1 fault")
    assert f"FAULT: {tmp_path}/a file/runs cannot be written" in said.out


def test_doctor_with_an_upstream_folder_that_is_gone(refnb, monkeypatch):
    monkeypatch.setenv("REFNB_UPSTREAM", "/nonexistent/x")
    said = refnb("doctor", "--json")
    tools.one_line(said, 1, "refnb cannot work here")
    assert findings(said)["upstream"]["found"] == "/nonexistent/x: no such folder"


def test_doctor_loads_no_model_library(tmp_path):
    code = "from refnb.commands.cli import main; main(['doctor', '--json']); import sys; print([m for m in ('torch', 'transformers', 'pandas', 'huggingface_hub') if m in sys.modules], file=sys.stderr)"
    assert tools.ended(tools.start(tmp_path, code=code)).err == "[]\n"


# list runs


def runs(said: tools.Said) -> list[dict]:
    return json.loads(said.out)["runs"]


def test_list_runs(refnb, tmp_path):
    assert (
        refnb("list", "runs").out == f"no runs in {tmp_path}/runs\n"
        and runs(refnb("list", "runs", "--json")) == []
    )
    refnb("run", TASK, "word-overlap")
    refnb("run", TASK, "random", "--limit", 5)
    refnb("run", "sample/kitmus", "random", "--limit", 2)
    lines = [l.split("\t") for l in refnb("list", "runs").out.splitlines()]
    assert lines[0] == ["task", "system", "state", "score (%)", "USD", "date", "folder"]
    score = f"{100 * json.loads(refnb('score', 'choice', f'{TASK}:word-overlap', '--json').out)['groups']['all']['accuracy']:.1f}"
    assert [l[:4] for l in lines[1:]] == [
        [TASK, "random", "open, 5 of 29 answered", ""],
        [TASK, "word-overlap", "complete", f"{score} (accuracy)"],
        ["sample/kitmus", "random", "open, 2 of 60 answered", ""],
    ]
    assert [r["system"] for r in runs(refnb("list", "runs", TASK, "--json"))] == [
        "random",
        "word-overlap",
    ]
    assert (
        len(runs(refnb("list", "runs", "sample/k*", "--json"))) == 1
        and len(runs(refnb("list", "runs", "sample", "--json"))) == 3
    )


def test_a_damaged_run_is_one_line_of_the_list(refnb, tmp_path):
    for system in ("random", "word-overlap", "tfidf-words"):
        refnb("run", TASK, system)
    at = lambda system: next((tmp_path / "runs" / TASK / system).iterdir())
    (at("random") / "run.json").write_text("{")
    (at("tfidf-words") / "run.json").unlink()
    got = runs(refnb("list", "runs", "--json"))
    assert sorted(r["state"] for r in got) == ["complete", "damaged", "damaged"] and all(
        bool(r["note"]) == (r["state"] == "damaged") for r in got
    )
    assert refnb("list", "runs").out.count("damaged: ") == 2
    journal = at("word-overlap") / "answers.jsonl"
    journal.write_bytes(journal.read_bytes()[:-40])
    assert {r["state"] for r in runs(refnb("list", "runs", "--json"))} == {"damaged"}


def test_a_run_on_a_file_is_scored_with_its_questions(refnb, tmp_path):
    from refnb.core.files import write_jsonl
    from refnb.core.types import Option, Question

    write_jsonl(
        tmp_path / "q.jsonl",
        [
            Question(f"d:{i}", "d", options=(Option("a"), Option("b")), right=(0,), meta={})
            for i in range(3)
        ],
        canary=True,
    )
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems" / "first.py").write_text("def answer(question): return 0\n")
    (tmp_path / "systems" / "first.yaml").write_text("function: first.py:answer\n")
    assert refnb("run", "q.jsonl", "first").status == 0
    (row,) = runs(refnb("list", "runs", "--json"))
    assert (row["of"], row["answered"], row["score"], row["failed"]) == (3, 3, 100, 0)


def test_a_list_of_runs_of_an_unknown_task(refnb):
    tools.one_line(
        refnb("list", "runs", "sample/ferymann"),
        2,
        "no task 'sample/ferymann'; did you mean sample/ferryman?",
    )


# Several at once


def test_several_systems(refnb):
    said = refnb("run", TASK, "random", "word-overlap")
    lines = said.out.splitlines()
    assert (
        said.status == 0
        and len(lines) == 3
        and lines[0].startswith(f"random on {TASK}: accuracy ")
        and "of 29; complete: " in lines[1]
        and lines[2] == "2 of 2 done"
    )
    got = json.loads(refnb("run", TASK, "random", "word-overlap", "--json").out)
    alone = json.loads(refnb("run", TASK, "random", "--json").out)
    assert (
        isinstance(alone, dict)
        and got[0] == alone
        and [x["system"] for x in got] == ["random", "word-overlap"]
    )


def test_one_that_fails_does_not_stop_the_others(refnb):
    said = refnb("run", TASK, "nearest-mention", "random")
    lines = said.err.splitlines()
    assert said.status == 1 and f"random on {TASK}: accuracy " in said.out and len(lines) == 2
    assert (
        lines[0].startswith(f"refnb: nearest-mention on {TASK}: ")
        and lines[1] == f"refnb: 1 of 2 failed: nearest-mention on {TASK}; see above"
    )
    got = json.loads(refnb("run", TASK, "nearest-mention", "random", "--json").out)
    assert "needs the field" in got[0]["error"] and got[1]["sealed"]


def test_a_pattern_of_tasks(refnb):
    got = json.loads(refnb("run", "sample/[fk]*", "random", "--json", "--limit", 2).out)
    assert [(x["task"], x["answered"]) for x in got] == [
        ("sample/ferryman", 2),
        ("sample/kitmus", 2),
    ]
    planned = json.loads(refnb("run", "sample/[fk]*", "random", "--json", "--dry-run").out)
    assert [x["questions"] for x in planned] == [29, 60] and refnb(
        "run", "sample/[fk]*", "random", "--dry-run"
    ).out.endswith("2 of 2 done, for at most 0 USD\n")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("nosuch/* random", "no task matches 'nosuch/*'"),
        (f"{TASK} random raondm", "unknown system 'raondm'; did you mean random?"),
        (f"{TASK} random --device cpu", "random has no settings"),
    ],
)
def test_wrong_names_are_refused_before_anything_is_asked(refnb, tmp_path, call, said):
    tools.one_line(refnb("run", *call.split()), 2, said)
    assert not (tmp_path / "runs").exists()


def test_a_file_with_a_star_in_its_name_is_a_file(refnb, tmp_path):
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "*").write_text("")
    assert running.tasks_named("sample/*", False, load_settings()) == ["sample/*"]


# quiet, device, and the order of commands


def test_quiet(refnb):
    said = refnb("run", TASK, "random", "--quiet")
    assert (
        said.err == ""
        and len(said.out.splitlines()) == 1
        and said.out.startswith(f"random on {TASK}: accuracy ")
    )
    assert (
        refnb("run", TASK, "random", "--quiet", "--json").out
        == refnb("run", TASK, "random", "--json").out
    )
    assert refnb("run", TASK, "random", "word-overlap", "--quiet") == (0, "2 of 2 done\n", "")
    tools.one_line(refnb("run", TASK, "nearest-mention", "--quiet"), 1, "needs the field")


class FakeTorch:
    "What is asked of torch to choose a device, on a machine with two GPUs."

    class cuda:
        is_available, device_count = staticmethod(lambda: True), staticmethod(lambda: 2)

    class backends:
        class mps:
            is_available = staticmethod(lambda: False)


def test_devices():
    assert [device_for(FakeTorch, d) for d in ("", "cpu", "cuda", "cuda:1")] == [
        "cuda",
        "cpu",
        "cuda",
        "cuda:1",
    ]
    for absent in ("cuda:2", "mps"):
        with pytest.raises(DataError, match=f"no {absent}"):
            device_for(FakeTorch, absent)
    assert all(map(fault_of_device, ["gpu", "cuda:", "cuda:x", "CPU", "cpu:0"])) and not any(
        map(fault_of_device, ["", "cpu", "mps", "cuda:12"])
    )


def test_a_device_is_a_setting_that_changes_no_name(refnb):
    from refnb.models.registry import find_system

    for name in ("smollm2-135m", "minilm"):
        assert find_system(name, device="cpu").name == name
    tools.one_line(
        refnb("run", TASK, "gpt-4o-mini", "--device", "cpu", "--dry-run"),
        2,
        "its server computes elsewhere",
    )
    tools.one_line(
        refnb("run", TASK, "smollm2-135m", "--device", "gpu", "--dry-run"),
        2,
        "device: 'gpu' is none; say cpu, cuda, cuda:1 or mps",
    )


def test_commands_are_listed_in_the_order_in_which_they_are_needed(refnb):
    text = refnb("--help").out.partition("Commands:")[2]
    shown = [l.split()[0] for l in text.splitlines() if l.startswith("  ") and l[2:3] != " "]
    assert shown[:3] == ["doctor", "list", "fetch"] and shown == list(cli.COMMANDS)


# A share of a task


def test_a_share_is_whole_documents_and_a_task_of_its_own(refnb, tmp_path):
    said = refnb("run", "sample/identifyme", "random", "--fraction", "0.4", "--json")
    told = json.loads(said.out)
    assert (
        told["task"] == "sample/identifyme/sample0.4"
        and "of 338 questions, in 3 of 6 documents" in said.err
    )
    assert (
        told["groups"]["all"]["documents"] == 3
        and abs(told["groups"]["all"]["n"] / 338 - 0.4) < 0.1
    )
    assert (
        json.loads(refnb("run", "sample/identifyme/sample0.4", "random", "--json").out)["run"]
        == told["run"]
    )
    assert (
        json.loads(refnb("run", "sample/identifyme", "random", "--json").out)["run"] != told["run"]
    )
    assert (
        json.loads(refnb("score", "choice", "sample/identifyme/sample0.4:random", "--json").out)[
            "questions"
        ]
        == told["groups"]["all"]["n"]
    )


def test_a_larger_share_contains_the_smaller():
    from refnb.benchmarks.tasks import drawn_ids

    ids, docs = [f"q{i}" for i in range(100)], [f"d{i // 4}" for i in range(100)]
    few, more = (drawn_ids(ids, x, docs) for x in (0.2, 0.5))
    assert len(few) == 20 and few < more and len(more) in (48, 52) and drawn_ids(ids, 0.001, docs)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("sample/identifyme random --fraction 1.5", "1.5 is not a share"),
        ("sample/identifyme random --fraction -1", "-1 is not a share"),
        ("sample/identifyme random --fraction 0.1 --limit 3", "say --fraction or --limit"),
        ("sample/bookcoref pattern-matching --fraction 0.5", "has documents, not questions"),
    ],
)
def test_a_share_that_is_none(refnb, tmp_path, call, said):
    tools.one_line(refnb("run", *call.split()), 2, said)
    assert not (tmp_path / "runs").exists()


# Answers and questions in files of others


@pytest.fixture
def asked(tmp_path):
    "Four questions, in a file."
    from refnb.core.files import write_jsonl
    from refnb.core.types import NONE, Option, Question

    write_jsonl(
        tmp_path / "q.jsonl",
        [
            Question(
                f"q:{i}",
                f"d{i}",
                "She ran.",
                (0, 3),
                (Option("Ann"), Option("Bea, Jr."), Option(NONE)),
                (1,),
            )
            for i in range(4)
        ],
        canary=True,
    )


def test_answers_in_csv(refnb, tmp_path, asked):
    (tmp_path / "a.csv").write_bytes(
        b'\xef\xbb\xbfNote,Question_ID, Answer\r\n,q:0,"bea, jr."\r\n,q:1,b\r\n,q:2,0\r\n,q:3,\r\n'
    )
    got = json.loads(refnb("score", "choice", "a.csv", "--gold", "q.jsonl", "--json").out)[
        "groups"
    ]["all"]
    assert (got["accuracy"], got["n"], got["missing"]) == (0.5, 4, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,answer\nq:0,Cleo\n", "line 2: 'Cleo' is none of the options of 'q:0'"),
        ("id,answer\nq:0,D\n", "'D' is none"),
        ("id,answer\nq:0,-1\n", "'-1' is none"),
        ("id,answer\nx,A\n", "line 2: 'x' is not a question"),
        ("id,answer\nq:0,A\nq:0,A\n", "line 3: 'q:0' appears twice"),
        ("id,text\nq:0,A\n", "the header has no column answer"),
        ("id,answer,choice\nq:0,A,A\n", "could both be meant"),
        ("id,answer\nq:0,A,B\n", "3 columns instead of 2"),
        ("q:0,A\n", "the header has no column id"),
    ],
)
def test_csv_is_read_strictly(refnb, tmp_path, asked, text, said):
    (tmp_path / "a.csv").write_text(text)
    tools.one_line(refnb("score", "choice", "a.csv", "--gold", "q.jsonl"), 1, "a.csv", said)


def test_gap_predictions_there_and_back(refnb, tmp_path, asked):
    (tmp_path / "a.tsv").write_text(
        "q:0\tFALSE\tTRUE\nq:1\tTRUE\tFALSE\nq:2\tFALSE\tFALSE\nq:3\tTrue\tTrue\n"
    )
    assert (
        json.loads(refnb("score", "choice", "a.tsv", "--gold", "q.jsonl", "--json").out)["groups"][
            "all"
        ]["accuracy"]
        == 0.25
    )
    refnb("run", "q.jsonl", "always-first")
    assert refnb("export", "q.jsonl:always-first", "--to", "gap", "--out", "b.tsv").status == 0
    assert (tmp_path / "b.tsv").read_text() == "".join(f"q:{i}\tTRUE\tFALSE\n" for i in range(4))
    tools.one_line(
        refnb("export", f"{TASK}/sample7:random", "--to", "gap", "--out", "c.tsv"),
        1,
        "answers are not here",
    )
    (tmp_path / "a.tsv").write_text("q:0\tFALSE\tTRUE\nq:1\tperhaps\tTRUE\n")
    tools.one_line(refnb("score", "choice", "a.tsv", "--gold", "q.jsonl"), 1, "a.tsv", "line 2")


def test_what_build_makes_every_verb_takes(refnb, tmp_path):
    assert (
        refnb(
            "build",
            "kitmus",
            "--out",
            "kit",
            "--sizes",
            "2,2,6",
            "--variants",
            "background-both",
            "--entities",
            "2",
        ).status
        == 0
    )
    folder = "kit/background-both/subtask_2_ents/full-text"
    scores = set()
    for end in ("jsonlines", "v4_gold_conll", "tsv"):
        file = f"{folder}/test.{end}"
        also = ["last-mention"] if end == "tsv" else []
        assert refnb("run", file, "always-first", *also).status == 0
        scores.add(
            json.loads(refnb("score", "choice", f"{file}:always-first", "--json").out)["groups"][
                "all"
            ]["accuracy"]
        )
        assert refnb("view", f"{file}:always-first").status == 0
    assert len(scores) == 1
    assert (
        len(runs(refnb("list", "runs", "given", "--json"))) == 3
        and "2 tasks" in refnb("report").out
    )
    assert (
        refnb(
            "compare", f"{folder}/test.tsv:always-first", f"{folder}/test.tsv:last-mention"
        ).status
        == 0
    )
    assert (
        refnb("export", f"{folder}/test.jsonlines", "--to", "inspect", "--out", "ins").status == 0
    )
    for pair in (("jsonlines", "v4_gold_conll"), ("v4_gold_conll", "jsonlines")):
        assert (
            json.loads(
                refnb("score", "coref", *(f"{folder}/test.{end}" for end in pair), "--json").out
            )["conll"]["f1"]
            == 100
        )


def test_what_collect_makes_every_verb_takes(refnb, tmp_path):
    from refnb.core.settings import packaged

    (tmp_path / "test.json").write_bytes(packaged("data/sample/altentities.json").read_bytes())
    got = json.loads(refnb("run", "test.json", "word-overlap", "--json").out)
    same = json.loads(refnb("run", "sample/altentities", "word-overlap", "--json").out)
    assert (
        got["groups"]["all"]["accuracy"] == same["groups"]["all"]["accuracy"]
        and refnb("view", "test.json:word-overlap").status == 0
    )


def test_a_file_and_an_unknown_system(refnb, asked):
    tools.one_line(refnb("score", "choice", "q.jsonl:raondm"), 2, "unknown system 'raondm'")
    tools.one_line(refnb("score", "choice", "q.jsonl:random"), 1, "no complete run of random")


def test_a_task_without_texts_names_the_one_that_has_them(refnb, monkeypatch):
    from refnb.core.types import Question, Option
    from refnb.models.language.prompts import chars_of

    with pytest.raises(DataError, match="ask identifyme/litbank/test"):
        chars_of(Question("a:1", "a", options=(Option("x"),), right=(0,)))


def test_a_pattern_gives_each_system_what_it_can_answer(refnb):
    got = json.loads(refnb("run", "sample/[bf]*", "random", "--limit", "2", "--json").out)
    assert [x["task"] for x in got] == ["sample/ferryman", "sample/bookcoref/filter"] or {
        x["task"] for x in got
    } == {"sample/ferryman", "sample/bookcoref/filter"}


# Help and completion


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("refnb ru", "run"),
        ("refnb build k", "kitmus"),
        ("refnb run --fract", "--fraction"),
        ("refnb run sample/ferry", TASK),
        (f"refnb run {TASK} word-o", "word-overlap"),
    ],
)
def test_completion(tmp_path, words, offered):
    env = {
        "_REFNB_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    said = tools.ended(
        tools.start(tmp_path, code="from refnb.commands.cli import run; run()", **env)
    )
    assert offered in said.out.split() and said.err == ""


@pytest.mark.parametrize(
    ("benchmark", "has", "lacks"),
    [
        ("identifyme", "--names", "--sizes"),
        ("kitmus", "--sizes", "--corpus"),
        ("altentities", "TABLE", "--corpus"),
        ("filter", "words=400", "--names"),
    ],
)
def test_help_of_build_is_a_page_for_each_benchmark(refnb, benchmark, has, lacks):
    text = refnb("build", benchmark, "--help").out
    assert has in text and lacks not in text and benchmark in refnb("build", "--help").out
