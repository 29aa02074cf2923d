"""Asking a server beside the bare typed client: CPU of this process for each question, the server in another process. Called by bench.py, or alone."""

import asyncio, os, subprocess, sys, tempfile, time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from measure import Row, peak, show

ROOT, DELAY, AT_ONCE = Path(__file__).parents[1], 0.2, 500
KEY = "EXAMPLE_KEY_OF_A_BENCH"
os.environ.setdefault(KEY, "sk-made-up-" + "0123456789" * 4)


@contextmanager
def stub(delay: float = DELAY):
    "The address of a server that answers after some time."
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


def model(url: str):
    from refnb.models.language.models import the_model

    return the_model("gpt-4o-mini", base_url=url, key=KEY, decoding={"max_tokens": 64})


def asks(m, n: int, name: str):
    "Questions of two thousand words, made as they are needed."
    from refnb.models.language.models import ask_of

    story = "Ann met Bea by the river . " * 285
    return (ask_of(m, f"{name}:{i}", f"{story} {name} {i}") for i in range(n))


def ours(url: str, n: int, name: str, at_once: int = AT_ONCE) -> float:
    "Milliseconds of CPU for a question: asked, kept in the store, and passed on."
    from refnb.models.language.servers import Asking
    from refnb.models.language.store import Store

    m = model(url)
    with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
        asking, start = Asking(m, store, at_once), time.process_time()
        told = [reply.finish for _, reply in asking.replies(asks(m, n, name))]
        used = time.process_time() - start
    assert told == ["stop"] * n, set(told)
    return used / n * 1000


def typed(url: str, n: int, name: str, at_once: int) -> float:
    "The same questions through the client alone, as its README shows it."
    import openai

    async def main() -> float:
        m, todo = model(url), asks(model(url), n, name)
        client = openai.AsyncOpenAI(base_url=url, api_key="none")

        async def work():
            for a in todo:
                done = await client.chat.completions.create(
                    model=m.model, messages=a.messages, max_tokens=64, temperature=0
                )
                assert done.choices[0].message.content

        start = time.process_time()
        await asyncio.gather(*[work() for _ in range(at_once)])
        used = time.process_time() - start
        await client.close()
        return used

    return asyncio.run(main()) / n * 1000


def asking() -> Iterator[Row]:
    "A served question beside the bare typed client, in turn, and whether memory grows with the questions."
    with stub() as url:
        ours(url, 50, "warm"), typed(url, 50, "warm", 50)
        for at_once in (50, 500):
            turns = [
                (ours(url, 1500, f"a{at_once}{k}", at_once), typed(url, 1500, f"b{k}", at_once))
                for k in range(2)
            ]
            mine, plain = (min(x) for x in zip(*turns, strict=True))
            name = (
                f"a question, {at_once} at a time ({mine:.2f} ms): share of the typed client's CPU"
            )
            yield Row(name, mine / plain, 1.0, "share")
        for n in (500, 2_000):
            work = peak("import bench_models as b", f"b.ours({url!r}, {n}, 'memory{n}')")[1]
            yield Row(f"  peak memory, which does not grow: {n:,} questions", work, None, "MB")


BENCHES: list[Callable] = [asking]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
