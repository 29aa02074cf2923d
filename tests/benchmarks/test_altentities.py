"AltEntities: what the released files hold, files that are wrong, any number of options, truncation, sheets, tables."

import csv, gzip, json, re
from collections import Counter
import msgspec
import pytest
from hypothesis import given, settings as how, strategies as st
from rapidfuzz.distance import Levenshtein
import refnb.benchmarks.altentities.questions as alt
import tools
from refnb.benchmarks.altentities.questions import (
    DOMAINS,
    METHODS,
    NEGATION,
    SPLITS,
    Alternative,
    Written,
)
from refnb.benchmarks.altentities.statistics import (
    alt_statistics,
    entities_per_expression,
    judged_share,
    method_counts,
    read_sheet,
    SEEN,
    seen_before,
    shared,
    sheet_text,
    spacy_tagger,
    write_sheets,
)
from refnb.benchmarks.tasks import benchmarks, task_is_here, task_questions
from refnb.core.settings import load_settings, packaged
from refnb.core.types import CallError, DataError, FormatError
from refnb.models.language.prompts import render
from refnb.models.running import run
from refnb.results.scores import as_outcomes, score

SAMPLE = packaged("data/sample/altentities.json")
PARTS = list(benchmarks()["altentities"].tasks)


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("altentities")
    return load_settings(
        "/",
        env={},
        upstream=str(upstream),
        offline=True,
        **{k: str(home / k) for k in ("cache", "runs", "reports")},
    )


def test_work_grows_no_faster_than_the_questions():
    written = json.loads(SAMPLE.read_text())
    files = [json.dumps(written * n).encode() for n in (1, 4)]
    assert (
        tools.growth(
            lambda data: [x for q in alt.parse_altentities(data) for x in alt.questions_of(q)],
            *files,
        )
        < 5
    )


@pytest.fixture(scope="module")
def corpus(s):
    return {(d, p): alt.altentities(d, p, s) for d in DOMAINS for p in ("dev", "test")}


@pytest.fixture(scope="module")
def both(corpus):
    return {d: corpus[d, "dev"] + corpus[d, "test"] for d in DOMAINS}


@pytest.fixture(scope="module")
def sample():
    return alt.read_altentities(SAMPLE, "sample")


# The release (spec, sections 5.1 to 5.3)


def departures(q: Written) -> list[str]:
    "What no question of the release has."
    names, texts = [c.name for c in q.choices], [c.description for c in q.choices if c.description]
    songs, recipes = q.domain == "SONGS", q.domain == "RECIPES"
    bare = {alt.as_seen(alt.bare_title(name)) for name in names}
    rules = {
        "the choices are not two": len(q.choices) == 2,
        "another section": q.description_section in alt.SECTIONS[q.domain],
        "another method": q.sampling_method in alt.USED[q.domain],
        "another template": q.question == alt.asked_as(names, q.domain),
        "two have one name": len(set(map(alt.as_seen, names))) == len(names),
        "two have one description": songs or len(set(texts)) == len(texts),
        "not of one name": q.sampling_method != "SAME_NAME" or len(bare) == 1,
        "no similar titles": q.sampling_method != "SIMILAR_NAME"
        or Levenshtein.distance(*names) < 4,
    }
    for c in q.choices:
        rules |= {
            f"{c.name}: a text is empty": c.description.strip() and c.infobox.strip(),
            f"{c.name}: another infobox": c.infobox.startswith(": "),
            f"{c.name}: background without infobox": c.unshown_background.startswith(c.infobox),
            f"{c.name}: a text is too long": len(c.unshown_background) < 5000
            and len(c.description) <= 754,
            f"{c.name}: HTML": songs or not re.search(r"</?[a-zA-Z][^<>]*>", c.description),
            f"{c.name}: image": bool(c.image_url) == recipes,
        }
    return [fault for fault, kept in rules.items() if not kept]


