"The audit of IdentifyMe (F46): every flag fires on a planted defect and not beside it; splits that share."

import re
import pandas as pd
import pytest
from refnb.benchmarks.identifyme.builder import NONE, build_identifyme
from refnb.benchmarks.identifyme.audit import (
    FLAGS,
    audit,
    audit_built,
    audit_table,
    _bare,
    _content,
    flagged,
    _head_of,
    overlap,
    removed_names,
)
from refnb.core.corpora import load
from refnb.core.documents import Document
from refnb.core.settings import load_settings
from refnb.core.types import CallError, Option, Question, Span
from tools import growth

TALE = "Ann met Bea by the old mill . She smiled ."


def question(
    mention: str = "She",
    names=("Ann", "Bea"),
    right: int = 0,
    text: str = TALE,
    id: str = "tale:1",
    **meta,
) -> Question:
    "A question about the first place of some words."
    at = f" {text} ".find(f" {mention} ")
    return Question(
        id,
        id.split(":")[0],
        text,
        (at, at + len(mention)) if text else None,
        tuple(map(Option, [*names, NONE])),
        (right,),
        meta,
    )


def flags_of(q: Question, **how) -> set[str]:
    "The flags of one question."
    row = audit([q], **how).iloc[0]
    return {f for f in FLAGS if f in row and row[f] is not pd.NA and bool(row[f])}


def document(text: str, names: list[str], key: str = "tale") -> Document:
    "A document from text in which `(0` opens a mention of entity 0 and `0)` closes it."
    words, open_, clusters = [], {}, [[] for _ in names]
    for w in text.split():
        if m := re.fullmatch(r"\((\d)", w):
            open_.setdefault(m[1], []).append(len(words))
        elif m := re.fullmatch(r"(\d)\)", w):
            clusters[int(m[1])].append(Span(open_[m[1]].pop(), len(words) - 1))
        else:
            words.append(w)
    return Document(key, (tuple(words),), tuple(map(tuple, clusters)), tuple(names))


def built_flags(text: str, names: list[str], mention: str, **how) -> set[str]:
    "The flags of the last question about these words, in a benchmark built from one tale."
    built = build_identifyme(
        [document(text, names)], min_tokens=0, max_others=1.0, hard=False, test=450, none_share=0.0
    )
    df = audit_built(built, **how)
    q = max(
        (q for q in built.questions() if q.text[slice(*q.chars)] == mention), key=lambda q: q.chars
    )
    row = df[df.id == q.id].iloc[0]
    return {f for f in FLAGS if row[f] is not pd.NA and bool(row[f])}


# Flags that a question alone shows

PLANTED = {  # flag -> (a question that has it, one that has not)
    "doubled_option": (
        question(names=["Ann", "Bea", "Bea"]),
        question(names=["Ann", "Bea", "bea"]),
    ),
    "right_doubled": (question(names=["Ann", "Ann", "Bea"]), question(names=["Ann", "Bea", "Bea"])),
    "twin_options": (
        question(names=["The Queen", "queen", "Bea"]),
        question(names=["The Queen", "The Queen", "Bea"]),
    ),
    "close_options": (
        question(names=["Mr. Otto Pask", "Mrs. Otto Pask"]),
        question(names=["Otto Pask", "Ida Veen"]),
    ),
    "part_options": (
        question(names=["Narrator", "The Narrator's Mother"]),
        question(names=["Narrator", "The Miller's Mother"]),
    ),
    "right_alike": (
        question(names=["The King", "King Otto", "Bea"]),
        question(names=["The King", "King Otto", "Bea"], right=2),
    ),
    "few_options": (question(names=["Ann"]), question()),
    "answer_beside": (question(), question(names=["Cat", "Bea"])),
    "answer_alone": (question(names=["Bea", "Cat"]), question()),
    "answer_inside": (
        question("the old mill", names=["The Mill", "Bea"]),
        question("the old mill", names=["The Mill Wheel", "Bea"]),
    ),
    "mention_is_option": (
        question("the old mill", names=["Old Mill", "Bea"]),
        question("the old mill", names=["Mill", "Bea"]),
    ),
    "mention_like_wrong": (
        question("the old mill", names=["Ida's Home", "The Old Mill Pond"]),
        question("the old mill", names=["The Old Mill Pond", "Ida's Home"]),
    ),
    "name_nowhere": (question(names=["Cassandra", "Bea"]), question(names=["Narrator", "Bea"])),
    "pronoun_gender": (
        question(pronoun_class="she", gender="Male"),
        question(pronoun_class="she", gender="Female"),
    ),
    "not_the_teller": (
        question(names=["Ann", "Narrator"], pronoun_class="I", dialogue=False),
        question(names=["Ann", "Narrator"], pronoun_class="I", dialogue=True),
    ),
    "nominal_gender": (
        question("his wife", text="Otto met his wife .", gender="Male"),
        question("his wife", text="Otto met his wife .", gender="Female"),
    ),
}


