"The command line: help, wrong calls, failing work, output for machines, closed pipes, and what is loaded at its start."

import json, os, re, subprocess, sys
import pandas, pytest, typer
import refnb as root
import refnb.commands.cli as cli
import refnb.commands.listing as listing
import tools
from payloads import HOSTILE, SCORE, write_files
from refnb.benchmarks.tasks import as_task
from refnb.core.files import CANARY, read_jsonl, write_jsonl
from refnb.core.types import Answer, DataError, Option, Question


@pytest.fixture
def home(tmp_path, monkeypatch):
    tools.live_in(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture
def refnb(home, capsys):
    "Run a command in this process."
    return lambda call="": tools.here(capsys, *call.split())


@pytest.fixture
def told(refnb):
    "Run a command with --json; the whole of its output is one object."

    def tell(call: str) -> dict:
        said = refnb(f"{call} --json")
        assert said.status == 0, said
        return json.loads(said.out)

    return tell


# Help


def commands(group, *path):
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        yield from commands(command, *path, name) if inner else [((*path, name), command)]


def words(text: str) -> str:
    return "".join(text.split())  # lines end at hyphens, too


ALL = dict(commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_describes_each_parameter(refnb, path):
    command, said = ALL[path], refnb(f"{' '.join(path)} --help")
    assert said.status == 0 and said.err == "" and f"refnb {' '.join(path)}" in said.out
    assert refnb(f"{' '.join(path)} -h") == said
    for text in [command.help, *(p.help for p in command.params if p.name != "help")]:
        assert text and words(text) in words(said.out)


def test_without_arguments_it_helps(refnb):
    said = refnb()
    assert said.status == 0 and said.err == "" and said.out == refnb("--help").out
    shown = re.findall(r"(?m)^  (\w+) ", said.out.partition("Commands:")[2])
    assert shown == list(cli.COMMANDS) and shown[:3] == ["doctor", "list", "fetch"]
    assert refnb("--version") == (0, f"refnb {root.__version__}\n", "")


# Wrong calls: status 2, one line, nothing on standard output

WRONG = {
    "build": "Missing command; see refnb build --help",
    "build identifym": "No such command 'identifym'. Did you mean 'identifyme'?",
    "build identifyme --corpus litbnk": "unknown corpus 'litbnk'; did you mean litbank?",
    "build identifyme --mode paperr": "unknown mode 'paperr'; did you mean paper?",
    "build identifyme --names atuo": "unknown way of naming 'atuo'; did you mean auto?",
    "build identifyme --names authors": "say --corpus litbank",
    "build identifyme --split tets": "unknown split 'tets'; did you mean test?",
    "build identifyme -p windwo=3": "--set: unknown rule 'windwo'; did you mean window?",
    "build identifyme -p window=wide": "window cannot be 'wide'",
    "build identifyme -p window=0": "the rule window is 0, the least is 1",
    "build identifyme --variants x": "No such option: --variants",
    "build kitmus --corpus sample": "No such option: --corpus",
    "build kitmus": "Missing option '--out'",
    "annotate sample --out x -p linkre=rules": "unknown setting 'linkre'; did you mean linker?",
    "run sample/identifyme": "Missing argument",
    "run sample/identifyem random": "neither a task nor a file; did you mean sample/identifyme?",
    "run sample/identifyme raondm": "unknown system 'raondm'; did you mean random?",
    "run sample/identifyme random --limit -1": "limit: a limit of -1 questions",
    "run sample/identifyme random --by tpye": "unknown field 'tpye'; did you mean type?",
    "run sample/bookcoref random": "random: answers questions, sample/bookcoref has documents",
    "run nosuch/* random": "no task matches 'nosuch/*'",
    "run sample/ferryman random raondm": "unknown system 'raondm'; did you mean random?",
    "run sample/ferryman random -p device=cpu": "random has no settings",
    "run sample/ferryman gpt-4o-mini -p device=cpu --dry-run": "takes no device=cpu",
    "run sample/ferryman smollm2-135m -p device=gpu --dry-run": "device: 'gpu' is none; say cpu, cuda",
    "export": "Missing argument",
    "export sample/kitmus": "Missing option '--to'",
    "export sample/kitmus --to helm": "Invalid value for '--to'",
    "export sample/kitmus --to inspect": "Missing option '--out'",
    "export sample --to documents --out x -p shots=1": "leave out --system and -p",
    "export sample/kitmuss --to inspect --out x": "neither a task nor a file; did you mean sample/kitmus?",
    "export sample/kitmus --to inspect --out x -p form=kitmus/name": "unknown prompt form 'kitmus/name'",
    "export sample/kitmus --to inspect --out x -p order=backward": "unknown order 'backward'",
    "export sample/kitmus --to inspect --out x -p limit=3": "a language model has no setting 'limit'",
    "export sample/kitmus --to inspect --out x --system random": "unknown language model 'random'",
    "export sample/kitmus --to inspect --out x -p choise=1": "a language model has no setting 'choise'",
    "lst": "No such command 'lst'. Did you mean 'list'?",
    "score choise x": "No such command 'choise'. Did you mean 'choice'?",
    "score": "Missing command; see refnb score --help",
    "score choice": "Missing argument",
    "reproduce --jbos 3": "No such option: --jbos",
    "list --jsn": "--json",
    "--verson": "--version",
    "reproduce --jobs": "--jobs",
    "reproduce --jobs 1.5": "--jobs",
    "list tabels": "unknown list 'tabels'; did you mean tables?",
    "list tables systems": "unexpected extra argument",
    "list runs sample/ferymann": "no task 'sample/ferymann'; did you mean sample/ferryman?",
    "fetch identifyme-answers litbnk": "unknown upstream name 'litbnk'; did you mean litbank?",
    "reproduce identifyem": "unknown paper 'identifyem'; did you mean identifyme?",
    "reproduce identifyme/table_3_main_result": "did you mean identifyme/table_3_main_results?",
    "reproduce identifyme/3": "unknown table 'identifyme/3'",
    "reproduce table_3": "unknown paper 'table_3'",
    "reproduce identifyme/table_3 -p sytems=[]": "unknown parameter 'sytems'; did you mean systems?",
    "reproduce altentities/table_6 -p seed=1.0": "seed: '1.0' is not of type int",
    "reproduce identifyme/table_3 -p systems=random": """is not of type list; write it as ["a", "b"]""",
    "reproduce identifyme/table_3 -p seed": "-p: 'seed' is not NAME=VALUE",
    "score choice identifyme/test:random --by tpye": "unknown field 'tpye'; did you mean type?",
    "score choice identifyme/test:random --by type,copus": "unknown field 'copus'; did you mean corpus?",
    "score choice identifyme/test:random --by type,": "unknown field ''",
    "score choice identifyme/test:random --mode strct": "unknown mode 'strct'; did you mean strict?",
    "score choice nothing": "nothing: is neither a file, a run's folder nor a name",
    "score choice identifyme/tset:random": "unknown task 'identifyme/tset'; did you mean identifyme/test?",
    "score choice identifyme/test:rnadom": "unknown system 'rnadom'; did you mean random?",
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call(refnb, home, call):
    said = refnb(call)
    tools.one_line(said, 2, WRONG[call])
    assert said.out == "" and not (home / "runs").exists()  # nothing was asked


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("REFNB_JBOS", "3", "unknown variable REFNB_JBOS; did you mean REFNB_JOBS?"),
        ("REFNB_JOBS", "x", "REFNB_JOBS, jobs: 'x' is not a whole number"),
        ("REFNB_OFFLINE", "perhaps", "REFNB_OFFLINE, offline: 'perhaps' is not true or false"),
        ("REFNB_UPSTREAM", "/nonexistent/x", "no such folder"),
    ],
)
def test_a_wrong_variable(refnb, monkeypatch, variable, value, said):
    monkeypatch.setenv(variable, value)
    tools.one_line(refnb("list"), 2, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jbos = 3", "settings.ini, [refnb]: unknown setting 'jbos'; did you mean jobs?"),
        ("jobs = many", "settings.ini, jobs: 'many' is not a whole number"),
        ("jobs = 1\njobs = 2", "settings.ini"),
        ("no sense", "settings.ini"),
    ],
)
def test_a_wrong_setting(refnb, home, text, said):
    (home / "settings.ini").write_text(f"[refnb]\n{text}\n")
    tools.one_line(refnb("list"), 2, said)


