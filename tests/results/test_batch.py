"Batches of tables: faulty notebooks, kills, full disks, and what is made anew."

import hashlib, json, os, random, shutil, signal, sys, time
from pathlib import Path
from types import SimpleNamespace
import pytest
from refnb.core.upstream import the_hub_file
from refnb.core.runs import with_id
from refnb.core.settings import load_settings
from refnb.core.upstream import files_of
from refnb.results import reproduce as batches
from refnb.results.execution import Executed
from refnb.results.printed import table_names
import tools
from results_reports import (
    LIMIT,
    board_says,
    kept_notebooks,
    litter,
    numbers,
    quietly,
    report_files,
    report_of,
    states,
    steps,
    whole_report,
)
from tools import A, B, C, install, notebook, table


@pytest.fixture
def home(tmp_path, monkeypatch):
    "Folders of its own, and notebooks from `home/tables`."
    (tmp_path / "tables").mkdir()
    tools.live_in(monkeypatch, tmp_path)
    return tmp_path


def reproduce(*args: object) -> dict[str, str]:
    "What became of each table."
    return states(quietly("reproduce", *args, "--json"))


def old_report(reports: Path, name: str) -> dict[str, bytes]:
    "Put an earlier report into place; its files."
    report_of(name, {"a": 0.5}).write(reports)
    return report_files(reports, name)


def test_runs_that_are_made_and_those_that_need_a_model_are_told_apart(tmp_path):
    systems = {"systems": '["random", "gpt-4o", "nearest-mention"]'}
    job = batches.table_job("identifyme/table_3_main_results", systems, sample=True)
    folders = dict.fromkeys(("runs", "reports"), str(tmp_path))
    runs = batches.BatchRuns(load_settings("/", env={}, offline=True, **folders))
    assert list(runs.make_for(job)) == [(1, 2), (1, 1), (2, 0)] and not runs.fault(job)


def test_a_run_that_fails_leaves_the_notebook_of_an_earlier_failure(tmp_path):
    job = batches.TableJob("identifyme/table_3_main_results", b"{}", {})
    for executed in (Executed(notebook=b"{}", failure="a cell"), Executed(failure="a run")):
        assert batches.put_result(job, executed, tmp_path).said == executed.failure
        [kept] = (tmp_path / ".batch").glob("*.failed.ipynb")
        assert kept.read_bytes() == b"{}"


@pytest.mark.parametrize("end", ["conll", "csv", "json", "tsv", "py", "yaml"])
def test_any_file_of_data_that_a_number_may_come_from_counts_as_code(tmp_path, monkeypatch, end):
    (tmp_path / "page.css").touch()
    (tmp_path / f"part.{end}").touch()
    monkeypatch.setattr(batches, "packaged", lambda name: tmp_path)
    hashes = [batches.code_hash()]
    for file in ("page.css", f"part.{end}"):
        (tmp_path / file).write_text("changed")
        hashes.append(batches.code_hash())
    assert hashes[0] == hashes[1] != hashes[2]


# What is wrong in a notebook: one batch of such notebooks, each with an earlier report in place

HANGS = """\
# A comment, and no time
import time
while True:
    try: time.sleep(100)
    except KeyboardInterrupt: pass"""
