"The command line: help, wrong calls, failing work, output for machines, closed pipes, and what is loaded at its start."

import json, os, re, subprocess, sys
import pandas, pytest, typer
import refnb.commands.cli as cli
import refnb.commands.listing as listing
from refnb.benchmarks.tasks import as_task
from refnb.core.files import CANARY, read_jsonl, write_jsonl
from refnb.core.types import Answer, Option, Question
import refnb as root
import tools
from payloads import HOSTILE, SCORE, write_files


@pytest.fixture
def home(tmp_path, monkeypatch):
    for k in set(os.environ) - set(tools.clean(tmp_path)):
        monkeypatch.delenv(k)
    for k, v in tools.clean(tmp_path).items():
        monkeypatch.setenv(k, v)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refnb(home, capsys):
    "Run a command in this process."
    return lambda *args: tools.here(capsys, *args)


COMMANDS = [
    ["list"],
    ["fetch"],
    ["build"],
    ["build", "filter"],
    ["report"],
    ["run"],
    ["export"],
    ["reproduce"],
    ["score"],
    ["score", "choice"],
    ["compare"],
]


def words(text: str) -> str:
    return " ".join(text.split())


# Help


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(refnb, command, flag):
    said = refnb(*command, flag)
    assert said.status == 0 and said.err == "" and f"refnb {' '.join(command)}" in said.out


def commands(group, *path):
    for name, command in group.commands.items():
        yield from (
            commands(command, *path, name)
            if hasattr(command, "commands")
            else [((*path, name), command)]
        )


