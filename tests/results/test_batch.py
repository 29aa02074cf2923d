"Batches that are killed, interrupted, hung, doubled, starved of disk or fed with broken notebooks."

import hashlib, json, os, random, shutil, signal, time
from pathlib import Path
from types import SimpleNamespace
import pytest
import refnb.results.board as board
import refnb.results.reproduce as reproduce
from refnb.core.types import CallError
from refnb.results.board import read_provenance, stale
from refnb.results.execution import Executed
from refnb.results.printed import table_names
from refnb.results.tables import Report
import tools
from tools import A, B, C, D, install, notebook, table

GOOD = dict(value=0.5, note="none", task="sample/identifyme")


@pytest.fixture
def home(tmp_path, monkeypatch):
    "Folders of its own, and notebooks from `home/tables`, in this process too."
    (tmp_path / "tables").mkdir()
    tools.live_in(monkeypatch, tmp_path)
    return tmp_path


def run(*names: str, **how) -> dict[str, str]:
    "Reproduce in this process; states by name."
    return {x.name: x.state for x in reproduce.reproduce(names, say=lambda line: None, **how).steps}


def old_report(reports: Path, name: str) -> dict[str, bytes]:
    "Put an earlier report into place."
    old = Report(name, "strict", GOOD, sample=True)
    old.add("a", "all", 0.5)
    old.write(reports)
    return content(reports, name)


def content(reports: Path, name: str) -> dict[str, bytes]:
    "The files of a report in place."
    return {p.suffix: p.read_bytes() for p in reports.glob(f"{name}.*")}


def whole(reports: Path, name: str) -> dict:
    "The provenance of a report, every file of which is what it says."
    told = json.loads((reports / f"{name}.json").read_bytes())
    for f, sha in told["files"].items():
        assert hashlib.sha256(((reports / name).parent / f).read_bytes()).hexdigest() == sha, f
    assert set(content(reports, name)) == {".json", *(Path(f).suffix for f in told["files"])}
    return told


def number(reports: Path, name: str) -> str:
    return (reports / f"{name}.csv").read_text().splitlines()[1].split(",")[4]


def aside(reports: Path, name: str, end: str) -> Path:
    return reports / ".batch" / f"{name.replace('/', '-')}{end}"


def litter(reports: Path) -> list[str]:
    "What should not be there when no batch is at work."
    return [
        str(p)
        for p in reports.rglob("*")
        if p.suffix == ".part" or (p.is_dir() and ".batch" in p.parts and p.name != ".batch")
    ]


def state(name: str) -> str:
    return next(l.report for l in board.board().lines if l.name == name)


# What a fault in a notebook does: one batch of them, each with an earlier report in place.

HANG = """\
# A comment, and no time
import time
while True:
    try: time.sleep(100)
    except KeyboardInterrupt: pass"""
