"Batches of three vendors: one step a call, lost replies about them, lines in any order, refusals, budgets."

import json, shutil
from pathlib import Path
import pytest
from asking import SECRET, SOON, all_right, ask, kept, questions, seal
from refnb.models.language import batches
from refnb.models.language.batches import keys_in, usd_under_way, vendor_batches
from refnb.models.language.store import Store
from stub_server import BatchPlay, Play, error

pytestmark = pytest.mark.usefixtures("no_keys")
CREATIONS = {  # dialect -> request that creates a batch
    "openai-chat": "POST /batches",
    "anthropic-messages": "POST /messages/batches",
    "gemini": ":batchGenerateContent",
}
PLACES = {"anthropic-messages": "GET /messages/batches"}  # request for batches; else GET /batches


@pytest.fixture(params=CREATIONS)
def vendor(request, stub):
    "A dialect whose vendor takes batches; the stub is asked in it."
    stub.dialect = request.param
    return request.param


def single(stub, qs, s, **how):
    "Ask one by one."
    return ask(stub, qs, s, dialect=getattr(stub, "dialect", "openai-chat"), **how)


def step(stub, qs, s, **how):
    "One call."
    return single(stub, qs, s, batches=True, **how)


def through(stub, qs, s, **how):
    "Call until nothing is under way."
    for _ in range(9):
        got = step(stub, qs, s, **how)
        if got.run is None or got.run.complete:
            return got
    raise AssertionError(got)


def sent(stub) -> list[int]:
    "How many requests each batch has."
    return [stub.size(i) for i in stub.batches]


def folder(s) -> Path:
    "Where the batches of the one model are."
    [place] = Path(s.runs).glob("batches/*")
    return place


def test_each_call_is_one_step_and_replies_cost_a_batchs_price(stub, settings, vendor):
    s, qs = settings(), questions(25)
    got = step(stub, qs, s)
    assert not got.run.complete and "1 batch under way" in got.bill.stopped
    direct = single(stub, qs, s)
    assert "under way in a batch" in direct.error and "--batch" in direct.error
    done = through(stub, qs, s)
    assert all_right(done, 25) and sent(stub) == [25] and not stub.asked()
    usd = sum(0.5 * (a.usage.tokens_in + 2 * a.usage.tokens_out) for a in done.answers.values())
    assert seal(done.run)["usd"] == pytest.approx(usd / 1e6)
    shutil.rmtree(done.run.folder)
    assert step(stub, qs, s).answers == done.answers and sent(stub) == [25]


def test_lines_that_are_out_of_order_doubled_strange_missing_and_broken(stub, settings, vendor):
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


def test_only_what_was_never_carried_out_goes_into_the_next_batch(stub, settings, vendor):
    "What failed in a batch is told, and asked one by one when you say so."
    s, qs = settings(), questions(6)
    stub.batch_play = BatchPlay(
        states=("expired",),
        failed={" q0 .": {"message": "maximum context length"}, " q1 .": {"message": "oops"}},
        left=(" q5 .", " q4 ."),
    )
    step(stub, qs, s)
    step(stub, qs, s)
    stub.batch_play = BatchPlay(states=("completed",))
    got = through(stub, qs, s)
    assert "2 of 6 failed" in got.error and "without --batch" in got.error
    assert got.answers.keys() == {f"q:{i}" for i in (2, 3, 4, 5)} and not stub.asked()
    assert all_right(single(stub, qs, s), 6)
    assert sent(stub) == [6, 2] and len(stub.asked()) == 2


def test_answers_without_a_choice_are_counted_by_kind(stub, settings):
    s, qs = settings(), questions(6)
    plays = {
        " q0 .": Play(text="Ann", finish="length"),
        " q1 .": Play(refusal="No."),
        " q2 .": Play(text=""),
        " q3 .": Play(choices=[]),
    }
    stub.batch_play = BatchPlay(plays=plays)
    done = through(stub, qs, s, tolerate=1)
    assert sent(stub) == [6] and not stub.asked()
    assert seal(done.run)["reasons"] == {"failed": 1, "cut": 1, "refused": 1, "unparsable": 1}


