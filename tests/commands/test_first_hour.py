"The first hour on the command line: doctor, the list of runs, several runs in one command, shares, files of others."

import json
import pytest
import refnb.results.doctor as doctor
import tools
from refnb.core.files import write_jsonl
from refnb.core.settings import packaged
from refnb.core.types import NONE, DataError, Option, Question
from refnb.models.language.models import fault_of_device
from refnb.models.weights import device_for

TASK = "sample/ferryman"  # 29 questions


@pytest.fixture
def refnb(tmp_path, monkeypatch, capsys):
    "Run a command in this process, in an empty folder."
    tools.live_in(monkeypatch, tmp_path)
    return lambda call: tools.here(capsys, *call.split())


@pytest.fixture
def told(refnb):
    "What a command says with --json."
    return lambda call: json.loads(refnb(f"{call} --json").out)


def findings(said: tools.Said) -> dict[str, dict]:
    return {f["what"]: f for f in json.loads(said.out)["findings"]}


# doctor


def test_doctor_finds_a_machine_that_works(refnb, tmp_path):
    said = refnb("doctor --json")
    got, order = findings(said), ["installed", "reachable", "set", "missing"]
    assert said.status == 0 and said.err == "" and json.loads(said.out)["works"]
    assert not any(f["fault"] for f in got.values())
    about = [order.index(f["about"]) for f in got.values()]
    assert about == sorted(about)
    extras = {w for w in got if w.startswith("extra ")}
    assert extras == {"extra models", "extra ray", "extra hub", "extra dev"}
    assert got["runs"]["found"].startswith(f"{tmp_path}/runs: can be written, not made yet")
    assert "refnb fetch" in got["upstream sets"]["do"]
    lines = refnb("doctor").out.splitlines()
    assert lines[0].split("\t") == ["what", "is", "found", "to do"]
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"


def test_doctor_shows_no_key(refnb, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "never shown")
    monkeypatch.setenv("REFNB_HOST", "https://me:password@example.org/files")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    said = refnb("doctor --json")
    got = findings(said)
    assert "never shown" not in said.all and "password" not in said.all
    assert "public host (example.org)" in got
    keys = [got[k]["found"] for k in ("OPENAI_API_KEY", "GEMINI_API_KEY")]
    assert keys == ["set", "not set"]


def test_doctor_says_how_to_install_what_is_missing(monkeypatch):
    real, gone = doctor.version, {"ray", "torch"}

    def version(name):
        if name in gone:
            raise doctor.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor, "version", version)
    got = {f.what: f for f in doctor.installed()}
    ray, models = got["extra ray"], got["extra models"]
    assert (ray.found, ray.do) == ("ray (missing)", "pip install 'refnb[ray]'")
    assert "torch (missing)" in models.found and models.do and not models.fault
    gone.add("rapidfuzz")
    fault = next(f for f in doctor.installed() if f.fault)
    assert fault[1:4] == ("required packages", "missing: rapidfuzz", "pip install refnb")


