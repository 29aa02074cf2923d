"What holds for every page: others' text is text, no key is in it, it loads and sends nothing."

import hashlib, json, re
from base64 import b64encode
from pathlib import Path
from tempfile import gettempdir
import pytest
from browser import HARMLESS, nothing_leaves
from pages_markup import Markup, file_name, hostile_board, hostile_report, rendered, seen
from pages_runs import answered
from payloads import HOSTILE, asked
from servers import Tree
import refnb
from refnb.benchmarks.altentities.builder import annotation_page, draft_of
from refnb.benchmarks.altentities.questions import read_altentities
from refnb.core.documents import Document
from refnb.core.settings import load_settings, packaged
from refnb.core.types import Answer, DataError, Span
from refnb.metrics.choice import outcomes
from refnb.metrics.differences import compare_texts, entity_changes
from refnb.models.annotation.checking import correction_page

pytest_plugins = "pages_browser"


# Every page, with texts in every field


def book_of(*texts: str) -> Document:
    "A document whose every text is a sentence of three words, two of them mentions."
    spans = tuple((Span(3 * k, 3 * k), Span(3 * k + 2, 3 * k + 2)) for k in range(len(texts)))
    title = "".join(texts)
    sentences = tuple((text, "said", text) for text in texts)
    return Document(title, sentences, spans, texts, meta={"title": title})


def two_runs(folder, *texts: str):
    "A view of two runs on one question for each text."
    questions, runs = [asked(text, k) for k, text in enumerate(texts)], []
    about = dict(prompt="".join(texts), settings={text: text for text in texts})
    for k in (0, 1):
        answers = [
            Answer(q.id, (k,), (1.0, -1.0), raw=q.doc_key, reasoning=q.doc_key) for q in questions
        ]
        name, task = f"{texts[0][:60]}{k}", f"toy/{texts[0][:50]}"
        runs.append(answered(folder, questions, answers, name, task, **about))
    return refnb.view(*runs)


def ranking(folder, *texts: str):
    "A report of a task for each text: two systems, and one that is not complete."
    folder = folder / "ranked"
    for k, text in enumerate(texts):
        questions = [asked(text, i).changed(right=(i % 2,)) for i in range(4)]
        for j, system in enumerate("ab"):
            answers = [Answer(q.id, ((i == j) % 2,)) for i, q in enumerate(questions)]
            answered(folder, questions, answers, f"{text}{system}", f"{k} {text}")
        answered(folder, questions, [], f"{text}c", f"{k} {text}", complete=False)
    return refnb.report(folder / "runs", s=load_settings("/", env={}, offline=True))


def drafts(*texts: str) -> list:
    "Questions of the annotation page, a book's and a song's in turn."
    released = read_altentities(packaged("data/sample/altentities.json"), "sample")
    first = {q.domain: q for q in reversed(released)}
    kinds, out = [draft_of(first[domain], "sample", 0) for domain in ("BOOKS", "SONGS")], []
    for k, text in enumerate(texts):
        d, choices = kinds[k % 2], []
        for j, choice in enumerate(d.choices):
            choices.append(choice.changed(name=f"{text} {j}", description=text, image_url=text))
        out.append(d.changed(id=f"{k} {text}", question=text, choices=tuple(choices)))
    return out


def makers(folder, *texts: str) -> dict:
    "What makes each page, and each thing that a notebook shows; runs and documents are made now."
    d, title, q = book_of(*texts), "".join(texts), asked(texts[0])
    other = d.changed(clusters=d.clusters[1:] + d.clusters[:1], names=())
    runs, ranked = two_runs(folder, *texts), ranking(folder, *texts)
    return {
        "viewer": runs.page,
        "viewer's table": runs._repr_html_,
        "viewer's frame": lambda: runs.frame()._repr_html_(),
        "book": refnb.view_book(d, other, (texts[0], texts[-1])).page,
        "correction": lambda: correction_page(d),
        "report": ranked.page,
        "report's table": ranked._repr_html_,
        "annotation": lambda: annotation_page(drafts(*texts), title, shuffle=False, send=title),
        "question": q._repr_html_,
        "document": d._repr_html_,
        "entities": d.entities()._repr_html_,
        "scores": refnb.score(outcomes([q], [Answer(q.id, (0,))]), "kind")._repr_html_,
        "side by side": compare_texts(d, other)._repr_html_,
        "differences": entity_changes(d, other)._repr_html_,
    }


