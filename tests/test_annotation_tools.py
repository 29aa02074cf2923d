"Exports of annotation tools, agreement of several annotators, merging, and the command that does all three."

import json
from itertools import combinations
from pathlib import Path
import numpy as np
import pytest
from annotation_tools import brat, json_cas, project, structures, studio, xmi
from hypothesis import given, strategies as st
from refnb.core import standoff
from refnb.core.corpora import sample
from refnb.core.documents import Document, tidy
from refnb.core.reading import read_annotations, read_documents
from refnb.core.types import CallError, DataError, FormatError, RefnbError, Span
from refnb.metrics.chain_agreement import (
    aligned_versions,
    chain_agreement,
    disagreement,
    merge_annotations,
    merge_versions,
)
from refnb.metrics.coref_scores import score_coref
from refnb.metrics.uncertainty import summed_interval
from refnb.commands.cli import main
from refnb.results.pages.disagreements import disagreement_page
from tools import examples, growth

STORY = Document(
    "story",
    (
        ("😀", "Ann", "Lee", "met", "<Bea>", "&", "me", "."),
        ("She", "sang", "𝔸", "&amp;", "we", "left", "."),
    ),
    ((Span(1, 2), Span(8, 8)), (Span(4, 4),), (Span(1, 6), Span(6, 6), Span(10, 12))),
)


# Readers


def same(found: list[Document], d: Document = STORY):
    [got] = found
    assert (got.sentences, tidy(got.clusters)) == (d.sentences, tidy(d.clusters)), got


