"The viewer: what is shown is what was asked and answered, alone and beside a second run."

import json, random
import pytest
import refnb
from pages_runs import ABC, SIX, SIX_ANSWERS, answered, question
from refnb.core.files import CANARY
from refnb.core.runs import Run, RunInfo, open_run
from refnb.core.types import Answer, DataError, Option, Question, Usage
from tools import growth

pytest_plugins = "pages_browser"


@pytest.fixture
def six(tmp_path) -> Run:
    return answered(tmp_path)


def chosen(options: dict[str, int], **more) -> list[Answer]:
    return [Answer(id, (option,), **more) for id, option in options.items()]


# Runs and questions that cannot be had


def refused(told: str, *args, kind=DataError, **how):
    "A view that cannot be had is told in one line."
    with pytest.raises(kind) as e:
        refnb.view(*args, **how)
    assert told in str(e.value) and "\n" not in str(e.value), e.value


def test_a_run_is_named_by_its_folder_or_its_task_and_system(tmp_path, six, settings, monkeypatch):
    s, page = settings(runs=str(tmp_path / "runs")), refnb.view(six).page()
    later = answered(tmp_path, answers=[], settings={"x": 1}, complete=False)
    at = f"toy/test:reader@{six.folder.name[:5]}"
    for name in (six.folder, str(six.folder), "toy/test:reader", at):
        assert refnb.view(name, s=s).page() == page, name
    newest = refnb.view(f"toy/test:reader@{later.folder.name}", s=s).page()
    assert later.folder.name in newest and six.folder.name not in newest
    for name, told in [
        ("toy/test:nobody", "no run of nobody"),
        ("toy/test:reader@zz", "reader@zz"),
        ("nowhere", "nowhere"),
        ("a\0b", "not a run"),
        ("../..:..", "no run"),
    ]:
        refused(told, name, s=s)
    monkeypatch.chdir(six.folder)
    assert refnb.view(".").page() == page, "from inside its folder too"


def test_questions_that_are_not_here_are_told_or_given(tmp_path, six, settings):
    s = settings(runs=str(tmp_path / "runs"))
    lost = answered(tmp_path, task="toy/lost", answers=[], keep=False)
    refused("toy/lost", lost, s=s)
    page = refnb.view(lost, questions=SIX, s=s).page()
    for given in (iter(SIX), six.questions_path):
        assert refnb.view(lost, questions=given, s=s).page() == page
    gone = answered(tmp_path, task="identifyme/fantasycoref/test", answers=[], keep=False)
    refused("refnb fetch", gone, s=s)
    refused("no questions", six, questions=[])
    for others in (SIX[:5], SIX[::-1], [question(0, right=(2,)), *SIX[1:]]):
        refused("give the questions of this run", six, questions=others)
    free = open_run(RunInfo("toy/free", "x", {}), tmp_path / "runs")
    with free.writing() as journal:
        journal.add(Answer("zz", (1,)))
    refused("zz", free, questions=SIX)


def test_runs_that_share_nothing_and_damaged_ones_are_refused(tmp_path, six):
    changed = [question(8), question(0, right=(2,))]
    refused("toy/other", six, answered(tmp_path, changed, [], task="toy/other"))
    six.journal.write_bytes(six.journal.read_bytes().replace(b'"chosen":[1]', b'"chosen":[2]'))
    refused("changed", six)


# The file, and the table of a notebook


def test_the_file_begins_with_the_canary_and_is_the_same_each_time(six, tmp_path):
    v = refnb.view(six)
    text = v.write(tmp_path / "deep/page.html").read_text(encoding="utf-8")
    assert text == v.page() == refnb.view(six).page()
    assert text.startswith(f"<!-- {CANARY['canary']} {CANARY['wish']} -->\n<!DOCTYPE html>")
    with pytest.raises(DataError) as e:
        v.write(tmp_path)
    assert "\n" not in str(e.value) and str(tmp_path) in str(e.value)


