"Files under kills, mutations and hostile hands."

import gzip, itertools, os, random, stat, time
from pathlib import Path
import msgspec
import pytest
from refnb.core import files as f
from refnb.core.documents import Document
from refnb.core.types import Answer, DataError, FormatError, Option, Question, Span, Usage

KILLS = int(os.environ.get("TEST_KILLS", 3))
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


# Writing

OVERWRITE = """
import sys
from refnb.core.files import write_atomic
print("ready", flush=True)
while True:
    for c in b"ab": write_atomic(sys.argv[1], bytes([c])*300_000)
"""


def kill_writing(spawn, path: Path, delay: float):
    "Write a file again and again in another process, and kill that after a while."
    p = spawn(OVERWRITE, path)
    assert p.stdout.readline() == "ready\n", p.communicate()
    time.sleep(delay)
    p.kill()
    p.communicate()


def test_f33_a_killed_write_leaves_the_old_file_or_the_new_one(tmp_path, spawn):
    rng, path = random.Random(2), tmp_path / "report.csv"
    f.write_atomic(path, b"a" * 300_000)
    for _ in range(KILLS):
        kill_writing(spawn, path, rng.uniform(0, 0.03))
        assert path.read_bytes() in (b"a" * 300_000, b"b" * 300_000)


def litter(path: Path) -> set[Path]:
    "Hidden files that belong to a path, and to none whose name is longer."
    return {
        p
        for p in path.parent.iterdir()
        if p.name.startswith(f".{path.name}.") and p.name.count(".") == path.name.count(".") + 3
    }


def test_f33_what_a_killed_write_left_goes_with_a_later_one(tmp_path, spawn):
    "Two hours later, in this test: no write takes so long, so nobody is writing any more."
    path, other = tmp_path / "a", tmp_path / "a.b"
    for target in (path, other):
        for _ in range(50):
            if litter(target):
                break
            kill_writing(spawn, target, 0.005)
    for p in tmp_path.iterdir():
        os.utime(p, (time.time() - 7200,) * 2)
    left = litter(other)
    f.write_atomic(path, b"new")
    assert not litter(path) and litter(other) == left, (
        "its own goes, that of another file is none of its business"
    )
    f.write_atomic(other, b"new")
    assert {p.name for p in tmp_path.iterdir()} == {"a", "a.b"}


def test_a_write_beside_another_writer_leaves_its_file_alone(tmp_path):
    "A part file that is young belongs to someone."
    young = tmp_path / ".a.0123abcd.part"
    young.write_text("being written")
    f.write_atomic(tmp_path / "a", "new")
    assert young.exists()


@pytest.mark.parametrize(
    "name",
    ["a.txt", "é" * 100, "日" * 80, "😀" * 62, "x" * 250, "-rf", "a b\n%s", ".hidden"],
    ids=["plain", "umlauts", "three bytes", "four bytes", "long", "dash", "line", "hidden"],
)
def test_f55_any_name_that_a_file_can_have(tmp_path, name):
    assert f.write_atomic(tmp_path / name, "x").read_text() == "x"
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_rights_of_the_umask(tmp_path, monkeypatch, umask):
    old = os.umask(umask)
    try:
        monkeypatch.setattr(
            os,
            "umask",
            lambda m: pytest.fail(
                "the umask belongs to the whole process: another thread would see it changed"
            ),
        )
        f.write_atomic(tmp_path / "a", "x")
    finally:
        monkeypatch.undo()
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("target", ["folder", "file/below", "x" * 300])
def test_a_write_that_cannot_be(tmp_path, target):
    (tmp_path / "folder" / "kept").mkdir(parents=True)
    (tmp_path / "file").write_text("old")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="cannot write") as e:
        f.write_atomic(tmp_path / target, "new")
    assert "\n" not in str(e.value)
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "file").read_text() == "old"


def test_an_interrupted_write_leaves_no_litter(tmp_path, monkeypatch):
    f.write_atomic(tmp_path / "a", "old")

    def interrupt(fd):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        f.write_atomic(tmp_path / "a", "new")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_writers_of_one_file_at_once(tmp_path):
    "The last one wins; none sees another's half."
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: f.write_atomic(tmp_path / "a", bytes([i]) * 50_000), range(40)))
    data = (tmp_path / "a").read_bytes()
    assert len(data) == 50_000 and len(set(data)) == 1 and len(list(tmp_path.iterdir())) == 1


