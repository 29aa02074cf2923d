"""Answer questions with an encoder of TensorFlow Hub, such as the Universal Sentence Encoder: ask_use.py MODEL.

A program as any other: questions come as JSON lines, answers leave as JSON lines, a score for each option: the cosine of
its vector and the expression's."""

import json, os, sys
import numpy as np


def option_text(o):
    "An option's text: its name, and its description if it has one."
    return f"{o['name']}. {o['description']}" if o.get("description") else o["name"]


def main(model):
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the package prints goes to standard error
    import tensorflow_hub as hub

    embed = hub.load(model)
    for line in sys.stdin:
        q = json.loads(line)
        expression = q["text"][slice(*q["chars"])] if q["chars"] else q["text"].strip()
        rows = np.asarray(embed([expression, *map(option_text, q["options"])]), float)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        print(
            json.dumps({"id": q["id"], "scores": (rows[1:] @ rows[0]).tolist()}),
            file=out,
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
