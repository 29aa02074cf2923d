"Files that are written under kills, and read when they are torn, packed, damaged or hostile."

import gzip, itertools, json, os, random, stat, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import msgspec
import pytest
from core_kills import Hatchery
from core_mutations import flipped, good_or_one_line
from core_refused import refused
from refnb import Answer
from refnb.core.files import folder_atomic, read_bytes, read_jsonl, read_yaml, write_atomic
from refnb.core.types import FormatError, Record, Usage
from tools import FULL

KILLS = int(os.environ.get("TEST_KILLS", 6))


# Writing

OVERWRITE = """
from refnb.core.files import write_atomic

def work(path):
    while True:
        for c in b"ab":
            write_atomic(path, bytes([c]) * 300_000)
"""


def test_a_killed_write_leaves_the_old_file_or_the_new_one_and_no_litter_for_long(tmp_path, spawn):
    "What lies beside a file goes with a later write of it, hours after: until then, one may write."
    hatchery, rng, litter = Hatchery(spawn, OVERWRITE), random.Random(2), {}
    path, other = tmp_path / "a", tmp_path / "a.b"
    for target in (path, other):
        write_atomic(target, b"a" * 300_000)
        before = set(tmp_path.iterdir())
        for kill in range(50 + KILLS):
            hatchery.work(target, kill_after=rng.uniform(0.001, 0.03))
            assert target.read_bytes() in (b"a" * 300_000, b"b" * 300_000)
            litter[target] = set(tmp_path.iterdir()) - before
            if litter[target] and kill >= KILLS:
                break
    write_atomic(path, "new")
    assert all(p.exists() for p in litter[path]), "young: another may be writing"
    for p in tmp_path.iterdir():
        os.utime(p, (time.time() - 7200,) * 2)
    write_atomic(path, "new")
    assert set(tmp_path.iterdir()) == {path, other, *litter[other]}, "another file's stays"
    write_atomic(other, "new")
    assert set(tmp_path.iterdir()) == {path, other}


NAMES = ["a.txt", "é" * 100, "日" * 80, "😀" * 62, "x" * 250, "-rf", "a b\n%s", ".hidden", "[a]*?"]


def test_a_file_may_have_any_name(tmp_path):
    for name in NAMES:
        assert write_atomic(tmp_path / name, "x").read_text() == "x"
    assert {p.name for p in tmp_path.iterdir()} == set(NAMES)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_rights_of_the_umask(tmp_path, monkeypatch, umask):
    "Which is not changed to look at it: it belongs to the whole process."
    old = os.umask(umask)
    try:
        with monkeypatch.context() as m:
            m.setattr(os, "umask", lambda new: pytest.fail("another thread would see it changed"))
            write_atomic(tmp_path / "a", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("target", ["folder", "file/below", "x" * 300])
def test_a_write_that_cannot_be_changes_nothing(tmp_path, target):
    (tmp_path / "folder/kept").mkdir(parents=True)
    (tmp_path / "file").write_text("old")
    before = sorted(tmp_path.rglob("*"))
    refused(lambda: write_atomic(tmp_path / target, "new"), "cannot write")
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "file").read_text() == "old"


def test_an_interrupted_write_leaves_no_litter(tmp_path, monkeypatch):
    def interrupt(fd):
        raise KeyboardInterrupt

    write_atomic(tmp_path / "a", "old")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a", "new")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_of_several_writers_at_once_none_sees_anothers_half(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: write_atomic(tmp_path / "a", bytes([i]) * 50_000), range(40)))
    [path] = tmp_path.iterdir()
    assert len(path.read_bytes()) == 50_000 and len(set(path.read_bytes())) == 1


def test_a_folder_is_there_to_write_into_and_takes_its_name_when_all_is_well(tmp_path):
    with folder_atomic(tmp_path / "a/b") as aside:
        (aside / "x.txt").write_text("x")
        assert not (tmp_path / "a/b").exists()
    assert (tmp_path / "a/b/x.txt").read_text() == "x"
    with pytest.raises(FileNotFoundError, match="input"), folder_atomic(tmp_path / "c"):
        (tmp_path / "input").read_text()  # no fault of the folder that is written
    (tmp_path / "file").write_text("old")
    refused(lambda: folder_atomic(tmp_path / "file/d").__enter__(), "file/d", "cannot write")
    assert {p.name for p in tmp_path.iterdir()} == {"a", "file"}


# JSON lines

ANSWERS = [Answer(f"d:{i}", (i,), raw="é\n", usage=Usage(3, 4, 0.5)) for i in range(3)]
ANSWERS += [Answer("d:3", scores=(0.5, -1e-3)), Answer("d:4", reason="cut")]
LINES = [msgspec.json.encode(a) for a in ANSWERS]


def answers(path: Path, data: bytes) -> list[Answer]:
    path.write_bytes(data)
    return list(read_jsonl(path, Answer))


BAD_LINES = [
    b"{",
    b"[]",
    b'{"id":1}',
    b'{"id":"\xff"}',
    b'{"id":"x","scores":[NaN]}',
    b'{"id":"x","odd":1}',
    b'{"id":"x","chosen":[1,1]}',
    b'{"id":"a","id":"b"}',
    b'{"id":"a","raw":"x","raw":"x"}',
    b'{"id":"a","usage":{"tokens_in":1,"tokens_in":2}}',
    b"\xef\xbb\xbf{}",
    b"\0",
]


def test_a_bad_line_is_told_by_its_number(tmp_path):
    path = tmp_path / "x.jsonl"
    for bad, i in itertools.product(BAD_LINES, (0, 4)):
        data = b"\n".join([*LINES[:i], bad, *LINES[i:]])
        refused(lambda data=data: answers(path, data), f"x.jsonl, line {i + 1}")