# JSONL

QUESTIONS = [
    Question(
        f"d:{i}",
        "d",
        "Ann met Bea. «She» smiled – 日本.",
        (13, 18),
        (Option("Ann"), Option("Bea", 'the "tall" one')),
        (i % 2,),
        {"type": "PRON", "n": i, "hard": None},
    )
    for i in range(6)
]
ANSWERS = [Answer(f"d:{i}", (i,), raw="é\n", usage=Usage(3, 4, 0.5)) for i in range(3)] + [
    Answer("d:3", scores=(0.5, -1e-3)),
    Answer("d:4", reason="cut"),
]
DOCUMENTS = [
    Document(
        f"d{i}",
        (("Ann", "met", "Bea", "."), ("She", "smiled", ".")),
        ((Span(0, 0),), (Span(2, 2), Span(4, 4))),
        ("Ann", "Bea"),
        meta={"n": 1.5},
    )
    for i in range(3)
]


def jsonl(folder: Path, data: bytes) -> Path:
    (folder / "x.jsonl").write_bytes(data)
    return folder / "x.jsonl"


def test_f40_an_error_has_the_number_of_its_line(tmp_path):
    lines = [msgspec.json.encode(a) for a in ANSWERS]
    for bad, i in itertools.product(
        [
            b"{",
            b"[]",
            b'{"id":1}',
            b'{"id":"\xff"}',
            b'{"id":"x","scores":[NaN]}',
            b'{"id":"x","odd":1}',
            b"\xef\xbb\xbf{}",
            b"\0",
        ],
        range(5),
    ):
        path = jsonl(tmp_path, b"\n".join([*lines[:i], bad, *lines[i:]]))
        with pytest.raises(FormatError, match=f"x.jsonl, line {i + 1}"):
            list(f.read_jsonl(path, Answer))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n", b"\n \n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [True, False])
def test_f40_blank_lines_line_ends_and_marks(tmp_path, start, end, last):
    data = start + end.join(msgspec.json.encode(a) for a in ANSWERS) + (end if last else b"")
    assert list(f.read_jsonl(jsonl(tmp_path, data), Answer)) == ANSWERS


def test_f40_a_torn_file_is_found_at_every_byte(tmp_path):
    "All lines before the tear, then an error; a tear between lines cannot be seen."
    whole = b"".join(msgspec.json.encode(a) + b"\n" for a in ANSWERS)
    for cut in range(1, len(whole)):
        got, want = [], whole[: cut + 1].count(b"\n")
        try:
            got += f.read_jsonl(jsonl(tmp_path, whole[:cut]), Answer)
        except FormatError as e:
            assert f"line {want + 1}" in str(e)
        else:
            assert len(got) == want and whole[cut - 1 : cut + 1].find(b"\n") >= 0


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":"a","id":"b"}',
        b'{"id":"a","raw":"x","raw":"x"}',
        b'{"id":"a","usage":{"tokens_in":1,"tokens_in":2}}',
    ],
)
def test_f40_a_key_that_stands_twice(tmp_path, line):
    with pytest.raises(FormatError, match="line 2"):
        list(f.read_jsonl(jsonl(tmp_path, b'{"id":"0"}\n' + line), Answer))


def test_f40_f72_deep_nesting_is_no_traceback(tmp_path):
    with pytest.raises(FormatError, match="line 1"):
        list(f.read_jsonl(jsonl(tmp_path, b'{"a":' + b"[" * 100_000), dict))


PLAIN = b'{"id": "a"}\n' * 20
PACKED = gzip.compress(PLAIN, mtime=0)


def test_a_packed_file_with_any_bit_flipped(tmp_path):
    path = tmp_path / "x.gz"
    for i, bit in itertools.product(range(len(PACKED)), range(8)):
        path.write_bytes(PACKED[:i] + bytes([PACKED[i] ^ 1 << bit]) + PACKED[i + 1 :])
        assert good_or_one_line(lambda: f.read_bytes(path), path) in (None, PLAIN)


