"KITMUS: the release byte for byte, its published scores, every edge of the evaluator, resources that are wrong, systems without weights, the command line."

import csv, gzip, itertools, json
from pathlib import Path
import pytest
from hypothesis import given, settings as how, strategies as st
from refnb.benchmarks.kitmus.sampler import SPLITS, VARIANTS, Resources, Sampler
from refnb.benchmarks.kitmus.files import build_files, clusters_of, scope_sentences, split_files
from refnb.benchmarks.kitmus.tasks import the_resources
from refnb.benchmarks.tasks import Task, find_task
from refnb.core.conll import parse_conll
from refnb.core.gap import parse_gap_rows
from refnb.core.jsonlines import parse_jsonlines
from refnb.core.settings import load_settings, packaged
from refnb.core.types import DataError, FormatError, RefnbError, Span
from refnb.core.upstream import blob_id, files_of, get
from refnb.metrics.antecedents import Links, Pronoun, by_field, linked, together
from refnb.metrics.choice import credit
from refnb.models.registry import find_system
from refnb.models.published.kitmus import kitmus_scores, predicted_files
from refnb.models.running import run
from refnb.commands.cli import main
from tools import DATA, FULL, ROOT


@pytest.fixture(scope="module")
def s(upstream):
    return load_settings("/", env={"REFNB_UPSTREAM": str(upstream), "REFNB_OFFLINE": "true"})


# The release


def made_of(subtasks) -> dict[str, tuple[str, int]]:
    "The git blob id and the size of each file that a build of subtasks would write."
    return {n: (blob_id(data), len(data)) for t in subtasks for n, data in split_files(t)}


def test_the_files_of_a_variant_come_out_byte_for_byte(s):
    known = {f.path: f.blob for f in files_of("kitmus-texts")}
    both = Sampler(the_resources("released", s)).subtasks(["background-both"])
    made = made_of(itertools.islice(both, 6))  # of two names, and of three
    here = known.keys() & made.keys()
    assert len(here) >= 7 and all(made[p][0] == known[p] for p in here)


@pytest.mark.full
def test_all_known_files_come_out_byte_for_byte(s):
    "All 696 files are made in memory; every one whose id is in the registry is that file."
    known = {f.path: (f.blob, f.size) for f in files_of("kitmus-texts")}
    made = made_of(Sampler(the_resources("released", s)).subtasks())
    assert len(made) == 696 and set(known) <= set(made) and len(known) >= 90
    assert {p for p in known if made[p][0] != known[p][0]} == set()


def test_every_variant_starts_from_the_same_state(s):
    "Of the random generator at the first draw: pools are shuffled alike; names and places differ, for they go on."
    first = [
        t
        for t in Sampler(the_resources("released", s), entities=[2], sizes=(1, 0, 0)).subtasks()
        if t.split == "train"
    ]
    assert {t.state[0] for t in first} == {315979114107317260551710119594157251178} and len(
        first
    ) == 8
    assert (
        len({tuple(t.pools.names[:5]) for t in first}) == 8
        and len(
            {
                tuple(o.words for o in t.pools.occupations)
                for t in first
                if t.variant.occupation == "real"
            }
        )
        == 1
    )


def without_version(summary: bytes) -> dict:
    "A summary without what later versions of refnb wrote or added."
    told = json.loads(summary)
    del told["info"]["refnb"]
    return told | {"seal": {k: told["seal"][k] for k in ("questions", "answers", "sha256")}}


