"Batches: one step a call, lost replies about them, lines in any order, refusals, budgets."

import json, shutil
from pathlib import Path
import pytest
from asking import SOON, all_right, ask, kept, questions, seal
from refnb.models.language.store import Store
from stub_server import BatchPlay, Play, error

pytestmark = pytest.mark.usefixtures("no_keys")


def step(stub, qs, s, **how):
    "One call."
    return ask(stub, qs, s, batches=True, **how)


def through(stub, qs, s, **how):
    "Call until nothing is under way."
    for _ in range(9):
        got = step(stub, qs, s, **how)
        if got.run is None or got.run.complete:
            return got
    raise AssertionError(got)


def sent(stub) -> list[int]:
    "How many requests each batch has."
    return [stub.files[b["input_file_id"]].count(b"\n") for b in stub.batches.values()]


def test_each_call_is_one_step_and_replies_cost_a_batchs_price(stub, settings):
    s, qs = settings(), questions(25)
    got = step(stub, qs, s)
    assert not got.run.complete and "1 batch under way" in got.bill.stopped
    direct = ask(stub, qs, s)
    assert "under way in a batch" in direct.error and "--batch" in direct.error
    done = through(stub, qs, s)
    assert all_right(done, 25) and sent(stub) == [25] and not stub.asked()
    usd = sum(0.5 * (a.usage.tokens_in + 2 * a.usage.tokens_out) for a in done.answers.values())
    assert seal(done.run)["usd"] == pytest.approx(usd / 1e6)
    shutil.rmtree(done.run.folder)
    assert step(stub, qs, s).answers == done.answers and sent(stub) == [25]


def test_lines_that_are_out_of_order_doubled_strange_missing_and_broken(stub, settings):
    s, qs = settings(), questions(20)

    def mixed(lines):
        lines = lines[::-1]
        other = json.loads(json.dumps(lines[4]))
        other["response"]["body"]["choices"][0]["message"]["content"] = "another"
        return [*lines[2:], lines[3], other, lines[5] | {"custom_id": "of nobody"}]

    stub.batch_play = BatchPlay(output=mixed, extra=b'{"custom_id": "torn\n\nnonsense\n')
    for _ in range(4):
        step(stub, qs, s)
    assert len(kept(s)) == 19  # a second reply to one question was paid, too
    stub.batch_play = BatchPlay()
    assert all_right(through(stub, qs, s), 20) and sent(stub) == [20, 2] and not stub.asked()


def test_only_what_was_never_carried_out_goes_into_the_next_batch(stub, settings):
    s, qs = settings(), questions(9)
    stub.batch_play = BatchPlay(
        states=("expired",),
        failed={" q0 .": {"message": "maximum context length"}, " q1 .": {"message": "oops"}},
        plays={
            " q2 .": Play(text="Ann", finish="length"),
            " q3 .": Play(refusal="No."),
            " q4 .": Play(text=""),
            " q5 .": Play(choices=[]),
        },
        left=(" q8 .",),
    )
    step(stub, qs, s)
    step(stub, qs, s)
    stub.batch_play = BatchPlay(states=("completed",))
    got = through(stub, qs, s)
    assert "3 of 9 failed" in got.error and "without --batch" in got.error
    assert got.answers.keys() == {f"q:{i}" for i in (2, 3, 4, 6, 7, 8)}
    done = through(stub, qs, s, tolerate=3)
    assert sent(stub) == [9, 1] and not stub.asked()
    reasons = {"failed": 3, "cut": 1, "refused": 1, "unparsable": 1}
    assert seal(done.run)["reasons"] == reasons


def test_a_batch_that_failed_as_a_whole_is_told_and_sent_anew(stub, settings):
    s, qs = settings(), questions(2)
    stub.batch_play = BatchPlay(states=("failed",), errors=({"message": "bad line", "line": 3},))
    step(stub, qs, s)
    said = step(stub, qs, s)
    assert "bad line (line 3)" in said.error and "rerun" in said.error and kept(s) == []
    stub.batch_play = BatchPlay()
    assert all_right(through(stub, qs, s), 2) and sent(stub) == [2, 2]


def test_a_file_without_replies_is_fetched_again_and_nothing_is_bought(stub, settings):
    s, qs = settings(), questions(3)
    stub.batch_play = BatchPlay(output=lambda lines: [])
    for _ in range(2):
        assert "rerun" in through(stub, qs, s).error
    assert sent(stub) == [3]


def test_a_paid_line_that_cannot_be_read_is_kept_and_not_bought_again(stub, settings):
    s, qs = settings(), questions(3)

    def odd(lines):
        lines[0]["response"]["body"] = "nonsense"
        lines[1]["response"]["status_code"] = "200?"
        return lines

    stub.batch_play = BatchPlay(output=odd)
    for _ in range(2):
        said = through(stub, qs, s).error
        assert "2 of 3 failed" in said and "1 broken" in said and "1 absent" in said
    assert len(kept(s)) == 3 and sent(stub) == [3] and not stub.asked()


