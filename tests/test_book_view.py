"A view of a book: characters are counted and aligned rightly, and the page shows every word and every mention of it while little of it exists."

import hashlib, json, random, re
from base64 import b64encode
from collections import Counter
import pytest
from hypothesis import given, strategies as st
from browser import Tab, nothing_leaves, port  # noqa: F401 (a fixture)
from payloads import HOSTILE
from servers import Tree
from test_looking import NASTY, SIZE, document, free, once
from test_viewer import contrast
import tools
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.files import CANARY
from refnb.core.reading import write_documents
from refnb.core.settings import load_settings, packaged
from refnb.core.types import DataError, Span
from refnb.metrics.differences import matched
from refnb.models.running import run
from refnb.results.pages.book_view import (
    STATES,
    BookView,
    aligned,
    book_data,
    cast_of,
    layout,
    meetings,
    timeline,
    view_any,
    view_book,
)

STORY = sample(characters=True)[0]


# Aligning and counting


def states(gold, predicted) -> Counter:
    return Counter(STATES[x] for x in aligned(matched(gold, predicted)).states.values())


@given(once, once)
def test_every_mention_has_one_state(gold, predicted):
    g, p = document(gold), document(predicted)
    n = states(g, p)
    assert n.total() - n["spurious"] == len(g.mentions) and n.total() - n["missed"] == len(
        p.mentions
    )
    assert set(states(g, g)) <= {"right"}


@given(once, once, st.randoms())
def test_the_order_of_predicted_clusters_means_nothing_where_no_two_are_equal(gold, predicted, rng):
    g, p = document(gold), document(predicted)
    m = matched(g, p)
    shared = Counter((m.predicted[s], m.gold[s]) for s in m.gold.keys() & m.predicted.keys())
    if len(set(shared.values())) < len(shared):
        return
    order = rng.sample(range(len(predicted)), len(predicted))
    assert states(g, p) == states(g, document([predicted[k] for k in order]))


def test_a_cluster_is_whose_most_it_holds():
    gold = document([[(k, k) for k in range(5)], [(k, k) for k in range(5, 9)]])
    whole, pieces = (
        [[(k, k) for k in range(9)]],
        [[(0, 0), (1, 1)], [(2, 2), (3, 3), (4, 4)], [(k, k) for k in range(5, 9)]],
    )
    assert states(gold, document(whole)) == {"right": 5, "another character": 4}
    assert states(gold, document(pieces)) == {"right": 7, "in a piece apart": 2}
    assert states(gold, document([[(10, 10)]])) == {"missed": 9, "spurious": 1}


@given(free, free)
def test_the_cast_counts_every_mention(gold, predicted):
    g, p = (document(c, ["w"] * SIZE) for c in (gold, predicted))
    character = aligned(matched(g, p)).character
    cast = cast_of([g, p], character)
    assert [sum(s) for s in cast.sizes] == [len(g.mentions), len(p.mentions)]
    assert cast.sizes[0] == sorted(cast.sizes[0], reverse=True) and all(map(sum, zip(*cast.sizes)))
    assert all(cast.rows[1][k] == cast.rows[0][i] for k, i in character.items())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99))), st.integers(1, 20))
