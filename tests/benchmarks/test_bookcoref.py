"BookCoref: released predictions against known scores, corpora and their cards, gold from the hub."

import csv, json, sys, types
import pytest
from refnb import Document, score_coref
from refnb.core import corpora, upstream
from refnb.core.conll import conll_text, parse_conll
from refnb.core.documents import tidy
from refnb.core.jsonlines import jsonlines_text, parse_jsonlines
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, RefnbError
from refnb.core.upstream import get
from refnb.metrics.links import linking
from refnb.metrics.windows import split
from refnb.models.published.answers import replay_clusters
from refnb.models.rules import pattern_matching
from refnb.models.running import run
from refnb.results.scores import pooled, run_counts
from tools import DATA

SYSTEMS = ("off_the_shelf/booknlp", "off_the_shelf/maverick_xl", "finetuned_bookcoref/maverick_xl")
BOOKNLP, MAVERICK, TUNED = SYSTEMS
BOOKS = corpora.the_corpus("bookcoref").books


@pytest.fixture
def s(upstream, settings):
    return settings(upstream=str(upstream))


@pytest.fixture(scope="module")
def released(upstream) -> dict[str, list[Document]]:
    "Predictions by file name, and Animal Farm."
    s = load_settings("/", env={}, upstream=str(upstream), offline=True)
    docs = {
        name: parse_jsonlines(get(f"SapienzaNLP/bookcoref/predictions/{name}.jsonl", s), name)
        for x in SYSTEMS
        for name in (x, f"{x}_splitted")
    }
    return docs | {"gold": corpora.load("animal-farm", s=s)}


def counts(docs) -> dict[str, int]:
    "What a card says of a corpus."
    return {
        "documents": len(docs),
        "tokens": sum(d.size for d in docs),
        "mentions": sum(len(d.mentions) for d in docs),
        "clusters": sum(len(d.clusters) for d in docs),
    }


def write_lines(path, lines):
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    return path


# Known scores


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
        shown = [f"{100 * v:.4f}" for v in made[at][r["metric"]]]
        assert shown == [f"{float(r[k]):.4f}" for k in ("precision", "recall", "f1")], r
    assert len(rows) == 72


@pytest.mark.parametrize(
    "system, muc, b3, ceafe",
    [
        (
            BOOKNLP,
            (1512, 2848, 1512, 1685),
            (1307.73763611157, 3342, 1222.29725301777, 1705),
            (15.6688681034865, 494, 15.6688681034865, 20),
        ),
        (
            MAVERICK,
            (1481, 3427, 1481, 1685),
            (450.284628356334, 3548, 745.639744494722, 1705),
            (6.94358394126191, 121, 6.94358394126191, 20),
        ),
        (
            TUNED,
            (1384, 1608, 1384, 1685),
            (734.736043776484, 1618, 1280.44606575565, 1705),
            (7.13925951944801, 10, 7.13925951944801, 20),
        ),
    ],
)
def test_animal_farm_counts_of_the_official_scorer(released, system, muc, b3, ceafe):
    got = score_coref(released["gold"], released[system]).sums()
    for name, want in (("muc", muc), ("b3", b3), ("ceafe", ceafe)):
        assert tuple(got[name]) == pytest.approx(want, abs=1e-9), name


def test_a_whole_book_against_another_system(released):
    "Pride and Prejudice, fine-tuned Maverick as the key: mentions cross sentences and each other."
    key, response = (
        [d for d in released[n] if d.doc_key.startswith("pride")] for n in (TUNED, BOOKNLP)
    )
    got = score_coref(key, response).pooled()
    for name, recall, precision, f1 in (
        ("muc", "92.6477", "83.5198", "87.8473"),
        ("b3", "19.6234", "50.0244", "28.1889"),
        ("ceafe", "34.9946", "0.6249", "1.2279"),
    ):
        values = (got[name].recall, got[name].precision, got[name].f1)
        assert [f"{100 * v:.4f}" for v in values] == [recall, precision, f1], name
    assert f"{100 * got['conll'].f1:.4f}" == "39.0880"


def test_windows_are_those_of_the_release(released):
    ours = [w for d in released[MAVERICK] for w in split(d.changed(clusters=()))]
    theirs = [(d.doc_key, d.sentences) for d in released[f"{MAVERICK}_splitted"]]
    assert [(w.doc_key, w.sentences) for w in ours] == theirs and len(ours) == 152
    gold = released["gold"]
    windows = split(gold[0])
    found = counts(windows)
    assert (found["documents"], found["clusters"], found["mentions"]) == (24, 232, 1705)
    assert sum(len(c) == 1 for w in windows for c in w.clusters) == 65
    for mode, n in (("released", 1751), ("paper", 1705)):
        assert score_coref(gold, gold, "window", mode).sums()["mentions"] == (n,) * 4


