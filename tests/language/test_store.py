"The store of paid replies: damage, full disks, other versions, processes and threads."

import threading
import pytest
from refnb.core.types import DataError, FormatError
from refnb.models.language.models import Reply
from refnb.models.language.store import Kept, Store

KEY, OTHER = "0a" * 16, "0b" * 16


def test_f35_nothing_is_replaced_and_a_good_reply_comes_first(store):
    for reply in (Reply("cut", "length"), Reply("good"), Reply("better"), Reply("", "failed")):
        store.put(KEY, reply, b"raw")
    assert [k.reply.text for k in store.all(KEY)] == ["cut", "good", "better", ""]
    assert store.get(KEY).text == "good" and store.get(OTHER) is None
    assert {k.raw for k in store.all()} == {b"raw"} and repr(store)


def test_f30_a_flipped_bit_never_changes_a_reply(tmp_path):
    with Store(tmp_path) as store:
        store.put(KEY, Reply("Beatrice", tokens_in=7))
        good = store.all()
    data = bytearray(store.path.read_bytes())
    at = data.index(b"Beatrice")
    for i in range(at - 40, at + 40):
        flipped = data.copy()
        flipped[i] ^= 1 << i % 8
        store.path.write_bytes(flipped)
        try:
            with Store(tmp_path) as store:
                found = store.all(KEY)
        except (DataError, FormatError):
            continue
        assert found in ([], good)


@pytest.mark.parametrize("how", ["no database", "half of one"])
def test_f30_a_damaged_store_is_left_alone(tmp_path, how):
    with Store(tmp_path) as store:
        store.put_many(Kept(f"{i:032x}", Reply("x" * 900)) for i in range(200))
    whole = store.path.read_bytes()
    broken = b"not a database" * 999 if how == "no database" else whole[: len(whole) // 2]
    store.path.write_bytes(broken)
    with pytest.raises(DataError, match="damaged") as e, Store(tmp_path) as store:
        store.all()
        store.put(KEY, Reply("y"))
    assert "\n" not in str(e.value) and store.path.read_bytes()[:9000] == broken[:9000]


@pytest.mark.parametrize("how", ["no database", "half of one", "a flipped bit"])
def test_f30_damaged_claims_are_told_and_hold_no_replies(tmp_path, how):
    with Store(tmp_path) as store:
        store.put(KEY, Reply("good"))
        store.claim(OTHER, Reply("", "failed", tokens_out=9))  # and its process ends
    whole = store.claims_path.read_bytes()
    broken = {
        "no database": b"not a database" * 999,
        "half of one": whole[: len(whole) // 2],
        "a flipped bit": whole.replace(b"tokens_out", b"tokens_ouv"),
    }[how]
    store.claims_path.write_bytes(broken)
    with pytest.raises(DataError, match="delete it") as e, Store(tmp_path):
        pass
    assert "\n" not in str(e.value)
    store.claims_path.unlink()
    with Store(tmp_path) as store:
        assert store.get(KEY).text == "good"


def test_f10_a_full_disk_stops_and_keeps_what_was_kept(disk):
    with Store(disk.path / "s") as store:
        with pytest.raises(DataError, match="see to its disk"):
            for i in range(10_000):
                store.put(f"{i:032x}", Reply("x" * 500))
        assert len(store.all()) == i


def test_f10_a_disk_that_is_full_now_keeps_the_replies_under_way(disk):
    keys = [f"{i:032x}" for i in range(4)]
    with Store(disk.path / "s") as store:
        for key in (*(f"{i:032x}" for i in range(10, 14)), *keys):
            assert store.claim(key, Reply("", "failed"))
            if key not in keys:
                store.put(key, Reply("earlier"))
                store.leave(key)
        disk.fill()
        for key in keys:
            store.put(key, Reply("paid"))
        assert all(store.get(key).text == "paid" for key in keys)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError):
        Store(tmp_path / "file" / "s")


def test_f32_processes_share_a_store_from_its_first_moment(tmp_path, spawn):
    code = """
import sys
from refnb.models.language.models import Reply
from refnb.models.language.store import Store
print("ready", flush=True); sys.stdin.readline()
with Store(sys.argv[1]) as store:
    for i in range(30): store.put(f"{int(sys.argv[2]):016x}{i:016x}", Reply("x"))
"""
    all_of_them = [spawn(code, tmp_path / "s", n) for n in range(4)]
    for p in all_of_them:
        p.stdout.readline()
    for p in all_of_them:
        p.stdin.write("\n")
        p.stdin.flush()
    for p in all_of_them:
        assert p.communicate()[1] == ""
    with Store(tmp_path / "s") as store:
        assert len({k.key for k in store.all()}) == 120


def test_f32_threads_share_a_store_and_a_transaction_is_whole(store):
    def fill(n):
        for i in range(20):
            store.put(f"{n:016x}{i:016x}", Reply("x"))

    threads = [threading.Thread(target=fill, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    def broken():
        yield Kept(KEY, Reply("y"))
        raise KeyError

    with pytest.raises(KeyError):
        store.put_many(broken())
    assert len(store.all()) == 80 and store.get(KEY) is None


def test_a_store_of_an_earlier_refnb_is_read(tmp_path):
    "Version 0.2 kept a request beside each reply; its replies are found."
    from refnb.models.language.store import checksum

    row = (
        KEY,
        "stop",
        b'{"text":"Bea","tokens_kept":3}',
        b'{"id":"q","prompt":"sha256:0"}',
        "2026",
    )
    with Store(tmp_path) as store:
        store.db.execute(
            "insert into replies (key, finish, reply, ask, at, crc) values (?, ?, ?, ?, ?, ?)",
            (*row, checksum(row)),
        )
        assert store.get(KEY) == Reply("Bea", tokens_kept=3)


def test_f20_a_request_under_way_at_a_kill_is_found_as_lost(tmp_path, spawn):
    code = """
import sys
from refnb.models.language.models import Reply
from refnb.models.language.store import Store
store, lost = Store(sys.argv[1]), Reply(finish="failed", error="no reply", tokens_in=9)
assert store.claim(sys.argv[2], lost)
print("under way", flush=True); sys.stdin.readline()
"""
    lost = Reply(finish="failed", error="no reply", tokens_in=9)
    alive = spawn(code, tmp_path, KEY)
    alive.stdout.readline()
    with Store(tmp_path) as beside:
        assert beside.all() == [] and not beside.claim(KEY, lost)
        alive.kill()
        alive.wait()
        assert not beside.claim(KEY, lost) and beside.all() == [Kept(KEY, lost)]
        assert beside.claim(KEY, lost)
        beside.leave(KEY)
    with Store(tmp_path) as last:  # what came to its end leaves no mark
        assert last.all() == [Kept(KEY, lost)] and last.claim(KEY, lost)
    assert [p.name for p in last.owners.iterdir()] == []
