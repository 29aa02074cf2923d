"The wheel alone in an empty folder, and what can be added to it and to a checkout with few files."

import hashlib, json, os, re, shutil, subprocess, sys, zipfile
from pathlib import Path
import pytest
import tools
from refnb import run as run_system
from refnb.benchmarks.tasks import find_task
from refnb.core.types import CallError, DataError, FormatError
from refnb.models.registry import find_system, listed_systems
from servers import Tree
from tools import REPORT, ROOT, WITHOUT, Said, cell, clean, notebook, one_line

PAGE = (ROOT / "docs/extending.md").read_text()
EXAMPLES = dict(re.findall(r"^`([\w/.]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
REFNB = "import sys; from refnb.commands.cli import main; sys.exit(main(sys.argv[1:]))"


# The wheel


def unpack_wheel(project: Path, out: Path, site: Path):
    "Build a project's wheel, and unpack it."
    how = "-q --no-deps --no-build-isolation --no-index -w".split()
    command = [sys.executable, "-m", "pip", "wheel", *how, out, project]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert not done.returncode, done.stderr
    [wheel] = out.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    "The wheel, unpacked into a folder."
    out, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    unpack_wheel(ROOT, out, site)
    return site


# Reads one command a line: its folder, environment, packages, code and arguments. Each is run by a
# fork that has refnb loaded, so that its imports are paid once.
FORKS = """
import json, os, sys
import pandas, papermill, refnb
from refnb.commands.cli import main
for name in refnb.__all__: getattr(refnb, name)

def run(job):
    os.chdir(job["folder"])
    os.environ.clear(); os.environ.update(job["env"])
    sys.path[1:1] = job["packages"]
    sys.argv = ["-c", *job["args"]]
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    exec(compile(job["code"], "<command>", "exec"), {"__name__": "__main__"})

def status_of(job):
    try: run(job)
    except SystemExit as e: return e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        import traceback
        traceback.print_exc()
        return 1
    return 0

for line in iter(sys.stdin.readline, ""):
    if not (child := os.fork()):
        status = status_of(json.loads(line))
        sys.stdout.flush(); sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def forks(site, tmp_path_factory):
    "The process that forks for every command; it has loaded the wheel's refnb."
    home = tmp_path_factory.mktemp("forks")
    env = clean(home) | {"PYTHONPATH": os.pathsep.join(map(str, (site, WITHOUT)))}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    p = subprocess.Popen([sys.executable, "-c", FORKS], cwd=home, env=env, **pipes)
    yield p
    p.communicate()


class Outside:
    "An empty folder, an installed refnb, and perhaps other installed packages."

    def __init__(self, site: Path, home: Path, forks: subprocess.Popen):
        self.home, self.forks = home, forks
        self.folder, self.packages = home / "work", home / "packages"
        self.folder.mkdir()
        env = {k: v for k, v in clean(home).items() if not k.startswith("REFNB_")}
        env |= {"REFNB_OFFLINE": "true", "REFNB_CACHE": str(home / "cache")}
        self.env = env | {"PYTHONPATH": os.pathsep.join(map(str, (site, self.packages, WITHOUT)))}

    def write(self, *names: str, **files: str):
        "The page's examples by name, and other files."
        for name, text in {**{n: EXAMPLES[n] for n in names}, **files}.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)

    def package(self, name: str, code: str, points: str, **files: str):
        "Install a package of one module, or of a folder with files."
        info = self.packages / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        if files:
            files, code_file = {**files, "__init__.py": code}, self.packages / name / "__init__.py"
            code_file.parent.mkdir()
            for file, text in files.items():
                (code_file.parent / file).write_text(text)
        else:
            (self.packages / f"{name}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)

    def python(self, code: str, *args: str) -> Said:
        out, err = (str(self.home / x) for x in ("out", "err"))
        job = dict(folder=str(self.folder), env=self.env, packages=[str(self.packages)])
        job |= dict(code=code, args=args, out=out, err=err)
        self.forks.stdin.write(json.dumps(job) + "\n")
        self.forks.stdin.flush()
        status = int(self.forks.stdout.readline())
        return Said(status, Path(out).read_text(), Path(err).read_text())

    def refnb(self, *args: str) -> Said:
        return self.python(REFNB, *args)

    def json(self, *args: str) -> dict:
        said = self.refnb(*args, "--json")
        assert said.status == 0, said.err
        return json.loads(said.out)


@pytest.fixture
def outside(site, tmp_path, forks) -> Outside:
    return Outside(site, tmp_path, forks)


def test_the_wheel_carries_what_it_needs_and_nothing_else(site):
    names = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    assert {
        "refnb/settings.ini",
        "refnb/constraints.txt",
        "refnb/data/papers/identifyme.yaml",
        "refnb/data/upstream/files.tsv",
        "refnb/tables/identifyme/table_3_main_results.ipynb",
        "refnb/reports/runs/identifyme/test/part.json",
        "refnb/__init__.py",
    } <= names
    assert any(n.endswith("licenses/LICENSE") for n in names)
    odd = [n for n in names if "checkpoint" in n or "__pycache__" in n]
    assert not odd + [n for n in names if n.startswith(("nbs/", "tests/", ".ci/"))]


@pytest.mark.parametrize(
    "tables", [["identifyme/table_3"], pytest.param([], marks=pytest.mark.full)]
)
def test_the_wheel_alone_reproduces_tables(outside, site, tables):
    where = outside.python("import refnb; print(refnb.__file__)").out.strip()
    assert where == str(site / "refnb/__init__.py")
    said = outside.refnb("reproduce", *tables)
    assert said.status == 0, said.err
    tools.same_table_3(outside.folder / "reports")
    assert not (outside.folder / "runs").exists()


# Outside: the page's examples


def test_a_language_model_is_eight_lines(outside):
    "It is listed, and planned without a call: nothing listens at its address."
    assert len(EXAMPLES["systems/mine.yaml"].splitlines()) == 8
    outside.write("systems/mine.yaml")
    listed = {r["system"]: r for r in outside.json("list", "systems")["systems"]}["mine"]
    assert (listed["title"], listed["needs"]) == ("My model", "http://127.0.0.1:8000/v1")
    plan = outside.json("run", "sample/identifyme", "mine", "--dry-run")
    assert plan["questions"] == 338 and plan["tokens_in"] > 100_000 and plan["usd"] > 0
    assert "marked mention" in plan["prompt"] and not (outside.folder / "runs").exists()


def test_a_function_and_a_metric_are_a_file_each(outside):
    outside.write("systems/first.yaml", "systems/first.py", "metrics.py")
    done = outside.json("run", "sample/identifyme", "first")
    assert done["sealed"] and done["groups"]["all"]["right"] == 15
    scored, metric = (
        ("score", "choice", "sample/identifyme:first", "--metric"),
        "metrics.py:above_chance",
    )
    groups = outside.json(*scored, metric, "--by", "pronoun_class")["groups"]
    assert -1 < groups["all"][metric] < 0 and all(metric in group for group in groups.values())
    columns = (metric, f"{metric} low", f"{metric} high")
    value, low, high = (groups["all"][x] for x in columns)
    assert low < value < high and low + high == pytest.approx(2 * value)
    heads, line = outside.refnb(*scored, metric).out.splitlines()[:2]
    assert heads.endswith("\t".join(columns)) and f"\t{value:.6g}\t{low:.6g}\t" in line
    wrong = outside.refnb(*scored, "metrics.py:above_chances")
    one_line(wrong, 1, "metrics.py", "did you mean above_chance?")
    one_line(outside.refnb(*scored, "above_chance"), 2, "file.py:function")


def test_a_program_is_ten_lines(outside):
    "It answers where there is a text, and what it leaves open is asked again."
    outside.write("systems/longest.yaml", "systems/longest.py")
    assert len(EXAMPLES["systems/longest.py"].splitlines()) == 10
    done = outside.json("run", "sample/ferryman", "longest")
    assert done["sealed"] and done["groups"]["all"]["n"] == 29
    bare = '{"id": "d:%d", "doc_key": "d", "options": [{"name": "a"}, {"name": "b"}], "right": [0]}'
    outside.write(**{"bare.jsonl": "\n".join(bare % i for i in range(2))})
    said = outside.refnb("run", "bare.jsonl", "longest")
    one_line(said, 1, "2 of 2 failed", "there is no text")
    code = EXAMPLES["systems/longest.py"]
    outside.write(**{"systems/longest.py": code.replace("max(names, key=len)", '"Nobody"')})
    said = outside.refnb("run", "sample/identifyme", "longest")
    one_line(said, 1, "'Nobody', which is none of the")


def test_what_is_called_mine_answers(outside):
    function = "def answer(q): return q.options[-1].name\n"
    outside.write(
        **{"systems/mine.yaml": "function: mine.py:answer\n", "systems/mine.py": function}
    )
    done = outside.json("run", "sample/identifyme", "mine", "--limit", "9")
    assert done["system"] == "mine" and done["answered"] == 9
    assert done["groups"]["all"]["without_choice"] == 0


def test_a_table_is_one_notebook(outside):
    "First without printed values, then with a file of them."
    parameters, code = EXAMPLES["tables/fables.ipynb"].split("# next cell\n")
    text = json.dumps(notebook(code, parameters=parameters))
    states = lambda *args: {
        x["name"]: x["state"] for x in outside.json("reproduce", *args)["steps"]
    }
    outside.write(**{"elsewhere/fables.ipynb": text})
    assert states("elsewhere/fables.ipynb") == {"own/fables": "new"}
    report = outside.folder / "reports/own/fables"
    assert "| random | 5.0 [" in report.with_suffix(".md").read_text()
    assert len(json.loads(report.with_suffix(".json").read_text())["runs"]) == 2
    outside.write("tables/fables.yaml", **{"tables/fables.ipynb": text})
    assert states("own") == {"own/fables": "changed"}
    assert "own/fables,random,all,5,table,5.013777,0," in report.with_suffix(".csv").read_text()
    assert states("tables/fables.ipynb") == {"own/fables": "unchanged"}
    one_line(outside.refnb("reproduce", "fables.ipynb"), 2, "fables.ipynb")


def test_a_corpus_is_a_card_and_a_function(outside, site):
    outside.write("corpora/fables.yaml", "corpora/fables.py")
    story = site / "refnb/data/sample/stories/the_tin.conll"
    shutil.copy(story, outside.folder / "corpora/fables.conll")
    assert "fables" in [r["corpus"] for r in outside.json("list", "corpora")["corpora"]]
    assert outside.python("import refnb; print(len(refnb.load('fables')))").out == "1\n"
    built = outside.json("build", "identifyme", "--corpus", "fables", "--names", "auto")
    assert built["stories"] + len(built["rejected"]) == 1
    for card, part in ((EXAMPLES["corpora/fables.yaml"], "fables.yaml"), ("corpus: [\n", "line ")):
        outside.write(**{"corpora/second.yaml": card})
        one_line(outside.refnb("list", "corpora"), 1, "second.yaml", part)


def test_a_benchmark_is_a_card_and_a_function(outside):
    outside.write("benchmarks/toy.yaml", "benchmarks/toy.py", "systems/mine.yaml")
    done = outside.json("run", "toy/test", "random")
    assert done["task"] == "toy/test" and done["groups"]["all"]["n"] == 1
    assert "{{She}}" in outside.json("run", "toy/test", "mine", "--dry-run")["prompt"]
    listed = {r["benchmark"]: r for r in outside.json("list", "benchmarks")["benchmarks"]}
    assert "toy/test" in listed["toy"]["tasks of it"]


SYSTEM = """from refnb.core.types import Answer
from refnb.models.systems import BaseSystem
class Last(BaseSystem):
    name = title = "last"
    def answer(self, task, items):
        for q in items: yield Answer(q.id, (len(q.options) - 1,))
def answer(question): return 0
def lost(outcomes): return (outcomes.reason == "missing").mean()
"""


def test_another_package_offers_systems_and_metrics(outside):
    "One that cannot be loaded is named, and hinders no other."
    point = re.search(r"`(theirs = .*?)`", PAGE)[1].replace('"', "")
    points = f"[refnb.systems]\n{point}\nlast = their_package:Last\n"
    points += "[refnb.metrics]\nlost = their_package:lost\n"
    outside.package("their_package", SYSTEM, points)
    missing = "import nothing_of_this_name\n"
    outside.package("broken", missing, "[refnb.systems]\nbroken = broken:System\n")
    for name in ("theirs", "last"):
        assert outside.json("run", "sample/ferryman", name)["groups"]["all"]["n"] == 29
    scored = outside.json("score", "choice", "sample/ferryman:theirs", "--metric", "lost")
    assert scored["groups"]["all"]["lost"] == 0.0
    one_line(outside.refnb("run", "sample/ferryman", "broken"), 1, "ModuleNotFoundError")
    listed = {r["system"]: r for r in outside.json("list", "systems")["systems"]}
    assert listed["last"]["title"] == "last" and "broken" in listed


TEMPLATES = b"""occupation(0)\tother-participant(1)\tanswer\tsentence
baker\tguest\t0\tThe $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN was out of flour.
pilot\tneighbour\t1\tA $PARTICIPANT lent the $OCCUPATION $POSS_PRONOUN ladder.
"""
BY_PRONOUN = "def answer(q): return int(q.text[slice(*q.chars)] in ('she', 'her'))\n"


def test_another_package_offers_a_benchmark_with_files_of_others(outside, tmp_path):
    "The page's Winogender, with sentences of our own: its file comes from the host, once, and is verified."
    project, sha = tmp_path / "project", hashlib.sha256(TEMPLATES).hexdigest()
    for name, text in EXAMPLES.items():
        if name.startswith("winogender/"):
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            text = re.sub("sha256: .*", f"sha256: {sha}", text)
            (project / name).write_text(re.sub("size: .*", f"size: {len(TEMPLATES)}", text))
    unpack_wheel(project / "winogender", tmp_path / "its_wheel", outside.packages)
    [listed] = [x for x in outside.json("list", "benchmarks")["benchmarks"] if x["from"] != "refnb"]
    assert listed["from"] == "refnb-winogender" and listed["licence"] == "MIT"
    assert listed["tasks of it"] == "winogender/test (not here)"
    fetch = ("fetch", "benchmarks/winogender")
    one_line(outside.refnb("run", "winogender/test", "random"), 1, "refnb " + " ".join(fetch))
    card = EXAMPLES["winogender/refnb_winogender/winogender.yaml"]
    path = re.search("https://raw.githubusercontent.com/(.*)", card)[1]
    with Tree(tmp_path / "served") as tree:
        outside.env |= {"REFNB_OFFLINE": "false", "REFNB_HOST": tree.host}
        tree.extra[path] = TEMPLATES.replace(b"flour", b"sugar")
        said = outside.refnb(*fetch)
        assert said.status == 1 and "wrong content: sha256" in said.err and sha in said.err
        assert "quarantine" in said.err and not [
            *outside.home.glob(f"cache/upstream/**/{sha}/*.tsv")
        ]
        tree.extra[path] = TEMPLATES
        assert "1 files are here and verified" in outside.refnb(*fetch).all
        outside.refnb(*fetch)
        assert len(tree.seen) == 2
    outside.env["REFNB_OFFLINE"] = "true"
    assert outside.json("run", "winogender/test", "random")["groups"]["all"]["n"] == 12
    outside.write("systems/mine.yaml", **{"systems/by.yaml": "function: by.py:answer\n"})
    outside.write(**{"systems/by.py": BY_PRONOUN})
    outside.json("run", "winogender/test", "by")
    scored = outside.json("score", "choice", "winogender/test:by", "--by", "gender")["groups"]
    assert {k: v["right"] for k, v in scored.items()} == dict(all=6, female=2, male=2, neutral=2)
    assert "{{she}}" in outside.json("run", "winogender/test", "mine", "--dry-run")["prompt"]


CARD_OF_FILES = """\
benchmark: toy
about: with a file of others
licence: CC0
files: {NAME: {url: 'URL', sha256: SHA, size: 3, licence: CC0}}
tasks: {toy/test: {about: a question, make: 'MAKE'}}
"""
LOCAL = """http://example.org/a file:///etc/passwd https://localhost/a https://x.localhost/a
https://127.0.0.1/a https://127.1/a https://2130706433/a https://[::1]/a https://10.0.0.1/a https://printer/a
https://169.254.169.254/a https://db.internal/a https://me@example.org/a https://example.org@10.0.0.1/a""".split()
BAD_CARDS = [({"URL": x}, "is not https://… of a public host") for x in LOCAL]
BAD_CARDS += [
    ({"NAME": x}, "cannot be the name of a file") for x in ("../a", "/etc/a", "a/b", "..", "''")
]
BAD_CARDS += [
    ({"sha256: SHA, ": ""}, "sha256"),
    ({"SHA": "abc"}, "field sha256"),
    ({"size: 3, ": ""}, "size"),
    ({"size: 3": "size: 0"}, "field size"),
    ({"licence: CC0}}": "licence: ''}}"}, "field licence"),
    ({"benchmark: toy": "benchmark: ../toy"}, "cannot be the name of a file"),
]


def card_of_files(**changed: str) -> str:
    usual = {"URL": "https://example.org/a", "NAME": "a", "SHA": hashlib.sha256(b"Ann").hexdigest()}
    text = CARD_OF_FILES
    for old, new in (*changed.items(), *usual.items(), ("MAKE", "toy.py:questions")):
        text = text.replace(old, new)
    return text


def test_a_card_names_public_files_and_functions_beside_it(outside):
    for changed, part in BAD_CARDS:
        outside.write(**{"benchmarks/toy.yaml": card_of_files(**changed)})
        one_line(outside.refnb("list", "benchmarks"), 1, "toy.yaml", part)
    outside.write("benchmarks/toy.py")
    (outside.folder / "toy.py").write_text("1/0")
    (outside.folder / "benchmarks/link.py").symlink_to(outside.folder / "toy.py")
    copy = outside.folder / "copy"
    outside.env["REFNB_UPSTREAM"] = str(copy)
    file = copy / f"benchmarks/toy/{hashlib.sha256(b'Ann').hexdigest()}/a"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"Ann")
    for place in ("../toy.py", f"{outside.folder}/toy.py", "link.py"):
        outside.write(**{"benchmarks/toy.yaml": card_of_files(MAKE=f"{place}:questions")})
        said = outside.refnb("run", "toy/test", "random")
        one_line(said, 1, "toy.yaml", "is outside of the card's folder")
    head = "def questions(settings, files):\n    assert files == {'a': b'Ann'}"
    takes = EXAMPLES["benchmarks/toy.py"].replace("def questions(settings):", head)
    outside.write(**{"benchmarks/toy.yaml": card_of_files(), "benchmarks/toy.py": takes})
    assert outside.json("run", "toy/test", "random")["groups"]["all"]["n"] == 1
    outside.write(**{"benchmarks/toy.yaml": card_of_files(**{"size: 3": "size: 4"})})
    one_line(outside.refnb("run", "toy/test", "random"), 1, "has 3 bytes, and its card says 4")
    file.write_bytes(b"Eve")
    one_line(outside.refnb("run", "toy/test", "random"), 1, "benchmarks/toy/a", "wrong content")


CORPUS = """\
corpus: tales
about: one tale
load: tales.py:documents
files: {tale: {url: 'https://example.org/tale', sha256: SHA, size: SIZE, licence: CC0}}
"""
TALES = """from refnb.core.conll import parse_conll
def documents(files): return parse_conll(files["tale"], "tale")
"""


def test_a_package_with_a_fault_is_a_line_and_hinders_no_other(outside, site):
    "None is imported before it is used, and no name of refnb, of yours or of another package is taken."
    tale = (site / "refnb/data/sample/stories/the_tin.conll").read_bytes()
    sha, never = hashlib.sha256(tale).hexdigest(), "raise SystemExit('imported')\n"
    points = lambda name, kind="benchmarks": f"[refnb.{kind}]\ncards = {name}\n"
    card, toy = EXAMPLES["benchmarks/toy.yaml"], {"toy.py": EXAMPLES["benchmarks/toy.py"]}
    corpus = CORPUS.replace("SHA", sha).replace("SIZE", str(len(tale)))
    files = {"tales.yaml": corpus, "tales.py": TALES}
    outside.package("a_tales", never, points("a_tales", "corpora"), **files)
    outside.package("b_toy", never, points("b_toy"), **{"toy.yaml": card}, **toy)
    renamed = lambda name: card.replace("toy\n", f"{name}\n").replace("toy/test", f"{name}/test")
    stolen = renamed("g").replace("g/test", "sample/identifyme")
    bad = {
        "c_none": ({}, "there is no package c_none"),
        "d_torn": ({"x.yaml": "benchmark: [\n"}, "line "),
        "e_again": ({"x.yaml": card}, "toy exists already, in toy.yaml"),
        "f_ours": ({"x.yaml": renamed("sample")}, "sample exists already"),
        "g_task": ({"x.yaml": stolen}, "sample/identifyme exists already"),
        "h_input": ({"x.yaml": renamed("h").replace("{about", "{inputs: [x], about")}, "unknown"),
        "i_link": ({"y": card}, "outside of the card's folder"),
    }
    for name, (cards, _) in bad.items():
        outside.package(name, never, points(name), **cards)
    outside.package(
        "j_path", never, f"[refnb.benchmarks]\ncards = j_path.{outside.packages}/b_toy\n"
    )
    (outside.packages / "j_path-1.0.dist-info/METADATA").unlink()
    (outside.packages / "i_link/x.yaml").symlink_to(outside.packages / "b_toy/toy.yaml")
    listed = outside.json("list")
    rows = {x["from"]: x["tasks of it"] for x in listed["benchmarks"] if x["from"] != "refnb"}
    assert rows.pop("b_toy") == "toy/test"
    assert "there is no package j_path" in rows.pop(f"j_path.{outside.packages}/b_toy")
    assert rows.keys() == bad.keys()
    for name, (_, part) in bad.items():
        assert rows[name].startswith("cannot be used: ") and part in rows[name], rows[name]
    [row] = [x for x in listed["corpora"] if x["from"] == "a_tales"]
    assert (row["corpus"], row["here"]) == ("tales", "needs corpora/tales")
    for task, n in (("sample/ferryman", 29), ("toy/test", 1)):
        assert outside.json("run", task, "random")["groups"]["all"]["n"] == n
    one_line(outside.refnb("run", "torn/test", "random"), 2, "a card of c_none cannot be used")
    cached = outside.home / f"cache/upstream/corpora/tales/{sha}/tale"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(tale)
    assert outside.python("import refnb; print(len(refnb.load('tales')))").out == "1\n"
    outside.write("benchmarks/toy.yaml", "benchmarks/toy.py")
    listed = {x["from"]: x["tasks of it"] for x in outside.json("list", "benchmarks")["benchmarks"]}
    assert listed["yours"] == "toy/test" and "exists already" in listed["b_toy"]


# Inside: a checkout, to which a table, a model, a metric and a benchmark are added

TABLE = "bookcoref/table_5_prompt"
METRIC = """\
#| export
def refused(o: "pd.DataFrame") -> float:
    "Share of questions that were refused."
    return float((o.reason == "refused").mean())"""
MODEL = """\
published/toy: {title: Toy, task: identifyme/test, form: desc, \
file: KawshikManikantan/IdentifyMe/analysis_data/info/gpt4o_mention_info.csv}
"""
PRINTED = """\
paper: toy
order: 9
title: A toy
cite: Toy et al.
tables:
  table_1_all: {number: '1', title: All, kind: computed, unit: percent, decimals: 1, \
cells: {Random: {all: 50.0}}}
"""
CARD = """\
benchmark: toy
about: a toy
licence: none needed
tasks:
  toy/test: {about: two questions, make: 'refnb.benchmarks.toy:questions'}
"""
TOY = """\
#| export
from refnb.core.types import Option, Question
def questions(s) -> list[Question]:
    "Two questions."
    two = (Option("a"), Option("b"))
    return [Question(f"d:{i}", f"d{i}", options=two, right=(i,)) for i in range(2)]"""
EXPORT = """\
import sys
from nbdev.export import nb_export
for path in sys.argv[1:]: nb_export(path)"""
USE = f"""\
import json
import refnb
from refnb.commands.cli import main
from refnb.metrics.choice import refused
from refnb.results.scores import as_outcomes
main(["list", "systems"])
main(["list", "benchmarks"])
main(["reproduce", "{TABLE}"])
accuracy = refnb.score(refnb.run("toy/test", "random")).interval().value
print(json.dumps([refused(as_outcomes("identifyme/test:published/gpt-4o")), accuracy]))"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> tuple[dict[str, int], str]:
    "How many files each addition is, and what a process says that uses all of them."
    copy, added = tmp_path_factory.mktemp("extending") / "refnb", {}
    odd = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for d in ("nbs", "refnb", "reports/runs"):
        shutil.copytree(ROOT / d, copy / d, ignore=odd)
    for f in ("settings.ini", "constraints.txt", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / f, copy / f)
    (copy / f"nbs/tables/{TABLE}.ipynb").unlink()
    files = lambda: {p for p in (copy / "nbs").rglob("*") if p.is_file()}

    def add(kind: str, **texts: str):
        before = files()
        for name, text in texts.items():
            (copy / "nbs" / name).write_text(text)
        added[kind] = len(files() - before)

    published = "data/systems/published.yaml"
    choice = json.loads((copy / "nbs/metrics/00_choice.ipynb").read_text())
    choice["cells"].append(cell(METRIC) | {"id": "refused"})
    toy = notebook(cell("#| default_exp benchmarks.toy"), cell(TOY), parameters="# Toy")
    add("table", **{f"tables/{TABLE}.ipynb": json.dumps(notebook(REPORT % TABLE))})
    add("model", **{published: (copy / "nbs" / published).read_text() + MODEL})
    add("metric", **{"metrics/00_choice.ipynb": json.dumps(choice)})
    benchmark = {"data/papers/toy.yaml": PRINTED, "data/cards/toy.yaml": CARD}
    add("benchmark", **{"benchmarks/25_toy.ipynb": json.dumps(toy)}, **benchmark)
    env = clean(copy / "home") | {"PYTHONPATH": f"{copy}{os.pathsep}{WITHOUT}"}
    env.pop("IN_TEST", None)
    out = ""
    for args in ([EXPORT, "nbs/metrics/00_choice.ipynb", "nbs/benchmarks/25_toy.ipynb"], [USE]):
        how = dict(cwd=copy, env=env, capture_output=True, text=True)
        done = subprocess.run([sys.executable, "-c", *args], **how)
        assert not done.returncode, done.stderr
        out += done.stdout
    assert (copy / f"home/reports/{TABLE}.csv").exists()
    return added, out


def test_a_checkout_takes_an_addition_with_few_files(extended):
    "A table is one notebook, a model one line, a metric one function, a benchmark three files."
    added, out = extended
    assert added == {"table": 1, "model": 0, "metric": 0, "benchmark": 3}
    assert "published/toy\tToy" in out and f"{TABLE}: made" in out
    assert "toy\tToy et al.\ttoy/test\tnone needed\t1\t0" in out
    assert json.loads(out.splitlines()[-1]) == [0.0, 0.5]


# Programs


def test_a_program_is_known_by_each_of_its_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("pa", "pb"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_text("pass")
    program, task = find_system("command/python3 pa/x.py pb/x.py"), find_task("sample/ferryman")
    before = program.identity(task).data
    (tmp_path / "pa/x.py").write_text("print()")
    after = find_system(program.name).identity(task).data
    assert before["pa/x.py"] != after["pa/x.py"] and before["pb/x.py"] == after["pb/x.py"]


def test_a_program_beside_its_file_is_listed_as_here(tmp_path, monkeypatch):
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/mine.yaml").write_text("command: ./prog.py\n")
    program = tmp_path / "systems/prog.py"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    [mine] = (x for x in listed_systems() if x.system == "mine")
    assert mine.needs == "./prog.py (here)"


def test_a_name_that_two_entries_cover_is_refused_and_the_others_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "systems").mkdir()
    for file, name in (("a", "run-{8..11}"), ("b", "run-9"), ("c", "run-{10..12}")):
        text = f'"{name}": {{command: python3 {file}.py}}\n'
        (tmp_path / f"systems/{file}.yaml").write_text(text)
    for name in ("run-8", "run-12"):
        assert find_system(name).name == name
    for name, first in (("run-9", "a"), ("run-10", "a"), ("run-11", "a"), ("run-{10..12}", "a")):
        with pytest.raises(CallError, match=f"exists already, in {first}.yaml"):
            find_system(name)
    faults = {x.system for x in listed_systems() if "exists already" in x.needs}
    assert faults == {"run-9", "run-{10..12}"}
    (tmp_path / "systems/d.yaml").write_text("d: {command: ./x}\nd: {command: ./y}\n")
    with pytest.raises(FormatError, match="d.yaml, line 2: the key 'd' appears twice"):
        find_system("d")


@pytest.mark.parametrize("kind", ["function", "rule"])
def test_a_function_of_yours_is_known_by_its_source_whatever_its_kind(tmp_path, monkeypatch, kind):
    tools.live_in(monkeypatch, tmp_path)
    (tmp_path / "systems").mkdir()
    entry = f"mine: {{kind: {kind}, function: 'mine.py:f'}}\n"
    (tmp_path / "systems/mine.yaml").write_text(entry)
    for option in (0, 1):
        (tmp_path / "systems/mine.py").write_text(f"def f(q):\n    return {option}\n")
        answers = run_system("sample/ferryman", "mine").answers()
        assert {a.chosen for a in answers.values()} == {(option,)}
    assert find_system("random").identity(find_task("sample/ferryman")).settings == {}


def test_a_misspelt_kind_is_told_whatever_the_other_fields_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "systems").mkdir()
    for field in ("provider: openai, model: m", "pair: cosine, model: m"):
        (tmp_path / "systems/mine.yaml").write_text(f"mine: {{kind: opnai, {field}}}\n")
        with pytest.raises(FormatError, match="unknown kind 'opnai'; did you mean openai"):
            find_system("mine")


def test_a_program_that_says_nothing_is_not_scored(tmp_path, monkeypatch):
    tools.live_in(monkeypatch, tmp_path)
    line = "import json, sys\nfor x in sys.stdin: print(json.dumps({'id': json.loads(x)['id']%s}))"
    (tmp_path / "mute.py").write_text(line % "")
    for task in ("sample/ferryman", "sample/bookcoref"):
        with pytest.raises(DataError, match="no answer"):
            run_system(task, "command/python3 mute.py")
    (tmp_path / "none.py").write_text(line % ", 'chosen': []")
    answers = run_system("sample/ferryman", "command/python3 none.py").answers()
    assert len(answers) == 29 and not any(a.chosen for a in answers.values())