def test_a_batch_that_failed_as_a_whole_is_told_and_sent_anew(stub, settings):
    for dialect, words in {"openai-chat": "bad line (line 3)", "gemini": "bad line"}.items():
        s, qs, stub.dialect = settings(runs=f"{settings().runs}-{dialect}"), questions(2), dialect
        failed = BatchPlay(states=("failed",), errors=({"message": "bad line", "line": 3},))
        stub.batch_play = failed
        stub.batches.clear()
        step(stub, qs, s)
        said = step(stub, qs, s)
        assert words in said.error and "rerun" in said.error and kept(s) == []
        stub.batch_play = BatchPlay()
        assert all_right(through(stub, qs, s), 2) and sent(stub) == [2, 2]


def test_a_batch_without_replies_is_fetched_again_and_nothing_is_bought(stub, settings, vendor):
    s, qs = settings(), questions(3)
    stub.batch_play = BatchPlay(output=lambda lines: [])
    for _ in range(2):
        assert "rerun" in through(stub, qs, s).error
    assert sent(stub) == [3]


def test_a_batch_is_no_larger_than_a_vendor_takes(stub, settings, vendor, monkeypatch):
    monkeypatch.setattr(batches, "MOST_BYTES", 2000)
    s, qs = settings(), questions(9)
    assert all_right(through(stub, qs, s), 9)
    assert sum(sent(stub)) == 9 and len(stub.batches) > 1


def test_a_key_that_a_vendor_quotes_is_in_no_file(stub, settings, vendor):
    s, qs = settings(), questions(3)
    stub.batch_play = BatchPlay(
        plays={" q1 .": Play(text=SECRET)}, failed={" q2 .": {"message": f"no {SECRET}"}}
    )
    stub.play(CREATIONS[vendor], error(403, f"{SECRET} may not"))
    said = [step(stub, qs, s).error, through(stub, qs, s).error]
    files = [p.read_bytes() for p in Path(s.runs).rglob("*") if p.is_file()]
    said += [x.decode("latin-1") for x in files] + [str(k) for k in kept(s)]
    assert len(kept(s)) == 3 and "[key]" in "".join(said) and SECRET not in "".join(said)


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


def test_a_batch_that_the_server_has_no_more_holds_no_other_up(stub, settings, vendor):
    s, first, second = settings(), questions(2), questions(2, "z")
    step(stub, first, s)
    step(stub, second, s)
    del stub.batches[next(iter(stub.batches))]
    assert "no more" in through(stub, second, s).error
    assert all_right(through(stub, second, s), 2)
    assert all_right(through(stub, first, s), 2) and len(stub.batches) == 2


def test_a_batch_under_way_counts_in_the_budget(stub, settings, vendor):
    s = settings()
    assert "budget" in step(stub, questions(9), s, budget=1e-9).error and not stub.seen[1:]
    some, all_ = questions(9), [*questions(9), *questions(9, "z")]
    for budget, asked, fits in ((0.003, some, True), (0.003, all_, False), (0.006, all_, True)):
        got = step(stub, asked, s, budget=budget)
        assert bool(got.error) == ("could cost" in got.error) != fits
    assert sent(stub) == [9, 9]


UNSAID = {
    "no reply": Play(cut=0, reset=True),
    "an error of a gateway": error(502, "?", **SOON)._replace(obeys=True),
    "half a reply": Play(cut=9),
}


