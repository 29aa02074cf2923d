"Intervals over clusters, paired differences, other tests, corrections, and groups that tie."

import math
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import t as student, ttest_1samp
from refnb.core.types import CallError, DataError
from refnb.metrics.uncertainty import holm, tie_groups
from refnb.metrics.uncertainty import (
    cluster_interval,
    jackknife_interval,
    mcnemar,
    paired_difference,
    permutation_p,
    written_p,
)

T3 = 3.1824463052837  # 97.5 % of Student's t with 3 degrees of freedom, of a printed table


# Intervals


def test_equal_clusters_have_the_t_interval_of_their_means():
    "Four stories of five questions, of which 2, 3, 3 and 4 are right: means .4, .6, .6, .8."
    credits = [1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0]
    error = math.sqrt((0.2**2 + 0 + 0 + 0.2**2) / 3 / 4)
    got = cluster_interval(credits, np.repeat(range(4), 5))
    assert tuple(got) == pytest.approx((0.6, 0.6 - T3 * error, 0.6 + T3 * error, 20, 4))


def test_unequal_clusters_count_as_fewer_and_no_interval_leaves_the_range():
    """Sizes 1, 1 and 2 of which 0, 1 and 1 are right. Without each: 2/3, 1/3, 1/2; effective
    clusters: 16/6; and the interval ends at 0 and 1."""
    values, clusters = [0, 1, 1, 0], [0, 1, 2, 2]
    assert tuple(cluster_interval(values, clusters)) == (0.5, 0.0, 1.0, 4, 3)
    ten = cluster_interval([10 * v for v in values], clusters)  # no credits: the ends are not cut
    assert ten.low < 0 and ten.high > 10 and ten.low + ten.high == pytest.approx(10)
    error = math.sqrt(2 / 3 * ((1 / 2 - 2 / 3) ** 2 + (1 / 2 - 1 / 3) ** 2 + 0))
    narrow = cluster_interval(values, clusters, level=0.2)
    assert narrow.high - 0.5 == pytest.approx(student.ppf(0.6, 16 / 6 - 1) * error)


@given(st.permutations(range(150)))
def test_any_order_has_the_same_bits_and_one_more_cluster_changes_little(order):
    rng = np.random.default_rng(0)
    values, clusters = rng.random(150), rng.integers(0, 120, 150)
    assert cluster_interval(values[order], clusters[order]) == cluster_interval(values, clusters)
    widths = [np.ptp(cluster_interval(values[:n], range(n))[1:3]) for n in (99, 100, 101)]
    assert max(widths) / min(widths) < 1.03


def test_a_group_has_its_own_interval_under_its_own_label():
    values, clusters = [1, 0, 1, 1, 0, 0], "aabbcc"
    got = cluster_interval(values, clusters, groups="xyxyxy")
    assert got == {g: cluster_interval(values[k::2], clusters[k::2]) for k, g in enumerate("xy")}
    mixed = cluster_interval([1, 1, 0, 0, 1], "abcde", groups=[0, 0, 0.5, 0.5, "x"])
    assert {k: x.value for k, x in mixed.items()} == {0: 1.0, 0.5: 0.0, "x": 1.0}


def test_any_statistic_has_the_interval_that_a_mean_has():
    "Of a mean it is that of means; of more documents than are left out one by one nearly so."
    rng = np.random.default_rng(0)
    for n, documents, near in ((150, 40, 1e-12), (9000, 3000, 0.02)):
        values, clusters = 10 * rng.random(n), rng.integers(0, documents, n)
        got = jackknife_interval(lambda chosen, values=values: values[chosen].mean(), clusters)
        exact = cluster_interval(values, clusters)
        assert got.value == pytest.approx(exact.value) and got[3:] == exact[3:]
        half = exact.high - exact.value
        assert got.high - got.value == pytest.approx(half, rel=near)
    assert jackknife_interval(lambda chosen: 1.0, "aaa") == (1.0, None, None, 3, 1)
    assert jackknife_interval(lambda chosen: float("nan"), "ab")[1:3] == (None, None)


def test_no_variance_is_one_point():
    "Also where it is no variance but for rounding."
    thirds = cluster_interval([1 / 3] * 6, [0, 0, 1, 1, 2, 2])
    assert thirds[:3] == pytest.approx((1 / 3,) * 3)
    assert cluster_interval([1] * 6, range(6))[:3] == (1.0, 1.0, 1.0)
    rounding = paired_difference([0.3, 0.7], [0.1 + 0.2, 0.7], range(2))
    assert rounding[:4] == (0.0, 0.0, 0.0, 1.0)


# Differences


