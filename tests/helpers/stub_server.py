"""A stub of an OpenAI-compatible server on 127.0.0.1: it answers every prompt, and plays the faults that a test scripts, one request after the other.

In a test it runs in a thread: `with Stub() as stub: …`. Started as a script it serves alone, says its address, and ends when its standard input does."""

import asyncio, itertools, json, re, socket, struct, sys, threading, time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Seen(NamedTuple):
    "A request that arrived."

    at: float  # monotonic clock
    method: str
    path: str  # without the query
    query: str
    headers: dict  # names in small letters
    raw: bytes  # its body

    @property
    def body(self) -> dict:
        return json.loads(self.raw)

    @property
    def prompt(self) -> str:
        return prompt_of(self.body)


class Play(NamedTuple):
    "What comes back for one request; the default is a good reply."

    status: int = 200
    headers: dict = {}
    text: str | None = None  # of the reply; None: one made of the prompt
    finish: str | None = "stop"
    refusal: str | None = None
    usage: dict | None = {}  # {}: counted from the words; None: left out
    logprobs: dict | None = None  # of the choice
    choices: list | None = None  # instead of the one choice
    model: str = "stub-2026-11"
    body: bytes | None = None  # instead of all that
    delay: float = 0.0  # seconds before it comes
    cut: int | None = None  # the connection ends after so many bytes of it
    reset: bool = False  # it ends by a reset
    stall: bool = False  # after what was cut, nothing more comes, but the connection stays
    hang: bool = False  # nothing ever comes
    obeys: bool = False  # an error comes, and yet what was asked for was done


def prompt_of(body: dict) -> str:
    "What a request asks."
    if "contents" in body:
        return body["contents"][-1]["parts"][0]["text"]
    return body["messages"][-1]["content"] if "messages" in body else body.get("prompt", "")


def error(
    status: int, message: str = "", code: str | None = None, param: str | None = None, **headers
) -> Play:
    "An error as the vendors word it."
    return Play(
        status,
        {k.replace("_", "-"): v for k, v in headers.items()},
        body=json.dumps(
            {"error": {"message": message, "type": "error", "code": code, "param": param}}
        ).encode(),
    )


def reply_text(prompt: str) -> str:
    return f"The mention refers to: {prompt.split()[-1] if prompt.split() else ''}"


def completion(body: dict, play: Play, says: Callable[[str], str] = reply_text) -> dict:
    "A reply as it is in the protocol."
    prompt, chat = prompt_of(body), "messages" in body
    text = says(prompt) if play.text is None else play.text
    chat = chat or "contents" in body
    said = (
        {
            "message": {
                "role": "assistant",
                "content": text if play.refusal is None else None,
                "refusal": play.refusal,
            }
        }
        if chat
        else {"text": text}
    )
    choice = {"index": 0, "finish_reason": play.finish, "logprobs": play.logprobs, **said}
    read, written = len(json.dumps(body.get("messages", prompt)).split()), len(text.split())
    usage = (
        {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        if play.usage == {}
        else play.usage
    )
    got = {
        "id": "c-1",
        "object": "chat.completion" if chat else "text_completion",
        "created": 0,
        "model": play.model,
        "choices": [choice] if play.choices is None else play.choices,
    }
    return got if usage is None else got | {"usage": usage}


# The wire

SINGLE = "/(chat/)?completions|/messages|/models/[^/]+:generateContent"  # paths of one request
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


class _Wire(asyncio.Protocol):
    "HTTP/1.1 with connections that are kept; one request at a time on each."

    def __init__(self, stub):
        self.stub, self.data, self.transport = stub, bytearray(), None

    def connection_made(self, transport):
        self.transport = transport
        self.stub.open.add(transport)
        self.stub.most_open = max(self.stub.most_open, len(self.stub.open))

    def connection_lost(self, exc):
        self.stub.open.discard(self.transport)

    def data_received(self, data: bytes):
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            line, *rest = self.data[:end].decode("latin-1").split("\r\n")
            headers = {k.lower(): v for k, v in (h.split(": ", 1) for h in rest)}
            size = int(headers.get("content-length", 0))
            if len(self.data) < end + 4 + size:
                return
            raw = bytes(self.data[end + 4 : end + 4 + size])
            del self.data[: end + 4 + size]
            method, target, _ = line.split(" ")
            path, _, query = target.partition("?")
            self.stub.arrived(
                self, Seen(time.monotonic(), method, path.removeprefix("/v1"), query, headers, raw)
            )

    def send(self, play: Play, body: bytes):
        if play.hang or self.transport.is_closing():
            return
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "x-request-id": "stub",
        } | play.headers
        head = (
            f"HTTP/1.1 {play.status} {REASONS.get(play.status, 'Status')}\r\n"
            + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
            + "\r\n"
        )
        data = head.encode("latin-1") + body
        self.transport.write(data if play.cut is None else data[: len(head) + play.cut])
        if play.reset:
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.transport.abort()
        elif play.cut is not None and not play.stall:
            self.transport.close()


