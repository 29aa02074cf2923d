"Every reader on damaged files, on a megabyte of one thing, and on values that no file should hold."

import hashlib, subprocess, tracemalloc
from pathlib import Path
import pytest
import refnb
from core_documents import read
from core_mutations import mutated
from core_readers import GOLD, KITMUS, PROVENANCE, READERS, TABLE, TEXTS, Reader
from core_readers import encoded, places, read_or_one_line
from core_refused import refused
from refnb.benchmarks.kitmus import reading
from refnb.core.files import write_atomic
from refnb.core.formats import GAP_COLUMNS, parse_gap_rows
from refnb.core.types import RefnbError
from tools import FULL, HANG, growth


@pytest.fixture(params=READERS)
def reader(request) -> Reader:
    return READERS[request.param]


def test_damaged_files_are_read_or_refused_in_one_line(reader, tmp_path):
    path = tmp_path / reader.name
    assert read_or_one_line(reader, path, reader.good)
    for damaged in mutated(reader.good, 42):
        read_or_one_line(reader, path, damaged)


DEEP = 20_000 if FULL else 3_000  # Python gives up at 1,000
ODD = [b"[" * DEEP, b'{"a":' * DEEP, b"((" * 5_000, b"- " * 5_000, b"9" * 4_400, b"-1"]
ODD += [b"2147483648", b"99999999999999999999", b"1e999", b"x" * 131_073, b"\\ud800"]
ODD += [b'"' + b"y" * 140_000 + b'"', b"part 1" + b"1" * 5_000]


@pytest.mark.filterwarnings("ignore:invalid decimal literal")
def test_values_that_no_file_should_hold_are_read_or_refused_in_one_line(reader, tmp_path):
    "Deep nesting, long numbers, long fields: where a value begins, and in place of a number."
    for odd in ODD:
        for at in places(reader.good, 200 if FULL else 2):
            rest = reader.good[at:]
            if odd.strip(b"-").isdigit():
                rest = rest.lstrip(b"0123456789")
            read_or_one_line(reader, tmp_path / reader.name, reader.good[:at] + odd + rest)


# A megabyte of one thing

UNITS = (b"a", b" ", b"(", b"1", b"\n", b"a b ")
LONG = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from core_readers import READERS, places, read_or_one_line

def tried(name, reader, what, data):
    print(name, what, flush=True)
    (folder / name).mkdir(exist_ok=True)
    read_or_one_line(reader, folder / name / reader.name, data)

folder, size, units = Path(sys.argv[2]), int(sys.argv[3]), eval(sys.argv[4])
conllu = b"# global.Entity = eid\\n1\\ta" + b"\\t_" * 7 + b"\\tEntity=" + b"a" * 1_000_000
conll = b"#begin document" + b" " * 1_000_000 + b"x"
for data in (conllu, conll):
    tried("a pattern", READERS["conll"], data[:20], data)