def test_the_timeline_counts_every_mention(places, bins):
    got = timeline(places, 100, bins)
    assert sum(c.total() for c in got.values()) == len(places)
    assert all(0 <= k < bins and n for c in got.values() for k, n in c.items())


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 59))), st.integers(0, 3))
def test_meetings_are_those_of_a_search_of_all_pairs(places, before):
    starts = list(range(0, 60, 10))
    inside = {(who, token // 10) for who, token in places if who < 4}
    expected: Counter = Counter()
    for a in range(4):
        for b in range(a + 1, 4):
            n = sum(
                any(
                    (x, i) in inside and any((y, i - k) in inside for k in range(before + 1))
                    for x, y in ((a, b), (b, a))
                )
                for i in range(6)
            )
            if n:
                expected[a, b] = n
    assert meetings(places, starts, {0, 1, 2, 3}, before) == expected


@given(
    st.integers(0, 12),
    st.dictionaries(st.tuples(st.integers(0, 11), st.integers(0, 11)), st.integers(1, 50)),
)
def test_every_node_has_its_place_in_the_square(n, weights):
    given_ = {(a, b): w for (a, b), w in weights.items() if a < b < n}
    got = layout(n, given_, 30)
    assert (
        len(got) == n
        and all(0 <= x <= 1 for spot in got for x in spot)
        and got == layout(n, given_, 30)
    )
    if n > 2:
        assert len(set(got)) == n


def test_the_work_grows_no_faster_than_the_book():
    small, large = made_up(4_000), made_up(16_000)
    beside = lambda d: book_data(d, d.changed(clusters=d.clusters[1:] + d.clusters[:1], names=()))
    assert tools.growth(beside, small, large) < 6


# The data of the page


@given(free, st.lists(st.sampled_from(NASTY), min_size=SIZE, max_size=SIZE))
def test_tokens_keep_their_places(clusters, tokens):
    d = document(clusters, tokens)
    told = book_data(d)
    assert len(" ".join(told["text"]).split(" ")) == SIZE
    at, found = 0, []
    for k in range(0, len(told["mentions"][0]), 4):
        step, width, cluster, _ = told["mentions"][0][k : k + 4]
        at += step
        found.append((at, at + width, cluster))
    assert found == sorted((*s, i) for i, c in enumerate(d.clusters) for s in c)


def test_what_cannot_be_shown_is_one_line():
    with pytest.raises(DataError, match="document 'd': has no text; give one that has"):
        view_book(Document("d", clusters=((Span(0, 1),),)))
    with pytest.raises(DataError, match="there are no documents"):
        view_book([])
    with pytest.raises(DataError, match="no document has both gold and prediction"):
        view_book([STORY], [Document("other", STORY.sentences)])
    with pytest.raises(DataError, match="they differ from token 0 on"):
        view_book(STORY, STORY.changed(sentences=(("x",) * STORY.size,)))


def test_a_text_without_mentions_and_one_without_sentences_between():
    assert book_data(Document("d", (("a",), (), ("b",))))["text"] == ["a", "b"]
    assert book_data(Document("d", (("a",),)), Document("d"))["mentions"] == [[], []]


# The file


def test_the_file_begins_with_the_canary_and_loads_nothing():
    page = view_book(STORY).page()
    assert (
        page.startswith(f"<!-- {CANARY['canary']} {CANARY['wish']} -->\n<!DOCTYPE html>")
        and page.isascii() is False
    )
    css, js = (packaged(f"data/book/page.{kind}").read_text() for kind in ("css", "js"))
    assert not re.search(r"url\(|@import|https?:", css)
    assert not re.search(
        r"fetch|XMLHttp|WebSocket|sendBeacon|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|import\(|localStorage",
        js,
    )
    assert re.findall(r"https?:[^\"']*", js) == ["http://www.w3.org/2000/svg"], (
        "a name, not an address"
    )
    policy = re.search('Content-Security-Policy" content="([^"]+)"', page)[1]
    for tag, text in (("style", css), ("script", js)):
        assert (
            f"{tag}-src 'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            in policy
        )
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy


def test_letters_and_boxes_stand_out_in_both_looks():
    css = packaged("data/book/page.css").read_text()
    looks = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", css, re.S)
    ]
    assert len(looks) == 2 and looks[0].keys() == looks[1].keys()
    for v in looks:
        assert (
            min(
                contrast(v[a], v[b])
                for a in ("ink", "soft", "main")
                for b in ("card", "page", "chosen")
            )
            >= 4.5
            and contrast(v["ink"], v["mark"]) >= 4.5
        )
        assert (
            min(
                contrast(v[a], v["card"])
                for a in ("line", "bad", "kx", *(f"k{i}" for i in range(8)))
            )
            >= 3
        )
        tints = [mixed(v[f"k{i}"], v["card"], 0.34) for i in range(8)]
        assert min(contrast(v["ink"], t) for t in tints) >= 4.5, "letters on a selected mention"


def mixed(a: str, b: str, share: float) -> str:
    parts = ((int(a[k : k + 2], 16), int(b[k : k + 2], 16)) for k in (1, 3, 5))
    return "#" + "".join(f"{round(share * x + (1 - share) * y):02x}" for x, y in parts)


def test_a_key_of_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "correct horse battery")
    with pytest.raises(DataError, match="SOME_API_KEY"):
        view_book(STORY.changed(meta={"title": "correct horse battery"})).page()


