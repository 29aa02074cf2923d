"""Questions from anybody's documents, and files of other benchmarks: generated examples, none of the sets' own text."""

import json
import pytest
from hypothesis import given, settings, strategies as st
from refnb.core.choice_files import choice_form, parse_choice, read_questions
from refnb.core.documents import Document
from refnb.core.files import read_jsonl
from refnb.core.jsonlines import parse_jsonlines
from refnb.core.reading import write_documents
from refnb.core.types import CallError, DataError, FormatError, NONE, Question, RefnbError, Span
from refnb.benchmarks.identifyme.building import build
from refnb.benchmarks.pronouns import audit, build_pronouns, languages
from refnb.benchmarks.bookcoref.questions import build_filter
from refnb.benchmarks.tasks import as_task
from refnb.commands.cli import main

MILLION = "a" * 1_000_000
NAMES = ("Anna Kern", "Bruno", "Clara", "Dario")
HE_SHE = {code: (w.feminine.split()[0], w.masculine.split()[0]) for code, w in languages().items()}


def story(language: str, n: int = 30, key: str = "s") -> Document:
    "Sentences in which people meet and a pronoun means the first, the second, or somebody from before."
    sentences, clusters, at = [], [[] for _ in NAMES], 0
    for i in range(n):
        a, b, who = i % 4, (i + 1) % 4, (i, i + 1, i + 2)[i % 3] % 4
        words = [
            *NAMES[a].split(),
            "x",
            *NAMES[b].split(),
            ".",
            HE_SHE[language][who % 2],
            "y",
            ".",
        ]
        place = {a: 0, b: len(NAMES[a].split()) + 1}
        for k in (a, b):
            clusters[k].append(Span(at + place[k], at + place[k] + len(NAMES[k].split()) - 1))
        clusters[who].append(Span(at + len(words) - 3, at + len(words) - 3))
        sentences.append(tuple(words))
        at += len(words)
    return Document(key, tuple(sentences), tuple(map(tuple, clusters)))


@pytest.mark.parametrize("language", HE_SHE)
def test_a_pronoun_of_four_languages_means_what_its_cluster_says(language):
    doc = story(language)
    asked = build_pronouns([doc], language=language, neither=0.3)
    of = {span: k for k, c in enumerate(doc.clusters) for span in c}
    for q in asked:
        assert q.text[slice(*q.chars)] in HE_SHE[language] and q.options[-1].name == NONE
        start, end = map(int, q.id.rpartition(":")[2].split("-"))
        meant, chosen = NAMES[of[Span(start, end)]], q.options[q.right[0]].name
        assert chosen == meant if chosen != NONE else meant not in [o.name for o in q.options]
        assert all(o.name in q.text for o in q.options[:-1])
    assert len(asked) > 20 and len({q.right for q in asked}) == 3
    other = next(x for x in HE_SHE if x != language)
    with pytest.raises(DataError, match="no mention is one of the pronouns"):
        build_pronouns([doc], language=other)


def test_all_languages_are_read_at_once():
    docs = [story(x, 9, x) for x in HE_SHE]
    assert (
        {q.doc_key for q in build_pronouns(docs, language=",".join(HE_SHE))}
        == set(HE_SHE)
        == set(languages())
    )


def test_rules_make_questions_harder():
    doc = story("en", 60)
    assert {len(q.options) for q in build_pronouns([doc], options=3)} == {4}
    assert "up to 10" not in {
        q.meta["distance"]
        for q in build_pronouns([doc], nearest=11)
        if q.meta["answer"] != "neither"
    }
    assert audit(build_pronouns([doc], neither=0.0))["right"].keys() == {"1", "2"}
    assert audit(build_pronouns([doc], neither=1.0, options=2))["right"].get("neither", 0) > 30
    for bad in (
        dict(options=1),
        dict(nearest=5, farthest=4),
        dict(neither=2.0),
        dict(most=-1),
        dict(farhest=3),
    ):
        with pytest.raises(CallError):
            build("pronouns", [doc], **bad)


def test_the_same_seed_draws_the_same_whatever_stands_beside():
    docs = [story("en", 30, k) for k in "ab"]
    assert build_pronouns(docs) == build_pronouns(iter(docs))
    alone = {q.id: q for q in build_pronouns(docs[:1])}
    assert all(alone.get(q.id, q) == q for q in build_pronouns(docs) if q.doc_key == "a")
    assert [q.id for q in build_pronouns(docs, seed=1, most=9)] != [
        q.id for q in build_pronouns(docs, most=9)
    ]
    assert (
        build_filter(docs, most=10)
        == build_filter(docs, most=10)
        != build_filter(docs, most=10, seed=2)
    )


