"KITMUS: the release byte for byte, published scores, the evaluator's edges, resources, commands."

import csv, gzip, itertools, json
import pytest
from hypothesis import given, settings as how, strategies as st
from refnb.benchmarks.kitmus.files import build_files, entity_places, scope_sentences, split_files
from refnb.benchmarks.kitmus.sampler import KITMUS_SPLITS, Resources, Sampler
from refnb.benchmarks.kitmus.tasks import the_resources
from refnb.benchmarks.tasks import find_task
from refnb.commands.cli import main
from refnb.core.conll import parse_conll
from refnb.core.formats import parse_gap_rows
from refnb.core.jsonlines import parse_jsonlines
from refnb.core.settings import load_settings, packaged
from refnb.core.types import DataError, FormatError, RefnbError, Span
from refnb.core.upstream import blob_id, files_of
from refnb.metrics.links import Links, Pronoun, by_field, joined_candidates, together
from refnb.metrics.choice import credit
from refnb.models.published.answers import kitmus_scores, predicted_files
from refnb.models.registry import find_system
from refnb.models.running import run
from refnb.results.papers.kitmus import Runs, add_cell, other_data
from refnb.results.tables import Report
from tools import DATA, FULL, ROOT, here, live_in, one_line


@pytest.fixture(scope="module")
def s(upstream):
    return load_settings("/", env={"REFNB_UPSTREAM": str(upstream), "REFNB_OFFLINE": "true"})


@pytest.fixture(scope="module")
def resources(s):
    return the_resources("released", s)


def own_folders(s, home):
    return s.changed(runs=str(home / "runs"), reports=str(home / "reports"))


# The release


def ids_of(subtasks) -> dict[str, str]:
    "The git blob id of each file that a build of subtasks would write."
    return {name: blob_id(data) for t in subtasks for name, data in split_files(t)}


def test_files_of_a_variant_come_out_byte_for_byte(resources):
    known = {f.path: f.blob for f in files_of("kitmus-texts")}
    both = itertools.islice(Sampler(resources).subtasks(["background-both"]), 5)
    made = ids_of(t for t in both if t.split != "train")  # what is drawn before counts all the same
    same = [path for path in made if path in known]
    assert len(same) >= 4 and all(made[path] == known[path] for path in same)


@pytest.mark.full
def test_all_known_files_come_out_byte_for_byte(resources):
    "All 696 files are made in memory; every one whose id is in the registry is that file."
    known = {f.path: f.blob for f in files_of("kitmus-texts")}
    made = ids_of(Sampler(resources).subtasks())
    assert len(made) == 696 and set(known) <= set(made) and len(known) >= 90
    assert {path for path in known if made[path] != known[path]} == set()


def results(summary: bytes) -> dict:
    "A summary without its version, and without the bytes of the journal, which versions write anew."
    found = json.loads(summary)
    del found["info"]["refnb"]
    return found | {"seal": {k: found["seal"][k] for k in ("questions", "answers", "said")}}


@pytest.mark.full
def test_all_predictions_that_are_here_make_the_committed_summaries(s, tmp_path):
    "One run for each file of predictions on test texts; the next test makes some of them."
    own = own_folders(s, tmp_path)
    files = [p for p in predicted_files() if p.split == "test" and p.file.size is not None]
    tasks = {name: find_task(name, own) for name in sorted({p.task for p in files})}
    for p in files:
        assert run(tasks[p.task], p.system, s=own).complete
    made = sorted((tmp_path / "reports").rglob("run-*.json"))
    assert len(made) == len(files)
    for path in made:
        committed = (ROOT / path.relative_to(tmp_path)).read_bytes()
        assert results(path.read_bytes()) == results(committed), path


def total(groups) -> Links:
    return sum(groups, start=Links())


