"""GLiNER (gliner 0.2.29) as a worker that links mentions to names: the names of a book's characters are its labels.

Five traps are minded. The package leaves out the words behind its longest text (384, if the checkpoint does not say
otherwise) with a warning where nobody looks; here a text is read in pieces of whole sentences. Its tokenizer may cut
earlier, without a word; then the pieces are shorter. It was trained on at most 25 labels at a time, so more of them are
asked in groups, and of mentions that overlap the one with the best score stays, as within a group. And weights that a
checkpoint lacks stay random; that is an error here, as is code that a checkpoint brings, which the package would run.
"""

import re
from contextlib import contextmanager
from refnb_worker import pieces_of, serve

HARMLESS = ("position_ids", "pooler")  # not among the weights of every version


def words_at(text):
    "The words of a text with their places: ours, which one space separates."
    return ((m.group(), m.start(), m.end()) for m in re.finditer(r"[^ ]+", text))


@contextmanager
def whole_checkpoints():
    "Refuse a checkpoint with missing or strange weights."
    import torch

    loading = torch.nn.Module.load_state_dict

    def checked(self, state, *args, **more):
        got = loading(self, state, *args, **more)
        for what, keys in (("missing", got.missing_keys), ("unexpected", got.unexpected_keys)):
            bad = sorted(k for k in keys if not any(x in k for x in HARMLESS))
            if bad:
                raise ValueError(
                    f"{len(bad)} {what} weights in the checkpoint, the first is {bad[0]}"
                )
        return got

    torch.nn.Module.load_state_dict = checked
    try:
        yield
    finally:
        torch.nn.Module.load_state_dict = loading


def refused(name, *args, **more):
    "Stand in for what would run code of a checkpoint."
    raise ValueError(f"the checkpoint asks for code of its own ({name})")


def load(settings):
    "The package's model with a checkpoint of this machine; its encoder's configuration and tokenizer from `encoder`."
    import torch
    from transformers.models.auto import auto_factory, configuration_auto, tokenization_auto

    for module in (auto_factory, configuration_auto, tokenization_auto):
        module.get_class_from_dynamic_module = refused
    from gliner import GLiNER
    from gliner.model import BaseGLiNER

    if settings.get("encoder"):
        reading = BaseGLiNER._load_config.__func__

        def read(cls, *args, **more):
            config = reading(cls, *args, **more)
            config.model_name = settings["encoder"]
            return config

        BaseGLiNER._load_config = classmethod(read)
    device = settings.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
    with whole_checkpoints():
        model = GLiNER.from_pretrained(
            settings["checkpoint"], local_files_only=True, map_location=device
        )
    model.data_processor.words_splitter = words_at
    model.threshold, model.group = float(settings["threshold"]), int(settings["labels"])
    return model.to(device).eval()


def bare(sentences):
    "The words of each sentence with their places in the text; a word of white space is left out, others lose theirs."
    at, out = 0, []
    for s in sentences:
        out.append([(at + i, "".join(t.split())) for i, t in enumerate(s) if t.strip()])
        at += len(s)
    return [s for s in out if s]


def pieces(m, words):
    "How many pieces the model reads for some words."
    return (
        len(m.data_processor.transformer_tokenizer(words, is_split_into_words=True)["input_ids"])
        if words
        else 0
    )


def room(m, labels):
    "The most words and pieces of a text, beside its labels."
    prompt = pieces(m, [x for n in labels for x in (m.config.ent_token, n)] + [m.config.sep_token])
    return m.config.max_len, m.data_processor.transformer_tokenizer.model_max_length - prompt


def parts(m, sentences, labels):
    "Texts that the model reads whole: as many sentences as fit, and parts of one that is too long."
    most, most_pieces = room(m, labels)
    if most_pieces < 16:
        raise ValueError(f"{len(labels)} names leave no room for a text; set labels= to fewer")
    out, size = [], 0
    for s in sentences:
        for part in halves(m, s, most, most_pieces):
            n = pieces(m, [w for _, w in part])
            if out and len(out[-1]) + len(part) <= most and size + n <= most_pieces:
                out[-1], size = out[-1] + part, size + n
            else:
                out, size = [*out, part], n
    return out


def halves(m, sentence, most, most_pieces):
    "A sentence, or as many parts of it as are needed."
    if (
        len(sentence) == 1
        or len(sentence) <= most
        and pieces(m, [w for _, w in sentence]) <= most_pieces
    ):
        return [sentence]
    half = len(sentence) // 2
    return halves(m, sentence[:half], most, most_pieces) + halves(
        m, sentence[half:], most, most_pieces
    )


def found_in(m, text, labels):
    "What the model finds in a text: score, first and last word, label."
    words = [w for _, w in text]
    starts, ends = {}, {}
    for (i, _), (_, a, b) in zip(text, words_at(" ".join(words))):
        starts[a], ends[b] = i, i
    return [
        (x["score"], starts[x["start"]], ends[x["end"]], x["label"])
        for x in m.predict_entities(" ".join(words), labels, threshold=m.threshold)
    ]


def linked(m, sentences, names):
    "The mentions of each name."
    names, found = list(dict.fromkeys(names)), []
    for i in range(0, len(names), m.group):
        labels = names[i : i + m.group]
        for text in parts(m, bare(sentences), labels):
            found += found_in(m, text, labels)
    out, taken = {n: [] for n in names}, set()
    for _, a, b, name in sorted(found, key=lambda x: (-x[0], x[1:])):
        if taken.isdisjoint(range(a, b + 1)):
            taken.update(range(a, b + 1))
            out[name].append((a, b))
    return out


def words_of(m, sentences):
    "The words that the package reads, from its own mask of pieces."
    out, label, p = [""] * sum(map(len, sentences)), ["person"], m.data_processor
    for text in parts(m, bare(sentences), label):
        words = [w for _, w in text]
        got = p.tokenize_inputs([words], label)
        mask = p.prepare_word_mask(
            [words], got, p.prepare_inputs([words], label)[1], token_level=True
        )[0]
        read = pieces_of(
            got["input_ids"][0],
            [k - 1 if k else None for k in mask],
            p.transformer_tokenizer,
            len(words),
        )
        for (i, _), word in zip(text, read):
            out[i] = word
    return out


if __name__ == "__main__":
    serve(load, linked, words_of, names=True)
