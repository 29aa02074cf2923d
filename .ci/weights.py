"""Train the systems that the package carries, and write their weights: `make weights` (an hour of one core).

The coreference system learns from LitBank's fold 0, then from LitBank and OntoGUM together; their development documents choose, and their test documents say what became of it, before and after the weights are halved. The linker learns from LitBank, and begins with what the coreference system has learnt."""

import sys
from pathlib import Path
from everyday import exact
from refnb.core.corpora import gum, litbank
from refnb.core.documents import Document
from refnb.metrics.coref_scores import score_coref
from refnb.metrics.links import linking
from refnb.models.annotation.books import Character
from refnb.models.annotation.linking import link_by_cast
from refnb.models.coreference.learning import LearntCoref, load_resolver, pack
from refnb.models.coreference.resolvers import predicted
from refnb.models.coreference.systems import train
from refnb.models.coreference.lessons import persons_of

ROOT = Path(__file__).parents[1]
docs, texts = litbank("test"), gum("test")


def coreference(folder: Path) -> str:
    net, general = load_resolver(folder, kinds="litbank"), load_resolver(folder, singletons=False)
    answers = {
        "LitBank": (docs, [predicted(net, d) for d in docs]),
        "LitBank's gold mentions": (docs, [predicted(net, d, d.mentions) for d in docs]),
        "OntoGUM": (texts, [predicted(general, d) for d in texts]),
    }
    f1 = {k: 100 * score_coref(*x).pooled()["conll"].f1 for k, x in answers.items()}
    told = ", ".join(f"{k} {x:.2f}" for k, x in f1.items())
    right = [x for those in exact(general).values() for x in those]
    return f"CoNLL F1 on test: {told}; everyday sentences {sum(right)} of {len(right)}"


def links(folder: Path) -> str:
    net, casts, linked = load_resolver(folder), [persons_of(d) for d in docs], []
    for d in casts:
        found = link_by_cast(net, d, [Character(n) for n in d.names])
        linked.append(Document(d.doc_key, d.sentences, tuple(map(tuple, found)), d.names))
    return f"F1 of links on test {100 * linking(casts, linked).pooled.f1:.2f}"


def general(name: str) -> LearntCoref:
    "Teach novels, then novels and general English."
    pack(train(name, "litbank", say=print).folder, novels := ROOT / "runs/novels")
    return train(name, "litbank+gum", start=str(novels), lr=1.5e-4, epochs=4, say=print)


def linker(name: str) -> LearntCoref:
    return train(name, "litbank", say=print)


MADE = {"coref-minilm": (general, coreference), "linker-minilm": (linker, links)}
for name in sys.argv[1:] or MADE:
    (teach, scores), to = MADE[name], ROOT / "nbs/data/weights" / name
    done = teach(name)
    cost = f"trained in {done.cpu_seconds:,.0f} CPU seconds, {done.peak_mb:,.0f} MB"
    print(f"{name}: {cost}: {scores(done.folder)}", flush=True)
    pack(done.folder, to)
    mb = sum(f.stat().st_size for f in to.iterdir()) / 1e6
    print(f"in half precision: {scores(to)}; {to.relative_to(ROOT)}, {mb:.1f} MB", flush=True)
