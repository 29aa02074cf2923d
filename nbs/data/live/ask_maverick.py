"""Maverick (maverick-coref 1.0.7) as a worker: its own classes, tokenizer and `predict`.

A checkpoint of Lightning is a pickle that names classes to call. Here it is read with `weights_only`, and only the
package's three models are made of it. The encoder is built from its configuration, in single precision: all of its
weights are in the checkpoint, so they need not be downloaded a second time.
"""

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
import torch
from refnb_worker import pieces_of, plain_classes, serve

MODELS = ("Maverick_mes", "Maverick_s2e", "Maverick_incr")


def checkpoint_of(path):
    "The state and the settings of a checkpoint: a file, or a folder with weights.ckpt."
    file = Path(path) / "weights.ckpt" if Path(path).is_dir() else Path(path)
    with torch.serialization.safe_globals(plain_classes()):
        got = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    return got["state_dict"], dict(got["hyper_parameters"]["model"])


def encoder_of(name):
    "An encoder whose weights the checkpoint brings."
    from transformers import AutoConfig, AutoModel

    return AutoModel.from_config(AutoConfig.from_pretrained(name), dtype=torch.float32)


def load(settings):
    "The package's Maverick with a checkpoint of this machine; with `long` it reads a long text in slices."
    import maverick
    from maverick.models.maverick_model import Maverick

    if settings["long"] not in ("", "naive"):
        raise ValueError(f"long is naive, or nothing, not {settings['long']!r}")
    state, told = checkpoint_of(settings["checkpoint"])
    name = str(told.pop("_target_", "")).rpartition(".")[2]
    if name not in MODELS:
        raise ValueError(f"the checkpoint is of {name or 'no model'}, not of {', '.join(MODELS)}")
    made = getattr(maverick, name)
    sys.modules[made.__module__].AutoModel = SimpleNamespace(from_pretrained=encoder_of)
    told["huggingface_model_name"] = settings.get("encoder") or told["huggingface_model_name"]
    model = made(**told)
    model.load_state_dict({k.removeprefix("model."): v for k, v in state.items()}, strict=True)
    m = Maverick.__new__(Maverick)  # its own constructor would unpickle the checkpoint
    m.device = settings.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
    m.model = model.eval().to(m.device)
    m.tokenizer = m.__get_model_tokenizer__()
    m.singletons = settings["singletons"]
    if settings["long"]:
        m.model = partial(model, longdoc=settings["long"])
        m.model.encoder = model.encoder
    return m


def clusters_of(m, sentences):
    "What the package predicts."
    found = m.predict([list(s) for s in sentences if s], singletons=m.singletons)
    return found["clusters_token_offsets"]


def words_of(m, sentences):
    "The words that the package reads, from its own maps of pieces."
    tokens, ends, speakers, _ = m.preprocess([list(s) for s in sentences if s])
    got = m.tokenize(tokens, ends, speakers)
    words = [None if w is None else got["new_token_map"][w] for w in got["subtoken_map"]]
    return pieces_of(got["input_ids"], words, m.tokenizer, len(tokens))


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
