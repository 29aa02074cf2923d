"""Embed texts with a model of TensorFlow Hub, such as the Universal Sentence Encoder: ask_use.py MODEL OUT.

A JSON list of texts comes on standard input; OUT becomes a .npy file with a row for each text."""

import json, sys
import numpy as np
import tensorflow_hub as hub

AT_ONCE = 64


def main(model: str, out: str):
    texts = json.load(sys.stdin)
    embed = hub.load(model)
    rows = [np.asarray(embed(texts[i : i + AT_ONCE])) for i in range(0, len(texts), AT_ONCE)]
    np.save(out, np.concatenate(rows).astype("float32"), allow_pickle=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