PROGRAM_COMMANDS = dict(commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("path", PROGRAM_COMMANDS, ids=" ".join)
def test_help_describes_each_parameter(refnb, path):
    command, said = PROGRAM_COMMANDS[path], words(refnb(*path, "--help").out)
    assert words(command.help) in said
    for p in command.params:
        assert p.name == "help" or p.help and words(p.help) in said


def test_without_arguments_it_helps(refnb):
    said = refnb()
    assert said.status == 0 and said.err == "" and said.out == refnb("--help").out
    assert all(c[0] in said.out for c in COMMANDS)


def test_version(refnb):
    assert refnb("--version") == (0, f"refnb {root.__version__}\n", "")


# Wrong calls: status 2, one line, nothing on standard output

WRONG = {
    "build": "Missing command; see refnb build --help",
    "build identifym": "No such command 'identifym'; did you mean identifyme?",
    "build identifyme --corpus litbnk": "unknown corpus 'litbnk'; did you mean litbank?",
    "build identifyme --mode paperr": "unknown mode 'paperr'; did you mean paper?",
    "build identifyme --names atuo": "unknown way of naming 'atuo'; did you mean auto?",
    "build identifyme --names authors": "say --corpus litbank",
    "build identifyme --split tets": "unknown split 'tets'; did you mean test?",
    "build identifyme -p windwo=3": "--set: unknown rule 'windwo'; did you mean window?",
    "build identifyme -p window=wide": "window cannot be 'wide'",
    "build identifyme -p window=0": "the rule window is 0, the least is 1",
    "build identifyme --sizes 1,1,1": "No such option: --sizes",
    "build kitmus --corpus sample": "No such option: --corpus",
    "build kitmus": "--out: no folder is named",
    "run sample/identifyme": "Missing argument",
    "run sample/identifyem random": "neither a task nor a file; did you mean sample/identifyme?",
    "run sample/identifyme raondm": "unknown system 'raondm'; did you mean random?",
    "run sample/identifyme random --limit -1": "limit: a limit of -1 questions",
    "run sample/identifyme random --by tpye": "unknown field 'tpye'; did you mean type?",
    "run sample/bookcoref random": "random: answers questions, sample/bookcoref has documents",
    "export": "Missing argument",
    "export sample/kitmus": "--to: no tool is named; say inspect, documents or gap",
    "export sample/kitmus --to helm": "--to: unknown tool 'helm'; say inspect, documents or gap",
    "export sample/kitmus --to inspect": "--out: no folder is named; say --out FOLDER",
    "export sample/kitmuss --to inspect --out x": "neither a task nor a file; did you mean sample/kitmus?",
    "export sample/kitmus --to inspect --out x --form kitmus/name": "unknown prompt form 'kitmus/name'; did you mean kitmus/names?",
    "export sample/kitmus --to inspect --out x --order backward": "unknown order 'backward'",
    "export sample/kitmus --to inspect --out x --system random": "unknown language model 'random'",
    "export sample/kitmus --to inspect --out x -p choise=1": "a language model has no setting 'choise'",
    "lst": "No such command 'lst'; did you mean list?",
    "sore": "No such command 'sore'; did you mean score?",
    "score choise x": "No such command 'choise'; did you mean choice?",
    "score": "Missing command; see refnb score --help",
    "score choice": "Missing argument",
    "reproduce --jbos 3": "No such option: --jbos",
    "list --jsn": "--json",
    "--verson": "--version",
    "reproduce --jobs": "--jobs",
    "reproduce --jobs x": "--jobs",
    "reproduce --jobs 1.5": "--jobs",
    "list tabels": "unknown list 'tabels'; did you mean tables?",
    "list tables systems": "unexpected extra argument",
    "fetch litbnk": "unknown upstream name 'litbnk'; did you mean litbank?",
    "fetch identifyme-answers litbnk": "unknown upstream name 'litbnk'; did you mean litbank?",
    "reproduce identifyem": "unknown paper 'identifyem'; did you mean identifyme?",
    "reproduce identifyme/table_3_main_result": "unknown table 'identifyme/table_3_main_result'; did you mean identifyme/table_3_main_results?",
    "reproduce identifyme/3": "unknown table 'identifyme/3'",
    "reproduce table_3": "unknown paper 'table_3'",
    "reproduce identifyme/table_3 -p sytems=[]": "unknown parameter 'sytems'; did you mean systems?",
    "reproduce altentities/table_6 -p seed=x": "seed: 'x' is not of type int",
    "reproduce altentities/table_6 -p seed=1.0": "seed: '1.0' is not of type int",
    "reproduce identifyme/table_3 -p systems=random": """systems: 'random' is not of type list; write it as ["a", "b"]""",
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
def test_a_wrong_call(refnb, call):
    said = refnb(*call.split())
    tools.one_line(said, 2, WRONG[call])
    assert said.out == ""


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
        (
            "[refnb]\njbos = 3\n",
            "settings.ini, [refnb]: unknown setting 'jbos'; did you mean jobs?",
        ),
        ("[refnb]\njobs = many\n", "settings.ini, jobs: 'many' is not a whole number"),
        ("[refnb]\njobs = 1\njobs = 2\n", "settings.ini"),
        ("[refnb]\nno sense\n", "settings.ini"),
    ],
)
def test_a_wrong_setting(refnb, home, text, said):
    (home / "settings.ini").write_text(text)
    tools.one_line(refnb("list"), 2, said)


def test_an_unknown_name_has_the_same_line_in_a_process_of_its_own(home):
    said = tools.refnb(home, "list", "tabels")
    assert said == (2, "", "refnb: unknown list 'tabels'; did you mean tables?\n")


# Failing work: status 1

FAILING = {
    "view nothing": "is not a run: it has no run.json",
    "score choice .": "is not a run: it has no run.json",
}


@pytest.mark.parametrize("call", FAILING)
def test_failing_work(refnb, call):
    said = refnb(*call.split())
    tools.one_line(said, 1, FAILING[call])
    assert said.out == ""


def test_what_cannot_be_fetched(refnb):
    said = refnb("fetch", "identifyme-answers")
    lines = said.err.splitlines()
    assert (
        said.status == 1
        and all(l.startswith("refnb: ") for l in lines)
        and lines[-1] == "refnb: 5 of 5 files could not be downloaded; see above"
    )
    assert (
        all(
            "is not here, and downloads are off; set REFNB_OFFLINE=false, or name a local copy with REFNB_UPSTREAM"
            in l
            for l in lines[:-1]
        )
        and len(lines) == 6
    )


