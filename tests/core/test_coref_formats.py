"Coreference formats: what is written is read again, what cannot be held is refused, what is damaged is read or refused in one line."

import gzip, json, unicodedata
from pathlib import Path
import pytest
from hypothesis import assume, given, strategies as st
from refnb.core import conllu, gap, jsonlines, standoff
from refnb.core.conll import conll_text, parse_conll
from refnb.core.documents import Document, sentence_of, sentence_starts
from refnb.core.types import DataError, FormatError, RefnbError, Span
from tools import FULL, examples, growth

many = examples(300)


def canon(d: Document) -> tuple:
    "What a document says, whatever the order of clusters and mentions."
    told = [
        sorted((s, *(v[i][j] for v in d.labels.values())) for j, s in enumerate(c))
        for i, c in enumerate(d.clusters)
    ]
    return (
        d.doc_key,
        d.sentences,
        tuple(d.labels),
        sorted(zip(told, d.names or [""] * len(told), strict=True)),
    )


def bare(d: Document, **fields) -> Document:
    "Clusters and text alone, and whatever else is said."
    return d.changed(**dict(names=(), labels={}, meta={}) | fields)


# Random documents

ODD = [
    '"',
    '""',
    "'",
    "(",
    ")",
    "(1)",
    "1)",
    "[",
    "|",
    "*",
    "#",
    "##",
    "##a",
    "-",
    "_",
    "%",
    "%28",
    "\\",
    "{}",
    "e1)",
    "[CLS]",
    "[SEP]",
    "[PAD]",
    "<s>",
    "Ġa",
    "▁a",
    "Léa",
    "Le\u0301a",
    "日本",
    "😀",
    "\u200b",
    "’",
    "-DOCSTART-",
    "None",
    "0",
]
letters = st.characters(exclude_categories=["Cs", "Z", "Cc"])
words = st.one_of(st.sampled_from(ODD), st.text(letters, min_size=1, max_size=5)).filter(
    lambda w: not any(c.isspace() for c in w)
)
names = st.sampled_from(["", "Ann", "Mr. Bennet", "the_sea-10", "(a|b)-100%", "é日"])


@st.composite
def documents(draw, empty=True, doc_key=st.just("d")) -> Document:
    "Any document: nested, crossing and touching mentions, of one cluster too, over the ends of sentences; singletons; no text, no cluster."
    fewest = lambda: 0 if empty and draw(st.integers(0, 9)) == 0 else 1
    sentences = draw(
        st.lists(
            st.lists(words, min_size=fewest(), max_size=6).map(tuple),
            min_size=0 if empty else 1,
            max_size=4,
        )
    )
    n = sum(map(len, sentences))
    span = st.tuples(st.integers(0, max(0, n - 1)), st.integers(0, 4)).map(
        lambda s: Span(s[0], min(n - 1, s[0] + s[1]))
    )
    clusters = (
        draw(st.lists(st.lists(span, min_size=fewest(), max_size=4).map(tuple), max_size=4))
        if n
        else []
    )
    kinds = {"type": ["PER", "a-b"], "kind": ["NOM", ""]}
    labels = {
        f: tuple(tuple(draw(st.sampled_from(values)) for _ in c) for c in clusters)
        for f, values in kinds.items()
        if draw(st.booleans())
    }
    told = tuple(draw(names) for _ in clusters) if draw(st.booleans()) else ()
    return Document(
        draw(doc_key),
        tuple(sentences),
        tuple(clusters),
        told,
        {f: v for f, v in labels.items() if any(map(any, v))},
    )


def named(d: Document) -> Document:
    "Names that are all empty are none."
    return d if any(d.names) else d.changed(names=())


keys = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
corpora = st.lists(documents(doc_key=keys), max_size=3, unique_by=lambda d: d.doc_key)


# JSON lines


def kitmus_text(docs) -> str:
    "Documents as the authors of KITMUS wrote them, byte for byte."
    fields = lambda d: {
        "doc_key": d.doc_key,
        "sentences": d.sentences,
        "speakers": [["Speaker#1"] * len(s) for s in d.sentences],
        "clusters": d.clusters,
    }
    return "\n".join(json.dumps(fields(d)) for d in docs)


@many
@given(corpora)
def test_jsonlines_hold_every_document(docs):
    assert jsonlines.parse_jsonlines(jsonlines.jsonlines_text(docs).encode()) == [
        named(d.changed(labels={})) for d in docs
    ]
    assert jsonlines.parse_jsonlines(kitmus_text(docs).encode()) == [bare(d) for d in docs]


@given(documents(doc_key=keys))
def test_a_printed_object_and_a_list_of_clusters(d):
    assert jsonlines.parse_jsonlines(
        json.dumps(json.loads(jsonlines.jsonlines_text([d])), indent=2).encode()
    ) == [named(d.changed(labels={}))]
    assert jsonlines.parse_jsonlines(json.dumps(d.clusters).encode()) == [
        Document("", clusters=d.clusters)
    ]


def bert(word: str) -> list[str]:
    return [("##" if i else "") + word[i : i + 2] for i in range(0, len(word), 2)]


def sentencepiece(word: str) -> list[str]:
    return [("" if i else "▁") + word[i : i + 2] for i in range(0, len(word), 2)]


def lossy(word: str) -> list[str]:
    return [p.lower() for p in bert(word)] if word.isascii() else []


