"Language models as coreference systems: a copy of each passage with marks, read back whatever a model does to the text."

import random, re
import pytest
from hypothesis import given, settings as hyp, strategies as st
from asking import KEY, PRICE
from refnb.benchmarks.tasks import find_task
from refnb.core.corpora import load
from refnb.core.documents import Document, tidy
from refnb.core.types import CallError, DataError, RefnbError, Span
from refnb.metrics.coref_scores import score_coref
from refnb.models.language.models import Reply
from refnb.models.language.clusters import clusters_of, passages, place_marks, read_marks
from refnb.models.language.prompts import the_form
from refnb.models.running import planned, predicted_documents, run
from stub_server import Play

FORM = the_form("clusters/entities")
STORIES = {d.doc_key: d for d in load("sample")}
TASK = "sample/bookcoref"


def marked(tokens, start: int, clusters, label) -> str:
    "A perfect copy of a passage, with the marks of the mentions inside it."
    opens, closes = {}, {}
    for i, c in enumerate(clusters):
        for s in c:
            if start <= s.start and s.end < start + len(tokens):
                opens.setdefault(s.start, []).append(s)
                closes.setdefault(s.end, []).append((s.start, i))
    return " ".join(
        "[" * len(opens.get(start + k, []))
        + t
        + "".join(f"]({label(i)})" for _, i in sorted(closes.get(start + k, []), reverse=True))
        for k, t in enumerate(tokens)
    )


def oracle(seen) -> Play:
    "What a model that knows the sample would write."
    text = re.search(r"Passage:\n(.*?)\n\nCopy", seen.prompt, re.S)[1]
    for d in STORIES.values():
        for p in passages(d, FORM):
            if " ".join(p.tokens) != text:
                continue
            names = d.names or [f"Entity {i}" for i in range(len(d.clusters))]
            return Play(
                text="<think>[x](y)</think>"
                + marked(p.tokens, p.start, d.clusters, names.__getitem__)
            )
    return Play(text="?")


def at(stub, **changed):
    return dict(base_url=stub.url, key=KEY, price=PRICE, title="stub") | changed


# A run


@pytest.mark.usefixtures("no_keys")
def test_a_model_that_knows_all_scores_all(stub, settings):
    stub.always, s = oracle, settings()
    task = find_task(TASK, s)
    r = run(TASK, "gpt-4o-mini", s=s, form="clusters/entities", **at(stub))
    asked = sum(len(passages(d, FORM)) for d in task.documents)
    assert len(stub.seen) == asked and not any(a.unread for a in r.answers().values())
    got = predicted_documents(r, task.documents)
    gold = [
        STORIES[d.doc_key].changed(
            clusters=tidy(
                [
                    c
                    for n, c in zip(STORIES[d.doc_key].names, STORIES[d.doc_key].clusters)
                    if n in d.names
                ]
            ),
            names=(),
            labels={},
        )
        for d in got
    ]
    assert score_coref(gold, [d.changed(names=()) for d in got]).pooled()["conll"].f1 == 1
    plan = planned(TASK, "gpt-4o-mini", s=s, **at(stub))
    assert (
        plan.items == asked
        and 0 < plan.usd_likely < plan.usd
        and plan.form == "clusters/characters"
    )
    run(TASK, "gpt-4o-mini", s=s, form="clusters/entities", **at(stub))
    assert len(stub.seen) == asked  # complete: nothing is asked again


@pytest.mark.usefixtures("no_keys")
def test_a_failed_passage_leaves_its_document_open_and_the_rest_is_not_paid_again(stub, settings):
    s, broken = settings(), " ".join(find_task(TASK, settings()).documents[0].tokens[:8])
    stub.always = lambda seen: (
        Play(status=400, body=b'{"error": {"message": "no"}}')
        if f"Passage:\n{broken}" in seen.prompt
        else oracle(seen)
    )
    with pytest.raises(DataError, match="1 of"):
        run(TASK, "gpt-4o-mini", s=s, **at(stub))
    before = len(stub.seen)
    stub.always = oracle
    r = run(TASK, "gpt-4o-mini", s=s, **at(stub))
    assert len(stub.seen) == before + 1 and r.whole


@pytest.mark.usefixtures("no_keys")
def test_what_fits_questions_only_is_refused(stub, settings):
    for what in ({"form": "choice/names"}, {"order": "reversed"}, {"batches": True}):
        with pytest.raises(RefnbError):
            run(TASK, "gpt-4o-mini", s=settings(), **at(stub, **what))
    with pytest.raises(CallError, match="for documents"):
        run("sample/ferryman", "gpt-4o-mini", s=settings(), **at(stub, form="clusters/entities"))
    assert not stub.seen


# Replies

TOKENS = (
    "“ Anna did n't wait , ” said her brother Tom [ sic ] . She left him at the harbour .".split()
)
GOLD = [[Span(1, 1), Span(8, 8), Span(15, 15)], [Span(8, 10), Span(17, 17)], [Span(19, 20)]]
GOOD = marked(TOKENS, 0, GOLD, lambda i: ["Anna", "Tom", "the harbour"][i])


def spans(reply: str, tokens=TOKENS) -> set:
    return set(place_marks(tokens, reply).spans)


WANTED = {(s, name) for c, name in zip(GOLD, ["Anna", "Tom", "the harbour"]) for s in c}


