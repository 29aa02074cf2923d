"Training: kills at every step and every write, the same weights in the end; folds, batches, losses, recipes chosen by what is held out; systems that were trained answer parts."

import hashlib, itertools, json, logging, os, random, shutil
from pathlib import Path
import numpy as np
import pytest
from hypothesis import given, settings as examples, strategies as st
import tools
from refnb.benchmarks.altentities.questions import sample_altentities
from refnb.core.files import read_yaml, write_jsonl
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, FormatError, Option, Question
from refnb.metrics.choice import credit
import refnb.models.pairs.trained as tp
import refnb.models.training as tr
from refnb.models.pairs.encoders import _pair_weights, tiny_encoder
from refnb.models.pairs.heads import (
    Recipe,
    TrainedSystem,
    _choice_loss,
    _form_of,
    _joined,
    new_model,
    read_seal,
    text_for,
    the_trained,
    trained_model,
    trained_systems,
)
from refnb.models.language.local import weights_id
from refnb.models.pairs.scorers import pairs_of
from refnb.models.running import run

torch = pytest.importorskip("torch", reason="needs refnb[models]")
transformers = pytest.importorskip("transformers", reason="needs refnb[models]")
KILLS = int(os.environ.get("TEST_KILLS", 3))
KINDS = {
    "cosine": "bi-encoder",
    "binary": "cross-encoder",
    "joint": "cross-encoder-joint",
    "written": "t5",
}
COLOURS = "red green blue black white yellow brown pink".split()


def jars(n: int, seed: int = 0, each: int = 3) -> list[Question]:
    "Made-up questions: two things of two colours, one of which is meant."
    rng = random.Random(seed)

    def one(i):
        colours, right = rng.sample(COLOURS, 2), rng.randrange(2)
        options = tuple(
            Option(f"jar {seed} {i} {k}", f"A {c} thing.") for k, c in enumerate(colours)
        )
        return [
            Question(
                f"{seed}-{i}-{j}", f"{seed}-{i}", t.format(colours[right]), None, options, (right,)
            )
            for j, t in enumerate(("the {} one", "it is {}", "make it {}")[:each])
        ]

    return [q for i in range(n) for q in one(i)]


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    "Settings of small systems of random weights, by kind."
    texts = [
        x
        for q in jars(40)
        for x in (q.text, *(y for o in q.options for y in (o.name, o.description)))
    ]
    made = {"written": tools.tiny_writer(tmp_path_factory.mktemp("t5"), texts)} | dict.fromkeys(
        ("cosine", "binary", "joint"), tiny_encoder(tmp_path_factory.mktemp("bert"), texts)
    )
    return {
        k: dict(
            model=str(d),
            package="",
            dtype="float32",
            title="tiny",
            bf16=False,
            lr=3e-3,
            epochs=2,
            batch=4,
            tokens=64,
        )
        for k, d in made.items()
    }


def refused(kind, text: str, f, *args, **kwargs):
    "An error of one line that says this."
    with pytest.raises(kind) as e:
        f(*args, **kwargs)
    assert text in str(e.value) and "\n" not in str(e.value)


# The loop: killed at any instant, it ends as if nothing had been


class Killed(BaseException):
    "As if the process had died."


def toy(**recipe):
    "A small net with dropout, its batches, its loss, its recipe, and how often it is right."
    x = torch.randn(80, 6, generator=torch.Generator().manual_seed(0))
    y = (x.sum(1) > 0).long()
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(5, 2)
    )
    order = lambda e: torch.randperm(60, generator=torch.Generator().manual_seed(e)).split(12)
    return (
        net,
        order,
        lambda b: torch.nn.functional.cross_entropy(net(x[b]), y[b]),
        Recipe(**dict(lr=0.03, epochs=2) | recipe),
        lambda: (net(x[60:]).argmax(1) == y[60:]).float().mean(),
    )


def ended(folder: Path) -> dict[str, str]:
    "What training left, by its hashes."
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def trained(folder, loss=None, **how):
    "Train the toy in this folder, perhaps with another loss."
    net, order, own, r, held = toy(**how.pop("recipe", {}))
    return net, tr.train(
        net, order, loss(own) if loss else own, r, folder, held, first=True, every=0, **how
    )


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    trained(folder)
    return ended(folder)


def test_f33_a_kill_at_every_step(tmp_path, reference):
    def killed_at(n):
        asked = itertools.count()

        def wrapped(loss):
            def same(b):
                if next(asked) == n:
                    raise Killed
                return loss(b)

            return same

        return wrapped

    for n in range(0, 10, 1 if os.environ.get("TEST_FULL") else 3):
        with pytest.raises(Killed):
            trained(tmp_path / str(n), killed_at(n))
        trained(tmp_path / str(n))
        assert ended(tmp_path / str(n)) == reference, f"step {n + 1}"
    for _ in range(20):  # killed again and again, each time after one step more at most
        try:
            trained(tmp_path / "many", killed_at(1))
            break
        except Killed:
            pass
    assert ended(tmp_path / "many") == reference


@pytest.mark.parametrize("when", ["before", "after"])
def test_f33_a_kill_at_every_write(tmp_path, reference, monkeypatch, when):
    real, asked = os.replace, itertools.count()

    def replace(a, b):
        if next(asked) == at and when == "before":
            raise Killed
        real(a, b)
        if at < next(asked) and when == "after":
            raise Killed

    for at in range(0, 36 if when == "before" else 48, 3 if os.environ.get("TEST_FULL") else 9):
        asked = itertools.count()
        with monkeypatch.context() as m:
            m.setattr(os, "replace", replace)
            try:
                trained(tmp_path / str(at))
            except Killed:
                pass
        trained(tmp_path / str(at))
        assert ended(tmp_path / str(at)) == reference, f"write {at}"