FORGED = "from pathlib import Path\npath = Path(out)/(report.name + '%s')\npath.write_text(%s)"
FAULTS = {  # what goes wrong -> cells before the report, cells after it, what is said
    "f01_killed": (
        ["import os, signal, time\nos.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)"],
        [],
        "cell 1 (import os, signal, time): the kernel was killed",
    ),
    "f04_sys_exit_0_at_the_end": (
        [],
        ["import sys; sys.exit(0)"],
        "cell 2 (import sys; sys.exit(0))",
    ),
    "f04_quit_at_the_end": ([], ["print(1); quit()"], "cell 2 (print(1); quit())"),
    "f05_hung": ([HANG], [], "cell 1 (import time): hung until its time was up"),
    "an_error_of_many_lines": (
        ["raise ValueError('a\\nb\\n\\nc')"],
        [],
        "cell 1 (raise ValueError('a\\nb\\n\\nc')): ValueError: a b c",
    ),
    "a_forged_report": (
        [],
        [FORGED % (".csv", "path.read_text().replace('1,', '2,')")],
        ".csv is not what its report vouches for",
    ),
    "a_torn_provenance": ([], [FORGED % (".json", "path.read_text()[:40]")], "its report"),
    "other_parameters": (["value = 3.0"], [], "its report was made with other parameters"),
}
LENT = dict(
    zip(
        FAULTS,
        [n for n in table_names() if n.startswith(("altentities", "bookcoref"))],
        strict=False,
    )
)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    "The batch of all faults: what the command said, and what was in place before. What hangs is a batch of its own, beside it: only there the time is short."
    homes = {False: tmp_path_factory.mktemp("faulty"), True: tmp_path_factory.mktemp("hung")}
    at = {fault: homes[fault.startswith("f05")] for fault in LENT}
    before, batches = {}, {}
    for fault, name in LENT.items():
        before[name] = old_report(at[fault] / "reports", name)
        install(at[fault] / "tables", name, table(name, *FAULTS[fault][0], after=FAULTS[fault][1]))
    for hangs, home in homes.items():
        asked = [n for f, n in LENT.items() if at[f] == home]
        batches[hangs] = tools.start(
            home,
            "reproduce",
            *asked,
            "--jobs",
            3,
            "--json",
            tables=home / "tables",
            REFNB_TIMEOUT="5" if hangs else "900",
        )
    said = {hangs: tools.ended(p) for hangs, p in batches.items()}
    steps = {
        x["name"]: x for s in said.values() for x in json.loads(s.out or '{"steps": []}')["steps"]
    }
    return SimpleNamespace(
        reports={f: home / "reports" for f, home in at.items()},
        before=before,
        said=said[False],
        steps=steps,
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_cell_and_leaves_the_old_report_whole(faulty, fault):
    step = faulty.steps[LENT[fault]]
    assert step["state"] == "failed" and "\n" not in step["said"]
    assert FAULTS[fault][2] in step["said"]
    assert content(faulty.reports[fault], LENT[fault]) == faulty.before[LENT[fault]]
    kept = aside(faulty.reports[fault], LENT[fault], ".failed.ipynb").read_bytes()
    assert json.loads(kept)["cells"]


def test_a_batch_of_faults_says_so_in_one_line(faulty):
    lines = [l for l in faulty.said.err.splitlines() if not l.startswith("[")]
    assert faulty.said.status == 1 and lines[-1].startswith(
        f"refnb: {len(FAULTS) - 1} of {len(FAULTS) - 1} tables failed, the first is "
    )
    odd = [l for l in lines if not l.startswith(("refnb: ", "not here: "))]
    assert not odd, "\n".join(odd)
    for reports in set(faulty.reports.values()):
        assert litter(reports) == []


# Killed, stopped, and two at a time

SLOW = """\
import time
from pathlib import Path
here = Path(%r)
(here/"started").touch()
while not (here/"go").exists(): time.sleep(0.05)"""


def slow(home: Path) -> str:
    "A cell that says when it has begun, and goes on when it is let."
    return SLOW % str(home)


def begun(home: Path, process):
    tools.wait(
        lambda: (home / "started").exists() or process.poll() is not None, "a notebook begins"
    )
    assert process.poll() is None, process.communicate()


def test_f02_f09_a_batch_excludes_another_and_when_killed_leaves_no_kernel(home, capsys):
    install(home / "tables", A, table(A, slow(home)))
    before = old_report(home / "reports", A)
    p = tools.start(home, "reproduce", tables=home / "tables")
    begun(home, p)
    tools.one_line(
        tools.here(capsys, "reproduce"),
        1,
        "another batch is at work here",
        str(home / "reports"),
        "--out",
    )
    begun(home, p)
    all_ = tools.family(p.pid)
    assert any("ipykernel" in " ".join(x.cmdline()) for x in all_)
    p.kill()
    p.communicate()
    tools.gone(all_)
    assert content(home / "reports", A) == before
    (home / "go").touch()
    assert (
        run(A) == {A: "changed"}
        and whole(home / "reports", A)
        and number(home / "reports", A) == "1"
    )
    assert litter(home / "reports") == []


def test_f03_a_stopped_batch_keeps_what_is_done(tmp_path):
    "An impatient user, who says it again and again, gets one line, and no kernel is left."
    reports = tmp_path / "reports"
    install(tmp_path / "tables", A, table(A))
    for name in (B, C, D):
        install(tmp_path / "tables", name, table(name, slow(tmp_path)))
    before = old_report(reports, B)
    p = tools.start(
        tmp_path, "reproduce", "--jobs", 2, tables=tmp_path / "tables", PYTHONUNBUFFERED="1"
    )
    begun(tmp_path, p)
    while not (line := p.stdout.readline()).startswith("[1/4]"):
        assert line, p.communicate()  # once it says so, the table counts as done
    all_ = tools.family(p.pid)
    while p.poll() is None and len(all_) < 1000:
        p.send_signal(signal.SIGINT)
        time.sleep(0.2)
    said = tools.ended(p)
    what = "refnb: stopped after 1 of 4 tables; finished tables are kept; start again to continue"
    assert tools.one_line(said, 130) == what
    tools.gone(all_)
    assert whole(reports, A) and content(reports, B) == before and content(reports, C) == {}
    assert litter(reports) == []


def test_f33_kills_at_random_instants(home):
    "TEST_KILLS says how many."
    chance, reports = random.Random(0), home / "reports"
    for name in (A, B):
        install(home / "tables", name, table(name))
        old_report(reports, name)
    good = {A: {"0.5"}, B: {"0.5"}}
    for i in range(1, 1 + int(os.environ.get("TEST_KILLS", "1"))):
        how = ("--jobs", 2, "-p", f"value={i}", "--out", reports)
        p = tools.start(home, "reproduce", *how, tables=home / "tables")
        time.sleep(chance.uniform(0.2, 4.0))
        all_ = tools.family(p.pid)
        p.kill()
        p.communicate()
        tools.gone(all_)
        for name in (A, B):
            if read_provenance(name, reports) and not stale(
                read_provenance(name, reports), reports
            ):
                good[name].add(str(i))
                assert number(reports, name) in good[name]
    assert run(parameters={"value": 100.0}, out=str(reports)) == {A: "changed", B: "changed"}
    assert (number(reports, A), number(reports, B), litter(reports)) == ("100", "100", [])


# A stand-in for Papermill, where the question is what is run, and what becomes of it.


class Quick:
    "Makes reports without a kernel; notes for which tables."

    def __init__(self):
        self.ran, self.code, self.change = (
            [],
            "one",
            lambda report: report.add("a", "all", report.parameters["value"]),
        )

    def __call__(self, name, nb, parameters, timeout, folder=None) -> Executed:
        self.ran.append(name)
        report = Report(
            name, "strict", {k: v for k, v in parameters.items() if k != "out"}, sample=True
        )
        self.change(report)
        made = Path(folder) / f"run-{name.replace('/', '-')}"  # two may run at once
        told = report.write(made)
        files = {
            p.relative_to(made).as_posix(): p.read_bytes()
            for p in sorted(told.parent.glob(f"{told.stem}.*"))
        }
        shutil.rmtree(made)
        return Executed(files, nb, 0.0, "")

    def anew(self, *names: str) -> dict[str, str]:
        "Reproduce once more, after the code has changed."
        self.code += "+"
        return self.again(*names)

    def again(self, *names: str, **how) -> dict[str, str]:
        "Reproduce once more; states by name. Unchanged is what was not run."
        self.ran.clear()
        got = run(*names, **how)
        assert sorted(self.ran) == sorted(n for n, x in got.items() if x != "unchanged")
        return got


@pytest.fixture
def quick(home, monkeypatch) -> Quick:
    "Two tables that are made without kernels, and were made once."
    q = Quick()
    monkeypatch.setattr(reproduce, "execute", q)
    monkeypatch.setattr(reproduce, "code_hash", lambda: q.code)
    for name in (A, B):
        install(home / "tables", name, table(name))
    assert q.again() == {A: "new", B: "new"}
    return q


def test_nothing_is_made_twice(quick, home):
    before = content(home / "reports", A)
    assert quick.again() == {A: "unchanged", B: "unchanged"}
    assert content(home / "reports", A) == before
    assert quick.again(force=True) == {A: "changed", B: "changed"}


def test_only_what_is_asked_for_is_made(quick, home):
    shutil.rmtree(home / "reports")
    assert quick.again(B) == {B: "new"} and content(home / "reports", A) == {}


def test_a_changed_cell_makes_its_table_anew(quick, home):
    install(home / "tables", A, table(A, "1 + 1"))
    assert quick.again() == {A: "changed", B: "unchanged"}
    assert quick.again() == {A: "unchanged", B: "unchanged"}


def test_changed_outputs_and_metadata_of_a_notebook_change_nothing(quick, home):
    nb = table(A)
    nb["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["1"]}]
    nb["cells"][1]["execution_count"], nb["metadata"]["more"] = 7, "x"
    install(home / "tables", A, nb)
    assert quick.again() == {A: "unchanged", B: "unchanged"}


def test_a_parameter_of_ones_own_leaves_the_reports_as_they_are(quick, home):
    before, board_ = content(home / "reports", A), (home / "reports/README.md").read_bytes()
    done = reproduce.reproduce([A], parameters={"value": 2.0}, say=lambda line: None)
    assert done.place.parent == home / "reports/own" and number(done.place, A) == "2"
    assert (
        "Made with other parameters than the usual ones: value=2.0."
        in (done.place / f"{A}.md").read_text()
        or json.loads((done.place / f"{A}.json").read_bytes())["sample"]
    )
    assert content(home / "reports", A) == before
    assert (home / "reports/README.md").read_bytes() == board_
    assert quick.again(A, parameters={"value": 2.0}) == {A: "unchanged"}
    assert quick.again() == {A: "unchanged", B: "unchanged"}


def test_changed_code_makes_tables_anew(quick):
    quick.code = "two"
    assert quick.again() == {A: "same", B: "same"}
    assert quick.again() == {A: "unchanged", B: "unchanged"}


def test_a_changed_summary_of_a_run_makes_tables_anew(quick, home):
    (home / "reports/sample/runs/sample/identifyme").mkdir(parents=True)
    (home / "reports/sample/runs/sample/identifyme/random-0123456789ab.json").write_text("{}")
    assert quick.again() == {A: "same", B: "same"}
    (home / "reports/runs/other").mkdir(parents=True)
    (home / "reports/runs/other/random-0123456789ab.json").write_text("{}")
    assert quick.again() == {A: "unchanged", B: "unchanged"}


def test_an_input_that_came_makes_its_table_anew(quick, home, monkeypatch):
    from refnb.core.upstream import files_of
    from refnb.results.printed import printed

    name, f = "identifyme/table_6_nested_mentions", files_of("identifyme-answers")[0]
    assert printed(name).inputs == ["identifyme-answers"]
    install(home / "tables", name, table(name))
    assert quick.again() == {A: "unchanged", B: "unchanged", name: "new"}
    (home / "upstream" / f.place).parent.mkdir(parents=True)
    (home / "upstream" / f.place).touch()
    monkeypatch.setenv("REFNB_UPSTREAM", str(home / "upstream"))
    assert quick.again() == {
        A: "same",
        B: "unchanged",
        name: "same",
    }  # A is made from the same files


def test_a_lost_state_makes_tables_anew(quick, home):
    (home / "reports/.batch/state.json").write_text("torn")
    assert quick.again() == {A: "same", B: "same"}


def test_a_failure_is_tried_again(quick, home, monkeypatch):
    def fail(*args):
        quick.ran.append(A)
        return Executed({}, b"{}", 0.0, "cell 1: failed")

    with monkeypatch.context() as m:
        m.setattr(reproduce, "execute", fail)
        assert run(A, force=True) == {A: "failed"} and whole(home / "reports", A)
    install(home / "tables", A, table(A, "2"))
    with monkeypatch.context() as m:
        m.setattr(reproduce, "execute", fail)
        assert run(A) == {A: "failed"} and run(A) == {A: "failed"}
    assert quick.again() == {A: "changed", B: "unchanged"}


def test_a_success_takes_the_failed_notebook_away(quick, home):
    aside(home / "reports", A, ".failed.ipynb").write_text("{}")
    quick.again(A, force=True)
    assert not aside(home / "reports", A, ".failed.ipynb").exists()


# Reports in place


def test_a_report_is_not_replaced_by_one_from_fewer_inputs(quick, home):
    before = content(home / "reports", A)
    quick.change = lambda report: report.add("a", "all", reason="not here")
    assert quick.anew(A) == {A: "kept"}
    assert content(home / "reports", A) == before and state(A) == "regenerated"
    assert quick.again(A, force=True) == {A: "changed"}
    quick.change = lambda report: (report.add("a", "all", 3.0), report.add("b", "all", 4.0))
    assert quick.anew(A) == {A: "changed"} and number(home / "reports", A) == "3"


def test_a_changed_notebook_may_show_fewer_rows(quick, home):
    quick.change = lambda report: (report.add("a", "all", 1.0), report.add("b", "all", 2.0))
    quick.anew(A)
    quick.change = lambda report: report.add("b", "all", 2.0)
    install(home / "tables", A, table(A, "1 + 1"))
    assert quick.again(A) == {A: "changed"}
    rows = (home / f"reports/{A}.csv").read_text()
    assert ",b,all," in rows and ",a,all," not in rows


def test_f12_an_edited_csv_is_stale(quick, home):
    path = home / f"reports/{A}.csv"
    path.write_text(path.read_text().replace(",1,", ",2,"))
    assert state(A) == f"stale: {path.name} is not the file that was written"
    assert quick.again() == {A: "changed", B: "unchanged"}
    assert (
        state(A) == "regenerated"
        and whole(home / "reports", A)
        and number(home / "reports", A) == "1"
    )


def test_f12_a_deleted_file_is_stale(quick, home):
    path = home / f"reports/{A}.md"
    path.unlink()
    assert state(A) == f"stale: {path.name} is not the file that was written"
    assert quick.again() == {A: "changed", B: "unchanged"} and whole(home / "reports", A)


def test_f12_a_deleted_provenance_is_no_report(quick, home):
    (home / f"reports/{A}.json").unlink()
    assert state(A) == "to be run"
    assert quick.again() == {A: "new", B: "unchanged"} and whole(home / "reports", A)


def test_f12_a_deleted_picture_is_made_again(quick, home):
    from matplotlib.figure import Figure

    def picture(report):
        report.add("a", "all", 2.0)
        report.write = lambda out: Report.write(report, out, Figure((1, 1)))

    quick.change = picture
    assert quick.anew(A) == {A: "changed"}
    (home / f"reports/{A}.png").unlink()
    assert quick.anew(A) == {A: "changed"} and whole(home / "reports", A)


@pytest.mark.parametrize("new", ["note", "picture"])
def test_f12_what_the_csv_does_not_show_is_put_into_place_too(quick, home, new):
    from matplotlib.figure import Figure

    def change(report):
        report.cells["a", "all"] = report.add("a", "all", report.parameters["value"]).changed(
            note="a note of the printed values" if new == "note" else ""
        )
        if new == "picture":
            report.write = lambda out: Report.write(report, out, Figure((1, 1)))

    quick.change = change
    assert quick.anew(A) == {A: "changed"} and whole(home / "reports", A)
    assert (
        ".png" in content(home / "reports", A)
        if new == "picture"
        else b"a note of" in content(home / "reports", A)[".md"]
    )


def test_f12_another_whole_report_in_place_is_not_taken_for_the_last_one(quick, home):
    "As after `git checkout`."
    old_report(home / "reports", A)
    assert state(A) == "regenerated"
    assert quick.again() == {A: "changed", B: "unchanged"} and number(home / "reports", A) == "1"


def test_f12_another_pin_is_stale(quick, home, monkeypatch):
    from refnb.core.upstream import files_of

    f = files_of("identifyme-answers")[0]

    def blob(x):
        return lambda report: (report.add("a", "all", 1.0), report.inputs.update({f.key: x}))

    quick.change = blob("0" * 40)
    assert quick.anew(A) == {A: "changed"}
    assert state(A) == f"stale: {f.key} is pinned at another content"
    quick.change = blob(f.blob)
    assert quick.again(A) == {A: "changed"} and state(A) == "regenerated"
    monkeypatch.setattr(board, "registry", lambda: {f.key: f._replace(blob="1" * 40)})
    assert state(A) == f"stale: {f.key} is pinned at another content"


def test_f12_another_run_is_stale(quick, home):
    quick.change = lambda report: (
        report.add("a", "all", 1.0),
        report.runs.update({"sample/identifyme:random": "0" * 12}),
    )
    assert quick.anew(A) == {A: "changed"} and state(A) == "regenerated"
    (home / "reports/sample/runs/sample/identifyme").mkdir(parents=True)
    (home / f"reports/sample/runs/sample/identifyme/random-{'1' * 12}.json").write_text("{}")
    assert state(A) == "stale: random has another run of sample/identifyme"
    assert "A" not in quick.ran and quick.again(A)[A] == "changed"


KILLED = """\
import os, signal, sys
from types import SimpleNamespace
import refnb.results.execution as batch
from refnb.results.tables import Report
reports, name, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
def replace(source, target):
    global left
    if not left: os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    os.replace(source, target)
new = Report(name, "strict", sample=True)
new.add("a", "all", 0.75)
new.write(reports + "/../made")
files = {f"{name}.{end}": open(f"{reports}/../made/{name}.{end}", "rb").read() for end in ("csv", "json", "md", "tex")}
batch.os = SimpleNamespace(replace=replace, getpid=os.getpid)
batch.put(name, files, reports)"""


@pytest.mark.parametrize("moves", [0, 2, 4])
def test_f33_a_kill_while_files_are_moved_into_place_is_noticed(quick, home, moves):
    "Four files cannot be replaced in one instant; a mixture is never taken for a report, and the next start mends it."
    reports = home / "reports"
    before = content(reports, A)
    said = tools.ended(tools.start(home, reports, A, moves, code=KILLED))
    assert said.status == (0 if moves == 4 else -signal.SIGKILL), said
    if moves == 0:
        assert content(reports, A) == before
    elif moves == 4:
        assert whole(reports, A) and number(reports, A) == "0.75"
    else:
        assert state(A).startswith("stale: ")
    assert quick.again()[A] == ("changed" if moves else "unchanged")
    assert whole(reports, A) and number(reports, A) == "1" and litter(reports) == []


# Disks


def test_f10_a_full_disk_leaves_the_old_report_whole(home, disk, monkeypatch, capsys):
    "Wherever the space runs out: copying the notebook, or putting its report into place."
    reports = disk.path / "reports"
    monkeypatch.setenv("REFNB_REPORTS", str(reports))
    install(home / "tables", A, table(A))
    before = old_report(reports, A)
    for spare in (0, 20_000):
        disk.fill(spare)
        said = tools.here(capsys, "reproduce", A)
        tools.one_line(said, 1)
        assert "no space left on device" in said.err.lower(), (spare, said)
        assert content(reports, A) == before and litter(reports) == []
        disk.free()


def test_f10_a_read_only_folder_leaves_the_old_report_whole(quick, disk, monkeypatch, capsys):
    reports = disk.path / "reports"
    monkeypatch.setenv("REFNB_REPORTS", str(reports))
    before = old_report(reports, A)
    disk.mode("ro")
    said = tools.here(capsys, "reproduce", A)
    tools.one_line(said, 1, "cannot write: read-only file system", str(reports), "--out")
    assert content(reports, A) == before
    disk.mode("rw")
    assert quick.again(A) == {A: "changed"} and litter(reports) == []


# Parameters


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("valeu=1", "table_1_composition.ipynb: unknown parameter 'valeu'; did you mean value?"),
        ("value=1,5", "value: '1,5' is not of type float"),
        ("value=true", "value: 'true' is not of type float"),
        ("value", "-p: 'value' is not NAME=VALUE"),
        ("out=there", "--out"),
    ],
)
def test_f06_a_wrong_parameter_is_refused_before_anything_runs(quick, capsys, pair, said):
    tools.one_line(tools.here(capsys, "reproduce", A, "-p", pair), 2, said)
    assert quick.again() == {A: "unchanged", B: "unchanged"}


