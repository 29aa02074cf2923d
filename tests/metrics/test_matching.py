"Matching of mentions: CorefUD's scorer on documents made from seeds, heads, exact match both ways, refusals, the command."

import json, os, subprocess, sys
from pathlib import Path
import pytest
import corefud
from refnb.core.conllu import conllu_text, parse_conllu
from refnb.core.corpora import sample
from refnb.core.documents import Document, tidy
from refnb.core.types import CallError, DataError, FormatError, Span
from refnb.metrics import matching
from refnb.metrics.coref import METRICS
from refnb.metrics.coref_scores import score_coref
from refnb.metrics.matching import empty_nodes, match_document, with_heads
from refnb.commands.cli import main

HERE = Path(__file__).parents[1] / "helpers"
KNOWN = json.loads(
    (HERE / "data/corefud_scores.json").read_text()
)  # printed by CorefUD's scorer 1.2 for seeds 0 to 59


def parsed(text: str) -> list[Document]:
    return parse_conllu(text.encode(), "f.conllu", True)


def setting(name: str) -> dict:
    match, singletons, zeros = name.split()
    return {
        "match": match,
        "singletons": singletons == "True",
        "zeros": zeros,
        "metrics": KNOWN["metrics"],
    }


@pytest.fixture(scope="module")
def made() -> tuple[list[Document], list[Document]]:
    gold, predicted = corefud.files(range(60))
    return parsed(gold), parsed(predicted)


# CorefUD's scorer


@pytest.mark.parametrize("name", KNOWN["settings"])
def test_every_digit_of_corefud(made, name):
    s, at = score_coref(*made, **setting(name)), KNOWN["settings"].index(name)
    pooled = s.pooled()
    for m, want in zip(KNOWN["metrics"], KNOWN["pooled"][at], strict=True):
        assert [
            f"{100 * v:.2f}" for v in (pooled[m].recall, pooled[m].precision, pooled[m].f1)
        ] == [f"{v:.2f}" for v in want], m
    for key, want in KNOWN["f1"].items():
        one = s.one(key)
        assert [f"{100 * one[m].f1:.2f}" for m in KNOWN["metrics"]] == [
            f"{v:.2f}" for v in want[at]
        ], key


@pytest.fixture
def scorer() -> str:
    "The folder of CorefUD's scorer."
    if folder := os.environ.get("REFNB_COREFUD_SCORER"):
        return folder
    pytest.skip(
        "needs CorefUD's scorer: set REFNB_COREFUD_SCORER to its folder (and REFNB_COREFUD_PYTHON to a Python with udapi)"
    )


def reference(folder: str, gold: Path, predicted: Path) -> dict:
    python = os.environ.get("REFNB_COREFUD_PYTHON", sys.executable)
    got = subprocess.run(
        [python, HERE / "corefud_reference.py", folder, gold, predicted],
        capture_output=True,
        text=True,
    )
    assert not got.returncode, got.stderr[-2000:]
    return json.loads(got.stdout)


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_2000_documents_beside_corefud(tmp_path, scorer, first):
    texts = corefud.files(range(first, first + 500))
    paths = [tmp_path / "gold.conllu", tmp_path / "predicted.conllu"]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    theirs, (gold, predicted) = reference(scorer, *paths), map(parsed, texts)
    for name in KNOWN["settings"]:
        s = score_coref(gold, predicted, **setting(name))
        for key, scores in theirs.items():
            ours = s.one(key) if key else s.pooled()
            for m, want in scores[name].items():
                assert [
                    100 * ours[m].recall,
                    100 * ours[m].precision,
                    100 * ours[m].f1,
                ] == pytest.approx(want, abs=1e-9), (name, key, m)


def test_what_the_seeds_hold(made):
    "Ties, gaps, zeros that moved, empty predictions: what the comparison is for."
    gold, predicted = made
    assert sum(any(map(any, d.labels.get("words", ()))) for d in gold) > 5
    assert (
        sum(empty_nodes(g).values() != empty_nodes(p).values() for g, p in zip(gold, predicted))
        > 20
    )
    assert any(g.clusters and not p.clusters for g, p in zip(gold, predicted))
    heads = [[h for c in d.labels.get("head", ()) for h in c] for d in gold]
    assert sum(len(set(h)) < len(h) for h in heads) > 20


# Exact match


def changed(d: Document) -> Document:
    "A prediction: every third mention loses its first word, every fifth is left out."
    clusters = [
        [Span(s.start + (s.end > s.start and i % 3 == 0), s.end) for i, s in enumerate(c) if i % 5]
        for c in d.clusters
    ]
    return d.changed(clusters=tidy(dict.fromkeys(c) for c in clusters if c), names=(), labels={})