# Batches: kept as OpenAI's, and told as a vendor tells them


def as_message(done: dict) -> dict:
    "A chat completion, as Anthropic says it."
    choice, used = done["choices"][0], done["usage"]
    ends = {"stop": "end_turn", "length": "max_tokens"}
    return {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": done["model"],
        "content": [{"type": "text", "text": choice["message"]["content"]}],
        "stop_reason": ends[choice["finish_reason"]],
        "usage": {
            "input_tokens": used["prompt_tokens"],
            "output_tokens": used["completion_tokens"],
        },
    }


def as_candidates(done: dict) -> dict:
    "A chat completion, as Google says it."
    choice, used = done["choices"][0], done["usage"]
    content = {"role": "model", "parts": [{"text": choice["message"]["content"]}]}
    ends = {"stop": "STOP", "length": "MAX_TOKENS"}
    return {
        "modelVersion": done["model"],
        "candidates": [{"content": content, "finishReason": ends[choice["finish_reason"]]}],
        "usageMetadata": {
            "promptTokenCount": used["prompt_tokens"],
            "candidatesTokenCount": used["completion_tokens"],
        },
    }


class BatchPlay(NamedTuple):
    "What a batch does."

    states: tuple[str, ...] = (
        "validating",
        "in_progress",
        "completed",
    )  # one for each time that it is asked for; the last stays
    output: Callable[[list[dict]], list[dict]] = (
        list  # the lines of the output file, from the good ones in order
    )
    # words of a prompt -> error, in the error file
    failed: dict[str, dict] = {}
    left: tuple[str, ...] = ()  # words of prompts that were not carried out
    errors: tuple[dict, ...] = ()  # of a batch that failed as a whole
    plays: dict[str, Play] = {}  # words of a prompt -> the reply
    extra: bytes = b""  # at the end of the output file


