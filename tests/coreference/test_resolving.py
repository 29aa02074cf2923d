"Clusters that a trained system finds: in odd texts, from damaged weights, and their worth."

import json, shutil
from pathlib import Path
import pandas as pd
import pytest
import refnb
import tools
from models_toys import beginning
from refnb.core.corpora import sample
from refnb.core.reading import read_documents
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, FormatError, Span
from refnb.models.coreference.resolvers import clusters_of_many, predicted
from refnb.models.pairs.scorers import tiny_encoder
from refnb.results.scores import pooled, run_counts

torch = pytest.importorskip("torch", reason="needs refnb[models]")


def refused(text: str, call, *args, **how):
    "An error of one line that says this."
    with pytest.raises((CallError, DataError, FormatError)) as e:
        call(*args, **how)
    assert text in str(e.value) and "\n" not in str(e.value)


def doc(*sentences):
    return refnb.Document("odd", tuple(tuple(s.split()) for s in sentences))


ODD = {
    "a sentence longer than a segment": doc("she told him " * 400),
    "no end of a sentence": doc("the old ferryman smiled and " * 200),
    "a word of no piece": doc("She saw \u0301 there ."),
    "a word of very many pieces": doc("He read " + "x" * 5000 + " aloud ."),
    "one word": doc("She"),
    "only signs": doc(". , !", "- -"),
    "emoji and other scripts": doc("王 said 🦊 to мама ."),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_texts_come_out_whole(toy, what):
    d = ODD[what]
    ends = [0]
    for s in d.sentences:
        ends.append(ends[-1] + len(s))
    got = toy.resolve(d, **toy.loose)
    assert got.sentences == d.sentences and len(got.mentions) == len(set(got.mentions))
    assert all(any(a <= s.start <= s.end < b for a, b in zip(ends, ends[1:])) for s in got.mentions)
    net = refnb.find_system("coref-minilm", toy.settings, **toy.loose).net()
    given = [Span(i, min(i + 4, d.size - 1)) for i in range(0, d.size, 7)]
    assert predicted(net, d, given).mentions == given, "also those across two segments"


def test_any_text_is_resolved(toy):
    d = toy.resolve("Anna told Bea that she had lost her ring. She cried.")
    assert d.size == 13 and len(d.sentences) == 2
    assert toy.resolve("Anna \ud800 told Bea.").size == 4, "half a letter is no word"
    keys = [d.doc_key for d in sample()[:2]]
    assert [d.doc_key for d in toy.resolve(sample()[:2])] == keys
    assert toy.resolve(sample()[0], threshold=1e6).clusters == ()
    refused("has no text", toy.resolve, refnb.Document("x"))
    for wrong in (["one text", "another"], None, b"a text"):
        refused("is neither a text nor documents", toy.resolve, wrong)
    refused("bias cannot be nan", toy.resolve, "Anna told Bea.", bias=float("nan"))


def test_documents_that_are_read_together_are_answered_as_alone(toy):
    net = refnb.find_system("coref-minilm", toy.settings, **toy.loose).net()
    docs = [beginning(d, 8) for d in sample()[:3]]
    together = [{*map(frozenset, clusters)} for clusters in clusters_of_many(net, docs, 3)]
    apart = [{*map(frozenset, toy.resolve(d, **toy.loose).clusters)} for d in docs]
    assert together == apart and all(apart)


# Weights


@pytest.mark.parametrize("given", ["", "gold"], ids=["mentions", "links"])
def test_scores_that_are_no_numbers_are_no_answer(toy, monkeypatch, given):
    def nan(layer, x):
        return x.new_full((*x.shape[:-1], layer.out_features), float("nan"))

    monkeypatch.setattr(torch.nn.Linear, "forward", nan)
    refused("are not numbers", toy.run, "sample/bookcoref", given=given)


def other_seal(**changed):
    def change(folder):
        path = folder / "coreference.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return change


def half(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:9000])