def test_a_notebook_that_fails(home):
    tools.install(home / "tables", tools.A, tools.table(tools.A, "1/0"))
    said = tools.refnb(home, "reproduce", "--json", tables=home / "tables")
    assert said.status == 1 and json.loads(said.out)["steps"][0]["state"] == "failed"
    assert (
        said.err.splitlines()[-1]
        == f"refnb: 1 of 1 tables failed, the first is {tools.A}: cell 1 (1/0): ZeroDivisionError: division by zero"
    )


@pytest.mark.parametrize("call", ["list tabels", "score choice ."])
def test_debug_shows_the_traceback(home, call):
    for args in (["--debug", *call.split()], [*call.split(), "--debug"]):
        said = tools.refnb(home, *args)
        assert (
            said.status == 1
            and "Traceback" in said.err.splitlines()[0]
            and "Error: " in said.err.splitlines()[-1]
            and said.out == ""
        )


def test_an_unexpected_error_is_one_line_too(refnb, monkeypatch):
    def broken(s):
        raise RuntimeError("no\nsuch\nthing")

    monkeypatch.setitem(listing.LISTS, "tables", broken)
    assert (
        tools.one_line(refnb("list", "tables"), 1)
        == "refnb: unexpected RuntimeError: no such thing; --debug shows where"
    )


# For machines


def one_object(said: tools.Said) -> dict:
    assert said.status == 0, said
    got = json.loads(said.out)  # the whole of it
    assert isinstance(got, dict)
    return got


@pytest.mark.parametrize("what", ["", *listing.LISTS])
def test_list_as_json(refnb, what):
    got = one_object(refnb("list", *([what] if what else []), "--json"))
    assert set(got) == ({what} if what else set(listing.LISTS)) and all(got.values())


def test_list_tables(refnb):
    got = one_object(refnb("list", "tables", "--json"))["tables"]
    assert sum("/own_" not in t["table"] for t in got) == 38 and {
        "table",
        "kind",
        "state",
        "printed",
        "match",
        "differ",
        "unexplained",
        "missing",
        "report",
        "made from",
        "cost",
    } == set(got[0])
    assert all(
        t["printed"] == t["match"] + t["differ"] + t["missing"]
        and t["state"] in ("complete", "partial", "empty", "nothing printed")
        for t in got
    )


def test_lists_are_tab_separated_elsewhere_than_on_a_terminal(refnb):
    lines = refnb("list", "tables").out.splitlines()
    from refnb.results.printed import own_names, table_names

    assert len(lines) == 1 + len(table_names()) + len(own_names()) and {
        l.count("\t") for l in lines
    } == {10}


def test_fetch_check_as_json(refnb):
    said = refnb("fetch", "--check", "--json", "identifyme-answers")
    assert one_object(said) == {"files": 5, "failed": []}
    assert "identifyme-answers: 5 files, 0 here, 4.7 MB to download" in said.err


def test_fetch_check_finds_a_wrong_file(refnb, home):
    from refnb.core.upstream import files_of

    path = home / "cache/upstream" / files_of("identifyme-answers")[0].place
    path.parent.mkdir(parents=True)
    path.write_bytes(b"wrong")
    said = refnb("fetch", "--check", "--json", "identifyme-answers")
    assert (
        said.status == 1
        and len(json.loads(said.out)["failed"]) == 1
        and said.err.splitlines()[-1] == "refnb: 1 of 5 files could not be verified; see above"
    )


def test_reproduce_as_json(home):
    tools.install(home / "tables", tools.A, tools.table(tools.A, "print('noise')"))
    said = tools.refnb(home, "reproduce", "--json", tables=home / "tables")
    got = one_object(said)
    assert [(x["name"], x["state"]) for x in got["steps"]] == [(tools.A, "new")]
    assert "38 tables" in got["summary"]
    assert "made" in said.err


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


@pytest.fixture
def files(home):
    write_jsonl(home / "questions.jsonl", QUESTIONS, canary=True)
    write_jsonl(home / "answers.jsonl", reversed(ANSWERS))
    return home


