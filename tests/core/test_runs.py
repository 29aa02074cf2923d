"Runs under kills, flipped bits, full disks, other writers and other versions; and answers matched by id."

import ast, hashlib, itertools, json, os, random, resource, subprocess, zlib
from pathlib import Path
import msgspec
import pytest
from hypothesis import assume, given, strategies as st
import refnb
from power import Power
from tools import HANG
from refnb.core import runs as r
from refnb.core.files import write_atomic
from refnb.core.summaries import (
    card_of,
    write_summary,
    write_card,
    read_card,
    read_summary,
    find_runs,
    the_summary,
)
from refnb.core.types import (
    Answer,
    CallError,
    DataError,
    FormatError,
    Option,
    Question,
    RefnbError,
    Usage,
)
from refnb.core.settings import load_settings
from refnb.models.running import run
from refnb.metrics.choice import outcomes, outcomes_of_summary

KILLS = int(os.environ.get("TEST_KILLS", 6))
INFO = r.RunInfo(
    "made/up",
    "slow",
    {"questions": "abc"},
    settings={"temperature": 0.5},
    prompt="Who is she?",
    refnb="0.1",
)


def answer(i: int) -> Answer:
    "Answers of all kinds."
    if i % 7 == 6:
        return Answer(f"q{i}", reason="refused", raw="I can't say", usage=Usage(10, 3, None, 0.5))
    if i % 7 == 5:
        return Answer(f"q{i}", scores=(0.25, -1.5, 0.25))
    return Answer(
        f"q{i}",
        (i % 5,),
        raw=f'The mention refers to: "Bea" é 日本 {i}',
        usage=Usage(12, 7, 0.001 * i, 0.25),
    )


def ids(n: int) -> list[str]:
    return [f"q{i}" for i in range(n)]


def journal_of(n: int) -> bytes:
    return b"".join(r.journal_line(answer(i)) for i in range(n))


def made(folder: Path, n: int, sealed: bool = False, info: r.RunInfo = INFO) -> r.Run:
    "A run with n answers."
    run = r.open_run(info, folder)
    with run.writing() as w:
        for i in range(n):
            w.add(answer(i))
    if sealed:
        run.seal(ids(n))
    return run


def files(folder: Path) -> dict[str, bytes]:
    "All that is below a folder, without lock files."
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.suffix != ".lock"
    }


def one_line(e) -> str:
    assert "\n" not in str(e.value)
    return str(e.value)


def flips(data: bytes, offsets):
    "The data with one bit flipped, for each bit of some bytes."
    for i, bit in itertools.product(offsets, range(8)):
        yield i, data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :]


# F29 and F30: what a kill or a disk does to a file


def test_f29_a_torn_last_line_at_every_byte(tmp_path):
    run, whole, start = made(tmp_path, 0), journal_of(5), len(journal_of(4))
    for cut in range(start, len(whole)):
        run.journal.write_bytes(whole[:cut])
        with run.writing() as w:
            assert w.done == {f"q{i}": answer(i) for i in range(4)}, cut
            w.add(answer(4))
        assert run.journal.read_bytes() == whole
    assert set(files(run.folder)) == {"run.json", "answers.jsonl", "damaged.jsonl"}


def test_f29_reading_changes_nothing(tmp_path):
    run = made(tmp_path, 3)
    run.journal.write_bytes(torn := journal_of(3) + journal_of(4)[-20:-3])
    assert list(run.answers_so_far()) == ids(3)
    assert run.journal.read_bytes() == torn


def test_f30_every_truncation_keeps_what_is_whole(tmp_path):
    whole = journal_of(8)
    for cut in range(len(whole)):
        (tmp_path / "j").write_bytes(whole[:cut])
        records, damaged = r.read_journal(tmp_path / "j")
        assert list(records.values()) == [answer(i) for i in range(whole[:cut].count(b"\n"))]
        assert damaged == [x for x in whole[:cut].split(b"\n")[-1:] if x]


def test_f30_a_flipped_bit_is_found(tmp_path):
    "No flip ever changes an answer: each costs a line or two, which is told, or nothing."
    whole, want = journal_of(12), {f"q{i}": answer(i) for i in range(12)}
    for at, data in flips(whole, random.Random(30).sample(range(len(whole)), 200)):
        (tmp_path / "j").write_bytes(data)
        records, damaged = r.read_journal(tmp_path / "j")
        assert all(want[k] == v for k, v in records.items())
        assert len(want) - len(records) in (1, 2) and damaged, f"byte {at}"


def test_f30_a_flipped_line_is_put_aside_and_asked_again(tmp_path):
    run, whole = made(tmp_path, 0), journal_of(12)
    for n, (_, data) in enumerate(flips(whole, random.Random(31).sample(range(len(whole) - 1), 6))):
        run.journal.write_bytes(data)
        aside = run.folder / "damaged.jsonl"
        aside.unlink(missing_ok=True)
        with run.writing() as w:
            lost = set(ids(12)) - set(w.done)
            for i in lost:
                w.add(answer(int(i[1:])))
        assert 1 <= len(lost) <= 2 and run.answers_so_far() == {
            f"q{i}": answer(i) for i in range(12)
        }
        assert all(line in data for line in aside.read_bytes().splitlines()), n
        assert r.read_journal(run.journal)[1] == []