@pytest.mark.parametrize("value", [1, True, None, [1.0]])
def test_f06_a_value_of_the_wrong_type(quick, value):
    with pytest.raises(CallError, match="value: .* is not of type float"):
        run(A, parameters={"value": value})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("value: float = 1.0  # no out", "`out`"),
        ("x = 1", "not `name: type = literal`: x = 1"),
        ("x: integer = 1", "x: unknown type 'integer'"),
        ("x: int = '1'", "x: the default '1' is not of type int"),
        ("x: int = 1 + 1", "not `name: type = literal`: x: int = 1 + 1"),
        ("import os", "not `name: type = literal`: import os"),
        ("%time x", "the parameters cell is not Python"),
    ],
)
def test_f06_a_wrong_parameters_cell(quick, home, capsys, wrong, said):
    install(home / "tables", A, notebook(tools.REPORT % A, parameters=wrong))
    tools.one_line(tools.here(capsys, "reproduce", A), 1, "table_1_composition.ipynb", said)


TEXTS = [
    "007",
    "1e5",
    "None",
    "{'a': 1}",
    "a=b=c",
    "{value}",
    "{{note}}",
    "$HOME",
    "a\nb\n",
    "\\",
    "a\\nb",
    "\"'",
    " padded ",
    "",
    "#",
    "é ü 漢字 😀 e\u0301",
    "\u2028\u200b\ufeff",
    "\x1b[31m",
    "a" * 3000,
]
KINDS = {
    "number": ("float", 1.5, "15e-1"),
    "whole": ("int", 7, "7"),
    "yes": ("bool", True, "true"),
    "many": ("list", ["007", 1, None, "a=b", ["{}"]], "['007', 1, None, 'a=b', ['{}']]"),
    "named": ("dict", {"a=b": "{}", "x": [1e5]}, "{'a=b': '{}', 'x': [1e5]}"),
}


