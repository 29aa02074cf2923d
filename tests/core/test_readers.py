"Every reader of files, on damaged files, on a megabyte of one thing, and on values that no file should hold."

import gzip, hashlib, json, subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
import msgspec
import pytest
from test_coref_formats import (
    ANN,
    DOCS,
    ENTITIES,
    GAPS,
    ROW,
    STORY,
    TOKENS,
    TXT,
    bert,
    gap_text,
    in_pieces,
    kitmus_text,
)
from test_formats import ANSWERS, DOCUMENTS, PAPER, PLAIN, QUESTIONS, Paper, mutated
from tools import FULL, HANG, growth
from refnb.benchmarks import tasks
from refnb.benchmarks.altentities import annotation_page, builder, entities, questions, statistics
from refnb.benchmarks.kitmus import reading
from refnb.benchmarks.kitmus.sampler import Resources
from refnb.core import conll, conllu, corpora, files, gap, jsonlines, runs, standoff, summaries
from refnb.core.documents import Document
from refnb.core.reading import read_documents
from refnb.core.settings import load_settings, packaged
from refnb.core.types import Answer, CallError, FormatError, Question, RefnbError
from refnb.models import command, registry
from refnb.models.language.models import LanguageModel
from refnb.models.systems import Failure
from refnb.results import board, notebooks
from refnb.results.printed import read_paper
from refnb.results.papers import altentities_sheets


class Reader(NamedTuple):
    "A reader, and a small file that it reads; what it is called with is in that file."

    good: bytes
    read: Callable[[Path], object]
    name: str = "f.x"


def of_bytes(good: bytes, parse: Callable[[bytes, str], object]) -> Reader:
    "A reader of bytes that takes the file's name for errors."
    return Reader(good, lambda path: parse(path.read_bytes(), path.name))


def head(name: str, lines: int) -> bytes:
    "The first lines of a file of the package."
    return b"".join(packaged(f"data/{name}").read_bytes().splitlines(keepends=True)[:lines])


def systems(path: Path) -> list[LanguageModel]:
    "The language models of a file."
    return [registry.record_of(e, LanguageModel) for e in registry.read_entries(path)]


def resource(name: str, read: Callable[[Resources], object], good: bytes) -> Reader:
    "A reader of one of KITMUS' resources; the others are the package's."
    others = packaged("data/kitmus")
    return Reader(
        good,
        lambda path: read(
            Resources(lambda n: path.read_bytes() if n == name else (others / n).read_bytes())
        ),
        Path(name).name,
    )


def said(path: Path) -> list:
    "What a command wrote, a line per question."
    return [
        command.read_answer(line, {q.id: q for q in QUESTIONS}, set(), path.name)
        for line in path.read_bytes().splitlines()
    ]


def proofs(path: Path) -> list:
    "What a command wrote to canaries, a line each."

    def proof(line: bytes):
        asked = {STORY.doc_key: STORY}
        answer = command.read_answer(line, asked, set(), path.name, command.Proof)
        if isinstance(answer, Failure):
            raise FormatError(answer.what, path.name)
        return answer

    return [proof(line) for line in path.read_bytes().splitlines()]