FILES = {  # questions, expressions, target 0 / 1, then questions (expressions) by method
    ("books", "dev"): (313, 1979, 159, 154, "93 588 54 338 64 414 102 639 0 0"),
    ("books", "test"): (313, 2000, 170, 143, "98 639 39 247 84 533 92 581 0 0"),
    ("recipes", "dev"): (315, 2256, 161, 154, "126 909 0 0 39 287 84 583 66 477"),
    ("recipes", "test"): (314, 2243, 155, 159, "126 898 0 0 40 299 83 580 65 466"),
    ("songs", "dev"): (312, 2161, 151, 161, "111 789 0 0 0 0 104 712 97 660"),
    ("songs", "test"): (312, 2177, 143, 169, "106 744 0 0 0 0 117 821 89 612"),
}


@pytest.mark.parametrize(("domain", "split"), FILES)
def test_a_file_has_its_counts(corpus, domain, split):
    qs = corpus[domain, split]
    by = [
        (sum(q.method == m for q in qs), sum(len(q.expressions) for q in qs if q.method == m))
        for m in METHODS.values()
    ]
    target = Counter(q.target_index for q in qs)
    assert (
        len(qs),
        sum(len(q.expressions) for q in qs),
        target[0],
        target[1],
        " ".join(f"{a} {b}" for a, b in by),
    ) == FILES[domain, split]
    assert [q.key for q in qs] == [f"{domain}-{split}-{i}" for i in range(len(qs))]
    assert method_counts(qs) == {
        m: n for m, (n, _) in zip(METHODS.values(), by, strict=True) if n
    } | {"all": len(qs)}


def test_every_question_keeps_all_rules(both):
    assert sum(map(len, both.values())) == 1879
    assert [x for qs in both.values() for q in qs for x in departures(q)] == []


def test_pairs_are_what_their_method_says(both):
    edits = {
        d: Counter(
            Levenshtein.distance(*(c.name for c in q.choices))
            for q in qs
            if q.method == "similar title"
        )
        for d, qs in both.items()
    }
    assert edits == {"books": {1: 12, 2: 27, 3: 109}, "recipes": {1: 2, 2: 10, 3: 67}, "songs": {}}
    assert (
        sum(
            len({alt.bare_title(c.name) for c in q.choices}) == 1
            for q in both["books"]
            if q.method == "same name"
        )
        == 93
    )
    assert {d: Counter(q.section for q in qs) for d, qs in both.items()} == {
        "books": {"main": 364, "plot summary": 262},
        "recipes": {"main": 294, "preparation": 189, "ingredients": 146},
        "songs": {"none": 624},
    }


def test_descriptions_are_of_known_lengths(both):
    told = {d: [c for q in qs for c in q.choices] for d, qs in both.items()}
    assert {d: sum(c.description.endswith("...") for c in cs) for d, cs in told.items()} == {
        "books": 625,
        "recipes": 478,
        "songs": 0,
    }
    assert [
        (min(n), max(n))
        for d in ("books", "recipes")
        for n in [[len(c.description) for c in told[d]]]
    ] == [(251, 754), (100, 754)]
    assert sum(len(c.description) <= 250 for c in told["recipes"]) == 15
    assert max(len(c.unshown_background) for cs in told.values() for c in cs) == 4999
    assert sum(bool("<a href" in c.description) for c in told["songs"]) == 1248
    boxes = Counter(c.infobox.partition(". ")[0].lower() for c in told["books"])
    assert (boxes[": infobox book"], boxes[": "], len(told["books"])) == (585, 667, 1252)


def test_expressions_are_as_they_were_written(both):
    said = {d: [(q, e) for q in qs for e in q.expressions] for d, qs in both.items()}
    assert [sum(e != e.strip() for _, e in x) for x in said.values()] == [301, 248, 323]
    assert [
        sum(len(q.expressions) - len(set(q.expressions)) for q in qs) for qs in both.values()
    ] == [3, 3, 2]
    assert [sum(alt.names_target(q, e) for q, e in x) for x in said.values()] == [18, 7, 11]
    numbers = [len(q.expressions) for qs in both.values() for q in qs]
    assert (min(numbers), max(numbers), Counter(numbers).most_common(1)[0][0]) == (5, 14, 6)


