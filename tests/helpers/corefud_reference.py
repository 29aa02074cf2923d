"""Scores of CorefUD's own scorer, as JSON: `python corefud_reference.py SCORER GOLD PREDICTED`, with a Python that has udapi.
A run of the scorer for each setting; of each document, recall, precision and F1 of each metric in percent, unrounded."""

import itertools, json, logging, sys


def main(folder: str, gold: str, predicted: str):
    sys.path.insert(0, folder)
    logging.disable(logging.WARNING)
    from scorer.corefud.reader import CorefUDReader
    from scorer.eval import evaluator as e

    metrics = {
        "muc": e.muc,
        "b3": e.b_cubed,
        "ceafe": e.ceafe,
        "ceafm": e.ceafm,
        "blanc_corefud": [e.blancc, e.blancn],
        "lea": e.lea,
        "mor": e.mention_overlap,
        "zeros": e.als_zeros,
    }
    out = {}
    for match, singletons, zeros in itertools.product(
        ("exact", "head", "partial"), (True, False), ("dependent", "linear")
    ):
        how = {
            "keep_singletons": singletons,
            "keep_zeros": True,
            "match": match.replace("partial", "partial-corefud"),
            "zero_match_method": zeros,
        }
        reader = CorefUDReader(**how, format="corefud")
        reader.get_coref_infos(gold, predicted)
        docs = reader.doc_coref_infos
        for name in [*docs, None]:
            some = {name: docs[name]} if name else docs
            scores = {
                m: [100 * float(v) for v in e.evaluate_documents(some, f)]
                for m, f in metrics.items()
            }
            out.setdefault(name or "", {})[f"{match} {singletons} {zeros}"] = scores
    print(json.dumps(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