FORGE = "from pathlib import Path\npath = Path(out)/(report.name + '%s')\npath.write_text(%s)"
KILL = "import os, signal, time\nos.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)"
MANY_LINES = "raise ValueError('a\\nb\\n\\nc')"
HANG = "a cell that hangs"
FAULTS = {  # what is wrong -> cells before the report, cells after it, what is said of it
    "a killed kernel": ([KILL], [], ["cell 1", "import os, signal, time", "killed"]),
    "an exit that says all is well": ([], ["import sys; sys.exit(0)"], ["cell 2", "sys.exit(0)"]),
    "a notebook that quits": ([], ["print(1); quit()"], ["cell 2", "print(1); quit()"]),
    HANG: ([HANGS], [], ["cell 1", "import time"]),
    "an error of many lines": ([MANY_LINES], [], ["cell 1", "ValueError: a b c"]),
    "forged numbers": ([], [FORGE % (".csv", "path.read_text().replace('1,', '2,')")], [".csv"]),
    "a torn provenance": ([], [FORGE % (".json", "path.read_text()[:40]")], ["report"]),
    "other parameters": (["value = 3.0"], [], ["parameters"]),
}
NOTEBOOKS = [n for n in table_names() if n.startswith(("altentities", "bookcoref"))]
LENT = dict(zip(FAULTS, NOTEBOOKS, strict=False))
GOOD = NOTEBOOKS[len(FAULTS)]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    "What hangs is a batch of its own, beside the other: only there the time is short."
    faults, hung = tmp_path_factory.mktemp("faulty"), tmp_path_factory.mktemp("hung")
    homes = {fault: hung if fault == HANG else faults for fault in FAULTS}
    for fault, (before, after, _) in FAULTS.items():
        name = LENT[fault]
        install(homes[fault] / "tables", name, table(name, *before, after=after))
    install(faults / "tables", GOOD, table(GOOD, "print('noise')"))
    old = {f: old_report(homes[f] / "reports", LENT[f]) for f in FAULTS}
    call = ("reproduce", "--jobs", 3, "--json")
    batch = tools.start(faults, *call, tables=faults / "tables")
    with pytest.MonkeyPatch.context() as m:
        tools.live_in(m, hung)
        m.setenv(LIMIT, "3")
        other = quietly(*call)
    said = tools.ended(batch)
    reports = {f: homes[f] / "reports" for f in FAULTS}
    made = steps(said.out) | steps(other.out)
    return SimpleNamespace(old=old, said=said, reports=reports, steps=made)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_cell_and_leaves_the_old_report_whole(faulty, fault):
    name, reports = LENT[fault], faulty.reports[fault]
    step = faulty.steps[name]
    assert step["state"] == "failed" and "\n" not in step["said"]
    assert all(part in step["said"] for part in FAULTS[fault][2]), step["said"]
    assert report_files(reports, name) == faulty.old[fault]
    [kept] = kept_notebooks(reports, name)
    assert json.loads(kept.read_bytes())["cells"]


def test_a_batch_of_faults_ends_with_one_line_and_makes_the_good_table(faulty):
    "What notebooks print, and the last words of kernels, do not reach the command's output."
    lines, n = faulty.said.err.splitlines(), len(FAULTS) - 1
    assert faulty.said.status == 1 and f"{n} of {n + 1} tables failed" in lines[-1]
    odd = [x for x in lines if not x.startswith(("refnb: ", "not here: ", "["))]
    assert not odd, "\n".join(odd)
    reports = faulty.reports["forged numbers"]
    assert faulty.steps[GOOD]["state"] == "new" and whole_report(reports, GOOD)
    assert not [x for folder in faulty.reports.values() for x in litter(folder)]


# Killed, stopped, and two at a time

SLOW = """\
import subprocess, time
from pathlib import Path
home = Path(%r)
subprocess.Popen(["sleep", "1000"])
(home/"started").touch()
while not (home/"go").exists(): time.sleep(0.05)"""


def slow(home: Path) -> str:
    "A cell that starts another process, says when it has begun, and goes on when it is let."
    return SLOW % str(home)


def begun(home: Path, process):
    started = lambda: (home / "started").exists() or process.poll() is not None
    tools.wait(started, "a notebook begins")
    assert process.poll() is None, process.communicate()


def test_two_batches_do_not_mix_and_a_killed_one_goes_on_and_leaves_no_kernel(
    home, capsys, monkeypatch
):
    monkeypatch.setenv(LIMIT, "20")  # of the batch that should not begin
    install(home / "tables", A, table(A, slow(home)))
    before = old_report(home / "reports", A)
    first = tools.start(home, "reproduce", tables=home / "tables")
    begun(home, first)
    tools.one_line(tools.here(capsys, "reproduce"), 1, str(home / "reports"), "--out")
    begun(home, first)
    family = tools.family(first.pid)
    assert len(family) > 4  # the batch, the process that copies itself, two copies, and one
    first.kill()
    first.communicate()
    tools.gone(family)
    assert report_files(home / "reports", A) == before
    (home / "go").touch()
    assert reproduce() == {A: "changed"} and whole_report(home / "reports", A)
    assert numbers(home / "reports", A)["a"] == "1" and litter(home / "reports") == []


def test_a_stopped_batch_keeps_what_is_done_and_goes_on(home):
    "An impatient user, who says it again and again, gets one line, and no kernel is left."
    reports = home / "reports"
    install(home / "tables", A, table(A))
    for name in (B, C):
        install(home / "tables", name, table(name, slow(home)))
    before = old_report(reports, B)
    batch = tools.start(home, "reproduce", "--jobs", 2, tables=home / "tables")
    begun(home, batch)
    tools.wait(lambda: (reports / f"{A}.json").exists(), "the first table is made")
    family = tools.family(batch.pid)
    while batch.poll() is None and len(family) < 1000:
        batch.send_signal(signal.SIGINT)
        time.sleep(0.2)
    tools.one_line(tools.ended(batch), 130, "stopped")
    tools.gone(family)
    assert whole_report(reports, A) and report_files(reports, B) == before
    assert report_files(reports, C) == {} and litter(reports) == []
    (home / "go").touch()
    assert reproduce(B, C) == {B: "changed", C: "new"}


