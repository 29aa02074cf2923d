"Bytes that were damaged, and what may become of a file that holds them."

import os, random
from pathlib import Path
from refnb.core.types import DataError, FormatError

MUTATIONS = int(os.environ.get("TEST_MUTATIONS", 250))


def mutated(data: bytes, seed: int):
    "The data with one to three bytes or stretches flipped, deleted, inserted, doubled or cut off."
    rng = random.Random(seed)
    for _ in range(MUTATIONS):
        d = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at, n = rng.randrange(len(d)), rng.choice([1, 1, 1, 7, 40])
            match rng.choice(["flip", "set", "delete", "insert", "double", "cut"]):
                case "flip":
                    d[at] ^= 1 << rng.randrange(8)
                case "set":
                    d[at] = rng.choice(
                        b'"\\{}[]:,0-9.eE\n\r\t #&*!|>\0\xff\xc3' + bytes([rng.randrange(256)])
                    )
                case "delete":
                    del d[at : at + n]
                case "insert":
                    d[at:at] = rng.choice(
                        [
                            rng.randbytes(n),
                            b"\n",
                            b'"',
                            b"{",
                            b"[",
                            b"null",
                            b"NaN",
                            b"- ",
                            b"!!int ",
                            b"\xef\xbb\xbf",
                            b"\\ud800",
                            b"1e999",
                        ]
                    )
                case "double":
                    d[at:at] = d[at : at + n]
                case "cut":
                    del d[max(1, at) :]
            if not d:
                d = bytearray(b" ")
        yield bytes(d)


def good_or_one_line(read, path: Path):
    "Read a file that may be damaged: its records, or an error of refnb of one line that names it."
    try:
        return read()
    except (FormatError, DataError) as e:
        assert "\n" not in str(e) and path.name in str(e)
