"AltEntities made anew: entities, filters, pairs, splits, expressions, the release's form, commands."

import json, re, tracemalloc
from collections import Counter
from itertools import combinations, product
import numpy as np
import pytest
from benchmarks_altentities import departures
from hypothesis import given, settings as how, strategies as st
from rapidfuzz.distance import Levenshtein
from scipy import sparse
import refnb.benchmarks.altentities.questions as alt
from refnb.benchmarks.altentities.builder import (
    ANSWERS_VERSION,
    AltRules,
    build_altentities,
    draft_of,
    flag_reason,
    in_pages,
    join_expressions,
    page_id,
    read_drafts,
    refusal_reason,
    release_text,
)
from refnb.benchmarks.altentities.entities import (
    FILTER_REASONS,
    Candidates,
    Entity,
    Filters,
    as_choice,
    eligible_entities,
    read_entities,
    usable_sections,
)
from refnb.benchmarks.altentities.pairs import (
    SHARES,
    DrawnPair,
    draw_pairs,
    split_pairs,
    told_names,
    wanted_pairs,
)
from refnb.benchmarks.altentities.questions import DOMAINS, SECTIONS, USED, as_seen
from refnb.core.files import write_jsonl
from refnb.core.settings import load_settings, packaged
from refnb.core.types import DataError, FormatError
from refnb.core.upstream import get
from tools import FULL, here, one_line

TABLE = packaged("data/sample/altentities_entities.jsonl")
ENTITIES = read_entities(TABLE)
QUESTIONS = alt.read_altentities(packaged("data/sample/altentities.json"), "sample")
DRAFTS = [draft_of(q, "sample", n) for n, q in enumerate(QUESTIONS)]
SMALL = AltRules(questions=20, shortest=150, fewest_sections=3)
BUILT = build_altentities(ENTITIES, SMALL)
LETTERS = st.characters(exclude_categories=["Cs"])


def entity(**fields) -> Entity:
    usual = {
        "name": "Rye (novel)",
        "url": "u:1",
        "domain": "books",
        "sections": {"": "word " * 60},
        "attributes": {"genre": "Horror"},
        "templates": ("Infobox book",),
    }
    return Entity(**usual | fields)


def pool_of(*fields: dict) -> list[Entity]:
    "Entities with urls of their own, in their order."
    return [entity(url=f"u:{i:03}", **own) for i, own in enumerate(fields)]


# Entities

ROW, *_ = LINES = TABLE.read_text().splitlines(keepends=True)


def second(drop: str = "", **over) -> str:
    "A table whose second row is wrong."
    row = json.loads(ROW) | {"url": "u:2"} | over
    return ROW + json.dumps({k: v for k, v in row.items() if k != drop})


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("e.jsonl", second(name=" "), ", line 2: field name: is empty"),
        ("e.jsonl", second(domain="music"), "the files call it songs"),
        ("e.jsonl", second("sections"), "`sections`"),
        ("e.jsonl", second(sections={"Plot": "a", "plot": "b"}), "field sections: 'plot' appears"),
        ("e.jsonl", second(attributes={"genre": 7}), "field attributes"),
        ("e.jsonl", second(isbn="1"), "`isbn`"),
        ("e.csv", "name,url,domain\n", "cannot be read as a table; give JSON lines"),
        ("e.json", f"[\n{ROW}]", "an object a line"),
        ("e.jsonl", "\n\n", "has no entities"),
        ("e.jsonl", "".join(LINES)[:5000], ", line "),
        ("e.jsonl", "".join([*LINES, LINES[4]]), "field url: "),
    ],
)
def test_a_table_that_cannot_be_is_refused_in_one_line(tmp_path, name, text, said):
    (path := tmp_path / name).write_text(text)
    with pytest.raises(FormatError) as e:
        read_entities(path)
    assert str(e.value).startswith(str(path)) and said in str(e.value) and "\n" not in str(e.value)