def test_the_end_of_the_process_that_runs_notebooks_is_told(home):
    install(home / "tables", A, table(A, slow(home)))
    batch = tools.start(home, "reproduce", tables=home / "tables")
    begun(home, batch)
    family = tools.family(batch.pid)
    family[1].kill()
    tools.one_line(tools.ended(batch), 1, "runs notebooks", "start again")
    tools.gone(family)
    (home / "go").touch()
    assert reproduce() == {A: "new"} and litter(home / "reports") == []


def test_kills_at_random_instants_leave_whole_reports(home):
    "TEST_KILLS says how many."
    chance, reports = random.Random(0), home / "reports"
    good = {A: {"0.5"}, B: {"0.5"}}
    for name in good:
        install(home / "tables", name, table(name))
        old_report(reports, name)
    for i in range(1, 1 + int(os.environ.get("TEST_KILLS", "1"))):
        call = ("reproduce", "--jobs", 2, "-p", f"value={i}", "--out", reports)
        batch = tools.start(home, *call, tables=home / "tables")
        time.sleep(chance.uniform(0.2, 4.0))
        family = tools.family(batch.pid)
        batch.kill()
        batch.communicate()
        tools.gone(family)
        board = board_says()
        for name, values in good.items():
            values.add(str(i))
            assert board[name].startswith("stale: ") or numbers(reports, name)["a"] in values
    assert reproduce("-p", "value=100", "--out", reports) == dict.fromkeys(good, "changed")
    assert [numbers(reports, n)["a"] for n in good] == ["100", "100"] and litter(reports) == []


KILLED_WHILE_MOVING = """\
import os, signal
move, moved = os.replace, []
def replace(source, target):
    if f"{os.sep}reports{os.sep}identifyme{os.sep}" in str(target):
        moved.append(target)
        if len(moved) == 3: os.kill(os.getpid(), signal.SIGKILL)
    return move(source, target)
os.replace = replace
"""


def test_a_kill_while_files_are_moved_into_place_is_noticed_and_mended(home):
    "Four files cannot be replaced in one instant; a mixture is never taken for a report."
    install(home / "tables", A, table(A))
    reports = home / "reports"
    before = old_report(reports, A)
    code = KILLED_WHILE_MOVING + tools.ELSEWHERE
    said = tools.ended(tools.start(home, "reproduce", tables=home / "tables", code=code))
    assert said.status == -signal.SIGKILL, said
    after = report_files(reports, A)
    assert 0 < sum(after[end] != before[end] for end in before) < len(before)
    assert board_says()[A].startswith("stale: ")
    assert reproduce() == {A: "changed"} and whole_report(reports, A) and litter(reports) == []


# Disks


def test_a_full_disk_leaves_the_old_report_whole(home, disk, monkeypatch, capsys):
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
        assert report_files(reports, A) == before and litter(reports) == []
        disk.free()


def test_a_read_only_folder_leaves_the_old_report_whole(home, disk, monkeypatch, capsys):
    reports = disk.path / "reports"
    monkeypatch.setenv("REFNB_REPORTS", str(reports))
    install(home / "tables", A, table(A))
    before = old_report(reports, A)
    disk.mode("ro")
    said = tools.here(capsys, "reproduce", A)
    tools.one_line(said, 1, "read-only file system", str(reports), "--out")
    assert report_files(reports, A) == before
    disk.mode("rw")
    assert reproduce(A) == {A: "changed"} and litter(reports) == []


# What is made anew


TASK = "altentities/test"  # what a table reads runs of


