"Packages of others as systems: proved first, asked once, their answers kept when they die."

import json, sys
import pytest
import refnb
import tools
from models_packages import JAVA, LINKER, LONGDOC, PACKAGE, SEEDS, WORKER, repository
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.settings import load_settings
from refnb.core.types import RefnbError, Span
from refnb.models.environments import set_up
from refnb.models.live import canaries


def refused(*parts, call=refnb.run, args=(), **how):
    "An error of one line that says these."
    with pytest.raises(RefnbError) as e:
        call(*args, **how)
    assert all(p in str(e.value) for p in parts) and "\n" not in str(e.value), str(e.value)


# Being asked


def asked(folder, file="asked.txt") -> list[str]:
    "A line for each text that the package has read."
    path = folder / file
    return path.read_text().splitlines() if path.exists() else []


def trap_of(docs: list[Document], k: int) -> str:
    "A word of a document that no other one has."
    others = {t for i, d in enumerate(docs) for t in d.tokens if i != k}
    return next(t for t in docs[k].tokens if t not in others)


ASK = ("sample/bookcoref", "toy")
PROOFS = 2  # canaries before short texts, and one more before long ones


def test_a_worker_prints_what_it_likes_and_sees_no_key(toycoref):
    done = refnb.run(*ASK)
    assert done.complete and all(a.clusters for a in done.answers().values())
    seen = json.loads((toycoref / "seen.json").read_text())
    assert "OPENAI_API_KEY" not in seen
    assert seen["HF_HUB_OFFLINE"] == seen["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "1"


def test_a_text_that_fails_is_asked_again_alone(toycoref):
    docs = refnb.task(ASK[0]).documents
    trap = trap_of(docs, 2)
    refused("1 of 6 failed (1 error)", docs[2].doc_key, "cannot read", args=ASK, trap=trap)
    before = len(asked(toycoref))
    refused("1 of 6 failed", args=ASK, trap=trap)
    assert len(asked(toycoref)) - before == PROOFS + 1 + 1


@pytest.mark.parametrize(
    "how, why", [("die", "ended with status 3"), ("kill", "status -9 (killed: possibly out of")]
)
def test_what_was_answered_before_a_death_is_kept(toycoref, monkeypatch, how, why):
    trap = trap_of(refnb.task(ASK[0]).documents, 3)
    monkeypatch.setenv("TRAP", how)
    refused(why, "3 of 6 answers are saved", args=ASK, trap=trap)
    before = len(asked(toycoref))
    refused(why, "0 of 3 answers are saved", args=ASK, trap=trap)
    assert len(asked(toycoref)) - before == PROOFS + 1 + 1, "and the text on which it dies"


def test_a_package_that_fails_a_proof_is_asked_no_question(toycoref):
    words = "[t for s in sentences for t in s]"
    (toycoref / "toy.py").write_text(WORKER.replace(words, f"{words}[::-1]"))
    refused("failed its canary 'people'", "nothing was sent", args=ASK)
    assert len(asked(toycoref)) == 1
    (toycoref / "toy.py").write_text(WORKER)
    refused("does not find 'Alice'", "nothing was sent", args=ASK, canary="clusters")


def test_long_texts_need_a_long_proof(toycoref):
    seen = []
    for d in (
        Document("short", sample()[0].sentences[:3]),
        Document("long", canaries()[-1].sentences * 2),
    ):
        before = len(asked(toycoref))
        refnb.run([d], "toy")
        seen.append(len(asked(toycoref)) - before - 1)
    assert seen == [PROOFS, PROOFS + 1]


def test_what_could_change_an_answer_names_the_run(toycoref):
    task, weights = refnb.task(ASK[0]), toycoref / "weights"
    weights.mkdir()
    (weights / "a").write_text("1")

    def identity(**changed):
        made = refnb.find_system("toy", **changed).identity(task)
        return json.dumps([made.settings, made.data], sort_keys=True)

    own = dict(checkpoint=str(weights))
    seen = [identity(), identity(least="3"), identity(**own)]
    assert identity(device="cpu", patience="5") == seen[0]
    (weights / "a").write_text("2")
    seen.append(identity(**own))
    (toycoref / "toy.py").write_text(WORKER + "# another\n")
    seen.append(identity())
    (toycoref / "toy.txt").write_text("# other packages\n")
    assert len({*seen, identity()}) == 6


def test_weights_that_are_not_here_are_named(toycoref):
    task = refnb.task(ASK[0])
    for changed, parts in (
        (dict(checkpoint="nobody/has-these"), ["hf download nobody/has-these", "-p checkpoint="]),
        (dict(encoder="/no/such/folder"), ["/no/such/folder is not here", "-p encoder="]),
    ):
        lacks = str(refnb.find_system("toy", **changed).lack(task))
        assert all(p in lacks for p in parts), lacks


# Linkers


def test_a_linker_finds_the_mentions_of_names(toycoref, toy):
    (toycoref / "toy.py").write_text(LINKER)
    (toycoref / "toy.yaml").write_text((toycoref / "toy.yaml").read_text() + "names: true\n")
    [story, *_] = sample(characters=True)
    bare = Document("bare", story.sentences)

    def linked(d):
        found = refnb.run([d], "toy").answers()[d.doc_key]
        return dict(zip(found.names, found.clusters, strict=True))

    found = linked(story)
    assert found and set(found) <= set(story.names) and all(found.values())
    assert all({story.tokens[s.start] for s in c} <= {*n.split()} for n, c in found.items())
    other = linked(bare.changed(names=("Hester",), clusters=((),)))
    assert list(other) == ["Hester"], "another list of names is another task"
    refused("needs the names of characters", "bare", args=([bare], "toy"))
    who, grower = [{"Hester": ["Tolley"]}, "Zebedee"], f"coref-minilm[checkpoint={toy.folder}]"
    done = refnb.annotate(story, who, linker="toy", system=grower, group=0)
    hester, zebedee = done.document.clusters
    assert {story.tokens[s.start] for s in hester} >= {"Hester", "Tolley"} and not zebedee


# Known clusters, completed


@pytest.fixture
def seeding(toycoref):
    "The toy with a script for seeds, which adds all equal words."
    pytest.importorskip("torch")
    (toycoref / "seeds.py").write_text(SEEDS)
    (toycoref / "toy.yaml").write_text((toycoref / "toy.yaml").read_text() + "seeds: seeds.py\n")
    return toycoref


ANN = Document(
    "ann",
    (
        ("Ann", "met", "Bea", "."),
        ("Bea", "left", "Ann", "and", "she", "wept", "."),
        ("Rain", "she", "said", "."),
    ),
    ((Span(0, 0), Span(8, 8)), (Span(2, 2),)),
    ("Ann", "Bea"),
)


def annotated(clusters=ANN.clusters, **changed):
    "The toy's annotation of a text in windows of four words, with its seeds in place of links."
    usual = dict(system="toy", linker="pattern", window=4, group=2, instead={"linked": clusters})
    return refnb.annotate(ANN, ANN.names, **usual | changed)


def starts(done):
    return [[s.start for s in c] for c in done.document.clusters]


def test_a_package_completes_windows_and_groups(seeding):
    done = annotated()
    assert starts(done) == [[0, 6, 8, 12], [2, 4]]
    counts = done.stages["windows"].counts
    assert counts == {"grown": 2, "conflicts": 0, "mentions": 5}
    assert done.stages["grouped"].counts["grown"] == 1


def test_a_mention_of_two_completed_clusters_has_one_unless_released(seeding):
    both = [ANN.clusters[0], (*ANN.clusters[1], Span(12, 12))]  # "she" is Ann's and Bea's
    one, two = (annotated(both, seeding=x, group=0, window=50) for x in ("constrained", "released"))
    assert starts(one) == [[0, 6, 8], [2, 4, 12]]
    assert starts(two) == [[0, 6, 8, 12], [2, 4, 8, 12]]
    assert two.stages["windows"].counts["conflicts"] == 2


def test_windows_that_were_completed_are_not_asked_again(seeding, tmp_path, monkeypatch):
    how = dict(system="toy[trap=left]", out=tmp_path / "out", window=3, group=0)
    monkeypatch.setenv("TRAP", "die")
    refused("1 of 2 answers are saved", call=annotated, **how)
    before = len(asked(seeding, "windows.txt"))
    monkeypatch.delenv("TRAP")
    (seeding / "toycoref.py").write_text(PACKAGE.replace("self.trap and", "False and"))
    assert annotated(**how).document.clusters
    again = asked(seeding, "windows.txt")[before:]
    assert again == ["0"] * PROOFS + ["1"], "proofs, and the window that failed"


def test_what_cannot_complete_clusters_leaves_no_file(seeding, tmp_path):
    out = tmp_path / "out"
    for changed, why in (
        ({"system": "fcoref"}, "fcoref is not a coreference system of refnb"),
        ({"linker": "rules"}, "toy finds the mentions of each window itself"),
    ):
        refused(why, call=annotated, out=out, **changed)
    refused("lost 1 of 2 seeds of Ann", call=annotated, system="toy[least=0]")
    (seeding / "seeds.py").unlink()
    refused("no worker seeds.py beside its YAML", call=annotated, out=out)
    assert not out.exists()


# Longdoc and Dual cache: the authors' modules, classes and calls, in a repository that is made here


class Evil:
    def __reduce__(self):
        return print, ("the checkpoint ran code",)


@pytest.fixture(scope="module")
def longdoc(tmp_path_factory):
    "A function that asks one of the two about a text, with what stands for their code and weights."
    torch = pytest.importorskip("torch")
    import numpy
    from refnb.models.pairs.scorers import tiny_encoder

    home = tmp_path_factory.mktemp("longdoc")
    first = repository(home, {f"src/{name}": text for name, text in LONGDOC.items()})
    (home / "none.txt").write_text("")
    for name, own in (("longdoc", ""), ("dual-cache", 'settings: {cache: "25_25"}')):
        (home / f"toy-{name}.yaml").write_text(f"""
kind: live
title: {name}
worker: ask_longdoc.py
environment:
  requirements: none.txt
  repository: {home}/remote
  commit: '{first}'
  code: src
  shares: [torch, transformers]
{own}
""")
    folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
    s = load_settings("/", env={}, offline=True, systems=str(home), **folders)
    texts = [" ".join(d.tokens) for d in canaries()] + ["An unladen owl saw an owl. The owl slept."]
    encoder = str(tiny_encoder(home / "encoder", texts))
    state = {"head.weight": torch.ones(1, 2), "head.bias": torch.ones(1)}
    whole = {
        "model": state,
        "config": {"model": {"max_segment_len": 7}, "trainer": {}},
        "np_rng_state": numpy.random.get_state(),
        "train_info": {"val_perf": numpy.float64(0.5)},
    }

    def ask(name, folder, docs, more=(), **changed):
        set_up(name, s, say=lambda line: None)
        torch.save(whole | dict(more), folder / "model.pth")
        usual = dict(checkpoint=str(folder), encoder=encoder, canary="wiring", device="cpu")
        return refnb.run(docs, name, s=s, **usual | changed).answers().values()

    return ask


OWLS = Document(
    "owls", (("An", "unladen", "owl", "saw", "an", "owl", "."), (), ("The", "owl", "slept", "."))
)


@pytest.mark.parametrize(
    "name, cache",
    [pytest.param("toy-longdoc", "", marks=pytest.mark.full), ("toy-dual-cache", "1_1")],
)
def test_longdoc_and_dual_cache_answer_in_words_of_the_text(longdoc, tmp_path, name, cache):
    changed = {"cache": cache} if cache else {}
    [found] = longdoc(name, tmp_path, [OWLS], **changed)
    owl, stop = (Span(2, 2), Span(5, 5), Span(8, 8)), (Span(6, 6), Span(10, 10))
    assert sorted(found.clusters) == sorted([owl[:2] if cache else owl, stop])


@pytest.mark.parametrize(
    "more, why",
    [
        ({"optimizer": Evil()}, "UnpicklingError: Weights only load failed"),
        pytest.param(
            {"model": {}},
            "2 missing weights in the checkpoint, the first is head.bias",
            marks=pytest.mark.full,  # all_weights is asked of fastcoref, too, where it is here
        ),
    ],
    ids=["code", "missing weights"],
)
def test_weights_with_code_or_without_a_part_are_refused(longdoc, tmp_path, more, why):
    refused(why, call=longdoc, args=("toy-longdoc", tmp_path, [OWLS], more))


# CoreNLP: a server in Java, for which a small one in Python stands here


@pytest.fixture
def corenlp(home):
    "A function that runs CoreNLP; its Java answers as its server does."
    jars = home / "jars"
    jars.mkdir()
    (jars / "stanford-corenlp-4.5.10.jar").write_text("")
    (jars / "java.py").write_text(JAVA)
    (jars / "java").write_text(f'#!/bin/sh\nexec {sys.executable} {jars / "java.py"} "$@"\n')
    (jars / "java").chmod(0o755)
    set_up("corenlp", say=lambda line: None)

    def ask(docs, mode="", **changed):
        (jars / "mode").write_text(mode)
        usual = dict(checkpoint=str(jars), java=str(jars / "java"), canary="wiring")
        return refnb.run(docs, "corenlp", **usual | changed)

    return ask


SHORT = Document("short", (("She", "slept", "."),))
SERVER = {"-host": "127.0.0.1", "-maxCharLength": "0", "-quiet": "true"}
READING = {
    "annotators": "tokenize,ssplit,pos,lemma,ner,depparse,coref",
    "coref.algorithm": "statistical",
    "outputFormat": "json",
    "tokenize.whitespace": "true",
    "ssplit.eolonly": "true",
}


def test_corenlp_keeps_its_place_behind_line_feeds_and_leaves_no_server(corenlp, home):
    said = (("\n",), ("The", "oak", "fell", "."), ("\n", "\n"), ("It", "was", "an", "oak", "."))
    done = corenlp([Document("feeds", said), SHORT])
    found = sorted([tuple(s) for s in c] for c in done.answers()["feeds"].clusters)
    assert done.complete and found == [[(2, 2), (10, 10)], [(4, 4), (11, 11)]]
    args, how = json.loads((home / "jars/seen.json").read_text())
    server = "edu.stanford.nlp.pipeline.StanfordCoreNLPServer"
    assert args[:4] == ["-Xmx4g", "-cp", str(home / "jars/*"), server]
    given = dict(zip(args[4::2], args[5::2]))
    assert given.items() >= SERVER.items() and how == READING
    commands = [" ".join(p.info["cmdline"] or []) for p in tools.psutil.process_iter(["cmdline"])]
    assert not any("java.py" in x and given["-port"] in x for x in commands)
    corenlp([SHORT], algorithm="deterministic")
    _, how = json.loads((home / "jars/seen.json").read_text())
    assert how["annotators"].endswith("parse,dcoref")


@pytest.mark.parametrize(
    "mode, changed, why",
    [
        ("dies", {}, "CoreNLP's server ended with status 3"),
        ("joins", {}, "CoreNLP reads 12 tokens in 1 sentences, the text has 12 in 2"),
        ("", {"java": "no-such-java"}, "there is no program no-such-java: install Java 8 or later"),
        ("", {"algorithm": "fast"}, "unknown algorithm 'fast': statistical"),
        ("", {"start": "0"}, "server is not ready after 0 seconds"),
    ],
)
def test_a_corenlp_that_cannot_be_asked_is_a_line(corenlp, mode, changed, why):
    refused(why, call=corenlp, args=([SHORT], mode), **changed)


def test_a_text_that_corenlp_refuses_stays_open(corenlp, home):
    docs = [SHORT, Document("two", (("An", "oak", "."),))]
    refused("1 of 2 failed (1 error)", "two: ", "HTTP 500", call=corenlp, args=(docs, "refuses"))
    (home / "jars/stanford-corenlp-4.5.10.jar").unlink()
    refused("there are no jars", call=corenlp, args=(docs,))
