"`refnb report`: a folder of runs as rankings; what is ranked with what, and at what cost."

import json, time
import numpy as np
import pytest
import refnb
from pages_runs import answered
from refnb.core.types import Answer, Option, Question, Usage
from refnb.metrics.uncertainty import Credits, rank_systems
from refnb.results.pages.report import make_rankings, read_summaries
from tools import ROOT, here, live_in, one_line

pytest_plugins = "pages_browser"

TASK = "sample/ferryman"
EVIL = "</script><script>window.ran = true</script><img src=x onerror=alert(1)>"


@pytest.fixture
def s(settings):
    return settings()


def questions(n: int = 40, name: str = "d") -> list[Question]:
    "Questions with two options, four to a document."
    ab, doc = (Option("a"), Option("b")), lambda i: f"{name}{i // 4}"
    return [Question(f"{doc(i)}:{i}", doc(i), f"words {i}", (0, 5), ab, (i % 2,)) for i in range(n)]


def run(tmp_path, share: float, asked=None, usd: float | None = 0.0, **how):
    "A run of a system that is right on a share of the questions, at a price for each."
    asked, answers = asked or questions(), []
    for k, q in enumerate(asked):
        wrong = (k * 7 + 3) % 40 >= 40 * share
        answers.append(Answer(q.id, ((k + wrong) % 2,), usage=Usage(1, 1, usd)))
    return answered(tmp_path, asked, answers, f"right{round(100 * share)}", **how)


def systems(report) -> list[list[str]]:
    "Who is ranked with whom, the best first."
    return [[r["system"] for r in task["ranking"]] for task in report.summary()["tasks"]]


# What is ranked


def test_equal_scores_share_a_place_and_a_letter():
    values = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 1]])
    ranked = rank_systems(Credits(("a", "b", "c"), values, (0, 1, 2, 3)))
    assert [(r.system, r.place, r.letters) for r in ranked] == [
        ("a", 1, "a"),
        ("b", 1, "a"),
        ("c", 3, "a"),
    ]


def test_many_pairs_can_be_told_apart():
    "Holm multiplies by the number of pairs, 435: p must have no floor."
    rates = np.linspace(0.02, 0.98, 30)[:, None]
    values = (np.random.default_rng(0).random((30, 400)) < rates) * 1.0
    ranked = rank_systems(Credits(tuple(f"s{i}" for i in range(30)), values, tuple(range(400))))
    assert not set(ranked[0].letters) & set(ranked[-1].letters)


def test_runs_of_one_task_over_the_same_questions_are_ranked_together(tmp_path, s):
    for share in (0.3, 0.9):
        run(tmp_path, share)
    run(tmp_path, 0.5, questions(name="e"), task="toy/e")
    run(tmp_path, 0.4, task="toy/other")
    run(tmp_path, 0.4, task="toy/other", settings={"x": 1})
    twice, *others = sorted(systems(refnb.report(s=s)))
    assert others == [["right50"], ["right90", "right30"]]
    assert all(name.startswith("right40@") for name in twice) and len(set(twice)) == 2


def test_an_incomplete_or_damaged_run_is_named_and_not_ranked(s):
    refnb.run(TASK, "random", s=s)
    refnb.run(TASK, "word-overlap", limit=3, s=s)
    broken = refnb.run(TASK, "always-first", s=s)
    (broken.folder / "run.json").write_text("{")
    report = refnb.report(s=s)
    assert systems(report) == [["random"]] and "open, 3 of 29 answered" in report.page()
    left = [x["system"] or x["why"] for x in report.summary()["not_ranked"]]
    assert len(left) == 2 and "word-overlap" in left and any("damaged" in x for x in left)


