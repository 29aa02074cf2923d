"`refnb report`: rankings of a folder of runs as one page; what is ranked with what, and that nothing foreign acts."

import html, json, time
import numpy as np
import pytest
import tools
from refnb.core.settings import load_settings
from refnb.core.types import Answer, Option, Question, Usage
from refnb.metrics.comparisons import Credits, rank_systems
from refnb.metrics.uncertainty import cluster_interval
from refnb.models.running import run
from refnb.results.pages.report import (
    Entry,
    Rankings,
    ranking_data,
    make_rankings,
    read_entries,
    read_summaries,
    report,
    split_items,
)

TASK, EVIL = (
    "sample/ferryman",
    "</script><script>window.ran = true</script><img src=x onerror=alert(1)>",
)


@pytest.fixture
def s(tmp_path):
    return load_settings(
        "/", env={}, offline=True, runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports")
    )


@pytest.fixture
def refnb(tmp_path, monkeypatch, capsys):
    "Run a command in this process, in an empty folder."
    tools.live_in(monkeypatch, tmp_path)
    return lambda *args: tools.here(capsys, *args)


def questions(n: int = 40, name: str = "d") -> list[Question]:
    return [
        Question(
            f"{name}{i // 4}:{i}",
            f"{name}{i // 4}",
            f"words {i}",
            (0, 5),
            (Option("a"), Option("b")),
            (i % 2,),
        )
        for i in range(n)
    ]


def answer_by(share: float, usd: float | None = 0.0):
    "A system that is right on a share of the questions, at a price."

    def answers(q: Question) -> Answer:
        k = int(q.id.split(":")[1])
        wrong = (k * 7 + 3) % 40 >= 40 * share
        return Answer(q.id, ((k + wrong) % 2,), usage=Usage(1, 1, usd, 0.5))

    answers.__name__ = f"right{round(100 * share)}"
    return answers


# Numbers


def test_an_interval_is_that_of_score():
    c = Credits(
        ("a", "b"), (np.random.default_rng(0).random((2, 200)) < 0.6) * 1.0, tuple(range(200))
    )
    for r in rank_systems(c):
        assert r.score == cluster_interval(c.values[c.systems.index(r.system)], c.clusters)


