"`refnb compare`: two systems or many, on questions, on files of answers, on other tools' logs."

import json, math
import numpy as np
import pandas as pd
import pytest
import tools
from refnb.benchmarks.tasks import task_questions
from refnb.commands.cli import main
from refnb.core.types import DataError
from refnb.metrics.uncertainty import holm
from refnb.metrics.uncertainty import paired_difference
from refnb.results.sharing import compare_systems

TASK = "sample/identifyme"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    "A place where some baselines have answered."
    home = tmp_path_factory.mktemp("comparing")
    with pytest.MonkeyPatch.context() as m:
        tools.live_in(m, home)
        for system in ("random", "nearest-mention", "most-frequent", "always-none"):
            assert not main(["run", TASK, system])
        assert not main(["run", "sample/ferryman", "always-first"])
        assert not main(["run", "sample/bookcoref", "pattern-matching"])
    return home


@pytest.fixture
def refnb(runs, monkeypatch, capsys):
    tools.live_in(monkeypatch, runs)
    return lambda *args: tools.here(capsys, *args)


@pytest.fixture
def compare(refnb):
    "What a comparison says as JSON."
    return lambda *args: json.loads(refnb("compare", *args, "--json").out)


def write_lines(path, lines):
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def write_log(path, samples, **fields):
    "A log as inspect_ai writes it."
    path.write_text(json.dumps({"eval": fields, "samples": samples}))
    return path


# Systems


def test_a_leaderboard_has_the_difference_from_the_first(refnb, compare, tmp_path):
    names = (TASK, "random", "nearest-mention", "most-frequent")
    found = compare(*names, "--by", "type", "--out", tmp_path / "t")["systems"]
    assert list(found) == sorted(found, key=lambda n: -found[n]["accuracy"]["value"])
    two = compare(f"{TASK}:nearest-mention", f"{TASK}:random")["difference"]
    row = found["Nearest mention"]
    for end in ("value", "low"):
        assert row["difference"][end] == pytest.approx(100 * two[end])
    assert two["p"] <= row["p"] <= 2 * two["p"] + 1e-12 and found["Random"]["p"] is None
    assert {"nominal", "pronominal"} <= row.keys()
    for ending in ("csv", "md", "tex", "json", "png"):
        assert (tmp_path / f"t/own/leaderboard.{ending}").stat().st_size > 100
    assert "Nearest mention" in (tmp_path / "t/own/leaderboard.tex").read_text()
    for names, said in (
        ((TASK, "random"), "nobody beside it"),
        ((TASK, "random", "nearst-mention"), "did you mean nearest-mention"),
        (("sample/identifme", "random", "nearest-mention"), "did you mean sample/identifyme?"),
    ):
        tools.one_line(refnb("compare", *names), 2, said)


def test_a_leaderboard_corrects_for_its_comparisons():
    rng = np.random.default_rng(1)
    docs, ids = [f"d{i % 20}" for i in range(200)], [f"q{i}" for i in range(200)]

    def system(share):
        credit = (rng.random(200) < share).astype(float)
        return pd.DataFrame({"id": ids, "doc_key": docs, "credit": credit, "reason": None})

    found = {name: system(x) for name, x in (("mine", 0.5), ("a", 0.6), ("b", 0.62), ("c", 0.7))}
    r, mine = compare_systems(found), found["mine"].credit
    ps = {n: paired_difference(found[n].credit, mine, docs).p for n in "abc"}
    assert [r.cells[n, "p"].ours for n in ps] == holm([*ps.values()])
    assert any(r.cells[n, "p"].ours > ps[n] for n in ps) and "Holm" in r.markdown()
    few = compare_systems({**found, "c": found["c"][:50]})
    assert "on 50 items" in few.title
    assert "Of 200 questions c lacks 150" in few.printed.notes[0]


def test_a_comparison_says_what_it_could_have_found_and_what_to_doubt(refnb, compare):
    pair = (f"{TASK}:random", f"{TASK}:always-none")
    told, shown = compare(*pair), refnb("compare", *pair).out
    assert 0.05 < told["detectable"] < 0.9 and f"{100 * told['detectable']:.1f}" in shown
    assert told["mcnemar"] is None or "as independent, though they share" in shown


