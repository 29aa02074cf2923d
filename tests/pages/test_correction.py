"Correcting a window's clusters by hand: every key does what it says, what is handed in is read strictly, and nothing of a text runs."

import json
import msgspec
import pytest
from hypothesis import given, strategies as st
from payloads import HOSTILE
from tools import here, one_line, wait
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.files import CANARY
from refnb.core.reading import read_documents, write_documents
from refnb.core.types import CallError, DataError, FormatError, RefnbError, Span
from refnb.metrics.windows import split
from refnb.models.annotation.checking import (
    VERSION,
    Correction,
    Edit,
    checked,
    correction_page,
    crossing,
    read_correction,
    replay,
    window_to_check,
)

STORY = sample(characters=True)[0]
WORDS = tuple(
    "Anna met Bell , and she told him that her old friend Bell 's aunt was there .".split()
)
ANNA, SHE, HIM, HER, FRIEND, BELL, AUNT = (
    Span(0, 0),
    Span(5, 5),
    Span(7, 7),
    Span(9, 9),
    Span(9, 11),
    Span(2, 2),
    Span(12, 14),
)


def tale(key: str = "tale") -> Document:
    return Document(
        key, (WORDS,), ((ANNA, SHE, HER), (BELL, HIM, FRIEND), ()), ("Anna", "Bell", "Clara")
    )


def file_of(d: Document, who: str, edits: list[Edit], number: int = 1, length: int = 1500) -> bytes:
    "What the page writes after some edits."
    w = window_to_check(d, number, length)
    done = replay(w, edits)
    window = checked(w, d, number, length)
    return msgspec.json.encode(
        Correction(VERSION, window, who, done.names, done.clusters, tuple(edits))
    )


# Windows


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_window_is_one_of_the_split_files(number):
    w, known = window_to_check(STORY, number, 300), split(STORY, 300, "drop")[number - 1]
    assert (w.doc_key, w.sentences, sorted(w.mentions)) == (
        known.doc_key,
        known.sentences,
        known.mentions,
    )
    assert {n: c for n, c in zip(w.names, w.clusters) if c} == {
        n: tuple(sorted(c)) for n, c in zip(known.names, known.clusters)
    }
    assert set(w.names) == set(STORY.names)


def test_a_mention_of_two_characters_has_the_first_and_the_page_says_so():
    d = tale().changed(clusters=((ANNA, SHE), (ANNA, BELL), ()))
    w = window_to_check(d)
    assert w.meta["twice"] == 1 and len(w.mentions) == 3
    assert "1 mentions had a second character" in correction_page(d)


def test_what_crosses_a_window_is_left_out():
    d = Document("two", (("a",) * 4, ("b",) * 4), ((Span(3, 4), Span(0, 0)),), ("A",))
    first, second = (window_to_check(d, n, 3) for n in (1, 2))
    assert first.meta["over"] == second.meta["over"] == 1 and (first.mentions, second.mentions) == (
        [(0, 0)],
        [],
    )


def test_a_window_that_is_not_there():
    for number in (0, -1, 2):
        with pytest.raises(CallError, match="there is no window .*: say 1 to 1|it has 1"):
            window_to_check(tale(), number)


# Edits and files

edit = st.builds(
    Edit,
    st.sampled_from(["add", "move", "remove", "new", "split", "merge", "rename"]),
    st.builds(Span, st.integers(-1, 18), st.integers(-1, 18)),
    st.integers(-1, 4),
    st.integers(-1, 4),
    st.sampled_from(["", "Anna", "x", " y"]),
)


@given(st.lists(edit, max_size=6))
def test_edits_are_refused_or_leave_every_mention_one_character(edits):
    w = window_to_check(tale())
    try:
        done = replay(w, edits)
    except FormatError as e:
        assert "\n" not in str(e) and "edits[" in str(e)
        return
    assert len(set(done.mentions)) == len(done.mentions) and len(set(done.names)) == len(
        done.names
    ) == len(done.clusters)


@given(
    st.lists(
        st.builds(Span, st.integers(0, 5), st.integers(0, 5)).filter(lambda s: s.start <= s.end),
        unique=True,
    )
)
def test_crossing_is_found_as_by_looking_at_all_pairs(spans):
    pairs = [(a, b) for a in spans for b in spans if a.start < b.start <= a.end < b.end]
    assert bool(crossing(spans)) == bool(pairs) and set(crossing(spans)) <= {b for _, b in pairs}