def test_a_difference_has_the_interval_and_the_p_of_one_test():
    "Differences 1, 1, 0, 0 of four stories: mean 1/2, error 1/√12, t √3; three degrees of freedom."
    d = paired_difference([1, 1, 0, 0], [0] * 4, range(4))
    p = 1 - 2 / math.pi * (math.atan(1) + 1 / 2)  # of the closed form for three degrees: t/√3 = 1
    assert (d.value, d.high, d.p) == pytest.approx((0.5, 1.0, p))
    assert d.low == pytest.approx(0.5 - T3 / math.sqrt(12))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=3, max_size=40))
def test_with_one_item_a_cluster_it_is_the_paired_t_test(pairs):
    a, b = np.array(pairs, float).T
    d = paired_difference(a, b, range(len(a)))
    assert -1 <= d.low <= d.value <= d.high <= 1
    if np.ptp(a - b):
        assert d.p == pytest.approx(ttest_1samp(a - b, 0).pvalue)
        assert (d.p < 0.05) == (not d.low <= 0 <= d.high)


def test_the_difference_that_a_task_can_show():
    "With many clusters 2.80 standard errors, as printed: 1.96 + .84."
    d = np.tile([1, 0, 0, -1, 0], 20_000)
    found = paired_difference(d, 0 * d, range(len(d)))
    error = d.std(ddof=1) / math.sqrt(len(d))
    assert found.detectable / error == pytest.approx(1.959964 + 0.841621, abs=1e-3)
    assert paired_difference([1, 1], [0, 0], "ab").detectable is None  # no noise


# Other tests


def test_swaps_of_few_clusters_are_all_counted_and_of_many_drawn_reproducibly():
    assert permutation_p([1, 0], [0, 0], "aa") == 1 and permutation_p([], [], []) is None
    thirds = [1 / 4, 1 / 3, 1 / 3, 1 / 4, 1 / 3, 0]  # no difference, but for rounding
    assert permutation_p([0, 0, 0, 0, 1, 1 / 2], thirds, range(6)) == 1
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 60)) < [[0.8], [0.6]]
    drawn = [permutation_p(a, b, range(60), seed=seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] == pytest.approx(drawn[2], abs=0.02)
    assert drawn[0] == pytest.approx(paired_difference(a, b, range(60)).p, abs=0.02)


def test_mcnemar_by_the_coin_and_by_chi_square():
    a, b = [1] * 10 + [0] * 2, [0] * 10 + [1] * 2
    assert mcnemar(a, b) == (10, 2, 2, pytest.approx(2 * (1 + 12 + 66) / 2**12))
    many = mcnemar([1] * 30 + [0] * 10, [0] * 30 + [1] * 10)
    assert many.statistic == pytest.approx((30 - 10 - 1) ** 2 / 40)
    assert many.p == pytest.approx(math.erfc(math.sqrt(many.statistic / 2)))


def test_a_p_is_rounded_and_never_zero_in_print():
    written = {
        1: "= 1.0000",
        0.04996: "= 0.0500",
        1e-4: "= 0.0001",
        9.9e-5: "< 0.0001",
        0: "< 0.0001",
    }
    assert {p: written_p(p) for p in written} == written


def test_holms_correction():
    for ps, want in (
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.04, 0.01], [0.04, 0.02]),
        ([0.5, 0.9, 0.6], [1.0, 1.0, 1.0]),
        ([0.02, None, 0.02], [0.04, None, 0.04]),
        ([None], [None]),
    ):
        assert holm(ps) == pytest.approx(want), ps


def test_systems_that_no_test_tells_apart_share_a_letter():
    scores = {"D": 0.1, "B": 0.3, "A": 0.4, "C": 0.2}
    for apart, want in (
        ("", "a,a,a,a"),
        ("AD", "a,a b,a b,b"),
        ("AB AC AD", "a,b,b,b"),
        ("AC AD BD", "a,a b,b c,c"),
        ("AB AC AD BC BD CD", "a,b,c,d"),
        ("BC", "a b,a,b,a b"),
    ):
        ps = {(p[1], p[0]): 0.049 for p in apart.split()}
        got = tie_groups(scores, {("A", "B"): 0.05, ("C", "D"): None} | ps)
        assert list(got) == list("ABCD") and [*got.values()] == want.split(","), apart
    with pytest.raises(DataError, match="'x' has no score"):
        tie_groups({"a": 1.0}, {("a", "x"): 0.5})


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: cluster_interval([1, 0], "ab", level=5), "level is 5"),
        (lambda: cluster_interval([1, "x"], "ab"), "values.*other than numbers"),
        (lambda: cluster_interval([1, math.inf], "ab"), "values.*infinite"),
        (lambda: cluster_interval([[1], [0]], "ab"), "values.*2 dimensions"),
        (lambda: paired_difference([1, 0], [1], "ab"), "1 b but 2 clusters"),
    ],
)
def test_what_cannot_be_meant_is_refused(call, said):
    with pytest.raises((CallError, DataError), match=said):
        call()
