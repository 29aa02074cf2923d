"Correcting clusters by hand: keys do what they say, and what is handed in is read strictly."

import json, re
import pytest
from hypothesis import given, strategies as st
from payloads import HOSTILE
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.files import CANARY
from refnb.core.reading import read_documents, write_documents
from refnb.core.types import DataError, FormatError, RefnbError, Span
from refnb.metrics.windows import split
from refnb.models.annotation.checking import correction_page, read_correction
from tools import here, one_line, wait

pytest_plugins = "pages_browser"

STORY = sample(characters=True)[0]
WORDS = "Anna met Bell , and she told him that her old friend Bell 's aunt was there .".split()
ANNA, SHE, HIM, HER = Span(0, 0), Span(5, 5), Span(7, 7), Span(9, 9)
FRIEND, BELL, AUNT = Span(9, 11), Span(2, 2), Span(12, 14)
GIVEN = {"Anna": [ANNA, SHE, HER], "Bell": [BELL, HIM, FRIEND], "Clara": []}


def tale(key: str = "tale") -> Document:
    return Document(key, (tuple(WORDS),), tuple(map(tuple, GIVEN.values())), tuple(GIVEN))


def page_data(d: Document, number: int = 1, length: int = 1500) -> dict:
    "What the page shows, as its script reads it."
    return json.loads(re.search('id="data">(.*?)</script>', correction_page(d, number, length))[1])


def handed_in(d: Document, who: str, edits=(), clusters: dict | None = None, *window) -> dict:
    "What the page writes after some edits, which lead to these clusters."
    data = page_data(d, *window)
    clusters = clusters or dict(zip(data["names"], data["clusters"]))
    same = {k: data[k] for k in ("version", "window")}
    names, members = list(clusters), list(clusters.values())
    return same | dict(annotator=who, names=names, clusters=members, edits=list(edits))


def read(record: dict, d: Document) -> Document:
    return read_correction(json.dumps(record).encode(), d)[1]


def clusters_of(d: Document) -> dict[str, list[Span]]:
    return dict(zip(d.names, map(list, d.clusters)))


TO_ANNA = {"do": "move", "at": HIM, "who": 0}
MOVED = GIVEN | {"Anna": [ANNA, SHE, HIM, HER], "Bell": [BELL, FRIEND]}


# Windows


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_window_is_one_of_the_split_files(number):
    data, known = page_data(STORY, number, 300), split(STORY, 300, "drop")[number - 1]
    assert tuple(map(tuple, data["sentences"])) == known.sentences
    shown = {n: {Span(*s) for s in c} for n, c in zip(data["names"], data["clusters"])}
    assert {n: c for n, c in shown.items() if c} == {
        n: set(c) for n, c in zip(known.names, known.clusters) if c
    }
    assert set(shown) == set(STORY.names)


def test_what_a_window_cannot_show_is_left_out_and_told():
    twice = tale().changed(clusters=((ANNA, SHE), (ANNA, BELL), ()))
    data = page_data(twice)
    assert sum(map(len, data["clusters"])) == 3 and "1 mentions had a second" in data["notes"]
    clusters = ((Span(3, 4), Span(0, 0)),)
    across = Document("two", (("a",) * 4, ("b",) * 4), clusters, ("A",))
    for number, left in ((1, [[[0, 0]]]), (2, [[]])):
        data = page_data(across, number, 3)
        assert data["clusters"] == left and "1 mentions cross" in data["notes"]


# Files


def test_a_file_is_read_strictly():
    record = handed_in(tale(), "Ada", [TO_ANNA], MOVED)
    assert clusters_of(read(record, tale())) == MOVED
    for change, told in [
        (lambda r: r["clusters"].append([[1, 1]]), "clusters"),
        (lambda r: r["names"].append("x"), "clusters"),
        (lambda r: r.update(annotator=" Ada"), "annotator"),
        (lambda r: r.update(more=1), "more"),
        (lambda r: r.pop("edits"), "edits"),
        (lambda r: r["window"].update(text="0" * 16), "window.text"),
        (lambda r: r["edits"][0].update(who=7), "edits[0]"),
        (lambda r: r["edits"][0].update(at=[0, 99]), "edits[0]"),
        (lambda r: r["edits"].append(TO_ANNA | {"do": "constructor"}), "edits"),
    ]:
        changed = json.loads(json.dumps(record))
        change(changed)
        with pytest.raises((FormatError, DataError)) as e:
            read(changed, tale())
        assert told in str(e.value) and "\n" not in str(e.value), e.value


