"The viewer: what is shown is what was asked and said, alone and beside a second run; 1,200 questions stay fluid."

# ruff: noqa: F811 (the fixtures of browser.py)

import json, random, re
import pytest
from browser import reader, port  # noqa: F401
from tools import growth
from refnb.core.files import CANARY, write_jsonl
from refnb.core.runs import Run, RunInfo, open_run, questions_id
from refnb.core.types import Answer, CallError, DataError, Option, Question, Usage
from refnb.metrics.choice import outcomes
from refnb.results.pages.viewer import ROWS, Said, exact, named_run, said, view, view_data
from refnb.results.scores import compare, score

ABC = tuple(map(Option, ("Ann", "Bea", "Cy")))


def q(k: int, **change) -> Question:
    text = f"Ann met Bea on day {k % 2}. She smiled."
    kind = {
        "type": ("nominal", "pronominal")[k % 3 == 0],
        "n": k,
        "class": None if k % 4 else "she",
    }
    start = text.index("She")
    known = dict(
        id=f"d{k % 2}:{k}",
        doc_key=f"d{k % 2}",
        text=text,
        chars=(start, start + 3),
        options=ABC,
        right=(1,),
        meta=kind,
    )
    return Question(**known | change)


SIX = [q(k) for k in range(6)]
SIX_SAID = [
    Answer("d0:0", (1,), raw="The reply: Bea.", usage=Usage(10, 2, 0.25, 1.5)),
    Answer("d1:1", (0,), usage=Usage(10, 2)),
    Answer("d0:2", scores=(2.0, 2.0, 1.0)),
    Answer("d1:3", reason="refused", raw="I can't."),
    Answer("d0:4", (0, 1)),
    Answer("d1:5", scores=(0.0, 3.0, 0.0)),
]


def answered(
    folder,
    questions=SIX,
    answers=SIX_SAID,
    system: str = "reader",
    part: str = "toy/test",
    sealed: bool = True,
    keep: bool = True,
    **info,
) -> Run:
    "A run of these answers."
    data = {"questions": questions_id(questions)}
    run = open_run(RunInfo(part, system, data, **info), folder / "runs")
    if keep:
        write_jsonl(run.questions_path, questions, canary=True)
    with run.writing() as w:
        for a in answers:
            w.add(a)
    if sealed:
        run.seal([x.id for x in questions], allow_missing=True)
    return run


@pytest.fixture
def six(tmp_path) -> Run:
    return answered(tmp_path)


def verdicts(data: dict, k: int = 0) -> list[str]:
    return [x["said"][k].verdict for x in data["questions"]]


# What is said

VERDICTS = [
    (Answer("a", (1,)), "right", 1, (1,)),
    (Answer("a", (0, 1)), "wrong", 0, (0, 1)),
    (Answer("a", scores=(1.0, 2.0, 0.0)), "right", 1, (1,)),
    (Answer("a", scores=(2.0, 2.0, 0.0)), "tie", 1 / 2, (0, 1)),
    (Answer("a", scores=(2.0, 0.0, 2.0)), "wrong", 0, (0, 2)),
    (Answer("a", scores=(0.0, 9.0, 0.0), reason="failed"), "failed", 0, ()),
    (Answer("a"), "wrong", 0, ()),
    (Answer("a", (2,), scores=(0.0, 9.0, 0.0)), "wrong", 0, (2,)),
]


@pytest.mark.parametrize("answer, verdict, credit, chosen", VERDICTS)
def test_the_verdict_is_one_word(answer, verdict, credit, chosen):
    got = said(q(0), answer, True)
    assert (got.verdict, got.credit, got.picked) == (verdict, credit, chosen)


def test_what_is_not_there_is_told_apart():
    assert said(q(0), None, True) == Said("missing", 0.0)
    assert said(q(0), None, False) == Said("open")
    neither = q(0, right=())
    asked = (Answer("a"), Answer("a", (1,)), Answer("a", reason="cut"), None)
    got = [said(neither, a, True).verdict for a in asked]
    assert got == ["right", "wrong", "cut", "missing"]


