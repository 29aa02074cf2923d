"Upstream files over a network that cuts, stalls, lies and is gone; and the registry itself."

import gzip, hashlib, itertools, os, re, socket, subprocess
from pathlib import Path
from types import SimpleNamespace
import core_refused, pooch, pytest
import refnb
from core_mutations import flipped
from refnb.core import upstream as u
from refnb.core.types import CallError, DataError, RefnbError
from servers import Fault, Tree
from tools import FULL, HANG, wait

COMMIT = "c0ffee" + "0" * 34
BIG = bytes(range(256)) * 1200  # about 300 KB: more than a connection's buffers
SMALL = b"Ann met Bea. She smiled.\n" * 4
PACKED = gzip.compress(SMALL, mtime=0)


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
    place = root / (f.place + ".gz" * packed)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(gzip.compress(data) if packed else data)
    return f


def cached(s) -> dict[str, bytes]:
    "All that is below the cache, by path, without lock files."
    root = Path(s.cache)
    paths = (p for p in root.rglob("*") if p.is_file() and p.suffix != ".lock")
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in paths}


def whole(s, f: u.UpstreamFile, data: bytes) -> bool:
    "Whether the file is there, and nothing else is in the cache, such as litter."
    return refnb.get(f, s) == data and cached(s) == {f"upstream/{f.place}": data}


def quarantined(s) -> list[bytes]:
    return [v for k, v in cached(s).items() if k.startswith("quarantine/")]


def refused(f, s, *parts: str) -> str:
    "The one line with which a file is refused."
    return core_refused.refused(lambda: refnb.get(f, s), f.key, *parts, kind=DataError)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


# When all is well


@pytest.mark.parametrize("data", [BIG, b"hello\n", b""], ids=["big", "small", "empty"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_downloaded_once_and_then_needs_no_network(tree, online, settings, data, packed):
    f = put(tree.root, data, packed=packed)
    assert whole(online, f, data) and whole(online, f, data) and len(tree.seen) == 1
    assert whole(settings(offline=True), f, data)


def test_a_local_copy_comes_before_the_network(tree, settings, tmp_path):
    s = settings(host=tree.host, offline=False, upstream=str(tmp_path / "copy"))
    for data, name, packed in [(BIG, "a", True), (SMALL, "b", False), (PACKED, "c.gz", False)]:
        assert refnb.get(put(tmp_path / "copy", data, name, packed), s) == data
    assert tree.seen == []
    with pytest.raises(CallError, match="upstream"):
        refnb.get(entry(BIG), settings(upstream=str(tmp_path / "none")))


def test_progress_is_told_as_bytes_arrive(tree, online):
    f, told = put(tree.root, BIG), []
    tree.fail(f.place, [Fault(cut=100_000)])
    refnb.get(f, online, lambda _, n: told.append(n))
    assert len(told) > 4 and told[-1] == len(BIG) and max(told) == len(BIG)


def test_the_host_may_move_a_file(tree, online):
    f = put(tree.root, BIG)
    tree.extra["new/place"] = BIG
    tree.fail(f.place, [Fault(status=302, location="/new/place")])
    assert whole(online, f, BIG)


def test_the_host_of_a_card_s_file_sends_nobody_to_a_local_address(tree, online):
    sha = hashlib.sha256(SMALL).hexdigest()
    tree.extra |= {"a": SMALL, "b": SMALL}
    f = u.UpstreamFile("corpora/x", sha, "a", sha, len(SMALL), "made up", f"{tree.host}/a")
    tree.fail("a", [Fault(status=302, location="/b")])
    refused(f, online, f"sends us to '{tree.host}/b'")
    assert [s.path for s in tree.seen] == ["a"] and cached(online) == {}
    assert whole(online, f, SMALL)


def test_one_failure_does_not_stop_the_others(tree, online):
    files = [put(tree.root, b"%d" % i, f"{i}.txt") for i in range(6)]
    tree.fail(files[2].place, [Fault(status=404)])
    assert [e.where for e in u.fetch_files(files, online)] == [files[2].key]
    assert len(cached(online)) == 5


def test_a_set_is_not_a_file(settings):
    "The first file of a set, given for the set's name, would be another file in silence."
    with pytest.raises(CallError, match="litbank"):
        refnb.get("litbank", settings())


# Half-downloaded


@pytest.mark.parametrize("cut", [0, 1, 65_536, len(BIG) - 1])
@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_download_begins_again(tree, online, cut, reset):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(cut=cut, reset=reset)])
    assert whole(online, f, BIG) and len(tree.seen) == 2


def test_a_wrong_content_length_is_no_other_file(tree, online):
    f = put(tree.root, BIG)
    for length in (5, "many", "-1", ""):
        tree.fail(f.place, [Fault(length=length)])
        try:
            assert refnb.get(f, online) == BIG
        except DataError as e:
            assert f.key in str(e)
        assert whole(online, f, BIG)
        (Path(online.cache) / "upstream" / f.place).unlink()


