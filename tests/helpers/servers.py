"Small web servers for tests: a tree of files and a hub of datasets on 127.0.0.1, and the faults that networks have."

import gzip, hashlib, json, socket, struct, threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from refnb.core.upstream import blob_id


class Seen(NamedTuple):
    "A request that arrived."

    path: str  # decoded, without the first slash
    range: str | None  # its Range header


class Fault(NamedTuple):
    "What goes wrong with one request; the default is nothing."

    status: int = 0  # answered instead of the file
    location: str = ""  # with a status 3xx: where to
    wrong: bytes | None = None  # sent instead of the file's bytes
    cut: int | None = None  # the connection ends after so many bytes of this reply
    reset: bool = False  # it ends by a reset
    stall: int | None = None  # nothing more comes after so many bytes, until the server is released
    ranges: bool = True  # False: a Range is not honoured
    shift: int = 0  # a Range is honoured, but from another byte on
    length: int | str = 0  # added to the Content-Length; a text stands instead of it


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        tree, path = self.server.tree, unquote(self.path)[1:]
        fault, data = tree.next_fault(Seen(path, self.headers["Range"])), tree.content(path)
        if fault.status or data is None:
            return self._say(fault.status or 404, Location=fault.location)
        self._send(data if fault.wrong is None else fault.wrong, fault)

    def _say(self, status: int, **headers):
        self.send_response(status)
        for k, v in headers.items():
            if v:
                self.send_header(k.replace("_", "-"), v)
        self.end_headers()

    def _send(self, data: bytes, fault: Fault):
        asked = self.headers["Range"] if fault.ranges else None
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if asked and start >= len(data):
            return self._say(416, Content_Range=f"bytes */{len(data)}")
        body = data[start + (fault.shift if asked else 0) :]
        length = (
            fault.length if isinstance(fault.length, str) else str(len(data) - start + fault.length)
        )
        self._say(
            206 if asked else 200,
            Content_Length=length,
            Content_Range=asked and f"bytes {start}-{len(data) - 1}/{len(data)}",
        )
        self._body(body, fault)

    def _body(self, body: bytes, fault: Fault):
        upto = min(len(body) if n is None else n for n in (fault.cut, fault.stall))
        self.wfile.write(body[:upto])
        self.wfile.flush()
        if fault.stall is not None:
            self.server.tree.released.wait()
            self.wfile.write(body[upto:])
        if fault.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class _Web(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        self.tree.note_error()


class Tree:
    "Serves `root`, laid out owner/repo/commit/path, each file plain or .gz; use it in a `with`."

    handler = _Handler

    def __init__(self, root: str | Path):
        self.root, self.seen, self.errors = Path(root), [], []
        self.faults: dict[str, Iterator[Fault]] = {}
        self.extra: dict[
            str, bytes
        ] = {}  # path as it is asked for -> content, for paths that no folder can have
        self.released, self._lock = threading.Event(), threading.Lock()

    def __enter__(self):
        self._web = _Web(("127.0.0.1", 0), self.handler)
        self._web.tree = self
        self._thread = threading.Thread(
            target=self._web.serve_forever, kwargs=dict(poll_interval=0.01)
        )
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self.released.set()
        self._web.shutdown()
        self._web.server_close()
        self._thread.join()
        assert not self.errors, self.errors

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self._web.server_port}"

    @property
    def ranges(self) -> list[str | None]:
        return [s.range for s in self.seen]

    def fail(self, path: str, faults: Iterable[Fault]):
        "The next requests for a path meet these faults, one each; what comes after them is well."
        self.faults[path] = iter(faults)

    def next_fault(self, seen: Seen) -> Fault:
        with self._lock:
            self.seen.append(seen)
            return next(self.faults.get(seen.path, iter(())), Fault())

    def content(self, path: str) -> bytes | None:
        if path in self.extra:
            return self.extra[path]
        plain = self.root / path
        if ".." in plain.parts:
            return None
        if plain.is_file():
            return plain.read_bytes()
        packed = plain.with_name(plain.name + ".gz")
        return gzip.decompress(packed.read_bytes()) if packed.is_file() else None

    def note_error(self):
        "A client that went away is what many tests are about; anything else is a fault of the server."
        import sys

        e = sys.exc_info()[1]
        if not isinstance(e, ConnectionError):
            self.errors.append(repr(e))


class _HubHandler(_Handler):
    def do_HEAD(self):
        hub, path = self.server.tree, unquote(self.path)[1:]
        hub.next_fault(Seen(f"HEAD {path}", None))
        data = hub.content(path)
        if data is None:
            return self._say(404, X_Error_Code="EntryNotFound")
        commit = path.split("/")[4]
        if not hub.is_large(data):
            return self._say(
                200, ETag=f'"{blob_id(data)}"', X_Repo_Commit=commit, Content_Length=str(len(data))
            )
        sha = hashlib.sha256(data).hexdigest()
        hub.stored[f"store/{sha}"] = path
        self._say(
            302,
            Location=f"{hub.store}/{sha}",
            X_Linked_ETag=f'"{sha}"',
            X_Linked_Size=str(len(data)),
            X_Repo_Commit=commit,
        )

    def do_GET(self):
        hub, path = self.server.tree, unquote(self.path)[1:].partition("?")[0]
        if path.startswith("api/"):
            hub.next_fault(Seen(path, None))
            _, *place, what, commit, folder = [*path.split("/", 6), *[""] * 5][:7]
            root = f"{'/'.join(place)}/resolve/{commit}/"
            return self._json(hub.listed(root, folder) if what == "tree" else None)
        super().do_GET()

    def _json(self, value: list | None):
        body = json.dumps(value or []).encode()
        self._say(404 if value is None else 200, Content_Length=str(len(body)))
        self.wfile.write(body)


class Hub(Tree):
    """Serves datasets as a hub does, from `extra`: datasets/OWNER/NAME/resolve/COMMIT/PATH -> content. A large file
    lies in a store of its own, and is known by its sha256, a small one by its git blob."""

    handler = _HubHandler

    def __init__(self, large: int = 1000):
        super().__init__("/nonexistent")
        self.large, self.stored = large, dict[str, str]()

    @property
    def store(self) -> str:
        "Where large files lie: on another host."
        return f"http://localhost:{self._web.server_port}/store"

    def is_large(self, data: bytes) -> bool:
        return len(data) > self.large

    def content(self, path: str) -> bytes | None:
        return self.extra.get(self.stored.get(path, path))

    def listed(self, root: str, folder: str) -> list[dict] | None:
        "What a folder of a dataset has, as the hub's API tells it."
        files = {p.removeprefix(root): d for p, d in self.extra.items() if p.startswith(root)}
        out = []
        for path, data in files.items():
            if path.rpartition("/")[0] == folder:
                entry = {"type": "file", "path": path, "size": len(data), "oid": blob_id(data)}
                if self.is_large(data):
                    sha = hashlib.sha256(data).hexdigest()
                    entry["lfs"] = {"oid": sha, "size": len(data), "pointerSize": 132}
                out.append(entry)
        return out or None