def test_f30_what_was_put_aside_before_stays(tmp_path):
    run = made(tmp_path, 0)
    for i in range(3):
        run.journal.write_bytes(journal_of(i) + b"damaged %d\n" % i)
        with run.writing():
            pass
    assert (run.folder / "damaged.jsonl").read_bytes() == b"damaged 0\ndamaged 1\ndamaged 2\n"


def test_f30_a_flip_after_the_seal_costs_one_question(tmp_path):
    run = made(tmp_path, 12, sealed=True)
    whole, seal = run.journal.read_bytes(), (run.folder / "seal.json").read_bytes()
    for _, data in flips(whole, random.Random(32).sample(range(len(whole)), 3)):
        run.journal.write_bytes(data)
        with pytest.raises(DataError, match="has changed since the run was completed") as e:
            run.answers()
        one_line(e)
        with run.writing() as w:
            assert not run.sealed and len(w.done) >= 10
            for i in range(12):
                w.add(answer(i))
        run.seal(ids(12))
        assert (run.journal.read_bytes(), (run.folder / "seal.json").read_bytes()) == (whole, seal)


def test_f30_a_truncated_sealed_journal(tmp_path):
    run = made(tmp_path, 4, sealed=True)
    whole = run.journal.read_bytes()
    for cut in range(len(whole)):
        run.journal.write_bytes(whole[:cut])
        with pytest.raises(DataError):
            run.answers()


@pytest.mark.parametrize("name", ["run.json", "seal.json"])
def test_f30_a_flipped_bit_in_a_small_file(tmp_path, name):
    "Refused in one line, or of no consequence for the answers and for what they are answers to."
    run = made(tmp_path, 4, sealed=True)
    path, want = run.folder / name, run.answers()
    whole = path.read_bytes()
    for at, data in flips(whole, range(0, len(whole), 3)):
        path.write_bytes(data)
        try:
            again = r.open_run(INFO, tmp_path)
            assert again.info.hash == run.folder.name, f"byte {at}: {data[at : at + 20]}"
            assert again.answers() == want
        except RefnbError as e:
            assert "\n" not in str(e)


@pytest.mark.parametrize("name", ["run.json", "seal.json"])
def test_f30_a_truncated_small_file(tmp_path, name):
    run = made(tmp_path, 4, sealed=True)
    whole = (run.folder / name).read_bytes().rstrip()
    for cut in range(len(whole)):
        (run.folder / name).write_bytes(whole[:cut])
        with pytest.raises(RefnbError) as e:
            r.load_run(run.folder).answers()
        one_line(e)


def test_f30_a_damaged_seal_is_made_anew(tmp_path):
    run = made(tmp_path, 4, sealed=True)
    seal = (run.folder / "seal.json").read_bytes()
    (run.folder / "seal.json").write_bytes(seal[:40])
    with run.writing() as w:
        assert len(w.done) == 4
    run.seal(ids(4))
    assert (run.folder / "seal.json").read_bytes() == seal


def test_f30_a_flipped_bit_in_a_summary_or_card_is_never_a_traceback(tmp_path):
    summary, card = committed(tmp_path)
    for path, read in [(summary, read_summary), (card, read_card)]:
        whole = path.read_bytes()
        for _, data in flips(whole, range(0, len(whole), 7)):
            path.write_bytes(data)
            try:
                read(path)
            except RefnbError as e:
                assert "\n" not in str(e)


@pytest.mark.parametrize("sealed", [False, True])
def test_f31_a_whole_line_of_another_version(tmp_path, sealed):
    "A field that this version does not know is no damage: nothing is put aside, nothing is asked again, no seal is broken."
    run = made(tmp_path, 2, sealed)
    body = b'{"id":"q2","colour":"red"'
    run.journal.write_bytes(
        data := journal_of(2) + b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))
    )
    if sealed:
        write_atomic(
            seal := run.folder / "seal.json",
            msgspec.json.encode(
                json.loads(seal.read_bytes()) | {"sha256": hashlib.sha256(data).hexdigest()}
            ),
        )
    before = files(tmp_path)
    with pytest.raises(FormatError, match="line 3.*another version") as e, run.writing():
        pass
    one_line(e)
    assert files(tmp_path) == before


# F31: other schemas


def with_schema(path: Path, schema):
    "Rewrite a JSON file as another version would."
    got = json.loads(path.read_bytes())
    got.pop("schema")
    path.write_text(
        json.dumps(got | ({} if schema is None else {"schema": schema, "new_field": 1}))
    )