def test_every_damage_of_a_file_is_one_line():
    good = file_of(tale(), "Ada", [Edit("move", HIM, 0), Edit("new", AUNT, name="the aunt")])
    assert len(read_correction(good, tale())[1].mentions) == 7
    for k in range(len(good)):
        for damaged in (good[:k], good[:k] + b"7" + good[k + 1 :], good[:k] + b'"' + good[k:]):
            try:
                read_correction(damaged, tale())
            except RefnbError as e:
                assert "\n" not in str(e) and len(str(e)) <= 300


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda r: r["clusters"].append([[1, 1]]), "the edits do not lead to these clusters"),
        (lambda r: r["names"].append("x"), "the edits do not lead"),
        (lambda r: r.update(annotator=" Ada"), "field annotator"),
        (lambda r: r.update(more=1), "unknown field"),
        (lambda r: r.pop("edits"), "missing required field"),
        (lambda r: r["window"].update(text="0" * 16), "it corrects another text"),
        (lambda r: r["edits"][0].update(who=7), "there is no character 7"),
        (lambda r: r["edits"][0].update(at=[0, 99]), "is not a span"),
    ],
)
def test_files_that_are_refused(change, said):
    record = json.loads(file_of(tale(), "Ada", [Edit("move", HIM, 0)]))
    change(record)
    with pytest.raises((FormatError, DataError), match=said):
        read_correction(json.dumps(record).encode(), tale())


def test_mentions_of_two_characters_may_cross():
    done = read_correction(file_of(tale(), "Ada", [Edit("add", Span(11, 12), 2)]), tale())[1]
    assert Span(11, 12) in done.clusters[2]
    with pytest.raises(FormatError, match="crosses another mention of the same character"):
        read_correction(file_of(tale(), "Ada", [Edit("add", Span(11, 12), 1)]), tale())


# Corrected windows


def test_corrected_windows_are_gold_for_scores(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_documents([STORY], "book.jsonl")
    for n in (1, 2):
        (tmp_path / f"{n}.json").write_bytes(file_of(STORY, "Ada", [], n, 300))
    said = here(capsys, "correct", "book.jsonl", "1.json", "2.json", "--out", "gold.jsonl")
    assert said.status == 0 and "2 corrected windows in gold.jsonl" in said.out
    write_documents(split(STORY, 300, "drop"), "windows.jsonl")
    scored = here(capsys, "score", "coref", "gold.jsonl", "windows.jsonl", "--json")
    assert json.loads(scored.out)["conll"]["f1"] == 100 and [
        d.doc_key for d in read_documents("gold.jsonl")
    ] == [w.doc_key for w in split(STORY, 300, "drop")[:2]]


# The command


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_documents([tale()], "book.jsonl")
    assert here(capsys, "correct", "book.jsonl", "--out", "page.html").status == 0 and (
        tmp_path / "page.html"
    ).read_text().startswith(f"<!-- {CANARY['canary']}")
    (tmp_path / "a.json").write_bytes(file_of(tale(), "Ada", [Edit("move", HIM, 0)]))
    (tmp_path / "b.json").write_bytes(
        file_of(tale(), "Bea", [Edit("split", SHE, name=HOSTILE[13])])
    )
    told = json.loads(here(capsys, "correct", "book.jsonl", "a.json", "b.json", "--json").out)
    assert told == {
        "written": 0,
        "corrections": [
            {"window": 1, "by": "Ada", "edits": 1},
            {"window": 1, "by": "Bea", "edits": 1},
        ],
    }
    said = here(capsys, "correct", "book.jsonl", "a.json", "b.json")
    assert said.status == 0 and "Bea" in said.out and "\x1b" not in said.all
    one_line(
        here(capsys, "correct", "book.jsonl", "a.json", "b.json", "--out", "gold.jsonl"),
        2,
        "window 1 was corrected by Ada and by Bea; name one with by (--by)",
    )
    assert (
        here(
            capsys,
            "correct",
            "book.jsonl",
            "a.json",
            "b.json",
            "--out",
            "gold.jsonl",
            "--by",
            "Ada",
        ).status
        == 0
    )
    assert read_documents("gold.jsonl")[0].clusters[0] == (ANNA, SHE, HIM, HER)


@pytest.mark.parametrize(
    "args, status, said",
    [
        (("book.jsonl",), 2, "name one with --out PAGE.html"),
        (("none.jsonl", "--out", "p.html"), 1, "none.jsonl"),
        (("book.jsonl", "--window", "3", "--out", "p.html"), 2, "there is no window 3"),
        (("book.jsonl", "book.jsonl"), 1, "book.jsonl"),
        (("two.jsonl", "--out", "p.html"), 1, "holds 2 documents"),
    ],
)
def test_wrong_calls_are_told_in_one_line(tmp_path, capsys, monkeypatch, args, status, said):
    monkeypatch.chdir(tmp_path)
    write_documents([tale()], "book.jsonl")
    write_documents([tale(), tale("other")], "two.jsonl")
    one_line(here(capsys, "correct", *args), status, said)
    assert not (tmp_path / "p.html").exists()


# In a browser


class Person:
    "Somebody who corrects: only what a person can do."

    def __init__(self, tab):
        self.tab, self.folder, self.js = tab, tab.folder, tab.js
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tab.folder))

    def open(self, d: Document, **how):
        self.js("window.stale = true")
        self.tab.show(correction_page(d, **how))
        self.tab.wait("window.stale === undefined && document.activeElement.id == 'text'")

    def press(self, keys: str):
        "Press keys, with spaces between them; ⇧ before a key is Shift."
        for key in keys.split():
            self.tab.press(
                {"→": "ArrowRight", "←": "ArrowLeft"}.get(key[-1], key), shift=key[0] == "⇧"
            )

    def type(self, text: str):
        self.tab.call("Input.insertText", text=text)
        self.tab.press("Enter")

    def clusters(self) -> dict[str, list]:
        "What the page shows."
        return {
            n: [tuple(s) for s in c]
            for n, c in self.js(
                "names.map((n, k) => [n, mentions().filter(s => owner.get(key(s)) == k).sort(earlier)])"
            )
        }

    def now(self) -> str:
        return self.js("document.querySelector('#now').innerText")

    def notice(self) -> str:
        return self.js("document.querySelector('#notice').innerText")

    def save(self, name: str) -> bytes:
        self.js("document.querySelector('#annotator').focus()")
        self.type(name)
        path = wait(lambda: [*self.folder.glob(f"*-{name}.json")], "the file is downloaded")[0]
        return wait(path.read_bytes, "the file is written")