def test_score_of_a_file(refnb, files):
    got = one_object(
        refnb(
            "score",
            "choice",
            "answers.jsonl",
            "--gold",
            "questions.jsonl",
            "--by",
            "type",
            "--json",
        )
    )
    assert (got["unit"], got["mode"], got["by"], got["questions"]) == (
        "fraction",
        "strict",
        "type",
        9,
    )
    assert {
        g: (v["accuracy"], v["n"], v["documents"], v["missing"], v["without_choice"])
        for g, v in got["groups"].items()
    } == {"all": (5 / 9, 9, 3, 0, 0), "even": (1, 5, 3, 0, 0), "odd": (0, 4, 3, 0, 0)}
    assert got["groups"]["all"]["low"] <= 5 / 9 <= got["groups"]["all"]["high"]


def test_score_by_two_fields(refnb, files):
    got = one_object(
        refnb(
            "score",
            "choice",
            "answers.jsonl",
            "--gold",
            "questions.jsonl",
            "--by",
            "type, doc_key",
            "--json",
        )
    )
    assert set(got["groups"]) == {
        "all",
        *(f"{t} / d{i}" for t in ("even", "odd") for i in range(3)),
    }


def test_score_as_a_table(refnb, files):
    lines = refnb("score", "choice", "answers.jsonl", "--gold", "questions.jsonl").out.splitlines()
    assert lines[0].split("\t") == [
        "group",
        "accuracy (%)",
        "low",
        "high",
        "n",
        "documents",
        "missing",
        "without_choice",
    ]
    assert lines[1].split("\t")[:2] == ["all", "55.6"] and len(lines) == 2


def test_score_counts_missing_answers(refnb, files):
    write_jsonl(
        files / "answers.jsonl",
        [
            *ANSWERS[:3],
            Answer(QUESTIONS[3].id, reason="refused"),
            Answer(QUESTIONS[4].id, reason="failed"),
        ],
    )
    strict, released = (
        one_object(
            refnb(
                "score",
                "choice",
                "answers.jsonl",
                "--gold",
                "questions.jsonl",
                "--json",
                "--mode",
                m,
            )
        )["groups"]["all"]
        for m in ("strict", "released")
    )
    assert (strict["accuracy"], strict["n"], strict["missing"], strict["without_choice"]) == (
        2 / 9,
        9,
        4,
        2,
    )
    assert (released["accuracy"], released["n"]) == (2 / 4, 4)


def test_score_of_nothing_is_null_not_nan(refnb, files):
    write_jsonl(files / "answers.jsonl", [])
    got = one_object(
        refnb(
            "score",
            "choice",
            "answers.jsonl",
            "--gold",
            "questions.jsonl",
            "--json",
            "--mode",
            "released",
        )
    )
    assert got["groups"]["all"]["accuracy"] is None and got["groups"]["all"]["n"] == 0


# build and run


@pytest.mark.parametrize("kind", ["identifyme", "filter"])
def test_other_tools_read_each_question_of_a_built_file(refnb, home, kind):
    "One row a question, with the canary in it; a file of 0.2, with the canary in its first line, is the same."
    built = one_object(refnb("build", kind, "--out", "q.jsonl", "--json"))
    rows = pandas.read_json(home / "q.jsonl", lines=True)
    assert len(rows) == built["questions"] and rows.id.notna().all() and rows.id.is_unique
    assert set(rows.canary) == {CANARY["canary"]}
    questions = list(read_jsonl(home / "q.jsonl", Question))
    assert [q.id for q in questions] == list(rows.id)
    write_jsonl(home / "old.jsonl", [CANARY, *questions])
    sorted_keys = rows[sorted(rows)].to_json(orient="records", lines=True)
    (home / "sorted.jsonl").write_text(sorted_keys)  # here, too, the canary is first
    for name in ("old", "sorted"):
        assert list(read_jsonl(home / f"{name}.jsonl", Question)) == questions
        assert as_task(home / f"{name}.jsonl").name == as_task(home / "q.jsonl").name