# Failing work: status 1

FAILING = {
    "view nothing": "is not a run: it has no run.json",
    "score choice .": "is not a run: it has no run.json",
    "score choice sample/identifyme/sample7:random": "no complete run of random on sample/identifyme/sample7",
    "run sample/ferryman nearest-mention": "nearest-mention: needs the field 'nearest_mention'",
    "annotate sample --out x": "holds 6 documents; annotate one book at a time",
}


@pytest.mark.parametrize("call", FAILING)
def test_failing_work(refnb, call):
    said = refnb(call)
    tools.one_line(said, 1, FAILING[call])
    assert said.out == ""


def test_what_cannot_be_fetched(refnb):
    said = refnb("fetch identifyme-answers")
    *lines, last = said.err.splitlines()
    do = "set REFNB_OFFLINE=false, or name a local copy with REFNB_UPSTREAM"
    assert said.status == 1 and len(lines) == 5 and all(do in line for line in lines)
    assert last == "refnb: 5 of 5 files could not be downloaded; see above"


def test_fetch_check_finds_a_wrong_file(refnb, told, home):
    from refnb.core.upstream import files_of

    assert told("fetch --check identifyme-answers") == {"files": 5, "failed": []}
    path = home / "cache/upstream" / files_of("identifyme-answers")[0].place
    path.parent.mkdir(parents=True)
    path.write_bytes(b"wrong")
    said = refnb("fetch --check --json identifyme-answers")
    assert said.status == 1 and len(json.loads(said.out)["failed"]) == 1
    assert said.err.splitlines()[-1] == "refnb: 1 of 5 files could not be verified; see above"


