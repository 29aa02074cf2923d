"AltEntities made anew: entities, filters, pairs, splits, expressions, the annotation page in a browser, and the whole way back to the release's form."

import json, re
from collections import Counter
from html.parser import HTMLParser
from itertools import combinations, pairwise
import numpy as np
import pytest
from hypothesis import given, settings as how, strategies as st
from rapidfuzz.distance import Levenshtein
from scipy import sparse
import refnb.benchmarks.altentities.questions as alt
from browser import Tab, nothing_leaves, port  # noqa: F401 (a fixture)
from servers import Tree
from test_altentities import departures
from test_formats import good_or_one_line, mutated
from test_looking import NASTY
from refnb.core.files import write_jsonl
from tools import here, one_line, wait
from refnb.benchmarks.altentities.questions import (
    DOMAINS,
    SECTIONS,
    USED,
    parse_altentities,
    read_altentities,
)
from refnb.benchmarks.altentities.builder import (
    AltRules,
    POSITION,
    build_altentities,
    draft_of,
    join_expressions,
    name_pattern,
    read_drafts,
    release_text,
    folded,
    why_flagged,
    why_refused,
)
from refnb.benchmarks.altentities.entities import (
    LONGEST,
    WHY,
    Entity,
    Filters,
    as_choice,
    cut_words,
    candidates,
    cut_description,
    infobox_text,
    read_entities,
    unshown_text,
    usable_sections,
    why_dropped,
)
from refnb.benchmarks.altentities.pairs import (
    SHARES,
    Drawn,
    apportioned,
    attribute_pairs,
    draw,
    encoded,
    nearest_rows,
    similar_titles,
    split_pairs,
    tfidf_vectors,
    told_names,
    uniform_pairs,
)
from refnb.benchmarks.altentities.annotation_page import (
    LEAST,
    MOST,
    VERSION,
    annotation_page,
    collect,
    in_pages,
    page_id,
    read_annotations,
    write_collected,
    write_to_annotate,
)
from refnb.core.settings import packaged
from refnb.core.types import DataError, FormatError

TABLE, SAMPLE = (
    packaged("data/sample/altentities_entities.jsonl"),
    packaged("data/sample/altentities.json"),
)
ENTITIES, QUESTIONS = read_entities(TABLE), read_altentities(SAMPLE, "sample")
SMALL = AltRules(questions=20, shortest=150, fewest_sections=3)
BUILT = build_altentities(ENTITIES, SMALL)
DRAFTS = [draft_of(q, "sample", n) for n, q in enumerate(QUESTIONS)]
LETTERS = st.characters(exclude_categories=["Cs"])
DECENT = [t for t in NASTY if t.strip() and "\ud800" not in t]


# Pages


class Parsed(HTMLParser):
    "Tags, attributes, and the text of scripts."

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attrs, self.texts = [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attrs += attrs

    def handle_data(self, data):
        self.texts.setdefault(self.tags[-1] if self.tags else "", []).append(data)


def data(text: str) -> dict:
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
    )


# Entities


def entity(**fields) -> Entity:
    return Entity(
        **{
            "name": "Rye (novel)",
            "url": "u:1",
            "domain": "books",
            "sections": {"": "word " * 60},
            "attributes": {"genre": "Horror"},
            "templates": ("Infobox book",),
        }
        | fields
    )


ROW = json.loads(TABLE.read_text().splitlines()[0])
BAD_ROWS = [
    ({"name": None}, "missing required field `name`"),
    ({"name": " "}, "field name: is empty"),
    ({"url": ""}, "field url: is empty"),
    ({"domain": "film"}, "field domain: unknown domain 'film'"),
    ({"domain": "music"}, "the files call it songs"),
    ({"sections": None}, "missing required field `sections`"),
    ({"sections": ["a"]}, "field sections: Expected `object`, got `array`"),
    ({"sections": {"a": 1}}, "field sections[...]: Expected `str`"),
    ({"sections": {"Plot": "a", "plot": "b"}}, "field sections: 'plot' appears twice"),
    ({"attributes": {"genre": 7}}, "field attributes[...]: Expected"),
    ({"templates": "x"}, "field templates: Expected `array`"),
    ({"isbn": "1"}, "unknown field `isbn`"),
]


@pytest.mark.parametrize("change, said", BAD_ROWS)
def test_a_row_that_cannot_be_is_refused_with_its_line(tmp_path, change, said):
    bad = {k: v for k, v in (ROW | {"url": "u:2"} | change).items() if v is not None}
    (path := tmp_path / "e.jsonl").write_text(f"{json.dumps(ROW)}\n{json.dumps(bad)}\n")
    with pytest.raises(FormatError) as e:
        read_entities(path)
    assert str(e.value).startswith(f"{path}, line 2") and said in str(e.value)


def test_a_table_cut_off_or_doubled(tmp_path):
    whole = TABLE.read_text()
    for text, said in [
        (whole[:5000], ", line "),
        (whole + whole.splitlines()[4], "field url: "),
        ("", "has no entities"),
        (whole.replace('"name"', '"url": "x", "name"', 1), "the key 'url' appears twice"),
    ]:
        (path := tmp_path / "e.jsonl").write_text(text)
        with pytest.raises(FormatError, match=re.escape(said)):
            read_entities(path)


ODD_TABLES = [
    ("e.csv", "name,url,domain\n", "cannot be read as a table; give JSON lines"),
    ("e.XLSX", "PK", "cannot be read as a table"),
    ("e.json", "[\n" + json.dumps(ROW) + "\n]", "an object a line, without commas"),
    ("e.jsonl", "\n\n", "has no entities"),
    ("e.jsonl", json.dumps(ROW | {"name": "\u200b"}), "field name: is empty"),
]


@pytest.mark.parametrize("name, text, said", ODD_TABLES)
def test_f42_an_odd_table_is_refused_in_one_line(tmp_path, name, text, said):
    (path := tmp_path / name).write_text(text)
    with pytest.raises(FormatError) as e:
        read_entities(path)
    assert str(e.value).startswith(str(path)) and said in str(e.value) and "\n" not in str(e.value)


@given(st.text("ab.!? \n'", max_size=300), st.integers(1, 200))
def test_a_cut_description_is_a_beginning(text, limit):
    got = cut_description(text, limit)
    assert len(got) <= limit + 4 and text.strip().startswith(
        got.removesuffix(" ...") if len(text.strip()) > limit else got
    )
    assert len(text.strip()) > limit or got == text.strip()


@given(
    st.dictionaries(
        st.text(LETTERS, min_size=1, max_size=9).filter(str.strip), st.text(LETTERS, max_size=60)
    ),
    st.text(LETTERS, max_size=40),
    st.integers(1, 300),
)
def test_an_unshown_background_begins_with_the_infobox_and_ends_in_time(attributes, text, times):
    text = text * times
    e = entity(attributes=attributes, sections={"": text, "plot summary": "shown"})
    box, more = infobox_text(e), unshown_text(e, "plot summary")
    assert (
        more.startswith(box)
        and len(more) < LONGEST
        and box.startswith(":")
        and text.strip().startswith(more.removeprefix(box).removeprefix(". "))
    )


