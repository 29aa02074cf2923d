"Runs of version 0.1 go on: the hash that names a run's folder is the same, and a variant that had its system's name is found."

import json
from pathlib import Path
import pytest
from refnb.benchmarks.tasks import find_task
from refnb.core.runs import open_run, run_hash
from refnb.core.settings import load_settings
from refnb.core.types import Answer
from refnb.models.registry import find_system
from refnb.models.running import run
from refnb.models.systems import info_of

# task, system and settings -> hash, as version 0.1 had them
HASHES = json.loads((Path(__file__).parent / "data/hashes_0_1.json").read_text())


def settings_of(words: list[str]) -> dict:
    pairs = [w.split("=", 1) for w in words]
    return {k: json.loads(v) if v.startswith('"') else v for k, v in pairs}


def groups() -> dict[str, list[str]]:
    by_task: dict[str, list[str]] = {}
    for key in HASHES:
        by_task.setdefault(key.split()[0], []).append(key)
    return by_task


@pytest.mark.parametrize("name", groups())
def test_a_run_has_the_name_that_it_had(name, tmp_path, request):
    if not name.startswith("sample/"):
        request.getfixturevalue("upstream")
    s = load_settings(runs=str(tmp_path), offline=True)
    task = find_task(name, s)
    differ = {}
    for key in groups()[name]:
        _, base, *words = key.split()
        system = find_system(base, s, **settings_of(words))
        if "weights" in system.lacks(task) or "not installed" in system.lacks(task):
            continue
        info = info_of(system, task).changed(system=base)
        if run_hash(info) != HASHES[key]:
            differ[key] = info.settings
    assert not differ


def test_a_variant_begun_under_its_systems_name_goes_on(tmp_path):
    "Version 0.1 kept `random` asked otherwise and `random` under one name; here a language model with its options reversed."
    s = load_settings(
        "/", env={}, offline=True, runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports")
    )
    task, system = find_task("sample/ferryman", s), find_system("gpt-4o-mini", s, order="reversed")
    old = open_run(info_of(system, task).changed(system="gpt-4o-mini"), s.runs)
    with old.writing() as w:
        for q in task.questions:
            w.add(Answer(q.id, (0,)))
    done = run(task, system, s=s)
    assert (
        done.sealed
        and done.info.system == "gpt-4o-mini[order=reversed]"
        and done.folder != old.folder
    )
    assert not old.sealed and len(old.answered()) == len(
        task.questions
    )  # the old folder is left alone
    again = run(task, "gpt-4o-mini[order=reversed]", s=s)
    assert again.folder == done.folder
