"""BookNLP's coreference (booknlp 1.0.7.1) as a worker: the package's own steps in the order of its own pipeline, on our tokens.

The checkpoint is a folder with the three models of one size, under the names that the package gives them: their BERT is
named in them. Four traps are minded. With transformers 5 the package's tokenizer would cut words at apostrophes and
hyphens; the same pieces as in training are made here. Its models hold a list of positions that BERT no longer has. It
asks pkg_resources, which is gone, for files beside its modules. And tokens of white space are left out, as its reader
leaves them out; what is behind them keeps its place.

The package parses a text with spaCy and uses two things of the parse: which capitalized words of a name are nouns, and
the head of a noun phrase. With `parser=FOLDER` a spaCy model decides both; without, all capitalized words are, and the
head is the last word before a preposition or comma.
"""

import os, re, sys, types
from pathlib import Path
from refnb_worker import serve

GENDERS = [
    ["he", "him", "his"],
    ["she", "her"],
    ["they", "them", "their"],
    ["xe", "xem", "xyr", "xir"],
    ["ze", "zem", "zir", "hir"],
]
WIDTHS = {"big": 768, "small": 256}  # of the BERTs of the package's two sizes
BEFORE = {
    "of",
    "in",
    "on",
    "at",
    "with",
    "from",
    "for",
    "to",
    "by",
    "who",
    "whom",
    "which",
    "that",
    ",",
    "and",
}
OLD = "embeddings.position_ids"  # a list of numbers that newer versions of transformers do not keep


def beside_modules():
    "Stand in for pkg_resources."
    made = types.ModuleType("pkg_resources")
    made.resource_filename = lambda module, name: str(
        Path(sys.modules[module].__file__).parent / name
    )
    sys.modules["pkg_resources"] = made


