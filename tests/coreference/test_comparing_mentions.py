"Which mentions of a long text are compared, and how links become clusters: laws on random scores."

import resource
import numpy as np
import pytest
from hypothesis import given, strategies as st
import refnb
import tools
from refnb.core.corpora import sample
from refnb.core.types import DataError
from refnb.models.coreference.clusters import all_pairs, link, local, reported


@st.composite
def texts(draw):
    "Scores of a text's mentions, of which many tie, and the words of each."
    n, r = draw(st.integers(0, 150)), np.random.default_rng(draw(st.integers(0, 10**6)))
    table = np.round(r.normal(draw(st.sampled_from([-2.0, -0.5, 0.5])), 1, (n, n)))
    words = [sorted(set(r.integers(0, 15, r.integers(0, 3)).tolist())) for _ in range(n)]
    return (lambda i, j, allowed: table[np.ix_(i, j)]), table, words


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
        at.append(best if near else 0)
        score.append(table[i, best] if near else -np.inf)
    return at, score


@tools.examples(60)
@given(texts(), st.integers(1, 200), st.integers(1, 9))
def test_a_mention_meets_the_last_ones_and_those_that_share_a_word(text, reach, most):
    scores, table, words = text
    got = local(scores, words, reach, most, rows=32)
    at, score = plainly(table, words, reach, most)
    assert got.score.tolist() == score
    assert got.at[got.score > -np.inf].tolist() == [a for a, x in zip(at, score) if x > -np.inf]
    near, every = local(scores, words, reach=200), all_pairs(scores, len(words))
    assert link(near).tolist() == link(every).tolist(), "with room for everything"


@tools.examples(40)
@given(texts(), st.integers(0, 5))
def test_known_entities_keep_their_numbers(text, seed):
    scores, _, words = text
    n, r = len(words), np.random.default_rng(seed)
    known = np.where(r.random(n) < 0.2, r.integers(0, 4, n), -1)
    entity = link(all_pairs(scores, n), known_entities=known)
    assert (entity[known >= 0] == known[known >= 0]).all() and (entity >= 0).all()


def test_what_is_mostly_no_person_or_stands_alone_may_be_left_out():
    entity, person = np.array([0, 0, 1, -1, 2, 2]), np.array([1, 0, 1, 1, 1, 1], bool)
    assert reported(entity, None, singletons=False).tolist() == [0, 0, -1, -1, 2, 2]
    assert reported(entity, person, True).tolist() == [-1, -1, 1, -1, 2, 2], "half is not most"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_refused(bad):
    table = np.zeros((80, 80))
    table[70, 69] = bad
    with pytest.raises(DataError, match="not numbers"):
        local(lambda i, j, allowed: table[np.ix_(i, j)], [[]] * 80)


def test_a_hundred_thousand_mentions_are_no_table_of_all_pairs():
    n, cells = 100_000, []
    words = [[k % 500] for k in range(n)]

    def scores(i, j, allowed):
        cells.append(len(i) * len(j))
        assert cells[-1] < 300_000
        return np.zeros((len(i), len(j)))

    local(scores, words)
    assert n < sum(cells) < 2_000 * n


@pytest.mark.full  # beside the test above
def test_a_book_of_700_000_tokens_is_resolved_in_the_memory_of_a_story(toy):
    story = sample()[0]
    book = refnb.Document("book", story.sentences * (700_000 // story.size))
    toy.resolve(story, **toy.loose)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(toy.resolve(book, **toy.loose).mentions) > 20_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
