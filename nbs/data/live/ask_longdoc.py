"""Longdoc (fast-coref) and Dual cache, its fork, as a worker: the authors' own `Inference`, on our tokens and sentences.

The checkpoint is a folder with model.pth; its encoder is named apart. Four traps are minded. The checkpoint is a pickle:
it is read with `weights_only`, and may hold OmegaConf's settings and numpy's state of chance besides weights. Weights
that it lacks would stay random. Dual cache imports a module `logger` that its repository does not have, and wants a GPU.
And its `Inference` does not say how many entities it may compare with: `cache`, such as 25_25, does, the latest and the
most frequent ones.
"""

import os, sys
from functools import partial
from types import ModuleType
from refnb_worker import all_weights, pieces_of, plain_classes, serve


def state_of_chance():
    "What numpy's random numbers are kept as, under the names of numpy 1 and 2."
    import numpy as np

    core, kinds = np._core.multiarray, (type(np.dtype("uint32")), type(np.dtype("float64")))
    makers = [
        (f, f"numpy.{old}.multiarray.{f.__name__}")
        for old in ("core", "_core")
        for f in (core._reconstruct, core.scalar)
    ]
    return [*makers, np.ndarray, np.dtype, *kinds]


def load(settings):
    "The authors' model with a checkpoint of this machine."
    if settings.get("device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    sys.modules["logger"] = ModuleType("logger")
    if not torch.cuda.is_available():
        torch.Tensor.cuda = lambda tensor, *_, **__: tensor
    from inference.model_inference import Inference
    from model.entity_ranking_model import EntityRankingModel

    loading = EntityRankingModel.load_state_dict

    def whole(model, state, strict):
        all_weights(loading(model, state, strict).missing_keys, but=["lm_encoder"])

    EntityRankingModel.load_state_dict = whole
    with torch.serialization.safe_globals(plain_classes() + state_of_chance()):
        m = Inference(settings["checkpoint"], settings["encoder"])
    if settings.get("cache"):
        m.model.forward = partial(m.model.forward, cache_mode=settings["cache"])
    return m


def clusters_of(m, sentences):
    "What the package predicts, in words."
    found = m.perform_coreference([list(s) for s in sentences if s])
    word = found["tokenized_doc"]["subtoken_map"]
    return [[(word[a], word[b]) for a, b in c] for c in found["subtoken_idx_clusters"]]


def words_of(m, sentences):
    "The words that the package reads, from its own map of pieces."
    from inference.tokenize_doc import tokenize_and_segment_doc

    told = [list(s) for s in sentences if s]
    got = tokenize_and_segment_doc(told, m.tokenizer, max_segment_len=m.max_segment_len)
    ids = [i for segment in got["sentences"] for i in segment]
    return pieces_of(ids, got["subtoken_map"], m.tokenizer, sum(map(len, sentences)))


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
