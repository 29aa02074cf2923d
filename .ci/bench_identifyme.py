"""IdentifyMe's builder against its budgets: the LitBank half from cached files, growth with the number of mentions, and a whole novel. Called by bench.py, or alone."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
import numpy as np
from measure import Row, absent, cpu, peak, show, upstream_is_here, with_memory


def story(mentions: int, tokens: int = 0, entities: int = 60, seed: int = 7):
    "A made-up story: entities as by Zipf, one mention in two a pronoun, names and nominals of a small vocabulary, a few spans nested."
    from refnb.core.documents import Document
    from refnb.core.types import Span

    rng = np.random.default_rng(seed)
    n = tokens or 9 * mentions
    words = np.array(
        [
            "the",
            "a",
            "old",
            "grey",
            "house",
            "sister",
            "ferryman",
            "letter",
            "said",
            ",",
            ".",
            "came",
            "went",
            "river",
        ]
    )[rng.integers(0, 14, n)]
    starts = np.sort(rng.choice(n - 6, mentions, replace=False))
    pronouns, nominals, who = (
        ("he", "she", "it", "I", "you"),
        ("the old sister", "a grey house", "the ferryman"),
        rng.choice(entities, mentions, p=(w := 1 / np.arange(1, entities + 1)) / w.sum()),
    )
    clusters: dict = {}
    for s, e, kind, k in zip(
        starts.tolist(),
        who.tolist(),
        (rng.random(mentions) < 0.5).tolist(),
        rng.integers(0, 3, mentions).tolist(),
        strict=True,
    ):
        said = [pronouns[e % 5]] if kind else nominals[k].split() if k else [f"Name{e}"]
        words[s : s + len(said)] = said[:1] if len(said) == 1 else said
        clusters.setdefault(e, []).append(
            (Span(s, s + len(said) - 1), "PRON" if kind else "NOM" if k else "PROP")
        )
    sentences = tuple(tuple(words[i : i + 20].tolist()) for i in range(0, n, 20))
    order = sorted(clusters)
    return Document(
        f"story-{mentions}",
        sentences,
        tuple(tuple(s for s, _ in clusters[e]) for e in order),
        tuple(f"Name{e}" for e in order),
        {"kind": tuple(tuple(k for _, k in clusters[e]) for e in order)},
    )


def whole(d, **rules):
    "From a document without names to questions."
    from refnb.benchmarks.identifyme.building import build_benchmark

    return build_benchmark("identifyme", [d], names="auto", max_others=1.0, **rules)


def half() -> Iterator[Row]:
    "A new process that makes the LitBank half, imports included."
    name = "IdentifyMe, the LitBank half from cached files to 900 questions, imports included"
    call = "import refnb.benchmarks.identifyme.released as r; assert len(r.rebuilt(corpora=['LitBank']).questions()) == 600"
    if not upstream_is_here():
        yield absent(name)
    else:
        yield from with_memory(name, peak("", call), 3.0, 400.0)


def by_size() -> Iterator[Row]:
    "Growth with the mentions of one story."
    for n in (1_000, 10_000):
        build = partial(whole, story(n), context=200)
        yield Row(
            f"IdentifyMe from one story of {n:,} mentions, names by rule, context of 200 tokens",
            cpu(build),
        )


def novel() -> Iterator[Row]:
    "A whole novel, making it up included."
    call = "b.whole(b.story(80_000, 700_000), context=200)"
    yield from with_memory(
        "IdentifyMe from a novel of 700,000 tokens and 80,000 mentions, making it included",
        peak("import bench_identifyme as b", call),
        60.0,
    )


BENCHES: list[Callable] = [half, by_size, novel]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