SCHEMAS = [0, 2, 99, None, "1"]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_f31_a_run_of_another_schema(tmp_path, schema):
    run = made(tmp_path, 3, sealed=True)
    with_schema(run.folder / "run.json", schema)
    before = files(tmp_path)
    for opened in (
        lambda: r.load_run(run.folder),
        lambda: r.open_run(INFO, tmp_path),
        lambda: find_runs(tmp_path, INFO.task, INFO.system),
    ):
        with pytest.raises(
            FormatError, match=f"written in schema {schema}, this refnb reads 1"
        ) as e:
            opened()
        assert "run.json" in one_line(e)
    assert files(tmp_path) == before


@pytest.mark.parametrize("schema", SCHEMAS)
def test_f31_a_seal_of_another_schema(tmp_path, schema):
    run = made(tmp_path, 3, sealed=True)
    with_schema(run.folder / "seal.json", schema)
    before = files(tmp_path)
    with pytest.raises(FormatError, match=f"written in schema {schema}"):
        run.answers()
    with pytest.raises(FormatError, match=f"written in schema {schema}") as e, run.writing():
        pass
    assert "seal.json" in one_line(e)
    assert files(tmp_path) == before


@pytest.mark.parametrize("schema", SCHEMAS)
def test_f31_a_summary_or_card_of_another_schema(tmp_path, schema):
    summary, card = committed(tmp_path)
    for path, read in [(summary, read_summary), (card, read_card)]:
        with_schema(path, schema)
        before = path.read_bytes()
        with pytest.raises(FormatError, match=f"written in schema {schema}") as e:
            read(path)
        assert path.name in one_line(e) and path.read_bytes() == before


# F32: two writers

HOLD = """
import sys
from refnb.core.runs import load_run
from refnb.core.types import Answer
with load_run(sys.argv[1]).writing(sys.argv[2]) as w:
    w.add(Answer("held"))
    print("writing", flush=True)
    sys.stdin.readline()
"""


def holding(spawn, run: r.Run, shard: str = "") -> subprocess.Popen:
    p = spawn(HOLD, run.folder, shard)
    assert p.stdout.readline() == "writing\n", p.communicate()
    return p


@pytest.mark.parametrize("shard", ["", "1of3"])
def test_f32_a_second_writer_is_told_at_once(tmp_path, spawn, shard):
    run = made(tmp_path, 3)
    first = holding(spawn, run, shard)
    before = files(tmp_path)
    with (
        pytest.raises(DataError, match="another process is writing this run") as e,
        run.writing(shard),
    ):
        pass
    one_line(e)
    second = spawn(HOLD, run.folder, shard)
    assert (
        "another process is writing this run"
        in second.communicate(timeout=HANG)[1].splitlines()[-1]
    )
    assert files(tmp_path) == before
    assert first.communicate("\n", timeout=HANG)[1] == "" and first.returncode == 0
    with run.writing(shard) as w:
        assert "held" in w.done


def test_f32_a_killed_writer_leaves_no_lock(tmp_path, spawn):
    run = made(tmp_path, 3)
    p = holding(spawn, run)
    p.kill()
    p.wait()
    with run.writing() as w:
        assert list(w.done) == ids(3)


def test_f32_shards_do_not_wait_for_each_other(tmp_path, spawn):
    run = made(tmp_path, 0)
    holders = [holding(spawn, run, f"{k}of3") for k in (1, 2)]
    with run.writing("3of3") as w:
        w.add(answer(0))
    for p in holders:
        p.communicate("\n", timeout=HANG)
    assert set(run.answers_so_far()) == {"held", "q0"}


def test_a_writer_that_fails_frees_the_run_and_keeps_what_it_had(tmp_path):
    run = made(tmp_path, 2)
    with pytest.raises(KeyboardInterrupt), run.writing() as w:
        w.add(answer(2))
        raise KeyboardInterrupt
    with run.writing() as w:
        assert list(w.done) == ids(3)


# F33: a kill at any instant

ANSWER = """
import os, sys, time
from refnb.core.runs import RunInfo, open_run
from refnb.core.types import Answer
runs, log, n, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
asked = os.open(log, os.O_WRONLY|os.O_CREAT|os.O_APPEND)
ids = [f"q{i}" for i in range(n)]
print("ready", flush=True)
run = open_run(RunInfo("made/up", "slow", {"questions": "abc"}), runs)
with run.writing(batch=4) as w:
    for i in ids:
        if i in w.done: continue
        os.write(asked, f"{i}\\n".encode())
        time.sleep(pause)
        w.add(Answer(i, (int(i[1:]) % 5,), raw="é"*(int(i[1:]) % 50)))
run.seal(ids)
"""


