"Runs for pages to show: six questions, and whatever a system said to them."

from refnb.core.files import write_jsonl
from refnb.core.runs import Run, RunInfo, open_run, questions_id
from refnb.core.types import Answer, Option, Question, Usage

ABC = tuple(map(Option, ("Ann", "Bea", "Cy")))


def question(k: int, **changed) -> Question:
    "The k-th question; `She` is Bea."
    text = f"Ann met Bea on day {k % 2}. She smiled."
    start = text.index("She")
    fields = {
        "type": "nominal" if k % 3 else "pronominal",
        "n": k,
        "class": None if k % 4 else "she",
    }
    known = dict(
        id=f"d{k % 2}:{k}",
        doc_key=f"d{k % 2}",
        text=text,
        chars=(start, start + 3),
        options=ABC,
        right=(1,),
        meta=fields,
    )
    return Question(**known | changed)


SIX = [question(k) for k in range(6)]
SIX_ANSWERS = [
    Answer("d0:0", (1,), raw="The reply: Bea.", usage=Usage(10, 2, 0.25, 1.5)),
    Answer("d1:1", (0,), usage=Usage(10, 2)),
    Answer("d0:2", scores=(2.0, 2.0, 1.0)),
    Answer("d1:3", reason="refused", raw="I can't."),
    Answer("d0:4", (0, 1)),
    Answer("d1:5", scores=(0.0, 3.0, 0.0)),
]


def answered(
    folder,  # the runs are in its folder runs
    questions=SIX,
    answers=SIX_ANSWERS,
    system: str = "reader",
    task: str = "toy/test",
    complete: bool = True,  # an unanswered question has a missing answer then
    keep: bool = True,  # the questions beside the answers
    **info,
) -> Run:
    "A run of these answers."
    run = open_run(
        RunInfo(task, system, {"questions": questions_id(questions)}, **info), folder / "runs"
    )
    if keep:
        write_jsonl(run.questions_path, questions, canary=True)
    with run.writing() as journal:
        for answer in answers:
            journal.add(answer)
    if complete:
        run.seal([q.id for q in questions], allow_missing=True)
    return run