FORMS = {
    "inception xmi": xmi(structures(STORY)),
    "inception json": json_cas(structures(STORY)),
    "anchors": json_cas(
        [
            {{"begin": "^begin", "end": "^end"}.get(k, k): v for k, v in s.items()}
            for s in structures(STORY)
        ]
    ),
    "coref annotator 1": xmi(structures(STORY, "v1")),
    "coref annotator 2": xmi(structures(STORY, "v2")),
    "coref annotator json": json_cas(structures(STORY, "v2")),
    "project": project({"anna": STORY}),
    "nested project": project({"anna": STORY}, nested=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_story_with_characters_of_two_units_through_every_cas(form, tmp_path):
    (tmp_path / "story").write_bytes(FORMS[form])
    same(read_documents(tmp_path / "story"))
    assert [d.doc_key for d in read_documents(tmp_path / "story")] == ["story"]


@pytest.mark.parametrize("equiv", [True, False])
def test_brat_is_found_out_beside_its_text(equiv, tmp_path):
    d = sample()[0]
    ann, txt = brat(d, equiv)
    (tmp_path / "a.ann").write_bytes(b"#1\tAnnotatorNotes T1\tx\n" + ann)
    with pytest.raises(DataError, match="the file of the text"):
        read_documents(tmp_path / "a.ann")
    (tmp_path / "a.txt").write_bytes(txt)
    [got] = read_documents(tmp_path / "a.ann")
    assert tidy(got.clusters) == tidy(d.clusters) and got.tokens == d.tokens and not got.meta


def test_label_studio_by_several_people(tmp_path):
    d = sample()[0].changed(names=(), labels={})
    other = d.changed(clusters=d.clusters[1:])
    (tmp_path / "f.json").write_bytes(studio({"anna@x": [d], "ben@x": [other]}))
    with pytest.raises(DataError, match='was annotated by anna@x, ben@x; name one, as by="anna@x"'):
        read_documents(tmp_path / "f.json")
    found = read_annotations(tmp_path / "f.json")
    assert {who: tidy(docs[0].clusters) for who, docs in found.items()} == {
        "anna@x": tidy(d.clusters),
        "ben@x": tidy(other.clusters),
    }
    assert tidy(read_documents(tmp_path / "f.json", by="ben@x")[0].clusters) == tidy(other.clusters)
    with pytest.raises(CallError, match="did you mean ben@x"):
        read_documents(tmp_path / "f.json", by="ben@")


def test_labels_are_entities_where_a_file_has_no_relations():
    task = json.loads(studio({"anna": [STORY]}))[0]
    regions = [r for r in task["annotations"][0]["result"] if r["type"] != "relation"]
    for r in regions:
        r["value"]["labels"] = ["AB"[r["id"] < "r1"]]
    [got] = standoff.parse_label_studio(
        json.dumps([task | {"annotations": [{"result": regions}]}]).encode(), "f"
    )
    assert dict(zip(got.names, map(len, got.clusters))) == {"A": 4, "B": 2}


def test_a_project_of_two_people_is_read_by_name(tmp_path):
    other = STORY.changed(clusters=STORY.clusters[:1])
    for nested in (False, True):
        (tmp_path / "p.zip").write_bytes(project({"anna": STORY, "ben": other}, nested))
        assert {k: tidy(d.clusters) for k, [d] in read_annotations(tmp_path / "p.zip").items()} == {
            "anna": tidy(STORY.clusters),
            "ben": other.clusters,
        }


def test_words_come_from_the_text_where_the_cas_has_none():
    found = [s for s in structures(sample()[0]) if not s["%TYPE"].endswith(("Token", "Sentence"))]
    [got] = standoff.parse_cas(xmi(found), "f.xmi")
    assert got.tokens == sample()[0].tokens and tidy(got.clusters) == tidy(sample()[0].clusters)


def test_arrays_of_surfaces_and_a_title():
    found = structures(STORY, "v2", "My story.txt")
    for s in [s for s in found if s["%TYPE"].endswith("v2.Mention")]:
        found.append(
            {
                "%ID": 1000 + s["%ID"],
                "%TYPE": "uima.cas.FSArray",
                "%ELEMENTS": [s["@Surface"], None],
            }
        )
        s["@Surface"] = 1000 + s["%ID"]
    same(got := standoff.parse_cas(json_cas(found), "f.json"))
    assert got[0].doc_key == "My story"


def test_an_empty_file_of_brats_beside_a_text_means_that_nothing_was_marked(tmp_path):
    for name, data in (("a.ann", b""), ("a.txt", b"Ann sang."), ("b.ann", b"")):
        (tmp_path / name).write_bytes(data)
    [got] = read_documents(tmp_path / "a.ann")
    assert (got.tokens, got.clusters) == (["Ann", "sang", "."], ())
    with pytest.raises(FormatError, match="the file is empty"):
        read_documents(tmp_path / "b.ann")


def test_regions_of_label_studio_that_count_code_points():
    [usual] = standoff.parse_label_studio(studio({"anna": [STORY]}), "f")
    task = json.loads(studio({"anna": [STORY]}))[0]
    text = task["data"]["text"]
    for r in (r for r in task["annotations"][0]["result"] if r["type"] != "relation"):
        value, units = r["value"], text.encode("utf-16-le")
        value.update({k: len(units[: 2 * value[k]].decode("utf-16-le")) for k in ("start", "end")})
    [got] = standoff.parse_label_studio(json.dumps([task]).encode(), "f")
    assert got == usual and len(got.mentions) == 6
    with pytest.raises(FormatError, match="f, task 1, region r0-0: the text has"):
        standoff.parse_label_studio(json.dumps([task]).replace('Ann Lee"', 'Bob"').encode(), "f")


def test_other_texts_of_a_cas_are_noted():
    found = structures(STORY) + [
        {"%ID": 900, "%TYPE": "uima.cas.Sofa", "sofaID": "other", "sofaString": "x"},
        {"%ID": 901, "%TYPE": "a.CoreferenceLink", "@sofa": 900, "begin": 0, "end": 1},
    ]
    [got] = standoff.parse_cas(json_cas(found), "f.json")
    assert got.meta["notes"] == "CoreferenceLink in another text, left out: 1"


# Damage


def refused(data: bytes, said: str, read=standoff.parse_cas):
    with pytest.raises(RefnbError) as e:
        read(data, "f.x")
    assert (
        said in str(e.value)
        and str(e.value).startswith("f.x")
        and len(str(e.value)) <= 300
        and "\n" not in str(e.value)
    ), str(e.value)


def changed(type: str, n: int = 0, **features) -> list[dict]:
    "The structures with one of a type changed."
    found = structures(STORY)
    [s for s in found if s["%TYPE"].endswith(type)][n].update(
        {k.replace("at_", "@").replace("c_", "%"): v for k, v in features.items()}
    )
    return found


@pytest.mark.parametrize("write", [xmi, json_cas])
def test_a_cas_that_contradicts_itself(write):
    links = [s["%ID"] for s in structures(STORY) if s["%TYPE"].endswith("Link")]
    for found, said in [
        (changed("Link", 0, at_next=9999), "next leads to 9999, which is not here"),
        (changed("Link", 1, at_next=links[0]), "its chain is a circle"),
        (changed("Link", 0, at_next=links[0]), "its chain is a circle"),
        (changed("Link", 0, at_next=2), "which is not a link of its layer"),
        (changed("Link", 2, at_next=links[1]), f"leads to {links[1]}, as {links[0]} does"),
        (changed("Chain", 0, at_first=77777), "first leads to 77777"),
        (changed("Link", 0, begin=99999), "ends before it starts"),
        (changed("Link", 0, end=99999), "offset 99999 is outside of the text"),
        (changed("Link", 0, begin=1), "offset 1 cuts a character in half"),
        (changed("Link", 0, begin=-4), ""),
        (changed("Link", 0, end="x"), "'x' is not a number"),
        (changed("Link", 1, c_ID=links[0]), "two feature structures have this id"),
        (changed("Token", 0, end=5), "two tokens overlap"),
        (changed("Sofa", sofaString=""), "holds no text"),
    ]:
        refused(write(found), said)


def test_an_array_of_parts_belongs_to_one_mention():
    found = structures(STORY, "v2")
    surfaces = [s["%ID"] for s in found if s["%TYPE"].endswith("MentionSurface")]
    for s in found:
        if s["%TYPE"].endswith("v2.Mention"):
            s["@Surface"] = 999
    refused(
        json_cas([*found, {"%ID": 999, "%TYPE": "uima.cas.FSArray", "%ELEMENTS": surfaces}]),
        "has part",
    )


BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9))
    + b"]>"
)