class Killed:
    "One run that is started, killed and started again until it is sealed."

    def __init__(self, folder: Path, spawn, n: int, pause: float):
        self.folder, self.spawn, self.args, self.log = (
            folder,
            spawn,
            (folder / "runs", folder / "asked", n, pause),
            folder / "asked",
        )
        self.known, self.told = (
            set(),
            0,
        )  # ids that were on the disk at the last kill, lines of the log at the last kill

    def start(self, delay: float | None) -> bool:
        "Start once, kill after a delay (None: never); whether it came to its end."
        p = self.spawn(ANSWER, *self.args)
        assert p.stdout.readline() == "ready\n", p.communicate()
        try:
            p.wait(delay)
        except subprocess.TimeoutExpired:
            p.kill()
        errors = p.communicate()[1]
        assert p.returncode in (0, -9), errors
        self.look()
        return p.returncode == 0

    def look(self):
        "Nothing that was on the disk was asked again, and nothing that was there is gone."
        asked = self.log.read_text().splitlines() if self.log.exists() else []
        assert not self.known & set(asked[self.told :])
        journal = next(iter((self.folder / "runs").glob("made/up/slow/*/answers.jsonl")), None)
        now = set(r.read_journal(journal)[0]) if journal else set()
        assert self.known <= now
        self.known, self.told = now, len(asked)

    def end(self) -> dict[str, bytes]:
        "The run's files, but for what a kill in the middle of a write may leave."
        run = next((self.folder / "runs").glob("made/up/slow/*"))
        return {k: v for k, v in files(run).items() if not k.endswith(".part")}


@pytest.mark.parametrize(
    "n, pause, longest, share",
    [(300, 0.001, 0.06, 3), (6, 0.0, 0.012, 1)],
    ids=["asking", "opening and sealing"],
)
def test_f33_a_kill_at_any_instant(tmp_path, spawn, n, pause, longest, share):
    "A share of all kills falls into the asking of many questions, the rest into the rest of a run."
    rng, kills, plain = random.Random(33), 0, Killed(tmp_path / "plain", spawn, n, 0.0)
    plain.folder.mkdir()
    assert plain.start(None)
    for turn in itertools.count():
        one = Killed(tmp_path / f"{turn}", spawn, n, pause)
        one.folder.mkdir()
        while not one.start(rng.uniform(0, longest) if kills < KILLS * share // 4 else None):
            kills += 1
        assert one.end() == plain.end()
        if kills >= KILLS * share // 4:
            break


# F34: the key of a run

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3),
    max_leaves=6,
)
NAMES, COUNTS = st.text(st.characters(codec="utf-8"), max_size=12), st.integers(0, 2**40)
FIELDS = dict(
    task=NAMES,
    system=NAMES,
    data=st.dictionaries(NAMES, NAMES, max_size=4),
    mode=NAMES,
    settings=st.dictionaries(NAMES, VALUES, max_size=4),
    prompt=NAMES,
    builder_revision=COUNTS,
    system_revision=COUNTS,
    schema=COUNTS,
    refnb=NAMES,
)
INFOS = st.builds(r.RunInfo, **FIELDS)


def test_f34_every_field_is_tried():
    assert set(FIELDS) == set(r.RunInfo.__struct_fields__)


@pytest.mark.parametrize("field", FIELDS)
def test_f34_any_change_but_the_version_changes_the_hash(field):
    @given(INFOS, FIELDS[field])
    def law(info, value):
        assume(
            repr(getattr(info, field)) != repr(value)
        )  # 0, 0.0, -0.0 and False are equal in Python, but not the same setting
        same_but_for_order = isinstance(value, dict) and msgspec.json.encode(
            value, order="sorted"
        ) == msgspec.json.encode(getattr(info, field), order="sorted")
        changed = (info.changed(**{field: value})).hash != info.hash
        assert changed == (field != "refnb" and not same_but_for_order)

    law()


@given(INFOS)
def test_f34_the_hash_survives_the_disk_and_the_order_of_keys(info):
    again = msgspec.json.decode(msgspec.json.encode(info), type=r.RunInfo)
    turned = info.changed(
        data=dict(reversed(info.data.items())), settings=dict(reversed(info.settings.items()))
    )
    assert again.hash == turned.hash == info.hash


@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=6, unique=True),
    st.randoms(use_true_random=False),
)
def test_f34_questions_have_another_id_when_anything_changes(keys, rng):
    qs = [
        Question(k, "d", "Ann met Bea.", (0, 3), (Option("Ann"), Option("Bea")), (i % 2,))
        for i, k in enumerate(keys)
    ]
    i = rng.randrange(len(qs))
    changes = [
        dict(id=qs[i].id + "x"),
        dict(doc_key="e"),
        dict(text="Ann met Bea!"),
        dict(chars=(8, 11)),
        dict(chars=None),
        dict(right=()),
        dict(right=(1 - i % 2,)),
        dict(options=(Option("Ann"), Option("Cay"))),
        dict(options=(Option("Ann"), Option("Bea", "tall"))),
    ]
    seen = {r.questions_id(qs), r.questions_id(qs[::-1]), r.questions_id(qs[1:])}
    seen |= {r.questions_id([*qs[:i], qs[i].changed(**c), *qs[i + 1 :]]) for c in changes}
    assert len(seen) == 3 + len(changes)


# F35: no pickle


