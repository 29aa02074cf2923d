"""What a full run of the tests saw, in numbers: `reports/promises.json`, which the site's page of promises reads.

Each test of a fault (`test_f33_…`) whose cases were all run replaces its entry. Others keep theirs, each with its own
date and commit, so that the page can say what was last run when."""

import json, re, subprocess, time
from pathlib import Path
import pytest

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "reports/promises.json"


def version() -> str:
    "The commit that is tested; a + says that files differ from it."

    def git(*args: str) -> str:
        return subprocess.run(
            ["git", *args], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()

    changed = git(
        "status", "--porcelain", "--untracked-files=no", "--", ".", f":!{FIGURES.relative_to(ROOT)}"
    )
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")


def named(node: str) -> tuple[str, str]:
    "The file and the test of a case."
    file, _, name = node.partition("::")
    return file, name.partition("[")[0]


class Figures:
    "Counts what becomes of the tests of faults, by file and by name."

    def __init__(self):
        self.commit, self.tests, self.partly = version(), {}, set()

    def entry(self, test: tuple[str, str]) -> dict:
        today = time.strftime("%Y-%m-%d", time.gmtime())
        return self.tests.setdefault(test, {"date": today, "commit": self.commit, "seconds": 0.0})

    def pytest_deselected(self, items: list[pytest.Item]):
        "A test of which a case is left out says nothing about the others."
        self.partly |= {named(i.nodeid) for i in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport):
        "Count a case once; what it says with `record_property` is added up."
        test = named(report.nodeid)
        if not re.search(r"_f\d\d_", test[1]):
            return
        entry = self.entry(test)
        entry["seconds"] += report.duration
        if report.when != "call" and report.passed:
            return
        numbers = [(k, n) for k, n in report.user_properties if isinstance(n, int)]
        for key, n in [(report.outcome, 1), *numbers]:
            entry[key] = entry.get(key, 0) + n

    def whole(self, config: pytest.Config) -> dict[tuple[str, str], dict]:
        "The tests of which all cases were run."
        partly = self.partly | {named(a) for a in config.args if "[" in a}
        return {
            k: v | {"seconds": round(v["seconds"])}
            for k, v in self.tests.items()
            if k not in partly
        }

    def pytest_sessionfinish(self, session: pytest.Session):
        "Keep the figures, unless the session was stopped, or several processes ran only some tests: none of them knows which."
        shared = session.config.getoption("numprocesses", None) and chosen(session.config)
        if session.shouldstop or session.shouldfail or shared:
            return
        kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
        for (file, name), entry in self.whole(session.config).items():
            kept.setdefault(file, {})[name] = entry
        FIGURES.write_text(
            json.dumps(
                {k: there(k, v) for k, v in kept.items() if (ROOT / k).exists()},
                indent=1,
                sort_keys=True,
            )
            + "\n"
        )


def chosen(config: pytest.Config) -> bool:
    "Tell whether only some of all tests were asked for."
    return (
        bool(config.option.keyword or config.option.markexpr)
        or config.args_source == pytest.Config.ArgsSource.ARGS
    )


def there(file: str, tests: dict) -> dict:
    "The entries of the tests that a file still has."
    names = set(re.findall(r"^def (test_\w+)", (ROOT / file).read_text(), re.M))
    return {k: v for k, v in tests.items() if k in names}
