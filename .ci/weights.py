"""Train the systems that the package carries, and write their weights: `make weights` (half an hour of one core).

LitBank's fold 0 teaches, its development documents choose, and its test documents say what became of it, before and after the weights are halved. The linker begins with what the coreference system has learnt."""

import sys, tempfile
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
from refnb.models.coreference.texts import cast_of

ROOT = Path(__file__).parents[1]
docs = litbank("test")


def coreference(folder) -> str:
    net = load_resolver(folder)
    pooled = [
        score_coref(docs, [predicted(net, d, d.mentions if gold else None) for d in docs])
        .pooled()["conll"]
        .f1
        for gold in (False, True)
    ]
    return "CoNLL F1 on test with found and with gold mentions " + " and ".join(
        f"{100 * x:.2f}" for x in pooled
    )


def links(folder) -> str:
    net, casts = load_resolver(folder), [cast_of(d) for d in docs]
    linked = [
        Document(
            d.doc_key,
            d.sentences,
            tuple(map(tuple, link_by_cast(net, d, [Character(n) for n in d.names]))),
            d.names,
        )
        for d in casts
    ]
    return f"F1 of links on test {100 * linking(casts, linked).pooled.f1:.2f}"


MADE = {"coref-minilm": coreference, "linker-minilm": links}
for name in sys.argv[1:] or MADE:
    scores = MADE[name]
    done = train(name, "litbank", say=lambda line: print(line, flush=True))
    print(
        f"{name}: trained in {done.cpu_seconds:,.0f} CPU seconds, {done.peak_mb:,.0f} MB: {scores(done.folder)}",
        flush=True,
    )
    to = ROOT / "nbs/data/weights" / name
    with tempfile.TemporaryDirectory() as aside:
        pack(done.folder, Path(aside) / "packed")
        print(f"in half precision: {scores(Path(aside) / 'packed')}", flush=True)
    pack(done.folder, to)
    print(
        f"written: {to.relative_to(ROOT)}, {sum(f.stat().st_size for f in to.iterdir()) / 1e6:.1f} MB",
        flush=True,
    )
