"The page of promises: what refnb promises, which tests hold it to that, and what the last full run of these saw."

import json, re
from pathlib import Path
import yaml
from markup import Page, escape, table
from pages import ROOT, code

OTHERS = {
    "inspect_ai": "inspect_ai 0.3.285",
    "lm_eval": "lm-evaluation-harness 0.4.13",
    "papermill": "papermill 2.7.0",
}
PLANTED = "test_f80_a_planted_fault_is_caught"
INTRO = f"""# Promises

> What refnb promises when something goes wrong, the tests that hold it to that, and what other programs promise.

Each promise names its tests. Their numbers are those of its last full run, which `make test-full` writes into
`reports/promises.json`; nobody types them. A test that no longer exists stops the building of this page.

The comparison is with {OTHERS["inspect_ai"]}, {OTHERS["lm_eval"]} and {OTHERS["papermill"]}. What they do promise was
read in their code; *not promised* means that a search of their code for the words one would expect found nothing. It
does not mean that the program fails there, something may have been overlooked, and all three do much that refnb does
not."""

Ran = dict[
    str, dict[str, dict]
]  # file -> test -> date, commit, seconds; passed, failed, skipped; kills and mutations


def sections() -> list[dict]:
    "The promises, by what goes wrong."
    return yaml.safe_load((Path(__file__).parent / "promises.yaml").read_text())


def files_of_tests() -> dict[str, list[str]]:
    "The names of all tests -> the files that have them."
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M):
            found.setdefault(name, []).append(f"tests/{path.name}")
    return found


def figures() -> Ran:
    "What was run in full; nothing before the first such run."
    path = ROOT / "reports/promises.json"
    return json.loads(path.read_text()) if path.exists() else {}


# Tables


def number(n: int, what: str) -> str:
    return f"{n:,} {what}"


def counted(counts: dict[str, int]) -> str:
    "The counts of a test, in words."
    names = [
        ("passed", "passed"),
        ("failed", "FAILED"),
        ("skipped", "skipped"),
        ("kills", "kills"),
        ("mutations", "damaged files"),
    ]
    return ", ".join(number(counts[k], what) for k, what in names if counts.get(k))


def last(name: str, files: list[str], ran: Ran) -> str:
    "What the last full run saw of a test, in words."
    entries = [ran[f][name] for f in files if name in ran.get(f, {})]
    found = [f"{counted(e)} ({e['date']}, {e['commit']})" for e in entries]
    return escape("; ".join(found)) or "<em>not run in full yet</em>"


def tests_of(promise: dict, files: dict[str, list[str]], ran: Ran) -> str:
    "The tests of a promise, each with what was seen of it."
    return "<br>".join(f"{code(t)}<br>{last(t, files.get(t, []), ran)}" for t in promise["tests"])


def section(page: Page, s: dict, files: dict[str, list[str]], ran: Ran):
    "The promises of one kind of trouble: ours with their tests, then what others promise."
    page.markdown(f"## {s['about']}\n\n{s['what']}")
    ours = [
        [escape(p["point"]), page.inline(p["promise"]), tests_of(p, files, ran)]
        for p in s["promises"]
    ]
    page.add(table(["point", "what refnb promises", "tests, and what the last full run saw"], ours))
    theirs = [[escape(p["point"]), *(page.inline(p[k]) for k in OTHERS)] for p in s["promises"]]
    page.add(table(["point", *OTHERS.values()], theirs))


def total(key: str, tests: dict[str, dict]) -> int:
    return sum(t.get(key, 0) for t in tests.values())


def summary(ran: Ran) -> str:
    "The figures of all files together, in a sentence."
    kills, mutations = (
        sum(total(key, tests) for tests in ran.values()) for key in ("kills", "mutations")
    )
    planted = ran.get("tests/test_planted.py", {}).get(PLANTED, {})
    caught, missed = planted.get("passed", 0), planted.get("failed", 0)
    return (
        f"In the last full run of each test there were {kills:,} kills and {mutations:,} damaged files; "
        f"{caught} of {caught + missed} faults that were planted in guards were caught by a test."
    )


def of_file(file: str, tests: dict[str, dict]) -> list[str]:
    "The row of a file: its tests of faults, and when the first and the last of them were run."
    dates = sorted({t["date"] for t in tests.values()})
    commits = " ".join(sorted({t["commit"] for t in tests.values()}))
    numbers = [
        total(k, tests) for k in ("passed", "failed", "skipped", "kills", "mutations", "seconds")
    ]
    return [
        code(file),
        " to ".join(dict.fromkeys([dates[0], dates[-1]])),
        code(commits),
        len(tests),
        *(f"{n:,}" for n in numbers),
    ]


HEAD = [
    "file",
    "date",
    "commit",
    "tests",
    "passed",
    "failed",
    "skipped",
    "kills",
    "damaged files",
    "seconds",
]


def run_in_full(page: Page, ran: Ran, named: set[str]):
    "Which files of tests were run in full, when, and which were not."
    page.markdown(f"## The last full runs\n\n{summary(ran)}")
    rows = [of_file(f, tests) for f, tests in sorted(ran.items()) if tests]
    page.add(table(HEAD, rows, right=",".join(HEAD[3:])))
    if left := sorted(named - set(ran)):
        page.markdown(
            "Tests of promises that were not run in full yet: "
            + ", ".join(f"`{f}`" for f in left)
            + "."
        )


def promises(site) -> Page:
    "The page; a test that is named and does not exist is a fault."
    page, files, ran, all_ = (
        Page(site, "promises.html", wide=True),
        files_of_tests(),
        figures(),
        sections(),
    )
    named = [t for s in all_ for p in s["promises"] for t in p["tests"]]
    site.faults += [f"promises.yaml: there is no test {t}" for t in named if t not in files]
    page.markdown(INTRO)
    for s in all_:
        section(page, s, files, ran)
    run_in_full(page, ran, {f for t in named for f in files.get(t, [])} | {"tests/test_planted.py"})
    return page