@given(st.text(LETTERS), st.integers(0, 40))
def test_a_text_cut_between_words(text, n):
    got = cut_words(text, n)
    assert text.startswith(got) and len(got) <= max(n, 0)


CASES = [
    ({"templates": ("a", "b")}, "infoboxes"),
    ({"sections": {"": "<b>x</b> " + "word " * 60}}, "html"),
    ({"attributes": {"genre": "<i>x</i>"}}, "html"),
    ({"sections": {}}, "none"),
    ({"sections": {"Reception": "word " * 60}}, "none"),
    ({"sections": {"": "x" * 250}}, "short"),
    ({"sections": {"": "x" * 251}}, ""),
    ({"sections": {"": "x", "Plot  SUMMARY": "x" * 251}}, ""),
    ({"attributes": {}}, "genre"),
    ({"attributes": {"genre": " "}}, "genre"),
    ({}, ""),
]
FOOD = {
    "domain": "recipes",
    "templates": ("Infobox prepared food",),
    "image_url": "http://x/y.jpg",
    "attributes": {},
}
SONG = {
    "domain": "songs",
    "templates": ("Infobox song",),
    "sections": {"": "x" * 251} | {str(i): "y" for i in range(14)},
}
CASES += [
    (FOOD, ""),
    (FOOD | {"image_url": ""}, "image"),
    (FOOD | {"templates": ("Infobox pan",)}, "food"),
    (FOOD | {"templates": (), "sections": {"": "y", "Ingredients": "x" * 251}}, ""),
    (FOOD | {"sections": {"preparation": "x" * 251}}, ""),
    (SONG, ""),
    (SONG | {"sections": dict(list(SONG["sections"].items())[:14])}, "sections"),
    (SONG | {"attributes": {}}, "genre"),
    (SONG | {"sections": {"": "x"} | {str(i): "y" * 300 for i in range(14)}}, "short"),
]


@pytest.mark.parametrize("change, why", CASES)
def test_the_filters_of_table_12(change, why):
    assert why_dropped(entity(**change), Filters()) == why


@given(st.lists(st.sampled_from(CASES), max_size=30), st.integers(1, 5), st.randoms())
def test_every_entity_is_a_candidate_or_counted_once(cases, most, rng):
    table = [entity(**change | {"url": f"u:{i}"}) for i, (change, _) in enumerate(cases)]
    c = candidates(table, Filters(most_songs=most))
    kept = {e.url for e in c.entities}
    assert (
        kept | set(c.dropped) == {e.url for e in table}
        and not kept & set(c.dropped)
        and set(c.dropped.values()) <= set(WHY)
    )
    ours = [(c.dropped.get(e.url, ""), why) for e, (_, why) in zip(table, cases)]
    assert all(a == b for a, b in ours if a not in ("popular", "twin")) and not any(
        b for a, b in ours if a in ("popular", "twin")
    )
    rows = c.table()
    assert (
        all(rows[0][d] == sum(r[d] for r in rows[1:]) for d in DOMAINS)
        and sum(e.domain == "songs" for e in c.entities) <= most
    )
    rng.shuffle(table)
    assert candidates(table, Filters(most_songs=most)).dropped == c.dropped


def test_the_longest_songs_stay():
    table = [
        entity(
            **SONG
            | {"url": f"u:{n}", "sections": SONG["sections"] | {f"more {i}": "z" for i in range(n)}}
        )
        for n in range(6)
    ]
    assert {e.url for e in candidates(table, Filters(most_songs=2)).entities} == {"u:4", "u:5"}


def test_candidates_make_choices_of_what_is_shown():
    for e in BUILT.candidates.entities:
        for s in usable_sections(e, SMALL):
            shown = next(t for h, t in e.sections.items() if h.lower() == s)
            assert e.domain == "songs" or as_choice(e, s).description == cut_description(shown)


def test_of_one_text_one_entity_stays():
    table = [
        entity(
            url=f"u:{i}",
            name=f"Rye {i}",
            sections={
                "": f"{i // 2} word " * 60,
                "plot summary": "the same plot " * 40 if i > 3 else "",
            },
        )
        for i in range(8)
    ]
    assert (
        candidates(table).dropped
        == candidates(table[::-1]).dropped
        == dict.fromkeys(["u:1", "u:3", "u:5", "u:6", "u:7"], "twin")
    )
    songs = [entity(**SONG | {"url": f"u:{i}", "name": f"Rye {i}"}) for i in range(3)]
    assert not candidates(songs).dropped, "songs are shown by their links"


# Pairs


@given(st.lists(st.text("ab c", max_size=9), max_size=40), st.integers(0, 4))
def test_similar_titles_are_those_that_brute_force_finds(titles, edits):
    assert similar_titles(titles, edits) == [
        (i, j)
        for i, j in combinations(range(len(titles)), 2)
        if Levenshtein.distance(titles[i], titles[j]) <= edits
    ]


@given(
    st.integers(2, 60), st.integers(1, 9), st.integers(0, 10**6), st.integers(1, 900), st.booleans()
)
def test_the_nearest_row_is_the_one_that_brute_force_finds(n, size, seed, most, thin):
    rng = np.random.default_rng(seed)
    v = rng.integers(-2, 3, (n, size)).astype(
        np.float32
    )  # small whole numbers: cosines that are equal are so exactly, or nearly
    v[0, 0] = 1
    rows = rng.choice(n, rng.integers(1, n + 1))
    unit = encoded(lambda t: sparse.csr_matrix(v) if thin else v, range(n))
    at, how_near = nearest_rows(unit, rows, most)
    dense = encoded(lambda t: v, range(n))
    full = dense @ dense.T - 9 * np.eye(n, dtype=np.float32)
    assert (
        np.allclose(full[rows, at], full[rows].max(1), atol=1e-5)
        and np.allclose(how_near, full[rows].max(1), atol=1e-5)
        and not (at == rows).any()
    )


def test_texts_of_rare_words_are_near():
    texts = ["the cat sat", "the dog sat", "the zebra ran", "a zebra slept", ""]
    assert nearest_rows(encoded(tfidf_vectors, texts))[0].tolist()[2:4] == [3, 2]
    dense, thin = (
        encoded(lambda t: tfidf_vectors(t).toarray(), texts),
        encoded(tfidf_vectors, texts),
    )
    assert np.allclose(dense, thin.toarray(), atol=1e-6)


@pytest.mark.parametrize(
    "rows",
    [
        lambda t: np.ones((len(t) + 1, 2)),
        lambda t: np.ones(len(t)),
        lambda t: [["x"]] * len(t),
        lambda t: np.full((len(t), 2), np.inf),
        lambda t: None,
        lambda t: np.zeros((len(t), 2)),
        lambda t: np.ones((len(t), 0)),
        lambda t: np.array([["a"]] * len(t)),
        lambda t: np.array([[None]] * len(t)),
        lambda t: np.ones((len(t), 2)) * 1j,
        lambda t: sparse.coo_array((len(t), 2)),
    ],
)
def test_an_encoder_that_gives_something_else_is_refused(rows):
    with pytest.raises(DataError, match="the encoder gave"):
        build_altentities(ENTITIES, SMALL, encoder=rows)


