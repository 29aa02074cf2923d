"""CPU seconds against their budgets: `make bench` prints each as soon as it is measured. Nothing here is a test, for machines are shared and noisy.

`python .ci/bench.py books models` measures only these: commands, journals, identifyme, altentities, books, models, local, readers, coreference, view.
Without names all are measured, the lighter groups two at a time.
"""

import subprocess, sys, tempfile, time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
import bench_altentities, bench_books, bench_coreference, bench_identifyme, bench_local, bench_models, bench_readers, bench_view
from measure import (
    BIN,
    HERE,
    Row,
    again_if_over,
    best,
    child,
    cpu,
    show,
    upstream_is_here,
    with_clock,
)

REPORTS = HERE.parent / "reports"


# Commands


def beginnings() -> Iterator[Row]:
    "What every command begins with."
    yield Row("refnb --help", best(lambda: child(BIN / "refnb", "--help")), 0.2)
    yield Row("import refnb", best(lambda: child(sys.executable, "-c", "import refnb")), 0.1)


NOTEBOOK = """
import json, sys
import refnb.results.execution as b
cell = lambda text, *tags: dict(cell_type="code", metadata={"tags": list(tags)}, source=text, outputs=[], execution_count=None, id=f"c{len(text)}")
kernel = {"name": "python3", "display_name": "python3", "language": "python"}
nb = json.dumps(dict(cells=[cell('out: str = ""', "parameters"), cell("1 + 1")], metadata={"kernelspec": kernel}, nbformat=4, nbformat_minor=5)).encode()
for _ in range(int(sys.argv[1])): assert b.execute("identifyme/table_3_main_results", nb, {"out": ""}, 60).fault == "wrote no report"
"""


def a_notebook() -> Row:
    "Each of three more notebooks that do nothing, with a fresh kernel each."
    more = child(sys.executable, "-c", NOTEBOOK, "4") - child(sys.executable, "-c", NOTEBOOK, "1")
    return Row("a notebook of a batch that does nothing, kernel included", more / 3, 1.0)


MARKED = """
import json, sys
from refnb.core.files import write_atomic
from refnb.core.settings import load_settings
from pathlib import Path
from refnb.results.reproduce import choose, code_hash, job_of, made_from
s, code = load_settings(reports=sys.argv[1]), code_hash()
state = {name: made_from(job_of(name, {}), s, Path(s.reports), code) for name in choose([])}
write_atomic(Path(s.reports) / ".batch/state.json", json.dumps(state))
"""


def again() -> Row:
    "`reproduce` beside a copy of the committed reports, marked as if a batch had just made them."
    with tempfile.TemporaryDirectory() as tmp:
        reports = Path(tmp) / "reports"
        copied(reports)
        child(sys.executable, "-c", MARKED, reports)
        env = {"REFNB_REPORTS": str(reports), "REFNB_RUNS": f"{tmp}/runs", "REFNB_OFFLINE": "true"}
        once = lambda: child(BIN / "refnb", "reproduce", **env)
        return Row("reproduce, all tables, nothing changed", again_if_over(once, 2.0), 2.0)


def copied(reports: Path):
    "Copy what is committed of the reports."
    import shutil

    shutil.copytree(REPORTS, reports, ignore=shutil.ignore_patterns(".batch", "sample"))


RUNS = """
from refnb.core.settings import load_settings
from refnb.results.reproduce import choose, job_of, replay
replay([job_of(name, {}) for name in choose(['identifyme'])], load_settings())
"""


def tables() -> Iterator[Row]:
    "All IdentifyMe tables, made anew from the runs of a batch before."
    with tempfile.TemporaryDirectory() as tmp:
        env = {
            "REFNB_REPORTS": f"{tmp}/reports",
            "REFNB_RUNS": f"{tmp}/runs",
            "REFNB_OFFLINE": "true",
        }
        where = "" if upstream_is_here() else ", without upstream files"
        yield Row(
            f"the runs that IdentifyMe's tables score{where}",
            child(sys.executable, "-c", RUNS, **env),
        )
        _, clock = with_clock(
            lambda: child(BIN / "refnb", "reproduce", "identifyme", "--force", **env)
        )
        yield Row(f"all IdentifyMe tables{where}, seconds by the clock", clock, 30.0, "s")


# Journals and intervals


def intervals() -> Row:
    import numpy as np
    from refnb.metrics.uncertainty import cluster_interval

    rng = np.random.default_rng(0)
    values, clusters = rng.integers(0, 2, 1200), rng.integers(0, 149, 1200)
    used = cpu(lambda: cluster_interval(values, clusters))
    return Row("an interval of 1,200 answers in 149 documents", used, 0.02)


def replay(n: int, budget: float | None = None) -> Row:
    "Reading a journal anew, as a resumed run does."
    from refnb.core.runs import journal_line, read_journal
    from refnb.core.types import Answer

    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp) / "journal"
        answer = lambda i: Answer(
            f"d:{i}", (i % 5,), raw="- Mention: she\n- The mention refers to: Bea"
        )
        path.write_bytes(b"".join(journal_line(answer(i)) for i in range(n)))
        return Row(f"replay of a journal of {n:,} answers", cpu(lambda: read_journal(path)), budget)


BENCHES: dict[str, list[Callable]] = {
    "commands": [beginnings, a_notebook, again, tables],
    "journals": [intervals, partial(replay, 10_000), partial(replay, 100_000, 1.0)],
    "identifyme": bench_identifyme.BENCHES,
    "altentities": bench_altentities.BENCHES,
    "books": bench_books.BENCHES,
    "models": bench_models.BENCHES,
    "local": bench_local.BENCHES,
    "readers": bench_readers.BENCHES,
    "coreference": bench_coreference.BENCHES,
    "view": bench_view.BENCHES,
}
ALONE = [
    "commands",
    "models",
    "local",
    "coreference",
]  # by the clock, or with much work of matrices, which a neighbour slows down


def side_by_side(names: list[str]) -> int:
    "Measure groups in processes of their own, two at a time; return 1 if one is over its budget."

    def one(name: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)

    with ThreadPoolExecutor(2) as pool:
        done = [(name, pool.submit(one, name)) for name in names]
        for name, got in done:
            print(f"{name}\n{got.result().stdout}{got.result().stderr}", flush=True)
    return int(any(got.result().returncode for _, got in done))


def main(names: list[str]) -> int:
    if unknown := [n for n in names if n not in BENCHES]:
        print(f"unknown: {' '.join(unknown)}; known: {' '.join(BENCHES)}", file=sys.stderr)
        return 2
    start = time.monotonic()
    over = show(bench for name in names or ALONE for bench in BENCHES[name])
    if names:
        return over
    over |= side_by_side([name for name in BENCHES if name not in ALONE])
    print(f"all in {time.monotonic() - start:.0f} s")
    return over


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
