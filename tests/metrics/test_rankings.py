"Intervals over clusters, paired differences, Holm's correction, tie groups, and what difference a task can show."

import json, math
import numpy as np
import pytest
import tools
from hypothesis import given, strategies as st
from scipy.stats import t as student, ttest_1samp
from refnb.core.types import CallError, DataError, FormatError
from refnb.metrics.comparisons import holm, tie_groups
from refnb.metrics.uncertainty import Interval, cluster_interval, mcnemar, paired_difference
from refnb.metrics.uncertainty import permutation_p, written_p

T3 = 3.1824463052837  # 97.5 % of Student's t with 3 degrees of freedom, of a printed table


# Intervals


def test_equal_clusters_have_the_t_interval_of_their_means():
    "Four stories of five questions, of which 2, 3, 3 and 4 are right: means .4, .6, .6, .8."
    credits = [1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0]
    error = math.sqrt((0.2**2 + 0 + 0 + 0.2**2) / 3 / 4)
    got = cluster_interval(credits, np.repeat(range(4), 5))
    assert tuple(got) == pytest.approx((0.6, 0.6 - T3 * error, 0.6 + T3 * error, 20, 4))


def test_unequal_clusters_count_as_fewer():
    "Sizes 1, 1 and 2 of which 0, 1 and 1 are right. Without each: 2/3, 1/3, 1/2; effective clusters: 16/6; and the interval ends at 0 and 1."
    values, clusters = [0, 1, 1, 0], [0, 1, 2, 2]
    assert tuple(cluster_interval(values, clusters)) == (0.5, 0.0, 1.0, 4, 3)
    ten = cluster_interval([10 * v for v in values], clusters)  # no credits: the ends are not cut
    assert ten.low < 0 and ten.high > 10 and ten.low + ten.high == pytest.approx(10)
    error = math.sqrt(2 / 3 * ((1 / 2 - 2 / 3) ** 2 + (1 / 2 - 1 / 3) ** 2 + 0))
    narrow = cluster_interval(values, clusters, level=0.2)
    assert narrow.high - 0.5 == pytest.approx(student.ppf(0.6, 16 / 6 - 1) * error)


@given(st.permutations(range(150)))
def test_no_order_and_no_jump(order):
    "The same items in any order have the same bits, and one more cluster changes little: 99, 100 or 101 of them."
    rng = np.random.default_rng(0)
    values, clusters = rng.random(150), rng.integers(0, 120, 150)
    assert cluster_interval(values[order], clusters[order]) == cluster_interval(values, clusters)
    widths = [np.ptp(cluster_interval(values[:n], range(n))[1:3]) for n in (99, 100, 101)]
    assert max(widths) / min(widths) < 1.03


def test_a_group_has_its_own_interval():
    values, clusters, groups = [1, 0, 1, 1, 0, 0], "aabbcc", "xyxyxy"
    got = cluster_interval(values, clusters, groups=groups)
    assert got == {g: cluster_interval(values[k::2], clusters[k::2]) for k, g in enumerate("xy")}


def test_a_difference_has_the_interval_and_the_p_of_one_test():
    "Differences 1, 1, 0, 0 of four stories: mean 1/2, error 1/√12, t √3; two-sided p with three degrees of freedom."
    d = paired_difference([1, 1, 0, 0], [0] * 4, range(4))
    p = 1 - 2 / math.pi * (math.atan(1) + 1 / 2)  # of the closed form for three degrees: t/√3 = 1
    assert (d.value, d.high, d.p) == pytest.approx((0.5, 1.0, p))
    assert d.low == pytest.approx(0.5 - T3 / math.sqrt(12))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=3, max_size=40))
def test_with_one_item_a_cluster_it_is_the_paired_t_test(pairs):
    a, b = np.array(pairs, float).T
    d = paired_difference(a, b, range(len(a)))
    if np.ptp(a - b):
        assert d.p == pytest.approx(ttest_1samp(a - b, 0).pvalue)
        assert (d.p < 0.05) == (not d.low <= 0 <= d.high)


def test_no_variance_is_one_point():
    assert cluster_interval([1 / 3] * 6, [0, 0, 1, 1, 2, 2])[:3] == pytest.approx((1 / 3,) * 3)
    assert cluster_interval([1] * 6, range(6)) == Interval(1.0, 1.0, 1.0, 6, 6)
    assert paired_difference([1] * 6, [0] * 6, range(6))[:4] == (1.0, 1.0, 1.0, 2 / 2**6)
    assert paired_difference([0.3, 0.7], [0.1 + 0.2, 0.7], range(2))[:4] == (0.0, 0.0, 0.0, 1.0)


# Other tests


