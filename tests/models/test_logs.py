"Logs of other tools as runs; and what a run predicted, as documents."

import gzip, json, zipfile
import pytest
import refnb
import tools
from refnb.benchmarks.tasks import FERRYMAN, task_questions
from refnb.core.corpora import sample
from refnb.core.types import DataError, FormatError
from refnb.metrics.choice import credit
from refnb.models.published.logs import log_outcomes
from refnb.models.rules import pattern_matching

LOGS = tools.DATA / "logs"
ONE_FAILED = LOGS / "inspect_one_failed.json.gz"
FOUR = task_questions(FERRYMAN)[:4]


def lines(path) -> list[dict]:
    return [json.loads(x) for x in gzip.decompress(path.read_bytes()).splitlines()]


def refused(text: str, call, *args, **how):
    "An error of one line that says this."
    with pytest.raises((DataError, FormatError)) as e:
        call(*args, **how)
    assert text in str(e.value) and "\n" not in str(e.value)


def test_samples_of_the_harness_earn_what_it_gave_them():
    path = LOGS / "samples_replies.jsonl.gz"
    earned = log_outcomes(path)
    assert earned["credit"].tolist() == [x["acc_refnb"] for x in lines(path)]
    assert earned["id"].tolist() == [q.id for q in FOUR]


def test_a_failed_sample_stays_open_and_the_others_are_answered(settings, tmp_path):
    [log] = lines(ONE_FAILED)
    packed = tmp_path / "log.eval"  # as older versions of inspect_ai, or other settings of it, do
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("header.json", json.dumps({k: v for k, v in log.items() if k != "samples"}))
        for x in log["samples"]:
            z.writestr(f"samples/{x['id']}_epoch_1.json", json.dumps(x))
    scored = [x for x in log["samples"] if "refnb" in x.get("scores", {})]
    for path in (ONE_FAILED, packed):
        ask = (FOUR, f"inspect/{path}")
        refused("1 of 4 failed (1 without answer)", refnb.run, *ask, s=settings())
        done = refnb.run(*ask, s=settings(), tolerate=1)
        answers = done.answers()
        assert done.info.system == "inspect/mockllm/model"
        assert [a.reason for a in answers.values()] == [None, None, "failed", None]
        theirs = {x["id"]: x["scores"]["refnb"]["value"] for x in scored}
        assert theirs == {q.id: credit(q, answers[q.id]) for q in FOUR if q.id in theirs}
        assert len(theirs) == 3 and answers["sample_ferryman:1"].usage.tokens_in == 101


def test_a_packed_log_is_read(settings):
    assert len(refnb.run(FOUR, f"inspect/{LOGS / 'inspect.eval'}", s=settings()).answers()) == 4


def test_a_log_of_other_questions_is_never_scored(settings, tmp_path):
    path = tmp_path / "log.json"
    [log] = lines(ONE_FAILED)
    usual = log["samples"]
    renamed = json.loads(json.dumps(usual).replace("Tobias", "Thomas"))
    for samples, asked, text in (
        (usual, FOUR[:3], "1 of 4 samples are not questions of"),
        (usual, FERRYMAN, "26 of 29 failed (25 missing, 1 without answer)"),
        ([*usual, usual[0]], FOUR, "1 questions appear twice"),
        (renamed, FOUR, "logged with other options"),
    ):
        path.write_text(json.dumps(log | {"samples": samples}))
        refused(text, refnb.run, asked, f"inspect/{path}", s=settings())
    refused("no log of this name", refnb.run, FOUR, "inspect/openai/gpt-4o", s=settings())


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
    refused("", refnb.run, FOUR, f"inspect/{path}", s=settings())


@pytest.mark.parametrize("ending", ["conllu", "conll", "jsonl"])
def test_documents_that_a_run_predicted_are_exported(tmp_path, monkeypatch, capsys, ending):
    tools.live_in(monkeypatch, tmp_path)
    mine = []
    for d in map(pattern_matching, sample(characters=True)[:2]):
        named = [(c, n) for c, n in zip(d.clusters, d.names) if c]
        mine.append(refnb.Document(d.doc_key, d.sentences, *map(tuple, zip(*named))))
    refnb.write_documents(mine, tmp_path / "mine.jsonl")
    said = tools.here(capsys, "run", "mine.jsonl", "pattern-matching", "--json")
    folder, out = json.loads(said.out)["run"], tmp_path / f"found.{ending}"
    assert tools.here(capsys, "export", folder, "--to", "documents", "--out", out).status == 0
    for d, p in zip(mine, refnb.read_documents(out), strict=True):
        assert p.tokens == d.tokens
        assert {*map(frozenset, p.clusters)} == {*map(frozenset, d.clusters)}
