"Results that travel: logs of other tools as runs, runs as records of Every Eval Ever, reports as RO-Crates, the lock of packages."

import gzip, hashlib, json, re, shutil, sys, tomllib, uuid, zipfile
from importlib.util import find_spec
from pathlib import Path
import pytest
from jsonschema import Draft7Validator
from refnb.benchmarks.tasks import FERRYMAN, task_questions
from refnb.core.types import DataError, FormatError
from refnb.metrics.choice import credit
from refnb.metrics.uncertainty import FEW
from refnb.models.published.logs import READERS
from refnb.models.running import run
from refnb.commands.cli import main
from refnb.results.every_eval_ever import export_run
from refnb.results.research_crate import export_crate
from refnb.results.scores import as_outcomes, score
import tools

DATA = Path(__file__).parent / "data"
LOGS = DATA / "logs"
FOUR = task_questions(FERRYMAN)[:4]


# Logs of other tools


def samples(name: str) -> list[dict]:
    return [json.loads(x) for x in gzip.decompress((LOGS / name).read_bytes()).splitlines()]


def zipped(path: Path, log: dict) -> Path:
    "An .eval log as older versions of inspect_ai, or other settings of it, pack it."
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("header.json", json.dumps({k: v for k, v in log.items() if k != "samples"}))
        for x in log["samples"]:
            z.writestr(f"samples/{x['id']}_epoch_1.json", json.dumps(x))
    return path


@pytest.mark.parametrize("name", ["samples_replies.jsonl.gz", "samples_options.jsonl.gz"])
def test_a_run_of_the_harness_samples_has_its_accuracy(settings, name):
    done = run(FOUR, f"harness/{LOGS / name}", s=settings())
    answers = done.answers()
    assert (
        done.info.system == "harness/mock/model" and done.info.settings["tool"] == "lm_eval 0.4.13"
    )
    assert [credit(q, answers[q.id]) for q in FOUR] == [x["acc_refnb"] for x in samples(name)]
    assert 0 < sum(credit(q, answers[q.id]) for q in FOUR) < 4


def test_a_failed_sample_stays_open_and_the_others_are_answered(settings, tmp_path):
    s, [log] = settings(), samples("inspect_one_failed.json.gz")
    for path in (LOGS / "inspect_one_failed.json.gz", zipped(tmp_path / "log.eval", log)):
        with pytest.raises(
            DataError,
            match=r"1 of 4 failed \(1 without answer\); the first is sample_ferryman:2: RuntimeError",
        ):
            run(FOUR, f"inspect/{path}", s=s)
        done = run(FOUR, f"inspect/{path}", s=s, tolerate=1)
        answers = done.answers()
        assert done.info.system == "inspect/mockllm/model" and [
            a.reason for a in answers.values()
        ] == [None, None, "failed", None]
        theirs = {
            x["id"]: x["scores"]["refnb"]["value"]
            for x in log["samples"]
            if "refnb" in x.get("scores", {})
        }
        assert (
            theirs == {i: credit(q, answers[i]) for q in FOUR if (i := q.id) in theirs}
            and len(theirs) == 3
        )
        assert answers["sample_ferryman:1"].usage.tokens_in == 101


def test_an_eval_log_is_read_where_zstandard_is_and_refused_elsewhere(settings):
    name = f"inspect/{LOGS / 'inspect.eval'}"
    if sys.version_info >= (3, 14) or find_spec("zipfile_zstd"):
        assert len(run(FOUR, name, s=settings()).answers()) == 4
    else:
        with pytest.raises(DataError, match="packed with Zstandard.*inspect log convert"):
            run(FOUR, name, s=settings())


def test_other_questions_missing_ones_and_doubled_ones_are_told(settings, tmp_path):
    s, path = settings(), tmp_path / "samples_x.jsonl"
    lines = gzip.decompress((LOGS / "samples_replies.jsonl.gz").read_bytes()).splitlines(
        keepends=True
    )

    def write(*some):
        path.write_bytes(b"".join(some))

    write(*lines)
    with pytest.raises(DataError, match="1 of 4 samples are not questions of given/"):
        run(FOUR[:3], f"harness/{path}", s=s)
    with pytest.raises(DataError, match=r"25 of 29 failed \(25 missing\)"):
        run(FERRYMAN, f"harness/{path}", s=s)
    write(*lines, lines[0])
    with pytest.raises(DataError, match="1 questions appear twice"):
        run(FOUR, f"harness/{path}", s=s)
    write(*(x.replace(b"Tobias", b"Thomas") for x in lines))
    with pytest.raises(DataError, match="logged with other options"):
        run(FOUR, f"harness/{path}", s=s)
    with pytest.raises(DataError, match="no log of this name here"):
        run(FOUR, "inspect/openai/gpt-4o", s=s)


