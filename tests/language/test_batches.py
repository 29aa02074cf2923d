"Batches: lost replies about them, lines in any order, refusals, kills, budgets."

import itertools, json, random
import pytest
import tools
from asking import KEY, KILLS, SOON, model, one_line, questions
from refnb.core.types import CallError, DataError, FormatError
from refnb.models.language.batches import advance, jobs
from refnb.models.language.models import cost
from refnb.models.language.store import Store
from stub_server import BatchPlay, Play, Stub, error, reply_text
from tools import HANG

pytestmark = pytest.mark.usefixtures("no_keys")


def through(asks, m, store, folder, **how) -> dict[str, int]:
    "Call until nothing is under way; how the replies ended."
    for _ in range(9):
        found = advance(asks, m, store, folder, **how)
        if all(j.state == "done" for j in found):
            break
        asks = ()  # what a batch leaves is sent with the next one
    count: dict[str, int] = {}
    for j in found:
        for k, n in j.read.items():
            count[k] = count.get(k, 0) + n
    return count


def test_f19_a_batch(stub, store, tmp_path):
    m = model(stub)
    asks = questions(m, 25)
    got = through([*asks, *asks[:3]], m, store, tmp_path / "b", most=10)
    assert (got, len(stub.batches)) == ({"stop": 25}, 3)
    assert all(store.get(q.key).text == reply_text(q.prompt) for q in asks)
    kept = [k.reply for k in store.all()]
    assert all(r.batch and cost(m, r) < cost(m, r.changed(batch=False)) for r in kept)
    advance(asks, m, store, tmp_path / "b")
    assert len(stub.batches) == 3 and not stub.asked() and len(store.all()) == 25


def test_f19_out_of_order_doubled_strange_missing_and_broken(stub, store, tmp_path):
    m = model(stub)
    asks = questions(m, 20)

    def mixed(lines):
        lines = lines[::-1]
        other = json.loads(json.dumps(lines[4]))
        other["response"]["body"]["choices"][0]["message"]["content"] = "another"
        return [*lines[2:], lines[3], other, lines[5] | {"custom_id": "of nobody"}]

    stub.batch_play = BatchPlay(output=mixed, extra=b'{"custom_id": "torn\n\nnonsense\n')
    got = through(asks, m, store, tmp_path / "b")
    assert got == {"stop": 20}
    assert all(store.get(q.key).text == reply_text(q.prompt) for q in asks[:18])
    assert len(store.all()) == 19 and not store.get(asks[18].key)  # a second reply was paid, too
    stub.batch_play = BatchPlay()
    through(asks, m, store, tmp_path / "b")
    assert store.get(asks[18].key) and jobs(tmp_path / "b")[-1].asks == 2


def test_f19_ends_of_all_kinds(stub, store, tmp_path):
    m = model(stub)
    asks = questions(m, 9)
    key = [q.key for q in asks]
    stub.batch_play = BatchPlay(
        states=("expired",),
        failed={key[0]: {"message": "maximum context length"}, key[1]: {"message": "oops"}},
        plays={
            key[2]: Play(finish="length"),
            key[3]: Play(refusal="No."),
            key[4]: Play(text=""),
            key[5]: Play(choices=[]),
        },
        left=(key[8],),
    )
    got = through(asks, m, store, tmp_path / "b")
    assert got == {"stop": 3, "length": 1, "refusal": 1, "failed": 3}
    ends = [r.finish if (r := store.get(k)) else None for k in key]
    assert ends == [None, None, "length", "refusal", "stop", None, "stop", "stop", None]
    before = len(stub.batches)
    stub.batch_play = BatchPlay()
    through(asks, m, store, tmp_path / "b")  # only what was never carried out
    assert len(stub.batches) == before + 1 and jobs(tmp_path / "b")[-1].asks == 1


def test_f19_failed_as_a_whole(stub, store, tmp_path):
    m = model(stub)
    stub.batch_play = BatchPlay(states=("failed",), errors=({"message": "bad line", "line": 3},))
    asks = questions(m, 2)
    advance(asks, m, store, tmp_path / "b")
    with pytest.raises(DataError, match=r"bad line \(line 3\); a rerun sends"):
        advance((), m, store, tmp_path / "b")
    [first] = jobs(tmp_path / "b")
    assert (first.state, first.trouble) == ("done", "bad line (line 3)") and store.all() == []


def test_f62_a_file_without_replies_is_fetched_again_and_nothing_bought(stub, store, tmp_path):
    m, asks = model(stub), questions(model(stub), 3)
    stub.batch_play = BatchPlay(output=lambda lines: [])
    advance(asks, m, store, tmp_path / "b")
    for _ in range(2):
        with pytest.raises(DataError, match="has none of them; rerun"):
            through(asks, m, store, tmp_path / "b")
    assert len(stub.batches) == 1


def test_f62_a_paid_line_that_cannot_be_read_is_kept_and_not_bought_again(stub, store, tmp_path):
    m = model(stub)

    def odd(lines):
        lines[0]["response"]["body"] = "nonsense"
        lines[1]["response"]["status_code"] = "200?"
        return lines

    stub.batch_play = BatchPlay(output=odd)
    got = through(questions(m, 3), m, store, tmp_path / "b")
    assert (got, len(store.all())) == ({"stop": 1, "failed": 2}, 3)
    through(questions(m, 3), m, store, tmp_path / "b")
    assert len(stub.batches) == 1