@pytest.mark.parametrize(
    "change", [lambda m: m * 1e9, lambda m: m * 1e-4, sparse.coo_array, lambda m: m.astype(int)]
)
def test_numbers_of_any_size_and_form_say_the_same(change):
    v = np.random.default_rng(0).integers(-9, 9, (30, 5)).astype(float)
    same = nearest_rows(encoded(lambda t: v, range(30)))
    got = nearest_rows(encoded(lambda t: change(v), range(30)))
    assert (
        np.allclose(got[1], same[1], atol=1e-4)
        and (got[0] >= 0).all()
        and (got[0] != np.arange(30)).all()
    )


def test_any_encoder_will_do():
    seen = []

    def by_length(texts):
        seen.extend(texts)
        return np.array([[len(t), 400.0] for t in texts])

    got = draw(BUILT.candidates, "books", {"SIMILAR_DESCRIPTION": 30}, encoder=by_length)
    assert {d.method for d in got} == {"SIMILAR_DESCRIPTION"} and {
        cut_description(e.section(d.section)) for d in got for e in d.choices
    } <= set(seen)


@given(st.integers(0, 12), st.integers(0, 10**6))
def test_any_two_once(n, seed):
    import random

    pool = [entity(name=f"Rye {i // 2}", url=f"u:{i}") for i in range(n)]
    got = list(uniform_pairs(pool, random.Random(seed)))
    assert sorted(got) == [
        (i, j) for i, j in combinations(range(n), 2) if pool[i].name != pool[j].name
    ]


values = st.sampled_from(["a", "b", "A", ""])


@given(st.lists(st.tuples(values, values), max_size=12), st.integers(0, 99))
def test_equal_attributes_are_all_found(rows, seed):
    import random

    pool = [
        entity(domain="songs", name=f"Rye {i}", url=f"u:{i}", attributes={"genre": g, "artist": a})
        for i, (g, a) in enumerate(rows)
    ]
    got = {tuple(sorted(p)) for p in attribute_pairs(pool, random.Random(seed), "songs")}
    same = lambda x, y: bool(x) and x.lower() == y.lower()
    assert got == {
        (i, j)
        for i, j in combinations(range(len(rows)), 2)
        if same(rows[i][0], rows[j][0]) or same(rows[i][1], rows[j][1])
    }


@given(st.integers(0, 10**4), st.sampled_from(list(DOMAINS)), st.randoms())
@how(max_examples=25)
def test_pairs_are_what_their_method_says_and_come_once(seed, domain, rng):
    c = BUILT.candidates
    wish = {m: rng.randrange(12) for m in USED[domain.upper()]}
    got = draw(c, domain, wish, seed)
    assert got == draw(
        c._replace(entities=tuple(rng.sample(c.entities, len(c.entities)))), domain, wish, seed
    )
    pairs = [frozenset(e.url for e in d.choices) for d in got]
    assert len(set(pairs)) == len(pairs) and all(len(p) == 2 for p in pairs)
    n = Counter(d.method for d in got)
    assert all(n[m] <= k for m, k in wish.items()) and n["UNIFORM"] == wish["UNIFORM"]
    for d in got:
        assert (
            d.section in SECTIONS[domain.upper()]
            and all(d.section in usable_sections(e, c.filters) for e in d.choices)
            and len(set(told_names(*d.choices))) == 2
        )


def test_what_is_called_the_same_is_no_pair():
    twins = [
        entity(url=f"u:{i}", name=n, sections={"": f"{i} word " * 60})
        for i, n in enumerate(["Rye", "Rye", "Rye (novel)", "Rye (poem)"], 1)
    ]
    got = draw(candidates(twins), "books", {"SAME_NAME": 99, "UNIFORM": 99, "SIMILAR_NAME": 99})
    assert {frozenset(e.url for e in d.choices) for d in got} == {
        frozenset(p) for p in combinations(["u:1", "u:2", "u:3", "u:4"], 2)
    } - {frozenset(["u:1", "u:2"])}
    assert {frozenset(told_names(*d.choices)) for d in got} == {
        frozenset(p)
        for p in (("Rye", "Rye (novel)"), ("Rye", "Rye (poem)"), ("Rye (novel)", "Rye (poem)"))
    }


def test_f43_names_that_look_the_same_are_no_pair():
    seen = [
        "Café Noir",
        "Cafe\u0301 Noir",
        "CAFÉ  Noir ",
        "Café\u200b Noir",
        "Ann’s Tin",
        "Ann's Tin",
    ]
    got = draw(
        candidates(
            [
                entity(url=f"u:{i}", name=n, sections={"": f"{i} word " * 60})
                for i, n in enumerate(seen)
            ]
        ),
        "books",
        {"SAME_NAME": 99, "UNIFORM": 99, "SIMILAR_NAME": 99, "SIMILAR_DESCRIPTION": 99},
    )
    assert len(got) == 8 and {frozenset(map(alt.as_seen, told_names(*d.choices))) for d in got} == {
        frozenset(["café noir", "ann's tin"])
    }
    two = draw(
        candidates(
            [
                entity(url=f"u:{i}", name=n, sections={"": f"{i} word " * 60})
                for i, n in enumerate(["Café (novel)", "Cafe\u0301 (poem)"])
            ]
        ),
        "books",
        {"SAME_NAME": 1},
    )
    assert set(told_names(*two[0].choices)) == {"Café (novel)", "Cafe\u0301 (poem)"}


def alike(n: int, what: str) -> list[Entity]:
    "Entities of which very many are like one another."
    return [
        entity(
            domain="recipes",
            url=f"u:{i:05}",
            name={"bare": f"Rye (novel {i})", "name": "Rye", "number": f"Book {i}"}[what],
            attributes={"type": "cake", "country": "here"},
        )
        for i in range(n)
    ]


@pytest.mark.parametrize(
    "what, stream",
    [
        ("bare", "same_name"),
        ("name", "same_name"),
        ("name", "uniform"),
        ("name", "similar_name"),
        ("name", "attribute"),
        ("number", "similar_name"),
        ("number", "uniform"),
        ("number", "attribute"),
    ],
)
def test_f44_no_list_of_all_pairs_is_made(what, stream):
    import random, tracemalloc
    import refnb.benchmarks.altentities.pairs as pairs

    pool, more = alike(2000, what), ("recipes",) if stream == "attribute" else ()
    tracemalloc.start()
    try:
        got = list(
            zip(range(200), getattr(pairs, f"{stream}_pairs")(pool, random.Random(0), *more))
        )
        assert (
            len(got) == (0 if what == "name" else 200) and tracemalloc.get_traced_memory()[1] < 60e6
        )
    finally:
        tracemalloc.stop()


def test_targets_and_places_are_drawn():
    got = draw(BUILT.candidates, "books", {"UNIFORM": 300})
    assert len(got) == 300 and 110 < sum(d.target_index for d in got) < 190
    assert 100 < sum(a.url < b.url for a, b in (d.choices for d in got)) < 200


@given(st.integers(0, 5000), st.dictionaries(st.text(max_size=3), st.integers(0, 900), min_size=1))
def test_shares_add_up(n, weights):
    got = apportioned(n, weights)
    assert sum(got.values()) == (n if any(weights.values()) else 0)
    assert all(
        abs(got[k] - n * w / sum(weights.values())) < 1
        for k, w in weights.items()
        if any(weights.values())
    )


