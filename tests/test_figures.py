"What a full run writes of itself: numbers by test, and only of tests of which all cases were run."

import json
from types import SimpleNamespace
import figures
import pytest

FILE, ONE, TWO = (
    "tests/test_planted.py",
    "test_f80_a_planted_fault_is_caught",
    "test_f80_each_fault_has_its_place",
)


def report(name: str, outcome: str = "passed", when: str = "call", **told: int) -> SimpleNamespace:
    "What pytest says of a case."
    node = f"{FILE}::{name}"
    return SimpleNamespace(
        nodeid=node,
        outcome=outcome,
        when=when,
        passed=outcome == "passed",
        duration=0.6,
        user_properties=[*told.items()],
    )


def session(
    args: tuple = ("tests",), stopped: str = "", processes: int = 0, keyword: str = ""
) -> SimpleNamespace:
    "A session of pytest at its end."
    sources = pytest.Config.ArgsSource
    config = SimpleNamespace(
        args=args,
        getoption=lambda name, default: processes,
        option=SimpleNamespace(keyword=keyword, markexpr=""),
        args_source=sources.TESTPATHS if args == ("tests",) else sources.ARGS,
    )
    return SimpleNamespace(config=config, shouldstop=stopped, shouldfail="")


OLD = {
    "tests/test_gone.py": {},
    FILE: {TWO: {"date": "before"}, "test_f80_gone": {"date": "before"}},
}


@pytest.fixture
def path(tmp_path, monkeypatch):
    "Where the figures go; there are some already, also of tests that are gone."
    path = tmp_path / "promises.json"
    path.write_text(json.dumps(OLD))
    monkeypatch.setattr(figures, "FIGURES", path)
    monkeypatch.setattr(figures, "version", lambda: "abc")
    return path


def seen() -> figures.Figures:
    "A run of a test of four cases, and of another test."
    f = figures.Figures()
    for r in (
        report(f"{ONE}[a]", kills=3),
        report(f"{ONE}[b]", kills=4),
        report(f"{ONE}[b]", when="teardown"),
        report(f"{ONE}[c]", "skipped", "setup"),
        report(f"{ONE}[d]", "failed"),
        report("test_a_page"),
    ):
        f.pytest_runtest_logreport(r)
    return f


@pytest.mark.parametrize("processes", [0, 2])
def test_what_a_full_run_leaves(path, processes):
    seen().pytest_sessionfinish(session(processes=processes))
    got = json.loads(path.read_text())
    assert (
        set(got) == {FILE} and got[FILE][TWO] == {"date": "before"} and set(got[FILE]) == {ONE, TWO}
    )
    one = got[FILE][ONE]
    assert one.pop("date") and one == {
        "commit": "abc",
        "passed": 2,
        "failed": 1,
        "skipped": 1,
        "kills": 7,
        "seconds": 3,
    }


@pytest.mark.parametrize(
    "part",
    [
        session((f"{FILE}::{ONE}[a]",)),
        session(stopped="ctrl-c"),
        session((FILE,), processes=2),
        session(processes=2, keyword="kill"),
    ],
    ids=["a case", "stopped", "some files, shared", "some tests, shared"],
)
def test_a_part_of_a_run_leaves_nothing(path, part):
    seen().pytest_sessionfinish(part)
    assert ONE not in json.loads(path.read_text())[FILE]


def test_a_test_of_which_cases_were_left_out_leaves_nothing(path):
    f = seen()
    f.pytest_deselected([SimpleNamespace(nodeid=f"{FILE}::{ONE}[e]")])
    f.pytest_sessionfinish(session())
    assert ONE not in json.loads(path.read_text())[FILE]