KENNEL = """
import os, random, signal, sys, time
import torch; torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
import accelerate
import test_training as t
folder, kills, rng = t.Path(sys.argv[2]), int(sys.argv[3]), random.Random(0)
for k in range(kills):
    pid = os.fork()
    if not pid:
        if k % 2: t.trained(folder/"x", lambda loss: lambda b: time.sleep(.002) or loss(b))
        else: t.trained(folder/"x")
        os._exit(0)
    time.sleep(rng.uniform(0, .12)); os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
    if (folder/"x"/"done.json").exists(): (folder/"x").rename(folder/f"old{k}")
t.trained(folder/"x")
"""


def test_f33_killed_for_real(tmp_path, reference, spawn):
    p = spawn(KENNEL, Path(__file__).parent, tmp_path, KILLS)
    out, err = p.communicate(timeout=600)
    assert p.returncode == 0, err[-2000:]
    for folder in tmp_path.iterdir():
        left = {
            k: v
            for k, v in ended(folder).items()
            if not k.endswith(".part") and k != "state.safetensors"
        }
        assert left == reference, folder.name


def test_f30_a_damaged_state_or_journal_means_from_the_start(tmp_path, reference):
    def until_step_8(loss):
        asked = itertools.count()

        def same(b):
            if next(asked) == 8:
                raise Killed
            return loss(b)

        return same

    for i, (name, damage) in enumerate(
        [
            ("state.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
            ("state.safetensors", lambda b: b[:100]),
            ("state.safetensors", lambda b: b""),
            ("journal.jsonl", lambda b: b[:50]),
            ("journal.jsonl", lambda b: b.replace(b'"loss":0', b'"loss":1', 1)),
            ("journal.jsonl", lambda b: b""),
        ]
    ):
        with pytest.raises(Killed):
            trained(tmp_path / str(i), until_step_8)
        path = tmp_path / str(i) / name
        path.write_bytes(damage(path.read_bytes()))
        trained(tmp_path / str(i))
        assert ended(tmp_path / str(i)) == reference, (i, name)


def test_what_is_complete_is_not_trained_again(tmp_path, reference):
    trained(tmp_path)
    assert (
        trained(tmp_path, lambda loss: pytest.fail)[1].done.steps == 10
        and ended(tmp_path) == reference
    )
    (tmp_path / "journal.jsonl").write_bytes(b"")
    trained(tmp_path)
    assert ended(tmp_path) == reference


def test_the_dice_of_the_process_are_left_alone(tmp_path):
    torch.manual_seed(7)
    want = torch.rand(3)
    trained(tmp_path / "x")
    net = toy()
    torch.manual_seed(7)
    state = torch.get_rng_state()
    tr.train(*net[:4], tmp_path / "y")
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(torch.rand(3), want)


def test_a_seed_makes_a_difference_and_nothing_else_does(tmp_path, reference):
    trained(tmp_path / "a", recipe=dict(seed=1))
    trained(tmp_path / "b", say=lambda e: torch.rand(9))
    assert ended(tmp_path / "a") != reference == ended(tmp_path / "b")


def test_best_by_what_is_held_out_and_an_early_end(tmp_path):
    said = [0.2, 0.5, 0.8, 0.8, 0.7, 0.9, 0.95]

    def go(folder, patience, until=0):
        got = iter(said)
        net, order, loss, _, _ = toy()
        return net, tr.train(
            net,
            order,
            loss,
            Recipe(lr=0.03, epochs=7, patience=patience),
            tmp_path / folder,
            lambda: next(got),
            until=until,
        )

    assert [
        (f.done.epochs, f.done.best_epoch, f.done.held_out)
        for _, f in (go("a", 0), go("b", 2), go("c", 3), go("d", 0, 2))
    ] == [(7, 7, 0.95), (5, 3, 0.8), (7, 7, 0.95), (2, 2, 0.5)]
    third, f = go("e", 0, 3)
    kept = tr.load_tensors(tmp_path / "b" / "best.safetensors")[0]
    assert all(
        torch.equal(kept[n], t) for n, t in tr._weights_of(third).items()
    )  # the third epoch's weights, not the fifth's


@given(st.integers(1, 60), st.floats(0, 1), st.floats(1e-7, 1))
def test_rates_are_those_of_transformers(total, warmup, lr):
    r, rising = Recipe(lr=lr, warmup=warmup), int(np.ceil(warmup * total))
    o = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    theirs = transformers.get_linear_schedule_with_warmup(o, rising, total).lr_lambdas[0]
    assert [tr._rate(r, i, total) for i in range(total)] == pytest.approx(
        [lr * theirs(i) for i in range(total)]
    )


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 4), st.integers(0, 50))
def test_steps(n, k, epochs, steps):
    got = tr._steps_of(lambda e: range(n), Recipe(accumulate=k, epochs=epochs, steps=steps))
    assert sum(got) == (steps or epochs * n) and all(x == n for x in got[:-1])


@given(st.integers(1, 40), st.integers(1, 9))
def test_parts_are_all_of_a_batch(n, k):
    parts = tr._parts_of(range(n), k)
    assert (
        [i for x, _ in parts for i in x] == list(range(n))
        and sum(share for _, share in parts) == pytest.approx(1)
        and 0 < len(parts) <= k
    )
    assert (
        all(share == pytest.approx(len(x) / n) for x, share in parts)
        and max(len(x) for x, _ in parts) - min(len(x) for x, _ in parts) <= 1
    )


