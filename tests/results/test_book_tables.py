"BookCoref's statistics and its tables 1, 4, 5, 7 and 8: exact numbers, laws, prompts byte by byte, and reports made anew."

import hashlib, json, re
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
from refnb.benchmarks.bookcoref.statistics import (
    READINGS,
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
from refnb.core.settings import load_settings, packaged
from refnb.core.types import CallError, DataError, Span
from refnb.core.upstream import get

TABLES = (
    "table_1_statistics",
    "table_4_efficiency",
    "table_5_prompt",
    "table_7_error_analysis",
    "table_8_books",
)
NAMES = [f"bookcoref/{t}" for t in TABLES]


def near(a, b, digits: int = 2) -> bool:
    return round(a, digits) == b


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    return load_settings(
        "/",
        env={},
        offline=True,
        upstream=str(upstream),
        cache=str(tmp_path_factory.mktemp("cache")),
        bookcoref_gold="",
    )


# Statistics: section 5.2 of the specification


def test_litbank_in_all_readings(s):
    docs = load("litbank", s=s)
    all_, worded, some = (
        statistics(docs),
        statistics(docs, "worded"),
        statistics(docs, singletons=False),
    )
    assert (all_.documents, all_.tokens, all_.mentions, all_.chains) == (
        100,
        210_532,
        29_103,
        7_927,
    )
    assert near(all_.mention_distance, 480.42) and near(worded.mention_distance, 647.03)
    assert near(all_.mentions_per_chain, 4.168, 3) and near(worded.mentions_per_chain, 3.671, 3)
    assert (some.mentions, some.chains) == (
        23_340,
        2_164,
    ) and some.mention_distance == all_.mention_distance
    assert near(statistics(docs, "worded", singletons=False).mentions_per_chain, 10.786, 3)
    assert sum(c.pairs for d in docs for c in chain_distances(d)) == 633_660


def test_litbank_readings_that_the_paper_does_not_have(s):
    docs = load("litbank", s=s)
    by_document = [mention_distance([d], "worded") for d in docs]
    assert near(sum(by_document) / len(docs), 574.40)
    chains = [
        (len(c), x.mean)
        for d in docs
        for c, x in zip((c for c in d.clusters if len(c) > 1), chain_distances(d), strict=True)
    ]
    assert near(
        sum(n * m for n, m in chains) / 29_103, 385.29
    )  # singletons as chains of distance 0


def test_animal_farm(s):
    docs = load("animal-farm", s=s)
    assert near(statistics(docs).mention_distance, 8658.05) and near(
        statistics(docs, "worded").mention_distance, 8839.88
    )
    assert (
        statistics(docs).mentions_per_chain
        == statistics(docs, "worded").mentions_per_chain
        == 85.25
    )
    assert sum(c.pairs for c in chain_distances(docs[0])) == 145_300


def test_the_stand_in(s):
    docs = parse_jsonlines(get(TEXTS, s))
    assert round(mention_distance(docs)) == 36_885 and [
        round(mention_distance([d])) for d in docs
    ] == [15_005, 45_865, 9_189]


@given(st.lists(st.integers(0, 10**6), max_size=40))
@example([])
@example([5])
@example([7, 7])
def test_pair_distances_are_those_of_the_pair_loop(starts):
    d = Document("d", clusters=(tuple(Span(x, x) for x in starts),))
    pairs = [abs(a - b) for a, b in combinations(starts, 2)]
    expected = [ChainDistance(len(starts), len(pairs), sum(pairs))] if pairs else []
    assert chain_distances(d) == expected


spans = st.builds(lambda a, n: Span(a, a + n), st.integers(0, 500), st.integers(0, 5))
documents = st.lists(st.lists(st.lists(spans, min_size=1, max_size=6), max_size=5), max_size=4).map(
    lambda docs: [Document(f"d{i}", clusters=tuple(map(tuple, c))) for i, c in enumerate(docs)]
)


@given(documents, st.randoms())
def test_laws_of_statistics(docs, random):
    shuffled = random.sample(
        [
            Document(
                d.doc_key,
                clusters=tuple(
                    random.sample(
                        [tuple(random.sample(c, len(c))) for c in d.clusters], len(d.clusters)
                    )
                ),
            )
            for d in docs
        ],
        len(docs),
    )
    for reading in READINGS:
        for singletons in (True, False):
            a, b = statistics(docs, reading, singletons), statistics(shuffled, reading, singletons)
            assert (a.documents, a.tokens, a.mentions, a.chains) == (
                b.documents,
                b.tokens,
                b.mentions,
                b.chains,
            )
            for x, y in (
                (a.mentions_per_chain, b.mentions_per_chain),
                (a.mention_distance, b.mention_distance),
            ):
                assert (x is None) == (y is None) and (x is None or abs(x - y) < 1e-6)
            assert (a.mentions_per_chain is None) == (a.chains == 0) and (
                a.chains == 0 or a.mentions_per_chain >= (1 if singletons else 2)
            )
        assert (
            statistics(docs, reading, False).mention_distance
            == statistics(docs, reading).mention_distance
        )


@given(documents)
def test_readings_agree_where_there_is_one_document_or_one_chain(docs):
    for d in docs:
        if d.clusters:
            assert abs(mentions_per_chain([d]) - mentions_per_chain([d], "worded")) < 1e-9
        for c in d.clusters:
            got = [mention_distance([Document("x", clusters=(c,))], r) for r in READINGS]
            assert got == [None] * 2 if len(c) < 2 else max(got) - min(got) < 1e-9


def test_a_long_chain_takes_no_time():
    d = Document("long", clusters=(tuple(Span(i, i) for i in range(200_000)),))
    assert chain_distances(d) == [
        ChainDistance(200_000, 200_000 * 199_999 // 2, (200_000**3 - 200_000) // 6)
    ]


def test_an_unknown_reading():
    with pytest.raises(CallError, match="did you mean worded"):
        statistics([], "wording")


# Prompts and questions


def test_the_prompts_are_the_printed_ones_byte_for_byte():
    got = {
        p: hashlib.sha256(packaged(f"data/prompts/{p}.txt").read_bytes()).hexdigest()
        for p in PROMPTS
    }
    assert got == {
        "bookcoref_filter": "20579e4def003448b0146d637da728979848a83f80415d31f2d48ac6f4597f33",
        "bookcoref_filter_no": "e61e8774aca52f9cc3b25120c37347bdcb1b514f6891b6b6904ebc639eff2988",
    }
    assert (
        filter_template().split("\n")[1::2] == ["", ""]
        and len(filter_template()) == 269
        and not filter_template().endswith("\n")
    )
    assert re.findall(r"\$\w+", filter_template()) == ["$book", "$mention", "$character"]


D = Document("d", tuple(tuple(f"w{i}" for i in range(k, k + 10)) for k in range(0, 2000, 10)))


def context(d, span, words=400, reading="in all"):
    "The book excerpt of a prompt."
    prompt = filter_prompt(d, span, "Ann", words, reading)
    return prompt.partition("Book excerpt: ")[2].partition("\n\nDoes the mention")[0]


@pytest.mark.parametrize(
    "reading, words, left, right",
    [
        ("in all", 400, 200, 200),
        ("each side", 400, 400, 400),
        ("in all", 3, 1, 2),
        ("in all", 0, 0, 0),
        ("each side", 1, 1, 1),
    ],
)
def test_context_in_the_middle(reading, words, left, right):
    got = context(D, Span(1000, 1001), words, reading).split()
    assert got == [
        *(f"w{i}" for i in range(1000 - left, 1000)),
        "[w1000",
        "w1001]",
        *(f"w{i}" for i in range(1002, 1002 + right)),
    ]


@given(st.integers(0, 1999), st.integers(0, 30), st.integers(0, 3000), st.sampled_from(CONTEXTS))
def test_context_is_clipped_at_the_ends_and_yes_no_has_the_same_words(
    start, length, words, reading
):
    end = min(1999, start + length)
    text, q = (
        context(D, Span(start, end), words, reading),
        yes_no(D, Span(start, end), "Ann", True, words, reading),
    )
    left, right = (words, words) if reading == "each side" else (words // 2, words - words // 2)
    assert text.replace("[", "").replace("]", "").split() == [
        f"w{i}" for i in range(max(0, start - left), min(2000, end + 1 + right))
    ]
    assert (
        q.text == text.replace("[", "").replace("]", "")
        and f"[{q.text[slice(*q.chars)]}]" == text[text.index("[") : text.index("]") + 1]
    )


def test_a_yes_no_question():
    q = yes_no(D, Span(3, 4), "Mrs. O'Neil", False, 4)
    assert (q.id, q.doc_key, q.text, q.text[slice(*q.chars)], q.right) == (
        "d:3-4:Mrs. O'Neil",
        "d",
        "w1 w2 w3 w4 w5 w6",
        "w3 w4",
        (1,),
    )
    assert (
        [o.name for o in q.options] == ["Yes", "No"]
        and yes_no(D, Span(3, 4), "A", True).right == (0,)
        and q.meta == {"character": "Mrs. O'Neil"}
    )


def test_a_dollar_in_a_book_or_a_name_is_left_alone():
    d = Document("d", (("$book", "and", "$character", "${mention}", "$$"),))
    assert filter_prompt(d, Span(2, 3), "$mention").splitlines()[2::2] == [
        "Book excerpt: $book and [$character ${mention}] $$",
        "Does the mention [$character ${mention}] correspond to the character $mention? (Yes/No)",
    ]


@pytest.mark.parametrize(
    "call, kind, said",
    [
        (lambda: context(D, Span(1999, 2000)), DataError, "not a span of the 2000 tokens"),
        (lambda: context(D, Span(-1, 0)), DataError, "not a span"),
        (lambda: context(D, Span(5, 4)), DataError, "not a span"),
        (lambda: context(D, Span(0, 0), -5), CallError, "a context of -5 words"),
        (lambda: context(D, Span(0, 0), 5, "all"), CallError, "in all"),
        (lambda: yes_no(Document("x"), Span(0, 0), "A", True), DataError, "of the 0 tokens"),
        (
            lambda: filter_prompt(D, Span(0, 0), "A", prompt="bookcoref_filter_yes"),
            CallError,
            "did you mean",
        ),
    ],
)
def test_what_cannot_be_asked(call, kind, said):
    with pytest.raises(kind, match=said):
        call()


def test_line_feeds_of_a_book_stay_tokens(s):
    d = book_texts(s)["siddhartha_2500"]
    at = d.tokens.index("\n")
    assert context(d, Span(at, at), 2) == f"{d.tokens[at - 1]} [\n] {d.tokens[at + 1]}"


# Table 7

PASSAGES = read_yaml(packaged("data/papers/passages/bookcoref_table_7.yaml"), dict)["passages"]


def printed_mentions(line: str) -> list[tuple[str, str]]:
    "Words and character of each printed mention, in the order of their ends; read in another way than the notebook does."
    out = []
    for m in re.finditer(r"\]_\{([^}]*)\}", line):
        depth, i = 1, m.start()
        while depth:
            i -= 1
            depth += (line[i] == "]") - (line[i] == "[")
        out.append((" ".join(re.sub(r"\]_\{[^}]*\}|\[", "", line[i : m.start()]).split()), m[1]))
    return out


def test_the_printed_lines():
    assert {
        p: [len(printed_mentions(l)) for l in stages.values()] for p, stages in PASSAGES.items()
    } == {"passage 1": [3, 2, 6, 6], "passage 2": [4, 1, 9, 9]}
    assert ("her brother", "Charles Bingley") in printed_mentions(
        PASSAGES["passage 1"]["CL + LLM + window"]
    )


def test_spans_of_table_7_are_where_the_printed_words_are(s, made):
    tokens, cells = book_texts(s)["pride_and_prejudice_1342"].tokens, made["table_7_error_analysis"]
    plain = lambda words: "".join(words).replace("’", "'").replace(" ", "")
    for passage, stages in PASSAGES.items():
        for stage, line in stages.items():
            told = sorted((plain(w), c) for w, c in printed_mentions(line))
            rows = [
                r
                for r, c in cells
                if c == "first token" and r.startswith(f"{passage} / {stage} / ")
            ]
            found = sorted(
                (
                    plain(
                        tokens[
                            int(cells[r, "first token"]["ours"]) : int(
                                cells[r, "last token"]["ours"]
                            )
                            + 1
                        ]
                    ),
                    re.sub(r" \d+$", "", r.rpartition(" / ")[2]),
                )
                for r in rows
            )
            assert found == told, (passage, stage)
            whole = f"{passage} / {stage}"
            words = re.sub(r"\]_\{[^}]*\}|\[", "", line)
            assert plain(
                tokens[
                    int(cells[whole, "first token"]["ours"]) : int(
                        cells[whole, "last token"]["ours"]
                    )
                    + 1
                ]
            ) == plain(words)


# The reports


@pytest.fixture(scope="module")
def reproduced(make_table):
    "A function that makes these tables in a folder of its own: cells by row and column."

    def make(home: Path, tables=TABLES, **how) -> dict[str, dict]:
        rows = {t: make_table(home, f"bookcoref/{t}", **how) for t in tables}
        return {t: {(c["row"], c["column"]): c for c in told} for t, told in rows.items()}

    return make


def counts(got: dict) -> dict[str, tuple[int, int]]:
    "Matching and differing cells of each table."
    return {
        t: tuple(
            sum(
                c["difference"] == "0" if same else c["difference"] not in ("", "0")
                for c in x.values()
            )
            for same in (True, False)
        )
        for t, x in got.items()
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def made(upstream, home, reproduced):
    return reproduced(home, upstream=upstream)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory, reproduced):
    folder, tables = tmp_path_factory.mktemp("sample"), ["table_1_statistics", "table_8_books"]
    return reproduced(folder, tables, task="sample/bookcoref")


MATCH = {
    "table_1_statistics": (20, 4),
    "table_4_efficiency": (0, 0),
    "table_5_prompt": (0, 0),
    "table_7_error_analysis": (0, 0),
    "table_8_books": (6, 2),
}


def test_printed_cells_that_match(made):
    assert counts(made) == MATCH
    one = made["table_1_statistics"]
    assert all(
        one["LitBank", c]["difference"] == "0"
        for c in (
            "documents",
            "tokens",
            "mentions",
            "tokens per document",
            "mentions per document",
            "chains per document",
            "mentions per chain",
            "mention distance",
        )
    )
    assert {k for k, c in one.items() if c["difference"] not in ("", "0")} == {
        ("BookCoref gold", "tokens"),
        ("BookCoref gold", "tokens per document"),
        ("WikiCoref", "tokens per document"),
        ("WikiCoref", "mention distance"),
    }
    eight = made["table_8_books"]
    assert {k for k, c in eight.items() if c["difference"] not in ("", "0")} == {
        ("Animal Farm", "tokens"),
        ("Pride and Prejudice", "tokens"),
    }


def test_every_differing_or_missing_cell_has_a_reason(made):
    for table, got in made.items():
        for k, c in got.items():
            assert c["ours"] and c["difference"] in ("", "0") or c["reason"], (table, k)


def test_sums_of_table_8(made):
    got = {
        r: {c: float(x["ours"]) for (row, c), x in made["table_8_books"].items() if row == r}
        for r in (
            "50 silver books: sum of the printed",
            "50 silver books: mean of the printed",
            "3 gold books: sum of the printed",
            "3 gold books: mean of the printed",
        )
    }
    assert [list(x.values()) for x in got.values()] == [
        [10_831_302, 1_408],
        [216_626.04, 28.16],
        [230_784, 67],
        [76_928, 22.333333],
    ]
    assert (
        sum(
            c == "names in LiSCU's list" and bool(x["ours"])
            for (_, c), x in made["table_8_books"].items()
        )
        == 48
    )


def test_lengths_of_table_5(made):
    got = {k: float(c["ours"]) for k, c in made["table_5_prompt"].items()}
    assert (
        got["template", "words"],
        got["template", "characters"],
        got["template", "placeholders"],
    ) == (46, 269, 3)
    assert (
        got["Animal Farm, 400 words in all", "questions"] == 1_705
        and got["for a mention of the sample, 400 words each side", "words"]
        == got["for a mention of the sample, 400 words in all", "words"] + 400
    )


def test_counts_of_table_7(made):
    got = {
        stage: [
            made["table_7_error_analysis"][f"passage {p} / {stage}", c]["ours"]
            for p in (1, 2)
            for c in ("mentions", "right against the final row")
        ]
        for stage in PASSAGES["passage 1"]
    }
    assert got == {
        "CL": ["3", "2", "4", "3"],
        "CL + LLM": ["2", "2", "1", "1"],
        "CL + window": ["6", "4", "9", "7"],
        "CL + LLM + window": ["6", "6", "9", "9"],
    }


def test_no_line_of_the_book_is_in_a_report(made, home):
    said = "\n".join(
        p.read_text()
        for t in TABLES
        for p in (home / "reports/bookcoref").glob(f"{t}.*")
        if p.suffix != ".png"
    )
    assert "Caroline Bingley" in said and not re.search(
        r"in love|the daughter|countenance|examining", said
    )


def test_on_the_sample(sampled):
    assert set(counts(sampled).values()) == {(0, 0)}
    assert not any(
        c["paper"] != "not in our sources" for got in sampled.values() for c in got.values()
    )
    assert float(
        sampled["table_1_statistics"]["sample stories", "mention distance"]["ours"]
    ) == round(mention_distance(load("sample")), 6)
    assert len([k for k in sampled["table_8_books"] if k[1] == "characters"]) == 6


def test_without_any_file(tmp_path, reproduced):
    "Every cell that cannot be computed says what to fetch, and nothing fails."
    got = reproduced(tmp_path)
    assert all(c["ours"] or c["reason"] for x in got.values() for c in x.values())
    assert (
        "refnb fetch litbank" in got["table_1_statistics"]["LitBank", "tokens"]["reason"]
        and "refnb fetch bookcoref" in got["table_8_books"]["Siddhartha", "tokens"]["reason"]
    )
    assert (
        "refnb fetch bookcoref"
        in got["table_7_error_analysis"]["passage 1 / CL", "first token"]["reason"]
        and got["table_7_error_analysis"]["passage 1 / CL", "mentions"]["ours"] == "3"
    )


def made_up_gold(s, path: Path, share: int = 1) -> Path:
    """A file of the hub's form with the published counts, or a share of them.

    Animal Farm has its clusters; elsewhere mentions are at even steps."""

    def line(key, tokens, mentions, chains):
        at = [tokens * i // mentions for i in range(mentions)]
        clusters = [[[i, i] for i in at[k::chains]][::share] for k in range(chains)]
        return {
            "doc_key": key,
            "gutenberg_key": key.rpartition("_")[2],
            "clusters": clusters,
            "characters": [
                {"name": f"character {k}", "mentions": c} for k, c in enumerate(clusters)
            ],
        }

    [farm] = load("animal-farm", s=s)
    clusters = [c[::share] for c in farm.clusters]
    named = [{"name": n, "mentions": c} for n, c in zip(farm.names, clusters, strict=True)]
    last = {
        "doc_key": "animal_farm_0",
        "gutenberg_key": "0",
        "clusters": clusters,
        "characters": named,
    }
    lines = [
        line("siddhartha_2500", 47_785, 4_933, 9),
        line("pride_and_prejudice_1342", 142_742, 16_419, 38),
        last,
    ]
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    return path


def test_with_gold_clusters(s, upstream, tmp_path, reproduced):
    "The cells that wait for the hub are filled in by themselves."
    tables = ["table_1_statistics", "table_8_books"]
    got = reproduced(
        tmp_path, tables, upstream=upstream, gold=made_up_gold(s, tmp_path / "test.jsonl")
    )
    one = got["table_1_statistics"]
    assert [
        float(one["BookCoref gold", c]["ours"]) for c in ("documents", "tokens", "mentions")
    ] == [3, 225_506, 23_057] and one["BookCoref gold", "chains per document"]["difference"] == "0"
    assert (
        abs(
            float(one["BookCoref gold", "mentions per chain"]["ours"])
            - (85.25 + 4_933 / 9 + 16_419 / 38) / 3
        )
        < 1e-5
        and one["BookCoref gold", "mention distance"]["ours"]
    )
    assert got["table_8_books"]["Siddhartha", "characters"]["run"] == "gold clusters" and counts(
        got
    )["table_8_books"] == (6, 2)


def made_up_silver(path: Path, books: dict[str, tuple[int, int]], text: bool) -> str:
    "A file of the hub's form: Gutenberg numbers with tokens and chains; with text, as the authors' script writes it."
    with path.open("w") as f:
        for key, (tokens, chains) in books.items():
            clusters = [[[2 * k, 2 * k], [2 * k + 1, 2 * k + 1]] for k in range(chains)]
            words = {"sentences": [["w"] * tokens]} if text else {}
            people = [{"name": f"character {k}", "mentions": c} for k, c in enumerate(clusters)]
            f.write(
                json.dumps(
                    {
                        "doc_key": f"book_{key}",
                        "gutenberg_key": key,
                        "clusters": clusters,
                        "characters": people,
                    }
                    | words
                )
                + "\n"
            )
    return str(path)


def test_silver_books_fill_their_rows(upstream, tmp_path, reproduced):
    tables = ["table_1_statistics", "table_8_books"]
    names = made_up_silver(
        tmp_path / "train.jsonl", {"158": (190_921, 24), "7088": (40_000, 44)}, False
    )
    whole = made_up_silver(
        tmp_path / "all.jsonl", {"158": (190_921, 24), "7088": (40_000, 44)}, True
    )
    got = reproduced(tmp_path / "names", ["table_8_books"], upstream=upstream, silver=names)[
        "table_8_books"
    ]
    assert (
        got["Emma", "characters"]["difference"] == "0"
        and got["Emma", "tokens"]["reason"] == "the hub's file has no text"
    )
    assert got["The Pilgrim's Progress", "characters"]["difference"] == "-1" and got[
        "Jane Eyre", "tokens"
    ]["reason"].startswith("silver books are on a hub alone")
    both = reproduced(tmp_path / "whole", tables, upstream=upstream, silver=whole)
    assert (
        both["table_8_books"]["Emma", "tokens"]["difference"] == "0"
        and both["table_8_books"]["The Pilgrim's Progress", "tokens"]["reason"] == "unexplained"
    )
    assert (
        float(both["table_1_statistics"]["BookCoref silver", "tokens"]["ours"]) == 230_921
        and "2 of the 50 books"
        in both["table_1_statistics"]["BookCoref silver", "tokens"]["reason"]
    )


def test_own_silver_stands_beside(upstream, tmp_path, reproduced):
    own = made_up_silver(tmp_path / "own.jsonl", {"1342": (142_742, 30)}, True)
    got = reproduced(tmp_path / "own", ["table_8_books"], upstream=upstream, own=own)[
        "table_8_books"
    ]
    assert [
        got["Pride and Prejudice", f"own {c}"]["ours"] for c in ("tokens", "chains", "mentions")
    ] == ["142742", "30", "60"] and ("Emma", "own tokens") not in got


@pytest.mark.parametrize("share", [200, pytest.param(1, marks=pytest.mark.full)])
def test_gold_mentions_are_counted_as_questions(
    s, upstream, tmp_path, reproduced, monkeypatch, share
):
    "One mention in two hundred by default: prompts of all of them take a minute."
    if share > 1:
        titled = corpora.as_published
        monkeypatch.setattr(corpora, "as_published", lambda d, where, *counts: titled(d, where))
    gold = made_up_gold(s, tmp_path / "test.jsonl", share)
    got = reproduced(tmp_path, ["table_5_prompt"], upstream=upstream, gold=gold)["table_5_prompt"]
    asked = {r: int(float(c["ours"])) for (r, column), c in got.items() if column == "questions"}
    titles = ["Siddhartha", "Pride and Prejudice", "Animal Farm"]
    books = map(json.loads, gold.read_text().splitlines())
    mentions = {t: sum(map(len, b["clusters"])) for t, b in zip(titles, books, strict=True)}
    assert asked == {f"{t}, 400 words {r}": n for t, n in mentions.items() for r in CONTEXTS}