drawn_pairs = st.lists(
    st.tuples(st.integers(0, 25), st.integers(0, 25), st.integers(0, 1)).filter(
        lambda p: p[0] != p[1]
    ),
    max_size=60,
)
POOL = [entity(url=f"u:{i:02}") for i in range(26)]


@given(drawn_pairs, st.integers(0, 99))
def test_no_target_is_in_two_splits(pairs, seed):
    got = [Drawn("books", "UNIFORM", "", (POOL[a], POOL[b]), t) for a, b, t in pairs]
    splits = split_pairs(got, seed)
    seen = {s: {d.target for d, x in zip(got, splits) if x == s} for s in SHARES}
    assert set(splits) <= set(SHARES) and not any(
        seen[a] & seen[b] for a, b in combinations(SHARES, 2)
    )
    n, largest = Counter(splits), max(Counter(d.target for d in got).values(), default=0)
    assert all(n[s] <= k + largest for s, k in apportioned(len(got), SHARES).items())
    assert splits == split_pairs(got, seed)


def test_splits_have_their_sizes_where_they_can():
    got = [
        Drawn("books", "UNIFORM", "", (entity(url=f"a{i}"), entity(url=f"b{i}")), 0)
        for i in range(200)
    ]
    assert Counter(split_pairs(got)) == {"train": 140, "dev": 30, "test": 30}


# Builds


def test_a_build_keeps_all_rules_of_the_release():
    assert [x for d in BUILT.drafts for x in departures(d.with_expressions(["the old one"]))] == []
    assert {d.sampling_method for d in BUILT.drafts} == {m for of in USED.values() for m in of}
    assert [d.id for d in BUILT.drafts] == [
        f"{d.topic}-{d.split}-{n}"
        for k in dict.fromkeys((d.topic, d.split) for d in BUILT.drafts)
        for n, d in enumerate(x for x in BUILT.drafts if (x.topic, x.split) == k)
    ]


def test_seeds_draw_differently_and_again_the_same():
    builds = [build_altentities(ENTITIES, SMALL.changed(seed=s)).drafts for s in range(4)]
    assert (
        len(set(builds)) == 4
        and build_altentities(ENTITIES[::-1], SMALL.changed(seed=2)).drafts == builds[2]
    )


BAD_RULES = [
    (dict(questions=-1), "field questions"),
    (dict(most_songs=0), "field most_songs: 0; say 1 or more"),
    (dict(shortest=0), "field shortest: 0"),
]