def test_doctor_finds_faults(refnb, tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("REFNB_RUNS", str(tmp_path / "a file" / "runs"))
    said = refnb("doctor")
    tools.one_line(said, 1, "1 fault")
    assert f"FAULT: {tmp_path}/a file/runs cannot be written" in said.out
    monkeypatch.delenv("REFNB_RUNS")
    monkeypatch.setenv("REFNB_UPSTREAM", "/nonexistent/x")
    assert findings(refnb("doctor --json"))["upstream"]["found"] == "/nonexistent/x: no such folder"
    (tmp_path / "settings.ini").write_text("[refnb]\njbos = 3\n")
    said = refnb("doctor --json")
    tools.one_line(said, 1, "refnb: 1 fault: refnb cannot work here; see above")
    got = findings(said)
    assert got["settings"]["fault"] and "settings.ini" in got["settings"]["found"]
    assert "Python" in got


def test_doctor_loads_no_model_library(tmp_path):
    code = "from refnb.commands.cli import main; main(['doctor', '--json']); import sys; print([m for m in ('torch', 'transformers', 'pandas', 'huggingface_hub') if m in sys.modules], file=sys.stderr)"
    assert tools.ended(tools.start(tmp_path, code=code)).err == "[]\n"


# list runs


def test_list_runs(refnb, told, tmp_path):
    assert refnb("list runs").out == f"no runs in {tmp_path}/runs\n"
    for call in (
        f"{TASK} word-overlap",
        f"{TASK} random --limit 5",
        "sample/kitmus random --limit 2",
    ):
        refnb(f"run {call}")
    head, *lines = (line.split("\t") for line in refnb("list runs").out.splitlines())
    assert head == ["task", "system", "state", "score (%)", "USD", "date", "folder"]
    score = 100 * told(f"score choice {TASK}:word-overlap")["groups"]["all"]["accuracy"]
    assert [line[:4] for line in lines] == [
        [TASK, "random", "open, 5 of 29 answered", ""],
        [TASK, "word-overlap", "complete", f"{score:.1f} (accuracy)"],
        ["sample/kitmus", "random", "open, 2 of 60 answered", ""],
    ]
    systems = [r["system"] for r in told(f"list runs {TASK}")["runs"]]
    assert systems == ["random", "word-overlap"]
    assert [len(told(f"list runs {x}")["runs"]) for x in ("sample/k*", "sample")] == [1, 3]


def test_a_damaged_run_is_one_line_of_the_list(refnb, told, tmp_path):
    for system in ("random", "word-overlap", "tfidf-words"):
        refnb(f"run {TASK} {system}")
    at = lambda system: next((tmp_path / "runs" / TASK / system).iterdir())
    (at("random") / "run.json").write_text("{")
    (at("tfidf-words") / "run.json").unlink()
    got = told("list runs")["runs"]
    assert sorted(r["state"] for r in got) == ["complete", "damaged", "damaged"]
    assert all(bool(r["note"]) == (r["state"] == "damaged") for r in got)
    assert refnb("list runs").out.count("damaged: ") == 2
    journal = at("word-overlap") / "answers.jsonl"
    journal.write_bytes(journal.read_bytes()[:-40])
    assert {r["state"] for r in told("list runs")["runs"]} == {"damaged"}


# Several at once


def test_several_systems(refnb, told):
    said = refnb(f"run {TASK} random word-overlap")
    first, second, last = said.out.splitlines()
    assert said.status == 0 and first.startswith(f"random on {TASK}: accuracy ")
    assert "of 29; complete: " in second and last == "2 of 2 complete"
    got = told(f"run {TASK} random word-overlap")
    assert got[0] == told(f"run {TASK} random")
    assert [x["system"] for x in got] == ["random", "word-overlap"]


def test_one_that_fails_does_not_stop_the_others(refnb, told):
    said = refnb(f"run {TASK} nearest-mention random")
    first, last = said.err.splitlines()
    assert said.status == 1 and f"random on {TASK}: accuracy " in said.out
    assert first.startswith(f"refnb: nearest-mention on {TASK}: ")
    assert last == f"refnb: 1 of 2 failed: nearest-mention on {TASK}; see above"
    got = told(f"run {TASK} nearest-mention random")
    assert "needs the field" in got[0]["error"] and got[1]["sealed"]


def test_a_pattern_of_tasks(refnb, told, tmp_path):
    got = told("run sample/[fk]* random --limit 2")
    assert [(x["task"], x["answered"]) for x in got] == [(TASK, 2), ("sample/kitmus", 2)]
    assert [x["questions"] for x in told("run sample/[fk]* random --dry-run")] == [29, 60]
    said = refnb("run sample/[fk]* random --dry-run")
    assert said.out.endswith("2 of 2 planned, for at most 0 USD\n")
    got = told("run sample/[bf]* random --limit 2")  # each system gets what it can answer
    assert {x["task"] for x in got} == {TASK, "sample/bookcoref/filter"}


# Devices


class FakeTorch:
    "What is asked of torch to choose a device, on a machine with two GPUs."

    class cuda:
        is_available, device_count = staticmethod(lambda: True), staticmethod(lambda: 2)

    class backends:
        class mps:
            is_available = staticmethod(lambda: False)


def test_devices():
    named = [device_for(FakeTorch, d) for d in ("", "cpu", "cuda", "cuda:1")]
    assert named == ["cuda", "cpu", "cuda", "cuda:1"]
    for absent in ("cuda:2", "mps"):
        with pytest.raises(DataError, match=f"no {absent}"):
            device_for(FakeTorch, absent)
    assert all(map(fault_of_device, ["gpu", "cuda:", "cuda:x", "CPU", "cpu:0"]))
    assert not any(map(fault_of_device, ["", "cpu", "mps", "cuda:12"]))


# A sample of a task


def test_a_sample_is_a_task_of_its_own(told):
    ran = told("run sample/identifyme/sample40 random")
    assert ran["task"] == "sample/identifyme/sample40" and ran["groups"]["all"]["n"] == 40
    assert told("run sample/identifyme random")["run"] != ran["run"]
    assert told("score choice sample/identifyme/sample40:random")["questions"] == 40


# Answers and questions in files of others


@pytest.fixture
def asked(tmp_path):
    "Four questions, in a file."
    options = (Option("Ann"), Option("Bea, Jr."), Option(NONE))
    some = [Question(f"q:{i}", f"d{i}", "She ran.", (0, 3), options, (1,)) for i in range(4)]
    write_jsonl(tmp_path / "q.jsonl", some, canary=True)


def test_answers_in_csv(told, tmp_path, asked):
    lines = b'Note,ID, Answer\r\n,q:0,"bea, jr."\r\n,q:1,b\r\n,q:2,0\r\n,q:3,\r\n'
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + lines)
    got = told("score choice a.csv --gold q.jsonl")["groups"]["all"]
    assert (got["accuracy"], got["n"], got["missing"]) == (0.5, 4, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,answer\nq:0,Cleo\n", "line 2: 'Cleo' is none of the options of 'q:0'"),
        ("id,answer\nq:0,D\n", "'D' is none"),
        ("id,answer\nq:0,-1\n", "'-1' is none"),
        ("id,answer\nx,A\n", "line 2: 'x' is not a question"),
        ("id,answer\nq:0,A\nq:0,A\n", "line 3: 'q:0' appears twice"),
        ("id,text\nq:0,A\n", "the header has not one column id and one answer"),
        ("id,answer,Answer\nq:0,A,A\n", "the header has not one column id"),
        ("id,answer\nq:0,A,B\n", "3 columns instead of 2"),
        ("q:0,A\n", "the header has not one column id"),
    ],
)
def test_csv_is_read_strictly(refnb, tmp_path, asked, text, said):
    (tmp_path / "a.csv").write_text(text)
    tools.one_line(refnb("score choice a.csv --gold q.jsonl"), 1, "a.csv", said)


