"The metrics of coreference: the official scorer's cases, laws, corners, independent scorers, the size of a book."

import csv, itertools, tracemalloc, warnings
from pathlib import Path
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linear_sum_assignment
from refnb.core.conll import parse_conll
from refnb.core.documents import Document, tidy
from refnb.core.reading import write_documents
from refnb.core.types import CallError, DataError, Span
from refnb.core.upstream import files_of, get
from refnb.core.settings import load_settings
from refnb.metrics.coref import CONLL, METRICS, add, as_prf, assign, scores, table
from refnb.metrics.coref_scores import score_coref
from refnb.metrics.windows import cut, split, window_starts
from tools import DATA, examples, here


def rows(name: str) -> list[dict]:
    return list(csv.DictReader((DATA / name).open(), delimiter="\t"))


# Clusters without documents


def test_clusters_alone_are_scored_as_documents_are():
    from refnb import Document as D, score_coref as score  # the public names

    gold, said = [[(0, 1), (5, 5)], [(3, 3)]], [[(0, 1), (5, 5), (3, 3)]]
    of = lambda key, clusters: D(key, clusters=tuple(tuple(Span(*s) for s in c) for c in clusters))
    want = score(of("a", gold), of("a", said)).pooled()
    arrays = [np.array(c) for c in said]
    for a, b in ((gold, said), (of("x", gold), said), (gold, [of("x", said)]), (gold, arrays)):
        assert score(a, b).pooled() == want
    assert score(gold, []).pooled()["b3"] == (0, 0, 0) == score([], said).pooled()["b3"]
    for bad in (
        [[(0, 1, 2)]],
        [(0, 1)],
        [[(5, 3)]],
        [[("a", "b")]],
        [of("x", gold), [(0, 1)]],
        [1],
    ):
        with pytest.raises(CallError, match="cannot be scored: .*give documents, or clusters as"):
            score(gold, bad)


# The official scorer


def test_the_official_cases(upstream):
    "All 91 numbers, from the scorer's own files."
    s, known = (
        load_settings("/", env={"REFNB_UPSTREAM": str(upstream)}),
        rows("official_scorer_cases.tsv"),
    )
    docs = {
        f.path.rsplit("/", 1)[1]: parse_conll(get(f, s), f.path)
        for f in files_of("coref-scorers")
        if f.path.endswith((".key", ".response"))
    }
    assert len(known) == 91
    for r in known:
        got = add(
            METRICS[r["metric"]](table(g.clusters, p.clusters))
            for g, p in zip(docs[r["key"]], docs[r["response"]], strict=True)
        )
        assert np.allclose(
            [as_prf(got).recall, as_prf(got).precision, as_prf(got).f1],
            [float(r[k]) for k in ("recall", "precision", "f1")],
            atol=1e-4,
        ), r


def test_the_official_files_have_no_mention_that_is_lost(upstream):
    s = load_settings("/", env={"REFNB_UPSTREAM": str(upstream)})
    [d] = parse_conll(get("conll/reference-coreference-scorers/test/DataFiles/TC-A-9.response", s))
    assert (
        sorted(map(len, d.clusters)) == [1, 2, 3, 11]
        and len(set(d.mentions)) == 7
        and d.mentions.count(Span(3, 6)) == 11
    )


# Laws

SPANS = st.integers(0, 30).map(lambda i: (i, i + i % 3))


@st.composite
def partition(draw, most: int = 14):
    "Clusters that share no mention."
    spans = draw(st.lists(SPANS, max_size=most, unique=True))
    labels = draw(st.lists(st.integers(0, 4), min_size=len(spans), max_size=len(spans)))
    out: dict = {}
    for s, l in zip(spans, labels, strict=True):
        out.setdefault(l, []).append(s)
    return list(out.values())


def near(a, b) -> bool:
    return np.allclose(a, b, atol=1e-9)


@given(partition(), partition(), st.randoms())
def test_laws_of_all_metrics(gold, predicted, random):
    got, other = scores(gold, predicted), scores(predicted, gold)
    assert all(0 <= v <= 1 + 1e-12 for s in got.values() for v in s)
    for m in ("muc", "b3", "ceafe", "ceafm", "lea", "lea_released", "mentions"):
        assert near(
            (got[m].precision, got[m].recall, got[m].f1),
            (other[m].recall, other[m].precision, other[m].f1),
        ), m
    shuffle = lambda x: random.sample([random.sample(c, len(c)) for c in x], len(x))
    for m, s in scores(shuffle(gold), shuffle(predicted)).items():
        assert near(s, got[m]), m
    perfect = scores(gold, gold)
    if gold:
        assert all(
            near(perfect[m], 1) for m in ("b3", "ceafe", "ceafm", "lea", "mentions", "blanc")
        )
    if any(len(c) > 1 for c in gold):
        assert near(perfect["muc"], 1) and near(perfect["lea_released"], 1)


