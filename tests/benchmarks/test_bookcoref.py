"BookCoref: released predictions against known scores, windows, corpora and their cards, hub data, rows that fill in by themselves, the command line."

import csv, gzip, json, shutil, sys, types
from pathlib import Path
import pytest
import refnb.core.upstream as up
import refnb.models.published.clusters as pc
from refnb.core import corpora, hub
from refnb.core.conll import conll_text, parse_conll
from refnb.core.documents import Document, tidy
from refnb.core.jsonlines import jsonlines_text, parse_jsonlines
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, RefnbError, Span
from refnb.core.upstream import blob_id, get
from refnb.results.cluster_scores import pooled, run_counts
from refnb.metrics.coref import METRICS, scores, table
from refnb.metrics.coref_scores import score_coref
from refnb.metrics.linking import linking
from refnb.metrics.windows import split
from refnb.models.rules.clusters import pattern_matching
from refnb.models.running import run
from refnb.commands.cli import main

from tools import DATA

STEM = "SapienzaNLP/bookcoref/predictions/"
SYSTEMS = ("off_the_shelf/booknlp", "off_the_shelf/maverick_xl", "finetuned_bookcoref/maverick_xl")


def counts(docs) -> dict[str, int]:
    "What a card says of a corpus."
    return {
        "documents": len(docs),
        "tokens": sum(d.size for d in docs),
        "mentions": sum(len(d.mentions) for d in docs),
        "clusters": sum(len(d.clusters) for d in docs),
    }


def here(upstream: Path, **over):
    return load_settings(
        "/", env={"REFNB_UPSTREAM": str(upstream), "REFNB_OFFLINE": "true"}, **over
    )


@pytest.fixture(scope="module")
def released(upstream):
    "Predictions by file name, and Animal Farm."
    s = here(upstream)
    docs = {
        n: parse_jsonlines(get(f"{STEM}{n}.jsonl", s), n)
        for x in SYSTEMS
        for n in (x, f"{x}_splitted")
    }
    return docs | {"gold": corpora.animal_farm(s=s)}


# Scores


def test_animal_farm_in_all_settings(released):
    "72 rows of three numbers, to four decimals."
    rows, made = list(csv.DictReader((DATA / "animal_farm_scores.tsv").open(), delimiter="\t")), {}

    def score(system, setting):
        name, _, mode = setting.partition(" ")
        docs = released[f"{system}_splitted" if name == "split" else system]
        if name == "window":
            return score_coref(released["gold"], docs, "window", mode)
        return score_coref(released["gold"], docs, name, singletons=mode != "without singletons")

    for r in rows:
        at = (r["system"], r["setting"])
        if at not in made:
            made[at] = score(*at).pooled()
        assert [f"{100 * v:.4f}" for v in made[at][r["metric"]]] == [
            f"{float(r[k]):.4f}" for k in ("precision", "recall", "f1")
        ], r
    assert len(rows) == 72


@pytest.mark.parametrize(
    "system, muc, b3, ceafe",
    [
        (
            SYSTEMS[0],
            (1512, 2848, 1685),
            (1307.73763611157, 3342, 1222.29725301777, 1705),
            (15.6688681034865, 494, 20),
        ),
        (
            SYSTEMS[1],
            (1481, 3427, 1685),
            (450.284628356334, 3548, 745.639744494722, 1705),
            (6.94358394126191, 121, 20),
        ),
        (
            SYSTEMS[2],
            (1384, 1608, 1685),
            (734.736043776484, 1618, 1280.44606575565, 1705),
            (7.13925951944801, 10, 20),
        ),
    ],
)
def test_animal_farm_counts_of_the_official_scorer(released, system, muc, b3, ceafe):
    [gold], [predicted] = (
        released["gold"],
        [d for d in released[system] if d.doc_key == "animal_farm_0"],
    )
    t = table(gold.clusters, predicted.clusters)
    assert METRICS["muc"](t) == (muc[0], muc[1], muc[0], muc[2])
    assert METRICS["b3"](t) == pytest.approx(b3, abs=1e-9) and METRICS["ceafe"](t) == pytest.approx(
        (ceafe[0], ceafe[1], ceafe[0], ceafe[2]), abs=1e-9
    )