for name, reader in READERS.items():
    for at in places(reader.good, 4):
        for unit in units:
            long = reader.good[:at] + unit * (size // len(unit)) + reader.good[at:]
            tried(name, reader, (unit, at), long)
"""


def test_a_long_file_of_one_thing_makes_no_reader_hang_or_crash(tmp_path, spawn):
    """In a process of its own, for what C does shows in no trace: patterns that were quadratic in
    the first two lines took an hour."""
    size, helpers = 1_000_000 if FULL else 10_000, Path(__file__).parents[1] / "helpers"
    p = spawn(LONG, helpers, tmp_path, size, UNITS)
    try:
        out, err = p.communicate(timeout=HANG)
    except subprocess.TimeoutExpired as e:
        pytest.fail(f"hangs: {(e.stdout or b'').splitlines()[-1:]}")
    assert p.returncode == 0, (out.splitlines()[-1:], err)


CHEAP = ["conll", "conllu", "jsonlines", "questions", "any yaml", "answers"]  # always looked at
SIZE = 1_000_000 if FULL else 50_000


@pytest.mark.parametrize("name", READERS if FULL else CHEAP)
def test_a_reader_takes_twenty_times_its_file_in_memory_at_most(name, tmp_path):
    reader = READERS[name]
    path = tmp_path / reader.name
    read_or_one_line(reader, path, reader.good)  # what is loaded the first time does not count
    for unit in UNITS:
        for at in places(reader.good, 2):
            long = reader.good[:at] + unit * (SIZE // len(unit)) + reader.good[at:]
            tracemalloc.start()
            try:
                read_or_one_line(reader, path, long)
                used = tracemalloc.get_traced_memory()[1] / len(long)
            finally:
                tracemalloc.stop()
            assert used <= 20, f"{used:.0f} bytes for a byte of {unit} at {at}"


def conllu(n: int) -> bytes:
    return b"# global.Entity = eid\n1\ta" + b"\t_" * 7 + b"\tEntity=" + b"(a)" * n + b"\n"


def jsonl(n: int) -> bytes:
    keys = ", ".join(f'"{i}": 0' for i in [*range(n), n - 1])
    return b'{"doc_key": "d", "clusters": [], "o": {%s}}' % keys.encode()


LINEAR = {
    "a key that appears twice": (lambda data: read(data, "jsonl"), jsonl),
    "columns": (
        parse_gap_rows,
        lambda n: "\t".join([*GAP_COLUMNS, *map(str, range(n)), "0"]).encode(),
    ),
    "brackets of conllu": (lambda data: read(data, "conllu"), conllu),
    "a begin line": (
        lambda data: read(data, "conll"),
        lambda n: b"#begin document (a)" + b" ; part" * n + b"\n",
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_the_work_grows_no_faster_than_the_file(name):
    parse, make = LINEAR[name]

    def call(data):
        try:
            parse(data)
        except RefnbError:
            pass

    assert growth(call, make(300), make(1_200)) < 5


# No silent wrong score

SECOND_ROW = TABLE + TABLE.splitlines(keepends=True)[1]


@pytest.mark.parametrize(
    "data, parts",
    [
        (TEXTS.replace(b"[4, 4]", b"[4, 7]"), ["field clusters[0]: [4, 7]"]),
        (TEXTS.replace(b"[4, 4]", b"[4, 4294967300]"), ["[4, 4294967300]"]),
        (TEXTS.replace(b"Ann", b"Eve"), ["1 of 7 words", "'Eve'", "'Ann'"]),
        (TEXTS + TEXTS, [f"{KITMUS!r}"]),
        (SECOND_ROW, [f"{KITMUS!r}"]),
    ],
    ids=["no span", "a large span", "other words", "a text twice", "a row twice"],
)
def test_predictions_for_kitmus_that_cannot_be_are_refused(data, parts):
    line = refused(lambda: reading.predictions(data, GOLD, "p.jsonl"), *parts)
    assert line.startswith("p.jsonl")


DAMAGED = {
    "not json": ("json", b"{"),
    "without its fields": ("json", b'{"table": "identifyme/table_1_composition"}'),
    "other fields": ("json", encoded(PROVENANCE | {"files": 3})),
    "deep": ("json", b'{"a":' + b"[" * 100_000),
    "table": ("csv", b"row,column\na,b\n"),
    "quotes": ("csv", b'row,column,paper,ours,difference,reason\n"a,b'),
    "packed": ("csv", b"\xff\xfe\0"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_report_is_stale_and_hides_no_other(settings, name):
    (end, data), s = DAMAGED[name], settings()
    path = Path(s.reports) / f"{PROVENANCE['table']}.json"
    if end == "csv":
        hashes = {path.with_suffix(".csv").name: hashlib.sha256(data).hexdigest()}
        write_atomic(path, encoded(PROVENANCE | {"files": hashes}))
    write_atomic(path.with_suffix(f".{end}"), data)
    reports = {line.name: line.report for line in refnb.board(s).lines}
    told, others = reports.pop(PROVENANCE["table"]), set(reports.values())
    assert told.startswith("stale") and len(reports) > 37
    assert len(others) == 1 and told not in others
