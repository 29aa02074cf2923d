"Characters from public lists: what LiSCU has of the benchmark's books, and tables that are read strictly."

import csv
import pytest
from hypothesis import given, strategies as st
from payloads import HOSTILE
from tools import here, one_line
from refnb.core.settings import load_settings
from refnb.core.types import DataError, FormatError, RefnbError
from refnb.models.annotation.character_lists import (
    Listed,
    author_words,
    book_characters,
    liscu_names,
    named_characters,
    read_character_table,
    title_words,
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
def keys(upstream):
    return liscu_names(load_settings("/", env={}, offline=True, upstream=str(upstream)))


@pytest.fixture(scope="module")
def titles():
    return [*Report("bookcoref/table_8_books").printed.cells]


def has(title, keys) -> int:
    "How many characters are listed; 0 if the title is in no list."
    try:
        return len(book_characters(title, listed=keys).names)
    except DataError:
        return 0


def test_the_public_keys_have_48_of_the_53_books(keys, titles):
    counts = {t: has(t, keys) for t in titles}
    assert (
        len(keys) == 9499
        and len(counts) == 53
        and {t for t, n in counts.items() if not n} == MISSING
    )
    assert [counts[t] for t in ("Siddhartha", "Pride and Prejudice", "Animal Farm")] == [7, 8, 5]
    assert sum(n >= 5 for n in counts.values()) == 41


def test_names_are_ready_for_annotation(keys, titles):
    for t in set(titles) - MISSING:
        who = book_characters(t, listed=keys).characters
        assert who and not [c for c in who if "(" in c.name or not c.name.strip()]


@pytest.mark.parametrize(
    "a, b, same",
    [
        ("Pudd'nhead Wilson", "Pudd’nhead  wilson", True),
        ("Emma", "Emma: a novel", False),
        ("O Pioneers!", "O pioneers", True),
        ("Les Misérables", "Les Miserables", False),
    ],
)
def test_titles_match_word_by_word(a, b, same):
    assert (title_words(a) == title_words(b)) == same


def test_authors_match_in_any_order():
    assert (
        author_words("Austen, Jane, 1775-1817")
        == author_words("Jane Austen")
        != author_words("J. Austen")
    )


names = st.sampled_from(["A", "B", "C", "D (d)", "E:"])
listed = st.lists(
    st.builds(
        Listed,
        st.sampled_from(["T", "t!", "U"]),
        st.sampled_from(["", "X Y", "Y, X"]),
        st.sampled_from(["one", "two"]),
        names,
    ),
    min_size=1,
    max_size=20,
)


@given(listed)
def test_the_largest_list_wins_whatever_the_order(rows):
    rows = [r for r in rows if title_words(r.title) == ("t",)] or [Listed("T", "", "one", "A")]
    got, back = (book_characters("T", listed=x) for x in (rows, rows[::-1]))
    sizes = [len({r.name for r in rows if r[:3] == key}) for key in {r[:3] for r in rows}]
    assert len(got.names) == len(back.names) == max(sizes) and (got.source, got.author) == (
        back.source,
        back.author,
    )


GOOD = {
    "csv": 'author,title,character\nJane Austen,Emma,"Emma, the first"\n',
    "tsv": "title\tcharacter\tauthor\nEmma\tMiss Bates\tJane Austen\n",
}


@pytest.mark.parametrize("kind", GOOD)
def test_every_damage_of_a_table_is_one_line(tmp_path, kind):
    path, good = tmp_path / f"t.{kind}", GOOD[kind].encode()
    path.write_bytes(good)
    assert read_character_table(path)[0].author == "Jane Austen"
    for k in range(len(good)):
        for damaged in (
            good[:k],
            good[:k] + b'"' + good[k:],
            good[:k] + b"\xff" + good[k + 1 :],
            good[:k] + b"\n" + good[k:],
        ):
            path.write_bytes(damaged)
            try:
                read_character_table(path)
            except RefnbError as e:
                assert "\n" not in str(e) and len(str(e)) <= 300


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "has the columns none; it needs author, title, character"),
        ("author,title,character,qid\na,b,c,d\n", "has the columns author, title, character, qid"),
        ("author,title,character\na,b\n", "line 2: a cell is missing, empty or one too many"),
        ("author,title,character\na, ,c\n", "line 2: a cell is missing, empty"),
    ],
)
def test_tables_that_are_refused(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(FormatError, match=said):
        read_character_table(tmp_path / "t.csv")


def test_hostile_names_are_names(tmp_path):
    names = [t for t in HOSTILE if t.strip()]
    with (tmp_path / "t.csv").open("w", newline="") as f:
        rows = csv.writer(f)
        rows.writerows([("author", "title", "character"), *((t, "Emma", t) for t in names)])
    found = [x.name for x in read_character_table(tmp_path / "t.csv")]
    assert found == [t.strip() for t in names]


def test_the_command_names_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(GOOD["csv"])
    (tmp_path / "book.txt").write_text("Emma came.")
    one_line(
        here(capsys, "annotate", "book.txt", "--characters", "t.csv:Emmas", "--out", "out"),
        1,
        "'Emmas': no list has this title",
    )
    one_line(
        here(capsys, "annotate", "book.txt", "--characters", "no.csv:Emma", "--out", "out"),
        1,
        "no.csv",
    )
    assert [c.name for c in named_characters("t.csv:Emma")] == ["Emma, the first"] and not (
        tmp_path / "out"
    ).exists()


def test_the_larger_of_two_sources_is_taken(upstream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    s = load_settings("/", env={}, offline=True, upstream=str(upstream))
    for many in (7, 9):
        (tmp_path / "t.csv").write_text(
            "author,title,character\n"
            + "".join(f"Jane Austen,Pride and Prejudice,P{k}\n" for k in range(many))
        )
        assert len(named_characters("liscu+t.csv:Pride and Prejudice", s)) == max(8, many)