@pytest.mark.parametrize("fault", ["1/0", ""])
def test_reproduce_as_json(home, fault):
    tools.install(home / "tables", tools.A, tools.table(tools.A, fault or "print('noise')"))
    said = tools.refnb(home, "reproduce", "--json", tables=home / "tables")
    got, state = json.loads(said.out), "failed" if fault else "new"
    assert [(x["name"], x["state"]) for x in got["steps"]] == [(tools.A, state)]
    assert said.status == bool(fault) and "38 tables" in got["summary"]
    if fault:
        what = f"the first is {tools.A}: cell 1 (1/0): ZeroDivisionError: division by zero"
        assert said.err.splitlines()[-1] == f"refnb: 1 of 1 tables failed, {what}"


@pytest.mark.parametrize("call", ["list tabels", "score choice ."])
def test_debug_shows_the_traceback(refnb, call):
    for debug in (f"--debug {call}", f"{call} --debug"):
        said = refnb(debug)
        first, *_, last = said.err.splitlines()
        assert said.status == 1 and said.out == "" and "Traceback" in first and "Error: " in last


def test_an_unexpected_error_is_one_line_too(refnb, monkeypatch):
    def broken(s):
        raise RuntimeError("no\nsuch\nthing")

    monkeypatch.setitem(listing.LISTS, "tables", broken)
    line = tools.one_line(refnb("list tables"), 1)
    assert line == "refnb: unexpected RuntimeError: no such thing; --debug shows where"


def test_f72_a_long_error_is_cut():
    said = str(DataError("x" * 5000, "FILE, line 3", "fix it"))
    assert said.startswith("FILE, line 3: xxx") and said.endswith("…; fix it") and len(said) <= 300


# Lists


def test_lists(refnb, told):
    got = told("list")
    assert set(got) == set(listing.LISTS) and all(got.values())
    tables = got["tables"]
    assert tables == told("list tables")["tables"]
    assert sum("/own_" not in t["table"] for t in tables) == 38
    for t in tables:
        assert t["printed"] == t["match"] + t["differ"] + t["missing"]
        assert t["state"] in ("complete", "partial", "empty", "nothing printed")
    lines = refnb("list tables").out.splitlines()  # tab-separated, for it is not a terminal
    assert len(lines) == 1 + len(tables) and {line.count("\t") for line in lines} == {10}


