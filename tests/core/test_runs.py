"Runs that are killed, torn, flipped, written by two, on full disks and after a power failure."

import functools, hashlib, json, os, random, resource, zlib
from pathlib import Path
import pytest
import refnb
import tools
from core_kills import Hatchery
from core_mutations import flipped
from core_refused import refused
from power import Power
from refnb import Answer, Document, Option, Question
from refnb.core.files import write_atomic
from refnb.core.runs import Run, RunInfo, open_run, peak_mb
from refnb.core.types import DataError, RefnbError, Usage
from tools import FULL, HANG

KILLS = int(os.environ.get("TEST_KILLS", 8))
OPTIONS = tuple(map(Option, "abcde"))
QUESTIONS = [Question(f"q{i}", f"d{i % 3}", options=OPTIONS, right=(i % 5,)) for i in range(12)]
IDS = [q.id for q in QUESTIONS]
INFO = RunInfo("made/up", "slow", {"questions": "abc"})


def answer(id: str, raw: str = 'It is "Bea" é 日本') -> Answer:
    "Answers of all kinds."
    i = int(id[1:])
    if i % 7 == 6:
        return Answer(id, reason="refused", raw="I can't say", usage=Usage(10, 3, None, 0.5))
    if i % 7 == 5:
        return Answer(id, scores=(0.25, -1.5, 0.25, 0.0, 0.0))
    return Answer(id, (i % 5,), raw=f"{raw} {i}", usage=Usage(12, 7, 0.001 * i, 0.25))


class System:
    "Answers alike each time and notes what it is asked; it is interrupted after so many answers."

    def __init__(self, until: int | None = None, length: int = 1):
        self.asked, self.until, self.length = [], until, length

    def __call__(self, question: Question) -> Answer:
        if len(self.asked) == self.until:
            raise KeyboardInterrupt
        self.asked.append(question.id)
        return answer(question.id, "long " * self.length)


class Runner:
    "Runs the questions, again and again, below one folder."

    def __init__(self, s):
        self.s = s

    def go(self, **how) -> tuple[Run, list[str]]:
        "The run, and what was asked for it."
        system = System(**how)
        return refnb.run(QUESTIONS, system, s=self.s), system.asked

    def stop(self, until: int, **how) -> Run:
        "A run that was interrupted after so many answers."
        with pytest.raises(KeyboardInterrupt):
            self.go(until=until, **how)
        return refnb.load_run(next(Path(self.s.runs).rglob("run.json")).parent)


@pytest.fixture
def runner(settings) -> Runner:
    return Runner(settings())


def files(folder: str | Path) -> dict[str, bytes]:
    "All that is below a folder, without lock files."
    paths = [p for p in Path(folder).rglob("*") if p.is_file() and p.suffix != ".lock"]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}


def written(run: Run, ids: list[str], shard: str = "", **how):
    "Write answers to a run."
    with run.writing(shard, **how) as w:
        for id in ids:
            w.add(answer(id))


# Interrupted


@pytest.mark.parametrize("until", [0, 5, 11])
def test_an_interrupted_run_goes_on_where_it_was(runner, settings, tmp_path, until):
    stopped = runner.stop(until)
    assert list(stopped.answers_so_far()) == IDS[:until] and not stopped.complete
    run, asked = runner.go()
    assert asked == IDS[until:] and list(run.answers()) == IDS
    plain, _ = Runner(settings(runs=str(tmp_path / "plain"))).go()
    assert files(run.folder) == files(plain.folder)
    assert runner.go()[1] == [] and files(run.folder) == files(plain.folder)


KILLED = """
import refnb
from refnb.core.settings import load_settings

real, options = time.monotonic, tuple(map(refnb.Option, "abcde"))
time.monotonic = lambda: 100 * real()  # what is kept every half second is kept more often


def work(folder, n, pause):
    questions = [refnb.Question(f"q{i}", "d", options=options) for i in range(int(n))]
    asked = os.open(folder + "/asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def slow(q):
        os.write(asked, q.id.encode() + b"\\n")
        time.sleep(float(pause))
        return refnb.Answer(q.id, (int(q.id[1:]) % 5,), raw="é" * (int(q.id[1:]) % 50))

    refnb.run(questions, slow, s=load_settings("/", env={}, offline=True, runs=folder + "/runs"))
"""


