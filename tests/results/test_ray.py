"Tables on a Ray cluster: the same numbers, workers that die, clusters that are not there."

import json, shutil, signal, socket, subprocess, sys, tempfile
from pathlib import Path
import psutil
import pytest
import tools
from tools import A, B, install, table

pytest.importorskip("ray", reason="needs Ray: pip install 'refnb[ray]'")

TABLE = "bookcoref/table_5_prompt"  # a small one
RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_TOKEN": "5" * 64,
}  # a token of its own keeps Ray from making one in the user's home


def strays(folder: Path) -> list[psutil.Process]:
    "Processes whose command lines name the folder, and their children: Ray's own are detached from what started them."

    def names(p):
        try:
            return any(str(folder) in x for x in p.cmdline())
        except psutil.Error:
            return False

    return list({x: None for p in psutil.process_iter() if names(p) for x in tools.family(p.pid)})


@pytest.fixture(scope="module")
def short():
    "A folder with a short name: Ray's sockets lie below it, and their paths may not be long. No process of it is left at the end."
    path = Path(tempfile.mkdtemp(prefix="r"))
    yield path
    ours = strays(path)
    tools.end(ours)
    psutil.wait_procs(ours, 10)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def batch(tmp_path, short):
    "A function that starts a batch; it is ended with the test."
    started = []

    def start(*args, **how) -> subprocess.Popen:
        started.append(
            tools.start(tmp_path, "reproduce", *args, RAY_TMPDIR=str(short), **RAY, **how)
        )
        return started[-1]

    yield start
    for p in started:
        if p.poll() is None:
            tools.end(tools.family(p.pid))
            p.communicate()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def cluster(short) -> str:
    "The address of a head on this machine, started as Ray's own manual says."
    port, env = (
        free_port(),
        {k: v for k, v in tools.clean(short).items() if not k.startswith("RAY_")} | RAY,
    )
    command = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        f"--port={port}",
        "--node-ip-address=127.0.0.1",
        "--include-dashboard=false",
        "--num-cpus=2",
        "--disable-usage-stats",
        f"--temp-dir={short}/c",
        "--object-store-memory=100000000",
    ]
    said = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=tools.HANG, cwd=short
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return f"127.0.0.1:{port}"


def test_the_same_bytes_as_without_ray(batch, cluster, tmp_path, make_table):
    make_table(tmp_path / "plain", TABLE)
    said = tools.ended(batch(TABLE, "--ray", cluster))
    assert said.status == 0, said
    with_, without = (home / f"reports/{TABLE}.csv" for home in (tmp_path, tmp_path / "plain"))
    assert with_.read_bytes() == without.read_bytes()


def test_a_started_cluster(batch, cluster, tmp_path):
    install(tmp_path / "tables", A, table(A))
    install(tmp_path / "tables", B, table(B, "1/0"))
    said = tools.ended(batch("--ray", cluster, tables=tmp_path / "tables"))
    tools.one_line(
        said,
        1,
        f"1 of 2 tables failed, the first is {B}: cell 1 (1/0): ZeroDivisionError: division by zero",
    )
    assert (
        f"{A}: made" in said.out
        and (tmp_path / f"reports/{A}.csv").exists()
        and not (tmp_path / f"reports/{B}.csv").exists()
    )


DIES_ONCE = """\
import time
from pathlib import Path
import psutil
here = Path(%r)
attempt = len(list(here.glob("attempt?")))
worker = next(p for p in psutil.Process().parents() if "ray::" in " ".join(p.cmdline()))
(here/"pid").write_text(str(worker.pid))
(here/"pid").rename(here/f"attempt{attempt}")
while attempt == 0: time.sleep(0.1)"""