# Runs, files and the command line


def test_a_run_is_shown_beside_gold_and_beside_another(tmp_path):
    s = load_settings(
        "/", env={}, offline=True, runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports")
    )
    run("sample/bookcoref", "pattern-matching", s=s)
    beside_gold = view_any("sample/bookcoref:pattern-matching", s=s)
    assert (
        len(beside_gold.books) == 6
        and beside_gold.books[0]["labels"] == ["gold", "pattern-matching"]
        and beside_gold.books[0]["title"] == "The Third Jar"
    )
    again = view_any("sample/bookcoref:pattern-matching", "sample/bookcoref:pattern-matching", s=s)
    assert again.books[0]["labels"] == ["pattern-matching"] * 2 and not again.books[0]["faults"]
    windows = run("sample/bookcoref-split", "pattern-matching", s=s)
    assert view_any(windows, s=s).books[0]["labels"] == ["pattern-matching"], (
        "there are no gold clusters of windows"
    )
    own = run([STORY.changed(clusters=((),) * 7, labels={})], "pattern-matching", s=s)
    with pytest.raises(
        DataError, match="a run does not keep documents of your own; name their file in its place"
    ):
        view_any(own, s=s)


def test_the_command_shows_files(tmp_path, monkeypatch, capsys):
    for k, v in tools.clean(tmp_path).items():
        monkeypatch.setenv(k, v)
    monkeypatch.chdir(tmp_path)
    write_documents("gold.jsonl", [STORY])
    write_documents(
        "said.jsonl", [STORY.changed(clusters=STORY.clusters[1:], names=STORY.names[1:], labels={})]
    )
    said = tools.here(capsys, "view", "gold.jsonl", "--other", "said.jsonl", "--json")
    assert said.status == 0 and json.loads(said.out) == {
        "file": "view.html",
        "documents": 1,
        "bytes": (tmp_path / "view.html").stat().st_size,
    }
    assert tools.here(capsys, "view", "gold.jsonl", "--out", "book.html").out.startswith(
        "1 documents, 0."
    )
    (tmp_path / "empty.jsonl").write_text("")
    tools.one_line(tools.here(capsys, "view", "empty.jsonl"), 1, "empty.jsonl: the file is empty")


def test_a_notebook_shows_it_in_a_frame_of_its_own():
    shown = view_book(STORY)._repr_html_()
    assert (
        shown.startswith("<iframe title='A book' sandbox='allow-scripts'")
        and shown.count("<iframe") == 1
        and shown.endswith("'></iframe>")
    )


# In a browser


def made_up(words: int = 30_000, seed: int = 3) -> Document:
    "A book of made-up words: mentions that nest and cross, over ends of sentences too; thirty characters; the last word is its own."
    rng = random.Random(seed)
    known = ["".join(rng.choices("abcdefghilmnoprstu", k=rng.randint(2, 9))) for _ in range(3000)]
    tokens = rng.choices(known, k=words - 1) + ["finis"]
    clusters: list[list[Span]] = [[] for _ in range(30)]
    for start in range(0, words - 8, 5):
        clusters[min(29, int(rng.expovariate(0.2)))].append(
            Span(start + rng.randint(0, 3), start + 3 + rng.randint(0, 4))
        )
    sentences = tuple(tuple(tokens[k : k + 17]) for k in range(0, words, 17))
    return Document(
        "made-up",
        sentences,
        tuple(tuple(sorted(set(c))) for c in clusters),
        tuple(f"Name {k}" for k in range(30)),
        meta={"title": "A made-up book"},
    )


class Reader:
    "Who looks at a book."

    def __init__(self, tab: Tab, folder):
        self.tab, self.folder, self.js, self.press, self.wait = (
            tab,
            folder,
            tab.js,
            tab.press,
            tab.wait,
        )
        tab.call("Page.bringToFront")

    def open(self, what: BookView):
        what.write(self.folder / "page.html")
        self.tab.open(f"{self.folder}/page"[1:])

    def text(self, what: str) -> str:
        return self.js(f"document.querySelector({json.dumps(what)})?.innerText")

    def status(self) -> str:
        return self.text("#status")

    def elements(self) -> int:
        return self.js("document.querySelectorAll('#flow *').length")


