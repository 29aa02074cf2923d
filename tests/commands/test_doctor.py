"`refnb doctor` and the list of runs: what is here, what is missing, what is damaged."

import json
import pytest
import refnb.results.doctor as doctor
import tools

TASK = "sample/ferryman"  # 29 questions


@pytest.fixture
def refnb(tmp_path, monkeypatch, capsys):
    "Run a command in this process, in an empty folder."
    tools.live_in(monkeypatch, tmp_path)
    return lambda call: tools.here(capsys, *call.split())


def findings(said: tools.Said) -> dict[str, dict]:
    return {f["what"]: f for f in json.loads(said.out)["findings"]}


def test_a_machine_that_works_has_no_fault(refnb, tmp_path):
    said = refnb("doctor --json")
    got, order = findings(said), ["installed", "reachable", "set", "missing"]
    assert said.status == 0 and said.err == "" and json.loads(said.out)["works"]
    assert not any(f["fault"] for f in got.values())
    about = [order.index(f["about"]) for f in got.values()]
    assert about == sorted(about)
    extras = {w for w in got if w.startswith("extra ")}
    assert extras == {f"extra {x}" for x in ("reports", "models", "inspect", "ray", "hub", "dev")}
    assert str(tmp_path / "runs") in got["runs"]["found"]
    assert "refnb fetch" in got["upstream sets"]["do"]
    assert len(refnb("doctor").out.splitlines()) == 1 + len(got)
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"


def test_no_key_or_password_is_shown(refnb, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "never shown")
    monkeypatch.setenv("REFNB_HOST", "https://me:hunter2@example.org/files")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    said = refnb("doctor --json")
    got = findings(said)
    assert "never shown" not in said.all and "hunter2" not in said.all
    assert "public host (example.org)" in got
    keys = [got[k]["found"] for k in ("OPENAI_API_KEY", "GEMINI_API_KEY")]
    assert keys == ["set", "not set"]


def test_what_is_not_installed_is_named_with_its_command(refnb, monkeypatch):
    real, gone = doctor.version, {"ray", "torch"}

    def version(name):
        if name in gone:
            raise doctor.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor, "version", version)
    got = findings(refnb("doctor --json"))
    assert got["extra ray"]["do"] == "pip install 'refnb[ray]'"
    assert "torch" in got["extra models"]["found"] and not got["extra models"]["fault"]
    gone.add("rapidfuzz")
    said = refnb("doctor --json")
    tools.one_line(said, 1, "1 fault")
    required = findings(said)["required packages"]
    assert required["fault"] and "rapidfuzz" in required["found"]


def test_what_another_python_needs_is_not_missing(refnb, monkeypatch):
    needs = [
        "rich>=14",
        "gone; python_version < '3'",
        "lost; python_version < '3' and extra == 'hub'",
    ]
    monkeypatch.setattr(doctor, "requires", lambda package: needs)
    got = findings(refnb("doctor --json"))
    assert got["required packages"]["found"] == "all 1 packages"
    assert got["extra hub"]["found"] == ""


def test_faults_are_named_and_counted(refnb, tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("")
    with monkeypatch.context() as m:
        m.setenv("REFNB_RUNS", str(tmp_path / "a file" / "runs"))
        said = refnb("doctor")
        tools.one_line(said, 1, "1 fault")
        assert f"{tmp_path}/a file/runs" in said.out
    monkeypatch.setenv("REFNB_UPSTREAM", "/nonexistent/x")
    assert "/nonexistent/x" in findings(refnb("doctor --json"))["upstream"]["found"]
    (tmp_path / "settings.ini").write_text("[refnb]\njbos = 3\n")
    said = refnb("doctor --json")
    tools.one_line(said, 1, "1 fault")
    got = findings(said)  # what needs no settings is still shown
    assert "settings.ini" in got["settings"]["found"] and "Python" in got


# list runs


def runs(said: tools.Said) -> list[dict]:
    return json.loads(said.out)["runs"]


def test_each_run_is_listed_with_its_progress_and_score(refnb, tmp_path):
    assert str(tmp_path / "runs") in refnb("list runs").out
    for call in (
        f"{TASK} word-overlap",
        f"{TASK} random --limit 5",
        "sample/kitmus random --limit 2",
    ):
        assert refnb(f"run {call}").status == 0
    scored = refnb(f"score choice {TASK}:word-overlap --json").out
    score = 100 * json.loads(scored)["groups"]["all"]["accuracy"]
    lines = [x.split("\t") for x in refnb("list runs").out.splitlines()]
    assert lines[0] == ["task", "system", "state", "score (%)", "USD", "date", "folder"]
    assert [x[:4] for x in lines[1:]] == [
        [TASK, "random", "open, 5 of 29 answered", ""],
        [TASK, "word-overlap", "complete", f"{score:.1f} (accuracy)"],
        ["sample/kitmus", "random", "open, 2 of 60 answered", ""],
    ]
    counts = [len(runs(refnb(f"list runs {x} --json"))) for x in (TASK, "sample/k*", "sample")]
    assert counts == [2, 1, 3]


def test_a_damaged_run_is_one_line_of_the_list(refnb, tmp_path):
    systems = ("random", "word-overlap", "always-first")
    for system in systems:
        refnb(f"run {TASK} {system}")
    broken, lost, torn = (next((tmp_path / "runs" / TASK / x).iterdir()) for x in systems)
    (broken / "run.json").write_text("{")
    (lost / "run.json").unlink()
    listed = runs(refnb("list runs --json"))
    assert sorted(r["state"] for r in listed) == ["complete", "damaged", "damaged"]
    assert all(bool(r["note"]) == (r["state"] == "damaged") for r in listed)
    journal = torn / "answers.jsonl"
    journal.write_bytes(journal.read_bytes()[:-40])
    assert {r["state"] for r in runs(refnb("list runs --json"))} == {"damaged"}
    assert refnb("list runs").out.count("damaged: ") == 3
