"What tests of servers share: a model at a stub, questions for it, what came back, and processes to be killed."

import os, signal, socket
from refnb.models.language.models import Ask, ask_of, the_model
from refnb.models.language.servers import Asking, Summary
from refnb.models.language.store import SETTLED
from tools import HANG

KEY, SECRET = "REFNB_TEST_KEY", "sk-made-up" + "-for-tests-0123456789abcdef"
PRICE = {"input": 1.0, "output": 2.0, "cached": 0.5, "batch": 0.5, "as_of": "2026-11"}
SOON = {"retry-after-ms": "5"}  # of a stub's error: the client tries again at once


def model(stub, **changed):
    "A model at the stub."
    return the_model(
        "gpt-4o-mini",
        **dict(
            base_url=stub if isinstance(stub, str) else stub.url,
            key=KEY,
            decoding={"max_tokens": 50},
            price=PRICE,
            timeout=HANG,
        )
        | changed,
    )


def questions(m, n: int, name: str = "q") -> list[Ask]:
    return [ask_of(m, f"{name}:{i}", f"Who left first, {name}{i}?") for i in range(n)]


def go(asks, m, store, **how) -> tuple[Summary, dict]:
    "Ask, and what was passed on: replies by the question's id, each once."
    asking, told = Asking(m, store, **how), {}
    for ask, reply in asking.replies(asks):
        assert ask.id not in told
        told[ask.id] = reply
    return asking.summary(), told


def one_line(e) -> str:
    assert "\n" not in str(e.value)
    return str(e.value)


def contents(store) -> dict:
    "The settled replies of a store, but for times: each key once."
    kept = [k for k in store.all() if k.reply.finish in SETTLED]
    assert len({k.key for k in kept}) == len(kept)
    return {k.key: k.reply.changed(seconds=0.0) for k in kept}


def nobody() -> str:
    "An address of this machine where nobody listens."
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


KILLS = int(os.environ.get("TEST_KILLS", 2))
# a child for each line that is read: killed after so many seconds, or left alone
FORKING = """\
print("ready", flush=True)
for line in sys.stdin:
    delay, child = float(line), os.fork()
    if not child:
        try: answer(); os._exit(0)
        except BaseException: traceback.print_exc(); os._exit(1)
    if delay >= 0: time.sleep(delay); os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Forked:
    "Work in a process that can be started again and again, and killed each time; between two starts it is looked at."

    def __init__(self, spawn, code: str, *args):
        self.p = spawn(code, *args)
        assert self.p.stdout.readline() == "ready\n", self.p.communicate()

    def start(self, delay: float) -> bool:
        "Start once, kill after a delay (-1: never); whether it came to its end."
        self.p.stdin.write(f"{delay}\n")
        self.p.stdin.flush()
        status = int(self.p.stdout.readline() or self.p.communicate()[1])
        assert status in (0, signal.SIGKILL), self.p.communicate("")
        self.look()
        return status == 0