@given(partition(), partition())
def test_duplicates_do_not_matter_where_there_are_none(gold, predicted):
    for duplicates in ("released", "error"):
        assert scores(gold, predicted, duplicates=duplicates) == scores(gold, predicted)


@given(partition(), partition())
def test_dropped_singletons_are_as_if_they_had_not_been_said(gold, predicted):
    many = lambda x: [c for c in x if len(c) > 1]
    assert scores(gold, predicted, singletons=False) == scores(many(gold), many(predicted))


@given(partition(7), partition(7))
def test_ceaf_is_the_best_of_all_assignments(gold, predicted):
    "Against every assignment there is."
    phi4 = lambda k, r: 2 * len(set(k) & set(r)) / (len(k) + len(r))
    small, large = sorted((gold, predicted), key=len)
    best = max(
        (
            sum(phi4(k, r) for k, r in zip(small, p, strict=True))
            for p in itertools.permutations(large, len(small))
        ),
        default=0,
    )
    assert abs(METRICS["ceafe"](table(gold, predicted)).right_gold - best) < 1e-9


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.1, 0.5, 1.0]),
)
def test_the_sparse_assignment_is_the_dense_one(rows, columns, seed, density):
    rng = np.random.default_rng(seed)
    w = rng.integers(1, 6, (rows, columns)) * (rng.random((rows, columns)) < density)
    i, j = np.nonzero(w)
    chosen = assign(i, j, w[i, j].astype(float), (rows, columns))
    assert len(set(i[chosen])) == len(set(j[chosen])) == len(chosen)
    assert w[i, j][chosen].sum() == w[linear_sum_assignment(w, maximize=True)].sum()


# Formulas written down once more, slowly


def slow(gold, predicted) -> dict:
    "MUC, B3, LEA and BLANC mention by mention and link by link."
    where = lambda side: {m: i for i, c in enumerate(side) for m in c}
    g, p = where(gold), where(predicted)
    pieces = lambda c, other: (
        len({other[m] for m in c if m in other}) + sum(m not in other for m in c)
    )
    muc = lambda a, other: (sum(len(c) - pieces(c, other) for c in a), sum(len(c) - 1 for c in a))
    b3 = lambda a, b, other: sum(
        len(set(c) & set(b[other[m]])) / len(c) for c in a for m in c if m in other
    )
    links = lambda c: (
        {frozenset(x) for x in itertools.combinations(c, 2)} if len(c) > 1 else {frozenset(c)}
    )
    lea = lambda a, b: sum(
        len(c)
        * sum(len(links(c) & links(d)) for d in b if len(c) > 1 or len(d) == 1)
        / len(links(c))
        for c in a
    )
    coref = lambda a: {frozenset(x) for c in a for x in itertools.combinations(c, 2)}
    free = lambda a, w: {frozenset(x) for x in itertools.combinations(w, 2)} - coref(a)
    blanc = [
        len(coref(gold) & coref(predicted)),
        len(coref(predicted)),
        len(coref(gold)),
        len(free(gold, g) & free(predicted, p)),
        len(free(predicted, p)),
        len(free(gold, g)),
    ]
    return {
        "muc": (*muc(predicted, g), *muc(gold, p)),
        "b3": (b3(predicted, gold, g), len(p), b3(gold, predicted, p), len(g)),
        "lea": (lea(predicted, gold), len(p), lea(gold, predicted), len(g)),
        "blanc": blanc,
    }


@given(partition(), partition())
def test_the_table_counts_what_the_definitions_count(gold, predicted):
    t = table(gold, predicted)
    for name, expected in slow(gold, predicted).items():
        assert near(METRICS[name](t)[: len(expected)], expected), name


# Mentions that appear twice (F48)


def last_wins(clusters) -> dict:
    return {m: i for i, c in enumerate(clusters) for m in c}


@given(
    st.lists(st.lists(SPANS, min_size=1, max_size=5), max_size=4),
    st.lists(st.lists(SPANS, min_size=1, max_size=5), max_size=4),
)
def test_f48_the_released_reading(gold, predicted):
    "What BookCoref's code counts: lists as they are, and each mention in the last cluster that holds it."
    g, p, got = last_wins(gold), last_wins(predicted), table(gold, predicted, duplicates="released")
    muc = lambda a, other: sum(
        len(c) - sum(m not in other for m in c) - len({other[m] for m in c if m in other})
        for c in a
    )
    b3 = lambda a, other: sum(
        sum(x * x for x in np.unique([other[m] for m in c if m in other], return_counts=True)[1])
        / len(c)
        for c in a
    )
    assert METRICS["muc"](got) == (
        muc(predicted, g),
        sum(len(c) - 1 for c in predicted),
        muc(gold, p),
        sum(len(c) - 1 for c in gold),
    )
    assert near(
        METRICS["b3"](got),
        (b3(predicted, g), sum(map(len, predicted)), b3(gold, p), sum(map(len, gold))),
    )
    phi = np.array(
        [[2 * sum(m in r for m in k) / (len(k) + len(r)) for r in predicted] for k in gold]
    ).reshape(len(gold), len(predicted))
    assert (
        abs(METRICS["ceafe"](got).right_gold - phi[linear_sum_assignment(phi, maximize=True)].sum())
        < 1e-9
    )