def test_a_stalled_connection_is_dropped(tree, settings):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(stall=10_000)])
    assert whole(settings(host=tree.host, offline=False, patience=1), f, BIG)


FETCH = """
import sys, refnb
from refnb.core.settings import load_settings
from refnb.core.upstream import UpstreamFile, blob_id
host, cache, blob, path = sys.argv[1:]
file = UpstreamFile("owner/repo", "c0ffee" + "0" * 34, path, blob, None, "")
print(blob_id(refnb.get(file, load_settings("/", env={}, host=host, cache=cache, offline=False))))
"""


def test_a_killed_download_leaves_no_half_file_and_two_may_fetch_one_file(tree, online, spawn):
    f = put(tree.root, BIG)
    args = (FETCH, tree.host, online.cache, f.blob, f.path)
    tree.fail(f.place, [Fault(stall=200_000)])
    killed = spawn(*args)
    wait(lambda: tree.seen, "the download begins")
    killed.kill()
    killed.wait()
    refused(f, online.changed(offline=True))
    litter = set(cached(online))
    for p in [spawn(*args), spawn(*args)]:
        assert p.communicate(timeout=HANG)[0].split() == [f.blob]
    assert refnb.get(f, online) == BIG
    assert set(cached(online)) - litter == {f"upstream/{f.place}"}


# Moved, gated, ill, gone


@pytest.mark.parametrize("status", [404, 410, 401, 403, 451])
def test_a_file_that_moved_or_is_gated_is_told_at_once(tree, online, status):
    f = put(tree.root, BIG)
    tree.fail(f.place, itertools.repeat(Fault(status=status)))
    refused(f, online, f"HTTP {status}", "REFNB_UPSTREAM")
    assert len(tree.seen) == 1 and cached(online) == {}


@pytest.mark.parametrize("statuses", [[500], [503, 502], [429, 429]])
def test_an_ill_host_is_asked_again(tree, online, pauses, statuses):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(status=s) for s in statuses])
    assert whole(online, f, BIG)
    assert len(tree.seen) == len(statuses) + 1 and len(pauses) == len(statuses)


@pytest.mark.parametrize("fault", [Fault(status=503), Fault(cut=1000)], ids=["ill", "cuts"])
def test_a_host_that_does_not_recover_is_given_up(tree, online, pauses, fault):
    f = put(tree.root, BIG)
    tree.fail(f.place, itertools.repeat(fault))
    refused(f, online, tree.host, "try again later")
    assert 2 <= len(tree.seen) <= 10 and sum(pauses) < 60 and cached(online) == {}
    tree.fail(f.place, [])
    assert whole(online, f, BIG)


NO_HOSTS = ["", "example.org", "http://[::1", "http:///", "http://127.0.0.1:9/ x"]
NO_HOSTS += ["http://127.0.0.1:many"]


def test_a_host_that_is_gone_or_no_address_is_told(settings, tree, pauses):
    gone = settings(host=f"http://127.0.0.1:{closed_port()}", offline=False)
    refused(entry(BIG), gone, "refused", "REFNB_UPSTREAM")
    for host in NO_HOSTS:
        refused(entry(BIG), settings(host=host, offline=False))
    assert cached(gone) == {} and sum(pauses) < 120
    for host in (gone.host, *NO_HOSTS):
        assert not u.reachable(settings(host=host, offline=False)), host
    assert u.reachable(settings(host=tree.host, offline=False))
    assert not u.reachable(settings(host=tree.host, offline=True)) and tree.seen == []


def test_offline_nothing_is_asked(tree, settings):
    f, s = put(tree.root, BIG), settings(host=tree.host, offline=True)
    line = refused(f, s, "REFNB_OFFLINE", "REFNB_UPSTREAM")
    assert ([str(e) for e in u.fetch_files([f], s)], tree.seen) == ([line], [])


def test_a_test_that_leaves_loopback_fails(strays):
    with pytest.raises(pytest.fail.Exception):
        socket.create_connection(("192.0.2.1", 9), timeout=0.1)
    with pytest.raises(pytest.fail.Exception):
        socket.getaddrinfo("example.org", 80)
    with pytest.raises(pytest.fail.Exception), socket.socket() as s:
        s.bind(("0.0.0.0", 0))
    assert len(strays) == 3
    strays.clear()


# Other content