def test_splits_share_entities_and_no_targets(corpus):
    assert [tuple(shared(corpus[d, "dev"], corpus[d, "test"])) for d in DOMAINS] == [
        (0, 0, 0, 0, 0),
        (0, 0, 100, 30, 27),
        (0, 0, 128, 46, 36),
    ]


def test_what_was_meant_before_is_wrong_now(corpus):
    counts = {}
    for d in DOMAINS:
        dev, test = corpus[d, "dev"], corpus[d, "test"]
        seen = seen_before(test, dev)
        for q in test:
            meant = {x.target for x in dev}
            shown = {c.wikipedia_url for x in dev for c in x.choices}
            right, wrong = q.target in shown, {c.wikipedia_url for c in q.choices} - {q.target}
            assert seen[q.key] == (
                "wrong one meant"
                if wrong & meant
                else "both offered"
                if right and wrong & shown
                else "right one offered"
                if right
                else "wrong one offered"
                if wrong & shown
                else "neither shown"
            )
            assert not any(x.target == q.target for x in dev)
        counts[d] = [sum(len(q.expressions) for q in test if seen[q.key] == k) for k in SEEN]
    assert counts == {
        "books": [2000, 0, 0, 0, 0],
        "recipes": [1242, 253, 343, 129, 276],
        "songs": [868, 386, 393, 141, 389],
    }

    def before(d):
        "Of questions with one thing that was merely offered before: how often it is the target, how often the wrong option."
        meant = {q.target for q in corpus[d, "dev"]}
        offered = {c.wikipedia_url for q in corpus[d, "dev"] for c in q.choices} - meant
        one = [
            [c.wikipedia_url in offered for c in q.choices].index(True) == q.target_index
            for q in corpus[d, "test"]
            if sum(c.wikipedia_url in offered for c in q.choices) == 1
        ]
        return sum(one), len(one) - sum(one)

    assert (before("recipes"), before("songs")) == (
        (47, 49),
        (66, 56),
    )  # about as often, as own_shared_entities says
    entities = [
        (
            {c.wikipedia_url for q in corpus[d, "test"] for c in q.choices},
            {q.target for q in corpus[d, "test"]},
        )
        for d in DOMAINS
    ]
    assert [(len(a), len(b)) for a, b in entities] == [(530, 285), (395, 162), (366, 132)]


def test_statistics(both, corpus):
    told = {d: alt_statistics(qs) for d, qs in both.items()}
    shown = [
        [
            round(x, 2)
            for x in (
                t.length,
                t.length_at_blanks,
                100 * t.unique,
                100 * t.once,
                100 * t.contrastives,
            )
        ]
        for t in told.values()
    ]
    assert shown == [
        [7.84, 7.65, 98.47, 97.36, 17.06],
        [6.2, 6.01, 91.75, 87.91, 7.36],
        [6.87, 6.65, 83.96, 77.75, 7.42],
    ]
    said = {d: [e for q in corpus[d, "test"] for e in q.expressions] for d in DOMAINS}
    assert [
        round(100 * sum(bool(NEGATION.search(e)) for e in x) / len(x), 2) for x in said.values()
    ] == [24.05, 15.47, 12.59]
    assert [
        round(100 * sum(bool(alt.COMPARISON.search(e)) for e in x) / len(x), 1)
        for x in said.values()
    ] == [2.4, 0.1, 6.8]


def test_named_entities(both):
    tagger, why = spacy_tagger()
    if not tagger:
        pytest.skip(why)
    assert [round(entities_per_expression(qs[:60], tagger), 1) for qs in both.values()] == [
        pytest.approx(x, abs=0.25) for x in (0.7, 0.2, 0.4)
    ]