@pytest.fixture
def reader(port, tmp_path):  # noqa: F811
    "A page; when the test is over, it has asked nobody, and said no error."
    tab = Tab(port, "file://")
    yield Reader(tab, tmp_path)
    try:
        assert not [
            u
            for u in tab.requests()
            if not u.startswith((f"file://{tmp_path}/", "data:", "about:"))
        ]
        assert not tab.errors()
    finally:
        tab.close()


WALK = """(() => {  // scroll through all of it; which words were seen, and how many elements there were at most
  const words = new Set(), pieces = new Map()
  let most = 0, moved = 0
  for (;;) {
    draw()
    most = Math.max(most, flow.querySelectorAll("*").length)
    for (const [b, e] of seen) {
      if (words.has(b)) continue
      words.add(b)
      for (const p of e.children) for (const m of p.querySelectorAll(".m[data-span]")) {
        const key = `${m.dataset.row} ${m.dataset.span}`
        pieces.set(key, (pieces.get(key) ?? "") + m.textContent.replace(/\\s/g, ""))
      }
      moved += e.textContent.replace(/\\s/g, "").length
    }
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) break
    box.scrollTop += 3*box.clientHeight/4
  }
  return {blocks: words.size, all: book.letters.length, most, letters: moved, pieces: [...pieces]}
})()"""


def test_every_word_and_mention_comes_by_and_little_exists_at_once(reader):
    d = made_up(12_000)
    reader.open(view_book(d))
    got = reader.js(WALK)
    assert got["blocks"] == got["all"] > 150 and got["most"] < 1500
    assert got["letters"] == sum(map(len, d.tokens))
    pieces = dict(got["pieces"])
    names = {n: k for k, n in enumerate(reader.js("book.names"))}
    wanted = {
        f"{names[name]} {s.start} {s.end}": "".join(d.tokens[s.start : s.end + 1])
        for name, c in zip(d.names, d.clusters)
        for s in c
    }
    assert pieces == wanted, "crossing mentions too, piece by piece"


def test_the_last_word_is_reached_and_what_is_read_stays_where_it_is(reader):
    reader.open(view_book(made_up()))
    reader.js("box.focus()")
    reader.press("End")
    reader.wait(
        "[...seen.values()].some(e => e.textContent.endsWith('finis')) && box.scrollTop + box.clientHeight >= box.scrollHeight - 1"
    )
    last = "[...flow.querySelectorAll('p')].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).at(-1)"
    assert reader.js(f"{last}.getBoundingClientRect().bottom <= box.getBoundingClientRect().bottom")
    top = "(() => { const b = blockAt(box.scrollTop + 5); return [b, Math.round(seen.get(b).getBoundingClientRect().top)] })()"
    reader.js("box.scrollTop = 30000; draw()")
    for _ in range(10):  # upwards, where heights are corrected above what is read
        b, y = reader.js(top)
        reader.js("box.scrollTop -= 300; draw()")
        assert (
            abs(
                reader.js(f"Math.round(seen.get({b})?.getBoundingClientRect().top ?? {y + 300})")
                - y
                - 300
            )
            <= 2
        )
    reader.tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=900,
        height=700,
        deviceScaleFactor=1,
        mobile=False,
    )
    b = reader.js("blockAt(box.scrollTop)")
    assert reader.wait(f"Math.abs(blockAt(box.scrollTop) - {b}) < 2"), (
        "another width, the same place"
    )


