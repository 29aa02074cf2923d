"Matching by heads, words and zeros: beside CorefUD's scorer, and what is told or refused."

import json, os, subprocess, sys, tracemalloc
import pytest
import corefud
from refnb import Document, score_coref
from refnb.core.conll import conllu_text, parse_conllu
from refnb.core.corpora import sample
from refnb.core.documents import tidy
from refnb.core.types import CallError, DataError, FormatError, Span
from refnb.metrics.matching import with_heads
from tools import DATA, here, one_line

KNOWN = json.loads(  # printed by CorefUD's scorer 1.2 for seeds 0 to 59
    (DATA / "corefud_scores.json").read_text()
)


def parsed(text: str) -> list[Document]:
    return parse_conllu(text.encode(), "f.conllu", True)


def setting(name: str) -> dict:
    match, singletons, zeros = name.split()
    how = {"match": match, "singletons": singletons == "True", "zeros": zeros}
    return how | {"metrics": KNOWN["metrics"]}


@pytest.fixture(scope="module")
def texts() -> tuple[str, str]:
    return corefud.files(range(60))


@pytest.fixture(scope="module")
def made(texts) -> tuple[list[Document], list[Document]]:
    gold, predicted = texts
    return parsed(gold), parsed(predicted)


# CorefUD's scorer


@pytest.mark.parametrize("name", KNOWN["settings"])
def test_every_digit_of_corefuds_scorer(made, name):
    s, at = score_coref(*made, **setting(name)), KNOWN["settings"].index(name)
    pooled = s.pooled()
    for m, want in zip(KNOWN["metrics"], KNOWN["pooled"][at], strict=True):
        values = (pooled[m].recall, pooled[m].precision, pooled[m].f1)
        assert [f"{100 * v:.2f}" for v in values] == [f"{v:.2f}" for v in want], m
    for key, want in KNOWN["f1"].items():
        got = [f"{100 * s.one(key)[m].f1:.2f}" for m in KNOWN["metrics"]]
        assert got == [f"{v:.2f}" for v in want[at]], key


def test_the_documents_hold_what_is_hard(made):
    "Gaps, zeros on one side only, empty predictions, equal heads: what the comparison is for."
    gold, predicted = made
    assert sum(any(map(any, d.labels.get("words", ()))) for d in gold) > 5
    assert len(score_coref(gold, predicted, match="head").lone) > 3
    assert any(g.clusters and not p.clusters for g, p in zip(gold, predicted, strict=True))
    heads = [[h for c in d.labels.get("head", ()) for h in c] for d in gold]
    assert sum(len(set(h)) < len(h) for h in heads) > 20


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_2000_documents_beside_corefud(tmp_path, first):
    scorer = os.environ.get("REFNB_COREFUD_SCORER")
    if not scorer:
        pytest.skip(
            "needs CorefUD's scorer: set REFNB_COREFUD_SCORER to its folder (and "
            "REFNB_COREFUD_PYTHON to a Python with udapi)"
        )
    texts = corefud.files(range(first, first + 500))
    paths = [tmp_path / "gold.conllu", tmp_path / "predicted.conllu"]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    python = os.environ.get("REFNB_COREFUD_PYTHON", sys.executable)
    script = DATA.parent / "corefud_reference.py"
    got = subprocess.run([python, script, scorer, *paths], capture_output=True, text=True)
    assert not got.returncode, got.stderr[-2000:]
    gold, predicted = map(parsed, texts)
    for name in KNOWN["settings"]:
        s = score_coref(gold, predicted, **setting(name))
        for key, scores in json.loads(got.stdout).items():
            ours = s.one(key) if key else s.pooled()
            for m, want in scores[name].items():
                values = [100 * v for v in (ours[m].recall, ours[m].precision, ours[m].f1)]
                assert values == pytest.approx(want, abs=1e-9), (name, key, m)


# Laws


def changed(d: Document) -> Document:
    "A prediction: every third mention loses its first word, every fifth is left out."
    clusters = [
        [Span(s.start + (s.end > s.start and i % 3 == 0), s.end) for i, s in enumerate(c) if i % 5]
        for c in d.clusters
    ]
    return d.changed(clusters=tidy(dict.fromkeys(c) for c in clusters if c), names=(), labels={})


