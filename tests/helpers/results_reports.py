"Reports and batches seen from outside: what a command says, what lies in the folder of reports."

import contextlib, csv, hashlib, io, json
from pathlib import Path
from refnb.results.tables import Report
import tools

LIMIT = "REFNB_TIMEOUT"  # the variable of the seconds that a cell may take


def report_files(reports: Path, name: str) -> dict[str, bytes]:
    "The files of a table's report, by their endings; empty where there is none."
    return {p.suffix: p.read_bytes() for p in reports.glob(f"{name}.*")}


def whole_report(reports: Path, name: str) -> dict:
    "The provenance of a report in place, every file of which is the one that it names."
    path = reports / f"{name}.json"
    provenance = json.loads(path.read_bytes())
    for file, sha in provenance["files"].items():
        assert hashlib.sha256(path.with_name(file).read_bytes()).hexdigest() == sha, file
    ends = {Path(file).suffix for file in provenance["files"]}
    assert set(report_files(reports, name)) == {".json", *ends}
    return provenance


def numbers(reports: Path, name: str) -> dict[str, str]:
    "Our number in each row of a report of one column."
    return {r["row"]: r["ours"] for r in tools.report_rows(reports, name)}


def litter(reports: Path) -> list[str]:
    "What should not be there when no batch is at work: parts of files, folders of kernels."
    hidden = [p for p in reports.rglob("*") if p.relative_to(reports).parts[0][0] == "."]
    folders = [p for p in hidden if p.is_dir() and p.parent != reports]
    return [str(p) for p in [*folders, *reports.rglob("*.part"), *reports.rglob("*.tmp")]]


def kept_notebooks(reports: Path, name: str) -> list[Path]:
    "The executed notebooks of failures of a table that are kept for a look."
    return [p for p in reports.rglob("*failed.ipynb") if Path(name).name in p.name]


def quietly(*args: object) -> tools.Said:
    "Run `refnb args` in this process, where no capsys is at hand."
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        status = tools.main(list(map(str, args)))
    return tools.Said(status, out.getvalue(), err.getvalue())


def steps(out: str) -> dict[str, dict]:
    "What `refnb reproduce --json` says of each table."
    return {step["name"]: step for step in json.loads(out)["steps"]}


def states(said: tools.Said) -> dict[str, str]:
    "What became of each table."
    return {name: step["state"] for name, step in steps(said.out).items()}


def board_says() -> dict[str, str]:
    "What `refnb list tables` says of each table's report: regenerated, stale, to be run."
    said = quietly("list", "tables", "--json")
    assert said.status == 0, said
    return {x["table"]: x["report"] for x in json.loads(said.out)["tables"]}


def report_of(name: str, values: dict[str, float | str], **parameters) -> Report:
    "A report of one column, of the sample; a text in a number's place is why there is none."
    report = Report(name, "strict", parameters, sample=True)
    for row, value in values.items():
        if isinstance(value, str):
            report.add(row, "all", reason=value)
        else:
            report.add(row, "all", value)
    return report


def cells_of_report(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    "The cells of a CSV file of a report by row and column."
    with path.open(newline="") as f:
        return {(c["row"], c["column"]): c for c in csv.DictReader(f)}