def test_f19_a_batch_that_the_server_has_no_more_holds_no_other_up(stub, store, tmp_path):
    m = model(stub)
    advance(questions(m, 4), m, store, tmp_path / "b", most=2)
    del stub.batches[next(iter(stub.batches))]
    with pytest.raises(DataError, match="no more"):
        through((), m, store, tmp_path / "b")
    through((), m, store, tmp_path / "b")
    first, second = jobs(tmp_path / "b")
    assert "no more" in first.trouble and second.read == {"stop": 2}


def test_f20_a_batch_under_way_counts(stub, store, tmp_path):
    m = model(stub)
    [job] = advance(questions(m, 9), m, store, tmp_path / "b")
    with pytest.raises(CallError, match="could cost"):
        advance(questions(m, 9, "z"), m, store, tmp_path / "b", budget=1.5 * job.usd)


LOST = {
    "no reply": Play(cut=0, reset=True),
    "an error of a gateway": error(502, "?", **SOON),
    "half a reply": Play(cut=9),
}


@pytest.mark.parametrize("play", LOST.values(), ids=LOST)
def test_f19_a_creation_without_a_reply_creates_no_second(stub, store, tmp_path, play):
    m = model(stub)
    real, seen = stub._batch, []

    def created_but_unsaid(request):
        out = real(request)
        if (request.method, request.path) == ("POST", "/batches") and not seen:
            seen.append(1)
            return (play, json.dumps({"id": "?"}).encode()) if play.body is None else (play, b"")
        return out

    stub._batch = created_but_unsaid
    with pytest.raises(DataError):
        advance(questions(m, 3), m, store, tmp_path / "b")
    assert jobs(tmp_path / "b")[0].state == "sending"
    through(questions(m, 3), m, store, tmp_path / "b")
    assert len(stub.batches) == 1 and len(store.all()) == 3


def test_f19_a_creation_that_is_not_listed_yet_waits_for_the_next_call(stub, store, tmp_path):
    m = model(stub)
    stub.play("POST /batches", [Play(cut=0, reset=True)])
    with pytest.raises(DataError):
        advance(questions(m, 3), m, store, tmp_path / "b")
    listed, stub._list = stub._list, lambda query: {"object": "list", "data": []}
    assert advance((), m, store, tmp_path / "b")[0].state == "sending"
    stub._list = listed
    for _ in range(150):  # it is on a later page now
        stub._add_batch({"metadata": {"refnb": "another"}})
    through((), m, store, tmp_path / "b")
    assert len(stub.batches) == 151 and len(store.all()) == 3


def test_f19_a_creation_that_was_refused(stub, store, tmp_path):
    m = model(stub)
    stub.play("POST /batches", [error(400, "endpoint not supported")])
    with pytest.raises(DataError, match="nothing is lost") as e:
        advance(questions(m, 3), m, store, tmp_path / "b")
    assert one_line(e) and jobs(tmp_path / "b")[0].state == "written"
    through((), m, store, tmp_path / "b")
    assert len(stub.batches) == 1 and len(store.all()) == 3


def test_f19_a_server_without_batches_and_other_trouble(stub, store, tmp_path):
    m = model(stub)
    stub.always = lambda seen: error(404, "no such path")
    with pytest.raises(DataError, match="has no batches; it supports no batches"):
        advance(questions(m, 3), m, store, tmp_path / "b")
    stub.always = lambda seen: error(401, "wrong")
    with pytest.raises(DataError, match=f"does not accept the key in {KEY}"):
        advance((), m, store, tmp_path / "b")
    with pytest.raises(CallError, match="could cost"):
        advance(questions(m, 3, "z"), m, store, tmp_path / "c", budget=1e-9)
    assert jobs(tmp_path / "c") == []
    (tmp_path / "b/0001/job.json").write_text("{")
    with pytest.raises(FormatError, match="a job.json is damaged"):
        jobs(tmp_path / "b")


CALL = """
import sys
from refnb.models.language import batches
from refnb.models.language.models import ask_of, the_model
from refnb.models.language.store import Store
batches.SETTLE = 0.3
m = the_model("gpt-4o-mini", base_url=sys.argv[1], key="", decoding={"max_tokens": 50}, retries=0)
asks = [ask_of(m, f"q:{i}", f"Who left first, q{i}?") for i in range(20)]
with Store(sys.argv[2] + "/s") as store:
    found = batches.advance(asks, m, store, sys.argv[2] + "/b", most=10)
print(*[j.state for j in found])
"""


def test_f33_a_kill_at_any_instant_pays_no_batch_twice(tmp_path, spawn):
    rng = random.Random(5)
    with Stub(0.02) as stub:
        for turn in itertools.count():
            p = spawn(CALL, stub.url, tmp_path)
            if turn < KILLS:
                seen = len(stub.seen)
                tools.wait(
                    lambda n=seen, p=p: len(stub.seen) > n or p.poll() is not None, "a request"
                )
                tools.wait(lambda: rng.random() < 0.2, "an instant")
                p.kill()
            out, _ = p.communicate(timeout=HANG)
            if turn >= KILLS and out.split() == ["done", "done"]:
                break
            assert turn < 40, out
        assert len(stub.batches) == 2
        with Store(tmp_path / "s") as store:
            assert len({k.key for k in store.all()}) == 20 == len(store.all())