def test_a_whole_book_against_another_system(released):
    "Pride and Prejudice, fine-tuned Maverick as the key: mentions that cross sentences and each other."
    key, response = (
        [d for d in released[n] if d.doc_key.startswith("pride")] for n in (SYSTEMS[2], SYSTEMS[0])
    )
    got = score_coref(key, response).pooled()
    shown = {
        m: tuple(f"{100 * v:.4f}" for v in (got[m].recall, got[m].precision, got[m].f1))
        for m in ("muc", "b3", "ceafe")
    }
    assert (
        shown
        == {
            "muc": ("92.6477", "83.5198", "87.8473"),
            "b3": ("19.6234", "50.0244", "28.1889"),
            "ceafe": ("34.9946", "0.6249", "1.2279"),
        }
        and f"{100 * got['conll'].f1:.4f}" == "39.0880"
    )


def test_all_152_windows(released):
    ours = [w for d in released[SYSTEMS[1]] for w in split(d.changed(clusters=()))]
    assert [(w.doc_key, w.sentences) for w in ours] == [
        (d.doc_key, d.sentences) for d in released[f"{SYSTEMS[1]}_splitted"]
    ] and len(ours) == 152


def test_animal_farm_windows(released):
    windows = split(released["gold"][0])
    assert [
        len(windows),
        sum(len(w.clusters) for w in windows),
        sum(len(w.mentions) for w in windows),
        sum(len(c) == 1 for w in windows for c in w.clusters),
    ] == [24, 232, 1705, 65]
    slots = score_coref(released["gold"], released["gold"], "window").sums()["mentions"]
    assert (
        slots == (1751,) * 4
        and score_coref(released["gold"], released["gold"], "window", "paper").sums()["mentions"]
        == (1705,) * 4
    )


def test_pattern_matching_on_animal_farm(released):
    [gold] = released["gold"]
    exact = pattern_matching(gold)
    told = lambda d: [len(d.mentions), *(round(100 * v, 2) for v in linking([gold], [d]).macro)]
    assert told(exact) == [635, 100, 37.24, 54.27]
    assert (
        round(100 * scores(gold.clusters, exact.clusters)["conll"].f1, 2) == 44.27
        and sum(map(bool, exact.clusters)) == 16
    )


def test_predictions_that_conll_cannot_hold(released):
    "Off the shelf, Maverick's mentions of one entity cross in every book: CoNLL refuses, JSONL holds them."
    for d in released[SYSTEMS[1]]:
        with pytest.raises(RefnbError, match="cross|whitespace"):
            conll_text([d])
        [again] = parse_jsonlines(jsonlines_text([d]).encode())
        assert (again.clusters, again.sentences) == (d.clusters, d.sentences)
    [small] = [d for d in released[SYSTEMS[2]] if d.doc_key == "animal_farm_0"]
    [again] = parse_conll(conll_text([small]).encode())
    assert tidy(again.clusters) == tidy(small.clusters) and again.sentences == small.sentences


# Corpora


def test_every_card_says_what_loading_gives(upstream):
    s = here(upstream)
    for name, card in corpora.corpora().items():
        if name in ("bookcoref", "corefud"):
            continue
        assert counts(corpora.load(name, s=s)) == card.counts, name
        assert card.about and card.licence and (card.defects or name == "sample")
    assert (
        sum(b["mentions"] for b in corpora.the_corpus("bookcoref").books.values())
        == corpora.the_corpus("bookcoref").counts["mentions"]
    )


def test_litbank_splits_are_the_ten_folds(upstream):
    s = here(upstream)
    held_out = [corpora.litbank("test", s, fold) for fold in range(10)]
    assert len({d.doc_key for docs in held_out for d in docs}) == 100
    parts = [{d.doc_key for d in corpora.load("litbank", x, s)} for x in ("train", "dev", "test")]
    assert list(map(len, parts)) == [80, 10, 10] and len(set.union(*parts)) == 100
    listed = get("dbamman/lrec2020-coref/data/litbank_tenfold_splits/0/test.ids", s).decode()
    docs = held_out[0]
    assert [d.doc_key for d in docs] == [f"{x.removesuffix('.tsv')}_0" for x in listed.split()]
    told = {k: {x for d in docs for c in d.labels[k] for x in c} for k in ("kind", "type")}
    assert told["kind"] == {"PROP", "NOM", "PRON"}
    assert told["type"] <= {"PER", "FAC", "LOC", "GPE", "ORG", "VEH"}
    with pytest.raises(CallError, match="folds 0 to 9"):
        corpora.litbank("dev", s, fold=10)
    with pytest.raises(CallError, match="no split 'dve'; did you mean dev"):
        corpora.load("litbank", "dve", s)


