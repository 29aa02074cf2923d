"Without what the extras bring, the base works; a package that is missing is one line, which names the extra."

import pytest
import tools
from tools import ROOT, load_script

HEAVY = load_script(ROOT / ".ci/check.py").HEAVY.split()
# as if they were not installed
BASE = f"""import sys
from importlib.machinery import PathFinder

class Others(PathFinder):
    @classmethod
    def find_spec(cls, name, *how):
        return None if name in {HEAVY!r} else super().find_spec(name, *how)

sys.meta_path = [Others if x is PathFinder else x for x in sys.meta_path]
from refnb.commands.cli import run; run()"""


@pytest.fixture(scope="module")
def refnb(tmp_path_factory):
    "Run a command without the packages of extras, in a folder with two runs."
    home = tmp_path_factory.mktemp("base")
    refnb = lambda call: tools.refnb(home, *call.split(), code=BASE)
    for system in ("nearest-mention", "first-mention"):
        assert refnb(f"run sample/identifyme {system}").status == 0
    return refnb


WORKS = """score choice sample/identifyme:first-mention --by type
view sample/identifyme:first-mention
run sample/identifyme gpt-4o-mini --dry-run
build identifyme --corpus sample --out questions.jsonl
list systems
reproduce --plan""".splitlines()


@pytest.mark.parametrize("call", WORKS)
def test_what_needs_no_extra_works_without(refnb, call):
    said = refnb(call)
    assert said.status == 0 and said.out, said


def test_a_comparison_and_a_report_are_made_without_their_pictures(refnb):
    call = "compare sample/identifyme nearest-mention first-mention --out table"
    said = refnb(call)
    assert said.status == 0 and ".csv" in said.out and ".png" not in said.out
    assert "pip install 'refnb[reports]'" in said.err
    assert refnb("report").status == 0


LACKS = {
    "reproduce identifyme/table_3": ("papermill", "reports"),
    "run sample/ferryman word-overlap": ("sklearn", "reports"),
    "run sample/altentities tfidf-words": ("sklearn", "reports"),
    "run sample/ferryman random --ray local": ("ray", "ray"),
    "run sample/identifyme local/FOLDER": ("", "models"),
    "train coref-minilm sample --out weights": ("torch", "models"),
}


@pytest.mark.parametrize("call", LACKS)
def test_a_missing_package_is_one_line_that_names_its_extra(refnb, call):
    package, extra = LACKS[call]
    tools.one_line(refnb(call), 1, package, f"pip install 'refnb[{extra}]'")
