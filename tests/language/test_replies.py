"Replies in the manner of ten model families, each with its right reading; laws of the readers; why replies were not read."

import json
from pathlib import Path
import pytest
import yaml
from hypothesis import given, strategies as st
from refnb.core.types import Option, Question
from refnb.models.language.prompts import forms, letters_of
from refnb.models.language.reading import read, read_choice
from refnb.models.language.wire import Split, split_reasoning
import tools
from asking import SECRET
from stub_server import Play
from tools import DATA, growth

TABLE = yaml.safe_load((DATA / "replies.yaml").read_text(encoding="utf-8"))
REPLIES = [(family, *row) for family, rows in TABLE["families"].items() for row in rows]
NAMES = tuple(TABLE["options"]["boat"])


def asked(names) -> Question:
    return Question(
        "d:0", "d", "Ann met Bea . She smiled .", (14, 17), tuple(map(Option, names)), (0,)
    )


def told(form: str, options: str, reply: str, finish: str = "stop") -> int | str:
    "The option that is read, or the reason why none is."
    a = read(asked(TABLE["options"][options]), TABLE["forms"][form], reply, finish)
    assert a.raw == reply and len(a.chosen) == (0 if a.reason else 1)
    return a.reason or a.chosen[0]


def test_f17_no_option_is_invented_and_nearly_all_are_read():
    "Of the written replies at least 95 in 100 are read as a person reads them, and none as another option."
    wrong = [(row, got) for row in REPLIES if (got := told(*row[1:4], *row[5:])) != row[4]]
    invented = [x for x in wrong if not isinstance(x[1], str)]
    assert not invented and len(wrong) <= len(REPLIES) / 20, wrong


# The reasoning


@given(
    st.text(max_size=60),
    st.sampled_from(
        [
            "<think>{}</think>",
            "{}</think>",
            "[THINK]{}[/THINK]",
            "<reasoning>{}</reasoning>",
            "<|begin_of_thought|>{}<|end_of_thought|>",
            "◁think▷{}◁/think▷",
            "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
        ]
    ),
)
def test_f17_what_stands_between_the_marks_never_matters(thought, marks):
    thought = thought.translate(dict.fromkeys(map(ord, "<>[]|◁▷")))
    assert split_reasoning(marks.replace("{}", thought) + "Bea") == Split(
        "Bea", thought.strip(), False
    )


@given(st.text())
def test_f17_a_reply_without_marks_is_left_alone(text):
    text = text.translate(dict.fromkeys(map(ord, "<>[]◁▷")))
    if not text.lstrip().startswith(("analysis", "commentary")):
        assert split_reasoning(text) == Split(
            text.lstrip() if text != text.lstrip() else text, "", False
        )


@pytest.mark.parametrize(
    "opens",
    [
        "<think>",
        "[THINK]",
        "<|channel|>analysis<|message|>",
        "<|begin_of_thought|>",
        "<reasoning>",
        "analysisWe",
    ],
)
def test_f25_a_block_that_is_not_closed_is_cut(opens):
    for form in ("choice/letters", "choice/names", "identifyme/desc", "bookcoref/filter"):
        q = asked(["Yes", "No"] if form.startswith("book") else NAMES)
        assert read(q, form, f"{opens} The answer is B, {q.options[0].name}.").reason == "cut"


def test_an_announced_answer_outweighs_what_is_added():
    q = asked(["Anna", "Peter", "The Ferryman"])
    said = "The answer is Anna or maybe Peter because she left."
    assert read(q, "choice/names", said).chosen == (0,)


def test_the_released_reading_strips_nothing():
    q = asked(NAMES)
    assert read(
        q, "identifyme/desc", "<think>x</think>\nThe mention refers to: Peter", reading="released"
    ).chosen == (2,)
    assert (
        read(q, "identifyme/desc", "<think>x</think>\nPeter", reading="released").reason
        == "unparsable"
    )


# Laws

LEADS = [
    "{}",
    "**{}**",
    "({})",
    "Answer: {}",
    "The answer is {}.",
    "Final answer: {}",
    "\\boxed{{{}}}",
    "<answer>{}</answer>",
    '{{"answer": "{}"}}',
    "Respuesta: «{}»",
    "答案是「{}」。",
    "<think>who?</think>\n{}",
    "```\n{}\n```",
    "I'd go with {}.",
]


