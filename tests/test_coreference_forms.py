"""Every way to find mentions with every way to score links: what a system is asked for works in all of them."""

import itertools
import numpy as np
import pytest
from refnb.core.corpora import sample
from refnb.core.types import Span

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from refnb.models.coreference.recipes import CorefModel  # noqa: E402
from refnb.models.coreference.resolvers import (  # noqa: E402
    clusters_of_many,
    lesson_of,
    new_resolver,
    predicted,
    together,
)
from refnb.models.coreference.texts import Text, joined, text_of  # noqa: E402
from refnb.models.pairs.encoders import tiny_encoder  # noqa: E402

FORMS = list(itertools.product(("banded", "enumerated"), ("experts", "c2f")))
SMALL = dict(segment=128, context=16, hidden=16, widest=10, size=8, ffn=16, candidates=20)


@pytest.fixture(scope="module")
def stories():
    "Two stories of the sample, of thirty sentences each."
    out = []
    for d in sample()[:2]:
        words = sum(map(len, d.sentences[:30]))
        clusters = [[s for s in c if s.end < words] for c in d.clusters]
        out.append(
            d.changed(
                sentences=d.sentences[:30], clusters=[c for c in clusters if c], names=(), labels={}
            )
        )
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory, stories):
    return tiny_encoder(tmp_path_factory.mktemp("tiny"), [" ".join(d.tokens) for d in stories])


@pytest.fixture(params=FORMS, ids="+".join)
def net(request, folder):
    mentions, antecedents = request.param
    return new_resolver(
        CorefModel("x", encoder=str(folder), mentions=mentions, antecedents=antecedents, **SMALL)
    ).eval()


def of(clusters):
    return {tuple(s): i for i, c in enumerate(clusters) for s in c}


def test_found_mentions_stand_in_one_sentence_and_in_one_cluster(net, stories):
    t = text_of(stories[0])
    clusters = net.resolve(t)
    spans = [s for c in clusters for s in c]
    assert len(spans) == len(set(spans))
    assert all(t.sentence[s.start] == t.sentence[s.end] for s in spans)


def test_given_mentions_are_all_there_is(net, stories):
    gold = stories[0].mentions
    assert sorted(s for c in net.resolve(text_of(stories[0]), gold) for s in c) == sorted(set(gold))
    assert sorted(predicted(net, stories[0], gold).mentions) == sorted(set(gold))


def test_seeds_stay_together_and_apart(net, stories):
    d = stories[0]
    seeds = [c[:3] for c in d.clusters[:2]]
    for given in (None, d.mentions):
        found = of(net.resolve(text_of(d), given, seeds))
        assert [len({found[s] for s in c}) for c in seeds] == [1, 1]
        assert found[seeds[0][0]] != found[seeds[1][0]]


def test_known_clusters_are_completed(net, stories):
    d = stories[0]
    a, b = (c[:3] for c in d.clusters[:2])
    found = [set(c) for c in net.completed(text_of(d), [a, b, a[:1]])]
    assert set(a) <= found[0] and set(b) <= found[1] and not found[0] & found[1]
    assert not found[2], "a seed of two clusters is the first one's"


def test_a_mention_that_is_asked_for_is_there(net, stories):
    odd = Span(2, 4)
    assert odd in of(net.resolve(text_of(stories[0]), more=[odd]))


def test_texts_that_are_read_as_one_are_never_linked(net, stories):
    texts = [text_of(d) for d in stories]
    whole = joined(texts)
    for given in (
        None,
        [
            *stories[0].mentions,
            *(Span(s.start + len(texts[0]), s.end + len(texts[0])) for s in stories[1].mentions),
        ],
    ):
        assert all(
            len({int(whole.part[s.start]) for s in c}) == 1 for c in net.resolve(whole, given)
        )
    apart = list(clusters_of_many(net, texts))
    assert len(apart) == 2 and all(
        s.end < len(t) for t, cs in zip(texts, apart) for c in cs for s in c
    )


def test_a_net_learns_the_stories(net, stories):
    lessons = [lesson_of(d, net.words) for d in stories]
    net.train()
    heads = [p for name, p in net.named_parameters() if not name.startswith("words.encoder.")]
    adam, losses = torch.optim.Adam(heads, 3e-3), []
    for step in range(12):
        w = net.wrong(lessons[0] if step % 2 else together(lessons))
        loss = w.mentions + w.links
        assert all(bool(x.isfinite()) for x in w)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert np.mean(losses[-4:]) < 0.8 * np.mean(losses[:2])
    assert all(
        p.grad is not None
        for name, p in net.named_parameters()
        if name.startswith(("finder.", "scorer.", "mention."))
    )


def test_a_text_without_a_mention_and_of_one_word(net):
    net.m = net.m.changed(threshold=1e6)
    assert net.resolve(Text("x", [["Rain", "."], ["Snow", "."]]), given=[]) == []
    assert net.resolve(Text("x", [["Rain"]])) == []


def test_scores_that_are_no_numbers_are_refused(net, stories):
    from refnb.core.types import DataError

    with torch.no_grad():
        for p in net.scorer.parameters():
            p.fill_(float("nan"))
    with pytest.raises(DataError, match="the scores of links are not numbers"):
        net.resolve(text_of(stories[0]), stories[0].mentions[:9])


@pytest.mark.parametrize("mentions,antecedents", [("enumerated", "c2f")])
def test_a_trained_system_is_loaded_as_it_was(mentions, antecedents, folder, stories, tmp_path):
    from refnb.core.reading import write_documents
    from refnb.core.settings import load_settings
    from refnb.models.coreference.learning import load_resolver, train_coref

    write_documents(
        tmp_path / "stories.jsonl",
        [d.changed(doc_key=f"{d.doc_key}{i}") for i in range(5) for d in stories],
    )
    s = load_settings(runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports"))
    made = dict(
        SMALL, encoder=str(folder), mentions=mentions, antecedents=antecedents, frozen=1, epochs=1
    )
    learnt = train_coref("coref-minilm", str(tmp_path / "stories.jsonl"), s=s, **made)
    m = load_resolver(learnt.folder).m
    assert (m.mentions, m.antecedents, m.threshold) == (
        mentions,
        antecedents,
        learnt.seal.model["threshold"],
    )
    once, again = (predicted(load_resolver(learnt.folder), stories[0]).clusters for _ in range(2))
    assert once == again