def in_pieces(
    docs: list[Document], tokenize, segment: int = 512, specials=("[CLS]", "[SEP]")
) -> str:
    "Documents as JSON lines in word pieces, in segments that end between words; no lines where a word does not fit into one."
    out, room = "", segment - sum(map(bool, specials))
    for d in docs:
        sentence, rows, words, at = (
            [i for i, s in enumerate(d.sentences) for _ in s],
            [[]],
            [list(tokenize(t)) or ["[UNK]"] for t in d.tokens],
            {},
        )
        if max(map(len, words), default=0) > room:
            return ""
        for w, pieces in enumerate(words):
            if len(rows[-1]) + len(pieces) > room:
                rows.append([])
            rows[-1] += [(p, w, sentence[w], True) for p in pieces]
        special = lambda mark, beside: [(mark, *beside[1:3], False)] * bool(mark)
        rows = [special(specials[0], r[0]) + r + special(specials[1], r[-1]) for r in rows if r]
        for k, (_, w, _, real) in enumerate(x for r in rows for x in r):
            if real:
                at.setdefault(w, []).append(k)
        flat = [x for r in rows for x in r]
        out += (
            json.dumps(
                {
                    "doc_key": d.doc_key,
                    "sentences": [[p for p, *_ in r] for r in rows],
                    "clusters": [[(at[s][0], at[e][-1]) for s, e in c] for c in d.clusters],
                    "sentence_map": [s for _, _, s, _ in flat],
                    "subtoken_map": [w for _, w, *_ in flat],
                    "orig_tokens": d.tokens,
                }
            )
            + "\n"
        )
    return out


PAIRS = [("[CLS]", "[SEP]"), ("<s>", "</s>"), ("", "</s>"), ("", "")]


@many
@given(
    documents(),
    st.sampled_from([bert, sentencepiece, lossy]),
    st.sampled_from(PAIRS),
    st.integers(2, 20),
)
def test_word_pieces_are_read_as_words(d, tokenize, specials, segment):
    assume(
        d.sentences
        and all(d.sentences)
        and not {"[CLS]", "[SEP]", "<s>", "</s>", "[PAD]", "<pad>"}
        & {p for t in d.tokens for p in tokenize(t)}
    )
    text = in_pieces([d], tokenize, segment, specials)
    assume(text)
    assert jsonlines.parse_jsonlines(text.encode()) == [bare(d)]
    assert all(len(s) <= segment for s in json.loads(text)["sentences"])


@many
@given(documents(empty=False), st.integers(8, 20))
def test_words_are_put_together_from_their_pieces(d, segment):
    "Without the words in the file."
    assume(all(len(bert(t)) < 7 and t[0] != "#" for t in d.tokens))
    fields = json.loads(in_pieces([d], bert, segment))
    del fields["orig_tokens"]
    assert jsonlines.parse_jsonlines(json.dumps(fields).encode()) == [bare(d)]


def subtokens(**fields) -> bytes:
    "A line of word pieces: Weis ##man met Bea ."
    line = dict(
        doc_key="d",
        sentences=[["[CLS]", "Weis", "##man", "met", "Bea", ".", "[SEP]"]],
        clusters=[[[1, 2], [4, 4]]],
        sentence_map=[0] * 7,
    )
    return json.dumps(line | dict(subtoken_map=[0, 0, 0, 1, 2, 3, 3]) | fields).encode()


@pytest.mark.parametrize(
    "fields, said",
    [
        (dict(subtoken_map=[0] * 6), "field subtoken_map: 6 values for 7 pieces"),
        (dict(sentence_map=[0] * 8), "field sentence_map: 8 values for 7 pieces"),
        (dict(subtoken_map=[0, 1, 0, 1, 2, 3, 3]), "field subtoken_map: the values fall"),
        (
            dict(subtoken_map=[0, 0, 0, 1, 2, 10**9, 0]),
            "field subtoken_map: word 1000000000 in a text of 7 pieces",
        ),
        (dict(subtoken_map=[0, -1, 0, 1, 2, 3, 3]), "field subtoken_map: the values fall"),
        (dict(orig_tokens=["a"]), "field orig_tokens: 1 words, but subtoken_map has 4"),
        (
            dict(clusters=[[], [[0, 2]]]),
            "field clusters[1]: [0, 2] does not begin and end with a word; say pieces=",
        ),
        (
            dict(clusters=[[[1, 1]]]),
            "field clusters[0]: [1, 1] does not begin and end with a word; say pieces=",
        ),
        (
            dict(clusters=[[[4, 7]]]),
            "field clusters[0]: [4, 7] does not begin and end with a word; say pieces=",
        ),
    ],
)
def test_f40_word_pieces_that_cannot_be(fields, said):
    with pytest.raises(FormatError) as e:
        jsonlines.parse_jsonlines(subtokens(**fields), "f.jsonl")
    assert str(e.value).startswith("f.jsonl, line 1, " + said)


def test_pieces_that_are_numbers():
    "longdoc writes vocabulary numbers: the text is known only where the words are there too."
    line = dict(
        sentences=[[101, 7, 8, 9]],
        clusters=[[[1, 2]]],
        subtoken_map=[0, 1, 1, 2],
        sentence_map=[0, 0, 0, 1],
    )
    assert jsonlines.parse_jsonlines(subtokens(**line)) == [
        Document("d", clusters=((Span(1, 1),),))
    ]
    assert jsonlines.parse_jsonlines(subtokens(**line, orig_tokens=["a", "b", "c"])) == [
        Document("d", (("a", "b"), ("c",)), ((Span(1, 1),),))
    ]


