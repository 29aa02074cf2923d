"BookCoref's statistics, prompts and tables: known numbers, laws, and what fills more cells."

import ast, hashlib, json, re
from itertools import combinations
from pathlib import Path
import pytest
from hypothesis import example, given, strategies as st
from refnb.benchmarks.bookcoref.questions import (
    CONTEXTS,
    PROMPTS,
    filter_prompt,
    filter_template,
    yes_no,
)
from refnb.benchmarks.bookcoref.books import (
    COUNTING_RULES,
    ChainDistance,
    chain_distances,
    mention_distance,
    mentions_per_chain,
    statistics,
)
from refnb.core import corpora
from refnb.core.corpora import TEXTS, book_texts, load
from refnb.core.documents import Document
from refnb.core.files import read_yaml
from refnb.core.jsonlines import parse_jsonlines
from refnb.core.reading import write_documents
from refnb.core.settings import load_settings, packaged
from refnb.core.types import CallError, DataError, Span
from refnb.core.upstream import files_of, get
from refnb.results.printed import notebook_of, read_notebook
from results_reports import cells_of_report
from tools import ROOT

STATISTICS, PROMPT, ERRORS, BOOKS = (
    f"bookcoref/{name}"
    for name in ("table_1_statistics", "table_5_prompt", "table_7_error_analysis", "table_8_books")
)


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    folders = dict(upstream=str(upstream), cache=str(tmp_path_factory.mktemp("cache")))
    return load_settings("/", env={}, offline=True, bookcoref_gold="", **folders)


@pytest.fixture(scope="module")
def litbank(s):
    return load("litbank", s=s)


@pytest.fixture(scope="module")
def farm(s):
    return load("animal-farm", s=s)


# Statistics


def test_litbank_has_its_known_numbers_in_all_readings(litbank):
    every, worded = statistics(litbank), statistics(litbank, "worded")
    some, some_worded = (statistics(litbank, r, singletons=False) for r in ("printed", "worded"))
    counts = (every.documents, every.tokens, every.mentions, every.chains)
    assert counts == (100, 210_532, 29_103, 7_927)
    assert (some.mentions, some.chains) == (23_340, 2_164)
    distances = [round(x.mention_distance, 2) for x in (every, worded, some)]
    assert distances == [480.42, 647.03, 480.42]
    chains = [round(x.mentions_per_chain, 3) for x in (every, worded, some_worded)]
    assert chains == [4.168, 3.671, 10.786]
    assert sum(c.pairs for d in litbank for c in chain_distances(d)) == 633_660


def test_litbank_in_readings_that_the_paper_does_not_have(litbank):
    "The mean of documents, and singletons as chains of distance 0: neither gives what is printed."
    by_document = [mention_distance([d], "worded") for d in litbank]
    assert round(sum(by_document) / len(litbank), 2) == 574.40
    weighted = 0.0
    for d in litbank:
        longer = [c for c in d.clusters if len(c) > 1]
        pairs = zip(longer, chain_distances(d), strict=True)
        weighted += sum(len(c) * x.mean for c, x in pairs)
    assert round(weighted / 29_103, 2) == 385.29


def test_books_have_their_known_numbers(s, farm):
    printed, worded = statistics(farm), statistics(farm, "worded")
    distances = [round(x.mention_distance, 2) for x in (printed, worded)]
    assert distances == [8658.05, 8839.88]
    assert printed.mentions_per_chain == worded.mentions_per_chain == 85.25
    assert sum(c.pairs for c in chain_distances(farm[0])) == 145_300
    stand_in = parse_jsonlines(get(TEXTS, s))
    assert round(mention_distance(stand_in)) == 36_885
    assert [round(mention_distance([d])) for d in stand_in] == [15_005, 45_865, 9_189]