def whole_words(vocabulary):
    "A tokenizer that cuts at spaces alone, and words into pieces, as BERT's does with do_basic_tokenize=False."
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(
        models.WordPiece.from_file(str(vocabulary), unk_token="[UNK]", max_input_chars_per_word=100)
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {f"{x.lower()}_token": f"[{x}]" for x in ("UNK", "CLS", "SEP", "PAD", "MASK")}
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def found_at(name, encoder):
    "Where a BERT is: a folder below `encoder`, or the hub's cache, by name."
    return str(Path(encoder) / Path(name).name) if encoder else name


def with_old_models(encoder):
    "Let the package load its models with the transformers and torch of today."
    import torch, transformers
    from transformers.utils import cached_file

    read, bert = torch.load, transformers.BertModel.from_pretrained

    class Tokenizer:
        @staticmethod
        def from_pretrained(name, **_):
            return whole_words(cached_file(found_at(name, encoder), "vocab.txt"))

    transformers.BertTokenizer = Tokenizer
    transformers.BertModel.from_pretrained = lambda name: bert(found_at(name, encoder))
    torch.load = lambda path, **more: {
        k: v for k, v in read(path, **more).items() if not k.endswith(OLD)
    }


def model_file(folder, step, size):
    "The model of a step; of several the one of this size."
    found = sorted(Path(folder).glob(f"{step}_*.model"))
    if len(found) > 1:
        found = [p for p in found if f"_H-{WIDTHS[size]}_" in p.name]
    if len(found) != 1:
        raise ValueError(
            f"{len(found)} models {step}_….model of size {size} in the checkpoint's folder"
        )
    return str(found[0])


def load(settings):
    "The package's steps with the models of this machine."
    if settings.get("device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    beside_modules()
    with_old_models(settings.get("encoder"))
    import booknlp.english as english
    from booknlp.english import (
        bert_qa,
        entity_tagger,
        gender_inference_model_1,
        litbank_coref,
        litbank_quote,
        name_coref,
    )

    data = Path(english.__file__).parent / "data"
    files = {
        step: model_file(settings["checkpoint"], step, settings["size"])
        for step in ("entities", "speaker", "coref")
    }
    parser = None
    if settings.get("parser"):
        import spacy

        parser = spacy.load(settings["parser"], disable=["ner"])
    return types.SimpleNamespace(
        parser=parser,
        quotes=litbank_quote.QuoteTagger(),
        names=name_coref.NameCoref(str(data / "aliases.txt")),
        entities=entity_tagger.LitBankEntityTagger(
            files["entities"], str(data / "entity_cat.tagset")
        ),
        speakers=bert_qa.QuotationAttribution(files["speaker"]),
        links=litbank_coref.LitBankCoref(files["coref"], GENDERS),
        gender=lambda **of: gender_inference_model_1.GenderEM(
            genders=GENDERS, hyperparameterFile=str(data / "gutenberg_prop_gender_terms.txt"), **of
        ),
    )


def tokens_of(sentences):
    "The package's tokens, without those of white space, and the place of each in the text; two line feeds begin a paragraph."
    from booknlp.common.pipelines import Token

    out, places, paragraph, space, at = [], [], 0, "", 0
    for n, sentence in enumerate(sentences):
        first = len(out)
        for word in sentence:
            if not word.strip():
                space += word
            else:
                paragraph += "\n\n" in space
                text, space = re.sub(r"\s", "N", word), ""
                out.append(
                    Token(
                        paragraph,
                        n,
                        len(out) - first,
                        len(out),
                        text,
                        "PROPN",
                        "NNP",
                        text,
                        "",
                        len(out),
                        None,
                        0,
                    )
                )
                places.append(at)
            at += 1
    return out, places


def with_heads(tokens, entities):
    "The head of each noun phrase: the package looks for the last token whose own head is outside."
    for a, b, *_ in sorted(entities, key=lambda e: e[0] - e[1]):  # shorter ones have the last word
        head = next((i - 1 for i in range(a + 1, b + 1) if tokens[i].text.lower() in BEFORE), b)
        for i in range(a, b + 1):
            tokens[i].dephead = head
        tokens[head].dephead = -1


def parsed(tokens, parser):
    "Parts of speech and heads by a spaCy model."
    from spacy.tokens import Doc

    starts = [not i or t.sentence_id != tokens[i - 1].sentence_id for i, t in enumerate(tokens)]
    doc = Doc(parser.vocab, words=[t.text for t in tokens], sent_starts=starts)
    for _, step in parser.pipeline:
        doc = step(doc)
    for t, of in zip(tokens, doc):
        t.pos, t.fine_pos, t.lemma, t.deprel, t.dephead = (
            of.pos_,
            of.tag_,
            of.lemma_,
            of.dep_,
            of.head.i,
        )


def clusters_of(m, sentences):
    "What the package finds: mentions by its tagger, clusters by its rules about names and its links."
    import torch

    tokens, places = tokens_of(sentences)
    if not tokens:
        return []
    if m.parser:
        parsed(tokens, m.parser)
    with torch.no_grad():
        entities = sorted(
            m.entities.tag(tokens, doEvent=False, doEntities=True, doSS=False)["entities"]
        )
        if not entities:
            return []
        if not m.parser:
            with_heads(tokens, entities)
        quotes = m.quotes.tag(tokens)
        speakers = m.speakers.tag(quotes, entities, tokens)
        inside = [int(tokens[a].inQuote or tokens[b].inQuote) for a, b, *_ in entities]
        refs = m.names.cluster_narrator(entities, inside, tokens)
        refs = m.names.cluster_identical_propers(entities, refs)
        refs = m.names.cluster_only_nouns(entities, refs, tokens)
        genders = m.gender(tokens=tokens, entities=entities, refs=refs).tag(entities, tokens, refs)
        found = m.links.tag(tokens, entities, refs, genders, speakers, quotes)
    out = {}
    for who, (a, b, *_) in zip(found, entities):
        out.setdefault(who, []).append((places[a], places[b]))
    return list(out.values())


def words_of(m, sentences):
    "The words that the package reads, from its own pieces, without case; a word with an unknown letter is one piece."
    tokens, places = tokens_of(sentences)
    out = [""] * sum(map(len, sentences))
    for t, i in zip(tokens, places):
        pieces = m.links.model.tokenizer.tokenize(t.text.lower())
        out[i] = t.text if "[UNK]" in pieces else "".join(p.removeprefix("##") for p in pieces)
    return out


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