@pytest.mark.parametrize("pieces, clusters", [(True, ((0, 0), (2, 2))), (False, ((1, 2), (2, 2)))])
def test_f43_indices_count_pieces_or_words(pieces, clusters):
    line = subtokens(clusters=[[[1, 2], [4, 4] if pieces else [2, 2]]])
    assert jsonlines.parse_jsonlines(line, pieces=pieces)[0].clusters == (
        tuple(Span(*s) for s in clusters),
    )


LINES = [
    b'{"doc_key": "a", "sentences": [["x", "y"], ["z"]], "clusters": [[[0, 1], [2, 2]]]}',
    b'{"doc_key": "b", "clusters": []}',
    b'{"doc_key": "c", "clusters": [[[5, 9]]], "characters": {}}',
]
READ = jsonlines.parse_jsonlines(b"\n".join(LINES))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n", b"\n \t\n"])
@pytest.mark.parametrize("last", [True, False])
def test_f40_blank_lines_and_line_ends(end, last):
    assert jsonlines.parse_jsonlines(end.join(LINES) + (end if last else b"")) == READ


def test_f40_a_torn_file_is_found_at_every_byte():
    "All lines before the tear, then an error; a tear between lines cannot be seen."
    whole = b"".join(line + b"\n" for line in LINES)
    for cut in range(1, len(whole)):
        want = whole[: cut + 1].count(b"\n")
        try:
            got = jsonlines.parse_jsonlines(whole[:cut], "f.jsonl")
        except FormatError as e:
            assert f"f.jsonl, line {want + 1}" in str(e), cut
        else:
            assert got == READ[:want] and whole[cut - 1 : cut + 1].find(b"\n") >= 0


@pytest.mark.parametrize(
    "line, field",
    [
        (b"{", ""),
        (b"\xff", ""),
        (b"{}", "field doc_key"),
        (b'{"doc_key": 1}', "field doc_key"),
        (b'{"doc_key": "x"}', "field clusters"),
        (b'{"doc_key": "x", "clusters": [[[0, NaN]]]}', ""),
        (b'{"doc_key": "x", "n": NaN, "clusters": []}', ""),
        (b'{"doc_key": "x", "clusters": [], "clusters": []}', ""),
        (b'{"doc_key": "x", "doc_key": "y", "clusters": []}', ""),
        (b'{"doc_key": "x", "clusters": [], "o": {"k": 1, "k": 1}}', ""),
        (b'{"doc_key": "x", "clusters": [], "o": "\xff"}', ""),
        (b'{"doc_key": "x", "clusters": [[[0, 1, 2]]]}', "field clusters[0][0]"),
        (b'{"doc_key": "x", "clusters": [[[0, 1.0]]]}', "field clusters[0][0][1]"),
        (b'{"doc_key": "x", "clusters": [[0, 1]]}', "field clusters[0][0]"),
        (
            b'{"doc_key": "x", "clusters": [[], [[7, 5]]]}',
            "field clusters[1]: [7, 5] is not a span of at most",
        ),
        (b'{"doc_key": "x", "clusters": [[[-1, 5]]]}', "field clusters[0]: [-1, 5]"),
        (
            b'{"doc_key": "x", "sentences": [["a"]], "clusters": [[[0, 1]]]}',
            "field clusters[0]: [0, 1] is not a span of the 1 tokens",
        ),
        (b'{"doc_key": "x", "clusters": [[[0, 99999999999999999999]]]}', "field clusters[0]"),
        (b'{"doc_key": "x", "sentences": ["a b"], "clusters": []}', "field sentences[0]"),
        (b'{"doc_key": "x", "clusters": [], "characters": [["a"]]}', "field characters[0]"),
        (b'{"doc_key": "a", "clusters": []}', "field doc_key: 'a' is in line 1 too"),
        (b'{"doc_key": "\\ud800", "clusters": []}', ""),
        (b'{"doc_key": "x", "clusters": [], "o": ' + b"[" * 100_000, ""),
    ],
)
def test_f40_f41_an_error_has_its_line_and_field(line, field):
    with pytest.raises(FormatError) as e:
        jsonlines.parse_jsonlines(b"\n".join([LINES[0], LINES[1], line, LINES[2]]), "f.jsonl")
    said = str(e.value)
    assert said.startswith("f.jsonl, line 3") and field in said and "\n" not in said


# CoNLL-U


def ambiguous(d: Document) -> bool:
    "Do two mentions of a cluster overlap without one lying in the other?"
    return any(a.start < b.start <= a.end < b.end for c in d.clusters for a in c for b in c)


def crossing(d: Document) -> bool:
    "Do two mentions of a cluster share more than the last token of the first, without one lying in the other?"
    return any(a.start < b.start < a.end < b.end for c in d.clusters for a in c for b in c)


def crosses_sentences(d: Document) -> bool:
    starts = sentence_starts(d)
    return any(
        sentence_of(starts, s.start) != sentence_of(starts, s.end) for c in d.clusters for s in c
    )


