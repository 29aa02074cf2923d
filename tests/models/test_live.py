"""Coreference packages of others: their environments, workers, canaries; and, where the environments are, the packages themselves on tiny weights.

The contract is tested with a package made here: a wheel of one module, its requirements with hashes, a worker of a few lines. maverick-coref,
fastcoref and BookNLP are asked where `refnb setup` made their environments, or with TEST_FULL=1, which makes them; random weights stand for trained ones.
"""

import hashlib, json, os, subprocess, sys, zipfile
from pathlib import Path
import pytest
import tools
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.settings import load_settings, packaged
from refnb.core.types import DataError, Span
from refnb.benchmarks.tasks import find_task, given_task
from refnb.metrics.windows import split
from refnb.models.live import environments as made
from refnb.models.live.systems import LiveSystem, canaries, checkpoint_id, seeded
from refnb.models.registry import find_system
from refnb.models.running import run

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


@pytest.fixture
def home(tmp_path, monkeypatch):
    "A folder with a system of one's own, and settings that find it."
    mine = {"REFNB_SYSTEMS": str(tmp_path / "systems"), "OPENAI_API_KEY": "not for others"}
    for k in set(os.environ) - set(tools.clean(tmp_path)):
        monkeypatch.delenv(k)
    for k, v in tools.clean(tmp_path, **mine).items():
        monkeypatch.setenv(k, v)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "systems"
    folder.mkdir()
    _, digest = wheel(folder)
    (folder / "toy.yaml").write_text(ENTRY)
    (folder / "toy.py").write_text(WORKER)
    (folder / "toy.txt").write_text(f"toycoref==1.0 \\\n    --hash=sha256:{digest}\n")
    return tmp_path


@pytest.fixture
def refnb(home, capsys):
    "Run a command in this process."
    return lambda *args: tools.here(capsys, *args)


@pytest.fixture
def toy(home, monkeypatch):
    "The system in an environment that takes no time to make: nothing is installed, its package lies in a folder that it shares."
    folder = home / "systems"
    monkeypatch.syspath_prepend(str(folder))
    (folder / "toycoref.py").write_text(PACKAGE)
    (folder / "toy.txt").write_text("")
    (folder / "toy.yaml").write_text(ENTRY.replace("shares: [msgspec]", "shares: [toycoref]"))
    made.set_up("toy", say=lambda line: None)
    return folder


# Requirements


def test_requirements_are_exact_hashed_and_name_no_host():
    for p in made.environments().values():
        for file in p.requirements:
            lines = file.read_text().splitlines()
            assert not any("//" in line or line.startswith("-") for line in lines), file
            names = [line for line in lines if line[:1].isalpha()]
            hashes = [line for line in lines if line.startswith("    --hash=sha256:")]
            assert (
                (names or not lines)
                and all("==" in line for line in names)
                and len(hashes) >= len(names)
            )
            assert len(lines) == len(names) + len(hashes), file


def test_no_worker_runs_code_of_a_checkpoint():
    for path in packaged("data/live").glob("*.py"):
        text = path.read_text()
        assert (
            "trust_remote_code" not in text
            and "pickle.load" not in text
            and "weights_only=False" not in text
        ), path


# Setting up


def test_a_system_is_set_up_listed_and_run(refnb, home):
    tools.one_line(
        refnb("run", "sample/bookcoref", "toy"),
        1,
        "toy: its environment is not here: refnb setup toy",
    )
    said = refnb("setup", "toy", "--wheels", home / "systems")
    assert (
        said.status == 0
        and "toy: installing toy.txt" in said.out
        and said.out.endswith("toy: ready\n")
    )
    rows = {r["environment"]: r for r in json.loads(refnb("setup", "--json").out)["environments"]}
    assert (rows["toy"]["state"], rows["toy"]["licence"], rows["toy"]["megabytes"]) == (
        "ready",
        "MIT",
        1,
    )
    assert rows["fastcoref"]["systems"] == "fcoref, lingmess, booknlp"
    listed = {
        r["system"]: r["needs"]
        for r in json.loads(refnb("list", "systems", "--json").out)["systems"]
    }
    assert listed["toy"] == "environment toy" and "refnb setup maverick" in listed["maverick"]
    told = json.loads(refnb("run", "sample/bookcoref", "toy", "--json").out)
    assert (told["sealed"], told["documents"], told["system"]) == (True, 6, "toy")
    assert refnb("setup", "toy").out == "toy: ready\n"


