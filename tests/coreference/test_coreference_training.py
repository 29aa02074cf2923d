"Training a coreference system: kills, damage, what it may learn from, several trainings."

import json, os, shutil
import pytest
import refnb
import tools
from models_toys import Killed, beginning, dying
from refnb.core.corpora import sample
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError

torch = pytest.importorskip("torch", reason="needs refnb[models]")


def seal(folder) -> dict:
    return json.loads((folder / "coreference.json").read_text())


def weights(folder) -> bytes:
    return (folder / "weights.safetensors").read_bytes()


def refused(text: str, call, *args, **how):
    "An error of one line that says this."
    with pytest.raises((CallError, DataError)) as e:
        call(*args, **how)
    assert text in str(e.value) and "\n" not in str(e.value) and len(str(e.value)) <= 300


# Kills and damage


def test_a_killed_training_ends_in_the_same_weights(toy, tmp_path, monkeypatch):
    dying(monkeypatch, lambda step: step % 7 == 0)
    done, kills = None, 0
    while not done and kills < 9:
        try:
            done = toy.train(out=str(tmp_path / "cut"), every=0)
        except Killed:
            kills += 1
    assert done and kills > 2 and seal(done.folder) == seal(toy.folder)
    assert weights(done.folder) == weights(toy.folder)
    assert len([p for p in done.folder.iterdir() if p.name[0] != "."]) == 2, "no state is left"
    assert toy.train(out=str(done.folder)).seal == done.seal, "what is complete is not made again"


KENNEL = """
import json, os, random, signal, sys, time
import torch; torch.set_num_threads(1)
import refnb
stories, out, recipe, kills = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
rng = random.Random(0)
def go(): refnb.train("coref-minilm", stories, out=out, every=0, **recipe)
for k in range(kills):
    pid = os.fork()
    if not pid:
        go()
        os._exit(0)
    time.sleep(rng.uniform(0.1, 0.9)); os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
go()
"""


@pytest.mark.full  # beside the test above
def test_a_training_killed_at_any_instant_ends_the_same(toy, tmp_path, spawn):
    kills = os.environ.get("TEST_KILLS", 1)
    p = spawn(KENNEL, toy.stories, tmp_path / "out", json.dumps(toy.recipe), kills)
    out, err = p.communicate(timeout=tools.HANG)
    assert p.returncode == 0, err[-2000:]
    assert seal(tmp_path / "out") == seal(toy.folder)


def test_a_training_never_goes_on_from_damaged_state(toy, tmp_path, monkeypatch):
    with monkeypatch.context() as m, pytest.raises(Killed):
        dying(m, lambda step: step == 15)  # in the second epoch
        toy.train(out=str(tmp_path / "killed"), every=0)
    states = [*(tmp_path / "killed").glob("*.safetensors")]
    assert states and not (tmp_path / "killed/coreference.json").exists()
    for k, damage in enumerate((lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:100])):
        folder = shutil.copytree(tmp_path / "killed", tmp_path / f"damaged{k}")
        for path in states:
            (folder / path.name).write_bytes(damage(path.read_bytes()))
        toy.train(out=str(folder))
        assert seal(folder) == seal(toy.folder) and weights(folder) == weights(toy.folder)


def test_a_folder_goes_on_with_its_own_training_alone(toy, tmp_path, monkeypatch):
    other = dict(lr=1e-3, every=0)
    refused("holds another training", toy.train, out=str(toy.folder), **other)
    with monkeypatch.context() as m, pytest.raises(Killed):
        dying(m, lambda step: step == 5)
        toy.train(out=str(tmp_path), every=0)
    refused("holds another training", toy.train, out=str(tmp_path), **other)
    assert seal(toy.train(out=str(tmp_path)).folder) == seal(toy.folder)


def test_what_stops_a_training_is_one_line(toy, tmp_path, monkeypatch):
    how = dict(out=str(tmp_path / "x"))
    refused("try a smaller learning rate", toy.train, lr=1e20, **how)

    def full(*args, **how):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr(torch.Tensor, "backward", full)
    refused("more memory than available; say", toy.train, **how)


# What it learns from


def test_there_is_nothing_to_learn_from(toy, upstream):
    s = toy.settings.changed(upstream=str(upstream))
    for what, text in (
        ("animal-farm", "has no split train"),
        ("nowhere", "neither a corpus nor a file"),
    ):
        refused(text, refnb.train, "coref-minilm", what, s=s)


def test_a_book_is_learnt_from_in_windows_and_is_then_no_test(toy, tmp_path):
    [story, *_] = sample()
    book = refnb.Document("book", story.sentences * 5, story.clusters)
    refnb.write_documents([book], tmp_path / "book.jsonl")
    done = toy.train(str(tmp_path / "book.jsonl"), epochs=1)
    assert len(done.seal.documents) == 2, "the book, and its one window with a mention"
    ask = dict(checkpoint=str(done.folder))
    refused("was trained on 1 of the documents", toy.run, [book], **ask)