@pytest.mark.parametrize("flag", PLANTED)
def test_f46_a_flag_fires_on_what_was_planted_and_not_beside_it(flag):
    bad, good = PLANTED[flag]
    assert flag in flags_of(bad) and flag not in flags_of(good)


def test_f46_a_removed_answer_that_is_still_listed():
    q = question(names=["Ann", "Bea"], right=2)
    assert "removed_listed" in flags_of(q, removed={q.id: "Bea"})
    assert "removed_listed" not in flags_of(q, removed={q.id: "Cat"})
    assert audit([q]).removed_listed.isna().all()  # nobody says what was removed
    assert not audit([question()]).removed_listed.any()


def test_f46_a_question_without_fault_has_no_flag():
    assert (
        flags_of(
            question(
                names=["Mill", "Ferry"],
                text="A mill and a ferry stood there for many a long year of wind and rain . And then , when hardly anybody cared , she smiled .",
                mention="she",
                pronoun_class="she",
                gender="Female",
            )
        )
        == set()
    )


def test_f46_how_far_is_beside():
    q = question("she", names=["Ann", "Bea"], text=f"Ann {'x ' * 12}she smiled .")
    assert not {"answer_beside", "answer_alone"} & flags_of(q)
    assert {"answer_beside", "answer_alone"} <= flags_of(q, near=13)
    assert "answer_beside" not in flags_of(q, near=12)
    assert "answer_beside" in flags_of(
        q.changed(text=q.text.replace("smiled", "and Ann smiled"))
    )  # after it counts as well


def test_f46_none_of_the_above_gives_nothing_away():
    assert not {
        "answer_beside",
        "answer_alone",
        "answer_inside",
        "name_nowhere",
        "right_alike",
    } & flags_of(question(right=2))


def test_f46_how_like_is_nearly_the_same():
    q = question(names=["Otto Pask", "Otto Park"])
    assert [("close_options" in flags_of(q, alike=a)) for a in (80, 95)] == [True, False]


@pytest.mark.parametrize("name", ["", "—", "A", "  ", "ß", "İstanbul", "王"])
def test_f46_odd_names_do_no_harm(name):
    assert not {"answer_beside", "answer_alone", "answer_inside", "part_options"} & flags_of(
        question(names=[name, "Cat"])
    )
    assert isinstance(_bare(name), str) and isinstance(_content(name), frozenset)


@pytest.mark.parametrize(
    ("mention", "head"),
    [
        ("the King 's eldest daughter", "daughter"),
        ("wife of the Mayor", "wife"),
        ("his brother 's", "brother"),
        ("that man , who came", "man"),
        ("of", "of"),
        ("", ""),
        ("'s", ""),
    ],
)
def test_heads(mention, head):
    assert _head_of(mention) == head


