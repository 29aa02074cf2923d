"""CPU seconds against their budgets, all in one run. `make bench` prints them; nothing here is a test, for machines are shared and noisy."""
import os, resource, subprocess, sys, tempfile, time
from pathlib import Path
import bench_altentities, bench_books, bench_identifyme, bench_local, bench_models

BIN = Path(sys.executable).parent

def child(*args, **env) -> float:
    "CPU seconds of a command and its children, the best of three."
    def once():
        a = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(args, check=True, stdout=subprocess.DEVNULL, env=os.environ | env)
        b = resource.getrusage(resource.RUSAGE_CHILDREN)
        return b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime
    return min(once() for _ in range(3))

def here(f) -> float:
    "CPU seconds of a call, the best of three."
    def once():
        start = time.process_time(); f()
        return time.process_time() - start
    return min(once() for _ in range(3))

def overhead(folder: Path) -> float:
    "CPU seconds of a batch for each of six more notebooks that do nothing but report, kernels included."
    code = """
import json, sys, resource
from pathlib import Path
import refnb.results.execution as b
cell = lambda text, *tags: dict(cell_type="code", metadata={"tags": list(tags)}, source=text, outputs=[], execution_count=None, id=f"c{abs(hash(text)) % 10**6}")
nb = json.dumps(dict(cells=[cell('out: str = ""', "parameters"), cell("1 + 1")], metadata={"kernelspec": {"name": "python3", "display_name": "python3", "language": "python"}}, nbformat=4, nbformat_minor=5)).encode()
for _ in range(int(sys.argv[1])): assert b.execute("identifyme/table_3_main_results", nb, {"out": ""}, 60).fault == "wrote no report"
"""
    return (child(sys.executable, "-c", code, "7") - child(sys.executable, "-c", code, "1"))/6

def again(folder: Path) -> float:
    "CPU seconds of a second `reproduce` with nothing changed."
    env = dict(REFNB_REPORTS=str(folder/"reports"), REFNB_RUNS=str(folder/"runs"), REFNB_OFFLINE="true")
    subprocess.run([BIN/"refnb", "reproduce"], check=True, stdout=subprocess.DEVNULL, env=os.environ | env)
    return child(BIN/"refnb", "reproduce", **env)

def wall(*args, **env) -> float:
    "Seconds by the clock of one command."
    start = time.monotonic()
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, env=os.environ | env)
    return time.monotonic() - start

def tables(folder: Path) -> float:
    "Seconds by the clock for all IdentifyMe tables, made anew."
    return wall(BIN/"refnb", "reproduce", "identifyme", "--force", REFNB_REPORTS=str(folder/"anew"), REFNB_RUNS=str(folder/"runs"), REFNB_OFFLINE="true")

def bootstrap() -> float:
    import numpy as np
    from refnb.metrics.uncertainty import cluster_bootstrap
    rng = np.random.default_rng(0)
    values, clusters = rng.integers(0, 2, 1200), rng.integers(0, 149, 1200)
    return here(lambda: cluster_bootstrap(values, clusters, 10_000))

def replay(folder: Path, n: int) -> float:
    from refnb.core.runs import _line, read_journal
    from refnb.core.types import Answer
    path = folder/f"journal-{n}"
    path.write_bytes(b"".join(_line(Answer(f"d:{i}", (i % 5,), raw="- Mention: she\n- The mention refers to: Bea")) for i in range(n)))
    return here(lambda: read_journal(path))

def main() -> int:
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        got = [("refnb --help", child(BIN/"refnb", "--help"), 0.2), ("import refnb", child(sys.executable, "-c", "import refnb"), 0.1), ("batch overhead per notebook", overhead(folder), 1.0),
               ("second reproduce, nothing changed", again(folder), 2.0), ("10,000 cluster-bootstrap resamples of 1,200 answers in 149 documents", bootstrap(), 0.3)]
        got += [(f"replay of a journal of {n:,} answers", replay(folder, n), budget) for n, budget in ((1_000, None), (10_000, None), (100_000, 1.0))]
        clock = [("all IdentifyMe tables", tables(folder), 30.)]
        got.append(("the site", child(sys.executable, Path(__file__).parent/"site/build.py", "--out", folder/"site"), 10.))
    got += bench_identifyme.lines() + bench_altentities.lines() + bench_books.lines() + bench_models.lines() + bench_local.lines()
    print(f"{'CPU seconds (memory: MB)':105} {'used':>9} {'budget':>8}")
    for name, used, budget in got: print(f"{name:105} {used:9.3f} {f'{budget:8.2f}' if budget else '':8} {'' if budget is None else 'ok' if used < budget else 'OVER'}")
    print(f"{'seconds by the clock':105} {'used':>9} {'budget':>8}")
    for name, used, budget in clock: print(f"{name:105} {used:9.1f} {budget:8.1f} {'ok' if used < budget else 'OVER'}")
    return any(b and u >= b for _, u, b in got + clock)

if __name__ == "__main__": sys.exit(main())