ALT = questions.read_altentities(packaged("data/sample/altentities.json"), "sample")
DRAFTS = [builder.draft_of(q, "sample", n) for n, q in enumerate(ALT[:2])]
HANDED_IN = {
    "page": annotation_page.page_id(DRAFTS),
    "version": annotation_page.VERSION,
    "participant": "abcdefghij",
    "order": [d.id for d in DRAFTS],
    "answers": [
        {"id": d.id, "expressions": ["the old one", "not the other"], "seconds": 9.5}
        for d in DRAFTS
    ],
}
SHEET = b'id,question,judgement\nbooks-dev-0-1,"which, one?",text\nbooks-dev-0-2,"a ""quoted"" one",other\nbooks-dev-3-0,,\n'
LABELS = b"id,expression,label\nsongs-dev-0-1,the old one,date; negation\nsongs-dev-0-2,not that,\n"
KITMUS = "kitmus/background-train/subtask_2_ents/task-text/test:0"
TEXTS = (
    b'{"doc_key": "%s", "sentences": [["Ann", "met", "Bea", "."], ["She", "sang", "."]], "clusters": [[[0, 0], [4, 4]], [[2, 2]]]}\n'
    % KITMUS.encode()
)
GOLD = reading.gold_texts(TEXTS)
TABLE = gap_text(
    [
        ROW.changed(
            id=KITMUS,
            text="Ann met Bea. She sang.",
            pronoun="She",
            pronoun_offset=13,
            a="Ann",
            a_offset=0,
            a_coref=True,
            b="Bea",
            b_offset=8,
            b_coref=False,
        )
    ]
).encode()
INFO = runs.RunInfo(
    "sample/identifyme", "random", {"questions": "abc"}, settings={"seed": 1}, prompt="which?"
)
SEAL = runs.Seal(2, 2, {"cut": 1}, 0.5, "abc")
CARD = summaries.card_of("sample/identifyme", QUESTIONS)
COUNTS = summaries.Summary(
    INFO, SEAL, {}, runs.SCHEMA, {"d": {"full": {"muc": [1.0, 2.0, 3.0, 4.0]}}}, {"d": "abc"}
)
SUMMARY = summaries.Summary(
    INFO.changed(data={"questions": CARD.questions}),
    SEAL,
    {QUESTIONS[0].id: 1.0, QUESTIONS[1].id: "cut"},
    runs.SCHEMA,
)
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
    "made_with": {"its notebook": "0" * 16},
    "files": {"table_1_composition.csv": "0" * 64},
    "counts": {"match": 1, "differs": 0, "beyond": 2, "missing": 3},
    "cost": {"cpu_seconds": 1.5, "peak_mb": 90},
    "versions": {},
}
yaml = lambda kind: lambda path: files.read_yaml(path, kind)
encoded = lambda record: msgspec.json.format(msgspec.json.encode(record), indent=1)
lines = lambda records: b"".join(msgspec.json.encode(r) + b"\n" for r in records)

