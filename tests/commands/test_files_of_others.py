"Questions and answers in files: what is built, written by others, or broken."

import json
import pandas, pytest
import tools
from refnb.benchmarks.given.tasks import as_task
from refnb.core.corpora import load
from refnb.core.files import CANARY, read_jsonl, write_jsonl
from refnb.core.reading import write_documents
from refnb.core.settings import packaged
from refnb.core.types import NONE, Answer, Option, Question


@pytest.fixture
def home(tmp_path, monkeypatch):
    tools.live_in(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture
def refnb(home, capsys):
    "Run a command in this process."
    return lambda call: tools.here(capsys, *call.split())


@pytest.fixture
def answer(refnb):
    "What a command says with --json."

    def run(call: str) -> dict:
        said = refnb(f"{call} --json")
        assert said.status == 0, said
        return json.loads(said.out)

    return run


# A file of answers

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


def test_a_file_of_answers_is_scored_by_groups(refnb, answer, files):
    got = answer(f"{OF_A_FILE} --by type")
    about = {"unit": "fraction", "mode": "strict", "by": "type", "questions": 9}
    assert about.items() <= got.items()
    fields = ("accuracy", "n", "documents", "missing", "without_choice")
    groups = {g: tuple(v[f] for f in fields) for g, v in got["groups"].items()}
    assert groups == {"all": (5 / 9, 9, 3, 0, 0), "even": (1, 5, 3, 0, 0), "odd": (0, 4, 3, 0, 0)}
    assert got["groups"]["all"]["low"] <= 5 / 9 <= got["groups"]["all"]["high"]
    both = set(answer(f"{OF_A_FILE} --by type,doc_key")["groups"]) - {"all"}
    assert both == {f"{t} / d{i}" for t in ("even", "odd") for i in range(3)}
    heads, line = (x.split("\t") for x in refnb(OF_A_FILE).out.splitlines())
    assert heads == ["group", "accuracy (%)", "low", "high", *fields[1:]]
    assert line[:2] == ["all", "55.6"]


def test_missing_answers_count_as_wrong_where_the_mode_is_strict(answer, files):
    lost = [Answer(QUESTIONS[3].id, reason="refused"), Answer(QUESTIONS[4].id, reason="failed")]
    write_jsonl(files / "answers.jsonl", [*ANSWERS[:3], *lost])
    modes = [answer(f"{OF_A_FILE} --mode {m}")["groups"]["all"] for m in ("strict", "released")]
    counts = [modes[0][k] for k in ("accuracy", "n", "missing", "without_choice")]
    assert counts == [2 / 9, 9, 4, 2]
    assert (modes[1]["accuracy"], modes[1]["n"]) == (2 / 4, 4)
    write_jsonl(files / "answers.jsonl", [])  # of nothing: null, not NaN
    nothing = answer(f"{OF_A_FILE} --mode released")["groups"]["all"]
    assert nothing["accuracy"] is None and nothing["n"] == 0


def test_published_answers_have_the_published_score(answer):
    got = answer("score choice identifyme/test:published/gemini-1.5-flash --mode released")
    every = got["groups"]["all"]
    assert (f"{100 * every['accuracy']:.2f}", every["n"]) == ("73.85", 1197)


def test_answers_alone_need_their_questions(refnb, files):
    tools.one_line(refnb("score choice answers.jsonl"), 2, "answers.jsonl", "--gold")
    tools.one_line(refnb("score choice answers.jsonl --gold gone.jsonl"), 2, "gone.jsonl")


LINE_2 = "answers.jsonl, line 2"
BROKEN = {  # a line of answers -> what is named
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
    '{"id":"d9:1","chosen":[0]}': "d9:1",
    '{"id":"d0:0","chosen":[0]}': "twice",
    '{"id":"d1:1","chosen":[3]}': "d1:1",
    '{"id":"d1:1","scores":[1,2]}': "d1:1",
}


@pytest.mark.parametrize("line", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_line_of_answers_is_refused_and_not_scored(refnb, files, line):
    text = f'{{"id":"d0:0","chosen":[0]}}\n{line}\n'.encode("utf-8", "surrogateescape")
    (files / "answers.jsonl").write_bytes(text)
    said = refnb(f"{OF_A_FILE} --json")
    tools.one_line(said, 1, BROKEN[line])
    assert said.out == ""


def test_broken_questions_are_refused(refnb, files):
    write_jsonl(files / "questions.jsonl", [*QUESTIONS, QUESTIONS[0]])
    tools.one_line(refnb(OF_A_FILE), 1, "d0:0", "twice")
    line = '{"id":"d0:0","doc_key":"d","options":[{"name":"a"}],"right":[1]}\n'
    (files / "questions.jsonl").write_text(line)
    tools.one_line(refnb(OF_A_FILE), 1, "questions.jsonl, line 1", "right")


# Other forms of answers


@pytest.fixture
def asked(home):
    "Four questions, in a file."
    options = (Option("Ann"), Option("Bea, Jr."), Option(NONE))
    some = [Question(f"q:{i}", f"d{i}", "She ran.", (0, 3), options, (1,)) for i in range(4)]
    write_jsonl(home / "q.jsonl", some, canary=True)
    return home


def test_answers_in_csv_are_names_letters_or_numbers(answer, asked):
    lines = b'Note,ID, Answer\r\n,q:0,"bea, jr."\r\n,q:1,b\r\n,q:2,0\r\n,q:3,\r\n'
    (asked / "a.csv").write_bytes(b"\xef\xbb\xbf" + lines)
    got = answer("score choice a.csv --gold q.jsonl")["groups"]["all"]
    assert (got["accuracy"], got["n"], got["missing"]) == (0.5, 4, 1)


WRONG_CSV = {
    "id,answer\nq:0,Cleo\n": "line 2: 'Cleo'",
    "id,answer\nq:0,D\n": "'D'",
    "id,answer\nq:0,-1\n": "'-1'",
    "id,answer\nx,A\n": "line 2: 'x'",
    "id,answer\nq:0,A\nq:0,A\n": "line 3: 'q:0'",
    "id,text\nq:0,A\n": "answer",
    "id,answer,Answer\nq:0,A,A\n": "answer",
    "id,answer\nq:0,A,B\n": "3 columns",
    "q:0,A\n": "id",
}


@pytest.mark.parametrize("text", WRONG_CSV)
def test_csv_is_read_strictly(refnb, asked, text):
    (asked / "a.csv").write_text(text)
    tools.one_line(refnb("score choice a.csv --gold q.jsonl"), 1, "a.csv", WRONG_CSV[text])


def test_predictions_in_the_form_of_gap_are_scored(refnb, answer, asked):
    lines = ["q:0\tFALSE\tTRUE", "q:1\tTRUE\tFALSE", "q:2\tFALSE\tFALSE", "q:3\tTrue\tTrue"]
    (asked / "a.tsv").write_text("\n".join([*lines, ""]))
    assert answer("score choice a.tsv --gold q.jsonl")["groups"]["all"]["accuracy"] == 0.25
    (asked / "a.tsv").write_text("q:0\tFALSE\tTRUE\nq:1\tperhaps\tTRUE\n")
    tools.one_line(refnb("score choice a.tsv --gold q.jsonl"), 1, "a.tsv", "line 2")


# What is built is run, scored, viewed and exported


def test_a_built_file_is_read_by_other_tools_and_is_a_task(answer, home):
    "One row a question, with the canary in it, in whatever order its fields are."
    for kind in ("filter", "identifyme"):
        built = answer(f"build {kind} --out q.jsonl")
        rows = pandas.read_json(home / "q.jsonl", lines=True)
        assert len(rows) == built["questions"] and rows.id.notna().all() and rows.id.is_unique
        assert set(rows.canary) == {CANARY["canary"]}
        questions = list(read_jsonl(home / "q.jsonl", Question))
        assert [q.id for q in questions] == list(rows.id)
        (home / "sorted.jsonl").write_text(rows[sorted(rows)].to_json(orient="records", lines=True))
        assert list(read_jsonl(home / "sorted.jsonl", Question)) == questions
        assert as_task(home / "sorted.jsonl").name == as_task(home / "q.jsonl").name
    assert built["stories"] == 6 and built["rejected"] == {}
    assert built["questions"] == sum(r["test"] for r in built["pool"])
    run = answer("run q.jsonl most-frequent --by type")
    assert run["sealed"] and run["task"].startswith("given/")
    assert set(run["groups"]) == {"all", "nominal", "pronominal"}
    assert run["groups"]["all"]["n"] == built["questions"]
    for name in (run["run"], "q.jsonl:most-frequent"):  # the questions are kept with the run
        assert answer(f"score choice {name}")["groups"]["all"] == run["groups"]["all"]


def test_questions_are_built_from_any_documents(refnb, home):
    write_documents([d.changed(names=(), labels={}) for d in load("sample")], home / "mine.conllu")
    rules = "-p options=4 -p context=60"
    said = refnb(f"build identifyme --corpus mine.conllu --split dev {rules} --out mine.jsonl")
    assert said.status == 0 and "mine.jsonl" in said.out
    assert all(len(q.options) <= 5 for q in read_jsonl(home / "mine.jsonl", Question))
    line = "\t".join(["one", "0", "0", "Ann", *"-------", "(0)"])
    (home / "one.conll").write_text(f"#begin document (one); part 000\n{line}\n\n#end document\n")
    tools.one_line(refnb("build identifyme --corpus one.conll"), 1, "1 documents", "1,000")


def test_what_build_makes_every_command_takes(refnb, answer):
    rules = "-p sizes=2,2,6 -p entities=2"
    assert refnb(f"build kitmus --out kit --variants background-both {rules}").status == 0
    test, scores = "kit/background-both/subtask_2_ents/full-text/test", set()
    for end in ("jsonlines", "v4_gold_conll", "tsv"):
        also = "last-mention" if end == "tsv" else ""
        assert refnb(f"run {test}.{end} always-first {also}").status == 0
        got = answer(f"score choice {test}.{end}:always-first")
        scores.add(got["groups"]["all"]["accuracy"])
        assert refnb(f"view {test}.{end}:always-first").status == 0
    assert len(scores) == 1 and len(answer("list runs given")["runs"]) == 3
    assert refnb(f"compare {test}.tsv:always-first {test}.tsv:last-mention").status == 0
    assert "2 tasks" in refnb("report").out
    files = f"{test}.jsonlines {test}.v4_gold_conll".split()
    for gold, predicted in (files, files[::-1]):
        assert answer(f"score coref {gold} {predicted}")["conll"]["f1"] == 100


def test_a_file_of_a_release_is_a_task(refnb, answer, home):
    (home / "test.json").write_bytes(packaged("data/sample/altentities.json").read_bytes())
    got, same = (answer(f"run {t} word-overlap") for t in ("test.json", "sample/altentities"))
    assert got["groups"]["all"]["accuracy"] == same["groups"]["all"]["accuracy"]
    assert refnb("view test.json:word-overlap").status == 0
    tools.one_line(refnb("score choice test.json:raondm"), 2, "'raondm'")
    tools.one_line(refnb("score choice test.json:random"), 1, "random")


def test_clusters_of_a_program_that_names_a_mention_twice_are_told_and_exported(
    refnb, answer, home
):
    (home / "systems").mkdir()
    (home / "systems/twice.py").write_text(
        "import json, sys\nfor line in sys.stdin:\n    id = json.loads(line)['id']\n"
        "    print(json.dumps({'id': id, 'clusters': [[[0, 1], [0, 1]], [[0, 1], [3, 3]]]}))\n"
    )
    (home / "systems/twice.yaml").write_text("command: python3 twice.py\n")
    run = answer("run sample/bookcoref twice")
    assert run["doubled"] == run["documents"] == 6
    for form, begins in (("corefud", "# newdoc"), ("conll", "#begin"), ("jsonlines", '{"doc_key"')):
        out = home / f"found.{form}"
        assert refnb(f"export {run['run']} --to {form} --out {out}").status == 0
        assert out.read_text().startswith(begins)
