"Training: kills at every step and every write, the same weights in the end; folds, batches, losses, recipes chosen by what is held out; systems that were trained answer parts."

import hashlib, itertools, json, logging, os
from pathlib import Path
import numpy as np
import pytest
from hypothesis import given, strategies as st
from refnb.core.types import DataError
import refnb.models.training as tr
from refnb.core.types import Record

torch = pytest.importorskip("torch", reason="needs refnb[models]")
transformers = pytest.importorskip("transformers", reason="needs refnb[models]")
KILLS = int(os.environ.get("TEST_KILLS", 3))


class Recipe(Record):
    "What the loop reads of a recipe."

    lr: float = 1e-4
    epochs: int = 1
    steps: int = 0
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    accumulate: int = 1
    bf16: bool = False
    patience: int = 0
    seed: int = 0


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