@pytest.mark.parametrize("tool", READERS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"nothing",
        b'{"eval": {"model": "m"}, "samples": [{"id": 1}]}',
        b'{"doc": {}}',
        b"PK\x05\x06" + bytes(18),
    ],
)
def test_what_is_no_log_is_refused_in_a_line(settings, tmp_path, tool, data):
    path = tmp_path / "log"
    path.write_bytes(data)
    with pytest.raises((DataError, FormatError)) as e:
        run(FOUR, f"{tool}/{path}", s=settings())
    assert "\n" not in str(e.value)


# Every Eval Ever


def schema(name: str) -> Draft7Validator:
    return Draft7Validator(
        json.loads(gzip.decompress((DATA / f"every_eval_ever/{name}.schema.json.gz").read_bytes()))
    )


AGGREGATE, INSTANCE = schema("eval"), schema("instance_level_eval")


def records(path: Path, out: Path) -> tuple[dict, list[dict]]:
    "What was written, checked as the project's own gate does: by schema, names, checksum, keys and bounds."
    record = json.loads(path.read_text())
    assert [e.message for e in AGGREGATE.iter_errors(record)] == [] and uuid.UUID(
        path.stem
    ).version == 4
    for r in record["evaluation_results"]:
        assert 0 <= r["score_details"]["score"] <= 1
    if not (beside := record.get("detailed_evaluation_results")):
        return record, []
    data = (out / beside["file_path"]).read_bytes()
    rows = [json.loads(x) for x in data.splitlines()]
    assert (
        hashlib.sha256(data).hexdigest() == beside["checksum"]
        and len(rows) == beside["total_rows"] > 0
    )
    assert (
        path.relative_to(out).with_name(f"{path.stem}_samples.jsonl").as_posix()
        == beside["file_path"]
    )
    for r in rows:
        assert [e.message for e in INSTANCE.iter_errors(r)] == []
        assert (r["evaluation_id"], r["model_id"], r["evaluation_result_id"]) == (
            record["evaluation_id"],
            record["model_info"]["id"],
            record["evaluation_results"][0]["evaluation_result_id"],
        )
    return record, rows


@pytest.mark.parametrize("name", ["form", "limit"])
def test_what_has_an_option_of_its_own_is_no_setting(name, tmp_path, capsys):
    said = tools.here(
        capsys,
        "export",
        "sample/identifyme",
        "--to",
        "inspect",
        "--out",
        tmp_path / "x",
        "-p",
        f"{name}=1",
    )
    tools.one_line(said, 2, f"{name} has an option of its own", f"--{name}")


def test_a_run_of_the_sample_as_records_in_full(settings, tmp_path):
    s = settings()
    done = run("sample/identifyme", "random", s=s)
    record, rows = records(
        export_run(done.folder, tmp_path, s, "An Institute", "third_party", now=5), tmp_path
    )
    [result] = record["evaluation_results"]
    iv, interval = (
        score(as_outcomes(done, s)).interval(),
        result["score_details"]["uncertainty"]["confidence_interval"],
    )
    assert (result["score_details"]["score"], interval["lower"], interval["upper"]) == (
        iv.value,
        iv.low,
        iv.high,
    ) and iv.low is not None
    assert (
        iv.clusters < FEW
        and interval["method"].startswith("Student's t")
        and "num_bootstrap_samples" not in result["score_details"]["uncertainty"]
    )
    qs = {q.id: q for q in task_questions("sample/identifyme")}
    assert record["eval_library"]["name"] == "refnb" and record["evaluation_timestamp"].endswith(
        "+00:00"
    )
    assert [r["sample_id"] for r in rows] == list(qs) and sum(
        r["evaluation"]["score"] for r in rows
    ) / len(rows) == pytest.approx(iv.value)
    for r in rows:
        assert r["input"]["reference"] == [
            qs[r["sample_id"]].options[i].name for i in qs[r["sample_id"]].right
        ]
        assert (
            r["sample_hash"]
            == hashlib.sha256(
                json.dumps(
                    {k: r["input"][k] for k in ("raw", "reference")},
                    sort_keys=True,
                    separators=(",", ":"),
                ).encode()
            ).hexdigest()
        )
    assert (
        export_run("sample/identifyme:random", tmp_path, s, now=6).stem
        == export_run(done.folder, tmp_path, s).stem
    )


