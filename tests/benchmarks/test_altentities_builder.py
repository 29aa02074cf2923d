"AltEntities made anew: entities, filters, pairs, splits, expressions, the annotation page in a browser, and the whole way back to the release's form."

import json, random, re, tracemalloc
from collections import Counter
from html.parser import HTMLParser
from itertools import combinations, pairwise, product
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
from refnb.benchmarks.altentities.questions import DOMAINS, SECTIONS, USED, read_altentities
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
    Candidates,
    Entity,
    Filters,
    as_choice,
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
    described_pairs,
    similar_name_pairs,
    split_pairs,
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
from refnb.core.settings import load_settings, packaged
from refnb.core.upstream import get
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
    ({"name": " "}, "field name: is empty"),
    ({"domain": "music"}, "the files call it songs"),
    ({"sections": None}, "missing required field `sections`"),
    ({"sections": {"Plot": "a", "plot": "b"}}, "field sections: 'plot' appears twice"),
    ({"attributes": {"genre": 7}}, "field attributes[...]: Expected"),
    ({"isbn": "1"}, "unknown field `isbn`"),
]


@pytest.mark.parametrize("change, said", BAD_ROWS)
def test_a_row_that_cannot_be_is_refused_with_its_line(tmp_path, change, said):
    bad = {k: v for k, v in (ROW | {"url": "u:2"} | change).items() if v is not None}
    (path := tmp_path / "e.jsonl").write_text(f"{json.dumps(ROW)}\n{json.dumps(bad)}\n")
    with pytest.raises(FormatError) as e:
        read_entities(path)
    assert str(e.value).startswith(f"{path}, line 2") and said in str(e.value)


