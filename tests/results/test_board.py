"The board: numbers counted once, ways to the missing ones, stale reports, committed reports."

import csv, json, math, re
from collections import Counter
from pathlib import Path
import pytest
from refnb.core.runs import with_id
from refnb.core.settings import load_settings
from refnb.core.types import DataError, Lack
from refnb.core.upstream import files_of, set_names
from refnb.results.board import board, evidence_of, plan
from refnb.results.execution import fate_of_report
from refnb.results.printed import EFFORTS, printed, table_names, value_of, ways
from refnb.results.stale import Fault, Stale
from refnb.results.tables import Report
import tools
from results_reports import board_says, quietly, whole_report
from tools import ROOT

REPORTS = ROOT / "reports"
COMMITTED = [
    f"{p.parent.name}/{p.stem}"
    for p in sorted(REPORTS.glob("*/*.json"))
    if p.parent.name not in ("sample", "own") and "table" in json.loads(p.read_bytes())
]
here = load_settings("/", env={}, reports=str(REPORTS))


# Counts


def test_the_board_counts_each_number_once_and_by_its_kind_of_difference(tmp_path, settings):
    name = "bookcoref/table_6_window_results"
    r, row = Report(name), "off-the-shelf / BookNLP"
    r.add(row, "full / MUC", 83.12)  # printed in Table 3, too
    r.add(row, "window / MUC", 81.3)
    r.add(row, "window / B3", 50.0, because="an older one", cause="data")
    r.add(row, "window / CEAFe", 20.0, others={"rounded": 23.4})
    r.add(row, "window / CoNLL", 50.0)
    r.write(tmp_path)
    s = settings(reports=str(tmp_path))
    [line] = (x for x in board(s).lines if x.name == name)
    counts = (line.match, line.explained, line.other_data, line.unexplained, line.repeated)
    assert counts == (1, 1, 1, 1, 56) and line.printed == 28 and line.coverage == "partial"
    missing = plan([name], s).by_effort
    assert missing == line.by_effort and missing.total() == 24


def test_the_board_adds_up():
    "A printed number is matched, differs or is missing; a missing one has a class."
    b = board(here)
    for line in b.lines:
        computed = line.match + line.differ
        assert line.printed == computed + line.missing and line.unexplained <= line.differ
        assert set(line.by_effort) <= set(EFFORTS)
        if not line.printed:
            state = "nothing printed"
        else:
            state = "complete" if not line.missing else "partial" if computed else "empty"
        assert line.coverage == state, line.name
    readme = (ROOT / "README.md").read_text()
    assert b.summary() in " ".join(readme.split()) and b.by_paper_markdown() in readme
    assert b.total("chosen") == 138
    assert all(x.by_evidence.total() == x.match + x.differ for x in b.lines)


def test_a_number_of_several_runs_is_of_models_unless_answers_were_released():
    rules = {"sample/identifyme:random": "aa", "sample/identifyme:nearest-mention": "bb"}
    both = rules | {"sample/identifyme:published/gpt-4o": "cc"}
    several = "random@aa nearest-mention@bb"
    for runs in (rules, both):
        assert [evidence_of(run, runs) for run in (several, "random@aa")] == ["models"] * 2
    assert evidence_of("dev, test", rules) == "corpora"
    assert [evidence_of(run, both) for run in (f"{several} published/gpt-4o@cc", "")] == [
        "answers"
    ] * 2


def test_the_committed_board_is_what_the_reports_say(tmp_path):
    "The page does not depend on what lies on a machine, so it can be made again anywhere."
    s = here.changed(offline=False, upstream="", cache=str(tmp_path))
    b = board(s)
    assert b.markdown() == (REPORTS / "README.md").read_text() and len(b.markdown()) < 12_000
    for paper, text in b.pages().items():
        assert text == (REPORTS / paper / "README.md").read_text()


# The way to each missing number


def test_every_missing_number_has_one_way_and_board_and_plan_agree():
    found, lines = plan(s=here), [x for x in board(here).papers if x.missing]
    for line in lines:
        assert sum(x.cells.get(line.name, 0) for x in found) == line.missing, line.name
    assert found.by_effort == sum((x.by_effort for x in lines), Counter())
    assert all(x.way.commands or x.way.by_hand for x in found)


