"AltEntities: what the released files hold, files that are wrong, any number of options, sheets."

import csv, gzip, json
from collections import Counter
import msgspec
import pytest
from benchmarks_altentities import departures
from hypothesis import given, strategies as st
from rapidfuzz.distance import Levenshtein
import refnb.benchmarks.altentities.questions as alt
from refnb.benchmarks.altentities.questions import (
    ALTENTITIES_SPLITS,
    DOMAINS,
    METHODS,
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
from refnb.benchmarks.tasks import benchmarks, find_task, task_is_here, task_questions
from refnb.core.settings import load_settings, packaged
from refnb.core.types import CallError, DataError, FormatError
from refnb.models.language.prompts import render
from refnb.models.running import run
from refnb.results.scores import as_outcomes, score
import tools

SAMPLE = packaged("data/sample/altentities.json")


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("altentities")
    folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
    return load_settings("/", env={}, upstream=str(upstream), offline=True, **folders)


@pytest.fixture(scope="module")
def corpus(s):
    return {(d, p): alt.altentities(d, p, s) for d in DOMAINS for p in ("dev", "test")}


@pytest.fixture(scope="module")
def both(corpus):
    return {d: corpus[d, "dev"] + corpus[d, "test"] for d in DOMAINS}


@pytest.fixture(scope="module")
def sample():
    return alt.read_altentities(SAMPLE, "sample")


# The release

FILES = {  # questions, expressions, target 0 / 1, then questions (expressions) by method
    ("books", "dev"): (313, 1979, 159, 154, "93 588 54 338 64 414 102 639 0 0"),
    ("books", "test"): (313, 2000, 170, 143, "98 639 39 247 84 533 92 581 0 0"),
    ("recipes", "dev"): (315, 2256, 161, 154, "126 909 0 0 39 287 84 583 66 477"),
    ("recipes", "test"): (314, 2243, 155, 159, "126 898 0 0 40 299 83 580 65 466"),
    ("songs", "dev"): (312, 2161, 151, 161, "111 789 0 0 0 0 104 712 97 660"),
    ("songs", "test"): (312, 2177, 143, 169, "106 744 0 0 0 0 117 821 89 612"),
}


def test_every_file_has_its_counts_and_every_question_keeps_all_rules(corpus):
    assert sum(map(len, corpus.values())) == 1879
    for (domain, split), want in FILES.items():
        qs = corpus[domain, split]
        by = [
            (sum(q.method == m for q in qs), sum(len(q.expressions) for q in qs if q.method == m))
            for m in METHODS.values()
        ]
        target, shown = Counter(q.target_index for q in qs), " ".join(f"{a} {b}" for a, b in by)
        expressions = sum(len(q.expressions) for q in qs)
        assert (len(qs), expressions, target[0], target[1], shown) == want, (domain, split)
        assert [q.key for q in qs] == [f"{domain}-{split}-{i}" for i in range(len(qs))]
        counts = {m: n for m, (n, _) in zip(METHODS.values(), by, strict=True) if n}
        assert method_counts(qs) == counts | {"all": len(qs)}
        assert [fault for q in qs for fault in departures(q)] == []


def test_pairs_are_what_their_method_says(both):
    edits, sections = {}, {}
    for d, qs in both.items():
        pairs = [[c.name for c in q.choices] for q in qs if q.method == "similar title"]
        edits[d] = Counter(Levenshtein.distance(*pair) for pair in pairs)
        sections[d] = Counter(q.section for q in qs)
    assert edits == {"books": {1: 12, 2: 27, 3: 109}, "recipes": {1: 2, 2: 10, 3: 67}, "songs": {}}
    assert sections == {
        "books": {"main": 364, "plot summary": 262},
        "recipes": {"main": 294, "preparation": 189, "ingredients": 146},
        "songs": {"none": 624},
    }
    same = [q for q in both["books"] if q.method == "same name"]
    assert sum(len({alt.bare_title(c.name) for c in q.choices}) == 1 for q in same) == 93


def test_descriptions_are_of_known_lengths(both):
    choices = {d: [c for q in qs for c in q.choices] for d, qs in both.items()}
    cut = {d: sum(c.description.endswith("...") for c in cs) for d, cs in choices.items()}
    assert cut == {"books": 625, "recipes": 478, "songs": 0}
    for domain, least in (("books", 251), ("recipes", 100)):
        lengths = [len(c.description) for c in choices[domain]]
        assert (min(lengths), max(lengths)) == (least, 754), domain
    assert sum(len(c.description) <= 250 for c in choices["recipes"]) == 15
    assert max(len(c.unshown_background) for cs in choices.values() for c in cs) == 4999
    assert sum("<a href" in c.description for c in choices["songs"]) == 1248
    boxes = Counter(c.infobox.partition(". ")[0].lower() for c in choices["books"])
    assert (boxes[": infobox book"], boxes[": "], len(choices["books"])) == (585, 667, 1252)


def test_expressions_are_as_they_were_written(both):
    for d, blanks, twice, naming in (
        ("books", 301, 3, 18),
        ("recipes", 248, 3, 7),
        ("songs", 323, 2, 11),
    ):
        said = [(q, e) for q in both[d] for e in q.expressions]
        assert sum(e != e.strip() for _, e in said) == blanks, d
        assert len(said) - len({(q.key, e) for q, e in said}) == twice, d
        assert sum(alt.names_target(q, e) for q, e in said) == naming, d
    numbers = Counter(len(q.expressions) for qs in both.values() for q in qs)
    assert (min(numbers), max(numbers), numbers.most_common(1)[0][0]) == (5, 14, 6)


def test_statistics(both, corpus):
    def share(pattern, domain):
        said = [e for q in corpus[domain, "test"] for e in q.expressions]
        return 100 * sum(bool(pattern.search(e)) for e in said) / len(said)

    for d, shown, negated, compared in (
        ("books", [7.84, 7.65, 98.47, 97.36, 17.06], 24.05, 2.4),
        ("recipes", [6.2, 6.01, 91.75, 87.91, 7.36], 15.47, 0.1),
        ("songs", [6.87, 6.65, 83.96, 77.75, 7.42], 12.59, 6.8),
    ):
        t = alt_statistics(both[d])
        shares = (100 * x for x in (t.unique, t.once, t.contrastives))
        assert [round(x, 2) for x in (t.length, t.length_at_blanks, *shares)] == shown, d
        assert round(share(alt.NEGATION, d), 2) == negated, d
        assert round(share(alt.COMPARISON, d), 1) == compared, d


def test_named_entities(both):
    tagger, why = spacy_tagger()
    if not tagger:
        pytest.skip(why)
    for d, n in (("books", 0.7), ("recipes", 0.2), ("songs", 0.4)):
        found = entities_per_expression(both[d][:60], tagger)
        assert round(found, 1) == pytest.approx(n, abs=0.25), d


def test_splits_share_entities_and_no_targets(corpus):
    for d, things, targets, common in (
        ("books", 530, 285, (0, 0, 0, 0, 0)),
        ("recipes", 395, 162, (0, 0, 100, 30, 27)),
        ("songs", 366, 132, (0, 0, 128, 46, 36)),
    ):
        dev, test = corpus[d, "dev"], corpus[d, "test"]
        assert tuple(shared(dev, test)) == common, d
        assert len({c.wikipedia_url for q in test for c in q.choices}) == things, d
        assert len({q.target for q in test}) == targets, d


def test_what_a_system_may_have_seen_before(corpus):
    "A target is meant in one split only, so what was meant before is wrong now."
    for d, expressions, right_once, wrong_once in (
        ("books", [2000, 0, 0, 0, 0], 0, 0),
        ("recipes", [1242, 253, 343, 129, 276], 47, 49),
        ("songs", [868, 386, 393, 141, 389], 66, 56),
    ):
        dev, test = corpus[d, "dev"], corpus[d, "test"]
        meant, offered = {x.target for x in dev}, {c.wikipedia_url for x in dev for c in x.choices}
        seen, once = seen_before(test, dev), Counter()
        for q in test:
            wrong = {c.wikipedia_url for c in q.choices} - {q.target}
            right = q.target in offered
            known = {
                "wrong one meant": bool(wrong & meant),
                "both offered": right and bool(wrong & offered),
                "right one offered": right,
                "wrong one offered": bool(wrong & offered),
            }
            assert seen[q.key] == next((k for k, holds in known.items() if holds), "neither shown")
            merely = [c.wikipedia_url in offered - meant for c in q.choices]
            if sum(merely) == 1:
                once[merely[q.target_index]] += 1
        counts = Counter()
        for q in test:
            counts[seen[q.key]] += len(q.expressions)
        assert [counts[k] for k in SEEN] == expressions, d
        assert (once[True], once[False]) == (right_once, wrong_once), d  # about as often


# Tasks


def test_the_card_names_every_cell():
    cells = [(d, x) for d in DOMAINS for x in alt.settings_of(d)]
    tasks = benchmarks()["altentities"].tasks
    assert len(cells) == 11
    assert set(tasks) == {
        alt.altentities_task(*cell, p) for cell in cells for p in ALTENTITIES_SPLITS
    }
    for name, task in tasks.items():
        _, domain, _, split = name.split("/")
        assert task.inputs == [alt.altentities_file(domain, split)], name


@pytest.mark.parametrize("cell", ["books/oracle", "recipes/infobox", "songs/name"])
def test_a_task_is_whole_and_every_form_can_ask_it(s, cell):
    "As text and answer, whatever the setting; HTML of songs is told to nobody."
    domain, _, setting = cell.partition("/")
    questions = task_questions(f"altentities/{cell}/test", s)
    documents = {q.doc_key for q in questions}
    assert task_is_here(f"altentities/{cell}/test", s)
    assert (len(documents), len({q.id for q in questions})) == FILES[domain, "test"][:2]
    for k, q in enumerate(questions):
        assert q.id.rpartition("-")[0] == q.doc_key and q.doc_key.startswith(f"{domain}-test-")
        said = q.text[slice(*q.chars)]
        assert said == q.text.rpartition("\n")[2].strip()
        for o in q.options:
            assert bool(o.description) == (setting != "name")
            assert not o.description.startswith(":") and (
                domain != "songs" or "href" not in o.description
            )
        if k % 7 == 0:
            asked = q.text.partition("\n")[0]
            answer = " ".join(said.split())
            for form in ("altentities/names", "altentities/letters", "altentities/few-shot"):
                shown = render(q, form)
                assert f'The question was: {asked}\nThe answer was: "{answer}"' in shown
                assert all(" ".join(o.name.split()) in shown for o in q.options)


def test_always_the_first_choice_has_its_known_scores(s):
    def first(q):
        return 0

    for d, percent in (("books", 54.5), ("recipes", 49.62), ("songs", 46.12)):
        got = score(run(task_questions(f"altentities/{d}/name/test", s), first, s=s)).interval()
        assert (got.clusters, got.n) == FILES[d, "test"][:2]
        assert round(100 * got.value, 2) == percent


def test_the_sample_is_a_task(settings):
    s = settings()
    got = score(as_outcomes(run("sample/altentities", "random", s=s), s), by="domain")
    for d, n, clusters in (("books", 75, 15), ("recipes", 62, 14), ("songs", 63, 13)):
        found = got.interval(d)
        assert (found.value, found.n, found.clusters) == (0.5, n, clusters)


def test_a_training_file_that_is_not_here_says_what_to_do(s):
    task = "altentities/songs/unshown/train"
    file = "google-research-datasets/AltEntities/data/songs/train.json"
    assert not task_is_here(task, s)
    with pytest.raises(DataError, match=f"{file}: is not here.*REFNB_UPSTREAM"):
        alt.altentities("songs", "train", s)
    with pytest.raises(DataError, match=f"{task}.*refnb fetch altentities-train"):
        run(task, "random", s=s)


@pytest.mark.parametrize(
    "named, args, said",
    [
        (alt.altentities_file, ("films", "test"), "unknown domain 'films'"),
        (alt.the_description, ("orcale", "books"), "did you mean oracle"),
        (alt.altentities_file, ("books", "tset"), "did you mean test"),
        (find_task, ("altentities/books/name",), "unknown task"),
    ],
)
def test_a_domain_setting_split_or_task_that_is_none_is_refused(named, args, said):
    with pytest.raises(CallError, match=said):
        named(*args)


def test_songs_tell_no_html_and_have_no_oracle(sample):
    links = [f"<a href='http://sample.invalid/?q={i}'>search</a>" for i in (0, 1)]
    choices = zip(sample[29].choices, links, strict=True)
    song = sample[29].changed(choices=tuple(c.changed(description=x) for c, x in choices))
    assert departures(song) == []
    for setting in alt.settings_of("songs"):
        assert not any(
            "<" in o.description for q in alt.expression_questions(song, setting) for o in q.options
        )
    with pytest.raises(CallError, match="songs have no setting 'oracle'"):
        alt.expression_questions(song, "oracle")


# Files


def changed(n: int, drop: str = "", **over) -> bytes:
    "The sample with one question changed."
    questions = json.loads(SAMPLE.read_text())
    questions[n] = {k: v for k, v in (questions[n] | over).items() if k != drop}
    return json.dumps(questions).encode()


def with_choice(n: int, i: int, drop: str = "", **over) -> bytes:
    "The sample with one choice changed."
    choices = json.loads(SAMPLE.read_text())[n]["choices"]
    choices[i] = {k: v for k, v in (choices[i] | over).items() if k != drop}
    return changed(n, choices=choices)


def same_thing(n: int) -> bytes:
    first = json.loads(SAMPLE.read_text())[n]["choices"][0]
    return changed(n, choices=[first] * 2, target=first["wikipedia_url"], target_index=0)


UNUSABLE = [
    (lambda: changed(4, domain="SONG"), "did you mean SONGS"),
    (lambda: same_thing(11), r"question 11, field choices\[0\]: the same thing"),
    (lambda: changed(0, target_index=-1), "field target_index: -1"),
    (lambda: changed(0, expressions=[]), "field expressions: there are none"),
    (
        lambda: changed(7, expressions=["the old one", "\u200b\ufeff"]),
        r"question 7, field expressions\[1\]: is empty",
    ),
    (lambda: with_choice(41, 1, name=" \t"), r"question 41, field choices\[1\]\.name: is empty"),
    (lambda: with_choice(5, 1, drop="infobox"), r"question 5, field choices\[1\]: .*`infobox`"),
    (lambda: changed(6, split="dev"), "question 6: .*`split`"),
    (lambda: b"[]", "f: has no questions"),
    (lambda: SAMPLE.read_bytes()[:90_000], "f: ends before its last question does"),
    (
        lambda: SAMPLE.read_bytes().replace(b'"question":', b'"domain": "BOOKS", "question":', 1),
        "f: the key 'domain' appears twice",
    ),
    (lambda: SAMPLE.read_bytes().replace(b"harbour", b"harb\xf6ur", 1), r"f, line \d+: not UTF-8"),
]


@pytest.mark.parametrize("make, said", UNUSABLE)
def test_a_file_that_cannot_be_asked_is_refused_in_one_line(make, said):
    with pytest.raises(FormatError, match=said) as e:
        alt.parse_altentities(make(), "f")
    assert str(e.value).startswith("f") and "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["dev.json", "dev.json.gz"])
def test_files_plain_and_packed_with_a_mark_and_other_line_ends(tmp_path, name, sample):
    data = b"\xef\xbb\xbf" + SAMPLE.read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / name).write_bytes(gzip.compress(data, 1) if name.endswith("gz") else data)
    got = alt.read_altentities(tmp_path / name)
    assert [q.key for q in got[:2]] == ["books-dev-0", "books-dev-1"]
    assert [q.changed(split="sample") for q in got] == sample