def test_f33_an_early_end_after_kills(tmp_path):
    "Patience is not forgotten: after a kill at any step, training ends where it would have ended."
    said = {1: 0.5, 2: 0.8, 3: 0.8, 4: 0.7, 5: 0.6, 6: 0.9}

    def go(folder, at=None):
        net, order, loss, _, _ = toy()
        asked, done = itertools.count(), []

        def dying(b):
            if next(asked) == at:
                raise Killed
            return loss(b)

        state = lambda: (
            json.loads(tr.load_tensors(folder / "state.safetensors")[1])["epoch"]
            if (folder / "state.safetensors").exists()
            else 0
        )
        begun = state()

        def held_out():
            done.append(1)
            return said[begun + len(done)]

        return tr.train(
            net,
            order,
            dying,
            Recipe(lr=0.03, epochs=6, patience=2, accumulate=2),
            folder,
            held_out,
            every=0,
        )

    want = go(tmp_path / "whole")
    assert (want.done.epochs, want.done.best_epoch, want.done.held_out) == (4, 2, 0.8)
    for at in range(0, 40, 3 if os.environ.get("TEST_FULL") else 9):
        with pytest.raises(Killed):
            go(tmp_path / str(at), at)
        go(tmp_path / str(at))
        assert ended(tmp_path / str(at)) == ended(tmp_path / "whole"), at


def test_f30_what_is_complete_but_damaged_is_trained_again(tmp_path, reference):
    for name, damage in (
        ("done.json", lambda b: b"{"),
        ("done.json", lambda b: b"\xff"),
        ("done.json", lambda b: b.replace(b"steps", b"stops")),
        ("best.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
        ("best.safetensors", lambda b: b""),
    ):
        trained(tmp_path)
        path = tmp_path / name
        path.write_bytes(damage(path.read_bytes()))
        trained(tmp_path)
        assert ended(tmp_path) == reference, name


def test_a_loss_that_is_no_number(tmp_path):
    net, order, loss, r, _ = toy()
    refused(
        DataError,
        "step 1: the loss is nan; try a smaller learning rate",
        tr.train,
        net,
        order,
        lambda b: loss(b) * float("nan"),
        r,
        tmp_path,
    )


def test_a_gradient_that_is_no_number_reaches_no_weight(tmp_path):
    "In the last step nothing would come after it to tell."
    net, order, _, r, _ = toy(epochs=1)
    asked = itertools.count()

    def loss(b):
        n, x = next(asked), net(torch.ones(1, 6)).sum()
        return (
            (x * 0).sqrt() if n == 4 else x * 0 + 1
        )  # of sqrt at 0: the value is 0, the slope is not

    refused(
        DataError,
        "step 5: the gradient's length is nan; try a smaller learning rate, or bf16=false",
        tr.train,
        net,
        order,
        loss,
        r.changed(clip=0.0),
        tmp_path,
    )
    assert (
        all(torch.isfinite(p).all() for p in net.parameters())
        and not (tmp_path / "best.safetensors").exists()
    )


def test_f22_a_batch_that_is_too_large(tmp_path):
    net, order, loss, r, _ = toy()

    def cramped(b):
        if len(b) > 7:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
            )
        return loss(b)

    refused(
        DataError,
        "step 1: a batch needs more memory than available; say accumulate=2: the same batch in smaller parts",
        tr.train,
        net,
        order,
        cramped,
        r,
        tmp_path / "x",
    )
    assert tr.train(net, order, cramped, r.changed(accumulate=2), tmp_path / "y").done.steps == 10


def test_f10_a_disk_that_is_full(tmp_path, reference, monkeypatch):
    "The state before is whole, and training goes on with it."
    import safetensors.torch as s

    real, asked = s.save_file, itertools.count()

    def full(tensors, path, said):
        if next(asked) == 9:
            Path(path).write_bytes(b"x" * 1000)
            raise OSError(28, "No space left on device")
        real(tensors, path, said)

    monkeypatch.setattr(s, "save_file", full)
    refused(DataError, "cannot write: no space left on device; free some space", trained, tmp_path)
    assert not list(tmp_path.glob(".*.part"))
    trained(tmp_path)
    assert ended(tmp_path) == reference


# Folds and batches

names = st.text("ab", min_size=1, max_size=2)
some = st.lists(st.tuples(names, names), min_size=6, max_size=40)


def question(i, doc, target):
    return Question(str(i), doc, options=(Option("?"), Option(target)), right=(1,))


@given(some, st.integers(2, 4), st.integers(0, 3))
def test_f46_folds_share_neither_target_nor_document(pairs, k, seed):
    qs = [question(i, f"d{d}", t) for i, (d, t) in enumerate(pairs)]
    groups = tp._bound(qs)
    if len(groups) < k:
        refused(DataError, "share no target", tp._folds_of, qs, k, seed)
        return
    folds = tp._folds_of(qs, k, seed)
    assert sorted(q.id for f in folds for q in f) == sorted(q.id for q in qs) and all(folds)
    for f in (lambda q: q.doc_key, lambda q: q.options[1].name):
        sets = [{f(q) for q in x} for x in folds]
        assert sum(map(len, sets)) == len(set.union(*sets))
    assert max(map(len, folds)) - min(map(len, folds)) <= max(map(len, groups))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 40),
    st.sampled_from(list(KINDS)),
    st.booleans(),
    st.sampled_from([0, 2]),
    st.sampled_from(["examples", "questions"]),
)
def test_batches_hold_everything_once_and_keep_questions_together(
    sizes, batch, kind, together, window, unit
):
    qs = [question(f"{d}-{i}", f"d{d}", "t") for d, n in enumerate(sizes) for i in range(n)]
    r = Recipe(batch=batch, together=together, window=window, unit=unit)
    got = tp._batches_of(qs, r, kind)
    for epoch in (0, 1):
        plan = got(epoch)
        assert plan == tp._batches_of(qs, r, kind)(epoch) and all(plan)
        assert sorted(
            (q.id, o.name, i in q.right) for b in plan for q in b for i, o in enumerate(q.options)
        ) == sorted((q.id, o.name, i in q.right) for q in qs for i, o in enumerate(q.options))
        if together:
            assert sum(len({q.doc_key for q in b}) for b in plan) == len(sizes)
        weight = lambda b: sum(len(q.options) for q in b) if kind in tp.SINGLE else len(b)
        if unit == "examples":
            assert all(weight(b) <= batch or len({q.doc_key for q in b}) == 1 for b in plan)