@pytest.mark.parametrize("n, pause, share", [(60, 0.001, 3), (6, 0.0, 1)], ids=["asking", "rest"])
def test_a_run_that_is_killed_at_any_instant_loses_and_repeats_nothing(
    tmp_path, spawn, n, pause, share
):
    "What a kill found on the disk is never asked again, and the end is as if there were no kill."
    hatchery, rng, kills = Hatchery(spawn, KILLED), random.Random(33), KILLS * share // 4

    def begun(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    def end(folder: Path) -> dict[str, bytes]:
        found = files(folder / "runs/given")
        return {k: v for k, v in found.items() if not k.endswith(".part")}

    hatchery.work(begun("first"), n, pause)  # what is loaded late takes its time once
    longest = hatchery.seconds(begun("plain"), n, pause)
    kept = 0  # answers that kills found on the disk; a busy machine may come to none at first
    for turn in range(50 + KILLS):
        folder, known, seen, done = begun(str(turn)), set(), 0, False
        while not done:
            more = kills > 0 or (pause and not kept)
            kill_after = rng.uniform(0, longest) if more else None
            done = hatchery.work(folder, n, pause, kill_after=kill_after)
            log = folder / "asked"
            asked = log.read_text().splitlines() if log.exists() else []
            assert not known & set(asked[seen:]), "asked again"
            run = next((folder / "runs/given").rglob("run.json"), None)
            now = set(refnb.load_run(run.parent).answers_so_far()) if run else set()
            assert known <= now, "lost"
            known, seen, kills = now, len(asked), kills - 1
            kept += 0 if done else len(now)
            longest *= 1.0 if kept else 1.1
        assert end(folder) == end(tmp_path / "plain")
        if kills <= 0 and (kept or not pause):
            return
    pytest.fail("no kill fell into the asking")


def test_what_was_kept_outlives_a_power_failure(tmp_path, monkeypatch, settings):
    "At every step: the answers that were kept are there, a complete run is complete."
    power, runner = Power(tmp_path, monkeypatch), Runner(settings())
    stopped = runner.stop(10)
    power.fail()
    assert list(refnb.load_run(stopped.folder).answers_so_far()) == IDS[:10]
    run, asked = runner.go()
    power.fail()
    assert asked == IDS[10:] and list(refnb.load_run(run.folder).answers()) == IDS


def test_the_store_of_replies_asks_for_the_safest_syncs(store):
    assert store.db.execute("pragma synchronous").fetchall() == [(3,)]


# Damaged


def test_a_torn_journal_costs_its_last_line_at_every_byte(runner):
    run, _ = runner.go()
    whole, seal, aside = run.journal.read_bytes(), run.folder / "seal.json", "damaged.jsonl"
    last, step = whole[:-1].rfind(b"\n"), 1 if FULL else 5
    for cut in [*range(0, last, 7 * step), *range(last, len(whole), step)]:
        seal.unlink(missing_ok=True)
        (run.folder / aside).unlink(missing_ok=True)
        run.journal.write_bytes(torn := whole[:cut])
        good, kept = IDS[: torn.count(b"\n")], torn.split(b"\n")[-1]
        before = files(run.folder)
        assert list(run.answers_so_far()) == good, cut
        assert files(run.folder) == before, "reading changes nothing"
        assert runner.go()[1] == IDS[len(good) :], cut
        assert run.journal.read_bytes() == whole
        assert files(run.folder).get(aside, b"") == (kept + b"\n" if kept else b""), cut


def damaged_journals(whole: bytes, rng: random.Random):
    "A journal with a bit flipped, or cut off."
    places = rng.sample(range(len(whole)), 160 if FULL else 16)
    yield from [rng.choice(list(flipped(whole, [at]))) for at in places]
    yield from [whole[:at] for at in places[:4]]


def test_a_damaged_journal_never_changes_an_answer(runner):
    "Damage to a complete run is told; the same call asks what was lost, and mends the run."
    run, _ = runner.go()
    whole = files(run.folder)
    journal = whole["answers.jsonl"]
    want, before = {id: answer(id, "long ") for id in IDS}, []
    assert run.answers() == want
    for data in damaged_journals(journal, random.Random(30)):
        run.journal.write_bytes(data)
        refused(run.answers, "answers.jsonl")
        left = run.answers_so_far()
        assert all(want[k] == v for k, v in left.items())
        assert len(left) >= 10 or len(data) < len(journal)
        again, asked = runner.go()
        assert set(asked) == set(IDS) - set(left) and again.answers() == want
        after = files(run.folder)
        aside = after.pop("damaged.jsonl", b"").splitlines()
        assert after == whole and aside[: len(before)] == before
        assert all(line in data for line in aside[len(before) :])
        before = aside


def test_mending_moves_damaged_lines_and_leaves_the_others_as_they_are(tmp_path):
    "A failure whose answer follows is no damage: it stays until the run is sealed."
    run = open_run(INFO, tmp_path)
    with run.writing() as w:
        w.add(Answer("d:0", reason="failed"))
    with run.writing() as w:
        w.add(Answer("d:0", (1,)))
    good = run.journal.read_bytes()
    run.journal.write_bytes(good + good[:20])
    with run.writing() as w:
        assert list(w.done) == ["d:0"]
    assert run.journal.read_bytes() == good
    assert (run.folder / "damaged.jsonl").read_bytes() == good[:20] + b"\n"
    run.seal(["d:0"])
    assert run.journal.read_bytes() == good.splitlines(keepends=True)[1]


def test_a_damaged_description_or_seal_is_told_or_mended(runner):
    "Refused in one line, or of no consequence; nothing is asked again."
    run, _ = runner.go()
    want, whole = run.answers(), files(run.folder)
    for name in ("run.json", "seal.json"):
        data = whole[name]
        damage = [*flipped(data, range(0, len(data), 3 if FULL else 37))]
        damage += [data[:cut] for cut in range(0, len(data) - 2, 1 if FULL else 29)]
        for d in damage:
            (run.folder / name).write_bytes(d)
            try:
                assert refnb.load_run(run.folder).answers() == want
            except RefnbError as e:
                assert "\n" not in str(e) and name in str(e) or "answers.jsonl" in str(e)
            try:
                again, asked = runner.go()
                assert (again.folder, again.answers(), asked) == (run.folder, want, []), d
            except RefnbError as e:
                assert "\n" not in str(e) and name in str(e)
            (run.folder / name).write_bytes(data)


# Of another version


@pytest.mark.parametrize("name", ["run.json", "seal.json"])
@pytest.mark.parametrize("schema", [0, 2, None, "1"])
def test_a_run_of_another_schema_is_told_and_left_as_it_is(runner, name, schema):
    run, _ = runner.go()
    record = json.loads((run.folder / name).read_bytes())
    other = record | {"schema": schema, "new_field": 1}
    if schema is None:
        del other["schema"], other["new_field"]
    (run.folder / name).write_text(json.dumps(other))
    before = files(runner.s.runs)
    for opened in (
        runner.go,
        lambda: refnb.load_run(run.folder).answers(),
        lambda: refnb.find_runs(runner.s.runs, run.info.task, run.info.system)[0].answers(),
    ):
        refused(opened, name, f"schema {schema}")
    assert files(runner.s.runs) == before


@pytest.mark.parametrize("sealed", [False, True])
def test_a_line_of_another_version_is_no_damage(runner, sealed):
    "Nothing is put aside, nothing is asked again, no seal is broken."
    run, _ = runner.go()
    body = b'{"id":"q11","colour":"red"'
    data = b"".join(run.journal.read_bytes().splitlines(keepends=True)[:11])
    run.journal.write_bytes(data := data + b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body)))
    seal = json.loads((run.folder / "seal.json").read_bytes())
    seal["sha256"] = hashlib.sha256(data).hexdigest()
    (run.folder / "seal.json").write_text(json.dumps(seal))
    if not sealed:
        (run.folder / "seal.json").unlink()
    before = files(run.folder)
    refused(runner.go, "answers.jsonl, line 12")
    assert files(run.folder) == before


