"""Coreference at book scale and KITMUS at full size against their budgets and against other scorers, all in one run; called by bench.py, or alone."""
import os, subprocess, sys, tempfile, time
from collections.abc import Callable
from functools import partial
from pathlib import Path
import numpy as np

Clusters = list[list[tuple[int, int]]]

def cpu(f: Callable, times: int = 3) -> float:
    "CPU seconds of a call, the best of several."
    def once():
        start = time.process_time(); f()
        return time.process_time() - start
    return min(once() for _ in range(times))

def grouped(starts: np.ndarray, widths: np.ndarray, labels: np.ndarray) -> Clusters:
    out: dict = {}
    for s, w, l in zip(starts.tolist(), widths.tolist(), labels.tolist(), strict=True): out.setdefault(l, []).append((s, s + w))
    return list(out.values())

def book(mentions: int, gold: int, predicted: int, seed: int = 12345) -> tuple[Clusters, Clusters]:
    "A synthetic book: 88 % of the gold mentions are found, 12 % more are spurious, 15 % of the found ones go astray; clusters as by Zipf, cut into as many pieces as asked."
    rng = np.random.default_rng(seed)
    start, width = np.arange(2*mentions)*11 + rng.integers(0, 4, 2*mentions), rng.integers(0, 4, 2*mentions)
    slot = np.sort(rng.permutation(2*mentions)[:mentions])
    who = rng.choice(35, mentions, p=(w := 1/np.arange(1, 36))/w.sum())
    piece = lambda label, n: label if n <= 35 else label + 35*rng.integers(0, -(-n//35), len(label))
    found, astray = rng.random(mentions) < .88, rng.random(mentions) < .15
    heard = np.where(astray, rng.integers(0, 35, mentions), who)[found]
    free = rng.permutation(np.setdiff1d(np.arange(2*mentions), slot))[:int(.12*mentions)]
    slots, labels = np.concatenate([slot[found], free]), np.concatenate([heard, rng.integers(0, 35, len(free))])
    return grouped(start[slot], width[slot], piece(who, gold)), grouped(start[slots], width[slots], piece(labels, predicted))

def three(gold: Clusters, predicted: Clusters) -> float:
    "MUC + B3 + CEAFe by refnb."
    from refnb.metrics.coref import CONLL, METRICS, as_prf, table
    t = table(gold, predicted)
    return sum(as_prf(METRICS[m](t)).f1 for m in CONLL)/3

def scorch(gold: Clusters, predicted: Clusters) -> float:
    import scorch.scores as s
    g, p = [set(c) for c in gold], [set(c) for c in predicted]
    return sum(f(g, p)[2] for f in (s.muc, s.b_cubed, s.ceaf_e))/3

def coreference_eval(gold: Clusters, predicted: Clusters) -> float:
    import corefeval.metrics as m
    from corefeval.document import Document
    d = Document(predicted, gold)
    f1 = lambda p, pn, r, rn: 2*p*r/(p*rn + r*pn)
    return sum(f1(*x) for x in ((*m.muc(d.pred, d.gold_mentions), *m.muc(d.gold, d.pred_mentions)), (*m.b_cubed(d.pred, d.gold_mentions), *m.b_cubed(d.gold, d.pred_mentions)), m.ceafe(d.pred, d.gold)))/3

def peak(code: str) -> tuple[float, float]:
    "CPU seconds that some code says, and the peak memory of its process in MB."
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(x for x in (str(Path(__file__).parent), os.environ.get("PYTHONPATH")) if x)}).stdout.split()
    return float(out[-2]), float(out[-1])

# the peak since the process became Python: getrusage would count the parent's memory at the fork
SAY = "import re, time; start = time.process_time(); {}; print(time.process_time() - start, int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])/1024)"

def fragmented() -> tuple[float, float]:
    return peak("from bench_books import book, three; g, p = book(60_000, 17_500, 20_000); three(g[:9], p[:9]); " + SAY.format("three(g, p)"))

def novel(folder: Path, tokens: int = 700_000) -> tuple[float, float]:
    "Reading a CoNLL book."
    rng, path = np.random.default_rng(0), folder/"book.conll"
    words, lines = [f"word{i}" for i in range(20_000)], ["#begin document (book); part 000"]
    word, mark = rng.integers(0, 20_000, tokens).tolist(), rng.integers(0, 11, tokens).tolist()
    for i in range(tokens):
        lines.append(f"book\t0\t{i % 25}\t{words[word[i]]}\t-\t-\t-\t-\t-\t-\t-\t{f'({word[i] % 40})' if not mark[i] else '-'}")
        if i % 25 == 24: lines.append("")
    path.write_text("\n".join([*lines, "#end document", ""]))
    return peak(f"from refnb.core.reading import read_documents; from pathlib import Path; {SAY.format(f'read_documents(Path({str(path)!r}))')}")

