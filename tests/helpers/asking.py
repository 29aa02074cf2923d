"What tests of servers share: short questions, a model at a stub, a process to be killed."

import contextlib, json, os, re, signal, socket, subprocess, sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
import pytest
from refnb import Option, Question, load_run, run
from refnb.core.types import RefnbError
from refnb.models.language.store import Kept, Store
from tools import HANG

KEY, SECRET = "REFNB_TEST_KEY", "sk-made-up" + "-for-tests-0123456789abcdef"
PRICE = {"input": 1.0, "output": 2.0, "cached": 0.5, "batch": 0.5, "as_of": "2026-11"}
SOON = {"retry-after-ms": "5"}  # of a stub's error: the client tries again at once
KILLS = int(os.environ.get("TEST_KILLS", 2))
NAMES = ("Ann", "Bea")


def questions(n: int, name: str = "q") -> list[Question]:
    "Questions whose prompts hold ` q0 .`, ` q1 .`, …; the right answers are Ann, Bea, Ann, …"
    found = []
    for i in range(n):
        text = f"Ann met Bea at {name}{i} . She smiled ."
        at, options = text.index("She"), tuple(map(Option, NAMES))
        found.append(Question(f"{name}:{i}", name, text, (at, at + 3), options, (i % 2,)))
    return found


def knows(prompt: str) -> str:
    "The right answer to a question of `questions`: what the stub is to say."
    return NAMES[int(re.search(r"(\d+) \.", prompt)[1]) % 2]


def at(stub: Any, **changed) -> dict[str, Any]:
    "Settings of a model at a stub, or at an address."
    usual = dict(
        key=KEY, decoding={"max_tokens": 50}, price=PRICE, timeout=HANG, patience=HANG, title="stub"
    )
    url = stub if isinstance(stub, str) else stub.url
    return usual | {"base_url": url} | changed


class Asked(NamedTuple):
    "What came of a run, complete or not."

    answers: dict  # by the question's id
    bill: Any  # what the server was asked, and for how much
    error: str  # one line; "": it raised none
    run: Any  # None if it raised


def ask(stub: Any, questions: Sequence[Question], s: Any, tolerate: float = 0, **changed) -> Asked:
    "Ask a model at the stub; an error is returned, in its one line."
    bills, ids = [None], {q.id for q in questions}
    how = {"s": s, "tolerate": tolerate, "on_summary": bills.append, **at(stub, **changed)}
    if hasattr(stub, "says"):
        stub.says = knows
    try:
        r = run(questions, "gpt-4o-mini", **how)
    except RefnbError as e:
        assert "\n" not in str(e), e
        runs = [load_run(p.parent).answers_so_far() for p in Path(s.runs).rglob("run.json")]
        so_far = {i: a for answers in runs for i, a in answers.items() if i in ids}
        return Asked(so_far, bills[-1], str(e), None)
    return Asked(r.answers() if r.complete else r.answers_so_far(), bills[-1], "", r)


def all_right(got: Asked, n: int) -> bool:
    "Whether n questions are answered, each with its own reply."
    return (got.error, len(got.answers)) == ("", n) and all(
        a.chosen == (int(i.partition(":")[2]) % 2,) for i, a in got.answers.items()
    )


def seal(r) -> dict[str, Any]:
    "What a complete run says of itself."
    return json.loads((r.folder / "seal.json").read_bytes())


def kept(s: Any) -> list[Kept]:
    "All replies that were paid for, with the bytes that came."
    with Store(Path(s.runs) / "replies") as store:
        return store.all()


def nobody() -> str:
    "An address of this machine where nobody listens."
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


# A process that asks, and is killed

ASKING = """\
import json, os, sys, time, traceback
sys.path.insert(0, sys.argv[1])
import openai, httpx2, aiohttp
from asking import ask, questions
from refnb.core.settings import load_settings
clock = time.time
print("ready", flush=True)
for line in sys.stdin:
    job, child = json.loads(line), os.fork()
    if not child:
        try:
            time.time = lambda: clock() + job["later"]
            s = load_settings("/", env={}, offline=True, runs=job["home"], reports=job["home"])
            asked = ask(job["url"], questions(job["n"]), s, key="", **job["how"])
            assert not asked.error, asked.error
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Worker:
    "A process whose children ask, one after the other, so that refnb is loaded once."

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", ASKING, Path(__file__).parent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # what started the tests may ignore interrupts, and that is inherited
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert self.process.stdout.readline() == "ready\n"

    def start(self, url: str, home: Path, n: int, later: float = 0, **how):
        "Ask n questions in a child, whose clock may be ahead."
        job = dict(url=url, home=str(home), n=n, later=later, how=how)
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        self.child = int(self.process.stdout.readline())

    @property
    def alive(self) -> bool:
        "Whether the child has not come to its end."
        try:
            os.kill(self.child, 0)
        except ProcessLookupError:
            return False
        return True

    def ended(self, by: int = 0) -> bool:
        "Wait for the child, after this signal; whether it came to its end."
        if by:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.kill(self.child, by)
        return int(self.process.stdout.readline()) == 0


@pytest.fixture(scope="module")
def worker():
    "A `Worker`."
    worker = Worker()
    yield worker
    worker.process.kill()
    worker.process.communicate()
