"Reading replies: of ten model families, of a release, damaged; none is invented or takes long."

import ast, csv, io, json, re
import pytest
import yaml
from core_mutations import mutated
from hypothesis import example, given, strategies as st
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, Option, Question
from refnb.core.upstream import get
from refnb.models.language.prompts import continuations, forms, letters_of, pattern, render
from refnb.models.language.reading import read
from tools import DATA, growth

TABLE = yaml.safe_load((DATA / "replies.yaml").read_text(encoding="utf-8"))
REPLIES = [(family, *row) for family, rows in TABLE["families"].items() for row in rows]
BOAT = TABLE["options"]["boat"]
NAMES = ["Ann", "Bea", "The King's Daughter", "Mr. B.", "None of the Above"]
BASE, DESC = "identifyme/base", "identifyme/desc"
MODES = ["tolerant", "released"]
LINE = "- The mention refers to: "


def asked(names=NAMES) -> Question:
    text = "Ann met Bea by the river . She smiled ."
    return Question("d:0", "d", text, (27, 30), tuple(map(Option, names)), (0,) if names else ())


def told(reply: str, names=NAMES, form: str = DESC, **how) -> str:
    "The name that is read, or the reason why none is."
    a = read(asked(names), form, reply, **how)
    assert a.raw == reply and len(a.chosen) == (0 if a.reason else 1)
    return a.reason or names[a.chosen[0]]


def in_form(names, i: int) -> str:
    "A well-formed reply without an explanation."
    lead, labels = continuations(asked(names), BASE)
    return lead + labels[i]


# Replies with their right reading


def test_no_option_is_invented_and_nearly_all_are_read():
    "Of the written replies at least 95 in 100 are read as a person reads them, and none as another."
    wrong = []
    for family, form, options, reply, right, *finish in REPLIES:
        names = TABLE["options"][options]
        a = read(asked(names), TABLE["forms"][form], reply, *finish)
        got = a.reason or a.chosen[0]
        if got != right:
            wrong.append((family, reply, right, got))
    assert all(isinstance(got, str) for *_, got in wrong), wrong
    assert len(wrong) <= len(REPLIES) / 20, wrong


FORMS = {
    "- **The mention refers to**: *Bea*": "Bea",
    LINE + '"Bea."': "Bea",
    "> " + LINE + "“Bea”": "Bea",
    "\t* the MENTION refers to : Bea": "Bea",
    LINE + "\r\n\r\nBea\r\n": "Bea",
    LINE + "THE KING’S DAUGHTER": "The King's Daughter",
    LINE + "Mr. B": "Mr. B.",
    '```json\n{"Mention": "She", "The mention refers to": "bea"}\n```': "Bea",
    '{"answer": "Bea", "explanation": "The mention refers to: Ann, at first."}': "Bea",
    '{"answer": "The mention refers to: bea"}': "Bea",
    in_form(NAMES, 1) + "\n\nAnn is not meant.": "Bea",
    "- Explanation: The mention refers to: Ann at first sight.\n" + LINE + "Bea": "Bea",
    LINE + "Bea\n" + LINE + "**bea**": "Bea",
    "**bea.**": "Bea",
    '{"answer": 1}': "outside",
    '{"answer": "Zed"}': "outside",
    LINE + "Zed": "outside",
    LINE + "Bea\n" + LINE + "Ann": "unparsable",
    '```json\n{"answer": "Bea"}\n```\n' + LINE + "Ann": "unparsable",
    f"Ann met Bea .\n{LINE}Ann\n{in_form(NAMES, 1)}": "unparsable",
    "There is insufficient information to say that it refers to Ann.": "unparsable",
    '{"a":' * 50000: "unparsable",
    LINE: "unparsable",
    "The answer is clear.": "unparsable",
    "Zed": "unparsable",
}


@pytest.mark.parametrize("reply", FORMS)
def test_a_reply_in_another_form_is_read_or_not_guessed(reply):
    assert told(reply) == FORMS[reply]


def test_names_that_differ_in_little_are_told_apart_or_not_guessed():
    names = ["Ann", "ann", "Zoe\u0308", "Zoë", "O'Neil", "O’Neil", "Mr. B", "Mr. B.", "*", "**"]
    assert [told(LINE + x, names) for x in names] == names
    assert {told(LINE + x, names) for x in ("ANN", "O‘Neil", "ZOË")} == {"unparsable"}


# How a reply ended


@pytest.mark.parametrize("mode", MODES)
def test_a_reply_that_ended_badly_has_that_reason_whatever_it_says(mode):
    ends = {"content_filter": "filtered", "refusal": "refused", "failed": "failed"}
    for reply in ("", " \n\t", in_form(NAMES, 1), "no"):
        assert {f: told(reply, reading=mode, finish=f) for f in ends} == ends
    for reply in ("", " \n\t"):
        assert told(reply, reading=mode) == "unparsable"
        assert told(reply, reading=mode, finish="length") == "cut"