def test_published_predictions_have_their_known_scores(s, tmp_path):
    "Counts of the released predictions that are here, file by file."
    own = own_folders(s, tmp_path)
    with (DATA / "kitmus_scores.tsv").open() as f:
        rows = list(csv.DictReader(f, delimiter="\t"))
    assert len(rows) > 10
    for r in rows if FULL else rows[:1]:
        task = f"kitmus/{r['variant']}/{r['entities']}/test"
        assert run(task, f"published/{r['model']}/run-{r['run']}", s=own).complete
        got = kitmus_scores(r["model"], task, own)
        [found] = [
            x for x, name in zip(got.runs, got.names, strict=True) if f"/run-{r['run']}@" in name
        ]
        c = total(found["pronoun"].values())
        counts = (c.texts, c.correct, c.right, c.predicted)
        assert counts == (2000, *(int(r[k]) for k in ("correct", "right", "predicted"))), r
        assert (f"{c.antecedent.f1:.6f}", f"{c.accuracy:.6f}") == (r["f1"], r["accuracy"]), r
        for field in ("position", "template pair"):
            assert total(found[field].values()) == c, r


def test_c2f_differs_by_template(s, tmp_path):
    own = own_folders(s, tmp_path)
    runs = kitmus_scores("kitmus-trained-c2f", "kitmus/background-train/3/test", own).runs
    pairs = [r["template pair"] for r in runs]
    assert round(together(pairs).mean, 4) == 0.278
    for template, accuracy in (("4", 0.079), ("5", 0.480)):
        own = total(v for p in pairs for k, v in p.items() if k.endswith(f"+{template}"))
        assert round(own.accuracy, 3) == accuracy


def test_a_released_prediction_is_run_and_scored_as_any_system(s, tmp_path, monkeypatch, capsys):
    "Also beside a system whose summary has another card."
    live_in(monkeypatch, tmp_path)
    monkeypatch.setenv("REFNB_UPSTREAM", s.upstream)
    monkeypatch.setenv("REFNB_CACHE", s.cache)  # for which all texts have been drawn already
    task, system = "kitmus/background-train/2/test", "published/kitmus-trained-petra/run-1"
    assert here(capsys, "run", task, "first-mention").status == 0
    said = here(capsys, "run", task, system, "--json")
    assert json.loads(said.out)["groups"]["all"]["right"] == 7
    said = here(capsys, "score", "choice", f"{task}:{system}", "--by", "position", "--json")
    assert sum(g["n"] for g in json.loads(said.out)["groups"].values()) == 4000
    links = kitmus_scores("kitmus-trained-petra", task, load_settings()).runs[0]["position"]
    assert total(links.values()).correct == 7
    several = "published/kitmus-trained-c2f/run-"
    said = here(capsys, "run", task, several + "{1..6}")
    assert f"name one of them; {several}1" in said.err
    assert here(capsys, "list", "systems").out.count("published/kitmus-trained-c2f") == 1


def test_theory_of_the_systems_without_weights(s):
    """Position is worth one in n, chance exactly; overlap solves what the text says itself; the key
    is the ceiling."""
    for variant, n, solved in (("background-train", 2, False), ("background-both", 4, True)):
        task = find_task(f"kitmus/{variant}/{n}/test", s)
        questions = task.questions[: None if FULL else 500]

        def mean(system, task=task, questions=questions):
            answers = find_system(system).answer(task, questions)
            earned = (credit(q, a) for q, a in zip(questions, answers, strict=True))
            return sum(earned) / len(questions)

        error = ((1 / n) * (1 - 1 / n) / len(questions)) ** 0.5
        assert mean("answer-key") == 1 and mean("random") == pytest.approx(1 / n)
        assert abs(mean("first-mention") - 1 / n) < 4 * error
        assert mean("overlap") > 0.95 if solved else abs(mean("overlap") - 1 / n) < 4 * error


# The sampler