@given(st.lists(st.lists(SPANS, min_size=1, max_size=4), max_size=3))
def test_f48_the_official_reading_keeps_the_first(predicted):
    seen, kept = set(), []
    for c in predicted:
        kept.append([m for m in c if not (m in seen or seen.add(m))])
    assert scores(predicted, predicted) == scores([c for c in kept if c], [c for c in kept if c])


def test_f48_refusals():
    with pytest.raises(DataError, match="the predicted clusters appear twice, one is \\[3, 4\\]"):
        scores([], [[(1, 1), (3, 4)], [(3, 4)]], duplicates="error")
    with pytest.raises(DataError, match="the gold clusters appear twice"):
        scores([[(3, 4), (3, 4)]], [], duplicates="error")
    with pytest.raises(DataError, match="11 mentions .* refuses more than 10"):
        scores([], [[(1, 1)] * 12])
    assert scores([], [[(1, 1)] * 11])["b3"].precision == 0


def book(*clusters, words="Ann met Bea . She sang .") -> Document:
    return Document("d", (tuple(words.split()),), clusters)


@pytest.mark.parametrize(
    "clusters",
    [[((0, 0), (0, 0), (4, 4))], [((0, 0), (4, 4)), ((0, 0), (2, 2))]],
    ids=["in one cluster", "in two"],
)
def test_f48_a_mention_that_stands_twice_is_told(tmp_path, capsys, clusters):
    gold, predicted = book(((0, 0), (4, 4))), book(*clusters)
    assert "1 with a mention that appears twice" in repr(score_coref(gold, predicted))
    for name, d in (("gold", gold), ("said", predicted)):
        write_documents([d], tmp_path / f"{name}.jsonl")
    said = here(capsys, "score", "coref", tmp_path / "gold.jsonl", tmp_path / "said.jsonl")
    assert (
        said.status == 0
        and "1 of the documents have a mention that appears twice, which counts by --duplicates official: d"
        in said.err
    )


# Other texts (F69)


@pytest.mark.parametrize(
    "words, told",
    [
        (
            "Eve saw Rex . He left .",
            "5 of 7 words differ, the first is 'Eve' where gold has 'Ann' (token 0)",
        ),
        ("Ann met Bea . She sang !", "1 of 7 words differ"),
    ],
)
def test_f69_equal_counts_of_other_words_are_no_score(words, told):
    with pytest.raises(DataError) as e:
        score_coref(book(((0, 0), (4, 4))), book(((0, 0), (4, 4)), words=words))
    assert told in str(e.value) and "document 'd'" in str(e.value)


@pytest.mark.parametrize(
    "words",
    ["ann met bea . she sang .", "Ann met [UNK] . She sang .", "Ａnn met Bea . She sang ."],
    ids=["small", "unknown", "wide"],
)
def test_f69_the_same_words_in_another_form_are(words):
    assert (
        score_coref(book(((0, 0), (4, 4))), book(((0, 0), (4, 4)), words=words))
        .pooled()["conll"]
        .f1
        > 0
    )


@pytest.mark.parametrize(
    "span", [(0, 1 << 31), (1 << 31, 1 << 31), (0, 1 << 32), (0, 1 << 70), (-1, 0)]
)
def test_f69_spans_beyond_any_text(span):
    with pytest.raises(DataError, match="is outside of a text of at most 2,147,483,648 tokens"):
        scores([[(0, 0)]], [[span]])
    with pytest.raises(ValueError, match="is not a span of at most 2,147,483,648 tokens"):
        Document("d", clusters=((span,),))


# Corners (F47)


