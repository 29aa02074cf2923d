"A view of a book: characters are counted and aligned rightly, and the page shows every word and every mention of it while little of it exists."

import json, random, re
from collections import Counter
import pytest
from hypothesis import given, strategies as st
from test_looking import NASTY, SIZE, document, free, once
import tools
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.files import CANARY
from refnb.core.reading import write_documents
from refnb.core.settings import load_settings
from refnb.core.types import DataError, Span
from refnb.metrics.differences import matched
from refnb.models.running import run
from refnb.results.pages.book_view import (
    STATES,
    aligned,
    book_data,
    cast_of,
    layout,
    meetings,
    view_any,
    view_book,
)

STORY = sample(characters=True)[0]


def states(gold, predicted) -> Counter:
    return Counter(STATES[x] for x in aligned(matched(gold, predicted)).states.values())


# Aligning and counting


@given(once, once, st.randoms())
def test_every_mention_has_one_state(gold, predicted, rng):
    g, p = document(gold), document(predicted)
    n, m = states(g, p), matched(g, p)
    assert n.total() - n["spurious"] == len(g.mentions)
    assert n.total() - n["missed"] == len(p.mentions)
    assert set(states(g, g)) <= {"right"}
    shared = Counter((m.predicted[s], m.gold[s]) for s in m.gold.keys() & m.predicted.keys())
    if len(set(shared.values())) == len(shared):  # then the order of clusters means nothing
        order = rng.sample(range(len(predicted)), len(predicted))
        assert n == states(g, document([predicted[k] for k in order]))


def test_a_cluster_is_whose_most_it_holds():
    spans = lambda *at: [(k, k) for k in range(*at)]
    gold = document([spans(5), spans(5, 9)])
    pieces = document([spans(2), spans(2, 5), spans(5, 9)])
    assert states(gold, document([spans(9)])) == {"right": 5, "another character": 4}
    assert states(gold, pieces) == {"right": 7, "in a piece apart": 2}
    assert states(gold, document([[(10, 10)]])) == {"missed": 9, "spurious": 1}


@given(free, free)
def test_the_cast_counts_every_mention(gold, predicted):
    g, p = (document(c, ["w"] * SIZE) for c in (gold, predicted))
    character = aligned(matched(g, p)).character
    cast = cast_of([g, p], character)
    assert [sum(s) for s in cast.sizes] == [len(g.mentions), len(p.mentions)]
    assert cast.sizes[0] == sorted(cast.sizes[0], reverse=True) and all(map(sum, zip(*cast.sizes)))
    assert all(cast.rows[1][k] == cast.rows[0][i] for k, i in character.items())


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


places = st.tuples(st.integers(0, 11), st.integers(0, 11))


@given(st.integers(0, 12), st.dictionaries(places, st.integers(1, 50)))
def test_every_node_has_its_place_in_the_square(n, weights):
    met = {(a, b): w for (a, b), w in weights.items() if a < b < n}
    got = layout(n, met, 30)
    assert len(got) == n and all(0 <= x <= 1 for spot in got for x in spot)
    assert got == layout(n, met, 30) and (n < 3 or len(set(got)) == n)


def test_the_work_grows_no_faster_than_the_book():
    small, large = made_up(2_000), made_up(8_000)
    beside = lambda d: book_data(d, d.changed(clusters=d.clusters[1:] + d.clusters[:1], names=()))
    assert tools.growth(beside, small, large) < 6


@given(free, st.lists(st.sampled_from(NASTY), min_size=SIZE, max_size=SIZE))
def test_tokens_keep_their_places(clusters, tokens):
    d = document(clusters, tokens)
    told = book_data(d)
    assert len(" ".join(told["text"]).split(" ")) == SIZE
    at, found, packed = 0, [], told["mentions"][0]
    for step, width, cluster, _ in zip(*(packed[k::4] for k in range(4))):
        at += step
        found.append((at, at + width, cluster))
    assert found == sorted((*s, i) for i, c in enumerate(d.clusters) for s in c)


def test_what_cannot_be_shown_is_one_line():
    for call, said in [
        (
            [Document("d", clusters=((Span(0, 1),),))],
            "document 'd': has no text; give one that has",
        ),
        ([[]], "there are no documents"),
        ([[STORY], [Document("other", STORY.sentences)]], "no document has both gold and predict"),
        (
            [STORY, STORY.changed(sentences=(("x",) * STORY.size,))],
            "words differ, the first is 'x'",
        ),
    ]:
        with pytest.raises(DataError, match=said):
            view_book(*call)
    assert book_data(Document("d", (("a",), (), ("b",))))["text"] == ["a", "b"]
    assert book_data(Document("d", (("a",),)), Document("d"))["mentions"] == [[], []]


# Runs, files and the command line