def test_a_failed_request_is_an_error_and_no_text_of_other_questions_is_written(settings, tmp_path):
    s = settings()
    done = run(FOUR, f"inspect/{LOGS / 'inspect_one_failed.json.gz'}", s=s, tolerate=1)
    record, rows = records(export_run(done.folder, tmp_path / "a", s), tmp_path / "a")
    assert [r.get("error") for r in rows] == [None, None, "failed", None] and rows[2]["output"] == {
        "raw": []
    }
    assert (
        record["evaluation_results"][0]["score_details"]["details"]["without answer: failed"] == "1"
    )
    assert (
        record["eval_library"] == {"name": "inspect_ai", "version": "0.3.285"}
        and "evaluation_timestamp" not in record
    )
    assert (
        record["model_info"]["id"] == "mockllm/model"
        and rows[1]["token_usage"]["input_tokens"] == 101
    )
    written = "".join(p.read_text() for p in (tmp_path / "a").rglob("*.json*"))
    assert (
        not any(o.name in written for q in FOUR for o in q.options if o.name != "The Boat")
        and FOUR[0].text[:40] not in written
    )
    _, whole = records(export_run(done.folder, tmp_path / "b", s, text="true"), tmp_path / "b")
    assert [r["sample_hash"] for r in whole] == [
        r["sample_hash"] for r in rows
    ] and "Tobias" in str(whole[0]["input"])
    assert whole[1]["output"]["raw"] == ["A"] and whole[2]["error"].startswith(
        "failed: RuntimeError"
    )


def test_an_open_run_and_an_unknown_one_are_refused_in_a_line(
    settings, tmp_path, capsys, monkeypatch
):
    s = settings()
    done = run(FERRYMAN, "random", limit=3, s=s)
    with pytest.raises(DataError, match="the run is not complete"):
        export_run(done.folder, tmp_path / "x", s)
    with pytest.raises(
        DataError,
        match="there is no complete run of random on sample/ferryman; make one: refnb run",
    ):
        export_run(f"{FERRYMAN}:random", tmp_path / "x", s)
    assert not (tmp_path / "x").exists()
    for more, said in [
        (["--limit", "3"], "results are exported as they are"),
        (["-p", "organisation=X"], "did you mean organization?"),
        (["-p", "text=perhaps"], "say true or false"),
    ]:
        assert main(
            [
                "export",
                f"{FERRYMAN}:random",
                "--to",
                "every-eval-ever",
                "--out",
                str(tmp_path / "x"),
                *more,
            ]
        ) in (1, 2)
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["identifyme/test:published/gpt-4o", "bookcoref/gold:published/maverick-xl"]
)
def test_committed_summaries_as_records(settings, tmp_path, name):
    "Without the run's folder there are scores and credits, and no reply."
    s = settings(reports=str(tools.ROOT / "reports"))
    record, rows = records(export_run(name, tmp_path, s), tmp_path)
    assert (
        "evaluation_timestamp" not in record
        and record["evaluation_results"][0]["source_data"]["source_type"] == "url"
    )
    assert len(rows) == (1200 if name.startswith("identifyme") else 0) and all(
        r["output"]["raw"] == [] for r in rows
    )


# RO-Crates


def refs(x) -> list[str]:
    return [y["@id"] for y in (x if isinstance(x, list) else [x])]


