"`refnb score coref`: any two formats, settings, what is missing or twice, and bad calls."

import gzip, json
import pytest
from refnb import Document
from refnb.core.documents import tidy
from refnb.core.jsonlines import jsonlines_text
from refnb.core.reading import write_documents
from refnb.core.upstream import get
from tools import here, one_line

GOLD = Document(
    "book_0",
    (("Ann", "met", "Bea", "."), ("She", "smiled", ".")),
    tidy([[(0, 0), (4, 4)], [(2, 2)]]),
)
GUESS = GOLD.changed(clusters=tidy([[(0, 0)], [(2, 2), (4, 4)]]))


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    "The command, beside gold and the same prediction in every format."
    monkeypatch.chdir(tmp_path)
    for name in ("gold.conll", "gold.jsonl.gz"):
        write_documents([GOLD], name)
    for name in ("p.conll", "p.conll.gz", "p.jsonl", "p.jsonl.gz", "p.conllu", "p.conllu.gz"):
        write_documents([GUESS], name)
    plain = {"doc_key": "book_0", "clusters": [[[0, 0]], [[2, 2], [4, 4]]]}
    (tmp_path / "plain.jsonl").write_text(json.dumps(plain) + "\n")
    return lambda *args: here(capsys, "score", "coref", *args)


def write(name: str, *docs: Document):
    with open(name, "w") as f:
        f.write(jsonlines_text(docs))


def test_a_table_for_people_and_one_object_of_percentages(score):
    said = score("gold.conll", "p.jsonl", "--json")
    got = json.loads(said.out)
    assert said.status == 0 and not said.err and got["unit"] == "percent"
    assert (got["documents"], got["gold_mentions"], got["predicted_mentions"]) == (1, 3, 3)
    assert got["conll"] == {"f1": pytest.approx((0 + 200 / 3 + 200 / 3) / 3, abs=1e-3)}
    assert got["b3"]["recall"] == pytest.approx(200 / 3)
    assert {"muc", "ceafe", "ceafm", "blanc", "lea", "mentions"} <= got.keys()
    lines = score("gold.conll", "p.conll", "--metrics", "muc,b3,ceafe").out.splitlines()
    assert "3 gold and 3 predicted mentions" in lines[0]
    assert [x.split("\t")[0] for x in lines[1:]] == ["metric", "muc", "b3", "ceafe", "conll"]


def test_any_two_formats_have_the_same_score(score):
    predicted = ("p.conll", "p.conll.gz", "p.jsonl", "p.jsonl.gz", "p.conllu", "plain.jsonl")
    pairs = [("gold.conll", p) for p in predicted] + [("gold.jsonl.gz", "p.conllu.gz")]
    said = [score(*pair, "--json") for pair in pairs]
    assert {(x.status, x.err) for x in said} == {(0, "")}
    found = [json.loads(x.out)["b3"] for x in said]
    assert all(x == found[0] for x in found)


def test_bad_calls_and_files_are_one_line(score):
    write("other.jsonl", Document("x"))
    write("windows.jsonl", Document("book_0_split1500_S0"))
    with open("torn.conll", "w") as f:
        f.write("#begin document (book); part 000\nbook 0 0 Ann (3\n")
    for args, status, *parts in (
        (("gold.conll", "nothing.jsonl"), 1, "nothing.jsonl: no such file"),
        (("gold.conll", "p.conll", "--metrics", "mucc"), 2, "'mucc'; did you mean muc?"),
        (("gold.conll", "p.conll", "--setting", "windows"), 2, "did you mean window?"),
        (("gold.conll", "other.jsonl"), 1, "'book_0'", "'x'", "doc_key"),
        (("gold.conll", "windows.jsonl"), 1, "setting split"),
        (("plain.jsonl", "plain.jsonl", "--setting", "window"), 1, "'book_0'", "text"),
        (("gold.conll", "torn.conll"), 1, "torn.conll, line 2", "#end document"),
    ):
        said = score(*args)
        one_line(said, status, *parts)
        assert not said.out, args


def test_scores_by_document_and_their_mean(score):
    x = GOLD.changed(doc_key="x")
    write("two.jsonl", GOLD, x)
    write("half.jsonl", GOLD, x.changed(clusters=()))
    asked = ("two.jsonl", "half.jsonl", "--by", "document", "--metrics", "b3")
    got = json.loads(score(*asked, "--json").out)
    assert list(got["by_document"]) == ["book_0", "x"] and "muc" not in got
    assert (got["macro"]["b3"]["precision"], got["b3"]["precision"]) == (50, 100)
    assert score(*asked).out.splitlines()[-3:] == ["book_0\t100.00", "x\t0.00", "their mean\t50.00"]


def test_missing_and_extra_documents_are_told(score):
    write("two.jsonl", GOLD, GOLD.changed(doc_key="x"))
    write("other.jsonl", GOLD, GOLD.changed(doc_key="y"))
    said = score("two.jsonl", "other.jsonl", "--json")
    got = json.loads(said.out)
    assert (said.status, got["missing"], got["extra"], got["documents"]) == (0, ["x"], ["y"], 2)
    assert got["b3"]["recall"] == 50
    assert "1 of the documents have no prediction" in said.err
    assert "1 of the documents are predicted without gold" in said.err


def test_gold_of_windows_is_derived_from_whole_gold(score, tmp_path, upstream, settings):
    s = settings(upstream=str(upstream))
    windows = "SapienzaNLP/bookcoref/predictions/finetuned_bookcoref/maverick_xl_splitted.jsonl"
    gold = get("QipengGuo/dual-cache-coref/data/animal_farm_anno.conll", s)
    (tmp_path / "af.conll").write_bytes(gold)
    (tmp_path / "split.jsonl.gz").write_bytes(gzip.compress(get(windows, s), 1))
    said = score("af.conll", "split.jsonl.gz", "--setting", "split", "--json")
    got = json.loads(said.out)
    assert (got["documents"], got["units"], len(got["extra"])) == (24, 24, 128)
    assert f"{got['conll']['f1']:.4f}" == "74.3934"