READERS = {
    "conll": of_bytes(conll.conll_text(DOCS).encode(), conll.parse_conll),
    "jsonlines": of_bytes(jsonlines.jsonlines_text(DOCS).encode(), jsonlines.parse_jsonlines),
    "kitmus": of_bytes(kitmus_text(DOCS).encode(), jsonlines.parse_jsonlines),
    "pieces": of_bytes(in_pieces(DOCS, bert, 9).encode(), jsonlines.parse_jsonlines),
    "clusters": of_bytes(json.dumps(STORY.clusters, indent=1).encode(), jsonlines.parse_jsonlines),
    "conllu": of_bytes(conllu.conllu_text(DOCS).encode(), conllu.parse_conllu),
    "gaps": of_bytes(GAPS, conllu.parse_conllu),
    "gap": of_bytes(
        gap_text([ROW, ROW.changed(id="r-2", text=ROW.text + ' "\n')]).encode(), gap.parse_gap_rows
    ),
    "ann": of_bytes(ANN, lambda data, where: standoff.parse_litbank(data, TXT, "d", where)),
    "txt": of_bytes(TXT, lambda data, where: standoff.parse_litbank(ANN, data, "d", where)),
    "labels": of_bytes(ANN, lambda data, where: standoff.with_labels(STORY, data, where)),
    "entities": of_bytes(
        ENTITIES, lambda data, where: standoff.parse_booknlp(data, TOKENS, "d", where)
    ),
    "tokens": of_bytes(
        TOKENS, lambda data, where: standoff.parse_booknlp(ENTITIES, data, "d", where)
    ),
    "any format": Reader(conll.conll_text(DOCS).encode(), read_documents),
    "packed": Reader(gzip.compress(PLAIN, mtime=0), files.read_bytes, "f.gz"),
    "questions": Reader(lines(QUESTIONS), lambda path: list(files.read_jsonl(path, Question))),
    "answers": Reader(lines(ANSWERS), lambda path: list(files.read_jsonl(path, Answer))),
    "documents": Reader(lines(DOCUMENTS), lambda path: list(files.read_jsonl(path, Document))),
    "yaml": Reader(PAPER.replace("2001-01-02", "'2001-01-02'").encode(), yaml(Paper)),
    "any yaml": Reader(PAPER.encode(), yaml(dict)),
    "upstream": Reader(head("upstream/sets.yaml", 30), yaml(dict)),
    "systems": Reader(head("systems/language_models.yaml", 25), systems),
    "benchmark": Reader(packaged("data/cards/altentities.yaml").read_bytes(), tasks.read_card),
    "corpus": Reader(packaged("data/corpora/sample.yaml").read_bytes(), corpora.read_card_file),
    "printed": Reader(head("papers/kitmus.yaml", 37), read_paper),
    "settings": Reader(
        packaged("settings.ini").read_bytes(),
        lambda path: load_settings(path.parent, env={}),
        "settings.ini",
    ),
    "notebook": Reader(
        json.dumps(NOTEBOOK).encode(),
        lambda path: notebooks.parameters_of(notebooks.read_notebook(path), path.name),
    ),
    "provenance": of_bytes(encoded(PROVENANCE), board.as_provenance),
    "journal": Reader(b"".join(map(runs.journal_line, ANSWERS)), runs.read_journal),
    "run": Reader(encoded(INFO), lambda path: runs.read_record(path, runs.RunInfo)),
    "seal": Reader(encoded(SEAL), lambda path: runs.read_record(path, runs.Seal)),
    "card": Reader(encoded(CARD), summaries.read_card),
    "summary": Reader(encoded(SUMMARY), lambda path: summaries.read_summary(path, CARD)),
    "counts": Reader(encoded(COUNTS), summaries.read_summary),
    "altentities": Reader(
        json.dumps(
            json.loads(packaged("data/sample/altentities.json").read_bytes())[14:16]
        ).encode(),
        lambda path: list(map(questions.questions_of, questions.read_altentities(path))),
    ),
    "entities of altentities": Reader(
        head("sample/altentities_entities.jsonl", 3), entities.read_entities, "f.jsonl"
    ),
    "drafts": Reader(lines(DRAFTS), builder.read_drafts),
    "handed in": Reader(
        json.dumps(HANDED_IN, indent=1).encode(),
        lambda path: annotation_page.read_annotations(path, DRAFTS),
    ),
    "judgements": Reader(SHEET, lambda path: statistics.read_sheet(path, "multi-modality")),
    "labels by hand": Reader(LABELS, lambda path: altentities_sheets.read_labels(path, "right")),
    "denylist": Reader(b"# words\nbad word\nworse\n", entities.read_denied),
    "kitmus gold": Reader(
        TEXTS, lambda path: reading.gold_texts(files.read_bytes(path), path.name)
    ),
    "kitmus predictions": Reader(
        TEXTS, lambda path: reading.predictions(files.read_bytes(path), GOLD, path.name)
    ),
    "kitmus predicted table": Reader(
        TABLE, lambda path: reading.predictions(files.read_bytes(path), GOLD, path.name)
    ),
    "names": resource("names.csv", lambda r: r.names, b"lastname\nReed\nMoss\n"),
    "places": resource("locations.csv", lambda r: r.locations, head("kitmus/locations.csv", 3)),
    "words": resource(
        "vocab.json", lambda r: r.vocab, packaged("data/kitmus/vocab.json").read_bytes()
    ),
    "pronouns": resource(
        "pronouns.json", lambda r: r.pronouns, packaged("data/kitmus/pronouns.json").read_bytes()
    ),
    "noise": resource(
        "noise/cafe.txt", lambda r: r.noise("noise/cafe.txt"), head("kitmus/noise/cafe.txt", 2)
    ),
    "templates": resource(
        "templates/meet_sentence.txt",
        lambda r: r.templates("meet"),
        head("kitmus/templates/meet_sentence.txt", 3),
    ),
    "command": Reader(
        b'{"id":"d:0","chosen":[1]}\n{"id":"d:1","choice":"Bea"}\n{"id":"d:2","scores":[0.5,1]}\n{"id":"d:3","error":"x"}\n',
        said,
    ),
    "proofs": Reader(
        b'{"id":"%s","clusters":[[[0,0],[1,2]]],"words":["a","b"]}\n' % STORY.doc_key.encode(),
        proofs,
    ),
}


