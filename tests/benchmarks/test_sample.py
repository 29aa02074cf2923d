"The sample is well formed: six annotated stories, what is told of them, alternative questions."

import json, re
from collections import Counter
from itertools import combinations
import pytest
from benchmarks_altentities import departures
from refnb.benchmarks.altentities.questions import SECTIONS, USED, bare_title, read_altentities
from refnb.core.conll import parse_conll
from refnb.core.files import read_yaml
from refnb.core.settings import packaged
from refnb.core.types import FormatError, Record

PENN = set(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH "
    "VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB # $ . , : -LRB- -RRB- `` ''".split()
)
PRONOUNS = {
    "I": "i me my mine myself",
    "you": "you your yours yourself yourselves",
    "he": "he him his himself",
    "she": "she her hers herself",
    "it": "it its itself",
    "we": "we us our ours ourselves",
    "they": "they them their theirs themselves",
}
CLASS = {word: name for name, words in PRONOUNS.items() for word in words.split()}
TAGS = {word: {"PRP"} for word in CLASS}  # that a closed class of words can have
TAGS |= dict.fromkeys("my your its our their".split(), {"PRP$"})
TAGS |= dict.fromkeys("her his".split(), {"PRP", "PRP$"})
TAGS |= dict.fromkeys("n't not".split(), {"RB"})
TAGS |= dict.fromkeys("'ll will would could must".split(), {"MD"})
TAGS |= dict.fromkeys(". ? !".split(), {"."}) | dict.fromkeys("; : --".split(), {":"})
TAGS |= {"'s": {"POS", "VBZ"}, "to": {"TO"}, '"': {"``", "''"}, ",": {","}}
KEYS = [
    "the_third_jar",
    "to_be_called_for",
    "the_cold_bean",
    "the_pound_of_marl",
    "the_handbrake",
    "the_tin",
]


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


LIST = packaged("data/sample/stories.yaml")
ABOUT = {a.key: a for a in read_yaml(LIST, Stories).stories}
TEXTS = {k: (packaged("data/sample/stories") / f"{k}.conll").read_bytes() for k in KEYS}
DOCS = {k: parse_conll(text)[0] for k, text in TEXTS.items()}


def words(key: str) -> list[tuple[str, str]]:
    "Tokens and tags of a story."
    rows = (line.split("\t") for line in TEXTS[key].decode().splitlines())
    return [(r[3], r[4]) for r in rows if len(r) == 12]


# Stories


def test_the_stories_are_those_of_the_list_which_is_read_strictly(tmp_path):
    assert list(ABOUT) == KEYS
    files = packaged("data/sample/stories").iterdir()
    assert sorted(p.name for p in files) == sorted(f"{k}.conll" for k in KEYS)
    text = LIST.read_text("utf-8")
    for old, new in (("kind:", "sort:"), ("character: true", "character: perhaps")):
        (tmp_path / "stories.yaml").write_text(text.replace(old, new, 1))
        with pytest.raises(FormatError, match="stories.yaml"):
            read_yaml(tmp_path / "stories.yaml", Stories)


def test_the_corpus_is_large_enough_and_people_talk_in_it():
    *short, long = sorted(d.size for d in DOCS.values())
    assert len(short) == 5 and all(1000 <= n <= 1300 for n in short) and long >= 3400
    assert sum(len(d.mentions) for d in DOCS.values()) >= 700
    assert sum(len(d.clusters) for d in DOCS.values()) >= 60

    def inside(d, a):
        return any(b != a and b.start <= a.start and a.end <= b.end for b in d.mentions)

    assert sum(inside(d, a) for d in DOCS.values() for a in d.mentions) >= 60
    assert sum(d.tokens.count('"') >= 40 for d in DOCS.values()) >= 4