@given(st.lists(st.integers(0, 10**6), max_size=40))
@example([])
@example([5])
@example([7, 7])
def test_pair_distances_are_those_of_the_pair_loop(starts):
    d = Document("d", clusters=(tuple(Span(x, x) for x in starts),))
    pairs = [abs(a - b) for a, b in combinations(starts, 2)]
    expected = [ChainDistance(len(starts), len(pairs), sum(pairs))] if pairs else []
    assert chain_distances(d) == expected


def test_a_long_chain_takes_no_time():
    n = 200_000
    d = Document("long", clusters=(tuple(Span(i, i) for i in range(n)),))
    assert chain_distances(d) == [ChainDistance(n, n * (n - 1) // 2, (n**3 - n) // 6)]


spans = st.builds(lambda a, n: Span(a, a + n), st.integers(0, 500), st.integers(0, 5))
chains = st.lists(st.lists(spans, min_size=1, max_size=6).map(tuple), max_size=5).map(tuple)
documents = st.lists(chains, max_size=4).map(
    lambda many: [Document(f"d{i}", clusters=c) for i, c in enumerate(many)]
)


@given(documents, st.randoms())
def test_statistics_do_not_depend_on_any_order(docs, random):
    mixed = lambda xs: tuple(random.sample(xs, len(xs)))
    shuffled = [d.changed(clusters=mixed([mixed(c) for c in d.clusters])) for d in mixed(docs)]
    for reading in COUNTING_RULES:
        for singletons in (True, False):
            a, b = (statistics(x, reading, singletons).row() for x in (docs, shuffled))
            assert a == pytest.approx(b, abs=1e-6)
            per_chain, least = a["mentions per chain"], 1 if singletons else 2
            assert (
                per_chain >= least
                if statistics(docs, reading, singletons).chains
                else not (per_chain)
            )
        with_, without = (statistics(docs, reading, x).mention_distance for x in (True, False))
        assert with_ == without


@given(documents)
def test_readings_agree_where_there_is_one_document_or_one_chain(docs):
    for d in docs:
        if d.clusters:
            assert abs(mentions_per_chain([d]) - mentions_per_chain([d], "worded")) < 1e-9
        for c in d.clusters:
            got = [mention_distance([Document("x", clusters=(c,))], r) for r in COUNTING_RULES]
            assert got == [None] * 2 if len(c) < 2 else max(got) - min(got) < 1e-9


# Prompts and questions


def test_the_prompts_are_the_printed_ones_byte_for_byte():
    files = {p: packaged(f"data/prompts/{p}.txt").read_bytes() for p in PROMPTS}
    assert {p: hashlib.sha256(data).hexdigest() for p, data in files.items()} == {
        "bookcoref_filter": "20579e4def003448b0146d637da728979848a83f80415d31f2d48ac6f4597f33",
        "bookcoref_filter_no": "e61e8774aca52f9cc3b25120c37347bdcb1b514f6891b6b6904ebc639eff2988",
    }
    template = filter_template()
    assert template.split("\n")[1::2] == ["", ""] and len(template) == 269
    assert re.findall(r"\$\w+", template) == ["$book", "$mention", "$character"]


BOOK = Document("d", tuple(tuple(f"w{i}" for i in range(k, k + 10)) for k in range(0, 2000, 10)))


def excerpt(d, span, words=400, reading="in all") -> str:
    "The book excerpt of a prompt."
    prompt = filter_prompt(d, span, "Ann", words, reading)
    return prompt.partition("Book excerpt: ")[2].partition("\n\nDoes the mention")[0]


@given(st.integers(0, 1999), st.integers(0, 30), st.integers(0, 3000), st.sampled_from(CONTEXTS))
@example(1000, 1, 3, "in all")
@example(1000, 1, 0, "in all")
@example(1000, 1, 1, "each side")
def test_a_context_has_its_words_and_is_cut_at_the_ends_of_the_book(start, length, words, reading):
    "Of an odd number the larger half follows the mention; the yes-no question has the same words."
    span = Span(start, min(1999, start + length))
    left, right = (words, words) if reading == "each side" else (words // 2, words - words // 2)
    text, q = excerpt(BOOK, span, words, reading), yes_no(BOOK, span, "Ann", True, words, reading)
    plain = text.replace("[", "").replace("]", "")
    first, last = max(0, start - left), min(2000, span.end + 1 + right)
    assert plain.split() == [f"w{i}" for i in range(first, last)] and q.text == plain
    assert f"[{q.text[slice(*q.chars)]}]" == text[text.index("[") : text.index("]") + 1]


def test_a_yes_no_question():
    q = yes_no(BOOK, Span(3, 4), "Mrs. O'Neil", False, 4)
    assert (q.id, q.doc_key, q.text) == ("d:3-4:Mrs. O'Neil", "d", "w1 w2 w3 w4 w5 w6")
    assert q.text[slice(*q.chars)] == "w3 w4" and q.meta == {"character": "Mrs. O'Neil"}
    assert [o.name for o in q.options] == ["Yes", "No"]
    assert q.right == (1,) and yes_no(BOOK, Span(3, 4), "A", True).right == (0,)


def test_a_dollar_in_a_book_or_a_name_and_line_feeds_are_left_alone(s):
    d = Document("d", (("$book", "and", "$character", "${mention}", "$$"),))
    assert filter_prompt(d, Span(2, 3), "$mention").splitlines()[2::2] == [
        "Book excerpt: $book and [$character ${mention}] $$",
        "Does the mention [$character ${mention}] correspond to the character $mention? (Yes/No)",
    ]
    d = book_texts(s)["siddhartha_2500"]
    at = d.tokens.index("\n")
    assert excerpt(d, Span(at, at), 2) == f"{d.tokens[at - 1]} [\n] {d.tokens[at + 1]}"


def test_what_cannot_be_asked_is_refused():
    for kind, call in (
        (DataError, lambda: excerpt(BOOK, Span(1999, 2000))),
        (DataError, lambda: excerpt(BOOK, Span(-1, 0))),
        (DataError, lambda: excerpt(BOOK, Span(5, 4))),
        (DataError, lambda: yes_no(Document("x"), Span(0, 0), "A", True)),
        (CallError, lambda: excerpt(BOOK, Span(0, 0), -5)),
        (CallError, lambda: excerpt(BOOK, Span(0, 0), 5, "all")),
        (CallError, lambda: filter_prompt(BOOK, Span(0, 0), "A", prompt="bookcoref_filter_yes")),
    ):
        with pytest.raises(kind):
            call()


# The committed reports


def committed(name: str) -> dict[tuple[str, str], dict[str, str]]:
    return cells_of_report(ROOT / f"reports/{name}.csv")


def differing(name: str) -> set[tuple[str, str]]:
    return {k for k, c in committed(name).items() if c["difference"] not in ("", "0")}


def test_cells_that_differ_from_print_are_the_known_ones():
    "All others that can be computed have the printed digits: LitBank's and MovieCoref's eight."
    assert differing(STATISTICS) == {
        ("BookCoref gold", "tokens"),
        ("BookCoref gold", "tokens per document"),
        ("WikiCoref", "tokens per document"),
        ("WikiCoref", "mention distance"),
    }
    assert differing(BOOKS) == {("Animal Farm", "tokens"), ("Pride and Prejudice", "tokens")}
    for name, count in ((STATISTICS, 23), (BOOKS, 6)):
        matching = [k for k, c in committed(name).items() if c["difference"] == "0"]
        assert len(matching) == count
    for name in ("LitBank", "MovieCoref"):
        cells = [c for (row, _), c in committed(STATISTICS).items() if row == name]
        assert len([c for c in cells if c["difference"] == "0"]) == 8, name


def test_words_of_the_screenplays_are_those_of_the_tokenizer_behind_moviecoref(s):
    spacy = pytest.importorskip("spacy")
    tokenizer = spacy.blank("en").tokenizer
    code = [c.text for c in read_notebook(notebook_of(STATISTICS)) if "\nWORD = " in c.text]
    values = {
        ast.unparse(x.targets[0]): x.value
        for x in ast.parse(*code).body
        if isinstance(x, ast.Assign)
    }
    word = re.compile(ast.literal_eval(values["WORD"].args[0]))
    plays = [f for f in files_of("moviecoref") if "screenplay" in f.path]
    assert len(plays) == 9
    for f in plays:
        for piece in set(re.findall(r"\w+|[^\w\s]+", get(f, s).decode())):
            assert word.findall(piece) == [t.text for t in tokenizer(piece)], piece


def test_sums_of_the_printed_books():
    cells = committed(BOOKS)
    for row, tokens, characters in (
        ("50 silver books: sum of the printed", 10_831_302, 1_408),
        ("50 silver books: mean of the printed", 216_626.04, 28.16),
        ("3 gold books: sum of the printed", 230_784, 67),
        ("3 gold books: mean of the printed", 76_928, 22.333333),
    ):
        numbers = [float(c["ours"]) for (r, _), c in cells.items() if r == row]
        assert numbers == [tokens, characters], row
    names = [c for (_, column), c in cells.items() if column == "names in LiSCU's list"]
    assert sum(bool(c["ours"]) for c in names) == 48


def test_lengths_of_prompts():
    cells = {k: float(c["ours"]) for k, c in committed(PROMPT).items()}
    template = [cells["template", c] for c in ("words", "characters", "placeholders")]
    assert template == [46, 269, 3]
    assert cells["Animal Farm, 400 words in all", "questions"] == 1_705
    lengths = [cells[f"for a mention of the sample, 400 words {r}", "words"] for r in CONTEXTS]
    assert abs(lengths[0] - lengths[1]) == 400


PASSAGES = read_yaml(packaged("data/papers/passages/bookcoref_table_7.yaml"), dict)["passages"]


def printed_mentions(line: str) -> list[tuple[str, str]]:
    "Words and character of each printed mention, read in another way than the notebook does."
    out = []
    for m in re.finditer(r"\]_\{([^}]*)\}", line):
        depth, i = 1, m.start()
        while depth:
            i -= 1
            depth += (line[i] == "]") - (line[i] == "[")
        out.append((" ".join(re.sub(r"\]_\{[^}]*\}|\[", "", line[i : m.start()]).split()), m[1]))
    return out


def test_spans_of_the_error_analysis_are_where_the_printed_words_are(s):
    tokens, cells = book_texts(s)["pride_and_prejudice_1342"].tokens, committed(ERRORS)
    plain = lambda words: "".join(words).replace("’", "'").replace(" ", "")

    def words_at(row: str) -> str:
        first, last = (int(cells[row, f"{x} token"]["ours"]) for x in ("first", "last"))
        return plain(tokens[first : last + 1])

    counts = {}
    for passage, stages in PASSAGES.items():
        for stage, line in stages.items():
            whole, mentions = f"{passage} / {stage}", printed_mentions(line)
            rows = [r for r, c in cells if c == "first token" and r.startswith(f"{whole} / ")]
            character = lambda row: re.sub(r" \d+$", "", row.rpartition(" / ")[2])
            spans = sorted((words_at(r), character(r)) for r in rows)
            assert spans == sorted((plain(w), c) for w, c in mentions), whole
            assert words_at(whole) == plain(re.sub(r"\]_\{[^}]*\}|\[", "", line))
            columns = ("mentions", "right against the final row")
            counts[whole] = [int(cells[whole, c]["ours"]) for c in columns]
            assert counts[whole][0] == len(mentions)
    assert list(counts.values()) == [[3, 2], [2, 2], [6, 4], [6, 6], [4, 3], [1, 1], [9, 7], [9, 9]]


def test_no_line_of_a_book_is_in_a_report():
    paths = [p for p in (ROOT / "reports/bookcoref").glob("table_*") if p.suffix != ".png"]
    text = "\n".join(p.read_text() for p in paths)
    assert "Caroline Bingley" in text
    assert not re.search(r"in love|the daughter|countenance|examining", text)


# Tables that are made: on the sample, without a file, and with more files than are released


@pytest.fixture(scope="module")
def make(make_table):
    "A function that makes a table in a folder of its own: cells by row and column."

    def make(home: Path, name: str, **how) -> dict[tuple[str, str], dict[str, str]]:
        return {(c["row"], c["column"]): c for c in make_table(home, name, **how)}

    return make


def test_on_the_sample_nothing_is_printed(tmp_path, make):
    one, eight = (make(tmp_path, n, task="sample/bookcoref") for n in (STATISTICS, BOOKS))
    assert {c["source"] for c in [*one.values(), *eight.values()]} == {"not in our sources"}
    distance = float(one["sample stories", "mention distance"]["ours"])
    assert distance == round(mention_distance(load("sample")), 6)
    assert len([k for k in eight if k[1] == "characters"]) == 6


def test_without_any_file_each_cell_says_what_to_fetch(tmp_path, make):
    tables = {n: make(tmp_path, n) for n in (STATISTICS, PROMPT, ERRORS, BOOKS)}
    assert all(c["ours"] or c["reason"] for cells in tables.values() for c in cells.values())
    for name, place, files in (
        (STATISTICS, ("LitBank", "tokens"), "litbank"),
        (BOOKS, ("Siddhartha", "tokens"), "bookcoref"),
        (ERRORS, ("passage 1 / CL", "first token"), "bookcoref"),
    ):
        assert f"refnb fetch {files}" in tables[name][place]["reason"], place
    assert tables[ERRORS]["passage 1 / CL", "mentions"]["ours"] == "3"


def write_lines(path: Path, lines: list[dict]) -> str:
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    return str(path)


def book(key: str, clusters: list, **more) -> dict:
    "A line of a file of the hub's form."
    number = key.rpartition("_")[2]
    people = [{"name": f"character {k}", "mentions": c} for k, c in enumerate(clusters)]
    line = {"doc_key": key, "gutenberg_key": number, "clusters": clusters, "characters": people}
    return line | more


def made_up_gold(farm: Document, path: Path, share: int = 1) -> str:
    """A file with the published counts, or a share of them.

    Animal Farm has its clusters; elsewhere mentions are at even steps."""

    def even(key, tokens, mentions, chains):
        at = [tokens * i // mentions for i in range(mentions)]
        return book(key, [[[i, i] for i in at[k::chains]][::share] for k in range(chains)])

    clusters = [c[::share] for c in farm.clusters]
    named = [{"name": n, "mentions": c} for n, c in zip(farm.names, clusters, strict=True)]
    lines = [
        even("siddhartha_2500", 47_785, 4_933, 9),
        even("pride_and_prejudice_1342", 142_742, 16_419, 38),
        book("animal_farm_0", clusters, characters=named),
    ]
    return write_lines(path, lines)


def made_up_silver(path: Path, books: dict[str, tuple[int, int]], text: bool) -> str:
    "Gutenberg numbers with tokens and chains; with text, as the authors' script writes it."
    lines = []
    for key, (tokens, chains) in books.items():
        clusters = [[[2 * k, 2 * k], [2 * k + 1, 2 * k + 1]] for k in range(chains)]
        words = {"sentences": [["w"] * tokens]} if text else {}
        lines.append(book(f"book_{key}", clusters, **words))
    return write_lines(path, lines)


SILVER = {"158": (190_921, 24), "7088": (40_000, 44)}


@pytest.fixture(scope="module")
def filled(farm, upstream, tmp_path_factory, make):
    "Tables 1 and 8 with a file for each of their gaps: gold, silver, somebody's books and corpus."
    home = tmp_path_factory.mktemp("filled")
    gold = made_up_gold(farm[0], home / "test.jsonl")
    silver = made_up_silver(home / "all.jsonl", SILVER, True)
    own = made_up_silver(home / "own.jsonl", {"1342": (142_742, 30)}, True)
    (home / "corpus").mkdir()
    for d in load("sample"):
        write_documents([d], home / f"corpus/{d.doc_key.replace('/', '_')}.conll")
    how = dict(upstream=upstream, gold=gold, silver=silver)
    one = make(home, STATISTICS, corpora={"OntoNotes": str(home / "corpus")}, **how)
    return one, make(home, BOOKS, own=own, **how)


def test_gold_clusters_fill_their_row(filled):
    one, eight = filled
    numbers = [float(one["BookCoref gold", c]["ours"]) for c in ("documents", "tokens", "mentions")]
    assert numbers == [3, 225_506, 23_057]
    assert one["BookCoref gold", "chains per document"]["difference"] == "0"
    mean = (85.25 + 4_933 / 9 + 16_419 / 38) / 3
    assert abs(float(one["BookCoref gold", "mentions per chain"]["ours"]) - mean) < 1e-5
    assert one["BookCoref gold", "mention distance"]["ours"]
    assert eight["Siddhartha", "characters"]["run"] == "gold clusters"


def test_silver_books_fill_their_rows(filled, upstream, tmp_path, make):
    one, eight = filled
    assert eight["Emma", "tokens"]["difference"] == "0"
    assert eight["The Pilgrim's Progress", "tokens"]["reason"] == "unexplained"
    tokens = one["BookCoref silver", "tokens"]
    assert float(tokens["ours"]) == 230_921 and "2 of the 50 books" in tokens["reason"]
    names = made_up_silver(tmp_path / "train.jsonl", SILVER, False)
    without_text = make(tmp_path, BOOKS, upstream=upstream, silver=names)
    assert without_text["Emma", "characters"]["difference"] == "0"
    assert "no text" in without_text["Emma", "tokens"]["reason"]
    assert without_text["The Pilgrim's Progress", "characters"]["difference"] == "-1"
    assert without_text["Jane Eyre", "tokens"]["reason"]


def test_books_and_a_corpus_of_ones_own_stand_beside(filled, tmp_path, make):
    one, eight = filled
    columns = [f"own {c}" for c in ("tokens", "chains", "mentions")]
    own = [eight["Pride and Prejudice", c]["ours"] for c in columns]
    assert own == ["142742", "30", "60"] and ("Emma", "own tokens") not in eight
    documents = one["OntoNotes", "documents"]
    assert documents["ours"] == str(len(load("sample"))) and documents["paper"]
    assert not one["LongtoNotes", "documents"]["ours"]
    with pytest.raises(Exception, match="did you mean OntoNotes"):
        make(tmp_path, STATISTICS, corpora={"Ontonotes": "x"})


@pytest.mark.parametrize("share", [200, pytest.param(1, marks=pytest.mark.full)])
def test_gold_mentions_are_counted_as_questions(farm, upstream, tmp_path, make, monkeypatch, share):
    "One mention in two hundred by default: prompts of all of them take a minute."
    if share > 1:
        titled = corpora.as_published
        monkeypatch.setattr(corpora, "as_published", lambda d, where, *counts: titled(d, where))
    gold = made_up_gold(farm[0], tmp_path / "test.jsonl", share)
    cells = make(tmp_path, PROMPT, upstream=upstream, gold=gold)
    asked = {r: float(c["ours"]) for (r, column), c in cells.items() if column == "questions"}
    titles = ["Siddhartha", "Pride and Prejudice", "Animal Farm"]
    books = map(json.loads, Path(gold).read_text().splitlines())
    mentions = {t: sum(map(len, b["clusters"])) for t, b in zip(titles, books, strict=True)}
    assert asked == {f"{t}, 400 words {r}": n for t, n in mentions.items() for r in CONTEXTS}