def test_swaps_of_few_clusters_are_all_counted():
    "Differences 3, 1 and -1: six of the eight patterns of signs are as far from zero as 3."
    assert permutation_p([1, 1, 1, 1, 0], [0, 0, 0, 0, 1], "aaabc") == 6 / 8
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


def test_a_p_is_never_zero_in_print():
    assert [written_p(p) for p in (1, 0.04996, 1e-4, 9.9e-5, 0)] == [
        "= 1.0000",
        "= 0.0500",
        "= 0.0001",
        "< 0.0001",
        "< 0.0001",
    ]


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
    scores = {"D": 0.1, "B": 0.3, "A": 0.4, "C": 0.2}
    ps = {(p[1], p[0]): 0.049 for p in apart.split()}
    got = tie_groups(scores, {("A", "B"): 0.05, ("C", "D"): None} | ps)
    assert list(got) == list("ABCD")
    assert [*got.values()] == (want.split(",") if "," in want else want.split())


def test_a_system_without_a_score_is_refused():
    with pytest.raises(DataError, match="'x' has no score"):
        tie_groups({"a": 1.0}, {("a", "x"): 0.5})


# What a task can show


def test_the_printed_multiple():
    "With many clusters the detectable difference is 2.80 standard errors: 1.96 + .84."
    d = np.tile([1, 0, 0, -1, 0], 20_000)
    found = paired_difference(d, 0 * d, range(len(d)))
    error = d.std(ddof=1) / math.sqrt(len(d))
    assert found.detectable / error == pytest.approx(1.959964 + 0.841621, abs=1e-3)
    assert paired_difference([1, 1], [0, 0], "ab").detectable is None  # no noise


