"The sample corpus is well formed: six annotated stories, what stories.yaml says of their entities, and the alternative questions."

import collections, functools, itertools, json, re
from pathlib import Path
import pytest
from refnb.core.files import read_yaml
from refnb.core.settings import packaged
from refnb.core.types import Record

PENN = set(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ "
    "WDT WP WP$ WRB # $ . , : -LRB- -RRB- `` ''".split()
)
SAID = {
    w: c
    for c, words in {
        "I": "i me my mine myself",
        "you": "you your yours yourself yourselves",
        "he": "he him his himself",
        "she": "she her hers herself",
        "it": "it its itself",
        "we": "we us our ours ourselves",
        "they": "they them their theirs themselves",
    }.items()
    for w in words.split()
}
KINDS = {"PER", "LOC", "FAC", "GPE", "VEH", "ORG", "OBJ"}


class Entity(Record):
    name: str
    kind: str
    pronoun: str
    character: bool


class About(Record):
    key: str
    title: str
    narration: str
    about: str
    entities: tuple[Entity, ...]


class Stories(Record):
    profile: dict[str, int]
    stories: tuple[About, ...]


# Stories: a small reader of CoNLL-2012, and checkers that list faults


class Row(Record):
    token: str
    tag: str
    coref: str


class Mention(Record):
    start: int
    end: int
    cluster: int


def sentences(text: str) -> list[list[Row]]:
    "The sentences of a file of one document."
    lines = text.split("\n")
    name = re.fullmatch(r"#begin document \((sample/[a-z_]+)\); part 000", lines[0])
    assert name and lines[-3:] == ["", "#end document", ""], "begin or end of the document"
    out = []
    for block in "\n".join(lines[1:-3]).split("\n\n"):
        rows = [line.split("\t") for line in block.rstrip("\n").split("\n")]
        for i, r in enumerate(rows):
            assert (
                len(r) == 12 and r[:3] == [name[1], "0", str(i)] and r[5:11] == ["-"] * 5 + ["*"]
            ), f"columns: {r}"
        out.append([Row(r[3], r[4], r[11]) for r in rows])
    return out


def mentions(sents: list[list[Row]]) -> list[Mention]:
    "Mentions with flat token indices, ends inclusive, in the order of their starts, longer ones first."
    found, at = [], 0
    for s in sents:
        opened = collections.defaultdict(list)
        for row in s:
            for part in row.coref.split("|") if row.coref != "-" else ():
                m = re.fullmatch(r"(\()?(\d+)(\))?", part)
                assert m and (m[1] or m[3]), f"brackets: {part!r}"
                if m[1]:
                    opened[m[2]].append(at)
                if m[3]:
                    assert opened[m[2]], f"brackets: {m[2]} closes and was not opened"
                    found.append(Mention(opened[m[2]].pop(), at, int(m[2])))
            at += 1
        assert not any(opened.values()), (
            f"brackets: open at the end of {' '.join(r.token for r in s)!r}"
        )
    return sorted(found, key=lambda m: (m.start, -m.end))


def inside(a: Mention, b: Mention) -> bool:
    return b.start <= a.start and a.end <= b.end and (a.start, a.end) != (b.start, b.end)


def span_faults(found: list[Mention]) -> list[str]:
    "Spans marked twice, mentions that cross, clusters not numbered by first mention."
    twice = [
        f"marked twice: {s}"
        for s, n in collections.Counter((m.start, m.end) for m in found).items()
        if n > 1
    ]
    cross = [
        f"crossing: {a}, {b}"
        for a, b in itertools.combinations(found, 2)
        if a.start < b.start <= a.end < b.end
    ]
    order = list(dict.fromkeys(m.cluster for m in found))
    return twice + cross + [f"cluster ids: {order}"] * (order != list(range(len(order))))