def test_without_text_what_needs_text_is_unknown_and_not_no():
    df = audit([question(text="", mention="x")])
    assert {f for f in FLAGS if f in df and df[f].isna().all()} == {
        f for f, x in FLAGS.items() if x.needs == "text"
    }
    assert not [f for f, x in FLAGS.items() if x.needs == "document" and f in df]


def test_other_choice_parts_can_be_audited():
    q = Question("b:1", "b", options=(Option("Ann", "a"), Option("Bea", "b")), right=(0, 1))
    df = audit([q, q.changed(id="b:2", right=()), q.changed(id="b:3", options=(), right=())])
    assert df.few_options.tolist() == [False, False, True] and df.corpus.tolist() == ["", "", ""]
    assert audit([]).empty and audit_table(audit([q]), by=()).df.column.unique().tolist() == ["all"]


# Flags that need the document

CLEAN = "(0 Ann 0) met (1 the ferryman 1) . (0 She 0) smiled at (1 him 1) . He thought of nothing , and many words went by . Then (0 the girl 0) left , and (1 the man 1) rowed home . (0 She 0) slept ."
NAMES = ["Ann", "The Ferryman"]
DOCUMENTS = {  # flag -> (a tale that has it, one that has not, the names, the mention)
    "copied": (
        "(0 Ann 0) rowed , and (0 she 0) sang , as (0 she 0) did .",
        "(0 Ann 0) rowed , and (0 she 0) sang , as (1 she 1) did , (1 Bea 1) .",
        ["Ann", "Bea"],
        "she",
    ),
    "mixed_pronouns": (
        "(0 Ann 0) said (0 she 0) came , and (0 he 0) came , and (0 her 0) oar , and (0 his 0) .",
        "(0 Ann 0) said (0 she 0) came , and (0 she 0) came , and (0 her 0) oar , and (0 his 0) .",
        ["Ann", "Bea"],
        "his",
    ),
    "other_name": (
        "(0 Ann 0) met (1 Bea 1) . (0 Bea 0) smiled , and (0 she 0) left .",
        "(0 Ann 0) met (1 Bea 1) . (1 Bea 1) smiled , and (0 she 0) left .",
        ["Ann", "Bea"],
        "she",
    ),
    "name_elsewhere": (
        "(0 Ann 0) met (1 Bea 1) . (1 Ann 1) smiled , and (0 she 0) left .",
        "(0 Ann 0) met (1 Bea 1) . (0 Ann 0) smiled , and (0 she 0) left .",
        ["Ann", "Bea"],
        "she",
    ),
    "two_speakers": (
        '(0 Ann 0) to (1 Bea 1) : " (0 I 0) came , (1 I 1) saw . "',
        '(0 Ann 0) to (1 Bea 1) : " (1 I 1) came , (1 I 1) saw . "',
        ["Ann", "Bea"],
        "I",
    ),
    "talks_to_itself": (
        '(0 Ann 0) to (1 Bea 1) : " (1 I 1) saw (1 you 1) . "',
        '(0 Ann 0) to (1 Bea 1) : " (0 I 0) saw (1 you 1) . "',
        ["Ann", "Bea"],
        "you",
    ),
    "within_itself": (
        "(0 the man who lost (0 his 0) hat 0) met (1 Bea 1) .",
        "(1 Bea 1) met (0 the man 0) who lost (0 his 0) hat .",
        ["The Man", "Bea"],
        "his",
    ),
    "not_the_teller": (
        '" (1 I 1) came . " (0 I 0) saw (0 my 0) hat and (0 me 0) and (0 mine 0) and (0 myself 0) . (1 I 1) left , (1 Bea 1) .',
        '" (1 I 1) came . " (0 I 0) saw (0 my 0) hat and (0 me 0) and (0 mine 0) and (0 myself 0) . (0 I 0) left (1 Bea 1) .',
        ["Ann", "Bea"],
        "I",
    ),
    "pronoun_gender": (
        "(0 Ann 0) said (0 she 0) and (0 her 0) oar , (0 he 0) left (1 Bea 1) .",
        "(0 Otto 0) said (0 him 0) and (0 his 0) oar , (0 he 0) left (1 Bea 1) .",
        ["Ann", "Bea"],
        "he",
    ),
    "nominal_gender": (
        "(0 Ann 0) , (0 his wife 0) , said (0 he 0) and (0 his 0) oar met (1 Bea 1) .",
        "(0 Ann 0) , (0 his wife 0) , said (0 she 0) and (0 her 0) oar met (1 Bea 1) .",
        ["Ann", "Bea"],
        "his wife",
    ),
}


