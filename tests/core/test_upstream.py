"Upstream files over a network that cuts, stalls, lies and is gone; and the registry itself."

import gzip, itertools, os, re, socket, subprocess
from pathlib import Path
from types import SimpleNamespace
import pooch, pytest
from refnb.core import upstream as u
from refnb.core.types import CallError, DataError, RefnbError
from servers import Fault, Tree
from tools import HANG, wait

COMMIT = "c0ffee" + "0" * 34
BIG = bytes(range(256)) * 1200  # about 300 KB: more than a connection's buffers


@pytest.fixture
def tree(tmp_path):
    with Tree(tmp_path / "served") as t:
        yield t


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    "Pauses between tries are noted, not slept."
    got = []
    monkeypatch.setattr(pooch.core, "time", SimpleNamespace(sleep=got.append))
    return got


@pytest.fixture
def online(settings, tree):
    return settings(host=tree.host, offline=False)


def entry(data: bytes, path: str = "data/a.bin") -> u.UpstreamFile:
    return u.UpstreamFile("owner/repo", COMMIT, path, u.blob_id(data), len(data), "made up")


def put(root: Path, data: bytes, path: str = "data/a.bin", packed: bool = False) -> u.UpstreamFile:
    "A file in a tree, and its entry."
    f = entry(data, path)
    place = root / (f.place + (".gz" if packed else ""))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(gzip.compress(data) if packed else data)
    return f


def cached(s) -> dict[str, bytes]:
    "All that is below the cache, by path, without lock files."
    root = Path(s.cache)
    return {
        p.relative_to(root).as_posix(): p.read_bytes()
        for p in root.rglob("*")
        if p.is_file() and p.suffix != ".lock"
    }


def quarantined(s) -> list[bytes]:
    return [v for k, v in cached(s).items() if k.startswith("quarantine/")]


def refused(f, s, *parts: str) -> str:
    "The one line with which a file is refused."
    with pytest.raises(DataError) as e:
        u.get(f, s)
    line = str(e.value)
    assert "\n" not in line and f.key in line and all(p in line for p in parts), line
    return line


# When all is well


@pytest.mark.parametrize("data", [BIG, b"hello\n", b""], ids=["big", "small", "empty"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_downloaded_once(tree, online, data, packed):
    f = put(tree.root, data, packed=packed)
    assert u.local_path(f, online) is None
    assert (u.get(f, online), u.get(f, online)) == (data, data)
    assert len(tree.seen) == 1 and u.local_path(f, online)
    assert cached(online) == {f"upstream/{f.place}": data}


def test_no_litter_stays_beside_a_file(tree, online):
    f = put(tree.root, BIG)
    u.get(f, online)
    assert [p.name for p in (Path(online.cache) / "upstream" / f.place).parent.iterdir()] == [
        "a.bin"
    ]


def test_a_local_copy_comes_before_the_network(tree, settings, tmp_path):
    f = put(tmp_path / "copy", BIG, packed=True)
    s = settings(host=tree.host, offline=False, upstream=str(tmp_path / "copy"))
    assert (u.get(f, s), tree.seen) == (BIG, [])


def test_progress_is_told_as_bytes_arrive(tree, online):
    f, told = put(tree.root, BIG), []
    tree.fail(f.place, [Fault(cut=100_000)])
    u.get(f, online, lambda _, n: told.append(n))
    assert len(told) > 4 and told[-1] == len(BIG) and max(told) == len(BIG)


def test_the_host_may_move_a_file(tree, online):
    f = put(tree.root, BIG)
    tree.extra["new/place"] = BIG
    tree.fail(f.place, [Fault(status=302, location="/new/place")])
    assert u.get(f, online) == BIG


def test_one_failure_does_not_stop_the_others(tree, online):
    files = [put(tree.root, b"%d" % i, f"{i}.txt") for i in range(6)]
    tree.fail(files[2].place, [Fault(status=404)])
    errors = u.fetch_files(files, online)
    assert [e.where for e in errors] == [files[2].key]
    assert [f for f in files if not u.local_path(f, online)] == [files[2]]


def test_f45_a_set_is_not_a_file(settings):
    "The first file of a set, given for the set's name, would be another file in silence."
    with pytest.raises(CallError, match="litbank"):
        u.get("litbank", settings())


# Half-downloaded


@pytest.mark.parametrize("cut", [0, 1, 65_536, len(BIG) - 1])
@pytest.mark.parametrize("reset", [False, True])
def test_f45_a_cut_download_begins_again(tree, online, cut, reset):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(cut=cut, reset=reset)])
    assert u.get(f, online) == BIG and len(tree.seen) == 2
    assert cached(online) == {f"upstream/{f.place}": BIG}


