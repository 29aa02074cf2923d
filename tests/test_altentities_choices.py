"""Questions of AltEntities with more choices, with none, with both: on the released files, against counts made another way."""

import collections, csv, itertools, json, re
from pathlib import Path
import numpy as np
import pytest
from refnb.benchmarks.altentities.questions import (
    DOMAINS,
    altentities,
    questions_of,
    read_altentities,
)
from refnb.benchmarks.altentities.choices import BOTH, NEITHER, OPEN, more_choices, open_questions
from refnb.core.settings import packaged
from refnb.core.types import DataError, RefnbError
from refnb.metrics.calibration import calibration, scored, _shares
from refnb.models.pairs.open_choice import OpenScores, by_kind, fitted_threshold, opened
from refnb.models.pairs.scorers import Pairs, Tfidf, choice_text
import tools

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("domain", DOMAINS)
def test_more_choices_of_the_released_files(domain, upstream, settings):
    questions = altentities(domain, "test", settings(upstream=str(upstream)))
    made = {n: more_choices(questions, n) for n in (3, 4, 8)}
    for n, some in made.items():
        for q, old in zip(some, questions, strict=True):
            urls = [c.wikipedia_url for c in q.choices]
            assert (
                len(set(urls)) == len({c.name for c in q.choices}) == n
                and urls[q.target_index] == old.target
                and {c.wikipedia_url for c in old.choices} <= set(urls)
            )
            assert [u for u in urls if u in {c.wikipedia_url for c in old.choices}] == [
                c.wikipedia_url for c in old.choices
            ]  # the order of the old ones stays
    assert all(
        {c.wikipedia_url for c in a.choices} <= {c.wikipedia_url for c in b.choices}
        for a, b in [*zip(made[3], made[4]), *zip(made[4], made[8])]
    )
    places = collections.Counter(q.target_index for q in made[8])
    assert len(places) == 8 and max(places.values()) < 2.2 * len(questions) / 8
    used = collections.Counter(
        c.wikipedia_url
        for q, old in zip(made[8], questions)
        for c in q.choices
        if c not in old.choices
    )
    assert max(used.values()) < 25  # nothing is drawn far more often than others
    assert more_choices(questions[:150] + questions[150:], 4) == made[4]
    assert [x.text.splitlines()[-1].strip() for x in questions_of(made[8][0])] == [
        e.strip() for e in questions[0].expressions
    ]


@pytest.mark.parametrize("domain", DOMAINS)
def test_neither_and_both_of_the_released_files(domain, upstream, settings):
    questions = altentities(domain, "test", settings(upstream=str(upstream)))
    made = open_questions(questions, "name")
    kinds = collections.Counter(q.meta["kind"] for q in made)
    odd = re.compile(
        r"\b(not|isn'?t|wasn'?t|doesn'?t|didn'?t|don'?t|aren'?t|hasn'?t|newer|newest|older|oldest|later|latest|earlier|earliest|recent|recently)\b|n['’]t\b",
        re.I,
    )
    said = collections.defaultdict(set)
    for e, target in ((e, q.target) for q in questions for e in q.expressions if not odd.search(e)):
        said[tuple(re.findall(r"\w+", e.lower()))].add(target)
    plain = sum(not odd.search(e) for q in questions for e in q.expressions)
    assert (kinds["one"], kinds["neither"], kinds["both"]) == (
        plain,
        plain,
        sum(len(t) if len(t) > 2 else 1 for t in said.values() if len(t) > 1),
    )
    assert len({q.id for q in made}) == len(made)
    meant = {q.key: (q.meant.name, {c.name for c in q.choices}) for q in questions}
    targets = {
        e: {name for name in names}
        for e, names in (
            (" ".join(k), {x.meant.name for x in questions if x.target in t})
            for k, t in said.items()
        )
    }
    for q in made:
        kind, offered = q.meta["kind"], {o.name for o in q.options[:2]}
        assert len(offered) == 2 and q.options[2:] == (NEITHER, BOTH)
        if kind == "one":
            assert q.options[q.right[0]].name == meant[q.doc_key][0]
        elif kind == "neither":
            assert (
                q.right == (2,)
                and meant[q.doc_key][0] not in offered
                and len(offered & meant[q.doc_key][1]) == 1
            )
        else:
            assert (
                q.right == (3,)
                and offered
                <= targets[" ".join(re.findall(r"\w+", q.text[slice(*q.chars)].lower()))]
            )
    assert (
        open_questions(tuple(questions), "name")
        == made
        != open_questions(questions, "name", seed=1)
    )