def test_a_training_file_may_break_rules_that_the_other_splits_keep():
    [*_, q] = alt.parse_altentities(with_choice(41, 0, infobox=""), "f", "mixed-train")
    assert q.key == "songs-mixed-train-41"
    assert [bool(o.description) for o in alt.expression_questions(q, "infobox")[0].options] == [
        False,
        True,
    ]


def test_work_grows_no_faster_than_the_questions():
    def ask(data):
        return [x for q in alt.parse_altentities(data) for x in alt.expression_questions(q)]

    written = json.loads(SAMPLE.read_text())
    assert tools.growth(ask, *(json.dumps(written * n).encode() for n in (1, 4))) < 5


def test_an_expression_that_names_the_target_is_kept_and_marked(sample):
    said = ("the tallowgate by Ferrow", "the old one")
    asked = alt.expression_questions(sample[4].changed(expressions=said))
    assert [x.meta["names target"] for x in asked] == [True, False]
    at = sample[4].target_index
    choices = list(sample[4].choices)
    choices[at] = choices[at].changed(name="Café d’Été (novel)")
    q = sample[4].changed(choices=tuple(choices))
    for expression, naming in (  # the name in another form
        ("CAFE\u0301  d'e\u0301te\u0301, please", True),
        ("the Café\u200b d’Été", True),
        ("cafe d'ete", False),
    ):
        assert alt.names_target(q, expression) == naming, expression
    names = zip(choices, ("Cafe\u0301", "CAFÉ "), strict=True)
    alike = q.changed(choices=tuple(c.changed(name=name) for c, name in names))
    assert "two have one name" in departures(alike)


