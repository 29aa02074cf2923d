"Annotating a book: what was made is kept, what fails leaves nothing."

import json, os, sys
import pytest
import refnb
import tools
from refnb.core.corpora import sample
from refnb.core.types import RefnbError
from refnb.models.annotation.books import characters_yaml, read_characters

pytest.importorskip("torch", reason="needs refnb[models]")


@pytest.fixture(scope="module")
def story():
    "The first third of a story, with its characters."
    d = sample(characters=True)[0]
    sentences = d.sentences[:28]
    size = sum(map(len, sentences))
    clusters = [tuple(x for x in c if x.end < size) for c in d.clusters]
    names, clusters = zip(*((name, c) for name, c in zip(d.names, clusters) if c))
    return d.changed(sentences=sentences, clusters=clusters, names=names, labels={})


@pytest.fixture(scope="module")
def grower(toy):
    "The name of a tiny system that joins many mentions."
    return f"coref-minilm[checkpoint={toy.folder},threshold={toy.threshold - 0.5},bias=2]"


@pytest.fixture
def annotate(toy, grower, tmp_path):
    "A function that annotates in small windows, by rules and a tiny system."
    s = toy.settings.changed(runs=str(tmp_path / "runs"))
    usual = dict(s=s, system=grower, linker="rules", window=100, group=3)
    return lambda d, who, out="", **how: refnb.annotate(d, who, out, **usual | how)


def refused(text: str, call, *args, **how):
    "An error of one line that says this."
    with pytest.raises(RefnbError) as e:
        call(*args, **how)
    assert text in str(e.value) and "\n" not in str(e.value) and len(str(e.value)) <= 300


def files(folder) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name[0] != "."}


def places(folder) -> dict[str, int]:
    "The files of stages, each with its place on the disk: one that is made again has another."
    return {p.name[2:-6]: p.stat().st_ino for p in folder.glob("[1-9]_*.jsonl")}


class Killed(BaseException):
    "As if the process had died."


def killed_after(stage):
    def say(line):
        if line.startswith(stage):
            raise Killed

    return say


# What was made is kept


def test_a_killed_annotation_goes_on_where_it_was(story, annotate, tmp_path):
    annotate(story, story.names, tmp_path / "whole")
    for stage, kept in (("linked", {"linked"}), ("windows", {"linked", "windows"})):
        folder = tmp_path / stage
        with pytest.raises(Killed):
            annotate(story, story.names, folder, say=killed_after(stage))
        before = places(folder)
        assert before.keys() == kept and not (folder / "annotation.jsonl").exists()
        annotate(story, story.names, folder)
        assert files(folder) == files(tmp_path / "whole")
        assert places(folder).items() >= before.items(), "what was there is not made again"


KENNEL = """
import os, random, signal, sys, time
import torch; torch.set_num_threads(1)
import refnb
from refnb.models.annotation.stages import annotate
book, out, system, kills = sys.argv[1:]
[book], rng = refnb.read_documents(book), random.Random(0)
def go(): annotate(book, book.names, out, system=system, linker="rules", window=100, group=3)
for k in range(int(kills)):
    pid = os.fork()
    if not pid:
        go()
        os._exit(0)
    time.sleep(rng.uniform(0.01, 0.3)); os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
go()
"""


@pytest.mark.full  # beside the test above
def test_an_annotation_killed_at_any_instant_ends_the_same(
    story, annotate, grower, tmp_path, spawn
):
    annotate(story, story.names, tmp_path / "whole")
    book = refnb.write_documents([story], tmp_path / "book.jsonl")
    kills = os.environ.get("TEST_KILLS", 5)
    out, err = spawn(KENNEL, book, tmp_path / "out", grower, kills).communicate(timeout=tools.HANG)
    assert files(tmp_path / "out") == files(tmp_path / "whole"), err[-2000:]


def test_a_damaged_stage_is_made_again(story, annotate, tmp_path):
    annotate(story, story.names, tmp_path)
    whole = files(tmp_path)
    for name, damage in (
        ("1_linked.jsonl", lambda b: b.replace(b"[", b"[[0,0],", 1)),
        ("2_windows.jsonl", lambda b: b[:50]),
        ("3_grouped.jsonl", lambda b: b""),
        ("stages.json", lambda b: b[:50]),
    ):
        (tmp_path / name).write_bytes(damage(whole[name]))
        annotate(story, story.names, tmp_path)
        assert files(tmp_path) == whole, name