def test_f02_a_killed_worker_is_tried_again(batch, cluster, tmp_path):
    "And the kernel of the first attempt does not outlive its worker."
    install(tmp_path / "tables", A, table(A, DIES_ONCE % str(tmp_path)))
    install(tmp_path / "tables", B, table(B))
    p, first = batch("--ray", cluster, tables=tmp_path / "tables"), tmp_path / "attempt0"
    tools.wait(lambda: first.exists() or p.poll() is not None, "the first attempt")
    assert p.poll() is None, p.communicate()
    family = tools.family(int(first.read_text()))
    assert len(family) > 1
    family[0].kill()
    said = tools.ended(p)
    assert said.status == 0, said
    assert int((tmp_path / "attempt1").read_text()) != int(first.read_text())
    for name in (A, B):
        assert json.loads((tmp_path / f"reports/{name}.json").read_bytes())["table"] == name
    tools.gone(family[1:])


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    "A function that runs a command in this process, in folders of its own; what Ray changes in the process is undone."
    handler = signal.getsignal(signal.SIGTERM)
    more = {
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"
    }  # refnb would set it, and nobody take it away
    for k, v in (tools.clean(tmp_path) | RAY | more).items():
        monkeypatch.setenv(k, v)
    tools.look_in(monkeypatch, tmp_path / "tables")
    yield lambda *args: tools.here(capsys, *args)
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize("address", ["127.0.0.1:%d", "nonsense"])
def test_a_cluster_that_is_not_there(here, tmp_path, address):
    install(tmp_path / "tables", A, table(A))
    address = address % free_port() if "%" in address else address
    tools.one_line(
        here("reproduce", "--ray", address), 1, "no Ray cluster", address, "ray start --head"
    )
    assert not (tmp_path / f"reports/{A}.csv").exists()


# Runs in shards

SHARDS = """
import os, signal, sys
from pathlib import Path
from refnb.core.settings import load_settings
from refnb.benchmarks.tasks import task_questions
from refnb.models.running import run_sharded
s = load_settings("/", env={}, offline=True, runs=sys.argv[2], reports=sys.argv[2])
died = Path(sys.argv[2])/"died"
def system(q):
    "The option in the middle; the worker of the first attempt dies at its twentieth question."
    import os, signal
    with open(f"{died}.{os.getpid()}", "a") as f: f.write(q.id + "\\n")
    if not died.exists() and len(open(f"{died}.{os.getpid()}").readlines()) == 20: died.touch(); os.kill(os.getpid(), signal.SIGKILL)
    return len(q.options)//2
r = run_sharded(task_questions("sample/identifyme"), system, sys.argv[1], shards=3, s=s)
print(r.folder if r.sealed else "open")
"""


def test_f02_a_run_in_shards_goes_on_where_a_worker_died(cluster, tmp_path, spawn, monkeypatch):
    from refnb.benchmarks.tasks import task_questions
    from refnb.core.runs import load_run

    for k, v in RAY.items():
        monkeypatch.setenv(k, v)
    out, err = (p := spawn(SHARDS, cluster, tmp_path)).communicate(timeout=tools.HANG)
    assert p.returncode == 0, err
    questions, answers = (
        task_questions("sample/identifyme"),
        load_run(out.strip().splitlines()[-1]).answers(),
    )
    assert (tmp_path / "died").exists() and {i: a.chosen for i, a in answers.items()} == {
        q.id: (len(q.options) // 2,) for q in questions
    }
    asked = [i for f in tmp_path.glob("died.*") for i in f.read_text().split("\n") if i]
    assert (
        len(questions) <= len(asked) <= len(questions) + 20 - 16
    )  # what was journalled before the death is not asked again


@pytest.mark.full
def test_a_model_in_shards_says_what_it_says_alone(batch, cluster, tmp_path):
    pytest.importorskip("transformers", reason="needs the extra refnb[models]")
    from tiny import tiny_checkpoint
    from refnb.benchmarks.tasks import task_questions

    tiny_checkpoint(tmp_path / "tiny", [q.text for q in task_questions("sample/ferryman")[:2]])
    sets = [
        x
        for kv in (f"model={tmp_path / 'tiny'}", "file=", "package=", "dtype=float32")
        for x in ("-p", kv)
    ]
    said = [
        tools.refnb(
            home,
            "run",
            "sample/kitmus/sample16",
            "smollm2-135m",
            "--json",
            *sets,
            *way,
            RAY_TMPDIR=str(tmp_path),
            **RAY,
        )
        for home, way in ((tmp_path / "a", ()), (tmp_path / "b", ("--ray", cluster)))
    ]
    seals = []
    for x in said:
        assert x.status == 0, x
        got = json.loads(x.out)
        seals.append((json.loads((Path(got["run"]) / "seal.json").read_text()), got["groups"]))
    assert seals[0][1] == seals[1][1] and seals[0][0]["answers"] == 16


def test_what_is_not_sharded(here):
    run = ("run", "sample/ferryman", "random", "--ray")
    tools.one_line(here(*run, "local", "--limit", 3), 2, "a run in shards takes neither --limit")
    tools.one_line(here(*run, "nonsense"), 1, "no Ray cluster", "nonsense")