def test_f45_cuts_without_an_end_are_given_up(tree, online, pauses):
    f = put(tree.root, BIG)
    tree.fail(f.place, itertools.repeat(Fault(cut=1000)))
    refused(f, online, "try again later")
    assert 2 <= len(tree.seen) <= 10 and sum(pauses) < 60 and cached(online) == {}
    tree.fail(f.place, [])
    assert u.get(f, online) == BIG


@pytest.mark.parametrize("length", [5, "many", "-1", ""])
def test_f45_a_wrong_content_length_is_no_other_file(tree, online, length):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(length=length)])
    try:
        assert u.get(f, online) == BIG
    except DataError as e:
        assert f.key in str(e)
    assert u.get(f, online) == BIG


def test_f45_a_stalled_connection_is_dropped(tree, settings):
    f, s = put(tree.root, BIG), settings(host=tree.host, offline=False, patience=1)
    tree.fail(f.place, [Fault(stall=10_000)])
    assert u.get(f, s) == BIG


FETCH = """
import sys
from refnb.core import upstream as u
from refnb.core.settings import load_settings
host, cache, blob, path = sys.argv[1:]
print("ready", flush=True)
got = u.get(u.UpstreamFile("owner/repo", "c0ffee" + "0"*34, path, blob, None, ""), load_settings("/", env={}, host=host, cache=cache, offline=False))
print(u.blob_id(got), flush=True)
"""


def test_f45_a_killed_download_leaves_no_half_file(tree, online, spawn):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(stall=200_000)])
    p = spawn(FETCH, tree.host, online.cache, f.blob, f.path)
    wait(lambda: tree.seen, "the download begins")
    p.kill()
    p.wait()
    assert not u.local_path(f, online) and u.get(f, online) == BIG


def test_two_processes_fetch_one_file(tree, online, spawn):
    f = put(tree.root, BIG)
    two = [spawn(FETCH, tree.host, online.cache, f.blob, f.path) for _ in range(2)]
    for p in two:
        assert p.communicate(timeout=HANG)[0].split()[-1] == f.blob
    assert cached(online) == {f"upstream/{f.place}": BIG}


# Moved, gated, ill, gone


@pytest.mark.parametrize("status", [404, 410, 401, 403, 451])
def test_f45_moved_or_gated_is_said_at_once(tree, online, status):
    f = put(tree.root, BIG)
    tree.fail(f.place, itertools.repeat(Fault(status=status)))
    refused(f, online, f"HTTP {status}", "REFNB_UPSTREAM")
    assert len(tree.seen) == 1 and cached(online) == {}


@pytest.mark.parametrize("statuses", [[500], [503, 502], [429, 429]])
def test_an_ill_host_is_asked_again(tree, online, pauses, statuses):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(status=s) for s in statuses])
    assert u.get(f, online) == BIG
    assert len(tree.seen) == len(statuses) + 1 and len(pauses) == len(statuses)


def test_a_host_that_stays_ill_is_given_up(tree, online, pauses):
    f = put(tree.root, BIG)
    tree.fail(f.place, itertools.repeat(Fault(status=503)))
    refused(f, online, "HTTP 503", tree.host, "try again later")
    assert 2 <= len(tree.seen) <= 10 and sum(pauses) < 60


def test_f45_a_host_that_is_gone(settings, pauses):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    s = settings(host=f"http://127.0.0.1:{port}", offline=False)
    refused(entry(BIG), s, "refused", "REFNB_UPSTREAM")
    assert cached(s) == {} and sum(pauses) < 60


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "",
        "http://[::1",
        "http:///",
        "http://127.0.0.1:9/ x",
        "http://127.0.0.1:many",
    ],
)
def test_a_host_that_is_no_address(settings, host):
    with pytest.raises(RefnbError):
        u.get(entry(BIG), settings(host=host, offline=False))