def test_the_paper_mode_puts_each_resource_into_one_split():
    """Names, occupations, places (one is listed twice here) and sentences about them; the first
    template of a kind is for all. The release's way shares noise, and a place that it lists twice."""

    def files(name):
        data = (packaged("data/kitmus") / name).read_bytes()
        return data + data.splitlines()[1] if name == "locations.csv" else data

    r = Resources(files, doubled=True)
    subtasks = list(Sampler(r, "paper", [2, 3], (1, 1, 1)).subtasks(["background-both"]))
    assert [t.split for t in subtasks] == [*KITMUS_SPLITS, *KITMUS_SPLITS]
    for splits in (subtasks[:3], subtasks[3:]):
        pools = [t.pools for t in splits]
        every = [
            (r.names, [p.names for p in pools]),
            (r.occupations("real", "real"), [p.occupations for p in pools]),
            (r.locations[:-1], [p.locations for p in pools]),
            *(
                (r.noise_sentences(file), [p.noise_sentences[file] for p in pools])
                for file in pools[0].noise_sentences
            ),
        ]
        for whole, parts in every:
            assert sorted(itertools.chain(*parts)) == sorted(whole)
        assert {t.build(0).templates for t in splits} == {(1, 1)}
    released = Sampler(r, entities=[2], sizes=(1, 1, 1)).subtasks(["background-train"])
    train, _, test = (t.pools for t in released)
    assert not {meet for meet, _ in train.tasks} & {meet for meet, _ in test.tasks}
    assert train.noise_sentences == test.noise_sentences


def test_a_place_of_the_release_falls_into_two_splits_but_not_in_the_paper_mode(resources):
    "A defect of the release: the school reunion, which must be asked for."

    def shared(mode, variant):
        sampler = Sampler(resources, mode, [2], (1, 1, 1))
        a, b, c = ({x.words for x in t.pools.locations} for t in sampler.subtasks([variant]))
        return (a & b) | (a & c) | (b & c)

    assert not shared("paper", "background-both")
    assert len(shared("released", "background-both")) == 1
    with pytest.raises(FormatError, match="locations.csv, line .*school.*reunion.* appears twice"):
        list(Resources(resources.files).locations)


def test_texts_of_the_paper_mode_share_no_noise(resources):
    sampler = Sampler(resources, "paper", [2, 3], (60, 20, 60), seed=1)
    subtasks = list(sampler.subtasks(["background-train"]))
    for n in (2, 3):
        noise = {t.split: {i.task[1] for i in t} for t in subtasks if t.n == n}
        for a, b in itertools.combinations(noise.values(), 2):
            assert not a & b
    assert len({i.templates for t in subtasks for i in t}) == 1


@pytest.mark.parametrize("n", range(2, 9) if FULL else (2, 8))
def test_any_number_of_entities(resources, n):
    sampler = Sampler(resources, "paper", [n], (1, 1, 20))
    [*_, t] = sampler.subtasks(["background-both"])
    for i in t:
        clusters = entity_places(scope_sentences(i, "full-text"), n)
        assert sorted(map(len, clusters)) == [2] * (n - 1) + [3]
        assert (len(i.names), len(i.knowledge)) == (n, 2 * n)
        assert sum(w.entity == i.answer for x in i.task for w in x) == 2


# Files


def test_all_formats_hold_the_same_texts(resources):
    [*_, t] = Sampler(resources, sizes=(1, 1, 30), entities=[2]).subtasks(["background-train"])
    made = dict(split_files(t))
    for scope in ("full-text", "task-text-only"):
        stem = f"kitmus/background-train/subtask_2_ents/{scope}/test"
        conll, lines = parse_conll(made[f"{stem}.v4_gold_conll"]), made[f"{stem}.jsonlines"]
        docs, rows = parse_jsonlines(lines), parse_gap_rows(made[f"{stem}.tsv"], "x")
        for a, b in zip(conll, docs, strict=True):
            assert (a.sentences, a.clusters) == (b.sentences, b.clusters)
        texts = made[f"{stem}.txt"].decode().split("\n")
        ids = texts[0::3][:30]
        assert [r.id for r in rows] == ids == [d.doc_key for d in docs]
        assert [r.text for r in rows] == texts[1::3]
        for r in rows:
            places = (r.a_offset, r.a), (r.b_offset, r.b), (r.pronoun_offset, r.pronoun)
            assert [r.text[at : at + len(word)] for at, word in places] == [w for _, w in places]
            assert sorted(places) == list(places) and r.a_coref != r.b_coref


