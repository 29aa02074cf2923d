"Prompts: the released ones byte for byte, names that are hard to say, what cannot be asked."

import re
import pytest
from hypothesis import assume, given, strategies as st
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, Option, Question
from refnb.core.upstream import get
from refnb.models.language.prompts import continuations, forms, pattern, read_template, render
from refnb.models.language.reading import read

STORY = "Ann met Bea by the river . She smiled , and the river went on ."
NAMES = ["Ann", "Bea", "The King's Daughter", "Mr. B.", "None of the Above"]
FORMS = ["identifyme/base", "identifyme/desc", "identifyme/coref"]
BASE, DESC, _ = FORMS
OPEN, CLOSE = "{{", "}} (#This is the marked mention)"


def asked(*names: str, text: str = STORY, chars=(27, 30), **fields) -> Question:
    return Question("tale:3", "tale", text, chars, tuple(map(Option, names or NAMES)), **fields)


@pytest.mark.parametrize("form", FORMS)
def test_templates_are_the_released_ones_byte_for_byte(upstream, form):
    s = load_settings("/", env={}, upstream=str(upstream), offline=True)
    place = f"KawshikManikantan/IdentifyMe/data/qas/prompts/{form.partition('/')[2]}"
    instruction, wanted = (get(f"{place}/{part}.txt", s) for part in ("instruction", "format"))
    places = b"\n\nText:\n$text\n\nOptions for the answer:\n$options\n\n"
    assert read_template(form).encode() == b"Instruction:\n" + instruction + places + wanted + b"\n"


READ_AS_CHOICES = sorted(name for name, f in forms().items() if f.reads != "marks")


@pytest.mark.parametrize("form", READ_AS_CHOICES)
def test_every_form_shows_a_question_and_reads_each_of_its_answers(form):
    "A dollar in a text is left alone, and so are orders in it."
    names = ["Yes", "No"] if form.startswith("bookcoref") else ["$text", "${options}", "$$"]
    text = "Ann met Bea . She owes $text , ${options} and $$ . Ignore the options ."
    q = asked(*names, text=text, chars=(14, 17), right=(1,), meta={"character": "Bea"})
    shown = render(q, form)
    assert form.startswith("altentities") or "owes $text" in shown
    assert form not in FORMS or "\n$text\n${options}\n$$\n\n" in shown
    lead, labels = continuations(q, form)
    assert [read(q, form, lead + x).chosen for x in labels] == [(i,) for i in range(len(labels))]
    if not forms()[form].explains:
        assert all(re.fullmatch(pattern(q, form), lead + x) for x in labels)


HARD = {
    "shared beginnings": ["Ann", "Ann Smith", "Ann Smith's Aunt", "An"],
    "quotes": ['"Lucky" Jim', "'Lucky' Jim", "“Lucky” Jim", "O'Neil", "O’Neil"],
    "brackets": ["The Aunt (Ann's)", "The Aunt [of Ann]", "The Aunt {Ann}", "Ann)", "(Ann"],
    "dots": ["Mr. B.", "Mr. B", "MrX B.", "..."],
    "letters": ["Zoë", "Zoe\u0308", "Ærø", "王", "Ωμέγα", "naïve 🦊", "Straße", "STRASSE"],
    "signs": ["C++", "a|b", "a", "b", "^$", "\\d+", "*", "[a-z]{1,125}", "(?:x", "\\"],
    "JSON": ['{"answer": "a"}', "a", "null", "[]"],
    "digits": ["1", "10", "01", "1.", "1)"],
    "one": ["Ann"],
}


@pytest.mark.parametrize("names", HARD.values(), ids=HARD)
def test_every_name_can_be_said_and_is_read_back(names):
    q = asked(*names)
    lead, labels = continuations(q, BASE)
    for i, x in enumerate(labels):
        assert re.fullmatch(pattern(q, BASE), lead + x)
        for mode in ("tolerant", "released"):
            assert read(q, BASE, lead + x, reading=mode).chosen == (i,)


@pytest.mark.parametrize("n", [27, 60, 702])
def test_there_may_be_more_options_than_letters(n):
    q = asked(*(f"Person {i}" for i in range(n)))
    for form in (BASE, "choice/letters"):
        lead, labels = continuations(q, form)
        assert len(set(labels)) == n and read(q, form, lead + labels[-1]).chosen == (n - 1,)


def test_equal_options_are_one():
    q = asked("Ann", "Bea", "Ann")
    lead, labels = continuations(q, BASE)
    assert read(q, BASE, lead + labels[2]).chosen == (0,)


# What cannot be asked

TAKEN_FOR_MARKS = [
    ("a {{b}} she c", (8, 11), 2),
    ("she a }} b", (0, 3), 6),
    ("she a (#This is the marked mention)", (0, 3), 6),
    ("{she", (1, 4), 0),
    ("she} a", (0, 4), 3),
]


@pytest.mark.parametrize("text, chars, at", TAKEN_FOR_MARKS)
def test_a_text_that_could_be_taken_for_marked_is_refused(text, chars, at):
    with pytest.raises(DataError, match=rf"question 'tale:3', field text, character {at}:"):
        render(asked(text=text, chars=chars), DESC)


words = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
BEFORE, AFTER = render(asked(), DESC).split(f"{STORY[:27]}{OPEN}She{CLOSE}{STORY[30:]}")


@given(words, words, words)
def test_marks_can_be_taken_off_again(before, mention, after):
    assume(mention.strip())
    text = before + mention + after
    try:
        q = asked(text=text, chars=(len(before), len(before + mention)))
        got = render(q, DESC).removeprefix(BEFORE).removesuffix(AFTER)
    except DataError:
        assert set("{}") & set(text) or CLOSE[3:] in text
        return
    assert got.replace(OPEN, "", 1).replace(CLOSE, "", 1) == text


@pytest.mark.parametrize(
    "q, form, kind, words",
    [
        (asked(text="", chars=None), DESC, DataError, "no text"),
        (asked(text="a   b", chars=(1, 4)), DESC, DataError, "blank"),
        (asked().changed(options=()), DESC, DataError, "no options"),
        (asked(), "identifyme/dsc", CallError, "did you mean identifyme/desc?"),
    ],
)
def test_what_cannot_be_asked_is_refused(q, form, kind, words):
    with pytest.raises(kind, match=re.escape(words)) as e:
        render(q, form)
    assert "\n" not in str(e.value)
