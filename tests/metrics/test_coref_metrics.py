"The metrics of coreference: the official scorer's cases, laws, other scorers, and a book's size."

import csv, itertools, tracemalloc, warnings
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linear_sum_assignment
from refnb import Document, score_coref
from refnb.core.conll import parse_conll
from refnb.core.reading import write_documents
from refnb.core.types import CallError, DataError, Span
from refnb.core.upstream import files_of, get
from refnb.core.settings import load_settings
from refnb.metrics.coref import scores
from refnb.metrics.windows import split
from tools import DATA, examples, here

SPANS = st.integers(0, 30).map(lambda i: (i, i + i % 3))
CROWDED = st.lists(st.lists(SPANS, min_size=1, max_size=5), max_size=4)  # mentions stand twice


@st.composite
def partition(draw):
    "Clusters that share no mention."
    spans = draw(st.lists(SPANS, max_size=14, unique=True))
    labels = draw(st.lists(st.integers(0, 4), min_size=len(spans), max_size=len(spans)))
    clusters: dict = {}
    for span, label in zip(spans, labels, strict=True):
        clusters.setdefault(label, []).append(span)
    return list(clusters.values())


def near(a, b) -> bool:
    return np.allclose(a, b, atol=1e-9)


def book(*clusters, words="Ann met Bea . She sang .", key="d") -> Document:
    return Document(key, (tuple(words.split()),), clusters)


PAIR = ((0, 0), (4, 4))


# The official scorer


def test_every_number_of_the_official_scorers_own_cases(upstream):
    s = load_settings("/", env={"REFNB_UPSTREAM": str(upstream)})
    docs = {
        f.path.rsplit("/", 1)[1]: parse_conll(get(f, s), f.path)
        for f in files_of("coref-scorers")
        if f.path.endswith((".key", ".response"))
    }
    rows = list(csv.DictReader((DATA / "official_scorer_cases.tsv").open(), delimiter="\t"))
    assert len(rows) == 91
    for r in rows:
        offsets = [d.changed(sentences=()) for d in docs[r["response"]]]  # some words differ
        got = score_coref(docs[r["key"]], offsets, metrics=[r["metric"]]).pooled()
        for k in ("recall", "precision", "f1"):
            assert abs(getattr(got[r["metric"]], k) - float(r[k])) < 1e-4, r
    [d] = docs["TC-A-9.response"]  # which says one mention eleven times: none of them is lost
    assert sorted(map(len, d.clusters)) == [1, 2, 3, 11] and len(set(d.mentions)) == 7


def test_clusters_without_documents_are_scored_as_documents_are():
    gold, said = [[(0, 1), (5, 5)], [(3, 3)]], [[(0, 1), (5, 5), (3, 3)]]

    def doc(clusters):
        return Document("x", clusters=tuple(tuple(Span(*s) for s in c) for c in clusters))

    want = score_coref(doc(gold), doc(said)).pooled()
    arrays = [np.array(c) for c in said]
    for a, b in ((gold, said), (doc(gold), said), (gold, [doc(said)]), (gold, arrays)):
        assert score_coref(a, b).pooled() == want
    for a, b in ((gold, []), ([], said)):
        assert score_coref(a, b).pooled()["b3"] == (0, 0, 0)
    mixed = [doc(gold), [(0, 1)]]
    for bad in ([[(0, 1, 2)]], [(0, 1)], [[(5, 3)]], [[("a", "b")]], mixed, [1]):
        with pytest.raises(CallError, match="cannot be scored"):
            score_coref(gold, bad)


# Laws, and the formulas written down once more, slowly


@given(partition(), partition(), st.randoms())
def test_laws_of_all_metrics(gold, predicted, random):
    "Sides change places, order means nothing, gold against itself is perfect, all is a fraction."
    got, other = scores(gold, predicted), scores(predicted, gold)

    def shuffled(clusters):
        return random.sample([random.sample(c, len(c)) for c in clusters], len(clusters))

    again = scores(shuffled(gold), shuffled(predicted))
    perfect = scores(gold, gold)
    for m, score in got.items():
        assert all(0 <= v <= 1 + 1e-12 for v in score), m
        assert near(again[m], score), m
        if m != "blanc" and m != "conll":
            assert near(other[m], (score.recall, score.precision, score.f1)), m
        known = any(len(c) > 1 for c in gold) if m in ("muc", "lea_released", "conll") else gold
        assert not known or near(perfect[m], 1), m
    for duplicates in ("released", "error"):  # there are none
        assert scores(gold, predicted, duplicates=duplicates) == got