@given(
    st.dictionaries(
        st.text(LETTERS, min_size=1, max_size=9).filter(str.strip), st.text(LETTERS, max_size=60)
    ),
    st.one_of(st.text(LETTERS, max_size=40), st.text("ab.!? \n'", max_size=40)),
    st.integers(1, 300),
)
def test_what_is_shown_and_what_is_not_are_beginnings_that_end_in_time(attributes, text, times):
    text = (text * times).strip()
    e = entity(attributes=attributes, sections={"": text, "plot summary": text})
    c = as_choice(e, "plot summary")
    cut = len(text) > 750
    assert len(c.description) <= 754 and c.description.endswith(" ...") >= cut
    assert text.startswith(c.description.removesuffix(" ...") if cut else c.description)
    assert cut or c.description == text
    assert c.infobox.startswith(":") and len(c.unshown_background) < 5000
    rest = c.unshown_background.removeprefix(c.infobox).removeprefix(". ")
    assert c.unshown_background.startswith(c.infobox) and text.startswith(rest)


def test_a_link_of_a_song_is_escaped():
    artist = {"genre": "x", "artist": "</a>&"}
    evil = entity(**SONG | {"name": '"><script>', "attributes": artist})
    assert eligible_entities([evil]).dropped == {"u:1": "html"}
    shown = as_choice(evil).description
    assert "<script>" not in shown and shown.startswith('<p><a href="https://')


LONG, FEW = "x" * 251, {str(i): "y" for i in range(14)}
FOOD = {
    "domain": "recipes",
    "templates": ("Infobox prepared food",),
    "image_url": "http://x/y.jpg",
    "attributes": {},
}
SONG = {"domain": "songs", "templates": ("Infobox song",), "sections": {"": LONG} | FEW}
CASES = [
    ({"templates": ("a", "b")}, "infoboxes"),
    ({"sections": {"": "<b>x</b> " + "word " * 60}}, "html"),
    ({"attributes": {"genre": "<i>x</i>"}}, "html"),
    ({"sections": {}}, "none"),
    ({"sections": {"Reception": "word " * 60}}, "none"),
    ({"sections": {"": "x" * 250}}, "short"),
    ({"sections": {"": LONG}}, ""),
    ({"sections": {"": "x", "Plot  SUMMARY": LONG}}, ""),
    ({"attributes": {}}, "genre"),
    ({"attributes": {"genre": " "}}, "genre"),
    ({}, ""),
    (FOOD, ""),
    (FOOD | {"image_url": ""}, "image"),
    (FOOD | {"templates": ("Infobox pan",)}, "food"),
    (FOOD | {"templates": (), "sections": {"": "y", "Ingredients": LONG}}, ""),
    (FOOD | {"sections": {"preparation": LONG}}, ""),
    (SONG, ""),
    (SONG | {"sections": {"": LONG} | dict(list(FEW.items())[:13])}, "sections"),
    (SONG | {"attributes": {}}, "genre"),
    (SONG | {"sections": {"": "x"} | {str(i): "y" * 300 for i in range(14)}}, "short"),
]


def test_the_filters_of_table_12():
    for change, why in CASES:
        assert eligible_entities([entity(**change)]).dropped.get("u:1", "") == why, change


@given(st.lists(st.sampled_from(CASES), max_size=30), st.integers(1, 5), st.randoms())
def test_every_entity_is_a_candidate_or_counted_once(cases, most, rng):
    table = pool_of(*(change for change, _ in cases))
    c = eligible_entities(table, Filters(most_songs=most))
    kept = {e.url for e in c.entities}
    assert kept | set(c.dropped) == {e.url for e in table} and not kept & set(c.dropped)
    assert set(c.dropped.values()) <= set(FILTER_REASONS)
    for e, (_, alone) in zip(table, cases, strict=True):
        why = c.dropped.get(e.url, "")  # another one may count only for who passes alone
        assert why == alone or not alone and why in ("popular", "twin")
    every, *each = c.table()
    assert all(every[d] == sum(r[d] for r in each) for d in DOMAINS)
    assert sum(e.domain == "songs" for e in c.entities) <= most
    rng.shuffle(table)
    assert eligible_entities(table, Filters(most_songs=most)).dropped == c.dropped