# Written by several

HOLD = """
import sys
from refnb.core.runs import load_run
from refnb.core.types import Answer
folder, shard, *ids = sys.argv[1:]
with load_run(folder).writing(shard, batch=1) as w:
    print("writing", flush=True)
    sys.stdin.readline()
    for id in ids: w.add(Answer(id, (int(id[1:]) % 5,)))
    print("written", flush=True)
    sys.stdin.readline()
"""


def holding(spawn, run: Run, shard: str, *ids: str):
    "A process that writes to a run, as far as it is told to."
    p = spawn(HOLD, run.folder, shard, *ids)
    assert p.stdout.readline() == "writing\n", p.communicate()
    return p


def goes_on(p):
    print(file=p.stdin, flush=True)
    assert p.stdout.readline() == "written\n", p.communicate()


def test_a_second_writer_is_refused_at_once_and_a_killed_one_leaves_no_lock(runner, spawn):
    run = runner.stop(0)
    first = holding(spawn, run, "", "q0", "q1")
    before = files(runner.s.runs)
    refused(runner.go, "answers.jsonl")
    assert files(runner.s.runs) == before
    goes_on(first)
    first.kill()
    first.wait()
    assert runner.go()[1] == IDS[2:]


def test_a_writer_that_fails_keeps_what_it_had_and_frees_the_run(runner):
    run = runner.stop(3)
    with pytest.raises(ZeroDivisionError), run.writing() as w:
        w.add(answer("q3"))
        raise ZeroDivisionError
    assert runner.go()[1] == IDS[4:]


