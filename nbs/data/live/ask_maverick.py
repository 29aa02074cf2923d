"""Maverick (maverick-coref 1.0.7) as a worker: its own classes, tokenizer and `predict`.

A checkpoint of Lightning is a pickle that names classes to call. Here it is read with `weights_only`, and only the
package's three models are made of it. The encoder is built from its configuration, in single precision: all of its
weights are in the checkpoint, so they need not be downloaded a second time.
"""

import sys
from pathlib import Path
import torch
from refnb_worker import pieces_of, serve

MODELS = ("Maverick_mes", "Maverick_s2e", "Maverick_incr")


def plain_classes():
    "Classes of OmegaConf that hold settings: the only ones that a checkpoint may have."
    import collections, typing
    from omegaconf import base, dictconfig, listconfig, nodes

    return [
        dictconfig.DictConfig,
        listconfig.ListConfig,
        base.ContainerMetadata,
        base.Metadata,
        base.SCMode,
        nodes.AnyNode,
        nodes.StringNode,
        nodes.IntegerNode,
        nodes.FloatNode,
        nodes.BooleanNode,
        collections.defaultdict,
        collections.OrderedDict,
        typing.Any,
        dict,
        list,
        int,
        float,
        str,
        bool,
    ]


def checkpoint_of(path):
    "The state and the settings of a checkpoint: a file, or a folder with weights.ckpt."
    file = Path(path) / "weights.ckpt" if Path(path).is_dir() else Path(path)
    with torch.serialization.safe_globals(plain_classes()):
        got = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    return got["state_dict"], dict(got["hyper_parameters"]["model"])


class FromConfig:
    "In the place of AutoModel: an encoder whose weights the checkpoint brings."

    @staticmethod
    def from_pretrained(name):
        from transformers import AutoConfig, AutoModel

        return AutoModel.from_config(AutoConfig.from_pretrained(name), dtype=torch.float32)


def package_model(models, state, told, encoder):
    "One of the package's models with the weights of a checkpoint."
    name = str(told.pop("_target_", "")).rpartition(".")[2]
    if name not in models:
        raise ValueError(f"the checkpoint is of {name or 'no model'}, not of {', '.join(models)}")
    made = models[name]
    sys.modules[made.__module__].AutoModel = FromConfig
    told["huggingface_model_name"] = encoder or told["huggingface_model_name"]
    model = made(**told)
    model.load_state_dict({k.removeprefix("model."): v for k, v in state.items()}, strict=True)
    return model.eval()


def load(settings):
    "The package's Maverick with a checkpoint of this machine."
    import maverick
    from maverick.models.maverick_model import Maverick

    state, told = checkpoint_of(settings["checkpoint"])
    m = Maverick.__new__(Maverick)  # its own constructor would unpickle the checkpoint
    m.device = settings.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
    m.model = package_model(
        {n: getattr(maverick, n) for n in MODELS}, state, told, settings.get("encoder")
    ).to(m.device)
    m.tokenizer = m.__get_model_tokenizer__()
    m.singletons = bool(settings.get("singletons"))
    if settings.get("long"):
        in_slices(m, settings["long"])
    return m


def in_slices(m, how):
    "Have the package's model read a long text in slices, as its own setting `longdoc` does."
    if how != "naive":
        raise ValueError(f"long is naive, or nothing, not {how!r}")
    whole = m.model

    def sliced(**given):
        return whole(longdoc=how, **given)

    sliced.encoder = whole.encoder
    m.model = sliced


def clusters_of(m, sentences):
    "What the package predicts."
    return m.predict([list(s) for s in sentences if s], singletons=m.singletons)[
        "clusters_token_offsets"
    ]


def words_of(m, sentences):
    "The words that the package reads, from its own maps of pieces."
    tokens, ends, speakers, _ = m.preprocess([list(s) for s in sentences if s])
    got = m.tokenize(tokens, ends, speakers)
    words = [None if w is None else got["new_token_map"][w] for w in got["subtoken_map"]]
    return pieces_of(got["input_ids"], words, m.tokenizer, len(tokens))


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