def imports(tree: ast.AST) -> set[str]:
    names = {n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    return {
        n.split(".")[0]
        for n in names
        | {
            node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module and not node.level
        }
    }


def test_f35_nothing_is_pickled():
    sources = list(Path(refnb.__file__).parent.rglob("*.py"))
    assert len(sources) > 5
    for path in sources:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not imports(tree) & {
            "pickle",
            "cPickle",
            "_pickle",
            "marshal",
            "shelve",
            "dill",
            "cloudpickle",
            "joblib",
            "dbm",
        }, path
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not used & {"read_pickle", "to_pickle", "unsafe_load", "full_load"}, path


# F36: summaries that do not belong

QUESTIONS = [
    Question(
        f"q{i}", f"d{i % 2}", "", None, tuple(Option(o) for o in "abcde"), (i % 5,), {"kind": "x"}
    )
    for i in range(4)
]


def committed(folder: Path, questions=QUESTIONS, part: str = "made/up") -> tuple[Path, Path]:
    "A summary and the card it belongs to."
    card = card_of(part, questions)
    run = made(
        folder / "runs",
        len(questions),
        sealed=True,
        info=INFO.changed(task=part, data={"questions": card.questions}),
    )
    return write_summary(run, {q.id: 1.0 for q in questions}, folder / "reports"), write_card(
        card, folder / "reports"
    )


def test_f70_a_name_that_means_several_summaries_is_refused(tmp_path):
    "Runs that were committed with other settings, and are not here any more: the newest is not taken."
    card = card_of("made/up", QUESTIONS)
    for k in (1, 2):
        info = INFO.changed(data={"questions": card.questions}, settings={"seed": k})
        run = made(tmp_path / str(k), len(QUESTIONS), sealed=True, info=info)
        write_summary(run, {q.id: 1.0 for q in QUESTIONS}, tmp_path / "reports")
    write_card(card, tmp_path / "reports")
    with pytest.raises(
        CallError,
        match=r"2 runs of slow on made/up: @\w{12} \(seed=1\), @\w{12} \(seed=2\)|seed=2.*seed=1",
    ):
        the_summary("made/up", "slow", tmp_path / "none", [tmp_path / "reports"])


def test_f36_a_summary_that_belongs_is_read(tmp_path):
    summary, card = committed(tmp_path)
    s = read_summary(summary, read_card(card))
    assert outcomes_of_summary(read_card(card), s).credit.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "change",
    [
        dict(questions="0" * 16),
        dict(task="made/other"),
        dict(ids=["q0", "q1", "q2", "other"]),
        dict(ids=["q0", "q1", "q2"], doc=[0] * 3, options=[4] * 3, fields={}),
    ],
    ids=["other questions", "other part", "strange ids", "fewer ids"],
)
def test_f36_a_summary_that_does_not_belong_is_refused(tmp_path, change):
    summary, card = committed(tmp_path)
    with pytest.raises(DataError) as e:
        read_summary(summary, read_card(card).changed(**change))
    assert summary.name in one_line(e)


def test_f36_a_summary_with_one_credit_changed_is_refused(tmp_path):
    summary, card = committed(tmp_path)
    got = json.loads(summary.read_bytes())
    got["credit"]["q0"] = 0.0
    summary.write_text(json.dumps(got))
    with pytest.raises(DataError, match="its results are not those that were written"):
        read_summary(summary, read_card(card))


def test_f36_other_questions_of_the_same_ids_are_told_apart(tmp_path):
    summary, _ = committed(tmp_path / "one")
    _, card = committed(tmp_path / "two", [QUESTIONS[0].changed(right=(3,)), *QUESTIONS[1:]])
    with pytest.raises(DataError, match="was made for made/up with questions"):
        read_summary(summary, read_card(card))


def test_f36_a_table_never_gets_a_summary_of_another_part(tmp_path):
    committed(tmp_path / "one")
    _, card = committed(tmp_path / "two", QUESTIONS[:3])
    os.replace(card, tmp_path / "one/reports/runs/made/up/part.json")
    with pytest.raises(DataError, match="make the summary again"):
        the_summary("made/up", "slow", tmp_path / "none", [tmp_path / "one/reports"])


def test_f36_a_summary_without_questions_is_refused(tmp_path):
    summary, card = committed(tmp_path)
    got = json.loads(summary.read_bytes())
    got["info"]["data"] = {}
    summary.write_text(json.dumps(got))
    with pytest.raises(DataError, match="None"):
        read_summary(summary, read_card(card))


# Shards

SHARD = """
import sys
from refnb.core.runs import load_run
from refnb.core.types import Answer
folder, k, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with load_run(folder).writing(f"{k}of3", batch=5) as w:
    for i in [i for i in range(n) if i % 3 == k] + list(range(10)): w.add(Answer(f"q{i}", (k,)))
"""


def test_three_shards_in_three_processes_are_one_run(tmp_path, spawn):
    "The first ten questions are answered by all shards: one of the answers counts."
    run = made(tmp_path, 0)
    for p in [spawn(SHARD, run.folder, k, 90) for k in range(3)]:
        assert p.wait(30) == 0, p.communicate()
    asked = ids(90)
    random.Random(0).shuffle(asked)
    seal = run.seal(asked)
    assert (seal.questions, seal.answers) == (90, 90)
    got = run.answers()
    assert list(got) == asked and all(got[f"q{i}"].chosen == (i % 3,) for i in range(10, 90))
    assert len(run.journal.read_bytes().splitlines()) == 90
    assert set(files(run.folder)) == {"run.json", "answers.jsonl", "seal.json"}


