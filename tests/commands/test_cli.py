"The command line: help, one line for each wrong call, output for machines, pipes, a light start."

import io, json, os, re, subprocess, sys
import pytest, typer
import refnb as root
import refnb.commands.cli as cli
import refnb.commands.listing as listing
import tools
from tools import ROOT
from payloads import HOSTILE, SCORE, write_files
from refnb.core.types import DataError
from refnb.core.upstream import files_of


@pytest.fixture
def home(tmp_path, monkeypatch):
    tools.live_in(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture
def refnb(home, capsys):
    "Run a command in this process."
    return lambda call="": tools.here(capsys, *call.split())


@pytest.fixture
def answer(refnb):
    "Run a command with --json; the whole of its output is one object."

    def run(call: str) -> dict:
        said = refnb(f"{call} --json")
        assert said.status == 0, said
        return json.loads(said.out)

    return run


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


@pytest.mark.parametrize(
    ("words", "offered"), [("refnb build k", "kitmus"), ("refnb run --dry", "--dry-run")]
)
def test_a_shell_completes_names(tmp_path, words, offered):
    env = {"_REFNB_COMPLETE": "complete_bash", "COMP_WORDS": words}
    env["COMP_CWORD"] = str(len(words.split()) - 1)
    said = tools.refnb(tmp_path, **env)
    assert offered in said.out.split() and said.err == ""


# Wrong calls: status 2, one line, nothing on standard output, nothing asked

WRONG = {  # the call -> what its line names
    "build": "refnb build --help",
    "build identifym": "'identifyme'",
    "build identifyme --corpus litbnk": "did you mean litbank?",
    "build identifyme --mode paperr": "did you mean paper?",
    "build identifyme --names atuo": "did you mean auto?",
    "build identifyme --names authors": "--corpus litbank",
    "build identifyme --split tets": "did you mean test?",
    "build identifyme -p windwo=3": "did you mean window?",
    "build identifyme -p window=wide": "'wide'",
    "build identifyme -p window=0": "window is 0",
    "build identifyme --variants x": "--variants",
    "build kitmus --corpus sample": "--corpus",
    "build kitmus": "'--out'",
    "annotate sample --out x -p linkre=rules": "did you mean linker?",
    "run sample/identifyme": "argument",
    "run sample/identifyem random": "did you mean sample/identifyme?",
    "run sample/identifyme raondm": "did you mean random?",
    "run sample/identifyme random --limit -1": "-1",
    "run sample/identifyme random --by tpye": "did you mean type?",
    "run sample/bookcoref random": "documents",
    "run nosuch/* random": "'nosuch/*'",
    "run sample/ferryman random raondm": "did you mean random?",
    "run sample/ferryman random -p device=cpu": "random",
    "run sample/ferryman gpt-4o-mini -p device=cpu --dry-run": "device=cpu",
    "run sample/ferryman smollm2-135m -p device=gpu --dry-run": "'gpu'",
    "run sample/identifyme gpt-4o-mini --dry-run -p decoding.max_tokens=-5": "max_tokens",
    "run sample/identifyme gpt-4o-mini --dry-run -p decoding.max_tokens=0": "max_tokens",
    "run sample/identifyme gpt-4o-mini --dry-run -p decoding.max_tokens=99999999": "max_tokens",
    "run sample/identifyme gpt-4o-mini --dry-run -p decoding.temperature=-1": "temperature",
    "run sample/identifyme gpt-4o-mini --dry-run -p decoding.temperature=.nan": "temperature",
    "run sample/identifyme gpt-4o-mini --dry-run -p decoding.top_p=2": "top_p",
    "export": "argument",
    "export sample/kitmus": "'--to'",
    "export sample/kitmus --to helm": "'--to'",
    "export sample --to conll": "'--out'",
    "lst": "'list'",
    "--verson": "--version",
    "score": "refnb score --help",
    "score choise x": "'choice'",
    "score choice": "argument",
    "score choice nothing": "nothing",
    "score choice identifyme/test:random --by tpye": "did you mean type?",
    "score choice identifyme/test:random --by type,copus": "did you mean corpus?",
    "score choice identifyme/test:random --by type,": "''",
    "score choice identifyme/test:random --mode strct": "did you mean strict?",
    "score choice identifyme/tset:random": "did you mean identifyme/test?",
    "score choice identifyme/test:rnadom": "did you mean random?",
    "list --jsn": "--json",
    "list tabels": "did you mean tables?",
    "list tables systems": "argument",
    "list runs sample/ferymann": "did you mean sample/ferryman?",
    "fetch identifyme-answers litbnk": "did you mean litbank?",
    "reproduce --jbos 3": "--jbos",
    "reproduce --jobs": "--jobs",
    "reproduce --jobs 1.5": "--jobs",
    "reproduce identifyem": "did you mean identifyme?",
    "reproduce identifyme/table_3_main_result": "did you mean identifyme/table_3_main_results?",
    "reproduce identifyme/3": "'identifyme/3'",
    "reproduce table_3": "'table_3'",
    "reproduce identifyme/table_3 -p sytems=[]": "did you mean systems?",
    "reproduce altentities/table_6 -p seed=1.0": "'1.0'",
    "reproduce identifyme/table_3 -p systems=random": '["a", "b"]',
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_is_one_line_that_says_what_is_meant(refnb, home, call):
    said = refnb(call)
    line = tools.one_line(said, 2, WRONG[call])
    assert said.out == "" and len(line) <= 320 and not (home / "runs").exists()


@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("REFNB_JBOS", "3", "did you mean REFNB_JOBS?"),
        ("REFNB_JOBS", "x", "'x'"),
        ("REFNB_OFFLINE", "perhaps", "'perhaps'"),
        ("REFNB_UPSTREAM", "/nonexistent/x", "/nonexistent/x"),
    ],
)
def test_a_wrong_variable_is_one_line(refnb, monkeypatch, variable, value, part):
    monkeypatch.setenv(variable, value)
    tools.one_line(refnb("list"), 2, variable if variable != "REFNB_UPSTREAM" else part, part)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("jbos = 3", "did you mean jobs?"),
        ("jobs = many", "'many'"),
        ("jobs = 1\njobs = 2", ""),
        ("no sense", ""),
    ],
)
def test_a_wrong_setting_is_one_line(refnb, home, text, part):
    (home / "settings.ini").write_text(f"[refnb]\n{text}\n")
    tools.one_line(refnb("list"), 2, "settings.ini", part)


