"The site as a reader sees it, in a browser: navigation, search, plots, formulas, tables, phones; and nothing from another host."

import functools, html, importlib.util, json, re, subprocess, sys, threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
import pytest
from browser import LEAVING, Inner, Tab, port  # noqa: F401 (a fixture)
from tools import HANG, ROOT, clean, load_script

NEEDS = [
    p
    for p in ("markdown_it", "mdit_py_plugins", "pygments", "latex2mathml")
    if not importlib.util.find_spec(p)
]
if NEEDS:
    pytest.skip(f"needs {', '.join(NEEDS)}: pip install 'refnb[dev]'", allow_module_level=True)

REPORT, CHOICE = "reports/identifyme/table_3_main_results", "notebooks/metrics/00_choice"
FORMULA = "notebooks/metrics/09_uncertainty"
SAMPLE = [
    "index",
    "reports/index",
    REPORT,
    "reports/identifyme/index",
    CHOICE,
    "notebooks/core/00_types",
    "notebooks/results/07_plots",
    "notebooks/tables/identifyme/table_3_main_results",
    "notebooks/metrics/index",
    "api/index",
    "api/refnb.core.types",
    "api/refnb.core.files",
    "book",
    "book-alone",
    "commands",
    "figures",
    "ranking",
    "ranking-alone",
    "data",
    "search",
]


@pytest.fixture(scope="module")
def builder():
    "The script that builds the site."
    return load_script(ROOT / ".ci/site/build.py")


@pytest.fixture
def page(builder, tmp_path):
    "An empty page, made from nbs/index.ipynb."
    return builder.Page(builder.Site(tmp_path), "index.html", "nbs/index.ipynb")


def words(path: Path) -> str:
    "A page's text."
    return html.unescape(re.sub("<[^>]+>", "", path.read_text()))


def build(home: Path, out: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, ROOT / ".ci/site/build.py", "--out", out],
        cwd=home,
        env=clean(home),
        capture_output=True,
        text=True,
        timeout=3 * HANG,
    )


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    "A site, built once."
    home = tmp_path_factory.mktemp("site")
    got = build(home, home / "site")
    assert got.returncode == 0, got.stdout + got.stderr
    assert not got.stderr, got.stderr
    return home / "site"


# What is built


def test_every_notebook_and_report_has_its_page(site):
    for p in (ROOT / "nbs").rglob("[0-9]*.ipynb"):
        if ".ipynb_checkpoints" not in p.parts:
            assert (
                site / "notebooks" / p.relative_to(ROOT / "nbs").with_suffix(".html")
            ).is_file(), p
    for p in (ROOT / "reports").glob("[!.]*/*.md"):
        page = p.relative_to(ROOT / "reports").with_suffix(".html")
        if p.name == "README.md":
            page = page.with_name("index.html")
        if p.parent.name != "sample":
            assert (site / "reports" / page).is_file(), p


def test_directives_are_hidden_and_outputs_are_shown(site):
    page = (site / f"{CHOICE}.html").read_text()
    assert "default_exp" not in page and "#| export" not in re.sub("<[^>]+>", "", page)
    assert 'class="dataframe"' in page
    assert "<math" in (site / f"{FORMULA}.html").read_text()


def test_the_api_has_signatures_comments_and_the_source(site):
    page = words(site / "api/refnb.core.types.html")
    assert "a field of the questions, or several" in words(
        site / "api/refnb.results.scores.html"
    ), "a parameter's comment"
    assert "the document it is asked of; intervals are clustered by it" in page, "a field's comment"
    assert "def nearest(name: str, known: Iterable[str]) -> str" in page
    assert "Constants and types" in page and "Meta" in page
    assert (
        '../notebooks/core/00_types.html#def-nearest">[source]'
        in (site / "api/refnb.core.types.html").read_text()
    )


def test_every_exported_name_is_in_the_api(site):
    for p in (site / "api").glob("refnb.*.html"):
        if p.stem == "refnb":
            continue
        shown, module = words(p), importlib.import_module(p.stem)
        assert not [n for n in module.__all__ if n not in shown], p.stem