def test_failures_that_a_version_without_kinds_has_stored_stay_failures(stub, settings):
    s, qs = settings(), questions(3)
    stub.batch_play = BatchPlay(plays={" q1 .": Play(choices=3)})
    assert "(1 broken)" in through(stub, qs, s).error
    older = settings(runs=f"{s.runs}-older")
    with Store(Path(older.runs) / "replies") as store:
        store.put_many(k._replace(reply=k.reply.changed(kind="")) for k in kept(s))
    shutil.copytree(Path(s.runs) / "batches", Path(older.runs) / "batches")
    said = through(stub, qs, older)
    assert "1 of 3 failed (1 unknown)" in said.error and len(said.answers) == 2
    assert sent(stub) == [3] and not stub.asked()


def test_a_batch_that_the_server_has_no_more_holds_no_other_up(stub, settings):
    s, first, second = settings(), questions(2), questions(2, "z")
    step(stub, first, s)
    step(stub, second, s)
    del stub.batches[next(iter(stub.batches))]
    assert "no more" in through(stub, second, s).error
    assert all_right(through(stub, second, s), 2)
    assert all_right(through(stub, first, s), 2) and len(stub.batches) == 2


def test_a_batch_under_way_counts_in_the_budget(stub, settings):
    s = settings()
    assert "budget" in step(stub, questions(9), s, budget=1e-9).error and not stub.seen[1:]
    for budget, name in ((0.003, "q"), (0.003, "z"), (0.006, "z")):
        got = step(stub, questions(9, name), s, budget=budget)
        assert bool(got.error) == ("could cost" in got.error) == ((budget, name) == (0.003, "z"))
    assert sent(stub) == [9, 9]


UNSAID = {
    "no reply": Play(cut=0, reset=True),
    "an error of a gateway": error(502, "?", **SOON)._replace(obeys=True),
    "half a reply": Play(cut=9),
}


@pytest.mark.parametrize("play", UNSAID.values(), ids=UNSAID)
def test_a_creation_without_a_reply_is_found_by_its_label_and_not_repeated(stub, settings, play):
    "Also if the server does not list it yet, or only on a later page."
    s, qs = settings(), questions(3)
    stub.play("POST /batches", play)
    assert step(stub, qs, s).error and len(stub.batches) == 1
    stub.lists = False
    assert "under way" in step(stub, qs, s).bill.stopped and len(stub.batches) == 1
    stub.lists = True
    for _ in range(150):
        stub._add_batch({"metadata": {"refnb": "another"}})
    assert all_right(through(stub, qs, s), 3) and len(stub.batches) == 151 and not stub.asked()


def test_a_creation_that_was_refused_is_tried_again(stub, settings):
    s, qs = settings(), questions(3)
    stub.play("POST /batches", error(400, "endpoint not supported"))
    said = step(stub, qs, s)
    assert "endpoint not supported" in said.error and "rerun" in said.error
    assert all_right(through(stub, qs, s), 3) and len(stub.batches) == 1


ODD = [
    b"<html>?</html>",
    b"[]",
    b"3",
    b'{"id": 3}',
    b'{"status": "completed"}',
    b"\xff",
    b"[" * 99999,
]


@pytest.mark.parametrize("body", ODD)
@pytest.mark.parametrize("path", ["POST /files", "POST /batches", "GET /batches"])
def test_what_is_no_batch_of_a_server_is_one_line(stub, settings, path, body):
    s, qs = settings(), questions(3)
    if path == "GET /batches":
        assert "under way" in step(stub, qs, s).bill.stopped
        [batch] = stub.batches
        path = f"{path}/{batch}"
    stub.play(path, Play(body=body, obeys=True))
    assert "cannot be asked for batches" in step(stub, qs, s).error
    assert all_right(through(stub, qs, s), 3) and len(stub.batches) == 1


def test_a_mistake_of_our_own_is_not_laid_to_the_server(stub, settings, monkeypatch):
    monkeypatch.setattr("refnb.models.language.batches.request", lambda ask: ask + 1)
    with pytest.raises(TypeError):
        step(stub, questions(3), settings())


def test_what_a_server_says_against_batches_is_told(stub, settings):
    s, qs = settings(), questions(3)
    stub.always = lambda seen: error(404, "no such path")
    assert "without --batch" in step(stub, qs, s).error
    stub.always = lambda seen: error(401, "wrong")
    assert "does not accept the key" in step(stub, qs, s).error
    [job] = Path(s.runs).rglob("job.json")
    job.write_text("{")
    assert "job.json" in step(stub, qs, s).error
