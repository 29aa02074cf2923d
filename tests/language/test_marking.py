"Language models that mark clusters in a copy, read back whatever they do to the text."

import random, re
import pytest
from asking import at
from hypothesis import HealthCheck, given, settings as hyp, strategies as st
from refnb import Document, Span, load, run, score_coref
from refnb.benchmarks.tasks import find_task
from refnb.core.documents import tidy
from refnb.core.types import RefnbError
from refnb.benchmarks.run_summaries import predicted_documents
from refnb.models.running import planned
from stub_server import Play, error

pytestmark = pytest.mark.usefixtures("no_keys")
TASK = "sample/bookcoref"
ENTITIES = "clusters/entities"


def passage_of(prompt: str) -> str:
    return re.search(r"Passage:\n(.*?)\n\nCopy", prompt, re.S)[1]


def marked(tokens, clusters, labels, start: int = 0) -> str:
    "A perfect copy of a passage that starts at a token, with the marks of the mentions inside it."
    opens, closes = {}, {}
    for c, label in zip(clusters, labels):
        for s in c:
            if start <= s.start and s.end < start + len(tokens):
                opens[s.start] = opens.get(s.start, 0) + 1
                closes.setdefault(s.end, []).append((s.start, label))
    return " ".join(
        "[" * opens.get(start + k, 0)
        + t
        + "".join(f"]({x})" for _, x in sorted(closes.get(start + k, []), reverse=True))
        for k, t in enumerate(tokens)
    )


# A run


STORIES = {d.doc_key: d for d in load("sample")}


def oracle(seen) -> Play:
    "What a model that knows the sample's stories would write."
    text = passage_of(seen.prompt)
    for d in STORIES.values():
        before, found, _ = " ".join(d.tokens).partition(text)
        if found:
            names = d.names or [f"Entity {i}" for i in range(len(d.clusters))]
            copy = marked(text.split(" "), d.clusters, names, before.count(" "))
            return Play(text=f"<think>[x](y)</think>{copy}")
    return Play(text="?")


def test_a_model_that_knows_all_scores_all_and_is_asked_once(stub, settings):
    stub.always, s = oracle, settings()
    docs = find_task(TASK, s).documents
    r = run(TASK, "gpt-4o-mini", s=s, form=ENTITIES, **at(stub))
    n = len(stub.seen)
    assert n > len(docs) and not any(a.unread for a in r.answers().values())
    got, gold = predicted_documents(r, docs), []
    for d in got:
        story = STORIES[d.doc_key]
        listed = [c for name, c in zip(story.names, story.clusters) if name in d.names]
        gold.append(story.changed(clusters=tidy(listed), names=(), labels={}))
    assert score_coref(gold, [d.changed(names=()) for d in got]).pooled()["conll"].f1 == 1
    plan = planned(TASK, "gpt-4o-mini", s=s, **at(stub))
    assert plan.items == n and 0 < plan.usd_likely < plan.usd
    run(TASK, "gpt-4o-mini", s=s, form=ENTITIES, **at(stub))
    assert len(stub.seen) == n


def test_a_failed_passage_leaves_its_document_open_and_the_rest_is_not_paid_again(stub, settings):
    s = settings()
    broken = " ".join(find_task(TASK, s).documents[0].tokens[:8])
    fails = lambda seen: passage_of(seen.prompt).startswith(broken)
    stub.always = lambda seen: error(400, "no") if fails(seen) else oracle(seen)
    with pytest.raises(RefnbError, match="1 of"):
        run(TASK, "gpt-4o-mini", s=s, **at(stub))
    before, stub.always = len(stub.seen), oracle
    assert run(TASK, "gpt-4o-mini", s=s, **at(stub)).complete and len(stub.seen) == before + 1


@pytest.mark.parametrize(
    "task, how",
    [
        (TASK, {"form": "choice/names"}),
        (TASK, {"order": "reversed"}),
        (TASK, {"batches": True}),
        (TASK, {"shots": 2}),
        ("sample/ferryman", {"form": ENTITIES}),
    ],
)
def test_what_fits_the_other_shape_only_is_refused(stub, settings, task, how):
    with pytest.raises(RefnbError):
        run(task, "gpt-4o-mini", s=settings(), **at(stub, **how))
    assert not stub.seen


# Replies

TEXT = "“ Anna did n't wait , ” said her brother Tom [ sic ] . She left him at the harbour ."
TOKENS = TEXT.split()
GOLD = [[Span(1, 1), Span(8, 8), Span(15, 15)], [Span(8, 10), Span(17, 17)], [Span(19, 20)]]
LABELS = ["Anna", "Tom", "the harbour"]
GOOD = marked(TOKENS, GOLD, LABELS)