def test_windows_put_like_lengths_together():
    qs = [
        Question(
            f"{i}",
            f"d{i}",
            options=(Option("x" * random.Random(i).randrange(1, 500)), Option("y")),
            right=(0,),
        )
        for i in range(64)
    ]
    filled = lambda plan: sum(len(b) * max(len(q.options[0].name) for q in b) for b in plan)
    plain, sorted_ = (tp._batches_of(qs, Recipe(batch=8, window=w), "joint")(0) for w in (0, 8))
    assert filled(sorted_) < 0.7 * filled(plain) and [len(b) for b in sorted_] == [8] * 8


# Heads


@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=2, max_size=5), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_softmax_over_options_by_hand(scores, rng):
    right = [[i == 0 or rng.random() < 0.3 for i in range(len(x))] for x in scores]
    want = np.mean(
        [
            np.log(np.exp(x).sum()) - np.log(np.exp(np.array(x)[r]).sum())
            for x, r in zip(scores, right, strict=True)
        ]
    )
    flat = lambda xs: [v for x in xs for v in x]
    assert _choice_loss(
        torch.tensor(flat(scores), dtype=torch.float64).float(), list(map(len, scores)), flat(right)
    ).item() == pytest.approx(want, abs=1e-4)


@examples(max_examples=30)
@given(
    first=st.text("jar thing.", max_size=120),
    second=st.text("the red one ,", min_size=1, max_size=20),
)
def test_a_pair_is_what_the_tokenizer_makes_of_it(tiny, first, second):
    t = transformers.AutoTokenizer.from_pretrained(tiny["joint"]["model"])
    ids = lambda x: t(x, add_special_tokens=False)["input_ids"]
    for limit in (48, 200):
        assert _joined(_form_of(t), ids(first), ids(second), limit, 1) == dict(
            t(first, second, truncation="only_first", max_length=limit)
        )


def test_a_text_is_read_once(tiny):
    from refnb.models.pairs.encoders import Encoder

    qs = jars(4)
    p = pairs_of(qs)
    h, seen = new_model(the_trained("bi-encoder", **tiny["cosine"]).pair), []
    real = h.tensors
    h.tensors = lambda rows: seen.append(len(rows)) or real(rows)
    h.loss(p, [i in q.right for q in qs for i in range(2)])
    assert seen == [len(p.expressions), len(p.texts)] == [len({q.text for q in qs}), 8]
    assert isinstance(h, Encoder)
    h = new_model(the_trained("cross-encoder", **tiny["binary"]).pair)
    told, real = [], h.tokenizer

    class Counting:
        def __call__(self, texts, **how):
            told.extend(texts)
            return real(texts, **how)

        def __getattr__(self, name):
            return getattr(real, name)

    h.tokenizer = Counting()
    for _ in range(2):
        h.rows(p)
    assert sorted(told) == sorted({*p.expressions, *p.texts})


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_head_learns_goes_on_and_answers(tiny, kind, settings, tmp_path, monkeypatch):
    "Killed at its third state it ends with the same weights; its loss falls; what it answers is what its head says."
    qs, way, out = jars(3), tiny[kind] | dict(batch=64, epochs=12, lr=3e-3), []
    for name in ("whole", "cut"):
        s = settings(runs=str(tmp_path / name))
        if name == "cut":
            real, asked = tr.save_tensors, itertools.count()

            def dying(path, *rest, real=real, asked=asked):
                if next(asked) == 3:
                    raise Killed
                return real(path, *rest)

            with monkeypatch.context() as m:
                m.setattr(tr, "save_tensors", dying)
                with pytest.raises(Killed):
                    tp.train_system(KINDS[kind], qs, 0, s=s, every=0, **way)
        out.append(tp.train_system(KINDS[kind], qs, 0, s=s, every=0, **way))
    a, b = out
    assert (
        a.seal == b.seal and a.folder.name == b.folder.name and a.seal.losses[-1] < a.seal.losses[0]
    )
    assert (
        weights_id(
            _pair_weights(
                the_trained(KINDS[kind], **way).pair.changed(model=str(a.folder / "weights"))
            )
        )
        == a.seal.weights
    )
    r = run(jars(3, 1), KINDS[kind], s=settings(), checkpoint=str(a.folder))
    assert (
        r.sealed
        and r.info.data["weights"] == a.seal.weights
        and r.info.settings["trained"] == f"trained on {len(qs)} questions at hand"
    )
    head = trained_model(the_trained(KINDS[kind], **way).pair, a.folder / "weights")
    assert [x for a in r.answers().values() for x in a.scores] == pytest.approx(
        head(pairs_of(jars(3, 1), text_for(kind))), abs=1e-5
    )


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_batch_in_parts_is_the_same_batch(tiny, kind, tmp_path, monkeypatch):
    "A batch of a recipe stays as large as it says; only the computing is in parts."
    qs, got = jars(8), []
    for k in (1, 3):
        x = the_trained(KINDS[kind], **tiny[kind] | dict(batch=12, unit="examples", accumulate=k))
        head = new_model(x.pair, 0)
        for m in head.net.modules():  # without dice, which fall otherwise for each part
            if isinstance(m, torch.nn.Dropout):
                m.p = 0.0
            m.__dict__.update(
                {
                    d: 0.0
                    for d in ("dropout", "attention_dropout")
                    if isinstance(getattr(m, d, None), float)
                }
            )
        monkeypatch.setattr(tp, "new_model", lambda *_, head=head: head)
        got.append(
            [
                e.loss
                for e in tp._fit(tp.Plan(x.pair, x.training, qs, [], tmp_path / str(k))).entries
            ]
        )
    assert len(got[0]) == len(got[1]) > 4 and got[0] == pytest.approx(got[1], rel=1e-4)