class Prepared:
    """Tables whose reports lie ready, to be copied by their notebooks.

    So each kernel has little to load, and what a notebook gives can be changed without it."""

    def __init__(self, home: Path):
        self.home, self.reports = home, home / "reports"

    def give(self, name: str, values: dict, cell="1", note="", picture=b"", task=TASK):
        "Say what a table's notebook writes."
        made = self.home / "made" / name.replace("/", "-")
        path = self.home / f"tables/{name}.ipynb"
        copy = f"import shutil\nshutil.copytree({str(made)!r}, out, dirs_exist_ok=True)"
        log = f"with open({str(self.home / 'ran')!r}, 'a') as f: print({name!r}, file=f)"
        declared = ['out: str = ""  # folder', f'task: str = "{task}"  # what is answered']
        nb = notebook(copy, log, cell, parameters="\n".join(declared))
        install(self.home / "tables", name, nb)
        shutil.rmtree(made, ignore_errors=True)
        report = report_of(name, values, task=task)
        if note:
            report.quote("a note", note, "somebody")
        path = report.write(made)
        if picture:
            provenance = json.loads(path.read_bytes())
            path.with_suffix(".png").write_bytes(picture)
            provenance["files"][f"{path.stem}.png"] = hashlib.sha256(picture).hexdigest()
            del provenance["id"]
            path.write_bytes(with_id(json.dumps(provenance).encode()))

    def notebook(self, name: str) -> Path:
        return self.home / f"tables/{name}.ipynb"

    def report(self, name: str, end: str) -> Path:
        return self.reports / f"{name}.{end}"

    def batch(self, *args: object) -> dict[str, str]:
        "Make the tables; what became of each. `unchanged` is what was not run."
        (self.home / "ran").write_text("")
        made = reproduce(*args)
        ran = (self.home / "ran").read_text().splitlines()
        assert sorted(ran) == sorted(n for n, state in made.items() if state != "unchanged"), made
        return made


