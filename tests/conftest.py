"What all tests share: no network but loopback, settings of their own, processes that end with their test."

import gc, os, shutil, signal, socket, subprocess, sys
from pathlib import Path
import hypothesis
import pytest
from refnb.core.settings import load_settings
from refnb.results.printed import notebook_of
from refnb.results.reproduce import BatchRuns, table_job
from tools import EXAMPLES, FULL, WITHOUT, clean, report_rows, run_cells

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # as many tests run at a time as there are cores: more threads would only wait for each other
sys.path.insert(0, str(WITHOUT))

hypothesis.settings.register_profile(
    "refnb", max_examples=EXAMPLES, derandomize=True, deadline=None, database=None
)
hypothesis.settings.load_profile("refnb")


# begun first, lest one core wait for them at the end
LONG = """test_batch test_extending test_local_models test_packages test_ray test_readme test_kitmus
test_missing_sets test_identifyme_builder test_pair_models test_pair_training test_coreference_training test_servers""".split()


def pytest_collection_modifyitems(items):
    "Long files come first. What is marked `full` takes long: `make test-full` runs it (TEST_FULL=1), and something smaller beside it is always run."
    items.sort(key=lambda i: LONG.index(i.path.stem) if i.path.stem in LONG else len(LONG))
    if FULL:
        return
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason="slow: make test-full runs it (TEST_FULL=1)"))


@pytest.fixture(scope="module", autouse=True)
def _freeze():
    "What earlier tests have loaded is not looked through for garbage again: accelerate and others collect it often."
    gc.freeze()


@pytest.fixture(scope="session")
def upstream() -> Path:
    "A local copy of the public files."
    folder = os.environ.get("REFNB_UPSTREAM")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs a copy of the upstream files: set REFNB_UPSTREAM")
    return Path(folder).resolve()


@pytest.fixture
def settings(tmp_path):
    "A function that makes settings; nothing is downloaded, and nothing of this machine is read, unless a test says so."
    ours = dict(upstream="", host="http://127.0.0.1:9", offline=True, patience=30) | {
        k: str(tmp_path / k) for k in ("cache", "runs", "reports")
    }
    return lambda **over: load_settings("/", env={}, **ours | over)


@pytest.fixture(scope="session")
def make_table():
    """A function that makes a table, and the runs that it asks for, in this process: the rows of its report.

    The report lies in `home/reports`. Batches, kernels and the command line are tested elsewhere; here it is what the notebook writes."""

    def make(
        home: Path, name: str, upstream: str | Path = "", gold: str | Path = "", **parameters
    ) -> list[dict[str, str]]:
        variables = {"REFNB_UPSTREAM": str(upstream), "REFNB_BOOKCOREF_GOLD": str(gold)}
        home.mkdir(parents=True, exist_ok=True)
        with pytest.MonkeyPatch.context() as m:
            for k in set(os.environ) - set(clean(home)):
                m.delenv(k)
            for k, v in clean(home, **variables).items():
                m.setenv(k, v)
            m.chdir(home)
            job = table_job(name, parameters)
            for _ in BatchRuns(load_settings()).make_for(job):
                pass
            run_cells(notebook_of(name), **job.parameters | {"out": str(home / "reports")})
        return report_rows(home / "reports", name)

    return make


# Tests talk to loopback only.


def _loopback(host) -> bool:
    host = host.decode() if isinstance(host, bytes) else host
    return host is None or host in ("localhost", "::1") or host.startswith("127.")


def _guarded(real, strays: list):
    def call(self, *args):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _loopback(args[-1][0]):
            _stray(real.__name__, args[-1], strays)
        return real(self, *args)

    return call


def _stray(what: str, address, strays: list):
    strays.append(f"{what} {address}")
    pytest.fail(f"a test left loopback: {strays[-1]}")


@pytest.fixture(scope="session", autouse=True)
def _guard():
    strays, lookup = [], socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        if not _loopback(host):
            _stray("look up", host, strays)
        return lookup(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as m:
        for name in ("connect", "connect_ex", "bind", "sendto"):
            m.setattr(socket.socket, name, _guarded(getattr(socket.socket, name), strays))
        m.setattr(socket, "getaddrinfo", getaddrinfo)
        m.setenv("no_proxy", "*")
        yield strays


@pytest.fixture(autouse=True)
def strays(_guard):
    "What tried to leave loopback; said again at the end, for a thread or an `except` may have swallowed it."
    _guard.clear()
    yield _guard
    assert not _guard, f"a test left loopback: {_guard}"


# Processes and disks


@pytest.fixture
def spawn():
    "A function that starts Python on some code; what still runs at the end of the test is killed."
    started = []

    def start(code: str, *args) -> subprocess.Popen:
        listens = lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # what started the tests may ignore interrupts, and that is inherited
        p = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=listens,
        )
        started.append(p)
        return p

    yield start
    for p in started:
        if p.poll() is None:
            p.kill()
        if not p.stdout.closed:
            p.communicate()


class Disk:
    "A disk of 256 KB."

    def __init__(self, path: Path):
        self.path, self.filler = path, path / "filler"

    def fill(self, spare: int = 0):
        "Leave so many bytes free."
        with self.filler.open("ab", buffering=0) as f:
            for size in (4096, 1):
                try:
                    while f.write(b"x" * size):
                        pass
                except OSError:
                    pass
        if spare:
            os.truncate(self.filler, max(0, self.filler.stat().st_size - spare))

    def free(self):
        self.filler.unlink()

    def mode(self, mode: str):
        subprocess.run(["mount", "-o", f"remount,{mode}", self.path], check=True)


@pytest.fixture
def disk(tmp_path):
    "A small disk of its own, to be filled or made read-only."
    path = tmp_path / "disk"
    path.mkdir()
    if (
        not shutil.which("mount")
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "none", path], capture_output=True
        ).returncode
    ):
        pytest.skip("needs the right to mount a small disk")
    yield Disk(path)
    subprocess.run(["umount", path], check=True)


@pytest.fixture
def stub():
    "A server of the protocol, on loopback."
    from stub_server import Stub

    with Stub() as stub:
        yield stub


@pytest.fixture
def store(tmp_path):
    "An empty store of paid replies."
    from refnb.models.language.store import Store

    with Store(tmp_path / "replies") as store:
        yield store


@pytest.fixture
def no_keys(monkeypatch):
    "An environment whose only key is a made-up one."
    from asking import KEY, SECRET

    for name in [n for n in os.environ if n.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(KEY, SECRET)
