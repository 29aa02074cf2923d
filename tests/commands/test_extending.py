"What docs/extending.md says can be added is added: outside the package, to an installed wheel in an empty folder; and inside it, with as few files as it promises."

import json, os, re, shutil, subprocess, sys, zipfile
from pathlib import Path
import pytest
import tools
from tools import ROOT, REPORT, WITHOUT, Said, cell, clean, notebook, one_line

# Outside: the page's examples, and an installed wheel

PAGE = (ROOT / "docs/extending.md").read_text()
EXAMPLES = dict(re.findall(r"^`([\w/.]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
REFNB = "import sys; from refnb.commands.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    "The wheel, unpacked into a folder."
    out, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
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
    zipfile.ZipFile(next(out.glob("refnb-*.whl"))).extractall(site)
    return site


# Reads one command a line: its folder, environment, packages, code and arguments. Each is run by a fork that has refnb loaded, so that its imports are paid once.
FORKS = """
import json, os, sys
import refnb.commands.cli, refnb.results.scores, refnb.models.running, refnb.models.language.systems, refnb.models.pairs.systems

def run(job):
    os.chdir(job["folder"])
    os.environ.clear(); os.environ.update(job["env"])
    sys.path[1:1] = job["packages"]
    sys.argv = ["-c", *job["args"]]
    for number, name in ((1, "out"), (2, "err")): os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
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
    p = subprocess.Popen(
        [sys.executable, "-c", FORKS],
        cwd=home,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield p
    p.communicate()


class Outside:
    "An empty folder without settings.ini, an installed refnb, and perhaps other installed packages."

    def __init__(self, site: Path, folder: Path, forks: subprocess.Popen):
        self.forks, self.out, self.err = forks, folder / "out", folder / "err"
        self.folder, self.packages, self.cache = (
            folder / "work",
            folder / "packages",
            folder / "cache",
        )
        self.folder.mkdir()
        env = {k: v for k, v in clean(folder).items() if not k.startswith("REFNB_")}
        path = os.pathsep.join(map(str, (site, self.packages, WITHOUT)))
        self.env = env | {
            "PYTHONPATH": path,
            "REFNB_OFFLINE": "true",
            "REFNB_CACHE": str(self.cache),
        }

    def write(self, *names: str, **files: str):
        "The page's examples by name, and other files."
        for name, text in {**{n: EXAMPLES[n] for n in names}, **files}.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)

    def package(self, name: str, code: str, points: str):
        "Install a package of one module."
        info = self.packages / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (self.packages / f"{name}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)

    def python(self, code: str, *args: str) -> Said:
        job = dict(
            folder=str(self.folder),
            env=self.env,
            packages=[str(self.packages)],
            code=code,
            args=args,
            out=str(self.out),
            err=str(self.err),
        )
        self.forks.stdin.write(json.dumps(job) + "\n")
        self.forks.stdin.flush()
        status = int(self.forks.stdout.readline())
        return Said(status, self.out.read_text(), self.err.read_text())

    def refnb(self, *args: str) -> Said:
        return self.python(REFNB, *args)

    def json(self, *args: str) -> dict:
        got = self.refnb(*args, "--json")
        assert got.status == 0, got.err
        return json.loads(got.out)


@pytest.fixture
def outside(site, tmp_path, forks) -> Outside:
    return Outside(site, tmp_path, forks)


def test_it_is_the_wheel_that_runs(outside, site):
    assert outside.python("import refnb; print(refnb.__file__)").out.strip() == str(
        site / "refnb/__init__.py"
    )


def test_a_language_model_is_eight_lines(outside):
    "It is listed, and planned without a call: nothing listens at its address."
    assert len(EXAMPLES["systems/mine.yaml"].splitlines()) == 8
    outside.write("systems/mine.yaml")
    listed = next(r for r in outside.json("list", "systems")["systems"] if r["system"] == "mine")
    assert (listed["title"], listed["needs"]) == ("My model", "http://127.0.0.1:8000/v1")
    plan = outside.json("run", "sample/identifyme", "mine", "--dry-run")
    assert (
        plan["questions"] == 338
        and plan["tokens_in"] > 100_000
        and plan["usd"] > 0
        and "marked mention" in plan["prompt"]
    )
    assert not (outside.folder / "runs").exists()


def test_a_function_and_a_metric(outside):
    outside.write("systems/first.yaml", "systems/first.py", "metrics.py")
    done = outside.json("run", "sample/identifyme", "first")
    assert done["sealed"] and done["groups"]["all"]["right"] == 15
    run, metric = "sample/identifyme:first", "metrics.py:above_chance"
    scored = outside.json("score", "choice", run, "--metric", metric, "--by", "pronoun_class")
    assert -1 < scored["groups"]["all"][metric] < 0
    assert all(metric in group for group in scored["groups"].values())
    said = outside.refnb("score", "choice", run, "--metric", metric)
    assert said.out.splitlines()[0].endswith(f"\t{metric}") and said.out.splitlines()[1].endswith(
        f"\t{scored['groups']['all'][metric]:.6g}"
    )
    one_line(
        outside.refnb("score", "choice", run, "--metric", "metrics.py:above_chances"),
        1,
        "metrics.py has no above_chances; did you mean above_chance?",
    )
    one_line(
        outside.refnb("score", "choice", run, "--metric", "above_chance"),
        2,
        "unknown metric 'above_chance'; name it as file.py:function",
    )


def test_what_is_called_mine_answers(outside):
    outside.write(
        **{
            "systems/mine.yaml": "function: mine.py:answer\n",
            "systems/mine.py": "def answer(q): return q.options[-1].name\n",
        }
    )
    done = outside.json("run", "sample/identifyme", "mine")
    assert (
        done["system"] == "mine"
        and done["groups"]["all"]["n"] == 338
        and done["groups"]["all"]["without_choice"] == 0
    )


def test_a_table_is_one_notebook(outside):
    "First without printed values, then with a file of them."
    parameters, code = EXAMPLES["tables/fables.ipynb"].split("# next cell\n")
    nb = notebook(code, parameters=parameters)
    outside.write(**{"elsewhere/fables.ipynb": json.dumps(nb)})
    assert [
        (x["name"], x["state"])
        for x in outside.json("reproduce", "elsewhere/fables.ipynb")["steps"]
    ] == [("own/fables", "new")]
    report = outside.folder / "reports/own/fables"
    assert (
        "| random | 5.0 [" in report.with_suffix(".md").read_text()
        and len(json.loads(report.with_suffix(".json").read_text())["runs"]) == 2
    )
    outside.write("tables/fables.yaml", **{"tables/fables.ipynb": json.dumps(nb)})
    assert [x["state"] for x in outside.json("reproduce", "own")["steps"]] == ["changed"]
    assert "own/fables,random,all,5,5.013777,0," in report.with_suffix(".csv").read_text()
    assert outside.json("reproduce", "tables/fables.ipynb")["steps"][0]["state"] == "unchanged"
    one_line(outside.refnb("reproduce", "fables.ipynb"), 2, "fables.ipynb: no such file")


def test_a_corpus_is_a_card_and_a_function(outside, site):
    outside.write("corpora/fables.yaml", "corpora/fables.py")
    shutil.copy(
        site / "refnb/data/sample/stories/the_tin.conll", outside.folder / "corpora/fables.conll"
    )
    assert "fables" in [r["corpus"] for r in outside.json("list", "corpora")["corpora"]]
    assert outside.python("import refnb; print(len(refnb.load('fables')))").out == "1\n"
    built = outside.json("build", "identifyme", "--corpus", "fables", "--names", "auto")
    assert built["stories"] + len(built["rejected"]) == 1
    outside.write(**{"corpora/second.yaml": EXAMPLES["corpora/fables.yaml"]})
    one_line(
        outside.refnb("list", "corpora"),
        1,
        "second.yaml: the corpus fables exists already, in fables.yaml; give it another name",
    )
    outside.write(**{"corpora/second.yaml": "corpus: [\n"})
    one_line(outside.refnb("list", "corpora"), 1, "second.yaml, line ")


def test_a_benchmark_is_a_card_and_a_function(outside):
    outside.write("benchmarks/toy.yaml", "benchmarks/toy.py", "systems/mine.yaml")
    done = outside.json("run", "toy/test", "random")
    assert done["task"] == "toy/test" and done["groups"]["all"]["n"] == 1
    assert "{{She}}" in outside.json("run", "toy/test", "mine", "--dry-run")["prompt"]
    assert (
        "toy/test"
        in next(
            r for r in outside.json("list", "benchmarks")["benchmarks"] if r["benchmark"] == "toy"
        )["tasks of it"]
    )


SYSTEM = """from refnb.core.types import Answer
from refnb.models.systems import BaseSystem
class Last(BaseSystem):
    name = title = "last"
    def answer(self, task, items):
        for q in items: yield Answer(q.id, (len(q.options) - 1,))
def answer(question): return 0
def lost(outcomes): return (outcomes.reason == "missing").mean()
"""


def test_systems_and_metrics_of_another_package(outside):
    point = EXAMPLES["pyproject.toml"].splitlines()[1].replace('"', "")
    outside.package(
        "their_package",
        SYSTEM,
        f"[refnb.systems]\n{point}\nlast = their_package:Last\n[refnb.metrics]\nlost = their_package:lost\n",
    )
    outside.package(
        "broken", "import nothing_of_this_name\n", "[refnb.systems]\nbroken = broken:System\n"
    )
    for name in ("theirs", "last"):
        assert outside.json("run", "sample/ferryman", name)["groups"]["all"]["n"] == 29
    scored = outside.json("score", "choice", "sample/ferryman:theirs", "--metric", "lost")
    assert scored["groups"]["all"]["lost"] == 0.0
    one_line(
        outside.refnb("run", "sample/ferryman", "broken"),
        1,
        "broken, offered by the package broken: cannot be loaded: ModuleNotFoundError",
    )
    listed = {r["system"]: r for r in outside.json("list", "systems")["systems"]}
    assert listed["last"]["title"] == "last" and "cannot be used" in listed["broken"]["needs"]


# Inside: a checkout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    "A copy of the checkout, to add things to."
    copy = tmp_path_factory.mktemp("extending") / "refnb"
    for d in ("nbs", "refnb", "reports/runs"):
        shutil.copytree(
            ROOT / d, copy / d, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    for f in ("settings.ini", "constraints.txt", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / f, copy / f)
    return copy


def files(copy: Path) -> set[Path]:
    return {
        p.relative_to(copy)
        for p in (copy / "nbs").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }


def run(copy: Path, code: str, *args: str) -> str:
    "Python in the copy, with the copy's refnb."
    env = clean(copy / "home") | {"PYTHONPATH": f"{copy}{os.pathsep}{WITHOUT}"}
    got = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=copy, env=env, capture_output=True, text=True
    )
    assert not got.returncode, got.stderr
    return got.stdout


def export(copy: Path, notebook: Path):
    env = {k: v for k, v in os.environ.items() if k != "IN_TEST"}
    command = [Path(sys.executable).parent / "nbdev-export", "--path", notebook]
    subprocess.run(command, cwd=copy, env=env, check=True, capture_output=True)


def test_a_table_of_a_paper_is_one_notebook(checkout):
    name = "bookcoref/table_5_prompt"
    path = checkout / f"nbs/tables/{name}.ipynb"
    path.unlink(missing_ok=True)
    before = files(checkout)
    path.write_text(json.dumps(notebook(REPORT % name)))
    assert len(files(checkout) - before) == 1
    assert f"{name}: made" in run(checkout, REFNB, "reproduce", name)


def test_a_published_model_is_one_line(checkout):
    before, path = files(checkout), checkout / "nbs/data/systems/published.yaml"
    line = "published/toy: {title: Toy, task: identifyme/test, form: desc, file: KawshikManikantan/IdentifyMe/analysis_data/info/gpt4o_mention_info.csv}\n"
    path.write_text(path.read_text() + line)
    assert files(checkout) == before
    assert "published/toy\tToy" in run(checkout, REFNB, "list", "systems")


def test_a_metric_is_one_function(checkout):
    before = files(checkout)
    path = checkout / "nbs/metrics/00_choice.ipynb"
    nb = json.loads(path.read_text())
    nb["cells"].append(
        cell(
            '#| export\ndef refused(o: "pd.DataFrame") -> float:\n    "Share of questions that were refused."\n    return float((o.reason == "refused").mean())'
        )
        | {"id": "refused"}
    )
    path.write_text(json.dumps(nb))
    export(checkout, path)
    assert files(checkout) == before
    code = "from refnb.metrics.choice import refused; from refnb.results.scores import as_outcomes; print(refused(as_outcomes('identifyme/test:published/gpt-4o')))"
    assert run(checkout, code).strip() == "0.0"


PRINTED = "paper: toy\norder: 9\ntitle: A toy\ncite: Toy et al.\ntables:\n  table_1_all: {number: '1', title: All, kind: computed, unit: percent, decimals: 1, cells: {Random: {all: 50.0}}}\n"
CARD = "benchmark: toy\nabout: a toy\nlicence: none needed\ntasks:\n  toy/test: {about: two questions, make: 'refnb.benchmarks.toy:questions'}\n"
TOY = """#| export
from refnb.core.types import Option, Question
def questions(s) -> list[Question]:
    "Two questions."
    return [Question(f"d:{i}", f"d{i}", options=(Option("a"), Option("b")), right=(i,)) for i in range(2)]"""


def test_a_benchmark_is_a_notebook_a_yaml_of_printed_values_and_a_card(checkout):
    before = files(checkout)
    path = checkout / "nbs/benchmarks/25_toy.ipynb"
    path.write_text(
        json.dumps(notebook(cell("#| default_exp benchmarks.toy"), cell(TOY), parameters="# Toy"))
    )
    (checkout / "nbs/data/papers/toy.yaml").write_text(PRINTED)
    (checkout / "nbs/data/cards/toy.yaml").write_text(CARD)
    export(checkout, path)
    assert len(files(checkout) - before) == 3
    assert "toy\tToy et al.\ttoy/test\tnone needed\t1\t0" in run(
        checkout, REFNB, "list", "benchmarks"
    )
    scored = run(
        checkout,
        "from refnb.models.running import run; from refnb.results.scores import score; print(score(run('toy/test', 'random')).interval().value)",
    )
    assert scored.strip() == "0.5"


def test_a_program_is_known_by_each_of_its_files(tmp_path, monkeypatch):
    from refnb.benchmarks.tasks import find_task
    from refnb.models.registry import find_system

    monkeypatch.chdir(tmp_path)
    for folder in ("pa", "pb"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_text("pass")
    made = lambda: find_system("command/python3 pa/x.py pb/x.py").identity(
        find_task("sample/ferryman")
    )
    before = made().data
    (tmp_path / "pa/x.py").write_text("print()")
    assert before["pa/x.py"] != made().data["pa/x.py"]
    assert before["pb/x.py"] == made().data["pb/x.py"]


def test_a_program_beside_its_file_is_listed_as_here(tmp_path, monkeypatch):
    from refnb.models.registry import listed_systems

    (tmp_path / "systems").mkdir()
    (tmp_path / "systems" / "mine.yaml").write_text("command: ./prog.py\n")
    program = tmp_path / "systems" / "prog.py"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    [mine] = (x for x in listed_systems() if x.system == "mine")
    assert mine.needs == "./prog.py (here)"


def test_a_program_that_says_nothing_is_not_scored(tmp_path, monkeypatch):
    from refnb import run
    from refnb.core.types import DataError

    monkeypatch.chdir(tmp_path)
    line = "import json, sys\nfor x in sys.stdin: print(json.dumps({'id': json.loads(x)['id']%s}))"
    (tmp_path / "mute.py").write_text(line % "")
    for task in ("sample/ferryman", "sample/bookcoref"):
        with pytest.raises(DataError, match="wrote no answer to .*there is an id alone"):
            run(task, "command/python3 mute.py")
    (tmp_path / "none.py").write_text(line % ", 'chosen': []")
    answers = run("sample/ferryman", "command/python3 none.py").answers()
    assert len(answers) == 29 and not any(a.chosen for a in answers.values())


def test_a_program_that_answers_a_mention_twice_is_told_and_its_clusters_are_exported(
    tmp_path, monkeypatch, capsys
):
    tools.live_in(monkeypatch, tmp_path)
    (tmp_path / "twice.py").write_text(
        "import json, sys\nfor line in sys.stdin:\n    id = json.loads(line)['id']\n"
        "    print(json.dumps({'id': id, 'clusters': [[[0, 1], [0, 1]], [[0, 1], [3, 3]]]}))\n"
    )
    call = ("run", "sample/bookcoref", f"command/{sys.executable} twice.py", "--json")
    got = json.loads(tools.here(capsys, *call).out)
    assert got["doubled"] == got["documents"] == 6
    for form, begins in (("corefud", "# newdoc"), ("conll", "#begin"), ("jsonlines", '{"doc_key"')):
        out = tmp_path / f"found.{form}"
        assert tools.here(capsys, "export", got["run"], "--to", form, "--out", out).status == 0
        assert out.read_text().startswith(begins)
