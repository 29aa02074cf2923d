"A real browser, driven through its DevTools protocol."

import contextlib, itertools, json, os, shutil, subprocess, urllib.request
from pathlib import Path
import pytest
from tools import HANG, alive, end, family, gone, wait

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage
    --no-first-run --disable-background-networking --disable-component-update --disable-sync
    --disable-default-apps --no-default-browser-check --remote-debugging-port=0
    --window-size=1300,1000""".split()
FLAGS.append("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


@pytest.fixture(scope="session")
def port(tmp_path_factory):
    "A browser; where it can be talked to."
    pytest.importorskip("websocket", reason="needs websocket-client, which comes with JupyterLab")
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt install chromium")
    with browser(tmp_path_factory.mktemp("chromium")) as port:
        yield port


@contextlib.contextmanager
def browser(home):
    "A browser that lives in an empty folder; where it can be talked to."
    told = home / "profile/DevToolsActivePort"
    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={told.parent}", "about:blank"],
        env=dict(os.environ, HOME=str(home)),
        **silent,
    )
    started = lambda: told.exists() and len(told.read_text().split()) == 2
    try:
        wait(lambda: process.poll() is not None or started(), "Chromium starts")
        if process.poll() is not None:
            pytest.skip(f"{CHROMIUM} does not start here: it ended with {process.returncode}")
        yield int(told.read_text().split()[0])
    finally:
        processes = family(process.pid)
        end(processes)
        process.wait()
        gone(processes)
        assert not alive(processes)


KEYS = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "ArrowDown": (40, ""),
    "ArrowUp": (38, ""),
    "ArrowLeft": (37, ""),
    "ArrowRight": (39, ""),
    "Delete": (46, ""),
    " ": (32, " "),
    "Escape": (27, ""),
    "Home": (36, ""),
    "End": (35, ""),
}


class Tab:
    "A page in the browser, through the DevTools protocol."

    def __init__(self, port: int, host: str):
        import websocket

        self.host, self.port, self.events, self.numbers = host, port, [], itertools.count(1)
        self.id = self._ask("new?about:blank", "PUT")["id"]
        self.socket = websocket.create_connection(
            f"ws://127.0.0.1:{port}/devtools/page/{self.id}", suppress_origin=True, timeout=HANG
        )
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.ready()

    def _ask(self, what: str, method: str = "GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/{what}", method=method)
        with urllib.request.urlopen(request, timeout=HANG) as reply:
            return json.loads(text) if (text := reply.read()).startswith(b"{") else text

    def close(self):
        self.socket.close()
        self._ask(f"close/{self.id}")

    def call(self, method: str, **params) -> dict:
        "One command and its result; events that come before it are kept."
        number = next(self.numbers)
        self.socket.send(json.dumps(dict(id=number, method=method, params=params)))
        while (got := json.loads(self.socket.recv())).get("id") != number:
            self.events.append(got)
        return got.get("result", {})

    def js(self, code: str):
        "The value of an expression; None where it fails, as it does while a page is changing."
        how = dict(expression=code, returnByValue=True, awaitPromise=True)
        return self.call("Runtime.evaluate", **how).get("result", {}).get("value")

    def text(self, what: str) -> str:
        "What a reader sees of an element."
        seen = f"document.querySelector({json.dumps(what)})?.innerText.replaceAll('\\u00a0', ' ')"
        return self.js(seen)

    def set(self, id: str, value, event: str = "input"):
        "Fill a field as a person does."
        told = f"s.dispatchEvent(new Event('{event}', {{bubbles: true}}))"
        self.js(f"(s => {{ s.value = {json.dumps(value)}; {told} }})(at('{id}'))")

    def wait(self, code: str, **how: float):
        return wait(lambda: self.js(code), code, **how)

    def at(self, page: str):
        self.wait(f"location.pathname == '/{page}.html' && document.readyState == 'complete'")

    def press(self, *keys: str, shift: bool = False):
        for key in keys:
            number, text = KEYS.get(key, (ord(key[0].upper()), key))
            how = dict(key=key, code=key, windowsVirtualKeyCode=number, modifiers=8 if shift else 0)
            kind = "keyDown" if text else "rawKeyDown"
            self.call(
                "Input.dispatchKeyEvent", type=kind, **how, **({"text": text} if text else {})
            )
            self.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def open(self, page: str, query: str = ""):
        self.call("Page.navigate", url=f"{self.host}/{page}.html{query}")
        self.at(page)

    def size(self, width: int, height: int = 844, **how):
        how = dict(deviceScaleFactor=1, mobile=False) | how
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, **how)

    def phone(self):
        self.size(390, deviceScaleFactor=2, mobile=True)

    def ready(self):
        "Forget what was before: other pages, and another size."
        self.call("Page.bringToFront")  # what is behind another page draws nothing
        self.call("Emulation.clearDeviceMetricsOverride")
        self.events.clear()

    def requests(self) -> list[str]:
        self.js("1")  # what has come is read
        of = {
            "Network.requestWillBeSent": lambda p: p["request"]["url"],
            "Network.webSocketCreated": lambda p: p["url"],
        }
        return [of[e["method"]](e["params"]) for e in self.events if e.get("method") in of]

    def errors(self) -> list[str]:
        self.js("1")
        bad = {
            "Runtime.exceptionThrown": lambda p: True,
            "Runtime.consoleAPICalled": lambda p: p["type"] in ("error", "assert"),
            "Log.entryAdded": lambda p: p["entry"]["level"] == "error",
            "Page.javascriptDialogOpening": lambda p: True,
        }
        return [
            str(e["params"])
            for e in self.events
            if e.get("method") in bad and bad[e["method"]](e["params"])
        ]


class Reader(Tab):
    "Who looks at a page of a file."

    folder: Path  # of the page, anew for each test

    def show(self, page: str, query: str = ""):
        (self.folder / "page.html").write_text(page, encoding="utf-8", newline="")
        self.open(f"{self.folder}/page"[1:], query)

    def watched(self):
        "Check what the pages did since the last time: they asked nobody, and said no error."
        own = (f"file://{self.folder}/", "data:", "about:", "blob:")
        assert self.requests() and not [u for u in self.requests() if not u.startswith(own)]
        assert not self.errors()


# nothing of others ran: no handler, no address that is a script, no element that loads
HARMLESS = """window.pwned === undefined
    && document.querySelectorAll('iframe, object, embed').length == 0
    && [...document.querySelectorAll('*')].every(e => [...e.attributes].every(a =>
        !a.name.startsWith('on') && !/^\\s*javascript:/i.test(a.value)
        || ['title', 'aria-label'].includes(a.name)))"""

ADD = "(e => document.head.append(Object.assign(document.createElement(e[0]), e[1])))"
LEAVING = (
    "fetch('HOST/a').catch(() => 0)",
    f"{ADD}(['img', {{src: 'HOST/b'}}])",
    f"{ADD}(['script', {{src: 'HOST/c'}}])",
    f"{ADD}(['script', {{textContent: 'window.ran = true'}}])",
    "navigator.sendBeacon('HOST/d', 'x')",
)


def nothing_leaves(js, tab, tree):
    "An open page's policy stops every way out to a host, and every script that is not its own."
    for way in LEAVING:
        js(way.replace("HOST", tree.host))
    assert len([e for e in tab.errors() if "Content Security Policy" in e]) >= 4
    assert js("window.ran ?? 'no'") == "no" and not tree.seen
