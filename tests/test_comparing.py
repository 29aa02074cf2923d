"The scorer that knows negation and comparison: how expressions are taken apart, any number of options, weights that can be made again, odd input."

import math
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refnb.benchmarks.altentities.questions import DOMAINS, SETTINGS, altentities_task, settings_of
from refnb.benchmarks.tasks import task_is_here, task_questions
from refnb.core.settings import load_settings
from refnb.core.types import CallError, Option, Question
from refnb.models.pairs.comparing import (
    FEATURES,
    Comparer,
    Comparing,
    _claims_of,
    comparing_weights,
    cross_validated,
    fit_rows,
    rows_of,
    _fitted,
    _hashed_folds,
    _heard,
    _period,
    plain,
    _stem,
    _parsed_option,
    weights_for,
    word_lists,
)
from refnb.models.pairs.scorers import compared, pairs_of


def asked(text: str, *options: str, right: int = 0) -> Question:
    return Question(
        "d-0",
        "d",
        text,
        None,
        tuple(Option(f"option {i}", o) for i, o in enumerate(options)),
        (right,),
    )


def chosen(text: str, *options: str) -> int:
    q = asked(text, *options)
    [a] = compared([q], Comparing(pairs_of([q]).texts, "unshown"))
    return int(np.argmax(a.scores))


OLD, NEW = (
    "song. released: May 3, 1967. A slow ballad by an Estonian woman; she plays the piano.",
    "song. released: 2004. A fast polka by a Latvian band; he plays the tuba.",
)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("the ballad", 0),
        ("not the ballad", 1),
        ("Not not the ballad", 0),
        ("isn't the ballad", 1),
        ("the polka, not the ballad", 1),
        ("not the ballad, but the polka", 1),
        ("It isn’t the polka", 0),
        ("the older one", 0),
        ("the newer one", 1),
        ("not the newer one", 0),
        ("from the sixties", 0),
        ("came out in the late 60's", 0),
        ("not from 1967", 1),
        ("a song of the 2000s", 1),
        ("from early in the 21st century", 1),
        ("from Estonia", 0),
        ("by a Latvian", 1),
        ("sung by a woman", 0),
        ("the guy sings it", 1),
    ],
)
def test_what_expressions_say(text, at):
    assert chosen(text, OLD, NEW) == at == 1 - chosen(text, NEW, OLD)


@pytest.mark.parametrize("text", ["the ballad", "not the newer one", "the ones by a Latvian band"])
def test_any_number_of_options(text):
    one, more = chosen(text, OLD, NEW), chosen(text, OLD, NEW, "song. released: 2004. A hymn.")
    assert one == more


@given(st.text())
def test_any_text_is_read(text):
    h, t = _heard(text), _parsed_option(text)
    assert h.sign in (1, -1) and math.isfinite(t.length) and -1 < t.women < 1
    assert _stem(plain("Ladies")) == "lady" and all(
        isinstance(w, str) for c in _claims_of(text) for w in c
    )


@given(
    st.lists(st.text(min_size=1, max_size=60), min_size=2, max_size=4, unique=True),
    st.text(max_size=60),
)
def test_features_are_numbers(options, text):
    p = pairs_of([asked(text, *options)])
    x = Comparer(p.texts).features(p)
    assert x.shape == (len(options), len(FEATURES)) and np.isfinite(x).all()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1999", (1999, 1999)),
        ("mid-90s", (1993, 1996)),
        ("the 80's", (1980, 1989)),
        ("the twenties", (1920, 1929)),
        ("late 1800s", (1850, 1899)),
        ("the 18th century", (1700, 1799)),
        ("'00s", (2000, 2009)),
        ("5,000 copies", None),
        ("the 3rd", None),
        ("12345", None),
    ],
)
def test_periods(text, want):
    assert _period(text) == want


def test_long_odd_and_empty_texts():
    for text in ("x" * 10_000, "not " * 5000, "<b>the green one</b>", "", "\ud7ff€ 😀", "…"):
        assert chosen(text, OLD, NEW) in (0, 1)
    assert chosen("the ballad", OLD + " word" * 20_000, NEW) == 0


def test_a_question_does_not_change_another():
    qs = [
        asked(t, OLD, NEW).changed(id=f"d-{i}")
        for i, t in enumerate(("the ballad", "not the newer one", "a polka"))
    ]
    scorer = Comparing(pairs_of(qs).texts, "unshown")
    assert [a.scores for a in compared(qs, scorer)] == [
        next(iter(compared([q], scorer))).scores for q in qs
    ]


def test_weights_by_setting():
    assert list(comparing_weights()) == list(SETTINGS) and all(
        list(w) == list(FEATURES) for w in comparing_weights().values()
    )
    assert [
        weights_for(p, [])
        for p in (
            "altentities/books/oracle/test",
            "altentities/songs/infobox/dev/sample20",
            "given/x",
        )
    ] == ["oracle", "infobox", "name"]
    assert weights_for("given/x", [asked("a", "b", "c")]) == "unshown"
    with pytest.raises(CallError, match="no weights for setting 'orakel'; known: oracle, name"):
        Comparing([], "orakel")


def test_lists_have_no_word_in_two_forms():
    lists = word_lists()
    assert (
        lists.peoples[_stem("france")] == {"french"}
        and "unitedstat" in lists.peoples["american"]
        and _stem("guitar") in lists.related
        and _stem("the") in lists.empty
    )


def test_a_weight_solves_its_equation():
    "Three of four right options have the feature: without a prior the odds are three to one; with one, the weight is smaller."
    x = np.array([[1.0], [0.0]] * 4)
    assert _fitted(x, [2] * 4, [0, 0, 0, 1], prior=1e-9)[0] == pytest.approx(math.log(3), abs=1e-3)
    w, spread = (
        _fitted(x, [2] * 4, [0, 0, 0, 1], prior=1.0)[0],
        0.5,
    )  # the prior is of the weight in units of the spread: slope 4σ(w) - 3 + w·spread² is nothing
    assert 4 / (1 + math.exp(-w)) + w * spread**2 == pytest.approx(3, abs=1e-4)
    assert _fitted(np.zeros((4, 2)), [2, 2], [0, 1]).tolist() == [0, 0]


def test_folds_keep_keys_together_and_never_change():
    keys = [f"target {i % 7}" for i in range(50)]
    assert all(
        len({f for k, f in zip(keys, _hashed_folds(keys), strict=True) if k == key}) == 1
        for key in set(keys)
    )
    assert _hashed_folds(["a", "b", "c"]).tolist() == [2, 1, 0]


@pytest.mark.skipif(
    not all(task_is_here(altentities_task(d, "name", "dev"), load_settings()) for d in DOMAINS),
    reason="AltEntities' development files are not here",
)
def test_the_weights_are_those_of_the_development_files():
    s = load_settings()
    for setting in ("oracle", "infobox"):
        rows = {
            d: rows_of(task_questions(altentities_task(d, setting, "dev"), s))
            for d in DOMAINS
            if setting in settings_of(d)
        }
        assert fit_rows(rows.values()) == pytest.approx(
            comparing_weights()[setting], rel=0.01, abs=0.002
        )
    credit = cross_validated(rows, {d: r.keys for d, r in rows.items()})
    assert {d: len(c) for d, c in credit.items()} == {
        "books": 1979,
        "recipes": 2256,
        "songs": 2161,
    } and all(0.6 < c.mean() < 0.8 for c in credit.values())