def test_f07_values_arrive_as_they_are(home):
    "In a folder whose name has braces, too, which Papermill takes for parameters."
    texts = {f"t{i}": t for i, t in enumerate(TEXTS)}
    given = texts | {k: v[2] for k, v in KINDS.items()}
    meant = texts | {k: v[1] for k, v in KINDS.items()}
    declared = [f'{k}: str = "a=b"  # text' for k in texts]
    declared += [f"{k}: {v[0]} = {type(v[1])()!r}  # {v[0]}" for k, v in KINDS.items()]
    made = tools.REPORT.replace("dict(value=value, note=note, task=task)", "got") % A
    cells = [
        f"got = {{k: globals()[k] for k in {list(given)}}}",
        made.replace('"a", "all", value', '"a", "all", 1.'),
    ]
    nb = notebook(*cells, parameters="\n".join([*declared, 'out: str = ""  # folder']))
    install(home / "tables", A, nb)
    out = home / "a {value} of {nobody} = 100 % {"
    sets = [x for k, v in given.items() for x in ("-p", f"{k}={v}")]
    assert tools.main(["reproduce", A, "--out", str(out), *sets]) == 0
    assert json.loads((out / f"{A}.json").read_bytes())["parameters"] == meant


# Notebooks as files


def changed(change) -> str:
    nb = table(A)
    change(nb["cells"])
    return json.dumps(nb, indent=1)


