"Trained pair models: killed and gone on to the same bits; folds, grids, held-out answers; what a checkpoint may answer."

import json, random, shutil
from pathlib import Path
import numpy as np
import pytest
from hypothesis import given, strategies as st
import tools
from refnb.benchmarks.tasks import as_task, find_task
from refnb.core.files import write_jsonl
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, FormatError, Option, Question
from refnb.metrics.choice import credit
from refnb.models.pairs.encoders import tiny_encoder
from refnb.models.pairs.heads import (
    as_scorer,
    fit,
    grid_of,
    last_checkpoint,
    text_for,
    the_trained,
    trained_systems,
)
from refnb.models.pairs.scorers import NoScore, compared
from refnb.models.registry import find_system
from refnb.models.pairs.trained import folds_of, read_held_out, read_seal, source_of, train_system
from refnb.models.running import run

torch = pytest.importorskip("torch", reason="needs refnb[models]")
transformers = pytest.importorskip("transformers", reason="needs refnb[models]")
pytest.importorskip("sentence_transformers", reason="needs refnb[models]")
KINDS = {"binary": "cross-encoder", "joint": "cross-encoder-joint", "written": "t5"}
COLOURS = "red green blue black white yellow brown pink".split()


def jars(n: int, seed: int = 0) -> list[Question]:
    "Made-up questions: two things of two colours, one of which is meant."
    rng, out = random.Random(seed), []
    for i in range(n):
        colours, right = rng.sample(COLOURS, 2), rng.randrange(2)
        things = [f"jar {seed} {i} {k}" for k in range(2)]
        options = tuple(Option(t, f"A {c} thing.") for t, c in zip(things, colours))
        for j, said in enumerate(("the {} one", "it is {}", "make it {}")):
            text = said.format(colours[right])
            id, doc = f"{seed}-{i}-{j}", f"{seed}-{i}"
            out.append(Question(id, doc, text, None, options, (right,)))
    return out


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    "Changes that make a system of random weights, by kind."
    texts = [q.text for q in jars(40)]
    texts += [x for q in jars(40) for o in q.options for x in (o.name, o.description)]
    bert = tiny_encoder(tmp_path_factory.mktemp("bert"), texts)
    places = dict.fromkeys(("binary", "joint"), bert)
    places["written"] = tools.tiny_writer(tmp_path_factory.mktemp("t5"), texts)
    recipe = dict(learning_rate=3e-3, num_train_epochs=2, per_device_train_batch_size=8, bf16=False)
    own = dict(package="", dtype="float32", title="tiny", tokens=64)
    return {k: dict(model=str(p)) | own | recipe for k, p in places.items()}


@pytest.fixture
def home(tmp_path):
    "Settings with two files of questions."
    write_jsonl(tmp_path / "jars.jsonl", jars(12))
    write_jsonl(tmp_path / "others.jsonl", jars(4, 1))
    folders = {k: str(tmp_path / k) for k in ("runs", "reports")}
    return load_settings(tmp_path, env={}, offline=True, **folders)


def refused(kind, text: str, f, *args, **kwargs):
    "An error of one line that says this."
    with pytest.raises(kind) as e:
        f(*args, **kwargs)
    assert text in str(e.value) and "\n" not in str(e.value)
    assert len(str(e.value)) <= 300


def weights(trainer):
    return {k: v.clone() for k, v in trainer.model.state_dict().items()}


class Killed(BaseException):
    "As if the process had died."


@pytest.mark.parametrize("kind", KINDS)
def test_f33_killed_at_any_step_it_ends_in_the_same_bits(tiny, kind, tmp_path, monkeypatch):
    x, qs = the_trained(KINDS[kind], **tiny[kind]), jars(4)
    whole = weights(fit(x, qs, tmp_path / "whole"))
    real, count = transformers.Trainer.training_step, iter(range(10**6))

    def step(self, *args, **kwargs):
        if next(count) in (2, 4):  # the second kill is at a later step, of the second epoch
            raise Killed
        return real(self, *args, **kwargs)

    monkeypatch.setattr(transformers.Trainer, "training_step", step)
    for _ in range(2):
        with pytest.raises(Killed):
            fit(x, qs, tmp_path / "killed")
    again = weights(fit(x, qs, tmp_path / "killed"))
    assert again.keys() == whole.keys()
    assert all(torch.equal(again[k], whole[k]) for k in whole)
    other = weights(fit(the_trained(KINDS[kind], **tiny[kind], seed=7), qs, tmp_path / "other"))
    assert not all(torch.equal(other[k], whole[k]) for k in whole)


