"""BookNLP (booknlp 1.0.7.1) as a worker: the package's own pipeline, on our tokens and sentences.

The checkpoint is a folder with the three models of one size, under the names that the package gives them: their BERT is
named in them. `parser` is the spaCy model with which the package parses a text: an installed one, or a folder. Four
traps are minded. With transformers 5 the package's tokenizer would cut words at apostrophes and hyphens; the same pieces
as in training are made here. Its models hold a list of positions that BERT no longer has. It asks pkg_resources, which
is gone, for files beside its modules. And spaCy would load every plug-in that it finds, refnb's among them.
"""

import os, sys, tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from refnb_worker import serve

WIDTHS = {"big": 768, "small": 256}  # of the BERTs of the package's two sizes


def whole_words(vocabulary):
    "A tokenizer that cuts at spaces alone, and words into pieces, as BERT's does with do_basic_tokenize=False."
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = {"unk_token": "[UNK]", "max_input_chars_per_word": 100}
    made = Tokenizer(models.WordPiece.from_file(vocabulary, **pieces))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {f"{x.lower()}_token": f"[{x}]" for x in ("UNK", "CLS", "SEP", "PAD", "MASK")}
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def with_old_models(encoder):
    "Let the package load its models with the libraries of today; a BERT is below `encoder`, or in the hub's cache."
    import catalogue, torch, transformers
    from transformers.utils import cached_file

    def place(name):
        return str(Path(encoder) / Path(name).name) if encoder else name

    def weights(path, **more):
        state = read(path, weights_only=True, **more)
        return {k: v for k, v in state.items() if not k.endswith("embeddings.position_ids")}

    def tokenizer(name, **_):
        return whole_words(cached_file(place(name), "vocab.txt"))

    def beside(module, name):
        return str(Path(sys.modules[module].__file__).parent / name)

    read, torch.load = torch.load, weights
    bert = transformers.BertModel.from_pretrained
    transformers.BertModel.from_pretrained = lambda name: bert(place(name))
    transformers.BertTokenizer = SimpleNamespace(from_pretrained=tokenizer)
    sys.modules["pkg_resources"] = ModuleType("pkg_resources")
    sys.modules["pkg_resources"].resource_filename = beside
    catalogue.AVAILABLE_ENTRY_POINTS = {}


def load(settings):
    "The package's pipeline with the models of this machine; of several models of a step the one of this size."
    if settings.get("device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with_old_models(settings.get("encoder"))
    from booknlp.english.english_booknlp import EnglishBookNLP

    folder, size = Path(settings["checkpoint"]), settings["size"]
    told = {"pipeline": "entity,quote,coref", "model": "custom", "model_path": str(folder)}
    for step, name in zip(
        ("entities", "coref", "speaker"), ("entity", "coref", "quote_attribution")
    ):
        sized = [*folder.glob(f"{step}_*_H-{WIDTHS[size]}_*.model")]
        found = sized or [*folder.glob(f"{step}_*.model")]
        if len(found) != 1:
            what = f"{len(found)} models {step}_….model of size {size}"
            raise ValueError(f"{what} in the checkpoint's folder")
        told[f"{name}_model_path"] = str(found[0])
    return EnglishBookNLP(told | {"spacy_model": settings["parser"]})


def clusters_of(m, sentences):
    "What the package writes into its table of entities; it counts no tokens of white space."
    tokens = [t for s in sentences for t in s]
    starts = [i == 0 for s in sentences for i in range(len(s))]
    places = [i for i, t in enumerate(tokens) if not t.isspace()]
    if not places:
        return []
    parse = m.tagger.tag_pretokenized
    m.tagger.tag = lambda _: parse(tokens, starts, [True] * len(tokens))  # whatever file it reads
    with tempfile.TemporaryDirectory() as folder:
        m.process(__file__, folder, "book")
        rows = Path(folder, "book.entities").read_text("utf-8").split("\n")[1:-1]
    out = {}
    for who, start, end, *_ in (row.split("\t") for row in rows):
        out.setdefault(who, []).append((places[int(start)], places[int(end)]))
    return list(out.values())


def words_of(m, sentences):
    "The words that the package reads, from its own pieces, without case; a word with an unknown letter is one piece."
    out = []
    for word in (t for s in sentences for t in s):
        pieces = m.litbank_coref.model.tokenizer.tokenize(word.lower())
        whole = "".join(p.removeprefix("##") for p in pieces)
        out.append(word if "[UNK]" in pieces else whole)
    return out


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