def test_pattern_matching_on_animal_farm(released):
    exact = pattern_matching(released["gold"][0])
    found = [round(100 * v, 2) for v in linking(released["gold"], [exact]).macro]
    assert [len(exact.mentions), *found] == [635, 100, 37.24, 54.27]
    assert sum(map(bool, exact.clusters)) == 16
    conll = score_coref(released["gold"], [exact]).pooled()["conll"]
    assert round(100 * conll.f1, 2) == 44.27


def test_pattern_matching_finds_names_in_whole_words_alone():
    names = ("Anna", "Boat", "Mr. Jones", "Jean-Luc", "O'Brien")
    text = "Ann a saw Mr . Jones . Bo at sea met Jean - Luc and O' Brien"
    people = Document("d", (tuple(text.split()),), tuple(((k, k),) for k in range(5)), names)
    assert [len(c) for c in pattern_matching(people).clusters] == [0, 0, 1, 1, 1]


def test_crossing_mentions_are_kept_by_jsonl_and_refused_by_conll(released):
    "Off the shelf, Maverick's mentions of one entity cross in every book."
    for d in released[MAVERICK]:
        with pytest.raises(RefnbError, match="cross|whitespace"):
            conll_text([d])
        [again] = parse_jsonlines(jsonlines_text([d]).encode())
        assert (again.clusters, again.sentences) == (d.clusters, d.sentences)
    [small] = [d for d in released[TUNED] if d.doc_key == "animal_farm_0"]
    [again] = parse_conll(conll_text([small]).encode())
    assert tidy(again.clusters) == tidy(small.clusters) and again.sentences == small.sentences


# Corpora


def test_every_card_says_what_loading_gives(s):
    for name, card in corpora.corpora().items():
        if name in ("bookcoref", "corefud"):  # they need files of your own
            continue
        assert counts(corpora.load(name, s=s)) == card.counts, name
        assert card.about and card.licence and (card.defects or name == "sample")


def test_ontogum_has_its_splits_and_each_text_its_licence(s):
    train, dev, test = (corpora.load("gum", split, s) for split in ("train", "dev", "test"))
    for docs, n in ((train, 128), (dev, 20), (test, 20)):
        assert len(docs) == n and len({d.meta["genre"] for d in docs}) == 10
        assert all(len(c) > 1 for d in docs for c in d.clusters)
    sizes = [(sum(d.size for d in x), sum(len(d.clusters) for d in x)) for x in (train, dev, test)]
    assert sizes == [(129_872, 3_893), (18_443, 529), (18_321, 579)]
    closed = {d.meta["genre"] for d in train if d.meta["licence"] == "not stated"}
    assert closed == {"conversation"}


def test_litbank_splits_are_the_ten_folds(s):
    held_out = [corpora.litbank("test", s, fold) for fold in range(10)]
    assert len({d.doc_key for docs in held_out for d in docs}) == 100
    parts = [{d.doc_key for d in corpora.load("litbank", x, s)} for x in ("train", "dev", "test")]
    assert list(map(len, parts)) == [80, 10, 10] and len(set.union(*parts)) == 100
    listed = get("dbamman/lrec2020-coref/data/litbank_tenfold_splits/0/test.ids", s).decode()
    docs = held_out[0]
    assert [d.doc_key for d in docs] == [f"{x.removesuffix('.tsv')}_0" for x in listed.split()]
    labels = {k: {x for d in docs for c in d.labels[k] for x in c} for k in ("kind", "type")}
    assert labels["kind"] == {"PROP", "NOM", "PRON"}
    assert labels["type"] <= {"PER", "FAC", "LOC", "GPE", "ORG", "VEH"}
    with pytest.raises(CallError, match="folds 0 to 9"):
        corpora.litbank("dev", s, fold=10)
    with pytest.raises(CallError, match="'dve'; did you mean dev"):
        corpora.load("litbank", "dve", s)


def clusters_for(key: str, shift: int = 0) -> list:
    "As many clusters and mentions as a book has."
    n, m = BOOKS[key]["clusters"], BOOKS[key]["mentions"] + shift
    return [[[i, i] for i in range(m)][k::n] for k in range(n)]


def test_gold_without_text_joins_the_text_of_its_own_version_alone(s, tmp_path):
    def gold(key, shift=0):
        clusters = clusters_for(key, shift)
        people = [{"name": f"c{i}", "mentions": c} for i, c in enumerate(clusters)]
        about = {"doc_key": key, "gutenberg_key": "0", "characters": people}
        return about | {"clusters": clusters}

    def load(*books):
        return corpora.load("bookcoref", s=s, file=str(write_lines(tmp_path / "t.jsonl", books)))

    docs, texts = load(*map(gold, BOOKS)), corpora.book_texts(s)
    assert counts(docs) == corpora.the_corpus("bookcoref").counts
    assert docs[1].names[:2] == ("c0", "c1")
    assert [d.sentences for d in docs] == [texts[k].sentences for k in BOOKS]
    far = gold("animal_farm_0")
    far["clusters"][0][0] = far["characters"][0]["mentions"][0] = [40000, 40000]
    for book, said in (
        (gold("siddhartha_2500", 1), "4,934 mentions where the published version has 4,933"),
        ({"doc_key": "emma_158", "clusters": []}, "no text is known for the book 'emma_158'"),
        (far, "the 34,979 tokens; clusters and text are of different versions"),
    ):
        with pytest.raises(DataError, match=said):
            load(book)