def test_of_one_text_one_entity_stays():
    def texts(i):
        plot = "the same plot " * 40 if i > 3 else ""
        return {"": f"{i // 2} word " * 60, "plot summary": plot}

    table = pool_of(*({"name": f"Rye {i}", "sections": texts(i)} for i in range(8)))
    twins = dict.fromkeys([f"u:00{i}" for i in (1, 3, 5, 6, 7)], "twin")
    assert eligible_entities(table).dropped == eligible_entities(table[::-1]).dropped == twins
    songs = pool_of(*(SONG | {"name": f"Rye {i}"} for i in range(3)))
    assert not eligible_entities(songs).dropped, "songs are shown by their links"


def test_a_denylist_is_a_file(tmp_path):
    (path := tmp_path / "denied.txt").write_text("Gunpowder # not here\n")
    dropped = eligible_entities(ENTITIES, SMALL.changed(denylist=str(path))).dropped
    denied = [url for url, why in dropped.items() if why == "denied"]
    assert [url.rsplit("/", 1)[1] for url in denied] == ["The_Powder_Boat"]
    with pytest.raises(DataError, match="no such file"):
        build_altentities(ENTITIES, SMALL.changed(denylist=str(tmp_path / "x")))


# Pairs


def drawn_pairs(pool, method, **more) -> set[tuple[int, int]]:
    "All pairs that a method finds, each once, by their places in the pool."
    at = {e.url: i for i, e in enumerate(pool)}
    got = draw_pairs(Candidates(tuple(pool), {}, {}), pool[0].domain, {method: 10**6}, **more)
    pairs = [tuple(sorted(at[e.url] for e in d.choices)) for d in got]
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def brute_force(pool, fits) -> set[tuple[int, int]]:
    return {(i, j) for i, j in combinations(range(len(pool)), 2) if fits(pool[i], pool[j])}


@given(st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=60), st.integers(0, 99))
def test_any_two_and_all_similar_names_are_found(names, seed):
    pool = pool_of(*({"name": f"x{name}"} for name in names))
    differ = brute_force(pool, lambda a, b: a.name != b.name)
    assert drawn_pairs(pool, "UNIFORM", seed=seed) == differ
    similar = brute_force(pool, lambda a, b: 0 < Levenshtein.distance(a.name, b.name) <= 3)
    assert drawn_pairs(pool, "SIMILAR_NAME", seed=seed) == similar


VALUES = st.tuples(*[st.sampled_from(["a", "b", "A", ""])] * 2)


@given(st.lists(VALUES, min_size=1, max_size=12), st.integers(0, 99))
def test_all_equal_attributes_are_found(rows, seed):
    pool = pool_of(
        *(
            {"domain": "songs", "name": f"Rye {i}", "attributes": {"genre": g, "artist": a}}
            for i, (g, a) in enumerate(rows)
        )
    )

    def fits(a, b):
        both = ((a.value(k).lower(), b.value(k).lower()) for k in ("genre", "artist"))
        return any(x == y != "" for x, y in both)

    assert drawn_pairs(pool, "SAME_INFOBOXES", seed=seed) == brute_force(pool, fits)


@given(st.integers(2, 60), st.integers(1, 9), st.integers(0, 10**6), st.booleans())
def test_the_nearest_text_is_the_one_that_brute_force_finds(n, size, seed, thin):
    v = np.random.default_rng(seed).integers(-2, 3, (n, size)).astype(np.float32)
    v[0, 0] = 1
    pool = pool_of(*({"name": f"Rye {i}"} for i in range(n)))
    encoder = lambda texts: sparse.csr_matrix(v) if thin else v
    unit = v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-9)
    cosines = unit @ unit.T - 9 * np.eye(n)
    nearest, found = cosines.max(1) - 1e-5, np.zeros(n, bool)
    for i, j in drawn_pairs(pool, "SIMILAR_DESCRIPTION", seed=seed, encoder=encoder):
        of = [k for k in (i, j) if cosines[i, j] >= nearest[k]]
        assert of
        found[of] = True
    assert found.all()


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