def test_only_what_depends_on_a_change_is_made_again(story, annotate, tmp_path):
    def made_again(who=story.names, **changed):
        before = places(tmp_path)
        annotate(story, who, tmp_path, **changed)
        return {k for k, at in places(tmp_path).items() if before.get(k) != at}

    assert made_again() == {"linked", "windows", "grouped"} and made_again() == set()
    assert made_again(group=2) == {"grouped"}
    assert made_again(group=2, window=90) == {"windows", "grouped"}
    assert made_again(["Hester"], group=2, window=90) == {"linked", "windows", "grouped"}


def test_two_processes_never_annotate_into_one_folder(story, annotate, tmp_path):
    asked = []

    def say(line):
        asked.append(line)
        refused("another process annotates a book here", annotate, story, story.names, tmp_path)

    annotate(story, story.names, tmp_path, say=say)
    assert asked


# A model may check each link

ASKED = """
import json, sys
from pathlib import Path
here = Path(__file__).parent
for n, line in enumerate(sys.stdin):
    if (here/"broken").exists() and n == 2: sys.exit(1)
    q = json.loads(line)
    with (here/"asked").open("a") as f: f.write(q["id"] + "\\n")
    print(json.dumps({"id": q["id"], "chosen": [n % 2]}), flush=True)
"""


def test_a_model_that_fails_is_asked_again_for_the_rest_alone(story, annotate, tmp_path):
    (tmp_path / "ask.py").write_text(ASKED)
    (tmp_path / "broken").write_text("")
    who = story.names
    how = dict(filter=f"command/{sys.executable} {tmp_path / 'ask.py'}", linker="pattern-matching")
    refused("answers are saved", annotate, story, who, tmp_path / "out", **how)
    assert places(tmp_path / "out").keys() == {"linked"}, "the stage stays open"
    (tmp_path / "broken").unlink()
    done = annotate(story, who, tmp_path / "out", **how)
    assert [*done.stages] == ["linked", "filtered", "windows", "grouped"]
    linked, counts = (done.stages[x].counts for x in ("linked", "filtered"))
    assert counts["kept"] + counts["dropped"] == linked["linked"] and counts["dropped"]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == len(set(asked)) == linked["linked"], "no link is asked about twice"


# Mentions


def test_gold_is_for_scores_alone(story, annotate):
    bare = annotate(story.changed(clusters=(), names=(), labels={}), story.names)
    known = annotate(story, story.names)
    assert bare.document.clusters == known.document.clusters
    assert bare.scores == {} and known.scores.keys() == known.stages.keys()


def test_a_mention_has_one_character_unless_released(story, annotate):
    seen = {}
    for seeding in ("constrained", "released"):
        done = annotate(story, story.names, seeding=seeding)
        spans = [x for c in done.document.clusters for x in c]
        seen[seeding] = len(spans) - len(set(spans))
        assert done.document.names == story.names
        assert sum(x.counts.get("grown", 0) for x in done.stages.values())
    assert seen["constrained"] == 0


def test_a_character_has_several_names_or_no_mention(story, annotate):
    d = refnb.Document("x", (("Lizzy", "met", "Darcy", "."), ("Miss", "Eliza", "left", ".")))
    who = [{"Elizabeth Bennet": ["Lizzy", "Miss Eliza"]}, "Mr. Darcy", "Zebedee Quill"]
    mentions = [refnb.Span(0, 0), refnb.Span(2, 2), refnb.Span(4, 5)]
    done = annotate(d, who, group=0, instead={"mentions": mentions})
    assert [bool(c) for c in done.document.clusters] == [True, True, False]
    assert done.stages["linked"].counts["without a mention"] == 1