@given(partition(), partition())
def test_dropped_singletons_are_as_if_nobody_had_said_them(gold, predicted):
    many = [[c for c in clusters if len(c) > 1] for clusters in (gold, predicted)]
    assert scores(gold, predicted, singletons=False) == scores(*many)


def best_pairs(gold, predicted, likeness) -> float:
    "The largest sum that a one-to-one assignment of clusters has."
    dense = np.array([[likeness(k, r) for r in predicted] for k in gold])
    dense = dense.reshape(len(gold), len(predicted))
    return dense[linear_sum_assignment(dense, maximize=True)].sum()


def slow(gold, predicted) -> dict:
    "Precision and recall by the definitions, mention by mention and link by link."
    g, p = ({m: i for i, c in enumerate(side) for m in c} for side in (gold, predicted))

    def part(right, of):
        return right / of if of else 0.0

    def muc(a, other):
        pieces = [len({other.get(m, m) for m in c}) for c in a]
        return part(sum(len(c) for c in a) - sum(pieces), sum(len(c) - 1 for c in a))

    def b3(a, b, other, n):
        right = (len(set(c) & set(b[other[m]])) / len(c) for c in a for m in c if m in other)
        return part(sum(right), n)

    def links(c):
        return {frozenset(x) for x in itertools.combinations(c, 2)} or {frozenset(c)}

    def lea(a, b, n):
        found = (
            len(c) * len(links(c) & links(d)) / len(links(c))
            for c in a
            for d in b
            if len(c) > 1 or len(d) == 1
        )
        return part(sum(found), n)

    def joined(a):
        return {frozenset(x) for c in a for x in itertools.combinations(c, 2)}

    def apart(a, where):
        return {frozenset(x) for x in itertools.combinations(where, 2)} - joined(a)

    e = best_pairs(gold, predicted, lambda k, r: 2 * len(set(k) & set(r)) / (len(k) + len(r)))
    m = best_pairs(gold, predicted, lambda k, r: len(set(k) & set(r)))
    kinds = [(joined(gold), joined(predicted)), (apart(gold, g), apart(predicted, p))]
    kinds = [(len(k & r), len(k), len(r)) for k, r in kinds if k]
    either = float(set(g) == set(p) and bool(g))  # where gold has no pair at all
    return {
        "muc": (muc(predicted, g), muc(gold, p)),
        "b3": (b3(predicted, gold, g, len(p)), b3(gold, predicted, p, len(g))),
        "ceafe": (part(e, len(predicted)), part(e, len(gold))),
        "ceafm": (part(m, len(p)), part(m, len(g))),
        "lea": (lea(predicted, gold, len(p)), lea(gold, predicted, len(g))),
        "blanc": (
            sum(part(n, r) for n, _, r in kinds) / len(kinds) if kinds else either,
            sum(part(n, k) for n, k, _ in kinds) / len(kinds) if kinds else either,
        ),
    }


@given(partition(), partition())
@examples(150)
def test_the_metrics_are_their_definitions(gold, predicted):
    got = scores(gold, predicted)
    for name, expected in slow(gold, predicted).items():
        assert near(got[name][:2], expected), name


