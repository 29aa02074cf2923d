"""F-coref and LingMess (fastcoref 2.1.6) as a worker: the package's own classes and `predict`.

Three traps are minded. With transformers 5 the package's models lack a name that loading asks for; an empty one is
given. LingMess claims an attention that its encoder, Longformer, does not have. And weights that a checkpoint lacks are
reported in a log where nobody looks, and stay random: here that is an error.
"""

import importlib, logging
from refnb_worker import all_weights, pieces_of, serve

KINDS = {
    "fcoref": ("FCoref", "modeling_fcoref", "FCorefModel"),
    "lingmess": ("LingMessCoref", "modeling_lingmess", "LingMessModel"),
}


def load(settings):
    "The package's predictor with a checkpoint of this machine, if it has all weights and no strange ones."
    import fastcoref

    predictor, module, model = KINDS[settings["kind"]]
    made = getattr(importlib.import_module(f"fastcoref.coref_models.{module}"), model)
    made.all_tied_weights_keys = {}
    made._supports_sdpa = predictor == "FCoref"
    loading = made.from_pretrained.__func__

    def checked(cls, *args, **more):
        model, info = loading(cls, *args, **more)
        for what in ("missing", "unexpected", "mismatched"):
            all_weights(info.get(f"{what}_keys", ()), what, but=("position_ids", "pooler"))
        return model, info

    made.from_pretrained = classmethod(checked)
    logging.disable(logging.INFO)
    told = {"device": settings.get("device") or None, "nlp": None, "enable_progress_bar": False}
    return getattr(fastcoref, predictor)(settings["checkpoint"], **told)


def clusters_of(p, sentences):
    "What the package predicts; it leaves out a text that is too long without a word, which is an error here."
    got = p.predict(texts=[[t for s in sentences for t in s]], is_split_into_words=True)
    if not got:
        what = f"the package leaves out texts of more than {p.max_doc_len:,} pieces"
        raise ValueError(f"{what}; run it on windows: refnb.metrics.windows.split")
    found = got[0].get_clusters(as_strings=False)
    return [[(start, end - 1) for start, end in filter(None, cluster)] for cluster in found]


def words_of(p, sentences):
    "The words that the package reads, from its own map of pieces."
    from fastcoref.utilities.util import encode

    tokens = [t for s in sentences for t in s]
    got = encode({"tokens": [tokens]}, p.tokenizer, None)
    return pieces_of(got["input_ids"][0], got["subtoken_map"][0], p.tokenizer, len(tokens))


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
