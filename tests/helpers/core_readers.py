"Every reader of files, each with a small file that it reads."

import gzip, json, tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
import msgspec
import refnb
from core_documents import GAPS, GAP_ROW, STORIES, STORY, bert, booknlp_text, gap_text, in_pieces
from core_documents import kitmus_text, litbank_text, written
from refnb import Answer, Option, Question
from refnb.benchmarks import tasks
from refnb.benchmarks.altentities import builder, entities, questions, statistics
from refnb.benchmarks.given.tasks import read_items
from refnb.benchmarks.kitmus import reading
from refnb.benchmarks.kitmus.sampler import Resources
from refnb.core import corpora, files, runs, summaries
from refnb.core.formats import parse_gap_rows, with_labels
from refnb.core.jsonlines import parse_jsonlines
from refnb.core.reading import read_answers
from refnb.core.settings import load_settings, packaged
from refnb.core.types import FormatError, RefnbError, Usage
from refnb.models import command, registry
from refnb.models.language.models import LanguageModel
from refnb.models.live import Proof
from refnb.models.systems import Failure
from refnb.results import printed, stale
from refnb.results.papers import altentities_labels
from refnb.results.printed import read_paper


class Reader(NamedTuple):
    "A reader, a small file that it reads, and what must lie beside that."

    good: bytes
    read: Callable[[Path], object]
    name: str = "f.x"
    beside: dict[str, bytes] = {}


def read_or_one_line(reader: Reader, path: Path, data: bytes) -> object:
    "What a reader makes of a file, or None: its error is a line of 300 characters that names it."
    for name, other in reader.beside.items():
        if not (path.parent / name).exists():
            (path.parent / name).write_bytes(other)
    path.write_bytes(data)
    try:
        return reader.read(path)
    except RefnbError as e:
        error = str(e).replace(f"{path.parent}/", "")
    names = (reader.name, *reader.beside)  # of files that belong together, another may be named
    assert "\n" not in error and any(n in error for n in names) and len(error) <= 300, error
    return None


