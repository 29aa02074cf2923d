"""Coreference at book scale, and KITMUS at full size, against their budgets; other scorers beside ours on what they can score in a second. Called by bench.py, or alone."""

import sys, tempfile
from collections.abc import Callable, Iterator
from functools import partial
import numpy as np
from measure import Row, absent, cpu, peak, show, upstream_is_here, with_memory

Clusters = list[list[tuple[int, int]]]
CONLL = "MUC + B3 + CEAFe"


# Books that are made up


def grouped(starts: np.ndarray, widths: np.ndarray, labels: np.ndarray) -> Clusters:
    out: dict = {}
    for s, w, l in zip(starts.tolist(), widths.tolist(), labels.tolist(), strict=True):
        out.setdefault(l, []).append((s, s + w))
    return list(out.values())


def book(mentions: int, gold: int, predicted: int, seed: int = 12345) -> tuple[Clusters, Clusters]:
    "A synthetic book: 88 % of the gold mentions are found, 12 % more are spurious, 15 % of the found ones go astray; clusters as by Zipf, cut into as many pieces as asked."
    rng = np.random.default_rng(seed)
    start, width = (
        np.arange(2 * mentions) * 11 + rng.integers(0, 4, 2 * mentions),
        rng.integers(0, 4, 2 * mentions),
    )
    slot = np.sort(rng.permutation(2 * mentions)[:mentions])
    who = rng.choice(35, mentions, p=(w := 1 / np.arange(1, 36)) / w.sum())
    piece = lambda label, n: (
        label if n <= 35 else label + 35 * rng.integers(0, -(-n // 35), len(label))
    )
    found, astray = rng.random(mentions) < 0.88, rng.random(mentions) < 0.15
    heard = np.where(astray, rng.integers(0, 35, mentions), who)[found]
    free = rng.permutation(np.setdiff1d(np.arange(2 * mentions), slot))[: int(0.12 * mentions)]
    slots, labels = (
        np.concatenate([slot[found], free]),
        np.concatenate([heard, rng.integers(0, 35, len(free))]),
    )
    return grouped(start[slot], width[slot], piece(who, gold)), grouped(
        start[slots], width[slots], piece(labels, predicted)
    )


def squeezed(clusters: Clusters, words: int, last: int) -> tuple[tuple, ...]:
    "The same clusters in a book of so many words."
    from refnb.core.types import Span

    at = lambda x: x * (words - 1) // last
    return tuple(tuple(dict.fromkeys(Span(at(s), at(e)) for s, e in c)) for c in clusters)


def documents(words: int, mentions: int, gold: int, predicted: int):
    "A book of so many words as a document, and as a system might return it."
    from refnb.core.documents import Document

    pair = book(mentions, gold, predicted)
    last = max(e for side in pair for c in side for _, e in c)
    sentences = tuple(
        tuple(f"w{i % 5000}" for i in range(k, min(k + 25, words))) for k in range(0, words, 25)
    )
    return [[Document("book", sentences, squeezed(side, words, last))] for side in pair]


# Scorers


def three(gold: Clusters, predicted: Clusters) -> float:
    "MUC + B3 + CEAFe by refnb."
    from refnb.metrics.coref import CONLL, METRICS, as_prf, table

    t = table(gold, predicted)
    return sum(as_prf(METRICS[m](t)).f1 for m in CONLL) / 3


def scorch(gold: Clusters, predicted: Clusters) -> float:
    import scorch.scores as s

    g, p = [set(c) for c in gold], [set(c) for c in predicted]
    return sum(f(g, p)[2] for f in (s.muc, s.b_cubed, s.ceaf_e)) / 3


def coreference_eval(gold: Clusters, predicted: Clusters) -> float:
    import corefeval.metrics as m
    from corefeval.document import Document

    d = Document(predicted, gold)
    f1 = lambda p, pn, r, rn: 2 * p * r / (p * rn + r * pn)
    return (
        sum(
            f1(*x)
            for x in (
                (*m.muc(d.pred, d.gold_mentions), *m.muc(d.gold, d.pred_mentions)),
                (*m.b_cubed(d.pred, d.gold_mentions), *m.b_cubed(d.gold, d.pred_mentions)),
                m.ceafe(d.pred, d.gold),
            )
        )
        / 3
    )


def beside_others() -> Iterator[Row]:
    "Ours and two others on what all three can score in a second; scorch with the same result, coreference-eval has another CEAFe."
    g, p = book(2_000, 35, 200)
    expected = three(g, p)
    for name, scorer in (
        ("refnb", three),
        ("scorch", scorch),
        ("coreference-eval", coreference_eval),
    ):
        if scorer is scorch:
            assert abs(scorer(g, p) - expected) < 1e-9, name
        yield Row(f"{CONLL}, 2,000 mentions, 35 × 200 clusters: {name}", cpu(partial(scorer, g, p)))


def by_size() -> Iterator[Row]:
    "Growth with the mentions; the largest has more clusters than the longest book."
    for n, budget in ((10_000, None), (100_000, None)):
        g, p = book(n, 35, n // 10)
        yield Row(
            f"{CONLL}, {n:,} mentions, 35 × {len(p):,} clusters", cpu(partial(three, g, p)), budget
        )
    g, p = book(60_000, 35, 20_000)
    yield Row(
        f"{CONLL}, 60,000 mentions, 35 × {len(p):,} clusters", cpu(partial(three, g, p)), 0.06
    )


def fragmented() -> Iterator[Row]:
    "Both sides in pieces: the alignment of CEAFe is what costs."
    prepare = "from bench_books import book, three; g, p = book(60_000, 17_500, 20_000); three(g[:9], p[:9])"
    yield from with_memory(
        f"{CONLL}, 60,000 mentions, both fragmented (about 15,000 × 17,000 clusters)",
        peak(prepare, "three(g, p)"),
        2.0,
        700.0,
    )


def whole_book() -> Iterator[Row]:
    "As many words, mentions and characters as BookCoref's test books have, all metrics that refnb has."
    prepare = "from bench_books import documents; from refnb.metrics.coref_scores import score_coref; g, p = documents(225_506, 23_057, 67, 2_000)"
    for setting, budget in (("full", 2.0), ("window", 4.0)):
        yield from with_memory(
            f"all metrics of a book of 225,506 words and 23,057 mentions, {setting}",
            peak(prepare, f"score_coref(g, p, {setting!r})"),
            budget,
        )


# From files

NOVEL = """
import numpy as np
from pathlib import Path
from refnb.core.reading import read_documents
rng, n = np.random.default_rng(0), {tokens}
word, mark = rng.integers(0, 20_000, n).tolist(), rng.integers(0, 11, n).tolist()
lines = ["#begin document (book); part 000"]
for i in range(n):
    mention = f"({{word[i] % 40}})" if not mark[i] else "-"
    lines.append(f"book\\t0\\t{{i % 25}}\\tword{{word[i]}}\\t-\\t-\\t-\\t-\\t-\\t-\\t-\\t{{mention}}")
    if i % 25 == 24: lines.append("")
path = Path({path!r})
path.write_text("\\n".join([*lines, "#end document", ""]))
del lines, word, mark
"""


def novel() -> Iterator[Row]:
    "Reading a CoNLL book."
    with tempfile.TemporaryDirectory() as tmp:
        prepare = NOVEL.format(tokens=700_000, path=f"{tmp}/book.conll")
        yield from with_memory(
            "reading a CoNLL book of 700,000 tokens",
            peak(prepare, "read_documents(path)"),
            3.0,
            600.0,
        )


def from_files() -> Row:
    "Three systems on Animal Farm in three settings and one pair on Pride and Prejudice, files included."
    from refnb.core.conll import parse_conll
    from refnb.core.jsonlines import parse_jsonlines
    from refnb.core.settings import load_settings
    from refnb.core.upstream import files_of, get, where
    from refnb.metrics.coref_scores import score_coref

    name = "from files: three systems on Animal Farm in three settings, one pair on Pride and Prejudice"
    s, stem, conll = (
        load_settings(offline=True),
        "SapienzaNLP/bookcoref/predictions/",
        ("muc", "b3", "ceafe"),
    )
    systems = (
        "off_the_shelf/booknlp",
        "off_the_shelf/maverick_xl",
        "finetuned_bookcoref/maverick_xl",
    )
    if any(where(f, s) == "missing" for n in ("bookcoref", "animal-farm") for f in files_of(n)):
        return absent(name)

    def score_all():
        gold = parse_conll(get("QipengGuo/dual-cache-coref/data/animal_farm_anno.conll", s))
        full = {n: parse_jsonlines(get(f"{stem}{n}.jsonl", s)) for n in systems}
        for n in systems:
            score_coref(gold, full[n], metrics=conll)
            score_coref(gold, full[n], "window", metrics=conll)
            score_coref(
                gold, parse_jsonlines(get(f"{stem}{n}_splitted.jsonl", s)), "split", metrics=conll
            )
        pride = [
            [d for d in full[n] if d.doc_key.startswith("pride")] for n in (systems[2], systems[0])
        ]
        score_coref(*pride, metrics=conll)

    return Row(name, cpu(score_all), 2.0)


def by_heads() -> Row:
    "LitBank's 100 documents by head match, heads by rule; of the mentions of several words each second loses its first."
    name = "LitBank by head match with all of CorefUD's metrics"
    if not upstream_is_here():
        return absent(name)
    import refnb
    from refnb.core.types import Span
    from refnb.metrics.coref_scores import score_coref
    from refnb.metrics.matching import with_heads

    gold = [with_heads(d) for d in refnb.load("litbank")]
    cut = lambda c: tuple(
        dict.fromkeys(Span(s.start + (i % 2 and s.end > s.start), s.end) for i, s in enumerate(c))
    )
    predicted = [
        with_heads(d.changed(clusters=tuple(map(cut, d.clusters)), names=(), labels={}))
        for d in gold
    ]
    return Row(name, cpu(lambda: score_coref(gold, predicted, match="head")), 0.25)


# KITMUS

SAMPLER = """
from refnb.benchmarks.kitmus.sampler import Sampler
from refnb.benchmarks.kitmus.files import split_files
from refnb.benchmarks.kitmus.tasks import the_resources
s = Sampler(the_resources('released'))
"""
REPLAY = """
from refnb.benchmarks.tasks import find_task
from refnb.core.settings import load_settings
from refnb.models.published.kitmus import predicted_files
from refnb.models.running import run
s = load_settings(runs='{0}/runs', reports='{0}/reports')
some = sorted((p for p in predicted_files() if p.variant == 'background-train' and p.split == 'test' and p.file.size is not None), key=lambda p: p.task)
tasks = {{p.task: find_task(p.task, s) for p in some}}
"""


def kitmus() -> Iterator[Row]:
    "What a build writes, and what scoring released predictions takes; the budgets are shares of 40 s for all files and of 16 s for all 125 runs."
    from refnb.benchmarks.kitmus.tasks import released_is_here
    from refnb.core.settings import load_settings

    if not released_is_here(load_settings(offline=True)):
        yield absent("KITMUS: all released texts and predictions")
        return
    name = "KITMUS: one of the eight variants (0.6 of 3.9 GB) in every format and scope, hashed in memory"
    call = "assert sum(1 for t in s.subtasks(['background-both']) for _ in split_files(t)) == 87"
    yield from with_memory(name, peak(SAMPLER, call), 6.1, 400.0)
    with tempfile.TemporaryDirectory() as tmp:
        used, _ = peak(
            REPLAY.format(tmp), "for p in some: assert run(tasks[p.task], p.system, s=s).sealed"
        )
    yield Row(
        "KITMUS: the 105,600 released texts drawn, and 32 files of released predictions scored as runs",
        used,
        6.4,
    )


BENCHES: list[Callable] = [
    beside_others,
    by_size,
    fragmented,
    whole_book,
    novel,
    from_files,
    by_heads,
    kitmus,
]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