@many
@given(st.lists(documents(), max_size=3))
def test_conllu_holds_a_document_or_says_why_not(docs):
    docs = [d.changed(doc_key=str(i)) for i, d in enumerate(docs)]
    unfit = [
        d
        for d in docs
        if not d.size
        or not all(d.sentences)
        or not all(d.clusters)
        or crossing(d)
        or crosses_sentences(d)
    ]
    if unfit:
        with pytest.raises(DataError, match="^document "):
            conllu.conllu_text(docs)
    else:
        want = [d.changed(labels={k: v for k, v in d.labels.items() if k == "type"}) for d in docs]
        assert list(map(canon, conllu.parse_conllu(conllu.conllu_text(docs).encode()))) == list(
            map(canon, want)
        )


@given(documents(empty=False), keys)
def test_any_doc_key_in_conllu(d, key):
    d = bare(d, clusters=(), doc_key=key)
    try:
        text = conllu.conllu_text([d])
    except DataError:
        assert key != key.strip() or any(c.isspace() and c != " " for c in key)
    else:
        assert conllu.parse_conllu(text.encode()) == [d]


@many
@given(st.lists(documents(empty=False), min_size=1, max_size=3))
def test_conllu_means_the_same_to_udapi(docs):
    Udapi = pytest.importorskip(
        "udapi.core.document", reason="needs udapi, which is under the GPL and no dependency"
    ).Document
    docs = [d.changed(doc_key=f"k{i}") for i, d in enumerate(docs)]
    assume(
        not any(ambiguous(d) or crosses_sentences(d) for d in docs)
        and all(len(set(c)) == len(c) for d in docs for c in d.clusters)
    )
    u = Udapi()
    u.from_conllu_string(conllu.conllu_text(docs))
    forms = [n.form for b in u.bundles for n in b.get_tree().descendants]
    assert forms == [t for d in docs for t in d.tokens]
    place = {n: i for i, n in enumerate(n for b in u.bundles for n in b.get_tree().descendants)}
    got = sorted(
        sorted((place[m.words[0]], place[m.words[-1]]) for m in e.mentions)
        for e in u.coref_entities
    )
    before = [sum(d.size for d in docs[:i]) for i in range(len(docs))]
    assert got == sorted(
        sorted((s + n, e + n) for s, e in c) for d, n in zip(docs, before) for c in d.clusters
    )


def rows(*entities: str, head: str = "# global.Entity = eid-etype-head-other") -> bytes:
    return "\n".join(
        [
            head,
            *(
                f"{i}\tw{i}\t_\t_\t_\t_\t_\t_\t_\t{'Entity=' + e if e else '_'}"
                for i, e in enumerate(entities, 1)
            ),
            "",
        ]
    ).encode()


@pytest.mark.parametrize(
    "values, said",
    [
        (["(e1-x", ""], "line 2, field Entity: (e1 is not closed"),
        (["e1)"], "line 2, field Entity: e1) closes a mention that was not opened"),
        (["(e1-x", "e2)"], "line 3, field Entity: e2) closes"),
        (["(e1-x)|Entity=(e2)"], "line 2: Entity appears twice"),
        (["e1"], "line 2, field Entity: 'e1' is not made of brackets"),
        (["(e1-x)("], "is not made of brackets"),
        (["(-x)"], "has no id"),
    ],
)
def test_f37_brackets_that_are_wrong(values, said):
    with pytest.raises(FormatError) as e:
        conllu.parse_conllu(rows(*values), "f.conllu")
    assert str(e.value).startswith("f.conllu, line ") and said in str(e.value)


@pytest.mark.parametrize(
    "values, said",
    [
        (["(e1[2/2]-x)"], "part 2 of a mention of e1 does not follow part 1"),
        (["(e1[1/2]-x)", ""], "a mention of e1 has lost a part"),
    ],
)
def test_f37_gaps_that_are_wrong(values, said):
    with pytest.raises(FormatError, match="f.conllu, line .*" + said):
        conllu.parse_conllu(rows(*values), "f.conllu")


def test_f37_a_mention_with_gaps_keeps_its_words():
    data = rows("(e1[1/2]-x-1)(e2-y)", "", "(e1[2/2]-x-1-", "e1[2/2])(e2-y)")
    [d] = conllu.parse_conllu(data)
    assert d.clusters == ((Span(0, 0), Span(3, 3)), (Span(0, 3),))
    assert d.labels["words"] == (("", ""), ("0-0,2-3",))


@pytest.mark.parametrize(
    "data",
    [
        rows("(e1-x", "e1)").replace(b"\n", b"\r\n"),
        rows("(e1-x", "e1)").rstrip(b"\n"),
        rows("(e1-x", "e1)") + b"\n\n\n",
        rows("(1-x", "1)", head="# global.Entity = GRP-entity-head"),
    ],
)
def test_f39_line_ends_and_older_names_of_fields(data):
    assert [d.clusters for d in conllu.parse_conllu(data)] == [((Span(0, 1),),)]


# Standoff


def mentions_of(d: Document) -> list[tuple]:
    "Span, cluster, type and kind of each mention, in the order of the text."
    types, kinds = (
        d.labels.get(f) or [[""] * len(c) for c in d.clusters] for f in ("type", "kind")
    )
    return sorted(
        (s, i, types[i][j], kinds[i][j]) for i, c in enumerate(d.clusters) for j, s in enumerate(c)
    )


def lined(rows) -> str:
    return "".join("\t".join(map(str, r)) + "\n" for r in rows)