# Any number of options

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
short = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


@st.composite
def written(draw) -> Written:
    "A question of two to seven choices, with any texts."
    choices = tuple(
        Alternative(
            draw(words), f"http://sample.invalid/wiki/{i}", *(draw(short) for _ in range(3))
        )
        for i in range(draw(st.integers(2, 7)))
    )
    right = draw(st.integers(0, len(choices) - 1))
    return Written(
        domain=draw(st.sampled_from(list(DOMAINS.values()))),
        question=draw(words),
        target=choices[right].wikipedia_url,
        target_index=right,
        sampling_method=draw(st.sampled_from(list(METHODS))),
        description_section="",
        choices=choices,
        expressions=tuple(draw(st.lists(words, min_size=1, max_size=5))),
    )


@given(st.lists(written(), min_size=1, max_size=2))
@tools.examples(60)
def test_any_number_of_options(records):
    got = alt.parse_altentities(msgspec.json.encode(records), "f")
    for q, record in zip(got, records, strict=True):
        assert msgspec.to_builtins(q).items() >= msgspec.to_builtins(record).items()
        for setting in alt.settings_of(q.topic):
            for x, e in zip(alt.expression_questions(q, setting), q.expressions, strict=True):
                assert len(x.options) == len(q.choices) and x.right == (q.target_index,)
                assert x.text[slice(*x.chars)] == e.strip()
    ids = {x.id for q in got for x in alt.expression_questions(q, "name")}
    assert len(ids) == sum(len(q.expressions) for q in got)