# Parts


def test_the_card_names_every_cell():
    cells = [(d, x) for d in DOMAINS for x in alt.settings_of(d)]
    assert len(cells) == 11 and sorted(PARTS) == sorted(
        alt.altentities_task(d, x, p) for d, x in cells for p in SPLITS
    )
    for p in PARTS:
        assert benchmarks()["altentities"].tasks[p].inputs == [
            alt.altentities_file(*alt.read_altentities_task(p)[::2])
        ]


@pytest.mark.parametrize(
    "part", [f"altentities/{x}/test" for x in ("books/oracle", "recipes/infobox", "songs/name")]
)
def test_a_part_is_whole(s, part):
    domain, setting, split = alt.read_altentities_task(part)
    questions = task_questions(part, s)
    assert task_is_here(part, s) and len(questions) == FILES[domain, split][1] == len(
        {q.id for q in questions}
    )
    assert len({q.doc_key for q in questions}) == FILES[domain, split][0] and all(
        q.id.startswith(f"{domain}-{split}-") and q.id.rpartition("-")[0] == q.doc_key
        for q in questions
    )
    assert all(
        (len(o.description) > 0) == (setting != "name") and not o.description.startswith(":")
        for q in questions
        for o in q.options
    )
    assert (
        all("href" not in o.description for q in questions for o in q.options) or domain != "songs"
    )
    assert all(q.text[slice(*q.chars)] == q.text.rpartition("\n")[2].strip() for q in questions)


def test_every_form_can_ask_every_expression(s):
    for part in (
        "altentities/books/oracle/test",
        "altentities/recipes/unshown/test",
        "altentities/songs/name/test",
    ):
        for q in task_questions(part, s)[::7]:
            for form in ("altentities/names", "altentities/letters", "altentities/few-shot"):
                shown, said = render(q, form), " ".join(q.text[slice(*q.chars)].split())
                assert (
                    f'The question was: {q.text.partition(chr(10))[0]}\nThe answer was: "{said}"'
                    in shown
                    and all(" ".join(o.name.split()) in shown for o in q.options)
                )


def test_always_the_first_choice(s):
    def first(q):
        return 0

    said = [
        score(run(task_questions(f"altentities/{d}/name/test", s), first, s=s)).interval()
        for d in DOMAINS
    ]
    assert [round(100 * x.value, 2) for x in said] == [54.5, 49.62, 46.12]
    assert [(x.n, x.clusters) for x in said] == [(2000, 313), (2243, 314), (2177, 312)]


def test_f45_a_training_file_that_is_not_here_says_what_to_do(s):
    assert not task_is_here("altentities/songs/unshown/train", s)
    with pytest.raises(DataError, match="AltEntities/data/songs/train.json: is not here"):
        alt.altentities("songs", "train", s)
    with pytest.raises(
        DataError, match="refnb fetch google-research-datasets/AltEntities/data/songs/train.json"
    ):
        run("altentities/songs/unshown/train", "random", s=s)


def test_a_training_file_works_the_moment_it_is_here(monkeypatch, settings):
    "Even where it breaks a rule that the other splits keep; and so does the file of all domains."
    books = [q for q in json.loads(SAMPLE.read_text()) if q["domain"] == "BOOKS"]
    books[3]["choices"][0]["infobox"] = ""
    files = {"books/train": books, "mixed/dev": json.loads(SAMPLE.read_text())}
    monkeypatch.setattr(
        alt,
        "get",
        lambda name, s: json.dumps(
            files[name.partition("/data/")[2].removesuffix(".json")]
        ).encode(),
    )
    questions = task_questions("altentities/books/infobox/train", settings())
    assert (len(questions), questions[0].id, questions[15].options[0].description) == (
        75,
        "books-train-0-0",
        "",
    )
    mixed = alt.altentities("mixed", "dev", settings())
    assert [mixed[i].key for i in (0, 15, 29)] == [
        "books-mixed-dev-0",
        "recipes-mixed-dev-15",
        "songs-mixed-dev-29",
    ]
    assert len(alt.altentities_questions(settings(), "mixed", "unshown", "dev")) == 200


