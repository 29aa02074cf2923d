"""AltEntities' pair models against their budgets: all of them without weights on the eleven test cells, and MiniLM on all texts of the three test files; called by bench.py, or alone."""
import os
from bench_books import SAY, peak

BEGIN = "from refnb.benchmarks.altentities import DOMAINS, altentities_part, settings_of; from refnb.benchmarks.parts import part_questions; cells = [altentities_part(d, t, 'test') for d in DOMAINS for t in settings_of(d)]; "
WITHOUT = BEGIN + """
import tempfile
from refnb.core.settings import load_settings
from refnb.models.pair_models import WEIGHTLESS
from refnb.models.running import run
s = load_settings(offline=True, runs=tempfile.mkdtemp(), reports=tempfile.mkdtemp())
names = ['random', 'comparing', *WEIGHTLESS, *(f'{n}+negation' for n in WEIGHTLESS if n != 'always-first')]
def answer():
    for part in cells:
        for n in names: assert run(part, n, s=s).sealed
"""
EMBED = BEGIN + """
from refnb.models.encoders import load_encoder, the_pair_model
from refnb.models.pair_models import pairs_of
e = load_encoder(the_pair_model('minilm', tokens=256))
def embed():
    for p in map(pairs_of, map(part_questions, cells)): e.embed([*p.expressions, *p.texts])
    assert len(e.known) == 10_883
"""

def minilm_is_here() -> bool:
    from refnb.models.encoders import pair_model_is_here, the_pair_model
    return pair_model_is_here(the_pair_model("minilm"))

def lines() -> list[tuple[str, float, float|None]]:
    "What is measured, CPU seconds (or MB), and the budget."
    if not os.environ.get("REFNB_UPSTREAM"): return []
    seconds, mb = peak(WITHOUT + SAY.format("answer()"))
    out = [("AltEntities: chance and the twelve pair models without weights on all 11 test cells, runs and summaries included", seconds, 60.), ("the same, peak memory in MB", mb, None)]
    if not minilm_is_here(): return out
    seconds, mb = peak(EMBED + SAY.format("embed()"))
    return [*out, ("AltEntities: all texts of the three test files with MiniLM, 256 tokens at most, each text once", seconds, 90.), ("the same, peak memory in MB", mb, None)]

if __name__ == "__main__":
    for name, used, budget in lines(): print(f"{name:115} {used:9.3f} {f'{budget:8.2f}' if budget else '':8} {'' if budget is None else 'ok' if used < budget else 'OVER'}")