def test_what_javascript_cannot_hold_is_text():
    for value in (1, -1.5, True, None, "x", 2**53):
        assert exact(value) is value
    assert [exact(x) for x in (2**60, float("nan"), float("-inf"))] == [str(2**60), "nan", "-inf"]


def test_a_sealed_run(six):
    got = view_data(six)
    assert verdicts(got) == ["right", "wrong", "tie", "refused", "wrong", "right"]
    (r,) = got["runs"]
    assert (r["sealed"], r["questions"], r["answers"]) == (True, 6, 6)
    assert (r["usd"], r["unpriced"], r["tokens"]) == (0.25, 1, [20, 4])
    interval = score(outcomes(SIX, six.answers())).interval()
    assert r["accuracy"] == pytest.approx(list(interval), abs=1e-6)
    assert dict(r["about"])["without choice"] == "refused 1" and got["difference"] is None
    assert got["questions"][1]["values"] == ["d1", 3, "nominal", 1, None]
    fields = [(f["name"], f["kind"]) for f in got["fields"]]
    assert fields[:2] == [("document", "value"), ("options", "number")]
    assert fields[2:] == [("type", "value"), ("n", "number"), ("class", "value")]
    assert sorted(got["texts"]) == sorted({x.text for x in SIX}), "each text once"


def test_missing_answers_of_a_sealed_run_are_wrong_and_those_of_an_open_one_are_open(tmp_path):
    some = SIX_SAID[:3]
    sealed = view_data(answered(tmp_path, answers=some))
    open_ = view_data(answered(tmp_path, answers=some, system="other", sealed=False))
    assert verdicts(sealed)[3:] == ["missing"] * 3 and verdicts(open_)[3:] == ["open"] * 3
    assert [x["runs"][0]["accuracy"][0] for x in (sealed, open_)] == [1.5 / 6, 1.5 / 3]
    nothing = view(answered(tmp_path, answers=[], system="third", sealed=False))
    assert "nothing to score yet" in nothing._repr_html_() and nothing.page()


def test_the_cost_is_known_in_part_or_not_at_all(tmp_path):
    of = lambda *usd: [Answer(x.id, (0,), usage=u and Usage(usd=u[0])) for x, u in zip(SIX, usd)]
    costs = [
        (of(None, None), (None, 0)),
        (of((0.0,), (None,)), (0.0, 1)),
        (of((0.1,), (0.2,)), (0.1 + 0.2, 0)),
    ]
    for k, (answers, want) in enumerate(costs):
        r = view_data(answered(tmp_path, answers=answers, system=f"s{k}"))["runs"][0]
        assert (r["usd"], r["unpriced"]) == pytest.approx(want)


# Two runs


def test_two_runs_are_matched_by_id(tmp_path, six):
    others = [q(4, right=(0,)), q(3), q(2, id="d0:9"), q(0), q(1)]
    chosen = {"d0:0": 0, "d1:1": 1, "d1:3": 1, "d0:4": 0}
    answers = [Answer(i, (c,)) for i, c in chosen.items()]
    second = answered(tmp_path, others, answers, part="toy/other")
    got = view_data(six, other=second)
    assert (got["only"], got["unlike"]) == ([2, 1], 1)
    assert verdicts(got, 1) == ["wrong", "right", "absent", "right", "absent", "absent"]
    common = [x for x in SIX if x.id in ("d0:0", "d1:1", "d1:3")]
    ids = {x.id for x in common}
    a, b = (
        outcomes(common, {k: v for k, v in r.answers().items() if k in ids}) for r in (six, second)
    )
    assert got["difference"] == pytest.approx(list(compare(a, b).difference), abs=1e-6)
    assert [x["id"] for x in view(six, second).worth_reading()] == ["d0:0", "d1:1", "d1:3"]


