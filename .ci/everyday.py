"""Count the everyday sentences of tests/coreference/everyday.yaml that a coreference system has exactly right: `.ci/everyday.py [FOLDER…]`.

Right are the clusters of two mentions or more, all of them and no other; a possessive 's at the end of a mention counts for nothing."""

import re, sys
from pathlib import Path
from refnb.core.documents import Document
from refnb.core.files import read_yaml
from refnb.models.coreference.learning import load_resolver
from refnb.models.coreference.recipes import the_coref, weights_folder
from refnb.models.coreference.resolvers import Resolver, predicted

SENTENCES = Path(__file__).parents[1] / "tests/coreference/everyday.yaml"


def marked(text: str) -> Document:
    "Read words in which brackets mark mentions: `[1 The cat] licked [1 its] paw .`"
    words, opened, clusters = [], [], {}
    for part in re.findall(r"\[\d+|\]|[^\s\]]+", text):
        if part == "]":
            number, start = opened.pop()
            clusters.setdefault(number, []).append((start, len(words) - 1))
        elif part[0] == "[":
            opened.append((part, len(words)))
        else:
            words.append(part)
    ends = [i + 1 for i, w in enumerate(words[:-1]) if w in (".", "!", "?")]
    cuts = zip([0, *ends], [*ends, len(words)])
    return Document(text, [words[a:b] for a, b in cuts], clusters.values())


def chains(d: Document) -> set:
    "Return the clusters of two mentions or more, without a possessive 's at a mention's end."
    bare = [{(a, b - (b > a and d.tokens[b] in ("'s", "’s"))) for a, b in c} for c in d.clusters]
    return {frozenset(c) for c in bare if len(c) > 1}


def everyday() -> dict[str, list[Document]]:
    "Read the sentences, by what they are about."
    return {k: list(map(marked, texts)) for k, texts in read_yaml(SENTENCES, dict).items()}


def exact(net: Resolver) -> dict[str, list[bool]]:
    "Tell of each sentence whether a system has it exactly right."
    return {k: [chains(predicted(net, d)) == chains(d) for d in x] for k, x in everyday().items()}


if __name__ == "__main__":
    for folder in sys.argv[1:] or [weights_folder(the_coref("coref-minilm").model)]:
        right = exact(load_resolver(folder))
        told = ", ".join(f"{k} {sum(x)} of {len(x)}" for k, x in right.items())
        print(f"{sum(map(sum, right.values()))} of {sum(map(len, right.values()))} ({told})")
