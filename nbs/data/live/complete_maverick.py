"""Maverick as a worker that completes known clusters by the package's own `predict`, with `add_gold_clusters`.

`names` of a document is an object here: name -> its known mentions. The first clusters of the answer are these, completed,
in the same order, unless single mentions are asked for, which are sorted in between; so they are not. Only Maverick_mes
knows given clusters: the package's other models would leave them out without a word.
"""

import ask_maverick
from ask_maverick import checkpoint_of, words_of
from refnb_worker import serve


def load(settings):
    "The package's Maverick, if it is the one that takes given clusters."
    model = str(checkpoint_of(settings["checkpoint"])[1].get("_target_")).rpartition(".")[2]
    if model != "Maverick_mes":
        raise ValueError(f"{model} completes no clusters, Maverick_mes does")
    return ask_maverick.load(settings)


def readable(m, sentences, seeds):
    "The seeds whose first and last words have pieces; the package cannot place others."
    has_pieces = [bool(text.strip()) for text in words_of(m, sentences)]
    return [[(a, b) for a, b in c if has_pieces[a] and has_pieces[b]] for c in seeds]


def completed(m, sentences, names):
    "The mentions of each name. Without names, as for a canary, whatever clusters there are."
    if not names:
        return {str(k): c for k, c in enumerate(ask_maverick.clusters_of(m, sentences))}
    seeds = [[tuple(s) for s in c] for c in names.values()]
    given = readable(m, sentences, seeds)  # the package adds to these lists
    found = m.predict([list(s) for s in sentences if s], add_gold_clusters=given)[
        "clusters_token_offsets"
    ]
    found = found[: len(seeds)] or [()] * len(seeds)  # none at all where no mention was found
    return {name: [*seed, *grown] for name, seed, grown in zip(names, seeds, found)}


if __name__ == "__main__":
    serve(load, completed, words_of, names=True)