def test_a_run_is_shown_beside_gold_and_beside_another(tmp_path):
    folders = {"runs": str(tmp_path / "runs"), "reports": str(tmp_path / "reports")}
    s = load_settings("/", env={}, offline=True, **folders)
    run("sample/bookcoref", "pattern-matching", s=s)
    name = "sample/bookcoref:pattern-matching"
    books = view_any(name, s=s).books
    assert len(books) == 6 and books[0]["labels"] == ["gold", "pattern-matching"]
    again = view_any(name, name, s=s).books[0]
    assert again["labels"] == ["pattern-matching"] * 2 and not again["faults"]
    windows = run("sample/bookcoref-split", "pattern-matching", s=s)
    assert view_any(windows, s=s).books[0]["labels"] == ["pattern-matching"], "windows have no gold"
    own = run([STORY], "pattern-matching", s=s)
    shown = view_any(own, s=s).books[0]["labels"]
    assert shown == ["gold", "pattern-matching"], "its folder keeps documents of your own"
    (own.folder / "documents.jsonl").unlink()
    with pytest.raises(DataError, match="its documents are not in its folder; name their file"):
        view_any(own, s=s)


def test_the_command_shows_files(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    write_documents([STORY], "gold.jsonl")
    fewer = STORY.changed(clusters=STORY.clusters[1:], names=STORY.names[1:], labels={})
    write_documents([fewer], "said.jsonl")
    said = tools.here(capsys, "view", "gold.jsonl", "--other", "said.jsonl", "--json")
    size = (tmp_path / "view.html").stat().st_size
    assert json.loads(said.out) == {"file": "view.html", "documents": 1, "bytes": size}
    page = (tmp_path / "view.html").read_text()
    assert page.startswith(f"<!-- {CANARY['canary']} {CANARY['wish']} -->\n<!DOCTYPE html>")
    (tmp_path / "empty.jsonl").write_text("")
    tools.one_line(tools.here(capsys, "view", "empty.jsonl"), 1, "empty.jsonl: the file is empty")


# In a browser


def made_up(words: int = 12_000, seed: int = 3) -> Document:
    "A book of made-up words: mentions that nest and cross, over ends of sentences too; thirty characters; the last word is its own."
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
    d = made_up()
    reader.show(view_book(d).page())
    got = reader.js(WALK)
    assert got["blocks"] == got["all"] > 150 and got["most"] < 1500
    assert got["letters"] == sum(map(len, d.tokens))
    names = {n: k for k, n in enumerate(reader.js("book.names"))}
    wanted = {
        f"{names[name]} {s.start} {s.end}": "".join(d.tokens[s.start : s.end + 1])
        for name, c in zip(d.names, d.clusters)
        for s in c
    }
    assert dict(got["pieces"]) == wanted, "crossing mentions too, piece by piece"


def test_the_last_word_is_reached_and_what_is_read_stays_where_it_is(reader):
    reader.show(view_book(made_up()).page())
    reader.js("box.focus()")
    reader.press("End")
    reader.wait("[...seen.values()].some(e => e.textContent.endsWith('finis'))")
    top = "(() => { const b = blockAt(box.scrollTop + 5); return [b, Math.round(seen.get(b).getBoundingClientRect().top)] })()"
    reader.js("box.scrollTop = 30000; draw()")
    for _ in range(10):  # upwards, where heights are corrected above what is read
        b, y = reader.js(top)
        reader.js("box.scrollTop -= 300; draw()")
        now = f"Math.round(seen.get({b})?.getBoundingClientRect().top ?? {y + 300})"
        assert abs(reader.js(now) - y - 300) <= 2
    b = reader.js("blockAt(box.scrollTop)")
    reader.size(900, 700)
    assert reader.wait(f"Math.abs(blockAt(box.scrollTop) - {b}) < 2"), "another width, same place"


def test_a_character_is_selected_everywhere_and_stepped_through(reader):
    d = made_up()
    reader.show(view_book(d).page())
    reader.js("document.querySelector('.who[data-row=\"2\"]').click()")
    name = reader.js("book.names[2]")
    mentions = sorted(d.clusters[d.names.index(name)])
    for where in ("#chosen h2", ".who.on bdi", "#row-names .on", "svg g.on text"):
        assert reader.js(f"document.querySelector('{where}').textContent") == name, where
    assert reader.js("[...flow.querySelectorAll('.m.on')].every(e => e.dataset.row == 2)")
    inside = "(r => r.top >= box.getBoundingClientRect().top && r.bottom <= box.getBoundingClientRect().bottom)(flow.querySelector('.now').getBoundingClientRect())"
    for k in range(3):
        reader.press("n")
        assert f"{k + 1} of {len(mentions)}" in reader.text("#status")
        assert reader.js("[now.start, now.end]") == list(mentions[k]) and reader.js(inside)
    reader.press("p", "p", "p")
    assert reader.js("[now.start, now.end]") == list(mentions[-1]), "round the beginning"
    reader.press("Escape")
    assert reader.js("document.querySelectorAll('.on').length") == 0
    reader.press("f")
    reader.set("filter", "name 2")
    found = reader.text("#list").split("\n")[0::2]
    assert found and all(n.startswith("Name 2") for n in found)
    reader.press("Enter")
    assert reader.js("picked >= 0")


def test_the_timeline_and_the_text_lead_to_each_other(reader):
    reader.show(view_book(made_up()).page())
    reader.js(
        "(r => at('lanes').dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: r.left + r.width/2, clientY: r.top + 30})))(at('lanes').getBoundingClientRect())"
    )
    assert reader.js("picked") == 1
    assert abs(reader.js("tokenAt(box.scrollTop)/book.tokens.length") - 0.5) < 0.03
    reader.js("flow.querySelector('.m[data-row=\"0\"]').click()")
    assert reader.js("picked") == 0 and "“" in reader.text("#status")


def test_words_are_found_wherever_they_are(reader):
    d = made_up()
    reader.show(view_book(d).page())
    reader.press("/")
    reader.set("search", "FINIS")
    reader.press("Enter")
    assert reader.text("#status") == "place 1 of 1" and reader.text(".hit") == "finis"
    reader.set("search", " ".join(d.tokens[7000:7002]))
    reader.press("Enter")
    assert reader.js("hits.includes(7000)")
    reader.press("Escape")
    assert reader.js("at('search').value == '' && !flow.querySelector('.hit')")


def wrong_story() -> Document:
    "Two characters in one, one in two, one missed, and one invented."
    c = dict(zip(STORY.names, STORY.clusters))
    merged, ruan = c["Hester Tolley"] + c["Bridie Tolley"], c["Ruan Tolley"]
    clusters = (merged, ruan[:20], ruan[20:], c["Mr. Lumley"], (Span(4, 4),))
    return STORY.changed(clusters=clusters, names=(), labels={})


def test_differences_are_marked_and_stepped_through(reader):
    reader.show(view_book(STORY, wrong_story()).page())
    assert reader.text("#heads").split() == ["gold", "predicted"]
    n, wanted = reader.js("faults().length"), states(STORY, wrong_story())
    assert n == wanted.total() - wanted["right"]
    seen = Counter()
    for _ in range(n):
        reader.press("d")
        seen[re.search(r"\((.+?)\)", reader.text("#status"))[1]] += 1
    assert seen == {k: v for k, v in wanted.items() if k != "right"}
    reader.js("pick(book.names.indexOf('Bridie Tolley'))")
    assert reader.js("faults().length") == wanted["another character"]
    reader.js("[...document.querySelectorAll('#columns input')][1].click()")
    assert reader.js("[document.querySelectorAll('.block.two').length, mode]") == [0, 1]
    reader.press("Escape")
    assert reader.js("faults().length") == n - wanted["missed"], "what is missed is not seen here"


def test_names_in_the_network_lie_on_no_other(reader):
    reader.show(view_book(STORY, wrong_story()).page())
    boxes = "[...document.querySelectorAll('#graph text')].map(e => e.getBoundingClientRect()).map(r => [r.left, r.right, r.top + 3, r.bottom - 3])"
    found = reader.js(boxes)
    assert len(found) > 3
    for k, (left, right, top, bottom) in enumerate(found):
        for a, b, c, d in found[:k]:
            assert right <= a or b <= left or bottom <= c or d <= top


def test_several_documents_share_a_page_and_a_phone_has_one_part_at_a_time(reader):
    reader.show(view_book(sample(characters=True)).page())
    assert reader.js("at('books').options.length") == 6 and reader.text("h1") == "The Third Jar"
    reader.set("books", "5", "change")
    assert reader.text("h1") == "The Tin" and "Leopold Finck" in reader.text("#list")
    nameless = "[...document.querySelectorAll('button, input, select, [role=button], [tabindex]')].filter(e => !(e.getAttribute('aria-label') || e.labels?.length && e.labels[0].textContent || e.textContent.trim())).length"
    assert reader.js(nameless) == 0
    reader.phone()
    reader.show(view_book(STORY, wrong_story()).page())
    parts = ["characters", "stage", "network", "text"]
    for name in parts:
        reader.js(f"[...at('panes').children].find(b => b.dataset.pane == '{name}').click()")
        assert reader.js("document.documentElement.scrollWidth") <= 390, name
        assert reader.js(f"{parts}.filter(i => at(i).getClientRects().length)") == [name]


def test_a_text_without_ends_of_sentences_and_one_of_a_word(reader):
    words = tuple(f"w{k}" for k in range(9_000))
    reader.show(
        view_book(Document("long", (words,), ((Span(0, 8_999), Span(4_000, 4_001)),))).page()
    )
    assert reader.js("[book.letters.length, flow.querySelectorAll('*').length < 300]") == [30, True]
    reader.press("n", "n")
    assert reader.text("#status").startswith("“w4000 w4001”")
    reader.show(view_book(Document("one", (("word",),))).page())
    assert reader.text("#flow").strip() == "word" and reader.text("#present") == "nobody"