def test_every_command_and_every_picture_has_its_place(site):
    from refnb.commands.cli import app

    page, figures = words(site / "commands.html"), (site / "figures.html").read_text()
    assert (
        all(
            f"refnb {c.name or c.callback.__name__.strip('_')}" in page
            for c in app.registered_commands
        )
        and "--json" in page
    )
    assert all(
        f"{p.parent.name}/{p.name}" in figures
        for p in (ROOT / "reports").glob("[!.]*/*.png")
        if p.parent.name not in ("sample", "runs")
    )


def test_a_report_can_be_downloaded(site):
    page = (site / f"{REPORT}.html").read_text()
    for end_ in ("csv", "tex", "json"):
        (found,) = re.findall(rf'href="([^"]+/table_3_main_results\.{end_})"', page)
        assert (site / REPORT).parent.joinpath(found).resolve().read_bytes() == (
            ROOT / f"{REPORT}.{end_}"
        ).read_bytes()


@pytest.mark.parametrize(
    "link",
    [
        "../nothing.md",
        "../reports/identifyme/table_99.png",
        "../../outside",
        "core/00_types.ipynb#",
    ],
)
def test_a_link_that_leads_nowhere_is_a_fault(page, link):
    page.markdown(f"see [this]({link}) and `[that](no link)`")
    assert len(page.site.faults) == (not link.endswith("#")), page.site.faults


