"""Train the coreference system that the package carries, and write its weights: `make weights` (a quarter of an hour of one core).

LitBank's fold 0 teaches, its development documents choose, and its test documents say what became of it, before and after the weights are halved."""
import sys, tempfile
from pathlib import Path
from refnb.core.corpora import litbank
from refnb.metrics.coref_scores import score_coref
from refnb.models.coreference.learning import load_resolver, pack
from refnb.models.coreference.resolvers import predicted
from refnb.models.coreference.systems import train

ROOT = Path(__file__).parents[1]
TO = ROOT/"nbs/data/weights/coref-minilm"
docs = litbank("test")

def scores(folder) -> str:
    net = load_resolver(folder)
    pooled = [score_coref(docs, [predicted(net, d, d.mentions if gold else None) for d in docs]).pooled()["conll"].f1 for gold in (False, True)]
    return " and ".join(f"{100*x:.2f}" for x in pooled)

done = train("coref-minilm", "litbank", epochs=10, out=sys.argv[1] if sys.argv[1:] else "", say=lambda line: print(line, flush=True))
print(f"trained in {done.cpu_seconds:,.0f} CPU seconds, {done.peak_mb:,.0f} MB: CoNLL F1 on test with found and with gold mentions {scores(done.folder)}", flush=True)
with tempfile.TemporaryDirectory() as aside:
    pack(done.folder, Path(aside)/"packed")
    print(f"in half precision {scores(Path(aside)/'packed')}", flush=True)
pack(done.folder, TO)
print(f"written: {TO.relative_to(ROOT)}, {sum(f.stat().st_size for f in TO.iterdir())/1e6:.1f} MB")
