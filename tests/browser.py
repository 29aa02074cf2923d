"A real browser, driven through its DevTools protocol."

import contextlib, itertools, json, os, shutil, subprocess, urllib.request
import pytest
from tools import HANG, alive, end, family, gone, wait

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-default-browser-check",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
    "--window-size=1300,1000",
]


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
    try:
        wait(
            lambda: (
                process.poll() is not None or (told.exists() and len(told.read_text().split()) == 2)
            ),
            "Chromium starts",
        )
        if process.poll() is not None:
            pytest.skip(f"{CHROMIUM} does not start here: it ended with {process.returncode}")
        yield int(told.read_text().split()[0])
    finally:
        started = family(process.pid)
        end(started)
        process.wait()
        gone(started)
        assert not alive(started)


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
        self.call("Page.bringToFront")  # what is behind another page draws nothing

    def _ask(self, what: str, method: str = "GET"):
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{self.port}/json/{what}", method=method),
            timeout=HANG,
        ) as reply:
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
        return (
            self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
            .get("result", {})
            .get("value")
        )

    def wait(self, code: str):
        return wait(lambda: self.js(code), code)

    def at(self, page: str):
        self.wait(f"location.pathname == '/{page}.html' && document.readyState == 'complete'")

    def press(self, *keys: str, shift: bool = False):
        for key in keys:
            number, text = KEYS.get(key, (ord(key[0].upper()), key))
            how = dict(key=key, code=key, windowsVirtualKeyCode=number, modifiers=8 if shift else 0)
            self.call(
                "Input.dispatchKeyEvent",
                type="keyDown" if text else "rawKeyDown",
                **how,
                **({"text": text} if text else {}),
            )
            self.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def open(self, page: str, query: str = ""):
        self.call("Page.navigate", url=f"{self.host}/{page}.html{query}")
        self.at(page)

    def phone(self):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=390,
            height=844,
            deviceScaleFactor=2,
            mobile=True,
        )

    def requests(self) -> list[str]:
        self.js("1")  # what has come is read
        of = {
            "Network.requestWillBeSent": lambda p: p["request"]["url"],
            "Network.webSocketCreated": lambda p: p["url"],
        }
        return [of[e["method"]](e["params"]) for e in self.events if e.get("method") in of]

    def errors(self) -> list[str]:
        self.js("1")
        bad = [e["params"] for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        bad += [
            e["params"]
            for e in self.events
            if e.get("method") == "Runtime.consoleAPICalled"
            and e["params"]["type"] in ("error", "assert")
        ]
        return list(
            map(
                str,
                bad
                + [
                    e["params"]
                    for e in self.events
                    if e.get("method") == "Log.entryAdded"
                    and e["params"]["entry"]["level"] == "error"
                ],
            )
        )


class Inner(Tab):
    "The frame of a page, which Chromium runs on its own."

    def __init__(self, outer: Tab):
        self.outer, self.host, self.port, self.events, self.numbers = (
            outer,
            outer.host,
            outer.port,
            [],
            itertools.count(1),
        )
        self.attach()

    def attach(self):
        "Talk to the frame that the page has now."
        import websocket

        frames = lambda: [
            t
            for t in json.loads(self.outer._ask("list"))
            if t["type"] == "iframe" and t.get("parentId") == self.outer.id
        ]
        self.id = wait(frames, "the frame is there")[0]["id"]
        self.socket = websocket.create_connection(
            f"ws://127.0.0.1:{self.port}/devtools/page/{self.id}",
            suppress_origin=True,
            timeout=HANG,
        )
        for domain in ("Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def wait(self, code: str):
        """Wait as a page does; now and then look whether Chromium has put another frame in the place of this one, and
        scroll to it again: on a busy machine it can take a frame for one that nobody sees, and draw nothing in it."""
        for _ in range(8):
            with contextlib.suppress(AssertionError):
                return wait(lambda: self.js(code), code, HANG / 40)
            self.socket.close()
            self.outer.call("Page.bringToFront")
            self.outer.js(
                "scrollTo(0, 0), requestAnimationFrame(() => document.querySelector('iframe')?.scrollIntoView())"
            )
            self.attach()
        state = self.js(
            "[document.readyState, location.href, innerWidth, innerHeight, document.body?.innerText.slice(0, 200)]"
        )
        raise AssertionError(f"the frame never says {code}; it is {state}, {self.errors()}")


LEAVING = (
    "fetch('HOST/a').catch(() => 0)",
    "(() => { const i = new Image(); i.src = 'HOST/b'; document.body.append(i) })()",
    "(() => { const s = document.createElement('script'); s.src = 'HOST/c'; document.head.append(s) })()",
    "(() => { const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.head.append(s) })()",
    "navigator.sendBeacon('HOST/d', 'x')",
)


def nothing_leaves(js, tab, tree):
    "An open page's policy stops every way out to a host, and every script that is not its own."
    for way in LEAVING:
        js(way.replace("HOST", tree.host))
    assert len([e for e in tab.errors() if "Content Security Policy" in e]) >= 4
    assert js("window.ran ?? 'no'") == "no" and not tree.seen