def test_exact_match_by_spans_and_by_words_is_the_same():
    gold, predicted = sample(), [changed(d) for d in sample()]
    by_spans, by_words = (
        score_coref(gold, predicted, zeros=z, metrics=METRICS) for z in ("", "linear")
    )
    assert by_spans.counts == by_words.counts and not by_spans.note


def test_matches_by_their_order():
    "What matches exactly matches in every way, and a head tells more mentions apart than it joins wrongly."
    for g in sample():
        p = changed(g)
        exact, head, partial = (
            len(match_document(g, p, m).pairs) for m in ("exact", "head", "partial")
        )
        assert exact < head <= len(p.mentions) and exact < partial


def test_a_book_without_a_dense_matrix_has_the_same_sum(made, monkeypatch):
    def total(g, p):
        pairs = match_document(g, p, "head", "linear").pairs
        return sum(len(a.words & b.words) / len(a.words) for a, b in pairs)

    pairs = list(zip(*made))[:30]
    dense = [total(g, p) for g, p in pairs]
    monkeypatch.setattr(matching, "_DENSE", 0)
    for (g, p), want in zip(pairs, dense, strict=True):
        assert total(g, p) == pytest.approx(want)


# Heads


def tree(*rows: tuple[str, str], fields: str = "eid-etype") -> str:
    lines = [
        "\t".join((str(i), w, *"____", h, "_", "_", misc)) for i, (w, h, misc) in enumerate(rows, 1)
    ]
    return "\n".join(["# newdoc id = d", f"# global.Entity = {fields}", *lines, ""])


BARKED = (
    ("the", "2", "Entity=(e1"),
    ("dog", "4", ""),
    ("that", "2", "Entity=e1)"),
    ("barked", "0", ""),
)


def test_a_head_is_annotated_or_found_in_the_tree():
    [annotated] = parsed(tree(("the", "2", "Entity=(e1--3"), *BARKED[1:], fields="eid-etype-head"))
    [parsed_] = parsed(tree(*BARKED))
    assert (with_heads(annotated).labels["head"], with_heads(parsed_).labels["head"]) == (
        (("2",),),
        (("1",),),
    )
    other = Document(
        "d", (("the", "dog", "that", "barked"),), ((Span(1, 2),),)
    )  # gold's tree serves it
    found = match_document(parsed_, other)
    assert len(found.pairs) == 1 and found.by_rule == 0


def test_heads_by_rule_are_told():
    s = score_coref(sample()[0], sample()[0], match="head")
    assert "mentions by rule: english (the last word before" in repr(s)


def test_conllu_keeps_heads():
    for d in sample():
        d = with_heads(d)
        [back] = parse_conllu(conllu_text([d]).encode(), heads=True)
        assert {
            (s, h) for c, l in zip(back.clusters, back.labels["head"]) for s, h in zip(c, l)
        } == {(s, h) for c, l in zip(d.clusters, d.labels["head"]) for s, h in zip(c, l)}


def test_a_writer_that_knows_no_heads_is_told():
    [back], d = parse_conllu(conllu_text(sample()[:1]).encode(), heads=True), sample()[0]
    assert "every head of the prediction is a first word" in score_coref(d, back, match="head").note
    assert "first word" not in score_coref(d, with_heads(d), match="head").note


# Refusals, in one line

D = Document("d", (("the", "dog"), ("it", "barked")), ((Span(0, 1), Span(2, 2)),))


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: score_coref(D, D, match="heads"), "unknown match 'heads'; did you mean head?"),
        (
            lambda: score_coref(D, D, "window", match="head"),
            "setting window with match head; windows are scored by exact match of spans",
        ),
        (
            lambda: score_coref(D.changed(sentences=()), D.changed(sentences=()), match="head"),
            "document 'd': has no heads, and no text to find them in; give a file with the sentences, or match exact",
        ),
        (
            lambda: score_coref(
                D, D.changed(sentences=(("the", "cat"), ("it", "barked"))), match="head"
            ),
            "document 'd': 1 of 4 words differ",
        ),
        (
            lambda: with_heads(D.changed(labels={"head": (("3", "2"),)})),
            "document 'd': the head 3 of mention [0, 1] lies outside of it",
        ),
        (
            lambda: parsed(
                tree(("the", "2", "Entity=(e1--4"), *BARKED[1:], fields="eid-etype-head")
            ),
            "f.conllu, line 5, field Entity: head '4' of a mention of 3 words",
        ),
        (
            lambda: conllu_text(
                parsed(
                    tree(
                        ("a", "0", "Entity=(e1[1/2])"),
                        ("b", "1", ""),
                        ("c", "1", "Entity=(e1[2/2])"),
                    )
                )
            ),
            "document 'd': has mentions with gaps or empty nodes, which refnb reads but does not write",
        ),
    ],
)
def test_refusals(make, said):
    with pytest.raises((CallError, DataError, FormatError)) as e:
        make()
    assert said in str(e.value) and "\n" not in str(e.value)