def test_what_it_has_learnt_from_is_refused(toy, minilm, upstream):
    learnt = [refnb.Document(f"{d.doc_key}-12", beginning(d, 12).sentences) for d in sample()]
    new = refnb.Document("new", (("She", "left", "."),))
    refused("was trained on 6 of the documents", toy.run, [new, *learnt])
    s = toy.settings.changed(upstream=str(upstream))
    for fold, seen in ((1, "was trained on 10 of"), (0, "")):
        task = refnb.task(f"litbank/fold{fold}/test", s)
        lack = refnb.find_system("coref-minilm", s).lack(task)
        assert seen in str(lack) and bool(seen) == bool(lack)


def test_what_one_corpus_does_not_mark_is_no_fault_in_another(toy, tmp_path):
    "Of two sorts of documents each teaches a finder of its own; what is asked says which is heard."
    whole = refnb.read_documents(toy.stories)
    chains = [
        d.changed(doc_key=f"chains of {d.doc_key}", clusters=[c for c in d.clusters if len(c) > 1])
        for d in whole
    ]
    others = str(refnb.write_documents(chains, tmp_path / "chains.jsonl"))
    again = str(refnb.write_documents(chains[:6], tmp_path / "again.jsonl"))
    for what in (toy.stories, others, f"{others}+{again}"):
        assert not toy.train(what, epochs=1).seal.model.get("chains")
    done = toy.train(f"{toy.stories}+{others}", tune=True)
    assert done.seal.model["chains"] and len(done.seal.judged) == 2, "both sorts judge"
    more = []
    for threshold in (-4, -3, -2):
        ask = dict(checkpoint=str(done.folder), threshold=threshold)
        one, both = (toy.resolve(whole[0], kinds=kinds, **ask) for kinds in ("litbank", "all"))
        assert {*one.mentions} <= {*both.mentions}
        more.append(len(both.mentions) - len(one.mentions))
    assert any(more)
    less = toy.train(system="linker-minilm", casts=False, start=str(done.folder), epochs=1)
    assert not less.seal.model.get("chains"), "a start may have more finders"


def test_a_text_without_a_stated_licence_teaches_nothing(upstream):
    from refnb.models.coreference.lessons import taught_by

    s = load_settings(upstream=str(upstream))
    taught = taught_by("gum", s=s)
    genres = {d.meta["genre"] for d in taught.teach}
    assert len(taught.teach) == 117 and len(genres) == 9 and "conversation" not in genres


# Several trainings


def test_of_several_trainings_each_document_has_one_that_has_not_seen_it(toy, tmp_path):
    docs, both = [beginning(d, 12) for d in sample()], tmp_path / "both"
    halves = [docs[:3], docs[3:]]
    for k, half in enumerate(halves):
        file = refnb.write_documents(half, tmp_path / f"{k}.jsonl")
        toy.train(str(file), out=str(both / f"fold{k}"), epochs=1)
    bare = [[refnb.Document(d.doc_key, d.sentences) for d in half] for half in halves]

    def answers(asked, folder):
        done = toy.run(asked, checkpoint=str(folder)).answers()
        return {k: a.clusters for k, a in done.items()}

    alone = answers(bare[0], both / "fold1") | answers(bare[1], both / "fold0")
    assert answers([*bare[0], *bare[1]], both) == alone
    asked = [*bare[0], *bare[1]]
    refused("was trained on 3 of the documents", answers, asked, both / "fold0")


def test_only_litbank_has_folds(toy):
    task = "kitmus/background-both/4"
    refused(f"{task} has no folds", refnb.train, "coref-minilm", task, fold="all")


@pytest.mark.full  # beside test_of_several_trainings_each_document_has_one_that_has_not_seen_it
def test_all_folds_are_one_command_that_goes_on(toy, upstream, tmp_path, monkeypatch):
    how = dict(s=toy.settings.changed(upstream=str(upstream)), out=str(tmp_path), epochs=1)

    def train():
        return refnb.train("coref-minilm", "litbank", fold="all", **toy.recipe | how)

    with monkeypatch.context() as m, pytest.raises(Killed):
        dying(m, lambda step: step == 90)  # in the second fold, of eighty documents each
        train()
    done = train()
    assert [x.folder.name for x in done] == [f"fold{k}" for k in range(10)]
    assert len({json.dumps(seal(x.folder)["documents"]) for x in done}) == 10
    assert [x.seal for x in train()] == [x.seal for x in done]


MINE = """
kind: coreference
model: {{title: Mine, licence: MIT, encoder: {encoder}, segment: 64, context: 8, frozen: 1}}
training: {{epochs: 1, tune: false}}
"""


def test_a_system_starts_from_one_that_was_trained_on_the_same_documents(
    toy, tmp_path, monkeypatch, capsys
):
    tools.live_in(monkeypatch, tmp_path)
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/first.yaml").write_text(MINE.format(**toy.recipe))
    (tmp_path / "systems/second.yaml").write_text(MINE.format(**toy.recipe) + "start: first\n")

    learnt = refnb.write_documents([beginning(d, 12) for d in sample()[:2]], tmp_path / "l.jsonl")

    def train(name, *more):
        said = tools.here(capsys, "train", name, learnt, "--json", *more)
        return said, json.loads(said.out) if said.status == 0 else {}

    tools.one_line(train("second")[0], 1, "first: has no initial weights", "refnb train first")
    first = train("first")[1]
    train("first", "-p", "size=32")  # newer, with other settings
    second = train("second")[1]
    assert (second["started"], second["start"]) == ("first", first["weights"])
