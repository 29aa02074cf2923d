"The store of paid replies: damage, full disks, other versions, threads."

import sqlite3, threading, zlib
import pytest
from refnb.core.types import DataError, FormatError
from refnb.models.language.models import Reply
from refnb.models.language.store import Kept, Store

KEY, OTHER = "0a" * 16, "0b" * 16


def test_nothing_is_replaced_and_a_good_reply_comes_first(store):
    for reply in (Reply("cut", "length"), Reply("good"), Reply("better"), Reply("", "failed")):
        store.put(KEY, reply, b"raw")
    assert [k.reply.text for k in store.all(KEY)] == ["cut", "good", "better", ""]
    assert store.get(KEY).text == "good" and store.get(OTHER) is None
    assert {k.raw for k in store.all()} == {b"raw"}


def test_a_flipped_bit_never_changes_a_reply(tmp_path):
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


@pytest.mark.parametrize("damage", [lambda _: b"not a database" * 999, lambda x: x[: len(x) // 2]])
def test_a_damaged_store_is_told_and_left_alone(tmp_path, damage):
    with Store(tmp_path) as store:
        store.put_many(Kept(f"{i:032x}", Reply("x" * 900)) for i in range(200))
    broken = damage(store.path.read_bytes())
    store.path.write_bytes(broken)
    with pytest.raises(DataError, match="damaged") as e, Store(tmp_path) as store:
        store.all()
        store.put(KEY, Reply("y"))
    assert "\n" not in str(e.value) and store.path.read_bytes()[:9000] == broken[:9000]


def test_a_full_disk_stops_and_keeps_what_was_kept(disk):
    with Store(disk.path / "s") as store:
        with pytest.raises(DataError, match="see to its disk"):
            for i in range(10_000):
                store.put(f"{i:032x}", Reply("x" * 500))
        assert len(store.all()) == i


def test_a_disk_that_is_full_now_keeps_the_replies_under_way(disk):
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


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError):
        Store(tmp_path / "file" / "s")


def test_threads_share_a_store_and_replies_are_put_all_or_none(store):
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
    "Version 0.2 kept a request beside each reply."
    row = (KEY, "stop", b'{"text":"Bea","tokens_kept":3}', b'{"id":"q","prompt":"sha256:0"}')
    row = (*row, "2026")
    crc = zlib.crc32(b"\0".join(x.encode() if isinstance(x, str) else x for x in row))
    with Store(tmp_path) as store, sqlite3.connect(store.path) as db:
        names = "insert into replies (key, finish, reply, ask, at, crc) values (?, ?, ?, ?, ?, ?)"
        db.execute(names, (*row, crc))
        db.commit()
        assert store.get(KEY) == Reply("Bea", tokens_kept=3)


def test_a_failed_reply_of_a_version_without_kinds_is_read(store):
    row = (OTHER, "failed", b'{"finish":"failed","error":"the server says 500"}', b"null", "2026")
    crc = zlib.crc32(b"\0".join(x.encode() if isinstance(x, str) else x for x in row))
    with sqlite3.connect(store.path) as db:
        names = "insert into replies (key, finish, reply, ask, at, crc) values (?, ?, ?, ?, ?, ?)"
        db.execute(names, (*row, crc))
    [kept] = store.all(OTHER)
    assert kept.reply.finish == "failed" and kept.reply.kind == "" and store.get(OTHER) is None