@given(st.integers(0, 10**4), st.sampled_from(list(DOMAINS)), st.randoms())
@how(max_examples=25)
def test_pairs_come_once_with_sections_and_names_that_can_be_shown(seed, domain, rng):
    c = BUILT.candidates
    wish = {m: rng.randrange(12) for m in USED[domain.upper()]}
    got = draw_pairs(c, domain, wish, seed)
    other = c._replace(entities=tuple(rng.sample(c.entities, len(c.entities))))
    assert got == draw_pairs(other, domain, wish, seed)
    pairs = [frozenset(e.url for e in d.choices) for d in got]
    assert len(set(pairs)) == len(pairs) and all(len(p) == 2 for p in pairs)
    n = Counter(d.method for d in got)
    assert all(n[m] <= k for m, k in wish.items()) and n["UNIFORM"] == wish["UNIFORM"]
    for d in got:
        assert d.section in SECTIONS[domain.upper()]
        assert all(d.section in usable_sections(e, c.filters) for e in d.choices)
        assert len(set(told_names(*d.choices))) == 2


def test_names_that_look_the_same_are_no_pair():
    def pairs(names, wanted):
        books = ({"name": x, "sections": {"": f"{i} word " * 60}} for i, x in enumerate(names))
        drawn = draw_pairs(eligible_entities(pool_of(*books)), "books", wanted)
        return [set(told_names(*d.choices)) for d in drawn]

    ways = dict.fromkeys(("SAME_NAME", "UNIFORM", "SIMILAR_NAME", "SIMILAR_DESCRIPTION"), 99)
    coffee = ("Café Noir", "Cafe\u0301 Noir", "CAFÉ  Noir ", "Café\u200b Noir")
    got = pairs((*coffee, "Ann’s Tin", "Ann's Tin"), ways)
    assert len(got) == 8
    assert all(set(map(as_seen, names)) == {"café noir", "ann's tin"} for names in got)
    alike = {"Café (novel)", "Cafe\u0301 (poem)"}
    assert pairs(sorted(alike), {"SAME_NAME": 1}) == [alike]


@pytest.mark.parametrize(
    "domain, method",
    [
        ("books", "SAME_NAME"),
        ("books", "UNIFORM"),
        ("recipes", "SAME_INFOBOXES"),
        pytest.param("books", "SIMILAR_NAME", marks=pytest.mark.full),
    ],
)
def test_no_list_of_all_pairs_is_made(domain, method):
    "Of a thousand entities that are all alike there are half a million pairs."
    same = {"domain": domain, "attributes": {"type": "cake", "country": "here"}}
    pool = pool_of(*({"name": f"Rye (book {i})"} | same for i in range(1000)))
    tracemalloc.start()
    try:
        assert len(draw_pairs(Candidates(tuple(pool), {}, {}), domain, {method: 50})) == 50
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


def test_targets_and_places_are_drawn():
    got = draw_pairs(BUILT.candidates, "books", {"UNIFORM": 300})
    assert len(got) == 300 and 110 < sum(d.target_index for d in got) < 190
    assert 100 < sum(a.url < b.url for a, b in (d.choices for d in got)) < 200


TWO = st.lists(st.integers(0, 25), min_size=2, max_size=2, unique=True)
POOL = pool_of(*[{}] * 26)


@given(st.lists(st.tuples(TWO, st.integers(0, 1)), max_size=60), st.integers(0, 99))
def test_no_target_is_in_two_splits(pairs, seed):
    got = [DrawnPair("books", "UNIFORM", "", (POOL[a], POOL[b]), t) for (a, b), t in pairs]
    splits = split_pairs(got, seed)
    assert splits == split_pairs(got, seed) and set(splits) <= set(SHARES)
    of = {target: set() for target in (d.target for d in got)}
    for d, split in zip(got, splits, strict=True):
        of[d.target].add(split)
    assert all(len(own) == 1 for own in of.values())
    largest = max(Counter(d.target for d in got).values(), default=0)
    for split, share in SHARES.items():
        assert splits.count(split) <= len(got) * share + 1 + largest


# Builds


