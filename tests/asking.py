"What tests of servers share: a model at a stub, questions for it, and what came back."

from refnb.models.language.models import Ask, ask_of, the_model
from refnb.models.language.servers import Asking, Summary
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
    "What a store says, but for times: each key once."
    kept = store.all()
    assert len({k.key for k in kept}) == len(kept)
    return {k.key: k.reply.changed(seconds=0.0) for k in kept}