@pytest.mark.parametrize("flag", DOCUMENTS)
def test_f46_a_flag_of_documents_fires_on_what_was_planted_and_not_beside_it(flag):
    bad, good, names, mention = DOCUMENTS[flag]
    assert flag in built_flags(bad, names, mention)
    assert flag not in built_flags(good, names, mention)


def test_f46_every_flag_was_planted():
    assert {*PLANTED, *DOCUMENTS, "removed_listed"} == set(FLAGS)


def test_f46_a_clean_tale_has_no_flag():
    assert built_flags(CLEAN, NAMES, "She") == set()


def test_f46_stories_that_print_speech_without_double_quotes_do_not_tell_who_speaks():
    text = "(0 Ann 0) said ' (0 I 0) came ' to (1 Bea 1) , ' (1 I 1) saw ' . (0 She 0) left ."
    built = build_identifyme(
        [document(text, ["Ann", "Bea"])],
        min_tokens=0,
        max_others=1.0,
        hard=False,
        test=450,
        none_share=0.0,
    )
    df = audit_built(built).set_index("id").not_the_teller
    assert {q.text[slice(*q.chars)] for q in built.questions() if df[q.id] is pd.NA} == {"I"}


def test_f46_removed_answers_of_a_built_benchmark_are_known():
    docs = [
        d.changed(names=tuple("The Same" if n and k < 2 else n for k, n in enumerate(d.names)))
        for d in load("sample")
    ]
    built = build_identifyme(docs, none_share=0.5)
    df = audit_built(built)
    assert df.removed_listed.notna().all() and df.removed_listed.any() and df.doubled_option.any()
    assert not audit_built(build_identifyme(load("sample"), none_share=0.5)).removed_listed.any()


def test_windows_do_not_change_what_documents_tell():
    whole, small = (audit_built(build_identifyme(load("sample"), context=c)) for c in (0, 30))
    same = [f for f, x in FLAGS.items() if x.needs != "text"] + [
        "answer_beside",
        "answer_alone",
        "answer_inside",
        "mention_is_option",
        "mention_like_wrong",
    ]
    assert whole[["id", *same]].equals(small[["id", *same]])


def test_flags_do_not_depend_on_the_order_of_questions():
    questions = build_identifyme(load("sample")).questions()
    a, b = audit(questions), audit(questions[::-1])
    assert a.equals(b[::-1].reset_index(drop=True))


# Counting and looking


def test_counts_say_of_how_many():
    df = audit(
        [
            question(corpus="<b>", type="pronominal"),
            question(id="tale:2", names=["Ann", "Ann"], corpus="<b>", type="pronominal"),
            question(id="tale:3", text="", mention="x", corpus="LitBank", type="nominal"),
        ]
    )
    got = audit_table(df)
    cell = got.df[(got.df.flag == "answer_beside")].set_index("column")
    assert (cell["count"].tolist(), cell["of"].tolist(), cell.questions.tolist()) == (
        [2, 0, 2],
        [2, 0, 2],
        [2, 1, 3],
    )
    assert got.wide().loc[FLAGS["answer_beside"].title].tolist() == [
        "2 (100.0 %)",
        "–",
        "2 of 2",
    ]  # of the two that can be told
    assert "<b>" not in got._repr_html_() and "&lt;b&gt; pronominal" in got._repr_html_()