# Files that are wrong


def changed(n: int, drop: str = "", **over) -> bytes:
    "The sample with one question changed."
    got = json.loads(SAMPLE.read_text())
    got[n] = {k: v for k, v in (got[n] | over).items() if k != drop}
    return json.dumps(got).encode()


def with_choice(n: int, i: int, drop: str = "", **over) -> bytes:
    "The sample with one choice changed."
    choices = json.loads(SAMPLE.read_text())[n]["choices"]
    choices[i] = {k: v for k, v in (choices[i] | over).items() if k != drop}
    return changed(n, choices=choices)


def same_thing(n: int) -> bytes:
    q = json.loads(SAMPLE.read_text())[n]
    return changed(
        n, choices=[q["choices"][0]] * 2, target=q["choices"][0]["wikipedia_url"], target_index=0
    )


UNUSABLE = [
    (lambda: changed(4, domain="SONG"), "did you mean SONGS"),
    (lambda: same_thing(11), r"question 11, field choices\[0\]: the same thing as choices\[1\]"),
    (lambda: changed(0, target_index=-1), "field target_index: -1 is none of the 2 choices"),
    (lambda: changed(0, expressions=[]), "field expressions: there are none"),
    (
        lambda: changed(7, expressions=["the old one", "\u200b\ufeff"]),
        r"question 7, field expressions\[1\]: is empty",
    ),
    (lambda: with_choice(41, 1, name=" \t"), r"question 41, field choices\[1\]\.name: is empty"),
    (
        lambda: with_choice(5, 1, drop="infobox"),
        r"question 5, field choices\[1\]: Object missing required field `infobox`",
    ),
    (lambda: changed(6, split="dev"), "question 6: Object contains unknown field `split`"),
    (lambda: b"[]", "f: has no questions"),
    (lambda: SAMPLE.read_bytes()[:90_000], "f: ends before its last question does"),
    (
        lambda: SAMPLE.read_bytes().replace(b'"question":', b'"domain": "BOOKS", "question":', 1),
        "f: the key 'domain' appears twice",
    ),
    (lambda: SAMPLE.read_bytes().replace(b"harbour", b"harb\xf6ur", 1), r"f, line \d+: not UTF-8"),
]


@pytest.mark.parametrize(("make", "said"), UNUSABLE)
def test_what_cannot_be_asked_is_refused(make, said):
    with pytest.raises(FormatError, match=said) as e:
        alt.parse_altentities(make(), "f")
    assert str(e.value).startswith("f") and "\n" not in str(e.value)


def test_an_expression_that_names_the_target_is_kept_and_marked():
    [q] = alt.parse_altentities(
        json.dumps(
            [json.loads(changed(4, expressions=["the tallowgate by Ferrow", "the old one"]))[4]]
        ).encode()
    )
    assert [x.meta["names target"] for x in alt.questions_of(q)] == [True, False]


def test_f43_a_name_in_another_form_is_a_name(sample):
    q = sample[4].changed(
        choices=tuple(
            c.changed(name="Café d’Été (novel)") if i == sample[4].target_index else c
            for i, c in enumerate(sample[4].choices)
        )
    )
    assert [
        alt.names_target(q, e)
        for e in ("CAFE\u0301  d'e\u0301te\u0301, please", "the Café\u200b d’Été", "cafe d'ete")
    ] == [True, True, False]
    names = [c.changed(name=n) for c, n in zip(q.choices, ("Cafe\u0301", "CAFÉ "), strict=True)]
    assert "two have one name" in departures(q.changed(choices=tuple(names)))