@pytest.mark.parametrize("what", ["tables", "systems", "corpora", "upstream", "benchmarks"])
def test_a_name_is_never_cut_on_a_narrow_terminal(home, monkeypatch, what):
    import io

    class Terminal(io.StringIO):
        isatty = lambda self: True

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    assert cli.main(["list", what]) == 0
    lines = out.getvalue().splitlines()
    names = [next(iter(row.values())) for row in listing.LISTS[what](listing.load_settings())]
    assert set(names) <= {line.split("  ")[0] for line in lines}
    assert max(len(line) for line in lines if line[:1] == " ") <= 80


# Score

QUESTIONS = [
    Question(
        f"d{i % 3}:{i}",
        f"d{i % 3}",
        options=(Option("a"), Option("b"), Option("a")),
        right=(i % 2,),
        meta={"type": "odd" if i % 2 else "even", "n": i},
    )
    for i in range(9)
]
ANSWERS = [Answer(q.id, (0,)) for q in QUESTIONS]
OF_A_FILE = "score choice answers.jsonl --gold questions.jsonl"


@pytest.fixture
def files(home):
    write_jsonl(home / "questions.jsonl", QUESTIONS, canary=True)
    write_jsonl(home / "answers.jsonl", reversed(ANSWERS))
    return home


def test_score_of_a_file(refnb, told, files):
    got = told(f"{OF_A_FILE} --by type")
    about = {"unit": "fraction", "mode": "strict", "by": "type", "questions": 9}
    assert about.items() <= got.items()
    fields = ("accuracy", "n", "documents", "missing", "without_choice")
    groups = {g: tuple(v[f] for f in fields) for g, v in got["groups"].items()}
    assert groups == {"all": (5 / 9, 9, 3, 0, 0), "even": (1, 5, 3, 0, 0), "odd": (0, 4, 3, 0, 0)}
    assert got["groups"]["all"]["low"] <= 5 / 9 <= got["groups"]["all"]["high"]
    both = set(told(f"{OF_A_FILE} --by type,doc_key")["groups"]) - {"all"}
    assert both == {f"{t} / d{i}" for t in ("even", "odd") for i in range(3)}
    head, line = (x.split("\t") for x in refnb(OF_A_FILE).out.splitlines())
    assert head == ["group", "accuracy (%)", "low", "high", *fields[1:]]
    assert line[:2] == ["all", "55.6"]


def test_score_counts_missing_answers(told, files):
    lost = [Answer(QUESTIONS[3].id, reason="refused"), Answer(QUESTIONS[4].id, reason="failed")]
    write_jsonl(files / "answers.jsonl", [*ANSWERS[:3], *lost])
    strict, released = (
        told(f"{OF_A_FILE} --mode {m}")["groups"]["all"] for m in ("strict", "released")
    )
    counts = [strict[k] for k in ("accuracy", "n", "missing", "without_choice")]
    assert counts == [2 / 9, 9, 4, 2]
    assert (released["accuracy"], released["n"]) == (2 / 4, 4)
    write_jsonl(files / "answers.jsonl", [])  # of nothing: null, not NaN
    nothing = told(f"{OF_A_FILE} --mode released")["groups"]["all"]
    assert nothing["accuracy"] is None and nothing["n"] == 0


def test_score_of_a_carried_run(told):
    got = told("score choice identifyme/test:published/gemini-1.5-flash --mode released")
    every = got["groups"]["all"]
    assert (f"{100 * every['accuracy']:.2f}", every["n"]) == ("73.85", 1197)


def test_score_needs_gold(refnb, files):
    said = "answers.jsonl: answers alone cannot be scored; name the questions with --gold FILE"
    tools.one_line(refnb("score choice answers.jsonl"), 2, said)
    gone = refnb("score choice answers.jsonl --gold gone.jsonl")
    tools.one_line(gone, 1, "gone.jsonl: no such file")