def test_a_run_that_goes_on_is_compared_on_what_both_answered(tmp_path, six):
    some = [Answer("d0:0", (0,)), Answer("d1:1", (0,))]
    got = view_data(six, other=answered(tmp_path, answers=some, system="slow", sealed=False))
    assert got["difference"][0] == 1 / 2 and got["difference"][4] == 2
    none = answered(tmp_path, answers=[], system="slower", sealed=False)
    assert view_data(six, other=none)["difference"] is None


def test_runs_that_share_nothing_are_refused(tmp_path, six):
    other = answered(tmp_path, [q(8), q(0, right=(2,))], [], part="toy/other")
    with pytest.raises(DataError, match="toy/test and toy/other: the two runs have no question"):
        view_data(six, other=other)


# Runs and questions that cannot be had


def test_a_run_is_named_by_its_folder_or_its_part_and_system(tmp_path, six, settings, monkeypatch):
    s = settings(runs=str(tmp_path / "runs"))
    later = answered(tmp_path, answers=[], settings={"x": 1}, sealed=False)
    at = f"toy/test:reader@{six.folder.name[:5]}"
    for x in (six, six.folder, str(six.folder), "toy/test:reader", at):
        assert named_run(x, s).folder == six.folder.resolve()
    assert named_run(f"toy/test:reader@{later.folder.name}", s).folder == later.folder.resolve()
    monkeypatch.chdir(six.folder)
    assert view_data(".")["runs"] == view_data(six)["runs"], "from inside its folder too"
    for x, what in [
        ("toy/test:nobody", "there is no run of nobody on toy/test"),
        ("toy/test:reader@zz", "no run of reader@zz"),
        ("nowhere", "nowhere: is not a run"),
        ("x" * 5000, "is not a run"),
        ("a\0b", "is not a run"),
        ("../..:..", "there is no run"),
    ]:
        with pytest.raises(DataError, match=re.escape(what)) as e:
            named_run(x, s)
        assert "\n" not in str(e.value)


def test_questions_that_are_not_here(tmp_path, six, settings):
    s = settings(runs=str(tmp_path / "runs"))
    lost = answered(tmp_path, part="toy/lost", answers=[], keep=False)
    with pytest.raises(DataError, match="questions of toy/lost are not here; give them as"):
        view_data(lost, s=s)
    assert view_data(lost, SIX, s=s) == view_data(lost, iter(SIX), s=s)
    assert view_data(lost, six.questions_path, s=s)["questions"][5]["id"] == "d1:5"
    gone = answered(tmp_path, part="identifyme/fantasycoref/test", answers=[], keep=False)
    with pytest.raises(DataError, match="fantasycoref/test are not here; refnb fetch"):
        view_data(gone, s=s)
    clusters = answered(tmp_path, part="sample/bookcoref", answers=[], keep=False)
    with pytest.raises(CallError, match="has documents, not questions"):
        view_data(clusters, s=s)


def test_questions_that_are_others_are_refused(tmp_path, six):
    for others in (SIX[:5], SIX[::-1], [q(0, right=(2,)), *SIX[1:]]):
        with pytest.raises(DataError, match="made of questions .*; give the questions of this run"):
            view_data(six, others)
    with pytest.raises(DataError, match="there are no questions"):
        view_data(six, [])
    free = open_run(RunInfo("toy/free", "x", {}), tmp_path / "runs")
    with free.writing() as w:
        w.add(Answer("zz", (1,)))
    with pytest.raises(DataError, match="1 answers belong to no question, one is zz"):
        view_data(free, SIX)


def test_a_damaged_journal_is_told(six):
    six.journal.write_bytes(six.journal.read_bytes().replace(b'"chosen":[1]', b'"chosen":[2]'))
    with pytest.raises(DataError, match="has changed since the run was completed"):
        view_data(six)


# The file, and the table of a notebook