@pytest.mark.parametrize("size", [len(BIG), None], ids=["registered", "unknown"])
def test_a_download_that_is_too_large_stops(tree, settings, size, monkeypatch):
    "At its registered size, or at one for all files where none is registered."
    monkeypatch.setattr("refnb.core.upstream.LARGEST", len(BIG))
    s = settings(host=tree.host, offline=False)
    f, came = put(tree.root, BIG)._replace(size=size), []
    tree.fail(f.place, [Fault(wrong=BIG + bytes(50_000_000))])
    with pytest.raises(DataError, match=f"{f.key}.*{len(BIG):,} bytes"):
        refnb.get(f, s, lambda f, n: came.append(n))
    assert max(came) <= len(BIG) and not cached(s)
    assert whole(s, f, BIG)


def test_a_packed_copy_is_unpacked_to_its_registered_size(tmp_path, settings):
    f = put(tmp_path, bytes(5_000_000), packed=True)._replace(size=5)
    refused(f, settings(upstream=str(tmp_path)), "5 bytes")


@pytest.mark.parametrize("size", [len(BIG), None], ids=["registered", "unknown"])
@pytest.mark.parametrize(
    "wrong",
    [BIG[:-1] + b"\0", BIG[:-1], b"<html>Not found</html>", b""],
    ids=["a byte", "shorter", "page", "empty"],
)
def test_a_changed_file_is_refused_with_both_ids_and_put_aside(tree, online, wrong, size):
    f = put(tree.root, BIG)._replace(size=size)
    tree.fail(f.place, [Fault(wrong=wrong)])
    refused(f, online, f.blob, u.blob_id(wrong), "quarantine")
    assert list(cached(online).values()) == quarantined(online) == [wrong]
    assert refnb.get(f, online) == BIG


def test_a_file_that_changes_in_the_middle_is_refused(tree, online):
    f = put(tree.root, BIG)
    tree.fail(f.place, [Fault(cut=100_000), Fault(wrong=BIG[::-1])])
    refused(f, online, f.blob)
    assert refnb.get(f, online) == BIG


@pytest.mark.parametrize("wrong", [BIG[:1000], b"", BIG[:-1] + b"\0"])
def test_a_damaged_cache_heals(tree, online, wrong):
    f = put(tree.root, BIG)
    refnb.get(f, online)
    (Path(online.cache) / "upstream" / f.place).write_bytes(wrong)
    refused(f, online, f.blob, u.blob_id(wrong), "cache")
    assert refnb.get(f, online) == BIG and quarantined(online) == [wrong]


@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_local_copy_is_refused_and_left_as_it_is(settings, tmp_path, packed):
    copy = tmp_path / "copy"
    f, s = put(copy, SMALL, packed=packed), settings(upstream=str(copy))
    place, data = copy / (f.place + ".gz" * packed), PACKED if packed else SMALL
    byte = data[:30] + bytes([data[30] ^ 255]) + data[31:]
    for n, bad in enumerate([byte, data[:-9], b"", b"<html>", data[:10]], 1):
        place.write_bytes(bad)
        refused(f, s, f.blob, "local", "quarantine")
        assert place.read_bytes() == bad and len(quarantined(s)) <= n


def test_a_flipped_bit_of_a_packed_copy_is_refused_or_of_no_consequence(settings, tmp_path):
    "Such as one in the time that gzip notes."
    f, s = put(tmp_path / "copy", SMALL, packed=True), settings(upstream=str(tmp_path / "copy"))
    for data in flipped(PACKED, range(0, len(PACKED), 1 if FULL else 9)):
        (tmp_path / "copy" / f"{f.place}.gz").write_bytes(data)
        try:
            assert refnb.get(f, s) == SMALL
        except DataError as e:
            assert f.blob in str(e)


# Names and disks

NAMES = ["a b.txt", "100%.txt", "a%20b", "%2e%2e/%2e%2e/x", "a#b?c&d=e+f", "ü/日本/😀.txt"]
NAMES += ["..a/...", "a\\..\\b", "x'\"$(true);|.txt", "-rf", "~/x", " ", "\n.txt"]


def test_odd_names_arrive_and_stay_below_the_cache(tree, online, tmp_path):
    for n, name in enumerate(NAMES, 1):
        f = put(tree.root, SMALL, name)
        before = {p for p in tmp_path.rglob("*") if p.is_file()}
        assert refnb.get(f, online) == refnb.get(f, online) == SMALL, name
        assert len(tree.seen) == n and tree.seen[-1].path == f.place
        made = {p for p in tmp_path.rglob("*") if p.is_file()} - before
        cache = Path(online.cache).resolve()
        assert made and all(p.resolve().is_relative_to(cache) for p in made), name