edit = st.fixed_dictionaries(
    dict(
        do=st.sampled_from(["add", "move", "remove", "new", "split", "merge", "rename"]),
        at=st.tuples(st.integers(-1, 18), st.integers(-1, 18)),
        who=st.integers(-1, 4),
        into=st.integers(-1, 4),
        name=st.sampled_from(["", "Anna", "x", " y"]),
    )
)


@given(st.lists(edit, max_size=6))
def test_edits_are_refused_in_one_line_or_leave_each_mention_one_character(edits):
    try:
        done = read(handed_in(tale(), "Ada", edits), tale())
    except RefnbError as e:
        assert "\n" not in str(e) and len(str(e)) <= 300
    else:
        assert len(set(done.mentions)) == len(done.mentions) and clusters_of(done) == GIVEN


places = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda s: Span(*sorted(s)))
GOOD = handed_in(tale(), "Ada", [TO_ANNA], MOVED)


@given(st.lists(places.filter(lambda s: s not in (ANNA, SHE, BELL)), unique=True))
def test_mentions_of_one_character_cannot_cross_and_those_of_two_can(spans):
    edits = [{"do": "add", "at": s, "who": 2} for s in spans]
    record = handed_in(tale(), "Ada", edits, GIVEN | {"Clara": sorted(spans)})
    if any(a.start < b.start <= a.end < b.end for a in spans for b in spans):
        with pytest.raises(FormatError, match="crosses"):
            read(record, tale())
    else:
        assert clusters_of(read(record, tale()))["Clara"] == sorted(spans)
    across = Span(11, 12)  # and Bell's "her old friend"
    for who, name in ((1, "Bell"), (2, "Clara")):
        clusters = GIVEN | {name: sorted([*GIVEN[name], across])}
        edits = [{"do": "add", "at": across, "who": who}]
        record = handed_in(tale(), "Ada", edits, clusters)
        if name == "Clara":
            assert across in clusters_of(read(record, tale()))["Clara"]
        else:
            with pytest.raises(FormatError, match="crosses"):
                read(record, tale())


def test_every_damage_of_a_file_is_one_line():
    good = json.dumps(GOOD).encode()
    for k in range(len(good)):
        for damaged in (good[:k], good[:k] + b"7" + good[k + 1 :], good[:k] + b'"' + good[k:]):
            try:
                read_correction(damaged, tale())
            except RefnbError as e:
                assert "\n" not in str(e) and len(str(e)) <= 300


# The command


@pytest.fixture
def correct(tmp_path, capsys, monkeypatch):
    "Run `refnb correct book.jsonl`, in a folder with books."
    monkeypatch.chdir(tmp_path)
    write_documents([tale()], "book.jsonl")
    write_documents([STORY], "story.jsonl")
    write_documents([tale(), tale("other")], "two.jsonl")
    return lambda *args, book="book.jsonl": here(capsys, "correct", book, *args)


def test_corrected_windows_are_gold_for_scores(correct, tmp_path, capsys):
    for n in (1, 2):
        record = handed_in(STORY, "Ada", [], None, n, 300)
        (tmp_path / f"{n}.json").write_text(json.dumps(record))
    said = correct("1.json", "2.json", "--out", "gold.jsonl", book="story.jsonl")
    assert said.status == 0 and "2 corrected windows in gold.jsonl" in said.out
    windows = split(STORY, 300, "drop")
    write_documents(windows, "windows.jsonl")
    scored = here(capsys, "score", "coref", "gold.jsonl", "windows.jsonl", "--json")
    assert json.loads(scored.out)["conll"]["f1"] == 100
    assert [d.doc_key for d in read_documents("gold.jsonl")] == [w.doc_key for w in windows[:2]]


