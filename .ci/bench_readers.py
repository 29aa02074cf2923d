"""Every reader on a megabyte of one thing: nanoseconds a byte. Called by bench.py, or alone."""

import sys, tempfile, time
from collections.abc import Iterator
from pathlib import Path
from measure import HERE, Row, again_if_over, show

BUDGET = 50.0  # nanoseconds a byte


def nanoseconds(reader, path: Path, data: bytes) -> float:
    "What reading a file takes for each of its bytes; a refusal counts as well."
    from test_readers import one_line

    start = time.process_time()
    one_line(reader, path, data)
    return 1e9 * (time.process_time() - start) / len(data)


def slowest() -> Iterator[Row]:
    "The worst file of each reader."
    sys.path.insert(0, str(HERE.parent / "tests"))
    from test_readers import READERS

    with tempfile.TemporaryDirectory() as tmp:
        for name, reader in READERS.items():
            yield worst_of(name, reader, Path(tmp) / reader.name)


def worst_of(name: str, reader, path: Path) -> Row:
    "The row of a reader; what seems to be over its budget is measured again."
    from test_reader_bounds import long_files

    path.write_bytes(reader.good)
    reader.read(path)  # what is loaded the first time does not count
    used = {}
    for what, data in long_files(reader, 1_000_000):
        used[what] = again_if_over(lambda data=data: nanoseconds(reader, path, data), BUDGET)
    worst = max(used, key=used.__getitem__)
    return Row(f"reader {name}, a megabyte of {worst}", used[worst], BUDGET, "ns/B")


BENCHES = [slowest]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