def test_flagged_questions_are_those_with_all_flags():
    qs = [question(), question(id="tale:2", names=["Ann", "Ann"])]
    df = audit(qs)
    assert [q.id for q in flagged(qs, df, "answer_beside")] == ["tale:1", "tale:2"]
    assert [q.id for q in flagged(qs, df, "answer_beside", "right_doubled")] == ["tale:2"]
    with pytest.raises(CallError, match="come from audit_built"):
        flagged(qs, df, "two_speakers")


def copies(base: list[Question], n: int) -> list[Question]:
    "Questions n times over, each time about documents of their own."
    return [q.changed(id=f"{i}/{q.id}", doc_key=f"{i}/{q.doc_key}") for i in range(n) for q in base]


def test_an_audit_grows_no_faster_than_the_questions():
    base = build_identifyme(load("sample")).questions()
    assert growth(audit, copies(base, 1), copies(base, 4)) < 5


@pytest.mark.full
def test_100_000_questions_have_the_flags_of_each():
    base = build_identifyme(load("sample")).questions()
    n = 100_000 // len(base) + 1
    once, many = audit(base), audit(copies(base, n))
    for flag in set(FLAGS) & set(once):
        assert many[flag].sum() == n * once[flag].sum(), flag


def test_options_are_compared_per_document_and_not_per_question(monkeypatch):
    import refnb.benchmarks.identifyme.audit as module

    compared = []
    for step in ("_close_pairs", "_part_pairs"):

        def counted(names, *more, real=getattr(module, step)):
            compared.append(len(set(names)))
            return real(names, *more)

        monkeypatch.setattr(module, step, counted)
    names = [f"Character {i} of the House" for i in range(50)]
    audit(
        [question(names=names, id=f"{story}:{i}") for story in ("tale", "saga") for i in range(30)]
    )
    assert compared == [len(names)] * 4  # both comparisons, once for each of two documents


# Overlap


def shared(parts) -> dict:
    return overlap(parts).set_index("what")


def test_f46_planted_overlap_is_found():
    one, two = question(id="a:1"), question("Bea", id="a:2", names=["Bea", "Ann"])
    copy = question(id="b:9", names=["Cat", "Dan"])  # the same sentence in another story
    got = shared(
        {
            "train": [
                one,
                two,
                question(
                    "mill", id="c:1", text="Otto sold the mill to Ida in the year of the flood ."
                ),
            ],
            "test": [one, copy],
        }
    )
    assert got.shared.to_dict() == {
        "questions": 1,
        "documents": 1,
        "entities": 1,
        "sentences": 0,
        "places": 1,
    }
    assert (got.loc["documents", "share_a"], got.loc["documents", "share_b"]) == (1 / 2, 1 / 2)
    assert (got.loc["documents", "questions_a"], got.loc["documents", "questions_b"]) == (2, 1)
    assert (got.loc["places", "questions_a"], got.loc["places", "questions_b"]) == (1, 2)


def test_f46_the_same_sentence_with_other_case_and_marks_is_found():
    a = question("mill", text="Otto sold the old mill to Ida .", id="a:1")
    b = question("Ida", text="OTTO , sold the old mill , to Ida !", id="b:1")
    got = shared({"a": [a], "b": [b]})
    assert (got.shared["sentences"], got.shared["places"]) == (1, 0)
    assert shared({"a": [a], "b": [a.changed(id="x:1", doc_key="x")]}).shared.to_dict() == {
        "questions": 0,
        "documents": 0,
        "entities": 0,
        "sentences": 1,
        "places": 1,
    }


def test_f46_what_cannot_be_compared_is_unknown():
    got = shared({"a": [question()], "b": [question(text="", mention="x")]})
    assert got.shared.isna().to_dict() == {
        "questions": False,
        "documents": False,
        "entities": False,
        "sentences": True,
        "places": True,
    }
    assert (
        overlap({"a": [question()]}).empty and len(overlap({k: [question()] for k in "abc"})) == 15
    )