@pytest.mark.parametrize(
    "damage, said",
    [
        (half, "weights.safetensors"),
        (lambda folder: (folder / "coreference.json").unlink(), "no completely trained"),
        (other_seal(model={"hidden": -1}), "coreference.json"),
        (other_seal(schema=9), "schema 9"),
        (other_seal(weights="0123456789abcdef"), "other weights than those of the training"),
    ],
)
def test_a_damaged_checkpoint_is_refused(toy, tmp_path, damage, said):
    folder = shutil.copytree(toy.folder, tmp_path / "half")
    damage(folder)
    refused(said, toy.resolve, "Anna left.", checkpoint=str(folder))


def test_a_checkpoint_of_another_encoder_is_refused(toy, tmp_path):
    other = tiny_encoder(tmp_path / "other", ["other words"])
    refused("was trained on another encoder", toy.resolve, "Anna left.", encoder=str(other))


# As a run


def test_a_run_on_gold_mentions_is_another_run_and_keeps_them(toy):
    done, given = (toy.run("sample/bookcoref", given=x) for x in ("", "gold"))
    assert done.complete and len(done.answers()) == 6
    assert "given=gold" in given.info.system and given.info.system != done.info.system
    gold = refnb.task("sample/bookcoref", toy.settings).gold
    assert all(
        sorted(s for c in a.clusters for s in c) == gold[k].mentions
        for k, a in given.answers().items()
    )


def test_how_it_was_trained_and_reads_is_in_its_name(toy, upstream):
    s = toy.settings.changed(upstream=str(upstream))
    task = refnb.task("litbank/fold0/test", s)

    def system(name="coref-minilm", **changed):
        return refnb.find_system(name, s, **changed)

    for changed, name in (
        (dict(reach=400), "coref-minilm"),
        (dict(reach=10), "coref-minilm[reach=10]"),
        (dict(threshold="0.5"), "coref-minilm[threshold=0.5]"),
        (dict(ffn=99), "coref-minilm[ffn=99]"),
    ):
        assert system(**changed).name == system(name).name == name
    assert "refnb train coref-minilm litbank/fold0 -p ffn=99" in str(system(ffn=99).lack(task))
    assert system().identity(task) == system(reach=400).identity(task)
    assert system().identity(task) != system(reach=10).identity(task)
    trained = system(checkpoint=str(toy.folder)).name
    assert "widest=" in trained and "epochs=" in trained
    for changed, text in (
        (dict(tresh=3), "has no setting 'tresh'"),
        (dict(reach=0), "reach cannot be 0"),
        (dict(checkpoint=str(toy.folder), size=31), "was trained with other settings: size"),
    ):
        refused(text, system, **changed)
    refused("refnb train coref-mpnet litbank", refnb.run, [doc("She left .")], "coref-mpnet", s=s)


def test_questions_are_answered_through_clusters(toy):
    done = toy.run("sample/ferryman")
    assert done.complete and len(done.answers()) == 29
    assert len(toy.run("sample/bookcoref/filter", limit=5).answers_so_far()) == 5
    refused("cannot choose between two options", toy.run, "sample/altentities")


# The system that the package carries

# somebody, and who is meant by the mention after the bar; a word of each is enough
EVERYDAY = (
    ("Anna told Peter that |she had lost her ring.", "Anna"),
    ("Peter met Anna at the station. |He was late.", "Peter"),
    ("The nurse smiled at the old man because |he was polite.", "man"),
    ("Maria bought a car. |It was red.", "car"),
    ("My sister called. |She is in Paris with her children.", "sister"),
    ("The children ran to their mother, and |she laughed at them.", "mother"),
    ("Mr. Brown sold the house to Mrs. Green. |She paid him at once.", "Green"),
    ("Tom and his friends went home because |they were tired.", "friends"),
    ("The company fired its director. |He had stolen money.", "director"),
    ("The dog chased the cat until |it fell into the water.", "cat"),
)