@pytest.mark.parametrize("rules, said", BAD_RULES)
def test_rules_that_cannot_be_are_refused(rules, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        AltRules(**rules)


def test_a_denylist_is_a_file(tmp_path):
    (path := tmp_path / "denied.txt").write_text("Gunpowder # not here\n")
    got = build_altentities(ENTITIES, SMALL.changed(denylist=str(path))).candidates
    assert [u.rsplit("/", 1)[1] for u, why in got.dropped.items() if why == "denied"] == [
        "The_Powder_Boat"
    ]
    with pytest.raises(DataError, match="no such file"):
        build_altentities(ENTITIES, SMALL.changed(denylist=str(tmp_path / "x")))


def test_texts_of_any_length_are_cut():
    long = [
        entity(
            url=f"u:{i}",
            name=f"Book {'x' * i}",
            sections={"": f"Sentence {i}. " * 900, "More": "word " * 3000},
        )
        for i in range(6)
    ]
    for d in build_altentities(long, AltRules(questions=6)).drafts:
        assert departures(d.with_expressions(["it"])) == [] and all(
            len(c.unshown_background) > 4980 for c in d.choices
        )


def test_a_link_of_a_song_is_escaped():
    evil = [
        entity(
            **SONG
            | {
                "url": f"u:{i}",
                "name": f'"><script>{i}',
                "attributes": {"genre": "x", "artist": "</a>&"},
            }
        )
        for i in range(2)
    ]
    assert [why_dropped(e, Filters()) for e in evil] == ["html"] * 2
    c = as_choice(evil[0])
    assert "<script>" not in c.description and c.description.startswith('<p><a href="https://')


# The release's form


def test_released_files_are_written_as_they_are(upstream):
    from refnb.core.settings import load_settings
    from refnb.core.upstream import get

    s = load_settings("/", env={}, upstream=str(upstream), offline=True)
    for d in DOMAINS:
        for p in ("dev", "test"):
            raw = get(alt.altentities_file(d, p), s)
            assert release_text(alt.altentities(d, p, s)).encode() == raw
            drafts = [draft_of(q, p, n) for n, q in enumerate(alt.altentities(d, p, s))]
            said = {x.id: [q.expressions] for x, q in zip(drafts, parse_altentities(raw))}
            assert (
                release_text(join_expressions(drafts, said, keep=True).files[f"{d}/{p}"]).encode()
                == raw
            )


def test_what_the_release_would_have_flagged(upstream):
    from refnb.core.settings import load_settings

    s = load_settings("/", env={}, upstream=str(upstream), offline=True)
    n = Counter(
        w
        for d in DOMAINS
        for p in ("dev", "test")
        for q in alt.altentities(d, p, s)
        for i, e in enumerate(q.expressions)
        for w in why_flagged(q, e, q.expressions[:i]) + [why_refused(e)]
        if w
    )
    assert n == {"name": 33, "repeated": 18, "copied": 4, "position": 2}


BAD_DRAFTS = [
    (dict(domain="FILMS"), "field domain: unknown value 'FILMS'"),
    (dict(sampling_method="RANDOM"), "field sampling_method"),
    (dict(target="x"), "field target: is not the page"),
    (dict(target_index=2), "field target_index: 2"),
    (dict(choices=[]), "field choices: 0 of them"),
    (dict(split="../../x"), "no name of a file"),
    (dict(id=""), "field id: is empty"),
    (dict(expressions=["x"]), "unknown field `expressions`"),
]


@pytest.mark.parametrize("change, said", BAD_DRAFTS)
def test_a_draft_that_cannot_be_is_refused(tmp_path, change, said):
    lines = write_jsonl(tmp_path / "q.jsonl", DRAFTS, canary=True).read_text().splitlines()
    (path := tmp_path / "q.jsonl").write_text(
        "\n".join([lines[0], json.dumps(json.loads(lines[1]) | change)])
    )
    with pytest.raises(FormatError) as e:
        read_drafts(path)
    assert str(e.value).startswith(f"{path}, line 2") and said in str(e.value)


def test_two_equal_choices_are_refused(tmp_path):
    line = json.loads(
        write_jsonl(tmp_path / "q.jsonl", DRAFTS, canary=True).read_text().splitlines()[1]
    )
    (path := tmp_path / "q.jsonl").write_text(
        json.dumps(line | {"choices": line["choices"][:1] * 2})
    )
    with pytest.raises(
        FormatError, match=re.escape("field choices[0]: the same thing as choices[1]")
    ):
        read_drafts(path)


# Expressions

NAMES = [
    "The Lamplighter’s Ledger",
    "E\u0301lan vital",
    "The Lamplighter's Ledger",
    "A+B? [50%-off]",
    "It",
    "Rye",
    "R.U.R.",
    "Élan vital",
    "-",
    "x",
    "Dawn (novel)",
    "What, no \\ (dots)...",
]
SAID = [
    "",
    "the old one",
    "The LAMPLIGHTER'S  ledger!",
    "lamplighter's ledgers",
    "a+b? [50%-OFF]",
    "it",
    "It's red",
    "It!",
    "rye",
    "the rye one",
    "r.u.r.",
    "élan VITAL, please",
    "élan vitale",
    "dawn",
    "at dawn",
    "dawning",
    "the first one",
    "The second.",
    "I meant the former",
    "the first one he wrote",
    "it's the last book",
    "it’s the last book",
    "not the first one",
    "on the left",
    "mentioned first",
    "the left-handed one",
    "the one mentioned last",
    "option b",
    "the best option by far",
    "what, no \\...",
    "-",
    "x",
    "the lamplighter’s ledger",
    "e\u0301lan vital",
    "El\u00adan\u200b vital",
    "\u200bthe first one\u200b",
    "THE LAMPLIGHTERʼS LEDGER",
]
PLAIN = {
    "The LAMPLIGHTER'S  ledger!": "name",
    "lamplighter's ledgers": "",
    "the first one he wrote": "",
    "not the first one": "position",
    "it’s the last book": "position",
    "the left-handed one": "",
    "on the left": "position",
    "I want option B": "position",
    "the best option by far": "",
}


def test_names_and_places_are_known():
    assert {e: " ".join(why_flagged(DRAFTS[0], e)) for e in PLAIN} == PLAIN
    assert [
        why_flagged(
            DRAFTS[0].changed(
                choices=(
                    DRAFTS[0].choices[0].changed(name="E\u0301lan’s end"),
                    DRAFTS[0].choices[1],
                )
            ),
            e,
        )
        for e in ("élan's END", "the \u200bfirst one")
    ] == [["name"], ["position"]]
    assert [why_flagged(DRAFTS[0], e, ["की किताब"]) for e in ("का किताब", "की, किताब!")] == [
        [],
        ["repeated"],
    ], "marks are parts of words"
    assert [name_pattern(n) == "" for n in ("", " (x)", "a")] == [True, True, False]


@given(st.text(LETTERS, min_size=1, max_size=20), st.text(LETTERS, max_size=60))
def test_any_name_makes_a_pattern(name, said):
    q = (
        DRAFTS[0].changed(choices=(DRAFTS[0].choices[0].changed(name=name), DRAFTS[0].choices[1]))
        if name.strip()
        else DRAFTS[0]
    )
    assert set(why_flagged(q, said)) <= {"name", "position", "repeated", "copied"}
    if re.fullmatch(r"[a-z]{4,}", name):
        assert "name" in why_flagged(q, f"that's {name.upper()}.")


@given(
    st.lists(st.lists(st.sampled_from([*SAID, "x" * 5000, "\ud800"]), max_size=6), max_size=3),
    st.booleans(),
    st.integers(1, 4),
)
def test_joined_expressions_are_fit_and_counted(parts, keep, least):
    got = join_expressions(DRAFTS[:2], {DRAFTS[0].id: parts}, keep, least)
    kept = [e for qs in got.files.values() for q in qs for e in q.expressions]
    assert all(not why_refused(e) for e in kept) and (
        keep or not any(why_flagged(DRAFTS[0], e, kept[:i]) for i, e in enumerate(kept))
    )
    assert (
        DRAFTS[1].id in got.short
        and (DRAFTS[0].id in got.short) == (got.counts.get("kept", 0) < least)
        and all(len(kept) >= least for _ in got.files)
    )


# The page as a file


def told(drafts=DRAFTS, **fields) -> dict:
    "What the page would save."
    said = [
        {
            "id": d.id,
            "expressions": ["the old one", "what I had on Sunday", "not the other"],
            "seconds": 9.5,
        }
        for d in drafts
    ]
    return {
        "page": page_id(drafts),
        "version": VERSION,
        "participant": "abcdefghij",
        "order": [d.id for d in drafts],
        "answers": said,
    } | fields


def test_nothing_is_loaded_from_anywhere():
    got = Parsed(annotation_page(DRAFTS))
    assert not {t for t in got.tags} & {
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "audio",
        "video",
    } and [v for k, v in got.attrs if k in ("src", "href", "action", "srcset")] == ["data:,"]
    assert not [k for k, _ in got.attrs if k.startswith("on") or k == "style"]
    css, js = (
        "".join(
            packaged(f"data/{name}.{kind}").read_text()
            for name in ("pages/base", "annotation/page")
        )
        for kind in ("css", "js")
    )
    assert not re.search(r"url\(|@import|https?:", css) and not re.search(
        r"fetch|XMLHttp|WebSocket|sendBeacon|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|import\(",
        js,
    )
    assert set(re.findall(r"https?://[^\"]*", js)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("text", DECENT)
def test_f53_nothing_of_the_data_becomes_markup(text):
    d = DRAFTS[38]
    c = d.choices[0].changed(name=text, description=f'<a href="{text}">{text}</a>')
    plain, got = (
        Parsed(annotation_page([d])),
        Parsed(
            made := annotation_page(
                [d.changed(choices=(c, d.choices[1]), question=text)], title=text, send=text
            )
        ),
    )
    assert got.tags == plain.tags and [k for k, _ in got.attrs] == [k for k, _ in plain.attrs]
    assert (
        data(made)["send"] == text
        and data(made)["items"][0]["question"] == text
        and re.match("https?://", data(made)["items"][0]["choices"][0]["link"])
    )


BAD_FILES = [
    (dict(page="0" * 16), "field page"),
    (dict(version=2), "field version"),
    (dict(participant="Ann Smith"), "field participant: this is not a code"),
    (dict(order=[]), "field order"),
    (dict(order=["x"]), "field order"),
    (dict(order=[DRAFTS[0].id] * 2), "field order"),
    (dict(order=[DRAFTS[0].id]), "field page"),
    (dict(answers={}), "field answers"),
    (dict(email="a@b.c"), "unknown field `email`"),
]


@pytest.mark.parametrize("change, said", BAD_FILES)
def test_f40_a_file_that_cannot_be_is_refused(tmp_path, change, said):
    (path := tmp_path / "a.json").write_text(json.dumps(told() | change))
    with pytest.raises(FormatError) as e:
        read_annotations(path, DRAFTS)
    assert (
        str(e.value).startswith(f"{path}")
        and said in str(e.value)
        and "\n" not in str(e.value)
        and "Ann" not in str(e.value)
    )


def test_f40_mutated_answers_are_read_or_refused_in_one_line(tmp_path):
    whole = json.dumps(told(DRAFTS[:2]), indent=1).encode()
    for d in mutated(whole, 7):
        (path := tmp_path / "a.json").write_bytes(d)
        got = good_or_one_line(lambda p=path: read_annotations(p, DRAFTS), path)
        if got:
            collect([d], DRAFTS)


def test_pages_are_of_one_domain_and_nearly_one_size():
    for each in (1, 7, 50):
        pages = in_pages(BUILT.drafts, each)
        assert [d for p in pages for d in p] == list(BUILT.drafts) and all(
            len({d.topic for d in p}) == 1 and len(p) <= each for p in pages
        )
        assert all(
            abs(len(a) - len(b)) <= 1 for a, b in pairwise(pages) if a[0].topic == b[0].topic
        )


def test_several_people_and_pages_are_joined():
    pages = in_pages(BUILT.drafts, 10)
    files = [json.dumps(told(p, participant=who * 10)).encode() for p in pages for who in "ab"]
    got = collect(files, BUILT.drafts)
    assert (
        not got.short
        and got.counts == {"kept": 3 * len(BUILT.drafts), "repeated": 3 * len(BUILT.drafts)}
        and got == collect(files[::-1], BUILT.drafts)
    )
    with pytest.raises(DataError, match="by the same person"):
        collect([*files, files[0]], BUILT.drafts)


def test_two_files_of_one_person_are_named(tmp_path):
    for n in "ab":
        (tmp_path / f"{n}.json").write_text(json.dumps(told()))
    with pytest.raises(
        DataError,
        match=re.escape(
            f"{tmp_path / 'b.json'} is by the same person as {tmp_path / 'a.json'}, to the same page; keep the later file"
        ),
    ):
        collect([tmp_path / "a.json", tmp_path / "b.json"], DRAFTS)


def test_a_folder_is_made_once(tmp_path):
    write_to_annotate(tmp_path, BUILT, 7)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    for each in (5, 50):
        with pytest.raises(
            DataError,
            match="asks other questions than that page of this build; people may be answering it",
        ):
            write_to_annotate(tmp_path, BUILT, each)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    for name in ("page-books-1.html", "build.json"):
        (tmp_path / name).unlink()  # as a kill leaves it
    write_to_annotate(tmp_path, BUILT, 7)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_songs_of_one_name_are_told_apart_on_the_page():
    both = [
        entity(
            **SONG
            | {
                "url": f"u:{i}",
                "name": f"Honey ({what})",
                "attributes": {"genre": "x", "artist": "Ann Lee"},
            }
        )
        for i, what in enumerate(["song", "remix"])
    ]
    [item] = data(annotation_page(build_altentities(both, AltRules(questions=1)).drafts))["items"]
    assert {(c["name"], c["linked"]) for c in item["choices"]} == {
        (f"Honey ({x}) by Ann Lee", f"Find out about “Honey ({x})”") for x in ("song", "remix")
    }


def test_the_command_line_builds_and_collects(tmp_path, capsys):
    said = here(
        capsys,
        "build",
        "altentities",
        TABLE,
        "--out",
        tmp_path / "b",
        "-p",
        "questions=20",
        "-p",
        "shortest=150",
        "-p",
        "fewest_sections=3",
        "-p",
        "each=10",
        "--json",
    )
    got = json.loads(said.out)
    drafts = read_drafts(tmp_path / "b/questions.jsonl")
    assert (
        said.status == 0
        and got["questions"] == len(drafts) == len(BUILT.drafts)
        and drafts == list(BUILT.drafts)
        and len(list((tmp_path / "b").glob("page-*.html"))) == got["pages"] == 6
    )
    for k, p in enumerate(in_pages(drafts, 10)):
        (tmp_path / f"a{k}.json").write_text(json.dumps(told(p)))
    said = here(capsys, "build", "expressions", tmp_path / "b", *sorted(tmp_path.glob("a*.json")))
    assert said.status == 0 and "kept\t177" in said.out
    one_line(
        here(capsys, "build", "expressions", tmp_path / "b", tmp_path / "a1.json"),
        1,
        "is there already, and these answers do not make it; remove it, or name another folder",
    )
    (tmp_path / "a.json").write_text(
        json.dumps(
            told(
                drafts[:1] + drafts[1:2],
                page=page_id(drafts[:2]),
                answers=[
                    {
                        "id": drafts[0].id,
                        "expressions": [drafts[0].meant.name, "\u200b", "the first one"],
                        "seconds": 1,
                    }
                ],
            )
        )
    )
    one_line(
        here(capsys, "build", "expressions", tmp_path / "b", tmp_path / "a.json"),
        1,
        "none of 59 questions has 3 expressions; of those handed in: is empty 1, says the name 1, says the place in the question 1",
    )
    one_line(
        here(capsys, "build", "expressions", tmp_path / "b", tmp_path / "a.json", "--least", "0"),
        2,
        "0 expressions of a question; say 1 or more",
    )
    for path in (tmp_path / "b/data").rglob("*.json"):
        assert {q.topic for q in read_altentities(path)} == {path.parent.name}


WRONG = [
    (("build", "altentities"), 2, "Missing argument 'TABLE'"),
    (("build", "altentities", TABLE), 2, "no folder is named"),
    (("build", "altentities", "none.jsonl", "--out", "x"), 1, "no such file"),
    (
        ("build", "altentities", TABLE, "--out", "x", "-p", "denlist=words"),
        2,
        "did you mean denylist?",
    ),
    (
        ("build", "altentities", TABLE, "--out", "x", "-p", "each=0", "-p", "shortest=150"),
        1,
        "0 questions on a page",
    ),
    (
        ("build", "altentities", TABLE, "--out", "x", "--corpus", "litbank"),
        2,
        "No such option: --corpus",
    ),
    (("build", "kitmus", TABLE), 2, "unexpected extra argument"),
    (("build", "expressions", "none", "a.json"), 1, "no such file"),
    (
        ("build", "altentities", TABLE, "--out", "x", "-p", "shortest=150", "-p", "encoder=nobody"),
        2,
        "nobody",
    ),
    (
        ("build", "altentities", TABLE, "--out", "x", "-p", "most_songs=0"),
        2,
        "field most_songs: 0; say 1 or more",
    ),
    (
        ("build", "altentities", TABLE, "--out", "x", "-p", "shortest=900"),
        1,
        "none of 94 entities is left (91 of 94 for: section too short",
    ),
    (
        ("build", "altentities", TABLE, "--out", "x", "-p", "questions=0", "-p", "shortest=150"),
        1,
        "ask for more questions",
    ),
]


@pytest.mark.parametrize("args, status, said", WRONG)
def test_wrong_calls_are_told_in_one_line(tmp_path, monkeypatch, capsys, args, status, said):
    monkeypatch.chdir(tmp_path)
    one_line(here(capsys, *args), status, said)
    assert not list(tmp_path.iterdir())


# In a browser


class Bob:
    "Somebody who plays Bob: only what a person can do."

    def __init__(self, tab: Tab, folder):
        self.tab, self.folder = tab, folder
        self.js, self.wait, self.press = tab.js, tab.wait, tab.press
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        tab.call("Page.bringToFront")

    def open(self, text: str):
        (self.folder / "page.html").write_text(text, encoding="utf-8")
        self.tab.open(f"{self.folder}/page"[1:])
        self.wait("document.activeElement.tagName == 'H2'")

    def title(self) -> str:
        return self.js("document.querySelector('main > :not([hidden]) h2').innerText")

    def notice(self) -> str:
        return self.js("document.querySelector('#notice').innerText")

    def click(self, what: str):
        self.js(f"document.querySelector({json.dumps(what)}).click()")

    def choose_file(self, path):
        node = self.tab.call(
            "DOM.querySelector",
            nodeId=self.tab.call("DOM.getDocument")["root"]["nodeId"],
            selector="#file",
        )["nodeId"]
        self.tab.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def write(self, *answers: str):
        self.press("Enter")
        for a in answers:
            self.tab.call("Input.insertText", text=a)
            if a != answers[-1]:
                self.press("Tab")

    def screen(self) -> str:
        return self.js(
            "document.querySelector('main > section:not([hidden]), main > form:not([hidden])').id"
        )

    def said(self) -> list[str]:
        return self.js("[...document.querySelectorAll('#answers .said')].map(e => e.textContent)")

    def problem(self) -> str:
        return self.js("document.querySelector('#problem').innerText")

    def bubbles(self) -> list[str]:
        return self.js(
            "[...document.querySelectorAll(`#${state.screen} .bubble`)].map(e => e.lastChild.data)"
        )

    def handed_in(self, number: int = 1) -> bytes:
        done = lambda: sorted(
            self.folder.glob("annotations-*.json"), key=lambda p: p.stat().st_mtime_ns
        )
        found = wait(lambda: len(done()) == number and done(), "the file is downloaded")
        return wait(found[-1].read_bytes, "the file is written")


@pytest.fixture
def bob(port, tmp_path):  # noqa: F811
    "A page; when the test is over, it has asked nobody, and said no error."
    tab = Tab(port, "file://")
    yield Bob(tab, tmp_path)
    try:
        asked = tab.requests()
        assert (
            asked
            and not [
                u
                for u in asked
                if not u.startswith((f"file://{tmp_path}/", "data:", "blob:", "about:"))
            ]
            and not tab.errors()
        )
    finally:
        tab.close()


def own(drafts, request):
    "Drafts of this test alone: what the browser keeps of another test's is not theirs."
    return [d.changed(id=f"{d.id}:{request.node.name}") for d in drafts]


def test_the_sample_goes_the_whole_way(bob, tmp_path):
    bob.open(annotation_page(DRAFTS, seed=3))
    bob.press("Enter")
    for n in range(len(DRAFTS)):
        id = bob.js("current().id")
        q = QUESTIONS[int(id.rpartition("-")[2])]
        assert (bob.screen(), bob.title()) == ("read", f"Question {n + 1} of 42") and bob.bubbles()[
            1:
        ] == [q.question, "…"]
        assert bob.js(
            "[...document.querySelectorAll('.thing p:first-of-type')].map(e => e.innerText)"
        ) == [c.description for c in q.choices]
        bob.press("Enter")
        assert bob.screen() == "write" and bare(q) in bob.js(
            "document.querySelector('#meant').innerText"
        )
        bob.write(*q.expressions)
        assert bob.bubbles()[2] == q.expressions[-1] and not any(bob.said())
        bob.js("document.querySelector('#write').requestSubmit()")
    assert bob.screen() == "end" and "42 of 42" in bob.js(
        "document.querySelector('#thanks').innerText"
    )
    bob.click("#end .save")
    got = collect([bob.handed_in()], DRAFTS)
    made = write_collected(tmp_path / "data", got)
    assert not got.short and [str(p.relative_to(tmp_path / "data")) for p in made] == [
        "books/sample.json",
        "recipes/sample.json",
        "songs/sample.json",
    ]
    back = [q for p in made for q in read_altentities(p)]
    assert [(q.choices, q.expressions, q.target) for q in back] == [
        (q.choices, q.expressions, q.target) for q in QUESTIONS
    ]
    assert release_text(back).encode() == SAMPLE.read_bytes()


def bare(q) -> str:
    return alt.bare_title(q.meant.name)


def test_a_build_goes_the_whole_way(bob, tmp_path):
    write_to_annotate(tmp_path, BUILT, 7)
    page = tmp_path / "page-songs-7.html"
    drafts = read_drafts(tmp_path / "questions.jsonl")
    bob.open(page.read_text())
    bob.press("Enter")
    n = len(in_pages(drafts, 7)[6])
    for k in range(n):
        assert bob.js(
            "[...document.querySelectorAll('.thing a')].every(a => a.protocol == 'https:' && a.rel.includes('noopener') && a.target == '_blank')"
        )
        bob.press("Enter")
        assert bob.js("document.querySelectorAll('#link a').length") == 2, "the links of songs stay"
        bob.write(f"the one with a drum in it {k}", "not the slow one", "what my aunt sings")
        bob.press("Enter", "Enter")  # to the fourth, which is empty: on
    assert bob.screen() == "end"
    bob.click("#end .save")
    got = collect([bob.handed_in()], drafts)
    assert len(got.short) == len(drafts) - n and sum(map(len, got.files.values())) == n
    for path in write_collected(tmp_path / "data", got):
        assert {q.topic for q in read_altentities(path)} == {"songs"}


def test_there_is_no_way_back_to_the_texts(bob, request):
    bob.open(annotation_page(own(DRAFTS[:2], request), shuffle=False))
    bob.press("Enter", "Enter")
    bob.write("the one with the smugglers")
    for again in (0, 1):
        assert (
            bob.screen() == "write"
            and bob.js("document.querySelectorAll('#write .back').length") == 0
        )
        assert "stolen ledger" not in bob.js(
            "document.querySelector('main > :not([hidden])').innerText"
        )
        assert bob.js("document.querySelector('#answer0').value") == "the one with the smugglers"
        if not again:
            bob.tab.call("Page.reload")
            bob.wait("document.readyState == 'complete' && document.activeElement.tagName == 'H2'")


def test_answers_are_checked_while_they_are_written(bob, request):
    bob.open(annotation_page(own(DRAFTS[:1], request)))
    bob.press("Enter", "Enter")
    bob.write(
        "the lamplighter's LEDGER",
        "the first one",
        "Jory Pell lights two hundred street lamps every evening",
        "not the cold one",
        "Not the cold one!",
    )
    assert [s[:22] for s in bob.said()] == [
        "This says the name. Pl",
        "This says where it sta",
        "This is copied from th",
        "",
        "You have written this ",
    ]
    bob.press("Enter")
    assert (
        bob.screen() == "write"
        and "cannot stay" in bob.problem()
        and bob.js("document.activeElement.id") == "answer0"
    )
    for i, text in enumerate(["", "", "", "", ""]):
        bob.js(
            f"written()[{i}].value = {json.dumps(text)}; written()[{i}].dispatchEvent(new Event('input'))"
        )
    bob.js("document.querySelector('#write').requestSubmit()")
    assert (
        bob.problem() == f"Please write at least {LEAST} answers."
        and bob.js("document.activeElement.id") == "answer0"
        and MOST == 5
    )
    bob.js(f"written()[0].value = 'x'.repeat({LONGEST}); check()")
    assert "too long: 5000 of at most 4999" in bob.said()[0]


def test_browser_and_refnb_flag_the_same(bob, request):
    d = own(DRAFTS[:1], request)[0]
    bob.open(annotation_page([d]))
    for name in NAMES:
        one = d.changed(choices=(d.choices[0].changed(name=name), d.choices[1]))
        theirs = bob.js(
            f"{json.dumps(SAID)}.map(t => [new RegExp({json.dumps(name_pattern(name))}, 'iu').test(plain(t)), position.test(plain(t))])"
        )
        assert theirs == [
            ["name" in why_flagged(one, e), "position" in why_flagged(one, e)] for e in SAID
        ], name
    assert POSITION == bob.js("data.position")
    odd = ["Ann’s “Tin”", "e\u0301\u00ad\ufeff", "ʼa‛„b‟", "½ ﬁ \u202e\u2066\u200f", "…"]
    assert bob.js(f"{json.dumps(odd)}.map(plain)") == list(map(alt.in_one_form, odd))
    same = [*SAID, "की किताब", "का किताब", "CAFE\u0301", "café", "a_b"]
    assert bob.js(f"{json.dumps(same)}.map(folded)") == list(map(folded, same))


def test_a_question_can_be_left_out(bob, request):
    drafts = own(DRAFTS[:2], request)
    bob.open(annotation_page(drafts, shuffle=False))
    bob.press("Enter", "Enter")
    bob.click("#skip")
    bob.press("Escape")
    bob.wait("!document.querySelector('dialog').open")
    assert bob.screen() == "write"
    bob.click("#skip")
    bob.click("#yes")
    bob.wait("state.screen == 'read'")
    bob.press("Enter")
    bob.write("the mystery", "not for children", "the one on a boat")
    bob.js("document.querySelector('#write').requestSubmit()")
    assert bob.screen() == "end" and "1 of 2" in bob.js(
        "document.querySelector('#thanks').innerText"
    )
    bob.click("#end .save")
    got = read_annotations(bob.handed_in(), drafts)
    assert [len(r.expressions) for r in got.answers] == [0, 3] and collect(
        [json.dumps(json.loads(bob.handed_in())).encode()], drafts
    ).short == (drafts[0].id,)


def test_a_copy_goes_on_elsewhere_and_clearing_forgets(bob, request):
    drafts = own(DRAFTS[:3], request)
    bob.open(annotation_page(drafts, shuffle=False))
    bob.press("Enter", "Enter")
    bob.write("the mystery", "not for children", "the one on a boat")
    bob.js("document.querySelector('#write').requestSubmit()")
    bob.click("details .save")
    copy, code = bob.handed_in(), bob.js("state.participant")
    bob.click("#clear")
    bob.click("#yes")
    bob.wait("state.screen == 'start' && state.done.size == 0")
    assert bob.js("state.participant") != code
    for k, bad in enumerate(
        [
            b"{",
            b"[]",
            json.dumps(json.loads(copy) | {"page": "x"}).encode(),
            json.dumps(
                json.loads(copy)
                | {"answers": [{"id": drafts[0].id, "expressions": "x", "seconds": 1}]}
            ).encode(),
        ]
    ):
        (bob.folder / f"bad{k}.json").write_bytes(bad)
        bob.choose_file(bob.folder / f"bad{k}.json")
        bob.wait(
            f"document.querySelector('#notice').innerText.startsWith('bad{k}.json cannot be used')"
        )
    (bob.folder / "copy.json").write_bytes(copy)
    bob.choose_file(bob.folder / "copy.json")
    bob.wait("state.done.size == 1")
    assert (
        bob.js("state.participant") == code
        and bob.title() == "Question 2 of 3"
        and bob.screen() == "read"
    )


@pytest.mark.parametrize("kept", ["{", "null", '{"record": {}, "screen": "read"}', '"x"'])
def test_what_was_kept_may_be_damaged(bob, request, kept):
    drafts = own(DRAFTS[:1], request)
    bob.tab.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source=f"localStorage.setItem('refnb-annotation-{page_id(drafts)}', {json.dumps(kept)})",
    )
    bob.open(annotation_page(drafts))
    assert bob.screen() == "start" and "damaged" in bob.notice()


def test_a_browser_that_keeps_nothing_is_told(bob, request):
    bob.tab.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="Storage.prototype.setItem = Storage.prototype.getItem = () => { throw new Error('no') }",
    )
    bob.open(annotation_page(own(DRAFTS[:1], request)))
    assert "does not keep your answers" in bob.notice()


