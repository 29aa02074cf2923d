"""Stanza's coreference model (stanza 1.15.0) as a worker: its own model, asked as its pipeline asks it, on our tokens.

The pipeline's other steps are left out, for the text has its sentences and tokens. Stanza reads its checkpoints without
unpickling anything but numbers. It cannot read a word of no pieces, such as the line feeds that BookCoref's books have
as tokens: these are left out, and what is behind them keeps its place. Its encoder is found by the name that the checkpoint tells, in the hub's cache, unless
another folder is named: the package treats the words of some encoders specially, by name.
"""

import torch
from pathlib import Path
from refnb_worker import serve

OPTIMIZERS = {"bert_optimizer", "general_optimizer", "bert_scheduler", "general_scheduler"}


def model_file(place):
    "The one file of a checkpoint: itself, or below a folder of Stanza's models."
    if Path(place).is_file():
        return place
    found = sorted(
        p for p in Path(place).rglob("*.pt") if p.parent.name == "coref" or p.parent == Path(place)
    )
    if len(found) != 1:
        raise ValueError(
            f"{len(found)} models of coreference in the folder: name the file with checkpoint="
        )
    return found[0]


def load(settings):
    "Stanza's model with a checkpoint of this machine."
    from stanza.models.coref.model import CorefModel

    more = {
        "device": settings.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"),
        "log_norms": False,
    }
    if settings.get("encoder"):
        more["bert_model"] = settings["encoder"]
    model = CorefModel.load_model(
        path=str(model_file(settings["checkpoint"])), ignore=OPTIMIZERS, config_update=more
    )
    model.training = False
    return model


def document(model, sentences):
    "A text as the package's pipeline gives it to its model, and the places of its words: those without a piece are left out."
    words = [
        (i, n, t)
        for i, (n, t) in enumerate((n, t) for n, s in enumerate(sentences) for t in s)
        if model.tokenizer.tokenize(t)
    ]
    told = {
        "document_id": "wb_doc_1",
        "cased_words": [t for *_, t in words],
        "sent_id": [n for _, n, _ in words],
        "speaker": ["_"] * len(words),
    }
    return model.build_doc(told), [i for i, *_ in words]


def clusters_of(model, sentences):
    "What the package finds, without nodes for what a language leaves out; the end of its spans is the token behind them."
    d, places = document(model, sentences)
    with torch.no_grad():
        found = model.run(d).span_clusters
    return [[(places[start], places[end - 1]) for start, end in cluster] for cluster in found]


def words_of(model, sentences):
    "The words that the package reads, from its own map of pieces."
    d, places = document(model, sentences)
    out = [""] * sum(map(len, sentences))
    for i, (a, b) in zip(places, d["word2subword"]):
        out[i] = model.tokenizer.convert_tokens_to_string(d["subwords"][a:b])
    return out


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
