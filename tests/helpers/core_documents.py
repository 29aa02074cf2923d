"Random documents, and the files that others write of them: KITMUS, LitBank, BookNLP, GAP."

import json
from hypothesis import strategies as st
from refnb.core.documents import Document
from refnb.core.formats import GAP_COLUMNS, GapRow
from refnb.core.reading import FORMATS, WRITERS
from refnb.core.types import Span


def written(docs: list[Document], form: str) -> bytes:
    "Documents in a format: conll, jsonl or conllu."
    return WRITERS[form](docs).encode()


PARSERS = {f.name: f.parse for f in FORMATS}


def read(data: bytes, form: str, where: str = "", **how) -> list[Document]:
    return PARSERS[form](data, where, **how)


def canon(d: Document) -> tuple:
    "What a document says, whatever the order of clusters and mentions."
    told = [
        sorted((s, *(v[i][j] for v in d.labels.values())) for j, s in enumerate(c))
        for i, c in enumerate(d.clusters)
    ]
    clusters = sorted(zip(told, d.names or [""] * len(told), strict=True))
    return d.doc_key, d.sentences, tuple(d.labels), clusters


def bare(d: Document, **fields) -> Document:
    "Clusters and text alone, and whatever else is given."
    return d.changed(**dict(names=(), labels={}, meta={}) | fields)


def named(d: Document) -> Document:
    "Names that are all empty are none."
    return d if any(d.names) else d.changed(names=())


# Random documents

ODD = """ " "" ' ( ) (1) 1) [ | * # ## ##a - _ % %28 \\ {} e1) [CLS] [SEP] [PAD] <s> Ġa ▁a Léa
 Le\u0301a 日本 😀 \u200b ’ -DOCSTART- None 0 """
letters = st.characters(exclude_categories=["Cs", "Z", "Cc"])
words = st.sampled_from(ODD.split()) | st.text(letters, min_size=1, max_size=5)
words = words.filter(lambda w: not any(c.isspace() for c in w))
names = st.sampled_from(["", "Ann", "Mr. Bennet", "the_sea-10", "(a|b)-100%", "é日"])
keys = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)


@st.composite
def documents(draw, empty=True, doc_key=st.just("d")) -> Document:
    """Any document: nested, crossing and touching mentions, of one cluster too, over the ends of
    sentences; singletons; no text, no cluster."""
    fewest = lambda: 0 if empty and draw(st.integers(0, 9)) == 0 else 1
    sentence = st.lists(words, min_size=fewest(), max_size=6).map(tuple)
    sentences = draw(st.lists(sentence, min_size=0 if empty else 1, max_size=4))
    n = sum(map(len, sentences))
    span = st.tuples(st.integers(0, max(0, n - 1)), st.integers(0, 4))
    span = span.map(lambda s: Span(s[0], min(n - 1, s[0] + s[1])))
    cluster = st.lists(span, min_size=fewest(), max_size=4).map(tuple)
    clusters = draw(st.lists(cluster, max_size=4)) if n else []
    labels = {}
    for field, values in {"type": ["PER", "a-b"], "kind": ["NOM", ""]}.items():
        if draw(st.booleans()):
            value = st.sampled_from(values)
            labels[field] = tuple(tuple(draw(value) for _ in c) for c in clusters)
    told = tuple(draw(names) for _ in clusters) if draw(st.booleans()) else ()
    labels = {f: v for f, v in labels.items() if any(map(any, v))}
    return Document(draw(doc_key), tuple(sentences), tuple(clusters), told, labels)


def corpus(**how):
    "A few documents."
    return st.lists(documents(doc_key=keys, **how), max_size=3, unique_by=lambda d: d.doc_key)


# JSON lines of others


def kitmus_text(docs) -> str:
    "Documents as the authors of KITMUS wrote them, byte for byte."
    lines = []
    for d in docs:
        speakers = [["Speaker#1"] * len(s) for s in d.sentences]
        fields = {"doc_key": d.doc_key, "sentences": d.sentences, "speakers": speakers}
        lines.append(json.dumps(fields | {"clusters": d.clusters}))
    return "\n".join(lines)


def bert(word: str) -> list[str]:
    return [("##" if i else "") + word[i : i + 2] for i in range(0, len(word), 2)]


def sentencepiece(word: str) -> list[str]:
    return [("" if i else "▁") + word[i : i + 2] for i in range(0, len(word), 2)]


def lossy(word: str) -> list[str]:
    return [p.lower() for p in bert(word)] if word.isascii() else []


