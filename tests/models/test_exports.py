"Logs of other tools as runs, and the lock of packages."

import gzip, json, re, tomllib, zipfile
from pathlib import Path
import pytest
from refnb.benchmarks.tasks import FERRYMAN, task_questions
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.reading import read_documents, write_documents
from refnb.core.types import DataError, FormatError
from refnb.metrics.choice import credit
from refnb.models.published.logs import log_outcomes
from refnb.models.rules.clusters import pattern_matching
from refnb.models.running import run
import tools

from tools import DATA

LOGS = DATA / "logs"
FOUR = task_questions(FERRYMAN)[:4]


# Logs of other tools


def samples(name: str) -> list[dict]:
    return [json.loads(x) for x in gzip.decompress((LOGS / name).read_bytes()).splitlines()]


def zipped(path: Path, log: dict) -> Path:
    "An .eval log as older versions of inspect_ai, or other settings of it, pack it."
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("header.json", json.dumps({k: v for k, v in log.items() if k != "samples"}))
        for x in log["samples"]:
            z.writestr(f"samples/{x['id']}_epoch_1.json", json.dumps(x))
    return path


def test_samples_of_the_harness_are_outcomes():
    name = "samples_replies.jsonl.gz"
    earned = log_outcomes(LOGS / name)
    assert earned["credit"].tolist() == [x["acc_refnb"] for x in samples(name)]
    assert earned["id"].tolist() == [q.id for q in FOUR]


def test_a_failed_sample_stays_open_and_the_others_are_answered(settings, tmp_path):
    s, [log] = settings(), samples("inspect_one_failed.json.gz")
    for path in (LOGS / "inspect_one_failed.json.gz", zipped(tmp_path / "log.eval", log)):
        with pytest.raises(
            DataError,
            match=r"1 of 4 failed \(1 without answer\); the first is sample_ferryman:2: RuntimeError",
        ):
            run(FOUR, f"inspect/{path}", s=s)
        done = run(FOUR, f"inspect/{path}", s=s, tolerate=1)
        answers = done.answers()
        assert done.info.system == "inspect/mockllm/model" and [
            a.reason for a in answers.values()
        ] == [None, None, "failed", None]
        theirs = {
            x["id"]: x["scores"]["refnb"]["value"]
            for x in log["samples"]
            if "refnb" in x.get("scores", {})
        }
        assert (
            theirs == {i: credit(q, answers[i]) for q in FOUR if (i := q.id) in theirs}
            and len(theirs) == 3
        )
        assert answers["sample_ferryman:1"].usage.tokens_in == 101


def test_a_packed_log_is_read(settings):
    assert len(run(FOUR, f"inspect/{LOGS / 'inspect.eval'}", s=settings()).answers()) == 4


def test_other_questions_missing_ones_and_doubled_ones_are_told(settings, tmp_path):
    s, path = settings(), tmp_path / "log.json"
    [log] = samples("inspect_one_failed.json.gz")
    lines = log["samples"]

    def write(*some):
        path.write_text(json.dumps(log | {"samples": some}))

    write(*lines)
    with pytest.raises(DataError, match="1 of 4 samples are not questions of given/"):
        run(FOUR[:3], f"inspect/{path}", s=s)
    with pytest.raises(DataError, match=r"26 of 29 failed \(25 missing, 1 without answer\)"):
        run(FERRYMAN, f"inspect/{path}", s=s)
    write(*lines, lines[0])
    with pytest.raises(DataError, match="1 questions appear twice"):
        run(FOUR, f"inspect/{path}", s=s)
    write(*json.loads(json.dumps(lines).replace("Tobias", "Thomas")))
    with pytest.raises(DataError, match="logged with other options"):
        run(FOUR, f"inspect/{path}", s=s)
    with pytest.raises(DataError, match="no log of this name here"):
        run(FOUR, "inspect/openai/gpt-4o", s=s)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"nothing",
        b'{"eval": {"model": "m"}, "samples": [{"id": 1}]}',
        b'{"doc": {}}',
        b"PK\x05\x06" + bytes(18),
    ],
)
def test_what_is_no_log_is_refused_in_a_line(settings, tmp_path, data):
    path = tmp_path / "log"
    path.write_bytes(data)
    with pytest.raises((DataError, FormatError)) as e:
        run(FOUR, f"inspect/{path}", s=settings())
    assert "\n" not in str(e.value)


# What a run predicted


@pytest.mark.parametrize("ending", ["conllu", "conll", "jsonl"])
def test_documents_that_a_run_on_a_file_of_ones_own_predicted(
    tmp_path, monkeypatch, capsys, ending
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_RUNS", str(tmp_path / "runs"))
    mine = []
    for d in map(pattern_matching, sample(characters=True)[:2]):
        here = [k for k, c in enumerate(d.clusters) if c]
        some = (tuple(x[k] for k in here) for x in (d.clusters, d.names))
        mine.append(Document(d.doc_key, d.sentences, *some))
    write_documents(mine, tmp_path / "mine.jsonl")
    said = tools.here(capsys, "run", "mine.jsonl", "pattern-matching", "--json")
    folder, out = json.loads(said.out)["run"], tmp_path / f"found.{ending}"
    assert tools.here(capsys, "export", folder, "--to", "documents", "--out", out).status == 0
    found = read_documents(out)
    for d, p in zip(mine, found, strict=True):
        assert p.tokens == d.tokens
        assert {*map(frozenset, p.clusters)} == {*map(frozenset, d.clusters)}


# The lock of packages


def test_the_lock_has_a_hash_for_every_package_and_the_pinned_versions():
    "What only some Pythons or systems need, or builds refnb, is not among the pins."
    plain = lambda name: re.sub(r"[-_.]+", "-", name).lower()
    text = (tools.ROOT / "requirements.lock").read_text().replace(" \\\n    --hash", " --hash")
    entry = re.compile(r"([\w.-]+)==(\S+)( ; .+?)?((?: --hash=sha256:[0-9a-f]{64})+)")
    lines = [x for x in text.splitlines() if not x.startswith("#")]
    found = {m[1]: m for x in lines if (m := entry.fullmatch(x))}
    pinned = (tools.ROOT / "constraints.txt").read_text().splitlines()
    pins = {plain(x.partition("==")[0]): x.partition("==")[2].strip() for x in pinned}
    assert len(found) == len(lines) > 80
    other = {n for n, m in found.items() if pins.get(plain(n)) != m[2] and not m[3]}
    assert other <= {"torch", "editables", "setuptools"}
    project = tomllib.loads((tools.ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["models"], "hatchling"]
    assert {plain(re.match(r"[\w.-]+", x)[0]) for x in needed} <= set(found)
    assert found["torch"][2].endswith("+cpu") and found["torch"][4].count("sha256") == 3
