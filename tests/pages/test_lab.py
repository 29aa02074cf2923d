"The exploratory session in a real JupyterLab, driven by a real browser. Slow, so `make test-full` runs it: TEST_LAB=1."

import json, os, shutil, subprocess, sys
import pytest
from browser import Tab, port  # noqa: F401 (a fixture)
from tools import ROOT, alive, clean, end, family, gone, wait

pytestmark = pytest.mark.skipif(
    not os.environ.get("TEST_LAB"), reason="slow: make test-full runs it (TEST_LAB=1)"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    "A JupyterLab on a copy of the notebooks; its address."
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "nbs/explore", home / "explore")
    info = home / "runtime"
    env = clean(home) | {"JUPYTER_RUNTIME_DIR": str(info), "HOME": str(home)}
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
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=(home / "log").open("w"),
        stderr=subprocess.STDOUT,
    )
    try:
        found = wait(
            lambda: process.poll() is not None or list(info.glob("jpserver-*.json")),
            "JupyterLab starts",
        )
        assert process.poll() is None, (home / "log").read_text()[-2000:]
        at = json.loads(found[0].read_text())
        yield f"http://127.0.0.1:{at['port']}"
    finally:
        started = family(process.pid)
        end(started)
        process.wait()
        gone(started)
        assert not alive(started)


PANEL = "[...(window.jupyterapp?.shell.widgets('main') ?? [])].find(w => w.context?.path.endsWith('.ipynb'))"
CELLS = f"{PANEL}.content.widgets.filter(c => c.model.type == 'code' && c.model.sharedModel.source.trim())"
IDLE = f"{PANEL}?.sessionContext.session?.kernel?.status == 'idle'"


def test_the_session_runs_top_to_bottom(lab, port):  # noqa: F811
    tab = Tab(port, lab)
    try:
        tab.call("Page.navigate", url=f"{lab}/lab/tree/explore/who_answers_what.ipynb?token=here")
        tab.wait(f"{IDLE} && {PANEL}.content.widgets.length > 10")
        tab.js(f"jupyterapp.shell.activateById({PANEL}.id)")
        tab.js(f"{CELLS}.forEach(c => c.model.clearExecution())")
        tab.js("jupyterapp.commands.execute('notebook:run-all-cells') && 0")
        tab.wait(f"{IDLE} && {CELLS}.every(c => c.model.executionCount > 0)")
        outputs = tab.js(f"{CELLS}.flatMap(c => c.model.outputs.toJSON())")
        assert len(outputs) >= 8 and not [o for o in outputs if o["output_type"] == "error"]
        assert sum("image/png" in o.get("data", {}) for o in outputs) == 1
        assert any("<mark>" in str(o.get("data", {}).get("text/html", "")) for o in outputs)
    finally:
        tab.close()