def in_pieces(docs, tokenize, segment: int = 512, specials=("[CLS]", "[SEP]")) -> str:
    """Documents as JSON lines in word pieces, in segments that end between words; no lines where a
    word does not fit into one."""
    out, room = "", segment - sum(map(bool, specials))
    for d in docs:
        sentence = [i for i, s in enumerate(d.sentences) for _ in s]
        words = [list(tokenize(t)) or ["[UNK]"] for t in d.tokens]
        if max(map(len, words), default=0) > room:
            return ""
        rows, at = [[]], {}
        for w, pieces in enumerate(words):
            if len(rows[-1]) + len(pieces) > room:
                rows.append([])
            rows[-1] += [(p, w, sentence[w], True) for p in pieces]
        special = lambda mark, beside: [(mark, *beside[1:3], False)] * bool(mark)
        rows = [special(specials[0], r[0]) + r + special(specials[1], r[-1]) for r in rows if r]
        flat = [x for r in rows for x in r]
        for k, (_, w, _, real) in enumerate(flat):
            if real:
                at.setdefault(w, []).append(k)
        line = {
            "doc_key": d.doc_key,
            "sentences": [[p for p, *_ in r] for r in rows],
            "clusters": [[(at[s][0], at[e][-1]) for s, e in c] for c in d.clusters],
            "sentence_map": [s for _, _, s, _ in flat],
            "subtoken_map": [w for _, w, *_ in flat],
            "orig_tokens": d.tokens,
        }
        out += json.dumps(line) + "\n"
    return out


# Standoff


def lined(rows) -> str:
    return "".join("\t".join(map(str, r)) + "\n" for r in rows)


def mentions_of(d: Document) -> list[tuple]:
    "Span, cluster, type, kind and text of each mention, in the order of the text."
    none = [[""] * len(c) for c in d.clusters]
    types, kinds = (d.labels.get(f) or none for f in ("type", "kind"))
    text = lambda s: " ".join(d.tokens[s.start : s.end + 1])
    mentions = [(s, i, j) for i, c in enumerate(d.clusters) for j, s in enumerate(c)]
    return sorted((s, i, types[i][j], kinds[i][j], text(s)) for s, i, j in mentions)


def litbank_text(d: Document) -> tuple[str, str]:
    "A document as LitBank's standoff files."
    at = [(n, i) for n, s in enumerate(d.sentences) for i in range(len(s))]
    ids = [n or str(i) for i, n in enumerate(d.names or [""] * len(d.clusters))]
    rows, links = [], []
    for n, (s, i, type, kind, text) in enumerate(mentions_of(d)):
        rows.append(("MENTION", f"T{n}", *at[s.start], *at[s.end], text, type, kind))
        links.append(("COREF", f"T{n}", ids[i]))
    return lined(rows + links), "".join(" ".join(s) + "\n" for s in d.sentences)


def booknlp_text(d: Document) -> tuple[str, str]:
    "A document as BookNLP's files."
    head = ("COREF", "start_token", "end_token", "prop", "cat", "text")
    rows = [(i, *s, kind, type, text) for s, i, type, kind, text in mentions_of(d)]
    ids = ("paragraph_ID", "sentence_ID", "token_ID_within_sentence", "token_ID_within_document")
    words = [(n, i, w) for n, s in enumerate(d.sentences) for i, w in enumerate(s)]
    tokens = [(0, n, i, k, w) for k, (n, i, w) in enumerate(words)]
    return lined([head, *rows]), lined([(*ids, "word"), *tokens])


# GAP


@st.composite
def gap_rows(draw) -> GapRow:
    "Any text, and three stretches of it that are not blank."
    characters = st.characters(exclude_categories=["Cs"])
    odd = st.sampled_from("\"\t\n\r '’“\u0301\u200b\ufeffaéA1_-")
    text = draw(st.text(characters | odd, min_size=1, max_size=40).filter(str.strip))
    span = st.tuples(st.integers(0, len(text) - 1), st.integers(1, 9))
    span = span.map(lambda s: (s[0], text[s[0] : s[0] + s[1]])).filter(lambda s: s[1].strip())
    (p, pronoun), (a, first), (b, second) = draw(span), draw(span), draw(span)
    id = draw(st.text(characters, min_size=1, max_size=9))
    a_coref, b_coref = draw(st.booleans()), draw(st.booleans())
    url = draw(st.sampled_from(["", "none", '"']))
    return GapRow(id, pronoun, p, first, a, a_coref, second, b, b_coref, text, url)


def gap_text(rows) -> str:
    "Rows as a table: GAP's and KITMUS' own come out byte for byte."

    def cell(value) -> str:
        text = str(value).upper() if isinstance(value, bool) else str(value)
        quoted = any(c in text for c in '"\t\r\n')
        return '"' + text.replace('"', '""') + '"' if quoted else text

    return lined(
        [GAP_COLUMNS, *([cell(getattr(r, f)) for f in GAP_COLUMNS.values()] for r in rows)]
    )


# Small files that are read

GAP_ROW = GapRow(
    "r-1", "She", 16, "Léa", 1, True, "Bea", 10, False, "“Léa” met Bea\u200b. She sang."
)
STORY = Document(
    "story",
    (("Ann", "«met»", '"', "Bea", "."), ("She", "smiled", ".")),
    ((Span(0, 0), Span(0, 3)), (Span(3, 3), Span(5, 5))),
    ("Ann", "Bea"),
    {"type": (("PER", "PER"), ("PER", "PER")), "kind": (("PROP", "NOM"), ("PROP", "PRON"))},
)
STORIES = [STORY, bare(STORY, doc_key="other")]
# one mention of which has two parts
GAPS = written([STORY], "conllu").replace(b"(e1-PER-1-Ann)", b"(e1[1/2]-PER-1-Ann)")
GAPS = GAPS.replace(b"(e2-PER-1-Bea)e1)", b"e1)(e1[2/2]-PER-1-Ann)")