@pytest.mark.parametrize("key", KEYS)
def test_a_story_is_well_formed(key):
    d, rows = DOCS[key], words(key)
    assert [w for w, _ in rows] == list(d.tokens) and max(map(len, d.sentences)) <= 120
    spans = sorted(d.mentions)
    assert len(set(spans)) == len(spans), "a mention is marked twice"
    crossing = [(a, b) for a, b in combinations(spans, 2) if a.start < b.start <= a.end < b.end]
    assert not crossing
    numbers = re.findall(rb"\((\d+)", TEXTS[key])
    order = list(dict.fromkeys(map(int, numbers)))
    assert order == list(range(len(order))), "clusters are not numbered by first mention"
    for word, tag in rows:
        assert tag in TAGS.get(word.lower(), PENN), (word, tag)
        assert not (tag in (".", ",", ":", "``", "''") and word[0].isalnum()), (word, tag)
        assert word and not re.search(r"[\[\]|#\s“”‘’]", word), word
    quotes = [tag for word, tag in rows if word == '"']
    assert quotes == ["``", "''"] * (len(quotes) // 2)


@pytest.mark.parametrize("key", KEYS)
def test_every_cluster_has_its_entity_and_pronouns_fit_it(key):
    about, d = ABOUT[key], DOCS[key]
    names = [e.name for e in about.entities]
    assert len(d.clusters) == len(names) == len(set(names))
    assert all(name == name.strip() != "" for name in names)
    assert key == re.sub(r"\W+", "_", about.title.lower())
    assert about.about.endswith(".") and "\n" not in about.about
    assert sum(e.character for e in about.entities) >= 3
    for e, cluster in zip(about.entities, d.clusters, strict=True):
        assert len(cluster) >= 2, e  # no entity is mentioned once only
        assert e.kind in {"PER", "LOC", "FAC", "GPE", "VEH", "ORG", "OBJ"}, e
        assert e.pronoun in ("he", "she", "it", "they"), e
        assert not e.character or e.kind in ("PER", "ORG"), e
        fits = {
            "I": e.kind == "PER" and e.pronoun in ("he", "she"),
            "you": e.kind == "PER",
            "we": e.pronoun == "they" and e.kind in ("PER", "ORG"),
        }
        for span in cluster:
            said = CLASS.get(d.tokens[span.start].lower()) if span.start == span.end else None
            assert not said or fits.get(said, e.pronoun == said), (said, e)


@pytest.mark.parametrize("key", KEYS)
def test_first_person_stories_have_a_narrator(key):
    about, d = ABOUT[key], DOCS[key]
    narrator = {i for i, e in enumerate(about.entities) if e.name == "Narrator"}
    assert about.narration in ("first", "third") and len(narrator) == (about.narration == "first")
    quoted, outside = False, set()  # whom "I" means where nobody is quoted
    for i, token in enumerate(d.tokens):
        if token == '"':
            quoted = not quoted
        elif token == "I" and not quoted:
            outside |= {c for c, spans in enumerate(d.clusters) if (i, i) in spans}
    assert outside == narrator


# Alternative questions, in the shape of the AltEntities files

FILE = packaged("data/sample/altentities.json")
QUESTIONS = read_altentities(FILE, "sample")
BOXES = {"BOOKS": "book", "RECIPES": "prepared food", "SONGS": "song"}
NEGATED = re.compile(r"\bnot\b|n't\b", re.I)
COMPARING = re.compile(
    r"\b(older|newer|newest|longer|shorter|earlier|later|sooner|slimmer|thinner|heavier|quicker"
    r"|sweeter|plainer|whiter|noisier|colder|lonelier|happier|more recent)\b",
    re.I,
)
PLACE = re.compile(
    r"\b(first|second|former|latter|last|left|right)"
    r"( (one|option|choice|book|dish|recipe|song))?$|\b(first|second|last) (one|option|choice)\b",
    re.I,
)


def fields(infobox: str) -> dict[str, str]:
    return dict(re.findall(r"(?<=\. )([a-z_]+): (.*?)(?=\. [a-z_]+: |$)", infobox))


@pytest.mark.parametrize("q", QUESTIONS, ids=lambda q: q.key)
def test_an_alternative_question_is_as_the_real_ones_and_its_answers_do_not_name_it(q):
    assert departures(q) == []
    boxes = [fields(c.infobox) for c in q.choices]
    for c, box in zip(q.choices, boxes, strict=True):
        assert c.infobox.startswith(f": Infobox {BOXES[q.domain]}. ")
        assert list(box) == sorted(box) and box["name"] == bare_title(c.name)
        assert 2 <= len(re.findall(r"[.!?]\"?(?=\s|$)", c.description)) <= 4
    if q.sampling_method == "SAME_INFOBOXES":
        keys = ("type",) if q.domain == "RECIPES" else ("genre", "artist")
        assert any(k in boxes[0] and boxes[0][k] == boxes[1].get(k) for k in keys)
    said = [e.strip().lower() for e in q.expressions]
    assert 3 <= len(said) <= 5 and len(set(said)) == len(said) and all(said)
    names = [bare_title(c.name).lower() for c in q.choices]
    assert not [e for e in said if PLACE.search(e) or any(name in e for name in names)]


def test_the_questions_are_enough_and_varied():
    kinds = ("sampling_method", USED), ("description_section", SECTIONS)
    for field, known in kinds:
        found = {(q.domain, getattr(q, field)) for q in QUESTIONS}
        assert found == {(d, value) for d, values in known.items() for value in values}
    assert len(QUESTIONS) >= 40 and min(Counter(q.domain for q in QUESTIONS).values()) >= 12
    said = [(e, q.target_index) for q in QUESTIONS for e in q.expressions]
    assert abs(sum(2 * q.target_index - 1 for q in QUESTIONS)) <= 2
    assert 0.45 <= sum(second for _, second in said) / len(said) <= 0.55
    for pattern in (NEGATED, COMPARING):
        assert sum(bool(pattern.search(e)) for e, _ in said) >= 8


def test_the_file_has_the_bytes_of_its_kind_and_no_real_page():
    text = FILE.read_text("utf-8")
    assert (
        text == json.dumps(json.loads(text), indent=4, ensure_ascii=True) + "\n" and "\\u" in text
    )
    choices = [c for q in QUESTIONS for c in q.choices]
    urls = {c.wikipedia_url for c in choices}
    assert len(urls) == len({c.name for c in choices}) == len(choices)
    assert all(re.fullmatch(r"http://sample\.invalid/wiki/\S+", u) for u in urls)