def test_the_file_begins_with_the_canary_and_the_wish(six, tmp_path):
    v = view(six)
    text = v.write(tmp_path / "deep/page.html").read_text(encoding="utf-8")
    assert text == v.page() == view(six).page(), "the same on every run"
    assert text.startswith(f"<!-- {CANARY['canary']} {CANARY['wish']} -->\n<!DOCTYPE html>")
    with pytest.raises(DataError) as e:
        v.write(tmp_path)
    assert "\n" not in str(e.value) and str(tmp_path) in str(e.value)


def test_the_table_of_a_notebook_has_what_is_worth_reading(tmp_path):
    many = [q(k) for k in range(60)]
    v = view(answered(tmp_path, many, [Answer(x.id, (k % 2,)) for k, x in enumerate(many)]))
    shown = v._repr_html_()
    assert shown.count("<tr>") == 1 + ROWS and "<mark><b>She</b></mark>" in shown
    assert f"{ROWS} of 30 questions that are not right" in shown
    whole = view(answered(tmp_path, many, [Answer(x.id, (1,)) for x in many], system="all"))
    assert "0 of 0 questions" in whole._repr_html_()
    assert repr(whole) == "View('all on toy/test', 60 questions)"


def test_the_table_of_a_notebook_is_small_whatever_the_data(tmp_path):
    worst = "w\U0001f600" * 500
    options = tuple(Option(worst, worst) for _ in range(60))
    many = [
        Question(f"{k}{worst}", worst, worst * 2, (400, 1600), options, (1,)) for k in range(21)
    ]
    run = answered(tmp_path, many, [Answer(x.id, (2,), raw=worst) for x in many])
    assert 1000 < len(view(run)._repr_html_()) < 60_000


# 1,200 questions of 2,000 words


def library(folder, n: int = 1200, documents: int = 149, words: int = 2000):
    "A part as large as IdentifyMe's, of made-up words, and two runs on it."
    rng = random.Random(7)
    known = ["".join(rng.choices("abcdefghilmnoprstu", k=rng.randint(2, 9))) for _ in range(4000)]
    texts, questions = [" ".join(rng.choices(known, k=words)) for _ in range(documents)], []
    for k in range(n):
        text, doc = texts[k % documents], f"d{k % documents}"
        start = text.index(" ", rng.randrange(len(text) - 200)) + 1
        options = tuple(Option(f"{a.title()} {k}") for a in rng.sample(known, 9))
        meta = {"type": rng.choice(["nominal", "pronominal"]), "position": round(rng.random(), 3)}
        end = text.index(" ", start)
        q = Question(f"{doc}:{k}", doc, text, (start, end), options, (rng.randrange(9),), meta)
        questions.append(q)

    def reply(x: Question) -> Answer:
        luck, c = rng.random(), rng.randrange(9)
        if luck < 0.03:
            return Answer(x.id, reason="refused", raw="I'm sorry, I cannot help with that.")
        c = x.right[0] if luck < 0.6 else c
        return Answer(
            x.id, (c,), raw=f"{x.options[c].name}, for {' '.join(rng.choices(known, k=40))}."
        )

    runs = [
        answered(folder, questions, list(map(reply, questions)), s, "library/test")
        for s in ("early", "late")
    ]
    return questions, runs