def test_gold_and_text_join_by_key_and_length(upstream, tmp_path, monkeypatch):
    "A file of clusters without text, as the hub has it; another version of a book is refused."
    s, told = here(upstream), corpora.the_corpus("bookcoref").books
    texts = corpora.book_texts(s)

    def gold(key, shift=0, **over):
        n, m = told[key]["clusters"], told[key]["mentions"] + shift
        spans = [[i, i] for i in range(m)]
        return {
            "doc_key": key,
            "gutenberg_key": "0",
            "characters": [{"name": f"c{i}", "mentions": spans[i::n]} for i in range(n)],
            "clusters": [spans[i::n] for i in range(n)],
        } | over

    def write(*books):
        return (tmp_path / "test.jsonl").write_text(
            "".join(json.dumps(b) + "\n" for b in books)
        ) and tmp_path / "test.jsonl"

    docs = corpora.load("bookcoref", s=s, file=str(write(*map(gold, told))))
    assert (
        counts(docs) == corpora.the_corpus("bookcoref").counts
        and docs[1].names[:2] == ("c0", "c1")
        and [d.sentences for d in docs] == [texts[k].sentences for k in told]
    )
    with pytest.raises(DataError, match="4,934 mentions where the published version has 4,933"):
        corpora.load("bookcoref", s=s, file=str(write(gold("siddhartha_2500", 1))))
    with pytest.raises(DataError, match="no text is known for the book 'emma_158'"):
        corpora.load("bookcoref", s=s, file=str(write({"doc_key": "emma_158", "clusters": []})))
    far = gold("animal_farm_0")
    far["clusters"][0][0] = far["characters"][0]["mentions"][0] = [40000, 40000]
    with pytest.raises(
        DataError,
        match="not a span of the 34,979 tokens; clusters and text are of different versions",
    ):
        corpora.load("bookcoref", s=s, file=str(write(far)))