def crate_graph(folder: Path) -> dict[str, dict]:
    "The entities of a crate by id, checked by what RO-Crate 1.1 demands: descriptor, root, flat, linked, and files as described."
    meta = json.loads((folder / "ro-crate-metadata.json").read_text())
    assert meta["@context"][0] == "https://w3id.org/ro/crate/1.1/context" and set(meta) == {
        "@context",
        "@graph",
    }
    by_id = {x["@id"]: x for x in meta["@graph"]}
    assert len(by_id) == len(meta["@graph"]) and all(x.get("@type") for x in by_id.values())
    about, root = by_id["ro-crate-metadata.json"], by_id["./"]
    assert (about["@type"], about["about"], about["conformsTo"]) == (
        "CreativeWork",
        {"@id": "./"},
        {"@id": "https://w3id.org/ro/crate/1.1"},
    )
    assert (
        root["@type"] == "Dataset"
        and re.fullmatch(r"\d{4}-\d\d-\d\d", root["datePublished"])
        and all(root[k] for k in ("name", "description", "license"))
    )
    for x in by_id.values():
        for key, value in x.items():
            for v in value if isinstance(value, list) else [value]:
                if isinstance(v, dict):
                    assert set(v) == {"@id"} and (v["@id"] in by_id or key == "conformsTo"), (
                        x["@id"],
                        key,
                        v,
                    )
    files = {x["@id"] for x in by_id.values() if "File" in x["@type"]}
    assert (
        files
        == set(refs(root["hasPart"]))
        == {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
        - {"ro-crate-metadata.json"}
    )
    for f in files:
        data = (folder / f).read_bytes()
        assert (by_id[f]["sha256"], by_id[f]["contentSize"]) == (
            hashlib.sha256(data).hexdigest(),
            str(len(data)),
        )
    return by_id


def test_a_report_as_a_crate(settings, tmp_path):
    s = settings(reports=str(tools.ROOT / "reports"))
    by_id = crate_graph(export_crate("identifyme/table_3", tmp_path / "crate", s))
    [made] = [x for x in by_id.values() if x["@type"] == "CreateAction"]
    told = json.loads((tools.ROOT / "reports/identifyme/table_3_main_results.json").read_text())
    given = {
        by_id[i]["identifier"].rpartition(":")[2]
        for i in refs(made["object"])
        if "identifier" in by_id[i]
    }
    assert given == set(told["inputs"].values()) | set(told["runs"].values())
    assert {Path(i).name for i in refs(made["result"])} == {
        *told["files"],
        "table_3_main_results.json",
    } and "SoftwareSourceCode" in by_id[made["instrument"]["@id"]]["@type"]


def test_a_paper_is_one_crate_and_a_changed_report_is_refused(settings, tmp_path):
    shutil.copytree(tools.ROOT / "reports/kitmus", tmp_path / "reports/kitmus")
    s = settings(reports=str(tmp_path / "reports"))
    by_id = crate_graph(export_crate("kitmus", tmp_path / "crate", s))
    assert sum(x["@type"] == "CreateAction" for x in by_id.values()) == len(
        list((tmp_path / "reports/kitmus").glob("*.json"))
    )
    with pytest.raises(DataError, match="is there already"):
        export_crate("kitmus", tmp_path / "crate", s)
    changed = next((tmp_path / "reports/kitmus").glob("*.csv"))
    changed.write_text(changed.read_text() + "one more\n")
    with pytest.raises(DataError, match="is not the file that its provenance names"):
        export_crate("kitmus", tmp_path / "other", s)
    assert not (tmp_path / "other").exists()


# The lock of packages


def test_the_lock_has_a_hash_for_every_package_and_the_pinned_versions():
    "For each Python that refnb supports one wheel at least; what only one Python needs, or builds refnb, is not among the pins."
    plain = lambda name: re.sub(r"[-_.]+", "-", name).lower()
    text = (tools.ROOT / "requirements.lock").read_text().replace(" \\\n    --hash", " --hash")
    entry = re.compile(
        r'([\w.-]+)==(\S+)( ; python_version == "3\.\d+"(?: or python_version == "3\.\d+")*)?((?: --hash=sha256:[0-9a-f]{64}){1,3})'
    )
    lines = [x for x in text.splitlines() if not x.startswith(("#", "--extra-index-url "))]
    found = {m[1]: m for x in lines if (m := entry.fullmatch(x))}
    pins = {
        plain(n): v
        for n, _, v in (
            x.strip().partition("==")
            for x in (tools.ROOT / "constraints.txt").read_text().splitlines()
        )
    }
    assert len(found) == len(lines) > 80
    assert {n for n, m in found.items() if pins.get(plain(n)) != m[2] and not m[3]} <= {
        "torch",
        "editables",
        "setuptools",
    }
    project = tomllib.loads((tools.ROOT / "pyproject.toml").read_text())["project"]
    needed = {
        plain(re.match(r"[\w.-]+", x)[0])
        for x in [
            *project["dependencies"],
            *project["optional-dependencies"]["models"],
            "hatchling",
        ]
    }
    assert (
        needed <= set(found)
        and found["torch"][2].endswith("+cpu")
        and found["torch"][4].count("sha256") == 3
    )