def test_of_two_people_one_is_chosen(correct, tmp_path):
    assert correct("--out", "page.html").status == 0
    assert (tmp_path / "page.html").read_text().startswith(f"<!-- {CANARY['canary']}")
    split_off = {"do": "split", "at": SHE, "name": HOSTILE[13]}
    apart = {"Anna": [ANNA], "Bell": GIVEN["Bell"], "Clara": [], HOSTILE[13]: [SHE, HER]}
    bea = handed_in(tale(), "Bea", [split_off], apart)
    for name, record in (("a", GOOD), ("b", bea)):
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    both = ("a.json", "b.json")
    told = json.loads(correct(*both, "--json").out)
    by = [{"window": 1, "by": who, "edits": 1} for who in ("Ada", "Bea")]
    assert told == {"written": 0, "corrections": by}
    said = correct(*both)
    assert said.status == 0 and "Bea" in said.out and "\x1b" not in said.all
    one_line(correct(*both, "--out", "gold.jsonl"), 2, "Ada", "Bea", "--by")
    assert correct(*both, "--out", "gold.jsonl", "--by", "Ada").status == 0
    assert [*read_documents("gold.jsonl")[0].clusters[0]] == MOVED["Anna"]


def test_wrong_calls_are_told_in_one_line(correct, tmp_path):
    for book, args, status, told in [
        ("book.jsonl", (), 2, "--out PAGE.html"),
        ("none.jsonl", ("--out", "p.html"), 1, "none.jsonl"),
        *(("book.jsonl", ("--window", n, "--out", "p.html"), 2, f"window {n}") for n in (0, -1, 3)),
        ("book.jsonl", ("book.jsonl",), 1, "book.jsonl"),
        ("two.jsonl", ("--out", "p.html"), 1, "2 documents"),
    ]:
        one_line(correct(*args, book=book), status, told)
    assert not (tmp_path / "p.html").exists()


# In a browser


class Person:
    "Somebody who corrects: only what a person can do."

    def __init__(self, tab):
        self.tab, self.folder, self.js, self.text = tab, tab.folder, tab.js, tab.text
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tab.folder))

    def open(self, d: Document):
        self.js("window.stale = true")
        self.tab.show(correction_page(d))
        self.tab.wait("window.stale === undefined && document.activeElement.id == 'text'")

    def press(self, keys: str):
        "Press keys, with spaces between them; ⇧ before a key is Shift."
        arrows = {"→": "ArrowRight", "←": "ArrowLeft"}
        for key in keys.split():
            self.tab.press(arrows.get(key[-1], key), shift=key[0] == "⇧")

    def type(self, text: str):
        self.tab.call("Input.insertText", text=text)
        self.tab.press("Enter")

    def characters(self) -> dict[str, int]:
        "Who is listed, with how many mentions."
        texts = "['.name', '.count'].map(x => e.querySelector(x).textContent)"
        rows = self.js(f"[...document.querySelectorAll('#characters li')].map(e => {texts})")
        return {name: int(count) for name, count in rows}

    def save(self, name: str) -> bytes:
        self.js("document.querySelector('#annotator').focus()")
        self.type(name)
        path = wait(lambda: [*self.folder.glob(f"*-{name}.json")], "the file is downloaded")[0]
        return wait(path.read_bytes, "the file is written")


@pytest.fixture
def person(reader):
    return Person(reader)


