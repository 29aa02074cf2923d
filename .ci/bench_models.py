"""Asking a server against its budget: CPU of this process for each question, 500 under way at a time, the server in another process. Called by bench.py, or alone."""

import asyncio, json, os, subprocess, sys, tempfile, time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch
from measure import Row, again_if_over, cpu, peak, show

ROOT, DELAY, AT_ONCE = Path(__file__).parents[1], 0.5, 500


@contextmanager
def stub(delay: float = DELAY):
    "The address of a server that answers after half a second, or so."
    p = subprocess.Popen(
        [sys.executable, ROOT / "tests/stub_server.py", str(delay)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield p.stdout.readline().strip()
    finally:
        p.communicate("")


KEY = "EXAMPLE_KEY_OF_A_BENCH"
os.environ.setdefault(KEY, "sk-made-up-" + "0123456789" * 4)


def model(url: str):
    from refnb.models.language.models import the_model

    return the_model("gpt-4o-mini", base_url=url, key=KEY, rate={}, decoding={"max_tokens": 64})


def asks(m, n: int, name: str = "q"):
    "Questions of two thousand words, made as they are needed."
    from refnb.models.language.models import ask_of

    story = "Ann met Bea by the river . " * 285
    return (ask_of(m, f"{name}:{i}", f"{story} {name} {i}") for i in range(n))


def per_question(f, n: int) -> float:
    "Milliseconds of CPU that each of n questions takes."
    start = time.process_time()
    f()
    return (time.process_time() - start) / n * 1000


def whole(url: str, n: int, name: str, at_once: int = AT_ONCE) -> float:
    "Asked, kept in the store, and passed on."
    from refnb.models.language.replies import Replies
    from refnb.models.language.servers import ask_all

    m, told = model(url), []
    with tempfile.TemporaryDirectory() as folder, Replies(folder) as store:
        used = per_question(
            lambda: ask_all(
                asks(m, n, name),
                m,
                store,
                concurrency=at_once,
                on_reply=lambda a, r: told.append(r.finish),
            ),
            n,
        )
    assert told == ["stop"] * n, set(told)
    return used


def through(client, call, n: int, url: str) -> float:
    "The same requests with nothing around them."

    async def main():
        async with client() as c:
            todo = asks(model(url), n + 1, "bare")
            await call(c, next(todo))

            async def work():
                for a in todo:
                    await call(c, a)

            start = time.process_time()
            await asyncio.gather(*[work() for _ in range(AT_ONCE)])
            return (time.process_time() - start) / n * 1000

    return asyncio.run(main())


def parts(url: str, n: int) -> Iterator[Row]:
    "Where the time goes: the bare requests, the reading of replies, and keeping them."
    import httpx2
    from refnb.models.language.models import Reply, ask_key
    from refnb.models.language.replies import Replies
    from refnb.models.language.keys import Secret
    from refnb.models.language.models import Patience
    from refnb.models.language.protocol import payload, read_reply
    from refnb.models.language.servers import _the_client

    ours = lambda: _the_client(model(url), Secret(""), Patience(), AT_ONCE)[0]
    posted = lambda c, a: c.post(
        "/chat/completions", cast_to=httpx2.Response, content=json.dumps(payload(a)[1]).encode()
    )
    yield Row("  of that: the bare requests", through(ours, posted, n, url), None, "ms")
    given = list(asks(model(url), 500))
    reply = b'{"model": "m", "choices": [{"finish_reason": "stop", "message": {"content": "The mention refers to: Bea"}}], "usage": {"prompt_tokens": 900, "completion_tokens": 8}}'
    yield Row(
        "  of that: key, body and reading of a reply",
        cpu(lambda: [(ask_key(a), payload(a), read_reply(reply, a)) for a in given]) / 500 * 1000,
        None,
        "ms",
    )
    with tempfile.TemporaryDirectory() as folder, Replies(folder) as store:
        put = lambda: [
            store.put_many((ask_key(a), Reply("x"), a) for a in given[i : i + 10])
            for i in range(0, 500, 10)
        ]
        yield Row(
            "  of that: keeping a reply, ten at a time, key included",
            cpu(put) / 500 * 1000,
            None,
            "ms",
        )


def asking() -> Iterator[Row]:
    "Milliseconds of CPU that a question takes, and whether memory grows with the questions."
    import openai  # loaded before anything is measured  # noqa: F401

    with stub() as url:
        whole(url, 100, "warm")
        used = again_if_over(lambda: whole(url, 5000, f"turn{time.monotonic_ns()}"), 2.0)
        yield Row(
            f"a question to a server, {AT_ONCE} at a time: asked, kept and passed on",
            used,
            2.0,
            "ms",
        )
        yield from parts(url, 1000)
        for n in (500, 2_000):
            yield Row(
                f"  peak memory, which does not grow: {n:,} questions",
                peak("import bench_models as b", f"b.whole({url!r}, {n}, 'memory{n}')")[1],
                None,
                "MB",
            )


@contextmanager
def careless():
    "Asking without looking for keys, without caps, raw bytes, claims and syncs."
    from refnb.models.language import replies, servers
    from refnb.models.language.keys import Secret

    opened = replies._open

    def unsynced(path):
        db = opened(path)
        db.execute("pragma synchronous=off")
        return db

    same = lambda self, x: x
    with (
        patch.object(Secret, "clean", same),
        patch.object(Secret, "hidden", same),
        patch.object(servers, "_guarded", lambda http, carrier, patience: carrier),
        patch.object(replies, "_open", unsynced),
        patch.object(replies._Claims, "_lock", lambda self, key, take: True),
        patch.object(replies.zlib, "compress", lambda raw, level: b""),
        patch.object(os, "fsync", lambda fd: None),
        patch.object(os, "fdatasync", lambda fd: None),
    ):
        yield


def safety() -> Row:
    "What being safe costs: CPU of a run, as a multiple of one that is asked carelessly; both in turn."
    from bench_local import through_a_run

    with stub(0.02) as url:
        through_a_run(url, 100, 50)
        safe, bare = [], []
        for _ in range(4):
            safe.append(through_a_run(url, 1000, 50))
            with careless():
                bare.append(through_a_run(url, 1000, 50))
    return Row(
        "a run with keys looked for, caps, raw bytes and syncs, 50 at a time, as a multiple of without",
        min(safe) / min(bare),
        1.05,
        "times",
    )


BENCHES: list[Callable] = [asking, safety]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