def test_build_and_run(refnb, home):
    got = one_object(refnb("build", "identifyme", "--out", "q.jsonl", "--json"))
    assert (
        got["stories"] == 6
        and got["rejected"] == {}
        and CANARY["canary"] in (home / "q.jsonl").read_text()
    )
    lines = (home / "q.jsonl").read_text().splitlines()
    assert got["questions"] == len(lines) == sum(r["test"] for r in got["pool"])
    told = one_object(refnb("run", "q.jsonl", "most-frequent", "--by", "type", "--json"))
    assert (
        told["sealed"]
        and told["part"].startswith("given/")
        and set(told["groups"]) == {"all", "nominal", "pronominal"}
        and told["groups"]["all"]["n"] == got["questions"]
    )
    assert (
        one_object(refnb("score", "choice", told["run"], "--json"))["groups"]["all"]
        == told["groups"]["all"]
    )  # the questions are kept with the run


def test_build_from_a_file(refnb, home):
    from refnb.core.corpora import load
    from refnb.core.reading import write_documents

    write_documents(home / "mine.conllu", [d.changed(names=(), labels={}) for d in load("sample")])
    said = refnb(
        "build",
        "identifyme",
        "--corpus",
        "mine.conllu",
        "--split",
        "dev",
        "-p",
        "options=4",
        "-p",
        "context=60",
        "--out",
        "mine.jsonl",
    )
    assert said.status == 0 and "mine" in said.out and "questions in mine.jsonl" in said.out
    assert all(
        len(json.loads(l)["options"]) <= 5
        for l in (home / "mine.jsonl").read_text().splitlines()[1:]
    )


def test_a_limited_run_goes_on(refnb, home):
    first = one_object(refnb("run", "sample/ferryman", "random", "--limit", "5", "--json"))
    assert (first["sealed"], first["answered"]) == (False, 5)
    assert one_object(refnb("run", "sample/ferryman", "random", "--json"))["run"] == first["run"]
    tools.one_line(
        refnb("run", "sample/ferryman", "nearest-mention"),
        1,
        "nearest-mention: needs the field 'nearest_mention'",
    )


def test_build_that_finds_nothing(refnb, home):
    (home / "one.conll").write_text(
        "#begin document (one); part 000\none\t0\t0\tAnn\t-\t-\t-\t-\t-\t-\t-\t(0)\n\n#end document\n"
    )
    tools.one_line(
        refnb("build", "identifyme", "--corpus", "one.conll"),
        1,
        "none of the 1 documents can be used: 1 tokens, fewer than 1,000; loosen the rules",
    )


def test_score_of_a_run(refnb, home):
    from refnb.core.settings import load_settings
    from refnb.benchmarks.tasks import task_questions
    from refnb.models.running import run

    run = run("sample/identifyme", "random", s=load_settings())
    by_folder, by_name = (
        one_object(refnb("score", "choice", x, "--json"))
        for x in (run.folder, "sample/identifyme:random")
    )
    assert by_folder == by_name and by_name["questions"] == len(task_questions("sample/identifyme"))


def test_score_of_a_carried_run(refnb):
    got = one_object(
        refnb(
            "score",
            "choice",
            "identifyme/test:published/gemini-1.5-flash",
            "--json",
            "--mode",
            "released",
        )
    )
    assert (f"{100 * got['groups']['all']['accuracy']:.2f}", got["groups"]["all"]["n"]) == (
        "73.85",
        1197,
    )


def test_score_of_a_run_that_is_not_here(refnb):
    tools.one_line(
        refnb("score", "choice", "sample/identifyme/sample7:random"),
        1,
        "there is no complete run of random on sample/identifyme/sample7",
    )


def test_score_needs_gold(refnb, files):
    tools.one_line(
        refnb("score", "choice", "answers.jsonl"),
        2,
        "answers.jsonl: answers alone cannot be scored; name the questions with --gold FILE",
    )


def test_score_with_gold_that_is_not_there(refnb, files):
    tools.one_line(
        refnb("score", "choice", "answers.jsonl", "--gold", "gone.jsonl"),
        1,
        "gone.jsonl: no such file",
    )