@given(
    st.integers(0, len(NAMES) - 1),
    st.sampled_from(LEADS),
    st.sampled_from(["choice/letters", "choice/names", "both"]),
)
def test_f17_one_option_is_read_in_every_dress(i, lead, form):
    words = {
        "choice/letters": letters_of(9)[i],
        "choice/names": NAMES[i],
        "both": f"{letters_of(9)[i]}. {NAMES[i]}",
    }[form]
    assert read(
        asked(NAMES), "choice/letters" if form == "both" else form, lead.format(words)
    ).chosen == (i,)


@given(
    st.permutations(range(len(NAMES))),
    st.sampled_from(
        [
            "{} or {}",
            "{} and {}",
            "The answer is {} or {}.",
            "{}, {}",
            "Answer: {}/{}",
            "{}\n{}",
            "The answer is {}. Wait, the answer is {}.",
            "Either {} or {}.",
        ]
    ),
    st.booleans(),
)
def test_f17_two_options_are_never_one(order, lead, by_letter):
    i, j = order[:2]
    words = [letters_of(9)[k] if by_letter else NAMES[k] for k in (i, j)]
    a = read(asked(NAMES), "choice/letters" if by_letter else "choice/names", lead.format(*words))
    assert a.reason == "unparsable", a


@given(st.permutations(range(len(NAMES))))
def test_f17_a_letter_with_the_name_of_another_option_is_no_reading(order):
    i, j = order[:2]
    a = read(asked(NAMES), "choice/letters", f"{letters_of(9)[i]}. {NAMES[j]}")
    assert a.reason == "unparsable"


@given(
    st.text() | st.lists(st.sampled_from([r[3] for r in REPLIES]), max_size=3).map("\n".join),
    st.sampled_from(sorted(forms())),
    st.sampled_from(["stop", "length"]),
    st.lists(st.text(max_size=9), min_size=1, max_size=5),
)
def test_f17_no_reply_is_an_error(reply, form, finish, names):
    a = read(asked(names), form, reply, finish)
    assert (len(a.chosen) == 1) != bool(a.reason) and a.raw == reply


UNITS = [
    "<think>",
    "</think>",
    "<answer>",
    "B ",
    "B\n",
    "A. Anna Brandt\n",
    "Peter or ",
    "The answer is ",
    "not ",
    "\\boxed{",
    '{"answer": "',
    "'",
    "_",
    "*",
    "final ",
    "答",
    "~~",
    "A: wrong\n",
    "- ",
    " ",
    "\u0301",
    "refers to ",
    "cannot ",
    "Mary ",
]


@pytest.mark.parametrize("unit", UNITS)
def test_f17_the_work_grows_no_faster_than_the_reply(unit):
    letters = tuple(letters_of(len(NAMES)))

    def call(n):
        return read_choice(split_reasoning(unit * n).answer, NAMES, letters)

    assert growth(call, 100, 400) < 5
    call(50_000)  # ends at all


# Why replies were not read


def test_f16_a_runs_summary_tells_why_replies_were_not_read(stub, tmp_path, capsys, monkeypatch):
    from refnb.benchmarks.tasks import FERRYMAN, task_questions

    qs = task_questions(FERRYMAN)
    lead = "- The mention refers to: "
    odd = [
        "<think>Who",
        "I cannot tell.",
        "A thing.",
        *(f"{lead}{q.options[0].name} or {q.options[1].name}" for q in qs[:2]),
    ]
    replies = iter(odd)
    stub.always = lambda seen: Play(text=next(replies, f"{lead}None of the Above"))
    for k, v in tools.clean(tmp_path).items():
        monkeypatch.setenv(k, v)
    monkeypatch.setenv("STUB_KEY", SECRET)
    how = [
        FERRYMAN,
        "gpt-4o-mini",
        *(
            x
            for k, v in {
                "base_url": stub.url,
                "key": "STUB_KEY",
                "form": "identifyme/base",
                "concurrency": 1,
            }.items()
            for x in ("-p", f"{k}={v}")
        ),
    ]
    said = tools.here(capsys, "run", *how)
    assert (
        "\n5 not read: " in said.out
        and "1 cut (raise decoding.max_tokens)" in said.out
        and "4 with no option or several" in said.out
    ), said
    told = json.loads(tools.here(capsys, "run", *how, "--json").out)["not_read"]
    assert sum(told.values()) == 5 and told["with no option or several"] == 4