def tag_faults(rows: list[Row]) -> list[str]:
    "Tags that are not Penn's, or that closed classes of words cannot have."
    out = []
    for r in rows:
        w, ok = r.token.lower(), PENN
        if w in SAID:
            ok = (
                {"PRP", "PRP$"}
                if w in ("her", "his")
                else {"PRP$"}
                if w in ("my", "your", "its", "our", "their")
                else {"PRP"}
            )
        elif w == "'s":
            ok = {"POS", "VBZ"}
        elif w in ("n't", "not"):
            ok = {"RB"}
        elif w == "to":
            ok = {"TO"}
        elif w in ("'ll", "will", "would", "could", "must"):
            ok = {"MD"}
        elif w == '"':
            ok = {"``", "''"}
        elif w in (".", "?", "!"):
            ok = {"."}
        elif w == ",":
            ok = {","}
        elif w in (";", ":", "--"):
            ok = {":"}
        if r.tag not in ok:
            out.append(f"tag: {r.token} {r.tag}")
        if r.tag in (".", ",", ":", "``", "''") and w[0].isalnum():
            out.append(f"tag: {r.token} {r.tag}")
    return out


def text_faults(rows: list[Row]) -> list[str]:
    "Markup that was left, curly quotes, and quotation marks that do not open and close in turn."
    left = [
        f"markup: {r.token}" for r in rows if not r.token or re.search(r"[\[\]|#\s“”‘’]", r.token)
    ]
    quotes = [r.tag for r in rows if r.token == '"']
    return left + ["quotes"] * (quotes != ["``", "''"] * (len(quotes) // 2))


def pronoun_faults(
    rows: list[Row], found: list[Mention], entities: tuple[Entity, ...]
) -> list[str]:
    "Pronouns that do not fit the entity they are marked with."
    out = []
    for m in found:
        e, word = entities[m.cluster], rows[m.start].token.lower()
        said = SAID.get(word) if m.start == m.end else None
        fits = {
            "I": e.kind == "PER" and e.pronoun in ("he", "she"),
            "you": e.kind == "PER",
            "we": e.pronoun == "they" and e.kind in ("PER", "ORG"),
        }
        if said and not fits.get(said, e.pronoun == said):
            out.append(f"pronoun: {word} for {e.name}")
    return out


@functools.cache
def corpus() -> dict[str, tuple[About, list[list[Row]], list[Mention]]]:
    about = read_yaml(packaged("data/sample/stories.yaml"), Stories)
    read = {
        s.key: sentences((packaged("data/sample/stories") / f"{s.key}.conll").read_text("utf-8"))
        for s in about.stories
    }
    return {s.key: (s, read[s.key], mentions(read[s.key])) for s in about.stories}


def flat(sents: list[list[Row]]) -> list[Row]:
    return [r for s in sents for r in s]


KEYS = [
    "the_third_jar",
    "to_be_called_for",
    "the_cold_bean",
    "the_pound_of_marl",
    "the_handbrake",
    "the_tin",
]


def test_the_stories_are_those_of_the_list():
    assert list(corpus()) == KEYS
    assert sorted(p.name for p in packaged("data/sample/stories").iterdir()) == sorted(
        f"{k}.conll" for k in KEYS
    )
    assert read_yaml(packaged("data/sample/stories.yaml"), Stories).profile == {"window": 300}


def test_the_corpus_is_large_enough():
    *short, long = sorted(sum(map(len, sents)) for _, sents, _ in corpus().values())
    assert len(short) == 5 and all(1000 <= n <= 1300 for n in short) and long >= 3400
    found = [f for _, _, f in corpus().values()]
    assert sum(map(len, found)) >= 700 and sum(len({m.cluster for m in f}) for f in found) >= 60
    assert sum(any(inside(a, b) for b in f) for f in found for a in f) >= 60  # nested mentions


def test_people_talk_in_most_stories():
    assert (
        sum(sum(r.token == '"' for r in flat(sents)) >= 40 for _, sents, _ in corpus().values())
        >= 4
    )


@pytest.mark.parametrize("key", KEYS)
def test_a_story_is_well_formed(key):
    about, sents, found = corpus()[key]
    rows = flat(sents)
    assert (
        not span_faults(found)
        + tag_faults(rows)
        + text_faults(rows)
        + pronoun_faults(rows, found, about.entities)
    )
    assert all(len(s) <= 120 for s in sents) and not {"[", "]"} & {r.token for r in rows}


@pytest.mark.parametrize("key", KEYS)
def test_every_cluster_has_its_entity(key):
    about, _, found = corpus()[key]
    assert len({m.cluster for m in found}) == len(about.entities)
    assert len({e.name for e in about.entities}) == len(about.entities) and all(
        e.name == e.name.strip() != "" for e in about.entities
    )
    assert all(e.kind in KINDS and e.pronoun in ("he", "she", "it", "they") for e in about.entities)
    assert all(
        n >= 2 for n in collections.Counter(m.cluster for m in found).values()
    )  # no entity is mentioned once only
    assert sum(e.character for e in about.entities) >= 3 and all(
        e.kind in ("PER", "ORG") for e in about.entities if e.character
    )
    assert (
        key == re.sub(r"\W+", "_", about.title.lower())
        and about.about.endswith(".")
        and "\n" not in about.about
    )


@pytest.mark.parametrize("key", KEYS)
def test_first_person_stories_have_a_narrator(key):
    about, sents, found = corpus()[key]
    narrator = [i for i, e in enumerate(about.entities) if e.name == "Narrator"]
    assert about.narration in ("first", "third") and len(narrator) == (about.narration == "first")
    quoted, outside = False, set()  # whom "I" means where nobody is quoted
    for i, r in enumerate(flat(sents)):
        if r.token == '"':
            quoted = not quoted
        elif r.token == "I" and not quoted:
            outside |= {m.cluster for m in found if m.start == m.end == i}
    assert outside == set(narrator)


def document(
    *rows: tuple[str, str, str],
    name: str = "sample/x",
    begin: str = "#begin document (sample/x); part 000",
) -> str:
    lines = [
        "\t".join([name, "0", str(i), token, tag, *"-----", "*", coref])
        for i, (token, tag, coref) in enumerate(rows)
    ]
    return "\n".join([begin, *lines, "", "#end document", ""])


HER = ("Her", "PRP$", "(0|(1)"), ("dog", "NN", "0)"), ("barked", "VBD", "-"), (".", ".", "-")
DOG = (Entity("The Dog", "OBJ", "it", False), Entity("Ada", "PER", "she", True))


def test_a_good_document_has_no_faults():
    rows, found = flat(sentences(document(*HER))), mentions(sentences(document(*HER)))
    assert found == [Mention(0, 1, 0), Mention(0, 0, 1)]
    assert (
        not span_faults(found)
        + tag_faults(rows)
        + text_faults(rows)
        + pronoun_faults(rows, found, DOG)
    )


@pytest.mark.parametrize(
    "text,why",
    [
        (document(*HER, begin="#begin document (sample/x); part 0"), "begin"),
        (document(*HER, name="sample/y"), "columns"),
        (document(*HER).replace("\t2\t", "\t3\t"), "columns"),
        (document(("dog", "NN", "(0"), (".", ".", "-")), "open at the end"),
        (document(("dog", "NN", "0)")), "not opened"),
        (document(("dog", "NN", "(0)|x")), "brackets"),
        (document(("dog", "NN", "(0)"))[:-15], "end of the document"),
    ],
)
def test_the_reader_refuses(text, why):
    with pytest.raises(AssertionError, match=why):
        mentions(sentences(text))


@pytest.mark.parametrize(
    "rows,why",
    [
        ([("dog", "NN", "(0)|(1)")], "marked twice"),
        (
            [("the", "DT", "(0"), ("old", "JJ", "(1"), ("dog", "NN", "0)"), ("too", "RB", "1)")],
            "crossing",
        ),
        ([("dog", "NN", "(1)"), ("cat", "NN", "(0)")], "cluster ids"),
        ([("dog", "NOUN", "(0)")], "tag: dog"),
        ([("Ada", "NNP", "(0)"), ("'s", "PRP", "-")], "tag: 's"),
        ([("It", "DT", "(0)")], "tag: It"),
        ([("dog|boat]", "NN", "(0)")], "markup"),
        ([('"', "``", "-"), ("Dog", "NN", "(0)"), (".", ".", "-")], "quotes"),
        ([("She", "PRP", "(0)")], "pronoun: she"),
        ([("I", "PRP", "(0)")], "pronoun: i"),
        ([("dog", "NN", "(0)"), ("We", "PRP", "(1)")], "pronoun: we"),
    ],
)
def test_the_checkers_find(rows, why):
    sents = sentences(document(*rows))
    found = mentions(sents)
    assert any(
        why in f
        for f in span_faults(found)
        + tag_faults(flat(sents))
        + text_faults(flat(sents))
        + pronoun_faults(flat(sents), found, DOG)
    )


@pytest.mark.parametrize("old,new", [("kind:", "sort:"), ("character: true", "character: perhaps")])
def test_the_list_is_read_strictly(tmp_path: Path, old, new):
    text = packaged("data/sample/stories.yaml").read_text("utf-8")
    assert "&" not in text and "*" not in text  # no aliases
    (tmp_path / "stories.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(Exception, match="stories.yaml"):
        read_yaml(tmp_path / "stories.yaml", Stories)


# Alternative questions, in the shape of the AltEntities files

QUESTION = [
    "domain",
    "question",
    "target",
    "target_index",
    "sampling_method",
    "description_section",
    "choices",
    "expressions",
]
CHOICE = ["name", "wikipedia_url", "description", "infobox", "unshown_background"]
METHODS = {
    "BOOKS": {"UNIFORM", "SAME_NAME", "SIMILAR_NAME", "SIMILAR_DESCRIPTION"},
    "RECIPES": {"UNIFORM", "SIMILAR_NAME", "SIMILAR_DESCRIPTION", "SAME_INFOBOXES"},
    "SONGS": {"UNIFORM", "SIMILAR_DESCRIPTION", "SAME_INFOBOXES"},
}
SECTIONS = {
    "BOOKS": {"", "plot summary"},
    "RECIPES": {"", "preparation", "ingredients"},
    "SONGS": {""},
}
BOXES = {
    "BOOKS": ": Infobox book. ",
    "RECIPES": ": Infobox prepared food. ",
    "SONGS": ": Infobox song. ",
}
NEGATED = re.compile(r"\bnot\b|n't\b", re.I)
COMPARING = re.compile(
    r"\b(older|newer|newest|longer|shorter|earlier|later|sooner|slimmer|thinner|heavier|quicker|sweeter|plainer|whiter|noisier|colder|lonelier"
    r"|happier|more recent)\b",
    re.I,
)
PLACE = re.compile(
    r"\b(first|second|former|latter|last|left|right)( (one|option|choice|book|dish|recipe|song))?$|\b(first|second|last) (one|option|choice)\b",
    re.I,
)


def title(name: str) -> str:
    return re.sub(r" \([^()]*\)$", "", name)


def fields(infobox: str) -> dict[str, str]:
    return dict(re.findall(r"(?<=\. )([a-z_]+): (.*?)(?=\. [a-z_]+: |$)", infobox))


def distance(a: str, b: str) -> int:
    "Levenshtein's."
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def alike(method: str, a: dict, b: dict) -> bool:
    "Whether two choices are a pair of that kind, as far as one can tell from the file."
    one, other = fields(a["infobox"]), fields(b["infobox"])
    if method == "SAME_NAME":
        return a["name"] != b["name"] and title(a["name"]) == title(b["name"])
    if method == "SIMILAR_NAME":
        return 0 < distance(a["name"], b["name"]) <= 3
    if method == "SAME_INFOBOXES":
        return any(
            k in one and one[k] == other.get(k)
            for k in (["genre", "artist"] if "artist" in one else ["type"])
        )
    return True


def question_faults(q: dict) -> list[str]:
    "Whatever the real files would not have."
    if list(q) != QUESTION:
        return [f"keys: {list(q)}"]
    domain, choices, names = q["domain"], q["choices"], [c["name"] for c in q["choices"]]
    if len(choices) != 2:
        return [f"choices: {names}"]
    out = [
        f"keys: {list(c)}"
        for c in choices
        if list(c) != CHOICE + ["image_url"] * (domain == "RECIPES")
    ]
    out += [f"empty: {k}" for c in choices for k, v in c.items() if not v.strip()]
    out += [
        f"background: {c['name']}"
        for c in choices
        if not c["unshown_background"].startswith(c["infobox"])
        or not c["infobox"].startswith(BOXES[domain])
    ]
    out += [
        f"infobox: {c['name']}"
        for c in choices
        if list(f := fields(c["infobox"])) != sorted(f) or f.get("name") != title(c["name"])
    ]
    out += [
        f"description: {c['name']}"
        for c in choices
        if not 2 <= len(re.findall(r"[.!?]\"?(?=\s|$)", c["description"])) <= 4
    ]
    shown = [title(n) if domain == "SONGS" else n for n in names]
    out += ["question"] * (q["question"] != f"Do you mean '{shown[0]}' or '{shown[1]}'?")
    out += ["target"] * (
        q["target_index"] not in (0, 1)
        or choices[q["target_index"]]["wikipedia_url"] != q["target"]
    )
    out += ["kind"] * (
        q["sampling_method"] not in METHODS[domain]
        or q["description_section"] not in SECTIONS[domain]
        or not alike(q["sampling_method"], *choices)
    )
    said = q["expressions"]
    out += ["expressions"] * (
        not 3 <= len(said) <= 5
        or len({e.strip().lower() for e in said}) != len(said)
        or not all(e.strip() for e in said)
    )
    return out + [
        f"names it: {e}"
        for e in said
        if PLACE.search(e) or any(title(n).lower() in e.lower() for n in names)
    ]


@functools.cache
def questions() -> list[dict]:
    return json.loads(packaged("data/sample/altentities.json").read_text("utf-8"))


def test_every_alternative_question_is_well_formed():
    assert not [(q["question"], f) for q in questions() for f in question_faults(q)]


def test_the_file_has_the_bytes_of_its_kind():
    text = packaged("data/sample/altentities.json").read_text("utf-8")
    assert text == json.dumps(questions(), indent=4, ensure_ascii=True) + "\n" and "\\u" in text


def test_the_questions_are_enough_and_varied():
    qs = questions()
    said = [(e, q["target_index"]) for q in qs for e in q["expressions"]]
    assert len(qs) >= 40 and all(
        n >= 12 for n in collections.Counter(q["domain"] for q in qs).values()
    )
    assert {(q["domain"], q["sampling_method"]) for q in qs} == {
        (d, m) for d, ms in METHODS.items() for m in ms
    }
    assert {(q["domain"], q["description_section"]) for q in qs} == {
        (d, s) for d, ss in SECTIONS.items() for s in ss
    }
    assert (
        abs(sum(1 if q["target_index"] else -1 for q in qs)) <= 2
        and 0.45 <= sum(t for _, t in said) / len(said) <= 0.55
    )
    assert (
        sum(bool(NEGATED.search(e)) for e, _ in said) >= 8
        and sum(bool(COMPARING.search(e)) for e, _ in said) >= 8
    )


def test_ids_are_unique():
    urls = [c["wikipedia_url"] for q in questions() for c in q["choices"]]
    assert len(set(urls)) == len(urls) and all(
        u.startswith("http://sample.invalid/wiki/") and " " not in u for u in urls
    )  # no real page
    assert len({c["name"] for q in questions() for c in q["choices"]}) == len(urls)


def broken(**over) -> dict:
    return {k: over.get(k, v) for k, v in questions()[0].items()}


def with_choice(i: int, **over) -> dict:
    return broken(
        choices=[c | over if i == j else c for j, c in enumerate(questions()[0]["choices"])]
    )


@pytest.mark.parametrize(
    "make,why",
    [
        (lambda: broken() | {"id": 1}, "keys"),
        (lambda: broken(choices=questions()[0]["choices"][:1]), "choices"),
        (lambda: with_choice(0, image_url="http://sample.invalid/x.jpg"), "keys"),
        (lambda: with_choice(1, description=" "), "empty"),
        (lambda: with_choice(1, unshown_background="A book."), "background"),
        (lambda: with_choice(1, infobox=": Infobox book. pages: 9. author: N. N."), "infobox"),
        (lambda: broken(target_index=1 - questions()[0]["target_index"]), "target"),
        (lambda: broken(sampling_method="SAME_INFOBOXES"), "kind"),
        (lambda: broken(sampling_method="SIMILAR_NAME"), "kind"),
        (lambda: broken(question="Do you mean this or that?"), "question"),
        (lambda: broken(expressions=["the old one", "The old one ", "the sad one"]), "expressions"),
        (
            lambda: broken(
                expressions=[
                    "the old one",
                    "the sad one",
                    "not " + questions()[0]["choices"][1]["name"],
                ]
            ),
            "names it",
        ),
        (
            lambda: broken(expressions=["the old one", "the sad one", "I meant the second one"]),
            "names it",
        ),
    ],
)
def test_the_checker_of_questions_finds(make, why):
    assert any(f.startswith(why) for f in question_faults(make()))
