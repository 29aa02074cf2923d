"Tiny coreference systems that have learnt a little; and trainings that die at a step."

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
import torch
import refnb
from refnb.core.corpora import sample
from refnb.core.settings import load_settings
from refnb.models.pairs.scorers import tiny_encoder


class Killed(BaseException):
    "As if the process had died."


def dying(monkeypatch, dies: Callable[[int], bool]) -> list[int]:
    "Let trainings die at steps whose number, from 1 over all trainings, fits; the list of steps."
    real, steps = torch.Tensor.backward, []

    def backward(*args, **how):
        steps.append(len(steps) + 1)
        if dies(steps[-1]):
            raise Killed
        return real(*args, **how)

    monkeypatch.setattr(torch.Tensor, "backward", backward)
    return steps


def beginning(d: refnb.Document, n: int) -> refnb.Document:
    "The first sentences of a story, with what is clustered in them."
    size = sum(map(len, d.sentences[:n]))
    clusters = (tuple(s for s in c if s.end < size) for c in d.clusters)
    return refnb.Document(d.doc_key, d.sentences[:n], tuple(filter(None, clusters)))


class Toy:
    "A system that has learnt from the beginnings of the sample's stories."

    def __init__(self, home: Path):
        self.home = home
        self.settings = load_settings(
            "/", env={}, offline=True, **{k: str(home / k) for k in ("cache", "runs", "reports")}
        )
        words = [" ".join(d.tokens) for d in sample()]
        size = dict(segment=64, context=8, hidden=16, widest=10, size=16, ffn=16, frozen=1)
        self.recipe = dict(encoder=str(tiny_encoder(home / "tiny", words)), **size)
        self.recipe |= dict(epochs=2, lr=3e-3, tune=False)
        learnt = [
            beginning(d, n).changed(doc_key=f"{d.doc_key}-{n}") for n in (12, 16) for d in sample()
        ]
        self.stories = str(refnb.write_documents(learnt, home / "stories.jsonl"))
        self.folder = self.train().folder

    def train(self, what: str = "", system: str = "coref-minilm", **changed):
        "Train a system on a file, or on the beginnings of the stories."
        return refnb.train(system, what or self.stories, s=self.settings, **self.recipe | changed)

    @cached_property
    def threshold(self) -> float:
        "A threshold at which it finds some mentions, but not every span."
        story = sample()[0]
        tried = (-2 - x / 10 for x in range(80))
        return next(x for x in tried if len(self.resolve(story, threshold=x).mentions) > 40)

    @property
    def loose(self) -> dict:
        return dict(checkpoint=str(self.folder), threshold=self.threshold)

    def resolve(self, what, **changed):
        return refnb.resolve(what, s=self.settings, **{"checkpoint": str(self.folder), **changed})

    def run(self, task, **changed):
        return refnb.run(
            task, "coref-minilm", s=self.settings, **{"checkpoint": str(self.folder), **changed}
        )