@pytest.mark.parametrize("source", ["download", "local", "wrong"])
def test_a_path_upward_does_not_escape(tree, settings, tmp_path, source):
    (tmp_path / "copy").mkdir()
    (tmp_path / "evil").write_bytes(SMALL)
    local = str(tmp_path / "copy") if source == "local" else ""
    cache = str(tmp_path / "deep/cache")
    s = settings(host=tree.host, offline=False, upstream=local, cache=cache)
    for name in ["../" * 5 + "evil", "../" * 6 + "evil", "a/" + "../" * 6 + "evil", "..", "../.."]:
        f = entry(SMALL, name)
        tree.extra[f"{f.repo}/{f.commit}/{f.path}"] = b"other" if source == "wrong" else SMALL
        with pytest.raises(RefnbError):
            refnb.get(f, s)
        files = [p for p in tmp_path.rglob("*") if p.is_file()]
        assert [p.name for p in files if not p.is_relative_to(s.cache)] == ["evil"], name
        assert not list(Path(s.cache).glob("upstream/**/*evil*"))


def test_a_cache_that_cannot_be_made_is_told(settings, tmp_path, tree):
    f = put(tree.root, SMALL)
    (tmp_path / "file").write_text("")
    s = settings(host=tree.host, offline=False, cache=str(tmp_path / "file"))
    with pytest.raises(DataError, match="file"):
        refnb.get(f, s)
    assert len(u.fetch_files([f, f], s)) == 2


def test_a_download_onto_a_full_disk_is_told_and_goes_on(tree, settings, disk):
    "It is no fault of the host, which is asked once."
    data = BIG[:200_000]
    f = put(tree.root, data)
    s = settings(host=tree.host, offline=False, cache=str(disk.path / "cache"))
    disk.fill(spare=100_000)
    with pytest.raises(DataError, match="(?i)no space left"):
        refnb.get(f, s)
    assert len(tree.seen) == 1
    disk.free()
    assert whole(s, f, data)


# The registry


def test_every_registered_file_is_known_by_content_and_stays_below_its_commit():
    files, repos = u.upstream_files(), u.known_sets().repos
    for f in files.values():
        assert re.fullmatch("[0-9a-f]{40}", f.blob) and re.fullmatch("[0-9a-f]{40}", f.commit), f
        assert (f.commit, f.licence) == (repos[f.repo].commit, repos[f.repo].licence) and f.licence
        assert f.size is None or f.size >= 0
        assert not f.path.startswith("/") and not {"", ".", ".."} & set(f.place.split("/")), f
    rows = u.packaged("data/upstream/files.tsv").read_text().splitlines()[1:]
    assert {f.repo for f in files.values()} == set(repos)
    assert len(rows) == len(files) == len({f.place for f in files.values()}) > 500
    assert all(map(u.files_of, u.set_names()))


def test_a_file_of_unknown_size_is_counted(settings):
    "It has no size to tell before a download, but it is known and wanted like any other."
    unknown = [f for f in u.upstream_files().values() if f.size is None]
    assert unknown and all(u.files_of(f.key) == [f] for f in unknown)
    survey = u.survey(unknown[0].key, settings())
    assert (survey.files, survey.size, survey.here, survey.to_come) == (1, 0, 0, 0)


def test_the_local_copy_is_right(upstream, settings):
    s = settings(upstream=str(upstream))
    here = [f for f in u.upstream_files().values() if u.local_path(f, s)]
    assert len(here) > 500 and {f.size is None for f in here} == {False}
    for f in here[:: 1 if FULL else 12]:
        assert len(refnb.get(f, s)) == f.size, f
    files = u.files_of("animal-farm")
    assert u.data_ids(["animal-farm"], s) == {f.key: f.blob for f in files}
    assert u.data_ids(["animal-farm"], settings()) == {f.key: "absent" for f in files}


@pytest.mark.parametrize("name", ["identifyme-answers", "animal-farm"])
def test_a_set_comes_over_the_network_byte_for_byte(upstream, settings, name):
    "The real registry against a server of the local copy, with a cut on the way."
    with Tree(upstream) as tree:
        s, files = settings(host=tree.host, offline=False), u.files_of(name)
        tree.fail(max(files, key=lambda f: f.size).place, [Fault(cut=100_000)])
        size = sum(f.size for f in files)
        assert u.survey(name, s)[3:6] == (size, 0, size)
        assert u.fetch_files(files, s) == [] and u.survey(name, s).to_come == 0
        assert cached(s) == {f"upstream/{f.place}": tree.content(f.place) for f in files}
        assert all(refnb.get(f.key, s) == tree.content(f.place) for f in files)
        assert len(tree.seen) == len(files) + 1


def test_git_agrees_about_the_ids(tmp_path):
    data = {"empty": b"", "text": b"hello\n", "big": BIG}
    for name, d in data.items():
        (tmp_path / name).write_bytes(d)
    git, env = ["git", "hash-object", "--no-filters", *data], {"PATH": os.environ["PATH"]}
    try:
        ids = subprocess.check_output(git, cwd=tmp_path, env=env, text=True)
    except FileNotFoundError:
        pytest.skip("needs git")
    assert ids.split() == [u.blob_id(d) for d in data.values()]