def test_the_table_of_a_notebook_has_what_is_worth_reading(tmp_path, six):
    many = [question(k) for k in range(60)]
    half = answered(tmp_path, many, [Answer(q.id, (k % 2,)) for k, q in enumerate(many)])
    shown = refnb.view(half)._repr_html_()
    assert shown.count("<tr>") == 21 and "<mark><b>She</b></mark>" in shown
    assert "20 of 30 questions that are not right" in shown
    whole = answered(tmp_path, many, [Answer(q.id, (1,)) for q in many], system="all")
    assert "0 of 0 questions" in refnb.view(whole)._repr_html_()
    nothing = answered(tmp_path, answers=[], system="none", complete=False)
    assert "nothing to score yet" in refnb.view(nothing)._repr_html_()
    rival = answered(tmp_path, answers=chosen({"d0:0": 0, "d1:1": 0}), system="rival")
    differ = [q["id"] for q in refnb.view(six, rival).worth_reading()]
    assert differ == ["d0:0", "d0:2", "d1:3", "d0:4", "d1:5"], "where they chose differently"


def test_the_table_of_a_notebook_is_small_whatever_the_data(tmp_path):
    worst = "w\U0001f600" * 500
    options = tuple(Option(worst, worst) for _ in range(60))
    long = lambda k: Question(f"{k}{worst}", worst, worst * 2, (400, 1600), options, (1,))
    many = [long(k) for k in range(21)]
    run = answered(tmp_path, many, [Answer(q.id, (2,), raw=worst) for q in many])
    assert 1000 < len(refnb.view(run)._repr_html_()) < 60_000


# A task as large as IdentifyMe's