@pytest.mark.parametrize(
    "gold, predicted",
    [
        ([], []),
        ([[(0, 0)]], []),
        ([], [[(0, 0), (1, 1)]]),
        ([[]], [[]]),
        ([[(0, 0)], [(1, 1)]], [[(0, 0), (1, 1)]]),
    ],
)
def test_f47_corners(gold, predicted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(v == v for s in scores(gold, predicted).values() for v in s)


def test_f49_missing_and_unknown_documents():
    a, b = (Document(k, (("x",) * 9,), tidy([[(0, 0), (1, 1)], [(3, 4), (6, 6)]])) for k in "ab")
    got = score_coref([a, b], [b, a.changed(doc_key="z")])
    assert (got.missing, got.extra, got.documents, got.pooled()["muc"].recall) == (
        ["a"],
        ["z"],
        2,
        0.5,
    )
    with pytest.raises(DataError, match="appears twice"):
        score_coref([a], [a, a])
    with pytest.raises(DataError, match="have no|no document has both"):
        score_coref([a], [b])


# Independent scorers


def both_kinds(clusters) -> bool:
    return len(clusters) > 1 and any(len(c) > 1 for c in clusters)


@given(partition(), partition())
@examples(150)
def test_parity_with_scorch(gold, predicted):
    "Where nothing is shared it raises, and without links its MUC is 1: those cases are ours alone."
    scorch = pytest.importorskip("scorch.scores")
    if not {m for c in gold for m in c} & {m for c in predicted for m in c}:
        return
    got, functions = (
        scores(gold, predicted),
        {"b3": scorch.b_cubed, "ceafe": scorch.ceaf_e, "ceafm": scorch.ceaf_m},
    )
    if both_kinds(gold) and both_kinds(predicted):
        functions |= {"blanc": scorch.blanc, "muc": scorch.muc}
    for name, f in functions.items():
        try:
            r, p, f1 = f([set(c) for c in gold], [set(c) for c in predicted])
        except ValueError:
            continue  # the harmonic mean of nothing
        assert near((p, r, f1), got[name]), name


@given(partition(), partition())
@examples(150)
def test_parity_with_coreference_eval(gold, predicted):
    "It leaves singletons out here and there, so there are none."
    theirs = pytest.importorskip("corefeval.metrics")
    from corefeval.document import Document as Theirs

    gold, predicted = ([c for c in x if len(c) > 1] for x in (gold, predicted))
    d, t = Theirs(predicted, gold), table(gold, predicted)
    for name, f in {"muc": theirs.muc, "b3": theirs.b_cubed, "lea_released": theirs.lea}.items():
        assert near((*f(d.pred, d.gold_mentions), *f(d.gold, d.pred_mentions)), METRICS[name](t)), (
            name
        )
    if gold and predicted:
        assert near(theirs.ceafe(d.pred, d.gold), METRICS["ceafe"](t))


# A book (F44)


def synthetic(n: int, clusters: int, seed: int) -> list[list[tuple[int, int]]]:
    "Clusters of a book: n mentions that do not overlap, Zipf-like clusters."
    rng = np.random.default_rng(seed)
    start = np.arange(n) * 11 + rng.integers(0, 8, n)
    label = (clusters * rng.random(n) ** 2).astype(int)
    out: dict = {}
    for s, l in zip(start.tolist(), label.tolist(), strict=True):
        out.setdefault(l, []).append((s, s + s % 3))
    return list(out.values())


def test_f44_a_fragmented_book_needs_little_memory():
    "100,000 mentions in 20,000 clusters on each side; the dense matrix would have 400 million entries."
    gold, predicted = synthetic(100_000, 20_000, 1), synthetic(100_000, 20_000, 1)
    moved = [
        [*a[len(a) // 2 :], *b[: len(b) // 2]]
        for a, b in zip(predicted, predicted[1:] + predicted[:1], strict=True)
    ]
    tracemalloc.start()
    got = {m: as_prf(METRICS[m](table(gold, moved))) for m in CONLL}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.3 < got["ceafe"].f1 < 0.9 and peak < 150e6


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(5, 50), st.data())
def test_f44_every_mention_is_in_exactly_one_window(lengths, length, data):
    "Of the paper's windows; the released ones lose and double some."
    sentences = [["w"] * n for n in lengths]
    size = sum(lengths)
    starts = data.draw(st.lists(st.integers(0, size - 1), max_size=30, unique=True))
    clusters = (tuple(Span(s, min(s + 1, size - 1)) for s in starts),) if starts else ()
    for mode in ("paper", "fixed"):
        assert sorted(
            s for w in cut(clusters, sentences, mode, length) for c in w for s in c
        ) == sorted(s for c in clusters for s in c)
    slots = sorted(
        s.start for w in cut(clusters, sentences, "released", length) for c in w for s in c
    )
    cuts = [*range(length, size // length * length + 1, length), size]
    assert slots == sorted(s for s in starts for c in cuts if c - length < s < c)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(5, 50))
def test_windows_hold_the_whole_text(lengths, length):
    d = Document("b", tuple(("w",) * n for n in lengths))
    windows = split(d, length)
    assert [s for w in windows for s in w.sentences] == list(d.sentences) and [
        w.doc_key for w in windows
    ] == [f"b_split{length}_S{s}" for s in window_starts(d.sentences, length)]