def test_a_build_appears_when_it_is_whole(resources, tmp_path, monkeypatch):
    def build(name, say=None):
        sampler = Sampler(resources, sizes=(2, 1, 2), entities=[2])
        return build_files(sampler, tmp_path / name, ["background-train"], say)

    folder = build("mine")
    assert len([p for p in folder.rglob("*") if p.is_file()]) == 33
    text = folder / "background-train/subtask_2_ents/full-text/test.txt"
    assert text.read_text().startswith("mine/background-train/")
    with pytest.raises(DataError, match="is there already"):
        build("mine")

    def full(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m, pytest.raises(DataError, match="free some space"):
        build("other", lambda done: m.setattr("pathlib.Path.write_bytes", full))
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


WRONG = [  # file, what stands there, what is there instead, what is said
    ("names.csv", b"Mehaffey\n", b"Cleaves\n", "line 3: the name 'Cleaves' appears twice"),
    ("templates/meet_sentence.txt", b"{location}", b"{place}", "line 1: the slot {location}"),
    ("locations.csv", b"'bar', 'NN'", b"'bar'", "line 2, field location: is not a list"),
    ("locations.csv", b"noise/food.txt", b"../food.txt", "leaves the folder"),
    ("pronouns.json", b"0.4", b"0.5", "the probabilities sum to"),
    ("occupations/real_real.csv", b"occupation,", b"job,", "the header is not occupation,"),
]


@pytest.mark.parametrize("file, old, new, said", WRONG)
def test_a_wrong_resource_is_said_with_its_place_in_one_line(resources, file, old, new, said):
    def files(name):
        data = resources.files(name)
        assert name != file or old in data
        once = -1 if file.startswith("templates") else 1
        return data.replace(old, new, once) if name == file else data

    with pytest.raises(RefnbError) as e:
        r = Resources(files, doubled=file != "names.csv")
        assert r.names and r.vocab
        list(Sampler(r, sizes=(1, 1, 1)).subtasks(["background-train"]))
    assert file in str(e.value) and said in str(e.value) and "\n" not in str(e.value)


# The evaluator's edges

GOLD = [
    Pronoun("a", (Span(0, 0), Span(2, 2)), 0, Span(4, 4)),
    Pronoun("b", (Span(0, 0), Span(2, 2)), 1, Span(4, 4)),
]
ENDS = st.sampled_from([(0, 0), (2, 2), (4, 4), (0, 1), (3, 4)])


@given(st.lists(st.lists(ENDS, max_size=4), max_size=4))
def test_laws_of_links(clusters):
    one = joined_candidates(GOLD[0], clusters)
    c = by_field(GOLD[:1], {"a": one})["all"]
    assert c.correct <= c.right <= 1 and c.predicted <= 2
    assert (
        joined_candidates(GOLD[0], clusters[::-1])
        == joined_candidates(GOLD[0], clusters * 2)
        == one
    )
    assert c.accuracy <= c.antecedent.recall == c.lenient


def test_one_link_each_makes_all_scores_equal():
    for links in itertools.product([(0,), (1,)], repeat=2):
        c = by_field(GOLD, dict(zip("ab", links, strict=True)))["all"]
        assert c.antecedent == (c.accuracy,) * 3, links


@given(st.integers(1, 4), st.integers(2, 6), st.randoms())
@how(max_examples=30)
def test_means_over_runs_have_intervals_within_range(runs, pairs, rng):
    def links():
        k = rng.randint(0, 100)
        return Links(100, k, k, 100)

    made = [{f"{p}+1": links() for p in range(pairs)} for _ in range(runs)]
    t, correct = together(made), sum(x.correct for r in made for x in r.values())
    assert t.mean == pytest.approx(correct / (100 * pairs * runs))
    assert 0 <= t.low <= t.mean + 1e-9 and 1 >= t.high >= t.mean - 1e-9
    assert runs == 1 or 0 <= t.naive_low <= t.naive_high <= 1
    assert (t.sd is None) == (runs == 1) and together(made) == t


# The commands


@pytest.fixture(scope="module")
def folder(s, tmp_path_factory):
    "A small build, by the command."
    home = tmp_path_factory.mktemp("kitmus")
    asked = ("--resources", "released", "--variants", "background-train", "-p", "sizes=4,2,6")
    with pytest.MonkeyPatch.context() as m:
        live_in(m, home)
        m.setenv("REFNB_UPSTREAM", s.upstream)
        assert not main(["build", "kitmus", "--out", "kitmus", *asked])
    assert sum(p.is_file() for p in (home / "kitmus").rglob("*.*")) == 87
    return home / "kitmus/background-train/subtask_2_ents/full-text"


def test_any_two_formats_are_scored_alike(folder, tmp_path, capsys):
    packed = tmp_path / "test.jsonlines.gz"
    packed.write_bytes(gzip.compress((folder / "test.jsonlines").read_bytes()))
    for gold in ("test.v4_gold_conll", "test.jsonlines"):
        for predicted in (packed, folder / "test.v4_gold_conll", folder / "test.tsv"):
            said = here(capsys, "score", "kitmus", folder / gold, predicted, "--json")
            got = json.loads(said.out)
            assert (said.status, said.err, got["texts"], got["pronoun_accuracy"]) == (0, "", 6, 1)
            assert got["antecedent"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0}


def test_predictions_are_matched_by_id_and_extra_ones_told(folder, tmp_path, capsys):
    first, *others = (folder / "test.jsonlines").read_text().splitlines()
    mine = [{"doc_key": key, "clusters": []} for key in ("else:0", json.loads(first)["doc_key"])]
    path = tmp_path / "p.jsonlines"
    path.write_text("\n".join([json.dumps(mine[0]), *others[::-1], json.dumps(mine[1])]))
    gold = folder / "test.v4_gold_conll"
    said = here(capsys, "score", "kitmus", gold, path, "--json", "--by", "position")
    got = json.loads(said.out)
    assert said.status == 0 and got["counts"]["correct_texts"] == 5
    assert "1 predicted texts are not in the gold file" in said.err
    assert sum(v["texts"] for v in got["by"].values()) == 6


def test_bad_predictions_are_one_line(folder, tmp_path, capsys):
    lines = (folder / "test.jsonlines").read_text().splitlines()
    path = tmp_path / "p.jsonlines"
    for change, said in (
        (lines[1:], "1 gold texts have no prediction"),
        ([lines[0][:40], *lines[1:]], "p.jsonlines, line 1"),
        (["hello"], "is not a prediction"),
    ):
        path.write_text("\n".join(change))
        got = here(capsys, "score", "kitmus", folder / "test.v4_gold_conll", path)
        one_line(got, 1, said)
        assert not got.out


def test_a_build_that_cannot_be_is_refused_in_one_line(s, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_UPSTREAM", s.upstream)
    released = ("--out", "x", "--resources", "released", "-p")
    for args, said in (
        ((), "'--out'"),
        (("--out", "x", "--variants", "background-bth"), "background-both?"),
        ((*released, "entities=9"), "say 2 to 8"),
        ((*released, "sizes=1,x,3"), "'1,x,3'"),
    ):
        one_line(here(capsys, "build", "kitmus", *args), 2, said)
    assert not list(tmp_path.iterdir())


# Another data set


def test_a_printed_number_fits_the_submissions_template_or_its_reason_is_unknown():
    "The released template alone decides, and the page says how many prints of others would fit."
    report = Report("kitmus/table_6_no_noise_accuracy")
    near, far, printed = (
        "ontonotes-trained / C2F",
        "kitmus-trained / C2F",
        "3 entities",
    )  # 0.19, 0.49

    def runs(right, other):  # of 100 texts of each of two meeting templates
        return Runs(
            [{f"{m}+{t}": Links(100, n + m) for m in (3, 5) for t, n in ((1, right), (8, other))}],
            ["x@1"],
        )

    found = {near: runs(15, 40), far: runs(15, 40)}
    reasons = other_data(report, printed, found)
    assert list(reasons) == [near] and "it is 0.19 [" in reasons[near]
    assert "of 2 numbers that are printed of other systems 1 would fit" in reasons[near]
    for row in found:
        add_cell(report, row, printed, "x", found[row], because=reasons.get(row, ""))
    assert [report.cells[row, printed].kind for row in found] == ["other_data", "unexplained"]
    without = {near: Runs([{"3+8": Links(100, 19), "5+8": Links(100, 19)}], ["x@1"])}
    assert not other_data(report, printed, without)
