"Packages of others, made here: a toy, stand-ins for Longdoc and CoreNLP, random weights."

import hashlib, os, subprocess, zipfile
from pathlib import Path
import refnb
import tools
from refnb.core.corpora import sample
from refnb.core.settings import load_settings, packaged
from refnb.models import environments as made

# A package of one module, and its worker

WORKER = """
import json, os, sys
from pathlib import Path
from refnb_worker import serve
HERE = Path(__file__).parent

def load(settings):
    import toycoref
    print("loading, said on standard output")
    os.write(1, b"and written past Python\\n")
    (HERE/"seen.json").write_text(json.dumps(dict(os.environ)))
    return toycoref.Same(**{k: settings[k] for k in ("least", "trap")})

def words_of(same, sentences): return [t for s in sentences for t in s]

def clusters_of(same, sentences):
    with (HERE/"asked.txt").open("a") as f: f.write(f"{len(sentences)}\\n")
    return same(words_of(same, sentences))

if __name__ == "__main__": serve(load, clusters_of, words_of)
"""
PACKAGE = """
import os
class Same:
    "Joins tokens that are equal; some texts are a trap."
    def __init__(self, least, trap): self.least, self.trap = least, trap
    def __call__(self, tokens):
        print("found nothing yet")
        if self.trap and self.trap in tokens:
            if os.environ.get("TRAP") == "die": os._exit(3)
            if os.environ.get("TRAP") == "kill": os.kill(os.getpid(), 9)
            raise ValueError(f"cannot read {self.trap!r}\\nat all")
        places = {}
        for i, t in enumerate(tokens): places.setdefault(t, []).append((i, i))
        return [c for c in places.values() if len(c) >= self.least]
"""
ENTRY = """
kind: live
title: Toy
worker: toy.py
environment: {requirements: toy.txt, modules: [toycoref], shares: [msgspec], licence: MIT, about: toycoref 1.0, megabytes: 1}
settings: {least: 2, trap: ""}
canary: wiring
"""


def wheel(folder: Path, text: str = PACKAGE) -> tuple[Path, str]:
    "A package of one module, and its hash."
    path = folder / "toycoref-1.0-py3-none-any.whl"
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: toycoref\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files = {"toycoref.py": text} | {f"toycoref-1.0.dist-info/{k}": v for k, v in about.items()}
    record = "".join(f"{name},,\n" for name in [*files, "toycoref-1.0.dist-info/RECORD"])
    with zipfile.ZipFile(path, "w") as z:
        for name, data in (files | {"toycoref-1.0.dist-info/RECORD": record}).items():
            z.writestr(zipfile.ZipInfo(name), data)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


# Scripts of the toy as a linker, and as what completes known clusters

LINKER = """
from refnb_worker import serve
def load(settings): return None
def words_of(_, sentences): return [t for s in sentences for t in s]
def linked(_, sentences, names):
    words = words_of(_, sentences)
    return {n: [(i, i) for i, t in enumerate(words) if t in n.split()] for n in names}
if __name__ == "__main__": serve(load, linked, words_of, names=True)
"""
SEEDS = """
from pathlib import Path
from refnb_worker import serve
from toy import load, words_of
HERE = Path(__file__).parent

def completed(same, sentences, names):
    words = words_of(same, sentences)
    same(words)  # which fails on its trap
    with (HERE/"windows.txt").open("a") as f: f.write(f"{len(dict(names))}\\n")
    known = {name: {words[a] for a, b in spans} for name, spans in dict(names).items()}
    return {name: [(i, i) for i, t in enumerate(words) if t in known[name] and (i != 0 or same.least)] for name in names}
if __name__ == "__main__": serve(load, completed, words_of, names=True)
"""


# Code that comes from a repository