@pytest.fixture
def person(reader):  # noqa: F811
    return Person(reader)


GIVEN = {"Anna": [ANNA, SHE, HER], "Bell": [BELL, HIM, FRIEND], "Clara": []}


@pytest.mark.parametrize(
    "keys, typed, changed",
    [
        ("→ →", "", {}),  # to she; nothing is changed
        ("→ → 2", "", {"Anna": [ANNA, HER], "Bell": [BELL, SHE, HIM, FRIEND]}),  # a digit moves
        ("→ → m", "cla", {"Anna": [ANNA, HER], "Clara": [SHE]}),  # so does a part of a name
        ("→ → m", "3", {"Anna": [ANNA, HER], "Clara": [SHE]}),  # and a number
        ("→ → n", "", {"Anna": [ANNA, HER], "she": [SHE]}),  # a new character
        ("→ → s", "", {"Anna": [ANNA], "Anna 2": [SHE, HER]}),  # this and the later ones
        ("g", "Bell", {"Anna": [], "Bell": [ANNA, BELL, SHE, HIM, HER, FRIEND]}),  # all of Anna's
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
    ],
)
def test_every_key_does_what_it_says(person, request, keys, typed, changed):
    d = tale(request.node.name)
    person.open(d)
    person.press(keys)
    if typed:
        person.type(typed)
    expected = {n: c for n, c in (GIVEN | changed).items() if c is not None}
    assert person.clusters() == expected
    c, done = read_correction(person.save("Ada"), d)
    assert dict(zip(done.names, map(list, done.clusters))) == expected and c.annotator == "Ada"


def test_a_mouse_chooses_words_and_characters(person, request):
    person.open(tale(request.node.name))

    def to(i: int, kind: str, button: str = "left"):
        x, y = person.js(
            f"(r => [r.x + 4, r.y + r.height/2])(document.querySelector('[data-i=\"{i}\"]').getBoundingClientRect())"
        )
        person.tab.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=1, clickCount=1
        )

    for kind in ("mousePressed", "mouseReleased"):
        to(9, kind)
    assert person.now() == "“her” is 1, Anna."
    for kind in ("mousePressed", "mouseReleased"):
        to(9, kind)
    assert person.now() == "“her old friend” is 2, Bell.", "once more: the mention around it"
    for i, kind in ((12, "mousePressed"), (14, "mouseMoved"), (14, "mouseReleased")):
        to(i, kind)
    assert person.now() == "“Bell 's aunt”: no mention. Choose a character to add it."
    person.js("document.querySelectorAll('#characters button')[2].click()")
    assert person.clusters() == GIVEN | {"Clara": [AUNT]}


def test_what_was_done_is_kept_and_can_be_undone(person, request):
    d = tale(request.node.name)
    person.open(d)
    person.press("→ x → n")
    before = person.clusters()
    person.open(d)
    assert person.clusters() == before and "2 edits by somebody from before" in person.notice()
    person.press("u u u")
    assert person.clusters() == GIVEN
    person.press("x")
    person.js("document.querySelector('#again').click()")
    person.js("document.querySelector('#yes').click()")
    assert person.clusters() == GIVEN and person.js("edits.length") == 0
    person.open(d)
    assert person.notice() == ""


def test_damaged_memory_is_left_out(person, request):
    d = tale(request.node.name)
    person.open(d)
    for bad in (
        "{",
        '{"edits": [{"do": "move", "at": [0, 99], "who": 0}]}',
        '{"edits": [{"do": "constructor"}]}',
        '{"edits": [null]}',
    ):
        person.js(f"localStorage.setItem(KEY, {json.dumps(bad)})")
        person.open(d)
        assert "damaged" in person.notice() and person.clusters() == GIVEN


def test_what_cannot_be_handed_in_is_told(person, request):
    person.open(tale(request.node.name))
    person.press("d")
    assert (
        person.notice() == "Please write your name first."
        and person.js("document.activeElement.id") == "annotator"
    )
    person.js("document.querySelector('#text').focus()")
    person.press("End . . ⇧→ 2")  # friend Bell, across "her old friend"
    person.js("document.querySelector('#annotator').value = 'Ada'")
    person.press("d")
    assert "crosses another of the same character" in person.notice() and not [
        *person.folder.glob("*.json")
    ]
    person.press("x e")
    person.js("at('text').focus()")