def test_what_a_hub_does_not_give_is_told_in_a_line(tmp_path, monkeypatch):
    "What it gives is tried with a stand-in of the hub, in tests/results/test_missing_sets.py."
    listed, fake = [], types.SimpleNamespace
    quiet = fake(set_verbosity_error=lambda: None)
    api = fake(list_repo_tree=lambda repo, folder, **at: listed)
    hub_package = fake(HfApi=lambda: api)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub_package)
    monkeypatch.setitem(sys.modules, "huggingface_hub.utils.logging", quiet)

    def refused(said: str, **how):
        s = load_settings("/", env={}, cache=str(tmp_path), **how)
        with pytest.raises(DataError, match=said) as e:
            upstream.fetch_hub("bookcoref-silver", s)
        assert "REFNB_BOOKCOREF_SILVER" in str(e.value) and "\n" not in str(e.value)

    refused("downloads are off", offline=True)
    refused("0 documents in 0 files, where 50 were published")
    full = "bookcoref_annotations/full"
    listed.append(fake(path=f"{full}/train.jsonl", size=10**12))
    refused("train.jsonl: has 1,000,000,000,000 bytes")
    for path in (f"{full}/test.jsonl", f"{full}/more/train.jsonl.txt"):
        listed[:] = [fake(path=path, size=1)]
        refused("0 documents in 0 files")

    def broken():
        raise OSError("no network\nand more")

    hub_package.HfApi = broken
    refused("OSError: no network.*try again later")
    assert not [x for x in tmp_path.rglob("*") if x.is_file()]


# Runs


def conll(system: str, task: str, setting: str, s) -> float:
    return round(100 * pooled(run_counts(system, task, s).counts, setting)["conll"].f1, 2)


def test_released_predictions_are_scored_where_they_are_and_asked_for_where_not(s):
    systems = ["published/longdoc", "published/maverick-xl"]
    lacks = replay_clusters(systems, "bookcoref/gold", s)
    assert set(lacks) == {("published/longdoc", f"bookcoref/{x}") for x in ("gold", "split")}
    assert {(x.kind, x.needs) for x in lacks.values()} == {("files", "bookcoref-large")}
    assert conll("published/maverick-xl", "bookcoref/gold", "full", s) == 29.15
    assert conll("published/maverick-xl", "bookcoref/split", "split", s) == 51.77


def test_more_gold_makes_the_summary_anew(s, tmp_path):
    "The run stays; its counts grow by the books whose gold has come. With less gold, they stay."
    task, system = "bookcoref/gold", "published/maverick-xl-fine-tuned"
    folder = run(task, system, s=s).folder
    assert list(run_counts(system, task, s).counts) == ["animal_farm_0"]
    gold = {k: clusters_for(k) for k in BOOKS}
    gold["animal_farm_0"] = corpora.animal_farm(s=s)[0].clusters
    lines = ({"doc_key": k, "clusters": c} for k, c in gold.items())
    more = s.changed(bookcoref_gold=str(write_lines(tmp_path / "gold.jsonl", lines)))
    assert run(task, system, s=more).folder == folder
    found = run_counts(system, task, more).counts
    assert sum(found[k]["full"]["mentions"][3] for k in BOOKS) == 23057
    assert round(100 * pooled(found, "full", ["animal_farm_0"])["conll"].f1, 2) == 62.75
    run(task, system, s=s)
    assert sorted(run_counts(system, task, s).counts) == sorted(BOOKS)


def every_word(d):
    "The gold clusters of a story or a window, and every word that no mention begins with, alone."
    story, _, first = d.doc_key.partition("_split")
    [gold] = [g for g in corpora.sample(characters=True) if g.doc_key == story]
    if first:
        gold = {w.doc_key: w for w in split(gold, 300)}[d.doc_key]
    known = {span.start for span in gold.mentions}
    return [*gold.clusters, *(((k, k),) for k in range(d.size) if k not in known)]


def test_the_card_says_what_is_scored_whoever_answers(settings):
    """No character of a whole story is mentioned once, so such clusters count for nobody; in a
    window, one may be."""
    s = settings()

    def f1(task, setting):
        return conll(run(task, every_word, s=s).info.system, task, setting, s)

    assert f1("sample/bookcoref", "full") == 100
    assert f1("sample/bookcoref-split", "split") < 90