LINE_2 = "answers.jsonl, line 2"
BROKEN = {
    '{"id":"d1:1","chosen":[0': LINE_2,
    "hello": LINE_2,
    "[1]": LINE_2,
    '{"id":"d1:1","chosen":[0],"choosen":1}': LINE_2,
    '{"chosen":[0]}': LINE_2,
    '{"id":"d1:1","chosen":["a"]}': LINE_2,
    '{"id":"d1:1","chosen":[-1]}': LINE_2,
    '{"id":"d1:1","chosen":[0],"reason":"refused"}': LINE_2,
    '{"id":"d1:1","reason":"tired"}': LINE_2,
    '{"id":"d1:1","scores":[NaN,1,2]}': LINE_2,
    '{"id":"d1:\udcff","chosen":[0]}': LINE_2,
    '{"id":"d9:1","chosen":[0]}': "1 answers belong to no question, one is d9:1",
    '{"id":"d0:0","chosen":[0]}': "answers.jsonl: the id d0:0 appears twice",
    '{"id":"d1:1","chosen":[3]}': "d1:1",
    '{"id":"d1:1","scores":[1,2]}': "d1:1",
}


@pytest.mark.parametrize("line", BROKEN, ids=range(len(BROKEN)))
def test_broken_answers(refnb, files, line):
    text = f'{{"id":"d0:0","chosen":[0]}}\n{line}\n'.encode("utf-8", "surrogateescape")
    (files / "answers.jsonl").write_bytes(text)
    got = refnb(f"{OF_A_FILE} --json")
    tools.one_line(got, 1, BROKEN[line])
    assert got.out == ""


def test_broken_questions(refnb, files):
    write_jsonl(files / "questions.jsonl", [*QUESTIONS, QUESTIONS[0]])
    tools.one_line(refnb(OF_A_FILE), 1, "d0:0", "twice")
    line = '{"id":"d0:0","doc_key":"d","options":[{"name":"a"}],"right":[1]}\n'
    (files / "questions.jsonl").write_text(line)
    where, what = "questions.jsonl, line 1", "field right: [1] is outside the 1 options"
    tools.one_line(refnb(OF_A_FILE), 1, where, what)


# Build and run


@pytest.mark.parametrize("kind", ["identifyme", "filter"])
def test_other_tools_read_each_question_of_a_built_file(told, home, kind):
    "One row a question, with the canary in it, in whatever order its fields are."
    built = told(f"build {kind} --out q.jsonl")
    rows = pandas.read_json(home / "q.jsonl", lines=True)
    assert len(rows) == built["questions"] and rows.id.notna().all() and rows.id.is_unique
    assert set(rows.canary) == {CANARY["canary"]}
    questions = list(read_jsonl(home / "q.jsonl", Question))
    assert [q.id for q in questions] == list(rows.id)
    (home / "sorted.jsonl").write_text(rows[sorted(rows)].to_json(orient="records", lines=True))
    assert list(read_jsonl(home / "sorted.jsonl", Question)) == questions
    assert as_task(home / "sorted.jsonl").name == as_task(home / "q.jsonl").name


def test_build_and_run(told, home):
    got = told("build identifyme --out q.jsonl")
    assert got["stories"] == 6 and got["rejected"] == {}
    assert got["questions"] == sum(r["test"] for r in got["pool"])
    ran = told("run q.jsonl most-frequent --by type")
    assert ran["sealed"] and ran["task"].startswith("given/")
    assert set(ran["groups"]) == {"all", "nominal", "pronominal"}
    assert ran["groups"]["all"]["n"] == got["questions"]
    for name in (ran["run"], "q.jsonl:most-frequent"):  # the questions are kept with the run
        assert told(f"score choice {name}")["groups"]["all"] == ran["groups"]["all"]