# By hand, in transformers


def by_hand(settings: dict, kind: str, qs: list[Question], **more) -> list[float]:
    "Scores of pairs, one at a time, by what transformers does and nothing of refnb's heads."
    t = transformers.AutoTokenizer.from_pretrained(settings["model"])
    load = transformers.AutoModelForSeq2SeqLM if kind == "written" else transformers.AutoModel
    m, out = load.from_pretrained(settings["model"]).eval(), []
    vector = lambda text: torch.nn.functional.normalize(
        (
            m(**t(text, return_tensors="pt", truncation=True, max_length=64)).last_hidden_state[0]
        ).mean(0),
        dim=0,
    )
    for q in qs:
        for o in q.options:
            with torch.no_grad():
                if kind == "cosine":
                    out.append(float(vector(q.text) @ vector(f"{o.name}. {o.description}")))
                    continue
                if kind == "written":
                    row, start = (
                        t(
                            f"expression: {q.text} entity: {o.name} description: {o.description}",
                            return_tensors="pt",
                        ),
                        torch.tensor([[m.config.decoder_start_token_id]]),
                    )
                    p, told = 1.0, start
                    for piece in t("1")["input_ids"]:  # one after the other, as a model writes
                        p *= torch.softmax(
                            m(**row, decoder_input_ids=told).logits[0, -1].double(), -1
                        )[piece].item()
                        told = torch.cat([told, torch.tensor([[piece]])], 1)
                    out.append(p)
                    continue
                first = m(
                    **t(
                        f"{o.name}. {o.description}",
                        q.text,
                        return_tensors="pt",
                        truncation="only_first",
                        max_length=64,
                    )
                ).last_hidden_state[0, 0]
                logits = torch.nn.functional.linear(first, more["weight"], more["bias"])
                out.append(
                    logits[0].item()
                    if kind == "joint"
                    else torch.softmax(logits.double(), -1)[1].item()
                )
    return out


@pytest.mark.parametrize("kind", list(KINDS))
def test_scores_by_hand(tiny, kind):
    qs = (
        [
            *jars(5),
            Question(
                "long",
                "long",
                "the red one",
                None,
                (Option("jar", "red thing one " * 60), Option("jar", "A blue thing.")),
                (0,),
            ),
        ]
        if kind != "written"
        else jars(5)
    )
    head = new_model(the_trained(KINDS[kind], **tiny[kind]).pair, 3)
    layer = (
        {k: v.detach() * 30 for k, v in head.head[1].named_parameters()}
        if kind in ("binary", "joint")
        else {}
    )
    if layer:
        head.head[1].load_state_dict(layer)
    want = by_hand(tiny[kind], kind, qs, **layer)
    assert head(pairs_of(qs, text_for(kind))) == pytest.approx(want, rel=1e-4, abs=1e-7)
    assert len({round(x, 7) for x in want}) > len(want) // 2


def test_what_is_sure_is_not_equally_sure(tiny):
    head, qs = new_model(the_trained("cross-encoder", **tiny["binary"]).pair), jars(9)
    with torch.no_grad():
        head.head[1].weight.mul_(60)
        head.head[1].bias.copy_(torch.tensor([0.0, 10.0]))
    scores = head(pairs_of(qs))
    assert len(set(np.float32(scores))) < 5 < len(set(scores)) and scores.min() > 0.999999


def test_odd_questions_are_learnt_from(tiny, settings):
    odd = [
        Question("a", "a", "", None, (Option(""), Option("")), (0,)),
        Question(
            "b", "b", "jar " * 5000, None, (Option("red " * 5000), Option("x", "y " * 9000)), (1,)
        ),
        Question(
            "c", "c", "漢字 🙂\u202e", None, tuple(Option(f"é {i}") for i in range(12)), (3, 4)
        ),
        Question("d", "d", "not", None, (Option("x"), Option("x")), (0, 1)),
    ]
    for kind, name in KINDS.items():
        done = tp.train_system(name, odd, 0, s=settings(), **tiny[kind])
        assert len(done.seal.losses) == 2 and [
            len(a.scores)
            for a in run(odd[1:3], name, s=settings(), checkpoint=str(done.folder))
            .answers()
            .values()
        ] == [2, 12]


def test_long_texts_are_cut_without_a_word(tiny, monkeypatch):
    head, told = new_model(the_trained("cross-encoder", **tiny["binary"]).pair), []
    head.tokenizer.model_max_length = 64  # as real ones say
    for name in ("warning", "warning_once"):
        monkeypatch.setattr(
            transformers.tokenization_utils_base.logger, name, lambda text, *_: told.append(text)
        )
    head(pairs_of([jars(1)[0].changed(text="red " * 3000)]))
    assert not told


# Systems


def test_keys_that_nobody_knows_are_refused(tmp_path):
    for text, said in (
        ("pair: {title: X, model: y, licence: MIT}, training: {lrate: 1.0}", "lrate"),
        (
            "pair: {title: X, model: y, licence: MIT}, training: {lr: 0.0}",
            "field lr: 0.0 is no positive number",
        ),
        (
            "pair: {title: X, model: y, licence: MIT}, training: {}, grid: {rate: [1.0]}",
            "a recipe has no field 'rate'",
        ),
        (
            "pair: {title: X, model: y, licence: MIT, kind: entailment}, training: {}",
            "is not trained here",
        ),
    ):
        (tmp_path / "t.yaml").write_text(f"x: {{{text}}}")
        refused(FormatError, said, read_yaml, tmp_path / "t.yaml", dict[str, TrainedSystem])