def test_f53_hostile_texts_are_texts(bob, request):
    drafts = [
        DRAFTS[15].changed(
            id=f"recipes-sample-{k}:{request.node.name}",
            question=t,
            choices=(DRAFTS[15].choices[0].changed(name=t, description=t), DRAFTS[15].choices[1]),
        )
        for k, t in enumerate(DECENT)
    ]
    bob.open(annotation_page(drafts, title="".join(DECENT), send="".join(DECENT), shuffle=False))
    bob.press("Enter")
    for d, t in zip(drafts, DECENT, strict=True):
        assert (
            bob.js("current().id") == d.id
            and bob.js("document.querySelector('.thing h3').textContent") == t
            and bob.bubbles()[1] == t
        )
        bob.press("Enter")
        assert bob.js("document.querySelector('#meant').textContent") == t and bob.js(
            "document.documentElement.scrollWidth <= innerWidth"
        ), "nothing is wider than the window"
        bob.js("finish([])")
    assert (
        bob.screen() == "end"
        and bob.js("document.querySelectorAll('main script, main img').length") == 0
    )


def test_the_policy_stops_every_request(port, request, tmp_path):  # noqa: F811
    tab = Tab(port, "file://")
    try:
        with Tree(tmp_path) as tree:
            Bob(tab, tmp_path).open(annotation_page(own(DRAFTS[:2], request)))
            nothing_leaves(tab.js, tab, tree)
    finally:
        tab.close()


