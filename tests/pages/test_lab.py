"Every exploratory session in a real JupyterLab and a real browser; `make test-full` runs it."

import json, os, shutil, subprocess, sys
import pytest
from tools import ROOT, alive, clean, end, family, gone, wait

pytest_plugins = "pages_browser"
pytestmark = pytest.mark.skipif(
    not os.environ.get("TEST_LAB"), reason="slow: make test-full runs it (TEST_LAB=1)"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    "A JupyterLab on a copy of the notebooks; its address."
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "nbs/explore", home / "nbs/explore")
    (home / "reports").symlink_to(ROOT / "reports")  # what the tables found is read there
    runtime = home / "runtime"
    args = [
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        "--port=0",
        "--IdentityProvider.token=here",
        "--LabApp.expose_app_in_browser=True",
        f"--ServerApp.root_dir={home}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *args],
        cwd=home,
        env=clean(home) | {"JUPYTER_RUNTIME_DIR": str(runtime), "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=(home / "log").open("w"),
        stderr=subprocess.STDOUT,
    )
    try:
        listens = lambda: process.poll() is not None or list(runtime.glob("jpserver-*.json"))
        servers = wait(listens, "JupyterLab starts")
        assert process.poll() is None, (home / "log").read_text()[-2000:]
        yield f"http://127.0.0.1:{json.loads(servers[0].read_text())['port']}"
    finally:
        started = family(process.pid)
        end(started)
        process.wait()
        gone(started)
        assert not alive(started)


PANEL = """[...(window.jupyterapp?.shell.widgets('main') ?? [])]
    .find(w => w.context?.path.endsWith('.ipynb'))"""
CELLS = f"""{PANEL}.content.widgets
    .filter(c => c.model.type == 'code' && c.model.sharedModel.source.trim())"""
IDLE = f"{PANEL}?.sessionContext.session?.kernel?.status == 'idle'"


SESSIONS = sorted(p.stem for p in (ROOT / "nbs/explore").glob("*.ipynb"))


@pytest.mark.parametrize("session", SESSIONS)
def test_the_session_runs_top_to_bottom(lab, window, session):
    window.ready()
    # a workspace of its own: the default one opens the notebooks of before again
    page = f"{lab}/lab/workspaces/{session}/tree/nbs/explore/{session}.ipynb?token=here"
    window.call("Page.navigate", url=page)
    window.wait(f"{IDLE} && {PANEL}.content.widgets.length > 10")
    assert session in window.js(f"{PANEL}.context.path")
    window.js(f"jupyterapp.shell.activateById({PANEL}.id)")
    window.js(f"{CELLS}.forEach(c => c.model.clearExecution())")
    window.js("jupyterapp.commands.execute('notebook:run-all-cells') && 0")
    ended = f"{CELLS}.every(c => c.model.executionCount > 0)"
    made = f"{CELLS}.flatMap(c => c.model.outputs.toJSON())"
    window.wait(f"{IDLE} && ({ended} || {made}.some(o => o.output_type == 'error'))", limit=300)
    outputs = window.js(made)
    assert not [o for o in outputs if o["output_type"] == "error"]
    committed = json.loads((ROOT / f"nbs/explore/{session}.ipynb").read_text())["cells"]
    pictures = lambda outputs: sum("image/png" in o.get("data", {}) for o in outputs)
    assert pictures(outputs) == pictures(o for c in committed for o in c.get("outputs", ()))
    window.js(f"{PANEL}.context.sessionContext.shutdown() && 0")
    window.call("Page.navigate", url="about:blank")