def test_a_build_keeps_all_rules_of_the_release():
    drafts = BUILT.drafts
    assert [x for d in drafts for x in departures(d.with_expressions(["the old one"]))] == []
    assert {d.sampling_method for d in drafts} == {m for of in USED.values() for m in of}
    counted = Counter()
    for d in drafts:
        assert d.id == f"{d.topic}-{d.split}-{counted[d.topic, d.split]}"
        counted[d.topic, d.split] += 1
    for domain, n in product(DOMAINS, (0, 1, 7, 200)):
        assert sum(wanted_pairs(domain, n).values()) == n


def test_seeds_draw_differently_and_again_the_same():
    builds = [build_altentities(ENTITIES, SMALL.changed(seed=s)).drafts for s in range(3)]
    assert len(set(builds)) == 3
    assert build_altentities(ENTITIES[::-1], SMALL.changed(seed=2)).drafts == builds[2]


RELEASED = {  # what would have been flagged of the released expressions
    ("books", "dev"): {"kept": 1979, "repeated": 5, "name": 9},
    ("books", "test"): {"kept": 2000, "repeated": 3, "name": 8, "position": 2},
    ("recipes", "dev"): {"kept": 2256, "repeated": 3, "name": 4, "copied": 3},
    ("recipes", "test"): {"kept": 2243, "repeated": 5, "name": 2, "copied": 1},
    ("songs", "dev"): {"kept": 2161, "name": 5},
    ("songs", "test"): {"kept": 2177, "repeated": 2, "name": 5},
}


def test_released_files_are_written_byte_for_byte_and_hardly_flagged(upstream):
    s = load_settings("/", env={}, upstream=str(upstream), offline=True)
    for (domain, split), counts in RELEASED.items():
        qs = alt.altentities(domain, split, s)
        assert release_text(qs).encode() == get(alt.altentities_file(domain, split), s)
        if FULL or (domain, split) == ("recipes", "test"):  # it takes a while
            drafts = [draft_of(q, split, n) for n, q in enumerate(qs)]
            said = {d.id: [q.expressions] for d, q in zip(drafts, qs, strict=True)}
            joined = join_expressions(drafts, said, keep=True)
            assert joined.counts == counts, (domain, split)
            assert release_text(joined.files[f"{domain}/{split}"]) == release_text(qs)


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(domain="FILMS"), "field domain: unknown value 'FILMS'"),
        (dict(target="x"), "field target: is not the page"),
        (dict(target_index=2), "field target_index: 2"),
        (dict(split="../../x"), "no name of a file"),
        (dict(expressions=["x"]), "`expressions`"),
    ],
)
def test_a_draft_that_cannot_be_is_refused(tmp_path, change, said):
    path = write_jsonl(tmp_path / "q.jsonl", DRAFTS, canary=True)
    canary, first, *_ = path.read_text().splitlines()
    path.write_text("\n".join([canary, json.dumps(json.loads(first) | change)]))
    with pytest.raises(FormatError) as e:
        read_drafts(path)
    assert str(e.value).startswith(f"{path}, line 2") and said in str(e.value)


# Expressions

FLAGS = {
    "The LAMPLIGHTER'S  ledger!": "name",
    "lamplighter's ledgers": "",
    "the first one he wrote": "",
    "not the first one": "position",
    "it’s the last book": "position",
    "the left-handed one": "",
    "on the left": "position",
    "I want option B": "position",
    "the best option by far": "",
    "the \u200bfirst one": "position",
}


def meant(name: str):
    "A draft whose target has this name."
    d = DRAFTS[0]
    assert d.target_index == 0
    return d.changed(choices=(d.choices[0].changed(name=name), d.choices[1]))


def test_names_places_and_repetitions_are_flagged():
    assert {e: " ".join(flag_reason(DRAFTS[0], e)) for e in FLAGS} == FLAGS
    assert flag_reason(meant("E\u0301lan’s end"), "élan's END") == ["name"]
    for said, flags in (("का किताब", []), ("की, किताब!", ["repeated"])):
        assert flag_reason(DRAFTS[0], said, ["की किताब"]) == flags, "marks are parts of words"
    assert flag_reason(meant(" (x)"), "x") == [], "a name without a title is nowhere"