def test_choices_of_one_name_are_counted_once():
    "Two further things of one name are one choice more: to ask for two of them is refused, and used to go on for ever."
    a, b, *_ = [
        q
        for q in read_altentities(packaged("data/sample/altentities.json"), "sample")
        if q.domain == "BOOKS"
    ]
    twins = b.changed(choices=tuple(c.changed(name="The Twin") for c in b.choices))
    assert {c.name for c in more_choices([a, twins], 3)[0].choices} == {
        *(c.name for c in a.choices),
        "The Twin",
    }
    with pytest.raises(
        DataError, match=f"question {a.key}: 2 more choices are wanted, and 1 other names are there"
    ):
        more_choices([a, twins], 4)


def test_draws_do_not_look_through_all_things_for_each_question():
    sample = read_altentities(packaged("data/sample/altentities.json"))
    several = [
        [q.changed(number=1000 * i + q.number) for i in range(n) for q in sample] for n in (1, 4)
    ]
    assert tools.growth(lambda questions: more_choices(questions, 8), *several) < 5


@pytest.mark.parametrize("domain", DOMAINS)
def test_ids_of_the_released_files_hold_no_words(domain, upstream, settings):
    made = open_questions(altentities(domain, "test", settings(upstream=str(upstream))), "name")
    kinds = "|".join(OPEN)
    assert all(
        re.fullmatch(rf"{domain}-test-\d+-\d+-({kinds})", q.id)
        and re.fullmatch(rf"{domain}-test-\d+(-\d+-both)?", q.doc_key)
        for q in made
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_likeness_alone_tells_a_little_of_the_kind(domain, upstream, settings):
    "What the notebook says of whoever ignores expressions: more than a third, and less than any scorer of the table."
    made = open_questions(altentities(domain, "test", settings(upstream=str(upstream))))
    pairs = [tuple(choice_text(o) for o in q.options[:2]) for q in made]
    texts = list(dict.fromkeys(x for pair in pairs for x in pair))
    at = {x: i for i, x in enumerate(texts)}
    alike = Tfidf(texts)(
        Pairs(texts, texts, np.array([[at[a], at[b]] for a, b in pairs]), [1] * len(pairs))
    )
    kind = np.array([q.meta["kind"] for q in made])
    best = max(
        (0.5 * (alike[kind == "one"] > t).mean() + (alike[kind == "neither"] <= t).mean()) / 3
        for t in np.quantile(alike, np.linspace(0, 1, 201))
    )
    assert 0.37 < best < 0.395


def test_threshold_is_the_best_of_all():
    rng = np.random.default_rng(3)
    for _ in range(20):
        n = int(rng.integers(5, 60))
        s = OpenScores(
            rng.integers(0, 9, (n, 2)).astype(float),
            rng.integers(0, 4, n),
            rng.choice(["one", "neither", "both"], n),
        )
        value = lambda t, s=s: np.mean(list(by_kind(s, t).values()))
        assert value(fitted_threshold(s)) == max(value(t) for t in np.arange(-1, 10, 0.5))
        assert [int(x) for x in opened(s.scores, 4)] == [
            {(0, 0): 2, (1, 1): 3, (1, 0): 0, (0, 1): 1}[a > 4, b > 4] for a, b in s.scores
        ]


def test_calibration_by_hand():
    rng = np.random.default_rng(5)
    sizes = rng.integers(2, 6, 50)
    values, right = rng.normal(size=sizes.sum()), [int(rng.integers(0, n)) for n in sizes]
    s, b, at = scored(values, sizes, right), 1.7, 0
    got = calibration(s, b, 4)
    for i, (n, r) in enumerate(zip(sizes, right, strict=True)):
        e = [np.exp(b * v) for v in values[at : at + n]]
        p, at = [x / sum(e) for x in e], at + n
        assert np.isclose(
            got.brier[i], sum((x - (k == r)) ** 2 for k, x in enumerate(p))
        ) and np.isclose(got.log_loss[i], -np.log(p[r]))
        assert np.isclose(got.confidence[i], max(p)) and got.credit[i] == (p.index(max(p)) == r)
    assert (
        np.isclose(_shares(s, b).sum(), 50)
        and got.table.n.sum() == 50
        and got.table.n.max() - got.table.n.min() <= 1
    )
    assert np.isclose(
        got.error, sum(abs(t.confidence - t.accuracy) * t.n for t in got.table.itertuples()) / 50
    )


def test_transfer_repeats_table_7():
    read = lambda name: {
        (c["row"], c["column"]): c["ours"] for c in _cells(ROOT / f"reports/altentities/{name}.csv")
    }
    transfer, seven, choices = (
        read("own_transfer"),
        read("table_7_test_accuracy"),
        read("own_number_of_choices"),
    )
    for d in ("books", "recipes", "music"):
        assert (
            transfer["Negation and comparison, fitted on mixed", d]
            == seven["Negation and comparison", f"{d} / unshown"]
            != ""
        )
    for name, d in itertools.product(["Word overlap", "TF-IDF, characters"], ["books", "music"]):
        assert (
            float(choices[name, f"{d} / 2"])
            > float(choices[name, f"{d} / 3"])
            > float(choices[name, f"{d} / 4"])
            > float(choices[name, f"{d} / 8"])
        )
    told = json.loads((ROOT / "reports/altentities/own_calibration.json").read_text())
    assert len(told["inputs"]) == 6


def test_numbers_of_choices_in_any_order(tmp_path, make_table):
    how = dict(task="sample/altentities", systems=["random", "word-overlap"], resamples=100)
    made = lambda *choices: make_table(
        tmp_path, "altentities/own_number_of_choices", choices=list(choices), **how
    )
    one, other = made(8, 2), made(2, 8, 8)
    assert one == other and [c["column"] for c in one[:2]] == ["books / 2", "books / 8"]


WRONG = [
    ("own_number_of_choices", dict(choices=[]), "choices: []; name whole numbers from 2"),
    ("own_transfer", dict(trained=["bi-encodr"]), "did you mean bi-encoder?"),
    ("table_8_cross_domain", dict(task="altentities/tset"), "did you mean altentities/test?"),
    ("own_number_of_choices", dict(setting="names"), "unknown setting 'names'; did you mean name?"),
    ("own_transfer", dict(setting="names"), "did you mean name?"),
    ("own_shared_entities", dict(told=["names"]), "did you mean name?"),
    ("own_expression_kinds", dict(task="altentities/tset"), "did you mean altentities/test?"),
    ("table_10_error_types", dict(systems=[]), "0 systems; name one"),
    ("table_6_example_expressions", dict(draw=-1), "-1 expressions; say 0 to 62"),
]


@pytest.mark.parametrize(("table", "parameters", "told"), WRONG)
def test_a_parameter_that_is_wrong_is_told_in_one_line(
    tmp_path, make_table, table, parameters, told
):
    with pytest.raises(RefnbError) as e:
        make_table(tmp_path, f"altentities/{table}", **parameters)
    assert told in str(e.value) and "\n" not in str(e.value)
    assert not list(tmp_path.glob("reports/altentities/*.csv"))


def test_domains_that_share_nothing_have_reasons(tmp_path, upstream, make_table):
    how = dict(domains=["books"], systems=["word-overlap"], told=["name"], resamples=100)
    rows = make_table(tmp_path, "altentities/own_shared_entities", upstream, **how)
    cells = {c["column"]: c for c in rows if c["row"] == "Word overlap"}
    assert float(cells["books / name / new"]["ours"]) > 50 and {
        cells[f"books / name / was {x}"]["reason"] for x in ("offered", "meant")
    } == {"there is no such question"}


def _cells(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))