def test_a_reply_cut_anywhere_is_cut_and_half_a_name_is_not_another():
    names = ["Ann", "Ann Smith", "Ann Smith's Aunt"]
    reply = in_form(names, 2)
    cut = {told(reply[:k], names, finish="length") for k in range(len(reply) + 1)}
    assert cut == {"cut"} and told("Ann\nSmith", names, finish="length") == "cut"
    assert told(reply + "\nNote th", names, finish="length") == names[2]


OPENS = ["<think>", "[THINK]", "<|channel|>analysis<|message|>", "<|begin_of_thought|>"]


@pytest.mark.parametrize("opens", [*OPENS, "<reasoning>", "analysisWe"])
def test_reasoning_that_does_not_end_is_a_cut_reply(opens):
    for form in ("choice/letters", "choice/names", DESC, "bookcoref/filter"):
        names = ["Yes", "No"] if form.startswith("book") else BOAT
        assert told(f"{opens} The answer is B, {names[0]}.", names, form) == "cut"


# The release: its own reading, and ours beside it

AUTHORS = "KawshikManikantan/IdentifyMe"
FILES = dict(mistral="mistral_7b_instruct", llama="llama3_instruct", mini="gpt4o_mini")
FILES |= dict(gemini="gem_flash", gpt4o="gpt4o")
READ = {  # replies; right as released and as read here; read differently
    "mistral": (1200, 618, 618, 0),
    "llama": (1200, 640, 640, 0),
    "mini": (1200, 760, 760, 3),
    "gemini": (1197, 884, 888, 4),
    "gpt4o": (1200, 983, 983, 0),
}


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("prompts")
    folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
    return load_settings("/", env={}, upstream=str(upstream), offline=True, **folders)


@pytest.mark.parametrize("model", READ)
def test_every_released_reply_is_read_as_released_and_ours_loses_none(s, model):
    """Ours reads names with other apostrophes or capitals besides, and nothing else.
    Replies that the authors held to a pattern match ours."""
    data = get(f"{AUTHORS}/analysis_data/info/{FILES[model]}_mention_info.csv", s).decode()
    drop, count = "*" if model == "gemini" else "", [0, 0, 0, 0]
    alike = lambda name: name.replace("’", "'").lower()
    for r in csv.DictReader(io.StringIO(data, newline="")):
        said, names, right = r["predicted_answer"], ast.literal_eval(r["options"]), r["answer"]
        theirs = told(r["output"], names, reading="released", drop=drop)
        ours = told(r["output"], names)
        assert theirs == (said if said in names else "outside")
        assert (said == right) == (r["correct"] == "True")
        assert theirs == "outside" or ours == theirs
        if changed := ours in names and theirs != ours:
            assert alike(said) == alike(ours)
        for k, x in enumerate((1, theirs == right, ours == right, changed)):
            count[k] += x
        if model in ("mistral", "llama") and count[0] % 5 == 0:
            mention = r["mentions_vs_mentionstr"]
            q = asked(names).changed(text=mention, chars=(0, len(mention)))
            assert re.fullmatch(pattern(q, DESC), r["output"])
    assert tuple(count) == READ[model]


def test_the_one_released_prompt_and_its_reply(s):
    trial = json.loads(get(f"{AUTHORS}/results/qa/trial.json", s))
    start, end = trial["text"].index("{{"), trial["text"].index("}}") - 2
    text = trial["text"].replace("{{", "").replace("}} (#This is the marked mention)", "")
    q = asked(trial["options"]).changed(text=text, chars=(start, end))
    assert render(q, DESC) == trial["prompt"]
    for mode in MODES:
        got = told(trial["output"], trial["options"], reading=mode)
        assert got == trial["predicted_answer"]


def test_the_authors_reading_takes_the_last_marker_and_exact_names_only():
    cases = {
        LINE + "Ann\n" + LINE + "Bea": "Bea",
        LINE + "bea": "outside",
        LINE + "Bea\n\nThis is so.": "outside",
        "Bea": "Bea",
        "**The mention refers to:** Bea": "unparsable",
        "The mention refers to: Bea": "Bea",
        "<think>x</think>\nThe mention refers to: Bea": "Bea",
        "<think>x</think>\nBea": "unparsable",
    }
    assert {r: told(r, reading="released") for r in cases} == cases
    dropped = [told(LINE + "**Bea**", reading="released", drop=d) for d in ("", "*", "*B")]
    assert dropped == ["outside", "Bea", "outside"]
    assert told(LINE + "Ann", reading="released", finish="length") == "Ann"


PIECES = st.sampled_from(
    [
        *("- Mention: {{She}}", "", "Hmm .", "```", LINE.strip(), *NAMES),
        *(LINE + n for n in NAMES),
        *(f"So the mention refers to: {n}" for n in NAMES),
        *("The mention refers to: bea", LINE + "Zed", "Indeed, The mention refers to: Ann"),
    ]
)


@given(st.lists(PIECES, max_size=6).map("\n".join))
@example("- The mention refers to:\nIndeed, The mention refers to: Ann")
def test_what_the_authors_read_is_read_alike_or_called_unparsable(reply):
    theirs, ours = (told(reply, reading=m) for m in ("released", "tolerant"))
    assert theirs not in NAMES or ours in (theirs, "unparsable")


# Laws

