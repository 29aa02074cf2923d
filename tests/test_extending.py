"Adding a table, a model, a metric or a benchmark touches as few files as the README promises."
import json, os, shutil, subprocess, sys
from pathlib import Path
import pytest
from tools import ROOT, REPORT, cell, clean, notebook

@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    "A copy of the checkout, to add things to."
    copy = tmp_path_factory.mktemp("extending")/"refnb"
    for d in ("nbs", "refnb", "reports/runs"): shutil.copytree(ROOT/d, copy/d, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for f in ("settings.ini", "constraints.txt", "pyproject.toml", "README.md", "LICENSE"): shutil.copy(ROOT/f, copy/f)
    return copy

def files(copy: Path) -> set[Path]: return {p.relative_to(copy) for p in (copy/"nbs").rglob("*") if p.is_file() and "__pycache__" not in p.parts}

def run(copy: Path, code: str, *args: str) -> str:
    "Python in the copy, with the copy's refnb."
    env = clean(copy/"home") | {"PYTHONPATH": str(copy)}
    got = subprocess.run([sys.executable, "-c", code, *args], cwd=copy, env=env, capture_output=True, text=True)
    assert not got.returncode, got.stderr
    return got.stdout

REFNB = "import sys; from refnb.results.cli import main; sys.exit(main(sys.argv[1:]))"

def export(copy: Path):
    env = {k: v for k, v in os.environ.items() if k != "IN_TEST"}
    subprocess.run([Path(sys.executable).parent/"nbdev-export"], cwd=copy, env=env, check=True, capture_output=True)

def test_a_table_is_one_notebook(checkout):
    name = "bookcoref/table_5_prompt"
    path = checkout/f"nbs/tables/{name}.ipynb"
    path.unlink(missing_ok=True)
    before = files(checkout)
    path.write_text(json.dumps(notebook(REPORT % name)))
    assert len(files(checkout) - before) == 1
    assert f"{name}: made" in run(checkout, REFNB, "reproduce", name)

def test_a_published_model_is_one_line(checkout):
    before, path = files(checkout), checkout/"nbs/data/systems/published.yaml"
    line = "published/toy: {title: Toy, part: identifyme/test, form: desc, file: KawshikManikantan/IdentifyMe/analysis_data/info/gpt4o_mention_info.csv}\n"
    path.write_text(path.read_text() + line)
    assert files(checkout) == before
    assert "published/toy\tToy" in run(checkout, REFNB, "list", "systems")

def test_a_metric_is_one_function(checkout):
    before = files(checkout)
    path = checkout/"nbs/metrics/10_choice.ipynb"
    nb = json.loads(path.read_text())
    nb["cells"].append(cell('#| export\ndef refused(o: "pd.DataFrame") -> float:\n    "Share of questions that were refused."\n    return float((o.reason == "refused").mean())') | {"id": "refused"})
    path.write_text(json.dumps(nb)); export(checkout)
    assert files(checkout) == before
    code = "from refnb.metrics.choice import refused; from refnb.metrics.scores import as_outcomes; print(refused(as_outcomes('identifyme/test:published/gpt-4o')))"
    assert run(checkout, code).strip() == "0.0"

PRINTED = "paper: toy\norder: 9\ntitle: A toy\ncite: Toy et al.\ntables:\n  table_1_all: {number: '1', title: All, kind: computed, unit: percent, decimals: 1, cells: {Random: {all: 50.0}}}\n"
CARD = "benchmark: toy\nabout: a toy\nlicence: none needed\nparts:\n  toy/test: {about: two questions, make: 'refnb.benchmarks.toy:questions'}\n"
TOY = '''#| export
from refnb.core.types import Option, Question
def questions(s) -> list[Question]:
    "Two questions."
    return [Question(f"d:{i}", f"d{i}", options=(Option("a"), Option("b")), right=(i,)) for i in range(2)]'''

def test_a_benchmark_is_a_notebook_a_yaml_of_printed_values_and_a_card(checkout):
    before = files(checkout)
    (checkout/"nbs/benchmarks/25_toy.ipynb").write_text(json.dumps(notebook(cell("#| default_exp benchmarks.toy"), cell(TOY), parameters="# Toy")))
    (checkout/"nbs/data/papers/toy.yaml").write_text(PRINTED)
    (checkout/"nbs/data/cards/toy.yaml").write_text(CARD)
    export(checkout)
    assert len(files(checkout) - before) == 3
    assert "toy\tToy et al.\ttoy/test\tnone needed\t1\t0" in run(checkout, REFNB, "list", "benchmarks")
    scored = run(checkout, "from refnb.models.published import ensure_run; from refnb.metrics.scores import score; print(score(ensure_run('random', 'toy/test')).interval().value)")
    assert scored.strip() == "0.5"
