"`refnb export RUN --to eee`: a run as records of Every Eval Ever."

import hashlib, json
from importlib.util import find_spec
from pathlib import Path
import jsonschema
import pytest
import tools
from refnb.benchmarks.tasks import task_questions

TASK = "sample/identifyme"  # 338 questions
REQUIRED = (  # by the schema, 0.3.0
    "schema_version evaluation_id retrieved_timestamp source_metadata model_info eval_library "
    "evaluation_results"
)
OF_A_LINE = (
    "schema_version evaluation_id model_id evaluation_name sample_id interaction_type input "
    "output answer_attribution evaluation"
)


@pytest.fixture
def refnb(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    return lambda *args: tools.here(capsys, *args)


@pytest.fixture
def export(refnb, tmp_path):
    "Export a run; its score, and its lines."

    def export(name: str) -> tuple[dict, list[dict]]:
        said = refnb("export", name, "--to", "eee", "--out", tmp_path / "eee", "--json")
        assert said.status == 0, said.err
        files = json.loads(said.out)
        lines = Path(files["instances"]).read_text().splitlines() if files["answers"] else []
        assert len(lines) == files["answers"] and bool(lines) != bool(files["left_out"])
        return json.loads(Path(files["aggregate"]).read_text()), [*map(json.loads, lines)]

    return export


def test_the_score_has_its_interval_and_each_answer_its_texts(refnb, export, tmp_path):
    refnb("run", TASK, "nearest-mention")
    record, lines = export(f"{TASK}:nearest-mention")
    assert set(REQUIRED.split()) <= record.keys()
    [result] = record["evaluation_results"]
    score = result["score_details"]
    scored = json.loads(refnb("score", "choice", f"{TASK}:nearest-mention", "--json").out)
    every = scored["groups"]["all"]
    interval = score["uncertainty"]["confidence_interval"]
    assert (score["score"], interval["lower"], interval["upper"]) == (
        every["accuracy"],
        every["low"],
        every["high"],
    )
    assert score["uncertainty"]["num_samples"] == len(lines) == every["n"] == 338
    assert record["model_info"]["additional_details"]["model_availability"] == "unknown"
    for q, line in zip(task_questions(TASK), lines, strict=True):
        assert set(OF_A_LINE.split()) <= line.keys()
        assert line["evaluation_id"] == record["evaluation_id"] and line["sample_id"] == q.id
        shown, (start, end) = line["input"]["raw"], q.chars
        assert shown == f"{q.text[:start]}{{{{{q.text[start:end]}}}}}{q.text[end:]}"
        assert [x["extracted_value"] for x in line["answer_attribution"]] == line["output"]["raw"]
    rows = [x["evaluation"]["score"] for x in lines]
    assert sum(rows) / len(rows) == pytest.approx(score["score"])
    detail = record["detailed_evaluation_results"]
    path = tmp_path / "eee" / detail["file_path"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == detail["checksum"]
    again, _ = export(f"{TASK}:nearest-mention")
    assert again["detailed_evaluation_results"]["file_path"] == detail["file_path"]
    assert len([*(tmp_path / "eee").rglob("*.json*")]) == 2


def test_a_benchmark_to_be_kept_private_has_no_texts(refnb, export):
    record, lines = export("identifyme/test:published/gpt-4o")
    assert not lines and "detailed_evaluation_results" not in record
    assert record["evaluation_results"][0]["score_details"]["score"] == pytest.approx(0.81916667)
    assert "doc_key" not in json.dumps(record)
    said = refnb("export", "identifyme/test:published/gpt-4o", "--to", "eee", "--out", "other")
    assert "is not published" in said.out.splitlines()[1] and len(said.out.splitlines()) == 2


def test_its_questions_stay_private_where_the_run_is_here(upstream, refnb, export, monkeypatch):
    monkeypatch.setenv("REFNB_UPSTREAM", str(upstream))
    assert refnb("run", "identifyme/test", "random").status == 0
    record, lines = export("identifyme/test:random")
    assert not lines and record["evaluation_results"][0]["source_data"]["url"]


def test_a_server_is_named_by_its_vendor_and_no_address_is_told(refnb, export, stub, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up")
    assert refnb("run", TASK, "gpt-4o-mini", "-p", f"base_url={stub.url}").status in (0, 1)
    [run] = (x for x in Path("runs").rglob("run.json"))
    record, lines = export(str(run.parent))
    assert str(stub.url).split("//")[1] not in json.dumps(record) + json.dumps(lines)
    assert all(x["token_usage"]["total_tokens"] for x in lines if "token_usage" in x)


@pytest.mark.parametrize(
    "call",
    [
        ("sample/bookcoref:pattern-matching", "clusters"),
        (f"{TASK}:nobody", "no complete run"),
        ("nothing", "no complete run"),
    ],
)
def test_what_cannot_be_exported_is_one_line(refnb, call):
    name, part = call
    refnb("run", "sample/bookcoref", "pattern-matching")
    said = refnb("export", name, "--to", "eee", "--out", "x")
    tools.one_line(said, 1, part)


def test_the_records_are_valid_by_the_schema(refnb, export):
    "The schema is that of the package every-eval-ever, which needs Python 3.12 to be installed as a whole."
    if not (spec := find_spec("every_eval_ever")):
        pytest.skip("needs the schema: the package every-eval-ever 0.3.0, unpacked or installed")
    folder = Path(spec.origin).parent / "schemas"
    of_score, of_line = (
        jsonschema.Draft7Validator(json.loads((folder / f"{name}.schema.json").read_text()))
        for name in ("eval", "instance_level_eval")
    )
    assert of_score.schema["version"] == "0.3.0"
    for task, system in (
        (TASK, "nearest-mention"),
        ("sample/ferryman", "always-none"),
        ("sample/altentities", "word-overlap"),
    ):
        assert refnb("run", task, system).status == 0
        record, lines = export(f"{task}:{system}")
        of_score.validate(record)
        for line in lines:
            of_line.validate(line)
    record, _ = export("identifyme/test:published/gpt-4o")
    of_score.validate(record)
