"Looking at documents: hostile text, crossing mentions, books, and differences that add up."

import functools, itertools
from html.parser import HTMLParser
from pathlib import Path
import msgspec
import pytest
from hypothesis import assume, given, strategies as st
from refnb.core.conll import parse_conll
from refnb.core.documents import (
    Box,
    DEEPEST,
    Document,
    MOST,
    Look,
    boxed,
    colors,
    named,
    plain,
    tidy,
    window_tokens,
)
from refnb.core.types import CallError, DataError, Span
from refnb.core.upstream import get
from refnb.metrics.coref import scores
from refnb.metrics.differences import (
    STATES,
    differences,
    matched,
    mention_states,
    side_by_side,
    worst_place,
)
from tools import growth, run_cells

ROOT = Path(__file__).parents[2]
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


# Documents, made at random

spans = st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)).map(
    lambda s: Span(*sorted(s))
)
free = st.lists(st.lists(spans, max_size=5), max_size=5)  # crossing, repeated, empty clusters
once = st.dictionaries(spans, st.integers(0, 3), max_size=14).map(
    lambda at: [[s for s in at if at[s] == i] for i in range(4)]
)  # a mention in one cluster
words = st.lists(
    st.one_of(st.sampled_from(NASTY), st.text(max_size=8)), min_size=SIZE, max_size=SIZE
)


def document(clusters, tokens=None, names=()) -> Document:
    half = (tuple(tokens[:5]), tuple(tokens[5:])) if tokens else ()
    return Document("d", half, tuple(map(tuple, clusters)), tuple(names))


@st.composite
def hostile(draw) -> Document:
    clusters = draw(free)
    names = draw(
        st.one_of(
            st.just([]),
            st.lists(st.sampled_from(NASTY), min_size=len(clusters), max_size=len(clusters)),
        )
    )
    d = document(clusters, draw(st.one_of(st.none(), words)), names)
    return d.changed(doc_key=draw(st.sampled_from(NASTY)))


# F53: nothing of the data becomes markup


class Tags(HTMLParser):
    "Tags and attributes must be ours, and close in order."

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        assert tag in {"div", "span", "small", "table", "tr", "td", "b", "i"}, tag
        assert {k for k, _ in attrs} <= {"style", "title"}, attrs
        style = dict(attrs).get("style") or ""
        assert "url" not in style and "expression" not in style and not set(style) & set("<>&\\"), (
            style
        )
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def clean(page: str) -> str:
    "The text of a page that holds no markup but ours."
    t = Tags()
    t.feed(page)
    t.close()
    assert not t.open and page.encode() and "\x00" not in page and "\x1b" not in page
    return "".join(t.text)


def looks(d: Document, other: Document | None = None) -> list[Look]:
    "Every look at a document."
    n = max((e for c in d.clusters for _, e in c), default=-1) + 1 if not d.sentences else d.size
    out = [
        Look(d._repr_html_(), repr(d)),
        d.entities(),
        *(d.cluster(i) for i in range(len(d.clusters))),
        side_by_side(d, other or d),
    ]
    if n:
        out += [d.around(n - 1), d.around((0, n - 1), 3)]
    if d.sentences:
        out += [d.find(t) for t in (d.tokens[0], "a", "&") if t.strip()]
    return out


@given(hostile(), free)
def test_f53_text_names_and_keys_are_escaped_in_every_look(d, predicted):
    for look in looks(d, d.changed(clusters=tuple(map(tuple, predicted)), names=())):
        clean(look.html)
        assert all(c.isprintable() or c == "\n" for c in str(look)), str(look)


@pytest.mark.parametrize("bad", [t for t in NASTY if t.strip()])
def test_f53_what_is_bad_is_shown_as_text(bad):
    d = Document(
        bad,
        ((bad, "said", bad),),
        ((Span(0, 0), Span(2, 2)),),
        (bad,),
        {"kind": ((bad, bad),)},
        {"title": bad},
    )
    for look in looks(d):
        clean(look.html)
        assert (
            not any(t in look.html for t in ("<script", "<img", "<!--")) and len(look.html) < 20_000
        )
    assert plain(bad)[:10] in clean(d._repr_html_())