def litbank_text(d: Document) -> tuple[str, str]:
    "A document as LitBank's standoff files."
    at, ids = (
        [(n, i) for n, s in enumerate(d.sentences) for i in range(len(s))],
        [n or str(i) for i, n in enumerate(d.names or [""] * len(d.clusters))],
    )
    rows = [
        (
            "MENTION",
            f"T{n}",
            *at[s.start],
            *at[s.end],
            " ".join(d.tokens[s.start : s.end + 1]),
            type,
            kind,
        )
        for n, (s, _, type, kind) in enumerate(mentions_of(d))
    ]
    links = [("COREF", f"T{n}", ids[i]) for n, (_, i, *_) in enumerate(mentions_of(d))]
    return lined(rows + links), "".join(" ".join(s) + "\n" for s in d.sentences)


COLUMNS = ("COREF", "start_token", "end_token", "prop", "cat", "text")


def booknlp_text(d: Document) -> tuple[str, str]:
    "A document as BookNLP's files."
    rows = [
        (i, *s, kind, type, " ".join(d.tokens[s.start : s.end + 1]))
        for s, i, type, kind in mentions_of(d)
    ]
    words = [(0, n, i, w) for n, s in enumerate(d.sentences) for i, w in enumerate(s)]
    head = (
        "paragraph_ID",
        "sentence_ID",
        "token_ID_within_sentence",
        "token_ID_within_document",
        "word",
    )
    return lined([COLUMNS, *rows]), lined(
        [head, *((p, n, i, k, w) for k, (p, n, i, w) in enumerate(words))]
    )


@many
@given(documents())
def test_litbank_files_are_read_as_the_document(d):
    d = named(d)
    assume(
        d.sentences
        and all(d.clusters)
        and len({n for n in d.names if n}) == sum(map(bool, d.names))
    )
    ann, txt = litbank_text(d)
    assert canon(standoff.parse_litbank(ann.encode(), txt.encode(), "d")) == canon(d)


@many
@given(documents())
def test_booknlp_files_are_read_as_the_document(d):
    assume(all(d.clusters) and d.sentences and all(d.sentences))
    entities, tokens = booknlp_text(d)
    assert canon(standoff.parse_booknlp(entities.encode(), tokens.encode(), "d")) == canon(
        d.changed(names=())
    )


@given(documents(empty=False))
def test_labels_come_to_a_document_without_them(d):
    d = d.changed(clusters=tuple(tuple(dict.fromkeys(c)) for c in d.clusters), names=(), labels={})
    assume(len({s for c in d.clusters for s in c}) == len(d.mentions))
    full = d.changed(
        labels={
            f: tuple(tuple(f"{f}{s.start}" for s in c) for c in d.clusters)
            for f in ("type", "kind")
        }
    )
    ann, txt = litbank_text(full)
    assert standoff.with_labels(d, ann.encode()) == full
    assert (
        standoff.with_labels(d.changed(clusters=d.clusters[:1]), ann.encode()).labels["kind"]
        == full.labels["kind"][:1]
    )


def test_tables_are_read_without_quoting():
    d = Document("d", (('"', "a", '"', '""', "'"),), ((Span(0, 3), Span(2, 2)),), ('"x"',))
    assert (
        standoff.parse_litbank(*(f.encode() for f in litbank_text(d)), "d").clusters == d.clusters
    )
    assert (
        standoff.parse_booknlp(*(f.encode() for f in booknlp_text(d)), "d").sentences == d.sentences
    )


# GAP


@st.composite
def gap_rows(draw) -> gap.GapRow:
    "Any text, and three stretches of it that are not blank."
    characters = st.characters(exclude_categories=["Cs"])
    text = draw(
        st.text(
            st.one_of(characters, st.sampled_from("\"\t\n\r '’“\u0301\u200b\ufeffaéA1_-")),
            min_size=1,
            max_size=40,
        ).filter(str.strip)
    )
    span = (
        st.tuples(st.integers(0, len(text) - 1), st.integers(1, 9))
        .map(lambda s: (s[0], text[s[0] : s[0] + s[1]]))
        .filter(lambda s: s[1].strip())
    )
    (p, pronoun), (a, first), (b, second) = draw(span), draw(span), draw(span)
    id, flags, url = (
        draw(st.text(characters, min_size=1, max_size=9)),
        st.booleans(),
        st.sampled_from(["", "none", '"']),
    )
    return gap.GapRow(
        id, pronoun, p, first, a, draw(flags), second, b, draw(flags), text, draw(url)
    )


def gap_text(rows) -> str:
    "Rows as a table: GAP's and KITMUS' own come out byte for byte."
    quoted = lambda x: '"' + x.replace('"', '""') + '"' if any(c in x for c in '"\t\r\n') else x
    cells = [
        [
            quoted(str(v).upper() if isinstance(v, bool) else str(v))
            for v in (getattr(r, f) for f in gap.COLUMNS.values())
        ]
        for r in rows
    ]
    return "".join("\t".join(r) + "\n" for r in [list(gap.COLUMNS), *cells])


@many
@given(st.lists(gap_rows(), max_size=4, unique_by=lambda r: r.id))
def test_f42_quotes_tabs_and_line_ends_in_a_table(rows):
    assert gap.parse_gap_rows(gap_text(rows).encode()) == rows


