"A view of a book: characters are aligned, every word comes by, and little exists at once."

import json, random, re
from collections import Counter
import pytest
import refnb
from hypothesis import given, strategies as st
from pages_documents import NASTY, SIZE, document, free, once
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.files import CANARY
from refnb.core.types import DataError, Span
from refnb.metrics.differences import matched
from refnb.results.pages.book_view import PLACE_STATES, aligned, layout, meetings
from tools import growth, here, live_in, one_line

pytest_plugins = "pages_browser"

STORY = sample(characters=True)[0]


# Aligning and counting


def states(gold: Document, predicted: Document) -> Counter:
    return Counter(PLACE_STATES[x] for x in aligned(matched(gold, predicted)).states.values())


@given(once, once, st.randoms())
def test_every_mention_has_one_state_in_any_order_of_clusters(gold, predicted, rng):
    g, p = document(gold), document(predicted)
    n, m = states(g, p), matched(g, p)
    assert n.total() - n["spurious"] == len(g.mentions)
    assert n.total() - n["missed"] == len(p.mentions)
    assert set(states(g, g)) <= {"right"}
    shared = Counter((m.predicted[s], m.gold[s]) for s in m.gold.keys() & m.predicted.keys())
    if len(set(shared.values())) == len(shared):  # of equals the first one counts
        order = rng.sample(range(len(predicted)), len(predicted))
        assert n == states(g, document([predicted[k] for k in order]))


def test_a_cluster_is_whose_most_it_holds():
    spans = lambda *at: [(k, k) for k in range(*at)]
    gold = document([spans(5), spans(5, 9)])
    pieces = document([spans(2), spans(2, 5), spans(5, 9)])
    assert states(gold, document([spans(9)])) == {"right": 5, "another character": 4}
    assert states(gold, pieces) == {"right": 7, "in a piece apart": 2}
    assert states(gold, document([[(10, 10)]])) == {"missed": 9, "spurious": 1}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 59))), st.integers(0, 3))
