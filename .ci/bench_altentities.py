"""AltEntities against its budgets: what the builder does with many entities; all pair models without weights on the eleven test cells, MiniLM on the texts of a test file. Called by bench.py, or alone."""

import sys
from collections.abc import Callable, Iterator
from measure import LONG, Row, absent, peak, show, upstream_is_here, with_memory

WITHOUT = """
import tempfile
from refnb.benchmarks.altentities.questions import DOMAINS, altentities_task, settings_of
from refnb.core.settings import load_settings
from refnb.models.pairs.scorers import WEIGHTLESS
from refnb.models.running import run
cells = [altentities_task(d, t, 'test') for d in DOMAINS for t in settings_of(d)]
s = load_settings(offline=True, runs=tempfile.mkdtemp(), reports=tempfile.mkdtemp())
names = ['random', *WEIGHTLESS, *(f'{n}+negation' for n in WEIGHTLESS if n != 'always-first')]
def answer(some):
    for cell in some:
        for name in names: assert run(cell, name, s=s).sealed
"""


def weightless() -> Iterator[Row]:
    "All systems that need no weights, on a test cell; on all of them, if long measurements are wanted."
    name = "AltEntities: chance and the twelve pair models without weights on {}, as runs"
    if not upstream_is_here():
        yield absent(name.format("a test cell"))
    else:
        yield from with_memory(name.format("a test cell"), peak(WITHOUT, "answer(cells[:1])"), 6.0)
    if LONG and upstream_is_here():
        yield from with_memory(
            name.format("all 11 test cells"), peak(WITHOUT, "answer(cells)"), 60.0
        )


EMBED = """
from refnb.benchmarks.tasks import task_questions
from refnb.models.pairs.encoders import load_encoder, the_pair_model
from refnb.models.pairs.scorers import pairs_of
e = load_encoder(the_pair_model('minilm', tokens=256))
p = pairs_of(task_questions('altentities/books/oracle/test')[:800])
texts = [*p.expressions, *p.texts]
"""


def embedding() -> Row:
    "MiniLM on the first books' questions."
    from refnb.models.pairs.encoders import the_pair_model
    from refnb.models.weights import is_here

    name = "AltEntities: the texts of the first 800 questions about books with MiniLM, 256 tokens at most, each once"
    if not upstream_is_here():
        return absent(name)
    if not is_here(the_pair_model("minilm")):
        return absent(name, "needs the weights of minilm: refnb list systems says how to get them")
    return Row(name, peak(EMBED, "e.vectors(texts)")[0], 12.0)


# The builder

INVENT = """
import random
import numpy as np
from refnb.benchmarks.altentities.entities import Entity
from refnb.benchmarks.altentities.pairs import Drawn, encoded, nearest_rows, similar_titles, split_pairs
n, rng = {}, random.Random(0)
words = ["".join(rng.choices("aeioubcdfghlmnprst", k=rng.randint(2, 9))).capitalize() for _ in range(20_000)]
common = np.cumsum([1/(i + 1)**.8 for i in range(len(words))]).tolist()
def title(): return ("The " if rng.random() < .3 else "") + " ".join(rng.choices(words, cum_weights=common, k=rng.choice([1, 2, 2, 3, 3, 3, 4, 4, 5, 6])))
"""
TITLES = """
titles = set()
while len(titles) < n: titles.add(title())
titles = sorted(titles)
"""
VECTORS = "v = encoded(lambda texts: np.random.default_rng(0).standard_normal((n, 384), dtype=np.float32), range(n))"
DRAWN = """
e = [Entity(str(i), f'u:{i}', 'books', {}) for i in range(n)]
d = [Drawn('books', 'UNIFORM', '', tuple(rng.sample(e, 2)), 0) for _ in range(n)]
"""


def similar_titles() -> Iterator[Row]:
    "Grows a little faster than the titles: a piece of a title is shared by more of them."
    for n, budget in ((10_000, None), (40_000, 4.8)):
        seconds, _ = peak(INVENT.format(n) + TITLES, "assert len(similar_titles(titles)) > 100")
        yield Row(f"AltEntities' builder, {n:,} entities: similar titles", seconds, budget)


def nearest_descriptions() -> Iterator[Row]:
    "Every pair of entities is compared: grows with their square."
    for n, budget in ((10_000, None), (20_000, 7.2)):
        yield from with_memory(
            f"AltEntities' builder, {n:,} entities: nearest descriptions of 384 numbers",
            peak(INVENT.format(n) + VECTORS, "assert (nearest_rows(v)[0] >= 0).all()"),
            budget,
            1000.0,
        )


def splits() -> Row:
    call = "assert len(split_pairs(d)) == n"
    return Row(
        "AltEntities' builder, 100,000 entities: splits of as many questions",
        peak(INVENT.format(100_000) + DRAWN, call)[0],
        10.0,
    )


BENCHES: list[Callable] = [weightless, embedding, similar_titles, nearest_descriptions, splits]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