def test_a_piece_of_a_task_takes_that_piece_of_a_run_on_the_whole(compare):
    "From committed summaries, without the texts."
    names = ("published/gpt-4o", "published/mistral-7b", "--by", "corpus")
    tasks = ("identifyme/test", "identifyme/litbank/test")
    whole, half = (compare(task, *names)["systems"]["GPT-4o"] for task in tasks)
    assert half["accuracy"]["n"] == 600 and whole["accuracy"]["n"] == 1200
    assert half["accuracy"] == half["LitBank"] == whole["LitBank"]


def test_what_has_no_score_is_said_in_one_line(refnb, tmp_path):
    documents = refnb("score", "choice", "sample/bookcoref:pattern-matching")
    tools.one_line(documents, 1, "clusters, not choices")
    by_type = refnb("run", "sample/bookcoref", "pattern-matching", "--by", "type")
    tools.one_line(by_type, 2, "documents have no fields")
    tools.one_line(refnb("run", TASK, "random", "--tolerate", "nan"), 2, "nan")
    for score, said in (({}, "has no score"), ({"m": {"value": math.nan}}, "nan")):
        log = write_log(tmp_path / "x.json", [{"id": 1, "scores": score}])
        tools.one_line(refnb("compare", log, log), 1, said)


def test_a_run_is_not_scored_on_other_questions(settings):
    import refnb

    r = refnb.run("sample/ferryman", "random", s=settings())
    for p in r.folder.glob("questions*"):
        p.unlink()
    r.info = r.info.changed(data=r.info.data | {"questions": "0" * 16})
    with pytest.raises(DataError, match="it answered other questions"):
        refnb.score(r)


# Files of answers


def test_a_file_that_skipped_the_hard_half_does_not_lead(refnb, compare, tmp_path):
    "What both answered is compared; what one lacks is the first line below, or counts as wrong if asked."
    questions = task_questions(TASK)
    wrong = lambda q: {"id": q.id, "chosen": [(q.right[0] + 1) % len(q.options)]}
    right = [{"id": q.id, "chosen": list(q.right)} for q in questions]
    few = write_lines(tmp_path / "few.jsonl", right[:100])
    every = write_lines(tmp_path / "all.jsonl", right[:100] + [*map(wrong, questions[100:])])
    for order, lacks in (((few, every), [238, 0]), ((every, few), [0, 238])):
        got = compare(*order, "--gold", TASK)
        assert (got["lacks"], got["questions"]) == (lacks, 338)
        assert (got["difference"]["value"], got["difference"]["n"]) == (0, 100)
        got = compare(*order, "--gold", TASK, "--missing", "wrong")
        assert (got["lacks"], got["difference"]["n"]) == (lacks, 338)
    said = refnb("compare", few, every, "--gold", TASK).out.splitlines()
    assert "Of 338 questions the first lacks 238" in said[2]
    for third in ((), ("random",)):
        called = (TASK, every, few, *third, "--by", "type")
        rows = compare(*called)["systems"]
        assert rows[str(few)]["accuracy"]["value"] == rows[str(every)]["accuracy"]["value"] == 100
        lines = refnb("compare", *called).out.splitlines()
        assert "few.jsonl lacks 238" in lines[len(rows) + 2] and "338" in lines[len(rows) + 2]
        rows = compare(*called, "--missing", "wrong")["systems"]
        assert rows[str(few)]["accuracy"]["value"] == pytest.approx(100 * 100 / 338)
        assert rows[str(few)]["accuracy"]["n"] == 338


def test_the_same_words_compare_in_python():
    import refnb

    ids = [*"abcdef"]
    frame = lambda credit, reason: pd.DataFrame(
        {"id": ids, "doc_key": ids, "credit": credit, "reason": reason}
    )
    whole = frame([1.0, 1, 1, 0, 0, 0], [None] * 6)
    half = frame([1.0, 1, 1, 0, 0, 0], [None] * 3 + ["missing", "failed", "missing"])
    assert refnb.compare(half, whole).difference[0::4] == (0.0, 3)
    assert refnb.compare(half, whole, missing="wrong").difference.n == 6
    assert "the first lacks 3" in repr(refnb.compare(half, whole)).splitlines()[1]
    other = frame([0.0] * 3 + [1, 1, 1], ["missing"] * 3 + [None] * 3)
    assert refnb.compare(half, other).difference.value is None
    assert refnb.compare(half, other, missing="wrong").difference.value == 0
    with pytest.raises(DataError, match="no question in common"):
        refnb.compare(half, whole.assign(id=[*"uvwxyz"]))