def test_f45_offline(tree, settings):
    f, s = put(tree.root, BIG), settings(host=tree.host, offline=True)
    assert u.local_path(f, s) is None
    refused(f, s, "REFNB_OFFLINE", "REFNB_UPSTREAM")
    assert (tree.seen, [str(e) for e in u.fetch_files([f], s)]) == ([], [refused(f, s)])


def test_f45_offline_still_has_the_cache(tree, online, settings):
    f = put(tree.root, BIG)
    u.get(f, online)
    assert u.get(f, settings(offline=True)) == BIG


def test_whether_the_host_can_be_reached(tree, online, settings):
    with socket.create_server(("127.0.0.1", 0)) as free:
        gone = free.getsockname()[1]
    assert u.reachable(online) and tree.seen == []
    assert not u.reachable(settings(host=tree.host, offline=True))
    for host in (
        "",
        "example.org",
        "http://[::1",
        "http://127.0.0.1:many",
        f"http://127.0.0.1:{gone}",
    ):
        assert not u.reachable(settings(host=host, offline=False))


def test_a_local_copy_that_is_not_there(settings, tmp_path):
    with pytest.raises(CallError, match="upstream"):
        u.get(entry(BIG), settings(upstream=str(tmp_path / "none")))


def test_f57_the_guard_of_these_tests(strays):
    with pytest.raises(pytest.fail.Exception):
        socket.create_connection(("192.0.2.1", 9), timeout=0.1)
    with pytest.raises(pytest.fail.Exception):
        socket.getaddrinfo("example.org", 80)
    with pytest.raises(pytest.fail.Exception), socket.socket() as s:
        s.bind(("0.0.0.0", 0))
    assert len(strays) == 3
    strays.clear()


def test_f57_the_server_listens_on_loopback(tree):
    assert tree._web.socket.getsockname()[0] == "127.0.0.1"


# Changed


@pytest.mark.parametrize("size", [len(BIG), None], ids=["registered", "unknown"])
def test_f64_a_download_that_is_too_large_stops(tree, settings, size):
    "At its registered size, or at the setting where none is registered; nothing of it stays, and the next try has the file."
    s = settings(host=tree.host, offline=False, largest=len(BIG))
    f = put(tree.root, BIG)._replace(size=size)
    tree.fail(f.place, [Fault(wrong=BIG + bytes(50_000_000))])
    came = []
    with pytest.raises(
        DataError, match=f"{f.key}: more than {len(BIG):,} bytes came from .*: stopped"
    ):
        u.get(f, s, lambda f, n: came.append(n))
    assert max(came) <= len(BIG) and not cached(s)
    assert u.get(f, s) == BIG


@pytest.mark.parametrize(
    "wrong",
    [BIG[:-1] + b"\0", BIG[:-1], b"<html>Not found</html>", b""],
    ids=["a byte", "shorter", "page", "empty"],
)
def test_f45_a_changed_file_is_refused(tree, online, wrong):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(wrong=wrong)])
    refused(f, online, f.blob, u.blob_id(wrong), "quarantine")
    assert list(cached(online).values()) == quarantined(online) == [wrong]
    assert u.get(f, online) == BIG


def test_f45_a_file_that_changes_in_the_middle_is_refused(tree, online):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(cut=100_000), Fault(wrong=BIG[::-1])])
    refused(f, online, f.blob)
    assert u.get(f, online) == BIG


@pytest.mark.parametrize(
    "wrong", [BIG[:1000], b"", BIG[:-1] + b"\0"], ids=["truncated", "empty", "a byte"]
)
def test_f45_a_damaged_cache_heals(tree, online, wrong):
    f = put(tree.root, BIG)
    u.get(f, online)
    (Path(online.cache) / "upstream" / f.place).write_bytes(wrong)
    refused(f, online, f.blob, u.blob_id(wrong), "cache")
    assert u.local_path(f, online) is None
    assert u.get(f, online) == BIG and quarantined(online) == [wrong]


SMALL = b"Ann met Bea. She smiled.\n" * 4
PACKED = gzip.compress(SMALL, mtime=0)