def test_grids_are_the_papers():
    for n, size in (("bert", 96), ("bert-joint", 96), ("t5", 24)):
        x = trained_systems()[n]
        recipes = [the_trained(n, **c).training for c in tp._grid_of(x, "full", "")]
        assert len({repr(r) for r in recipes}) == size
        for part in ("books/oracle", "recipes/name", "songs/unshown"):
            [chosen] = tp._grid_of(x, "selected", f"altentities/{part}/train")
            assert any(
                all(getattr(r, k) == v for k, v in chosen.items()) for r in recipes
            )  # what was selected is in the grid
    refused(
        CallError,
        "Table 13 prints no recipe",
        tp._grid_of,
        trained_systems()["bert"],
        "selected",
        "altentities/songs/oracle/train",
    )


def test_a_recipe_is_chosen_by_what_is_held_out(tiny, settings):
    done = tp.train_system(
        "bi-encoder", jars(40), 2, "lr=1e-9,3e-3", s=settings(), **tiny["cosine"]
    )
    curves = [t.held_out for t in done.seal.tried]
    best = max(curves, key=max)
    assert [t.recipe for t in done.seal.tried] == [
        {"lr": 1e-9},
        {"lr": 3e-3},
    ] and done.seal.recipe.lr == done.seal.tried[curves.index(best)].recipe["lr"]
    assert (
        done.seal.held_out == max(best) and len(set(curves[0])) == 1
    )  # without a rate nothing moves
    assert len(done.seal.losses) == done.seal.epochs == 1 + best.index(max(best))
    assert not [
        p for p in done.folder.rglob("*.safetensors") if "weights" not in p.parts
    ]  # nothing large but the weights stays


def test_a_file_of_development_questions_judges_where_there_is_one(tiny, settings, monkeypatch):
    source = tp.Source(
        "made/train", ["made/train"], ["made/dev"], "trained on made/train, judged by made/dev"
    )
    monkeypatch.setattr(
        tp, "_learnt_from", lambda *_: (source, jars(40), jars(15, 2), {"questions": "x"})
    )
    done = tp.train_system("bi-encoder", "made/train", s=settings(), **tiny["cosine"])
    assert (
        done.seal.held_out_on == "made/dev"
        and len(done.seal.tried[0].held_out) == 2
        and done.seal.told == source.told
    )
    assert (
        done.seal.held_out == max(done.seal.tried[0].held_out)
        and not (done.folder / "all").exists()
    )


def test_a_recipe_that_fails_leaves_the_others(tiny, settings):
    told, s = [], settings()
    go = lambda grid: tp.train_system(
        "cross-encoder-joint", jars(12), 2, grid, s=s, say=told.append, **tiny["joint"]
    )
    done = go("lr=1e30,1e-3")
    assert [(t.recipe["lr"], len(t.held_out), bool(t.failed)) for t in done.seal.tried] == [
        (1e30, 0, True),
        (1e-3, 2, False),
    ] and done.seal.recipe.lr == 1e-3
    assert "is nan; try a smaller learning rate" in done.seal.tried[0].failed and any(
        x.startswith("recipe 1 of 2 failed: step ") for x in told
    )
    assert (
        read_seal(done.folder) == done.seal == go("lr=1e30,1e-3").seal
        and "failed" not in json.loads((done.folder / "seal.json").read_text())["tried"][1]
    )
    refused(DataError, "every recipe failed", go, "lr=1e30,1e31")
    refused(DataError, "try a smaller learning rate", go, "lr=1e30")


def test_it_learns(tiny, settings):
    done = tp.train_system(
        "bi-encoder", jars(150), 0, s=settings(), **tiny["cosine"] | dict(epochs=4)
    )
    new = jars(40, 3)
    said = run(new, "bi-encoder", s=settings(), checkpoint=str(done.folder)).answers()
    assert sum(credit(q, said[q.id]) for q in new) / len(new) > 0.9 and done.seal.held_out is None


def test_f34_whatever_changes_weights_changes_the_folder(tiny, settings):
    s, x, source = (
        settings(),
        the_trained("bi-encoder", **tiny["cosine"]),
        tp.Source("p", ["p"], [], ""),
    )
    where = lambda x=x, recipes=None, source=source, data={"q": "1"}, base="b", folds=2: tp._folder(
        "bi-encoder", x, recipes or [x.training], source, data, base, folds, s
    )
    other = dict(
        lr=1.0,
        batch=99,
        unit="examples",
        epochs=9,
        steps=9,
        warmup=0.5,
        weight_decay=0.5,
        clip=9.0,
        accumulate=9,
        bf16=True,
        temperature=9.0,
        patience=9,
        together=False,
        window=9,
        seed=9,
    )
    assert set(other) == set(Recipe.__struct_fields__)
    changed = [where(recipes=[x.training.changed(**{k: v})]) for k, v in other.items()]
    changed += [
        where(x.changed(pair=x.pair.changed(**{k: v})))
        for k, v in dict(
            tokens=9,
            pooling="cls",
            normalise=False,
            prefix="a",
            text_prefix="b",
            kind="joint",
            version=2,
            dtype="float16",
        ).items()
    ]
    changed += [
        where(source=source._replace(tasks=["q"])),
        where(data={"q": "2"}),
        where(base="c"),
        where(folds=3),
    ]
    assert len({where(), *changed}) == len(changed) + 1
    assert where() == where(x.changed(pair=x.pair.changed(title="other", at_once=1)))


