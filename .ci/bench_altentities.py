"""AltEntities against its budgets: what the builder does with 100,000 entities; all pair models without weights on the eleven test cells, MiniLM on all texts of the three test files, and the training loop beside a bare one; called by bench.py, or alone."""
import os, subprocess, sys
from bench_books import SAY, peak

BEGIN = "from refnb.benchmarks.altentities.questions import DOMAINS, altentities_task, settings_of; from refnb.benchmarks.tasks import task_questions; cells = [altentities_task(d, t, 'test') for d in DOMAINS for t in settings_of(d)]; "
WITHOUT = BEGIN + """
import tempfile
from refnb.core.settings import load_settings
from refnb.models.pairs.scorers import WEIGHTLESS
from refnb.models.running import run
s = load_settings(offline=True, runs=tempfile.mkdtemp(), reports=tempfile.mkdtemp())
names = ['random', 'comparing', *WEIGHTLESS, *(f'{n}+negation' for n in WEIGHTLESS if n != 'always-first')]
def answer():
    for part in cells:
        for n in names: assert run(part, n, s=s).sealed
"""
EMBED = BEGIN + """
from refnb.models.pairs.encoders import load_encoder, the_pair_model
from refnb.models.pairs.scorers import pairs_of
e = load_encoder(the_pair_model('minilm', tokens=256))
def embed():
    for p in map(pairs_of, map(task_questions, cells)): e.embed([*p.expressions, *p.texts])
    assert len(e.known) == 10_883
"""

MANY = 100_000
INVENT = f"""
import random
import numpy as np
from refnb.benchmarks.altentities.entities import Entity
from refnb.benchmarks.altentities.pairs import Drawn, _unit_rows, _nearest_rows, _similar_titles, split_pairs
rng = random.Random(0)
words = ["".join(rng.choices("aeioubcdfghlmnprst", k=rng.randint(2, 9))).capitalize() for _ in range(20_000)]
common = np.cumsum([1/(i + 1)**.8 for i in range(len(words))]).tolist()
def title(): return ("The " if rng.random() < .3 else "") + " ".join(rng.choices(words, cum_weights=common, k=rng.choice([1, 2, 2, 3, 3, 3, 4, 4, 5, 6])))
titles, n = set(), {MANY}
"""
BUILDER = {  # what is prepared, what is measured
    "similar titles": ("while len(titles) < n: titles.add(title())\ntitles = sorted(titles)\n", "assert len(_similar_titles(titles)) > 1000", 30.),
    "nearest descriptions of 384 numbers": ("v = _unit_rows(np.random.default_rng(0).standard_normal((n, 384), dtype=np.float32))\n", "assert (_nearest_rows(v)[0] >= 0).all()", 180.),
    "splits of as many questions": ("e = [Entity(str(i), f'u:{i}', 'books', {}) for i in range(n)]\nd = [Drawn('books', 'UNIFORM', '', tuple(rng.sample(e, 2)), 0) for _ in range(n)]\n", "assert len(split_pairs(d)) == len(split_pairs(d, 'entities')) == n", 10.)}

def builder_lines() -> list[tuple[str, float, float|None]]:
    "The builder's three large steps, with the memory of the largest."
    out = []
    for name, (before, call, budget) in BUILDER.items():
        seconds, mb = peak(INVENT + before + SAY.format(call))
        out += [(f"AltEntities' builder, 100,000 entities: {name}", seconds, budget), ("the same, peak memory in MB", mb, 1000.)]
    return out

TRAINING = """
import tempfile, time, torch, transformers as tf
from refnb.benchmarks.altentities.questions import sample_altentities
from refnb.models.pairs.encoders import tiny_encoder
from refnb.models.pairs.heads import new_model, the_trained
from refnb.models.pairs.scorers import pairs_of
from refnb.models.pairs.trained import _batches_of, _loss_of
from refnb.models.pairs.training import train
torch.set_num_threads(1); tf.utils.logging.disable_progress_bar()
qs = sample_altentities()
folder = tiny_encoder(tempfile.mkdtemp(), pairs_of(qs).texts)
torch.manual_seed(0)
tf.BertModel(tf.BertConfig(vocab_size=500, hidden_size=192, intermediate_size=768, num_hidden_layers=4, num_attention_heads=4)).save_pretrained(folder)
x = the_trained("bi-encoder", model=str(folder), package="", bf16=False, epochs=1)
plan = _batches_of(qs, x.training, "cosine")(0)*2
def fresh():
    head = new_model(x.pair)
    return head, _loss_of(head, x.training)
def ours():
    head, loss = fresh()
    start = time.process_time()
    train(head.net, lambda e: plan, loss, x.training, tempfile.mkdtemp(), keep=False)
    return time.process_time() - start
def bare():
    (head, loss), r = fresh(), x.training
    start = time.process_time()
    plain, decayed = ([p for p in head.net.parameters() if (p.dim() > 1) == d] for d in (False, True))
    o = torch.optim.AdamW([{"params": decayed, "weight_decay": r.weight_decay}, {"params": plain, "weight_decay": 0.}], lr=r.lr)
    schedule = tf.get_linear_schedule_with_warmup(o, 3, len(plan))
    head.net.train()
    for b in plan:
        l = loss(b); l.backward()
        torch.nn.utils.clip_grad_norm_(head.net.parameters(), 1.); o.step(); schedule.step(); o.zero_grad(); l.item()
    return time.process_time() - start
ours(); got = [(ours(), bare()) for _ in range(3)]
print(min(a for a, _ in got)/min(b for _, b in got))
"""

def training() -> list[tuple[str, float, float|None]]:
    "CPU time of the training loop in units of a bare loop's on the same batches, the best of three of each in turn; a throughput of 0.95 is a ratio of 1.053."
    said = subprocess.run([sys.executable, "-c", TRAINING], check=True, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return [("training loop, CPU time as a multiple of a bare loop of torch and transformers on the same 12 batches, one state included", float(said.stdout), 1/.95)]

def minilm_is_here() -> bool:
    from refnb.models.pairs.encoders import pair_model_is_here, the_pair_model
    return pair_model_is_here(the_pair_model("minilm"))

def lines() -> list[tuple[str, float, float|None]]:
    "What is measured, CPU seconds (or MB), and the budget."
    built = builder_lines() + training()
    if not os.environ.get("REFNB_UPSTREAM"): return built
    seconds, mb = peak(WITHOUT + SAY.format("answer()"))
    out = [*built, ("AltEntities: chance and the twelve pair models without weights on all 11 test cells, runs and summaries included", seconds, 60.), ("the same, peak memory in MB", mb, None)]
    if not minilm_is_here(): return out
    seconds, mb = peak(EMBED + SAY.format("embed()"))
    return [*out, ("AltEntities: all texts of the three test files with MiniLM, 256 tokens at most, each text once", seconds, 90.), ("the same, peak memory in MB", mb, None)]

if __name__ == "__main__":
    for name, used, budget in lines(): print(f"{name:115} {used:9.3f} {f'{budget:8.2f}' if budget else '':8} {'' if budget is None else 'ok' if used < budget else 'OVER'}")