def test_three_shards_in_three_processes_are_one_run(tmp_path, spawn):
    "None waits for another. The first questions are answered by all: one of the answers counts."
    run, ids = open_run(INFO, tmp_path), [f"q{i}" for i in range(60)]
    shards = [holding(spawn, run, f"{k}of3", *ids[k::3], *ids[:6]) for k in range(3)]
    refused(lambda: written(run, ids, "1of3"), "1of3")
    for p in shards:
        goes_on(p)
    for p in shards:
        assert p.communicate("\n", timeout=HANG)[1] == ""
    random.Random(0).shuffle(ids)
    seal = run.seal(ids)
    got = run.answers()
    assert (seal.questions, seal.answers, list(got)) == (60, 60, ids)
    assert all(a.chosen == (int(id[1:]) % 5,) for id, a in got.items())
    assert len(run.journal.read_bytes().splitlines()) == 60
    assert set(files(run.folder)) == {"run.json", "answers.jsonl", "seal.json"}


def test_a_torn_and_a_flipped_shard_cost_their_lines_only(tmp_path):
    run, ids = open_run(INFO, tmp_path), IDS[:9]
    for k in range(3):
        written(run, ids[k::3], f"{k}of3")
    one, two = sorted(run.folder.glob("answers-[01]*.jsonl"))
    one.write_bytes(one.read_bytes()[:-5])
    two.write_bytes(two.read_bytes().replace(b'"chosen":[1]', b'"chosen":[2]', 1))
    refused(lambda: run.seal(ids), "2 of 9")
    for k, lost in [(0, "q6"), (1, "q1")]:
        with run.writing(f"{k}of3") as w:
            assert set(ids) - set(w.done) >= {lost}
            w.add(answer(lost))
    run.seal(ids)
    assert run.answers() == {id: answer(id) for id in ids}


@pytest.mark.parametrize("first", ["1of2", "", "sealed"])
@pytest.mark.parametrize("then", ["", "1of2", "2of3"])
def test_a_run_that_goes_on_in_other_shards_asks_nothing_again(tmp_path, first, then):
    run = open_run(INFO, tmp_path)
    written(run, IDS[:3], first.removeprefix("sealed"))
    if first == "sealed":
        run.seal(IDS[:3])
    with run.writing(then) as w:
        assert set(w.done) == set(IDS[:3])


# Complete, or not


def test_a_run_is_complete_with_every_question_and_nothing_else(tmp_path):
    run = open_run(INFO, tmp_path)
    written(run, IDS[:4])
    before = files(run.folder)
    for asked, parts in [
        (IDS[:5], ["1 of 5", "q4"]),
        (IDS[:3], ["1", "q3"]),
        ([*IDS[:4], "q1"], ["1", "q1"]),
    ]:
        refused(lambda ids=asked: run.seal(ids), *parts)
    refused(run.answers, run.folder.name)
    assert files(run.folder) == before
    assert run.seal(IDS[:5], allow_missing=True).answers == 4


def test_a_failure_is_not_sealed_whoever_says_it(settings):
    "Also where a system calls its answer a failure; by choice it is sealed, and asked again later."
    down, s = True, settings()

    def system(q):
        return Answer(q.id, reason="failed") if down and q.id.endswith(":2") else 0

    go = functools.partial(refnb.run, "sample/ferryman", system, s=s)
    refused(go, "1 of 29", "sample_ferryman:2")
    assert not list(Path(s.runs).rglob("seal.json"))
    assert go(tolerate=1).failures() == 1
    down = False
    assert go().failures() == 0