def test_a_packed_file_that_was_cut(tmp_path):
    for cut in range(1, len(PACKED)):
        (tmp_path / "x.gz").write_bytes(PACKED[:cut])
        with pytest.raises(FormatError, match="x.gz"):
            f.read_bytes(tmp_path / "x.gz")


def test_f65_a_packed_file_that_unpacks_to_too_much(tmp_path, monkeypatch):
    "By its size, or by how many times its own size it would become; the caps are settings."
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"0" * 12_000_000))
    with pytest.raises(
        DataError,
        match="x.gz: unpacks to more than 10,000,000 bytes; raise REFNB_LARGEST or REFNB_RATIO",
    ):
        f.read_bytes(path)
    monkeypatch.setenv("REFNB_RATIO", "1100")
    assert len(f.read_bytes(path)) == 12_000_000
    monkeypatch.setenv("REFNB_LARGEST", "11999999")
    with pytest.raises(DataError, match="more than 11,999,999 bytes"):
        f.read_bytes(path)


def test_f65_a_packed_local_copy_is_unpacked_to_its_registered_size(tmp_path, settings):
    from refnb.core.upstream import UpstreamFile, get

    file = UpstreamFile("owner/repo", "0" * 40, "a.txt", "0" * 40, 5, "none")
    f.write_atomic(tmp_path / "tree" / f"{file.place}.gz", b"0" * 5_000_000, gz=True)
    with pytest.raises(DataError, match="unpacks to more than 5 bytes"):
        get(file, settings(upstream=str(tmp_path / "tree")))


@pytest.mark.parametrize("path", ["none.jsonl", ".", "none/none.gz"])
def test_a_file_that_is_not_there(tmp_path, path):
    with pytest.raises(DataError) as e:
        f.read_bytes(tmp_path / path)
    assert "\n" not in str(e.value)


# YAML


class Cell(msgspec.Struct):
    value: float | str | None
    note: str = ""


class Paper(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    cells: dict[str, dict[str, float | None]]
    rows: list[Cell] = []
    rounded: bool = False


PAPER = """# printed values
title: "Who is she? – «Bea»"
cells:
  gpt-4o: {all: 81.5, hard: 0x1F, 'none of the above': ~}
  random: {all: 20.25, hard: -1.5e+3}
rows:
- value: 1
- value: |
    two
    lines
  note: 2001-01-02
- value: !!str 3
  note: >-
    folded
    text
rounded: yes
"""


def yaml(folder: Path, text: str | bytes, kind=dict):
    (folder / "x.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return f.read_yaml(folder / "x.yaml", kind)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!python/object:refnb.core.types.Answer {}",
        "!!python/tuple [1]",
        "!!python/object/new:os.system [x]",
        "!odd {}",
        "!<tag:yaml.org,2002:python/name:os.system> x",
    ],
)
def test_f54_yaml_makes_no_objects(tmp_path, text):
    for whole in (text, f"a: {text}", f"- {text}"):
        with pytest.raises(FormatError, match="could not determine a constructor"):
            yaml(tmp_path, whole, object)


@pytest.mark.parametrize(
    "value",
    [
        "2001-99-99",
        "2001-01-01 99:99:99",
        "0x_",
        "0b_",
        "!!int x",
        "!!float x",
        "!!bool x",
        "!!timestamp x",
        "!!map x",
        "!!binary x",
        "!!set x",
        "{[a]: b}",
        "\xa0\x85\0",
    ],
)
def test_yaml_values_that_no_value_is(tmp_path, value):
    with pytest.raises(FormatError, match="x.yaml"):
        yaml(tmp_path, f"a: {value}")


@pytest.mark.parametrize("data", [b"a: \xff", b"\xff\xfea\0", b"a: \xc3"])
def test_yaml_that_is_not_utf_8(tmp_path, data):
    with pytest.raises(FormatError, match="x.yaml"):
        yaml(tmp_path, data)


def test_yaml_with_a_byte_order_mark_and_crlf(tmp_path):
    assert yaml(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: [x,\r\n  y]\r\n") == {"a": 1, "b": ["x", "y"]}