def test_a_book_without_sentence_ends_or_without_anybody(annotate):
    words = ("Anna", "met", "Bell", "and", "she", "told", "him") * 60
    done = annotate(refnb.Document("long", (words,)), ["Anna", "Bell"], linker="pattern")
    assert min(map(len, done.document.clusters)) >= 60
    refused("no mention was found", annotate, refnb.Document("rain", ((".", "."),)), ["Anna"])


def test_any_system_that_gets_names_is_a_linker(story, annotate, tmp_path):
    made = [annotate(story, story.names, linker=x) for x in ("pattern", "pattern-matching")]
    assert made[0].document == made[1].document
    assert made[0].stages["linked"].key != made[1].stages["linked"].key
    refused("answers questions", annotate, story, story.names, linker="always-first")


def test_what_is_known_stands_in_place_of_a_stage(story, annotate, tmp_path):
    gold = [list(c) for c in story.clusters]
    known = {"linked": gold, "mentions": sorted(story.mentions)}
    done = annotate(story, story.names, tmp_path, instead=known)
    assert done.scores["linked"]["conll"] == pytest.approx(100)
    assert {x for c in done.document.clusters for x in c} == set(story.mentions)
    usual = annotate(story, story.names, tmp_path).stages["linked"]
    assert usual.key != done.stages["linked"].key, "what was given is not taken for what was made"


# What cannot be


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"nothing": 1}, "has no setting 'nothing'"),
        ({"seeding": "free"}, "seeding"),
        ({"group": -1}, "a group of -1 windows"),
        ({"window": 0}, "a window of 0 words"),
        ({"instead": {"link": []}}, "annotate has no stage 'link'; did you mean linked"),
        ({"instead": {"windows": [[]]}}, "1 clusters for"),
        ({"system": "pattern-matching"}, "is not a coreference system"),
        ({"system": "coref-mpnet"}, "is not trained; refnb train coref-mpnet"),
        ({"filter": "nobody"}, "unknown system 'nobody'"),
        ({"filter": "pattern-matching"}, "answers documents"),
        ({"linker": "rule"}, "unknown linker 'rule'; did you mean rules"),
        ({"linker": "coref-minilm"}, "unknown linker 'coref-minilm'"),
        ({"linker": "linker-minilm[checkpoint=nowhere]"}, "nowhere"),
    ],
    ids=str,
)
def test_what_cannot_be_leaves_no_file(story, annotate, tmp_path, wrong, said):
    refused(said, annotate, story, story.names, tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


# The linker and the system that the package carries


def test_trained_linkers_find_more_than_full_names(story, minilm, annotate):
    found = {}
    for linker in ("pattern", "rules", "linker-minilm"):
        done = annotate(story, story.names, linker=linker, system="coref-minilm", group=0)
        found[linker] = done.scores["linked"]["linking F1"]
    assert min(found["rules"], found["linker-minilm"]) > found["pattern"]


def test_a_book_is_annotated_by_a_command(story, minilm, tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)

    def annotate(*args):
        return tools.here(capsys, "annotate", *args)

    (tmp_path / "tale.txt").write_text("\n\n".join(" ".join(x) for x in story.sentences))
    proposed = annotate("tale.txt", "--out", "out", "--json")
    assert proposed.status == 0, proposed.err
    who = read_characters(tmp_path / "out/proposed.yaml")
    assert [c["name"] for c in json.loads(proposed.out)["characters"]] == [c.name for c in who]
    given = ("--characters", "out/proposed.yaml", "-p", "linker=rules", "-p", "window=100")
    done = annotate("tale.txt", "--out", "out", *given, "--json")
    told = json.loads(done.out)
    assert done.status == 0 and [*told["stages"]] == ["linked", "windows", "grouped"]
    [book] = refnb.read_documents(tmp_path / "out/annotation.jsonl")
    assert len(book.mentions) == told["mentions"] > 0
    assert (tmp_path / "out/characters.yaml").read_text() == characters_yaml(who)
    tools.one_line(annotate("tale.txt"), 2, "--out")
    tools.one_line(annotate("no.txt", "--out", "x"), 1, "no.txt")
    missing = ("tale.txt", "--characters", "no.yaml", "--out", "x")
    tools.one_line(annotate(*missing), 1, "no.yaml")
    assert not (tmp_path / "x").exists()
