"The page where people play Bob: one inert file, what it hands in, and a whole way in a browser."

import json, re
from html.parser import HTMLParser
from itertools import pairwise
import pytest
from browser import Tab, nothing_leaves, port  # noqa: F401 (a fixture)
from core_mutations import good_or_one_line, mutated
from pages_documents import NASTY
from servers import Tree
from refnb.benchmarks.altentities.builder import (
    ANSWERS_VERSION,
    LEAST_ANSWERS,
    MOST_ANSWERS,
    AltRules,
    annotation_page,
    build_altentities,
    collect,
    draft_of,
    flag_reason,
    in_pages,
    page_id,
    read_annotations,
    release_text,
    write_collected,
    write_to_annotate,
)
from refnb.benchmarks.altentities.entities import read_entities
from refnb.benchmarks.altentities.questions import bare_title, read_altentities
from refnb.core.settings import packaged
from refnb.core.types import DataError, FormatError
from tools import FULL, wait

QUESTIONS = read_altentities(packaged("data/sample/altentities.json"), "sample")
DRAFTS = [draft_of(q, "sample", n) for n, q in enumerate(QUESTIONS)]
DECENT = [t for t in NASTY if t.strip() and "\ud800" not in t]


@pytest.fixture(scope="module")
def built():
    entities = read_entities(packaged("data/sample/altentities_entities.jsonl"))
    return build_altentities(entities, AltRules(questions=20, shortest=150, fewest_sections=3))


# The page as a file


class Parsed(HTMLParser):
    "Tags and attributes."

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attrs = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attrs += attrs


def test_the_page_loads_nothing_from_anywhere_and_writes_no_markup():
    page = Parsed(annotation_page(DRAFTS))
    assert not {"img", "iframe", "object", "embed", "base", "audio", "video"} & {*page.tags}
    links = [v for k, v in page.attrs if k in ("src", "href", "action", "srcset")]
    assert links == ["data:,"] and not [
        k for k, _ in page.attrs if k.startswith("on") or k == "style"
    ]
    css, js = (
        "".join(packaged(f"data/{x}.{kind}").read_text() for x in ("pages/base", "annotation/page"))
        for kind in ("css", "js")
    )
    assert not re.search(r"url\(|@import|https?:", css)
    assert set(re.findall(r"https?://[^\"]*", js)) == {"http://www.w3.org/2000/svg"}
    ways_out = r"fetch|XMLHttp|WebSocket|sendBeacon|import\("
    ways_in = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\("
    assert not re.search(f"{ways_out}|{ways_in}", js)


def test_nothing_of_the_data_becomes_markup():
    d = DRAFTS[38]
    plain = Parsed(annotation_page([d]))
    for text in DECENT:
        c = d.choices[0].changed(name=text, description=f'<a href="{text}">{text}</a>')
        hostile = d.changed(choices=(c, d.choices[1]), question=text)
        page = annotation_page([hostile], title=text, send=text)
        got = Parsed(page)
        assert got.tags == plain.tags and [k for k, _ in got.attrs] == [k for k, _ in plain.attrs]
        script = r'<script type="application/json" id="data">(.*?)</script>'
        data = json.loads(re.search(script, page, re.S)[1])
        assert (data["send"], data["items"][0]["question"]) == (text, text)


def test_pages_are_of_one_domain_and_nearly_one_size(built):
    for each in (1, 7, 50):
        pages = in_pages(built.drafts, each)
        assert [d for p in pages for d in p] == list(built.drafts)
        assert all(len({d.topic for d in p}) == 1 and len(p) <= each for p in pages)
        same = [(a, b) for a, b in pairwise(pages) if a[0].topic == b[0].topic]
        assert all(abs(len(a) - len(b)) <= 1 for a, b in same)


def contents(folder) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_a_folder_that_people_may_be_answering_is_made_once(tmp_path, built):
    write_to_annotate(tmp_path, built, 7)
    before = contents(tmp_path)
    for each in (5, 50):
        with pytest.raises(DataError, match="people may be answering it"):
            write_to_annotate(tmp_path, built, each)
    assert contents(tmp_path) == before
    for name in ("page-books-1.html", "build.json"):
        (tmp_path / name).unlink()  # as a kill leaves it
    write_to_annotate(tmp_path, built, 7)
    assert contents(tmp_path) == before


# What is handed in


def handed(drafts=DRAFTS, **fields) -> bytes:
    "What the page saves when all has been answered."
    said = {"expressions": ["the old one", "what I had on Sunday", "not the other"], "seconds": 9.5}
    answers = [{"id": d.id} | said for d in drafts]
    order, page = [d.id for d in drafts], page_id(drafts)
    about = {"page": page, "version": ANSWERS_VERSION, "participant": "abcdefghij", "order": order}
    return json.dumps(about | {"answers": answers} | fields, indent=1).encode()


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(page="0" * 16), "field page"),
        (dict(participant="Ann Smith"), "field participant"),
        (dict(order=[]), "field order"),
        (dict(order=[DRAFTS[0].id]), "field page"),
        (dict(email="a@b.c"), "`email`"),
    ],
)
def test_answers_that_cannot_be_are_refused_in_one_line_without_a_name(tmp_path, change, said):
    (path := tmp_path / "a.json").write_bytes(handed(**change))
    with pytest.raises(FormatError) as e:
        read_annotations(path, DRAFTS)
    assert str(e.value).startswith(str(path)) and said in str(e.value)
    assert "\n" not in str(e.value) and "Ann" not in str(e.value)