def test_equal_scores_share_a_place_and_a_letter():
    same = rank_systems(
        Credits(
            ("a", "b", "c"), np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 1]]), (0, 1, 2, 3)
        )
    )
    assert [(r.system, r.place, r.letters) for r in same] == [
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


# What is ranked


def test_runs_of_one_task_over_the_same_questions(s):
    for share in (0.3, 0.9):
        run(questions(), answer_by(share), s=s)
    run(questions(name="e"), answer_by(0.5), s=s)
    rankings = report(s=s).rankings
    assert sorted([r.system for r in b.ranked] for b in rankings) == [
        ["function/right50"],
        ["function/right90", "function/right30"],
    ]


def test_an_incomplete_or_damaged_run_is_named_and_not_ranked(s):
    run(TASK, "random", s=s)
    run(TASK, "word-overlap", limit=3, s=s)
    broken = run(TASK, "always-first", s=s)
    (broken.folder / "run.json").write_text("{")
    got = report(s=s)
    assert [[r.system for r in b.ranked] for b in got.rankings] == [["random"]]
    assert {(x.system or x.why[:7]) for x in got.left} == {
        "word-overlap",
        "damaged",
    } and "open, 3 of 29 answered" in got.page()


def test_two_runs_of_one_system_have_their_hashes(s):
    run(TASK, "random", s=s)
    entries, _ = read_entries(s=s)
    twice = [entries[0], entries[0]._replace(hash="0" * 12)]
    assert [r.system for r in make_rankings(twice)[0].ranked] == [
        f"random@{entries[0].hash}",
        f"random@{'0' * 12}",
    ]


def test_scores_are_those_of_refnb_score(refnb):
    for system in ("random", "word-overlap"):
        refnb("run", TASK, system)
    told = json.loads(refnb("report", "--json").out)
    for row in told["tasks"][0]["ranking"]:
        group = json.loads(refnb("score", "choice", f"{TASK}:{row['system']}", "--json").out)[
            "groups"
        ]["all"]
        assert (row["score"], row["low"], row["high"]) == pytest.approx(
            (group["accuracy"], group["low"], group["high"])
        )


def test_documents_are_ranked_by_their_f1(s):
    run("sample/bookcoref", "pattern-matching", s=s)
    (b,) = report(s=s).rankings
    assert b.metric == "CoNLL F1, full" and len(b.ids) == 6 and 0 < b.ranked[0].score.value < 1


def test_what_all_or_none_answer(s):
    for share in (0.5, 0.8):
        run(questions(), answer_by(share), s=s)
    run(questions(), "random", s=s)  # guesses: a share of each question
    (b,) = report(s=s).rankings
    everyone, nobody = split_items(b)
    assert (len(everyone), len(nobody)) == (20, 8)


def test_committed_summaries_are_ranked(tmp_path):
    rankings = make_rankings(read_summaries(["identifyme/test"], tools.ROOT / "reports"))
    names = [r.system for r in max(rankings, key=lambda b: len(b.ranked)).ranked]
    assert names[0] == "published/gpt-4o" and len(names) >= 5


def test_a_report_of_nothing(refnb, tmp_path):
    tools.one_line(refnb("report"), 1, "there are no runs; refnb run makes one")
    tools.one_line(refnb("report", "nowhere"), 1, "no such folder")
    assert not (tmp_path / "report.html").exists()


def test_six_runs_of_five_hundred_questions_are_quick():
    rng, ids = np.random.default_rng(0), [f"d{i // 5}:{i}" for i in range(500)]
    docs, entries = {i: i.split(":")[0] for i in ids}, []
    for k in range(6):
        credit = dict(zip(ids, (rng.random(500) < 0.4 + 0.05 * k) * 1.0))
        entries.append(Entry("t", f"s{k}", "0" * 12, "q", "accuracy", credit, docs, {}, {}))
    start = time.process_time()
    page = Rankings(make_rankings(entries)).page()
    assert time.process_time() - start < 5 and len(page) < 200_000


# The page


def test_the_page_is_one_file_without_texts_of_others(s):
    run(questions(), answer_by(0.5), s=s)
    run(TASK, "random", s=s)
    made = report(s=s)
    page = made.page()
    assert "words 3" not in page and "://" not in page and "src=" not in page
    given, sample = sorted(map(ranking_data, made.rankings), key=lambda b: b["task"])
    assert given["texts"] == {} and len(sample["texts"]) == 29
    assert "ferry" in str(sample["texts"]).lower()


def test_systems_have_titles_and_no_hashes(s):
    run(TASK, "word-overlap", s=s)
    shown = report(s=s)._repr_html_()
    assert ">Word overlap</td>" in shown and "<code>" not in shown


def test_costs(s):
    for share, usd in ((0.3, 0.001), (0.6, 0.1), (0.8, None)):
        run(questions(), answer_by(share, usd), s=s)
    page = report(s=s)._repr_html_()
    assert page.count('<img class=cost src="data:image/png;base64,') == 1
    assert "Unknown cost: function/right80" in page and ">0.04</td>" in page


def test_two_systems_side_by_side_and_foreign_text_is_inert(reader, s):
    odd = [q.changed(id=f"{q.id}{EVIL}\u202e", doc_key=EVIL) for q in questions()]
    for share in (0.5, 0.8):
        answer = answer_by(share)

        def answers(q, answer=answer):
            return answer(q.changed(id=q.id.split("<")[0])).chosen[0]

        answers.__name__ = answer.__name__
        run(odd, answers, s=s)
    page = report(s=s).page()
    assert page.count("<script") == 2 and "<img" not in page
    assert html.escape("</script><script>") in page and "\u202e" not in page.split("<script")[0]
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
