"Faults are planted in guards, one after the other, in a copy of the package; each must make a test fail."

import os, shutil, subprocess, sys
from collections import Counter
from pathlib import Path
import pytest
from planted import PLANTED
from tools import FULL, ROOT


def test_f80_each_fault_has_its_place():
    assert len(PLANTED) >= 60 and max(Counter(p.what for p in PLANTED).values()) == 1
    for p in PLANTED:
        assert (ROOT / "refnb" / p.file).read_text().count(p.old) == 1, (
            f"{p.what}: {p.old!r} in {p.file}"
        )
        assert [*(ROOT / "tests").glob(f"*/{p.tests}")] and p.old != p.new


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    "The files that git knows, elsewhere."
    to = tmp_path_factory.mktemp("planted") / "checkout"
    names = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, names.split("\0")):
        if name.startswith("reports/runs/"):
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, to / name)
    return to


def outcome(copy: Path, file: str, named: str) -> subprocess.CompletedProcess:
    env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "TEST_FULL": ""}
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *map(str, copy.glob(f"tests/*/{file}")),
            "-k",
            named,
        ],
        cwd=copy,
        env=env,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not FULL, reason="in make test-full")
@pytest.mark.parametrize("p", PLANTED, ids=[p.what for p in PLANTED])
def test_f80_a_planted_fault_is_caught(copy, p):
    path = copy / "refnb" / p.file
    whole = path.read_text()
    path.write_text(whole.replace(p.old, p.new))
    try:
        got = outcome(copy, p.tests, p.named)
    finally:
        path.write_text(whole)
    assert got.returncode == 1 and " failed" in got.stdout.splitlines()[-1], (
        f"not caught: {got.stdout[-500:]}"
    )


@pytest.mark.skipif(not FULL, reason="in make test-full")
@pytest.mark.parametrize("file", sorted({p.tests for p in PLANTED}))
def test_f80_without_a_fault_all_pass(copy, file):
    named = sorted({f"({p.named})" for p in PLANTED if p.tests == file})
    got = outcome(copy, file, " or ".join(named))
    assert got.returncode == 0, got.stdout[-500:]
