"""Whoever changes what a table is made from, or what is committed of it, is told of by a command. Each row changes one
thing in a copy of the repository, names the command and a part of what it says; then the thing is put back."""

import json, os, re, shutil
from collections.abc import Callable
from typing import NamedTuple
import pytest
from refnb.core.runs import with_id
from refnb.core.upstream import files_of
from results_copy import Copy
from tools import ROOT

MAIN, THOUGHT = "identifyme/table_3_main_results", "identifyme/table_2_chain_of_thought"
STATISTICS, LINKS = "bookcoref/table_1_statistics", "kitmus/table_2b_kitmus_trained"
CHECK = "check"  # what make check says of the evidence
COMPARE = ["compare", "identifyme/test", "published/gpt-4o", "published/mistral-7b"]
SUMMARY = "reports/runs/identifyme/test/published/gpt-4o-a6dd89807c9c.json"
RAW = min(files_of("identifyme-analysis"), key=lambda f: f.size or 0)
EVIDENCE = """import os, sys; sys.path.insert(0, os.path.abspath(".ci"))
import check; print(*check.evidence(), sep="\\n")"""


class Attack(NamedTuple):
    "A change, and who tells."

    path: str  # of the file that is changed
    change: Callable[[bytes], bytes | None]  # None: it is removed
    by: str | list[str]  # the table that is stale; CHECK; or a command that ends with status 1
    told: str  # a part of what is said


def put(old: str, new: str) -> Callable[[bytes], bytes]:
    "Replace a text, once."

    def change(data: bytes) -> bytes:
        assert old.encode() in data
        return data.replace(old.encode(), new.encode(), 1)

    return change


def sub(pattern: str, new: str) -> Callable[[bytes], bytes]:
    "Replace what matches, once."

    def change(data: bytes) -> bytes:
        text, n = re.subn(pattern, new, data.decode(), count=1)
        assert n
        return text.encode()

    return change


def forged(change: Callable[[dict], object]) -> Callable[[bytes], bytes]:
    "Change a record, and give it the id that refnb would have given it."

    def forge(data: bytes) -> bytes:
        record = json.loads(data)
        del record["id"]
        change(record)
        return with_id(json.dumps(record, indent=1).encode())

    return forge


def another_credit(record: dict) -> None:
    key = next(k for k, x in record["credit"].items() if x == 0.0)
    record["credit"][key] = 1.0


def another_picture(data: bytes) -> bytes:
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