BROKEN = {
    "f08_lost_tag": (
        changed(lambda cells: cells[0]["metadata"].clear()),
        "0 cells are tagged `parameters`, there must be one",
    ),
    "f08_doubled_tag": (
        changed(lambda cells: cells[1]["metadata"].update(tags=["parameters"])),
        "2 cells are tagged `parameters`, there must be one",
    ),
    "f11_torn": (json.dumps(table(A))[:300], "is not a notebook"),
    "f11_not_utf8": ("\ud800", "is not a notebook"),
    "f11_a_list": ("[]", "is not a notebook"),
    "f11_a_cell_without_source": (changed(lambda cells: cells[0].pop("source")), "source"),
    "f11_merge_markers": (
        "<<<<<<< HEAD\n" + json.dumps(table(A)) + "\n=======\n{}\n>>>>>>> other\n",
        "resolve the merge",
    ),
    "f11_format_3": ('{"nbformat": 3, "cells": []}', "is not a notebook of format 4"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_notebook_is_refused(quick, home, capsys, fault):
    "Before anything is made, and the report that is there stays."
    text, said = BROKEN[fault]
    path = home / f"tables/{A}.ipynb"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    before = content(home / "reports", A)
    quick.ran.clear()
    tools.one_line(tools.here(capsys, "reproduce"), 1, path.name, said)
    assert quick.ran == [] and content(home / "reports", A) == before


def test_a_table_without_a_notebook_is_refused(quick, capsys):
    tools.one_line(tools.here(capsys, "reproduce", C), 1, C, "has no notebook yet")


# The rest

NO_RAY = "import sys; sys.modules['ray'] = None\n" + tools.ELSEWHERE


def test_f13_ray_that_is_not_installed(tmp_path):
    install(tmp_path / "tables", A, table(A))
    said = tools.refnb(tmp_path, tmp_path / "tables", "reproduce", "--ray", "local", code=NO_RAY)
    tools.one_line(said, 1, "the package ray is not installed; pip install 'refnb[ray]'")
    assert litter(tmp_path / "reports") == []


def test_fewer_than_no_jobs(quick, capsys):
    tools.one_line(tools.here(capsys, "reproduce", "--force", "--jobs", -1), 2, "jobs", "-1")


def test_the_environment_is_as_it_was(quick, home):
    before = dict(os.environ)
    quick.again(out=str(home / "other"))
    assert dict(os.environ) == before