def test_meetings_are_those_of_a_search_of_all_pairs(places, before):
    inside = {(who, token // 10) for who, token in places if who < 4}
    expected: Counter = Counter()
    for a in range(4):
        for b in range(a + 1, 4):
            for i in range(6):
                near = lambda x, i=i: any((x, i - k) in inside for k in range(before + 1))
                expected[a, b] += ((a, i) in inside and near(b)) or ((b, i) in inside and near(a))
    assert meetings(places, list(range(0, 60, 10)), {0, 1, 2, 3}, before) == +expected


pairs = st.tuples(st.integers(0, 11), st.integers(0, 11))


@given(st.integers(0, 12), st.dictionaries(pairs, st.integers(1, 50)))
def test_every_character_has_its_own_place_in_the_network_always_the_same(n, weights):
    met = {(a, b): w for (a, b), w in weights.items() if a < b < n}
    places = layout(n, met, 30)
    assert len(places) == n and all(0 <= x <= 1 for place in places for x in place)
    assert places == layout(n, met, 30) and (n < 3 or len(set(places)) == n)


def test_work_grows_no_faster_than_the_book():
    small, large = made_up(2_000), made_up(8_000)
    moved = lambda d: d.changed(clusters=d.clusters[1:] + d.clusters[:1], names=())
    assert growth(lambda d: refnb.view_book(d, moved(d)).page(), small, large) < 6


# Documents, runs, files and the command


@given(free, st.lists(st.sampled_from(NASTY), min_size=SIZE, max_size=SIZE))
def test_any_tokens_keep_their_places(clusters, tokens):
    page = refnb.view_book(document(clusters, tokens)).page()
    data = json.loads(re.search('id="d0">(.*?)</script>', page)[1])
    assert len(" ".join(data["text"]).split(" ")) == SIZE


def test_what_cannot_be_shown_is_one_line():
    other = STORY.changed(sentences=(("x",) * STORY.size,))
    for call, told in [
        ([Document("d", clusters=((Span(0, 1),),))], "document 'd': has no text"),
        ([[]], "no documents"),
        ([[STORY], [Document("other", STORY.sentences)]], "gold and predict"),
        ([STORY, other], "the first is 'x'"),
    ]:
        with pytest.raises(DataError) as e:
            refnb.view_book(*call).page()
        assert told in str(e.value) and "\n" not in str(e.value)
    assert refnb.view_book(Document("d", (("a",), (), ("b",))), Document("d")).page()


def test_a_run_is_shown_beside_gold_and_beside_another(tmp_path, settings):
    s, name = settings(), "sample/bookcoref:pattern-matching"
    labels = lambda *what: refnb.view(*what, s=s).books[0]["labels"]
    refnb.run("sample/bookcoref", "pattern-matching", s=s)
    assert refnb.view(name, s=s).counts == {"documents": 6}
    assert labels(name) == ["gold", "pattern-matching"]
    assert labels(name, name) == ["pattern-matching"] * 2
    windows = refnb.run("sample/bookcoref-split", "pattern-matching", s=s)
    assert labels(windows) == ["pattern-matching"], "windows have no gold"
    own = refnb.run([STORY], "pattern-matching", s=s)
    assert labels(own) == ["gold", "pattern-matching"], "its folder keeps documents of your own"
    (own.folder / "documents.jsonl").unlink()
    with pytest.raises(DataError, match="its documents are not in its folder"):
        refnb.view(own, s=s)


def test_the_command_shows_files(tmp_path, monkeypatch, capsys):
    live_in(monkeypatch, tmp_path)
    refnb.write_documents([STORY], "gold.jsonl")
    fewer = STORY.changed(clusters=STORY.clusters[1:], names=STORY.names[1:], labels={})
    refnb.write_documents([fewer], "said.jsonl")
    said = here(capsys, "view", "gold.jsonl", "--other", "said.jsonl", "--json")
    page = (tmp_path / "view.html").read_text()
    size = (tmp_path / "view.html").stat().st_size
    assert json.loads(said.out) == {"file": "view.html", "documents": 1, "bytes": size}
    assert page.startswith(f"<!-- {CANARY['canary']} {CANARY['wish']} -->\n<!DOCTYPE html>")
    (tmp_path / "empty.jsonl").write_text("")
    one_line(here(capsys, "view", "empty.jsonl"), 1, "empty.jsonl")


# In a browser


def made_up(words: int = 8_000, seed: int = 3) -> Document:
    "A book of thirty characters, whose mentions nest and cross; the last word is unique."
    rng = random.Random(seed)
    known = ["".join(rng.choices("abcdefghilmnoprstu", k=rng.randint(2, 9))) for _ in range(3000)]
    tokens = rng.choices(known, k=words - 1) + ["finis"]
    clusters: list[set[Span]] = [set() for _ in range(30)]
    for start in range(0, words - 8, 5):
        s = Span(start + rng.randint(0, 3), start + 3 + rng.randint(0, 4))
        clusters[min(29, int(rng.expovariate(0.2)))].add(s)
    sentences = tuple(tuple(tokens[k : k + 17]) for k in range(0, words, 17))
    names = tuple(f"Name {k}" for k in range(30))
    return Document("made-up", sentences, tuple(tuple(sorted(c)) for c in clusters), names)


BOOK = made_up()


def two_sides() -> tuple[Document, Document]:
    "A story, and a prediction: two characters in one, one in two, one missed, one invented."
    c = {name: cluster[:9] for name, cluster in zip(STORY.names, STORY.clusters)}
    names = ("Hester Tolley", "Bridie Tolley", "Ruan Tolley", "Mr. Lumley", "Mr. Pask")
    hester, bridie, ruan, lumley, pask = map(c.get, names)
    gold = STORY.changed(clusters=(hester, bridie, ruan, lumley, pask), names=names, labels={})
    clusters = (hester + bridie[:6], ruan[:6], ruan[6:], lumley, (Span(4, 4),))
    return gold, gold.changed(clusters=clusters, names=())


@pytest.fixture
def shown(reader):
    "The book, open at its beginning."
    reader.show(refnb.view_book(BOOK).page())
    return reader


WALK = """(async () => {  // scroll through all: words, mentions, and the most elements at a time
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)))
  const box = at("text"), words = new Map(), pieces = new Map()
  let most = 0
  for (;;) {
    most = Math.max(most, box.querySelectorAll("*").length)
    for (const block of box.querySelectorAll(".block")) {
      if (words.has(block.dataset.at)) continue
      words.set(block.dataset.at, block.textContent.replace(/\\s/g, ""))
      for (const m of block.querySelectorAll(".m[data-span]")) {
        const key = `${m.dataset.row} ${m.dataset.span}`
        pieces.set(key, (pieces.get(key) ?? "") + m.textContent.replace(/\\s/g, ""))
      }
    }
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) break
    box.scrollTop += 3*box.clientHeight/2
    await frame()
  }
  const order = [...words].sort((a, b) => a[0].replace(",", "") - b[0].replace(",", ""))
  return {most, text: order.map(x => x[1]).join(""), pieces: [...pieces]}
})()"""


def test_every_word_and_mention_comes_by_and_little_exists_at_once(shown):
    seen = shown.js(WALK)
    assert seen["text"] == "".join(BOOK.tokens) and seen["most"] < 1500
    names = shown.js("[...document.querySelectorAll('#list .who bdi')].map(e => e.textContent)")
    wanted = {
        f"{names.index(name)} {s.start} {s.end}": "".join(BOOK.tokens[s.start : s.end + 1])
        for name, cluster in zip(BOOK.names, BOOK.clusters)
        for s in cluster
    }
    assert dict(seen["pieces"]) == wanted, "crossing mentions too, piece by piece"


AT_TOP = """(() => {  // the block at the top of the text: which, and where it is
  const top = e => e.getBoundingClientRect().top, box = top(at("text"))
  const blocks = [...document.querySelectorAll("#flow .block")]
  const places = blocks.map(e => [e.dataset.at, Math.round(top(e) - box)])
  return places.filter(b => b[1] <= 5).sort((a, b) => b[1] - a[1])[0]
})()"""


def test_the_last_word_is_reached_and_what_is_read_stays_where_it_is(shown):
    frame = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
    shown.js("at('text').focus()")
    shown.press("End")
    shown.wait(
        "[...document.querySelectorAll('.block')].some(e => e.textContent.endsWith('finis'))"
    )
    shown.js(f"at('text').scrollTop = 20000; {frame}")
    for _ in range(10):  # upwards, where heights are corrected above what is read
        name, top = shown.js(AT_TOP)
        shown.js(f"at('text').scrollTop -= 300; {frame}")
        here = f"document.querySelector('.block[data-at=\"{name}\"]')?.getBoundingClientRect().top"
        box = "at('text').getBoundingClientRect().top"
        assert (
            abs(shown.js(f"Math.round(({here} ?? {top + 300} + {box}) - {box})") - top - 300) <= 2
        )
    place = lambda: int(shown.js(AT_TOP)[0].replace(",", ""))
    before = place()
    shown.size(900, 700)
    shown.wait(f"{AT_TOP} && Math.abs({AT_TOP}[0].replace(',', '') - {before}) < 200")


def test_a_character_is_selected_everywhere_and_stepped_through(shown):
    shown.js("document.querySelector('.who[data-row=\"2\"]').click()")
    name = shown.text(".who[data-row='2'] bdi")
    mentions = sorted(BOOK.clusters[BOOK.names.index(name)])
    for where in ("#chosen h2", ".who.on bdi", "#row-names .on", "svg g.on text"):
        assert shown.js(f"document.querySelector('{where}').textContent") == name, where
    assert shown.js("[...document.querySelectorAll('.m.on')].every(e => e.dataset.row == 2)")
    inside = """(([a, b]) => a.top >= b.top && a.bottom <= b.bottom)(
        [document.querySelector('.now'), at('text')].map(e => e.getBoundingClientRect()))"""
    now = "document.querySelector('.now').dataset.span"
    for k in range(3):
        shown.press("n")
        assert f"{k + 1} of {len(mentions)}" in shown.text("#status")
        assert shown.js(now) == "{} {}".format(*mentions[k]) and shown.js(inside)
    shown.press("p", "p", "p")
    assert shown.js(now) == "{} {}".format(*mentions[-1]), "round the beginning"
    shown.press("Escape")
    assert shown.js("document.querySelectorAll('.on').length") == 0
    shown.press("f")
    shown.set("filter", "name 2")
    listed = shown.text("#list").split("\n")[0::2]
    assert listed and all(n.startswith("Name 2") for n in listed)
    shown.press("Enter")
    assert shown.text("#chosen h2") == listed[0]


def test_the_timeline_and_the_text_lead_to_each_other(shown):
    shown.js("""(r => at('lanes').dispatchEvent(new MouseEvent('click',
        {bubbles: true, clientX: r.left + r.width/2, clientY: r.top + 30})))(
        at('lanes').getBoundingClientRect())""")
    assert shown.text("#chosen h2") == shown.text(".who[data-row='1'] bdi")
    token = int(shown.js(AT_TOP)[0].replace(",", ""))
    assert abs(token / BOOK.size - 0.5) < 0.03
    shown.js("document.querySelector('.m[data-row=\"0\"]').click()")
    assert shown.text("#chosen h2") == shown.text(".who[data-row='0'] bdi")
    assert "“" in shown.text("#status")


def test_words_are_found_wherever_they_are(shown):
    shown.press("/")
    shown.set("search", "FINIS")
    shown.press("Enter")
    assert shown.text("#status") == "place 1 of 1" and shown.text(".hit") == "finis"
    phrase = " ".join(BOOK.tokens[5000:5002])
    shown.set("search", phrase)
    shown.press("Enter")
    assert shown.text(".hit") == phrase and "place 1 of 1" in shown.text("#status")
    shown.press("Escape")
    assert shown.js("at('search').value == '' && !document.querySelector('.hit')")


def test_differences_are_marked_and_stepped_through(reader):
    gold, predicted = two_sides()
    reader.show(refnb.view_book(gold, predicted).page())
    assert reader.text("#heads").split() == ["gold", "predicted"]
    wanted = states(gold, predicted)
    assert wanted.pop("right") and len(wanted) == 4

    def differences(n: int) -> Counter:
        "What n steps meet; the next one is at the first again."
        met = []
        for _ in range(n + 1):
            reader.press("d")
            place = reader.js("document.querySelector('.now').dataset.span")
            met.append((place, reader.text("#status")))
        assert met[0] == met[-1] and len(set(met)) == n, met
        return Counter(re.search(r"\((.+?)\)", told)[1] for _, told in met[:-1])

    assert differences(wanted.total()) == wanted
    people = "[...document.querySelectorAll('#list .who')]"
    reader.js(f"{people}.find(e => e.innerText.includes('Bridie')).click()")
    mine = {"another character": 6, "missed": 3}
    assert differences(9) == mine
    reader.js("[...document.querySelectorAll('#columns input')][1].click()")
    assert reader.js("document.querySelectorAll('.block.two').length") == 0
    reader.press("Escape")
    seen = wanted - Counter(missed=wanted["missed"])
    assert differences(seen.total()) == seen, "what is missed is not seen here"


def test_names_in_the_network_lie_on_no_other(reader):
    reader.show(refnb.view_book(*two_sides()).page())
    edges = "(r => [r.left, r.right, r.top + 3, r.bottom - 3])(e.getBoundingClientRect())"
    boxes = reader.js(f"[...document.querySelectorAll('#graph text')].map(e => {edges})")
    assert len(boxes) > 3
    for k, (left, right, top, bottom) in enumerate(boxes):
        for a, b, c, d in boxes[:k]:
            assert right <= a or b <= left or bottom <= c or d <= top


def test_several_documents_share_a_page_and_a_phone_has_one_part_at_a_time(reader):
    reader.show(refnb.view_book(sample(characters=True)).page())
    assert reader.js("at('books').options.length") == 6 and reader.text("h1") == "The Third Jar"
    reader.set("books", "5", "change")
    assert reader.text("h1") == "The Tin" and "Leopold Finck" in reader.text("#list")
    fields = "[...document.querySelectorAll('button, input, select, [role=button], [tabindex]')]"
    named = "e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent.trim()"
    assert reader.js(f"{fields}.filter(e => !({named})).length") == 0
    reader.phone()
    reader.show(refnb.view_book(*two_sides()).page())
    parts = ["characters", "stage", "network", "text"]
    for name in parts:
        reader.js(f"document.querySelector('#panes [data-pane={name}]').click()")
        assert reader.js("document.documentElement.scrollWidth") <= 390, name
        assert reader.js(f"{parts}.filter(i => at(i).getClientRects().length)") == [name]


def test_a_text_without_ends_of_sentences_and_one_of_a_word(reader):
    mentions = ((Span(0, 8_999), Span(4_000, 4_001)),)
    long = Document("long", (tuple(f"w{k}" for k in range(9_000)),), mentions)
    reader.show(refnb.view_book([long, Document("one", (("word",),))]).page())
    assert reader.js("document.querySelectorAll('#flow *').length") < 300
    reader.press("n", "n")
    assert reader.text("#status").startswith("“w4000 w4001”")
    reader.set("books", "1", "change")
    assert reader.text("#flow").strip() == "word" and reader.text("#present") == "nobody"