def test_scores_and_intervals_are_those_of_refnb_score(tmp_path, monkeypatch, capsys):
    live_in(monkeypatch, tmp_path)
    refnb = lambda *args: here(capsys, *args)
    one_line(refnb("report"), 1, "refnb run")
    one_line(refnb("report", "nowhere"), 1, "nowhere")
    assert not (tmp_path / "report.html").exists()
    for system in ("random", "word-overlap"):
        refnb("run", TASK, system)
    for row in json.loads(refnb("report", "--json").out)["tasks"][0]["ranking"]:
        scored = refnb("score", "choice", f"{TASK}:{row['system']}", "--json")
        group = json.loads(scored.out)["groups"]["all"]
        known = (group["accuracy"], group["low"], group["high"])
        assert (row["score"], row["low"], row["high"]) == pytest.approx(known)
    assert (tmp_path / "report.html").exists()


def test_documents_are_ranked_by_their_f1(s):
    refnb.run("sample/bookcoref", "pattern-matching", s=s)
    [task] = refnb.report(s=s).summary()["tasks"]
    assert task["metric"] == "CoNLL F1, full" and task["items"] == 6
    assert 0 < task["ranking"][0]["score"] < 1


def test_committed_summaries_are_ranked():
    rankings = make_rankings(read_summaries(["identifyme/test"], ROOT / "reports"))
    names = [r.system for r in max(rankings, key=lambda b: len(b.ranked)).ranked]
    assert names[0] == "published/gpt-4o" and len(names) >= 5


# The page


def test_the_page_tells_what_all_or_none_answer_what_it_cost_and_who_answered(tmp_path, s):
    for share, usd in ((0.3, 0.001), (0.6, 0.1), (0.8, None)):
        run(tmp_path, share, usd=usd)
    guesses = [Answer(q.id, scores=(1.0, 1.0)) for q in questions()]  # a share of each question
    answered(tmp_path, questions(), guesses, "guesses")
    refnb.run(TASK, "word-overlap", s=s)
    shown = refnb.report(s=s)._repr_html_()
    assert "Every system is right: 12 of 40" in shown and "No system is right: 8 of 40" in shown
    assert shown.count('<img class=cost src="data:image/png;base64,') == 1
    assert "Unknown cost: " in shown and "right80" in shown and ">0.04</td>" in shown
    assert ">Word overlap</td>" in shown and "<code>" not in shown


def test_the_page_has_no_text_but_that_of_the_sample_and_asks_nobody(tmp_path, s):
    run(tmp_path, 0.5)
    refnb.run(TASK, "random", s=s)
    page = refnb.report(s=s).page()
    assert "words 3" not in page and "://" not in page and "src=" not in page
    assert "ferry" in page.split('id="data">')[1].lower()


def test_three_runs_of_five_hundred_questions_are_a_small_page_soon(tmp_path, s):
    for k in range(3):
        run(tmp_path, 0.4 + 0.05 * k, questions(500))
    start = time.process_time()
    page = refnb.report(s=s).page()
    assert time.process_time() - start < 5 and len(page) < 200_000


def test_two_systems_are_compared_side_by_side_and_foreign_text_is_inert(reader, tmp_path, s):
    odd = [q.changed(id=f"{q.id}{EVIL}\u202e", doc_key=EVIL) for q in questions()]
    for share in (0.5, 0.8):
        run(tmp_path, share, odd)
    page = refnb.report(s=s).page()
    assert page.count("<script") == 2 and "<img" not in page.split("<script")[0]
    assert "\u202e" not in page
    reader.show(page)
    told = "12 shown of 40: first better on 12, second on 0; both right on 20, both wrong on 8."
    assert reader.text("#counts") == told
    cells = "[...document.querySelectorAll('#rows tr:first-child td')].map(e => e.textContent)"
    assert reader.js(cells)[1:] == ["✓ right, chose B", "✗ wrong, chose A"]
    reader.js("document.querySelector('details').open = true")
    reader.js("document.querySelector('button[data-item]').click()")
    assert reader.js("document.querySelectorAll('#rows tr').length") == 1
    assert reader.js("window.ran ?? 'no'") == "no" and "<img" in reader.text("#rows td")
    reader.phone()
    assert reader.js("document.documentElement.scrollWidth <= innerWidth")