def library(folder, n: int, words: int) -> list[Run]:
    "Two runs on n questions about an eighth as many texts of made-up words."
    rng = random.Random(7)
    known = ["".join(rng.choices("abcdefghilmnoprstu", k=rng.randint(2, 9))) for _ in range(4000)]
    texts, questions = [" ".join(rng.choices(known, k=words)) for _ in range(n // 8)], []
    for k in range(n):
        text, doc = texts[k % len(texts)], f"d{k % len(texts)}"
        start = text.index(" ", rng.randrange(len(text) - 200)) + 1
        options = tuple(Option(f"{name.title()} {k}") for name in rng.sample(known, 9))
        fields = {"type": rng.choice(["nominal", "pronominal"]), "position": round(rng.random(), 3)}
        span, right = (start, text.index(" ", start)), (rng.randrange(9),)
        questions.append(Question(f"{doc}:{k}", doc, text, span, options, right, fields))

    def reply(q: Question) -> Answer:
        luck, guess = rng.random(), rng.randrange(9)
        if luck < 0.03:
            return Answer(q.id, reason="refused", raw="I'm sorry, I cannot help with that.")
        c = q.right[0] if luck < 0.6 else guess
        return Answer(q.id, (c,), raw=f"{q.options[c].name}, {' '.join(rng.choices(known, k=40))}.")

    names = ("early", "late")
    return [answered(folder, questions, list(map(reply, questions)), name) for name in names]


def test_work_and_size_grow_with_the_questions_and_a_text_is_held_once(tmp_path):
    small, large = (library(tmp_path / str(n), n, 100) for n in (32, 128))
    assert growth(lambda runs: refnb.view(*runs).page(), small, large) < 5
    book = "He saw her there. " * 20_000 + "\U0001f600 end"
    many = [Question(f"b:{k}", "b", book, (18 * k, 18 * k + 2), ABC, (0,)) for k in range(100)]
    run = answered(tmp_path, many, [Answer(q.id, (0,)) for q in many], keep=False)
    assert len(refnb.view(run, questions=many).page()) < len(book) + 200_000


# In a browser


def ids(reader) -> list[str]:
    "The questions that are listed, from the top."
    row = "{top: parseFloat(e.style.top), id: e.lastElementChild.innerText.trim()}"
    rows = f"[...document.querySelectorAll('#rows .row')].map(e => ({row}))"
    return reader.js(f"{rows}.sort((a, b) => a.top - b.top).map(r => r.id)")


def open_id(reader) -> str:
    return reader.js("document.querySelector('#question h2')?.textContent")


def tick(reader, label: str, inside: str = "#filters"):
    labels = f"[...document.querySelectorAll({json.dumps(inside + ' label.tick')})]"
    reader.js(f"{labels}.find(e => e.innerText.includes({json.dumps(label)})).click()")


def by(reader, field: str):
    options = "[...at('by').options].findIndex(o => o.text == "
    reader.set("by", reader.js(f"{options}{json.dumps(field)})"), "change")


def groups(reader) -> dict:
    "The table of accuracy by a field."
    cells = "[...r.cells].map(c => c.innerText.replaceAll('\\u00a0', ' ').trim())"
    rows = reader.js(f"[...document.querySelectorAll('#values tbody tr')].map(r => {cells})")
    return {first: others for first, *others in rows}


def test_every_kind_of_answer_is_told(reader, tmp_path):
    neither = dict(right=())
    cases = [
        (dict(chosen=(1,)), {}, "right · Bea"),
        (dict(chosen=(0, 1)), {}, "wrong · Ann, Bea"),
        (dict(scores=(1.0, 2.0, 0.0)), {}, "right · Bea"),
        (dict(scores=(2.0, 2.0, 0.0)), {}, "tie: 0.5 · Ann, Bea"),
        (dict(scores=(2.0, 0.0, 2.0)), {}, "wrong · Ann, Cy"),
        (dict(scores=(0.0, 9.0, 0.0), reason="failed"), {}, "failed"),
        (dict(), {}, "wrong"),
        (dict(chosen=(2,), scores=(0.0, 9.0, 0.0)), {}, "wrong · Cy"),
        (dict(), neither, "right"),
        (dict(chosen=(1,)), neither, "wrong · Bea"),
        (dict(reason="cut"), neither, "cut"),
        (None, neither, "no answer"),
        (None, dict(meta={"big": 2**60, "odd": float("nan")}), "no answer"),
    ]
    questions = [question(k, **changed) for k, (_, changed, _) in enumerate(cases)]
    answers = [Answer(q.id, **a) for q, (a, _, _) in zip(questions, cases) if a is not None]
    run = answered(tmp_path, questions, answers)
    reader.show(refnb.view(run, questions=questions).page())
    for q, (answer, _, told) in zip(questions, cases):
        assert open_id(reader) == q.id
        assert reader.text("#question .sides section p").endswith(told), answer
        reader.press("j")
    assert str(2**60) in reader.text("#question") and "nan" in reader.text("#question")


def test_a_run_says_what_it_cost_and_what_is_open_or_missing(reader, tmp_path):
    def costs(*usd):
        usages = [None if u is None else Usage(usd=u[0]) for u in usd]
        return [Answer(q.id, (1,), usage=u) for q, u in zip(SIX, usages)]

    def told(*runs):
        many = [answered(tmp_path, answers=x, system=f"s{k}", **how) for k, x, how in runs]
        reader.show(refnb.view(*many).page())
        return reader.text("#runs").replace("\n\n", "\n").splitlines()

    some, going_on = SIX_ANSWERS[:3], dict(complete=False)
    first, second, difference = told((0, some, {}), (1, some, going_on))
    assert "sealed, 3 without an answer count as wrong" in first and "accuracy 25.0 %" in first
    assert "open, 3 of 6 questions not answered yet" in second and "accuracy 50.0 %" in second
    assert "on 3 questions that both answered" in difference
    first, second, *difference = told((2, costs(None, None), {}), (3, [], going_on))
    assert "no cost recorded" in first and "nothing to score yet" in second and not difference
    first, second, _ = told((4, costs((0.0,), (None,)), {}), (5, costs((0.1,), (0.2,)), {}))
    assert "at least $0.00, 1 answer of unknown price" in first and "cost $0.30" in second


def test_a_question_is_shown_whole(reader, six):
    reader.show(refnb.view(six).page())
    assert open_id(reader) == "d0:0" and reader.text("#count") == "6 of 6 questions, 41.7 % right"
    assert reader.js("document.compatMode") == "CSS1Compat"
    for told in (
        "reader",
        "sealed",
        "accuracy 41.7 %",
        f"{refnb.score(six).interval().low:.1%}".replace("%", " %"),
        "cost at least $0.25, 1 answer of unknown price, 20 tokens read, 4 written",
    ):
        assert told in reader.text("#runs"), told
    passage = reader.js("document.querySelector('.passage').textContent")
    assert passage == "Ann met Bea on day 0. marked mention: She smiled."
    for told in (
        "document d0",
        "right is · Bea",
        "The reply: Bea.",
        "$0.25, 10 tokens read, 2 written, 1.5 s",
        "● chosen",
        "pronominal",
    ):
        assert told in reader.text("#question"), told
    reader.press("j", "j")
    widths = "[...document.querySelectorAll('.options .meter > span')].map(e => e.style.width)"
    assert reader.js(widths) == ["100%", "100%", "50%"]
    reader.js("document.querySelector('#about').open = true")
    assert six.folder.name in reader.text("#about") and "refused 1" in reader.text("#about")


def test_filters_by_verdict_and_field_and_the_table_of_accuracy(reader, six):
    reader.show(refnb.view(six).page())
    assert groups(reader) == {"nominal": ["4", "37.5 %"], "pronominal": ["2", "50.0 %"]}
    tick(reader, "wrong")
    assert ids(reader) == ["d1:1", "d0:4"] and groups(reader) == {"nominal": ["2", "0.0 %"]}
    tick(reader, "refused")
    assert ids(reader) == ["d1:1", "d1:3", "d0:4"]
    assert "wrong or refused" in reader.text("#set")
    tick(reader, "pronominal", "#values")
    left = {"nominal": ["2", "0.0 %"], "pronominal": ["1", "0.0 %"]}
    assert ids(reader) == ["d1:3"] and groups(reader) == left, "what is not ticked can still be"
    reader.js("document.querySelectorAll('.chip')[0].click()")
    assert ids(reader) == ["d0:0", "d1:3"]
    by(reader, "class")
    assert groups(reader) == {"she": ["1", "100.0 %"], "no value": ["1", "0.0 %"]}
    tick(reader, "no value", "#values")
    assert ids(reader) == ["d1:3"]


def test_a_number_is_filtered_by_a_range(reader, tmp_path):
    many = [question(k) for k in range(60)]
    answers = [Answer(q.id, (k % 2,)) for k, q in enumerate(many)]
    reader.show(refnb.view(answered(tmp_path, many, answers)).page())
    by(reader, "n")
    assert groups(reader) == {f"{12 * k} to {12 * k + 11}": ["12", "50.0 %"] for k in range(5)}
    tick(reader, "12 to 23", "#values")
    assert ids(reader) == [q.id for q in many[12:24]]
    reader.set("high", "13.5")
    reader.set("low", "")
    assert ids(reader) == [q.id for q in many[:14]] and "n: up to 13.5" in reader.text("#set")


def test_a_search_finds_words_in_ids_options_replies_and_texts(reader, tmp_path):
    fox = question(0, text="🦊 met Bea. She smiled at Züri.", chars=(11, 14))
    some = [fox, question(1), question(2, text="", chars=None), question(3)]
    raw = {"d0:0": "Surely [Bea] (99%)", "d1:1": "bea surely", "d1:3": "Cy"}
    answers = [Answer(id, (1,), raw=text) for id, text in raw.items()]
    reader.show(refnb.view(answered(tmp_path, some, answers)).page())
    assert reader.text("#mark").endswith("She"), "a fox is two letters in a browser"
    for words, found in [
        ("d1:", ["d1:1", "d1:3"]),
        ("SURELY bea", ["d0:0", "d1:1"]),
        ('"surely [bea]"', ["d0:0"]),
        ("", [q.id for q in some]),
        ("(99%)", ["d0:0"]),
        ("züri", []),
    ]:
        reader.set("search", words)
        assert ids(reader) == found, words
    tick(reader, "in the texts too")
    assert ids(reader) == ["d0:0"]
    reader.set("search", "bea day surely")
    assert ids(reader) == ["d1:1"]
    reader.set("search", "zzz")
    assert reader.text("#question") == "No question matches all filters."
    assert reader.text("#count") == "0 of 4 questions, – right"


def test_the_keyboard_is_enough(reader, six):
    reader.show(refnb.view(six).page())
    reader.press("j", "j", "k")
    assert open_id(reader) == "d1:1"
    focus = "[at('search').value, document.activeElement.id]"
    reader.press("/", "r", "e", "f")
    assert reader.js(focus) == ["ref", "search"]
    reader.set("search", "ea")
    reader.press("Enter")
    assert reader.js(focus)[1] == "list"
    keys = ["Home", "ArrowDown", "End", "ArrowUp", "j", "j"]
    for key, id in zip(keys, ["d0:0", "d1:1", "d1:5", "d0:4", "d1:5", "d1:5"]):
        reader.press(key)
        assert open_id(reader) == id, key
    reader.press("/", "Escape")
    assert reader.js(focus) == ["", "list"]
    reader.js("document.querySelector('#values tbody input').focus()")
    reader.press(" ")
    assert ids(reader) == ["d1:1", "d0:2", "d0:4", "d1:5"]
    assert reader.js("document.activeElement.checked"), "a filter by keyboard keeps its place"


def test_a_link_opens_a_question(reader, six):
    reader.show(refnb.view(six).page(), "#id=d0%3A4")
    assert open_id(reader) == "d0:4"
    reader.press("j")
    reader.wait("location.hash == '#id=d1%3A5'")
    tick(reader, "refused")
    assert open_id(reader) == "d1:3"
    reader.js("location.hash = '#id=d0%3A0'")
    reader.wait("document.querySelector('#question h2').textContent == 'd0:0'")
    assert len(ids(reader)) == 6, "it would be hidden, so filters are cleared"
    reader.js("location.hash = '#id=nobody%3Cb%3E'")
    reader.wait("!at('notice').hidden")
    assert "nobody<b>" in reader.text("#notice")


def test_two_runs_are_compared_on_the_questions_that_both_were_asked(reader, tmp_path, six):
    others = [
        question(4, right=(0,)),
        question(3),
        question(2, id="d0:9"),
        question(0),
        question(1),
    ]
    answers = chosen({"d0:0": 0, "d1:1": 1, "d1:3": 1, "d0:4": 0})
    second = answered(tmp_path, others, answers, system="other", task="toy/other")
    reader.show(refnb.view(six, second).page())
    for told in (
        "first minus second: −33.3 points",
        "on 3 questions that both answered",
        "2 questions only of the first",
        "1 question only of the second",
        "1 id with other options",
    ):
        assert told in reader.text("header"), (told, reader.text("header"))


def test_two_runs_side_by_side(reader, tmp_path, six):
    answers = chosen({"d0:0": 0, "d1:1": 0, "d0:2": 1, "d1:3": 1, "d0:4": 1}, raw="Ann!")
    how = dict(system="rival", task="toy/other", complete=False)
    rival = answered(tmp_path, [*SIX[:5], question(8)], answers, **how)
    reader.show(refnb.view(six, rival).page())
    counts = "6 of 6 questions, 41.7 % and 60.0 % right (of 5 answered)"
    assert reader.text("#count") == counts
    for told in (
        "reader on toy/test",
        "rival on toy/other",
        "open, 1 of 6 questions not answered yet",
        "1 question only of the first",
    ):
        assert told in reader.text("header"), told
    for which, wanted in [
        ("first", ["d0:0"]),
        ("second", ["d0:2", "d1:3", "d0:4"]),
        ("right", []),
        ("wrong", ["d1:1"]),
        ("differ", ["d0:0", "d0:2", "d1:3", "d0:4"]),
        ("all", [q.id for q in SIX]),
    ]:
        reader.set("pair", which, "change")
        assert ids(reader) == wanted, which
    assert groups(reader)["nominal"] == ["4", "37.5 %", "66.7 %"]
    reader.js("at('list').focus()")
    reader.press("Home")
    for told in ("first: reader", "second: rival", "The reply: Bea.", "Ann!"):
        assert told in reader.text("#question"), told
    reader.press("End")
    assert "not asked" in reader.text("#question")


def test_the_whole_text_on_demand(reader, tmp_path):
    long = question(0, text="alpha " * 400 + "She" + " omega" * 400, chars=(2400, 2403))
    none = question(1, text="", chars=None)
    reader.show(refnb.view(answered(tmp_path, [long, none, question(2)], [])).page())
    assert reader.text(".passage").startswith("… alpha") and len(reader.text(".passage")) < 1000
    reader.press("a")
    whole = reader.js("document.querySelector('.passage').textContent.length")
    assert whole == len(long.text) + len("marked mention: ")
    inside = "(r => r.top >= 0 && r.bottom <= innerHeight)(at('mark').getBoundingClientRect())"
    assert reader.js(inside), "the mark is in sight"
    reader.press("a", "j")
    assert "The release has no text for this question." in reader.text("#question")


def test_1200_questions_and_a_book_stay_fluid(reader, tmp_path):
    runs = library(tmp_path, 1200, 200)
    reader.show(refnb.view(*runs).page())
    typed = "s => (s.value = 'a e', s.dispatchEvent(new Event('input', {bubbles: true})))"
    turned = "s => (s.value = 'differ', s.dispatchEvent(new Event('change', {bubbles: true})))"
    for act in (f"({typed})(at('search'))", f"({turned})(at('pair'))", "at('Next').click()"):
        work = f"const start = performance.now(); {act}; document.body.offsetHeight"
        assert reader.js(f"(() => {{ {work}; return performance.now() - start }})()") < 1500, act
    reader.set("search", "")
    reader.set("pair", "all", "change")
    reader.js("at('list').focus(); at('list').scrollTop = 20000")
    assert reader.js("at('rows').children.length") < 60, "only what is in sight exists"
    reader.press("End")
    assert open_id(reader) == "d149:1199"
    book = "He saw her there. " * 50_000
    ends = [Question(f"b:{k}", "b", book, (k, k + 2), ABC, (0,)) for k in (0, 18 * 49_999)]
    reader.show(refnb.view(answered(tmp_path, ends, [], keep=False), questions=ends).page())
    reader.press("j", "a")
    assert "characters are not shown" in reader.text("#question")
    assert reader.text("#mark").endswith("He")


def test_a_frame_is_shut_off_from_its_notebook(reader, six):
    frame = refnb.view(six).frame(500)._repr_html_()
    reader.show(f"<!DOCTYPE html><meta charset=utf-8><body>{frame}")
    frame = "document.querySelector('iframe')"
    assert reader.js(f"{frame}.contentDocument === null")
    assert reader.js(f"{frame}.srcdoc.includes('The reply: Bea.') && {frame}.clientHeight == 500")


def test_no_page_is_wider_than_its_window_and_fields_have_names(reader, six):
    reader.show(refnb.view(six, six).page())
    reader.js("at('filters').open = at('about').open = true")
    for width in (320, 390, 700, 900, 1280):
        reader.size(width)
        assert reader.js("document.documentElement.scrollWidth") <= width, width
        assert reader.js("at('list').clientHeight") > 60, width
    nodes = reader.call("Accessibility.getFullAXTree")["nodes"]
    names = {n["name"]["value"] for n in nodes if n.get("name", {}).get("value")}
    assert {"Search", "Accuracy by", "Both runs", "Questions", "Question", "first run"} <= names