def test_a_torn_and_a_flipped_shard_cost_their_lines_only(tmp_path):
    run = made(tmp_path, 0)
    for k in range(3):
        with run.writing(f"{k}of3") as w:
            for i in range(k, 9, 3):
                w.add(answer(i))
    one, two = run.shards[:2]
    one.write_bytes(one.read_bytes()[:-5])
    two.write_bytes(two.read_bytes().replace(b'"chosen":[1]', b'"chosen":[2]', 1))
    with pytest.raises(DataError, match="2 of 9 questions are unanswered") as e:
        run.seal(ids(9))
    one_line(e)
    with run.writing("0of3") as w:
        w.add(answer(6))
    with run.writing("1of3") as w:
        w.add(answer(1))
    run.seal(ids(9))
    assert list(run.answers().values()) == [answer(i) for i in range(9)]


@pytest.mark.parametrize("first, then", [("1of2", ""), ("", "1of2"), ("1of2", "2of3")])
def test_a_run_that_goes_on_in_other_shards_asks_nothing_again(tmp_path, first, then):
    run = made(tmp_path, 0)
    with run.writing(first) as w:
        for i in range(3):
            w.add(answer(i))
    with run.writing(then) as w:
        assert set(w.done) == set(ids(3))


def test_a_sealed_run_asks_nothing_again_in_shards(tmp_path):
    run = made(tmp_path, 3, sealed=True)
    with run.writing("1of2") as w:
        assert set(w.done) == set(ids(3))


def test_a_sealed_run_that_is_started_again_stays_as_it_is(tmp_path):
    run = made(tmp_path, 5, sealed=True)
    before = files(tmp_path)
    with run.writing() as w:
        for i in range(5):
            w.add(answer(i))
    run.seal(ids(5))
    assert files(tmp_path) == before


def test_a_seal_wants_every_question_and_nothing_else(tmp_path):
    run = made(tmp_path, 4)
    with pytest.raises(DataError, match="1 of 5 questions are unanswered, the first is q4"):
        run.seal(ids(5))
    with pytest.raises(DataError, match="1 answers belong to no question, one is q3"):
        run.seal(ids(3))
    assert not run.sealed and run.journal.read_bytes() == journal_of(4)
    with pytest.raises(DataError, match="not complete"):
        run.answers()
    assert run.seal(ids(5), allow_missing=True).answers == 4


def test_a_seal_refuses_a_question_that_is_asked_twice(tmp_path):
    run = made(tmp_path, 3)
    with pytest.raises(DataError, match="q1"):
        run.seal([*ids(3), "q1"])


# F10: disks


def long(i: int) -> Answer:
    return Answer(f"q{i}", (i % 5,), raw=f"{i} " * 500)


def answer_until_full(run: r.Run, n: int, batch: int) -> list[str]:
    "Answer until the disk is full; the one line that says so."
    with pytest.raises(DataError) as e, run.writing(batch=batch) as w:
        for i in range(n):
            w.add(long(i))
    assert "no space left" in one_line(e).lower() and "answers.jsonl" in one_line(e)
    return list(run.answers_so_far())


@pytest.mark.parametrize("batch", [1, 7])
def test_f10_a_journal_on_a_full_disk_goes_on(disk, tmp_path, batch):
    run = r.open_run(INFO, disk.path / "runs")
    disk.fill(spare=40_000)
    kept = answer_until_full(run, 60, batch)
    assert 5 < len(kept) < 40 and kept == ids(len(kept))
    assert run.answers_so_far() == {f"q{i}": long(i) for i in range(len(kept))}
    assert not list(disk.path.rglob("*.part"))
    disk.free()
    with run.writing() as w:
        assert list(w.done) == kept
        for i in range(60):
            w.add(long(i))
    run.seal(ids(60))
    elsewhere = r.open_run(INFO, tmp_path / "elsewhere")
    with elsewhere.writing() as w:
        for i in range(60):
            w.add(long(i))
    assert run.seal(ids(60)) == elsewhere.seal(ids(60))


def test_f10_a_writer_goes_on_when_there_is_space_again(disk):
    "What it could not write it still has: none of it was lost, and no line was torn in the middle of the journal."
    run = r.open_run(INFO, disk.path / "runs")
    disk.fill(spare=20_000)
    with run.writing(batch=5) as w:
        with pytest.raises(DataError):
            for i in range(40):
                w.add(long(i))
        disk.free()
        for i in range(40):
            w.add(long(i))
    records, damaged = r.read_journal(run.journal)
    assert list(records.values()) == [long(i) for i in range(40)] and not damaged