def test_exact_match_by_spans_and_by_words_is_the_same_and_others_find_more():
    gold, predicted = sample(), [changed(d) for d in sample()]
    by_spans = score_coref(gold, predicted)
    by_words = score_coref(
        gold, predicted, zeros="linear", metrics=by_spans.pooled().keys() - {"conll"}
    )
    assert by_spans.pooled() == by_words.pooled() and not by_spans.note
    right = {
        match: score_coref(gold, predicted, match=match, metrics=["mentions"]).sums()["mentions"]
        for match in ("exact", "head", "partial")
    }
    exact, head, partial = (x.right_predicted for x in right.values())
    assert exact < head <= right["head"].predicted and exact < partial


def test_a_book_matched_by_heads_needs_little_memory():
    """5,000 mentions a side with shared heads: a dense matrix would have 200 MB. Of two mentions
    with one head the longer ones belong together, for so most words are shared."""
    gold, predicted = [[], []], [[], []]
    for at in range(0, 20_000, 8):
        for side, ends in ((gold, (1, 5)), (predicted, (2, 4))):
            for cluster, end in zip(side, ends, strict=True):
                cluster.append(Span(at, at + end))
    words = (("w",) * 8,) * 2500

    def doc(clusters):
        heads = tuple(tuple(str(s.start) for s in c) for c in clusters)
        return Document("d", words, tuple(map(tuple, clusters)), labels={"head": heads})

    tracemalloc.start()
    try:
        got = score_coref(doc(gold), doc(predicted), match="head").pooled()
        assert got["conll"].f1 == 1 and tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()


# Heads


def tree(*rows: tuple[str, str, str], fields: str = "eid-etype") -> str:
    lines = [
        "\t".join((str(i), w, *"____", h, "_", "_", misc)) for i, (w, h, misc) in enumerate(rows, 1)
    ]
    return "\n".join(["# newdoc id = d", f"# global.Entity = {fields}", *lines, ""])


REST = (("dog", "4", ""), ("that", "2", "Entity=e1)"), ("barked", "0", ""))
BARKED = tree(("the", "2", "Entity=(e1"), *REST)


def headed(head: int) -> str:
    return tree(("the", "2", f"Entity=(e1--{head}"), *REST, fields="eid-etype-head")


def test_a_head_is_annotated_or_found_in_a_tree_golds_too():
    [annotated], [by_tree] = parsed(headed(3)), parsed(BARKED)
    heads = [with_heads(d).labels["head"] for d in (annotated, by_tree)]
    assert heads == [(("2",),), (("1",),)]
    other = Document("d", (("the", "dog", "that", "barked"),), ((Span(1, 2),),))
    got = score_coref(by_tree, other, match="head")
    assert got.pooled()["mentions"].f1 == 1 and "by rule" not in repr(got)
    odd = D.changed(labels={"head": (("dog", "it"),)})  # no heads: those of the rule do
    assert with_heads(odd).labels["head"] == (("1", "2"),)


def test_heads_by_rule_and_heads_that_were_unknown_to_a_writer_are_told():
    d = sample()[0]
    assert "mentions by rule: english" in repr(score_coref(d, d, match="head"))
    [back] = parse_conllu(conllu_text([d]).encode(), heads=True)
    assert "every head of the prediction is a first word" in score_coref(d, back, match="head").note
    assert "first word" not in score_coref(d, with_heads(d), match="head").note


def test_conllu_keeps_heads():
    def heads(d):
        labelled = zip(d.clusters, d.labels["head"], strict=True)
        return {pair for c, own in labelled for pair in zip(c, own, strict=True)}

    for d in map(with_heads, sample()):
        [back] = parse_conllu(conllu_text([d]).encode(), heads=True)
        assert heads(back) == heads(d)


# Zeros

ZERO = "# newdoc id = d\n# global.Entity = eid-etype-head\n{}\n"
WORD = "1\tVino\t_\t_\t_\t_\t0\t_\t_\tEntity=(e1)"
NODE = "1.1\t_\t_\t_\t_\t_\t_\t_\t{}\tEntity=(e1)"


def with_zero(deps: str, *more: str) -> Document:
    [d] = parsed(ZERO.format("\n".join((WORD, NODE.format(deps), *more))))
    return d


def test_zeros_on_one_side_only_are_scored_and_told():
    gold, [predicted] = with_zero("1:nsubj"), parsed(ZERO.format(WORD))
    s = score_coref(gold, predicted, match="head")
    assert s.lone == ["d"] and "1 with empty nodes on one side only" in repr(s)
    assert s.pooled()["mentions"] == (1.0, 0.5, 2 / 3) and s.counts["d"]["zeros"] == (0, 0, 0, 1)
    with pytest.raises(DataError, match="gold has 2 tokens and the prediction 1"):
        score_coref(gold, predicted)


