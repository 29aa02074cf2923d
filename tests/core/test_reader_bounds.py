"Every reader's memory on a megabyte of one thing."

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
import pytest
from test_readers import READERS, Reader, one_line, places
from tools import FULL

UNITS = (b"a", b" ", b"(", b"1", b"\n", b"a b ")
SIZE = 1_000_000 if FULL else 100_000
MEMORY = 20  # bytes of memory for each byte of a file


def long_files(reader: Reader, size: int = SIZE) -> Iterator[tuple[str, bytes]]:
    "Files in which one thing is repeated where a value begins, each with its description."
    for unit in UNITS:
        for at in places(reader.good, 2):
            yield (
                f"{unit!r} at {at}",
                reader.good[:at] + unit * (size // len(unit)) + reader.good[at:],
            )


def memory(reader: Reader, path: Path, data: bytes) -> float:
    "Bytes of memory, at the peak of reading, for each byte of a file."
    tracemalloc.start()
    try:
        one_line(reader, path, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak / len(data)


CHEAP = [
    "conll",
    "conllu",
    "jsonlines",
    "questions",
    "any yaml",
    "answers",
]  # of these it is always looked at


@pytest.mark.parametrize("name", READERS if FULL else CHEAP)
def test_f71_a_reader_takes_twenty_times_its_file_in_memory_at_most(name, tmp_path):
    reader = READERS[name]
    reader.read(
        write(tmp_path / reader.name, reader.good)
    )  # what is loaded the first time does not count
    used = {what: memory(reader, tmp_path / reader.name, data) for what, data in long_files(reader)}
    worst = max(used, key=used.__getitem__)
    assert used[worst] <= MEMORY, f"{used[worst]:.0f} bytes for a byte of {worst}"


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