NOT_WRITTEN, ANOTHER = "not what was written", "another than the table was made from"
NO_ID, EMPTY = sub(r',\s*"id": "\w+"\s*}\s*$', "}"), sub(r'"id": "\w+"\s*}\s*$', '"id": ""}')
CREDIT = sub(r'": 0\.0', '": 1.0')
COUNT = sub(r"\[\n?\s*(\d+)\.0", "[9\\g<1>.0")
LINK_RUN = "reports/runs/kitmus/background-train/2/test/kitmus-minilm-*.json"
ATTACKS = {
    # summaries of runs
    "a credit": Attack(SUMMARY, CREDIT, MAIN, NOT_WRITTEN),
    "a credit, compared": Attack(SUMMARY, CREDIT, COMPARE, NOT_WRITTEN),
    "a credit, the id emptied": Attack(SUMMARY, lambda x: EMPTY(CREDIT(x)), MAIN, NOT_WRITTEN),
    "a credit, the id removed": Attack(SUMMARY, lambda x: NO_ID(CREDIT(x)), COMPARE, NOT_WRITTEN),
    "a credit, the id made anew": Attack(SUMMARY, forged(another_credit), MAIN, ANOTHER),
    "the id alone removed": Attack(SUMMARY, NO_ID, CHECK, NOT_WRITTEN),
    "credits again, behind the id": Attack(
        SUMMARY, sub(r"\s*}\s*$", ', "credit": {}}'), COMPARE, NOT_WRITTEN
    ),
    "the hash of an input": Attack(SUMMARY, put("04b06a37", "14b06a37"), MAIN, NOT_WRITTEN),
    "the hash of an input, the id made anew": Attack(
        SUMMARY,
        forged(lambda r: r["info"]["data"].update(questions="0" * 16)),
        COMPARE,
        "it belongs to identifyme/test/published/gpt-4o-",
    ),
    "the seal": Attack(SUMMARY, sub(r'"answers": \d+', '"answers": 1100'), MAIN, NOT_WRITTEN),
    "the seal, the id made anew": Attack(
        SUMMARY, forged(lambda r: r["seal"].update(usd=1.0)), MAIN, ANOTHER
    ),
    "the answers of another system": Attack(
        SUMMARY,
        lambda _: next(ROOT.glob("reports/runs/identifyme/test/random-*.json")).read_bytes(),
        COMPARE,
        "it belongs to identifyme/test/random-",
    ),
    "a summary less": Attack(SUMMARY, lambda _: None, MAIN, "its summary is gone"),
    "a count": Attack(LINK_RUN, COUNT, LINKS, NOT_WRITTEN),
    "a count, the id removed": Attack(LINK_RUN, lambda x: NO_ID(COUNT(x)), CHECK, NOT_WRITTEN),
    "what a question is about, in its task's card": Attack(
        "reports/runs/identifyme/test/part.json",
        sub('"type":."nominal"', '"type":["pronominal"'),
        MAIN,
        "another card",
    ),
    # reports
    "a number": Attack(f"reports/{MAIN}.csv", put("81.9", "91.9"), MAIN, "csv is not the file"),
    "a page": Attack(f"reports/{MAIN}.md", put("81.9", "91.9"), MAIN, "md is not the file"),
    "a picture": Attack(f"reports/{MAIN}.png", another_picture, MAIN, "png is not the file"),
    "a picture, checked": Attack(f"reports/{MAIN}.png", another_picture, CHECK, "png is not"),
    "a count of cells": Attack(
        f"reports/{MAIN}.json", sub('"beyond": \\d+', '"beyond": 99'), MAIN, NOT_WRITTEN
    ),
    "a cost beside them": Attack(
        f"reports/{MAIN}.json", put('"versions"', '"cost": {},\n "versions"'), CHECK, NOT_WRITTEN
    ),
    "a run that it does not name": Attack(
        f"reports/{MAIN}.json",
        forged(lambda r: r["runs"].update({"identifyme/test:published/gpt-4o": "0" * 12})),
        MAIN,
        "has another run",
    ),
    # code, and what is printed
    "a line of a notebook": Attack(
        f"nbs/tables/{MAIN}.ipynb", put("import ", "import os, "), MAIN, "its notebook has changed"
    ),
    "a line of statistics": Attack(
        "refnb/benchmarks/bookcoref/books.py",
        put("return ", "return 2 and "),
        STATISTICS,
        "refnb.benchmarks.bookcoref.books has changed",
    ),
    "a line of pictures": Attack(
        "refnb/results/plots.py", put("return ", "return 2 and "), MAIN, "plots has changed"
    ),
    "a printed number": Attack(
        "nbs/data/papers/identifyme.yaml", sub(r"\b81\.9\b", "82.9"), MAIN, "what is printed"
    ),
    "the pin of a file": Attack(
        "nbs/data/upstream/files.tsv", put("04b06a37", "14b06a37"), MAIN, "pinned at another"
    ),
    # the board and the README
    "a way that takes less": Attack(
        "nbs/data/missing.yaml",
        put("  takes: never", "  takes: download"),
        CHECK,
        "reports/README.md: is not what the reports say",
    ),
    "a number of the board": Attack(
        "reports/README.md", sub(r"Of \d+", "Of 99"), CHECK, "README.md: is not what"
    ),
    "a number of a paper's page": Attack(
        "reports/bookcoref/README.md", sub(r"\d+\.\d MB", "9.9 MB"), CHECK, "bookcoref/README.md"
    ),
    "a number of the README": Attack(
        "README.md", sub(r"Of (\d+) numbers", "Of 9\\1 numbers"), CHECK, "another count"
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Copy:
    return Copy(tmp_path_factory.mktemp("attacked"))


def test_the_copy_is_as_it_should_be(copy):
    "What is told below is the attack."
    states = copy.states()
    assert {states[x] for x in (MAIN, THOUGHT, STATISTICS, LINKS)} == {"regenerated"}
    assert not copy.refnb(*COMPARE).returncode
    said = copy.python("-c", EVIDENCE)
    assert (said.stdout.strip(), said.returncode) == ("", 0), said


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_told(copy, name):
    attack = ATTACKS[name]
    path = min(copy.home.glob(attack.path))
    before = path.read_bytes()
    after = attack.change(before)
    path.unlink() if after is None else path.write_bytes(after)
    try:
        if isinstance(attack.by, list):
            said = copy.refnb(*attack.by)
            assert said.returncode == 1 and attack.told in said.stderr, said
        elif attack.by == CHECK:
            said = copy.python("-c", EVIDENCE)
            assert attack.told in said.stdout, said
        else:
            state = copy.states()[attack.by]
            assert state.startswith("stale: ") and attack.told in state
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("seen", [True, False], ids=["looked at before", "new here"])
def test_a_raw_file_is_known_by_its_bytes_whatever_its_time(copy, upstream, tmp_path, seen):
    for f in files_of("identifyme-analysis"):
        for end in ("", ".gz"):
            source, target = upstream / f"{f.place}{end}", tmp_path / f"public/{f.place}{end}"
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
            if f == RAW and source.is_file():
                raw = target
    here = {"REFNB_UPSTREAM": str(tmp_path / "public"), "REFNB_CACHE": str(tmp_path / "cache")}
    if seen:
        assert copy.states(**here)[THOUGHT] == "regenerated"
    times, data = os.stat(raw), raw.read_bytes()
    raw.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(raw, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert os.stat(raw).st_mtime_ns == times.st_mtime_ns
    assert f"{RAW.key} has other bytes here" in copy.states(**here)[THOUGHT]


def test_equal_numbers_leave_no_difference(copy, tmp_path):
    "What a run cost stands in no file that is compared."
    name, files = "altentities/table_13_hyperparameters", []
    for _ in range(2):
        said = copy.refnb("reproduce", name, "--force", "--out", tmp_path / "out")
        assert not said.returncode, said.stderr
        made = sorted(p for p in (tmp_path / "out").rglob("*.*") if ".batch" not in p.parts)
        files.append([(p.name, p.read_bytes()) for p in made])
    assert files[0] == files[1] and len(files[0]) > 4
    for path in (ROOT / "reports").glob("*/*.json"):
        assert "cost" not in json.loads(path.read_bytes()), path
