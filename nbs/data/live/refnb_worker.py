"""What every worker of refnb's live systems shares: documents as JSON lines in, clusters as JSON lines out.

A worker is run by the Python of another environment, so nothing here needs refnb. It is called with its settings as one
JSON argument, loads its model, and then answers each line `{"id", "sentences"}` with `{"id", "clusters"}`: flat token
indices, the end included. A linker reads `"names"` too, and answers with the `"names"` of its clusters. A line with
`"canary": true` is answered with `"words"` too: for each token the text of the pieces that the model reads for it, which
shows whether offsets and pieces belong together.
"""

import json, os, sys


def one_line(e):
    "An exception as one line of at most 300 characters."
    text = next(iter(str(e).strip().splitlines()), "").strip()
    return (f"{type(e).__name__}: {text}" if text else type(e).__name__)[:300]


def pieces_of(ids, words, tokenizer, n):
    "For each of n words the text of its pieces; `words` says to which word a piece belongs, or None."
    pieces = [[] for _ in range(n)]
    for i, word in zip(ids, words):
        if word is not None:
            pieces[word].append(int(i))
    return [tokenizer.decode(some) for some in pieces]


def plain_classes():
    "The only classes that a checkpoint with weights may have: OmegaConf's and Python's, which hold settings."
    from collections import OrderedDict, defaultdict
    from typing import Any
    from omegaconf import AnyNode, BooleanNode, DictConfig, FloatNode, IntegerNode, ListConfig
    from omegaconf import StringNode
    from omegaconf.base import ContainerMetadata, Metadata, SCMode

    settings = [DictConfig, ListConfig, ContainerMetadata, Metadata, SCMode]
    values = [AnyNode, StringNode, IntegerNode, FloatNode, BooleanNode, Any]
    return [*settings, *values, defaultdict, OrderedDict, dict, list, int, float, str, bool]


def all_weights(names, what="missing", but=()):
    "Refuse a checkpoint with missing or strange weights: a package would go on with random ones."
    if bad := sorted(str(k) for k in names if not any(x in str(k) for x in but)):
        raise ValueError(f"{len(bad)} {what} weights in the checkpoint, the first is {bad[0]}")


def as_spans(clusters):
    """Clusters as lists of [start, end], in the order of the text. Pieces of one word may have been two mentions: a mention
    that is in several clusters stays in the first of them, as the official scorer has it."""
    seen, out = set(), []
    for cluster in clusters:
        new = {(int(a), int(b)) for a, b in cluster} - seen
        seen |= new
        if new:
            out.append(sorted(new))
    return out


def found(model, d, clusters_of, names):
    "The clusters of a document, and with `names` whose they are."
    if not names:
        return {"clusters": as_spans(clusters_of(model, d["sentences"]))}
    linked = {
        name: as_spans([spans])
        for name, spans in clusters_of(model, d["sentences"], d["names"]).items()
    }
    return {
        "clusters": [c for [c] in filter(None, linked.values())],
        "names": [name for name, c in linked.items() if c],
    }


def reply(model, d, clusters_of, words_of, names=False):
    "The answer to a document, or why there is none."
    if not any(d["sentences"]):
        return {"id": d["id"], "clusters": []}
    try:
        told = {"id": d["id"]} | found(model, d, clusters_of, names)
        return told | ({"words": words_of(model, d["sentences"])} if d.get("canary") else {})
    except Exception as e:
        return {"id": d["id"], "error": one_line(e)}


def serve(load, clusters_of, words_of, names=False):
    """Answer until the input ends. `load(settings)` makes a model, `clusters_of(model, sentences)` finds its clusters,
    `words_of(model, sentences)` reads the words back. With `names`, `clusters_of(model, sentences, names)` finds the
    mentions of each name, as name -> mentions. What a package prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        model = load(json.loads(sys.argv[1]))
    except Exception as e:
        sys.exit(f"cannot load its model: {one_line(e)}")
    for line in filter(str.strip, sys.stdin):
        told = reply(model, json.loads(line), clusters_of, words_of, names)
        print(json.dumps(told), file=out, flush=True)
