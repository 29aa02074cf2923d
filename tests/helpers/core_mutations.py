"Bytes that are damaged in many ways, and what a reader may make of them."

import os, random
from collections.abc import Iterable, Iterator
from pathlib import Path
from refnb.core.types import DataError, FormatError

MUTATIONS = int(os.environ.get("TEST_MUTATIONS", 100))
SET = b'"\\{}[]:,0-9.eE\n\r\t #&*!|>\0\xff\xc3'
INSERT = [b"\n", b'"', b"{", b"[", b"null", b"NaN", b"- ", b"!!int ", b"\xef\xbb\xbf"]
INSERT += [b"\\ud800", b"1e999"]


def mutated(data: bytes, seed: int) -> Iterator[bytes]:
    "The data with one to three bytes or stretches flipped, set, deleted, inserted, doubled or cut."
    rng = random.Random(seed)
    for _ in range(MUTATIONS):
        d = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at, n = rng.randrange(len(d)), rng.choice([1, 1, 1, 7, 40])
            match rng.choice(["flip", "set", "delete", "insert", "double", "cut"]):
                case "flip":
                    d[at] ^= 1 << rng.randrange(8)
                case "set":
                    d[at] = rng.choice(SET + bytes([rng.randrange(256)]))
                case "delete":
                    del d[at : at + n]
                case "insert":
                    d[at:at] = rng.choice([rng.randbytes(n), *INSERT])
                case "double":
                    d[at:at] = d[at : at + n]
                case "cut":
                    del d[max(1, at) :]
            if not d:
                d = bytearray(b" ")
        yield bytes(d)


def flipped(data: bytes, places: Iterable[int]) -> Iterator[bytes]:
    "The data with one bit flipped, for each bit of the bytes at some places."
    for at in places:
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def good_or_one_line(read, path: Path):
    "Read a file that may be damaged: its records, or an error of one line that names it."
    try:
        return read()
    except (FormatError, DataError) as e:
        assert "\n" not in str(e) and path.name in str(e)