@pytest.mark.full
def test_all_predictions_that_are_here_are_replayed(s, tmp_path):
    "One run for each file of predictions on test texts; the next test makes some of them."
    here = s.changed(runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports"))
    files = sorted(
        (p for p in predicted_files() if p.split == "test" and p.file.size is not None),
        key=lambda p: p.task,
    )
    tasks = {p.task: find_task(p.task, here) for p in files}
    for p in files:
        assert run(tasks[p.task], p.system, s=here).sealed
    made = {
        p.relative_to(tmp_path): p.read_bytes() for p in (tmp_path / "reports").rglob("run-*.json")
    }
    assert len(made) == len(files)
    for path, data in made.items():
        assert without_version(data) == without_version((ROOT / path).read_bytes()), path


def test_published_scores(s, tmp_path):
    "Counts of the released predictions that are here, file by file."
    here = s.changed(runs=str(tmp_path / "runs"), reports=str(tmp_path / "reports"))
    with (DATA / "kitmus_scores.tsv").open() as f:
        rows = list(csv.DictReader(f, delimiter="\t"))
    for r in rows[:: 1 if FULL else 12]:
        task = f"kitmus/{r['variant']}/{r['entities']}/test"
        assert run(task, f"published/{r['model']}/run-{r['run']}", s=here).sealed
        got = kitmus_scores(r["model"], task, here)
        [i] = [i for i, n in enumerate(got.names) if f"/run-{r['run']}@" in n]
        c = sum(got.runs[i]["pronoun"].values(), start=Links())
        assert (c.texts, c.correct, c.right, c.predicted) == (
            2000,
            int(r["correct"]),
            int(r["right"]),
            int(r["predicted"]),
        ), r
        assert (f"{c.antecedent.f1:.6f}", f"{c.accuracy:.6f}") == (r["f1"], r["accuracy"])
        assert (
            sum(got.runs[i]["position"].values(), start=Links())
            == sum(got.runs[i]["template pair"].values(), start=Links())
            == c
        )
    c2f = kitmus_scores("kitmus-trained-c2f", "kitmus/background-train/3/test", here)
    assert (
        len(rows) > 10 and round(together([r["template pair"] for r in c2f.runs]).mean, 4) == 0.278
    )
    for t, accuracy in (("4", 0.079), ("5", 0.480)):
        c = sum(
            (v for r in c2f.runs for k, v in r["template pair"].items() if k.endswith(f"+{t}")),
            start=Links(),
        )
        assert round(c.accuracy, 3) == accuracy


def test_a_released_prediction_is_run_and_scored_as_any_system(s, tmp_path, monkeypatch, capsys):
    "Also beside a system whose summary has another card."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_UPSTREAM", s.upstream)
    monkeypatch.setenv("REFNB_OFFLINE", "true")
    task, system = "kitmus/background-train/2/test", "published/kitmus-trained-petra/run-1"
    assert say(capsys, "run", task, "first-mention")[0] == 0
    status, out, _ = say(capsys, "run", task, system, "--json")
    assert status == 0 and json.loads(out)["groups"]["all"]["right"] == 7
    status, out, _ = say(
        capsys, "score", "choice", f"{task}:{system}", "--by", "position", "--json"
    )
    assert status == 0 and sum(g["n"] for g in json.loads(out)["groups"].values()) == 4000
    assert (
        sum(
            kitmus_scores("kitmus-trained-petra", task, load_settings())
            .runs[0]["position"]
            .values(),
            start=Links(),
        ).correct
        == 7
    )
    assert (
        "name one of them: published/kitmus-trained-c2f/run-1"
        in say(capsys, "run", task, "published/kitmus-trained-c2f/run-{1..6}")[2]
    )
    assert say(capsys, "list", "systems")[1].count("published/kitmus-trained-c2f") == 1


def mean_credit(task: Task, system: str) -> float:
    answers = find_system(system).answer(task, task.questions)
    return sum(credit(q, a) for q, a in zip(task.questions, answers, strict=True)) / len(
        task.questions
    )


def test_theory_of_the_systems_without_weights(s):
    "Position is worth one in n, chance exactly; overlap solves what the text says itself; the key is the ceiling."
    for variant, n in (("background-train", 2), ("background-both", 4)):
        task = find_task(f"kitmus/{variant}/{n}/test", s)
        systems = ("random", "first-mention", "overlap", "answer-key")
        mean = {k: mean_credit(task, k) for k in systems}
        assert mean["answer-key"] == 1 and mean["random"] == pytest.approx(1 / n)
        error = ((1 / n) * (1 - 1 / n) / len(task.questions)) ** 0.5
        assert abs(mean["first-mention"] - 1 / n) < 4 * error
        solved = mean["overlap"] > 0.95
        assert solved or (variant == "background-train" and abs(mean["overlap"] - 1 / n) < 0.02)


def test_the_school_reunion_falls_into_two_splits(s):
    "A defect of the release that the mode `paper` does not have."

    def shared(mode, variant):
        sampler = Sampler(the_resources("released", s), mode, [2], (1, 1, 1))
        a, b, c = ({l.words for l in t.pools.locations} for t in sampler.subtasks([variant]))
        return (a & b) | (a & c) | (b & c)

    assert not shared("paper", "background-train")
    assert any(len(shared("released", v)) == 1 for v in VARIANTS)


def test_the_paper_mode_shares_no_noise(s):
    got = list(
        Sampler(the_resources("released", s), "paper", [2, 3], (200, 50, 200), seed=1).subtasks(
            ["background-train"]
        )
    )
    for n in (2, 3):
        said = {t.split: {i.task[1] for i in t} for t in got if t.n == n}
        assert not (
            said["train"] & said["test"]
            or said["train"] & said["validation"]
            or said["validation"] & said["test"]
        )
    assert len({i.templates for t in got for i in t}) == 1


@pytest.mark.parametrize("n", range(2, 9) if FULL else (2, 8))
def test_any_number_of_entities(s, n):
    [*_, t] = Sampler(the_resources("released", s), "paper", [n], (3, 3, 20)).subtasks(
        ["background-both"]
    )
    for i in t:
        clusters = clusters_of(scope_sentences(i, "full-text"), n)
        assert (
            len(i.names) == n
            and sorted(map(len, clusters)) == [2] * (n - 1) + [3]
            and len(i.knowledge) == 2 * n
        )
        assert sum(w.entity == i.answer for x in i.task for w in x) == 2


# Formats agree with each other


def test_formats_hold_the_same_texts(s):
    [*_, t] = Sampler(the_resources("released", s), sizes=(5, 5, 30), entities=[2]).subtasks(
        ["background-train"]
    )
    made = dict(split_files(t))
    for scope in ("full-text", "task-text-only"):
        stem = f"kitmus/background-train/subtask_2_ents/{scope}/test"
        conll, lines, rows = (
            parse_conll(made[f"{stem}.v4_gold_conll"]),
            parse_jsonlines(made[f"{stem}.jsonlines"]),
            parse_gap_rows(made[f"{stem}.tsv"], "x"),
        )
        assert [(d.sentences, d.clusters) for d in conll] == [
            (d.sentences, d.clusters) for d in lines
        ]
        texts = made[f"{stem}.txt"].decode().split("\n")
        assert (
            [r.text for r in rows] == texts[1::3]
            and [r.id for r in rows] == texts[0::3][:30]
            and [d.doc_key for d in lines] == [r.id for r in rows]
        )
        for r in rows:
            assert (
                r.text[r.pronoun_offset :].startswith(r.pronoun)
                and r.text[r.a_offset :].startswith(r.a)
                and r.text[r.b_offset :].startswith(r.b)
                and r.a_offset < r.b_offset < r.pronoun_offset
                and r.a_coref != r.b_coref
            )


def test_a_build_appears_when_it_is_whole(s, tmp_path, monkeypatch):
    import refnb.benchmarks.kitmus.files as kf

    sampler = lambda: Sampler(the_resources("released", s), sizes=(2, 1, 2), entities=[2])
    folder = build_files(sampler(), tmp_path / "mine", ["background-train"])
    assert len([p for p in folder.rglob("*") if p.is_file()]) == 33 and (
        folder / "background-train/subtask_2_ents/full-text/test.txt"
    ).read_text().startswith("mine/background-train/")
    with pytest.raises(DataError, match="is there already"):
        build_files(sampler(), tmp_path / "mine", ["background-train"])
    real, calls = kf.split_files, []

    def failing(t, root):
        calls.append(t)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        yield from real(t, root)

    monkeypatch.setattr(kf, "split_files", failing)
    with pytest.raises(DataError, match="free some space"):
        build_files(sampler(), tmp_path / "other", ["background-train"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine"]


def test_the_paper_mode_puts_each_resource_into_one_split():
    "Names, occupations, places (one is listed twice here) and sentences about them; the first template of a kind is for all."

    def files(name):
        data = (packaged("data/kitmus") / name).read_bytes()
        return data + data.splitlines()[1] if name == "locations.csv" else data

    r = Resources(files, doubled=True)
    subtasks = list(Sampler(r, "paper", [2, 3], (1, 1, 1)).subtasks(["background-both"]))
    assert [t.split for t in subtasks] == [*SPLITS, *SPLITS]
    for splits in (subtasks[:3], subtasks[3:]):
        pools = [t.pools for t in splits]
        every = [
            (r.names, [p.names for p in pools]),
            (r.occupations("real", "real"), [p.occupations for p in pools]),
            (r.locations[:-1], [p.locations for p in pools]),
            *((r.noise(file), [p.noise[file] for p in pools]) for file in pools[0].noise),
        ]
        for whole, parts in every:
            assert sorted(itertools.chain(*parts)) == sorted(whole)
        assert {t.build(0).templates for t in splits} == {(1, 1)}
    released = Sampler(r, entities=[2], sizes=(1, 1, 1)).subtasks(["background-train"])
    train, _, test = (t.pools for t in released)
    assert not {meet for meet, _ in train.tasks} & {meet for meet, _ in test.tasks}
    assert train.noise == test.noise  # the release's way shares them


# The evaluator's edges

GOLD = [
    Pronoun("a", (Span(0, 0), Span(2, 2)), 0, Span(4, 4)),
    Pronoun("b", (Span(0, 0), Span(2, 2)), 1, Span(4, 4)),
]


@given(
    st.lists(
        st.lists(st.sampled_from([(0, 0), (2, 2), (4, 4), (0, 1), (3, 4)]), max_size=4), max_size=4
    )
)
def test_laws_of_links(clusters):
    c = by_field(GOLD[:1], {"a": linked(GOLD[0], clusters)})["all"]
    assert (
        c.correct <= c.right <= 1
        and c.predicted <= 2
        and linked(GOLD[0], clusters[::-1]) == linked(GOLD[0], clusters)
        and linked(GOLD[0], clusters * 2) == linked(GOLD[0], clusters)
    )
    assert c.accuracy <= c.antecedent.recall == c.lenient


@given(st.lists(st.sampled_from([(), (0,), (1,), (0, 1)]), min_size=2, max_size=2))
def test_one_link_each_makes_all_scores_equal(said):
    c = by_field(GOLD, {"a": said[0], "b": said[1]})["all"]
    if all(len(x) == 1 for x in said):
        assert c.antecedent == (c.accuracy,) * 3


@given(st.integers(1, 4), st.integers(2, 6), st.integers(0, 99))
@how(max_examples=30)
def test_means_over_runs(runs, pairs, seed):
    import random

    rng = random.Random(seed)
    made = [
        {f"{p}+1": Links(100, k := rng.randint(0, 100), k, 100) for p in range(pairs)}
        for _ in range(runs)
    ]
    t = together(made)
    assert (
        t.mean
        == pytest.approx(sum(x.correct for r in made for x in r.values()) / (100 * pairs * runs))
        and 0 <= t.low <= t.mean + 1e-9
        and 1 >= t.high >= t.mean - 1e-9
    )
    assert runs == 1 or 0 <= t.naive_low <= t.naive_high <= 1
    assert (t.sd is None) == (runs == 1) and together(made) == t


# Resources that are wrong


@pytest.fixture
def folder(s, tmp_path):
    for f in files_of("kitmus-resources"):
        if not f.path.startswith("resources/"):
            continue
        path = tmp_path / f.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(get(f, s))
    return tmp_path / "resources"


@pytest.mark.parametrize(
    "name, old, new, told",
    [
        (
            "names.csv",
            b"Mehaffey\n",
            b"Cleaves\n",
            "names.csv, line 3: the name 'Cleaves' appears twice, first in line 2",
        ),
        (
            "templates/meet_sentence.txt",
            b"{location}",
            b"{place}",
            "templates/meet_sentence.txt, line 1: the slot {location} is missing",
        ),
        (
            "locations.csv",
            b"'bar', 'NN'",
            b"'bar'",
            "locations.csv, line 2, field location: is not a list of (token, tag) pairs",
        ),
        ("locations.csv", b"noise/food.txt", b"../food.txt", "leaves the folder"),
        ("pronouns.json", b"0.4", b"0.5", "the probabilities sum to"),
        (
            "occupations/real_real.csv",
            b"occupation,",
            b"job,",
            "the header is not occupation,occupation_description",
        ),
    ],
)
def test_a_wrong_resource_is_said_with_its_place(folder, name, old, new, told):
    data = (folder / name).read_bytes()
    assert old in data
    (folder / name).write_bytes(
        data.replace(old, new, 1)
        if name != "templates/meet_sentence.txt"
        else data.replace(old, new)
    )
    with pytest.raises(RefnbError) as e:
        r = Resources(folder, doubled=name != "names.csv")
        assert r.names and r.vocab
        list(Sampler(r, sizes=(1, 1, 1)).subtasks(["background-train"]))
    assert told in str(e.value) and "\n" not in str(e.value)


def test_the_release_s_doubled_place_is_an_error_unless_it_is_asked_for(folder):
    with pytest.raises(FormatError, match="locations.csv, line .*school.*reunion.* appears twice"):
        list(Resources(folder).locations)
    assert len(Resources(folder, doubled=True).locations) == 111


# The command line


def say(capsys, *args: str) -> tuple[int, str, str]:
    status = main(list(args))
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def built(s, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_UPSTREAM", s.upstream)
    monkeypatch.setenv("REFNB_OFFLINE", "true")
    status, out, _ = say(
        capsys,
        "build",
        "kitmus",
        "--out",
        "kitmus",
        "--resources",
        "released",
        "--variants",
        "background-train",
        "-p",
        "sizes=4,2,6",
        "--json",
    )
    assert status == 0 and json.loads(out)["files"] == 87
    return tmp_path / "kitmus/background-train/subtask_2_ents/full-text"


def test_score_kitmus_any_two_formats(built, capsys):
    (built / "test.jsonlines.gz").write_bytes(
        gzip.compress((built / "test.jsonlines").read_bytes())
    )
    for gold in ("test.v4_gold_conll", "test.jsonlines"):
        for predicted in ("test.jsonlines.gz", "test.v4_gold_conll", "test.tsv"):
            files = str(built / gold), str(built / predicted)
            status, out, err = say(capsys, "score", "kitmus", *files, "--json")
            told = json.loads(out)
            assert (status, err, told["texts"], told["pronoun_accuracy"]) == (0, "", 6, 1.0)
            assert told["antecedent"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0}


def test_score_kitmus_matches_by_id(built, capsys):
    lines = (built / "test.jsonlines").read_text().split("\n")
    (built / "p.jsonlines").write_text(
        "\n".join(
            [
                json.dumps({"doc_key": "else:0", "clusters": []}),
                *lines[:0:-1],
                json.dumps({"doc_key": json.loads(lines[0])["doc_key"], "clusters": []}),
            ]
        )
    )
    status, out, err = say(
        capsys,
        "score",
        "kitmus",
        str(built / "test.v4_gold_conll"),
        str(built / "p.jsonlines"),
        "--json",
        "--by",
        "position",
    )
    told = json.loads(out)
    assert (
        status == 0
        and told["counts"]["correct_texts"] == 5
        and "1 predicted texts are not in the gold file" in err
        and sum(v["texts"] for v in told["by"].values()) == 6
    )


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda l: l[1:], "1 gold texts have no prediction"),
        (lambda l: [l[0][:40], *l[1:]], "p.jsonlines, line 1"),
        (lambda l: ["hello"], "is not a prediction"),
    ],
)
def test_score_kitmus_bad_files(built, capsys, change, told):
    (built / "p.jsonlines").write_text(
        "\n".join(change((built / "test.jsonlines").read_text().split("\n")))
    )
    status, out, err = say(
        capsys, "score", "kitmus", str(built / "test.v4_gold_conll"), str(built / "p.jsonlines")
    )
    assert status == 1 and told in err and err.count("\n") == 1 and not out


@pytest.mark.parametrize(
    "args, told",
    [
        (["build", "kitmus"], "Missing option '--out'"),
        (["build", "kitmus", "--out", "x", "--variants", "background-bth"], "background-both?"),
        (
            ["build", "kitmus", "--out", "x", "--resources", "released", "-p", "entities=9"],
            "say 2 to 8",
        ),
        (
            ["build", "kitmus", "--out", "x", "--resources", "released", "-p", "sizes=1,x,3"],
            "sizes cannot be '1,x,3'",
        ),
    ],
)
def test_build_refuses(s, tmp_path, monkeypatch, capsys, args, told):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_UPSTREAM", s.upstream)
    monkeypatch.setenv("REFNB_OFFLINE", "true")
    status, out, err = say(capsys, *args)
    assert status == 2 and told in err and not list(tmp_path.iterdir())
