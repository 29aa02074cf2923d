"""From `refnb fetch SET` to the numbers: each set that is in no local copy comes from a public host or from a hub, here
stood in for on loopback, and the tables that wait for it compute their cells. The files are invented, and their pins are
those of a copy of the repository."""

import csv, json, re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
import invented, pytest
from refnb.benchmarks.bookcoref.books import book_documents
from refnb.core.hub import hub_files
from refnb.core.settings import Settings, load_settings
from refnb.core.upstream import blob_id, files_of, upstream_files
from refnb.results.printed import printed, table_names, value_of
from results_copy import Copy
from servers import Fault, Hub, Tree
from tools import ROOT

SIZES = (20, 4, 40)  # KITMUS's texts in each split
SILVER = {
    str(int(value_of(x["gutenberg key"]))): int(value_of(x["characters"]))
    for row, x in printed("bookcoref/table_8_books").cells.items()
    if row not in ("Animal Farm", "Siddhartha", "Pride and Prejudice")
}


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
    tables: dict[str, int]  # which wait for it, with how many printed cells it fills
    options: tuple[str, ...] = ()  # of the command that makes them
    before: tuple[str, ...] = ()  # sets that are fetched before


MISSING = {
    "altentities-train": Missing(
        lambda s: invented.altentities_train(),
        {"altentities/table_3_questions": 14, "altentities/table_5_corpus_statistics": 15},
    ),
    "fantasycoref": Missing(
        lambda s: invented.fantasycoref_train(tales(s)), {"identifyme/table_1_composition": 1}
    ),
    "bookcoref-large": Missing(predicted_books, {"bookcoref/table_3_main_results": 4}),
    "bookcoref-gold": Missing(
        lambda s: invented.bookcoref_gold(),
        {
            "bookcoref/table_1_statistics": 5,
            "bookcoref/table_3_main_results": 70,
            "bookcoref/table_6_window_results": 28,
        },
    ),
    "bookcoref-silver": Missing(
        lambda s: invented.bookcoref_silver(SILVER),
        {"bookcoref/table_1_statistics": 6, "bookcoref/table_8_books": 100},
    ),
    "kitmus-predictions": Missing(
        lambda s: invented.kitmus_predictions(s, SIZES),
        {
            "kitmus/table_2a_ontonotes_trained": 12,
            "kitmus/table_3_background_inference_accuracy": 12,
        },
    ),
}


class World:
    "A copy of the repository, a public host and a hub that serve invented files, and what this machine has."

    def __init__(self, home: Path, upstream: Path, public: Tree, hub: Hub):
        self.copy, self.public, self.hub, self.upstream = Copy(home), public, hub, home / "public"
        (home / "nbs/data/weights").symlink_to(ROOT / "nbs/data/weights")
        s = load_settings("/", env={}, upstream=str(upstream), cache=str(home / "none"))
        self.files: dict[str, dict[str, bytes]] = {}
        pins = home / "nbs/data/upstream/files.tsv"
        heads, *rows = pins.read_text().splitlines()
        by_key = {"/".join(row.split("\t")[:2]): row for row in rows}
        for name, missing in MISSING.items():
            self.files[name] = dict(missing.files(s))
            for path, data in self.files[name].items():
                if name in hub_files():
                    f = hub_files()[name]
                    hub.extra[f"datasets/{f.repo}/resolve/{f.revision}/{path}"] = data
                    continue
                public.extra[upstream_files()[path].place] = data
                repo, file, *_ = by_key[path].split("\t")
                by_key[path] = "\t".join([repo, file, blob_id(data), str(len(data))])
        pins.write_text("\n".join([heads, *by_key.values()]) + "\n")
        sampler = home / "refnb/benchmarks/kitmus/sampler.py"
        sampler.write_text(
            sampler.read_text().replace("SIZES = (2000, 400, 2000)", f"SIZES = {SIZES}")
        )
        invented_paths = {x for files in self.files.values() for x in files}
        for f in upstream_files().values():  # what this machine has of the other sets
            if f.key in invented_paths:
                continue
            for place in (f.place, f"{f.place}.gz"):
                if (upstream / place).is_file():
                    (self.upstream / place).parent.mkdir(parents=True, exist_ok=True)
                    (self.upstream / place).symlink_to(upstream / place)

    def refnb(self, *args: str):
        variables = {"REFNB_UPSTREAM": self.upstream, "REFNB_HOST": self.public.host}
        variables |= {"REFNB_OFFLINE": "false", "HF_ENDPOINT": self.hub.host, "NO_PROXY": "*"}
        return self.copy.refnb(*args, **{k: str(v) for k, v in variables.items()})

    def cells(self, table: str) -> list[dict[str, str]]:
        with (self.copy.home / f"reports/{table}.csv").open(newline="") as f:
            return list(csv.DictReader(f))

    def asked(self) -> int:
        "How often the hosts were asked."
        return len(self.public.seen) + len(self.hub.seen)


@pytest.fixture(scope="module")
def world(upstream, tmp_path_factory):
    pytest.importorskip("huggingface_hub")
    with Tree(tmp_path_factory.mktemp("none")) as public, Hub() as hub:
        yield World(tmp_path_factory.mktemp("world"), upstream, public, hub)


@pytest.mark.parametrize("name", MISSING)
def test_a_set_that_is_fetched_fills_its_cells(world, name):
    missing, server = MISSING[name], world.hub if name in hub_files() else world.public
    tables = list(missing.tables)
    for x in tables:
        plan = json.loads(world.refnb("reproduce", "--plan", "--json", x).stdout)
        print(x, [(w["name"], w["total"]) for w in plan["ways"]])
    import time, resource

    def cpu():
        r = resource.getrusage(resource.RUSAGE_CHILDREN)
        return r.ru_utime + r.ru_stime

    t = cpu()
    said = world.refnb("fetch", name)
    print(said.stdout[-1500:], said.stderr[-1500:], cpu() - t)
    assert said.returncode == 0
    n = world.asked()
    said = world.refnb("fetch", name)
    print(said.stdout[-1500:], said.stderr[-1500:])
    assert world.asked() == n
    t = cpu()
    said = world.refnb("reproduce", *tables)
    print(said.stdout[-2500:], said.stderr[-1500:], cpu() - t)
    assert said.returncode == 0
    from collections import Counter

    for x in tables:
        print(x, Counter((c["kind"], c["needs"]) for c in world.cells(x)))
        plan = json.loads(world.refnb("reproduce", "--plan", "--json", x).stdout)
        print(x, [(w["name"], w["total"]) for w in plan["ways"]])
    assert 0