def test_f53_tables_escape_names():
    gold = document([[(0, 0)], [(1, 1)]], ["w"] * SIZE, ["<script>", "b"])
    assert (
        "<script"
        not in differences(
            gold, gold.changed(clusters=(gold.clusters[0] + gold.clusters[1],), names=())
        )._repr_html_()
    )


# Boxes that cross

boxes = st.lists(spans, max_size=20).map(lambda ss: [Box(*s, str(i)) for i, s in enumerate(ss)])


@given(boxes, st.integers(0, SIZE), st.integers(1, SIZE))
def test_boxes_nest(given, start, length):
    look = boxed(["w"] * length, start, [b._replace(label="") for b in given])
    clean(look.html)  # each element is closed inside of the one around it
    depth = list(itertools.accumulate({"[": 1, "]": -1}.get(c, 0) for c in look.text))
    assert min([0, *depth]) == 0 and depth[-1:] in ([], [0]) and max([0, *depth]) <= DEEPEST


@given(st.lists(spans, max_size=DEEPEST).map(lambda ss: [Box(*s) for s in ss]))
def test_a_box_is_drawn_around_all_its_tokens(given):
    depth, around = 0, []
    for c in boxed(["w"] * 7, 2, given).text:
        depth += {"[": 1, "]": -1}.get(c, 0)
        around += [depth] * (c == "w")
    assert around == [sum(b.start <= t <= b.end for b in given) for t in range(2, 9)]


@given(boxes)
def test_boxes_change_no_word(given):
    tokens = [f"w{i}" for i in range(SIZE)]
    unlabelled = [b._replace(label="") for b in given]
    look = boxed(tokens, 0, unlabelled)
    told = lambda text: text.partition(" (")[0].split()  # the boxes that are not drawn
    assert told(clean(look.html)) == tokens
    assert told(look.text.replace("[", "").replace("]", "")) == tokens


def test_crossing_mentions_show_both_names_once():
    d = document([[(0, 3)], [(2, 6)]], [f"w{i}" for i in range(SIZE)], ["left", "right"])
    assert (
        d.around(2).text.splitlines()[1].split("0  ", 1)[1]
        == "[w0 w1 [[w2] w3]]left [w4 w5 w6]right w7 w8 w9 w10 w11"
    )
    page = d._repr_html_().split("<table")[0]
    assert page.count("border-left:0") == 1 and page.count("border-right:0") == 1


def test_too_many_boxes_are_counted_instead_of_drawn():
    d = Document("d", (("w",) * 100,), tuple((Span(i, min(99, i + 50)),) for i in range(100)) * 10)
    many = [Box(i % 100, min(99, i % 100 + 50)) for i in range(1_000)]
    assert boxed(["w"] * 100, 0, many).text.count("[") < MOST + 2 * DEEPEST
    assert "more mentions here are not drawn" in clean(d._repr_html_())


# Books