def test_a_file_of_answers_stands_beside_systems(compare, tmp_path):
    lines = [{"id": q.id, "chosen": [q.right[0]]} for q in task_questions("sample/ferryman")]
    mine = write_lines(tmp_path / "mine.jsonl", lines)
    got = compare("sample/ferryman", mine, "always-first")
    assert got["first"].endswith("mine.jsonl") and got["difference"]["value"] > 0


# Logs


def test_logs_are_compared_by_their_own_scores_and_failures_are_told(refnb, compare, tmp_path):
    a, b = (
        write_log(
            tmp_path / f"{name}.json",
            [{"id": k, "scores": {"match": {"value": x}}} for k, x in enumerate(letters)],
            model=name,
        )
        for name, letters in (("a", "CCCCIC"), ("b", "CIIICC"))
    )
    lines = [{"doc_id": k, "doc": {}, "acc": float(x == "C")} for k, x in enumerate("CCIICC")]
    samples = write_lines(tmp_path / "samples_x.jsonl", lines)
    got = compare(a, b)
    assert got["difference"]["value"] == pytest.approx(2 / 6) and got["mcnemar"]["only_a"] == 3
    table = compare(a, b, samples)["systems"]
    assert [round(x["accuracy"]["value"], 1) for x in table.values()] == [83.3, 66.7, 50.0]
    failed = json.loads(b.read_text())
    failed["samples"][1]["error"] = {"message": "no reply"}
    b.write_text(json.dumps(failed))
    said = refnb("compare", a, b).out
    assert "Of 6 questions the second lacks 1" in said
    said = refnb("compare", a, b, samples).out
    assert f"{b} lacks 1" in said
    b.write_text("[]")
    tools.one_line(refnb("compare", a, b), 1, "b.json", "inspect_ai")


def test_logs_whose_lines_could_be_joined_wrongly(refnb, compare, tmp_path):
    "Documents that share an id, several filters of one sample, epochs of which one failed."
    path = tmp_path / "samples_x.jsonl"
    shared = [{"doc_id": k, "doc": {"id": "story"}, "acc": float(k)} for k in range(2)]
    write_lines(path, shared)
    write_lines(tmp_path / "samples_y.jsonl", [x | {"acc": 0.0} for x in shared])
    got = compare(path, tmp_path / "samples_y.jsonl")
    assert got["difference"]["value"] == 0.5 and got["difference"]["n"] == 2
    filters = (("strict-match", 0.0), ("flexible-extract", 1.0))
    write_lines(path, [{"doc_id": 0, "doc": {}, "filter": f, "exact_match": x} for f, x in filters])
    tools.one_line(refnb("compare", path, path), 1, "samples_x.jsonl", "flexible-extract")
    right = {"id": "q", "scores": {"m": {"value": "C"}}}
    lost = {"id": "q", "scores": {}, "error": {"message": "timeout"}}
    whole = write_log(tmp_path / "whole.json", [right])
    for samples, missing in (([right, lost], False), ([lost, lost], True)):
        log = write_log(tmp_path / "x.json", samples)
        said = refnb("compare", whole, log).out
        assert ("the second lacks 1" in said) == missing


def test_logs_of_different_questions_are_told(refnb, tmp_path):
    "The ids 1, 2, 3 of two tasks are not the same questions."
    for name, about in (("a", "rivers"), ("b", "rivers"), ("c", "stars")):
        scored = {"scores": {"m": {"value": "C"}}}
        asked = [{"id": k, "input": f"{about} {k}"} | scored for k in range(3)]
        write_log(tmp_path / f"{name}.json", asked)
        lines = [{"doc_id": k, "doc": {"q": f"{about} {k}"}, "acc": 1.0} for k in range(3)]
        write_lines(tmp_path / f"samples_{name}.jsonl", lines)
    for log in ("{}.json", "samples_{}.jsonl"):
        a, b, c = (tmp_path / log.format(x) for x in "abc")
        assert not refnb("compare", a, b).err
        assert "3 ids stand for different questions" in refnb("compare", a, c).err
    said = refnb("compare", tmp_path / "a.json", tmp_path / "samples_a.jsonl")
    assert said.status == 0 and not said.err
