"Characters from LiSCU's public list: what it has of the benchmark's books."

import pytest
from tools import here, one_line
from refnb.core.settings import load_settings
from refnb.core.types import DataError
from refnb.models.annotation.character_lists import (
    Listed,
    book_characters,
    liscu_names,
    named_characters,
)
from refnb.results.tables import Report

MISSING = {
    "The Tale of Genji",
    "Pan Tadeusz",
    "The Talisman",
    "In Search of the Castaways",
    "Twenty Years After",
}


@pytest.fixture(scope="module")
def settings(upstream):
    return load_settings("/", env={}, offline=True, upstream=str(upstream))


def test_the_public_keys_have_48_of_the_53_books(settings):
    keys, found = liscu_names(settings), {}
    titles = [*Report("bookcoref/table_8_books").printed.cells]
    for title in titles:
        try:
            found[title] = [c.name for c in book_characters(title, keys)]
        except DataError:
            found[title] = []
    assert len(keys) == 9499 and len(found) == 53
    assert {t for t, names in found.items() if not names} == MISSING
    books = ("Siddhartha", "Pride and Prejudice", "Animal Farm")
    assert [len(found[t]) for t in books] == [7, 8, 5]
    assert not [n for names in found.values() for n in names if "(" in n or not n.strip()]


def test_titles_match_word_by_word_and_the_largest_guide_wins():
    rows = [Listed("O Pioneers!", "one", n) for n in ("A", "B")]
    rows += [Listed("o  pioneers", "two", n) for n in ("C", "D (d)", "D", "E:")]
    for listed in (rows, rows[::-1]):
        assert {c.name for c in book_characters("O Pioneers", listed)} == {"C", "D", "E"}
    for other in ("Pioneers", "O Pioneers: a novel"):
        with pytest.raises(DataError, match="no list has this title"):
            book_characters(other, rows)


def test_by_name(settings, tmp_path, capsys, monkeypatch):
    assert len(named_characters("liscu:Animal Farm", settings)) == 5
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("Emma came.")
    for who in ("liscu:Emmas of old", "no.yaml"):
        made = here(capsys, "annotate", "book.txt", "--characters", who, "--out", "out")
        one_line(made, 1, who.removeprefix("liscu:"))
    assert not (tmp_path / "out").exists()
