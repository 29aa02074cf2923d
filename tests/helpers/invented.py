"""Files of the shapes that were released, with invented content: what a download of the sets that are in no local copy
would bring. Texts that predictions repeat are those that their benchmark has here."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from refnb.benchmarks.altentities.questions import DOMAINS, USED
from refnb.benchmarks.kitmus.files import joined_text
from refnb.benchmarks.kitmus.sampler import Instance, Sampler
from refnb.benchmarks.kitmus.reading import pronoun_of
from refnb.benchmarks.kitmus.tasks import the_resources
from refnb.core.corpora import the_corpus
from refnb.core.documents import Document
from refnb.core.settings import Settings
from refnb.core.upstream import files_of
from refnb.models.published.answers import predicted_files

Files = Iterator[tuple[str, bytes]]  # owner/repo/path, content


def lines(records: Iterable[object]) -> bytes:
    return "".join(f"{json.dumps(x)}\n" for x in records).encode()


# AltEntities: JSON as Python writes it


def thing(domain: str, n: int, side: str) -> dict:
    "One of the two things of a question."
    name, box = f"Thing {n}{side}", f": Infobox {domain}. genre: {side}. year: {1900 + n}"
    more = {"image_url": f"http://example.org/{n}{side}.jpg"} if domain == "recipes" else {}
    return {
        "name": f"{name} (by Nobody)" if domain == "songs" else name,
        "wikipedia_url": f"http://en.wikipedia.org/wiki/Invented_{domain}_{n}{side}",
        "description": f"{name} is made up for a test.",
        "infobox": box,
        "unshown_background": f"{box}. It was never made.",
    } | more


def altentities_train() -> Files:
    "The training questions of each domain: two of each method, with three expressions each."
    for domain, name in DOMAINS.items():
        questions, numbers = [], count()
        for method in USED[name] * 2:
            n = next(numbers)
            things = [thing(domain, n, side) for side in "ab"]
            questions.append(
                {
                    "domain": name,
                    "question": f"Do you mean 'Thing {n}a' or 'Thing {n}b'?",
                    "target": things[n % 2]["wikipedia_url"],
                    "target_index": n % 2,
                    "sampling_method": method,
                    "description_section": "",
                    "choices": things,
                    "expressions": [f"the one of {1900 + n}", "not the other one", "that one"],
                }
            )
        text = json.dumps(questions, indent=4, ensure_ascii=True) + "\n"
        yield f"google-research-datasets/AltEntities/data/{domain}/train.json", text.encode()


# FantasyCoref: CoNLL


def fantasycoref_train(tales: Sequence[str]) -> Files:
    "Whole tales of these names, 1,700 words each, with one chain."
    out = []
    for tale in tales:
        out.append(f"#begin document ({tale}); part 000")
        for _ in range(100):
            words = ["He"] + ["word"] * 16 + ["."]
            for i, word in enumerate(words):
                chain = "(0)" if word == "He" else "-"
                out.append("\t".join([tale, "0", str(i), word, *"------", "*", chain]))
            out.append("")
        out.append("#end document")
    path = "emorynlp/FantasyCoref/data/GFT_split1/train.english.v4_gold_conll"
    yield path, ("\n".join(out) + "\n").encode()


# BookCoref: JSON lines, spans of words with their last


def some_clusters(size: int, clusters: int, mentions: int) -> list[list[list[int]]]:
    "So many clusters of so many one-word mentions in all, spread over a text."
    step = size / mentions
    spans = [[int(i * step)] * 2 for i in range(mentions)]
    return [spans[k::clusters] for k in range(clusters)]


def bookcoref_large(whole: Sequence[Document], windows: Sequence[Document]) -> Files:
    "Predictions of Longdoc and Dual cache, as released and fine-tuned, on whole books and on windows."
    for f in files_of("bookcoref-large"):
        docs = windows if "splitted" in f.path else whole
        n = 3 if "longdoc" in f.path else 2
        yield (
            f.key,
            lines(
                {
                    "doc_key": d.doc_key,
                    "sentences": d.sentences,
                    "clusters": some_clusters(d.size, n, max(n, d.size // 20)),
                    "characters": {},
                }
                for d in docs
            ),
        )


def annotated(key: str, number: str, clusters: list) -> dict:
    "A book as the hub has it: its clusters, without its text."
    people = [{"name": f"Person {i}", "mentions": c} for i, c in enumerate(clusters)]
    return {"doc_key": key, "gutenberg_key": number, "clusters": clusters, "characters": people}


def bookcoref_gold() -> Files:
    "The three gold books, with as many clusters and mentions as were published."
    books = []
    for key, b in the_corpus("bookcoref").books.items():
        clusters = some_clusters(b["tokens"], b["clusters"], b["mentions"])
        books.append(annotated(key, key.rpartition("_")[2], clusters))
    yield "bookcoref_annotations/full/test.jsonl", lines(books)


def bookcoref_silver(characters: dict[str, int]) -> Files:
    "The silver books of these Gutenberg numbers, each with so many characters: 45 to train on, the rest to develop on."
    books = [
        annotated(f"book_{number}", number, some_clusters(30_000, n, 5 * n))
        for number, n in characters.items()
    ]
    yield "bookcoref_annotations/full/train.jsonl", lines(books[:45])
    yield "bookcoref_annotations/full/validation.jsonl", lines(books[45:])
    for name in ("train", "validation", "test"):  # in windows
        window = annotated(f"{books[0]['doc_key']}_split1500_S0", "1", [[[0, 0], [1, 1]]])
        yield f"bookcoref_annotations/split/{name}_split.jsonl", lines([window])


# KITMUS: JSON lines, some in word pieces, and GAP's tables


def in_pieces(words: Sequence[str]) -> dict:
    "Words as a system of word pieces writes them."
    pieces, places = ["[CLS]"], [0]
    for i, word in enumerate(words):
        parts = [word[:3], *([f"##{word[3:]}"] if word[3:] else [])]
        pieces += parts
        places += [i] * len(parts)
    places.append(len(words) - 1)
    return {"sentences": [[*pieces, "[SEP]"]], "subtoken_map": places}


def kitmus_file(texts: Sequence[Instance], model: str, run: int) -> bytes:
    "The predictions of a system's run: each third text, or fourth, is answered wrongly."
    if model.endswith(("grep", "petra")):
        columns = "ID Pronoun Pronoun-offset A A-offset B B-offset A-coref B-coref".split()
        table = ["\t".join(columns)]
        for i in texts:
            table.append("\t".join(gap_row(i, both=model.endswith("petra"))))
        return ("\n".join(table) + "\n").encode()
    out = []
    for k, i in enumerate(texts):
        p = pronoun_of(i)
        right = (k + run) % (3 if model.startswith("kitmus") else 4)
        chosen = p.candidates[p.right if right else (p.right + 1) % len(p.candidates)]
        sentences = [[w.token for w in s] for s in i.knowledge + i.task]
        words = [w for s in sentences for w in s]
        text = in_pieces(words) if "bert" in model else {"sentences": sentences}
        out.append({"doc_key": p.id, "clusters": [[list(chosen), list(p.pronoun)]]} | text)
    return lines(out)


def gap_row(i: Instance, both: bool) -> list[str]:
    "The row of a text in GAP's table: the first name is meant, or both are."
    p, sentences = pronoun_of(i), i.knowledge + i.task
    words = [w for s in sentences for w in s]

    def offset(at: int) -> str:
        flat = [words[: at + 1]]
        return str(len(joined_text(flat)) - len(words[at].token))

    a, b = (span[0] for span in p.candidates)
    at = p.pronoun[0]
    places = [x for j in (at, a, b) for x in (words[j].token, offset(j))]
    return [p.id, *places, "True", str(both)]


def kitmus_predictions(s: Settings, sizes: tuple[int, int, int]) -> Files:
    "The predictions of all systems on the release's texts, of which there are so many here."
    sampler = Sampler(the_resources("released", s), sizes=sizes)
    texts = {(t.variant.name, t.n, t.split): list(t) for t in sampler.subtasks()}
    for p in predicted_files():
        yield p.file.key, kitmus_file(texts[p.variant, p.n, p.split], p.model, p.run)
