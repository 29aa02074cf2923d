"""Asking a server against its budget: CPU of this process for each question, 500 under way at a time, the server in another process. Called by bench.py, or alone."""
import asyncio, json, subprocess, sys, tempfile, time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from measure import Row, again_if_over, cpu, peak, show

ROOT, DELAY, AT_ONCE = Path(__file__).parents[1], 0.5, 500

@contextmanager
def stub():
    "The address of a server that answers after half a second."
    p = subprocess.Popen([sys.executable, ROOT/"tests/stub_server.py", str(DELAY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try: yield p.stdout.readline().strip()
    finally: p.communicate("")

def model(url: str):
    from refnb.models.language.language_models import the_model
    return the_model("gpt-4o-mini", base_url=url, key="", decoding={"max_tokens": 64})

def asks(m, n: int, name: str = "q"):
    "Questions of two thousand words, made as they are needed."
    from refnb.models.language.language_models import ask_of
    story = "Ann met Bea by the river . "*285
    return (ask_of(m, f"{name}:{i}", f"{story} {name} {i}") for i in range(n))

def per_question(f, n: int) -> float:
    "Milliseconds of CPU that each of n questions takes."
    start = time.process_time(); f()
    return (time.process_time() - start)/n*1000

def whole(url: str, n: int, name: str) -> float:
    "Asked, kept in the store, and passed on."
    from refnb.models.language.replies import Replies
    from refnb.models.language.servers import ask_all
    m, told = model(url), []
    with tempfile.TemporaryDirectory() as folder, Replies(folder) as store:
        used = per_question(lambda: ask_all(asks(m, n, name), m, store, concurrency=AT_ONCE, on_reply=lambda a, r: told.append(r.finish)), n)
    assert told == ["stop"]*n, set(told)
    return used

def through(client, call, n: int, url: str) -> float:
    "The same requests with nothing around them."
    async def main():
        async with client() as c:
            todo = asks(model(url), n + 1, "bare")
            await call(c, next(todo))
            async def work():
                for a in todo: await call(c, a)
            start = time.process_time()
            await asyncio.gather(*[work() for _ in range(AT_ONCE)])
            return (time.process_time() - start)/n*1000
    return asyncio.run(main())

def parts(url: str, n: int) -> Iterator[Row]:
    "Where the time goes: the bare requests, the reading of replies, and keeping them."
    import httpx2
    from refnb.models.language.language_models import Reply, ask_key
    from refnb.models.language.replies import Replies
    from refnb.models.language.keys import Secret
    from refnb.models.language.language_models import Patience
    from refnb.models.language.protocol import payload, read_reply
    from refnb.models.language.servers import _the_client
    ours = lambda: _the_client(model(url), Secret(""), Patience(), AT_ONCE)
    posted = lambda c, a: c.post("/chat/completions", cast_to=httpx2.Response, content=json.dumps(payload(a)[1]).encode())
    yield Row("  of that: the bare requests", through(ours, posted, n, url), None, "ms")
    given = list(asks(model(url), 500))
    reply = b'{"model": "m", "choices": [{"finish_reason": "stop", "message": {"content": "The mention refers to: Bea"}}], "usage": {"prompt_tokens": 900, "completion_tokens": 8}}'
    yield Row("  of that: key, body and reading of a reply", cpu(lambda: [(ask_key(a), payload(a), read_reply(reply, a)) for a in given])/500*1000, None, "ms")
    with tempfile.TemporaryDirectory() as folder, Replies(folder) as store:
        put = lambda: [store.put_many((ask_key(a), Reply("x"), a) for a in given[i:i + 10]) for i in range(0, 500, 10)]
        yield Row("  of that: keeping a reply, ten at a time, key included", cpu(put)/500*1000, None, "ms")

def asking() -> Iterator[Row]:
    "Milliseconds of CPU that a question takes, and whether memory grows with the questions."
    import openai  # loaded before anything is measured  # noqa: F401
    with stub() as url:
        whole(url, 100, "warm")
        used = again_if_over(lambda: whole(url, 5000, f"turn{time.monotonic_ns()}"), 2.)
        yield Row(f"a question to a server, {AT_ONCE} at a time: asked, kept and passed on", used, 2., "ms")
        yield from parts(url, 1000)
        for n in (500, 2_000):
            yield Row(f"  peak memory, which does not grow: {n:,} questions", peak("import bench_models as b", f"b.whole({url!r}, {n}, 'memory{n}')")[1], None, "MB")

BENCHES: list[Callable] = [asking]

if __name__ == "__main__": sys.exit(show(BENCHES))