# Damaged files


@pytest.fixture(params=READERS)
def reader(request) -> Reader:
    return READERS[request.param]


def one_line(reader: Reader, path: Path, data: bytes) -> object:
    "What a reader makes of a file, or its error: one line of 300 characters at most that names the file."
    path.write_bytes(data)
    try:
        return reader.read(path)
    except RefnbError as e:
        error = str(e).replace(f"{path.parent}/", "")
    assert "\n" not in error and reader.name in error and len(error) <= 300, error
    return None


def test_f72_damaged_files_are_read_or_refused_in_one_line(reader, tmp_path):
    path = tmp_path / reader.name
    path.write_bytes(reader.good)
    assert reader.read(path)
    for damaged in mutated(reader.good, 42):
        one_line(reader, path, damaged)


DEEP = 20_000 if FULL else 3_000  # Python gives up at 1,000
ODD = [
    b"[" * DEEP,
    b'{"a":' * DEEP,
    b"((" * 5_000,
    b"- " * 5_000,
    b"9" * 4_400,
    b"-1",
    b"2147483648",
    b"99999999999999999999",
    b"1e999",
    b"x" * 131_073,
    b"\\ud800",
    b'"' + b"y" * 140_000 + b'"',
    b"part 1" + b"1" * 5_000,
]