def test_damaged_answers_are_read_or_refused_in_one_line(tmp_path):
    path = tmp_path / "a.json"
    for data in mutated(handed(DRAFTS[:2]), 7):
        path.write_bytes(data)
        if good_or_one_line(lambda: read_annotations(path, DRAFTS), path):
            collect([data], DRAFTS)


def test_several_people_and_pages_are_joined_and_nobody_twice(tmp_path, built):
    pages = in_pages(built.drafts, 10)
    files = [handed(p, participant=who * 10) for p in pages for who in "ab"]
    got, n = collect(files, built.drafts), 3 * len(built.drafts)
    assert not got.short and got.counts == {"kept": n, "repeated": n}
    assert got == collect(files[::-1], built.drafts)
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    for path in (a, b):
        path.write_bytes(handed())
    with pytest.raises(DataError, match=f"{b} is by the same person as {a}"):
        collect([a, b], DRAFTS)


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

    def shown(self, what: str) -> str:
        return self.js(f"document.querySelector({json.dumps(what)}).innerText")

    def title(self) -> str:
        return self.shown("main > :not([hidden]) h2")

    def screen(self) -> str:
        visible = "main > section:not([hidden]), main > form:not([hidden])"
        return self.js(f"document.querySelector('{visible}').id")

    def bubbles(self) -> list[str]:
        every = f"document.querySelectorAll('#{self.screen()} .bubble')"
        return self.js(f"[...{every}].map(e => e.lastChild.data)")

    def said(self) -> list[str]:
        "What the page says of each answer."
        return self.js("[...document.querySelectorAll('#answers .said')].map(e => e.textContent)")

    def click(self, what: str):
        self.js(f"document.querySelector({json.dumps(what)}).click()")

    def choose_file(self, path):
        root = self.tab.call("DOM.getDocument")["root"]["nodeId"]
        node = self.tab.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        self.tab.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def write(self, *answers: str):
        self.press("Enter")
        for a in answers:
            self.tab.call("Input.insertText", text=a)
            if a != answers[-1]:
                self.press("Tab")

    def put(self, *answers: str) -> str:
        "Code that fills in answers at once."
        event = "e.dispatchEvent(new Event('input'))"
        fill = f"(e => {{ e.value = t; {event} }})(document.querySelector('#answer' + i))"
        return f"{json.dumps(answers)}.forEach((t, i) => {fill})"

    def submit(self):
        self.js("document.querySelector('#write').requestSubmit()")

    def handed_in(self) -> bytes:
        found = wait(lambda: [*self.folder.glob("annotations-*.json")], "the file is downloaded")
        return wait(found[0].read_bytes, "the file is written")


