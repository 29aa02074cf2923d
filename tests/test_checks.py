"The repository's own checks find what they are for."

import importlib.util, json
import pytest
from tools import ROOT


@pytest.fixture
def check(tmp_path, monkeypatch):
    "The checks, on an empty repository."
    import subprocess

    spec = importlib.util.spec_from_file_location("check", ROOT / ".ci/check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for d in ("nbs/core", "nbs/tables", "refnb/core"):
        (tmp_path / d).mkdir(parents=True)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def nb(*cells: str, tags=(), outputs=()) -> str:
    made = [{"cell_type": "markdown", "metadata": {}, "source": "# Title\n\n> One line.\n"}]
    made += [
        {
            "cell_type": "code",
            "metadata": {"tags": list(tags)} if tags else {},
            "source": c,
            "outputs": list(outputs),
            "execution_count": None,
        }
        for c in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


# put together here, so that this file holds no key
KEYS = [
    "sk-" + "proj-" + "a1B2" * 8,
    "AIza" + "x" * 35,
    "ghp_" + "a" * 36,
    "AKIA" + "A" * 16,
    "hf_" + "a" * 34,
    "-----BEGIN " + "RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "where",
    ["nbs/core/00_x.ipynb", "runs/part/system/hash/answers.jsonl", "reports/p/t.json", "log.txt"],
)
def test_f52_a_key_is_found_wherever_it_is(check, tmp_path, key, where):
    (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / where).write_text(
        nb(f"x = '{key}'") if where.endswith("ipynb") else f'{{"raw": "{key}"}}'
    )
    assert [f for f in check.texts() if f.startswith(where) and "looks like" in f]


def test_f52_the_value_of_a_secret_variable_is_found(check, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_VENDOR_API_KEY", "correct horse battery")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/x.md").write_text("the key was correct horse battery")
    assert "reports/x.md: holds the value of a secret environment variable" in check.texts()


def test_large_files_and_paths_of_machines(check, tmp_path):
    (tmp_path / "big.bin").write_bytes(b"0" * 1_000_001)
    (tmp_path / "nbs/note.md").write_text("see /home/" + "ann/data")
    assert [f.split(":")[0] for f in sorted(check.texts())] == ["big.bin", "nbs/note.md"]


def test_orphans_and_misnamed_notebooks(check, tmp_path):
    (tmp_path / "refnb/core/lost.py").write_text("x = 1\n")
    (tmp_path / "nbs/core/00_other.ipynb").write_text(nb("#| default_exp core.types"))
    said = "\n".join(check.orphans())
    assert (
        "refnb/core/lost.py: no notebook exports it" in said
        and "should be nbs/core/NN_types.ipynb" in said
    )


def test_imports_go_one_way(check, tmp_path):
    (tmp_path / "nbs/core/00_low.ipynb").write_text(
        nb("#| default_exp core.low", "#| export\nfrom refnb.core.high import x")
    )
    (tmp_path / "nbs/core/01_high.ipynb").write_text(
        nb("#| default_exp core.high", "#| export\nfrom refnb.core.low import x\nimport nbdev")
    )
    assert check.one_way() == [
        "nbs/core/00_low.ipynb: imports refnb.core.high, which does not come before it",
        "nbs/core/01_high.ipynb: exported code imports nbdev",
    ]


@pytest.mark.parametrize(
    "text, tags, outputs, said",
    [
        ("x = 1", (), (), "needs exactly one cell tagged"),
        (
            "x = 1",
            ("parameters",),
            ({"output_type": "stream", "name": "stderr", "text": "warn"},),
            "a warning among the outputs",
        ),
    ],
)
def test_form_of_notebooks(check, tmp_path, text, tags, outputs, said):
    (tmp_path / "nbs/tables/t.ipynb").write_text(nb(text, tags=tags, outputs=outputs))
    assert any(said in f for f in check.form())
