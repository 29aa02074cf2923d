"Intervals of few clusters, Holm's correction, tie groups, and what difference a task can show."

import json, math
import numpy as np
import pytest
import tools
from refnb.core.types import CallError, DataError, Option, Question, Answer
from refnb.metrics.choice import outcomes
from refnb.metrics.comparisons import holm, paired_bootstrap, tie_groups
from refnb.metrics.detectable import Noise, detectable, observed_noise
from refnb.metrics.uncertainty import FEW, Interval, cluster_bootstrap
from refnb.results.scores import rank

T3 = 3.1824463052837  # 97.5 % of Student's t with 3 degrees of freedom, of a printed table


# Intervals


def test_few_equal_clusters_have_the_t_interval_of_their_means():
    "Four stories of five questions, of which 2, 3, 3 and 4 are right: means .4, .6, .6, .8."
    credits = [1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0]
    error = math.sqrt((0.2**2 + 0 + 0 + 0.2**2) / 3 / 4)
    got = cluster_bootstrap(credits, np.repeat(range(4), 5))
    assert tuple(got) == pytest.approx((0.6, 0.6 - T3 * error, 0.6 + T3 * error, 20, 4))


def test_unequal_clusters_count_as_fewer():
    "Sizes 1, 1 and 2 of which 0, 1 and 1 are right. Without each: 2/3, 1/3, 1/2; effective clusters: 16/6; and the interval ends at 0 and 1."
    values, clusters = [0, 1, 1, 0], [0, 1, 2, 2]
    error, df = math.sqrt(2 / 3 * ((1 / 2 - 2 / 3) ** 2 + (1 / 2 - 1 / 3) ** 2 + 0)), 16 / 6 - 1
    noise = observed_noise(values, [0] * 4, clusters)
    assert noise[:4] == pytest.approx((error, df, 4, 3))
    assert tuple(cluster_bootstrap(values, clusters)) == (0.5, 0.0, 1.0, 4, 3)
    ten = cluster_bootstrap([10 * v for v in values], clusters)  # no credits: the ends are not cut
    assert ten.low < 0 and ten.high > 10 and ten.low + ten.high == pytest.approx(10)


def test_seed_and_resamples_matter_from_a_hundred_clusters_on():
    values = np.random.default_rng(0).random(FEW)

    def ends(n, seed):
        return cluster_bootstrap(values[:n], range(n), resamples=200, seed=seed)[1:3]

    assert ends(FEW - 1, 0) == ends(FEW - 1, 1) and ends(FEW, 0) != ends(FEW, 1)


def test_a_difference_has_the_interval_and_the_p_of_one_test():
    "Differences 1, 1, 0, 0 of four stories: mean 1/2, error 1/√12, t √3; two-sided p with three degrees of freedom."
    d = paired_bootstrap([1, 1, 0, 0], [0] * 4, range(4))
    p = 1 - 2 / math.pi * (math.atan(1) + 1 / 2)  # of the closed form for three degrees: t/√3 = 1
    assert (d.value, d.high, d.p) == pytest.approx((0.5, 1.0, p)) and d.low == pytest.approx(
        0.5 - T3 / math.sqrt(12)
    )


def test_no_variance_is_one_point():
    assert cluster_bootstrap([1 / 3] * 6, [0, 0, 1, 1, 2, 2])[:3] == pytest.approx((1 / 3,) * 3)
    assert cluster_bootstrap([1] * 6, range(6)) == Interval(1.0, 1.0, 1.0, 6, 6)
    assert paired_bootstrap([1] * 6, [0] * 6, range(6), resamples=99)[:4] == (1.0, 1.0, 1.0, 0.02)
    assert paired_bootstrap([0.3, 0.7], [0.1 + 0.2, 0.7], range(2))[:4] == (0.0, 0.0, 0.0, 1.0)


# Many tests


@pytest.mark.parametrize(
    ("ps", "want"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.04, 0.01], [0.04, 0.02]),
        ([0.5, 0.9, 0.6], [1.0, 1.0, 1.0]),
        ([0.02, None, 0.02], [0.04, None, 0.04]),
        ([None], [None]),
        ([0.0001] * 3, [0.0003] * 3),
    ],
)
def test_holm(ps, want):
    assert holm(ps) == pytest.approx(want)


@pytest.mark.parametrize(
    ("apart", "want"),
    [
        ("", "a a a a"),
        ("AD", "a,a b,a b,b"),
        ("AB AC AD", "a,b,b,b"),
        ("AC AD BD", "a,a b,b c,c"),
        ("AB AC AD BC BD CD", "a,b,c,d"),
        ("BC", "a b,a,b,a b"),
    ],
)
def test_tie_groups(apart, want):
    scores, ps = (
        {"D": 0.1, "B": 0.3, "A": 0.4, "C": 0.2},
        {(p[1], p[0]): 0.049 for p in apart.split()},
    )
    got = tie_groups(scores, {("A", "B"): 0.05, ("C", "D"): None} | ps)
    assert list(got) == list("ABCD") and [*got.values()] == (
        want.split(",") if "," in want else want.split()
    )


def test_a_system_without_a_score_is_refused():
    with pytest.raises(DataError, match="'x' has no score"):
        tie_groups({"a": 1.0}, {("a", "x"): 0.5})


def test_systems_are_ranked_over_documents():
    qs = [
        Question(f"d{i // 2}:{i}", f"d{i // 2}", options=(Option("A"), Option("B")), right=(0,))
        for i in range(40)
    ]
    right = lambda n: outcomes(qs, [Answer(q.id, (int(i >= n),)) for i, q in enumerate(qs)])
    r = rank({"low": right(2), "high": right(40), "next": right(38)})
    assert list(r.scores) == ["high", "next", "low"] and r.letters == {
        "high": "a",
        "next": "a",
        "low": "b",
    }
    assert list(r.pairs) == list(r.holm) and all(
        r.holm[p] >= c.difference.p for p, c in r.pairs.items()
    )
    assert r == rank({"low": right(2), "high": right(40), "next": right(38)})


# Detectable differences


def test_the_printed_multiple():
    "With many clusters the detectable difference is 2.80 standard errors: 1.96 + .84."
    noise = Noise(0.01, 99_999, 100_000, 100_000)
    assert detectable(noise) / noise.error == pytest.approx(1.959964 + 0.841621, abs=1e-4)


def test_compare_says_what_it_could_have_found(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    refnb = lambda *args: tools.here(capsys, *args)
    for system in ("random", "always-none"):
        assert refnb("run", "sample/identifyme", system).status == 0
    pair = ("sample/identifyme:random", "sample/identifyme:always-none")
    told = json.loads(refnb("compare", *pair, "--json").out)
    assert 0.05 < told["detectable"] < 0.9
    assert f"{100 * told['detectable']:.1f}" in refnb("compare", *pair).out


def test_what_cannot_be_meant_is_refused():
    noise = Noise(0.01, 9, 20, 10)
    with pytest.raises(CallError, match="power is 0.2"):
        detectable(noise, power=0.2)
    with pytest.raises(CallError, match="level is 5"):
        detectable(noise, level=5)