def test_f30_weights_that_were_changed_are_refused(tiny, settings, tmp_path):
    done = tp.train_system("bi-encoder", jars(6), 0, s=settings(), **tiny["cosine"])
    path = done.folder / "weights" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    refused(
        DataError,
        "the weights are not those of the completed training",
        run,
        jars(2, 1),
        "bi-encoder",
        s=settings(),
        checkpoint=str(done.folder),
    )
    assert (
        tp.train_system("bi-encoder", jars(6), 0, s=settings(), **tiny["cosine"]).seal == done.seal
    )  # made again
    assert run(jars(2, 1), "bi-encoder", s=settings(), checkpoint=str(done.folder)).sealed
    whole = (done.folder / "seal.json").read_bytes()
    for damage in (b"{", whole[:200], b"\xff", b""):
        (done.folder / "seal.json").write_bytes(damage)
        refused(FormatError, "it is damaged", read_seal, done.folder)
        refused(
            FormatError,
            "it is damaged",
            run,
            jars(2, 1),
            "bi-encoder",
            s=settings(),
            checkpoint=str(done.folder),
        )
        assert (
            tp.train_system("bi-encoder", jars(6), 0, s=settings(), **tiny["cosine"]).seal
            == done.seal
            == read_seal(done.folder)
        )  # made again
    for gone, said in (
        ("config.json", "has no config.json"),
        ("model.safetensors", "the weights are not those of the completed training"),
        ("tokenizer.json", "cannot be loaded"),
    ):
        (done.folder / "weights" / gone).unlink()
        refused(
            DataError,
            said,
            run,
            jars(2, 7),
            "bi-encoder",
            s=settings(),
            checkpoint=str(done.folder),
        )
        if gone == "tokenizer.json":
            shutil.rmtree(done.folder / "weights")
            refused(
                DataError,
                "weights: is neither a folder",
                run,
                jars(2, 7),
                "bi-encoder",
                s=settings(),
                checkpoint=str(done.folder),
            )
        assert (
            tp.train_system("bi-encoder", jars(6), 0, s=settings(), **tiny["cosine"]).seal
            == done.seal
        )


def test_f31_seals_of_other_versions_and_moved_folders(tiny, settings, tmp_path):
    s = settings()
    done = tp.train_system("bi-encoder", jars(6), 0, s=s, **tiny["cosine"])
    ask = lambda folder, n=1: run(jars(2, n), "bi-encoder", s=s, checkpoint=str(folder))
    shutil.move(done.folder, tmp_path / "elsewhere")
    assert ask(tmp_path / "elsewhere").sealed
    for wrong in ("elsewhere/weights", "elsewhere/seal.json", "nowhere"):
        refused(DataError, "holds no complete training", ask, tmp_path / wrong)
    path = tmp_path / "elsewhere" / "seal.json"
    whole = path.read_text()
    for change, said in (
        (
            {"schema": 2, "more": 1},
            "written in schema 2, this refnb reads 1; use the version that wrote it",
        ),
        (
            {"settings": {"poolin": "cls"}},
            "field settings: Object contains unknown field `poolin`; it was made by another version",
        ),
    ):
        path.write_text(json.dumps(json.loads(whole) | change))
        refused(FormatError, said, ask, tmp_path / "elsewhere", 2)


def test_f32_two_writers(tiny, settings, monkeypatch):
    at = []
    monkeypatch.setattr(
        tp,
        "_all_of_it",
        lambda w, *_: (
            at.append(w.folder)
            or refused(DataError, "another process trains this", tp._locked, w, *_)
        ),
    )
    tp.train_system("bi-encoder", jars(4), 0, s=settings(), **tiny["cosine"])
    assert len(at) == 1


def test_bad_calls_are_one_line(tiny, settings):
    go = lambda what=None, *args, **k: tp.train_system(
        "bi-encoder", what or jars(4), *args, s=settings(), **tiny["cosine"] | k
    )
    for kind, said, f in (
        (CallError, "1 folds; say 2 or more", lambda: go(None, 1)),
        (CallError, "a limit of -1 questions", lambda: go(None, 0, "", -1)),
        (DataError, "make no 9 folds", lambda: go(None, 9)),
        (CallError, "did you mean epochs?", lambda: go(epoch=1)),
        (CallError, "a recipe has no field 'lrate'", lambda: go(None, 2, "lrate=1")),
        (CallError, "nothing judges", lambda: go(None, 0, "lr=1,2")),
        (
            CallError,
            "--grid: lr appears twice; say lr=VALUE,VALUE",
            lambda: go(None, 2, "lr=1 lr=2"),
        ),
        (CallError, "--grid: lr has no values", lambda: go(None, 2, "lr")),
        (CallError, "--grid: lr has no values", lambda: go(None, 2, "lr=")),
        (CallError, "field warmup: nan is no number", lambda: go(warmup=float("nan"))),
        (CallError, "field clip: inf is no number", lambda: go(clip=float("inf"))),
        (CallError, "field seed: 10000000000 is more than 4294967295", lambda: go(seed=10**10)),
        (CallError, "the kind use is not trained here", lambda: go(kind="use")),
        (CallError, "a checkpoint cannot be trained", lambda: go(checkpoint="x")),
        (CallError, "tiny reads 512 tokens at most, not 600", lambda: go(None, 0, tokens=600)),
        (
            CallError,
            "altentities/books/name/test/sample30: is a test task",
            lambda: go("altentities/books/name/test/sample30"),
        ),
        (CallError, "has documents, not questions", lambda: go("sample/bookcoref")),
        (CallError, "is a test task", lambda: go("altentities/books/name/test")),
        (CallError, "unknown task", lambda: go("altentites/books/name/dev")),
        (
            DataError,
            "nobody cannot be loaded: its weights are not here",
            lambda: go(model="no/such", title="nobody"),
        ),
    ):
        refused(kind, said, f)
    refused(
        CallError, "did you mean bi-encoder?", tp.train_system, "biencoder", jars(2), s=settings()
    )
    refused(
        CallError,
        "holds the weights of bi-encoder",
        run,
        jars(2),
        "cross-encoder",
        s=settings(),
        checkpoint=str(go(None, 0).folder),
    )
    refused(
        DataError,
        "holds no complete training",
        run,
        jars(2),
        "cross-encoder",
        s=settings(),
        checkpoint="/nonexistent",
    )