def test_the_opening_of_a_dialogue_is_drawn_once_and_for_all(sample):
    drawn = [alt.opening(q) for q in sample]
    assert drawn == [alt.opening(q) for q in reversed(sample)][::-1]
    every = {alt.opening(q, i) for q in sample for i in range(30)}
    assert every == {u for us in alt.openings().values() for u in us}
    for q, opening in zip(sample, drawn, strict=True):
        assert opening in alt.openings()[q.topic]
        said = q.expressions[0]
        turns = [f"Bob: {opening}", f"Alice: {q.question}", f"Bob: {said.strip()}"]
        assert alt.dialogue(q, said).splitlines() == turns
        assert alt.expression_questions(q, opened=0)[0].text == f"{opening}\n{q.question}\n{said}"


# Sheets for judges


def sheet_rows(questions, kind) -> list[dict]:
    return list(csv.DictReader(sheet_text(questions, kind).splitlines()))


def test_a_sheet_asks_what_it_says():
    songs = [q for q in alt.read_altentities(SAMPLE, "sample") if q.topic == "songs"]
    assert len(sheet_rows(songs * 4, "multi-modality")) == 200
    rows = sheet_rows(songs, "error rate")
    assert rows == sheet_rows(songs, "error rate")
    assert len(rows) == 63 and len({r["id"].rpartition("-")[0] for r in rows}) == 13
    assert all(r["judgement"] == "" for r in rows)


