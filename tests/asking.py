"What tests of servers share: a model at a stub, questions for it, and what came back."

from refnb.models.language import servers as s
from refnb.models.language.language_models import Ask, Patience, ask_of, the_model
from refnb.models.language.servers import ask_all
from tools import HANG

KEY, SECRET = "REFNB_TEST_KEY", "sk-made-up" + "-for-tests-0123456789abcdef"
QUICK = Patience(
    first=0.002, longest=0.02, after=0.1, total=HANG, connect=HANG, reply=HANG, settle=0, grace=HANG
)
HASTY = QUICK.changed(reply=1.0)  # where a server falls silent
PRICE = {"input": 1.0, "output": 2.0, "cached": 0.5, "batch": 0.5, "as_of": "2026-11"}


def model(stub, **changed):
    "A model at the stub."
    return the_model(
        "gpt-4o-mini",
        **dict(
            base_url=stub if isinstance(stub, str) else stub.url,
            key=KEY,
            rate={},
            decoding={"max_tokens": 50},
            price=PRICE,
        )
        | changed,
    )


def questions(m, n: int, name: str = "q") -> list[Ask]:
    return [ask_of(m, f"{name}:{i}", f"Who left first, {name}{i}?") for i in range(n)]


class Told(dict):
    "Replies by the question's id, as they were passed on; each once."

    def __call__(self, ask, reply):
        assert ask.id not in self
        self[ask.id] = reply


def go(asks, m, store, **how) -> tuple[s.Summary, Told]:
    "Ask, and what was passed on."
    told = Told()
    return ask_all(asks, m, store, **dict(patience=QUICK, on_reply=told) | how), told


def one_line(e) -> str:
    assert "\n" not in str(e.value)
    return str(e.value)


def contents(store) -> dict:
    "What a store says, but for times: each key once."
    kept = list(store.kept())
    assert len({k.key for k in kept}) == len(kept)
    return {k.key: k.reply.changed(seconds=0.0, tries=1) for k in kept}