def damaged(data: bytes) -> dict[str, bytes]:
    return {
        "a byte": data[:30] + bytes([data[30] ^ 255]) + data[31:],
        "truncated": data[:-9],
        "empty": b"",
        "other": b"<html>",
        "header only": data[:10],
    }


@pytest.mark.parametrize("how", damaged(SMALL))
@pytest.mark.parametrize("packed", [False, True])
def test_f45_a_damaged_local_copy_is_refused(settings, tmp_path, packed, how):
    f, s = put(tmp_path / "copy", SMALL, packed=packed), settings(upstream=str(tmp_path / "copy"))
    place = tmp_path / "copy" / (f.place + (".gz" if packed else ""))
    place.write_bytes(bad := damaged(PACKED if packed else SMALL)[how])
    refused(f, s, f.blob, "local", "quarantine")
    assert place.read_bytes() == bad and len(quarantined(s)) == 1


def test_f45_every_flipped_bit_of_a_packed_file(settings, tmp_path):
    f, s = put(tmp_path / "copy", SMALL, packed=True), settings(upstream=str(tmp_path / "copy"))
    place = tmp_path / "copy" / f"{f.place}.gz"
    for i, bit in itertools.product(range(len(PACKED)), range(8)):
        place.write_bytes(PACKED[:i] + bytes([PACKED[i] ^ 1 << bit]) + PACKED[i + 1 :])
        try:
            assert u.get(f, s) == SMALL  # a flip in the header's time, say
        except DataError as e:
            assert f.blob in str(e)


def test_a_packed_file_that_is_packed_upstream(settings, tmp_path):
    "A file whose own name ends in .gz is taken as it is."
    f = put(tmp_path / "copy", PACKED, "a.txt.gz")
    assert u.get(f, settings(upstream=str(tmp_path / "copy"))) == PACKED


# Names and disks

NAMES = [
    "a b.txt",
    "100%.txt",
    "a%20b",
    "%2e%2e/%2e%2e/x",
    "a#b?c&d=e+f",
    "ü/日本/😀.txt",
    "..a/...",
    "a\\..\\b",
    "x'\"$(true);|.txt",
    "-rf",
    "~/x",
    " ",
    "\n.txt",
]


@pytest.mark.parametrize("name", NAMES)
def test_f55_odd_names_arrive_and_stay_below_the_cache(tree, online, tmp_path, name):
    f = put(tree.root, SMALL, name)
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    assert u.get(f, online) == u.get(f, online) == SMALL
    assert tree.seen == [(f.place, None)]
    made = {p for p in tmp_path.rglob("*") if p.is_file()} - before
    assert made and all(p.resolve().is_relative_to(Path(online.cache).resolve()) for p in made)


@pytest.mark.parametrize(
    "name",
    [
        "../../../../../evil",
        "../../../../../../evil",
        "a/../../../../../../evil",
        "..",
        "../../../..",
    ],
)
@pytest.mark.parametrize("source", ["download", "local", "wrong"])
def test_f55_a_path_upward_does_not_escape(tree, settings, tmp_path, name, source):
    f = entry(SMALL, name)
    (tmp_path / "copy").mkdir()
    (tmp_path / "evil").write_bytes(SMALL)
    s = settings(
        host=tree.host,
        offline=False,
        upstream=str(tmp_path / "copy") if source == "local" else "",
        cache=str(tmp_path / "deep" / "cache"),
    )
    tree.extra[f"{f.repo}/{f.commit}/{f.path}"] = b"other" if source == "wrong" else SMALL
    with pytest.raises(RefnbError):
        u.get(f, s)
    outside = {
        p.relative_to(tmp_path).as_posix()
        for p in tmp_path.rglob("*")
        if p.is_file() and not p.is_relative_to(s.cache)
    }
    assert outside == {"evil"} and not list(Path(s.cache).glob("upstream/**/*evil*"))


def test_f10_a_cache_that_cannot_be_made(settings, tmp_path, tree):
    f = put(tree.root, SMALL)
    (tmp_path / "file").write_text("")
    s = settings(host=tree.host, offline=False, cache=str(tmp_path / "file"))
    with pytest.raises(DataError, match="file"):
        u.get(f, s)
    assert len(u.fetch_files([f, f], s)) == 2