def test_a_text_is_resolved_by_a_command_in_every_format(minilm, tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    text = "Anna told Peter that she had lost her ring. He laughed. " * 12
    Path("story.txt").write_text(text)
    for out in ("s.html", "s.csv", "s.jsonl", "s.conllu"):
        done = tools.here(capsys, "resolve", "story.txt", "--out", out)
        assert done.status == 0 and "Anna" in done.out and out in done.out
    d = refnb.resolve(text)
    [again] = read_documents("s.conllu")
    assert again.clusters == d.clusters and "Peter" in Path("s.html").read_text()
    said = json.loads(tools.here(capsys, "resolve", "story.txt", "--links", "--json").out)
    links = pd.DataFrame(said["mentions"])
    assert links[["entity", "mention", "start"]].equals(d.frame()[["entity", "mention", "start"]])
    linked = links[links.antecedent != ""]
    assert (0 < linked.probability).all() and (linked.probability <= 1).all()
    assert set(linked.antecedent) <= set(links.mention)
    for call in (["story.txt", "--out", "s.docx"], ["story.txt", "--system", "random"], ["no.txt"]):
        tools.one_line(
            tools.here(capsys, "resolve", *call), 1 if call == ["no.txt"] else 2, call[-1]
        )


def test_a_long_text_shows_how_far_it_is(minilm):
    seen = list[tuple[int, int]]()
    docs = sample()[:2]
    refnb.resolve(docs, progress=lambda n, of: seen.append((n, of)))
    words = sum(d.size for d in docs)
    assert seen == sorted(seen) and seen[-1] == (words, words)


def test_who_is_meant_in_everyday_sentences(minilm):
    right = 0
    for text, who in EVERYDAY:
        d = refnb.resolve(text.replace("|", ""))
        at = len(refnb.resolve(text.split("|")[0]).tokens)
        named = [d.tokens[a : b + 1] for c in d.clusters if Span(at, at) in c for a, b in c]
        right += any(who in words for words in named)
    assert right >= 6


def test_most_mentions_of_a_story_are_found(minilm):
    docs = sample()[:2]
    scores = refnb.score_coref(docs, refnb.resolve(docs, kinds="litbank")).pooled()
    assert scores["mentions"].f1 > 0.7 and scores["muc"].f1 > 0.7


def test_a_task_of_characters_is_answered_with_characters(minilm, toy):
    "Persons with several mentions, as the card asks; other settings make another system."
    came = []

    def asked(**how):
        how |= dict(s=toy.settings, on_summary=came.append)
        return refnb.run("sample/bookcoref", "coref-minilm", 1, **how)

    own, every = asked(), asked(kinds="all", singletons=True)
    assert every.info.system == "coref-minilm[kinds=all,singletons=true]"
    assert own.answers_so_far() != every.answers_so_far()
    alike = refnb.find_system("coref-minilm", toy.settings, kinds="persons", singletons=False)
    assert alike.name == "coref-minilm[kinds=persons,singletons=false]"
    task = refnb.task("sample/bookcoref", toy.settings)
    assert alike.identity(task).settings == own.info.settings
    assert came[0].cpu_seconds > 0 and came[0].peak_mb > 100, "a run says what it spent"


def test_committed_numbers_on_litbank_are_those_of_the_carried_weights(minilm, upstream):
    "Two documents again; a processor without bfloat16 rounds otherwise."
    s = load_settings(upstream=str(upstream))
    committed = run_counts("coref-minilm", "litbank/fold0/test", s)
    docs = list(refnb.task("litbank/fold0/test", s).gold.values())[:2]
    now = refnb.score_coref(docs, refnb.resolve(docs, kinds="litbank")).pooled()["conll"].f1
    assert abs(now - pooled(committed.counts, "full", [d.doc_key for d in docs])["conll"].f1) < 0.02
    task = refnb.task("litbank/fold0/test", s)
    assert committed.info.data["weights"] == minilm.identity(task).data["weights"]


# Long texts


def test_a_short_reach_finds_other_clusters(toy):
    usual, long, short = (toy.resolve(sample()[2], **toy.loose, reach=x) for x in (400, 10**6, 1))
    assert usual.clusters == long.clusters != short.clusters


@pytest.mark.full
def test_a_book_is_linked_as_if_every_pair_of_mentions_were_compared(minilm, upstream):
    [book] = refnb.task("bookcoref/animal-farm", load_settings(upstream=str(upstream))).documents
    usual, every = (refnb.resolve(book, reach=x) for x in (400, 10**6))
    assert refnb.score_coref([usual], [every]).pooled()["conll"].f1 > 0.8
