"The site as a reader sees it: navigation, search, plots, formulas, phones, and no other host."

import functools, importlib.util, json, re, subprocess, sys, threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
import pytest
from tools import FULL, HANG, ROOT, clean

pytest_plugins = "pages_browser"

NEEDS = [p for p in ("sphinx", "myst_nb", "pydata_sphinx_theme") if not importlib.util.find_spec(p)]
if NEEDS:
    pytest.skip(f"needs {', '.join(NEEDS)}: pip install 'refnb[dev]'", allow_module_level=True)

REPORT = "reports/identifyme/table_3_main_results"
FORMULA = "nbs/metrics/09_uncertainty"
MODULE = "docs/pages/modules/refnb.metrics.choice"
PART = [  # of the site, which a minute would be too long for
    *("nbs/index.ipynb", "nbs/core/00_types.ipynb", "nbs/metrics/00_choice.ipynb"),
    *(f"{REPORT}.md", f"{FORMULA}.ipynb", f"{MODULE}.*", "docs/*.md", "docs/pages/*"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    "The site: a part, or all of it as `make site` does, where a link that leads nowhere fails."
    home = tmp_path_factory.mktemp("site")
    how = ("-W", "--keep-going") if FULL else ("-Q", "-D", f"include_patterns={','.join(PART)}")
    sphinx = [sys.executable, "-m", "sphinx", "-q", *how, "-c", "docs", "-d", home / "doctrees"]
    made = subprocess.run(
        [*sphinx, ".", home / "site"],
        cwd=ROOT,
        env=clean(home),
        capture_output=True,
        text=True,
        timeout=10 * HANG,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    return home / "site"


@pytest.mark.full
def test_every_notebook_and_report_has_its_page(site):
    made = [p for p in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts]
    made += [p for p in (ROOT / "reports").glob("*/*.md") if p.parent.name != "sample"]
    page = lambda p: site / p.relative_to(ROOT).with_suffix(".html")
    lacking = [p.name for p in made if "own" not in p.parent.name and not page(p).exists()]
    assert len(made) > 150 and not lacking


def test_a_notebook_shows_its_code_and_the_reference_its_comments(site):
    page = (site / "nbs/metrics/00_choice.html").read_text()
    assert "#|" not in page and "default_exp" not in page and "def</span>" in page
    # signatures link above the code, and imports are folded
    assert page.index(f"{MODULE}.html#{MODULE.split('/')[-1]}.credit") < page.index("def</span>")
    assert "hide_input" in page or "tag_hide-input" in page
    assert f"{MODULE}.html" in page
    text = re.sub("<[^>]+>", "", (site / f"{MODULE}.html").read_text())
    assert "Accuracy of multiple-choice answers" in text and "with its right options" in text


def test_no_folder_of_this_machine_is_named(site):
    pages = [p for p in site.rglob("*.html") if str(ROOT) in p.read_text(errors="replace")]
    assert not pages


# What a browser shows


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def host(site):
    "The site's address."
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def tab(window, host, monkeypatch):
    "A page; when the test is over, it has asked nobody but us, and said no error."
    monkeypatch.setattr(window, "host", host)
    window.ready()
    yield window
    asked = window.requests()
    assert asked and not [u for u in asked if not u.startswith((f"{host}/", "data:", "about:"))]
    assert not [e for e in window.errors() if "favicon" not in e]


def follow(tab, words: str):
    "Click on the link that says so, where one is seen."
    links = "[...document.querySelectorAll('a')]"
    tab.js(f"{links}.find(a => a.innerText.trim() == {json.dumps(words)} && a.offsetWidth).click()")


def fits_a_phone(tab):
    tab.phone()
    assert tab.js("document.documentElement.scrollWidth") <= 390, tab.js("location.pathname")


WORDS = {x: FORMULA for x in ("jackknife", "p-value", "bootstrap")} | {
    "custom+metric": "docs/extending"
}


def test_the_navigation_leads_to_a_notebook_and_a_search_finds_one(tab):
    tab.open("nbs/index")
    follow(tab, "Core")
    tab.at("docs/pages/core")
    follow(tab, "Types")
    tab.at("nbs/core/00_types")
    assert tab.text("h1").startswith("Types")
    fits_a_phone(tab)
    found = "[...document.querySelectorAll('#search-results a')].map(a => a.href)"
    for words, page in WORDS.items():
        tab.open("search", f"?q={words}")
        tab.wait(f"{found}.some(link => link.includes('{page}'))")


def test_a_report_shows_its_plot_and_its_table(tab):
    tab.open(REPORT)
    tab.js("document.querySelector('article img').scrollIntoView()")
    assert tab.wait("document.querySelector('article img').naturalWidth") > 300
    assert tab.js("document.querySelectorAll('article table tr').length") > 3
    fits_a_phone(tab)


def test_a_formula_is_drawn(tab):
    tab.open(FORMULA)
    assert tab.js("document.querySelector('article math').getBoundingClientRect().width") > 4
    assert "$" not in tab.js("document.querySelector('article math').parentElement.innerText")
    fits_a_phone(tab)


def test_a_book_and_rankings_open_in_their_frames(tab):
    tab.open("docs/examples")
    tab.js("document.querySelector('iframe').scrollIntoView()")
    inside = "document.querySelector('iframe').contentDocument"
    assert tab.wait(f"{inside}.querySelectorAll('.block').length")
    assert tab.wait(f"{inside}.querySelector('#list .n')?.textContent") == "104 · 2"
    tab.open("ranking")
    assert "Systems ranked" in tab.js("document.body.innerText")


OTHERS = ["api", "data", "figures", "../../nbs/index"]


@pytest.mark.parametrize("page", OTHERS if FULL else OTHERS[:1])
def test_other_pages_fit_a_phone(tab, page):
    tab.open(str(Path("/docs/pages", page).resolve())[1:])
    fits_a_phone(tab)