def test_a_zero_without_dependencies_matches_by_its_place():
    d = with_zero("_")
    assert score_coref(d, d, match="head").counts["d"]["zeros"] == (1, 1, 1, 1)
    [d] = parsed(ZERO.format(f"{WORD}\n{NODE.format('1:x').replace('1.1', '1.' + '9' * 5000)}"))
    assert score_coref(d, d, match="head").pooled()["conll"].f1 > 0  # however long its id is


# Refusals, in one line

D = Document("d", (("the", "dog"), ("it", "barked")), ((Span(0, 1), Span(2, 2)),))
OTHER = D.changed(sentences=(("the", "cat"), ("it", "barked")))
BARE = D.changed(sentences=())
GAPS = tree(("a", "0", "Entity=(e1[1/2])"), ("b", "1", ""), ("c", "1", "Entity=(e1[2/2])"))
CUT = Document("d", (("Vino",), ("x",)))
REFUSED = {
    "an unknown match": (lambda: score_coref(D, D, match="heads"), "did you mean head?"),
    "windows": (lambda: score_coref(D, D, "window", match="head"), "window with match head"),
    "no text": (lambda: score_coref(BARE, BARE, match="head"), "document 'd': has no heads"),
    "other words": (lambda: score_coref(D, OTHER, match="head"), "document 'd': 1 of 4 words"),
    "a head elsewhere": (
        lambda: with_heads(D.changed(labels={"head": (("3", "2"),)})),
        "document 'd': the head 3 of mention [0, 1]",
    ),
    "a head beyond": (lambda: parsed(headed(4)), "f.conllu, line 5, field Entity: head '4'"),
    "gaps in writing": (lambda: conllu_text(parsed(GAPS)), "document 'd': has mentions with gaps"),
    "other sentences": (
        lambda: score_coref(
            with_zero("1:nsubj", "2\tx\t_\t_\t_\t_\t1\t_\t_\t_"), CUT, match="head"
        ),
        "document 'd': the sentences of gold and prediction end at different words",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_matched_is_refused_in_one_line(case):
    make, said = REFUSED[case]
    with pytest.raises((CallError, DataError, FormatError)) as e:
        make()
    assert said in str(e.value) and "\n" not in str(e.value)


# The command


def test_the_command_scores_as_corefud_does(tmp_path, texts, capsys):
    files = [tmp_path / "gold.conllu", tmp_path / "predicted.conllu"]
    for path, text in zip(files, texts, strict=True):
        path.write_text(text)
    asked = {
        "head True dependent": ["--match", "head"],
        "head False dependent": ["--match", "crac2026"],
        "partial False dependent": ["--match", "partial", "--singletons", "drop"],
    }
    for name, options in asked.items():
        said = here(capsys, "score", "coref", *files, *options, "--json")
        got, want = json.loads(said.out), KNOWN["pooled"][KNOWN["settings"].index(name)]
        for m, values in zip(KNOWN["metrics"], want, strict=True):
            assert [round(got[m][k], 2) for k in ("recall", "precision", "f1")] == values, m
        assert got["match"].startswith(f"{name.split()[0]} match, ")
    said = here(capsys, "score", "coref", *files, "--match", "heads")
    one_line(said, 2, "did you mean head?")


def test_mentions_with_gaps_are_compared_by_their_words(tmp_path, capsys):
    "Exact match of hulls would take *took ... up* for *took it up*."
    marks = "(e1) (e2[1/2]) _ (e2[2/2]) _ (e1) (e2)".split()
    words = zip("she took it up for herself it".split(), marks, strict=True)
    text = tree(*((w, "0", "" if x == "_" else f"Entity={x}") for w, x in words))
    gold, hull = tmp_path / "gold.conllu", tmp_path / "hull.conllu"
    gold.write_text(text)
    hull.write_text(text.replace("(e2[1/2])", "(e2").replace("(e2[2/2])", "e2)"))
    for predicted, right, gaps in ((gold, 100, 2), (hull, 75, 1)):
        got = json.loads(here(capsys, "score", "coref", gold, predicted, "--json").out)
        assert got["mentions"]["f1"] == right and f"{gaps} mention" in got["match"]
    said = here(capsys, "score", "coref", gold, hull, "--setting", "split")
    one_line(said, 2, "split", "gaps")