def places(good: bytes, n: int) -> list[int]:
    "Some places in a file where a value begins, and its two ends."
    begins = [i for i in range(1, len(good)) if good[i - 1] in b'(=:\t[{", \n']
    return sorted({0, len(good), *begins[:: max(1, len(begins) // n)]})


# Files


def head(name: str, lines: int) -> bytes:
    "The first lines of a file of the package."
    return b"".join(packaged(f"data/{name}").read_bytes().splitlines(keepends=True)[:lines])


def data(name: str) -> bytes:
    return packaged(f"data/{name}").read_bytes()


def encoded(record: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def lines(records) -> bytes:
    return b"".join(msgspec.json.encode(r) + b"\n" for r in records)


QUESTIONS = [
    Question(
        f"d:{i}",
        "d",
        "Ann met Bea. «She» smiled – 日本.",
        (13, 18),
        (Option("Ann"), Option("Bea", 'the "tall" one')),
        (i % 2,),
        {"type": "PRON", "n": i, "hard": None},
    )
    for i in range(6)
]
ANSWERS = [Answer(f"d:{i}", (i,), raw="é\n", usage=Usage(3, 4, 0.5)) for i in range(3)]
ANSWERS += [Answer("d:3", scores=(0.5, -1e-3)), Answer("d:4", reason="cut")]
PLAIN = b'{"id": "a"}\n' * 20
ANN, TXT = (t.encode() for t in litbank_text(STORY))
ENTITIES, TOKENS = (t.encode() for t in booknlp_text(STORY))
ALT = questions.read_altentities(packaged("data/sample/altentities.json"), "sample")
DRAFTS = [builder.draft_of(q, "sample", n) for n, q in enumerate(ALT[:2])]
HANDED_IN = {
    "page": builder.page_id(DRAFTS),
    "version": builder.ANSWERS_VERSION,
    "participant": "abcdefghij",
    "order": [d.id for d in DRAFTS],
    "answers": [
        {"id": d.id, "expressions": ["the old one", "not the other"], "seconds": 9.5}
        for d in DRAFTS
    ],
}
SHEET = b'id,question,judgement\nbooks-dev-0-1,"which, one?",text\n'
SHEET += b'books-dev-0-2,"a ""quoted"" one",other\nbooks-dev-3-0,,\n'
LABELS = b"id,expression,label\nsongs-dev-0-1,the old one,date; negation\nsongs-dev-0-2,not that,\n"
KITMUS = "kitmus/background-train/subtask_2_ents/task-text/test:0"
TEXTS = (
    b'{"doc_key": "%s", "sentences": [["Ann", "met", "Bea", "."], ["She", "sang", "."]], '
    b'"clusters": [[[0, 0], [4, 4]], [[2, 2]]]}\n' % KITMUS.encode()
)
GOLD = reading.gold_texts(parse_jsonlines(TEXTS))
KITMUS_ROW = GAP_ROW.changed(
    id=KITMUS,
    text="Ann met Bea. She sang.",
    pronoun_offset=13,
    a="Ann",
    a_offset=0,
    b="Bea",
    b_offset=8,
)
TABLE = gap_text([KITMUS_ROW]).encode()
CARD = summaries.outline_of("sample/identifyme", QUESTIONS)
INFO = runs.RunInfo(
    CARD.task, "random", {"questions": CARD.questions}, settings={"seed": 1}, prompt="which?"
)
SEAL = runs.Seal(2, 2, {"cut": 1}, 0.5, "abc")
COUNTS = {"d": {"full": {"muc": [1.0, 2.0, 3.0, 4.0]}}}
CREDIT = {QUESTIONS[0].id: 1.0, QUESTIONS[1].id: "cut"}
NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "metadata": {"tags": ["parameters"]},
            "source": ["seed: int = 0  # of the draw\n", "out: str = ''"],
        }
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}
PROVENANCE = {
    "table": "identifyme/table_1_composition",
    "title": "x",
    "sample": True,
    "mode": "",
    "parameters": {"seed": 0},
    "inputs": {"a/b/c": "0" * 40},
    "runs": {"sample/identifyme:random": "0" * 12},
    "summaries": {"sample/identifyme:random": "0" * 16},
    "made_with": {"its notebook": "0" * 16},
    "files": {"table_1_composition.csv": "0" * 64},
    "counts": {"match": 1, "beyond": 2, "missing": 3},
    "versions": {},
}
PAPER = """# printed values
title: "Who is she? – «Bea»"
cells:
  gpt-4o: {all: 81.5, hard: 0x1F, 'none of the above': ~}
  random: {all: 20.25, hard: -1.5e+3}
rows:
- value: 1
- value: |
    two
    lines
  note: '2001-01-02'
- value: !!str 3
  note: >-
    folded
    text
rounded: yes
"""


class Cell(msgspec.Struct):
    value: float | str | None
    note: str = ""


class Paper(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    cells: dict[str, dict[str, float | None]]
    rows: list[Cell] = []
    rounded: bool = False


def run_files() -> dict[str, bytes]:
    "The files of a complete run."
    with tempfile.TemporaryDirectory() as folder:
        run = runs.open_run(INFO, folder)
        with run.writing() as w:
            for a in ANSWERS:
                w.add(a)
        run.seal(a.id for a in ANSWERS)
        names = ("run.json", "seal.json", "answers.jsonl")
        return {name: (run.folder / name).read_bytes() for name in names}


RUN = run_files()


# Readers


def of_bytes(good: bytes, parse: Callable[[bytes, str], object]) -> Reader:
    "A reader of bytes that takes the file's name for errors."
    return Reader(good, lambda path: parse(path.read_bytes(), path.name))


def of_documents(good: bytes, name: str = "f.x", **beside: bytes) -> Reader:
    "A file that is known by how it begins, and one that belongs to it."
    return Reader(good, refnb.read_documents, name, {f"f.{k}": v for k, v in beside.items()})


def of_run(name: str) -> Reader:
    "A file of a run, whose others lie beside it."

    def read(path: Path):
        run = refnb.load_run(path.parent)
        return run.answers() and run.answers_so_far()

    return Reader(RUN[name], read, name, {k: v for k, v in RUN.items() if k != name})


def of_systems(path: Path) -> list[LanguageModel]:
    return [registry.record_of(e, LanguageModel) for e in registry.read_entries(path)]


def of_resource(name: str, read: Callable[[Resources], object], good: bytes) -> Reader:
    "A reader of one of KITMUS' resources; the others are the package's."

    def with_others(path: Path):
        return read(Resources(lambda n: path.read_bytes() if n == name else data(f"kitmus/{n}")))

    return Reader(good, with_others, Path(name).name)


def of_command(path: Path) -> list:
    "What a command wrote, a line per question."
    asked = {q.id: q for q in QUESTIONS}
    replies = path.read_bytes().splitlines()
    return [command.read_answer(line, asked, set(), path.name) for line in replies]


def of_proofs(path: Path) -> list:
    "What a command wrote to canaries, a line each."
    proofs, asked = [], {STORY.doc_key: STORY}
    for line in path.read_bytes().splitlines():
        proofs.append(command.read_answer(line, dict(asked), set(), path.name, Proof))
        if isinstance(proofs[-1], Failure):
            raise FormatError(proofs[-1].what, path.name)
    return proofs


def of_notebook(path: Path):
    return printed.parameters_of(printed.read_notebook(path), path.name)


def of_altentities(path: Path) -> list:
    return list(map(questions.expression_questions, questions.read_altentities(path)))


def of_yaml(kind: type) -> Callable[[Path], object]:
    return lambda path: files.read_yaml(path, kind)


def of_predictions(data: bytes, where: str) -> object:
    return reading.predictions(data, GOLD, where)


READERS = {
    "conll": of_documents(written(STORIES, "conll")),
    "jsonlines": of_documents(written(STORIES, "jsonl")),
    "kitmus": of_documents(kitmus_text(STORIES).encode()),
    "pieces": of_documents(in_pieces(STORIES, bert, 9).encode()),
    "clusters": of_documents(json.dumps(STORY.clusters, indent=1).encode()),
    "conllu": of_documents(written(STORIES, "conllu")),
    "gaps": of_documents(GAPS),
    "ann": of_documents(ANN, "f.ann", txt=TXT),
    "txt": Reader(
        TXT, lambda p: refnb.read_documents(p.with_name("f.ann")), "f.txt", {"f.ann": ANN}
    ),
    "labels": of_bytes(ANN, lambda data, where: with_labels(STORY, data, where)),
    "entities": of_documents(ENTITIES, "f.entities", tokens=TOKENS),
    "tokens": of_documents(TOKENS, "f.tokens", entities=ENTITIES),
    "gap": of_bytes(
        gap_text([GAP_ROW, GAP_ROW.changed(id="r-2", text=GAP_ROW.text + ' "\n')]).encode(),
        parse_gap_rows,
    ),
    "packed": Reader(gzip.compress(PLAIN, mtime=0), files.read_bytes, "f.gz"),
    "questions": Reader(lines(QUESTIONS), lambda path: list(files.read_jsonl(path, Question))),
    "answers": Reader(lines(ANSWERS), lambda path: read_answers(path, QUESTIONS)),
    "table of answers": Reader(
        b'id,answer\nd:0,Ann\nd:1,"Bea"\nd:2,1\nd:3,\n', lambda path: read_answers(path, QUESTIONS)
    ),
    "yaml": Reader(PAPER.encode(), of_yaml(Paper)),
    "any yaml": Reader(PAPER.replace("'2001-01-02'", "2001-01-02").encode(), of_yaml(dict)),
    "upstream": Reader(head("upstream/sets.yaml", 30), of_yaml(dict)),
    "systems": Reader(head("systems/language_models.yaml", 25), of_systems),
    "benchmark": Reader(data("cards/altentities.yaml"), tasks.read_card),
    "corpus": Reader(data("corpora/sample.yaml"), corpora.read_card_file),
    "printed": Reader(head("papers/identifyme.yaml", 35), read_paper),
    "settings": Reader(
        packaged("settings.ini").read_bytes(),
        lambda path: load_settings(path.parent, env={}),
        "settings.ini",
    ),
    "notebook": Reader(json.dumps(NOTEBOOK).encode(), of_notebook),
    "provenance": of_bytes(runs.with_id(encoded(PROVENANCE)), stale.as_provenance),
    "run": of_run("run.json"),
    "seal": of_run("seal.json"),
    "journal": of_run("answers.jsonl"),
    "card": Reader(encoded(CARD), summaries.read_outline),
    "summary": Reader(
        runs.with_id(encoded(summaries.Summary(INFO, SEAL, CREDIT, runs.SCHEMA))),
        lambda path: summaries.read_summary(path, CARD),
    ),
    "counts": Reader(
        runs.with_id(encoded(summaries.Summary(INFO, SEAL, {}, runs.SCHEMA, COUNTS, {"d": "abc"}))),
        summaries.read_summary,
    ),
    "altentities": Reader(
        json.dumps(json.loads(data("sample/altentities.json"))[14:16]).encode(), of_altentities
    ),
    "entities of altentities": Reader(
        head("sample/altentities_entities.jsonl", 3), entities.read_entities, "f.jsonl"
    ),
    "drafts": Reader(lines(DRAFTS), builder.read_drafts),
    "handed in": Reader(
        json.dumps(HANDED_IN, indent=1).encode(),
        lambda path: builder.read_annotations(path, DRAFTS),
    ),
    "judgements": Reader(SHEET, lambda path: statistics.read_sheet(path, "multi-modality")),
    "labels by hand": Reader(LABELS, lambda path: altentities_labels.read_labels(path, "right")),
    "denylist": Reader(b"# words\nbad word\nworse\n", entities.read_denied),
    "kitmus gold": Reader(TEXTS, lambda path: read_items(path, ["choice"])),
    "kitmus predictions": of_bytes(TEXTS, of_predictions),
    "kitmus predicted table": of_bytes(TABLE, of_predictions),
    "names": of_resource("names.csv", lambda r: r.names, b"lastname\nReed\nMoss\n"),
    "places": of_resource("locations.csv", lambda r: r.locations, head("kitmus/locations.csv", 3)),
    "words": of_resource("vocab.json", lambda r: r.vocab, data("kitmus/vocab.json")),
    "pronouns": of_resource("pronouns.json", lambda r: r.pronouns, data("kitmus/pronouns.json")),
    "noise": of_resource(
        "noise/cafe.txt",
        lambda r: r.noise_sentences("noise/cafe.txt"),
        head("kitmus/noise/cafe.txt", 2),
    ),
    "templates": of_resource(
        "templates/meet_sentence.txt",
        lambda r: r.templates("meet"),
        head("kitmus/templates/meet_sentence.txt", 3),
    ),
    "command": Reader(
        b'{"id":"d:0","chosen":[1]}\n{"id":"d:1","choice":"Bea"}\n'
        b'{"id":"d:2","scores":[0.5,1]}\n{"id":"d:3","error":"x"}\n',
        of_command,
    ),
    "proofs": Reader(
        b'{"id":"%s","clusters":[[[0,0],[1,2]]],"words":["a","b"]}\n' % STORY.doc_key.encode(),
        of_proofs,
    ),
}