@pytest.fixture
def bob(port, tmp_path):  # noqa: F811
    "A page; when the test is over, it has asked nobody, and said no error."
    tab = Tab(port, "file://")
    yield Bob(tab, tmp_path)
    try:
        own = (f"file://{tmp_path}/", "data:", "blob:", "about:")
        asked = tab.requests()
        assert asked and not [u for u in asked if not u.startswith(own)] and not tab.errors()
    finally:
        tab.close()


@pytest.fixture
def mine(request):
    "Drafts of this test alone: what the browser keeps of another test's is not theirs."
    return lambda drafts: [d.changed(id=f"{d.id}:{request.node.name}") for d in drafts]


def test_the_sample_goes_the_whole_way_back_to_the_releases_form(bob, tmp_path):
    places = range(42) if FULL else (0, 1, 2, 15, 16, 29, 30)
    drafts = [DRAFTS[k] for k in places]
    bob.open(annotation_page(drafts, seed=3))
    bob.press("Enter")
    for n in range(1, len(drafts) + 1):
        q = QUESTIONS[int(bob.js("current().id").rpartition("-")[2])]
        assert (bob.screen(), bob.title()) == ("read", f"Question {n} of {len(drafts)}")
        assert bob.bubbles()[1:] == [q.question, "…"]
        texts = "[...document.querySelectorAll('.thing p:first-of-type')].map(e => e.innerText)"
        assert bob.js(texts) == [c.description for c in q.choices]
        bob.press("Enter")
        assert bob.screen() == "write" and bare_title(q.meant.name) in bob.shown("#meant")
        bob.write(*q.expressions)
        assert bob.bubbles()[2] == q.expressions[-1] and not any(bob.said())
        bob.submit()
    assert bob.screen() == "end" and f"{n} of {n}" in bob.shown("#thanks")
    bob.click("#end .save")
    got = collect([bob.handed_in()], drafts)
    made = write_collected(tmp_path / "data", got)
    names = [str(p.relative_to(tmp_path / "data")) for p in made]
    assert not got.short and names == [f"{x}/sample.json" for x in ("books", "recipes", "songs")]
    back = [q for p in made for q in read_altentities(p)]
    assert release_text(back) == release_text(QUESTIONS[k] for k in places)


def test_there_is_no_way_back_to_the_texts(bob, mine):
    bob.open(annotation_page(mine(DRAFTS[:2]), shuffle=False))
    bob.press("Enter", "Enter")
    bob.write("the one with the smugglers")
    for again in (0, 1):
        visible = "[...document.querySelectorAll('main > :not([hidden])')].map(x => x.innerText)"
        assert bob.screen() == "write" and "stolen ledger" not in bob.js(f"{visible}.join()")
        assert bob.js("document.querySelectorAll('#write .back').length") == 0
        assert bob.js("document.querySelector('#answer0').value") == "the one with the smugglers"
        if not again:
            bob.tab.call("Page.reload")
            bob.wait("document.readyState == 'complete' && document.activeElement.tagName == 'H2'")


