"The viewer: what is shown is what was asked and said; nothing of it becomes markup; 1,200 questions stay fluid."

import hashlib, json, os, random, re
from base64 import b64encode
from html.parser import HTMLParser
import pytest
from hypothesis import given, strategies as st
from browser import Inner, Tab, nothing_leaves, port  # noqa: F401 (a fixture)
from servers import Tree
from test_looking import NASTY
from tools import growth
from refnb.core.files import CANARY, write_jsonl
from refnb.core.runs import Run, RunInfo, open_run, questions_id
from refnb.core.settings import packaged
from refnb.core.types import Answer, CallError, DataError, Option, Question, Usage
from refnb.metrics.choice import accuracy, outcomes
from refnb.results.scores import compare, score
from refnb.results.pages.viewer import (
    ROOM,
    ROWS,
    Said,
    View,
    exact,
    named_run,
    page_of,
    run_questions,
    said,
    small_table,
    view,
    view_data,
    worth_reading,
)

DECENT = [t for t in NASTY if t and "\ud800" not in t]  # questions and answers are UTF-8
ABC = tuple(map(Option, ("Ann", "Bea", "Cy")))


def q(k: int, **change) -> Question:
    text = f"Ann met Bea on day {k % 2}. She smiled."
    known = dict(
        id=f"d{k % 2}:{k}",
        doc_key=f"d{k % 2}",
        text=text,
        chars=(text.index("She"), text.index("She") + 3),
        options=ABC,
        right=(1,),
        meta={
            "type": ("nominal", "pronominal")[k % 3 == 0],
            "n": k,
            "class": None if k % 4 else "she",
        },
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
    run = open_run(
        RunInfo(part, system, {"questions": questions_id(questions)}, **info), folder / "runs"
    )
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


# What is said

VERDICTS = [
    (Answer("a", (1,)), "right", 1, (1,)),
    (Answer("a", (0,)), "wrong", 0, (0,)),
    (Answer("a", (0, 1)), "wrong", 0, (0, 1)),
    (Answer("a", scores=(1.0, 2.0, 0.0)), "right", 1, (1,)),
    (Answer("a", scores=(2.0, 2.0, 0.0)), "tie", 1 / 2, (0, 1)),
    (Answer("a", scores=(2.0, 0.0, 2.0)), "wrong", 0, (0, 2)),
    (Answer("a", scores=(0.0, 0.0, 0.0)), "tie", 1 / 3, (0, 1, 2)),
    (Answer("a", scores=(0.0, 9.0, 0.0), reason="failed"), "failed", 0, ()),
    (Answer("a"), "wrong", 0, ()),
    (Answer("a", (2,), scores=(0.0, 9.0, 0.0)), "wrong", 0, (2,)),
    (Answer("a", scores=(-9.0, 0.0, -9.0)), "right", 1, (1,)),
]


@pytest.mark.parametrize("answer, verdict, credit, chosen", VERDICTS)
def test_the_verdict_is_one_word(answer, verdict, credit, chosen):
    got = said(q(0), answer, True)
    assert (got.verdict, got.credit, got.picked) == (verdict, credit, chosen)


@pytest.mark.parametrize(
    "reason", ["refused", "filtered", "cut", "unparsable", "outside", "failed"]
)
def test_a_reason_is_a_verdict(reason):
    assert said(q(0), Answer("a", reason=reason, raw="x"), True) == Said(reason, 0.0, raw="x")


def test_what_is_not_there_is_told_apart():
    assert said(q(0), None, True) == Said("missing", 0.0) and said(q(0), None, False) == Said(
        "open"
    )
    both, neither = q(0, right=(0, 1)), q(0, right=())
    assert [said(both, Answer("a", c), True).verdict for c in ((1, 0), (1,))] == ["right", "wrong"]
    assert [
        said(neither, a, True).verdict
        for a in (Answer("a"), Answer("a", (1,)), Answer("a", reason="cut"), None)
    ] == ["right", "wrong", "cut", "missing"]


def test_a_sealed_run(six):
    got = view_data(six)
    assert [x.said[0].verdict for x in got.questions] == [
        "right",
        "wrong",
        "tie",
        "refused",
        "wrong",
        "right",
    ]
    (r,) = got.runs
    assert (r.sealed, r.questions, r.answers, r.usd, r.unpriced, r.tokens) == (
        True,
        6,
        6,
        0.25,
        1,
        (20, 4),
    )
    assert r.accuracy == pytest.approx(
        score(outcomes(SIX, six.answers())).interval(), abs=1e-6
    ) and r.accuracy.value == round((1 + 0 + 1 / 2 + 0 + 0 + 1) / 6, 6)
    assert dict(r.about)["without choice"] == "refused 1" and got.difference is None
    assert [x.values for x in got.questions[:2]] == [
        ("d0", 3, "pronominal", 0, "she"),
        ("d1", 3, "nominal", 1, None),
    ]
    assert [(f.name, f.kind, f.own) for f in got.fields] == [
        ("document", "value", True),
        ("options", "number", True),
        ("type", "value", False),
        ("n", "number", False),
        ("class", "value", False),
    ]


def test_missing_answers_of_a_sealed_run_are_wrong_and_those_of_an_open_one_are_open(tmp_path):
    some = SIX_SAID[:3]
    sealed, going_on = (
        answered(tmp_path, answers=some),
        answered(tmp_path, answers=some, system="other", sealed=False),
    )
    a, b = view_data(sealed), view_data(going_on)
    assert (
        [x.said[0].verdict for x in a.questions[3:]] == ["missing"] * 3
        and a.runs[0].accuracy.value == 1.5 / 6
        and a.runs[0].answers == 3
    )
    assert (
        [x.said[0].verdict for x in b.questions[3:]] == ["open"] * 3
        and b.runs[0].accuracy.value == 1.5 / 3
        and not b.runs[0].sealed
    )
    nothing = answered(tmp_path, answers=[], system="third", sealed=False)
    assert (
        view_data(nothing).runs[0].accuracy.value is None
        and page_of(view_data(nothing))
        and "nothing to score yet" in small_table(view_data(nothing))
    )


def test_the_cost_is_known_in_part_or_not_at_all(tmp_path):
    of = lambda *usd: [Answer(x.id, (0,), usage=u and Usage(usd=u[0])) for x, u in zip(SIX, usd)]
    costs = [
        (of(None, None), (None, 0)),
        (of((0.0,), (None,)), (0.0, 1)),
        (of((None,), (None,)), (None, 2)),
        (of((0.1,), (0.2,)), (0.1 + 0.2, 0)),
    ]
    for k, (answers, want) in enumerate(costs):
        r = view_data(answered(tmp_path, answers=answers, system=f"s{k}")).runs[0]
        assert (r.usd, r.unpriced) == pytest.approx(want)


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_places_are_those_of_a_browser(before, mention, after):
    from refnb.results.pages.viewer import Texts

    texts, text = Texts(), before + mention + after
    assert texts.add(text) == texts.add("".join([before, mention, after])) == 0
    start, end = (texts.place(text, k) for k in (len(before), len(before + mention)))
    assert text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le") == mention


def test_a_text_stands_in_the_page_once(six):
    got = view_data(six)
    assert sorted(got.texts) == sorted({x.text for x in SIX}) and len(got.texts) == 2
    made = page_of(got)
    assert [made.count(json.dumps(t)) for t in got.texts] == [1, 1]


@pytest.mark.parametrize(
    "value, kept",
    [
        (1, 1),
        (-1.5, -1.5),
        (True, True),
        (None, None),
        ("x", "x"),
        (2**53, 2**53),
        (2**60, str(2**60)),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_what_javascript_cannot_hold_is_text(value, kept):
    got = exact(value)
    assert got == kept and type(got) is type(kept)


def test_fields_that_numbers_and_words_share_are_ticked(tmp_path):
    mixed = [q(k, meta={"a": v}) for k, v in enumerate([1, "1", True, None, 2.5, 2**60])]
    got = view_data(answered(tmp_path, mixed, []))
    assert got.fields[2].kind == "value" and [x.values[2] for x in got.questions] == [
        1,
        "1",
        True,
        None,
        2.5,
        str(2**60),
    ]
    assert (
        view_data(
            answered(tmp_path, [q(k, meta={"a": None}) for k in range(2)], [], part="toy/none")
        )
        .fields[2]
        .kind
        == "value"
    )


# Two runs


def test_two_runs_are_matched_by_id(tmp_path, six):
    others = [q(4, right=(0,)), q(3), q(2, id="d0:9"), q(0), q(1)]
    second = answered(
        tmp_path,
        others,
        [Answer("d0:0", (0,)), Answer("d1:1", (1,)), Answer("d1:3", (1,)), Answer("d0:4", (0,))],
        part="toy/other",
    )
    got = view_data(six, other=second)
    assert (got.only, got.unlike) == ((2, 1), 1)
    assert [[a.verdict for a in x.said] for x in got.questions] == [
        ["right", "wrong"],
        ["wrong", "right"],
        ["tie", "absent"],
        ["refused", "right"],
        ["wrong", "absent"],
        ["right", "absent"],
    ]
    common = [x for x in SIX if x.id in ("d0:0", "d1:1", "d1:3")]
    a, b = (
        outcomes(common, {k: v for k, v in r.answers().items() if k in {x.id for x in common}})
        for r in (six, second)
    )
    assert got.difference == pytest.approx(
        compare(a, b).difference, abs=1e-6
    ) and got.difference.value == round(1 / 3 - 2 / 3, 6)
    assert [x.id for x in worth_reading(got)] == ["d0:0", "d1:1", "d1:3"]


def test_a_run_that_goes_on_is_compared_on_what_both_answered(tmp_path, six):
    second = answered(
        tmp_path, answers=[Answer("d0:0", (0,)), Answer("d1:1", (0,))], system="slow", sealed=False
    )
    got = view_data(six, other=second)
    assert got.difference.n == 2 and got.difference.value == 1 / 2
    assert (
        view_data(
            six, other=answered(tmp_path, answers=[], system="slower", sealed=False)
        ).difference
        is None
    )


def test_runs_that_share_nothing_are_refused(tmp_path, six):
    with pytest.raises(
        DataError, match="toy/test and toy/other: the two runs have no question in common"
    ):
        view_data(six, other=answered(tmp_path, [q(8), q(0, right=(2,))], [], part="toy/other"))


def test_two_runs_of_one_system_have_two_names(tmp_path, six):
    again = answered(tmp_path, answers=[], settings={"temperature": 1}, sealed=False)
    got = view_data(six, other=again)
    assert got.runs[0].hash != got.runs[1].hash and got.runs[0].system == got.runs[1].system
    assert "temperature" in dict(got.runs[1].about)["settings"]


# Runs and questions that cannot be had


def test_a_run_is_named_by_its_folder_or_its_part_and_system(tmp_path, six, settings, monkeypatch):
    s = settings(runs=str(tmp_path / "runs"))
    later = answered(tmp_path, answers=[], settings={"x": 1}, sealed=False)
    for x in (
        six,
        six.folder,
        str(six.folder),
        "toy/test:reader",
        f"toy/test:reader@{six.folder.name[:5]}",
    ):
        assert named_run(x, s).folder == six.folder.resolve()
    assert named_run(f"toy/test:reader@{later.folder.name}", s).folder == later.folder.resolve()
    monkeypatch.chdir(six.folder)
    assert view_data(".").runs == view_data(six).runs, "from inside its folder too"
    for x, what in [
        ("toy/test:nobody", "there is no run of nobody on toy/test"),
        ("toy/test:reader@zz", "no run of reader@zz"),
        ("nowhere", "nowhere: is not a run"),
        ("x" * 5000, "is not a run"),
        ("a\0b", "is not a run"),
        ("toy/test:", "is not a run"),
        ("../..:..", "there is no run"),
    ]:
        with pytest.raises(DataError, match=re.escape(what)) as e:
            named_run(x, s)
        assert "\n" not in str(e.value)


def test_questions_that_are_not_here(tmp_path, six, settings):
    s = settings(runs=str(tmp_path / "runs"))
    lost = answered(tmp_path, part="toy/lost", answers=[], keep=False)
    with pytest.raises(
        DataError,
        match=r"toy/lost/questions.jsonl: the run's questions are not here; give them as questions=",
    ):
        view_data(lost, s=s)
    assert view_data(lost, SIX, s=s).questions == view_data(lost, iter(SIX), s=s).questions
    assert [x.id for x in view_data(lost, six.questions_path, s=s).questions] == [x.id for x in SIX]
    gone = answered(tmp_path, part="identifyme/fantasycoref/test", answers=[], keep=False)
    with pytest.raises(
        DataError, match="identifyme/fantasycoref/test: its files are not here; refnb fetch"
    ):
        view_data(gone, s=s)
    clusters = answered(tmp_path, part="sample/bookcoref", answers=[], keep=False)
    with pytest.raises(CallError, match="has documents, not questions"):
        view_data(clusters, s=s)


def test_questions_that_are_others_are_refused(tmp_path, six):
    for others in (SIX[:5], SIX[::-1], [q(0, right=(2,)), *SIX[1:]]):
        with pytest.raises(
            DataError, match="the run was made of questions .*; give the questions of this run"
        ):
            view_data(six, others)
    free = open_run(RunInfo("toy/free", "x", {}), tmp_path / "runs")
    with free.writing() as w:
        w.add(Answer("zz", (1,)))
    with pytest.raises(
        DataError, match="run x on toy/free: 1 answers belong to no question, one is zz"
    ):
        view_data(free, SIX)
    with pytest.raises(DataError, match="there are no questions"):
        view_data(free, [])
    assert run_questions(six) == SIX


def test_a_damaged_journal_is_told(six):
    six.journal.write_bytes(six.journal.read_bytes().replace(b'"chosen":[1]', b'"chosen":[2]'))
    with pytest.raises(DataError, match="has changed since the run was completed"):
        view_data(six)


def test_a_known_part_needs_no_file(settings):
    from refnb.models.running import run

    s = settings()
    got = view("sample/ferryman:random", s=s) if run("sample/ferryman", "random", s=s) else None
    assert got.data.runs[0].task == "sample/ferryman" and {
        x.said[0].verdict for x in got.data.questions
    } == {"tie"}


# The page as a file


class Parsed(HTMLParser):
    "Tags, attributes and comments."

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attrs, self.comments = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attrs += attrs

    def handle_comment(self, data):
        self.comments.append(data)


def data(text: str) -> dict:
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
    )


def hostile(folder, text: str, system: str = "reader", **change) -> Run:
    "A run that is made of a text."
    whole = f"{text} {text}{text}"
    one = Question(
        text,
        text,
        whole,
        (0, len(text)),
        (Option(text, text), Option(text)),
        (1,),
        {text: text, "__proto__": text, f"{text}n": 1},
    )
    return answered(
        folder,
        [one, q(0)],
        [Answer(text, (0,), scores=(1.0, 2.0), raw=text), Answer("d0:0", (1,))],
        system=system,
        settings={text: [text]},
        prompt=text,
        **change,
    )


def test_the_file_begins_with_the_canary_and_the_wish(six, tmp_path):
    text = view(six, out=tmp_path / "deep/page.html").page()
    assert (tmp_path / "deep/page.html").read_text(encoding="utf-8") == text
    assert text.startswith(f"<!-- {CANARY['canary']} {CANARY['wish']} -->\n<!DOCTYPE html>")
    assert (
        Parsed(text).comments == [f" {CANARY['canary']} {CANARY['wish']} "]
        and text.index("charset") < 1024
    )
    assert page_of(view_data(six)) == text, "the same on every run"


def test_nothing_is_loaded_from_anywhere(six):
    got = Parsed(page_of(view_data(six, other=six)))
    assert (
        set(got.tags) & {"img", "iframe", "object", "embed", "base", "audio", "video", "form"}
        == set()
    )
    assert [v for k, v in got.attrs if k in ("src", "href", "action", "srcset")] == ["data:,"]
    assert not [k for k, _ in got.attrs if k.startswith("on") or k == "style"], (
        "the policy would refuse them"
    )
    css, js = (packaged(f"data/viewer/page.{kind}").read_text() for kind in ("css", "js"))
    assert not re.search(r"url\(|@import|https?:", css)
    assert not re.search(
        r"https?:|fetch|XMLHttp|WebSocket|sendBeacon|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|import\(|localStorage",
        js,
    )


def test_the_policy_knows_the_style_and_the_script(six):
    text = page_of(view_data(six))
    policy = re.search('Content-Security-Policy" content="([^"]+)"', text)[1]
    for tag in ("style", "script"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        assert (
            f"{tag}-src 'sha256-{b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
            in policy
        )
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy


@pytest.mark.parametrize("text", DECENT)
def test_f53_nothing_of_the_data_becomes_markup(tmp_path, text):
    plain = Parsed(page_of(view_data(hostile(tmp_path, "plain"))))
    run = hostile(tmp_path, text, text)
    made = page_of(view_data(run))
    got = Parsed(made)
    assert (
        got.tags == plain.tags
        and [k for k, _ in got.attrs] == [k for k, _ in plain.attrs]
        and len(got.comments) == 1
    )
    told = data(made)
    first = told["questions"][0]
    assert (
        first["id"]
        == first["doc"]
        == first["said"][0]["raw"]
        == first["options"][0]["name"]
        == first["options"][0]["description"]
        == text
    )
    assert (
        told["texts"][0] == f"{text} {text}{text}"
        and told["runs"][0]["system"] == text
        and dict(told["runs"][0]["about"])["prompt"] == text
    )
    assert {f["name"] for f in told["fields"]} >= {text, "__proto__", f"{text}n"} and first[
        "values"
    ].count(text) >= 3


@pytest.mark.parametrize("text", DECENT)
def test_f53_the_table_of_a_notebook(tmp_path, text):
    run = hostile(tmp_path, text, text)
    for v in (view(run), view(run, answered(tmp_path, list(run_questions(run)), [], system="two"))):
        shown = v._repr_html_()
        got = Parsed(shown)
        assert (
            set(got.tags)
            <= {
                "p",
                "b",
                "i",
                "code",
                "table",
                "thead",
                "tbody",
                "tr",
                "th",
                "td",
                "details",
                "summary",
                "mark",
            }
            and {k for k, _ in got.attrs} <= {"style"}
            and not got.comments
        )
        assert (
            len(shown) < ROOM
            and "\x00" not in shown
            and "\x1b" not in shown
            and "\u202e" not in shown
            and repr(v).isprintable()
        )
    framed = Parsed(v.frame()._repr_html_())
    assert (
        framed.tags == ["iframe"]
        and dict(framed.attrs)["srcdoc"] == v.page()
        and dict(framed.attrs)["sandbox"] == "allow-scripts"
    )


@pytest.mark.parametrize("worst", ["<&'\"" * 2000, "\U0001f600" * 3000, "w" * 9000])
def test_the_table_of_a_notebook_is_small_whatever_the_data(tmp_path, worst):
    many = [
        Question(
            f"{k}{worst}",
            worst,
            worst * 5,
            (4000, 8000),
            tuple(Option(worst, worst) for _ in range(60)),
            (1,),
            {worst: worst},
        )
        for k in range(50)
    ]
    runs = [
        answered(
            tmp_path, many, [Answer(x.id, (c,), raw=worst) for x in many], system=f"{c}{worst[:9]}"
        )
        for c in (2, 3)
    ]
    for v in (view(runs[0]), view(*runs)):
        assert 1000 < len(v._repr_html_()) < ROOM


def test_the_table_of_a_notebook_has_what_is_worth_reading(tmp_path):
    many = [q(k) for k in range(60)]
    v = view(answered(tmp_path, many, [Answer(x.id, (k % 2,)) for k, x in enumerate(many)]))
    shown = v._repr_html_()
    assert (
        shown.count("<tr>") == 1 + ROWS
        and f"{ROWS} of 30 questions that are not right" in shown
        and "<mark><b>She</b></mark>" in shown
    )
    whole = view(answered(tmp_path, many, [Answer(x.id, (1,)) for x in many], system="all"))
    assert (
        "0 of 0 questions" in whole._repr_html_()
        and repr(whole) == "View('all on toy/test', 60 questions)"
    )


def test_f52_nothing_of_the_environment_is_in_the_page(six, monkeypatch):
    monkeypatch.setenv("SOME_VENDOR_API_KEY", "correct horse battery")
    made = view(six, six)
    for shown in (made.page(), made._repr_html_()):
        assert not [k for k, v in os.environ.items() if len(v) > 11 and v in shown], (
            "names and values of this machine"
        )
        assert str(six.folder.parent) not in shown


@pytest.mark.parametrize(
    "where",
    [
        dict(settings={"headers": {"x-api-key": "correct <horse> battery"}}),
        dict(prompt="say correct <horse> battery"),
        dict(system="correct <horse> battery"),
    ],
)
def test_f52_a_key_is_refused_wherever_it_is(tmp_path, monkeypatch, where):
    run = answered(tmp_path, answers=[], **where)
    assert view(run, out=tmp_path / "before.html")
    monkeypatch.setenv("SOME_VENDOR_API_KEY", "correct <horse> battery")
    with pytest.raises(
        DataError, match="the run holds the value of the environment variable SOME_VENDOR_API_KEY"
    ) as e:
        view(run, out=tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists() and "horse" not in str(e.value)
    with pytest.raises(DataError):
        view(run).frame()
    if "system" in where:
        with pytest.raises(DataError):
            view(run)._repr_html_()


def test_a_file_that_cannot_be_written_is_one_line(six, tmp_path):
    with pytest.raises(DataError) as e:
        view(six, out=tmp_path)
    assert "\n" not in str(e.value) and str(tmp_path) in str(e.value)


def _light(color: str) -> float:
    "Relative luminance, as WCAG has it."
    r, g, b = (
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
        for c in (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    return (max(map(_light, (a, b))) + 0.05) / (min(map(_light, (a, b))) + 0.05)


def test_letters_stand_out_in_both_looks():
    css = packaged("data/viewer/page.css").read_text()
    looks = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", css, re.S)
    ]
    assert len(looks) == 2 and looks[0].keys() == looks[1].keys()
    for v in looks:
        pairs = [
            (a, b)
            for a in ("ink", "soft", "main", "good", "bad")
            for b in ("card", "page", "chosen")
        ] + [("ink", "mark"), ("ink", "notice"), ("ink", "bar")]
        assert min(contrast(v[a], v[b]) for a, b in pairs) >= 4.5
        assert min(contrast(v["line"], v[b]) for b in ("card", "page")) >= 3, (
            "the edges of what can be pressed"
        )


# 1,200 questions of 2,000 words


def library(
    folder, n: int = 1200, documents: int = 149, words: int = 2000
) -> tuple[list[Question], list[Run]]:
    "A part as large as IdentifyMe's, of made-up words, and two runs on it."
    rng = random.Random(7)
    known = ["".join(rng.choices("abcdefghilmnoprstu", k=rng.randint(2, 9))) for _ in range(4000)]
    texts, questions = [" ".join(rng.choices(known, k=words)) for _ in range(documents)], []
    for k in range(n):
        text = texts[k % documents]
        start = text.index(" ", rng.randrange(len(text) - 200)) + 1
        options = tuple(
            Option(f"{a.title()} {b.title()}")
            for a, b in zip(rng.sample(known, 9), rng.sample(known, 9))
        )
        meta = {
            "type": rng.choice(["nominal", "pronominal"]),
            "class": rng.choice(["he", "she", None]),
            "nested": rng.random() < 0.3,
            "position": round(rng.random(), 3),
            "size": rng.randint(1, 90),
        }
        questions.append(
            Question(
                f"d{k % documents}:{k}",
                f"d{k % documents}",
                text,
                (start, text.index(" ", start)),
                options,
                (rng.randrange(9),),
                meta,
            )
        )

    def reply(x: Question) -> Answer:
        usage, luck = (
            Usage(2700, rng.randint(9, 90), rng.random() / 100, rng.random()),
            rng.random(),
        )
        if luck < 0.03:
            return Answer(
                x.id, reason="refused", raw="I'm sorry, I cannot help with that.", usage=usage
            )
        c = x.right[0] if luck < 0.6 else rng.randrange(9)
        return Answer(
            x.id,
            (c,),
            raw=f"It means {x.options[c].name}, for {' '.join(rng.choices(known, k=40))}.",
            usage=usage,
        )

    return questions, [
        answered(folder, questions, [reply(x) for x in questions], system=s, part="library/test")
        for s in ("early", "late")
    ]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return library(tmp_path_factory.mktemp("library"))


def test_a_large_page_is_quickly_made_and_of_a_few_megabytes(shelf):
    questions, (early, late) = shelf
    texts = sum(len(t) for t in {x.text for x in questions})
    text, both = page_of(view_data(early, questions)), page_of(view_data(early, questions, late))
    assert texts < len(text) < texts + 2_000_000 < 5_000_000 and len(both) < len(text) + 1_000_000


def test_the_work_of_a_page_grows_no_faster_than_its_questions(tmp_path):
    small, large = (library(tmp_path / str(n), n, n // 8, 200) for n in (80, 320))
    alone = lambda part: page_of(view_data(part[1][0], part[0]))
    beside = lambda part: page_of(view_data(part[1][0], part[0], part[1][1]))
    assert growth(alone, small, large) < 5 and growth(beside, small, large) < 5


def test_f44_a_book_is_one_text_of_many_questions(tmp_path):
    def asked(sentences: int):
        book = "He saw her there. " * sentences + "\U0001f600 end"
        questions = [
            Question(f"b:{k}", "b", book, (18 * k, 18 * k + 2), ABC, (0,)) for k in range(300)
        ]
        run = answered(
            tmp_path / str(sentences),
            questions,
            [Answer(x.id, (0,)) for x in questions],
            keep=False,
        )
        return book, run, questions

    chapter, novel = asked(500), asked(50_000)
    got = view_data(novel[1], novel[2])
    assert len(got.texts) == 1 and len(page_of(got)) < len(novel[0]) + 300_000
    assert growth(lambda part: page_of(view_data(*part[1:])), chapter, novel) < 1.5


# In a browser


class Reader:
    "Who looks at the page."

    def __init__(self, tab: Tab, folder):
        self.tab, self.folder = tab, folder
        self.js, self.wait, self.press = tab.js, tab.wait, tab.press
        tab.call("Page.bringToFront")

    def open(self, what: View | str, where: str = ""):
        (self.folder / "page.html").write_text(
            what if isinstance(what, str) else what.page(), encoding="utf-8", newline=""
        )
        self.tab.open(f"{self.folder}/page"[1:], where)

    def text(self, what: str) -> str:
        return self.js(
            f"document.querySelector({json.dumps(what)})?.innerText.replaceAll('\\u00a0', ' ')"
        )

    def id(self) -> str:
        return self.js("document.querySelector('#question h2')?.textContent")

    def count(self) -> str:
        return self.text("#count")

    def shown(self) -> list[str]:
        return self.js("shown.map(q => q.id)")

    def tick(self, label: str, inside: str = "#filters"):
        self.js(
            f"[...document.querySelectorAll({json.dumps(inside + ' label.tick')})].find(e => e.innerText.includes({json.dumps(label)})).click()"
        )

    def search(self, text: str):
        self.js(
            f"(s => {{ s.value = {json.dumps(text)}; s.dispatchEvent(new Event('input', {{bubbles: true}})) }})(document.querySelector('#search'))"
        )

    def set(self, id: str, value, event: str = "change"):
        self.js(
            f"(s => {{ s.value = {json.dumps(value)}; s.dispatchEvent(new Event('{event}', {{bubbles: true}})) }})(document.getElementById('{id}'))"
        )

    def by(self, field: str):
        self.set("by", self.js(f"fields.findIndex(f => f.name == {json.dumps(field)})"))

    def rows(self) -> dict:
        return {
            r[0].strip(): r[1:]
            for r in self.js(
                "[...document.querySelectorAll('#values tbody tr')].map(r => [...r.cells].map(c => c.innerText.replaceAll('\\u00a0', ' ').trim()))"
            )
        }


@pytest.fixture
def reader(port, tmp_path):  # noqa: F811
    "A page; when the test is over, it has asked nobody, and said no error."
    tab = Tab(port, "file://")
    yield Reader(tab, tmp_path)
    try:
        asked = tab.requests()
        assert asked, "no request was seen"
        assert not [
            u for u in asked if not u.startswith((f"file://{tmp_path}/", "data:", "about:"))
        ]
        assert not tab.errors()
    finally:
        tab.close()


def test_a_question_is_shown_whole(reader, six):
    reader.open(view(six))
    assert (
        reader.id() == "d0:0"
        and reader.count() == "6 of 6 questions, 41.7 % right"
        and reader.js("document.compatMode") == "CSS1Compat"
    )
    assert (
        "reader" in reader.text("#runs")
        and "sealed" in reader.text("#runs")
        and "accuracy 41.7 %" in reader.text("#runs")
    )
    assert (
        "cost at least $0.25, 1 answer of unknown price, 20 tokens read, 4 written"
        in reader.text("#runs")
    )
    assert (
        reader.js("document.querySelector('.passage').textContent")
        == "Ann met Bea on day 0. marked mention: She smiled."
    )
    shown = reader.text("#question")
    for told in (
        "document d0",
        "right is · Bea",
        "✓ right · Bea",
        "The reply: Bea.",
        "$0.25, 10 tokens read, 2 written, 1.5 s",
        "● chosen",
        "pronominal",
    ):
        assert told in shown, told
    reader.press("j", "j")
    assert "≈ a share of a tie: 0.5 · Ann, Bea" in reader.text(
        "#question"
    ) and "● best, tied" in reader.text("#question")
    assert reader.js(
        "[...document.querySelectorAll('.options .meter > span')].map(e => e.style.width)"
    ) == ["100%", "100%", "50%"]
    reader.press("j")
    assert "– no choice: refused" in reader.text("#question") and "I can't." in reader.text(
        "#question"
    )
    reader.js("document.querySelector('#about').open = true")
    assert six.folder.name in reader.text("#about") and "builder 1, system 1" in reader.text(
        "#about"
    )


def test_filters_by_verdict_and_field_and_the_table_of_accuracy(reader, six):
    reader.open(view(six))
    assert reader.rows() == {"nominal": ["4", "37.5 %"], "pronominal": ["2", "50.0 %"]}
    assert accuracy(outcomes(SIX, six.answers()), "type").to_dict() == {
        "nominal": 1.5 / 4,
        "pronominal": 1 / 2,
    }
    reader.tick("wrong")
    assert (
        reader.shown() == ["d1:1", "d0:4"]
        and reader.rows() == {"nominal": ["2", "0.0 %"]}
        and reader.id() == "d1:1"
    )
    reader.tick("refused")
    assert reader.shown() == ["d1:1", "d1:3", "d0:4"] and "wrong or refused" in reader.text("#set")
    reader.tick("pronominal", "#values")
    assert reader.shown() == ["d1:3"] and reader.rows() == {
        "nominal": ["2", "0.0 %"],
        "pronominal": ["1", "0.0 %"],
    }, "what is not ticked can still be"
    reader.js("document.querySelectorAll('.chip')[0].click()")
    assert reader.shown() == ["d0:0", "d1:3"] and not reader.js(
        "document.querySelector('#verdicts :checked')"
    )
    reader.by("class")
    assert reader.rows() == {"she": ["1", "100.0 %"], "no value": ["1", "0.0 %"]}
    reader.tick("no value", "#values")
    assert reader.shown() == ["d1:3"] and reader.count() == "1 of 6 questions, 0.0 % right"


def test_a_number_is_filtered_by_a_range(reader, tmp_path):
    many = [q(k) for k in range(60)]
    reader.open(
        view(answered(tmp_path, many, [Answer(x.id, (k % 2,)) for k, x in enumerate(many)]))
    )
    reader.by("n")
    assert reader.rows() == {f"{12 * k} to {12 * k + 11}": ["12", "50.0 %"] for k in range(5)}
    reader.tick("12 to 23", "#values")
    assert reader.shown() == [x.id for x in many[12:24]] and reader.js(
        "[low.value, high.value]"
    ) == ["12", "23"]
    reader.set("high", "13.5", "input")
    assert reader.shown() == [x.id for x in many[12:14]]
    reader.set("low", "", "input")
    assert reader.shown() == [x.id for x in many[:14]] and "n: up to 13.5" in reader.text("#set")
    reader.js("document.querySelectorAll('#values thead button')[1].click()")
    assert reader.js(
        "document.querySelector('#values [aria-sort=descending]').innerText"
    ).startswith("count")


def test_search(reader, tmp_path):
    texts = [
        q(0, text="Ann met Bea. She smiled at Züri.", chars=(13, 16)),
        q(1),
        q(2, text="", chars=None),
        q(3),
    ]
    reader.open(
        view(
            answered(
                tmp_path,
                texts,
                [
                    Answer("d0:0", (1,), raw="Surely [Bea] (99%)"),
                    Answer("d1:1", (1,), raw="bea surely"),
                    Answer("d1:3", (2,), raw="Cy"),
                ],
            )
        )
    )
    for said_, found in [
        ("d1:", ["d1:1", "d1:3"]),
        ("SURELY bea", ["d0:0", "d1:1"]),
        ('"surely [bea]"', ["d0:0"]),
        ("zzz", []),
        ("", [x.id for x in texts]),
        ("(99%)", ["d0:0"]),
        ("züri", []),
        ('"', [x.id for x in texts]),
    ]:
        reader.search(said_)
        assert reader.shown() == found, said_
    assert reader.js("document.querySelector('#whole-texts').checked") is False
    reader.tick("in the texts too")
    for said_, found in [
        ("züri", ["d0:0"]),
        ("züri bea", ["d0:0"]),
        ("ZÜRI cy", ["d0:0"]),
        ('"day 1"', ["d1:1", "d1:3"]),
        ("bea day surely", ["d1:1"]),
    ]:
        reader.search(said_)
        assert reader.shown() == found, said_
    reader.search("zzz")
    assert (
        reader.text("#question") == "No question matches all filters."
        and reader.count() == "0 of 4 questions, – right"
        and not reader.rows()
    )
    reader.search("smiled")
    assert reader.js("[...CSS.highlights.get('found')].map(r => r.toString())") == ["smiled"], (
        "and it is marked where it stands"
    )


def test_the_keyboard_is_enough(reader, six):
    reader.open(view(six))
    reader.press("j", "j", "k")
    assert reader.id() == "d1:1"
    reader.press("/", "r", "e", "f")
    assert reader.js("search.value") == "ref" and reader.js("document.activeElement.id") == "search"
    reader.search("ea")  # what stood there matched nothing
    reader.press("Enter")
    assert reader.js("document.activeElement.id") == "list" and reader.id() == "d0:0"
    for key, id_ in [
        ("Home", "d0:0"),
        ("ArrowDown", "d1:1"),
        ("End", "d1:5"),
        ("ArrowUp", "d0:4"),
        ("j", "d1:5"),
        ("j", "d1:5"),
        ("k", "d0:4"),
    ]:
        reader.press(key)
        assert reader.id() == id_, key
    assert (
        reader.js(
            "document.getElementById(at('list').getAttribute('aria-activedescendant')).getAttribute('aria-selected')"
        )
        == "true"
    )
    reader.press("/", "Escape")
    assert reader.js("search.value") == "" and reader.js("document.activeElement.id") == "list"
    seen = []
    for _ in range(40):
        reader.press("Tab")
        seen.append(
            reader.js(
                "document.activeElement.id || document.activeElement.parentElement?.innerText || ''"
            )
        )
    assert (
        {"list", "question", "search", "by", "whole-texts", "Next", "Previous"} <= set(seen)
        and any("wrong" in x for x in seen)
        and any("nominal" in x for x in seen)
    )


def test_a_filter_by_keyboard_keeps_its_place(reader, six):
    reader.open(view(six))
    reader.js("document.querySelector('#values tbody input').focus()")
    reader.press(" ")
    assert reader.shown() == ["d1:1", "d0:2", "d0:4", "d1:5"] and reader.js(
        "document.activeElement.checked && document.activeElement.closest('#values') != null"
    )
    reader.press(" ")
    assert len(reader.shown()) == 6
    reader.js("choose(shown[0]); document.querySelector('#Next').focus()")
    reader.press("Enter", "Enter", "Enter", "Enter")
    assert reader.js("document.activeElement.id") == "Next"
    reader.press("Enter")
    assert reader.id() == "d1:5" and reader.js("document.activeElement.id") == "question", (
        "there is no next one"
    )


def test_a_link_opens_a_question(reader, tmp_path, six):
    reader.open(view(six), "#id=d0%3A4")
    assert (
        reader.id() == "d0:4"
        and reader.js("document.querySelector('#question h2 a').getAttribute('href')")
        == "#id=d0%3A4"
    )
    assert reader.js("document.querySelector('.row[aria-selected=true]').id") == "row4"
    reader.press("j")
    reader.wait("location.hash == '#id=d1%3A5'")
    reader.tick("refused")
    assert reader.id() == "d1:3"
    reader.js("location.hash = '#id=d0%3A0'")
    reader.wait("document.querySelector('#question h2').textContent == 'd0:0'")
    assert len(reader.shown()) == 6 and not reader.js(
        "document.querySelector('#verdicts :checked')"
    ), "it would be hidden, so filters are cleared"
    reader.js("location.hash = '#id=nobody%3Cb%3E'")
    reader.wait("!notice.hidden")
    assert (
        reader.text("#notice") == "There is no question nobody<b> here." and reader.id() == "d0:0"
    )
    reader.js("location.hash = '#id=%'")
    reader.wait("notice.innerText.includes('question %')")


def test_two_runs_side_by_side(reader, tmp_path, six):
    second = answered(
        tmp_path,
        [*SIX[:5], q(8)],
        [
            Answer("d0:0", (0,), raw="Ann!"),
            Answer("d1:1", (0,)),
            Answer("d0:2", (1,)),
            Answer("d1:3", (1,)),
            Answer("d0:4", (1,)),
        ],
        system="rival",
        part="toy/other",
        sealed=False,
    )
    reader.open(view(six, second))
    assert reader.count() == "6 of 6 questions, 41.7 % and 60.0 % right (of 5 answered)"
    told = reader.text("header")
    assert all(
        t in told
        for t in (
            "reader on toy/test",
            "rival on toy/other",
            "open, 1 of 6 questions not answered yet",
            "1 question only of the first",
            "1 question only of the second",
            "on 5 questions that both answered",
        )
    )
    for which, want in [
        ("first", ["d0:0"]),
        ("second", ["d0:2", "d1:3", "d0:4"]),
        ("right", []),
        ("wrong", ["d1:1"]),
        ("differ", ["d0:0", "d0:2", "d1:3", "d0:4"]),
        ("all", [x.id for x in SIX]),
    ]:
        reader.set("pair", which)
        assert reader.shown() == want, which
    assert reader.rows() == {
        "nominal": ["4", "37.5 %", "66.7 %"],
        "pronominal": ["2", "50.0 %", "50.0 %"],
    }
    reader.js("choose(shown[0])")
    shown = reader.text("#question")
    assert (
        "first: reader" in shown
        and "second: rival" in shown
        and "The reply: Bea." in shown
        and "Ann!" in shown
    )
    assert reader.js(
        "[...document.querySelectorAll('.options tbody tr')].map(r => [...r.cells].slice(2).map(c => c.innerText.trim()))"
    ) == [["", "● chosen"], ["● chosen", ""], ["", ""]]
    reader.js("choose(shown[5])")
    assert "not asked" in reader.text("#question")
    reader.tick("not asked")
    assert reader.shown() == ["d1:5"]


def test_the_whole_text_on_demand(reader, tmp_path):
    long = q(0, text="alpha " * 400 + "She" + " omega" * 400, chars=(2400, 2403))
    none = q(1, text="", chars=None)
    reader.open(view(answered(tmp_path, [long, none, q(2)], [])))
    assert (
        reader.text(".passage").startswith("… alpha")
        and reader.text(".passage").endswith("omega …")
        and len(reader.text(".passage")) < 1000
    )
    reader.press("a")
    assert (
        reader.js("document.querySelector('.passage').textContent.length")
        == len(long.text) + len("marked mention: ")
        and reader.text("#whole") == "Show less"
    )
    assert reader.js(
        "(r => r.top >= 0 && r.bottom <= innerHeight)(mark.getBoundingClientRect())"
    ), "the mark is in sight"
    assert reader.js("document.documentElement.scrollHeight <= innerHeight && scrollY == 0"), (
        "the columns scroll, the page does not"
    )
    reader.js("document.querySelector('#whole').click()")
    assert (
        len(reader.text(".passage")) < 1000
        and reader.js("document.querySelector('#whole').getAttribute('aria-pressed')") == "false"
    )
    reader.press("j")
    assert "The release has no text for this question." in reader.text(
        "#question"
    ) and not reader.js("document.querySelector('#whole')")
    reader.press("j")
    assert not reader.js("document.querySelector('#whole')"), "there is no more to show"


def test_1200_questions_stay_fluid(reader, shelf):
    questions, (early, late) = shelf
    reader.tab.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="window.long = []; new PerformanceObserver(l => long.push(...l.getEntries().map(e => e.duration))).observe({type: 'longtask', buffered: true})",
    )
    reader.open(view(early, late, questions=questions))
    ready = reader.js("performance.getEntriesByType('navigation')[0].domComplete")
    timed = lambda code: reader.js(
        f"(() => {{ const start = performance.now(); {code}; document.body.offsetHeight; return performance.now() - start }})()"
    )
    acts = {
        "first search": "search.value = 'because'; seek()",
        "search": "search.value = 'a e'; seek()",
        "first in texts": "document.querySelector('#whole-texts').checked = true; seek()",
        "in texts": "search.value = 'ab ca'; seek()",
        "clear": "clear()",
        "tick": "state.verdicts[0].add('wrong'); refresh()",
        "differ": "state.pair = 'differ'; refresh()",
        "next": "clear(); move(1)",
        "all": "whole()",
    }
    took = {name: timed(code) for name, code in acts.items()}
    reader.js("clear(); long.length = 0; at('list').focus()")
    for _ in range(30):
        reader.press("j")
    reader.js(
        "new Promise(done => { let k = 0; const step = () => { at('list').scrollTop += 2000; ++k < 40 ? requestAnimationFrame(step) : done() }; step() })"
    )
    assert reader.js("rows.children.length") < 60, "only what is in sight exists"
    longest = max(reader.js("long"), default=0)
    print(
        f"ready {ready:.0f} ms",
        {k: round(v) for k, v in took.items()},
        f"longest task while going on and scrolling {longest:.0f} ms",
    )
    assert ready < 3000 and max(took.values()) < 400 and longest < 400, (ready, took, longest)
    reader.press("End")
    assert reader.id() == questions[-1].id


def test_f44_a_book_in_a_browser(reader, tmp_path):
    book = "He saw her there. " * 200_000
    questions = [
        Question(f"b:{k}", "b", book, (18 * k, 18 * k + 2), ABC, (0,))
        for k in (0, 100_000, 199_999)
    ]
    run = answered(tmp_path, questions, [], keep=False)
    reader.open(view(run, questions=questions))
    for _ in range(3):
        took = reader.js(
            "(() => { const start = performance.now(); whole(); document.body.offsetHeight; whole(); return performance.now() - start })()"
        )
        assert took < 5000
        reader.press("j")
    reader.press("a")
    assert "characters are not shown" in reader.text("#question") and reader.text("#mark").endswith(
        "He"
    )


def test_f53_hostile_texts_are_texts(reader, tmp_path):
    odd = [*DECENT, "__proto__", "constructor", "\u2028\u2029", "</script><!--<script>"]
    questions = [
        Question(
            f"{k}{t}",
            t,
            f"{t} {t}",
            (0, len(t)),
            (Option(t, t), Option(t)),
            (0,),
            {"kind": t, t: t, "hasOwnProperty": k},
        )
        for k, t in enumerate(odd)
    ]
    runs = [
        answered(
            tmp_path,
            questions,
            [Answer(x.id, (c,), scores=(1.0, -1.0), raw=x.doc_key) for x in questions],
            system="".join(odd[:9])[:60] + str(c),
            prompt="".join(odd),
            settings={t: t for t in odd},
        )
        for c in (0, 1)
    ]
    reader.open(view(*runs))
    elements = "[...new Set([...document.querySelectorAll('body *')].map(e => e.localName))].sort().join(' ')"
    known = reader.js(elements)
    assert not set(known.split()) & {"img", "iframe", "object", "a b"} and "script" in known
    reader.js("at('about').open = true")
    for x in questions:
        reader.js(f"choose(byId.get({json.dumps(x.id)}))")
        whole, passage = (
            f"marked mention: {x.text}",
            reader.js("document.querySelector('.passage').textContent").removesuffix(" …"),
        )
        assert (
            reader.id() == x.id
            and whole.startswith(passage)
            and len(passage) >= min(len(whole), x.chars[1] + 300)
        )
        assert (
            reader.js(
                "[...document.querySelectorAll('.options tbody th bdi')].map(e => e.textContent)"
            )
            == [x.doc_key] * 2
        )
        assert (
            reader.js("[...document.querySelectorAll('#question pre')].map(e => e.textContent)")
            == [x.doc_key] * 2
        )
        assert set(reader.js(elements).split()) <= set(known.split()) | {
            "small",
            "pre",
            "dl",
        } and reader.js("document.documentElement.scrollWidth <= innerWidth")
    for i in range(len(odd) + 2):
        reader.set("by", i)
        reader.js("document.querySelector('#values input')?.click()")
        assert set(reader.js(elements).split()) <= set(known.split()) | {"small", "pre", "dl"}
        reader.js("clear()")
    for t in odd[:12]:
        reader.search(t)
    assert reader.js("document.title") and reader.js("typeof alert") == "function"


def test_the_policy_stops_every_request(port, six, tmp_path):  # noqa: F811
    tab = Tab(port, "file://")
    try:
        with Tree(tmp_path) as tree:
            r = Reader(tab, tmp_path)
            r.open(view(six))
            nothing_leaves(r.js, tab, tree)
    finally:
        tab.close()


def test_a_frame_in_a_notebook(reader, six):
    reader.open(
        f"<!DOCTYPE html><meta charset='utf-8'><body>{view(six).frame(500)._repr_html_()}</body>"
    )
    assert reader.js("document.querySelector('iframe').contentDocument === null"), (
        "shut off from the notebook"
    )
    inner = Inner(reader.tab)
    try:
        inner.wait("document.querySelector('#question h2')?.textContent == 'd0:0'")
        assert inner.js("origin") == "null" and inner.js(
            "document.querySelector('#question h2 a') === null"
        ), "an address leads nowhere there"
        inner.js("move(2)")
        inner.wait("document.querySelector('#question h2').textContent == 'd0:2'")
        assert not inner.errors() and not inner.requests()
    finally:
        inner.socket.close()


def test_names_and_roles(reader, six):
    reader.open(view(six, six))
    nodes = [
        (n["role"]["value"], n["name"]["value"])
        for n in reader.tab.call("Accessibility.getFullAXTree")["nodes"]
        if "role" in n and n.get("name", {}).get("value")
    ]
    names = lambda role: [name for r, name in nodes if r == role]
    assert (
        {"Search", "Accuracy by", "Both runs"} <= {*names("searchbox"), *names("combobox")}
        and "Questions" in names("listbox")
        and "Question" in names("article")
    )
    assert len(names("option")) >= 6 and any(
        n.startswith("✓ ✓ right, right She") or n.startswith("✓✓right, right She")
        for n in names("option")
    ), names("option")
    assert {"first run", "second run"} <= set(names("group")) and "marked mention:" in [
        n.strip() for n in names("StaticText")
    ]
    assert reader.js(
        "[...document.querySelectorAll('#list [role=option]')].map(e => [e.getAttribute('aria-posinset'), e.getAttribute('aria-setsize')].join('/'))"
    ) == [f"{k}/6" for k in range(1, 7)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_looks(reader, six, scheme):
    reader.tab.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    reader.open(view(six, six))
    style = "(s => [s.backgroundColor, s.borderTopStyle, s.fontWeight])(getComputedStyle(mark))"
    assert reader.js(style) == [
        "rgb(255, 224, 138)" if scheme == "light" else "rgb(107, 82, 0)",
        "solid",
        "700",
    ], "coloured, and boxed"
    reader.tab.phone()
    reader.js(
        "document.querySelector('#filters').open = true; document.querySelector('#about').open = true"
    )
    for _ in range(6):
        reader.press("j")
        assert reader.js("document.documentElement.scrollWidth") <= 390
    for width in (320, 700, 900, 1280):
        reader.tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=700,
            deviceScaleFactor=1,
            mobile=False,
        )
        assert (
            reader.js("document.documentElement.scrollWidth") <= width
            and reader.js("at('list').clientHeight") > 60
        ), width