ROW = gap.GapRow(
    "r-1", "She", 16, "Léa", 1, True, "Bea", 10, False, "“Léa” met Bea\u200b. She sang."
)
TABLE = gap_text([ROW])


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("\t16\t", "\t20\t", "line 2: row 'r-1', field Pronoun-offset: 'She' is not at 20"),
        ("\t10\t", "\t15\t", "line 2: row 'r-1', field B-offset: 'Bea' is not at 15"),
        ("\tLéa\t", "\tLe\u0301a\t", "line 2: row 'r-1', field A-offset: 'Le\u0301a' is not at 1"),
        ("TRUE", "", "line 2, field A-coref: '': Expected `bool`"),
        ("TRUE", "yes", "field A-coref: 'yes'"),
        ("TRUE", "0.7", "field A-coref: '0.7'"),
        ("\t1\t", "\tone\t", "field A-offset: 'one': Expected `int`"),
        ("\t1\t", "\t-1\t", "field A-offset: 'Léa' is not at -1"),
        ("“Léa”", '"Léa"', "not a row"),
        ("met", "met\tBea", "12 columns instead of 11"),
        ("met", "met\n", "line 2: 2 columns instead of 11"),
        ("ID\t", "", "line 1: the header has no ID"),
        (TABLE.split("\n")[0] + "\n", "", "line 1: the header has no ID, Pronoun"),
        ("\tShe\t", "\t\t", "field Pronoun: empty"),
        ("r-1", "", "field ID: empty"),
        ("URL", "Text", "line 1: column 'Text' appears twice"),
    ],
)
def test_f42_f43_a_row_that_is_wrong(old, new, said):
    with pytest.raises(FormatError) as e:
        gap.parse_gap_rows(TABLE.replace(old, new, 1).encode(), "f.tsv")
    assert (
        str(e.value).startswith("f.tsv, line ")
        and said in str(e.value)
        and "\n" not in str(e.value)
    )


def test_f42_windows_1252():
    with pytest.raises(
        FormatError, match=r"f.tsv, line 3: not UTF-8 \(byte 0xE9\); save it as UTF-8"
    ):
        gap.parse_gap_rows(TABLE.encode() + "r-2\tLéa".encode("cp1252"), "f.tsv")


def test_f42_crlf_outside_and_inside_of_a_text():
    inside = ROW.changed(text=ROW.text + "\r\nShe left.")
    assert gap.parse_gap_rows(
        gap_text([inside, ROW.changed(id="r-2")])
        .replace("\n", "\r\n")
        .replace("\r\r\n", "\r\n")
        .encode()
    ) == [inside, ROW.changed(id="r-2")]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_f43_either_unicode_form_is_left_as_it_is(form):
    text = unicodedata.normalize(form, "Zoë met Bea. She sang.")
    name = unicodedata.normalize(form, "Zoë")
    row = gap.GapRow(
        "r", "She", text.index("She"), name, 0, True, "Bea", text.index("Bea"), False, text
    )
    assert gap.parse_gap_rows(gap_text([row]).encode()) == [row]


def test_f41_an_id_that_stands_twice():
    with pytest.raises(FormatError, match="f.tsv, line 3, field ID: 'r-1' is in line 2 too"):
        gap.parse_gap_rows((TABLE + TABLE.split("\n")[1]).encode(), "f.tsv")


# CoNLL-2012


@many
@given(st.lists(documents(), max_size=3))
def test_conll_holds_a_document_or_says_why_not(docs):
    conll = pytest.importorskip("refnb.core.conll")
    docs = [
        d.changed(doc_key=f"k/{i}_{i}")
        for i, d in enumerate(docs)
        if all(d.sentences) and all(d.clusters)
    ]
    try:
        text = conll.conll_text(docs)
    except RefnbError:
        assert any(map(ambiguous, docs))
    else:
        assert [canon(d) for d in conll.parse_conll(text.encode())] == [
            canon(bare(d)) for d in docs
        ]


# Damaged files

STORY = Document(
    "story",
    (("Ann", "«met»", '"', "Bea", "."), ("She", "smiled", ".")),
    ((Span(0, 0), Span(0, 3)), (Span(3, 3), Span(5, 5))),
    ("Ann", "Bea"),
    {"type": (("PER", "PER"), ("PER", "PER")), "kind": (("PROP", "NOM"), ("PROP", "PRON"))},
)
DOCS = [STORY, bare(STORY, doc_key="other")]
ANN, TXT = (t.encode() for t in litbank_text(STORY))
ENTITIES, TOKENS = (t.encode() for t in booknlp_text(STORY))
GAPS = (
    conllu.conllu_text([STORY])
    .replace("(e1-PER-1-Ann)", "(e1[1/2]-PER-1-Ann)")
    .replace("(e2-PER-1-Bea)e1)", "e1)(e1[2/2]-PER-1-Ann)")
    .encode()
)


# Size