def test_html_of_songs_is_told_to_nobody(sample):
    song = sample[29].changed(
        choices=tuple(
            c.changed(description=f"<a href='http://sample.invalid/?q={i}'>search</a>")
            for i, c in enumerate(sample[29].choices)
        )
    )
    assert departures(song) == [] and not any(
        "<" in o.description
        for x in alt.settings_of("songs")
        for q in alt.questions_of(song, x)
        for o in q.options
    )
    with pytest.raises(CallError, match="songs have no setting 'oracle'"):
        alt.questions_of(song, "oracle")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("altentities/films/name/test", "unknown domain 'films'"),
        ("altentities/books/orcale/test", "did you mean oracle"),
        ("altentities/books/name/tset", "did you mean test"),
        ("altentities/books/name", "tasks look like"),
    ],
)
def test_a_part_that_is_none(part, said):
    with pytest.raises(CallError, match=said):
        alt.read_altentities_task(part)


@pytest.mark.parametrize("name", ["dev.json", "dev.json.gz"])
def test_f39_files_plain_and_packed_with_a_mark_and_other_line_ends(tmp_path, name, sample):
    data = b"\xef\xbb\xbf" + SAMPLE.read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    got = alt.read_altentities(tmp_path / name)
    assert [q.key for q in got[:2]] == ["books-dev-0", "books-dev-1"] and [
        q.changed(split="sample") for q in got
    ] == sample


# Any number of options

words = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20
).filter(str.strip)


@st.composite
def written(draw) -> Written:
    "A question of two to seven choices, with any texts."
    n = draw(st.integers(2, 7))
    choices = tuple(
        Alternative(
            draw(words),
            f"http://sample.invalid/wiki/{i}",
            draw(st.text(max_size=9)),
            draw(st.text(max_size=9)),
            draw(st.text(max_size=9)),
        )
        for i in range(n)
    )
    right = draw(st.integers(0, n - 1))
    domain = draw(st.sampled_from(list(DOMAINS.values())))
    return Written(
        domain,
        draw(words),
        choices[right].wikipedia_url,
        right,
        draw(st.sampled_from(list(METHODS))),
        "",
        choices,
        tuple(draw(st.lists(words, min_size=1, max_size=5))),
    )


@given(st.lists(written(), min_size=1, max_size=4))
@how(max_examples=60)
def test_any_number_of_options(records):
    got = alt.parse_altentities(msgspec.json.encode(records), "f")
    assert [msgspec.to_builtins(q) | {"number": 0} for q in got] == [
        msgspec.to_builtins(r) | {"number": 0} for r in records
    ]
    for q in got:
        for setting in alt.settings_of(q.topic):
            for x, e in zip(alt.questions_of(q, setting), q.expressions, strict=True):
                assert (len(x.options), x.right, x.text[slice(*x.chars)]) == (
                    len(q.choices),
                    (q.target_index,),
                    e.strip(),
                )
    assert len({x.id for q in got for x in alt.questions_of(q, "name")}) == sum(
        len(q.expressions) for q in got
    )


# The dialogue


def test_the_opening_is_drawn_once_and_for_all(sample):
    assert [alt.opening(q) for q in sample] == [alt.opening(q) for q in reversed(sample)][::-1]
    assert all(alt.opening(q) in alt.openings()[q.topic] for q in sample) and {
        alt.opening(q, i) for q in sample for i in range(30)
    } == {u for us in alt.openings().values() for u in us}
    for q in sample:
        first, second, third = alt.dialogue(q, q.expressions[0]).splitlines()
        x = alt.questions_of(q, opened=0)[0]
        assert (
            x.text
            == "\n".join(
                (first.removeprefix("Bob: "), second.removeprefix("Alice: "), q.expressions[0])
            )
            and third == f"Bob: {q.expressions[0].strip()}"
        )


# Sheets, statistics, tables


