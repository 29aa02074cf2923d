"""xCoRe (xcore-coref 0.1.2) as a worker: its own class, tokenizer and `predict`, with its own way to read what is long.

Its checkpoints are of the same kind as Maverick's, and are read in the same way: nothing of them is executed.
"""

import torch
from ask_maverick import checkpoint_of, package_model
from refnb_worker import pieces_of, serve


def load(settings):
    "The package's xCoRe with a checkpoint of this machine."
    import xcore

    state, told = checkpoint_of(settings["checkpoint"])
    m = xcore.xCoRe.__new__(xcore.xCoRe)  # its own constructor would unpickle the checkpoint
    m.device = settings.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
    m.model = package_model(
        {"xCoRe_system": xcore.xCoRe_system}, state, told, settings.get("encoder")
    ).to(m.device)
    m.model.device = m.device
    m.tokenizer = m.__get_model_tokenizer__()
    m.singletons, m.longest = bool(settings.get("singletons")), int(settings["max_length"])
    return m


def clusters_of(m, sentences):
    "What the package predicts; texts of more than `max_length` pieces are read in parts, whose clusters it joins."
    return m.predict(
        [list(s) for s in sentences if s], "long", max_length=m.longest, singletons=m.singletons
    )["clusters_token_offsets"]


def words_of(m, sentences):
    "The words that the package reads, from its own maps of pieces."
    tokens, ends, lengths = m.preprocess([list(s) for s in sentences if s], "long")
    got = m.tokenize(tokens, ends, "long", lengths, m.longest)
    words = [None if w is None else got["new_token_map"][0][w] for w in got["subtoken_map"][0]]
    return pieces_of(got["input_ids"], words, m.tokenizer, len(tokens))


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