def test_every_key_does_what_it_says(person):
    for k, (keys, typed, changed) in enumerate(
        [
            ("→ →", "", {}),  # to she; nothing is changed
            ("→ → 2", "", {"Anna": [ANNA, HER], "Bell": [BELL, SHE, HIM, FRIEND]}),  # a digit
            ("→ → m", "cla", {"Anna": [ANNA, HER], "Clara": [SHE]}),  # so does a part of a name
            ("→ → m", "3", {"Anna": [ANNA, HER], "Clara": [SHE]}),  # and a number
            ("→ → n", "", {"Anna": [ANNA, HER], "she": [SHE]}),  # a new character
            ("→ → s", "", {"Anna": [ANNA], "Anna 2": [SHE, HER]}),  # this and the later ones
            ("g", "Bell", {"Anna": [], "Bell": [ANNA, BELL, SHE, HIM, HER, FRIEND]}),  # all Anna's
            ("→ x", "", {"Bell": [HIM, FRIEND]}),
            ("→ Delete", "", {"Bell": [HIM, FRIEND]}),
            ("e", "Anne", {"Anna": None, "Anne": [ANNA, SHE, HER]}),
            (". 3", "", {"Clara": [Span(1, 1)]}),  # a word that was no mention
            ("End . . ⇧→ ⇧→ m", "Clara", {"Clara": [Span(11, 13)]}),
            ("End . . . ⇧→ ⇧→ ⇧→ ⇧← n", "", {"Bell 's aunt": [AUNT]}),
            ("→ x u", "", {}),
            ("→ x g u", "", {}),
            ("→ → → Home 3 u u", "", {}),
            ("m Escape → x", "", {"Bell": [HIM, FRIEND]}),
            ("→ n n", "", {"Bell": [HIM, FRIEND], "Bell 2": [], "Bell 3": [BELL]}),
        ]
    ):
        d = tale(f"keys {k}")  # for each the browser keeps what was done
        person.open(d)
        person.press(keys)
        if typed:
            person.type(typed)
        expected = {n: c for n, c in (GIVEN | changed).items() if c is not None}
        assert person.characters() == {n: len(c) for n, c in expected.items()}, keys
        correction, done = read_correction(person.save(f"Ada{k}"), d)
        assert clusters_of(done) == expected and correction.annotator == f"Ada{k}", keys


def test_a_mouse_chooses_words_and_characters(person):
    d = tale("mouse")
    person.open(d)

    def mouse(kind: str, i: int):
        box = f"document.querySelector('[data-i=\"{i}\"]').getBoundingClientRect()"
        x, y = person.js(f"(r => [r.x + 4, r.y + r.height/2])({box})")
        how = dict(type=f"mouse{kind}", x=x, y=y, button="left", buttons=1, clickCount=1)
        person.tab.call("Input.dispatchMouseEvent", **how)

    def click(i: int):
        mouse("Pressed", i)
        mouse("Released", i)

    click(9)
    assert person.text("#now") == "“her” is 1, Anna."
    click(9)
    assert person.text("#now") == "“her old friend” is 2, Bell.", "once more: the one around it"
    mouse("Pressed", 12)
    mouse("Moved", 14)
    mouse("Released", 14)
    assert person.text("#now").startswith("“Bell 's aunt”: no mention")
    person.js("document.querySelectorAll('#characters button')[2].click()")
    assert clusters_of(read_correction(person.save("Ada"), d)[1]) == GIVEN | {"Clara": [AUNT]}


def test_what_was_done_is_kept_and_can_be_undone(person):
    d, given = tale("kept"), {name: len(c) for name, c in GIVEN.items()}
    person.open(d)
    person.press("→ x → n")
    before = person.characters()
    person.open(d)
    assert person.characters() == before != given and "2 edits" in person.text("#notice")
    person.press("u u u")
    assert person.characters() == given
    person.press("x")
    person.js("document.querySelector('#again').click()")
    person.js("document.querySelector('#yes').click()")
    assert person.characters() == given and ", 0 edits" in person.text("#counts")
    person.open(d)
    assert person.text("#notice") == ""


def test_damaged_memory_is_left_out(person):
    d = tale("damaged")
    person.open(d)
    person.press("x")
    keys = "Object.keys(localStorage).filter(k => k.includes('damaged'))"
    for bad in (
        "{",
        '{"edits": [{"do": "move", "at": [0, 99], "who": 0}]}',
        '{"edits": [{"do": "constructor"}]}',
        '{"edits": [null]}',
    ):
        assert person.js(f"{keys}.map(k => localStorage.setItem(k, {json.dumps(bad)})).length") == 1
        person.open(d)
        assert "damaged" in person.text("#notice"), bad
        assert person.characters() == {name: len(c) for name, c in GIVEN.items()}, bad


def test_what_cannot_be_handed_in_is_told(person):
    person.open(tale("told"))
    person.press("d")
    assert "your name" in person.text("#notice")
    assert person.js("document.activeElement.id") == "annotator"
    person.js("document.querySelector('#text').focus()")
    person.press("End . . ⇧→ 2")  # friend Bell, across "her old friend"
    person.js("document.querySelector('#annotator').value = 'Ada'")
    person.press("d")
    assert "crosses another" in person.text("#notice")
    assert not [*person.folder.glob("*.json")]