def test_blank_lines_line_ends_and_marks_are_passed_over(tmp_path):
    ends, starts = [b"\n", b"\r\n", b"\n\n", b"\n \n"], [b"", b"\xef\xbb\xbf"]
    for start, end, last in itertools.product(starts, ends, (True, False)):
        data = start + end.join(LINES) + end * last
        assert answers(tmp_path / "x.jsonl", data) == ANSWERS


def test_a_torn_file_is_told_at_every_byte(tmp_path):
    "All lines before the tear, then an error; a tear between lines cannot be seen."
    path, whole = tmp_path / "x.jsonl", b"".join(line + b"\n" for line in LINES)
    for cut in range(1, len(whole)):
        want = whole[: cut + 1].count(b"\n")
        if b"\n" in whole[cut - 1 : cut + 1]:
            assert len(answers(path, whole[:cut])) == want
        else:
            refused(lambda cut=cut: answers(path, whole[:cut]), f"line {want + 1}")


# Packed files

PLAIN = b'{"id": "a"}\n' * 20
PACKED = gzip.compress(PLAIN, mtime=0)


def test_a_damaged_packed_file_is_refused_or_whole(tmp_path):
    path = tmp_path / "x.gz"
    for data in flipped(PACKED, range(0, len(PACKED), 1 if FULL else 3)):
        path.write_bytes(data)
        assert good_or_one_line(lambda: read_bytes(path), path) in (None, PLAIN)
    for cut in range(1, len(PACKED)):
        path.write_bytes(PACKED[:cut])
        refused(lambda: read_bytes(path), "x.gz")


def test_a_packed_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"0" * 12_000_000))
    assert len(read_bytes(path)) == 12_000_000
    monkeypatch.setattr("refnb.core.files.LARGEST", 11_999_999)
    refused(lambda: read_bytes(path), "x.gz", "11,999,999")


@pytest.mark.parametrize("path", ["none.jsonl", ".", "none/none.gz"])
def test_a_file_that_is_not_there_is_told_in_one_line(tmp_path, path):
    refused(lambda: read_bytes(tmp_path / path), str(tmp_path))


# YAML

HOSTILE = [
    "!!python/object/apply:os.system ['true']",
    "!!python/name:os.system",
    "!!python/module:os",
    "!!python/object:refnb.core.types.Answer {}",
    "!!python/tuple [1]",
    "!!python/object/new:os.system [x]",
    "!odd {}",
    "!<tag:yaml.org,2002:python/name:os.system> x",
]
IMPOSSIBLE = ["2001-99-99", "2001-01-01 99:99:99", "0x_", "0b_", "{[a]: b}", "\xa0\x85\0"]
IMPOSSIBLE += [f"!!{kind} x" for kind in "int float bool timestamp map binary set".split()]


def yaml(path: Path, data: bytes, kind: type = dict) -> object:
    path.write_bytes(data)
    return read_yaml(path, kind)


def test_yaml_makes_no_objects_and_no_impossible_values(tmp_path):
    forms = (b"%s", b"a: %s", b"- %s")
    cases = [(form % text.encode(), object) for text in HOSTILE for form in forms]
    cases += [(b"a: %s" % value.encode(), dict) for value in IMPOSSIBLE]
    cases += [(data, dict) for data in (b"a: \xff", b"\xff\xfea\0", b"a: \xc3")]
    for data, kind in cases:
        with pytest.raises(FormatError, match="x.yaml") as e:
            yaml(tmp_path / "x.yaml", data, kind)
        assert "\n" not in str(e.value), data


class Shelf(Record):
    books: dict[str, dict[str, set[int]]] = {}
    title: str = ""


@pytest.mark.parametrize("key", ["b", "c.d", "7", "a/b"])
def test_a_wrong_value_in_yaml_or_json_is_told_by_its_keys(tmp_path, key):
    shelf = {"a": {"x": [1]}, key: {"x": [1], "y": [2, "three"]}, "z": {}}
    text = json.dumps({"books": shelf, "title": 4})
    for read in (read_yaml, lambda path, kind: list(read_jsonl(path, kind))):
        path = write_atomic(tmp_path / "shelf", text)
        refused(lambda read=read, path=path: read(path, Shelf), f"field books.{key}.y[1]: Expected")


@pytest.mark.parametrize(
    "twice", ["a: 1\n%s: 2", "b:\n- {a: 1,\n   %s: 2}", "<<: &x {b: 1}\na: 1\n%s: 2"]
)
@pytest.mark.parametrize("key", ["a", "'a'", '"\\u0061"', "!!str a"])
def test_a_key_that_stands_twice_in_yaml_is_refused_by_its_line(tmp_path, twice, key):
    data = (twice % key).encode()
    line = len(data.splitlines())
    refused(lambda: yaml(tmp_path / "x.yaml", data), f"x.yaml, line {line}: the key 'a' appears")


def test_a_key_that_is_merged_in_yaml_may_be_written_anew(tmp_path):
    data = b"a: &a {x: 1, y: 1}\nb: {c: &c {<<: *a, x: 2}}\nd: {<<: *c, x: 3}\n"
    merged = {"a": {"x": 1, "y": 1}, "b": {"c": {"x": 2, "y": 1}}, "d": {"x": 3, "y": 1}}
    assert yaml(tmp_path / "x.yaml", data) == merged


def test_yaml_with_a_mark_and_crlf(tmp_path):
    data = b"\xef\xbb\xbfa: 1\r\nb: [x,\r\n  y]\r\n"
    assert yaml(tmp_path / "x.yaml", data) == {"a": 1, "b": ["x", "y"]}