def git(folder: Path, *args) -> str:
    "What git says, in a repository that is made here."
    who = ["-c", "user.name=toy", "-c", "user.email=toy@example.org"]
    command = ["git", "-C", folder, *who, *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def repository(home: Path, files: dict[str, str]) -> str:
    "A repository with these files; its second commit has none. The first commit's id."
    remote = home / "remote"
    for name, text in files.items():
        (remote / name).parent.mkdir(parents=True, exist_ok=True)
        (remote / name).write_text(text)
    git(home, "init", "-q", remote)
    git(remote, "add", "-A")
    git(remote, "commit", "-qm", "first")
    first = git(remote, "rev-parse", "HEAD")
    git(remote, "rm", "-rq", ".")
    git(remote, "commit", "-qm", "second")
    return first


CODE = "{requirements: none.txt, repository: REPOSITORY, commit: 'COMMIT', code: src, modules: [toycoref], shares: [msgspec]}"

# Longdoc and Dual cache: the authors' modules, classes and calls

LONGDOC = {
    "inference/__init__.py": "",
    "inference/tokenize_doc.py": """
def tokenize_and_segment_doc(document, tokenizer, max_segment_len=4096):
    words = [w for s in document for w in s]
    pieces = [(i, p) for i, w in enumerate(words) for p in tokenizer.tokenize(" " + w)]
    ids = tokenizer.convert_tokens_to_ids([p for _, p in pieces])
    cut = range(0, len(ids), max_segment_len)
    return {"orig_tokens": words, "sentences": [ids[i:i + max_segment_len] for i in cut], "subtoken_map": [i for i, _ in pieces]}
""",
    "inference/model_inference.py": """
import torch
from os import path
from logger import *
from omegaconf import OmegaConf
from model.entity_ranking_model import EntityRankingModel
from inference.tokenize_doc import tokenize_and_segment_doc
from transformers import AutoTokenizer
class Inference:
    def __init__(self, model_path, encoder_name=None):
        checkpoint = torch.load(path.join(model_path, "model.pth"), map_location="cpu")
        self.config = OmegaConf.create(checkpoint["config"])
        self.model = EntityRankingModel(self.config.model, self.config.trainer)
        self.model.load_state_dict(checkpoint["model"], strict=False)
        self.max_segment_len = self.config.model.max_segment_len
        self.tokenizer = AutoTokenizer.from_pretrained(encoder_name)
    @torch.no_grad()
    def perform_coreference(self, document):
        told = tokenize_and_segment_doc(document, self.tokenizer, max_segment_len=self.max_segment_len)
        return {"tokenized_doc": told, "subtoken_idx_clusters": self.model(told)}
""",
    "model/__init__.py": "",
    "omegaconf/__init__.py": """
from types import SimpleNamespace
for name in "AnyNode BooleanNode DictConfig FloatNode IntegerNode ListConfig StringNode".split():
    globals()[name] = type(name, (), {})
class OmegaConf:
    @staticmethod
    def create(d): return SimpleNamespace(**{k: OmegaConf.create(v) if isinstance(v, dict) else v for k, v in d.items()})
""",
    "omegaconf/base.py": "class ContainerMetadata: pass\nclass Metadata: pass\nclass SCMode: pass\n",
    "model/entity_ranking_model.py": """
import torch
class EntityRankingModel(torch.nn.Module):
    "Joins words that are equal, in whole words; the caches are the longest cluster."
    def __init__(self, model_config, train_config):
        super().__init__()
        self.head = torch.nn.Linear(2, 1)
        self.lm_encoder = torch.nn.Linear(2, 1)
    def forward(self, document, cache_mode="9_9"):
        most, pieces, found = sum(map(int, cache_mode.split("_"))), {}, {}
        for k, i in enumerate(document["subtoken_map"]): pieces.setdefault(i, []).append(k)
        for i, ks in pieces.items(): found.setdefault(document["orig_tokens"][i], []).append((ks[0], ks[-1]))
        assert len(torch.LongTensor([most]).cuda()) == 1
        return [c[:most] for c in found.values() if len(c) > 1]
""",
}

# CoreNLP: a server in Java, for which a small one in Python stands here

JAVA = """
import json, sys, urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
HERE = Path(__file__).parent
args = sys.argv[1:]
asked = []
mode = (HERE/"mode").read_text()
if mode == "dies": sys.exit(3)

class Server(BaseHTTPRequestHandler):
    ready = 0
    def log_message(self, *args): pass
    def say(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())
    def do_GET(self):
        Server.ready += 1
        self.say(503 if Server.ready < 3 else 200, "")
    def do_POST(self):
        how = json.loads(urllib.parse.parse_qs(self.path.partition("?")[2])["properties"][0])
        (HERE/"seen.json").write_text(json.dumps([args, how]))
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if mode == "refuses" and "oak" in text: return self.say(500, "Could not handle incoming annotation\\nat all")
        lines = [line.split(" ") for line in text.split("\\n")]
        if mode == "joins": lines = [sum(lines, [])]
        chains = {}
        for n, s in enumerate(lines, 1):
            for i, w in enumerate(s, 1): chains.setdefault(w, []).append({"sentNum": n, "startIndex": i, "endIndex": i + 1, "text": w})
        read = [{"index": n, "tokens": [{"index": i, "word": w, "originalText": w} for i, w in enumerate(s, 1)]} for n, s in enumerate(lines)]
        self.say(200, json.dumps({"sentences": read, "corefs": {str(n): c for n, c in enumerate(chains.values()) if len(c) > 1}}))

HTTPServer(("127.0.0.1", int(args[args.index("-port") + 1])), Server).serve_forever()
"""


# The packages themselves, with random weights


def stories():
    "The beginnings of the sample's stories, none longer than 180 words."
    out = []
    for d in sample():
        n = next(
            (i for i in range(len(d.sentences)) if sum(map(len, d.sentences[: i + 1])) > 180),
            len(d.sentences),
        )
        words = sum(map(len, d.sentences[:n]))
        clusters = [[s for s in c if s.end < words] for c in d.clusters]
        out.append(
            d.changed(
                sentences=d.sentences[:n], clusters=[c for c in clusters if c], names=(), labels={}
            )
        )
    return out


def by(p: made.EnvironmentPlace, code: str, *args) -> str:
    "What code prints that the environment's Python runs."
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {
        "PYTHONPATH": str(packaged("data/live")),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    got = subprocess.run(
        [p.python, "-c", code, *map(str, args)],
        env=env,
        capture_output=True,
        text=True,
        timeout=tools.HANG,
    )
    assert got.returncode == 0, got.stderr[-2000:]
    return got.stdout


HEADS = {
    "start_token_classifier": (32, 32, 1),
    "start_token_representation": (32, 32, 32),
    "end_token_representation": (32, 32, 32),
    "start_end_classifier": (64, 32, 1),
    "coref_start_all_mlps": (32, 64, 224),
    "coref_end_all_mlps": (32, 64, 224),
}


def random_state(base, seed=9):
    "The state of Maverick's model with random weights, on a tiny encoder."
    import torch, transformers

    drawn = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=drawn)
    encoder = transformers.AutoModel.from_pretrained(base).state_dict()
    out = {
        f"encoder.{k}": draw(*v.shape) / 6 + ("LayerNorm.weight" in k)
        for k, v in encoder.items()
        if v.is_floating_point()
    }
    words = out["encoder.embeddings.word_embeddings.weight"]
    out["encoder.embeddings.word_embeddings.weight"] = torch.cat([words, draw(3, 32) / 6])
    for name, (inputs, hidden, outputs) in HEADS.items():
        for layer, shape in (
            ("dense1", (hidden, inputs)),
            ("layer_norm", (hidden,)),
            ("dense", (outputs, hidden)),
        ):
            out[f"{name}.layer.{layer}.weight"] = draw(*shape) / 4
            out[f"{name}.layer.{layer}.bias"] = draw(shape[0]) / 4
    for pair in ("s2s", "e2e", "s2e", "e2s"):
        out[f"antecedent_{pair}_all_weights"] = draw(7, 32, 32) / 8
        out[f"antecedent_{pair}_all_biases"] = draw(7, 32) / 8
    return out


def as_checkpoint(folder: Path, base: Path, **told) -> Path:
    "Random weights as a checkpoint of Lightning."
    import torch

    folder.mkdir(exist_ok=True)
    model = {
        "_target_": "models.model_mes.Maverick_mes",
        "huggingface_model_name": "nobody/none",
        "freeze_encoder": False,
        "span_representation": "concat_start_end",
    }
    state = {f"model.{k}": v for k, v in random_state(base).items()}
    torch.save(
        {"state_dict": state, "hyper_parameters": {"model": model | told}}, folder / "weights.ckpt"
    )
    return folder


def in_place(p: made.EnvironmentPlace, system: str, home: Path, **changed):
    "A system of the package in an environment that is here."
    s = load_settings(
        "/",
        env={},
        offline=True,
        cache=str(p.folder.parents[1]),
        runs=str(home / "runs"),
        reports=str(home / "reports"),
    )
    return refnb.find_system(system, s, canary="wiring", device="cpu", **changed)


EVIL = """
import sys, torch
class Evil:
    def __reduce__(self): return print, ("the checkpoint ran code",)
torch.save({"state_dict": {}, "hyper_parameters": {"model": Evil()}}, sys.argv[1])
"""
TINY_FASTCOREF = """
import importlib, sys, torch
from transformers import AutoConfig, AutoTokenizer, LongformerConfig
base, out, module, name = sys.argv[1:]
made = getattr(importlib.import_module(f"fastcoref.coref_models.{module}"), name)
made.all_tied_weights_keys = {}
config = AutoConfig.from_pretrained(base)
head = {"max_span_length": 8, "top_lambda": .4, "ffnn_size": 32, "dropout_prob": .0, "max_segment_len": 64}
if module == "modeling_lingmess":
    made._supports_sdpa = False
    config = LongformerConfig(vocab_size=config.vocab_size, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, attention_window=[16, 16], max_position_embeddings=514, pad_token_id=0)
    head["max_doc_len"] = 300
config.coref_head = head
torch.manual_seed(3)
model = made(config)
with torch.no_grad():
    for p in model.parameters(): p.add_(torch.randn(p.shape)/6)
model.save_pretrained(out)
AutoTokenizer.from_pretrained(base).save_pretrained(out)
"""
KINDS = {
    "fcoref": ("modeling_fcoref", "FCorefModel"),
    "lingmess": ("modeling_lingmess", "LingMessModel"),
}
TINY_BOOKNLP = """
import json, shutil, sys, torch
from pathlib import Path
import ask_booknlp as worker
base, out, name = Path(sys.argv[1]), Path(sys.argv[2]), "bert_uncased_L-2_H-32_A-4"
shutil.copytree(base, out/name)
vocabulary = json.loads((base/"tokenizer.json").read_text())["model"]["vocab"]
(out/name/"vocab.txt").write_text("\\n".join(sorted(vocabulary, key=vocabulary.get)))
worker.with_old_models(str(out))
import booknlp.english as english
from booknlp.common.sequence_layered_reader import read_tagset
from booknlp.english.bert_coref_quote_pronouns import BERTCorefTagger
from booknlp.english.speaker_attribution import BERTSpeakerID
from booknlp.english.tagger import Tagger
data = Path(english.__file__).parent/"data"
torch.manual_seed(int(sys.argv[3]))
models = {"entities": Tagger(base_model=f"entities_google/{name}-v1", tagset_flat={"EVENT": 1, "O": 1}, supersense_tagset=read_tagset(data/"supersense.tagset"), tagset=read_tagset(data/"entity_cat.tagset"), device="cpu"),
          "speaker": BERTSpeakerID(base_model=f"speaker_google/{name}-v1"),
          "coref": BERTCorefTagger(gender_cats=[["he"]] * 5, freeze_bert=True, base_model=f"coref_google/{name}-v1", pronominalCorefOnly=True)}
with torch.no_grad():  # tags that depend on the words
    for p in [*models["entities"].bert.parameters(), *models["entities"].lstm1.parameters()]: p.mul_(3)
    for k in (1, 2, 3): getattr(models["entities"], f"hidden2tag{k}").weight.mul_(40/k)
for step, model in models.items():
    weights = model.state_dict() | {"bert.embeddings.position_ids": torch.arange(512)[None]}
    torch.save(weights, out/f"{step}_google_{name}-v1.0.model")
import spacy
from spacy.training import Example
parser = spacy.blank("en")
parser.add_pipe("tagger")
parser.add_pipe("parser", config={"min_action_freq": 1})
told = {"words": ["The", "old", "oak", "fell", "."], "heads": [2, 2, 3, 3, 3], "deps": ["det", "amod", "nsubj", "ROOT", "punct"], "tags": ["DT", "JJ", "NN", "VB", "."]}
examples = [Example.from_dict(parser.make_doc(" ".join(told["words"])), told)]
parser.initialize(lambda: examples)
for _ in range(9): parser.update(examples)
parser.to_disk(out/"parser")
"""