def test_the_filter_asks_each_mention_twice():
    asked = build_filter([story("de", 20)], language="de", words=10)
    assert len(asked) == 2 * 60 and len({q.id for q in asked}) == len(asked)
    assert audit(asked)["right"] == {"No": 60, "Yes": 60} and audit(asked)["random"] == 0.5
    assert {q.meta["character"] for q in asked} == set(NAMES)


def test_documents_that_cannot_be_asked_are_one_line():
    bare = Document("d", (("Ann", "met", "Bo"),))
    for docs, said in [
        ([], "none of 0 documents has text and clusters"),
        ([bare], "none of 1 documents"),
        (
            [bare.changed(clusters=((Span(0, 0),), (Span(2, 2),)))],
            "no mention is one of the pronouns",
        ),
        ([Document("d", (("he", "ran"),), ((Span(0, 0),),))], "no mention is one of the names"),
        (
            [Document("d", (("Ann", "saw", "him"),), ((Span(0, 0),), (Span(2, 2),)))],
            "no pronoun has 2 names",
        ),
    ]:
        with pytest.raises(DataError, match=said):
            build_pronouns(docs)
    with pytest.raises(DataError, match="no document has two characters"):
        build_filter([Document("d", (("he", "ran"),), ((Span(0, 0),),))])


def test_one_sentence_of_a_hundred_thousand_words_gives_short_texts():
    doc = story("en", 12_000)
    long = doc.changed(sentences=(tuple(doc.tokens),))
    assert max(len(q.text) for q in build_pronouns([long], most=50)) < 5000


def test_names_with_two_answers_are_not_offered():
    d = Document(
        "d",
        (("Ann", "met", "Ann", "Lee", "and", "Bo", ".", "She", "sat", "."),),
        ((Span(0, 0), Span(7, 7)), (Span(2, 3),), (Span(5, 5),)),
    )
    [q] = build_pronouns([d], neither=0.0)
    assert [o.name for o in q.options] == ["Ann", "Bo", NONE]
    twice = d.changed(
        clusters=(*d.clusters, (Span(0, 0),))
    )  # a span of two clusters means neither for certain
    with pytest.raises(DataError, match="no pronoun has 2 names"):
        build_pronouns([twice], neither=0.0)


def run(*args, capsys):
    status = main(list(args))
    out = capsys.readouterr()
    return status, out.out, out.err


def test_the_command_builds_and_says_what_guessing_gets(tmp_path, capsys):
    write_documents(tmp_path / "d.jsonl", [story("fr", 30)])
    status, out, err = run(
        "build",
        "pronouns",
        "--corpus",
        str(tmp_path / "d.jsonl"),
        "--set",
        "language=fr",
        "--out",
        str(tmp_path / "q.jsonl"),
        capsys=capsys,
    )
    assert (status, err) == (0, "") and "without reading: random 33.3 %, nearest-mention" in out
    assert '"canary"' in (tmp_path / "q.jsonl").read_text() and len(
        list(read_jsonl(tmp_path / "q.jsonl", Question))
    ) == len(as_task(tmp_path / "q.jsonl").items)
    status, out, _ = run(
        "build",
        "filter",
        "--corpus",
        str(tmp_path / "d.jsonl"),
        "--set",
        "most=8",
        "--json",
        capsys=capsys,
    )
    assert status == 0 and json.loads(out)["right"] == {"No": 4, "Yes": 4}
    assert run("build", "filter", "--names", "auto", capsys=capsys)[2].count("\n") == 1
    assert (
        "did you mean language?"
        in run("build", "pronouns", "--set", "langauge=de", capsys=capsys)[2]
    )


# Files of other benchmarks

GRANDE = dict(
    qID="K7-1",
    sentence="Ann fed the cat before _ slept.",
    option1="Ann",
    option2="the cat",
    answer="2",
)
WSC = dict(
    text="Ann fed the cat before it slept.",
    pronoun="it",
    pronoun_loc=23,
    options=["Ann", "the cat"],
    label=1,
    source="",
    quote="",
)
KNOW = dict(
    sentence_with_pronoun="Ann fed the cat before [it] slept .",
    candidate0=["Ann"],
    candidate1="the cat",
    correct_candidate_idx=1,
)
XML = (
    "<?xml version='1.0'?><collection><schema><text><txt1> Ann fed\n the cat before </txt1><pron> it </pron><txt2>slept.</txt2></text>"
    "<answers><answer>Ann</answer><answer> the  cat</answer></answers><correctAnswer> B.</correctAnswer></schema></collection>"
)
DPR = "Ann fed the cat before it slept.\nit\nAnn,the cat\nThe cat\n\n"
GENDER = "sentid\tsentence\nbaker.client.1.female.txt\tThe baker told the client that she can wait.\nbaker.someone.0.neutral.txt\tThe baker told someone that they can wait.\n"
FILES = {
    "winogrande": json.dumps(GRANDE) + "\n",
    "wsc": json.dumps([WSC], indent=1),
    "xml": XML,
    "knowref": json.dumps([KNOW]),
    "dpr": DPR,
    "winogender": GENDER,
}


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("change", ["", "bom", "crlf"])
def test_each_form_is_recognised_and_read(form, change, tmp_path):
    data = FILES[form].encode()
    if change == "bom":
        data = b"\xef\xbb\xbf" + data
    if change == "crlf":
        data = data.replace(b"\n", b"\r\n")
    assert choice_form(data) == form
    (tmp_path / "x").write_bytes(data)
    found = as_task(tmp_path / "x").questions
    assert found == read_questions(tmp_path / "x") and found[0].right == (1,)
    assert found[0].text[slice(*found[0].chars)] in ("_", "it", "she") and "\r" not in found[0].text