ZERO = "# newdoc id = d\n# global.Entity = eid-etype-head\n{}\n"
WORD, NODE = (
    "1\tVino\t_\t_\t_\t_\t0\t_\t_\tEntity=(e1)",
    "1.1\t_\t_\t_\t_\t_\t_\t_\t{}\tEntity=(e1)",
)


def test_zeros_in_one_file_only_are_scored_and_told():
    [gold], [predicted] = (
        parsed(ZERO.format("\n".join((WORD, NODE.format("1:nsubj"))))),
        parsed(ZERO.format(WORD)),
    )
    s = score_coref(gold, predicted, match="head")
    assert s.lone == ["d"] and "1 with empty nodes on one side only" in repr(s)
    assert s.pooled()["mentions"] == (1.0, 0.5, 2 / 3) and s.counts["d"]["zeros"] == (0, 0, 0, 1)
    with pytest.raises(DataError, match="gold has 2 tokens and the prediction 1"):
        score_coref(gold, predicted)


def test_a_zero_without_dependencies_matches_by_its_place():
    [d] = parsed(ZERO.format("\n".join((WORD, NODE.format("_")))))
    assert score_coref(d, d, match="head").counts["d"]["zeros"] == (1, 1, 1, 1)


def test_a_label_that_is_no_head_and_a_long_id_do_no_harm():
    assert with_heads(D.changed(labels={"head": (("dog", "it"),)})).labels["head"] == (("1", "2"),)
    [d] = parsed(
        ZERO.format("\n".join((WORD, NODE.format("1:x").replace("1.1", "1." + "9" * 5000))))
    )
    assert score_coref(d, d, match="head").pooled()["conll"].f1 > 0


def test_sentences_that_differ_around_zeros():
    [gold] = parsed(
        ZERO.format("\n".join((WORD, NODE.format("1:nsubj"), "2\tx\t_\t_\t_\t_\t1\t_\t_\t_")))
    )
    with pytest.raises(
        DataError, match="document 'd': the sentences of gold and prediction end at different words"
    ):
        score_coref(gold, Document("d", (("Vino",), ("x",))), match="head")


# The command


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in zip(
        ("gold.conllu", "predicted.conllu"), corefud.files(range(60)), strict=True
    ):
        Path(name).write_text(text)
    asked = {
        "head True dependent": ["--match", "head"],
        "head False dependent": ["--match", "crac2026"],
        "partial False dependent": ["--match", "partial", "--singletons", "drop"],
    }
    for name, options in asked.items():
        match = name.split()[0]
        status = main(["score", "coref", "gold.conllu", "predicted.conllu", *options, "--json"])
        got, want = (
            json.loads(capsys.readouterr().out),
            KNOWN["pooled"][KNOWN["settings"].index(name)],
        )
        assert not status
        for m, values in zip(KNOWN["metrics"], want, strict=True):
            assert [round(got[m][k], 2) for k in ("recall", "precision", "f1")] == values, m
        assert (
            got["match"].startswith(f"{match} match, ")
            and "mentions with gaps by their words" in got["match"]
        )
    for options, said in ((["--match", "heads"], "did you mean head?"),):
        assert (
            main(["score", "coref", "gold.conllu", "predicted.conllu", *options]) == 2
            and said in capsys.readouterr().err
        )


def test_the_command_compares_the_words_of_mentions_with_gaps(tmp_path, monkeypatch, capsys):
    "Exact match of hulls would take *took ... up* for *took it up*."
    monkeypatch.chdir(tmp_path)
    words = [
        ("she", "Entity=(e1)"),
        ("took", "Entity=(e2[1/2])"),
        ("it", ""),
        ("up", "Entity=(e2[2/2])"),
        ("for", ""),
        ("herself", "Entity=(e1)"),
        ("it", "Entity=(e2)"),
    ]
    gold = tree(*((w, "0", x) for w, x in words))
    hull = gold.replace("(e2[1/2])", "(e2").replace("(e2[2/2])", "e2)")
    Path("gold.conllu").write_text(gold), Path("hull.conllu").write_text(hull)
    for predicted, right in (("gold", 100), ("hull", 75)):
        assert not main(["score", "coref", "gold.conllu", f"{predicted}.conllu", "--json"])
        got = json.loads(capsys.readouterr().out)
        assert got["mentions"]["f1"] == right
        assert got["match"] == (
            "exact match, 2 mentions with gaps by their words"
            if right == 100
            else "exact match, 1 mention with gaps by their words"
        )
    assert (
        main(["score", "coref", "gold.conllu", "hull.conllu", "--setting", "split"]) == 2
        and "split with match exact of mentions with gaps" in capsys.readouterr().err
    )