def test_names_and_roles(bob, request):
    bob.open(annotation_page(own(DRAFTS[:1], request)))
    bob.press("Enter", "Enter")
    nodes = [
        (n["role"]["value"], n["name"]["value"])
        for n in bob.tab.call("Accessibility.getFullAXTree")["nodes"]
        if "role" in n and n.get("name", {}).get("value")
    ]
    assert [name for role, name in nodes if role == "textbox"] == [
        "Answer 1",
        "Answer 2",
        "Answer 3",
        "Answer 4, if you like",
        "Answer 5, if you like",
    ]
    assert (
        {name for role, name in nodes if role == "button"} == {"Next", "I cannot answer this one"}
        and ("heading", "Question 1 of 1") in nodes
        and ("progressbar", "0 of 1 done") in nodes
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_looks(bob, request, scheme):
    bob.tab.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    bob.open(annotation_page(own([DRAFTS[0], DRAFTS[15], DRAFTS[38]], request), shuffle=False))
    bob.tab.phone()
    for screen in ("start", *("read", "write") * 3, "end"):
        bob.js(f"show('{screen}')")
        assert bob.js("document.documentElement.scrollWidth") <= 390
        assert bob.js(
            "[...document.querySelectorAll('main > :not([hidden]) button, main > :not([hidden]) input')].every(b => b.getBoundingClientRect().height >= 44)"
        )
        if screen == "write":
            bob.js("finish(['a', 'b', 'c'])")
    assert bob.screen() == "end"