@given(st.text(LETTERS, min_size=1, max_size=20).filter(str.strip), st.text(LETTERS, max_size=60))
def test_any_name_can_be_looked_for(name, said):
    flags = flag_reason(meant(name), said)
    assert set(flags) <= {"name", "position", "repeated", "copied"}
    if re.fullmatch(r"[a-z]{4,}", name):
        assert "name" in flag_reason(meant(name), f"that's {name.upper()}.")


SAID = st.sampled_from([*FLAGS, "", "x" * 5000, "\ud800", "\u200b"])


@given(st.lists(st.lists(SAID, max_size=6), max_size=3), st.booleans(), st.integers(1, 4))
def test_joined_expressions_are_fit_and_counted(parts, keep, least):
    got = join_expressions(DRAFTS[:2], {DRAFTS[0].id: parts}, keep, least)
    kept = [e for qs in got.files.values() for q in qs for e in q.expressions]
    assert not any(map(refusal_reason, kept))
    assert keep or not any(flag_reason(DRAFTS[0], e, kept[:i]) for i, e in enumerate(kept))
    few = got.counts.get("kept", 0) < least
    assert got.short == tuple(d.id for d in DRAFTS[0 if few else 1 : 2])
    assert few or len(kept) >= least


# The commands


def answered(drafts, **first) -> str:
    "What the page saves when somebody has answered; fields of the first answer may be others."
    said = {"expressions": ["the old one", "what I had on Sunday", "not the other"], "seconds": 9.5}
    answers = [{"id": d.id} | said for d in drafts]
    answers[0] |= first
    order = [d.id for d in drafts]
    about = {"page": page_id(drafts), "version": ANSWERS_VERSION, "participant": "abcdefghij"}
    return json.dumps(about | {"order": order, "answers": answers})


def test_the_commands_build_and_collect(tmp_path, capsys):
    folder, rules = tmp_path / "b", "questions=20 shortest=150 fewest_sections=3 each=10".split()
    given = [x for rule in rules for x in ("-p", rule)]
    said = here(capsys, "build", "altentities", TABLE, "--out", folder, *given, "--json")
    drafts, pages = read_drafts(folder / "questions.jsonl"), list(folder.glob("page-*.html"))
    assert said.status == 0 and drafts == list(BUILT.drafts)
    counts = {"questions": len(drafts), "pages": len(pages)}
    assert json.loads(said.out).items() >= counts.items()
    files = [tmp_path / f"a{k}.json" for k in range(len(pages))]
    for path, page in zip(files, in_pages(drafts, 10), strict=True):
        path.write_text(answered(page))
    said = here(capsys, "build", "expressions", folder, *files)
    assert said.status == 0 and f"kept\t{3 * len(drafts)}" in said.out
    for path in (folder / "data").rglob("*.json"):
        assert {q.topic for q in alt.read_altentities(path)} == {path.parent.name}
    one_line(here(capsys, "build", "expressions", folder, files[1]), 1, "is there already")
    unfit = [drafts[0].meant.name, "\u200b", "the first one"]
    files[0].write_text(answered(drafts[:1], expressions=unfit))
    counts = "(name 1, empty 1, position 1)"
    one_line(here(capsys, "build", "expressions", folder, files[0]), 1, counts)


def test_wrong_calls_are_told_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    entities = ("altentities", TABLE, "--out", "x", "-p", "shortest=150", "-p")
    for args, status, said in (
        (("altentities",), 2, "'TABLE'"),
        (("altentities", TABLE), 2, "'--out'"),
        (("altentities", "none.jsonl", "--out", "x"), 1, "none.jsonl: no such file"),
        (("expressions", "none", "a.json"), 1, "no such file"),
        ((*entities, "denlist=words"), 2, "did you mean denylist?"),
        ((*entities, "most_songs=0"), 2, "field most_songs: 0"),
        ((*entities, "shortest=900"), 1, "none of 94 entities is left"),
        ((*entities, "questions=0"), 1, "ask for more questions"),
    ):
        one_line(here(capsys, "build", *args), status, said)
    assert not list(tmp_path.iterdir())