def test_a_cell_of_a_sheet_is_no_formula(sample):
    formulas = ("=1+1", "+ the one", "@x", "-not that")
    rows = sheet_rows([sample[29].changed(expressions=formulas)], "error rate")
    assert [r["expression"] for r in rows] == [f"'{x}" for x in formulas]


def test_a_spreadsheet_may_do_what_it_likes_to_other_cells(tmp_path, sample):
    [path] = write_sheets(tmp_path, {"books": [q for q in sample if q.topic == "books"]})
    ids = [r["id"] for r in csv.DictReader(path.read_text().splitlines())]
    lines = (f'{"BOTH" if i % 5 == 0 else "right"},{id},"a\nb"\r\n' for i, id in enumerate(ids))
    path.write_bytes(f"\ufeffjudgement,id,x\r\n{''.join(lines)}\r\n".encode())
    share, why = judged_share(read_sheet(path, "error rate"), "error rate")
    assert (share.value, share.n, share.clusters, why) == (15 / 75, 75, 15, "")
    path.write_bytes(b"id,judgement\rbooks-sample-0-0,right\r , \r")
    assert read_sheet(path, "error rate") == {"books-sample-0-0": "right"}
    assert judged_share({}, "error rate")[0] is None


@pytest.mark.parametrize(
    "data, said",
    [
        (b"id;judgement\na;right", "columns are divided by commas"),
        (b"id,judgement\na,right\na,both", "line 3, field id: a appears twice"),
        (b"id,judgement\nsongs-sample-0-0,right", "line 2, field id: songs-sample-0-0"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_sheet_that_is_wrong_is_refused_in_one_line(tmp_path, data, said):
    (path := tmp_path / "s.csv").write_bytes(data)
    with pytest.raises(FormatError) as e:
        read_sheet(path, "error rate", {"books-sample-0-0", "a"})
    assert str(e.value).startswith(str(path)) and said in str(e.value) and "\n" not in str(e.value)


def test_a_table_of_the_corpus(upstream, tmp_path, make_table):
    name = "altentities/table_5_corpus_statistics"
    rows = {(r["row"], r["column"]): r for r in make_table(tmp_path, name, upstream)}
    for domain, length in (("books", 7.84), ("recipes", 6.2), ("music", 6.87)):
        assert round(float(rows[f"{domain}, dev and test", "length"]["ours"]), 2) == length
    assert all(r["ours"] or r["reason"] for r in rows.values())
    assert rows["music", "multi-modality"]["paper"] == "20"
    inputs = json.loads((tmp_path / f"reports/{name}.json").read_text())["inputs"]
    assert inputs.keys() >= {alt.altentities_file(d, p) for d in DOMAINS for p in ("dev", "test")}