def from_files() -> float|None:
    "Three systems on Animal Farm in three settings and one pair on Pride and Prejudice, files included; None where the files are not here."
    from refnb.core.conll import parse_conll
    from refnb.core.jsonlines import parse_jsonlines
    from refnb.core.settings import load_settings
    from refnb.core.upstream import files_of, get, where
    from refnb.metrics.coref_scores import score_coref
    s, stem = load_settings(offline=True), "SapienzaNLP/bookcoref/predictions/"
    systems = ("off_the_shelf/booknlp", "off_the_shelf/maverick_xl", "finetuned_bookcoref/maverick_xl")
    if any(where(f, s) == "missing" for n in ("bookcoref", "animal-farm") for f in files_of(n)): return None
    def all_():
        gold, conll = parse_conll(get("QipengGuo/dual-cache-coref/data/animal_farm_anno.conll", s)), ("muc", "b3", "ceafe")
        full = {n: parse_jsonlines(get(f"{stem}{n}.jsonl", s)) for n in systems}
        for n in systems:
            score_coref(gold, full[n], metrics=conll); score_coref(gold, full[n], "window", metrics=conll)
            score_coref(gold, parse_jsonlines(get(f"{stem}{n}_splitted.jsonl", s)), "split", metrics=conll)
        pride = [[d for d in full[n] if d.doc_key.startswith("pride")] for n in (systems[2], systems[0])]
        score_coref(*pride, metrics=conll)
    return cpu(all_)

def replayed(folder: str):
    "Runs of all released test predictions that are here."
    from refnb.benchmarks.tasks import find_task
    from refnb.core.settings import load_settings
    from refnb.models.published.kitmus import predicted_files
    from refnb.models.running import run
    s = load_settings(runs=f"{folder}/runs", reports=f"{folder}/reports")
    files = sorted((p for p in predicted_files() if p.split == "test" and p.file.size is not None), key=lambda p: p.task)
    tasks = {p.task: find_task(p.task, s) for p in files}
    for p in files: run(tasks[p.task], p.system, s=s)

def kitmus() -> list[tuple[str, float, float|None]]:
    "All released texts of KITMUS: sampled, made in every format, and the released predictions scored; none where the resources are not here."
    from refnb.benchmarks.kitmus.tasks import released_is_here
    from refnb.core.settings import load_settings
    if not released_is_here(load_settings(offline=True)): return []
    begin = "from refnb.benchmarks.kitmus.sampler import Sampler; from refnb.benchmarks.kitmus.files import blob_ids; from refnb.benchmarks.kitmus.tasks import the_resources; s = Sampler(the_resources('released')); "
    drawn, _ = peak(begin + SAY.format("n = sum(map(len, s.subtasks()))"))
    made, mb = peak(begin + SAY.format("n = sum(1 for _ in blob_ids(s))"))
    with tempfile.TemporaryDirectory() as tmp:
        scored, _ = peak(SAY.format(f"import bench_books as b; b.replayed('{tmp}')"))
    return [("KITMUS: sampling the 105,600 released texts", drawn, 12.), ("KITMUS: all of them in every format and scope, hashed in memory", made, 40.), ("the same, peak memory in MB", mb, 400.),
            ("KITMUS: the released test predictions that are here, as runs (texts drawn anew)", scored, 20.)]

def lines() -> list[tuple[str, float, float|None]]:
    "What is measured, CPU seconds (or MB), and the budget."
    out, conll = [], "MUC + B3 + CEAFe, 60,000 mentions, "
    for name, gold, predicted, budget in (("35 × 35", 35, 35, None), ("35 × 2,310", 35, 2_310, None), ("35 × about 17,000", 35, 20_000, .06)):
        g, p = book(60_000, gold, predicted)
        ours, theirs = three(g, p), scorch(g, p)
        assert abs(ours - theirs) < 1e-9, (ours, theirs)
        out += [(f"{conll}{name}: refnb ({len(g):,} × {len(p):,})", cpu(partial(three, g, p)), budget), (f"{conll}{name}: scorch", cpu(partial(scorch, g, p), 1), None)]
    g, p = book(2_000, 35, 200)
    out += [(f"MUC + B3 + CEAFe, 2,000 mentions, 35 × 200: {name}", cpu(partial(f, g, p)), None) for name, f in (("refnb", three), ("scorch", scorch), ("coreference-eval", coreference_eval))]
    seconds, mb = fragmented()
    out += [(f"{conll}both fragmented (about 15,000 × 17,000 clusters)", seconds, 2.), ("the same, peak memory in MB", mb, 700.)]
    out += [(f"growth: {n:,} mentions, 35 × {n//10:,} clusters", cpu(partial(three, *pair), 2), None) for n in (1_000, 10_000, 100_000, 1_000_000) for pair in [book(n, 35, n//10)]]
    out += [(f"growth: {n:,} mentions, {n//10:,} × {n//10:,} clusters cut at random", cpu(partial(three, *pair), 2), None) for n in (1_000, 10_000, 100_000) for pair in [book(n, n//10, n//10)]]
    if (seconds := from_files()) is not None: out.append(("from files: three systems on Animal Farm in three settings, one pair on Pride and Prejudice", seconds, 2.))
    with tempfile.TemporaryDirectory() as tmp: seconds, mb = novel(Path(tmp))
    return out + [("reading a CoNLL book of 700,000 tokens", seconds, 3.), ("the same, peak memory in MB", mb, 600.), *kitmus()]

if __name__ == "__main__":
    for name, used, budget in lines(): print(f"{name:95} {used:9.3f} {f'{budget:8.2f}' if budget else '':8} {'' if budget is None else 'ok' if used < budget else 'OVER'}")
