"Guards are taken out, one after the other, in a copy of the checkout; each must make a test fail."

import os, shutil, subprocess, sys
from collections import Counter
from functools import reduce
from importlib import import_module
from pathlib import Path
import pytest
from planted import GUARDS, Guard
from tools import FULL, ROOT

full = pytest.mark.skipif(not FULL, reason="slow: make test-full runs it (TEST_FULL=1)")


def test_each_guard_is_where_it_is_said_to_be():
    assert max(Counter(g.about for g in GUARDS).values()) == 1
    for g in GUARDS:
        module, name = g.place.split(":")
        reduce(getattr, name.split("."), import_module(f"refnb.{module}"))
        compile(g.instead, g.about, "eval")
        assert (ROOT / "tests" / g.tests).exists(), g


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    "The files that git knows, elsewhere."
    to = tmp_path_factory.mktemp("planted") / "checkout"
    listing = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def outcome(copy: Path, tests: str, named: str) -> subprocess.CompletedProcess:
    env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "TEST_FULL": ""}
    options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-rf", f"tests/{tests}"]
    command = [sys.executable, "-m", "pytest", *options, "-k", named]
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)


@full
@pytest.mark.parametrize("g", GUARDS, ids=[g.about for g in GUARDS])
def test_a_guard_that_is_taken_out_is_missed(copy: Path, g: Guard):
    module, name = g.place.split(":")
    path = copy / "refnb" / f"{module.replace('.', '/')}.py"
    whole = path.read_text()
    path.write_text(f"{whole}\n\nreal = {name}\n{name} = {g.instead}\n")
    try:
        got = outcome(copy, g.tests, g.named)
    finally:
        path.write_text(whole)
    assert got.returncode == 1 and "FAILED tests/" in got.stdout, got.stdout[-500:]


@full
@pytest.mark.parametrize("tests", sorted({g.tests for g in GUARDS}))
def test_with_all_guards_in_place_nothing_fails(copy: Path, tests: str):
    named = " or ".join(sorted({f"({g.named})" for g in GUARDS if g.tests == tests}))
    got = outcome(copy, tests, named)
    assert got.returncode == 0, got.stdout[-500:]
