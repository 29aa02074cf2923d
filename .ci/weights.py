"""Train the systems that the package carries, and write their weights: `make weights` (half an hour of one core).

LitBank's fold 0 teaches, its development documents choose, and its test documents say what became of it, before and after the weights are halved. The linker begins with what the coreference system has learnt."""

import sys
from pathlib import Path
from refnb.core.corpora import litbank
from refnb.core.documents import Document
from refnb.metrics.coref_scores import score_coref
from refnb.metrics.linking import linking
from refnb.models.annotation.books import Character
from refnb.models.annotation.linking import link_by_cast
from refnb.models.coreference.learning import load_resolver, pack
from refnb.models.coreference.resolvers import predicted
from refnb.models.coreference.systems import train
from refnb.models.coreference.texts import persons_of

ROOT = Path(__file__).parents[1]
docs = litbank("test")


def coreference(folder: Path) -> str:
    net, f1 = load_resolver(folder), []
    for gold in (False, True):
        found = [predicted(net, d, d.mentions if gold else None) for d in docs]
        f1.append(f"{100 * score_coref(docs, found).pooled()['conll'].f1:.2f}")
    return f"CoNLL F1 on test with found and with gold mentions {' and '.join(f1)}"


def links(folder: Path) -> str:
    net, casts, linked = load_resolver(folder), [persons_of(d) for d in docs], []
    for d in casts:
        found = link_by_cast(net, d, [Character(n) for n in d.names])
        linked.append(Document(d.doc_key, d.sentences, tuple(map(tuple, found)), d.names))
    return f"F1 of links on test {100 * linking(casts, linked).pooled.f1:.2f}"


MADE = {"coref-minilm": coreference, "linker-minilm": links}
for name in sys.argv[1:] or MADE:
    scores, to = MADE[name], ROOT / "nbs/data/weights" / name
    done = train(name, "litbank", say=print)
    cost = f"trained in {done.cpu_seconds:,.0f} CPU seconds, {done.peak_mb:,.0f} MB"
    print(f"{name}: {cost}: {scores(done.folder)}", flush=True)
    pack(done.folder, to)
    mb = sum(f.stat().st_size for f in to.iterdir()) / 1e6
    print(f"in half precision: {scores(to)}; {to.relative_to(ROOT)}, {mb:.1f} MB", flush=True)
