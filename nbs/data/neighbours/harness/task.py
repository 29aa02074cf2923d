"Questions of refnb as a task of lm-evaluation-harness. The YAML file beside this one says what is done with what stands here."

from dataclasses import replace
from pathlib import Path
from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from refnb.models.language.other_harnesses import harness_documents, harness_scores


def documents(**about):
    "The questions; `about` is the YAML's metadata and what --model_args said."
    return {
        "test": Dataset.from_list(
            harness_documents(Path(__file__).with_name("questions.jsonl"), about)
        )
    }


def results(doc, results):
    "The metrics of one question: from a reply, or from sums of log-probabilities."
    return harness_scores(doc, [r if isinstance(r, str) else r[0] for r in results])


class Questions(ConfigurableTask):
    "Prompts are complete: only the model's chat template comes around them, and the words that lead up to an option."

    def __init__(self, config):
        super().__init__(config={k: v for k, v in config.items() if k != "class"})

    def fewshot_context(self, doc, **how):
        return super().fewshot_context(doc=doc, **how) + doc["lead"]

    def construct_requests(self, doc, ctx, **how):
        "The harness scores the blanks at a prompt's end as a part of each option; one request more tells what they alone add."
        requests, end = super().construct_requests(doc, ctx, **how), len(ctx.rstrip())
        if not doc["choices"] or end == len(ctx):
            return requests
        return [
            *requests,
            replace(
                requests[0],
                arguments=(ctx[:end], ctx[end:]),
                idx=len(requests),
                resps=[],
                filtered_resps={},
            ),
        ]