def test_one_that_was_interrupted_is_made_anew(home, monkeypatch):
    def killed(command, doing, name):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(made, "_ran", killed)
        with pytest.raises(KeyboardInterrupt):
            made.set_up("toy", say=lambda line: None)
    p = made.the_environment("toy")
    p.folder.mkdir(parents=True, exist_ok=True)
    (p.folder / "half").write_text("")
    assert made.environment_state(p) == "interrupted"
    lines = []
    made.set_up("toy", wheels=str(home / "systems"), say=lines.append)
    assert (
        lines[0] == "toy: interrupted, starting over"
        and made.environment_state(p) == "ready"
        and not (p.folder / "half").exists()
    )


def test_it_is_out_of_date_where_anything_changed(toy, monkeypatch):
    p = made.the_environment("toy")
    assert made.environment_state(p) == "ready"
    with monkeypatch.context() as m:
        m.setattr(made, "PYTHON", "3.99")
        assert made.environment_state(p) == "out of date"
    seal = p.folder / made.SEAL
    seal.write_text(seal.read_text().replace(str(toy), str(toy / "gone")))
    assert made.environment_state(p) == "out of date"
    assert (
        find_system("toy").lacks(find_task("sample/bookcoref"))
        == "its environment is out of date: refnb setup toy"
    )


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda f: wheel(f, PACKAGE + "#"), "THESE PACKAGES DO NOT MATCH THE HASHES"),
        (
            lambda f: (f / "toy.txt").write_text("toycoref==1.0\n"),
            "Hashes are required in --require-hashes mode",
        ),
        (lambda f: (f / "toy.txt").unlink(), "toy.txt"),
    ],
)
def test_what_fails_is_told_in_one_line(refnb, home, change, why):
    change(home / "systems")
    tools.one_line(refnb("setup", "toy", "--wheels", home / "systems"), 1, why)
    tools.one_line(refnb("run", "sample/bookcoref", "toy"), 1)


def test_what_cannot_be_imported_is_no_environment(home, refnb):
    _, digest = wheel(home / "systems", "import no_such_module")
    (home / "systems" / "toy.txt").write_text(f"toycoref==1.0 --hash=sha256:{digest}\n")
    tools.one_line(
        refnb("setup", "toy", "--wheels", home / "systems"),
        1,
        "environment toy: its import failed: ModuleNotFoundError: No module named 'no_such_module'",
    )
    assert made.environment_state(made.the_environment("toy")) == "interrupted"


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


@pytest.fixture
def coded(home):
    "The toy's package as a repository; a function that writes its entry."
    first = repository(home, {"src/toycoref.py": PACKAGE})
    (home / "systems" / "none.txt").write_text("")

    def entry(commit=first, remote=str(home / "remote")):
        told = CODE.replace("REPOSITORY", remote).replace("COMMIT", commit)
        lines = [
            f"environment: {told}" if x[:11] == "environment" else x for x in ENTRY.split("\n")
        ]
        (home / "systems" / "toy.yaml").write_text("\n".join(lines))
        return made.the_environment("toy")

    return entry


def test_code_of_a_repository_is_fetched_at_its_commit(coded, refnb):
    first = coded().made_of.commit
    assert "toy: fetching" in refnb("setup", "toy").out
    assert git(made.the_environment("toy").folder / "repository", "rev-parse", "HEAD") == first
    assert run("sample/bookcoref", "toy").sealed
    lock = coded().lock
    assert coded(commit="0" * 40).lock != lock
    assert made.environment_state(made.the_environment("toy")) == "out of date"


@pytest.mark.parametrize(
    "changed, status, why",
    [
        ({"commit": "main"}, 2, "environment toy: 'main' is not a commit of 40 hex digits"),
        ({"commit": "0" * 40}, 1, "environment toy: git checkout failed: fatal: "),
        ({"remote": "nowhere"}, 1, "environment toy: git clone failed: fatal: "),
        ({"remote": "https://example.org/x"}, 1, "https://example.org/x; a network is needed"),
    ],
)
def test_code_that_cannot_be_fetched(coded, refnb, changed, status, why):
    coded(**changed)
    tools.one_line(refnb("setup", "toy"), status, why)
    assert made.environment_state(made.the_environment("toy")) == "interrupted"


def test_code_without_git(coded, monkeypatch):
    p = coded()
    monkeypatch.setattr(made.shutil, "which", lambda name: None)
    with pytest.raises(DataError, match="its code comes by git, which is not installed"):
        made.set_up("toy", say=lambda line: None)
    assert p.name == "toy"