def test_a_perfect_copy():
    assert spans(GOOD) == WANTED and place_marks(TOKENS, GOOD).copied == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.replace("“", '"').replace("”", '"'),
        lambda x: x.replace("did n't", "didn’t").replace(" ,", ",").replace(" .", "."),
        str.upper,
        lambda x: "Here is the passage:\n\n```\n" + x + "\n```\nI hope this helps!",
        lambda x: x.replace("said", "says"),
        lambda x: x.replace("wait , ", ""),
        lambda x: x.replace(" ", "\n"),
        lambda x: x.replace("](", "](#"),
        lambda x: x + " " + x.replace("[", "").replace("]", ""),
    ],
    ids=[
        "quotes",
        "blanks",
        "capitals",
        "talk",
        "a word",
        "words lost",
        "lines",
        "hashes",
        "twice",
    ],
)
def test_what_models_do_to_a_text(change):
    assert {(s, name.lower()) for s, name in spans(change(GOOD))} == {
        (s, name.lower()) for s, name in WANTED
    }


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot help with that.",
        "[[[[",
        "](x)](y)",
        "[](Anna)",
        "[ ](Anna)",
        "[nobody](Anna)",
        "[Anna](",
        "[Anna]()",
        "](" * 1000,
    ],
    ids=range(10),
)
def test_nothing_is_invented(reply):
    assert not spans(reply)


def test_a_long_reply_is_read_up_to_a_bound():
    d = Document("d", (tuple(TOKENS),))
    assert clusters_of(d, "clusters/entities", [Reply("[Anna](A) " * 200_000)]).unread == (
        "no copy of the passage",
    )


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(GOOD, "length"), "cut: raise decoding.max_tokens"),
        (Reply("", "refusal"), "refused"),
        (Reply("No."), "no copy of the passage"),
        (Reply(GOOD), ""),
    ],
)
def test_why_a_passage_is_unread(reply, why):
    a = clusters_of(Document("d", (tuple(TOKENS),)), "clusters/entities", [reply])
    assert a.unread == ((why,) if why else ()) and (a.clusters != ()) == (reply.text == GOOD)


def test_labels_join_passages_only_if_they_are_names():
    sentence = ("Anna", "saw", "the", "man", ".")
    d = Document("d", (sentence,) * 120)
    cut = passages(d, FORM)
    replies = [
        Reply(" ".join(["[Anna](Anna) saw [the man](the man) ."] * (len(p.tokens) // 5)))
        for p in cut
    ]
    sizes = sorted(map(len, clusters_of(d, "clusters/entities", replies).clusters))
    assert len(cut) > 1 and sizes == sorted([120, *(len(p.tokens) // 5 for p in cut)])
    listed = clusters_of(d.changed(clusters=((),), names=("anna",)), "clusters/characters", replies)
    assert list(map(len, listed.clusters)) == [120] and listed.names == ("anna",)


def test_a_mention_has_one_entity():
    d = Document("d", (tuple(TOKENS),))
    a = clusters_of(
        d, "clusters/entities", [Reply(GOOD.replace("[Anna](Anna)", "[[Anna](Anna)](Bea)"))]
    )
    assert len([1 for c in a.clusters for s in c if s == Span(1, 1)]) == 1


@given(st.integers(0, 10**6))
@hyp(max_examples=60, deadline=None)
def test_a_changed_copy_keeps_what_it_can(seed):
    "Dropping and adding words loses marks, and moves none."
    rng = random.Random(seed)
    words = GOOD.split(" ")
    for _ in range(rng.randint(0, 6)):
        k = rng.randrange(len(words))
        if "[" in words[k] or "]" in words[k]:
            continue
        if rng.random() < 0.5:
            del words[k]
        else:
            words.insert(k, rng.choice(["well", "zzz", "!"]))
    assert {s for s, _ in spans(" ".join(words))} <= {s for s, _ in WANTED}


@given(st.text(alphabet="[]()ab A\n", max_size=60))
@hyp(max_examples=200, deadline=None)
def test_any_reply_can_be_read(reply):
    text, marks = read_marks(reply)
    assert all(0 <= m.start <= m.end <= len(text) for m in marks)
    for s, _ in place_marks(["a", "b", "A"], reply).spans:
        assert 0 <= s.start <= s.end < 3


def test_a_local_model_is_asked_the_same_and_its_replies_are_kept(tmp_path, settings, monkeypatch):
    pytest.importorskip("torch")
    from refnb.models.language import clusters, systems
    from tiny import tiny_checkpoint

    monkeypatch.setattr(
        clusters, "the_form", lambda name: FORM.changed(words=6)
    )  # 24 tokens for a passage
    home, s = tiny_checkpoint(tmp_path / "tiny", [GOOD]), settings()
    docs = [Document(x, (tuple(TOKENS),)) for x in "ab"]
    name = f"local/{home}"
    r = run(docs, name, s=s, decoding={"max_tokens": 9})
    assert set(r.answers()) == {"a", "b"} and r.whole
    monkeypatch.setattr(
        systems, "replies_to", lambda _, asks: pytest.fail("asked") if [*asks] else []
    )
    again = run(
        [d.changed(doc_key=d.doc_key * 2) for d in docs], name, s=s, decoding={"max_tokens": 9}
    )
    assert [a.clusters for a in again.answers().values()] == [
        a.clusters for a in r.answers().values()
    ]