@pytest.fixture
def file_limit():
    "A function that limits how long a file may become: what a full disk does, for those who may not mount one."
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size=None: resource.setrlimit(
        resource.RLIMIT_FSIZE, (soft if size is None else size, hard)
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_f10_a_batch_that_fits_in_part_is_taken_back(tmp_path, file_limit):
    run = r.open_run(INFO, tmp_path)
    with run.writing(batch=5) as w:
        file_limit(20_000)
        with pytest.raises(DataError) as e:
            for i in range(40):
                w.add(long(i))
        file_limit()
        assert "answers.jsonl" in one_line(e)
        records, damaged = r.read_journal(run.journal)
        assert not damaged and len(records) % 5 == 0 and 10 <= len(records) < 40
        for i in range(40):
            w.add(long(i))
    records, damaged = r.read_journal(run.journal)
    assert list(records.values()) == [long(i) for i in range(40)] and not damaged


def test_f10_a_file_that_fits_in_part_is_not_written(tmp_path, file_limit):
    write_atomic(tmp_path / "a", "old")
    file_limit(20_000)
    with pytest.raises(DataError, match="cannot write") as e:
        write_atomic(tmp_path / "a", "x" * 30_000)
    file_limit()
    one_line(e)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_f10_a_seal_on_a_full_disk(disk):
    run = r.open_run(INFO, disk.path / "runs")
    with run.writing() as w:
        for i in range(40):
            w.add(long(i))
    disk.fill()
    before = run.journal.read_bytes()
    with pytest.raises(DataError, match="(?i)no space left") as e:
        run.seal(ids(40))
    one_line(e)
    assert (
        run.journal.read_bytes() == before
        and not run.sealed
        and not list(disk.path.rglob("*.part"))
    )
    disk.free()
    assert run.seal(ids(40)).answers == 40


def test_f10_a_write_on_a_full_disk_keeps_the_old_file(disk):
    path = disk.path / "report.csv"
    write_atomic(path, b"old" * 1000)
    disk.fill(spare=10_000)
    with pytest.raises(DataError, match="(?i)no space left on device; free some space") as e:
        write_atomic(path, b"new" * 20_000)
    assert "report.csv" in one_line(e)
    assert path.read_bytes() == b"old" * 1000 and {p.name for p in disk.path.iterdir()} == {
        "report.csv",
        "filler",
    }
    disk.free()
    assert write_atomic(path, b"new" * 20_000).read_bytes() == b"new" * 20_000


def test_f10_a_read_only_disk(disk):
    run = made(disk.path, 3)
    write_atomic(disk.path / "report.csv", "old")
    before = files(disk.path)
    disk.mode("ro")
    try:
        assert list(r.open_run(INFO, disk.path).answers_so_far()) == ids(3)
        for write in (
            lambda: write_atomic(disk.path / "report.csv", "new"),
            lambda: write_atomic(disk.path / "new/report.csv", "new"),
            lambda: r.open_run(INFO.changed(mode="paper"), disk.path),
            lambda: made(disk.path, 4),
            lambda: run.seal(ids(3)),
        ):
            with pytest.raises(DataError, match="(?i)read-only file system") as e:
                write()
            assert str(disk.path) in one_line(e)
    finally:
        disk.mode("rw")
    assert files(disk.path) == before
    assert made(disk.path, 4, sealed=True).sealed


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores permissions")
def test_f10_a_folder_without_the_right_to_write(tmp_path):
    run = made(tmp_path, 3)
    run.folder.chmod(0o500)
    try:
        with pytest.raises(DataError, match="(?i)permission denied"):
            write_atomic(run.folder / "x", "new")
        with pytest.raises(DataError, match="(?i)permission denied"):
            run.seal(ids(3))
    finally:
        run.folder.chmod(0o700)


# F41: answers are matched by id


def answers_to(questions) -> list[Answer]:
    return [answer(int(q.id[1:])).changed(scores=None) for q in questions]


MANY = [
    Question(
        f"q{i}",
        f"d{i % 3}",
        "",
        None,
        tuple(Option(o) for o in "abcde"),
        (i % 5,),
        {"kind": "xy"[i % 2]},
    )
    for i in range(12)
]


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_f41_the_order_of_answers_never_matters(order, left_out):
    answers = answers_to(MANY)
    some = [answers[i] for i in order if i not in left_out]
    want = outcomes(MANY, [a for i, a in enumerate(answers) if i not in left_out])
    assert outcomes(MANY, some).equals(want)
    assert want.id.tolist() == [q.id for q in MANY]
    assert set(want.id[want.reason == "missing"]) == {f"q{i}" for i in left_out}


@given(st.permutations(range(12)))
def test_f41_the_order_of_questions_only_orders_the_rows(order):
    want, got = (
        outcomes(MANY, answers_to(MANY)),
        outcomes([MANY[i] for i in order], answers_to(MANY)),
    )
    assert got.equals(want.iloc[list(order)].reset_index(drop=True))


@given(st.lists(st.sampled_from(answers_to(MANY)), min_size=1, max_size=8))
def test_f41_by_id_has_every_answer_or_names_the_id_that_stands_twice(some):
    "Another object of the same id: what a file holds is never one object twice."
    some = [a.changed() for a in some]
    twice = [a.id for i, a in enumerate(some) if a.id in {b.id for b in some[:i]}]
    if not twice:
        assert set(outcomes(MANY, some).query("reason != 'missing'").id) == {a.id for a in some}
        return
    with pytest.raises(
        DataError, match=rf"answers.jsonl: the id ({'|'.join(twice)}) appears twice"
    ):
        outcomes(MANY, some, "answers.jsonl")


@pytest.mark.parametrize("same", [False, True])
def test_f41_an_answer_that_stands_twice_is_refused(same):
    a = answer(1)
    with pytest.raises(DataError, match="the id q1 appears twice"):
        outcomes(MANY, [answer(0), a, a if same else a.changed()])


def test_f41_an_answer_to_no_question_is_refused():
    with pytest.raises(DataError, match="2 answers belong to no question, one is q12"):
        outcomes(MANY, answers_to(MANY) + [answer(12), answer(13)])
    with pytest.raises(DataError, match="1 answers belong to no question"):
        outcomes(MANY[:11], {a.id: a for a in answers_to(MANY)})


def test_f41_a_question_that_stands_twice_is_refused():
    with pytest.raises(DataError, match="q0"):
        outcomes([*MANY, MANY[0]], answers_to(MANY))


def test_f41_a_missing_answer_is_counted_as_wrong():
    o = outcomes(MANY, answers_to(MANY)[:8])
    assert (
        len(o) == 12
        and o.credit[8:].tolist() == [0.0] * 4
        and o.reason[8:].tolist() == ["missing"] * 4
    )


def test_f59_a_failure_is_not_sealed_whoever_says_it(tmp_path):
    "Also where a system calls its answer a failure; by choice it is sealed, and the next call asks again."
    s = load_settings(
        "/", env={}, offline=True, runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports")
    )
    down = True

    def system(q):
        return Answer(q.id, reason="failed") if down and q.id.endswith(":2") else 0

    with pytest.raises(DataError, match="1 of 29 questions failed, the first is sample_ferryman:2"):
        run("sample/ferryman", system, s=s)
    assert not list(tmp_path.rglob("seal.json"))
    assert run("sample/ferryman", system, s=s, tolerate=1).failures() == 1
    down = False
    assert run("sample/ferryman", system, s=s).failures() == 0


# F55: names from data as folders


@given(st.lists(st.text(max_size=300), min_size=2, max_size=8, unique=True))
def test_f55_a_name_is_one_short_component_and_others_have_others(names):
    made = [r.safe_name(n) for n in names]
    assert len(set(made)) == len(names)
    assert all(len(m) <= 100 and "/" not in m and m not in ("", ".", "..") for m in made)


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/../../x", ".", "a/./b", "/etc/x", "a//b", "...", "a/..[k=v]"]
)
def test_f55_a_path_from_a_name_stays_below(name):
    parts = r.safe_path(name).split("/")
    assert not {"", ".", ".."} & set(parts) and not os.path.isabs(r.safe_path(name))


