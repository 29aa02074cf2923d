"""Asking a server against its budget: CPU of this process for each question, 500 under way at a time, the server in another process; called by bench.py, or alone."""
import asyncio, json, subprocess, sys, tempfile, time
from contextlib import contextmanager
from pathlib import Path
from bench_books import SAY, cpu, peak

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

def split(url: str, n: int) -> list[tuple[str, float]]:
    "Where the time goes."
    import httpx2, openai
    from refnb.models.language.language_models import Reply, ask_key
    from refnb.models.language.replies import Replies
    from refnb.models.language.servers import Patience, Secret, payload, said, _the_client
    plain = lambda: openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    ours = lambda: _the_client(model(url), Secret(""), Patience(), AT_ONCE)
    typed = lambda c, a: c.chat.completions.create(**payload(a)[1])
    posted = lambda c, a: c.post("/chat/completions", cast_to=httpx2.Response, content=json.dumps(payload(a)[1]).encode())
    out = [("the openai client as it comes, typed calls", through(plain, typed, n, url)), ("typed calls over many small pools", through(ours, typed, n, url)),
           ("untyped posts, one pool", through(plain, posted, n, url)), ("untyped posts over many small pools: what refnb uses", through(ours, posted, n, url))]
    given = list(asks(model(url), 500))
    reply = b'{"model": "m", "choices": [{"finish_reason": "stop", "message": {"content": "The mention refers to: Bea"}}], "usage": {"prompt_tokens": 900, "completion_tokens": 8}}'
    out.append(("key, body and reading of a reply", cpu(lambda: [(ask_key(a), payload(a), said(reply, a)) for a in given])/500*1000))
    with tempfile.TemporaryDirectory() as folder, Replies(folder) as store:
        put = lambda: [store.put_many((ask_key(a), Reply("x"), a) for a in given[i:i + 10]) for i in range(0, 500, 10)]
        return [*out, ("keeping a reply, ten at a time, key included", cpu(put)/500*1000)]

def memory(url: str, n: int) -> float:
    "MB at the peak of a process that asks n questions."
    return peak(SAY.format(f"import bench_models as b; b.whole({url!r}, {n}, 'memory{n}')"))[1]

def lines() -> list[tuple[str, float, float|None]]:
    "What is measured, milliseconds of CPU a question (or MB), and the budget."
    with stub() as url:
        import openai  # loaded before anything is measured  # noqa: F401
        whole(url, 100, "warm")
        got = [(f"a question to a server, {AT_ONCE} at a time, in ms: asked, kept and passed on", min(whole(url, 5000, f"turn{i}") for i in range(3)), 2.)]
        got += [(f"of that, in ms: {name}", used, None) for name, used in split(url, 2500)]
        return got + [(f"memory flat: {n:,} questions to a server, peak in MB", memory(url, n), None) for n in (2_500, 10_000)]

if __name__ == "__main__":
    for name, used, budget in lines():
        print(f"{name:105} {used:9.3f} {f'{budget:8.2f}' if budget else '':8} {'' if budget is None else 'ok' if used < budget else 'OVER'}")
