"""How the benchmarks of refnb's own speed measure and print: a row as soon as it is measured, beside its budget."""

import os, resource, subprocess, sys, time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
LONG = bool(
    os.environ.get("BENCH_LONG")
)  # whether what takes a minute and more is measured, too: make bench-full
QUICK = 1.0  # seconds: what takes less is measured five times, for noise counts most there


class Row(NamedTuple):
    "One measurement, or why there is none."

    name: str
    used: float | None
    budget: float | None = None
    unit: str = "CPU s"
    why: str = ""

    @property
    def over(self) -> bool:
        return self.used is not None and self.budget is not None and self.used >= self.budget


Bench = Callable[[], Row | Iterable[Row]]


# Measuring


def best(once: Callable[[], float]) -> float:
    "Measure once; five times if that is quick."
    first = once()
    return min(first, *(once() for _ in range(4))) if first < QUICK else first


def again_if_over(once: Callable[[], float], budget: float) -> float:
    "Measure once, and once more if that is over its budget, for other work may have disturbed it."
    first = once()
    return min(first, once()) if first >= budget else first


def cpu(call: Callable) -> float:
    "Measure the CPU seconds of a call in this process."

    def once() -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    return best(once)


def child(*args, **env) -> float:
    "Run a command once; return the CPU seconds that it and its children took."
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    got = subprocess.run(
        [str(a) for a in args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | env,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if got.returncode:
        raise RuntimeError(
            " ".join(got.stderr.splitlines()[-1:]) or f"exit status {got.returncode}"
        )
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_clock(measure: Callable[[], float]) -> tuple[float, float]:
    "Return what `measure` returns, and the seconds by the clock that it took."
    start = time.monotonic()
    return measure(), time.monotonic() - start


def plain_work() -> float:
    "CPU seconds of counting pieces of the same words: how fast this machine is just now."
    words = [str(i * i) for i in range(60_000)]
    start = time.process_time()
    counts: dict[str, int] = {}
    for word in words:
        for i in range(0, 9, 3):
            counts[word[i : i + 3]] = counts.get(word[i : i + 3], 0) + 1
    sorted(set(words))
    return time.process_time() - start


# the peak since the process became Python: getrusage would count the parent's memory at the fork
SAY = """
import re as _re, time as _time
_start = _time.process_time()
{}
_used = _time.process_time() - _start
print(_used, int(_re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])/1024)
"""


def peak(prepare: str, call: str) -> tuple[float, float]:
    "Run code in a new process; return the CPU seconds of `call`, and the peak memory of the process in MB."
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    got = subprocess.run(
        [sys.executable, "-c", prepare + SAY.format(call)], capture_output=True, text=True, env=env
    )
    if got.returncode:
        raise RuntimeError(" ".join(got.stderr.splitlines()[-1:]))
    seconds, mb = got.stdout.split()[-2:]
    return float(seconds), float(mb)


def with_memory(
    name: str, measured: tuple[float, float], budget: float | None, most: float | None = None
) -> Iterator[Row]:
    "Make the two rows of what `peak` measured: seconds, and memory."
    seconds, mb = measured
    yield Row(name, seconds, budget)
    yield Row("  its peak memory", mb, most, "MB")


def upstream_is_here() -> bool:
    "Whether there is a local copy of the upstream files, which no measurement downloads."
    return bool(os.environ.get("REFNB_UPSTREAM"))


def absent(name: str, why: str = "needs the upstream files: set REFNB_UPSTREAM") -> Row:
    return Row(name, None, why=why)


# Printing


def line(row: Row, pace: float) -> str:
    "Format a row; `pace` is how many times as long as at best plain work takes just now."
    if row.used == float("inf"):
        return f"{row.name}: failed: {row.why}"
    if row.used is None:
        return f"{row.name:100} {'-':>9} {'':14} {row.why}"
    budget = f"{row.budget:8.2f}" if row.budget else ""
    slow = f"; plain work takes {pace:.1f} times its least here" if pace > 1.1 else ""
    verdict = "" if row.budget is None else f"OVER{slow}" if row.over else "ok"
    return f"{row.name:100} {row.used:9.3f} {row.unit:5} {budget:8} {verdict}".rstrip()


def rows_of(bench: Bench) -> Iterator[Row]:
    "What a benchmark measures, one row after the other; a benchmark that fails has a row that says so."
    try:
        got = bench()
        yield from [got] if isinstance(got, Row) else got
    except Exception as e:
        name = getattr(bench, "__name__", "a benchmark")
        yield Row(name, float("inf"), 0.0, "", f"{type(e).__name__}: {e}")


class Pace:
    "How busy the machine is with other work, which the CPU seconds of all that is measured share."

    def __init__(self):
        self.least = min(plain_work() for _ in range(5))

    def now(self) -> float:
        "How many times its least plain work takes now."
        used = min(plain_work() for _ in range(2))
        self.least = min(self.least, used)
        return used / self.least


def show(benches: Iterable[Bench]) -> int:
    "Measure and print; return 1 if something is over its budget or failed, else 0."
    start, over, n, pace = time.monotonic(), [], 0, Pace()
    print(f"{'what is measured':100} {'used':>9} {'':5} {'budget':>8}", flush=True)
    for bench in benches:
        for row in rows_of(bench):
            n += 1
            if row.over:
                over.append(row)
            print(line(row, pace.now() if row.over else 1.0), flush=True)
    print(
        f"\n{n} rows in {time.monotonic() - start:.0f} s; {len(over) or 'none'} over budget; plain work took {pace.least:.3f} CPU s at best, {pace.now():.1f} times that at the end"
    )
    for row in over:
        print(f"  {row.name}")
    return int(bool(over))
