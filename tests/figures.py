"""What a full run of the tests saw, in numbers: `reports/promises.json`, which the site's page of promises reads.

Each file of tests that `make test-full` runs as a whole replaces its entry. The entries of other files stay, each with
its own date and commit, so that the page can say what was last run when."""
import json, re, subprocess, time
from pathlib import Path
import pytest

ROOT = Path(__file__).parents[1]
FIGURES = ROOT/"reports/promises.json"

def version() -> str:
    "The commit that is tested; a + says that files differ from it."
    def git(*args: str) -> str: return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{FIGURES.relative_to(ROOT)}")
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")

def whole(config: pytest.Config) -> bool:
    "Whether whole files are run: part of a file says nothing about the file."
    chosen = config.getoption("keyword") or config.getoption("markexpr") or any("::" in a for a in config.args)
    return not chosen and not config.getoption("numprocesses", None)

class Figures:
    "Counts what becomes of the tests, by file and by name."
    def __init__(self):
        self.commit, self.files = version(), {}

    def entry(self, file: str) -> dict:
        new = {"date": "", "commit": self.commit, "passed": 0, "failed": 0, "skipped": 0, "seconds": 0, "tests": {}}
        return self.files.setdefault(file, new)

    def pytest_runtest_logreport(self, report: pytest.TestReport):
        "Count a test once; what it says with `record_property` is added up over its cases."
        file, _, name = report.nodeid.partition("::")
        entry = self.entry(file)
        entry["seconds"] += report.duration
        if report.when != "call" and report.passed: return
        entry[report.outcome] += 1
        name = name.partition("[")[0]
        if not re.search(r"_f\d\d_", name): return
        test = entry["tests"].setdefault(name, {})
        numbers = [(k, n) for k, n in report.user_properties if isinstance(n, int)]
        for key, n in [(report.outcome, 1), *numbers]: test[key] = test.get(key, 0) + n

    def pytest_sessionfinish(self, session: pytest.Session):
        "Keep the figures, unless the session was stopped."
        if session.shouldstop or session.shouldfail or not whole(session.config): return
        kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
        for entry in self.files.values():
            entry |= {"date": time.strftime("%Y-%m-%d", time.gmtime()), "seconds": round(entry["seconds"])}
        here = {k: v for k, v in (kept | self.files).items() if (ROOT/k).exists()}
        FIGURES.write_text(json.dumps(here, indent=1, sort_keys=True) + "\n")
