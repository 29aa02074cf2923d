"Trained pair models: killed and gone on to the same bits; recipes; what they may answer."

import functools, json, random, shutil
from pathlib import Path
import numpy as np
import pytest
import refnb
import tools
from refnb.core.files import write_jsonl
from refnb.core.settings import load_settings
from refnb.core.types import Option, Question, RefnbError
from refnb.metrics.choice import credit
from refnb.models.pairs.scorers import tiny_encoder

torch = pytest.importorskip("torch", reason="needs refnb[models]")
transformers = pytest.importorskip("transformers", reason="needs refnb[models]")
SYSTEMS = {"cross-encoder": "bert", "cross-encoder-joint": "bert", "t5": "t5"}
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


JARS, OTHERS = jars(4), jars(2, 1)


def refused(text: str, call, *args, **how):
    "An error of one line that says this."
    with pytest.raises(RefnbError) as e:
        call(*args, **how)
    assert text in str(e.value) and "\n" not in str(e.value) and len(str(e.value)) <= 300


class Trainings:
    "Systems of random weights, and the questions that they learn from."

    def __init__(self, home: Path):
        folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
        self.settings = load_settings("/", env={}, offline=True, **folders)
        self.file = str(home / "jars.jsonl")
        write_jsonl(self.file, JARS)
        texts = [x for q in jars(40) for o in q.options for x in (q.text, o.name, o.description)]
        tiny_encoder(home / "bert", texts)
        tools.tiny_writer(home / "t5", texts)
        recipe = dict(learning_rate=3e-3, num_train_epochs=2, per_device_train_batch_size=8)
        own = dict(package="", dtype="float32", title="tiny", tokens=64, bf16=False)
        self.own = {k: dict(model=str(home / v)) | own | recipe for k, v in SYSTEMS.items()}
        self.done = functools.cache(self.train)  # the same training, once for all tests

    def train(self, system="cross-encoder", what="", folds=0, **changed):
        how = dict(s=self.settings) | self.own.get(system, {}) | changed
        return refnb.train(system, what or self.file, folds=folds, **how)

    def run(self, asked, system="cross-encoder", **changed):
        return refnb.run(asked, system, s=self.settings, **changed)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return Trainings(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def elsewhere(own, tmp_path):
    "Settings in which nothing is trained."
    return own.settings.changed(runs=str(tmp_path / "runs"))


def weights(done) -> bytes:
    return (done.folder / "weights/model.safetensors").read_bytes()


# Kills and damage


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_killed_training_ends_in_the_same_bits(own, elsewhere, system, monkeypatch):
    from models_toys import Killed, dying

    whole = own.done(system)
    with monkeypatch.context() as m:
        steps = dying(m, lambda step: step in (3, 5))  # each in another epoch
        for _ in range(2):
            with pytest.raises(Killed):
                own.train(system, s=elsewhere)
        killed = len(steps)
        again = own.train(system, s=elsewhere)
        rest = len(steps) - killed
    assert 0 < rest < killed, "what was learnt is not learnt again"
    assert weights(again) == weights(whole) and again.seal == whole.seal
    assert not [*again.folder.rglob("checkpoint-*")], "no state is left"


def test_half_a_checkpoint_is_passed_over(own, elsewhere, monkeypatch):
    from models_toys import Killed, dying

    with monkeypatch.context() as m, pytest.raises(Killed):
        dying(m, lambda step: step == 6)
        own.train(s=elsewhere)
    steps = [*Path(elsewhere.runs).rglob("checkpoint-*/trainer_state.json")]
    last = max(steps, key=lambda p: int(p.parent.name[11:]))
    last.write_text(last.read_text()[: last.stat().st_size // 2])
    assert len(steps) > 1 and weights(own.train(s=elsewhere)) == weights(own.done())


def test_a_damaged_training_is_one_line_and_is_made_again(own, elsewhere, tmp_path):
    moved = shutil.copytree(own.done().folder, tmp_path / "moved")
    ask = dict(checkpoint=str(moved))
    assert own.run(OTHERS, **ask).complete, "a training may be moved"
    path, seal = moved / "weights/model.safetensors", moved / "seal.json"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused("other weights than those of the training", own.run, jars(3, 1), **ask)
    seal.write_text(json.dumps(json.loads(seal.read_text()) | {"weights": 3}))
    refused("seal.json, field weights", own.run, jars(3, 1), **ask)
    seal.unlink()
    refused("holds no complete training", own.run, jars(3, 1), **ask)
    first = own.train(s=elsewhere)
    (first.folder / "weights/model.safetensors").write_bytes(data[:-1])
    assert own.train(s=elsewhere).seal == first.seal == own.done().seal
    assert weights(first) == data, "the same recipe gives the same weights"


# What is trained


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_score_is_what_transformers_computes_of_the_weights(own, system):
    folder = own.done(system).folder
    got = own.run(OTHERS[:3], system, checkpoint=str(folder)).answers()
    kind = {"cross-encoder": "SequenceClassification", "t5": "Seq2SeqLM"}
    model = getattr(transformers, f"AutoModelFor{kind.get(system, 'MultipleChoice')}")
    net = model.from_pretrained(folder / "weights").eval()
    t = transformers.AutoTokenizer.from_pretrained(folder / "weights")
    for q in OTHERS[:3]:
        for o, score in zip(q.options, got[q.id].scores):
            with torch.no_grad():
                if system == "t5":
                    said = f"expression: {q.text} entity: {o.name} description: {o.description}"
                    ids = t("1", return_tensors="pt")["input_ids"]
                    logits = net(**t(said, return_tensors="pt"), labels=ids).logits[0]
                    each = logits.double().log_softmax(-1)[range(ids.shape[1]), ids[0]]
                    want = each.sum().exp()
                else:
                    row = t(f"{o.name}. {o.description}", q.text, return_tensors="pt")
                    if system == "cross-encoder-joint":
                        want = net(**{k: v[None] for k, v in row.items()}).logits[0, 0]
                    else:
                        want = net(**row).logits[0].double().softmax(-1)[1]
            assert score == pytest.approx(want.item(), abs=1e-5)


def test_whatever_changes_weights_makes_another_training(own):
    changes = {}, dict(seed=3), dict(tokens=32), dict(folds=2)
    assert len({own.done(**x).folder for x in changes}) == 4


def test_a_recipe_is_chosen_by_what_is_held_out(own):
    said, system = [], "cross-encoder-joint"
    done = own.train(system, folds=2, grid="full", say=said.append)
    seal, lines = done.seal, len(said)
    assert [t.recipe for t in seal.tried] == [{"learning_rate": x} for x in (5e-5, 1e-4, 2e-4)]
    assert seal.held_out == max(t.held_out for t in seal.tried)
    answers = own.run(own.file, system, checkpoint=str(done.folder)).answers()
    assert seal.held_out == np.mean([credit(q, answers[q.id]) for q in JARS])
    assert "2 folds that share no target" in said[0]
    again = own.train(system, folds=2, grid="full", say=said.append)
    assert again == done and len(said) == lines + 1, "what is complete is not trained again"


def test_a_recipe_that_fails_leaves_the_others(own, monkeypatch):
    real, bad = transformers.Trainer.predict, {5e-5, 2e-4}

    def predict(self, *args, **how):
        out = real(self, *args, **how)
        fails = self.args.learning_rate in bad
        return out._replace(predictions=out.predictions * np.nan) if fails else out

    monkeypatch.setattr(transformers.Trainer, "predict", predict)
    how = dict(folds=2, max_steps=1)
    done = own.train(grid="full", seed=1, **how)
    assert [t.held_out is None for t in done.seal.tried] == [True, False, True]
    assert done.seal.recipe["learning_rate"] == 1e-4
    bad |= {1e-4, 3e-3}
    refused("no recipe could be", own.train, grid="full", seed=2, **how)
    refused("is nan", own.train, seed=3, **how)


# What it may answer


def test_it_answers_others_and_its_own_questions_by_cross_validation(own):
    done = own.done(folds=2)
    ask = dict(checkpoint=str(done.folder))
    others = own.run(OTHERS, **ask)
    assert others.complete and others.info.data["weights"] == done.seal.weights
    assert others.info.settings["trained"] == "trained on jars.jsonl"
    mine = own.run(own.file, **ask).answers()
    assert done.seal.held_out == np.mean([credit(q, mine[q.id]) for q in JARS])
    untested = own.done()
    assert untested.seal.held_out is None
    text = "cross-encoder was trained on its questions"
    refused(text, own.run, own.file, checkpoint=str(untested.folder))
    text = "holds the weights of cross-encoder"
    refused(text, own.run, OTHERS, "cross-encoder-joint", **ask)
    text = "cross-encoder is not trained for it; refnb train cross-encoder"
    refused(text, own.run, OTHERS)


def test_development_questions_stand_in_and_it_is_said(own, elsewhere, upstream):
    s, said = elsewhere.changed(upstream=str(upstream)), []
    train, short = "altentities/books/name/train", dict(max_steps=9, tokens=16)
    done = own.train(what=train, s=s, say=said.append, **short)
    told = f"trained on dev: altentities/books/name/dev, for {train} is not here"
    assert said == [f"{told}; judged by nothing"]
    assert done.seal.trained_on == ["altentities/books/name/dev"] and done.seal.questions == 1979
    found = refnb.run("altentities/books/name/test/sample30", "cross-encoder", s=s)
    assert found.complete and found.info.data["weights"] == done.seal.weights, "found by itself"
    assert found.info.settings["trained"] == told
    system = refnb.find_system("cross-encoder", checkpoint=str(done.folder))
    for asked in ("books/name/dev/sample30", "books/oracle/dev"):  # the same expressions
        task = refnb.task(f"altentities/{asked}", s)
        assert "was trained on its questions" in str(system.lack(task))


# What cannot be trained


def test_bad_calls_are_one_line(own, tmp_path):
    [first, *_] = JARS
    write_jsonl(tmp_path / "one.jsonl", [first.changed(options=(Option("a"),), right=(0,))])
    more = first.changed(id="x", options=tuple(map(Option, "abc")))
    write_jsonl(tmp_path / "mixed.jsonl", [*JARS, more])
    mixed = dict(system="cross-encoder-joint", what=str(tmp_path / "mixed.jsonl"))
    for changes, text in (
        (dict(system="cross-encodr"), "did you mean cross-encoder?"),
        (dict(folds=1), "make no 1 folds"),
        (dict(folds=99), "make no 99 folds"),
        (dict(grid="full"), "nothing judges which recipe is best"),
        (dict(grid="ful"), "unknown grid 'ful'; did you mean full?"),
        (dict(grid="selected"), "Table 13 prints no one recipe for it"),
        (dict(rate=3), "no such recipe: got an unexpected keyword argument 'rate'"),
        (dict(learning_rate="much"), "learning_rate cannot be 'much'"),
        (dict(out="x"), "--out is for coreference systems"),
        (dict(what=str(tmp_path / "one.jsonl")), "it needs two options, and a right one"),
        (dict(what="altentities/books/name/test"), "is a test task, which nothing is trained on"),
        (dict(what="sample/bookcoref"), "has documents, not questions"),
        (mixed, "learns from questions with the same number of options"),
    ):
        refused(text, own.train, **changes)


def test_two_processes_never_train_into_one_folder(own, elsewhere):
    from models_toys import Killed

    def say(line):
        if "1 of 2 models" in line:
            refused("another process trains this", own.train, folds=2, s=elsewhere)
            raise Killed

    with pytest.raises(Killed):
        own.train(folds=2, s=elsewhere, say=say)


def test_a_system_is_trained_and_asked_by_commands(own, tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    changed = own.own["cross-encoder"] | dict(num_train_epochs=1)
    given = [x for k, v in changed.items() for x in ("-p", f"{k}={v}")]
    call = "train cross-encoder sample/altentities/sample40 --folds 2 --json".split()
    said = tools.here(capsys, *call, *given)
    told = json.loads(said.out)
    assert said.status == 0 and told["questions"] == 40 and 0 <= told["held_out"] <= 1
    assert told["recipe"]["num_train_epochs"] == 1
    ask = ("run", "sample/altentities", "cross-encoder")
    for args, text in (
        (("train", "cross-encoder", "sample/altentities", "-p", "epoch=1"), "no such recipe"),
        (
            ("train", "cross-encoder", "sample/altentities", "--fold", "3"),
            "--fold is for coreference systems",
        ),
        (("train", "coref-minlm", "litbank", "--fold", "3"), "did you mean coref-minilm"),
        (("train", "coref-minlm", "litbank", "--out", "x"), "did you mean coref-minilm"),
        (ask, "is not trained for it"),
        ((*ask, "-p", "model=x"), "has no setting 'model'"),
        ((*ask, "-p", f"checkpoint={told['folder']}"), "was trained on its questions"),
    ):
        said = tools.here(capsys, *args)
        tools.one_line(said, said.status or 1, text)
