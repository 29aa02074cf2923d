"Books as files, and lists of their characters: of one's own, and LiSCU's."

import zipfile
import pytest
import tools
from refnb.core.settings import load_settings
from refnb.core.types import DataError, FormatError, RefnbError
from refnb.models.annotation.books import as_characters, read_book, read_characters
from refnb.models.annotation.books import ListedCharacter, book_characters, liscu_names
from refnb.results.tables import Report


def refused(text: str, call, *args):
    "An error of one line that says this."
    with pytest.raises((DataError, FormatError)) as e:
        call(*args)
    assert text in str(e.value) and "\n" not in str(e.value) and len(str(e.value)) <= 300


# Files


def test_words_lead_back_to_the_file(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffAnna left.\r\n\r\nShe met Mr. Bell.")
    book = read_book(tmp_path / "a.txt")
    assert [book.text[a:b] for a, b in book.chars] == book.document.tokens


@pytest.mark.parametrize(
    "name, data, said",
    [
        ("a.txt", b"\xff\xfe\xff", "UTF-8"),
        ("a.epub", b"no", "is it an EPUB"),
        ("a.html", b"<p>", "has no words"),
        ("a.jsonl", b"{", "line 1"),
    ],
)
def test_what_is_no_book_is_refused_in_a_line(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    refused(said, read_book, tmp_path / name)


@pytest.mark.parametrize(
    "page",
    [
        "<head><title>T</title><body>Anna left.",
        "<title>T</title><p>Anna <b>left.",
        "<head><style>p {}</style><script>x</script><body>Anna left.",
        "<svg><title>T</title></svg>Anna left.",
    ],
)
def test_html_that_is_not_closed_is_read(tmp_path, page):
    (tmp_path / "a.html").write_text(page)
    assert read_book(tmp_path / "a.html").text == "Anna left."


PAGE = "<p>Anna met Bell.</p>"


def epub(path, pages: dict[str, str], links: list[str]):
    "An EPUB whose list of pages, in the folder `in`, has these links."
    ids = {x: f"p{k}" for k, x in enumerate(dict.fromkeys(links))}
    items = "".join(f'<item id="{i}" href="{x}"/>' for x, i in ids.items())
    spine = "".join(f'<itemref idref="{ids[x]}"/>' for x in links)
    body = f"<manifest>{items}</manifest><spine>{spine}</spine>"
    root = '<container><rootfiles><rootfile full-path="in/book.opf"/></rootfiles></container>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("META-INF/container.xml", root)
        z.writestr("in/book.opf", f'<package xmlns="urn:p">{body}</package>')
        for name, page in pages.items():
            z.writestr(name, page)
    return path


@pytest.mark.parametrize(
    "name, link",
    [
        ("in/a.xhtml", "a.xhtml"),
        ("text/a.xhtml", "../text/a.xhtml"),
        ("in/a b.xhtml", "a%20b.xhtml#one"),
        ("in/a.xhtml", "./x/../a.xhtml"),
    ],
)
def test_links_of_an_epub_are_followed(tmp_path, name, link):
    assert read_book(epub(tmp_path / "a.epub", {name: PAGE}, [link])).text == "Anna met Bell."


def test_an_epub_that_unpacks_to_more_than_a_book_is_refused(tmp_path):
    path = epub(tmp_path / "a.epub", {"in/a.xhtml": "a " * 10**6}, ["a.xhtml"] * 30)
    refused("50,000,000", read_book, path)


def test_a_damaged_epub_is_read_or_refused_in_a_line(tmp_path):
    whole = epub(tmp_path / "a.epub", {"in/a.xhtml": PAGE * 50}, ["a.xhtml"]).read_bytes()
    for at in range(0, len(whole), 3):
        (tmp_path / "b.epub").write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
        try:
            read_book(tmp_path / "b.epub")
        except RefnbError as e:
            assert "\n" not in str(e)


# Characters


@pytest.mark.parametrize("text", ["", "{", "- [A]", "- A: B", "- 3", "- A\n- a", "A: [B]"])
def test_a_list_that_names_nobody_is_refused_in_a_line(tmp_path, text):
    (tmp_path / "who.yaml").write_text(text)
    refused("", read_characters, tmp_path / "who.yaml")


def test_many_characters_are_checked_at_once():
    assert len(as_characters(f"Name {i}" for i in range(50_000))) == 50_000


MISSING = {
    "The Tale of Genji",
    "Pan Tadeusz",
    "The Talisman",
    "In Search of the Castaways",
    "Twenty Years After",
}


def test_liscu_names_characters_of_48_of_the_53_books(upstream):
    keys = liscu_names(load_settings("/", env={}, offline=True, upstream=str(upstream)))
    found = {}
    for title in Report("bookcoref/table_8_books").printed.cells:
        try:
            found[title] = [c.name for c in book_characters(title, keys)]
        except DataError:
            found[title] = []
    assert len(keys) == 9499 and len(found) == 53
    assert {t for t, names in found.items() if not names} == MISSING
    books = ("Siddhartha", "Pride and Prejudice", "Animal Farm")
    assert [len(found[t]) for t in books] == [7, 8, 5]
    assert not [n for names in found.values() for n in names if "(" in n or not n.strip()]


def test_a_title_matches_word_by_word_and_the_largest_guide_wins():
    rows = [ListedCharacter("O Pioneers!", "one", n) for n in ("A", "B")]
    rows += [ListedCharacter("o  pioneers", "two", n) for n in ("C", "D (d)", "D", "E:")]
    for listed in (rows, rows[::-1]):
        assert {c.name for c in book_characters("O Pioneers", listed)} == {"C", "D", "E"}
    for other in ("Pioneers", "O Pioneers: a novel"):
        refused("no list has this title", book_characters, other, rows)


def test_a_book_that_liscu_lacks_is_annotated_with_nobody(upstream, tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    monkeypatch.setenv("REFNB_UPSTREAM", str(upstream))
    (tmp_path / "book.txt").write_text("Emma came.")
    who = ("--characters", "liscu:Emmas of old", "--out", "out")
    tools.one_line(tools.here(capsys, "annotate", "book.txt", *who), 1, "Emmas of old")
    assert not (tmp_path / "out").exists()