def test_f55_long_names_that_begin_alike_have_their_own_folders():
    assert len({r.safe_name("a" * 200 + end) for end in ("", "b", "c", "a")}) == 4


# F76: a power failure


def test_f76_what_was_told_as_kept_outlives_a_power_failure(tmp_path, monkeypatch):
    "At every step: the answers that were flushed are there, a complete run is complete."
    power = Power(tmp_path, monkeypatch)
    run = r.open_run(INFO, tmp_path / "runs")
    with run.writing(batch=5) as w:
        for i in range(12):
            w.add(answer(i))
        power.fail()
        assert list(r.load_run(run.folder).answers_so_far()) == ids(10)
    power.fail()
    again = r.open_run(INFO, tmp_path / "runs")
    with again.writing() as w:
        for i in range(12):
            w.add(answer(i))
    again.seal(ids(12))
    power.fail()
    assert list(r.load_run(run.folder).answers()) == ids(12)


def test_f76_the_store_of_replies_asks_for_the_safest_syncs(tmp_path):
    from refnb.models.language.store import Store

    with Store(tmp_path) as store:
        assert store.db.execute("pragma synchronous").fetchall() == [(3,)]


def test_a_run_that_found_no_cluster_is_still_one_of_clusters(tmp_path):
    info = r.RunInfo("made/up", "silent", {})
    run = r.open_run(info, tmp_path)
    with run.writing() as w:
        w.add(r.ClusterAnswer("d", unread=("cut",)))
    run.seal(["d"])
    assert r.load_run(run.folder).answers() == {"d": r.ClusterAnswer("d", unread=("cut",))}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_no_journal_could_hold_is_refused(bad):
    with pytest.raises(ValueError, match="field scores: not a number"):
        r.Answer("a", scores=(0.0, bad))


def test_f30_a_damaged_seal_is_mended_by_the_same_call(tmp_path):
    run = made(tmp_path, 3)
    run.seal([a.id for a in run.records_so_far().values()])
    (run.folder / "seal.json").write_bytes(b"{")
    assert not run.whole
    with run.writing():
        pass
    assert not run.sealed and len(run.answers_so_far()) == 3