def read(stub, s, replies: list[Play], names=()) -> list:
    "What is read of replies about the same text, each with a number at its end."
    docs = [
        Document(f"d{i}", (tuple(TOKENS), (f"n{i}",)), ((),) * len(names), names)
        for i in range(len(replies))
    ]
    stub.always = lambda seen: replies[int(re.search(r"n(\d+)$", passage_of(seen.prompt))[1])]
    form = "clusters/characters" if names else ENTITIES
    answers = run(docs, "gpt-4o-mini", s=s, form=form, **at(stub)).answers()
    return [answers[d.doc_key] for d in docs]


CHANGES = {
    "nothing": lambda x: x,
    "quotes": lambda x: x.replace("“", '"').replace("”", '"'),
    "blanks": lambda x: x.replace("did n't", "didn’t").replace(" ,", ",").replace(" .", "."),
    "capitals": str.upper,
    "talk": lambda x: "Here is the passage:\n\n```\n" + x + "\n```\nI hope this helps!",
    "a word": lambda x: x.replace("said", "says"),
    "words lost": lambda x: x.replace("wait , ", ""),
    "lines": lambda x: x.replace(" ", "\n"),
    "hashes": lambda x: x.replace("](", "](#"),
    "twice": lambda x: x + " " + x.replace("[", "").replace("]", ""),
    "a mark in a mark": lambda x: x.replace("[Anna](Anna)", "[[Anna](Anna)](Bea)"),
}


def test_a_copy_is_read_whatever_a_model_does_to_the_text(stub, settings):
    said = read(stub, settings(), [Play(text=change(GOOD)) for change in CHANGES.values()])
    for change, a in zip(CHANGES, said, strict=True):
        assert tidy(a.clusters) == tidy(GOLD) and not a.unread, change


NOTHING = [
    "I cannot help with that.",
    "[[[[",
    "](x)](y)",
    "[](Anna)",
    "[ ](Anna)",
    "[nobody](Anna)",
]
NOTHING += ["[Anna](", "[Anna]()", "](" * 1000, "[Anna](A) " * 100_000]


def test_nothing_is_invented_and_a_run_says_what_was_no_copy(stub, settings):
    for text, a in zip(NOTHING, read(stub, settings(), [Play(text=x) for x in NOTHING])):
        assert a.unread == ("no copy of the passage",), text
        assert not a.clusters or text.startswith("[Anna](A) ")


def test_why_a_passage_was_not_read_is_told(stub, settings):
    plays = [Play(text=GOOD, finish="length"), Play(refusal="No."), Play(text=GOOD)]
    cut, refused, good = read(stub, settings(), plays)
    assert [len(a.unread) for a in (cut, refused, good)] == [1, 1, 0]
    assert "cut" in cut.unread[0] and "max_tokens" in cut.unread[0]
    assert refused.unread == ("refused",) and not refused.clusters


@given(st.lists(st.integers(0, 10**6), min_size=30, max_size=30))
@hyp(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_dropping_and_adding_words_loses_marks_and_moves_none(stub, settings, seeds):
    copies = []
    for seed in seeds:
        rng, words = random.Random(seed), GOOD.split(" ")
        for _ in range(rng.randint(0, 6)):
            k = rng.randrange(len(words))
            if "[" in words[k] or "]" in words[k]:
                continue
            if rng.random() < 0.5:
                del words[k]
            else:
                words.insert(k, rng.choice(["well", "zzz", "!"]))
        copies.append(Play(text=" ".join(words)))
    s = settings(runs=f"{settings().runs}{hash(tuple(seeds))}")
    for a in read(stub, s, copies):
        for c in a.clusters:
            assert any(set(c) <= set(g) for g in GOLD)


BRACKETS = st.text(alphabet="[]()ab A\n", max_size=60)


@given(st.lists(BRACKETS, min_size=50, max_size=50))
@hyp(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_brackets_can_be_read(stub, settings, texts):
    s = settings(runs=f"{settings().runs}{hash(tuple(texts))}")
    for a in read(stub, s, [Play(text=f"{x} {GOOD}") for x in texts]):
        assert all(0 <= m.start <= m.end <= len(TOKENS) for c in a.clusters for m in c)


def test_labels_join_passages_only_if_they_are_names(stub, settings):
    long = Document("d", (("Anna", "saw", "the", "man", "."),) * 120)
    copy = lambda text: text.replace("Anna", "[Anna](Anna)").replace(
        "the man", "[the man](the man)"
    )
    stub.always = lambda seen: Play(text=copy(passage_of(seen.prompt)))
    [a] = run([long], "gpt-4o-mini", s=settings(), form=ENTITIES, **at(stub)).answers().values()
    parts = [passage_of(x.prompt).count("Anna") for x in stub.seen]
    assert len(parts) > 1 and sorted(map(len, a.clusters)) == sorted([120, *parts])
    listed = long.changed(clusters=((),), names=("anna",))
    how = at(stub, form="clusters/characters")
    [a] = run([listed], "gpt-4o-mini", s=settings(), **how).answers().values()
    assert list(map(len, a.clusters)) == [120] and a.names == ("anna",)
