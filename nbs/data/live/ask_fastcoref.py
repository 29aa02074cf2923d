"""F-coref and LingMess (fastcoref 2.1.6) as a worker: the package's own classes and `predict`.

Three traps are minded. With transformers 5 the package's models lack a name that loading asks for; an empty one is
given. LingMess claims an attention that its encoder, Longformer, does not have. And weights that a checkpoint lacks are
reported in a log where nobody looks, and stay random: here that is an error.
"""

from refnb_worker import pieces_of, serve

KINDS = {
    "fcoref": ("FCoref", "modeling_fcoref", "FCorefModel"),
    "lingmess": ("LingMessCoref", "modeling_lingmess", "LingMessModel"),
}
HARMLESS = ("position_ids", "pooler")  # not among the weights of every version


def whole(made):
    "A model class that refuses a checkpoint with missing or strange weights."
    loading = made.from_pretrained.__func__

    def checked(cls, *args, **more):
        model, info = loading(cls, *args, **more)
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            bad = sorted(
                str(k) for k in info.get(what, ()) if not any(x in str(k) for x in HARMLESS)
            )
            if bad:
                raise ValueError(
                    f"{len(bad)} {what.replace('_keys', '')} weights in the checkpoint, the first is {bad[0]}"
                )
        return model, info

    made.from_pretrained = classmethod(checked)


def load(settings):
    "The package's predictor with a checkpoint of this machine."
    import importlib, logging
    import fastcoref

    predictor, module, model = KINDS[settings["kind"]]
    made = getattr(importlib.import_module(f"fastcoref.coref_models.{module}"), model)
    made.all_tied_weights_keys = {}
    made._supports_sdpa = (
        predictor == "FCoref"
    )  # Longformer does not, and the package's class says that it does
    whole(made)
    logging.disable(logging.INFO)
    return getattr(fastcoref, predictor)(
        settings["checkpoint"],
        device=settings.get("device") or None,
        nlp=None,
        enable_progress_bar=False,
    )


def encoded(p, sentences):
    "The pieces of a text, made by the package."
    from fastcoref.utilities.util import encode

    tokens = [t for s in sentences for t in s]
    return tokens, encode({"tokens": [tokens]}, p.tokenizer, None)


def clusters_of(p, sentences):
    "What the package predicts; it leaves out a text that is too long without a word, which is an error here."
    tokens, _ = encoded(p, sentences)
    got = p.predict(texts=[tokens], is_split_into_words=True)
    if not got:
        raise ValueError(
            f"the package leaves out texts of more than {p.max_doc_len:,} pieces; run it on windows: refnb.metrics.windows.split"
        )
    found = got[0].get_clusters(as_strings=False)
    return [
        [(start, end - 1) for start, end in (m for m in cluster if m is not None)]
        for cluster in found
    ]


def words_of(p, sentences):
    "The words that the package reads, from its own map of pieces."
    tokens, got = encoded(p, sentences)
    return pieces_of(got["input_ids"][0], got["subtoken_map"][0], p.tokenizer, len(tokens))


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
