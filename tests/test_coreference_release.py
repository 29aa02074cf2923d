"""Weights of Maverick's package: equal random weights give the clusters that maverick-coref 1.0.7 found.

`data/maverick_release.json` was made with the package, for the state that `random_state` draws here: clusters of given
mentions by its `predict`, and clusters of found mentions by its model, which was asked for mentions that begin with the
first piece of a word and end with the last one of a word (it would take any piece; a resolver takes words).
"""

import json
from pathlib import Path
import pytest
from refnb.core.corpora import sample

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from refnb.models.coreference.maverick import resolver_of_release  # noqa: E402
from refnb.models.coreference.texts import text_of  # noqa: E402
from refnb.models.pairs.encoders import tiny_encoder  # noqa: E402

EXPECTED = Path(__file__).parent / "data" / "maverick_release.json"
HEADS = {
    "start_token_classifier": (32, 32, 1),
    "start_token_representation": (32, 32, 32),
    "end_token_representation": (32, 32, 32),
    "start_end_classifier": (64, 32, 1),
    "coref_start_all_mlps": (32, 64, 224),
    "coref_end_all_mlps": (32, 64, 224),
}


def stories():
    "The beginnings of the sample's stories, none longer than 180 words."
    out = []
    for d in sample():
        n = next(
            (i for i in range(len(d.sentences)) if sum(map(len, d.sentences[: i + 1])) > 180),
            len(d.sentences),
        )
        words = sum(map(len, d.sentences[:n]))
        clusters = [[s for s in c if s.end < words] for c in d.clusters]
        out.append(
            d.changed(
                sentences=d.sentences[:n], clusters=[c for c in clusters if c], names=(), labels={}
            )
        )
    return out


def base_encoder(folder):
    "A tiny encoder that has all letters and only the words of four stories: other words are of several pieces."
    return tiny_encoder(folder, [" ".join(d.tokens) for d in stories()[:4]])


def random_state(base, seed=9):
    """The state of the package's model with random weights, on a tiny encoder. With this seed no score that decides is
    nearer than 7e-4 to its limit or to the second best one, so another machine's sums decide alike."""
    drawn = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=drawn)
    encoder = transformers.AutoModel.from_pretrained(base).state_dict()
    out = {
        f"encoder.{k}": draw(*v.shape) / 6 + ("LayerNorm.weight" in k)
        for k, v in encoder.items()
        if v.is_floating_point()
    }
    words = out["encoder.embeddings.word_embeddings.weight"]
    out["encoder.embeddings.word_embeddings.weight"] = torch.cat([words, draw(3, 32) / 6])
    for name, (inputs, hidden, outputs) in HEADS.items():
        for layer, shape in (
            ("dense1", (hidden, inputs)),
            ("layer_norm", (hidden,)),
            ("dense", (outputs, hidden)),
        ):
            out[f"{name}.layer.{layer}.weight"] = draw(*shape) / 4
            out[f"{name}.layer.{layer}.bias"] = draw(shape[0]) / 4
    for pair in ("s2s", "e2e", "s2e", "e2s"):
        out[f"antecedent_{pair}_all_weights"] = draw(7, 32, 32) / 8
        out[f"antecedent_{pair}_all_biases"] = draw(7, 32) / 8
    return out


def tidied(clusters):
    return sorted(sorted([int(a), int(b)] for a, b in c) for c in clusters)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    home = tmp_path_factory.mktemp("release")
    base = base_encoder(home / "base")
    return resolver_of_release(random_state(base), base, home / "encoder", segment=512)


@pytest.mark.parametrize("story", stories(), ids=lambda d: d.doc_key)
def test_clusters_are_those_of_the_package(net, story):
    expected = json.loads(EXPECTED.read_text())[story.doc_key]
    t = text_of(story)
    assert len(net.words.cut(t).segments) == 1
    assert tidied(net.resolve(t, story.mentions)) == expected["given"]
    assert tidied(net.resolve(t)) == expected["found"]