def test_lines_of_json_and_mirrors_have_the_same_ids():
    a, b = (parse_choice(x.encode())[0] for x in (FILES["wsc"], XML))
    assert a == b == parse_choice(json.dumps(WSC).encode())[0]
    both = [WSC, WSC | {"text": "Ann fed the cat before it cried.", "label": 0}]
    one, two = parse_choice(json.dumps(both).encode())
    assert one.id == a.id != two.id and one.doc_key == two.doc_key
    assert two.id == parse_choice(json.dumps(both[::-1]).encode())[0].id


BAD = {
    "no label": (
        "winogrande",
        json.dumps({k: v for k, v in GRANDE.items() if k != "answer"}),
        "has no answer",
    ),
    "empty label": ("winogrande", json.dumps(GRANDE | {"answer": ""}), "has no answer"),
    "label of a mirror": ("wsc", json.dumps([WSC | {"label": -1}]), "has no answer"),
    "third answer": ("winogrande", json.dumps(GRANDE | {"answer": 3}), "neither 1 nor 2"),
    "two answers": ("winogrande", json.dumps(GRANDE)[:-1] + ', "answer": "1"}', "answer"),
    "list of answers": (
        "winogrande",
        json.dumps(GRANDE | {"answer": ["1", "2"]}),
        "field|Expected",
    ),
    "no blank": ("winogrande", json.dumps(GRANDE | {"sentence": MILLION}), "no blank"),
    "same options": ("winogrande", json.dumps(GRANDE | {"option2": "ann "}), "appears twice"),
    "empty option": ("winogrande", json.dumps(GRANDE | {"option2": " "}), "not empty"),
    "id twice": (
        "winogrande",
        json.dumps(GRANDE) + "\n" + json.dumps(GRANDE),
        "line 2: 'K7-1' appears twice",
    ),
    "wrong type": ("winogrande", json.dumps(GRANDE | {"sentence": 5}), "Expected `str`"),
    "later line": ("winogrande", json.dumps(GRANDE) + '\n{"sentence": 1', "line 2"),
    "place": ("wsc", json.dumps([WSC | {"pronoun_loc": -9}]), "is not at character -9"),
    "one option": ("wsc", json.dumps([WSC | {"options": ["Ann"]}]), "two candidates"),
    "right outside": ("wsc", json.dumps([WSC | {"label": 7}]), "none of the 2"),
    "no brackets": (
        "knowref",
        json.dumps([KNOW | {"sentence_with_pronoun": "it"}]),
        "no pronoun in brackets",
    ),
    "bomb": ("xml", '<!DOCTYPE a [<!ENTITY b "c">]>' + XML[21:], "declares entities"),
    "cut": ("xml", XML[:-9], "not XML"),
    "no pronoun": ("xml", XML.replace("<pron> it </pron>", ""), "has no pronoun"),
    "answer": ("xml", XML.replace("B.", "Both"), "not one letter"),
    "block": ("dpr", DPR + "A lone line.\n", "a block of 1 lines"),
    "unlabelled": ("dpr", DPR.replace("The cat\n", ""), "has no answer"),
    "other answer": ("dpr", DPR.replace("The cat\n", "the dog\n"), "none of the 2"),
    "sentid": ("winogender", GENDER.replace(".1.", ".2."), "is not occupation"),
    "tab": (
        "winogender",
        GENDER.replace("txt\tThe", "txt The"),
        "is not occupation|pronoun is not",
    ),
    "pronoun": ("winogender", GENDER.replace("she", "he"), "pronoun is not in the sentence"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_line_with_its_place(case):
    form, text, said = BAD[case]
    assert choice_form(text.encode()) == form
    with pytest.raises((FormatError, DataError), match=said) as e:
        parse_choice(text.encode(), "f.x")
    assert str(e.value).startswith("f.x") and "\n" not in str(e.value) and len(str(e.value)) < 400


@pytest.mark.parametrize("form", FILES)
def test_a_million_characters_do_no_harm(form):
    text = FILES[form].replace("slept", MILLION).replace("wait", MILLION)
    assert len(parse_choice(text.encode())[0].text) > 1_000_000
    for old in ("cat", "baker"):
        try:
            parse_choice(FILES[form].replace(old, MILLION).encode(), "f")
        except RefnbError as e:
            assert len(str(e)) < 400


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.integers(0, 400), st.binary(max_size=6))
def test_a_damaged_file_is_an_error_of_one_line_or_questions(form, at, junk):
    data = FILES[form].encode()
    data = data[: at % len(data)] + junk + data[at % len(data) + len(junk) // 2 :]
    try:
        assert not choice_form(data) or all(
            isinstance(q, Question) for q in parse_choice(data, "f")
        )
    except RefnbError as e:
        assert "\n" not in str(e)


def test_files_that_are_none_of_these_stay_what_they_were(tmp_path):
    for text in (
        '{"id": "q", "doc_key": "d", "options": [{"name": "a"}]}',
        "[[[0, 1]]]",
        "#begin document (a);\n",
        "",
        "[",
        "[1]",
        "{}",
        "<html>",
        "a\nb\nc,d",
    ):
        assert choice_form(text.encode()) == ""
    with pytest.raises(FormatError, match="is none of"):
        parse_choice(b"{}", "f")


def test_preco_is_read_as_documents(tmp_path):
    line = {
        "id": "p-1",
        "sentences": [["Ann", "Lee", "ran", "."], [" "], ["She", "fell", "."]],
        "mention_clusters": [[[0, 0, 2], [2, 0, 1]]],
    }
    (tmp_path / "p.jsonl").write_text(json.dumps(line))
    [d] = as_task(tmp_path / "p.jsonl").documents
    assert (d.doc_key, d.clusters) == ("p-1", ((Span(0, 1), Span(5, 5)),))
    for bad in (
        [[[0, 1, 1]]],
        [[[3, 0, 1]]],
        [[[-1, 0, 1]]],
        [[[0, 0]]],
        [["x"]],
        5,
        [[[2, 0, 4]]],
    ):
        with pytest.raises(FormatError, match="line 1, field mention_clusters"):
            parse_jsonlines(json.dumps(line | {"mention_clusters": bad}).encode(), "p")
    own = {
        "doc_key": "d",
        "id": {"of": "another tool"},
        "sentences": [["a"]],
        "clusters": [],
        "mention_clusters": "unknown",
    }
    assert parse_jsonlines(json.dumps(own).encode()) == [Document("d", (("a",),))]


def test_a_file_of_winogrande_is_run_and_scored(tmp_path, capsys, monkeypatch):
    for name in ("RUNS", "REPORTS"):
        monkeypatch.setenv(f"REFNB_{name}", str(tmp_path / name))
    lines = [
        GRANDE
        | {
            "qID": f"K{i // 2}-{i % 2 + 1}",
            "answer": str(i % 2 + 1),
            "sentence": f"{i} {GRANDE['sentence']}",
        }
        for i in range(8)
    ]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    status, out, _ = run("run", str(tmp_path / "dev.jsonl"), "random", "--json", capsys=capsys)
    assert status == 0
    [folder] = (tmp_path / "RUNS").glob("given/*/random/*")
    for more in ((), ("--gold", str(tmp_path / "dev.jsonl"))):
        told = json.loads(run("score", "choice", str(folder), *more, "--json", capsys=capsys)[1])
        assert (
            told["questions"],
            told["groups"]["all"]["accuracy"],
            told["groups"]["all"]["documents"],
        ) == (8, 0.5, 4)
    (tmp_path / "test.jsonl").write_text(
        "".join(json.dumps({k: v for k, v in x.items() if k != "answer"}) + "\n" for x in lines)
    )
    status, out, err = run("run", str(tmp_path / "test.jsonl"), "random", capsys=capsys)
    assert (
        status == 1
        and err.count("\n") == 1
        and "line 1: has no answer" in err
        and "take the development file" in err
    )


def test_litbank_gives_questions_of_both_kinds():
    from refnb.benchmarks.tasks import task_is_here

    if not task_is_here("litbank/fold0/dev"):
        pytest.skip("LitBank is not here")
    asked = build("pronouns", "litbank", of="dev", most=200)
    assert len(asked) == 200 and 0.2 < audit(asked)["nearest-mention"] < 0.7
    assert audit(build("filter", "litbank", of="dev", most=100))["right"] == {"No": 50, "Yes": 50}