def test_a_character_is_selected_everywhere_and_stepped_through(reader):
    d = made_up()
    reader.open(view_book(d))
    reader.js("document.querySelector('.who[data-row=\"2\"]').click()")
    name = reader.js("book.names[2]")
    mentions = sorted(d.clusters[d.names.index(name)])
    assert (
        reader.text("#chosen h2") == name
        and reader.js("document.querySelector('.who.on bdi').textContent") == name
    )
    assert reader.js(
        "[...flow.querySelectorAll('.m.on')].every(e => e.dataset.row == 2) && [...flow.querySelectorAll('.m[data-row=\"2\"]')].every(e => e.classList.contains('on'))"
    )
    assert (
        reader.js("document.querySelector('#row-names .on').textContent") == name
        and reader.js("document.querySelector('svg g.on text').textContent") == name
    )
    for k in range(3):
        reader.press("n")
        assert f"{k + 1} of {len(mentions)}" in reader.status()
        assert reader.js("[now.start, now.end]") == list(mentions[k]) and reader.js(
            "(r => r.top >= box.getBoundingClientRect().top && r.bottom <= box.getBoundingClientRect().bottom)(flow.querySelector('.now').getBoundingClientRect())"
        )
    reader.press("p", "p", "p")
    assert reader.js("[now.start, now.end]") == list(mentions[-1]), "round the beginning"
    reader.press("Escape")
    assert reader.js("document.querySelectorAll('.on').length") == 0


def test_the_timeline_and_the_text_lead_to_each_other(reader):
    reader.open(view_book(made_up()))
    reader.js(
        "(l => l.dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: l.getBoundingClientRect().left + .5*l.clientWidth, clientY: l.getBoundingClientRect().top + 30})))(at('lanes'))"
    )
    assert (
        reader.js("picked") == 1 and abs(reader.js("tokenAt(box.scrollTop)") / 30_000 - 0.5) < 0.03
    )
    assert reader.js(
        "(m => Math.abs((m.left + m.width/2 - at('lanes').getBoundingClientRect().left)/at('lanes').clientWidth - .5) < .03)(at('here').getBoundingClientRect())"
    )
    reader.js("flow.querySelector('.m[data-row=\"0\"]').click()")
    assert reader.js("picked") == 0 and "“" in reader.status()


def test_words_are_found_wherever_they_are(reader):
    d = made_up()
    reader.open(view_book(d))
    reader.press("/")
    assert reader.js("document.activeElement.id") == "search"
    reader.js(
        "(s => { s.value = 'FINIS'; s.dispatchEvent(new Event('input', {bubbles: true})) })(at('search'))"
    )
    reader.press("Enter")
    assert (
        reader.status() == "place 1 of 1"
        and reader.js("flow.querySelector('.hit').textContent") == "finis"
    )
    pair = " ".join(d.tokens[7000:7002])
    reader.js(
        f"(s => {{ s.value = {json.dumps(pair)}; s.dispatchEvent(new Event('input', {{bubbles: true}})) }})(at('search'))"
    )
    reader.press("Enter")
    assert reader.js("hits.includes(7000)") and reader.js("flow.querySelector('.hit') != null")
    reader.press("Escape")
    assert reader.js("at('search').value == '' && !flow.querySelector('.hit')")


def wrong_story() -> Document:
    "Two characters in one, one in two, one missed, and one invented."
    c = dict(zip(STORY.names, STORY.clusters))
    merged, ruan = c["Hester Tolley"] + c["Bridie Tolley"], c["Ruan Tolley"]
    return STORY.changed(
        clusters=(merged, ruan[:20], ruan[20:], c["Mr. Lumley"], (Span(4, 4),)), names=(), labels={}
    )


def test_differences_are_marked_and_stepped_through(reader):
    reader.open(view_book(STORY, wrong_story()))
    assert reader.js("document.querySelectorAll('.block.two').length") > 1 and reader.text(
        "#heads"
    ).split() == ["gold", "predicted"]
    n, wanted = reader.js("faults().length"), states(STORY, wrong_story())
    assert n == wanted.total() - wanted["right"]
    seen = Counter()
    for _ in range(n):
        reader.press("d")
        seen[re.search(r"\((.+?)\)", reader.status())[1]] += 1
    assert seen == {k: v for k, v in wanted.items() if k != "right"}
    reader.js("box.scrollTop = 0; pick(book.names.indexOf('Bridie Tolley'))")
    assert reader.js("faults().length") == wanted["another character"]
    reader.js("[...document.querySelectorAll('#columns input')][1].click()")
    assert (
        reader.js("document.querySelectorAll('.block.two').length") == 0 and reader.js("mode") == 1
    )
    reader.press("Escape")
    assert reader.js("faults().length") == n - wanted["missed"], (
        "what is missed cannot be seen here"
    )