MARKS = [
    "<think>{}</think>",
    "{}</think>",
    "[THINK]{}[/THINK]",
    "<reasoning>{}</reasoning>",
    "<|begin_of_thought|>{}<|end_of_thought|>",
    "◁think▷{}◁/think▷",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
]


@given(st.text(max_size=60), st.sampled_from(MARKS))
def test_what_stands_between_the_marks_of_reasoning_never_matters(thought, marks):
    thought = thought.translate(dict.fromkeys(map(ord, "<>[]|◁▷"))) + " The answer is Ann."
    assert told(marks.replace("{}", thought) + "Bea") == "Bea"


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


@pytest.mark.parametrize("lead", LEADS)
def test_one_option_is_read_in_every_dress(lead):
    for name, letter in zip(BOAT, letters_of(9)):
        assert told(lead.format(letter), BOAT, "choice/letters") == name
        assert told(lead.format(name), BOAT, "choice/names") == name
        assert told(lead.format(f"{letter}. {name}"), BOAT, "choice/letters") == name


BOTH = ["{} or {}", "{} and {}", "The answer is {} or {}.", "{}, {}", "Answer: {}/{}", "{}\n{}"]
BOTH += [
    "The answer is {}. The answer is {}.",
    "Either {} or {}.",
    "{}, or perhaps {}",
    "{}: 2, {}: 3",
]
TURNS = ["The answer is {}. Wait, the answer is {}.", "{}. Just kidding, it's {}.", "{}... no, {}."]
TURNS += ["Answer: {}\n\nCorrection: the answer is {}.", "\\boxed{{{}}}\n\nActually, it is {}."]


@given(st.permutations(range(len(BOAT))), st.sampled_from(BOTH))
def test_two_options_are_never_one(order, lead):
    i, j = order[:2]
    letters = letters_of(9)
    assert told(lead.format(letters[i], letters[j]), BOAT, "choice/letters") == "unparsable"
    assert told(lead.format(BOAT[i], BOAT[j]), BOAT, "choice/names") == "unparsable"
    assert told(f"{letters[i]}. {BOAT[j]}", BOAT, "choice/letters") == "unparsable"


@given(st.permutations(range(len(BOAT))), st.sampled_from(TURNS))
def test_a_clear_correction_counts(order, lead):
    i, j = order[:2]
    letters = letters_of(9)
    assert told(lead.format(letters[i], letters[j]), BOAT, "choice/letters") == BOAT[j]
    assert told(lead.format(BOAT[i], BOAT[j]), BOAT, "choice/names") == BOAT[j]


PARTS = PIECES | st.text() | st.sampled_from([r[3] for r in REPLIES])


@given(
    st.lists(PARTS, max_size=6).map("\n".join),
    st.sampled_from(sorted(forms())),
    st.sampled_from(["stop", "length"]),
    st.sampled_from(MODES),
    st.lists(st.text(max_size=12), min_size=1, max_size=6),
)
def test_no_reply_is_an_error(reply, form, finish, mode, names):
    told(reply, names, form if mode == "tolerant" else DESC, finish=finish, reading=mode)


SEEDS = [
    in_form(NAMES, 1),
    '```json\n{"mention": "She", "explanation": "So.", "answer": "Bea"}\n```\n',
    "**Mention:** {{She}}\n\n**The mention refers to:**\n  The King’s Daughter\n",
]


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_a_damaged_reply_is_read_or_has_a_reason(seed):
    known = {*NAMES, "outside", "unparsable", "cut", "refused"}
    for damaged in mutated(SEEDS[seed].encode(), seed):
        for mode in MODES:
            assert told(damaged.decode("utf-8", "replace"), reading=mode) in known


UNITS = {
    "choice/letters": [
        *("<think>", "</think>", "<answer>", "B ", "B\n", "A. Anna Brandt\n", "Peter or "),
        *("The answer is ", "not ", "\\boxed{", '{"answer": "', "'", "_", "*", "final ", "答"),
        *("~~", "A: wrong\n", "- ", " ", "\u0301", "refers to ", "cannot ", "Mary "),
        *("\r\n", "\t", "☐ B ", "if ", "B: ", "Example:\n"),
    ],
    DESC: ["{", "```\n", "-", "The mention refers to: ", " ", "a\u0301", '{"answer": "x", '],
}


@pytest.mark.parametrize("form, unit", [(form, x) for form in UNITS for x in UNITS[form]])
def test_the_work_of_reading_grows_no_faster_than_the_reply(form, unit):
    "An expression that tries every beginning with every end would not come to its own end."
    for mode in MODES if form == DESC else MODES[:1]:

        def call(n, mode=mode):
            told(LINE * (form == DESC) + unit * n + "x", BOAT, form, reading=mode)

        assert growth(call, 50, 200) < 5
        call(50_000)


@pytest.mark.parametrize(
    "how, words", [({"reading": "strict"}, "reading"), ({"finish": "content-filter"}, "content_")]
)
def test_what_is_no_way_of_reading_is_refused(how, words):
    with pytest.raises((CallError, DataError), match=words):
        read(asked(), DESC, "x", **how)