def test_f10_a_download_onto_a_full_disk(tree, settings, disk):
    f, s = (
        put(tree.root, BIG[:200_000]),
        settings(host=tree.host, offline=False, cache=str(disk.path / "cache")),
    )
    disk.fill(spare=100_000)
    with pytest.raises(DataError, match="(?i)no space left"):
        u.get(f, s)
    assert len(tree.seen) == 1, "a full disk is no fault of the host"
    disk.free()
    assert u.get(f, s) == BIG[:200_000]
    assert cached(s) == {f"upstream/{f.place}": BIG[:200_000]}


# The registry


def test_every_file_has_an_id_and_its_repository_a_commit_and_a_licence():
    files, repos = u.registry(), u.known_sets().repos
    assert files
    for f in files.values():
        assert re.fullmatch("[0-9a-f]{40}", f.blob) and re.fullmatch("[0-9a-f]{40}", f.commit), f
        assert (
            f.commit == repos[f.repo].commit
            and f.licence == repos[f.repo].licence
            and f.licence.strip()
        )
        assert f.size is None or f.size >= 0
    assert {f.repo for f in files.values()} == set(repos)


def test_every_path_stays_below_its_commit():
    for f in u.registry().values():
        assert not f.path.startswith("/") and not {"", ".", ".."} & set(f.place.split("/")), f


def test_every_row_is_a_file_of_its_own():
    rows = u.packaged("data/upstream/files.tsv").read_text().splitlines()
    assert len(rows) - 1 == len(u.registry()) == len({f.place for f in u.registry().values()})


def test_every_set_has_files():
    for name in u.set_names():
        assert u.files_of(name), name


def test_a_file_of_unknown_size_is_counted(settings, tree):
    "It has no size to tell before a download, but it is known, wanted and checked like any other."
    unknown = [f for f in u.registry().values() if f.size is None]
    assert unknown and all(
        u.files_of(f.key) == [f] and not u.local_path(f, settings()) for f in unknown
    )
    assert u.survey(unknown[0].key, settings())[2:6] == (1, 0, 0, 0)
    s = settings(host=tree.host, offline=False)
    f = put(tree.root, BIG)._replace(size=None)
    tree.fail(f.place, [Fault(wrong=b"x")])
    refused(f, s, f.blob)
    assert u.get(f, s) == BIG


def test_the_local_copy_is_right(upstream, settings):
    s = settings(upstream=str(upstream))
    here = [f for f in u.registry().values() if u.local_path(f, s)]
    assert len(here) > 500 and {f.size is None for f in here} == {False}
    for f in here:
        assert len(u.get(f, s)) == f.size, f


def test_data_ids_say_what_is_here(upstream, settings):
    files = u.files_of("animal-farm")
    assert u.data_ids(["animal-farm"], settings(upstream=str(upstream))) == {
        f.key: f.blob for f in files
    }
    assert u.data_ids(["animal-farm"], settings()) == {f.key: "absent" for f in files}


@pytest.mark.parametrize("name", ["identifyme-answers", "animal-farm"])
def test_a_set_comes_over_the_network_byte_for_byte(upstream, settings, name):
    "The real registry against a server of the local copy, with a cut on the way."
    with Tree(upstream) as tree:
        s, files = settings(host=tree.host, offline=False), u.files_of(name)
        tree.fail(max(files, key=lambda f: f.size).place, [Fault(cut=100_000)])
        assert u.survey(name, s)[3:6] == (sum(f.size for f in files), 0, sum(f.size for f in files))
        assert u.fetch_files(files, s) == []
        assert len(tree.seen) == len(files) + 1 and u.survey(name, s).to_come == 0
        assert cached(s) == {f"upstream/{f.place}": tree.content(f.place) for f in files}
        assert (
            all(u.get(f.key, s) == tree.content(f.place) for f in files)
            and len(tree.seen) == len(files) + 1
        )


def test_git_agrees_about_the_ids(tmp_path):
    data = {"empty": b"", "text": b"hello\n", "big": BIG}
    for name, d in data.items():
        (tmp_path / name).write_bytes(d)
    try:
        ids = subprocess.run(
            ["git", "hash-object", "--no-filters", *data],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        pytest.skip("needs git")
    assert ids.stdout.split() == [u.blob_id(d) for d in data.values()]