def test_nothing_to_score_is_no_warning_and_no_nan():
    one, two = [[(0, 0)]], [[(0, 0)], [(1, 1)]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for gold, predicted in (
            ([], []),
            (one, []),
            ([], two),
            ([[]], [[]]),
            (two, [sum(two, [])]),
        ):
            assert all(v == v for s in scores(gold, predicted).values() for v in s)


# Mentions that stand twice


@given(CROWDED, CROWDED)
def test_the_released_reading_counts_as_bookcorefs_code_does(gold, predicted):
    "Lists as they are, and each mention in the last cluster that holds it."
    g, p = ({m: i for i, c in enumerate(side) for m in c} for side in (gold, predicted))
    got = scores(gold, predicted, duplicates="released")

    def common(c, other):
        return np.unique([other[m] for m in c if m in other], return_counts=True)[1]

    def muc(a, other):
        right = sum(common(c, other).sum() - len(common(c, other)) for c in a)
        return right / max(1, sum(len(c) - 1 for c in a))

    def b3(a, other):
        right = sum((common(c, other) ** 2).sum() / len(c) for c in a)
        return right / max(1, sum(map(len, a)))

    def phi(k, r):
        return 2 * sum(m in r for m in k) / (len(k) + len(r))

    best = best_pairs(gold, predicted, phi)
    assert near(got["muc"][:2], (muc(predicted, g), muc(gold, p)))
    assert near(got["b3"][:2], (b3(predicted, g), b3(gold, p)))
    assert near(got["ceafe"][:2], (best / max(1, len(predicted)), best / max(1, len(gold))))


@given(st.lists(st.lists(SPANS, min_size=1, max_size=5), max_size=2))  # more than 10 are refused
def test_the_official_reading_keeps_the_first(predicted):
    seen, kept = set(), []
    for c in predicted:
        kept.append([m for m in c if not (m in seen or seen.add(m))])
    kept = [c for c in kept if c]
    assert scores(predicted, predicted) == scores(kept, kept)


def test_a_mention_twice_is_refused_where_that_is_asked_for_or_there_are_many():
    twice = [[(1, 1), (3, 4)], [(3, 4)]]
    for sides, who in ((([], twice), "predicted"), ((twice, []), "gold")):
        with pytest.raises(DataError, match=rf"the {who} clusters appear twice, one is \[3, 4\]"):
            scores(*sides, duplicates="error")
    with pytest.raises(DataError, match="11 mentions"):
        scores([], [[(1, 1)] * 12])
    assert scores([], [[(1, 1)] * 11])["b3"].precision == 0


@pytest.mark.parametrize("clusters", [[((0, 0), *PAIR)], [PAIR, ((0, 0), (2, 2))]])
def test_a_mention_twice_in_one_cluster_or_in_two_is_told(tmp_path, capsys, clusters):
    gold, predicted = book(PAIR), book(*clusters)
    assert "1 with a mention that appears twice" in repr(score_coref(gold, predicted))
    files = [tmp_path / "gold.jsonl", tmp_path / "said.jsonl"]
    for path, d in zip(files, (gold, predicted), strict=True):
        write_documents([d], path)
    said = here(capsys, "score", "coref", *files)
    assert said.status == 0 and "1 of the documents" in said.err and "--duplicates" in said.err


# Documents that do not fit


def test_missing_and_extra_documents_are_told_and_a_key_twice_is_refused():
    a, b = (book(PAIR, ((2, 2), (6, 6)), key=k) for k in "ab")
    got = score_coref([a, b], [b, a.changed(doc_key="z")])
    assert (got.missing, got.extra, got.documents) == (["a"], ["z"], 2)
    assert got.pooled()["muc"].recall == 0.5
    with pytest.raises(DataError, match="'a' appears twice"):
        score_coref([a], [a, a])
    with pytest.raises(DataError, match="gold has 'a', the prediction 'b'"):
        score_coref([a], [b])


def test_other_words_than_golds_are_no_score():
    gold = book(PAIR)
    for words, n in (("Eve saw Rex . He left .", 5), ("Ann met Bea . She sang !", 1)):
        with pytest.raises(DataError, match=f"document 'd': {n} of 7 words differ"):
            score_coref(gold, book(PAIR, words=words))
    with pytest.raises(DataError, match="document 'd': gold has 7 tokens and the prediction 6"):
        score_coref(gold, book(PAIR, words="Ann met Bea . She sang"))
    with pytest.raises(DataError, match=r"document 'd'.*\[40, 40\] lies beyond the 7 tokens"):
        score_coref(gold, Document("d", clusters=(((40, 40),),)))
    for words in (
        "ann met bea . she sang .",
        "Ann met [UNK] . She sang .",
        "Ａnn met Bea . She sang .",
    ):
        assert score_coref(gold, book(PAIR, words=words)).pooled()["conll"].f1 > 0, words


def test_a_span_beyond_any_text_is_refused():
    for span in ((0, 1 << 31), (1 << 31, 1 << 31), (0, 1 << 32), (0, 1 << 70), (-1, 0)):
        with pytest.raises(DataError, match="2,147,483,648 tokens"):
            scores([[(0, 0)]], [[span]])
        with pytest.raises(ValueError, match="2,147,483,648 tokens"):
            Document("d", clusters=((span,),))


# Independent scorers


@given(partition(), partition())
@examples(150)
def test_scorch_has_the_same_scores(gold, predicted):
    "Where nothing is shared it raises, and without links its MUC is 1: those cases are ours alone."
    scorch = pytest.importorskip("scorch.scores")
    if not {m for c in gold for m in c} & {m for c in predicted for m in c}:
        return
    functions = {"b3": scorch.b_cubed, "ceafe": scorch.ceaf_e, "ceafm": scorch.ceaf_m}
    if all(len(x) > 1 and any(len(c) > 1 for c in x) for x in (gold, predicted)):
        functions |= {"blanc": scorch.blanc, "muc": scorch.muc}
    got = scores(gold, predicted)
    for name, f in functions.items():
        try:
            r, p, f1 = f([set(c) for c in gold], [set(c) for c in predicted])
        except ValueError:
            continue  # the harmonic mean of nothing
        assert near((p, r, f1), got[name]), name


@given(partition(), partition())
@examples(150)
def test_corefeval_has_the_same_scores(gold, predicted):
    "It leaves singletons out here and there, so there are none."
    theirs = pytest.importorskip("corefeval.metrics")
    from corefeval.document import Document as Theirs

    gold, predicted = ([c for c in x if len(c) > 1] for x in (gold, predicted))
    d, got = Theirs(predicted, gold), scores(gold, predicted)
    for name, f in {"muc": theirs.muc, "b3": theirs.b_cubed, "lea_released": theirs.lea}.items():
        sides = f(d.pred, d.gold_mentions), f(d.gold, d.pred_mentions)
        assert near([right / of if of else 0 for right, of in sides], got[name][:2]), name
    if gold and predicted:
        right, of_predicted, right_too, of_gold = theirs.ceafe(d.pred, d.gold)
        assert near((right / of_predicted, right_too / of_gold), got["ceafe"][:2])


# A book


def synthetic(n: int, clusters: int) -> list[list[tuple[int, int]]]:
    "Clusters of a book: n mentions that do not overlap, Zipf-like clusters."
    rng = np.random.default_rng(1)
    start = np.arange(n) * 11 + rng.integers(0, 8, n)
    label = (clusters * rng.random(n) ** 2).astype(int)
    out: dict = {}
    for s, l in zip(start.tolist(), label.tolist(), strict=True):
        out.setdefault(l, []).append((s, s + s % 3))
    return list(out.values())


def test_a_book_in_fragments_needs_little_memory():
    "100,000 mentions in 20,000 clusters a side; a dense matrix would have 400 million entries."
    gold = synthetic(100_000, 20_000)
    turned = zip(gold, gold[1:] + gold[:1], strict=True)
    moved = [[*a[len(a) // 2 :], *b[: len(b) // 2]] for a, b in turned]
    tracemalloc.start()
    try:
        got = scores(gold, moved, ("muc", "b3", "ceafe"))
        assert 0.3 < got["ceafe"].f1 < 0.9 and tracemalloc.get_traced_memory()[1] < 150e6
    finally:
        tracemalloc.stop()


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(5, 50), st.data())
def test_windows_hold_the_whole_text_and_each_mention_once(lengths, length, data):
    "The paper's do; those of the released evaluator lose and double some, in a known way."
    size = sum(lengths)
    starts = data.draw(st.lists(st.integers(0, size - 1), max_size=30, unique=True))
    clusters = (tuple(Span(s, min(s + 1, size - 1)) for s in starts),) if starts else ()
    d = Document("b", tuple(("w",) * n for n in lengths), clusters)
    windows = split(d, length, crossing="drop")
    assert [s for w in windows for s in w.sentences] == list(d.sentences)
    firsts = [int(w.doc_key.removeprefix(f"b_split{length}_S")) for w in windows]
    assert firsts == [sum(len(w.sentences) for w in windows[:i]) for i in range(len(windows))]

    def counted(mode):
        got = score_coref(d, d, "window", mode, metrics=["mentions"], length=length).sums()
        return got["mentions"].gold

    for mode in ("paper", "fixed"):
        assert counted(mode) == len(starts), mode
    cuts = [*range(length, size // length * length + 1, length), size]
    assert counted("released") == sum(c - length < s < c for s in starts for c in cuts)