def change_outputs(t: Prepared, name: str):
    nb = json.loads(t.notebook(name).read_text())
    nb["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["1"]}]
    nb["cells"][1]["execution_count"], nb["metadata"]["more"] = 7, "x"
    t.notebook(name).write_text(json.dumps(nb))


def edit_numbers(t: Prepared, name: str):
    path = t.report(name, "csv")
    path.write_text(path.read_text().replace(",1,", ",9,"))


def bring_input(t: Prepared, name: str):
    "The first file of IdentifyMe's released answers."
    path = t.home / "upstream" / files_of("identifyme-answers")[0].place
    path.parent.mkdir(parents=True)
    path.touch()


def bring_hub_file(t: Prepared, name: str):
    path = the_hub_file("bookcoref-gold").place(load_settings())
    path.parent.mkdir(parents=True)
    path.touch()


def bring_run(t: Prepared, name: str):
    "A run of its task, and one of another."
    for runs in ("sample/runs/sample/identifyme", "runs/other"):
        (t.reports / runs).mkdir(parents=True)
        (t.reports / runs / "random-0123456789ab.json").write_text("{}")


VALUES = {"a": 1.0, "b": 2.0}
INPUT_CAME, RUN_CAME = "an input came", "a run of its task came"
HUB_CAME = "a file of a hub came"
PICTURED, FAILS = "a picture is deleted", "it failed"
CHANGES = {  # what happens between two batches -> how, and the state after the second
    "nothing": (lambda t, name: None, "unchanged"),
    "other outputs of its notebook": (change_outputs, "unchanged"),
    "a cell that shows fewer rows": (
        lambda t, name: t.give(name, {"b": 2.0}, cell="1 + 1"),
        "changed",
    ),
    "edited numbers": (edit_numbers, "changed"),
    PICTURED: (lambda t, name: t.report(name, "png").unlink(), "changed"),
    "the provenance is deleted": (lambda t, name: t.report(name, "json").unlink(), "new"),
    "another report, as after git checkout": (
        lambda t, name: old_report(t.reports, name),
        "changed",
    ),
    INPUT_CAME: (bring_input, "same"),
    RUN_CAME: (bring_run, "same"),
    HUB_CAME: (bring_hub_file, "same"),
    FAILS: (lambda t, name: None, "failed"),
}
TABLE_OF = dict(zip(CHANGES, NOTEBOOKS, strict=False))
TABLE_OF[INPUT_CAME] = "identifyme/table_6_nested_mentions"
TABLE_OF[HUB_CAME] = "bookcoref/table_8_books"


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    "Two batches of tables, between which one thing happens to each; then some more."
    home = tmp_path_factory.mktemp("twice")
    (home / "tables").mkdir()
    with pytest.MonkeyPatch.context() as m:
        tools.live_in(m, home)
        t = Prepared(home)
        for event, name in TABLE_OF.items():
            task = "sample/identifyme" if event == RUN_CAME else TASK
            picture = b"a picture" if event == PICTURED else b""
            cell = "1/0" if event == FAILS else "1"
            t.give(name, VALUES, cell=cell, picture=picture, task=task)
        variables = dict(os.environ)
        first = t.batch()
        assert dict(os.environ) == variables
        for event, name in TABLE_OF.items():
            CHANGES[event][0](t, name)
        m.setenv("REFNB_UPSTREAM", str(home / "upstream"))
        board = board_says()
        yield SimpleNamespace(t=t, first=first, board=board, second=t.batch())


def test_only_what_changed_is_made_anew(twice):
    fails = TABLE_OF[FAILS]
    assert twice.first == {n: "failed" if n == fails else "new" for n in TABLE_OF.values()}
    assert {e: twice.second[n] for e, n in TABLE_OF.items()} == {
        event: state for event, (_, state) in CHANGES.items()
    }
    for event, name in TABLE_OF.items():
        if event != FAILS:
            whole_report(twice.t.reports, name)
            fewer = event == "a cell that shows fewer rows"
            rows = {"b": "2"} if fewer else {"a": "1", "b": "2"}
            assert numbers(twice.t.reports, name) == rows, event


@pytest.mark.parametrize("event", ["edited numbers", PICTURED])
def test_a_file_that_is_not_the_one_that_was_written_makes_a_report_stale(twice, event):
    state = twice.board[TABLE_OF[event]]
    assert state.startswith("stale: ") and Path(TABLE_OF[event]).name in state


def test_the_board_shows_what_is_whole_and_what_is_not_made(twice):
    assert twice.board[TABLE_OF["nothing"]] == "regenerated"
    for event in ("the provenance is deleted", FAILS):
        assert twice.board[TABLE_OF[event]] == "to be run"


def test_a_changed_summary_and_changed_code_are_looked_at_once(twice, monkeypatch):
    t, name = twice.t, TABLE_OF[RUN_CAME]
    [summary] = (t.reports / "sample/runs/sample/identifyme").glob("*.json")
    summary.write_text('{"changed": true}')
    assert [t.batch(name)[name] for _ in "ab"] == ["same", "unchanged"]
    monkeypatch.setattr("refnb.results.reproduce.code_hash", lambda: "another")
    assert [t.batch(name)[name] for _ in "ab"] == ["same", "unchanged"]


def test_a_failure_is_tried_again_until_it_succeeds(twice):
    t, name = twice.t, TABLE_OF[FAILS]
    assert t.batch(name) == {name: "failed"} and kept_notebooks(t.reports, name)
    t.give(name, VALUES)
    assert t.batch(name) == {name: "new"} and not kept_notebooks(t.reports, name)


def test_a_report_is_not_replaced_by_one_from_fewer_inputs(twice):
    """Where nobody remembers what tables were made from, all are made; what is new is put in place.

    A number that is gone is not new, unless one says so; a note is, though numbers are the same."""
    t = twice.t
    same, fewer, noted, pictured = [
        TABLE_OF[e]
        for e in ("nothing", "edited numbers", "other outputs of its notebook", PICTURED)
    ]
    for memory in (t.reports / ".batch").rglob("*.json"):
        memory.write_text("torn")
    t.give(fewer, {"a": 1.0, "b": "not here"})
    t.give(noted, VALUES, note="a new note")
    t.give(pictured, VALUES)
    before = report_files(t.reports, fewer)
    made = t.batch(same, fewer, noted, pictured)
    assert made == {same: "same", fewer: "kept", noted: "changed", pictured: "changed"}
    assert report_files(t.reports, fewer) == before and board_says()[fewer] == "regenerated"
    assert b"a new note" in report_files(t.reports, noted)[".md"]
    assert ".png" not in report_files(t.reports, pictured)
    assert t.batch(fewer, "--force") == {fewer: "changed"}
    assert numbers(t.reports, fewer) == {"a": "1", "b": ""} and litter(t.reports) == []


def test_parameters_of_ones_own_leave_the_reports_as_they_are(home):
    install(home / "tables", A, table(A))
    reports = home / "reports"
    assert reproduce() == {A: "new"}
    before, page = report_files(reports, A), (reports / "README.md").read_bytes()
    for state in ("new", "unchanged"):
        assert reproduce(A, "-p", "value=2") == {A: state}
    [own] = (reports / "own").glob("*")
    assert numbers(own, A)["a"] == "2"
    assert report_files(reports, A) == before and (reports / "README.md").read_bytes() == page
    assert reproduce() == {A: "unchanged"}


def test_in_a_checkout_a_batch_puts_what_a_notebook_showed_into_it(home, monkeypatch):
    of_others = tools.cell("print('a text of others')", "texts")
    path = install(home / "tables", A, table(A, "print('seen')", of_others))
    before = path.read_bytes()
    assert reproduce(A) == {A: "new"} and path.read_bytes() == before
    checkout = {name: home / name for name in ("tables", "reports")}
    real = batches.packaged
    monkeypatch.setattr(batches, "packaged", lambda name: checkout.get(name) or real(name))
    assert reproduce(A, "-p", "value=2") == {A: "new"} and path.read_bytes() == before
    assert reproduce(A, "--force") == {A: "changed"}
    cells = json.loads(path.read_text())["cells"]
    assert cells[1]["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["seen\n"]}]
    assert [bool(c["outputs"]) for c in cells] == [False, True, False, True]
    assert [c["source"] for c in cells] == [c["source"] for c in json.loads(before)["cells"]]
    assert reproduce(A) == {A: "unchanged"}


# Parameters

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


def test_values_arrive_in_a_notebook_as_they_are(home):
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
    assert reproduce(A, "--out", out, *sets) == {A: "new"}
    assert json.loads((out / f"{A}.json").read_bytes())["parameters"] == meant


def changed(change) -> str:
    "A notebook whose cells were changed."
    nb = table(A)
    change(nb["cells"])
    return json.dumps(nb, indent=1)


def declares(text: str) -> str:
    "A notebook with this parameters cell."
    return json.dumps(notebook(tools.REPORT % A, parameters=text))


MERGE = "<<<<<<< HEAD\n" + json.dumps(table(A)) + "\n=======\n{}\n>>>>>>> other\n"
BROKEN = {  # a notebook, and what is said of it
    "no tag": (changed(lambda cells: cells[0]["metadata"].clear()), "`parameters`"),
    "two tags": (
        changed(lambda cells: cells[1]["metadata"].update(tags=["parameters"])),
        "2 cells",
    ),
    "torn": (json.dumps(table(A))[:300], "not a notebook"),
    "not UTF-8": ("\ud800", "not a notebook"),
    "a list": ("[]", "not a notebook"),
    "a cell without a source": (changed(lambda cells: cells[0].pop("source")), "source"),
    "marks of a merge": (MERGE, "merge"),
    "format 3": ('{"nbformat": 3, "cells": []}', "format 4"),
    "no folder": (declares("value: float = 1.0  # no out"), "`out`"),
    "no type": (declares("x = 1"), "x = 1"),
    "an unknown type": (declares("x: integer = 1"), "'integer'"),
    "a default of another type": (declares("x: int = '1'"), "'1'"),
    "an expression": (declares("x: int = 1 + 1"), "x: int = 1 + 1"),
    "an import": (declares("import os"), "import os"),
    "no Python": (declares("%time x"), "not Python"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_notebook_is_refused_in_one_line_before_anything_runs(home, capsys, fault):
    "Another table's notebook is good, but is not run; the report that is there stays."
    text, part = BROKEN[fault]
    path = install(home / "tables", A, table(A))
    install(home / "tables", B, table(B))
    before = old_report(home / "reports", A)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    tools.one_line(tools.here(capsys, "reproduce"), 1, path.name, part)
    assert report_files(home / "reports", A) == before
    assert report_files(home / "reports", B) == {}


WRONG = {  # arguments, the status, and what is said of them
    (A, "-p", "valeu=1"): (2, "did you mean value?"),
    (A, "-p", "value=1,5"): (2, "'1,5' is not of type float"),
    (A, "-p", "value=true"): (2, "'true' is not of type float"),
    (A, "-p", "value"): (2, "NAME=VALUE"),
    (A, "-p", "out=there"): (2, "--out"),
    ("--jobs", "-1"): (2, "jobs"),
    (C,): (1, C),  # has no notebook
}


@pytest.mark.parametrize("args", WRONG, ids=" ".join)
def test_a_wrong_call_is_refused_in_one_line_before_anything_runs(home, capsys, args):
    status, part = WRONG[args]
    install(home / "tables", A, table(A))
    tools.one_line(tools.here(capsys, "reproduce", *args), status, part)
    assert report_files(home / "reports", A) == {}


def test_ray_that_is_not_installed_is_named(home, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    install(home / "tables", A, table(A))
    said = tools.here(capsys, "reproduce", "--ray", "local")
    tools.one_line(said, 1, "pip install 'refnb[ray]'")
    assert litter(home / "reports") == []