def test_f30_half_a_checkpoint_is_passed_over(tiny, tmp_path):
    x, qs = the_trained("cross-encoder", **tiny["binary"]), jars(6)
    fit(x, qs, tmp_path)
    last = Path(last_checkpoint(tmp_path))
    state = (last / "trainer_state.json").read_text()
    (last / "trainer_state.json").write_text(state[: len(state) // 2])
    assert last_checkpoint(tmp_path) not in (None, str(last))
    (last / "trainer_state.json").unlink()
    assert last_checkpoint(tmp_path) not in (None, str(last))
    assert last_checkpoint(tmp_path / "nowhere") is None


@pytest.mark.parametrize("kind", KINDS)
def test_scores_by_hand(tiny, kind, tmp_path):
    x, qs = the_trained(KINDS[kind], **tiny[kind]), jars(3)
    trainer = fit(x, qs, tmp_path)
    got = list(compared(qs, as_scorer(trainer, x.pair), text=text_for(kind)))
    net, t = trainer.model.eval(), trainer.processing_class
    for q, a in zip(qs, got):
        for o, score in zip(q.options, a.scores):
            with torch.no_grad():
                if kind == "written":
                    said = f"expression: {q.text} entity: {o.name} description: {o.description}"
                    ids = t("1", return_tensors="pt")["input_ids"]
                    logits = net(**t(said, return_tensors="pt"), labels=ids).logits[0]
                    each = logits.double().log_softmax(-1)[range(ids.shape[1]), ids[0]]
                    want = each.sum().exp()
                else:
                    row = t(f"{o.name}. {o.description}", q.text, return_tensors="pt")
                    if kind == "joint":
                        want = net(**{k: v[None] for k, v in row.items()}).logits[0, 0]
                    else:
                        want = net(**row).logits[0].double().softmax(-1)[1]
            assert score == pytest.approx(want.item(), abs=1e-5)


@given(st.lists(st.text("ab", min_size=1, max_size=2), min_size=2, max_size=40), st.integers(2, 4))
def test_f46_folds_share_no_target(targets, k):
    qs = [
        Question(str(i), str(i), options=(Option("?"), Option(t)), right=(1,))
        for i, t in enumerate(targets)
    ]
    if len(set(targets)) < k:
        refused(CallError, f"make no {k} folds", folds_of, qs, k)
        return
    folds = folds_of(qs, k)
    sets = [{q.options[1].name for q in f} for f in folds]
    assert sorted(q.id for f in folds for q in f) == sorted(q.id for q in qs)
    assert sum(map(len, sets)) == len(set.union(*sets)) == len(set(targets))


def test_grids_are_the_papers():
    for name, n in (("bert", 96), ("bert-joint", 96), ("t5", 24)):
        assert len(grid_of(trained_systems()[name], "full")) == n
    x = trained_systems()["bert"]
    assert grid_of(x, "") == [{}]
    tasks = [f"altentities/{d}/name/train" for d in ("books", "songs")]
    chosen = dict(learning_rate=1e-5, per_device_train_batch_size=16, num_train_epochs=10)
    assert grid_of(x, "selected", tasks[:1]) == [chosen]
    for grid, where, text in (
        ("selected", tasks, "Table 13 prints no one recipe for it"),
        ("selected", ["sample/altentities"], "Table 13 prints no one recipe for it"),
        ("ful", [], "unknown grid 'ful'; did you mean full?"),
    ):
        refused(CallError, text, grid_of, x, grid, where)


def test_a_recipe_is_chosen_by_what_is_held_out(tiny, home, tmp_path):
    file, own, said = str(tmp_path / "jars.jsonl"), tiny["joint"], []
    done = train_system("cross-encoder-joint", file, 2, "full", s=home, say=said.append, **own)
    seal = done.seal
    assert [t.recipe for t in seal.tried] == [{"learning_rate": x} for x in (5e-5, 1e-4, 2e-4)]
    assert seal.held_out == max(t.held_out for t in seal.tried)
    answers, qs = read_held_out(done.folder), as_task(file, home).questions
    assert seal.held_out == np.mean([credit(q, answers[q.id]) for q in qs])
    assert "2 folds that share no target" in said[0]
    lines = len(said)
    again = train_system("cross-encoder-joint", file, 2, "full", s=home, say=said.append, **own)
    assert again == done and len(said) == lines + 1, "what is complete is not trained again"
    assert not list(done.folder.rglob("checkpoint-*"))


def test_it_answers_others_and_its_own_by_cross_validation(tiny, home, tmp_path):
    file, own = str(tmp_path / "jars.jsonl"), tiny["binary"]
    done = train_system("cross-encoder", file, 2, s=home, **own)
    ask = dict(s=home, checkpoint=str(done.folder))
    others = run(str(tmp_path / "others.jsonl"), "cross-encoder", **ask)
    assert others.sealed and others.info.data["weights"] == done.seal.weights
    assert others.info.settings["trained"] == "trained on jars.jsonl"
    mine = run(file, "cross-encoder", **ask)
    assert {i: a.scores for i, a in mine.answers().items()} == {
        i: a.scores for i, a in read_held_out(done.folder).items()
    }
    untested = train_system("cross-encoder", file, 0, s=home, **own)
    assert untested.seal.held_out is None
    text = "cross-encoder was trained on its questions"
    refused(DataError, text, run, file, "cross-encoder", s=home, checkpoint=str(untested.folder))
    text = "holds the weights of cross-encoder"
    refused(CallError, text, run, jars(2, 1), "cross-encoder-joint", **ask)
    text = "cross-encoder is not trained for it; refnb train cross-encoder"
    refused(DataError, text, run, jars(2, 1), "cross-encoder", s=home)


def test_f30_f31_what_is_damaged_is_one_line_and_trained_again(tiny, home, tmp_path):
    file, own = str(tmp_path / "jars.jsonl"), tiny["binary"]
    done = train_system("cross-encoder", file, 2, s=home, **own)
    moved = tmp_path / "moved"
    shutil.copytree(done.folder, moved)
    ask = dict(s=home, checkpoint=str(moved))
    assert run(jars(2, 1), "cross-encoder", **ask).sealed, "a training may be moved"
    path = moved / "weights/model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    text = "other weights than those of the training; train the system again"
    refused(DataError, text, run, jars(3, 1), "cross-encoder", **ask)
    seal = json.loads((moved / "seal.json").read_text())
    (moved / "seal.json").write_text(json.dumps(seal | {"weights": 3}))
    refused(FormatError, "seal.json, field weights", run, jars(3, 1), "cross-encoder", **ask)
    refused(DataError, "holds no complete training", read_seal, tmp_path)
    (done.folder / "weights/model.safetensors").write_bytes(bytes(data))
    again = train_system("cross-encoder", file, 2, s=home, **own)
    assert again.seal == done.seal, "the same recipe gives the same weights"


def test_a_recipe_that_fails_leaves_the_others(tiny, home, tmp_path, monkeypatch):
    import refnb.models.pairs.trained as trained

    real = trained.held_out_answers

    def answers(x, *args, **kwargs):
        if x.training["learning_rate"] in bad:
            raise NoScore("the score of an option is nan", "question 1")
        return real(x, *args, **kwargs)

    monkeypatch.setattr(trained, "held_out_answers", answers)
    bad = [5e-5, 2e-4]
    file, own = str(tmp_path / "jars.jsonl"), tiny["binary"] | dict(s=home)
    done = train_system("cross-encoder", file, 2, "full", **own)
    assert [t.held_out is None for t in done.seal.tried] == [True, False, True]
    assert done.seal.recipe["learning_rate"] == 1e-4
    bad += [1e-4, 3e-3]
    none = dict(seed=1, **own)
    refused(DataError, "no recipe could be", train_system, "cross-encoder", file, 2, "full", **none)
    refused(NoScore, "is nan", train_system, "cross-encoder", file, 2, **own)


def test_f34_whatever_changes_weights_changes_the_folder(tiny, home, tmp_path):
    file, folders = str(tmp_path / "jars.jsonl"), set()
    for change in ({}, dict(seed=3), dict(num_train_epochs=1), dict(tokens=32), dict(folds=2)):
        how = dict(folds=0) | tiny["binary"] | change
        folders.add(train_system("cross-encoder", file, s=home, **how).folder)
    assert len(folders) == 5


def test_bad_calls_are_one_line(tiny, home, tmp_path):
    file = str(tmp_path / "jars.jsonl")
    call = lambda what=file, name="cross-encoder", **k: train_system(
        name, what, s=home, **tiny["binary"] | k
    )
    write_jsonl(tmp_path / "one.jsonl", [jars(1)[0].changed(options=(Option("a"),), right=(0,))])
    more = jars(1)[0].changed(id="x", options=tuple(map(Option, "abc")))
    write_jsonl(tmp_path / "mixed.jsonl", [*jars(2), more])
    for changes, text in (
        (dict(name="cross-encodr"), "did you mean cross-encoder?"),
        (dict(folds=1), "make no 1 folds"),
        (dict(folds=99), "make no 99 folds"),
        (dict(folds=0, grid="full"), "nothing judges which recipe is best"),
        (dict(rate=3), "no such recipe: got an unexpected keyword argument 'rate'"),
        (dict(learning_rate="much"), "learning_rate cannot be 'much'"),
        (dict(what=str(tmp_path / "one.jsonl")), "it needs two options, and a right one"),
        (dict(what="altentities/books/name/test"), "is a test task, which nothing is trained on"),
        (dict(what="sample/bookcoref"), "has documents, not questions"),
    ):
        refused((CallError, DataError), text, call, **changes)
    text = "learns from questions with the same number of options"
    mixed = dict(what=str(tmp_path / "mixed.jsonl"), name="cross-encoder-joint")
    refused(DataError, text, call, **mixed)
    from refnb.core.files import alone

    folder = call(folds=0).folder
    with alone(folder / ".lock", "busy"):
        refused(DataError, "another process trains this", call, folds=0)


def test_the_command(tiny, tmp_path, monkeypatch, capsys):
    for k, v in dict(runs=tmp_path / "runs", reports=tmp_path / "reports", offline="true").items():
        monkeypatch.setenv(f"REFNB_{k.upper()}", str(v))
    own = [x for k, v in tiny["binary"].items() for x in ("-p", f"{k}={v}")]
    call = "train cross-encoder sample/altentities/sample40 --folds 2 --json".split()
    assert tools.main([*call, *own, "-p", "num_train_epochs=1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["questions"] == 40 and 0 <= told["held_out"] <= 1
    assert told["recipe"]["num_train_epochs"] == 1
    for args, text in (
        (["train", "cross-encoder", "sample/altentities", "-p", "epoch=1"], "no such recipe"),
        (["train", "cross-encoder", "sample/altentities", "--fold", "3"], "unknown task"),
        (
            ["train", "cross-encoder", "sample/altentities", "--out", "x"],
            "--out is for coreference systems",
        ),
        (["run", "sample/altentities", "cross-encoder"], "is not trained for it"),
        (["run", "sample/altentities", "cross-encoder", "-p", "model=x"], "has no setting 'model'"),
        (
            ["run", "sample/altentities", "cross-encoder", "-p", f"checkpoint={told['folder']}"],
            "was trained on its questions",
        ),
    ):
        assert tools.main(args) in (1, 2)
        assert text in (err := capsys.readouterr().err) and err.count("\n") == 1, err


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("trained")
    folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
    return load_settings("/", env={}, upstream=str(upstream), offline=True, **folders)


def test_development_questions_stand_in_and_it_is_said(s, tiny):
    said, train = [], "altentities/books/name/train"
    own = tiny["binary"] | dict(max_steps=9, tokens=16)
    done = train_system("cross-encoder", train, 0, s=s, say=said.append, **own)
    told = f"trained on dev: altentities/books/name/dev, for {train} is not here"
    assert said == [f"{told}; judged by nothing"]
    assert done.seal.trained_on == ["altentities/books/name/dev"] and done.seal.questions == 1979
    r = run("altentities/books/name/test/sample30", "cross-encoder", s=s)  # found by itself
    assert r.sealed and r.info.data["weights"] == done.seal.weights
    assert r.info.settings["trained"] == told
    for asked in ("books/name/dev/sample30", "books/oracle/dev"):  # the same expressions
        task = find_task(f"altentities/{asked}", s)
        system = find_system("cross-encoder", checkpoint=str(done.folder))
        assert "was trained on its questions" in system.lacks(task)
    source = source_of("altentities/mixed/unshown/train", s)
    names = [f"altentities/{d}/unshown/dev" for d in ("books", "recipes", "songs")]
    assert [task.name for task in source.tasks] == names