def test_answers_are_checked_while_they_are_written(bob, mine):
    bob.open(annotation_page(mine(DRAFTS[:1])))
    bob.press("Enter", "Enter")
    bob.write(
        "the lamplighter's LEDGER",
        "the first one",
        "Jory Pell lights two hundred street lamps every evening",
        "not the cold one",
        "Not the cold one!",
    )
    name, place, copied, fine, again = bob.said()
    assert "name" in name and "where" in place and "copied" in copied and "written this" in again
    assert not fine
    bob.press("Enter")
    assert bob.screen() == "write" and "cannot stay" in bob.shown("#problem")
    assert bob.js("document.activeElement.id") == "answer0"
    bob.js(bob.put(*[""] * MOST_ANSWERS))
    bob.submit()
    assert f"at least {LEAST_ANSWERS} answers" in bob.shown("#problem")
    assert bob.js("document.activeElement.id") == "answer0"
    bob.js(bob.put("x" * 5000))
    assert "too long: 5000 of at most 4999" in bob.said()[0]


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
SAID = """the old one|The LAMPLIGHTER'S  ledger!|lamplighter's ledgers|a+b? [50%-OFF]|it|It's red|It!
rye|the rye one|r.u.r.|élan VITAL, please|élan vitale|dawn|at dawn|dawning|the first one|The second.
I meant the former|the first one he wrote|it's the last book|it’s the last book|not the first one
on the left|mentioned first|the left-handed one|the one mentioned last|option b|what, no \\...|-|x
the best option by far|the lamplighter’s ledger|e\u0301lan vital|El\u00adan\u200b vital
\u200bthe first one\u200b|THE LAMPLIGHTERʼS LEDGER""".replace("\n", "|").split("|")
TWICE = [
    ("की किताब", "का किताब"),
    ("CAFE\u0301", "café"),
    ("a_b", "a b"),
    ("e\u0301\u00ad\ufeff", "é"),
    ("Ann’s “Tin”", 'Ann\'s "Tin"'),
    ("a‛„b‟ ʼ", "a'\"b\" '"),
    ("½ ﬁ \u202e\u2066\u200f", "1⁄2 fi"),
    ("…", "..."),
]


def test_browser_and_refnb_flag_the_same(bob, mine):
    [d] = mine(DRAFTS[:1])
    drafts = [
        d.changed(id=f"{d.id}:{k}", choices=(d.choices[0].changed(name=name), d.choices[1]))
        for k, name in enumerate(NAMES)
    ]
    bob.open(annotation_page(drafts, shuffle=False))
    for d in drafts:
        bob.js("show('write')")
        assert bob.js("current().id") == d.id
        first = "document.querySelector('#answers .said').textContent"
        theirs = [bob.js(f"{bob.put(text)}, {first}") for text in SAID]
        for text, told in zip(SAID, theirs, strict=True):
            flags = flag_reason(d, text)
            assert ("says the name" in told) == ("name" in flags), (d.meant.name, text)
            place = "position" in flags and "name" not in flags  # one thing is told
            assert ("says where" in told) == place, (d.meant.name, text)
        for pair in TWICE:
            bob.js(bob.put(*pair))
            repeated = "repeated" in flag_reason(d, pair[1], pair[:1])
            assert ("written this" in bob.said()[1]) == repeated, pair
        bob.js("finish([])")


def test_a_copy_goes_on_elsewhere_and_clearing_forgets(bob, mine):
    drafts = mine(DRAFTS[:3])
    bob.open(annotation_page(drafts, shuffle=False))
    bob.press("Enter", "Enter")
    bob.write("the mystery", "not for children", "the one on a boat")
    bob.submit()
    bob.click("details .save")
    copy, code = bob.handed_in(), bob.js("state.participant")
    bob.click("#clear")
    bob.click("#yes")
    bob.wait("state.screen == 'start' && state.done.size == 0")
    assert bob.js("state.participant") != code

    def choose(name, data):
        (bob.folder / name).write_bytes(data)
        bob.choose_file(bob.folder / name)

    odd = {"answers": [{"id": drafts[0].id, "expressions": "x", "seconds": 1}]}
    others = [json.dumps(json.loads(copy) | x).encode() for x in ({"page": "x"}, odd)]
    for k, bad in enumerate([b"{", b"[]", *others]):
        choose(f"bad{k}.json", bad)
        notice = "document.querySelector('#notice').innerText"
        bob.wait(f"{notice}.startsWith('bad{k}.json cannot be used')")
    choose("copy.json", copy)
    bob.wait("state.done.size == 1")
    assert (bob.screen(), bob.title()) == ("read", "Question 2 of 3")
    assert bob.js("state.participant") == code