# Longdoc and Dual cache: the authors' modules, classes and calls, in a repository that is made here

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
LONGDOC_WEIGHTS = """
import sys, numpy, torch
state = {"head.weight": torch.ones(1, 2), "head.bias": torch.ones(1)}
if sys.argv[2] == "lacks": state.pop("head.bias")
config = {"model": {"max_segment_len": 7}, "trainer": {}}
class Evil:
    def __reduce__(self): return print, ("the checkpoint ran code",)
told = {"model": state, "config": config, "np_rng_state": numpy.random.get_state(), "train_info": {"val_perf": numpy.float64(.5)}}
torch.save(told | ({"optimizer": Evil()} if sys.argv[2] == "evil" else {}), sys.argv[1])
"""


@pytest.fixture(scope="module")
def longdoc(tmp_path_factory):
    "An environment for both, with what stands for their code, and for OmegaConf."
    home = tmp_path_factory.mktemp("longdoc")
    first = repository(home, {f"src/{name}": text for name, text in LONGDOC.items()})
    (home / "none.txt").write_text("")
    told = f"{{requirements: none.txt, repository: {home}/remote, commit: '{first}', code: src, shares: [torch, transformers]}}"
    for name, own in (("longdoc", ""), ("dual-cache", 'settings: {cache: "25_25"}')):
        text = f"kind: live\ntitle: {name}\nworker: ask_longdoc.py\nenvironment: {told}\n{own}\n"
        (home / f"toy-{name}.yaml").write_text(text)
    s = load_settings(
        "/",
        env={},
        offline=True,
        cache=str(home / "cache"),
        systems=str(home),
        runs=str(home / "runs"),
        reports=str(home / "reports"),
    )
    for name in ("toy-longdoc", "toy-dual-cache"):
        p = made.set_up(name, s, say=lambda line: None)
    return p, s


@pytest.mark.parametrize("name", ["toy-longdoc", "toy-dual-cache"])
def test_longdoc_and_dual_cache_run_as_systems(longdoc, base, tmp_path, name):
    p, s = longdoc
    by(p, LONGDOC_WEIGHTS, tmp_path / "model.pth", "whole")
    own = {"checkpoint": str(tmp_path), "encoder": str(base), "canary": "wiring", "device": "cpu"}
    words = (("An", "unladen", "owl", "saw", "an", "owl", "."), (), ("The", "owl", "slept", "."))
    d = Document("owls", words)
    [found] = run([d], find_system(name, s, **own), s=s).answers().values()
    owl, stop = (Span(2, 2), Span(5, 5), Span(8, 8)), (Span(6, 6), Span(10, 10))
    assert sorted(found.clusters) == sorted([owl, stop])
    if name == "toy-dual-cache":
        [less] = run([d], find_system(name, s, cache="1_1", **own), s=s).answers().values()
        assert sorted(less.clusters) == sorted([owl[:2], stop])


@pytest.mark.parametrize(
    "how, why",
    [
        ("lacks", "1 missing weights in the checkpoint, the first is head.bias"),
        ("evil", "UnpicklingError: Weights only load failed"),
    ],
)
def test_a_longdoc_that_is_refused(longdoc, base, tmp_path, how, why):
    p, s = longdoc
    by(p, LONGDOC_WEIGHTS, tmp_path / "model.pth", how)
    own = {"checkpoint": str(tmp_path), "encoder": str(base), "canary": "wiring", "device": "cpu"}
    with pytest.raises(DataError, match=why):
        run(stories()[:1], find_system("toy-longdoc", s, **own), s=s)


def test_wrong_calls(refnb):
    tools.one_line(refnb("setup", "toys"), 2, "unknown environment 'toys'; did you mean toy?")
    tools.one_line(refnb("setup", "toy", "--wheels", "nowhere"), 2, "nowhere: is not a folder")
    tools.one_line(
        refnb("run", "sample/bookcoref", "toy", "-p", "leest=3"),
        2,
        "toy has no setting 'leest'; did you mean least?",
    )
    tools.one_line(
        refnb("run", "sample/ferryman", "toy"),
        2,
        "toy: answers documents, sample/ferryman has questions",
    )


# Being asked