def test_entities_and_document_types_are_refused_in_any_encoding():
    for bomb in (
        BOMB + b"<x>&j;</x>",
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>',
        (BOMB.decode().replace('1.0"', '1.0" encoding="UTF-16"') + "<x>&j;</x>").encode("utf-16"),
    ):
        refused(bomb, "declares a document type")


def test_every_cut_of_every_file_is_read_or_refused_in_one_line():
    ann, txt = brat(STORY)
    readers = [
        (standoff.parse_cas, xmi(structures(STORY))),
        (standoff.parse_cas, json_cas(structures(STORY))),
        (lambda d, w: standoff.parse_label_studio(d, w), studio({"anna": [STORY]})),
        (standoff.parse_project, project({"anna": STORY})),
        (lambda d, w: standoff.parse_brat(d, txt, "d", w), ann),
        (lambda d, w: standoff.parse_brat(ann, d, "d", w), txt),
    ]
    for read, data in readers:
        for n in range(0, len(data), max(1, len(data) // 60)):
            try:
                read(data[:n], "f.x")
            except RefnbError as e:
                assert str(e).startswith("f.x") and len(str(e)) <= 300 and "\n" not in str(e)


def test_an_archive_that_unpacks_to_too_much(monkeypatch):
    monkeypatch.setattr(standoff, "_MOST", 1_000)
    monkeypatch.setattr(standoff, "_RATIO", 1)
    refused(
        project({"anna": STORY.changed(sentences=(STORY.sentences[0] * 500,), clusters=())}),
        "unpacks to more than it should",
        standoff.parse_project,
    )


def test_the_work_grows_with_the_file():
    def long(n: int) -> bytes:
        links = [
            {"%ID": 10 + i, "%TYPE": "a.CoreferenceLink", "begin": 2 * i, "end": 2 * i + 1}
            | ({"@next": 11 + i} if i + 1 < n else {})
            for i in range(n)
        ]
        return xmi(
            [{"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaString": "😀 "[1] + "a " * n}, *links]
        )

    assert growth(lambda data: standoff.parse_cas(data, "f"), long(500), long(2_000)) < 6


# Agreement


def chains(n: int = 9) -> st.SearchStrategy[tuple[tuple[Span, ...], ...]]:
    "Chains of some of n mentions."

    def made(homes: list[int]) -> tuple[tuple[Span, ...], ...]:
        return tuple(
            c for k in range(4) if (c := tuple(Span(i, i) for i, h in enumerate(homes) if h == k))
        )

    return st.lists(st.integers(-1, 3), min_size=n, max_size=n).map(made)


def document(clusters, key: str = "d") -> Document:
    return Document(key, (tuple("abcdefghi"),), clusters)


def slow(docs: list[Document], alone: bool) -> tuple[float, float, int]:
    "Disagreement by its definition: every mention, every pair of values."
    holds = [{s: frozenset(c) for c in d.clusters for s in c} for d in docs]
    items = []
    for s in {s for h in holds for s in h}:
        given = [h.get(s, frozenset([s]) if alone else None) for h in holds]
        items.append([g for g in given if g])
    items = [g for g in items if len(g) > 1]

    def distance(a, b):
        return 0 if a == b else 1 / 3 if a <= b or b <= a else 2 / 3 if a & b else 1

    every = [v for g in items for v in g]
    observed = sum(
        distance(a, b) / (len(g) - 1)
        for g in items
        for i, a in enumerate(g)
        for j, b in enumerate(g)
        if i != j
    )
    expected = (
        sum(distance(a, b) for i, a in enumerate(every) for j, b in enumerate(every) if i != j)
        / (len(every) - 1)
        if every
        else 0
    )
    return observed, expected, len(every)


@examples(200)
@given(st.lists(chains(), min_size=2, max_size=4))
def test_disagreement_is_what_its_definition_says(made):
    docs = list(map(document, made))
    for alone in (True, False):
        assert np.allclose(
            disagreement(docs, "alone" if alone else "missing"), slow(docs, alone)
        ), docs


@examples(60)
@given(st.lists(st.tuples(chains(), chains()), min_size=1, max_size=4))
def test_pairs_have_the_scores_of_the_scorer_and_no_direction(made):
    a, b = ([document(c, f"d{i}") for i, c in enumerate(side)] for side in zip(*made))
    if not any(d.clusters for d in a + b):
        return
    [pair], [back] = (
        chain_agreement({"a": a, "b": b}).pairs,
        chain_agreement({"b": b, "a": a}).pairs,
    )
    said = score_coref(a, b).pooled()
    for m, x in pair.scores.items():
        assert x.value is None and not said[m].f1 or x.value == pytest.approx(said[m].f1)
        assert (
            (x.value, x.low, x.high)
            == pytest.approx((back.scores[m].value, back.scores[m].low, back.scores[m].high))
            if x.low is not None
            else back.scores[m].low is None
        )


def voted(owners: list[dict], a: Span, b: Span) -> bool:
    "Whether enough annotators link two mentions, by counting."
    yes = [k for k, o in enumerate(owners) if a in o and b in o and o[a] == o[b]]
    n = len(owners)
    return 2 * len(yes) > n or n > 2 and 2 * len(yes) == n and 0 in yes


@examples(200)
@given(st.lists(chains(), min_size=2, max_size=5))
def test_merging_is_a_vote_on_every_pair(made):
    docs = {str(i): document(c) for i, c in enumerate(made)}
    owners = [{s: i for i, c in enumerate(d.clusters) for s in c} for d in docs.values()]
    mentions = sorted(s for s in {s for o in owners for s in o} if voted(owners, s, s))
    groups = [{s} for s in mentions]
    for a, b in combinations(mentions, 2):
        if voted(owners, a, b):
            one, two = (next(g for g in groups if s in g) for s in (a, b))
            if one is not two:
                one |= two
                groups.remove(two)
    merged, ties = merge_versions(docs)
    assert merged.clusters == tidy(groups)
    assert tidy(merge_versions(docs, singletons=False)[0].clusters) == tidy(
        g for g in groups if len(g) > 1
    )
    assert all(len(t.annotators) * 2 == len(docs) for t in ties) and (
        len(docs) % 2 == 0 or not ties
    )
    half = {s for o in owners for s in o if 2 * sum(s in p for p in owners) == len(owners)}
    assert {t.at for t in ties if t.antecedent is None} == half


def test_everybody_agrees_with_themselves():
    docs = sample()
    got = chain_agreement({"a": docs, "b": docs, "c": docs})
    assert {x.value for p in got.pairs for x in p.scores.values()} == {
        1.0
    } and got.alpha.value == 1.0
    assert [d.clusters for d in merge_annotations(aligned_versions({"a": docs, "b": docs}))[0]] == [
        tidy(d.clusters) for d in docs
    ]


def test_an_interval_over_many_documents_is_of_resamples():
    counts = np.random.default_rng(0).integers(1, 9, (120, 2))
    got = summed_interval(counts, lambda t: t[:, 0] / t.sum(1), counts.sum(1))
    assert got.low < got.value < got.high and got.clusters == 120
    assert summed_interval(counts[:0], lambda t: t[:, 0], counts[:0, 0]).value is None


def test_documents_of_one_annotator_and_other_texts():
    a, b = sample()[:3], sample()[1:4]
    got = chain_agreement({"a": a, "b": b})
    assert (got.documents, set(got.lone)) == (2, {a[0].doc_key, b[-1].doc_key})
    with pytest.raises(DataError, match="b annotated another text"):
        aligned_versions({"a": [STORY], "b": [STORY.changed(sentences=(("x",) * 15,))]})
    with pytest.raises(CallError, match="unknown value 'no'"):
        chain_agreement({"a": a, "b": b}, unmarked="no")


def test_the_work_of_agreement_grows_with_the_mentions():
    def two(n: int) -> list[Document]:
        one = Document("d", (("x",) * n,), (tuple(Span(i, i) for i in range(n)),))
        return [
            one,
            one.changed(
                clusters=(
                    tuple(Span(i, i) for i in range(0, n, 2)),
                    tuple(Span(i, i) for i in range(1, n, 2)),
                )
            ),
        ]

    def work(docs):
        disagreement(docs)
        merge_versions(dict(zip("abc", [*docs, docs[0]])))

    assert growth(work, two(2_000), two(8_000)) < 7


# The page, and the commands


def test_words_and_names_of_others_are_only_text():
    evil = "<script>x</script>\"'>\u202e"
    a = Document(evil, ((evil, "b"),), ((Span(0, 0),),), (evil,))
    versions = aligned_versions({evil: [a], "b": [a.changed(clusters=((Span(1, 1),),))]})
    page = disagreement_page(versions, chain_agreement(versions), merge_annotations(versions)[1])
    assert "<script" not in page and "\u202e" not in page and "default-src 'none'" in page


@pytest.fixture
def three(tmp_path) -> list[str]:
    "What three people made of the sample's stories, in three formats."
    docs = [d.changed(names=(), labels={}) for d in sample()[:2]]
    for d in docs:
        for who, ends in (
            ("ann", brat(d)),
            (
                "ben",
                [xmi(structures(d.changed(clusters=d.clusters[:-1]), title=f"{d.doc_key}.txt"))],
            ),
        ):
            (tmp_path / who).mkdir(exist_ok=True)
            for end, data in zip(("ann", "txt") if who == "ann" else ("xmi",), ends):
                (tmp_path / who / f"{d.doc_key}.{end}").write_bytes(data)
    (tmp_path / "eve.json").write_bytes(studio({"eve": docs}))
    return [str(tmp_path / p) for p in ("ann", "ben", "eve.json")]


def test_three_people_three_tools_one_command(three, tmp_path, capsys):
    for end in ("conllu", "conll", "jsonl"):
        out, page = tmp_path / f"m.{end}", tmp_path / "p.html"
        assert main(["score", "agreement", *three, "--merged", str(out), "--out", str(page)]) == 0
        said = capsys.readouterr().out
        assert "2 documents by ann, ben, eve" in said and "ann – eve\t100.0 [100.0, 100.0]" in said
        assert [(d.tokens, tidy(d.clusters)) for d in read_documents(out)] == [
            (d.tokens, tidy(d.clusters)) for d in sample()[:2]
        ]
        assert page.read_text().startswith("<!DOCTYPE html>")
    assert main(["score", "agreement", *three[:2], "--merged", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (
        told["annotators"] == ["ann", "ben"]
        and told["pairs"][0]["conll"]["value"] < 1
        and told["alpha"]["clusters"] == 2
    )
    assert {t["antecedent"] for t in told["ties"]} == {None} and not any(
        t["kept"] for t in told["ties"]
    )


def test_calls_that_cannot_be_meant(three, capsys, tmp_path):
    for args, said, status in [
        (three[:1], "1 annotator; give the files of two or more", 2),
        ([three[0], three[0]], "a file is named twice", 2),
        ([*three[:2], "--unmarked", "x"], "unknown value 'x'", 2),
        ([*three[:2], "--merged", "x.doc"], "no format is written as .doc", 2),
        ([three[0], str(tmp_path)], "", None),
    ]:
        got = main(["score", "agreement", *args])
        err = capsys.readouterr().err
        if status is not None:
            assert got == status and said in err and len(err.strip().splitlines()) == 1, err


def test_any_readable_file_in_three_formats(three, tmp_path, capsys):
    source = sorted(Path(three[1]).iterdir())[0]
    for end in ("conllu", "conll", "jsonl.gz"):
        assert (
            main(["export", str(source), "--to", "documents", "--out", str(tmp_path / f"x.{end}")])
            == 0
        )
        assert tidy(read_documents(tmp_path / f"x.{end}")[0].clusters) == tidy(
            read_documents(source)[0].clusters
        )
    assert main(["score", "coref", str(source), str(tmp_path / "x.conll")]) == 0
    (tmp_path / "two.json").write_bytes(studio({"ann": [STORY], "ben": [STORY]}))
    capsys.readouterr()
    assert (
        main(
            [
                "export",
                str(tmp_path / "two.json"),
                "--to",
                "documents",
                "--out",
                str(tmp_path / "y.jsonl"),
            ]
        )
        == 1
    )
    assert "was annotated by ann, ben" in capsys.readouterr().err
    assert (
        main(
            [
                "export",
                str(tmp_path / "two.json"),
                "--to",
                "documents",
                "-p",
                "by=ben",
                "--out",
                str(tmp_path / "y.jsonl"),
            ]
        )
        == 0
    )


def test_questions_are_built_of_an_export(tmp_path):
    for end, data in zip(("ann", "txt"), brat(sample()[2])):
        (tmp_path / f"story.{end}").write_bytes(data)
    assert (
        main(
            [
                "build",
                "identifyme",
                "--corpus",
                str(tmp_path / "story.ann"),
                "--out",
                str(tmp_path / "q.jsonl"),
            ]
        )
        == 0
    )


def test_what_a_reader_left_out_is_told(tmp_path, capsys):
    ann, txt = brat(STORY)
    (tmp_path / "a.ann").write_bytes(ann + b"T90\tX 2 4\tAn\nR9\tKin Arg1:T0 Arg2:T1\nE1\tGo:T1\n")
    (tmp_path / "a.txt").write_bytes(txt)
    assert main(["score", "coref", str(tmp_path / "a.ann"), str(tmp_path / "a.ann")]) == 0
    assert (
        "events, left out: 1; relations Kin, left out: 1; mentions that cut a word, widened to it: 1"
        in capsys.readouterr().err
    )


# MMAX2

WORDS = [f"w{i}" for i in range(8)] + ["."] + [f"v{i}" for i in range(5)]


def mmax_words(words=WORDS, first: int = 1) -> bytes:
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE words SYSTEM "words.dtd">\n<words>\n'
        + "".join(f'<word id="word_{i}">{w}</word>\n' for i, w in enumerate(words, first))
        + "</words>"
    ).encode()


def mmax_level(*markables: tuple[str, str]) -> bytes:
    return (
        '<!DOCTYPE markables SYSTEM "markables.dtd"><markables xmlns="www.eml.org/NameSpaces/coref">'
        + "".join(
            f'<markable id="markable_{i}" span="{span}" coref_set="{group}" mmax_level="coref"/>'
            for i, (span, group) in enumerate(markables)
        )
        + "</markables>"
    ).encode()


@pytest.mark.parametrize("inside", ["Basedata", "basedata", "."])
def test_a_project_of_mmax_is_read(tmp_path, inside):
    (tmp_path / "markables").mkdir()
    base = tmp_path / "markables" if inside == "." else tmp_path / inside
    base.mkdir(exist_ok=True)
    (base / "fable_words.xml").write_bytes(mmax_words())
    path = tmp_path / "markables/fable_coref_level.xml"
    path.write_bytes(
        mmax_level(
            ("word_1", "set_1"),
            ("word_3..word_4", "set_1"),
            ("word_6,word_8", "set_2"),
            ("word_10", "set_2"),
            ("word_2", "empty"),
        )
    )
    [d] = read_documents(path)
    assert (d.doc_key, [len(s) for s in d.sentences]) == ("fable", [9, 5])
    assert d.clusters == ((Span(0, 0), Span(2, 3)), (Span(5, 7), Span(9, 9)))
    assert (
        "markables without a set, left out: 1" in d.meta["notes"]
        and "from first word to last: 1" in d.meta["notes"]
    )
    (path.parent / "fable_sentence_level.xml").write_bytes(
        mmax_level(("word_1..word_3", ""), ("word_4..word_14", ""))
    )
    assert [len(s) for s in read_documents(path)[0].sentences] == [3, 11]


@pytest.mark.parametrize(
    ("coref", "words", "why"),
    [
        (mmax_level(("word_99", "set_1")), mmax_words(), "there is no word 'word_99'"),
        (mmax_level(("word_4..word_2", "set_1")), mmax_words(), "ends before it starts"),
        (mmax_level(("", "set_1")), mmax_words(), "has no span"),
        (mmax_level()[:-9], mmax_words(), "is not XML"),
        (mmax_level(), b"<words/>", "has no words"),
        (mmax_level(), mmax_words().replace(b"word_2", b"word_1"), "appears twice"),
        (
            mmax_level(),
            mmax_words()
            .replace(b'"words.dtd"', b'"words.dtd" [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]')
            .replace(b"w3", b"&b;"),
            "declares an entity",
        ),
    ],
)
def test_a_damaged_project_of_mmax_is_one_line(tmp_path, coref, words, why):
    (tmp_path / "x_words.xml").write_bytes(words)
    (tmp_path / "x_coref_level.xml").write_bytes(coref)
    with pytest.raises((FormatError, DataError), match=why) as e:
        read_documents(tmp_path / "x_coref_level.xml")
    assert "\n" not in str(e.value) and len(str(e.value)) < 400


def test_a_project_of_mmax_without_words(tmp_path):
    (tmp_path / "x_coref_level.xml").write_bytes(mmax_level(("word_1", "set_1")))
    with pytest.raises(DataError, match="x_words.xml"):
        read_documents(tmp_path / "x_coref_level.xml")