def book(mentions: int) -> Document:
    "A book with a mention every seven tokens: one cluster holds a seventh of them, the others about five each."
    sentences = tuple(tuple(f"w{i % 5000}" for i in range(25)) for _ in range(7 * mentions // 25))
    clusters = [[] for _ in range(mentions // 5)]
    for i in range(mentions):
        length = i % 3 if 7 * i % 25 < 22 else 0
        clusters[i % len(clusters) if i % 7 else 0].append(Span(7 * i, 7 * i + length))
    return Document("book", sentences, tuple(tuple(c) for c in clusters if c))


BOOK_FORMATS = {
    "jsonlines": (jsonlines.jsonlines_text, jsonlines.parse_jsonlines),
    "conllu": (conllu.conllu_text, conllu.parse_conllu),
}


@pytest.mark.parametrize("format", BOOK_FORMATS)
def test_f44_reading_and_writing_grow_no_faster_than_the_book(format):
    write, read = BOOK_FORMATS[format]
    there_and_back = lambda docs: read(write(docs).encode())
    small, large = [book(250)], [book(1_000)]
    assert list(map(canon, there_and_back(large))) == list(map(canon, large))
    assert growth(there_and_back, small, large) < 5


@pytest.mark.full
@pytest.mark.parametrize("format", BOOK_FORMATS)
def test_f44_a_book_of_700_000_tokens_and_100_000_mentions(format):
    write, read = BOOK_FORMATS[format]
    large = [book(100_000)]
    assert list(map(canon, read(write(large).encode()))) == list(map(canon, large))


# What was released


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


@pytest.fixture(scope="module")
def bookcoref(upstream) -> Path:
    return next((upstream / "SapienzaNLP/bookcoref").glob("*/predictions"))


@pytest.fixture(scope="module")
def kitmus(upstream) -> Path:
    return next(p for p in (upstream / "mpoemsl/kitmus").iterdir() if (p / "predictions").is_dir())


SIZES = {
    "off_the_shelf/booknlp": [(916, 6506, 603), (2296, 21246, 1360), (494, 3342, 282)],
    "off_the_shelf/maverick_xl": [(103, 6285, 0), (180, 21759, 0), (121, 3548, 0)],
    "finetuned_bookcoref/maverick_xl": [(4, 4980, 0), (41, 17124, 0), (10, 1618, 0)],
}


@pytest.mark.parametrize("name", SIZES)
def test_predictions_for_three_books(bookcoref, name):
    docs = jsonlines.parse_jsonlines(unpacked(bookcoref / f"{name}.jsonl.gz"), name)
    assert [
        (len(d.clusters), len(d.mentions), sum(len(c) == 1 for c in d.clusters)) for d in docs
    ] == SIZES[name]
    assert [(d.doc_key, d.size) for d in docs] == [
        ("siddhartha_2500", 47_785),
        ("pride_and_prejudice_1342", 142_742),
        ("animal_farm_0", 34_979),
    ]
    assert (
        len(jsonlines.parse_jsonlines(unpacked(next(bookcoref.glob(f"{name}_*.jsonl.gz"))))) == 152
    )


def test_kitmus_is_written_byte_for_byte(kitmus):
    paths = sorted((kitmus / "kitmus/background-train").rglob("*.jsonlines.gz"))
    for p in paths:
        assert kitmus_text(jsonlines.parse_jsonlines(unpacked(p))).encode() == unpacked(p), p.name
    assert len(paths) == 11


def test_kitmus_word_pieces_with_clusters_of_words(kitmus):
    "BERT4Coref's predictions: the error names the parameter, and with it the words are those that C2F read."
    name, predictions = (
        "background-train-no-noise_subtask_2_ents.jsonlines.gz",
        kitmus / "predictions/test-set-predictions",
    )
    data = unpacked(predictions / "kitmus-trained-bert4coref/run_1" / name)
    with pytest.raises(FormatError, match="line 1, field clusters.*with a word; say pieces=False"):
        jsonlines.parse_jsonlines(data)
    words = jsonlines.parse_jsonlines(unpacked(predictions / "kitmus-trained-c2f/run_1" / name))
    assert [(d.doc_key, d.sentences) for d in jsonlines.parse_jsonlines(data, pieces=False)] == [
        (d.doc_key, d.sentences) for d in words
    ]
    assert len(words) == 2000


@pytest.mark.parametrize(
    "part, size, neither",
    [("development", 2000, 201), ("validation", 454, 62), ("test", 2000, 227)],
)
def test_gap_as_released(upstream, part, size, neither):
    data = unpacked(
        next((upstream / "google-research-datasets/gap-coreference").glob(f"*/gap-{part}.tsv.gz"))
    )
    rows = gap.parse_gap_rows(data)
    assert (
        len(rows),
        sum(not r.a_coref and not r.b_coref for r in rows),
        sum(r.a_coref and r.b_coref for r in rows),
    ) == (size, neither, 0)
    assert gap_text(rows).encode() == data


def test_gap_of_kitmus(kitmus):
    paths = sorted((kitmus / "kitmus").rglob("*.tsv.gz"))
    for p in paths:
        data = unpacked(p)
        rows = gap.parse_gap_rows(data)
        assert gap_text(rows).encode() == data and all(r.a_coref != r.b_coref for r in rows), p.name
    assert len(paths) == 10
    assert (
        sum(
            len(gap.parse_gap_rows(unpacked(p))) for p in (kitmus / "predictions").rglob("*.tsv.gz")
        )
        == 20_000
    )


@pytest.fixture(scope="module")
def litbank(upstream) -> dict[str, tuple[bytes, bytes, bytes]]:
    "The .ann, .txt and .conll file of each document."
    folder = next((upstream / "dbamman/litbank").glob("*/coref"))
    keys = sorted(p.name.removesuffix(".ann.gz") for p in (folder / "tsv").glob("*.ann.gz"))
    return {
        k: tuple(
            unpacked(folder / p)
            for p in (f"tsv/{k}.ann.gz", f"tsv/{k}.txt.gz", f"conll/{k}.conll.gz")
        )
        for k in keys
    }


@pytest.fixture(scope="module")
def standoff_documents(litbank) -> dict[str, Document]:
    return {
        key: standoff.parse_litbank(ann, txt, key, key) for key, (ann, txt, _) in litbank.items()
    }


GREAT = "1400_great_expectations_brat"


def test_litbank_standoff_has_the_clusters_of_conll(litbank, standoff_documents):
    "In all documents but one, in which the release differs from itself: four clusters there, five here, over the same mentions."
    parse = pytest.importorskip("refnb.core.conll").parse_conll
    differ = {}
    for key, (ann, _, conll) in litbank.items():
        d, [c] = standoff_documents[key], parse(conll, key)
        assert d.sentences == c.sentences and d.mentions == c.mentions
        ours, theirs = ({frozenset(x) for x in doc.clusters} for doc in (d, c))
        if ours != theirs:
            differ[key] = (len(ours - theirs), len(theirs - ours))
        labelled = standoff.with_labels(c, ann)
        assert set(labelled.labels) == {"type", "kind"} and labelled.clusters == c.clusters
    assert len(litbank) == 100 and differ == {GREAT: (5, 5)}


def test_litbank_counts(standoff_documents):
    docs = list(standoff_documents.values())
    kinds = [k for d in docs for c in d.labels["kind"] for k in c]
    assert (sum(d.size for d in docs), len(kinds), len([c for d in docs for c in d.clusters])) == (
        210_532,
        29_103,
        7_927,
    )
    assert {k: kinds.count(k) for k in sorted(set(kinds))} == {
        "NOM": 9737,
        "PRON": 15816,
        "PROP": 3550,
    }
    assert sum(not n for d in docs for n in d.names) == 692
    for d in docs[:: 1 if FULL else 5]:
        again = (t.encode() for t in litbank_text(d))
        assert canon(standoff.parse_litbank(*again, d.doc_key)) == canon(d)


# CoNLL: begin and end lines (F38), and what they look like (F39)


@pytest.mark.parametrize(
    "text, told",
    [
        ("a\t0\t0\tx\t-\n#end document\n", "f, line 1: a token outside of any document"),
        ("#begin document (a);\na\t0\t0\tx\t-\n", "document 'a' has no `#end document`"),
        (
            "#begin document (a);\n#begin document (b);\n#end document\n",
            "f, line 2: document 'a' has no `#end document` before the next begins",
        ),
        ("#end document\n", "f, line 1: `#end document` without a beginning"),
        (
            "#begin document (a); part 000\n#end document\n#begin document (a); part 0\n#end document\n",
            "f, line 3: document 'a_0' is in this file for the second time, first in line 1",
        ),
        ("#begin document\n#end document\n", "f, line 1: is not `#begin document"),
    ],
)
def test_f38_begin_and_end_lines(text, told):
    with pytest.raises(FormatError) as e:
        parse_conll(text.encode(), "f")
    assert told in str(e.value)


def test_f38_parts_and_empty_documents():
    docs = parse_conll(
        b"#begin document (a); part 000\n#end document\n#begin document (a); part 001\n\na 1 0 x (0)\n\n\na 1 0 y (0)\n#end document\n# a note\n#begin document (b)\n#end document"
    )
    assert [(d.doc_key, d.sentences, d.clusters) for d in docs] == [
        ("a_0", (), ()),
        ("a_1", (("x",), ("y",)), ((Span(0, 0), Span(1, 1)),)),
        ("b", (), ()),
    ]


def test_f38_a_key_that_stands_twice_is_not_written():
    with pytest.raises(DataError, match="'a': two documents have this doc_key"):
        conll_text([Document("a"), Document("a")])


@pytest.mark.parametrize("gold", ["[[[0, 0]]]", "[]", "null"])
def test_predictions_beside_gold_are_not_read_as_gold(gold):
    line = '{"doc_key": "d", "sentences": [["a", "b"]], "clusters": GOLD, "predicted_clusters": [[[0, 1]]]}'
    data = line.replace("GOLD", gold).encode()
    if gold != "[[[0, 0]]]":
        assert jsonlines.parse_jsonlines(data)[0].clusters == ((Span(0, 1),),)
    else:
        with pytest.raises(FormatError, match="stands beside other clusters"):
            jsonlines.parse_jsonlines(data)


def test_mentions_with_gaps_of_one_entity_may_interleave():
    "One of two parts and one of three: each part goes to the mention that has so many."
    cells = [
        "(e1[1/2]-x-1)",
        "(e1[1/3]-x-1)",
        "(e1[2/2]-x-1)",
        "(e1[2/3]-x-1)",
        "_",
        "(e1[3/3]-x-1)",
    ]
    rows = ["\t".join([str(i), "w", *"_______", f"Entity={c}"]) for i, c in enumerate(cells, 1)]
    text = "\n".join(["# global.Entity = eid-etype-head", *rows, "", ""]).replace("Entity=_", "_")
    [doc] = conllu.parse_conllu(text.encode())
    assert sorted(doc.labels["words"][0]) == ["0-0,2-2", "1-1,3-3,5-5"]
