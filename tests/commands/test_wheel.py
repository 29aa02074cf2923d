"The wheel alone, in an empty folder outside the checkout."

import os, subprocess, sys, zipfile
from pathlib import Path
import pytest
from tools import ROOT, WITHOUT, clean, same_table_3


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    got = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            "-w",
            str(out),
            str(ROOT),
        ],
        capture_output=True,
        text=True,
    )
    assert not got.returncode, got.stderr
    return next(out.glob("refnb-*.whl"))


def names(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def test_it_carries_what_it_needs_and_nothing_else(wheel):
    have = names(wheel)
    for n in (
        "refnb/settings.ini",
        "refnb/constraints.txt",
        "refnb/data/papers/identifyme.yaml",
        "refnb/data/upstream/files.tsv",
        "refnb/tables/identifyme/table_3_main_results.ipynb",
        "refnb/reports/runs/identifyme/test/part.json",
        "refnb/__init__.py",
    ):
        assert n in have
    assert not [
        n
        for n in have
        if "checkpoint" in n or "__pycache__" in n or n.startswith(("nbs/", "tests/", ".ci/"))
    ]
    assert any(n.endswith("licenses/LICENSE") for n in have)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    "A function that runs Python in an empty folder, with the wheel's refnb before any other."
    site, empty = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("empty")
    zipfile.ZipFile(wheel).extractall(site)

    def run(*args: str):
        env = {k: v for k, v in clean(empty).items() if not k.startswith("REFNB_")}
        env |= {
            "PYTHONPATH": f"{site}{os.pathsep}{WITHOUT}",
            "REFNB_OFFLINE": "true",
            "REFNB_CACHE": str(empty / "cache"),
        }
        return subprocess.run(
            [sys.executable, *args], cwd=empty, env=env, capture_output=True, text=True
        )

    run.site, run.empty = site, empty
    return run


REFNB = "import sys; from refnb.commands.cli import main; sys.exit(main(sys.argv[1:]))"


def test_reproduce_works_without_a_checkout(installed):
    reproduces(installed, "identifyme/table_3")
    assert not (installed.empty / "runs").exists()


@pytest.mark.full
def test_all_tables_work_without_a_checkout(installed):
    reproduces(installed)


def reproduces(installed, *names: str):
    got = installed(
        "-c",
        f"import refnb; assert refnb.__file__.startswith({str(installed.site)!r}); {REFNB}",
        "reproduce",
        *names,
    )
    assert got.returncode == 0, got.stderr
    same_table_3(installed.empty / "reports")
    assert "downloads are off" in got.stdout