GOOD = '{"id":"d0:0","chosen":[0]}'
BROKEN = {
    "torn": ('{"id":"d1:1","chosen":[0', "answers.jsonl, line 2"),
    "not_json": ("hello", "answers.jsonl, line 2"),
    "a_list": ("[1]", "answers.jsonl, line 2"),
    "another_field": ('{"id":"d1:1","chosen":[0],"choosen":1}', "answers.jsonl, line 2"),
    "no_id": ('{"chosen":[0]}', "answers.jsonl, line 2"),
    "a_name_instead_of_an_index": ('{"id":"d1:1","chosen":["a"]}', "answers.jsonl, line 2"),
    "negative": ('{"id":"d1:1","chosen":[-1]}', "answers.jsonl, line 2"),
    "chosen_and_a_reason": (
        '{"id":"d1:1","chosen":[0],"reason":"refused"}',
        "answers.jsonl, line 2",
    ),
    "an_unknown_reason": ('{"id":"d1:1","reason":"tired"}', "answers.jsonl, line 2"),
    "nan": ('{"id":"d1:1","scores":[NaN,1,2]}', "answers.jsonl, line 2"),
    "not_utf8": ('{"id":"d1:\udcff","chosen":[0]}', "answers.jsonl, line 2"),
    "unknown_id": ('{"id":"d9:1","chosen":[0]}', "1 answers belong to no question, one is d9:1"),
    "doubled_id": (GOOD, "answers.jsonl: the id d0:0 appears twice"),
    "an_option_that_is_not_there": ('{"id":"d1:1","chosen":[3]}', "d1:1"),
    "too_few_scores": ('{"id":"d1:1","scores":[1,2]}', "d1:1"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_answers(refnb, files, fault):
    line, said = BROKEN[fault]
    (files / "answers.jsonl").write_bytes(f"{GOOD}\n{line}\n".encode("utf-8", "surrogateescape"))
    got = refnb("score", "choice", "answers.jsonl", "--gold", "questions.jsonl", "--json")
    tools.one_line(got, 1, said)
    assert got.out == ""


def test_broken_questions(refnb, files):
    (files / "questions.jsonl").write_text(
        '{"id":"d0:0","doc_key":"d","options":[{"name":"a"}],"right":[1]}\n'
    )
    tools.one_line(
        refnb("score", "choice", "answers.jsonl", "--gold", "questions.jsonl"),
        1,
        "questions.jsonl, line 1",
        "field right: [1] is outside the 1 options",
    )


def test_doubled_questions(refnb, files):
    write_jsonl(files / "questions.jsonl", [*QUESTIONS, QUESTIONS[0]])
    tools.one_line(
        refnb("score", "choice", "answers.jsonl", "--gold", "questions.jsonl"), 1, "d0:0", "twice"
    )


# Pipes and start-up


@pytest.mark.parametrize(
    "call",
    [
        "list upstream",
        "list --json",
        "--help",
        "--version",
        "score choice identifyme/test:random --by doc_key",
    ],
)
def test_a_closed_pipe_is_no_error(home, call):
    "As with `| head -1`."
    read, write = os.pipe()
    os.close(read)
    try:
        p = subprocess.run(
            [sys.executable, "-c", "from refnb.commands.cli import run; run()", *call.split()],
            cwd=home,
            env=tools.clean(home),
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=tools.HANG,
        )
    finally:
        os.close(write)
    assert p.stderr == "" and p.returncode in (0, 1)


PROGRAM = [sys.executable, "-c", "from refnb.commands.cli import run; run()"]


def with_output(home, call, stdout, **how) -> subprocess.CompletedProcess:
    "Score hostile texts, or do something else, with another standard output."
    write_files(home)
    variables = how.pop("variables", {})
    return subprocess.run(
        [*PROGRAM, *call],
        cwd=home,
        env=tools.clean(home, **variables),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        timeout=tools.HANG,
        **how,
    )


@pytest.mark.parametrize("call", [SCORE, ("view",)], ids=["score", "wrong"])
@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_f73_closed_streams_change_no_status(home, call, closed):
    got = with_output(home, call, None, preexec_fn=lambda: [os.close(fd) for fd in closed])
    assert got.returncode == (2 if call == ("view",) else 0)


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_f73_standard_output_without_the_letters(home, variables):
    text, object_ = (
        with_output(home, call, subprocess.PIPE, stderr=subprocess.PIPE, variables=variables)
        for call in (SCORE, (*SCORE, "--json"))
    )
    assert text.returncode == object_.returncode == 0 and text.stderr == object_.stderr == b""
    assert rb"\u738b \U0001f98a" in text.stdout and set(json.loads(object_.stdout)["groups"]) == {
        "all",
        *HOSTILE,
    }


@pytest.mark.parametrize("call", [SCORE, (*SCORE, "--json")], ids=["score", "json"])
def test_f73_nobody_listens(home, call):
    read, write = os.pipe()
    os.close(read)
    try:
        got = with_output(home, call, write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert (got.returncode, got.stderr) == (0, b""), (
        "what reads only the beginning is no error, and the work is done"
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_f73_a_full_disk_behind_standard_output_is_one_line(home):
    with open("/dev/full", "w") as full:
        got = with_output(home, SCORE, full, stderr=subprocess.PIPE, text=True)
    assert got.returncode == 1 and got.stderr == "refnb: the system: no space left on device\n"


HEAVY = [
    "torch",
    "transformers",
    "pandas",
    "scipy",
    "matplotlib",
    "seaborn",
    "papermill",
    "nbclient",
    "nbdev",
    "ray",
    "openai",
    "huggingface_hub",
]
LOADED = f"\nimport sys; print([m for m in {HEAVY} if m in sys.modules])"


@pytest.mark.parametrize(
    "code",
    [
        "import refnb",
        "import refnb.commands.cli",
        "from refnb.commands.cli import main; main(['--help'])",
        "from refnb.commands.cli import main; main(['--version'])",
        "from refnb.commands.cli import main; main(['reproduce', '--help'])",
    ],
)
def test_nothing_heavy_is_loaded_at_the_start(home, code):
    said = tools.ended(tools.start(home, code=code + LOADED))
    assert said.status == 0 and said.out.endswith("[]\n"), said


def test_public_names_load():
    for name in root.__all__:
        assert getattr(root, name) is not None
    assert set(root.__all__) <= set(dir(root))


def test_a_name_that_is_not_public():
    with pytest.raises(AttributeError, match="module 'refnb' has no attribute 'scroe'"):
        getattr(root, "scroe")  # noqa: B009


def test_the_installed_command_is_this_one(home):
    from importlib.metadata import entry_points

    (point,) = entry_points(group="console_scripts", name="refnb")
    assert point.load() is cli.run
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", root.__version__)


def test_f72_a_long_error_is_cut():
    from refnb.core.types import DataError

    said = str(DataError("x" * 5000, "FILE, line 3", "fix it"))
    assert said.startswith("FILE, line 3: xxx") and said.endswith("…; fix it") and len(said) <= 300


@pytest.mark.parametrize(
    "setting",
    [
        "max_tokens=-5",
        "max_tokens=0",
        "max_tokens=99999999",
        "temperature=-1",
        "temperature=.nan",
        "top_p=2",
    ],
)
def test_f75_a_setting_that_cannot_be(capsys, setting):
    said = tools.here(
        capsys, "run", "sample/identifyme", "gpt-4o-mini", "--dry-run", "-p", f"decoding.{setting}"
    )
    tools.one_line(said, 2, setting.partition("=")[0])


def test_f79_a_field_that_no_question_has_is_found_before_anything_is_asked(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    tools.one_line(
        tools.here(capsys, "run", "sample/identifyme", "random", "--by", "tpye"),
        2,
        "unknown field 'tpye'; did you mean type?",
    )
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_limit_ends_with_the_score_so_far(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = tools.here(capsys, "run", "sample/identifyme", "nearest-mention", "--limit", 5)
    assert said.status == 0 and "5 of 338 answered" in said.out and "\nall" in said.out
    told = json.loads(
        tools.here(
            capsys, "run", "sample/identifyme", "nearest-mention", "--limit", 5, "--json"
        ).out
    )
    assert (told["answered"], told["sealed"], told["groups"]["all"]["n"]) == (5, False, 5)
