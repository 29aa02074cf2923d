"Small documents made at random, and tokens that break what prints them carelessly."

from hypothesis import strategies as st
from refnb.core.documents import Document
from refnb.core.types import Span

SIZE = 12  # tokens of a small document
NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'",
    '"',
    "&amp;",
    "&",
    "</span></div>",
    "<!--",
    "]]>",
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "\n",
    "",
    " ",
    "x" * 5_000,
    "<" * 5_000,
    "${7*7}",
    "$\\frac{",
    "{{x}}",
    "%s",
    "\u200b",
    "a\u2028b",
    "javascript:alert(1)",
]

ends = st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1))
spans = ends.map(lambda pair: Span(*sorted(pair)))
free = st.lists(st.lists(spans, max_size=5), max_size=5)  # crossing, repeated, empty clusters
once = st.dictionaries(spans, st.integers(0, 3), max_size=14).map(
    lambda cluster: [[s for s in cluster if cluster[s] == i] for i in range(4)]
)  # a mention in one cluster
tokens = st.one_of(st.sampled_from(NASTY), st.text(max_size=8))
words = st.lists(tokens, min_size=SIZE, max_size=SIZE)


def document(clusters, tokens=None, names=()) -> Document:
    "A document of two sentences, or without text."
    sentences = (tuple(tokens[:5]), tuple(tokens[5:])) if tokens else ()
    return Document("d", sentences, tuple(map(tuple, clusters)), tuple(names))
