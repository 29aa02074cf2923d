'The pages\' tests have one browser and one window: `pytest_plugins = "pages_browser"` lends them.'

import pytest
from browser import Reader, port  # noqa: F401 (a fixture)


@pytest.fixture(scope="session")
def window(port):  # noqa: F811
    "One window for all pages: a new one for each costs half a second."
    tab = Reader(port, "file://")
    yield tab
    tab.close()


@pytest.fixture
def reader(window, tmp_path):
    "A page; when the test is over, it has asked nobody, and said no error."
    window.folder = tmp_path
    window.ready()
    yield window
    window.watched()