class Stub:
    "The server. What it saw is in `seen`; `plays` and `always` script it."

    def __init__(self, delay: float = 0.0):
        self.delay, self.seen, self.lock = delay, [], threading.Lock()
        self.says: Callable[[str], str] = reply_text  # a good reply to a prompt
        self.lists = True  # batches that were created
        self.plays: dict[str, Iterator[Play]] = {}
        self.always: Callable[[Seen], Play | None] = lambda seen: None
        self.open, self.most_open = set(), 0
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict] = {}
        self.batch_play = BatchPlay()
        self.numbers = itertools.count(1)

    def __enter__(self):
        self.loop, ready = asyncio.new_event_loop(), threading.Event()

        def run():
            asyncio.set_event_loop(self.loop)
            self.server = self.loop.run_until_complete(
                self.loop.create_server(lambda: _Wire(self), "127.0.0.1", 0, backlog=2048)
            )
            ready.set()
            self.loop.run_forever()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        ready.wait()
        return self

    def __exit__(self, *exc):
        def end():
            self.server.close()
            for t in list(self.open):
                t.abort()
            self.loop.call_soon(self.loop.stop)

        self.loop.call_soon_threadsafe(end)
        self.thread.join()
        self.loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1"

    def play(self, words: str, *plays: Play):
        "The next requests with these words in prompt, or method and path, get these."
        self.plays[words] = iter(plays)

    def _play(self, text: str, seen: Seen) -> Play:
        plays = (next(x, None) for words, x in self.plays.items() if words in text)
        return next(filter(None, plays), None) or self.always(seen) or Play()

    def asked(self, path: str = "") -> list[str]:
        "The prompts that arrived in requests of their own, in order; at a path, or at any."
        paths = re.compile(re.escape(path) if path else SINGLE)
        return [s.prompt for s in self.seen if paths.fullmatch(s.path)]

    def arrived(self, wire: _Wire, seen: Seen):
        with self.lock:
            self.seen.append(seen)
        if re.fullmatch(SINGLE, seen.path):
            play, body = self._complete(seen)
        else:
            play, body = self._batch(seen)
        delay = play.delay or self.delay
        if delay:
            self.loop.call_later(delay, wire.send, play, body)
        else:
            wire.send(play, body)

    def _complete(self, seen: Seen) -> tuple[Play, bytes]:
        body = seen.body
        play = self._play(prompt_of(body), seen)
        if play.body is not None:
            return play, play.body
        done = completion(body, play, self.says)
        if seen.path == "/messages":
            done = as_message(done)
        elif seen.path.startswith("/models"):
            done = as_candidates(done)
        return play, json.dumps(done).encode()

    def _batch(self, seen: Seen) -> tuple[Play, bytes]:
        play = self._play(f"{seen.method} {seen.path}", seen)
        early = play.status != 200 or play.body is not None
        got = None if early and not play.obeys else self._routed(seen)
        if early:
            return play, play.body or b""
        if got is None:
            return error(404, "no such thing"), error(404, "no such thing").body
        return play, got if isinstance(got, bytes) else json.dumps(got).encode()

    def _routed(self, seen: Seen) -> Any:
        "Files and batches."
        google = "x-goog-api-key" in seen.headers
        match seen.method, seen.path.strip("/").split("/"):
            case "POST", ["messages", "batches"]:
                asks = [(x["custom_id"], x["params"]) for x in seen.body["requests"]]
                assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", key) for key, _ in asks), asks
                return self._as_anthropic(self._add_lines(asks))
            case "GET", ["messages", "batches"]:
                for i in self.batches:  # time goes by, as nobody can ask for an unknown batch
                    self._step(i)
                page = self._list(seen.query.replace("after_id", "after"))
                return page | {"data": [self._as_anthropic(b["id"]) for b in page["data"]]}
            case "GET", ["messages", "batches", i] if i in self.batches:
                self._step(i)
                return self._as_anthropic(i)
            case "GET", ["messages", "batches", i, "results"] if self._ended(i):
                return self._results(i)
            case "POST", ["models", model] if model.endswith(":batchGenerateContent"):
                batch = seen.body["batch"]
                asks = batch["inputConfig"]["requests"]["requests"]
                keyed = [(x["metadata"]["key"], x["request"]) for x in asks]
                return self._as_google(self._add_lines(keyed, batch["displayName"]))
            case "GET", ["batches"] if google:
                query = seen.query.replace("pageToken", "after").replace("pageSize", "limit")
                page = self._list(query)
                operations = [self._as_google(b["id"]) for b in page["data"]]
                more = {"nextPageToken": page["last_id"]} if page["has_more"] else {}
                return more | ({"operations": operations} if operations else {})
            case "GET", ["batches", i] if google and i in self.batches:
                self._step(i)
                return self._as_google(i)
            case "POST", ["files"]:
                return self._add_file(seen)
            case "GET", ["files"]:
                return {
                    "object": "list",
                    "data": [self._file(i) for i in reversed(self.files)],
                    "has_more": False,
                }
            case "GET", ["files", i] if i in self.files:
                return self._file(i)
            case "GET", ["files", i, "content"]:
                return self.files.get(i)
            case "POST", ["batches"]:
                return self._add_batch(seen.body)
            case "GET", ["batches"]:
                return self._list(seen.query)
            case "GET", ["batches", i] if i in self.batches:
                return self._step(i)

    def _add_lines(self, asks: list[tuple[str, dict]], label: str = "") -> str:
        "A new batch of requests that came in the body."
        lines = [
            json.dumps({"custom_id": key, "body": body}).encode() + b"\n" for key, body in asks
        ]
        self.files[i := f"file-{next(self.numbers)}"] = b"".join(lines)
        return self._add_batch({"input_file_id": i, "metadata": {"refnb": label}})["id"]

    def _ended(self, i: str) -> bool:
        ended = ("completed", "failed", "expired", "cancelled")
        return i in self.batches and self.batches[i]["status"] in ended

    def _lines(self, i: str) -> list[tuple[str, dict | None, dict | None]]:
        "What came of each request of a batch: its key, a completion, an error."
        b, told = self.batches[i], []
        for name in ("output_file_id", "error_file_id"):
            for line in self.files.get(b[name], b"").splitlines():
                try:
                    x = json.loads(line)
                except ValueError:
                    continue
                body = (x["response"] or {}).get("body") or {}
                done = body if "choices" in body else None
                told.append((x["custom_id"], done, body.get("error")))
        return told

    def _as_anthropic(self, i: str) -> dict:
        b, n, ended = self.batches[i], self.size(i), self._ended(i)
        done = sum(x is not None for _, x, _ in self._lines(i)) if ended else 0
        counts = {"processing": 0 if ended else n, "succeeded": done, "errored": 0}
        counts |= {"canceled": 0, "expired": n - done if ended else 0}
        url = f"{self.url}/messages/batches/{i}/results"
        return {
            "id": i,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": b.get("at", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())),
            "results_url": url if ended else None,
        }

    def _results(self, i: str) -> bytes:
        "The file of results, as Anthropic writes it."
        lines = []
        for key, done, bad in self._lines(i):
            result: dict = {"type": "expired"}
            if done:
                result = {"type": "succeeded", "message": as_message(done)}
            elif bad:
                error = {"type": "invalid_request_error"} | bad
                result = {"type": "errored", "error": {"type": "error", "error": error}}
            lines.append(json.dumps({"custom_id": key, "result": result}).encode() + b"\n")
        return b"".join(lines) + self.batch_play.extra

    def _as_google(self, i: str) -> dict:
        b, ended = self.batches[i], self._ended(i)
        words = {"validating": "PENDING", "in_progress": "RUNNING", "completed": "SUCCEEDED"}
        told: dict = {
            "name": f"batches/{i}",
            "metadata": {
                "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
                "name": f"batches/{i}",
                "displayName": b["metadata"]["refnb"],
                "state": f"BATCH_STATE_{words.get(b['status'], b['status'].upper())}",
                "batchStats": {"requestCount": str(self.size(i))},
            },
        }
        if ended:
            told["done"] = True
        if b["status"] == "failed":
            told["error"] = {"code": 3} | dict(next(iter(b["errors"]["data"]), {}))
        elif ended:
            replies: list[dict] = []
            for key, done, bad in self._lines(i):
                said: dict = {"error": {"code": 1, "message": "cancelled"}}
                if done:
                    said = {"response": as_candidates(done)}
                elif bad:
                    said = {"error": {"code": 3} | bad}
                replies.append({"metadata": {"key": key}} | said)
            told["metadata"]["batchStats"]["successfulRequestCount"] = str(len(replies))
            told["response"] = {"inlinedResponses": {"inlinedResponses": replies}}
        return told

    def size(self, i: str) -> int:
        "How many requests a batch has."
        return self.files[self.batches[i]["input_file_id"]].count(b"\n")

    def _file(self, i: str) -> dict:
        return {
            "id": i,
            "object": "file",
            "bytes": len(self.files[i]),
            "created_at": 0,
            "filename": "x.jsonl",
            "purpose": "batch",
            "status": "processed",
        }

    def _add_file(self, seen: Seen) -> dict:
        boundary = re.search('boundary="?([^";]+)', seen.headers["content-type"])[1].encode()
        parts = {
            re.search(b'name="(\\w+)"', p)[1]: p.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
            for p in seen.raw.split(b"--" + boundary)[1:-1]
        }
        assert parts[b"purpose"] == b"batch", parts
        self.files[i := f"file-{next(self.numbers)}"] = parts[b"file"]
        return self._file(i)

    def _add_batch(self, body: dict) -> dict:
        i = f"batch-{next(self.numbers)}"
        self.batches[i] = body | {
            "id": i,
            "object": "batch",
            "status": "validating",
            "created_at": 1,
            "steps": iter(self.batch_play.states),
            "output_file_id": None,
            "error_file_id": None,
        }
        return self._told(i)

    def _told(self, i: str) -> dict:
        return {k: v for k, v in self.batches[i].items() if k != "steps"}

    def _list(self, query: str) -> dict:
        ids, asked = (
            list(reversed(self.batches)) * self.lists,
            dict(p.split("=") for p in query.split("&") if p),
        )
        start = ids.index(asked["after"]) + 1 if "after" in asked else 0
        page = ids[start : start + min(int(asked.get("limit", 20)), 100)]
        return {
            "object": "list",
            "data": [self._told(i) for i in page],
            "has_more": start + len(page) < len(ids),
            "first_id": page[0] if page else None,
            "last_id": page[-1] if page else None,
        }

    def _step(self, i: str) -> dict:
        b = self.batches[i]
        b["status"] = next(b["steps"], b["status"])
        if b["status"] == "failed":
            b["errors"] = {"object": "list", "data": list(self.batch_play.errors)}
        if b["status"] in ("completed", "expired", "cancelled") and not b["output_file_id"]:
            self._finish(b)
        return self._told(i)

    def _finish(self, b: dict):
        "Write the output and error files of a batch that ended."
        play, good, bad = self.batch_play, [], []
        for line in map(json.loads, self.files[b["input_file_id"]].splitlines()):
            prompt = prompt_of(line["body"])
            of = lambda places, prompt=prompt: next((x for x in places if x in prompt), None)
            status, body = 200, None
            if words := of(play.failed):
                status, body = 400, {"error": play.failed[words]}
            elif not of(play.left):
                said = play.plays.get(of(play.plays), Play())
                body = completion(line["body"], said, self.says)
            response = body and {"status_code": status, "request_id": "x", "body": body}
            expired = {"code": "batch_expired", "message": "Not before the window's end."}
            (good if status == 200 and body else bad).append(
                {
                    "id": "r",
                    "custom_id": line["custom_id"],
                    "response": response,
                    "error": None if body else expired,
                }
            )
        for name, lines in (("output_file_id", play.output(good)), ("error_file_id", bad)):
            if not lines:
                continue
            b[name] = f"file-{next(self.numbers)}"
            self.files[b[name]] = b"".join(json.dumps(x).encode() + b"\n" for x in lines) + (
                play.extra if name == "output_file_id" else b""
            )
        b["request_counts"] = {
            "total": len(good) + len(bad),
            "completed": len(good),
            "failed": len(bad),
        }


if __name__ == "__main__":
    with Stub(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0) as alone:
        print(alone.url, flush=True)
        sys.stdin.read()