def test_links_are_seen_from_the_page(page, tmp_path):
    picture = "reports/identifyme/table_3_main_results.png"
    page.markdown(
        f"[a](../reports/README.md#kitmus) [b](../LICENSE) ![c](../{picture}) [d](https://x.org) [e](#f)"
    )
    found = re.findall(r'(?:href|src)="([^"]+)"', page.body[0])
    assert found == [
        "reports/index.html#kitmus",
        "files/LICENSE",
        f"files/{picture}",
        "https://x.org",
        "#f",
    ]
    assert (tmp_path / "files/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def cell(text: str, *outputs: dict) -> dict:
    return dict(cell_type="code", metadata={}, source=text, outputs=list(outputs))


def of(**data) -> dict:
    return dict(output_type="display_data", data={k.replace("_", "/"): v for k, v in data.items()})


OUTPUTS = [
    (dict(output_type="stream", name="stdout", text=["a < b\n"]), "a &lt; b"),
    (
        dict(output_type="error", traceback=["\x1b[31mValueError\x1b[0m: 1 < 2"]),
        "ValueError: 1 &lt; 2",
    ),
    (of(text_html=["<b>1</b>"], text_plain=["1"]), "<b>1</b>"),
    (of(text_plain=["<A>"]), "&lt;A&gt;"),
    (of(text_markdown=["see [it](../LICENSE)"]), 'href="files/LICENSE"'),
    (of(image_png="iVBORw0KGgo=", text_plain="Figure"), 'src="pictures/'),
    (dict(data={"image/svg+xml": ["<svg/>"]}), '.svg"'),
]


@pytest.mark.parametrize("output, shown", OUTPUTS)
def test_outputs_are_shown(builder, page, output, shown):
    builder.pages.code_cell(page, cell("1", output))
    assert shown in "".join(page.body)


def test_what_needs_a_script_stays_out(builder, page):
    builder.pages.code_cell(page, cell("1", of(application_javascript="alert(1)")))
    assert "alert" not in "".join(page.body)


@pytest.mark.parametrize(
    "given, code, output",
    [
        ("#| export\n", True, True),
        ("#| echo: false\n", False, True),
        ("#| hide_input\n", False, True),
        ("#| hide\n", False, False),
        ("#| include: false\n", False, False),
    ],
)
def test_directives_are_followed(builder, page, given, code, output):
    builder.pages.code_cell(page, cell(f"{given}x = 1", of(text_plain=["the result"])))
    shown = "".join(page.body)
    assert ("x = " in shown, "the result" in shown, "#|" in shown) == (code, output, False)


FORMULAS = ["$x^2$", "$$x^2$$", "\\begin{align}\nx &= y\n\\end{align}"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_mathml(builder, page, text):
    page.markdown(text, builder.pages.FORMULAS)
    assert "<math" in page.body[0] and "$" not in page.body[0]


def test_money_is_no_formula(builder, page):
    page.markdown("one costs $5, the other $6", builder.pages.FORMULAS)
    assert "<math" not in page.body[0]


def test_a_dead_link_and_a_folder_of_this_machine_are_faults(builder, tmp_path):
    (tmp_path / "a.html").write_text(
        '<a class="x" href="b.html#there">1</a> <a href="b.html#not">2</a> <a href="c.html">3</a>'
        '<a href="https://x.org">4</a> <img src="d.png"> /some/folder'
    )
    (tmp_path / "b.html").write_text('<p id="there">')
    said = [
        "names the folder /some/folder of this machine",
        "the link b.html#not leads nowhere",
        "the link c.html leads nowhere",
        "the link d.png leads nowhere",
    ]
    assert sorted(builder.check(tmp_path, "/some/folder")) == [f"a.html: {s}" for s in said]


AWAY = {
    ".html": [
        '<script src="https://x.org/a.js"></script>',
        '<link href="//x.org/a.css" rel="stylesheet">',
        '<img alt=">" src="http://x.org/a.png">',
        '<img srcset="a.png 1x, https://x.org/b.png 2x">',
        '<p style="background:url(https://x.org/a)">',
        "<style>@import 'https://x.org/a.css'</style>",
        '<script>import("https://x.org/a.js")</script>',
        "<iframe src=https://x.org></iframe>",
    ],
    ".css": [
        "a{b:url(https://x.org/a)}",
        "a{b:url( '//x.org/a')}",
        '@import "https://x.org/a.css";',
    ],
    ".js": [
        'import x from "https://x.org/a.js"',
        "fetch('https://x.org')",
        'e.src="//x.org/a.js"',
        'r.open("GET","https://x.org")',
    ],
}
HERE = {
    ".html": [
        '<a href="https://x.org">x</a>',
        '<script src="_static/a.js"></script>',
        "<code>src='https://x.org'</code>",
        '<svg xmlns="http://www.w3.org/2000/svg">',
    ],
    ".css": ["/* https://x.org */ a{b:url(fonts/a.woff2)}"],
    ".js": ["// see https://x.org\nlet x = 'https://x.org'"],
}


@pytest.mark.parametrize("kind, text", [(k, t) for k, ts in AWAY.items() for t in ts])
def test_what_is_loaded_from_another_host_is_found(builder, kind, text):
    assert builder.foreign(text, kind)


@pytest.mark.parametrize("kind, text", [(k, t) for k, ts in HERE.items() for t in ts])
def test_a_link_to_be_clicked_is_none(builder, kind, text):
    assert not builder.foreign(text, kind)


def test_a_folder_that_is_no_site_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    got = build(tmp_path, tmp_path)
    assert got.returncode == 2 and "no site" in got.stderr and (tmp_path / "thesis.txt").exists()


def test_a_site_is_replaced_and_one_with_faults_is_not(builder, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/old.html").write_text("old")
    monkeypatch.setattr(
        builder, "write_pages", lambda site: site.write("new.html", '<a href="gone.html">')
    )
    with pytest.raises(builder.SiteError, match="gone.html leads nowhere"):
        builder.build(tmp_path / "site")
    assert (tmp_path / "site/old.html").exists()
    monkeypatch.setattr(builder, "write_pages", lambda site: site.write("new.html", "new"))
    builder.build(tmp_path / "site")
    assert (tmp_path / "site/new.html").exists() and not (tmp_path / "site/old.html").exists()


def test_a_directive_that_shows_is_a_fault(builder, tmp_path):
    (tmp_path / "a.html").write_text(builder.pages.code_block("#| export\nx = 1"))
    assert builder.check(tmp_path) == ["a.html: shows the directive #| export"]


def cells(*sources: str, outputs=(), tags=()) -> list[dict]:
    return [
        dict(cell_type="code", metadata={"tags": list(tags)}, source=s, outputs=list(outputs))
        for s in sources
    ]


RUNS = [
    ("seed = 7\nout = 'there'", "print(seed)", True),
    ("seed = 8\nout = ''", "print(seed)", False),
    ("seed = 7", "print(seed + 1)", False),
]


@pytest.mark.parametrize("injected, code, shown", RUNS)
def test_a_table_shows_its_last_run_unless_that_was_another(
    builder, tmp_path, monkeypatch, injected, code, shown
):
    monkeypatch.setattr(builder.pages, "ROOT", tmp_path)
    said, path = (
        dict(output_type="stream", name="stdout", text="7"),
        tmp_path / "nbs/tables/paper/table_1.ipynb",
    )
    parameters = cells("seed: int = 7  # of the dice\nout: str = ''", tags=["parameters"])
    nb = dict(cells=[*parameters, *cells("print(seed)")])
    assert builder.pages.last_run(path, nb) == nb
    (tmp_path / "reports/.batch").mkdir(parents=True)
    ran = [
        *parameters,
        *cells(injected, tags=["injected-parameters"]),
        *cells(code, outputs=[said]),
    ]
    (tmp_path / "reports/.batch/paper-table_1.ipynb").write_text(json.dumps(dict(cells=ran)))
    assert builder.pages.last_run(path, nb) == (
        dict(cells=[*parameters, *cells("print(seed)", outputs=[said])]) if shown else nb
    )


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
        assert not tab.errors()
    finally:
        tab.close()


LINKS = """[...document.querySelectorAll('#navigation a')].filter(e => {
    const b = e.getBoundingClientRect()
    return b.width > 0 && b.height > 0 && b.left >= 0 && b.right <= innerWidth && getComputedStyle(e).visibility == 'visible' })"""  # those in sight


def test_the_navigation_leads_to_a_notebook(tab):
    tab.open("index")
    assert tab.js(f"{LINKS}.map(a => a.innerText.trim())")[:5] == [
        "The board",
        "Figures",
        "A book",
        "Rankings",
        "Core",
    ]
    tab.js(f"{LINKS}.find(a => a.innerText.trim() == 'Core').click()")
    tab.at("notebooks/core/index")
    tab.js(f"{LINKS}.find(a => a.innerText.trim() == 'Types').click()")
    tab.at("notebooks/core/00_types")
    assert tab.js("document.querySelector('h1').innerText").startswith("Types")


def test_a_word_is_searched_and_found(tab):
    tab.open("index")
    tab.js("document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true }))")
    tab.wait("document.activeElement.id == 'query'")
    tab.js("document.activeElement.value = 'jackknife'")
    tab.js("document.activeElement.form.requestSubmit()")
    tab.at("search")
    tab.wait(
        "[...document.querySelectorAll('#results a')].some(a => a.href.includes('09_uncertainty'))"
    )
    tab.js("document.querySelector('#results a').click()")
    tab.wait("location.pathname != '/search.html' && document.readyState == 'complete'")
    assert tab.js("document.querySelector('article').innerText.toLowerCase().includes('jackknife')")


def test_a_report_shows_its_plot_and_its_table(tab):
    tab.open(REPORT)
    assert tab.wait("document.querySelector('article img').naturalWidth") > 300
    assert tab.js("document.querySelectorAll('article table.numbers tr').length") > 3
    assert tab.js("document.querySelectorAll('article h1').length") == 1


def test_a_notebook_shows_its_plot(tab):
    tab.open("notebooks/results/07_plots")
    assert tab.wait("document.querySelector('article .output img').naturalWidth") > 100


def test_f53_no_script_runs_but_the_sites_own_and_a_viewer_inside_a_notebook(tab):
    tab.open("notebooks/results/pages/00_viewer")
    inner = Inner(tab)
    try:
        inner.wait("document.querySelector('#question h2')?.textContent")
    finally:
        inner.socket.close()
    assert not tab.errors()
    for way in LEAVING:
        tab.js(way.replace("HOST", "http://127.0.0.1:9"))
    refused = [e for e in tab.errors() if "Content Security Policy" in e]
    assert len(refused) >= 4 and tab.js("window.ran ?? 'no'") == "no"
    tab.events = [
        e
        for e in tab.events
        if e.get("method") == "Network.requestWillBeSent"
        and "127.0.0.1:9/" not in e["params"]["request"]["url"]
    ]


def test_a_book_opens_in_its_frame_and_in_a_window_of_its_own(tab):
    tab.open("book")
    tab.js("document.querySelector('iframe').scrollIntoView()")
    inner = Inner(tab)
    try:
        assert (
            inner.wait(
                "document.querySelectorAll('.block').length && document.querySelector('#list .n')?.textContent"
            )
            == "104 · 2"
        )
    finally:
        inner.socket.close()
    tab.js(
        "[...document.querySelectorAll('article a')].find(a => a.innerText == 'In a window of its own').click()"
    )
    tab.at("book-alone")
    tab.wait(
        "document.querySelectorAll('.block').length && mode == 'both' && tokenAt(box.scrollTop) == 0"
    )


def test_a_formula_is_drawn(tab):
    tab.open(FORMULA)
    width, height = tab.js(
        "(b => [b.width, b.height])(document.querySelector('article math').getBoundingClientRect())"
    )
    assert width > 4 and height > 4
    assert "$" not in tab.js("document.querySelector('article math').parentElement.innerText")


def test_no_page_is_wider_than_a_phone(tab):
    tab.phone()
    wide = {}
    for page in SAMPLE:
        tab.open(page)
        if (width := tab.js("document.documentElement.scrollWidth")) > 390:
            wide[page] = width
        assert tab.js(
            "[...document.querySelectorAll('article img')].every(i => i.getBoundingClientRect().right <= 390)"
        ), page
    assert not wide


def test_the_navigation_opens_on_a_phone(tab):
    tab.phone()
    tab.open("index")
    assert tab.js(f"{LINKS}.length") == 0
    tab.js("document.querySelector('#menu').click()")
    tab.wait(f"{LINKS}.some(a => a.innerText.trim() == 'Metrics')")
    tab.js(f"{LINKS}.find(a => a.innerText.trim() == 'Metrics').click()")
    tab.at("notebooks/metrics/index")


def test_a_wide_table_scrolls_in_its_own_box(tab):
    tab.phone()
    tab.open("reports/index")
    box = "[...document.querySelectorAll('article table')][0].parentElement"
    assert tab.js(f"{box}.scrollWidth > {box}.clientWidth")
    tab.js(f"{box}.scrollLeft = 10000")
    assert tab.js(f"{box}.scrollLeft") > 0


def test_a_function_is_found_before_pages_that_only_mention_it(tab):
    tab.open("search", "?q=cluster_interval")
    tab.wait("document.querySelectorAll('#results .under a').length")
    first = "document.querySelector('#results li')"
    assert tab.js(f"{first}.innerText").startswith(("Uncertainty", "refnb.metrics.uncertainty"))
    assert "cluster_interval" in tab.js(f"{first}.querySelector('.under').innerText")


def test_light_and_dark(tab):
    ground = "getComputedStyle(document.body).backgroundColor"
    tab.call(
        "Emulation.setEmulatedMedia", features=[dict(name="prefers-color-scheme", value="dark")]
    )
    tab.open("index")
    dark = tab.js(ground)
    tab.js("document.querySelector('#theme').click()")
    assert tab.js(ground) != dark
    tab.open("data")
    assert tab.js(ground) != dark, "the choice is kept"
    tab.js("document.querySelector('#theme').click()")
    assert tab.js(ground) == dark and tab.js("localStorage.length") == 0