def test_another_sentence_in_a_report_changes_no_count(tmp_path, settings):
    "What a cell counts as is a kind that the code says; nothing is read from its words."
    s = settings(reports=str(tmp_path))
    for name in COMMITTED:
        source, target = REPORTS / f"{name}.csv", tmp_path / f"{name}.csv"
        target.parent.mkdir(exist_ok=True)
        with source.open(newline="") as a, target.open("w", newline="") as b:
            rows = csv.DictReader(a)
            out = csv.DictWriter(b, rows.fieldnames)
            out.writeheader()
            out.writerows(c | {"reason": c["reason"] and "see the notes"} for c in rows)
        target.with_suffix(".json").write_bytes(source.with_suffix(".json").read_bytes())
    assert board(s).summary() == board(here).summary()


def test_a_printed_number_that_is_missing_names_what_would_fill_it():
    r, row = Report("bookcoref/table_6_window_results"), "off-the-shelf / BookNLP"
    with pytest.raises(DataError, match="names no way to one"):
        r.add(row, "full / MUC", reason="the dog ate it")
    cell = r.add(row, "full / MUC", needs="bookcoref-gold")
    assert (cell.kind, ways()[cell.needs].takes) == ("missing", "download") and cell.why
    r.add(row, "full / B3", needs=Lack("files", "it is away", "refnb fetch litbank", "litbank"))
    assert r.cells[row, "full / B3"].needs == "litbank"


def test_numbers_of_tables_that_were_not_made_are_counted_as_such(tmp_path, settings):
    b = board(settings(reports=str(tmp_path)))
    assert {effort for line in b.papers for effort in line.by_effort} == {"not made"}
    assert "292 not made |" in b.by_paper_markdown() and "download" not in b.by_paper_markdown()


def test_one_fetch_is_what_a_missing_set_takes():
    "Also where a table's notebook says it in words of its own."
    for name in set_names():
        assert ways()[name].takes in ("download", "script"), name


def test_every_command_of_the_plan_is_one():
    commands = [c.split() for w in ways().values() for c in w.commands]
    assert {c[0] for c in commands} == {"refnb"}
    assert {c[1] for c in commands} == {"fetch", "run", "train", "reproduce"}
    tables = {t for c in commands if c[1] == "reproduce" for t in c[2:] if "/table" in t}
    assert all(any(n.startswith(f"{t}_") for n in table_names()) for t in tables)
    said = quietly("reproduce", "--plan", "kitmus")
    assert said.status == 0 and "refnb fetch kitmus-predictions" in said.out


# Stale reports

TABLE, OTHER = "bookcoref/table_5_prompt", "identifyme/own_paired_comparisons"
FILE = files_of("identifyme-answers")[0]
RUN = {"sample/identifyme:random": "0" * 12}


@pytest.fixture
def home(tmp_path, monkeypatch):
    tools.live_in(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture
def written(home):
    "A function that writes a report of a table, and says what the board says of it."

    def write(name: str = TABLE, inputs=(), runs=()) -> str:
        r = Report(name)
        r.add("r", "c", 1.0)
        r.inputs.update(inputs)
        r.runs.update(runs)
        r.write(home / "reports")
        return board_says()[name]

    return write


def faults() -> dict[str, Stale | None]:
    "What of each table's report is out of date."
    return {x.name: x.stale for x in board().lines}


def alter(path: Path, kind: str, key: str) -> None:
    "Write a provenance that names another hash of one thing, as refnb would write it."
    good = json.loads(path.read_bytes())
    good[kind][key] = "0" * len(good[kind][key])
    del good["id"]
    path.write_bytes(with_id(json.dumps(good).encode()))


HYPERPARAMETERS = "altentities/table_13_hyperparameters"
PRINTED = ("printed values", "what is printed")  # the one as an input, the other beside the code


@pytest.mark.parametrize(
    ("name", "inputs"),
    [(TABLE, {}), (TABLE, {FILE.key: FILE.blob}), (HYPERPARAMETERS, {})],
    ids=["sets of files", "a file", "printed values"],
)
def test_a_change_of_anything_that_made_a_report_makes_it_stale(home, written, name, inputs):
    "Each file, each input, notebook and code; what is wrong is named, no other report is stale."
    assert written(OTHER) == written(name, inputs) == "regenerated"
    path = home / f"reports/{name}.json"
    good = path.read_bytes()
    for kind in ("files", "inputs", "made_with"):
        assert json.loads(good)[kind]
        for key in json.loads(good)[kind]:
            alter(path, kind, key)
            fault = faults()[name]
            assert fault == Stale(Fault.PRINTED) if key in PRINTED else fault.what == key, key
            assert fault.still_counts == (kind == "made_with" or key in PRINTED)
            assert board_says()[name] == f"stale: {fault}" and not faults()[OTHER]
            path.write_bytes(good)


@pytest.mark.parametrize("name", [TABLE, HYPERPARAMETERS])
def test_a_corrected_print_means_the_same_for_every_table(home, written, name):
    "Of two numbers one is lost when the table is made again, and the report is kept."
    report, less = Report(name), Report(name)
    for row in ("a", "b"):
        report.add(row, "c", 1.0)
    less.add("a", "c", 1.0)
    less.add("b", "c", reason="its input is not here")
    path, folder = report.write(home / "reports"), home / "less"
    for kind, key in {"inputs": PRINTED[0], "made_with": PRINTED[1]}.items():
        if key in json.loads(path.read_bytes())[kind]:
            alter(path, kind, key)
    assert faults()[name] == Stale(Fault.PRINTED)
    less.write(folder)
    files = [p for p in folder.rglob("*") if p.is_file()]
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}
    assert fate_of_report(name, files, home / "reports") == "kept"


