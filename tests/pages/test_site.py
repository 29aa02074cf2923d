"The site as a reader sees it, in a browser: navigation, search, plots, formulas, phones; and nothing from another host."

import functools, importlib.util, json, re, subprocess, sys, threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
import pytest
from browser import Tab, port  # noqa: F401 (a fixture)
from tools import FULL, HANG, ROOT, clean

NEEDS = [p for p in ("sphinx", "myst_nb", "pydata_sphinx_theme") if not importlib.util.find_spec(p)]
if NEEDS:
    pytest.skip(f"needs {', '.join(NEEDS)}: pip install 'refnb[dev]'", allow_module_level=True)

REPORT = "reports/identifyme/table_3_main_results"
FORMULA = "nbs/metrics/09_uncertainty"
PART = (  # of the site, which a minute would be too long for
    *("nbs/index.ipynb", "nbs/core/00_types.ipynb", "nbs/metrics/00_choice.ipynb", f"{REPORT}.md"),
    f"{FORMULA}.ipynb",
    *("docs/*.md", "docs/pages/*", "docs/pages/modules/refnb.metrics.choice.*"),
)
PHONE = ["nbs/index", REPORT, FORMULA, "docs/pages/api", "docs/pages/figures", "docs/pages/data"]


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    "The site: whole, as `make site` does, where a link that leads nowhere would fail it, or a part."
    home = tmp_path_factory.mktemp("site")
    how = ("-W", "--keep-going") if FULL else ("-Q", "-D", f"include_patterns={','.join(PART)}")
    sphinx = [sys.executable, "-m", "sphinx", "-q", *how, "-c", "docs", "-d", home / "doctrees"]
    got = subprocess.run(
        [*sphinx, ".", home / "site"],
        cwd=ROOT,
        env=clean(home),
        capture_output=True,
        text=True,
        timeout=10 * HANG,
    )
    assert got.returncode == 0, got.stderr[-2000:]
    return home / "site"


@pytest.mark.full
def test_every_notebook_and_report_has_its_page(site):
    made = [p for p in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts]
    made += [p for p in (ROOT / "reports").glob("*/*.md") if p.parent.name != "sample"]
    lacking = [
        p.name
        for p in made
        if "own" not in p.parent.name
        and not (site / p.relative_to(ROOT).with_suffix(".html")).exists()
    ]
    assert len(made) > 150 and not lacking


def test_directives_are_followed(site):
    page = (site / "nbs/metrics/00_choice.html").read_text()
    assert "#|" not in page and "default_exp" not in page and "def</span>" in page
    assert "docs/pages/modules/refnb.metrics.choice.html" in page


def test_the_reference_has_the_comments_beside_parameters(site):
    text = re.sub(
        "<[^>]+>", "", (site / "docs/pages/modules/refnb.metrics.choice.html").read_text()
    )
    assert "Accuracy of multiple-choice answers" in text and "with its right options" in text


def test_no_folder_of_this_machine_is_named(site):
    pages = [p for p in site.rglob("*.html") if str(ROOT) in p.read_text(errors="replace")]
    assert not pages


# What a browser shows


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def host(site):
    "The site's address."
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def tab(port, host):  # noqa: F811
    "A page; when the test is over, it has asked nobody but us, and said no error."
    tab = Tab(port, host)
    yield tab
    try:
        asked = tab.requests()
        assert asked, "no request was seen"
        assert not [u for u in asked if not u.startswith((f"{host}/", "data:", "blob:", "about:"))]
        assert not [e for e in tab.errors() if "favicon" not in e]
    finally:
        tab.close()


def link(words: str) -> str:
    return f"[...document.querySelectorAll('a')].find(a => a.innerText.trim() == {json.dumps(words)} && a.offsetWidth)"


def test_the_navigation_leads_to_a_notebook(tab):
    tab.open("nbs/index")
    tab.js(f"{link('Core')}.click()")
    tab.at("docs/pages/core")
    tab.js(f"{link('Types')}.click()")
    tab.at("nbs/core/00_types")
    assert tab.js("document.querySelector('h1').innerText").startswith("Types")


def test_a_word_is_searched_and_found(tab):
    tab.open("search", "?q=jackknife")
    tab.wait(
        "[...document.querySelectorAll('#search-results a')].some(a => a.href.includes('09_uncertainty'))"
    )


def test_a_report_shows_its_plot_and_its_table(tab):
    tab.open(REPORT)
    tab.js("document.querySelector('article img').scrollIntoView()")
    assert tab.wait("document.querySelector('article img').naturalWidth") > 300
    assert tab.js("document.querySelectorAll('article table tr').length") > 3


def test_a_formula_is_drawn(tab):
    tab.open(FORMULA)
    width = tab.js("document.querySelector('article math').getBoundingClientRect().width")
    assert width > 4
    assert "$" not in tab.js("document.querySelector('article math').parentElement.innerText")


def test_a_book_and_rankings_open_in_their_frames(tab):
    tab.open("docs/examples")
    tab.js("document.querySelector('iframe').scrollIntoView()")
    inside = "document.querySelector('iframe').contentDocument"
    assert tab.wait(f"{inside}.querySelectorAll('.block').length")
    assert tab.wait(f"{inside}.querySelector('#list .n')?.textContent") == "104 · 2"
    tab.open("ranking")
    assert "Systems ranked" in tab.js("document.body.innerText")


def test_no_page_is_wider_than_a_phone(tab):
    tab.phone()
    wide = {}
    for page in PHONE:
        tab.open(page)
        if (width := tab.js("document.documentElement.scrollWidth")) > 390:
            wide[page] = width
    assert not wide