def asked(folder: Path) -> int:
    "How many texts the package has read."
    path = folder / "asked.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_worker_prints_what_it_likes_and_sees_no_key(toy):
    done = run("sample/bookcoref", "toy")
    assert done.sealed and all(a.clusters for a in done.answers().values())
    seen = json.loads((toy / "seen.json").read_text())
    assert (
        "OPENAI_API_KEY" not in seen
        and seen["HF_HUB_OFFLINE"] == "1"
        and seen["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "1"
    )


def test_a_text_that_fails_is_asked_again_alone(toy, monkeypatch):
    docs = find_task("sample/bookcoref").documents
    others = {t for d in docs[:2] + docs[3:] for t in d.tokens}
    trap = next(t for t in docs[2].tokens if t not in others)
    with pytest.raises(
        DataError,
        match=f"1 of 6 failed .1 error.; the first is {docs[2].doc_key}: ValueError: cannot read",
    ):
        run("sample/bookcoref", "toy", trap=trap)
    before = asked(toy)
    with pytest.raises(DataError, match="1 of 6 failed"):
        run("sample/bookcoref", "toy", trap=trap)
    assert asked(toy) - before == len(canaries()) + 1  # and the text that failed
    monkeypatch.setenv("TRAP", "die")
    with pytest.raises(DataError, match="ended with status 3.*0 of 1 answers are saved"):
        run("sample/bookcoref", "toy", trap=trap)


@pytest.mark.parametrize(
    "how, why",
    [
        ("die", "ended with status 3"),
        ("kill", "ended with status -9 .killed: possibly out of memory"),
    ],
)
def test_what_was_answered_before_a_death_is_kept(toy, monkeypatch, how, why):
    docs = find_task("sample/bookcoref").documents
    trap = next(t for t in docs[3].tokens if t not in {t for d in docs[:3] for t in d.tokens})
    monkeypatch.setenv("TRAP", how)
    with pytest.raises(DataError, match=f"{why}.*3 of 6 answers are saved"):
        run("sample/bookcoref", "toy", trap=trap)
    before = asked(toy)
    with pytest.raises(DataError, match="0 of 3 answers are saved"):
        run("sample/bookcoref", "toy", trap=trap)
    assert asked(toy) - before == len(canaries()) + 1  # and the text on which it dies


def test_a_failed_canary_costs_no_question(toy):
    (toy / "toy.py").write_text(
        WORKER.replace(
            "[t for s in sentences for t in s]", "[t for s in sentences for t in s][::-1]"
        )
    )
    with pytest.raises(
        DataError,
        match="toy: failed its canary 'people': it reads '.' where the text has 'Alice' .token 0.; nothing was sent",
    ):
        run("sample/bookcoref", "toy")
    assert asked(toy) == 1
    (toy / "toy.py").write_text(WORKER)
    with pytest.raises(
        DataError,
        match="does not find 'Alice'; nothing was sent; if it is trained for another annotation",
    ):
        run("sample/bookcoref", "toy", canary="clusters")


def test_long_texts_bring_the_long_canary(toy):
    long = canaries()[2]
    run([Document("short", sample()[0].sentences[:3])], "toy")
    before = asked(toy)
    run([Document("long", long.sentences * 2)], "toy")
    assert asked(toy) - before == 4


def test_what_could_change_an_answer_names_the_run(toy):
    task = find_task("sample/bookcoref")
    weights = toy / "weights"
    weights.mkdir()
    (weights / "a").write_text("1")

    def identity(**changed):
        return find_system("toy", **changed).identity(task)

    usual = identity()
    assert identity(device="cpu", patience="5") == usual
    others = [identity(least="3"), identity(checkpoint=str(weights))]
    (weights / "a").write_text("2")
    others.append(identity(checkpoint=str(weights)))
    (toy / "toy.py").write_text(WORKER + "# another\n")
    others.append(identity())
    (toy / "toy.txt").write_text("# other packages\n")
    others.append(identity())
    assert len({json.dumps([i.settings, i.data], sort_keys=True) for i in [usual, *others]}) == 6


def test_weights_that_are_not_here(toy):
    task = find_task("sample/bookcoref")
    assert (
        find_system("toy", checkpoint="nobody/has-these").lacks(task)
        == "its checkpoint nobody/has-these is not here: hf download nobody/has-these, or name a folder with -p checkpoint=FOLDER"
    )
    assert (
        find_system("toy", encoder="/no/such/folder").lacks(task)
        == "its encoder /no/such/folder is not here: name a folder with -p encoder=FOLDER"
    )


# Linkers

LINKER = """
from refnb_worker import serve
def load(settings): return None
def words_of(_, sentences): return [t for s in sentences for t in s]
def linked(_, sentences, names):
    words = words_of(_, sentences)
    return {n: [(i, i) for i, t in enumerate(words) if t in n.split()] for n in names}
if __name__ == "__main__": serve(load, linked, words_of, names=True)
"""


@pytest.fixture
def linker(toy):
    "The toy as a linker."
    (toy / "toy.py").write_text(LINKER)
    (toy / "toy.yaml").write_text((toy / "toy.yaml").read_text() + "names: true\n")
    return toy


def test_a_linker_finds_the_mentions_of_names(linker, refnb):
    [story] = sample(characters=True)[:1]
    found = run([story], "toy").answers()[story.doc_key]
    assert (
        set(found.names) <= set(story.names)
        and len(found.names) == len(found.clusters)
        and all(found.clusters)
    )
    assert {story.tokens[s.start] for s in found.clusters[0]} <= set(found.names[0].split())
    other = run([story.changed(names=("Hester",), clusters=((),), labels={})], "toy").answers()[
        story.doc_key
    ]
    assert other.names == ("Hester",)  # another list of names is another task
    bare = Document("bare", story.sentences)
    with pytest.raises(DataError, match="needs the names of characters, and bare has none here"):
        run([bare], "toy")


def test_the_pipeline_links_with_any_system_that_gets_names(linker):
    from refnb.models.annotation.books import as_characters
    from refnb.models.annotation.stages import link_by_system

    [story] = sample(characters=True)[:1]
    who = as_characters([{"Hester": ["Tolley"]}, "Zebedee"])
    hester, zebedee = link_by_system(find_system("toy"), story, who)
    assert (
        {story.tokens[s.start] for s in hester} == {"Hester", "Tolley"}
        and not zebedee
        and hester == sorted(set(hester))
    )
    with pytest.raises(
        DataError,
        match="function/none: answers with clusters that have no names, so it cannot link",
    ):

        def none(d):
            return [[(0, 0)]]

        link_by_system(find_system(none), story, who)


# Known clusters, completed

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


@pytest.fixture
def seeding(toy, monkeypatch):
    "The toy with a script for seeds, which adds all equal words; without `least` it loses a mention."
    (toy / "seeds.py").write_text(SEEDS)
    (toy / "toy.yaml").write_text((toy / "toy.yaml").read_text() + "seeds: seeds.py\n")
    return toy


ANN = Document(
    "ann",
    (
        ("Ann", "met", "Bea", "."),
        ("Bea", "left", "Ann", "and", "she", "wept", "."),
        ("Rain", "she", "said", "."),
    ),
    ((Span(0, 0), Span(8, 8)), (Span(2, 2),)),
    ("Ann", "Bea"),
)


def annotated(**changed):
    "The toy's annotation of a text in windows of four words, with its seeds in place of links."
    pytest.importorskip("torch")
    from refnb.models.annotation.stages import annotate

    return annotate(
        ANN,
        ANN.names,
        **{
            "system": "toy",
            "linker": "pattern",
            "window": 4,
            "group": 2,
            "instead": {"linked": ANN.clusters},
        }
        | changed,
    )


def test_a_package_completes_windows_and_groups(seeding):
    done = annotated()
    assert [[s.start for s in c] for c in done.document.clusters] == [[0, 6, 8, 12], [2, 4]]
    assert (
        done.stages["windows"].counts == {"grown": 2, "conflicts": 0, "mentions": 5}
        and done.stages["grouped"].counts["grown"] == 1
    )


def test_a_mention_of_two_completed_clusters(seeding):
    both = {
        "linked": [ANN.clusters[0], (*ANN.clusters[1], Span(12, 12))]
    }  # "she" is Ann's and Bea's
    one, two = (
        annotated(seeding=x, group=0, window=50, instead=both) for x in ("constrained", "released")
    )
    assert [[s.start for s in c] for c in one.document.clusters] == [[0, 6, 8], [2, 4, 12]]
    assert [[s.start for s in c] for c in two.document.clusters] == [[0, 6, 8, 12], [2, 4, 8, 12]]
    assert two.stages["windows"].counts["conflicts"] == 2


def test_windows_that_were_completed_are_not_asked_again(seeding, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAP", "die")
    with pytest.raises(DataError, match="1 of 2 answers are saved"):
        annotated(system="toy[trap=left]", out=tmp_path / "out", window=3, group=0)
    before = len((seeding / "windows.txt").read_text().splitlines())
    monkeypatch.delenv("TRAP")
    (seeding / "toycoref.py").write_text(PACKAGE.replace("self.trap and", "False and"))
    assert annotated(
        system="toy[trap=left]", out=tmp_path / "out", window=3, group=0
    ).document.clusters
    asked = (seeding / "windows.txt").read_text().splitlines()[before:]
    assert asked == ["0"] * 2 + ["1"]  # canaries, and the window that failed


def test_completed_clusters_have_their_own_runs(seeding):
    task = given_task([ANN])
    usual, one = find_system("toy").identity(task), seeded(find_system("toy")).identity(task)
    other = seeded(find_system("toy")).identity(
        given_task([ANN.changed(clusters=ANN.clusters[::-1])])
    )
    assert {*one.data} == {*usual.data, "seeds", "seeds.py"} and one.data["seeds"] != other.data[
        "seeds"
    ]


def test_what_cannot_complete_clusters(seeding, home):
    from refnb.core.types import RefnbError

    pytest.importorskip("torch")
    for changed, why in (
        ({"system": "toy[least=0]"}, "toy.least=0., ann_split4_S0: lost 1 of 2 seeds of Ann"),
        ({"system": "fcoref"}, "fcoref is not a coreference system of refnb"),
        ({"linker": "rules"}, "toy finds the mentions of each window itself"),
    ):
        with pytest.raises(RefnbError, match=why):
            annotated(**changed)
    (seeding / "seeds.py").unlink()
    with pytest.raises(DataError, match="there is no worker seeds.py beside its YAML"):
        annotated(out=home / "out")
    assert not (home / "out").exists()


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


@pytest.fixture
def corenlp(home):
    "CoreNLP's folder, its environment, and a Java that answers as its server does; a function that makes the system."
    jars = home / "jars"
    jars.mkdir()
    (jars / "stanford-corenlp-4.5.10.jar").write_text("")
    (jars / "java.py").write_text(JAVA)
    (jars / "java").write_text(f'#!/bin/sh\nexec {sys.executable} {jars / "java.py"} "$@"\n')
    (jars / "java").chmod(0o755)
    made.set_up("corenlp", say=lambda line: None)

    def system(mode="", **changed):
        (jars / "mode").write_text(mode)
        return find_system(
            "corenlp",
            canary="wiring",
            **{"checkpoint": str(jars), "java": str(jars / "java")} | changed,
        )

    return system


def test_corenlp_runs_as_a_system_and_keeps_its_place_behind_line_feeds(corenlp, home):
    feeds = Document(
        "feeds",
        (("\n",), ("The", "oak", "fell", "."), ("\n", "\n"), ("It", "was", "an", "oak", ".")),
    )
    short = Document("short", (("She", "slept", "."),))
    done = run([feeds, short], corenlp())
    assert done.sealed and sorted(
        tuple(map(tuple, c)) for c in done.answers()["feeds"].clusters
    ) == [((2, 2), (10, 10)), ((4, 4), (11, 11))]
    args, how = json.loads((home / "jars" / "seen.json").read_text())
    assert args[:4] == [
        "-Xmx4g",
        "-cp",
        str(home / "jars" / "*"),
        "edu.stanford.nlp.pipeline.StanfordCoreNLPServer",
    ]
    assert dict(zip(args[4::2], args[5::2])) | {"-port": "", "-timeout": ""} == {
        "-host": "127.0.0.1",
        "-port": "",
        "-timeout": "",
        "-maxCharLength": "0",
        "-quiet": "true",
    }
    assert how == {
        "annotators": "tokenize,ssplit,pos,lemma,ner,depparse,coref",
        "coref.algorithm": "statistical",
        "outputFormat": "json",
        "tokenize.whitespace": "true",
        "ssplit.eolonly": "true",
    }
    run([short], corenlp(algorithm="deterministic"))
    assert json.loads((home / "jars" / "seen.json").read_text())[1]["annotators"].endswith(
        "parse,dcoref"
    )
    port = args[args.index("-port") + 1]
    assert not any(
        port in " ".join(p.info["cmdline"] or [])
        for p in tools.psutil.process_iter(["cmdline"])
        if "java.py" in " ".join(p.info["cmdline"] or [])
    )


@pytest.mark.parametrize(
    "mode, changed, why",
    [
        ("dies", {}, "CoreNLP's server ended with status 3"),
        ("joins", {}, "CoreNLP reads 12 tokens in 1 sentences, the text has 12 in 2"),
        ("", {"java": "no-such-java"}, "there is no program no-such-java: install Java 8 or later"),
        ("", {"algorithm": "fast"}, "unknown algorithm .fast.: statistical"),
        ("", {"start": "0"}, "server is not ready after 0 seconds"),
    ],
)
def test_a_corenlp_that_cannot_be_asked(corenlp, mode, changed, why):
    with pytest.raises(DataError, match=why):
        run([Document("short", (("She", "slept", "."),))], corenlp(mode, **changed))


def test_a_text_that_corenlp_refuses_stays_open(corenlp, home):
    docs = [Document("one", (("She", "slept", "."),)), Document("two", (("An", "oak", "."),))]
    with pytest.raises(
        DataError,
        match="1 of 2 failed .1 error.; the first is two: ValueError: HTTP 500: .*Could not handle incoming annotation",
    ):
        run(docs, corenlp("refuses"))
    (home / "jars" / "stanford-corenlp-4.5.10.jar").unlink()
    with pytest.raises(DataError, match="there are no jars"):
        run(docs, corenlp())


# The packages themselves


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


def environment(name: str, folder: Path) -> made.Place:
    "An environment of this machine's, or, when everything is tried, one that is made."
    p = made.the_environment(name, load_settings(Path(__file__).parent))
    if made.environment_state(p) == "ready":
        return p
    if not tools.FULL:
        pytest.skip(f"needs the environment {name}: refnb setup {name}, or TEST_FULL=1")
    return made.set_up(
        name, load_settings("/", env={}, cache=str(folder), offline=False), say=lambda line: None
    )


@pytest.fixture(scope="module")
def maverick(tmp_path_factory):
    return environment("maverick", tmp_path_factory.mktemp("environments"))


@pytest.fixture(scope="module")
def fastcoref(tmp_path_factory):
    return environment("fastcoref", tmp_path_factory.mktemp("environments"))


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    "A tiny encoder that knows the letters of the canaries and most words of some stories."
    from refnb.models.pairs.encoders import tiny_encoder

    return tiny_encoder(
        tmp_path_factory.mktemp("base"), [" ".join(d.tokens) for d in [*stories()[:4], *canaries()]]
    )


def by(p: made.Place, code: str, *args) -> str:
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


def in_place(p: made.Place, system: str, home: Path, **changed) -> LiveSystem:
    "A system of the package in an environment that is here."
    s = load_settings(
        "/",
        env={},
        offline=True,
        cache=str(p.folder.parents[1]),
        runs=str(home / "runs"),
        reports=str(home / "reports"),
    )
    return find_system(system, s, canary="wiring", device="cpu", **changed)


def test_the_pipeline_asks_maverick_for_windows_and_groups(maverick, base, tmp_path):
    from refnb.models.annotation.stages import annotate

    sentences = (("\n",), *stories()[0].sentences)  # of the seeds, words, the package finds some
    spans = [Span(i, i) for i in range(sum(map(len, sentences)))]
    d = Document("d", sentences, (spans[::4], spans[1::4]), ("One", "Other"))
    weights = as_checkpoint(tmp_path / "weights", base)
    s = in_place(
        maverick, "maverick", tmp_path, checkpoint=str(weights), encoder=str(base)
    ).settings

    def done(folder):
        return annotate(
            d,
            d.names,
            s=s,
            linker="pattern",
            window=60,
            group=2,
            instead={"linked": d.clusters},
            system=f"maverick[checkpoint={folder},encoder={base},canary=wiring,device=cpu]",
        )

    found = done(weights)
    assert all({*seeds} <= {*c} for seeds, c in zip(d.clusters, found.document.clusters))
    assert (
        found.stages["windows"].counts["grown"]
        and "grouped" in found.stages
        and len({*found.document.mentions}) == len(found.document.mentions)
    )
    other = as_checkpoint(tmp_path / "other", base, _target_="models.model_s2e.Maverick_s2e")
    with pytest.raises(DataError, match="ValueError: Maverick_s2e completes no clusters"):
        done(other)


def test_maverick_runs_as_a_system(maverick, base, tmp_path):
    weights = as_checkpoint(tmp_path / "weights", base)
    system = in_place(maverick, "maverick", tmp_path, checkpoint=str(weights), encoder=str(base))
    docs = [Document(d.doc_key, d.sentences[:6]) for d in stories()[:2]]
    done = run(docs, system, s=system.settings)
    assert (
        done.sealed
        and done.info.data["checkpoint"] == checkpoint_id(weights)
        and all(a.clusters for a in done.answers().values())
    )
    sliced = in_place(
        maverick, "maverick", tmp_path, checkpoint=str(weights), encoder=str(base), long="naive"
    )
    assert (
        run(docs, sliced, s=sliced.settings).answers() == done.answers()
    )  # no text is so long that it is sliced


EVIL = """
import sys, torch
class Evil:
    def __reduce__(self): return print, ("the checkpoint ran code",)
torch.save({"state_dict": {}, "hyper_parameters": {"model": Evil()}}, sys.argv[1])
"""


def test_a_checkpoint_that_would_run_code_is_refused(maverick, base, tmp_path):
    (tmp_path / "evil").mkdir()
    by(maverick, EVIL, tmp_path / "evil/weights.ckpt")
    system = in_place(
        maverick, "maverick", tmp_path, checkpoint=str(tmp_path / "evil"), encoder=str(base)
    )
    with pytest.raises(
        DataError,
        match="ended with status 1: cannot load its model: UnpicklingError: Weights only load failed",
    ):
        run(stories()[:1], system, s=system.settings)
    system = in_place(
        maverick,
        "maverick",
        tmp_path,
        checkpoint=str(as_checkpoint(tmp_path / "other", base, _target_="os.system")),
        encoder=str(base),
    )
    with pytest.raises(DataError, match="the checkpoint is of system, not of Maverick_mes"):
        run(stories()[:1], system, s=system.settings)


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


@pytest.mark.parametrize("name", KINDS)
def test_fastcoref_runs_as_a_system(fastcoref, base, tmp_path, name):
    by(fastcoref, TINY_FASTCOREF, base, tmp_path / "weights", *KINDS[name])
    system = in_place(fastcoref, name, tmp_path, checkpoint=str(tmp_path / "weights"))
    done = run(
        [Document(d.doc_key, d.sentences[:6]) for d in stories()[:2]], system, s=system.settings
    )
    assert done.sealed and all(a.clusters for a in done.answers().values())


def test_lingmess_leaves_out_no_text_in_silence(fastcoref, base, tmp_path):
    by(fastcoref, TINY_FASTCOREF, base, tmp_path / "weights", *KINDS["lingmess"])
    long = [Document("d", stories()[0].sentences * 3)]
    system = in_place(fastcoref, "lingmess", tmp_path, checkpoint=str(tmp_path / "weights"))
    with pytest.raises(
        DataError, match="the package leaves out texts of more than 300 pieces; run it on windows"
    ):
        run(long, system, s=system.settings)
    assert run(split(long[0], 40), system, s=system.settings).sealed


def test_fastcoref_goes_on_with_no_random_weights(fastcoref, base, tmp_path):
    by(fastcoref, TINY_FASTCOREF, base, tmp_path / "weights", *KINDS["fcoref"])
    import safetensors.torch as st

    kept = {
        k: v
        for k, v in st.load_file(tmp_path / "weights/model.safetensors").items()
        if "antecedent_s2s" not in k
    }
    st.save_file(kept, tmp_path / "weights/model.safetensors", {"format": "pt"})
    system = in_place(fastcoref, "fcoref", tmp_path, checkpoint=str(tmp_path / "weights"))
    with pytest.raises(
        DataError,
        match="cannot load its model: ValueError: 2 missing weights in the checkpoint, the first is antecedent_s2s_classifier.bias",
    ):
        run(stories()[:1], system, s=system.settings)


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


@pytest.fixture(scope="module")
def booknlp_weights(fastcoref, base, tmp_path_factory) -> Path:
    "Models of BookNLP's three steps with random weights, their BERT, and a parser that has seen one sentence."
    folder = tmp_path_factory.mktemp("booknlp")
    by(fastcoref, TINY_BOOKNLP, base, folder, 1)
    return folder


def booknlp(p: made.Place, weights: Path, home: Path, **changed) -> LiveSystem:
    own = {"checkpoint": str(weights), "encoder": str(weights), "parser": str(weights / "parser")}
    return in_place(p, "booknlp", home, **own | changed)


def test_booknlp_runs_as_a_system_and_keeps_its_place_behind_line_feeds(
    fastcoref, booknlp_weights, tmp_path
):
    system = booknlp(fastcoref, booknlp_weights, tmp_path)
    feeds = Document("feeds", ((("\n",),) + stories()[0].sentences[:2] + (("\n", "\n"),)) * 3)
    done = run(
        [feeds, *(Document(d.doc_key, d.sentences[:6]) for d in stories()[:2])],
        system,
        s=system.settings,
    )
    assert done.sealed and all(a.clusters for a in done.answers().values())
    spans = {s for c in done.answers()["feeds"].clusters for s in c}
    assert spans and not any(feeds.tokens[i] == "\n" for s in spans for i in s)