@given(st.integers(0, 5))
@how(max_examples=6)
def test_a_sheet_asks_what_it_says(seed):
    songs = [q for q in alt.read_altentities(SAMPLE, "sample") if q.topic == "songs"] * 4
    asked = [
        r["id"] for r in csv.DictReader(sheet_text(songs, "multi-modality", seed).splitlines())
    ]
    assert len(asked) == 200
    rows = list(csv.DictReader(sheet_text(songs[:13], "error rate", seed).splitlines()))
    assert (
        len(rows) == 63
        and len({r["id"].rpartition("-")[0] for r in rows}) == 13
        and all(r["judgement"] == "" for r in rows)
        and sheet_text(songs[:13], "error rate", seed) == sheet_text(songs[:13], "error rate", seed)
    )


def test_a_cell_of_a_sheet_is_no_formula(sample):
    q = sample[29].changed(expressions=("=1+1", "+ the one", "@x", "-not that"))
    assert [
        r["expression"] for r in csv.DictReader(sheet_text([q], "error rate").splitlines())
    ] == ["'=1+1", "'+ the one", "'@x", "'-not that"]


def test_a_spreadsheet_may_do_what_it_likes_to_other_cells(tmp_path, sample):
    books = [q for q in sample if q.topic == "books"]
    [path] = write_sheets(tmp_path, {"books": books})
    rows = list(csv.DictReader(path.read_text().splitlines()))
    path.write_bytes(
        "\ufeffjudgement,id,x\r\n".encode()
        + "".join(
            f'{"BOTH" if i % 5 == 0 else "right"},{r["id"]},"a\nb"\r\n' for i, r in enumerate(rows)
        ).encode()
        + b"\r\n"
    )
    share, why = judged_share(read_sheet(path, "error rate"), "error rate")
    assert (share.value, share.n, share.clusters, why) == (15 / 75, 75, 15, "")
    path.write_bytes(b"id,judgement\rbooks-sample-0-0,right\r , \r")
    assert read_sheet(path, "error rate") == {"books-sample-0-0": "right"}
    assert judged_share({}, "error rate") == (None, "the sheet has no lines")


BAD_SHEETS = [
    (b"id;judgement\na;right", "columns are divided by commas"),
    (b"id,judgement\na,right\na,both", "line 3, field id: a appears twice; keep one line"),
    (
        b"id,judgement\nsongs-sample-0-0,right",
        "line 2, field id: songs-sample-0-0 is none of the expressions that this sheet may ask about; is it the sheet of another domain?",
    ),
    (b"\xff", "not UTF-8"),
]


@pytest.mark.parametrize(("data", "said"), BAD_SHEETS)
def test_f42_a_sheet_that_is_wrong(tmp_path, data, said):
    (path := tmp_path / "s.csv").write_bytes(data)
    with pytest.raises(FormatError) as e:
        read_sheet(path, "error rate", {"books-sample-0-0", "a"})
    assert str(e.value).startswith(str(path)) and said in str(e.value) and "\n" not in str(e.value)


def test_the_sample_is_a_part(settings):
    home = settings()
    got = score(as_outcomes(run("sample/altentities", "random", s=home), home), by="domain")
    assert {
        g: (got.interval(g).value, got.interval(g).n, got.interval(g).clusters) for g in DOMAINS
    } == {"books": (0.5, 75, 15), "recipes": (0.5, 62, 14), "songs": (0.5, 63, 13)}


def test_a_table_of_the_corpus(upstream, tmp_path, make_table):
    name = "altentities/table_5_corpus_statistics"
    rows = {(r["row"], r["column"]): r for r in make_table(tmp_path, name, upstream)}
    length = lambda d: round(float(rows[f"{d}, dev and test", "length"]["ours"]), 2)
    assert [length(d) for d in ("books", "recipes", "music")] == [7.84, 6.2, 6.87]
    assert all(r["ours"] or r["reason"] for r in rows.values())
    assert rows["music", "multi-modality"]["paper"] == "20"
    told = json.loads((tmp_path / f"reports/{name}.json").read_text())
    assert told["inputs"].keys() >= {
        alt.altentities_file(d, p) for d in DOMAINS for p in ("dev", "test")
    }
