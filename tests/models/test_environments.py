"Environments of others' packages: installed by hash, made anew after an interruption."

import json, shutil
import pytest
import refnb
import tools
from models_packages import CODE, ENTRY, PACKAGE, git, repository, wheel
from refnb.models.environments import set_up, the_environment


@pytest.fixture
def state(command):
    "A function that tells what `refnb setup` says of an environment."

    def told(name="toy", field="state"):
        rows = json.loads(command("setup", "--json").out)["environments"]
        return next(r[field] for r in rows if r["environment"] == name)

    return told


@pytest.fixture
def coded(home):
    "The toy's package as a repository; a function that writes its entry."
    first = repository(home, {"src/toycoref.py": PACKAGE})
    (home / "systems/none.txt").write_text("")

    def entry(commit=first, remote=str(home / "remote")):
        told = CODE.replace("REPOSITORY", remote).replace("COMMIT", commit)
        lines = [x for x in ENTRY.split("\n") if not x.startswith("environment")]
        (home / "systems/toy.yaml").write_text("\n".join([*lines, f"environment: {told}"]))
        return first

    return entry


def test_a_system_is_set_up_listed_and_run(command, home, state):
    ask = ("run", "sample/bookcoref", "toy")
    tools.one_line(command(*ask), 1, "toy", "refnb setup toy")
    said = command("setup", "toy", "--wheels", home / "systems")
    assert said.status == 0 and said.out.endswith("toy: ready\n")
    assert [state(field=x) for x in ("state", "licence", "megabytes")] == ["ready", "MIT", 1]
    assert state("fastcoref", "systems") == "fcoref, lingmess, booknlp"
    listed = json.loads(command("list", "systems", "--json").out)["systems"]
    needs = {r["system"]: r["needs"] for r in listed}
    assert needs["toy"] == "environment toy" and "refnb setup maverick" in needs["maverick"]
    told = json.loads(command(*ask, "--json").out)
    assert (told["sealed"], told["documents"], told["system"]) == (True, 6, "toy")
    assert command("setup", "toy").out == "toy: ready\n"


def test_one_that_was_interrupted_is_made_anew(home, state):
    def killed(line):
        if "installing" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        set_up("toy", say=killed)
    half = the_environment("toy").folder / "half"
    half.write_text("")
    assert state() == "interrupted"
    set_up("toy", wheels=str(home / "systems"), say=lambda line: None)
    assert state() == "ready" and not half.exists()


def test_one_whose_requirements_changed_is_out_of_date(toycoref, command, state):
    assert state() == "ready"
    (toycoref / "toy.txt").write_text("# other packages\n")
    assert state() == "out of date"
    said = command("run", "sample/bookcoref", "toy")
    tools.one_line(said, 1, "out of date; refnb setup toy")


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda f: wheel(f, PACKAGE + "#"), "THESE PACKAGES DO NOT MATCH THE HASHES"),
        (lambda f: (f / "toy.txt").write_text("toycoref==1.0\n"), "Hashes are required"),
        (lambda f: (f / "toy.txt").unlink(), "toy.txt"),
    ],
    ids=["other content", "no hash", "no file"],
)
def test_what_is_not_what_was_named_is_not_installed(command, home, change, why):
    change(home / "systems")
    tools.one_line(command("setup", "toy", "--wheels", home / "systems"), 1, why)
    tools.one_line(command("run", "sample/bookcoref", "toy"), 1)


def test_what_cannot_be_imported_is_no_environment(home, command, state):
    _, digest = wheel(home / "systems", "import no_such_module")
    (home / "systems/toy.txt").write_text(f"toycoref==1.0 --hash=sha256:{digest}\n")
    said = command("setup", "toy", "--wheels", home / "systems")
    tools.one_line(said, 1, "environment toy", "No module named 'no_such_module'")
    assert state() == "interrupted"


def test_code_of_a_repository_is_fetched_at_its_commit(coded, command, state):
    first = coded()
    assert "toy: fetching" in command("setup", "toy").out
    assert git(the_environment("toy").folder / "repository", "rev-parse", "HEAD") == first
    assert refnb.run("sample/bookcoref", "toy").complete
    coded(commit="0" * 40)
    assert state() == "out of date"


@pytest.mark.parametrize(
    "changed, status, why",
    [
        ({"commit": "main"}, 2, "'main' is not a commit of 40 hex digits"),
        ({"commit": "0" * 40}, 1, "git checkout failed: fatal: "),
        ({"remote": "nowhere"}, 1, "git clone failed: fatal: "),
        ({"remote": "https://example.org/x"}, 1, "https://example.org/x; a network is needed"),
        ({}, 1, "its code comes by git, which is not installed"),
    ],
    ids=["a branch", "no commit", "no repository", "offline", "no git"],
)
def test_code_that_cannot_be_fetched_is_a_line(
    coded, command, state, monkeypatch, changed, status, why
):
    coded(**changed)
    if not changed:
        monkeypatch.setattr(shutil, "which", lambda *name, **how: None)
    tools.one_line(command("setup", "toy"), status, "environment toy: ", why)
    assert state() == "interrupted"


def test_wrong_calls_are_a_line(command):
    for args, why in (
        (("setup", "toys"), "unknown environment 'toys'; did you mean toy?"),
        (("setup", "toy", "--wheels", "nowhere"), "nowhere: is not a folder"),
        (("run", "sample/bookcoref", "toy", "-p", "leest=3"), "did you mean least?"),
        (("run", "sample/ferryman", "toy"), "toy: answers documents"),
    ):
        tools.one_line(command(*args), 2, why)