@pytest.mark.parametrize("play", UNSAID.values(), ids=UNSAID)
def test_a_creation_without_a_reply_is_found_by_its_label_and_not_repeated(
    stub, settings, vendor, play
):
    "Also if the server does not list it yet, or only on a later page, among others of its size."
    s, qs = settings(), questions(3)
    stub.play(CREATIONS[vendor], play)
    assert step(stub, qs, s).error and len(stub.batches) == 1
    stub.lists = False
    assert "under way" in step(stub, qs, s).bill.stopped and len(stub.batches) == 1
    stub.lists = True
    for n in range(150):
        body = {"messages": [{"content": "Bea 0 ."}]}
        stub._add_lines([(f"other-{n}-{i}", body) for i in range(1 + n % 3)], "another")
    assert all_right(through(stub, qs, s), 3) and len(stub.batches) == 151 and not stub.asked()


def test_a_batch_of_anthropic_is_sent_again_only_if_no_other_can_be_it(stub, settings, monkeypatch):
    monkeypatch.setattr(batches, "SETTLE", 0.0)
    s, qs, stub.dialect = settings(), questions(3), "anthropic-messages"
    stub.play(CREATIONS[stub.dialect], error(502))
    assert step(stub, qs, s).error and not stub.batches
    body = {"messages": [{"content": "Bea 0 ."}]}
    others = [stub._add_lines([(f"other-{i}", body) for i in range(3)]) for _ in range(2)]
    for name, at in zip(others, ("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"), strict=True):
        stub.batches[name]["at"] = at
    stub.batches[others[0]]["steps"] = iter(())  # never ends
    got = step(stub, qs, s)
    assert f"perhaps {others[1]}" in got.bill.stopped and len(stub.batches) == 2
    assert all_right(through(stub, qs, s), 3) and sent(stub) == [3, 3, 3]


def test_what_batches_under_way_may_cost(stub, settings, vendor):
    s = settings()
    step(stub, questions(3), s)
    [job] = vendor_batches(folder(s))
    keys = set(keys_in(folder(s) / job.name / "input.jsonl"))
    assert usd_under_way(folder(s), keys) == usd_under_way(folder(s), {min(keys)}) == job.usd > 0
    assert usd_under_way(folder(s), {"of another"}) == 0 == usd_under_way(folder(s).parent, keys)
    through(stub, questions(3), s)
    assert usd_under_way(folder(s), keys) == 0


def test_a_job_of_an_earlier_version_goes_on(stub, settings):
    s, qs = settings(), questions(3)
    step(stub, qs, s)
    [path] = folder(s).rglob("job.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"output": "", "errors": ""}))
    assert all_right(through(stub, qs, s), 3) and sent(stub) == [3]


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
@pytest.mark.parametrize("what", ["POST /files", "creation", "list", "batch"])
def test_what_is_no_batch_of_a_server_is_one_line(stub, settings, vendor, what, body):
    s, qs, path = settings(), questions(3), CREATIONS[vendor]
    if what == "POST /files" and vendor == "openai-chat":
        path = what
    elif what == "list":
        stub.play(path, UNSAID["half a reply"])
        assert step(stub, qs, s).error
        path = PLACES.get(vendor, "GET /batches")
    elif what == "batch":
        assert "under way" in step(stub, qs, s).bill.stopped
        [name] = stub.batches
        path = f"{PLACES.get(vendor, 'GET /batches')}/{name}"
    stub.play(path, Play(body=body, obeys=True))
    assert "cannot be asked for batches" in step(stub, qs, s).error
    assert all_right(through(stub, qs, s), 3) and len(stub.batches) == 1


def test_a_mistake_of_our_own_is_not_laid_to_the_server(stub, settings, monkeypatch):
    monkeypatch.setattr("refnb.models.language.batches.request", lambda ask: ask + 1)
    with pytest.raises(TypeError):
        step(stub, questions(3), settings())


def test_what_a_server_says_against_batches_is_told(stub, settings, vendor):
    s, qs = settings(), questions(3)
    stub.always = lambda seen: error(404, "no such path")
    assert "without --batch" in step(stub, qs, s).error
    stub.always = lambda seen: error(401, "wrong")
    assert "does not accept the key" in step(stub, qs, s).error
    [job] = Path(s.runs).rglob("job.json")
    job.write_text("{")
    assert "job.json" in step(stub, qs, s).error