def test_what_the_browser_kept_may_be_damaged(bob, mine):
    drafts = mine(DRAFTS[:1])
    key, kept = f"refnb-annotation-{page_id(drafts)}", '{"record": {}, "screen": "read"}'
    source = f"localStorage.setItem('{key}', {json.dumps(kept)})"
    bob.tab.call("Page.addScriptToEvaluateOnNewDocument", source=source)
    bob.open(annotation_page(drafts))
    assert bob.screen() == "start" and "damaged" in bob.shown("#notice")


def test_hostile_texts_are_texts(bob, mine):
    [d] = mine(DRAFTS[15:16])

    def hostile(k, text):
        c = d.choices[0].changed(name=text, description=text)
        return d.changed(id=f"{d.id}:{k}", question=text, choices=(c, d.choices[1]))

    drafts = [hostile(k, text) for k, text in enumerate(DECENT)]
    every = "".join(DECENT)
    bob.open(annotation_page(drafts, title=every, send=every, shuffle=False))
    bob.press("Enter")
    for d, text in zip(drafts, DECENT, strict=True):
        assert bob.js("current().id") == d.id and bob.bubbles()[1] == text
        assert bob.js("document.querySelector('.thing h3').textContent") == text
        bob.press("Enter")
        assert bob.js("document.querySelector('#meant').textContent") == text
        wide = bob.js("document.documentElement.scrollWidth > innerWidth")
        assert not wide, "something is wider than the window"
        bob.js("finish([])")
    assert bob.screen() == "end"
    assert bob.js("document.querySelectorAll('main script, main img').length") == 0


def test_the_policy_stops_every_request(port, mine, tmp_path):  # noqa: F811
    tab = Tab(port, "file://")
    try:
        with Tree(tmp_path) as tree:
            Bob(tab, tmp_path).open(annotation_page(mine(DRAFTS[:2])))
            nothing_leaves(tab.js, tab, tree)
    finally:
        tab.close()


def test_names_and_roles_for_who_does_not_see(bob, mine):
    bob.open(annotation_page(mine(DRAFTS[:1])))
    bob.press("Enter", "Enter")
    nodes = bob.tab.call("Accessibility.getFullAXTree")["nodes"]
    named = [n for n in nodes if "role" in n and n.get("name", {}).get("value")]
    found = [(n["role"]["value"], n["name"]["value"]) for n in named]
    boxes = [name.partition(",")[0] for role, name in found if role == "textbox"]
    assert boxes == [f"Answer {k}" for k in range(1, MOST_ANSWERS + 1)]
    buttons = {name for role, name in found if role == "button"}
    assert buttons == {"Next", "I cannot answer this one"}
    assert {("heading", "Question 1 of 1"), ("progressbar", "0 of 1 done")} <= {*found}


def test_it_fits_a_phone(bob, mine):
    bob.open(annotation_page(mine([DRAFTS[0], DRAFTS[15], DRAFTS[38]]), shuffle=False))
    bob.tab.phone()
    touched = "main > :not([hidden]) button, main > :not([hidden]) input"
    tall = "every(b => b.getBoundingClientRect().height >= 44)"
    for screen in ("start", *("read", "write") * 3, "end"):
        bob.js(f"show('{screen}')")
        assert bob.js("document.documentElement.scrollWidth") <= 390
        assert bob.js(f"[...document.querySelectorAll('{touched}')].{tall}")
        if screen == "write":
            bob.js("finish(['a', 'b', 'c'])")
    assert bob.screen() == "end"
