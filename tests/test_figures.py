"What a full run writes of itself: numbers by test, and only of files that were run as a whole."
import json
from types import SimpleNamespace
import figures
import pytest

FILE = "tests/test_figures.py"

def report(name: str, outcome: str = "passed", when: str = "call", **told: int) -> SimpleNamespace:
    "What pytest says of a test."
    node = f"{FILE}::{name}"
    return SimpleNamespace(nodeid=node, outcome=outcome, when=when, passed=outcome == "passed", duration=.6, user_properties=[*told.items()])

def session(keyword: str = "", args: tuple = ("tests",), stopped: str = "") -> SimpleNamespace:
    "A session of pytest at its end."
    options = {"keyword": keyword}
    config = SimpleNamespace(args=args, getoption=lambda name, default="": options.get(name, default))
    return SimpleNamespace(config=config, shouldstop=stopped, shouldfail="")

@pytest.fixture
def path(tmp_path, monkeypatch):
    "Where the figures go; those of another file, and of one that is gone, are there already."
    path = tmp_path/"promises.json"
    path.write_text(json.dumps({"tests/tools.py": {"date": "before"}, "tests/test_gone.py": {}}))
    monkeypatch.setattr(figures, "FIGURES", path)
    monkeypatch.setattr(figures, "version", lambda: "abc")
    return path

def seen() -> figures.Figures:
    "A run of four tests, one of two cases."
    f = figures.Figures()
    for r in (report("test_f33_killed[a]", kills=3), report("test_f33_killed[b]", kills=4), report("test_f33_killed[b]", when="teardown"),
              report("test_f71_long", "skipped", "setup"), report("test_f72_cut", "failed"), report("test_a_page")):
        f.pytest_runtest_logreport(r)
    return f

def test_what_a_full_run_leaves(path):
    seen().pytest_sessionfinish(session())
    got = json.loads(path.read_text())
    mine = got.pop(FILE)
    assert got == {"tests/tools.py": {"date": "before"}}
    assert {k: mine[k] for k in ("commit", "passed", "failed", "skipped", "seconds")} == {"commit": "abc", "passed": 3, "failed": 1, "skipped": 1, "seconds": 4}
    assert mine["tests"] == {"test_f33_killed": {"passed": 2, "kills": 7}, "test_f71_long": {"skipped": 1}, "test_f72_cut": {"failed": 1}}

@pytest.mark.parametrize("part", [session("f33"), session(args=(f"{FILE}::test_x",)), session(stopped="ctrl-c")], ids=["-k", "one test", "stopped"])
def test_a_part_of_a_run_leaves_nothing(path, part):
    before = path.read_text()
    seen().pytest_sessionfinish(part)
    assert path.read_text() == before