def test_gap_predictions(refnb, told, tmp_path, asked):
    lines = ["q:0\tFALSE\tTRUE", "q:1\tTRUE\tFALSE", "q:2\tFALSE\tFALSE", "q:3\tTrue\tTrue"]
    (tmp_path / "a.tsv").write_text("\n".join([*lines, ""]))
    got = told("score choice a.tsv --gold q.jsonl")
    assert got["groups"]["all"]["accuracy"] == 0.25
    (tmp_path / "a.tsv").write_text("q:0\tFALSE\tTRUE\nq:1\tperhaps\tTRUE\n")
    tools.one_line(refnb("score choice a.tsv --gold q.jsonl"), 1, "a.tsv", "line 2")


def test_what_build_makes_every_verb_takes(refnb, told):
    rules = "-p sizes=2,2,6 -p entities=2"
    assert refnb(f"build kitmus --out kit --variants background-both {rules}").status == 0
    test, scores = "kit/background-both/subtask_2_ents/full-text/test", set()
    for end in ("jsonlines", "v4_gold_conll", "tsv"):
        also = "last-mention" if end == "tsv" else ""
        assert refnb(f"run {test}.{end} always-first {also}").status == 0
        got = told(f"score choice {test}.{end}:always-first")
        scores.add(got["groups"]["all"]["accuracy"])
        assert refnb(f"view {test}.{end}:always-first").status == 0
    assert len(scores) == 1 and len(told("list runs given")["runs"]) == 3
    for call in (
        f"compare {test}.tsv:always-first {test}.tsv:last-mention",
        f"export {test}.jsonlines --to inspect --out ins",
    ):
        assert refnb(call).status == 0
    assert "2 tasks" in refnb("report").out
    files = f"{test}.jsonlines {test}.v4_gold_conll".split()
    for gold, predicted in (files, files[::-1]):
        assert told(f"score coref {gold} {predicted}")["conll"]["f1"] == 100


def test_a_file_of_the_releases_form_is_a_task(refnb, told, tmp_path):
    (tmp_path / "test.json").write_bytes(packaged("data/sample/altentities.json").read_bytes())
    got, same = (told(f"run {t} word-overlap") for t in ("test.json", "sample/altentities"))
    assert got["groups"]["all"]["accuracy"] == same["groups"]["all"]["accuracy"]
    assert refnb("view test.json:word-overlap").status == 0
    tools.one_line(refnb("score choice test.json:raondm"), 2, "unknown system 'raondm'")
    tools.one_line(refnb("score choice test.json:random"), 1, "no complete run of random")


# Completion


@pytest.mark.parametrize(
    ("words", "offered"), [("refnb build k", "kitmus"), ("refnb run --dry", "--dry-run")]
)
def test_completion(tmp_path, words, offered):
    env = {"_REFNB_COMPLETE": "complete_bash", "COMP_WORDS": words}
    env["COMP_CWORD"] = str(len(words.split()) - 1)
    code = "from refnb.commands.cli import run; run()"
    said = tools.ended(tools.start(tmp_path, code=code, **env))
    assert offered in said.out.split() and said.err == ""