def test_a_leaderboard_has_the_difference_from_the_first(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    for system in ("random", "nearest-mention", "most-frequent"):
        assert tools.here(capsys, "run", "sample/identifyme", system).status == 0
    names = ("sample/identifyme", "random", "nearest-mention", "most-frequent")
    got = tools.here(capsys, "compare", *names, "--by", "type", "--out", tmp_path / "t", "--json")
    found = json.loads(got.out)["systems"]
    assert list(found) == sorted(found, key=lambda n: -found[n]["accuracy"]["value"])
    pair = tools.here(capsys, "compare", f"{names[0]}:{names[2]}", f"{names[0]}:random", "--json")
    two, row = json.loads(pair.out)["difference"], found["Nearest mention"]
    assert row["difference"]["value"] == pytest.approx(100 * two["value"])
    assert row["difference"]["low"] == pytest.approx(100 * two["low"])
    assert two["p"] <= row["p"] <= 2 * two["p"] + 1e-12 and found["Random"]["p"] is None
    assert {"nominal", "pronominal"} <= row.keys()
    for ending in ("csv", "md", "tex", "json", "png"):
        assert (tmp_path / f"t/own/leaderboard.{ending}").stat().st_size > 100
    assert "Nearest mention" in (tmp_path / "t/own/leaderboard.tex").read_text()
    tools.one_line(
        tools.here(capsys, "compare", "sample/identifyme", "random"), 2, "nobody beside it"
    )
    tools.one_line(
        tools.here(capsys, "compare", "sample/identifyme", "random", "nearst-mention"),
        2,
        "did you mean nearest-mention",
    )


def test_a_piece_of_a_task_takes_that_piece_of_a_run_on_the_whole(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)  # without the texts
    names = ("published/gpt-4o", "published/mistral-7b")
    how = ("--by", "corpus", "--json")
    whole = tools.here(capsys, "compare", "identifyme/test", *names, *how)
    half = tools.here(capsys, "compare", "identifyme/litbank/test", *names, *how)
    whole, half = (json.loads(x.out)["systems"]["GPT-4o"] for x in (whole, half))
    assert half["accuracy"]["n"] == 600 and whole["accuracy"]["n"] == 1200
    assert half["accuracy"] == half["LitBank"] == whole["LitBank"]


def test_two_logs_are_compared_by_their_own_scores(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    values = {"a.json": "CCCCIC", "b.json": "CIIICC"}
    for name, letters in values.items():
        samples = [{"id": k, "scores": {"match": {"value": x}}} for k, x in enumerate(letters)]
        (tmp_path / name).write_text(json.dumps({"eval": {"model": name}, "samples": samples}))
    lines = [{"doc_id": k, "doc": {}, "acc": float(x == "C")} for k, x in enumerate("CCIICC")]
    (tmp_path / "samples_x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    got = json.loads(tools.here(capsys, "compare", *(tmp_path / n for n in values), "--json").out)
    assert got["difference"]["value"] == pytest.approx(2 / 6) and got["mcnemar"]["only_a"] == 3
    paths = [*(tmp_path / n for n in values), tmp_path / "samples_x.jsonl"]
    table = json.loads(tools.here(capsys, "compare", *paths, "--json").out)["systems"]
    assert [round(x["accuracy"]["value"], 1) for x in table.values()] == [83.3, 66.7, 50.0]
    failed = json.loads((tmp_path / "b.json").read_text())
    failed["samples"][1]["error"] = {"message": "no reply"}
    (tmp_path / "b.json").write_text(json.dumps(failed))
    told = tools.here(capsys, "compare", *(tmp_path / n for n in values)).out
    assert "0 answers of the first and 1 of the second are missing" in told
    told = tools.here(capsys, "compare", *paths).out
    assert "Questions without an answer count as wrong" in told and "b.json 1." in told
    (tmp_path / "b.json").write_text("[]")
    tools.one_line(
        tools.here(capsys, "compare", *(tmp_path / n for n in values)), 1, "a log of inspect_ai"
    )


def test_compare_says_what_it_could_have_found_and_what_to_doubt(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    refnb = lambda *args: tools.here(capsys, *args)
    for system in ("random", "always-none"):
        assert refnb("run", "sample/identifyme", system).status == 0
    pair = ("sample/identifyme:random", "sample/identifyme:always-none")
    told = json.loads(refnb("compare", *pair, "--json").out)
    assert 0.05 < told["detectable"] < 0.9
    shown = refnb("compare", *pair).out
    assert f"{100 * told['detectable']:.1f}" in shown
    assert told["mcnemar"] is None or "as independent, though they share" in shown


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: cluster_interval([1, 0], "ab", level=5), "level is 5"),
        (lambda: cluster_interval([1, "x"], "ab"), "values holds something other than numbers"),
        (lambda: cluster_interval([1, math.inf], "ab"), "values has an infinite number"),
        (lambda: cluster_interval([[1], [0]], "ab"), "values has 2 dimensions instead of 1"),
        (lambda: cluster_interval([1, 0], ["a", None]), r"clusters\[1\] is missing"),
        (lambda: paired_difference([1, 0], [1], "ab"), "1 b but 2 clusters"),
        (lambda: mcnemar([0.5], [1]), "a holds 0.5, not 0 or 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(call, said):
    with pytest.raises((CallError, DataError), match=said):
        call()


def test_a_leaderboard_corrects_for_its_comparisons():
    import pandas as pd
    from refnb.results.leaderboard import side_by_side

    rng = np.random.default_rng(1)
    docs, ids = [f"d{i % 20}" for i in range(200)], [f"q{i}" for i in range(200)]

    def system(share):
        credit = (rng.random(200) < share).astype(float)
        return pd.DataFrame({"id": ids, "doc_key": docs, "credit": credit, "reason": None})

    found = {name: system(x) for name, x in (("mine", 0.5), ("a", 0.6), ("b", 0.62), ("c", 0.7))}
    r, mine = side_by_side(found), found["mine"].credit
    ps = {n: paired_difference(found[n].credit, mine, docs).p for n in ("a", "b", "c")}
    assert {n: r.cells[n, "p"].ours for n in ps} == dict(zip(ps, holm(list(ps.values()))))
    assert any(r.cells[n, "p"].ours > ps[n] for n in ps)
    assert "corrected for 3 comparisons as Holm does" in r.markdown()
    few = side_by_side({**found, "c": found["c"][:50]})
    assert "the 50 of 200 items that all answered (c 50)" in few.title


def test_groups_of_numbers_and_texts_keep_their_values():
    credits, clusters = [1, 1, 0, 0, 1], "abcde"
    found = cluster_interval(credits, clusters, groups=[0, 0, 0.5, 0.5, "x"])
    assert {k: x.value for k, x in found.items()} == {0: 1.0, 0.5: 0.0, "x": 1.0}


def test_a_run_is_not_scored_on_other_questions(settings):
    import refnb

    s = settings()
    r = refnb.run("sample/ferryman", "random", s=s)
    for p in r.folder.glob("questions*"):
        p.unlink()
    r.info = r.info.changed(data=r.info.data | {"questions": "0" * 16})
    with pytest.raises(DataError, match="it answered other questions"):
        refnb.score(r)


def test_answers_that_a_file_lacks_are_told_in_a_comparison(tmp_path, monkeypatch, capsys):
    from refnb.benchmarks.tasks import as_task

    tools.live_in(monkeypatch, tmp_path)
    right = [{"id": q.id, "chosen": list(q.right)} for q in as_task("sample/identifyme").questions]
    (tmp_path / "few.jsonl").write_text("\n".join(map(json.dumps, right[:100])))
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, right)))
    gold = ("--gold", "sample/identifyme")
    told = tools.here(capsys, "compare", "few.jsonl", "all.jsonl", *gold).out
    assert "238 answers of the first and 0 of the second are missing" in told
    told = tools.here(capsys, "compare", "all.jsonl", "few.jsonl", "--by", "type", *gold)
    assert "Questions without an answer count as wrong: few.jsonl 238." in told.out


def test_samples_of_lm_evaluation_harness_whose_documents_share_an_id_are_not_joined(tmp_path):
    from refnb.models.published.logs import log_outcomes

    lines = [{"doc_id": k, "doc": {"id": "story"}, "acc": float(k)} for k in range(2)]
    (tmp_path / "samples_x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert [*log_outcomes(tmp_path / "samples_x.jsonl").credit] == [0.0, 1.0]


def test_logs_with_filters_and_failed_epochs(tmp_path, monkeypatch, capsys):
    from refnb.models.published.logs import log_outcomes

    lines = [
        {"doc_id": 0, "doc": {}, "filter": f, "exact_match": x}
        for f, x in (("strict-match", 0.0), ("flexible-extract", 1.0))
    ]
    (tmp_path / "samples_x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(FormatError, match="several filters: flexible-extract, strict-match"):
        log_outcomes(tmp_path / "samples_x.jsonl")
    right = {"id": "q", "scores": {"m": {"value": "C"}}}
    lost = {"id": "q", "scores": {}, "error": {"message": "timeout"}}
    for samples, credit, reason in (([right, lost], 1.0, None), ([lost, lost], 0.0, "failed")):
        (tmp_path / "x.json").write_text(json.dumps({"eval": {}, "samples": samples}))
        [row] = log_outcomes(tmp_path / "x.json").to_dict("records")
        assert row["credit"] == credit and (row["reason"] if reason else None) == reason


def test_compare_names_an_unknown_task(capsys):
    told = tools.here(capsys, "compare", "sample/identifme", "random", "nearest-mention")
    tools.one_line(told, 2, "unknown task 'sample/identifme'; did you mean sample/identifyme?")


def test_what_is_no_choice_and_what_has_no_score(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    refnb = lambda *args: tools.here(capsys, *args)
    assert refnb("run", "sample/bookcoref", "pattern-matching").status == 0
    clusters = refnb("score", "choice", "sample/bookcoref:pattern-matching")
    tools.one_line(clusters, 1, "its answers are clusters, not choices")
    told = refnb("run", "sample/bookcoref", "pattern-matching", "--by", "type")
    tools.one_line(told, 2, "documents have no fields")
    told = refnb("run", "sample/identifyme", "random", "--tolerate", "nan")
    tools.one_line(told, 2, "cannot tolerate nan failures")
    for score, said in (({}, "has no score"), ({"m": {"value": math.nan}}, "its score is nan")):
        log = {"eval": {}, "samples": [{"id": 1, "scores": score}]}
        (tmp_path / "x.json").write_text(json.dumps(log))
        tools.one_line(refnb("compare", tmp_path / "x.json", tmp_path / "x.json"), 1, said)


def test_logs_of_different_questions_are_told(tmp_path, capsys):
    "The ids 1, 2, 3 of two tasks are not the same questions."
    for name, about in (("a", "rivers"), ("b", "rivers"), ("c", "stars")):
        samples = [
            {"id": k, "input": f"{about} {k}", "scores": {"m": {"value": "C"}}} for k in range(3)
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps({"eval": {}, "samples": samples}))
        lines = [{"doc_id": k, "doc": {"q": f"{about} {k}"}, "acc": 1.0} for k in range(3)]
        (tmp_path / f"samples_{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for log in ("{}.json", "samples_{}.jsonl"):
        a, b, c = (tmp_path / log.format(x) for x in "abc")
        assert not tools.here(capsys, "compare", a, b).err
        assert "3 ids stand for different questions" in tools.here(capsys, "compare", a, c).err
    told = tools.here(capsys, "compare", tmp_path / "a.json", tmp_path / "samples_a.jsonl")
    assert told.status == 0 and not told.err


def test_a_file_of_answers_stands_beside_systems(tmp_path, monkeypatch, capsys):
    from refnb.benchmarks.tasks import task_questions

    tools.live_in(monkeypatch, tmp_path)
    lines = [{"id": q.id, "chosen": [q.right[0]]} for q in task_questions("sample/ferryman")]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert tools.here(capsys, "run", "sample/ferryman", "always-first").status == 0
    said = tools.here(capsys, "compare", "sample/ferryman", "mine.jsonl", "always-first", "--json")
    got = json.loads(said.out)
    assert got["first"] == "mine.jsonl" and got["difference"]["value"] > 0