def test_commands(tiny, tmp_path, monkeypatch, capsys):
    for k, v in dict(runs=tmp_path / "runs", reports=tmp_path / "reports", offline="true").items():
        monkeypatch.setenv(f"REFNB_{k.upper()}", str(v))
    ways = [
        x
        for k, v in tiny["cosine"].items()
        for x in ("-p", f"{k}={str(v).lower() if isinstance(v, bool) else v}")
    ]
    assert (
        tools.main(
            [
                "train",
                "bi-encoder",
                "sample/altentities",
                "--folds",
                "2",
                "--epochs",
                "1",
                *ways,
                "--json",
            ]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    seeds = []
    for how in (["--seed", "3"], ["-p", "seed=3"]):
        assert (
            tools.main(
                [
                    "train",
                    "bi-encoder",
                    "sample/altentities",
                    "--folds",
                    "0",
                    "--epochs",
                    "1",
                    "--limit",
                    "8",
                    *how,
                    *ways,
                    "--json",
                ]
            )
            == 0
        )
        seeds.append(json.loads(capsys.readouterr().out))
    assert seeds[0] == seeds[1] and seeds[0]["recipe"]["seed"] == 3
    assert (
        told["held_out_on"] == "2 folds that share no target"
        and told["questions"] == 200
        and 0 < told["held_out"] < 1
    )
    summary = (
        tmp_path
        / "reports/sample/trained"
        / "bi-encoder"
        / f"sample-altentities-{Path(told['folder']).name}.json"
    )
    texts = {o.description for q in sample_altentities() for o in q.options} | {
        q.text for q in sample_altentities()
    }
    assert summary.stat().st_size < 4000 and not any(t in summary.read_text() for t in texts)
    assert (
        json.loads(summary.read_text())["settings"]["model"] == Path(tiny["cosine"]["model"]).name
    )  # no folder of this machine
    write_jsonl(tmp_path / "q.jsonl", jars(3, 4))
    assert (
        tools.main(
            [
                "run",
                str(tmp_path / "q.jsonl"),
                "bi-encoder+negation",
                "-p",
                f"checkpoint={told['folder']}",
                "--json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["sealed"]
    for args, text in (
        (
            ["run", "sample/altentities", "bi-encoder", "-p", f"checkpoint={told['folder']}"],
            "bi-encoder was trained on its questions",
        ),
        (["train", "bi-encoder", "sample/altentities", "-p", "epoch=1"], "did you mean epochs?"),
        (["train", "bi-encoder", "sample/altentities", "-p", "lr=much"], "lr cannot be 'much'"),
        (["train", "minilm", "sample/altentities"], "'minilm' is not a trainable system"),
    ):
        assert (
            tools.main(args) in (1, 2)
            and text in (err := capsys.readouterr().err)
            and err.count("\n") == 1
        )
    assert tools.main(["list", "systems", "--json"]) == 0
    rows = {r["system"]: r for r in json.loads(capsys.readouterr().out)["systems"]}
    assert rows["bert"]["needs"].startswith("training, from google-bert/bert-large-uncased")


# Where the training file is not here


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("trained")
    return load_settings(
        "/",
        env={},
        upstream=str(upstream),
        offline=True,
        **{k: str(home / k) for k in ("cache", "runs", "reports")},
    )


def test_development_questions_stand_in_and_it_is_said(s, tiny):
    said, train = [], "altentities/books/name/train"
    done = tp.train_system(
        "bi-encoder", train, 2, "", 40, s, said.append, **tiny["cosine"] | dict(epochs=1)
    )
    assert (
        said[0]
        == f"trained on dev: altentities/books/name/dev, for {train} is not here, only the first 40 of each task; 2 folds that share no target judge it"
    )
    assert done.seal.trained_on == ["altentities/books/name/dev"] and done.seal.questions == 40
    r = run("altentities/books/name/test/sample30", "bi-encoder", s=s)  # found by itself
    assert (
        r.sealed
        and r.info.settings["trained"].startswith("trained on dev")
        and r.info.data["weights"] == done.seal.weights
    )
    for asked in ("books/name/dev", "books/name/dev/sample30", "books/oracle/dev"):
        refused(
            DataError,
            "bi-encoder was trained on its questions",
            run,
            f"altentities/{asked}",
            "bi-encoder",
            s=s,
            checkpoint=str(done.folder),
        )  # the same expressions in another setting
    assert "only the first 40" in r.info.settings["trained"]
    refused(
        DataError,
        "bi-encoder is not trained for it; refnb train bi-encoder altentities/books/infobox/train",
        run,
        "altentities/books/infobox/test",
        "bi-encoder",
        s=s,
    )


def test_mixed_domains(s):
    source = tp._source_of("altentities/mixed/unshown/train", s)
    assert (
        source.tasks == [f"altentities/{d}/unshown/dev" for d in ("books", "recipes", "songs")]
        and source.told.startswith("trained on dev: ")
        and "are not here" in source.told
    )


def test_targets_of_the_release_stay_apart(s):
    from refnb.benchmarks.altentities.questions import altentities
    from refnb.benchmarks.tasks import task_questions

    target = {q.key: q.target for q in altentities("recipes", "dev", s)}
    sets = [
        {target[q.doc_key] for q in f}
        for f in tp._folds_of(task_questions("altentities/recipes/name/dev", s), 5)
    ]
    assert sum(map(len, sets)) == len(set.union(*sets)) == len(set(target.values()))