def test_another_run_of_a_system_makes_a_report_stale(home, written):
    assert written(runs=RUN) == "regenerated"
    folder = home / "reports/sample/runs/sample/identifyme"
    folder.mkdir(parents=True)
    (folder / f"random-{'1' * 12}.json").write_text("{}")
    state = board_says()[TABLE]
    assert state.startswith("stale: ") and "random" in state


def test_other_bytes_of_an_upstream_file_make_a_report_stale(home, written, monkeypatch):
    path = home / "upstream" / FILE.place
    path.parent.mkdir(parents=True)
    monkeypatch.setenv("REFNB_UPSTREAM", str(home / "upstream"))
    assert written(inputs={FILE.key: FILE.blob}) == "regenerated"
    path.write_bytes(b"other bytes")
    assert FILE.key in board_says()[TABLE]


@pytest.mark.parametrize("text", ["{}", '{"table": 1', "[" * 2000, "\ud800"])
def test_a_damaged_report_spoils_its_own_line_alone(home, written, text):
    written(OTHER)
    written()
    path = home / f"reports/{TABLE}.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    states = board_says()
    assert states[TABLE].startswith("stale: ")
    assert states[OTHER] == "regenerated"


# Committed reports


def test_committed_reports_are_whole_and_of_today():
    "And say of cells what the printed values say; each missing number has its reason."
    states = {x.name: x.report for x in board(here).lines}
    assert len(COMMITTED) >= 38
    for name in COMMITTED:
        provenance, path = whole_report(REPORTS, name), REPORTS / f"{name}.csv"
        assert states[name] == "regenerated", f"{name}: refnb reproduce {name}"
        cells = list(csv.DictReader(path.read_text().splitlines()))
        assert provenance["table"] == name and provenance["inputs"] and not provenance["sample"]
        assert sum(provenance["counts"].values()) == len(cells)
        assert {c["table"] for c in cells} == {name}
        assert all(c["ours"] or c["reason"] and c["needs"] != "left-out" for c in cells), name
        paper = {(c["row"], c["column"]): c["paper"] for c in cells}
        for row, of in printed(name).cells.items():
            for column, x in of.items():
                assert float(paper[row, column]) == value_of(x), (name, row, column)


def test_committed_reports_are_read_by_table_programs_and_by_latex():
    "The column of printed numbers is numeric; no sign is left that LaTeX refuses or shows as another."
    for path in REPORTS.glob("*/*.csv"):
        cells = list(csv.DictReader(path.read_text().splitlines()))
        assert all(c["paper"] == "" or math.isfinite(float(c["paper"])) for c in cells), path
        assert all((c["source"] == "not in our sources") == (c["paper"] == "") for c in cells)
        tex = path.with_suffix(".tex").read_text()
        bare = re.sub(r"\\[&%$#_{}]|\$\\?\w+\$|\$-\$|\\label\{.*?\}", "", tex)
        assert not re.search(r"[%$#_~^<>|`]", bare), path
        assert all(c.isalpha() and c < "\u0180" or c in "…–’“”" for c in bare if c > "~"), path


def test_cells_that_differ_from_print_are_explained_on_their_page():
    for name in (n for n in COMMITTED if n.startswith("identifyme/table")):
        page = (REPORTS / f"{name}.md").read_text()
        for c in csv.DictReader((REPORTS / f"{name}.csv").read_text().splitlines()):
            if c["difference"] not in ("", "0"):
                known = c["reason"] == "unexplained" or f"{c['row']}, {c['column']}" in page
                assert c["reason"] and known, (name, c)
