"Questions of refnb as a task of inspect_ai: inspect eval task.py --model PROVIDER/MODEL; -T by=FIELD adds accuracies by a field of the questions."

import json
from pathlib import Path
from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Score, accuracy, grouped, scorer, stderr
from inspect_ai.solver import generate
from refnb.models.language.inspect_task import inspect_finish, inspect_score

HERE = Path(__file__).parent
ABOUT = json.loads((HERE / "about.json").read_text(encoding="utf-8"))


def sample(record):
    "A question as a sample; what the reader of replies needs travels as its metadata."
    said = [ChatMessageSystem(content=record["system"])] if record["system"] else []
    known = {k: v for k, v in record.items() if k not in ("prompt", "system", "meta")}
    return Sample(
        id=record["id"],
        input=[*said, ChatMessageUser(content=record["prompt"])],
        choices=record["options"],
        target=[record["options"][i] for i in record["right"]],
        metadata=record["meta"] | known,
    )


@scorer(metrics=[accuracy(), stderr(cluster="doc_key")])
def refnb():
    "A reply as refnb reads it."

    async def score(state, target):
        v = inspect_score(
            state.metadata, state.output.completion, inspect_finish(state.output.stop_reason)
        )
        return Score(value=v.credit, answer=v.said)

    return score


@task
def questions(by: str = ""):
    groups = [grouped(accuracy(), by), grouped(stderr(cluster="doc_key"), by)] if by else []
    return Task(
        json_dataset(str(HERE / "questions.jsonl"), sample),
        solver=generate(),
        scorer=refnb(),
        metrics=[accuracy(), stderr(cluster="doc_key"), *groups],
        config=GenerateConfig(**ABOUT["decoding"]),
        name=ABOUT["task"],
        version=ABOUT["version"],
        metadata=ABOUT,
    )