# Failing work: status 1, one line

FAILING = {
    "view nothing": "run.json",
    "score choice .": "run.json",
    "score choice sample/identifyme/sample7:random": "sample/identifyme/sample7",
    "run sample/ferryman nearest-mention": "'nearest_mention'",
    "annotate sample --out x": "6 documents",
}


@pytest.mark.parametrize("call", FAILING)
def test_failing_work_is_one_line(refnb, call):
    said = refnb(call)
    tools.one_line(said, 1, FAILING[call])
    assert said.out == ""


def test_what_cannot_be_fetched_is_named_and_counted(refnb, answer, home):
    said = refnb("fetch identifyme-answers")
    *lines, last = said.err.splitlines()
    assert said.status == 1 and len(lines) == 5 and "5 of 5 files" in last
    assert all("REFNB_OFFLINE=false" in x and "REFNB_UPSTREAM" in x for x in lines)
    assert answer("fetch --check identifyme-answers") == {"files": 5, "failed": []}
    path = home / "cache/upstream" / files_of("identifyme-answers")[0].place
    path.parent.mkdir(parents=True)
    path.write_bytes(b"wrong")
    said = refnb("fetch --check --json identifyme-answers")
    assert said.status == 1 and len(json.loads(said.out)["failed"]) == 1
    assert "1 of 5 files" in said.err.splitlines()[-1]


@pytest.mark.parametrize("call", ["list tabels", "score choice ."])
def test_debug_shows_the_traceback(refnb, call):
    for debug in (f"--debug {call}", f"{call} --debug"):
        said = refnb(debug)
        first, *_, last = said.err.splitlines()
        assert said.status == 1 and said.out == "" and "Traceback" in first and "Error: " in last


def test_an_unexpected_error_and_a_long_one_are_one_line(refnb, monkeypatch):
    for error, part in (
        (RuntimeError("no\nsuch\nthing"), "RuntimeError: no such thing"),
        (DataError("x" * 5000, "FILE, line 3", "fix it"), "FILE, line 3: xxx"),
    ):

        def broken(s, error=error):
            raise error

        monkeypatch.setitem(listing.LISTS, "tables", broken)
        line = tools.one_line(refnb("list tables"), 1, part)
        assert len(line) <= 310 and ("--debug" in line or line.endswith("fix it"))