def test_a_run_that_found_no_cluster_is_still_one_of_clusters(settings):
    docs = [Document("d", (("Ann", "left"),))]
    run = refnb.run(docs, lambda d: [], s=settings())
    assert refnb.load_run(run.folder).answers()["d"].clusters == ()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_no_journal_could_hold_is_refused(bad):
    with pytest.raises(ValueError, match="field scores"):
        Answer("a", scores=(0.0, bad))


# Disks


@pytest.fixture
def file_limit():
    "A function that limits how long a file may become: a full disk that needs no mount."
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    yield lambda size=None: limit(soft if size is None else size)
    limit(soft)


def test_answers_that_fit_in_part_are_taken_back_and_written_when_there_is_space(
    runner, file_limit
):
    run = runner.stop(3, length=500)
    kept = run.journal.read_bytes()
    file_limit(15_000)
    refused(lambda: runner.go(length=500), "answers.jsonl")
    assert run.journal.read_bytes() == kept
    with run.writing(batch=2) as w:
        with pytest.raises(DataError):
            for id in IDS[3:]:
                w.add(answer(id, "long " * 500))
        file_limit()
        told = run.answers_so_far()
        assert 3 < len(told) < 12 and run.journal.read_bytes().endswith(b"}\n")
        for id in IDS[3:]:
            w.add(answer(id, "long " * 500))
    again, asked = runner.go(length=500)
    assert asked == [] and list(again.answers()) == IDS
    assert set(files(run.folder)) == {"run.json", "answers.jsonl", "seal.json"}


def test_a_file_that_fits_in_part_is_not_written(tmp_path, file_limit):
    write_atomic(tmp_path / "a", "old")
    file_limit(20_000)
    refused(lambda: write_atomic(tmp_path / "a", "x" * 30_000), f"{tmp_path}/a")
    file_limit()
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_a_full_disk_keeps_what_was_there_and_goes_on_when_it_has_space(disk, settings):
    runner, report = Runner(settings(runs=str(disk.path / "runs"))), disk.path / "report.csv"
    write_atomic(report, b"old" * 1000)
    run = runner.stop(4, length=500)
    disk.fill(spare=10_000)
    before = files(disk.path)
    refused(lambda: runner.go(length=500), "answers.jsonl")
    refused(lambda: write_atomic(report, b"new" * 20_000), "report.csv")
    assert files(disk.path) == before and list(run.answers_so_far()) == IDS[:4]
    disk.free()
    assert runner.go(length=500)[1] == IDS[4:]
    (run.folder / "seal.json").unlink()
    disk.fill()
    before = files(disk.path)
    refused(lambda: run.seal(IDS), run.folder.name)
    assert files(disk.path) == before
    disk.free()
    assert runner.go(length=500)[1] == [] and list(run.answers()) == IDS
    assert write_atomic(report, b"new" * 20_000).read_bytes() == b"new" * 20_000


def test_a_read_only_disk_is_read_and_told(disk, settings):
    runner = Runner(settings(runs=str(disk.path)))
    run = runner.stop(3)
    before = files(disk.path)
    disk.mode("ro")
    try:
        assert list(run.answers_so_far()) == IDS[:3]
        for write in (
            lambda: write_atomic(disk.path / "new/report.csv", "new"),
            lambda: open_run(INFO, disk.path),
            runner.go,
            lambda: run.seal(IDS[:3]),
        ):
            refused(write, str(disk.path))
    finally:
        disk.mode("rw")
    assert files(disk.path) == before
    assert runner.go()[1] == IDS[3:]


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores permissions")
def test_a_folder_without_the_right_to_write_is_told(runner):
    run = runner.stop(3)
    run.folder.chmod(0o500)
    try:
        refused(lambda: write_atomic(run.folder / "x", "new"), "x")
        refused(lambda: run.seal(IDS[:3]), run.folder.name)
    finally:
        run.folder.chmod(0o700)


PEAK = "from refnb.core.runs import peak_mb; print(peak_mb())"


def test_a_peak_of_memory_is_that_of_the_process_alone(tmp_path):
    "Not of the one that started it."
    much = bytearray(b"x") * 200_000_000
    small = tools.ended(tools.start(tmp_path, code=PEAK))
    assert 10 < float(small.out) < peak_mb() - 100 and much