def places(good: bytes, n: int) -> list[int]:
    "Some places in a file where a value begins, and its two ends."
    found = [
        i
        for i in range(1, len(good))
        if good[i - 1 : i] in (b"(", b"=", b":", b"\t", b"[", b"{", b'"', b",", b" ", b"\n")
    ]
    return sorted({0, len(good), *found[:: max(1, len(found) // n)]})


def test_f72_values_that_no_file_should_hold(reader, tmp_path):
    "Deep nesting, long numbers, long fields: where a value begins, and in place of a number."
    for odd in ODD:
        for at in places(reader.good, 200 if FULL else 4):
            rest = (
                reader.good[at:].lstrip(b"0123456789")
                if odd.strip(b"-").isdigit()
                else reader.good[at:]
            )
            one_line(reader, tmp_path / reader.name, reader.good[:at] + odd + rest)


# A megabyte of one thing

LONG = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../helpers"]
from pathlib import Path
import test_readers as t
for line in (b"# global.Entity = eid\\n1\\ta" + b"\\t_"*7 + b"\\tEntity=" + b"a"*1_000_000, b"#begin document" + b" "*1_000_000 + b"x"):
    print(line[:40], flush=True)
    t.one_line(t.READERS["any format"], Path(sys.argv[2])/"f.x", line)
for name, reader in t.READERS.items():
    for unit in (b"a", b" ", b"(", b"1", b"\\n", b"a b "):
        for at in t.places(reader.good, 4):
            print(name, unit, at, flush=True)
            t.one_line(reader, Path(sys.argv[2])/reader.name, reader.good[:at] + unit*(t.SIZE//len(unit)) + reader.good[at:])
"""
SIZE = 1_000_000 if FULL else 30_000


def test_f71_a_long_file_of_one_thing(tmp_path, spawn):
    "In a process of its own, for what C does shows in no trace: patterns that were quadratic in the first two lines took an hour."
    p = spawn(LONG, Path(__file__).parent, tmp_path)
    try:
        out, err = p.communicate(timeout=HANG)
    except subprocess.TimeoutExpired as e:
        pytest.fail(f"hangs: {(e.stdout or b'').splitlines()[-1:]}")
    assert p.returncode == 0, (out.splitlines()[-1:], err)


def keys(n: int) -> list:
    return [(str(i), 0) for i in range(n)] + [(str(n - 1), 0)]


LINEAR = {
    "a key that appears twice": (files.refuse_repeated_keys, keys),
    "columns": (
        gap.parse_gap_rows,
        lambda n: "\t".join([*gap.COLUMNS, *map(str, range(n)), "0"]).encode(),
    ),
    "brackets of conllu": (
        lambda value: conllu.add_mentions({}, {}, [(0, value, "")], ["eid"], []),
        lambda n: "(a)" * n,
    ),
    "a begin line": (
        lambda line: conll.key_of(line, ""),
        lambda n: "#begin document (a)" + " ; part" * n,
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_f71_the_work_grows_no_faster_than_the_file(name):
    read, make = LINEAR[name]

    def call(x):
        try:
            read(x)
        except (ValueError, RefnbError):
            pass

    assert growth(call, make(300), make(1_200)) < 5


# No silent wrong score


def told(data: bytes) -> str:
    "Why predictions are refused."
    with pytest.raises(RefnbError) as e:
        reading.predictions(data, GOLD, "p.jsonl")
    assert str(e.value).startswith("p.jsonl")
    return str(e.value)


def test_f69_kitmus_predictions_that_cannot_be():
    assert "field clusters[0]: [4, 7] is not a span of the 7 tokens" in told(
        TEXTS.replace(b"[4, 4]", b"[4, 7]")
    )
    assert "[4, 4294967300] is not a span of" in told(TEXTS.replace(b"[4, 4]", b"[4, 4294967300]"))
    assert "1 of 7 words differ, the first is 'Eve' where gold has 'Ann'" in told(
        TEXTS.replace(b"Ann", b"Eve")
    )
    assert f"{KITMUS!r} is in line 1 too" in told(TEXTS + TEXTS)
    assert f"text {KITMUS!r} appears twice" in told(TABLE + TABLE.splitlines(keepends=True)[1])


def test_f69_an_index_that_is_chosen_twice(tmp_path):
    path = files.write_atomic(tmp_path / "a.jsonl", b'{"id":"d:0","chosen":[1,1]}')
    with pytest.raises(FormatError, match="a.jsonl, line 1.*field chosen: an index appears twice"):
        list(files.read_jsonl(path, Answer))


def sealed(folder: Path, **fields) -> runs.Run:
    "A complete run of two questions."
    run = runs.open_run(INFO.changed(**fields), folder / "runs")
    with run.writing() as w:
        for q in QUESTIONS[:2]:
            w.add(Answer(q.id, (0,)))
    run.seal(q.id for q in QUESTIONS[:2])
    return run


def test_f70_a_name_that_means_several_runs_is_refused_and_they_are_named(tmp_path):
    one, two = sealed(tmp_path), sealed(tmp_path, settings={"seed": 2})
    with pytest.raises(CallError) as e:
        summaries.the_summary(INFO.task, INFO.system, tmp_path / "runs", [])
    said = str(e.value)
    assert "2 runs of random on sample/identifyme" in said and all(
        f"@{r.info.hash} (seed={r.info.settings['seed']})" in said for r in (one, two)
    )


def test_f70_a_higher_revision_replaces_what_was_made_before(tmp_path):
    last = sealed(tmp_path, system_revision=2)
    sealed(tmp_path)
    assert summaries.current_runs(
        r.info for r in summaries.find_runs(tmp_path / "runs", INFO.task, INFO.system)
    ) == [last.info]


# A board with a damaged file

DAMAGED = {
    "not json": ("json", b"{"),
    "without its fields": ("json", b'{"table": "identifyme/table_1_composition"}'),
    "other fields": ("json", encoded(PROVENANCE | {"files": 3})),
    "deep": ("json", b'{"a":' + b"[" * 100_000),
    "table": ("csv", b"row,column\na,b\n"),
    "quotes": ("csv", b'row,column,paper,ours,difference,reason\n"a,b'),
    "packed": ("csv", b"\xff\xfe\0"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_f72_a_damaged_report_does_not_hide_the_others(settings, name):
    (end, data), s = DAMAGED[name], settings()
    path = Path(s.reports) / PROVENANCE["table"]
    good = PROVENANCE | {
        "files": {f"{path.name}.csv": hashlib.sha256(data).hexdigest()} if end == "csv" else {}
    }
    files.write_atomic(
        path.with_name(f"{path.name}.json"), data if end == "json" else encoded(good)
    )
    if end == "csv":
        files.write_atomic(path.with_name(f"{path.name}.csv"), data)
    lines = {l.name: l for l in board.board(s).lines}
    assert lines.pop(PROVENANCE["table"]).report.startswith("stale: ")
    assert len(lines) > 37 and {l.report for l in lines.values()} == {"to be run"}