def test_the_work_and_size_of_a_page_grow_with_its_questions(tmp_path):
    small, large = (library(tmp_path / str(n), n, n // 8, 200) for n in (40, 160))
    assert growth(lambda part: view(*part[1], questions=part[0]).page(), small, large) < 5
    book = "He saw her there. " * 20_000 + "\U0001f600 end"
    asked = [Question(f"b:{k}", "b", book, (18 * k, 18 * k + 2), ABC, (0,)) for k in range(300)]
    run = answered(tmp_path, asked, [Answer(x.id, (0,)) for x in asked], keep=False)
    assert len(view(run, questions=asked).page()) < len(book) + 300_000, "F44: one text, once"


# In a browser


def shown(reader) -> list[str]:
    return reader.js("shown.map(q => q.id)")


def now(reader) -> str:
    return reader.js("document.querySelector('#question h2')?.textContent")


def tick(reader, label: str, inside: str = "#filters"):
    labels = f"[...document.querySelectorAll({json.dumps(inside + ' label.tick')})]"
    reader.js(f"{labels}.find(e => e.innerText.includes({json.dumps(label)})).click()")


def by(reader, field: str):
    number = reader.js(f"fields.findIndex(f => f.name == {json.dumps(field)})")
    reader.set("by", number, "change")


def rows(reader) -> dict:
    cells = "[...r.cells].map(c => c.innerText.replaceAll('\\u00a0', ' ').trim())"
    found = reader.js(f"[...document.querySelectorAll('#values tbody tr')].map(r => {cells})")
    return {r[0]: r[1:] for r in found}


def test_a_question_is_shown_whole(reader, six):
    reader.show(view(six).page())
    assert now(reader) == "d0:0" and reader.text("#count") == "6 of 6 questions, 41.7 % right"
    assert reader.js("document.compatMode") == "CSS1Compat"
    for told in (
        "reader",
        "sealed",
        "accuracy 41.7 %",
        "cost at least $0.25, 1 answer of unknown price, 20 tokens read, 4 written",
    ):
        assert told in reader.text("#runs"), told
    passage = reader.js("document.querySelector('.passage').textContent")
    assert passage == "Ann met Bea on day 0. marked mention: She smiled."
    for told in (
        "document d0",
        "right is · Bea",
        "✓ right · Bea",
        "The reply: Bea.",
        "$0.25, 10 tokens read, 2 written, 1.5 s",
        "● chosen",
        "pronominal",
    ):
        assert told in reader.text("#question"), told
    reader.press("j", "j")
    assert "≈ a share of a tie: 0.5 · Ann, Bea" in reader.text("#question")
    widths = "[...document.querySelectorAll('.options .meter > span')].map(e => e.style.width)"
    assert reader.js(widths) == ["100%", "100%", "50%"]
    reader.press("j")
    assert "– no choice: refused" in reader.text("#question")
    reader.js("document.querySelector('#about').open = true")
    assert six.folder.name in reader.text("#about")


def test_filters_by_verdict_and_field_and_the_table_of_accuracy(reader, six):
    reader.show(view(six).page())
    assert rows(reader) == {"nominal": ["4", "37.5 %"], "pronominal": ["2", "50.0 %"]}
    tick(reader, "wrong")
    assert shown(reader) == ["d1:1", "d0:4"] and rows(reader) == {"nominal": ["2", "0.0 %"]}
    tick(reader, "refused")
    assert shown(reader) == ["d1:1", "d1:3", "d0:4"]
    assert "wrong or refused" in reader.text("#set")
    tick(reader, "pronominal", "#values")
    left = {"nominal": ["2", "0.0 %"], "pronominal": ["1", "0.0 %"]}
    assert shown(reader) == ["d1:3"] and rows(reader) == left, "what is not ticked can still be"
    reader.js("document.querySelectorAll('.chip')[0].click()")
    assert shown(reader) == ["d0:0", "d1:3"]
    by(reader, "class")
    assert rows(reader) == {"she": ["1", "100.0 %"], "no value": ["1", "0.0 %"]}
    tick(reader, "no value", "#values")
    assert shown(reader) == ["d1:3"]


def test_a_number_is_filtered_by_a_range(reader, tmp_path):
    many = [q(k) for k in range(60)]
    answers = [Answer(x.id, (k % 2,)) for k, x in enumerate(many)]
    reader.show(view(answered(tmp_path, many, answers)).page())
    by(reader, "n")
    assert rows(reader) == {f"{12 * k} to {12 * k + 11}": ["12", "50.0 %"] for k in range(5)}
    tick(reader, "12 to 23", "#values")
    assert shown(reader) == [x.id for x in many[12:24]]
    reader.set("high", "13.5")
    reader.set("low", "")
    assert shown(reader) == [x.id for x in many[:14]] and "n: up to 13.5" in reader.text("#set")


def test_search(reader, tmp_path):
    texts = [q(0, text="🦊 met Bea. She smiled at Züri.", chars=(11, 14)), q(1), q(3)]
    texts.insert(2, q(2, text="", chars=None))
    raw = {"d0:0": "Surely [Bea] (99%)", "d1:1": "bea surely", "d1:3": "Cy"}
    answers = [Answer(i, (1,), raw=x) for i, x in raw.items()]
    reader.show(view(answered(tmp_path, texts, answers)).page())
    assert reader.text("#mark").endswith("She"), "a fox is two letters in a browser"
    for words, found in [
        ("d1:", ["d1:1", "d1:3"]),
        ("SURELY bea", ["d0:0", "d1:1"]),
        ('"surely [bea]"', ["d0:0"]),
        ("", [x.id for x in texts]),
        ("(99%)", ["d0:0"]),
        ("züri", []),
    ]:
        reader.set("search", words)
        assert shown(reader) == found, words
    tick(reader, "in the texts too")
    assert shown(reader) == ["d0:0"]
    reader.set("search", "bea day surely")
    assert shown(reader) == ["d1:1"]
    reader.set("search", "zzz")
    assert reader.text("#question") == "No question matches all filters."
    assert reader.text("#count") == "0 of 4 questions, – right"


def test_the_keyboard_is_enough(reader, six):
    reader.show(view(six).page())
    reader.press("j", "j", "k")
    assert now(reader) == "d1:1"
    reader.press("/", "r", "e", "f")
    assert reader.js("[search.value, document.activeElement.id]") == ["ref", "search"]
    reader.set("search", "ea")
    reader.press("Enter")
    assert reader.js("document.activeElement.id") == "list"
    for key, id_ in [
        ("Home", "d0:0"),
        ("ArrowDown", "d1:1"),
        ("End", "d1:5"),
        ("ArrowUp", "d0:4"),
        ("j", "d1:5"),
        ("j", "d1:5"),
    ]:
        reader.press(key)
        assert now(reader) == id_, key
    reader.press("/", "Escape")
    assert reader.js("[search.value, document.activeElement.id]") == ["", "list"]
    reader.js("document.querySelector('#values tbody input').focus()")
    reader.press(" ")
    assert shown(reader) == ["d1:1", "d0:2", "d0:4", "d1:5"]
    assert reader.js("document.activeElement.checked"), "a filter by keyboard keeps its place"


def test_a_link_opens_a_question(reader, six):
    reader.show(view(six).page(), "#id=d0%3A4")
    assert now(reader) == "d0:4"
    reader.press("j")
    reader.wait("location.hash == '#id=d1%3A5'")
    tick(reader, "refused")
    assert now(reader) == "d1:3"
    reader.js("location.hash = '#id=d0%3A0'")
    reader.wait("document.querySelector('#question h2').textContent == 'd0:0'")
    assert len(shown(reader)) == 6, "it would be hidden, so filters are cleared"
    reader.js("location.hash = '#id=nobody%3Cb%3E'")
    reader.wait("!notice.hidden")
    assert reader.text("#notice") == "There is no question nobody<b> here."


def test_two_runs_side_by_side(reader, tmp_path, six):
    chosen = {"d0:0": 0, "d1:1": 0, "d0:2": 1, "d1:3": 1, "d0:4": 1}
    answers = [Answer(i, (c,), raw="Ann!") for i, c in chosen.items()]
    of = dict(system="rival", part="toy/other", sealed=False)
    reader.show(view(six, answered(tmp_path, [*SIX[:5], q(8)], answers, **of)).page())
    told = "6 of 6 questions, 41.7 % and 60.0 % right (of 5 answered)"
    assert reader.text("#count") == told
    for told in (
        "reader on toy/test",
        "rival on toy/other",
        "open, 1 of 6 questions not answered yet",
        "1 question only of the first",
        "on 5 questions that both answered",
    ):
        assert told in reader.text("header"), told
    for which, want in [
        ("first", ["d0:0"]),
        ("second", ["d0:2", "d1:3", "d0:4"]),
        ("right", []),
        ("wrong", ["d1:1"]),
        ("differ", ["d0:0", "d0:2", "d1:3", "d0:4"]),
        ("all", [x.id for x in SIX]),
    ]:
        reader.set("pair", which, "change")
        assert shown(reader) == want, which
    assert rows(reader)["nominal"] == ["4", "37.5 %", "66.7 %"]
    reader.js("choose(shown[0])")
    for told in ("first: reader", "second: rival", "The reply: Bea.", "Ann!"):
        assert told in reader.text("#question"), told
    reader.js("choose(shown[5])")
    assert "not asked" in reader.text("#question")


def test_the_whole_text_on_demand(reader, tmp_path):
    long = q(0, text="alpha " * 400 + "She" + " omega" * 400, chars=(2400, 2403))
    none = q(1, text="", chars=None)
    reader.show(view(answered(tmp_path, [long, none, q(2)], [])).page())
    assert reader.text(".passage").startswith("… alpha") and len(reader.text(".passage")) < 1000
    reader.press("a")
    whole = reader.js("document.querySelector('.passage').textContent.length")
    assert whole == len(long.text) + len("marked mention: ")
    inside = "(r => r.top >= 0 && r.bottom <= innerHeight)(mark.getBoundingClientRect())"
    assert reader.js(inside), "the mark is in sight"
    reader.press("a", "j")
    assert "The release has no text for this question." in reader.text("#question")


def test_1200_questions_and_a_book_stay_fluid(reader, tmp_path):
    questions, runs = library(tmp_path)
    reader.show(view(*runs, questions=questions).page())
    acts = (
        "search.value = 'a e'; seek()",
        "clear()",
        "state.pair = 'differ'; refresh()",
        "move(1)",
    )
    for act in acts:
        start = "const start = performance.now()"
        took = f"(() => {{ {start}; {act}; document.body.offsetHeight; return performance.now() - start }})()"
        assert reader.js(took) < 1500, act
    reader.js("clear(); at('list').focus(); at('list').scrollTop = 20000")
    assert reader.js("rows.children.length") < 60, "only what is in sight exists"
    reader.press("End")
    assert now(reader) == questions[-1].id
    book = "He saw her there. " * 50_000  # F44
    asked = [Question(f"b:{k}", "b", book, (k, k + 2), ABC, (0,)) for k in (0, 18 * 49_999)]
    reader.show(view(answered(tmp_path, asked, [], keep=False), questions=asked).page())
    reader.press("j", "a")
    assert "characters are not shown" in reader.text("#question")
    assert reader.text("#mark").endswith("He")


def test_a_frame_in_a_notebook(reader, six):
    reader.show(f"<!DOCTYPE html><meta charset=utf-8><body>{view(six).frame(500)._repr_html_()}")
    frame = "document.querySelector('iframe')"
    assert reader.js(f"{frame}.contentDocument === null"), "shut off from the notebook"
    assert reader.js(f"{frame}.srcdoc.includes('The reply: Bea.') && {frame}.clientHeight == 500")


def test_no_page_is_wider_than_its_window_and_fields_have_names(reader, six):
    reader.show(view(six, six).page())
    reader.js("filters.open = about.open = true")
    for width in (320, 390, 700, 900, 1280):
        reader.size(width)
        assert reader.js("document.documentElement.scrollWidth") <= width, width
        assert reader.js("at('list').clientHeight") > 60, width
    nodes = reader.call("Accessibility.getFullAXTree")["nodes"]
    names = {n["name"]["value"] for n in nodes if n.get("name", {}).get("value")}
    assert {"Search", "Accuracy by", "Both runs", "Questions", "Question", "first run"} <= names
