"Tables on a Ray cluster: the same numbers, workers that die, clusters that are not there."

import json, shutil, signal, socket, subprocess, sys, tempfile
from pathlib import Path
from types import SimpleNamespace
import psutil
import pytest
import tools
from refnb.benchmarks.tasks import task_questions
from refnb.core.runs import load_run
from refnb.results.printed import notebook_of
from results_reports import report_files, whole_report
from tools import A, B, install, table

pytest.importorskip("ray", reason="needs Ray: pip install 'refnb[ray]'")

TABLE = "bookcoref/table_5_prompt"  # a small one
# a token of its own keeps Ray from making one in the user's home
RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": "5" * 64}


def strays(folder: Path) -> list[psutil.Process]:
    "Processes that name the folder, and their children: Ray's own leave what started them."

    def names(p):
        try:
            return any(str(folder) in x for x in p.cmdline())
        except psutil.Error:
            return False

    return list({x: None for p in psutil.process_iter() if names(p) for x in tools.family(p.pid)})


@pytest.fixture(scope="module")
def short():
    "A folder of a short name, as paths of Ray's sockets need; no process of it is left at the end."
    path = Path(tempfile.mkdtemp(prefix="r"))
    yield path
    ours = strays(path)
    tools.end(ours)
    psutil.wait_procs(ours, 10)
    shutil.rmtree(path, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def cluster(short) -> str:
    "The address of a head on this machine, started as Ray's own manual says."
    port = free_port()
    env = {k: v for k, v in tools.clean(short).items() if not k.startswith("RAY_")} | RAY
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


DIES_ONCE = """\
import time
from pathlib import Path
import psutil
home = Path(%r)
attempt = len(list(home.glob("attempt?")))
worker = next(p for p in psutil.Process().parents() if "ray::" in " ".join(p.cmdline()))
(home/"pid").write_text(str(worker.pid))
(home/"pid").rename(home/f"attempt{attempt}")
while attempt == 0: time.sleep(0.1)"""


@pytest.fixture(scope="module")
def batch(cluster, short, tmp_path_factory):
    "A batch of three tables; the worker of the first one is killed. What it said and left."
    home = tmp_path_factory.mktemp("batch")
    install(home / "tables", A, table(A, DIES_ONCE % str(home)))
    install(home / "tables", B, table(B, "1/0"))
    install(home / "tables", TABLE, notebook_of(TABLE).read_text())
    call = ("reproduce", "--ray", cluster)
    p = tools.start(home, *call, tables=home / "tables", RAY_TMPDIR=str(short), **RAY)
    try:
        first = home / "attempt0"
        tools.wait(lambda: first.exists() or p.poll() is not None, "the first attempt")
        assert p.poll() is None, p.communicate()
        family = tools.family(int(first.read_text()))
        family[0].kill()
        yield SimpleNamespace(home=home, family=family, said=tools.ended(p))
    finally:
        if p.poll() is None:
            tools.end(tools.family(p.pid))
            p.communicate()


def test_a_cluster_makes_the_same_bytes(batch, tmp_path, make_table):
    make_table(tmp_path, TABLE)
    with_ray, without = (home / f"reports/{TABLE}.csv" for home in (batch.home, tmp_path))
    assert with_ray.read_bytes() == without.read_bytes()


def test_a_table_that_fails_on_a_cluster_is_one_line(batch):
    line = batch.said.err.splitlines()[-1]
    assert batch.said.status == 1 and "1 of 3 tables failed" in line
    assert B in line and "1/0" in line and "ZeroDivisionError: division by zero" in line
    assert report_files(batch.home / "reports", B) == {}


def test_the_table_of_a_killed_worker_is_tried_again(batch):
    "And the kernel of the first attempt does not outlive its worker."
    first, second = (int((batch.home / f"attempt{i}").read_text()) for i in (0, 1))
    assert first != second and len(batch.family) > 1
    assert whole_report(batch.home / "reports", A)
    tools.gone(batch.family[1:])


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    "A function that runs a command in this process; what Ray changes in it is undone."
    handler = signal.getsignal(signal.SIGTERM)
    # refnb would set it, and nobody take it away
    more = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    more |= {"RAY_gcs_server_port_wait_time_s": "120", "RAY_raylet_start_wait_time_s": "60"}
    for k, v in (tools.clean(tmp_path) | RAY | more).items():
        monkeypatch.setenv(k, v)
    tools.look_in(monkeypatch, tmp_path / "tables")
    yield lambda *args: tools.here(capsys, *args)
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize("address", ["127.0.0.1:%d", "nonsense"])
def test_a_cluster_that_is_not_there_is_named(here, tmp_path, address):
    install(tmp_path / "tables", A, table(A))
    address = address % free_port() if "%" in address else address
    tools.one_line(here("reproduce", "--ray", address), 1, address, "ray start --head")
    assert not (tmp_path / f"reports/{A}.csv").exists()


CLUSTER = "The cluster was started with:\n    Ray: 2.52.0\n    Python: 3.11.2\n"
PROCESS = "This process on node 10.0.0.1 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
# what Ray says, and what refnb makes of it
FAULTS = {
    "The current node timed out during startup.": ("did not start in time", "busy", "later"),
    f"Version mismatch: {CLUSTER}{PROCESS}": ("Ray 2.52.0", "Python 3.11.7", "every machine"),
    "RPC error: InvalidAuthToken: it is missing": ("token", "~/.ray/auth_token"),
    "No node info found matching attributes: ''": ("this machine", "`ray start --address"),
}


@pytest.mark.parametrize("message", FAULTS, ids=["late", "versions", "token", "elsewhere"])
def test_why_ray_does_not_start_is_one_line(here, monkeypatch, message):
    import ray

    def init(**_):
        raise Exception(message)  # a bare one, as Ray's own

    monkeypatch.setattr(ray, "init", init)
    said = here("run", "sample/ferryman", "random", "--ray", "local")
    assert "unexpected" not in tools.one_line(said, 1, "local: ", *FAULTS[message])


def test_without_ray_its_extra_is_named(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = here("run", "sample/ferryman", "random", "--ray", "local")
    tools.one_line(said, 1, "ray is not installed", "refnb[ray]")


# Runs in shards

SHARDS = """
import os, signal, sys
from pathlib import Path
from refnb.benchmarks.tasks import task_questions
from refnb.core.settings import load_settings
from refnb.models.running import run_sharded
folder = sys.argv[2]
s = load_settings("/", env={}, offline=True, runs=folder, reports=folder)
died = Path(folder) / "died"
def middle(q):
    "The option in the middle; the worker of the first attempt dies at its twentieth question."
    asked = Path(f"{died}.{os.getpid()}")
    with asked.open("a") as f: f.write(q.id + "\\n")
    if not died.exists() and len(asked.read_text().splitlines()) == 20:
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return len(q.options) // 2
print(run_sharded(task_questions("sample/identifyme"), middle, sys.argv[1], shards=3, s=s).folder)
"""


def test_a_run_in_shards_goes_on_where_a_worker_died(cluster, tmp_path, spawn, monkeypatch):
    "What was journalled before the death is not asked again."
    for k, v in RAY.items():
        monkeypatch.setenv(k, v)
    process = spawn(SHARDS, cluster, tmp_path)
    out, err = process.communicate(timeout=tools.HANG)
    assert process.returncode == 0 and (tmp_path / "died").exists(), err
    questions, run = task_questions("sample/identifyme"), load_run(out.splitlines()[-1])
    chosen = {i: answer.chosen for i, answer in run.answers().items()}
    assert run.complete and chosen == {q.id: (len(q.options) // 2,) for q in questions}
    asked = [x for f in tmp_path.glob("died.*") for x in f.read_text().splitlines()]
    assert len(questions) <= len(asked) <= len(questions) + 20 - 16


def test_a_function_of_a_file_of_yours_answers_in_shards(cluster, short, tmp_path):
    folder = tmp_path / "systems"
    folder.mkdir()
    (folder / "last.yaml").write_text("function: last.py:last\ntitle: The last option\n")
    (folder / "last.py").write_text(
        "def last(q): return end(q.options)\ndef end(x): return -1 + len(x)"
    )
    call = ("run", "sample/ferryman", "last", "--json", "--ray", cluster)
    said = tools.refnb(tmp_path, *call, RAY_TMPDIR=str(short), **RAY)
    assert said.status == 0 and json.loads(said.out)["groups"]["all"]["n"] == 29, said


@pytest.mark.full
def test_a_model_in_shards_says_what_it_says_alone(cluster, short, tmp_path):
    pytest.importorskip("transformers", reason="needs the extra refnb[models]")
    from tiny import tiny_checkpoint

    tiny_checkpoint(tmp_path / "tiny", [q.text for q in task_questions("sample/ferryman")[:2]])
    values = (f"model={tmp_path / 'tiny'}", "file=", "package=", "dtype=float32")
    call = ["run", "sample/kitmus/sample16", "smollm2-135m", "--json"]
    call += [x for value in values for x in ("-p", value)]
    groups = []
    for way in ((), ("--ray", cluster)):
        home = tmp_path / f"home{len(way)}"
        said = tools.refnb(home, *call, *way, RAY_TMPDIR=str(short), **RAY)
        assert said.status == 0, said
        groups.append(json.loads(said.out)["groups"])
    assert groups[0] == groups[1] and groups[0]["all"]["n"] == 16


def test_what_is_not_sharded_is_refused(here):
    run = ("run", "sample/ferryman", "random", "--ray")
    tools.one_line(here(*run, "local", "--limit", 3), 2, "--limit")
    tools.one_line(here(*run, "nonsense"), 1, "no Ray cluster", "nonsense")