def test_f45_the_hub(tmp_path, monkeypatch):
    "Fetched once by name at the pinned revision; no other revision in silence."
    s, asked = load_settings("/", env={}, cache=str(tmp_path / "cache")), []
    (tmp_path / "file").write_text('{"doc_key": "a", "clusters": []}\n')

    class Commit(types.SimpleNamespace):
        pass

    commits = [Commit(commit_id="2c2587aca956" + "0" * 28), Commit(commit_id="f" * 40)]
    quiet = types.SimpleNamespace(logging=types.SimpleNamespace(set_verbosity_error=lambda: None))
    fake = types.SimpleNamespace(
        utils=quiet,
        HfApi=lambda: types.SimpleNamespace(list_repo_commits=lambda repo, repo_type: commits),
        hf_hub_download=lambda *a, **k: asked.append((a, k)) or str(tmp_path / "file"),
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    assert hub.hub_path("bookcoref-gold", s) is None
    path = hub.fetch_hub("bookcoref-gold", s)
    assert (
        path.read_text().startswith('{"doc_key"')
        and asked[0][1]["revision"] == "2c2587aca956" + "0" * 28
        and hub.hub_path("bookcoref-gold", s) == path
    )
    hub.fetch_hub("bookcoref-gold", s)
    assert len(asked) == 1
    commits.pop(0)
    with pytest.raises(DataError, match="0 revisions that begin with 2c2587aca956"):
        hub.fetch_hub("bookcoref-gold", load_settings("/", env={}, cache=str(tmp_path / "other")))
    fake.HfApi = lambda: (_ for _ in ()).throw(OSError("no network\nand more"))
    with pytest.raises(
        DataError,
        match="cannot be downloaded from the hub .OSError: no network.; try again later, or name a file",
    ) as e:
        hub.fetch_hub("bookcoref-gold", load_settings("/", env={}, cache=str(tmp_path / "other")))
    assert "\n" not in str(e.value)
    with pytest.raises(DataError, match="downloads are off"):
        hub.fetch_hub(
            "bookcoref-gold",
            load_settings("/", env={}, cache=str(tmp_path / "other"), offline=True),
        )


# Runs


def test_longdoc_fills_in_when_its_files_are_there(upstream, tmp_path, monkeypatch):
    "Stand-ins for the released files, in a local copy, under the registry's names."
    tree, known = tmp_path / "tree", dict(up.registry())
    for name in ("SapienzaNLP/bookcoref", "QipengGuo/dual-cache-coref"):
        shutil.copytree(upstream / name, tree / name)
    s = here(tree, runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports"))
    said = "its released predictions are not here: refnb fetch bookcoref-large"
    lacking = {f"published/longdoc on bookcoref/{p}": said for p in ("gold", "split")}
    assert pc.replay_clusters(["published/longdoc"], "bookcoref/gold", s) == lacking
    for end in ("", "_splitted"):
        data = get(f"{STEM}off_the_shelf/maverick_xl{end}.jsonl", s)
        f = known[f"{STEM}off_the_shelf/longdoc{end}.jsonl"]
        path = tree / f.place
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(data, 1))
        known[f.key] = f._replace(blob=blob_id(data), size=len(data))
    monkeypatch.setattr(up, "registry", lambda: known)
    monkeypatch.setattr(pc, "upstream_files", lambda: known)
    assert pc.replay_clusters(["published/longdoc"], "bookcoref/gold", s) == {}
    for task, f1 in (("gold", 29.15), ("split", 51.77)):
        got = run_counts("published/longdoc", f"bookcoref/{task}", s)
        setting = "full" if task == "gold" else "split"
        assert round(100 * pooled(got.counts, setting)["conll"].f1, 2) == f1


def test_more_gold_makes_the_summary_anew(upstream, tmp_path):
    "The run stays; its counts grow by the books whose gold has come. With less gold, they stay."
    s, told = (
        here(upstream, runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports")),
        corpora.the_corpus("bookcoref").books,
    )
    run = pc.run("bookcoref/gold", "published/maverick-xl-fine-tuned", s=s)
    assert list(run_counts("published/maverick-xl-fine-tuned", "bookcoref/gold", s).counts) == [
        "animal_farm_0"
    ]
    gold = {
        k: [
            [[i, i] for i in range(v["mentions"])][j :: v["clusters"]] for j in range(v["clusters"])
        ]
        for k, v in told.items()
    }
    gold["animal_farm_0"] = corpora.animal_farm(s=s)[0].clusters
    (tmp_path / "gold.jsonl").write_text(
        "".join(json.dumps({"doc_key": k, "clusters": c}) + "\n" for k, c in gold.items())
    )
    more = s.changed(bookcoref_gold=str(tmp_path / "gold.jsonl"))
    again = pc.run("bookcoref/gold", "published/maverick-xl-fine-tuned", s=more)
    counts = run_counts("published/maverick-xl-fine-tuned", "bookcoref/gold", more).counts
    assert again.folder == run.folder and sorted(counts) == sorted(told)
    assert (
        sum(counts[k]["full"]["mentions"][3] for k in told) == 23057
        and round(100 * pooled(counts, "full", ["animal_farm_0"])["conll"].f1, 2) == 62.75
    )
    pc.run("bookcoref/gold", "published/maverick-xl-fine-tuned", s=s)
    assert sorted(
        run_counts("published/maverick-xl-fine-tuned", "bookcoref/gold", s).counts
    ) == sorted(told)


def every_word(d):
    "The gold clusters of a story or a window, and every word that no mention begins with, alone."
    story, _, first = d.doc_key.partition("_split")
    [gold] = [g for g in corpora.sample(characters=True) if g.doc_key == story]
    if first:
        gold = {w.doc_key: w for w in split(gold, 300)}[d.doc_key]
    known = {s.start for s in gold.mentions}
    return [*gold.clusters, *(((k, k),) for k in range(d.size) if k not in known)]


def test_the_card_says_what_is_scored_whoever_answers(settings):
    "No character of a whole story is mentioned once, so such clusters count for nobody; in a window, one may be."
    s = settings()

    def conll(task, setting):
        done = run(task, every_word, s=s)
        assert any(len(c) == 1 for a in done.answers().values() for c in a.clusters)
        return pooled(run_counts(done.info.system, task, s).counts, setting)["conll"].f1

    assert conll("sample/bookcoref", "full") == 1
    assert conll("sample/bookcoref-split", "split") < 0.9
    [path] = Path(s.reports, "sample/runs/sample/bookcoref").glob("function*/*.json")
    old = json.loads(path.read_bytes())
    del old["gold"]["clusters of one mention"]  # of a summary that scored them
    for counts in old["counts"].values():
        counts["full"]["muc"][0] = 0.0
    path.write_text(json.dumps(old))
    assert conll("sample/bookcoref", "full") == 1  # made anew, of the same answers


def test_predictions_on_another_text_are_refused(upstream):
    s = here(upstream)
    [d] = corpora.animal_farm(s=s)
    with pytest.raises(DataError, match="gold has 34,979 tokens and the prediction 34,978"):
        score_coref(d, Document(d.doc_key, (*d.sentences[:-1], d.sentences[-1][:-1])))
    with pytest.raises(
        DataError,
        match="lies beyond the 34,979 tokens of gold; are these offsets of another text, or of subtokens",
    ):
        score_coref(d, Document(d.doc_key, clusters=((Span(40000, 40000),),)))


# The command line

GOLD = Document(
    "book_0",
    (("Ann", "met", "Bea", "."), ("She", "smiled", ".")),
    tidy([[(0, 0), (4, 4)], [(2, 2)]]),
)
KEYS = [
    "unit",
    "documents",
    "gold_mentions",
    "predicted_mentions",
    "muc",
    "b3",
    "ceafe",
    "ceafm",
    "blanc",
    "lea",
    "mentions",
    "conll",
]


@pytest.fixture
def files(tmp_path, monkeypatch):
    "The same prediction in every format."
    from refnb.core.reading import write_documents

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_OFFLINE", "true")
    guess = GOLD.changed(clusters=tidy([[(0, 0)], [(2, 2), (4, 4)]]))
    for name in ("gold.conll", "gold.jsonl.gz"):
        write_documents([GOLD], name)
    for name in ("p.conll", "p.conll.gz", "p.jsonl", "p.jsonl.gz", "p.conllu", "p.conllu.gz"):
        write_documents([guess], name)
    (tmp_path / "plain.jsonl").write_text(
        json.dumps({"doc_key": "book_0", "clusters": [[[0, 0]], [[2, 2], [4, 4]]]}) + "\n"
    )
    return tmp_path


def say(capsys, *args: str) -> tuple[int, str, str]:
    status = main(list(args))
    out, err = capsys.readouterr()
    return status, out, err


def test_a_table_for_people_and_one_object_of_percentages(files, capsys):
    status, out, err = say(capsys, "score", "coref", "gold.conll", "p.jsonl", "--json")
    told = json.loads(out)
    assert (status, err, list(told)[:12]) == (0, "", KEYS) and told["unit"] == "percent"
    assert (told["documents"], told["gold_mentions"], told["predicted_mentions"]) == (1, 3, 3)
    assert told["conll"] == {"f1": pytest.approx((0 + 200 / 3 + 200 / 3) / 3, abs=1e-3)}
    assert told["b3"]["recall"] == pytest.approx(200 / 3)
    asked = ("gold.conll", "p.conll", "--metrics", "muc,b3,ceafe")
    lines = say(capsys, "score", "coref", *asked)[1].splitlines()
    assert lines[0].startswith("1 document, 1 scored, 3 gold and 3 predicted mentions")
    assert [x.split("\t")[0] for x in lines[1:]] == ["metric", "muc", "b3", "ceafe", "conll"]


def test_any_two_formats(files, capsys):
    predicted = ("p.conll", "p.conll.gz", "p.jsonl", "p.jsonl.gz", "p.conllu", "plain.jsonl")
    pairs = [("gold.conll", p) for p in predicted] + [("gold.jsonl.gz", "p.conllu.gz")]
    told = [say(capsys, "score", "coref", *pair, "--json") for pair in pairs]
    assert {(status, err) for status, _, err in told} == {(0, "")}
    assert all(json.loads(out)["b3"] == json.loads(told[0][1])["b3"] for _, out, _ in told)


@pytest.mark.parametrize(
    "args, status, told",
    [
        (["gold.conll", "nothing.jsonl"], 1, "nothing.jsonl: no such file"),
        (
            ["gold.conll", "p.conll", "--metrics", "mucc"],
            2,
            "unknown metric 'mucc'; did you mean muc?",
        ),
        (
            ["gold.conll", "p.conll", "--setting", "windows"],
            2,
            "unknown setting 'windows'; did you mean window?",
        ),
        (
            ["gold.conll", "other.jsonl"],
            1,
            "no document has both gold and prediction: gold has 'book_0', the prediction 'x'; compare their doc_key",
        ),
        (["gold.conll", "windows.jsonl"], 1, "score them with setting split"),
        (
            ["plain.jsonl", "plain.jsonl", "--setting", "window"],
            1,
            "neither gold nor prediction has its text",
        ),
        (
            ["gold.conll", "torn.conll"],
            1,
            "torn.conll, line 2: document 'book_0' has no `#end document`; the file may be cut off",
        ),
    ],
)
def test_bad_calls_and_files_are_one_line(files, capsys, args, status, told):
    (files / "other.jsonl").write_text('{"doc_key": "x", "clusters": []}\n')
    (files / "windows.jsonl").write_text('{"doc_key": "book_0_split1500_S0", "clusters": []}\n')
    (files / "torn.conll").write_text("#begin document (book); part 000\nbook 0 0 Ann (3\n")
    got, out, err = say(capsys, "score", "coref", *args)
    assert got == status and told in err and err.count("\n") == 1 and not out


def test_by_document(files, capsys):
    x = GOLD.changed(doc_key="x")
    (files / "two.jsonl").write_text(jsonlines_text([GOLD, x]))
    (files / "half.jsonl").write_text(jsonlines_text([GOLD, x.changed(clusters=())]))
    asked = ("score", "coref", "two.jsonl", "half.jsonl", "--by", "document", "--metrics", "b3")
    told = json.loads(say(capsys, *asked, "--json")[1])
    assert list(told["by_document"]) == ["book_0", "x"] and "muc" not in told
    assert (told["macro"]["b3"]["precision"], told["b3"]["precision"]) == (50, 100)
    out = say(capsys, *asked)[1]
    assert out.splitlines()[-4:] == ["F1 of\tb3", "book_0\t100.00", "x\t0.00", "their mean\t50.00"]


def test_missing_and_extra_documents_are_told(files, capsys):
    (files / "two.jsonl").write_text(jsonlines_text([GOLD, GOLD.changed(doc_key="x")]))
    (files / "other.jsonl").write_text(jsonlines_text([GOLD, GOLD.changed(doc_key="y")]))
    status, out, err = say(capsys, "score", "coref", "two.jsonl", "other.jsonl", "--json")
    told = json.loads(out)
    assert (status, told["missing"], told["extra"], told["documents"], told["b3"]["recall"]) == (
        0,
        ["x"],
        ["y"],
        2,
        50,
    )
    assert (
        "1 of the documents have no prediction" in err
        and "1 of the documents are predicted without gold" in err
    )


def test_split_gold_is_derived(files, capsys, upstream, monkeypatch):
    "Whole gold, predictions on windows, from packed files."
    s = here(upstream)
    (files / "af.conll").write_bytes(
        get("QipengGuo/dual-cache-coref/data/animal_farm_anno.conll", s)
    )
    (files / "split.jsonl.gz").write_bytes(
        gzip.compress(get(f"{STEM}{SYSTEMS[2]}_splitted.jsonl", s))
    )
    status, out, _ = say(
        capsys, "score", "coref", "af.conll", "split.jsonl.gz", "--setting", "split", "--json"
    )
    told = json.loads(out)
    assert (
        status == 0
        and (told["documents"], told["units"], len(told["extra"])) == (24, 24, 128)
        and f"{told['conll']['f1']:.4f}" == "74.3934"
    )


def test_a_name_is_found_in_whole_words_alone():
    from refnb.models.rules.clusters import occurrences

    text = "Ann a saw Mr . Jones . Bo at sea met Jean - Luc and O' Brien"
    found = occurrences(text.split(), ["Anna", "Boat", "Mr. Jones", "Jean-Luc", "O'Brien"])
    assert {n: len(spans) for n, spans in found.items()} == {
        "Anna": 0,
        "Boat": 0,
        "Mr. Jones": 1,
        "Jean-Luc": 1,
        "O'Brien": 1,
    }