def test_build_from_a_file(refnb, home):
    from refnb.core.corpora import load
    from refnb.core.reading import write_documents

    write_documents([d.changed(names=(), labels={}) for d in load("sample")], home / "mine.conllu")
    rules = "-p options=4 -p context=60"
    said = refnb(f"build identifyme --corpus mine.conllu --split dev {rules} --out mine.jsonl")
    assert said.status == 0 and "mine" in said.out and "questions in mine.jsonl" in said.out
    assert all(len(q.options) <= 5 for q in read_jsonl(home / "mine.jsonl", Question))
    line = f"one\t0\t0\tAnn{7 * chr(9)}-\t(0)\n".replace("\t\t", "\t-\t").replace("\t\t", "\t-\t")
    (home / "one.conll").write_text(f"#begin document (one); part 000\n{line}\n#end document\n")
    why = "none of the 1 documents can be used: 1 tokens, fewer than 1,000; loosen the rules"
    tools.one_line(refnb("build identifyme --corpus one.conll"), 1, why)


def test_a_limited_run_goes_on(refnb, told):
    said = refnb("run sample/ferryman random --limit 5")
    assert "5 of 29 answered" in said.out and "\nall" in said.out  # with the score so far
    first = told("run sample/ferryman random --limit 5")
    assert (first["sealed"], first["answered"], first["groups"]["all"]["n"]) == (False, 5, 5)
    assert told("run sample/ferryman random")["run"] == first["run"]


@pytest.mark.parametrize(
    "setting",
    "max_tokens=-5 max_tokens=0 max_tokens=99999999 temperature=-1 temperature=.nan top_p=2".split(),
)
def test_f75_a_setting_that_cannot_be(refnb, setting):
    said = refnb(f"run sample/identifyme gpt-4o-mini --dry-run -p decoding.{setting}")
    tools.one_line(said, 2, setting.partition("=")[0])


# Streams and start-up


def with_output(home, call, stdout, **how) -> subprocess.CompletedProcess:
    "Score hostile texts, or do something else, with another standard output."
    write_files(home)
    env = tools.clean(home, **how.pop("variables", {}))
    program = [sys.executable, "-c", "from refnb.commands.cli import run; run()", *call]
    stdin, limit = subprocess.DEVNULL, tools.HANG
    return subprocess.run(
        program, cwd=home, env=env, stdin=stdin, stdout=stdout, timeout=limit, **how
    )


def test_f73_standard_output_without_the_letters(home):
    for call in (SCORE, (*SCORE, "--json")):
        variables = {"PYTHONIOENCODING": "ascii"}
        got = with_output(home, call, subprocess.PIPE, stderr=subprocess.PIPE, variables=variables)
        assert got.returncode == 0 and got.stderr == b""
        if call == SCORE:
            assert rb"\u738b \U0001f98a" in got.stdout
        else:
            assert set(json.loads(got.stdout)["groups"]) == {"all", *HOSTILE}


@pytest.mark.parametrize("call", [SCORE, (*SCORE, "--json"), ("list", "upstream")])
def test_f73_nobody_listens(home, call):
    "As with `| head -1`: no error, and the work is done."
    read, write = os.pipe()
    os.close(read)
    try:
        got = with_output(home, call, write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert (got.returncode, got.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_f73_a_full_disk_behind_standard_output_is_one_line(home):
    with open("/dev/full", "w") as full:
        got = with_output(home, SCORE, full, stderr=subprocess.PIPE, text=True)
    assert got.returncode == 1 and got.stderr == "refnb: the system: no space left on device\n"


HEAVY = "torch transformers pandas scipy matplotlib seaborn papermill nbclient nbdev ray openai"


@pytest.mark.parametrize(
    "code", ["import refnb", "from refnb.commands.cli import main; main(['reproduce', '--help'])"]
)
def test_nothing_heavy_is_loaded_at_the_start(home, code):
    loaded = f"\nimport sys; print([m for m in {HEAVY.split()} if m in sys.modules])"
    said = tools.ended(tools.start(home, code=code + loaded))
    assert said.status == 0 and said.out.endswith("[]\n"), said


def test_public_names_load():
    from importlib.metadata import entry_points

    for name in root.__all__:
        assert getattr(root, name) is not None
    assert set(root.__all__) <= set(dir(root))
    with pytest.raises(AttributeError, match="module 'refnb' has no attribute 'scroe'"):
        getattr(root, "scroe")  # noqa: B009
    (point,) = entry_points(group="console_scripts", name="refnb")
    assert point.load() is cli.run and re.fullmatch(r"\d+\.\d+\.\d+\S*", root.__version__)