@functools.cache
def book(tokens: int, clusters: int = 40) -> Document:
    "A book with a mention every ten tokens, some of them nested or crossing."
    line, step = tuple(f"word{i}" for i in range(25)), 10 * clusters
    cluster = lambda k: tuple(
        Span(t, min(t + t % 4, tokens - 1)) for t in range(10 * k, tokens, step)
    )
    return Document("book", (line,) * (tokens // 25), tuple(map(cluster, range(clusters))))


def shifted(d: Document) -> Document:
    "Predicted clusters: some split, some merged, some spurious."
    c = d.clusters
    halves = (half for x in c[12:30] for half in (x[::2], x[1::2]))
    return d.changed(
        clusters=(
            *c[:10],
            c[10] + c[11],
            *halves,
            tuple(Span(s.start + 5, s.start + 5) for s in c[30][:-1]),
        )
    )


LOOKS = {
    "repr": lambda d, p: d._repr_html_(),
    "without text": lambda d, p: d.changed(sentences=())._repr_html_(),
    "text": lambda d, p: str(d.around(d.size // 2)),
    "around": lambda d, p: d.around(d.size // 2).html,
    "wide": lambda d, p: d.around(d.size // 2, 10**6).html,
    "find": lambda d, p: d.find("word3 word4").html,
    "cluster": lambda d, p: d.cluster(3).html,
    "entities": lambda d, p: d.entities(1000).html,
}
JOINED = {
    "side by side": lambda d, p: side_by_side(d, p).html,
    "worst place": lambda d, p: worst_place(matched(d, p)),
    "named": lambda d, p: named(d),
    "differences": differences,
    "states": mention_states,
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_a_book_is_as_small_as_one_at_a_chapter(look):
    chapter, novel = book(7_000), book(700_000)
    small, large = (len(LOOKS[look](d, None)) for d in (chapter, novel))
    assert large < 1.25 * small + 500 and large < 50_000


@pytest.mark.parametrize("look", [*LOOKS, *JOINED])
def test_work_grows_no_faster_than_the_book(look):
    f = (LOOKS | JOINED)[look]
    small, large = ((d, shifted(d)) for d in map(book, (5_000, 20_000)))
    assert growth(lambda pair: f(*pair), small, large) < 5


@pytest.mark.full
def test_a_large_book_is_compared_as_a_small_one_is():
    gold = book(400_000)
    predicted = shifted(gold)
    n = mention_states(gold, predicted).state.value_counts().reindex(STATES, fill_value=0)
    rows = differences(gold, predicted)
    assert n["right"] + n["wrong entity"] + n["missed"] == rows.mentions.sum() == len(gold.mentions)
    assert rows.in_best.sum() == n["right"]


def test_hostile_books_stay_small_too():
    bad = NASTY[0] * 50
    evil = Document(
        bad,
        ((bad,) * 5_000,),
        tuple(
            tuple(Span(i, min(4_999, i + (i * j) % 50)) for i in range(j, 5_000, 7))
            for j in range(200)
        ),
        (bad,) * 200,
    )
    for look in (
        evil._repr_html_(),
        evil.around(2_500, 10**6).html,
        evil.find(bad, n=100).html,
        evil.cluster(3, n=100).html,
        evil.entities(100).html,
    ):
        clean(look)
        assert len(look) < 100_000


# Looks are right


def test_a_document_is_one_line():
    d = document([[(0, 1)], [(3, 3), (4, 4)]], ["w"] * SIZE)
    assert repr(d) == "Document('d', 12 tokens, 2 clusters, 3 mentions)"
    assert (
        repr(d.changed(doc_key="it's\n", sentences=()))
        == "Document('it's·', without text, 2 clusters, 3 mentions)"
    )
    assert msgspec.json.decode(msgspec.json.encode(d), type=Document) == d


@given(hostile())
def test_a_window_of_tokens_is_a_slice_of_all(d):
    assume(d.sentences)
    for start, stop in itertools.combinations(range(SIZE + 1), 2):
        assert window_tokens(d, start, stop) == d.tokens[start:stop]


def test_the_largest_clusters_differ_in_colour():
    d = Document(
        "d",
        clusters=tuple(
            tuple(Span(100 * i + j, 100 * i + j) for j in range(i + 1)) for i in range(20)
        ),
    )
    tints = colors(d)
    assert (
        len(set(tints[-8:])) == 8
        and not set(tints[-8:]) & set(tints[:-8])
        and tints[0] not in tints[1:]
    )


def test_what_cannot_be_shown_is_told():
    d = document([[(0, 1)]], ["w"] * SIZE, ["Ann"])
    calls = [
        (lambda: d.around(SIZE), "is not a span of the 12 tokens"),
        (lambda: d.around((3, 2)), r"\[3, 2\] is not a span"),
        (lambda: d.cluster(1), "no cluster 1"),
        (lambda: d.cluster("An"), "did you mean Ann"),
        (lambda: d.find(""), "nothing to search for"),
        (lambda: Document("e").around(0), "is not a span of the 0 tokens"),
        (lambda: side_by_side(d, d, around=99), "is not a span of the 12 tokens"),
    ]
    for call, what in calls:
        with pytest.raises(CallError, match=what):
            call()
    with pytest.raises(DataError, match="has no text"):
        d.changed(sentences=()).find("w")


def test_numbers_of_tables_name_places_and_clusters():
    d = document([[(0, 1), (4, 4)], [(3, 3)]], ["w"] * SIZE)
    row = mention_states(d, d).iloc[1]
    assert d.cluster(differences(d, d).index[0]).text.startswith("0: 2 mentions")
    assert (
        d.around(row.start).text
        == d.around(int(row.start)).text
        == d.around((row.start, row.end)).text
    )
    assert (
        side_by_side(d, d, around=row.start, width=2).text
        == side_by_side(d, d, around=3, width=2).text
    )


def test_nothing_or_less_than_nothing_is_asked_for():
    d = document([[(0, 1), (4, 4)], [(3, 3)]], ["w"] * SIZE, ["a", "b"])
    nothing = [f(0, n=n) for f in (lambda _, n: d.find("w", n=n), d.cluster) for n in (0, -1)]
    for look in (
        *nothing,
        d.entities(0),
        d.around(3, width=-9),
        side_by_side(d, d, around=3, width=-9),
    ):
        clean(look.html)
    assert d.find("w", n=-1).text == "'w': 12 hits in d\nand 12 more"


def test_a_search_sees_through_tokenisation():
    d = Document("d", (("Mr", ".", "Darcy", "and", "MR.", "DARCY", ",", "Mr.", "Darcys", "\n"),))
    hits = lambda q: int(d.find(q).text.split(": ")[1].split(" ")[0])
    assert [hits(q) for q in ("mr. darcy", "Mr.Darcy", "darcy", "arcy", "darcys")] == [
        2,
        2,
        2,
        0,
        1,
    ]


# Documents without text


@given(free)
def test_without_text_everything_still_works(clusters):
    d = document(clusters)
    for look in looks(d, document(clusters[1:])):
        clean(look.html)
    assert named(d).names == ("",) * len(clusters)


def test_text_of_either_side_is_used():
    with_text, without = document([[(0, 1)]], [f"w{i}" for i in range(SIZE)]), document([[(0, 1)]])
    for gold, predicted in ((with_text, without), (without, with_text)):
        assert "w3" in side_by_side(gold, predicted).text
    with pytest.raises(DataError, match=r"10 of 12 words differ, the first is 'v2'"):
        side_by_side(with_text, document([], ["w0", "w1", "v2", *"abcdefghi"]))


# Differences add up


@given(free, free)
def test_states_add_up(gold, predicted):
    g, p = document(gold), document(predicted)
    n = mention_states(g, p).state.value_counts().reindex(STATES, fill_value=0)
    assert n["right"] + n["wrong entity"] + n["missed"] == len({s for c in gold for s in c})
    assert n["right"] + n["wrong entity"] + n["spurious"] == len({s for c in predicted for s in c})


@given(once, once)
def test_states_agree_with_the_scorer(gold, predicted):
    g, p = document(gold), document(predicted)
    n = mention_states(g, p).state.value_counts().reindex(STATES, fill_value=0)
    s, found = (
        scores(g.clusters, p.clusters, ["mentions"])["mentions"],
        n["right"] + n["wrong entity"],
    )
    assert s[:2] == pytest.approx(
        (found / max(1, len(p.mentions)), found / max(1, len(g.mentions)))
    )


@given(once, once)
def test_entities_add_up_to_mentions(gold, predicted):
    g, p = document(gold), document(predicted)
    t, n = (
        differences(g, p),
        mention_states(g, p).state.value_counts().reindex(STATES, fill_value=0),
    )
    assert list(t.index) == sorted(t.index, key=lambda i: (-len(gold[i]), i)) and set(t.index) == {
        i for i, c in enumerate(gold) if c
    }
    assert (t.mentions.sum(), t.in_best.sum(), t.missed.sum()) == (
        len(g.mentions),
        n["right"],
        n["missed"],
    )
    assert (t.found + t.missed == t.mentions).all() and (
        t.in_best + t.spurious <= t.best_size
    ).all()
    assert (t.in_best <= t.most).all() and (t.most <= t.found).all() and (t.pieces <= t.found).all()
    assert t.best.dropna().is_unique


@given(once, once)
def test_missed_and_spurious_change_places_with_gold_and_predicted(gold, predicted):
    there, back = (
        mention_states(document(a), document(b)).state.value_counts()
        for a, b in ((gold, predicted), (predicted, gold))
    )
    assert there.get("missed", 0) == back.get("spurious", 0) and there.get(
        "spurious", 0
    ) == back.get("missed", 0)


@given(once, st.randoms(use_true_random=False))
def test_a_perfect_prediction_is_right_in_any_order(gold, random):
    other = [random.sample(c, len(c)) for c in random.sample(gold, len(gold))]
    g, p = document(gold), document(other)
    assert set(mention_states(g, p).state) <= {"right"} and set(differences(g, p).verdict) <= {
        "whole"
    }
    assert tidy(g.clusters) == tidy(p.clusters)


def test_verdicts_of_made_faults():
    span = lambda *at: tuple(Span(i, i) for i in at)
    entities = {
        "whole": range(10),
        "halved": range(10, 20),
        "lost": range(20, 30),
        "swallowed": (30, 31),
        "twin": range(40, 50),
        "other twin": range(50, 60),
    }
    gold = Document("d", clusters=tuple(span(*r) for r in entities.values()), names=tuple(entities))
    predicted = Document(
        "d",
        clusters=(
            span(*range(10), 30, 31),
            span(*range(10, 15)),
            span(*range(15, 20)),
            span(20),
            span(*range(40, 60), 99),
        ),
    )
    t = differences(gold, predicted).set_index("name")
    assert t.verdict.to_dict() == {
        "whole": "whole",
        "halved": "split",
        "lost": "vanished",
        "swallowed": "merged",
        "twin": "merged",
        "other twin": "merged",
    }
    assert (
        t.loc["swallowed", "merged_with"] == "whole"
        and t.loc["other twin", "merged_with"] == "twin"
        and t.spurious.sum() == 1
    )
    assert (
        differences(gold, predicted, found_at_least=0.1, strange_at_most=0.9)
        .verdict.tolist()
        .count("whole")
        == 5
    )


# A real book


def test_mentions_of_animal_farm_are_found_as_the_scorer_says(upstream):
    gold = named(parse_conll(get("QipengGuo/dual-cache-coref/data/animal_farm_anno.conll"))[0])
    assert gold.names[5] == "Boxer" and gold.names[14] == "Napoleon"
    known = {
        "off_the_shelf/booknlp": (47.37, 92.84),
        "off_the_shelf/maverick_xl": (43.60, 90.73),
        "finetuned_bookcoref/maverick_xl": (87.33, 82.87),
    }
    for name, (precision, recall) in known.items():
        d = next(
            d
            for d in map(
                msgspec.json.decode,
                get(f"SapienzaNLP/bookcoref/predictions/{name}.jsonl").splitlines(),
            )
            if d["doc_key"] == "animal_farm_0"
        )
        predicted = Document(
            d["doc_key"],
            tuple(map(tuple, d["sentences"])),
            tuple(tuple(Span(*s) for s in c) for c in d["clusters"]),
        )
        n = mention_states(gold, predicted).state.value_counts()
        found = n["right"] + n["wrong entity"]
        assert (
            round(100 * found / (found + n["spurious"]), 2),
            round(100 * found / len(gold.mentions), 2),
        ) == (precision, recall)
    assert differences(gold, predicted).set_index("name").loc[
        "Boxer", ["verdict", "in_best"]
    ].tolist() == ["merged", 0]  # Boxer became Napoleon


def test_the_session_runs_with_a_real_book(upstream, monkeypatch, capsys):
    "With the sample it is run wherever notebooks are."
    monkeypatch.chdir(ROOT)
    run_cells(ROOT / "nbs/explore/where_a_system_loses.ipynb", book="animal-farm")
    assert "Most is lost with Boxer (merged)" in capsys.readouterr().out