PAGES = ("viewer", "book", "correction", "report", "annotation")
LOOKS = ("question", "document", "entities", "scores", "side by side", "differences")
PLAIN = [f"plain {k}" for k in range(len(HOSTILE))]


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> dict:
    return makers(tmp_path_factory.mktemp("plain"), *PLAIN)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> dict:
    return makers(tmp_path_factory.mktemp("hostile"), *HOSTILE)


def test_others_text_is_no_markup_in_any_page(plain, hostile):
    for name in plain:
        page = hostile[name]()
        got, known = Markup(page), Markup(plain[name]())
        if name in LOOKS:  # a longer text can have more lines, and a tip
            assert got.tags <= known.tags | {"small"}, name
            assert {k for k, _ in got.attrs} <= {k for k, _ in known.attrs} | {"title"}, name
        else:
            assert got.tags == known.tags, name
            assert [k for k, _ in got.attrs] == [k for k, _ in known.attrs], name
        data = re.findall(r'json" id="\w+">(.*?)</script>', page, re.S)
        assert len(data) >= (name in PAGES), name
        for inside in data:
            assert "<" not in inside and inside.isascii() and json.loads(inside), name


def test_a_page_loads_nothing_and_sends_nothing(plain):
    leaving = (
        r"fetch|XMLHttp|WebSocket|sendBeacon|innerHTML|outerHTML|insertAdjacent|document\.write|"
        r"\beval\b|Function\(|import\("
    )
    for name in PAGES:
        page = plain[name]()
        policy = re.search('Content-Security-Policy" content="([^"]+)"', page)[1]
        assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
        own = {t: re.search(rf"<{t}>(.*?)</{t}>", page, re.S)[1] for t in ("style", "script")}
        for tag, inside in own.items():
            digest = b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy, name
        assert not re.search(r"url\(|@import|https?:", own["style"]), name
        assert not re.search(leaving, own["script"]), name
        loaded = [v for k, v in Markup(page).attrs if k in ("src", "href", "action", "srcset")]
        assert all(v.startswith(("data:", "#")) for v in loaded), name
        assert str(Path.home()) not in page and gettempdir() not in page, name


@pytest.mark.parametrize("key", ["correct <horse> 'battery'", 'correct "horse" \\battery\\'])
def test_a_key_is_refused_on_every_page(tmp_path, monkeypatch, key):
    made = {name: make for name, make in makers(tmp_path, key).items() if name not in LOOKS}
    assert all(make() for make in made.values())
    monkeypatch.setenv("SOME_VENDOR_API_KEY", key)
    for name, make in made.items():
        with pytest.raises(DataError, match="SOME_VENDOR_API_KEY") as e:
            make()
        assert "horse" not in str(e.value) and "\n" not in str(e.value), name


def test_letters_stand_out_in_the_light_and_in_the_dark():
    css = packaged("data/pages/base.css").read_text()

    def light(color: str) -> float:  # relative luminance, as WCAG has it
        parts = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
        r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    letters = [(a, b) for a in ("ink", "soft", "main", "good", "bad") for b in ("card", "page")]
    letters += [("ink", x) for x in ("mark", "notice", "bar", "chosen")] + [("main", "on-main")]
    lines = [(x, "card") for x in ("line", "kx", *(f"k{i}" for i in range(8)))]
    looks = re.findall(r":root \{(.*?)\}", css, re.S)
    assert len(looks) == 2
    for look in looks:
        v = {name: light(color) for name, color in re.findall(r"--([\w-]+): (#\w{6})", look)}
        for pairs, least in ((letters, 4.5), (lines, 3)):
            for a, b in pairs:
                high, low = sorted((v[a], v[b]), reverse=True)
                assert (high + 0.05) / (low + 0.05) >= least, (a, b)


# In a browser