def test_f46_test_and_dev_of_the_sample_share_no_question():
    built = build_identifyme(load("sample"))
    got = overlap({s: built.questions(s) for s in ("test", "dev")}).set_index("what")
    assert got.shared["questions"] == 0 and got.share_a["documents"] == 1


# The release


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("audit")
    return load_settings(
        "/",
        env={},
        upstream=str(upstream),
        offline=True,
        **{k: str(home / k) for k in ("cache", "runs", "reports")},
    )


@pytest.fixture(scope="module")
def built(s):
    from refnb.benchmarks.identifyme.released import rebuilt

    return rebuilt(s, corpora=["LitBank"])


@pytest.fixture(scope="module")
def released(s):
    from refnb.benchmarks.identifyme.released import released_questions

    return audit(released_questions(s), removed_names(s))


def test_f46_doubled_options_of_the_release(released):
    assert (
        len(released),
        released.doubled_option.sum(),
        released.right_doubled.sum(),
        released.removed_listed.sum(),
    ) == (1200, 154, 7, 1)
    assert set(released.corpus[released.doubled_option | released.removed_listed]) == {
        "FantasyCoref"
    }
    assert released.doc_key[released.doubled_option].nunique() <= 14


def test_f46_every_removed_answer_of_the_release_is_known(s, released):
    assert len(removed_names(s)) == 120 and released.removed_listed.notna().all()
    assert released[[f for f in FLAGS if FLAGS[f].needs == "text"]].isna().all().all()


def test_f46_questions_built_anew_have_the_flags_of_the_release(built, released):
    ours = audit_built(built).set_index("id")
    theirs = released[released.corpus == "LitBank"].set_index("id")
    same = [f for f, x in FLAGS.items() if x.group == "options"]
    assert ours[same].equals(theirs.loc[ours.index, same])


def test_f46_no_nominal_of_the_built_benchmark_is_an_option_and_no_name_is_unheard_of(built):
    for split in ("test", "dev"):
        df = audit_built(built, split)
        assert not df.mention_is_option.any() and not df.name_nowhere.any()


def test_f46_pronouns_of_another_gender_in_the_built_benchmark(built):
    "Against a direct look at page and pronoun."

    def wrong(q):
        page = built.pages[q.doc_key]
        told = {"he": "Male", "she": "Female"}.get(q.meta["pronoun_class"])
        return told and page.gender[page.entity[int(q.id.split(":")[1])]] not in (told, None)

    df = audit_built(built)
    assert (
        set(df.id[df.pronoun_gender]) == {q.id for q in built.questions() if wrong(q)}
        and df.pronoun_gender.sum() == 4
    )


def test_f46_test_and_dev_of_litbank_share_documents(built):
    got = overlap({x: built.questions(x) for x in ("test", "dev")}).set_index("what")
    n = got.loc["documents"]
    assert (n.in_a, n.in_b, n.in_a + n.in_b - n.shared) == (62, 61, 64)
    assert got.shared["questions"] == 0


def test_f46_numbers_of_the_committed_table():
    "The report, where it is committed, says what the tests say."
    import csv, io
    from tools import ROOT

    path = ROOT / "reports/identifyme/own_audit.csv"
    if not path.exists():
        pytest.skip("the report has not been made")
    cells = {
        (c["row"], c["column"]): c["ours"]
        for c in csv.DictReader(io.StringIO(path.read_text(), newline=""))
    }
    assert [
        float(cells[FLAGS[f].title, "test / all"])
        for f in ("doubled_option", "right_doubled", "removed_listed")
    ] == [154, 7, 1]
    assert [
        float(cells["test and dev share: documents", c])
        for c in ("in the first", "in the second", "in both")
    ] == [62, 61, 59]