@pytest.mark.parametrize("command", ["view %s", "run sample/identifyme random --limit %s", "%s"])
def test_what_is_typed_is_not_said_again_at_any_length(refnb, command):
    said = refnb(command % ("x" * 5000))
    assert said.status and len(said.err.strip()) <= 300 and "\n" not in said.err.strip()


# Lists


def test_lists_are_the_same_for_people_and_machines(refnb, answer):
    lists = answer("list")
    assert set(lists) == set(listing.LISTS) and all(lists.values())
    tables = lists["tables"]
    assert tables == answer("list tables")["tables"]
    assert sum("/own_" not in t["table"] for t in tables) == 38
    lines = refnb("list tables").out.splitlines()  # tab-separated, for it is not a terminal
    assert len(lines) == 1 + len(tables) and len({line.count("\t") for line in lines}) == 1


@pytest.mark.parametrize("name", ["tables", "systems", "corpora", "upstream", "benchmarks"])
def test_a_name_is_never_cut_on_a_narrow_terminal(answer, monkeypatch, name):
    class Terminal(io.StringIO):
        isatty = lambda self: True

    names = {next(iter(row.values())) for row in answer(f"list {name}")[name]}
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    assert cli.main(["list", name]) == 0
    lines = out.getvalue().splitlines()
    assert names <= {line.split("  ")[0] for line in lines}
    assert max(len(line) for line in lines if line[:1] == " ") <= 80


# Streams and start-up


def with_output(home, call, stdout, **variables: str) -> subprocess.CompletedProcess:
    "Score hostile texts, or do something else, with another standard output."
    write_files(home)
    program = [sys.executable, "-c", "from refnb.commands.cli import run; run()", *call]
    streams = dict(stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)
    env = tools.clean(home, **variables)
    return subprocess.run(program, cwd=home, env=env, timeout=tools.HANG, **streams)


def test_standard_output_without_the_letters_takes_any_text(home, capsys):
    "And for a machine each text is as it was."
    done = with_output(home, SCORE, subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stderr == b""
    assert rb"\u738b \U0001f98a" in done.stdout
    said = tools.here(capsys, *SCORE, "--json")
    assert said.out.isascii() and set(json.loads(said.out)["groups"]) == {"all", *HOSTILE}


def test_a_reader_that_goes_away_is_no_error(home):
    "As with `| head -1`: the work is done."
    read, write = os.pipe()
    os.close(read)
    try:
        done = with_output(home, ("list", "upstream"), write)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_behind_standard_output_is_one_line(home):
    with open("/dev/full", "w") as full:
        done = with_output(home, ("list", "upstream"), full)
    assert done.returncode == 1 and b"no space left on device" in done.stderr
    assert done.stderr.count(b"\n") == 1


HEAVY = "torch transformers pandas scipy matplotlib seaborn papermill nbclient nbdev ray openai"
START = f"""
import json, sys
import refnb
from refnb.commands.cli import main
heavy = lambda: [m for m in {HEAVY.split()} if m in sys.modules]
at_import = heavy()
main(['reproduce', '--help'])
main(['doctor', '--json'])
print(json.dumps([at_import, heavy()]))"""


def test_nothing_heavy_is_loaded_at_the_start(home):
    "Neither by `import refnb` nor by help, nor to see what is installed."
    said = tools.ended(tools.start(home, code=START))
    assert said.status == 0 and json.loads(said.out.splitlines()[-1]) == [[], []], said


def test_public_names_load():
    from importlib.metadata import entry_points

    assert all(getattr(root, name) is not None for name in root.__all__)
    assert set(root.__all__) <= set(dir(root))
    with pytest.raises(AttributeError, match="scroe"):
        getattr(root, "scroe")  # noqa: B009
    (point,) = entry_points(group="console_scripts", name="refnb")
    assert point.load() is cli.run and re.fullmatch(r"\d+\.\d+\.\d+\S*", root.__version__)


def test_every_file_tells_the_same_version():
    told = [
        re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1],
        json.loads((ROOT / "codemeta.json").read_text())["version"],
        re.search(r"^## (\S+) \(\d{4}-", (ROOT / "CHANGELOG.md").read_text(), re.M)[1],
    ]
    assert set(told) == {root.__version__}, told