WHOLE = TABLE.read_text()
ODD_TABLES = [
    ("e.csv", "name,url,domain\n", "cannot be read as a table; give JSON lines"),
    ("e.json", "[\n" + json.dumps(ROW) + "\n]", "an object a line, without commas"),
    ("e.jsonl", "\n\n", "has no entities"),
    ("e.jsonl", WHOLE[:5000], ", line "),
    ("e.jsonl", WHOLE + WHOLE.splitlines()[4], "field url: "),
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


@given(st.lists(st.text("ab", min_size=1, max_size=9), max_size=90), st.integers(0, 99))
def test_similar_names_are_those_that_brute_force_finds(names, seed):
    pool = [entity(name=f"x{name}", url=f"u:{i}") for i, name in enumerate(names)]
    got = [tuple(sorted(p)) for p in similar_name_pairs(pool, random.Random(seed))]
    assert sorted(got) == [
        (i, j)
        for i, j in combinations(range(len(names)), 2)
        if names[i] != names[j] and Levenshtein.distance(names[i], names[j]) <= 3
    ]


@given(st.integers(2, 60), st.integers(1, 9), st.integers(0, 10**6), st.booleans())
def test_the_nearest_text_is_the_one_that_brute_force_finds(n, size, seed, thin):
    rng = np.random.default_rng(seed)
    v = rng.integers(-2, 3, (n, size)).astype(
        np.float32
    )  # small whole numbers: cosines that are equal are so exactly, or nearly
    v[0, 0] = 1
    pool = [entity(name=f"Rye {i}", url=f"u:{i}") for i in range(n)]
    encoder = lambda texts: sparse.csr_matrix(v) if thin else v
    rows, at = zip(*described_pairs(pool, random.Random(seed), "", encoder), strict=True)
    dense = encoded(lambda t: v, range(n))
    full = dense @ dense.T - 9 * np.eye(n, dtype=np.float32)
    assert sorted(rows) == list(range(n)) and not (np.array(at) == rows).any()
    assert np.allclose(full[rows, at], full[rows, :].max(1), atol=1e-5)


@pytest.mark.parametrize(
    "rows",
    [
        lambda t: np.ones((len(t) + 1, 2)),
        lambda t: np.full((len(t), 2), np.inf),
        lambda t: np.array([["a"]] * len(t)),
        lambda t: None,
    ],
)
def test_an_encoder_that_gives_something_else_is_refused(rows):
    with pytest.raises(DataError, match="the encoder gave"):
        build_altentities(ENTITIES, SMALL, encoder=rows)


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
    pool = [entity(name=f"Rye {i}", url=f"u:{i}") for i in range(n)]
    got = list(uniform_pairs(pool, random.Random(seed)))
    assert sorted(got) == list(combinations(range(n), 2))


values = st.sampled_from(["a", "b", "A", ""])


@given(st.lists(st.tuples(values, values), max_size=12), st.integers(0, 99))
def test_equal_attributes_are_all_found(rows, seed):
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


def test_f43_names_that_look_the_same_are_no_pair():
    def books(*names):
        return [
            entity(url=f"u:{i}", name=n, sections={"": f"{i} word " * 60})
            for i, n in enumerate(names)
        ]

    ways = dict.fromkeys(("SAME_NAME", "UNIFORM", "SIMILAR_NAME", "SIMILAR_DESCRIPTION"), 99)
    seen = (
        "Café Noir",
        "Cafe\u0301 Noir",
        "CAFÉ  Noir ",
        "Café\u200b Noir",
        "Ann’s Tin",
        "Ann's Tin",
    )
    got = draw(candidates(books(*seen)), "books", ways)
    two = frozenset(["café noir", "ann's tin"])
    assert len(got) == 8 and {frozenset(map(alt.as_seen, told_names(*d.choices))) for d in got} == {
        two
    }
    [d] = draw(candidates(books("Café (novel)", "Cafe\u0301 (poem)")), "books", {"SAME_NAME": 1})
    assert set(told_names(*d.choices)) == {"Café (novel)", "Cafe\u0301 (poem)"}


@pytest.mark.parametrize(
    "domain, method",
    [
        ("books", "SAME_NAME"),
        ("books", "UNIFORM"),
        ("recipes", "SAME_INFOBOXES"),
        pytest.param("books", "SIMILAR_NAME", marks=pytest.mark.full),
    ],
)
def test_f44_no_list_of_all_pairs_is_made(domain, method):
    "Of a thousand entities that are all alike there are half a million pairs."
    same = {"type": "cake", "country": "here"}
    pool = [
        entity(domain=domain, url=f"u:{i}", name=f"Rye (book {i})", attributes=same)
        for i in range(1000)
    ]
    tracemalloc.start()
    try:
        assert len(draw(Candidates(tuple(pool), {}, {}), domain, {method: 50})) == 50
        assert tracemalloc.get_traced_memory()[1] < 30e6
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


def test_a_denylist_is_a_file(tmp_path):
    (path := tmp_path / "denied.txt").write_text("Gunpowder # not here\n")
    got = build_altentities(ENTITIES, SMALL.changed(denylist=str(path))).candidates
    assert [u.rsplit("/", 1)[1] for u, why in got.dropped.items() if why == "denied"] == [
        "The_Powder_Boat"
    ]
    with pytest.raises(DataError, match="no such file"):
        build_altentities(ENTITIES, SMALL.changed(denylist=str(tmp_path / "x")))


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
    "And the page would have flagged nearly nothing of them."
    s, flagged = load_settings("/", env={}, upstream=str(upstream), offline=True), Counter()
    for d, p in product(DOMAINS, ("dev", "test")):
        raw = get(alt.altentities_file(d, p), s)
        qs = alt.altentities(d, p, s)
        drafts = [draft_of(q, p, n) for n, q in enumerate(qs)]
        said = {x.id: [q.expressions] for x, q in zip(drafts, qs)}
        again = join_expressions(drafts, said, keep=True).files[f"{d}/{p}"]
        assert release_text(qs).encode() == release_text(again).encode() == raw
        for q in qs:
            for i, e in enumerate(q.expressions):
                flagged.update(why_flagged(q, e, q.expressions[:i]) + [why_refused(e)])
    del flagged[""]
    assert flagged == {"name": 33, "repeated": 18, "copied": 4, "position": 2}


BAD_DRAFTS = [
    (dict(domain="FILMS"), "field domain: unknown value 'FILMS'"),
    (dict(target="x"), "field target: is not the page"),
    (dict(target_index=2), "field target_index: 2"),
    (dict(split="../../x"), "no name of a file"),
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


def test_f53_nothing_of_the_data_becomes_markup():
    plain, d = Parsed(annotation_page(DRAFTS[38:39])), DRAFTS[38]
    for text in DECENT:
        c = d.choices[0].changed(name=text, description=f'<a href="{text}">{text}</a>')
        nasty = d.changed(choices=(c, d.choices[1]), question=text)
        made = annotation_page([nasty], title=text, send=text)
        got = Parsed(made)
        assert got.tags == plain.tags and [k for k, _ in got.attrs] == [k for k, _ in plain.attrs]
        assert data(made)["send"] == text and data(made)["items"][0]["question"] == text


BAD_FILES = [
    (dict(page="0" * 16), "field page"),
    (dict(participant="Ann Smith"), "field participant: this is not a code"),
    (dict(order=[]), "field order"),
    (dict(order=[DRAFTS[0].id]), "field page"),
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


def test_several_people_and_pages_are_joined(tmp_path):
    pages = in_pages(BUILT.drafts, 10)
    files = [json.dumps(told(p, participant=who * 10)).encode() for p in pages for who in "ab"]
    got, n = collect(files, BUILT.drafts), 3 * len(BUILT.drafts)
    assert not got.short and got.counts == {"kept": n, "repeated": n}
    assert got == collect(files[::-1], BUILT.drafts)
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    for path in (a, b):
        path.write_text(json.dumps(told()))
    said = f"{b} is by the same person as {a}, to the same page; keep the later file"
    with pytest.raises(DataError, match=re.escape(said)):
        collect([a, b], DRAFTS)


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


def test_the_command_line_builds_and_collects(tmp_path, capsys):
    rules = [
        x
        for r in ("questions=20", "shortest=150", "fewest_sections=3", "each=10")
        for x in ("-p", r)
    ]
    folder = tmp_path / "b"
    said = here(capsys, "build", "altentities", TABLE, "--out", folder, *rules, "--json")
    drafts, pages = read_drafts(folder / "questions.jsonl"), list(folder.glob("page-*.html"))
    assert said.status == 0 and drafts == list(BUILT.drafts)
    assert json.loads(said.out).items() >= {"questions": len(drafts), "pages": len(pages)}.items()
    for k, p in enumerate(in_pages(drafts, 10)):
        (tmp_path / f"a{k}.json").write_text(json.dumps(told(p)))
    said = here(capsys, "build", "expressions", folder, *sorted(tmp_path.glob("a*.json")))
    assert said.status == 0 and "kept\t177" in said.out
    for path in (folder / "data").rglob("*.json"):
        assert {q.topic for q in read_altentities(path)} == {path.parent.name}
    do = "is there already, and these answers do not make it; remove it, or name another folder"
    one_line(here(capsys, "build", "expressions", folder, tmp_path / "a1.json"), 1, do)
    unfit = {"expressions": [drafts[0].meant.name, "\u200b", "the first one"], "seconds": 1}
    fields = dict(page=page_id(drafts[:2]), answers=[{"id": drafts[0].id} | unfit])
    (tmp_path / "a.json").write_text(json.dumps(told(drafts[:2], **fields)))
    counts = "(name 1, empty 1, position 1)"
    one_line(here(capsys, "build", "expressions", folder, tmp_path / "a.json"), 1, counts)


SMALLER = ("build", "altentities", TABLE, "--out", "x", "-p", "shortest=150", "-p")
WRONG = [
    (("build", "altentities"), 2, "Missing argument 'TABLE'"),
    (("build", "altentities", TABLE), 2, "Missing option '--out'"),
    (("build", "altentities", "none.jsonl", "--out", "x"), 1, "no such file"),
    (("build", "expressions", "none", "a.json"), 1, "no such file"),
    ((*SMALLER, "denlist=words"), 2, "did you mean denylist?"),
    ((*SMALLER, "most_songs=0"), 2, "field most_songs: 0; say 1 or more"),
    ((*SMALLER, "shortest=900"), 1, "none of 94 entities is left"),
    ((*SMALLER, "questions=0"), 1, "ask for more questions"),
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
            "[...document.querySelectorAll('main > :not([hidden])')].map(x => x.innerText).join()"
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


def test_what_was_kept_may_be_damaged(bob, request):
    drafts = own(DRAFTS[:1], request)
    key, kept = f"refnb-annotation-{page_id(drafts)}", '{"record": {}, "screen": "read"}'
    source = f"localStorage.setItem('{key}', {json.dumps(kept)})"
    bob.tab.call("Page.addScriptToEvaluateOnNewDocument", source=source)
    bob.open(annotation_page(drafts))
    assert bob.screen() == "start" and "damaged" in bob.notice()


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


def test_looks_on_a_phone(bob, request):
    bob.open(annotation_page(own([DRAFTS[0], DRAFTS[15], DRAFTS[38]], request), shuffle=False))
    bob.tab.phone()
    tall = "[...document.querySelectorAll('main > :not([hidden]) button, main > :not([hidden]) input')]"
    for screen in ("start", *("read", "write") * 3, "end"):
        bob.js(f"show('{screen}')")
        assert bob.js("document.documentElement.scrollWidth") <= 390
        assert bob.js(f"{tall}.every(b => b.getBoundingClientRect().height >= 44)")
        if screen == "write":
            bob.js("finish(['a', 'b', 'c'])")
    assert bob.screen() == "end"