def test_nothing_leaves_a_page(window, tmp_path, plain):
    window.folder = tmp_path
    with Tree(tmp_path) as tree:
        for name in PAGES:
            window.events.clear()
            window.show(plain[name]())
            nothing_leaves(window.js, window, tree)
    window.events.clear()


def test_the_viewer_shows_texts_and_runs_none(reader, hostile):
    reader.show(hostile["viewer"]())
    for k, text in enumerate(HOSTILE):
        reader.js(f"location.hash = '#id=' + encodeURIComponent({json.dumps(f'{k}{text}')})")
        reader.wait(
            f"document.querySelector('#question h2').textContent == {json.dumps(f'{k}{text}')}"
        )
        assert text in reader.js("document.querySelector('#question').textContent")
        reader.set("search", text)
        reader.set("search", "")
    for i in range(reader.js("at('by').options.length")):
        reader.set("by", i, "change")
    assert reader.js(HARMLESS) is True


def test_a_book_shows_texts_and_runs_none(reader, hostile):
    reader.show(hostile["book"]())
    for k, text in enumerate(HOSTILE):
        reader.js(f"document.querySelector('.who[data-row=\"{k}\"]').click()")
        reader.press("n", "d", "/")
        reader.set("search", text)
        reader.press("Enter")
        reader.set("filter", text)
        assert reader.js("window.pwned === undefined"), text
        reader.press("Escape")
        reader.set("filter", "")
    assert reader.js(HARMLESS) is True
    assert "<script>window.pwned" in reader.js("document.body.textContent")
    assert not re.search(r"[\x00-\x08\x1b\u202e]", reader.js("at('flow').textContent"))


def test_the_correction_page_shows_texts_and_runs_none(reader, hostile):
    reader.show(hostile["correction"]())
    reader.wait("document.activeElement.id == 'text'")
    for k, text in enumerate(HOSTILE):
        reader.press("e")
        reader.call("Input.insertText", text=f"{text[:60].strip()}{k}")
        reader.press("Enter", "n", "ArrowRight")
    assert reader.js(HARMLESS) is True
    assert int(re.search(r"(\d+) edits", reader.text("#counts"))[1]) >= len(HOSTILE)
    assert HOSTILE[0] in reader.js("at('text').textContent")


def test_the_annotation_page_shows_texts_and_runs_none(reader):
    asks = drafts(*HOSTILE, *HOSTILE)  # 15 is odd: each text is a book's and a song's
    reader.show(annotation_page(asks, "".join(HOSTILE), shuffle=False, send="".join(HOSTILE)))
    assert HOSTILE[0] in reader.js("document.querySelector('h1').textContent")
    links = "[...document.querySelectorAll('main a')]"
    safe = f"{links}.every(a => ['https:', 'http:'].includes(a.protocol))"
    reader.press("Enter")
    for d in asks:
        assert d.question in reader.js("document.querySelector('.cartoon').textContent")
        assert reader.js(HARMLESS) is True and reader.js(safe)
        reader.press("Enter")
        assert reader.js(HARMLESS) is True
        reader.js("at('skip').click(); at('yes').click()")


def test_a_report_shows_texts_and_runs_none(reader, hostile):
    reader.show(hostile["report"]())
    assert reader.js("document.querySelectorAll('#board option').length") == len(HOSTILE)
    for k in range(len(HOSTILE)):
        reader.set("board", k, "change")
        reader.js("document.querySelector('button[data-item]').click()")
    assert reader.js(HARMLESS) is True and reader.js("document.images.length") == 0
    assert HOSTILE[0][:20] in reader.js("document.querySelector('main').textContent")


def test_markdown_shows_texts_and_runs_none(reader, tmp_path):
    "As a reader shows it that lets HTML through and knows no policy."
    settings = load_settings("/", env={}, offline=True, reports=str(tmp_path))
    for markdown, texts in (
        (hostile_report(*HOSTILE).markdown(), HOSTILE),
        (hostile_board(settings, *HOSTILE), map(file_name, HOSTILE)),
    ):
        head = "<!DOCTYPE html><meta charset=utf-8><link rel=icon href=data:,><body>"
        reader.show(head + rendered(markdown))
        shown = reader.js("document.body.textContent")
        assert reader.js(HARMLESS) is True and all(seen(t) in shown for t in texts)
