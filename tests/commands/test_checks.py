"The repository's own checks find what they are for."

import json
import subprocess
import pytest
from tools import ROOT, load_script


@pytest.fixture
def check(tmp_path, monkeypatch):
    "The checks, on an empty repository."
    module = load_script(ROOT / ".ci/check.py")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for d in ("nbs/core", "nbs/tables", "refnb/core"):
        (tmp_path / d).mkdir(parents=True)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def nb(*cells: str, outputs=()) -> str:
    "A notebook with a title and some code."
    empty = {"cell_type": "code", "outputs": list(outputs), "metadata": {}}
    title = {"cell_type": "markdown", "metadata": {}, "source": "# Title\n\n> One line.\n"}
    return json.dumps({"cells": [title, *(empty | {"source": c} for c in cells)]})


# put together here, so that this file holds no key
KEYS = [
    "sk-" + "proj-" + "a1B2" * 8,
    "AIza" + "x" * 35,
    "ghp_" + "a" * 36,
    "AKIA" + "A" * 16,
    "hf_" + "a" * 34,
    "-----BEGIN " + "RSA PRIVATE KEY-----",
]
PLACES = ["nbs/core/00_x.ipynb", "runs/part/system/hash/answers.jsonl", "reports/p/t.json", "log"]


def test_a_key_is_found_wherever_it_is(check, tmp_path):
    for key in KEYS:
        for where in PLACES:
            (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / where).write_text(nb(f"x = '{key}'"))
        found = [f for f in check.texts() if "looks like" in f]
        assert all(any(f.startswith(where) for f in found) for where in PLACES), key


def test_the_value_of_a_secret_variable_is_found(check, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_VENDOR_API_KEY", "correct horse battery")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/x.md").write_text("the key was correct horse battery")
    [found] = check.texts()
    assert found.startswith("reports/x.md") and "correct horse" not in found


def test_a_public_name_of_two_modules_is_found(check, tmp_path, monkeypatch):
    (tmp_path / "refnb/core/a.py").write_text(
        "MOST = 3\n\n\ndef fill(most):\n    left = _own = most\n"
    )
    (tmp_path / "refnb/core/b.py").write_text(
        "from .a import fill\n\nMOST, _own = 4, 5\nleft: int = 1\n"
    )
    monkeypatch.setattr(check, "SHARED", {})
    [fault] = check.names()
    assert fault.startswith("refnb/core/a.py, refnb/core/b.py: both define MOST; ")
    monkeypatch.setattr(check, "SHARED", {"MOST": "the most of anything", "fill": "imported"})
    assert check.names() == [".ci/check.py: fill is not defined twice; take it out of SHARED"], (
        "a reason outlives its name"
    )


def test_large_files_and_names_of_machines_are_found(check, tmp_path):
    (tmp_path / "big.bin").write_bytes(b"0" * 1_000_001)
    (tmp_path / "nbs/note.md").write_text("see /home/" + "ann/data")
    assert [f.split(":")[0] for f in sorted(check.texts())] == ["big.bin", "nbs/note.md"]


@pytest.mark.parametrize(
    "arrow",
    [
        "from refnb.core.{} import x",
        "from refnb.core import {}",
        "def f():\n    from refnb.core.{} import x",
        "def f():\n    import refnb.core.{}",
        "x = 'refnb.core.{}:x'",
    ],
)
def test_modules_stand_in_the_order_of_their_imports(check, tmp_path, arrow):
    for name, module, imported in (("00_low", "low", "high"), ("01_top", "high", "low")):
        cells = f"#| default_exp core.{module}", "#| export\n" + arrow.format(imported)
        (tmp_path / f"nbs/core/{name}.ipynb").write_text(nb(*cells))
    (tmp_path / "refnb/core/lost.py").write_text("x = 1\n")
    assert check.modules() == [
        "refnb/core/lost.py: no notebook exports it; delete it",
        "nbs/core/00_low.ipynb: reaches up to refnb.core.high, which does not come before it",
        "nbs/core/01_top.ipynb: exports core.high, so it should be nbs/core/NN_high.ipynb",
    ]


def test_a_warning_among_outputs_is_found(check, tmp_path):
    warning = {"output_type": "stream", "name": "stderr", "text": "warn"}
    (tmp_path / "nbs/tables/t.ipynb").write_text(nb("x = 1", outputs=[warning]))
    assert check.form() == ["nbs/tables/t.ipynb: a warning among the outputs"]
    (tmp_path / "nbs/tables/t.ipynb").write_text(nb("x = 1"))
    assert check.form() == []