def test_several_documents_share_a_page(reader):
    reader.open(view_book(sample(characters=True)))
    assert reader.js("at('books').options.length") == 6 and reader.text("h1") == "The Third Jar"
    reader.js("(s => { s.value = '5'; s.dispatchEvent(new Event('change')) })(at('books'))")
    assert reader.text("h1") == "The Tin" and "Leopold Finck" in reader.text("#list")


def test_a_phone_has_one_part_at_a_time_and_no_wider_page(reader):
    reader.tab.phone()
    reader.open(view_book(STORY, wrong_story()))
    for name in ("characters", "stage", "network", "text"):
        reader.js(f"[...at('panes').children].find(b => b.dataset.pane == '{name}').click()")
        assert reader.js("document.documentElement.scrollWidth") <= 390, name
        shown = reader.js(
            "['characters', 'stage', 'network', 'text'].filter(i => at(i).getClientRects().length)"
        )
        assert shown == [name]
    assert reader.elements() > 5


def test_a_filter_finds_characters_and_everything_has_a_name(reader):
    reader.open(view_book(made_up()))
    reader.press("f")
    reader.js(
        "(s => { s.value = 'name 2'; s.dispatchEvent(new Event('input', {bubbles: true})) })(at('filter'))"
    )
    assert set(reader.text("#list").split("\n")[0::2]) <= {
        "Name 2",
        *(f"Name 2{k}" for k in range(10)),
    }
    reader.press("Enter")
    assert reader.js("picked >= 0")
    nameless = "[...document.querySelectorAll('button, input, select, [role=button], [tabindex]')].filter(e => !(e.getAttribute('aria-label') || e.labels?.length && e.labels[0].textContent || e.textContent.trim())).length"
    assert reader.js(nameless) == 0


def test_a_text_without_ends_of_sentences_and_one_of_a_word(reader):
    reader.open(
        view_book(
            Document(
                "long",
                (tuple(f"w{k}" for k in range(9_000)),),
                ((Span(0, 8_999), Span(4_000, 4_001)),),
            )
        )
    )
    assert reader.js("book.letters.length") == 30 and reader.elements() < 300
    reader.press("n", "n")
    assert reader.status().startswith("“w4000 w4001”")
    reader.open(view_book(Document("one", (("word",),))))
    assert reader.text("#flow").strip() == "word" and reader.text("#present") == "nobody"


def hostile_book() -> Document:
    "A document with hostile texts as key, title, tokens and names."
    n = len(HOSTILE)
    return Document(
        "".join(HOSTILE),
        tuple((t, "said", t) for t in HOSTILE),
        tuple((Span(3 * k, 3 * k), Span(3 * k + 2, 3 * k + 2)) for k in range(n)),
        tuple(HOSTILE),
        meta={"title": "".join(HOSTILE)},
    )


def test_f53_a_book_shows_texts_and_runs_none(reader):
    d = hostile_book()
    reader.open(
        view_book(
            d,
            d.changed(clusters=d.clusters[1:] + d.clusters[:1], names=()),
            (HOSTILE[0], HOSTILE[1]),
        )
    )
    harmless = """window.pwned === undefined && document.querySelectorAll('iframe, img, object, embed').length == 0 && [...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !a.name.startsWith('on')))"""
    for k in range(len(HOSTILE)):
        reader.js(f"pick({k})")
        reader.press("n", "d")
        reader.js(
            f"at('search').value = at('filter').value = {json.dumps(HOSTILE[k])}; find(); list()"
        )
        assert reader.js(harmless) is True, HOSTILE[k]
        reader.js("at('search').value = at('filter').value = ''; find(); list()")
    assert "<script>window.pwned" in reader.js("document.body.textContent") and not re.search(
        r"[\x00-\x08\x1b\u202e]", reader.js("flow.textContent")
    )


def test_f53_nothing_leaves_a_book(port, tmp_path):  # noqa: F811
    with Tree(tmp_path) as tree:
        tab = Tab(port, tree.host)
        try:
            view_book(STORY).write(tmp_path / "page.html")
            tab.call("Page.navigate", url=f"file://{tmp_path}/page.html")
            tab.wait("document.readyState == 'complete' && book != null")
            nothing_leaves(tab.js, tab, tree)
        finally:
            tab.close()
