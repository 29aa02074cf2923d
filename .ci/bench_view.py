"""Books in a browser: how soon the first words show, and what a frame takes while all of it scrolls past. Called by bench.py, or alone."""

import sys, tempfile
from collections.abc import Iterator
from pathlib import Path
from measure import HERE, Row, absent, cpu, show, upstream_is_here

STEP = 600  # pixels a frame: 36,000 a second, a novel in eight seconds
OPEN = "performance.getEntriesByName('shown')[0]?.startTime"
SCROLL = """new Promise(done => {
  const gaps = []
  let last = 0, most = 0
  const turn = t => {
    if (last) gaps.push(t - last)
    last = t
    most = Math.max(most, document.querySelectorAll("*").length)
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) return done([Math.max(...gaps), gaps.filter(g => g > 50).length, gaps.length, most])
    box.scrollTop += STEP
    requestAnimationFrame(turn)
  }
  requestAnimationFrame(turn)
})"""


def books(s) -> dict:
    "The books: Animal Farm with gold, gold beside what was released, and Pride and Prejudice with two released predictions."
    from refnb.benchmarks.bookcoref.books import gold_books
    from refnb.core.jsonlines import parse_jsonlines
    from refnb.core.upstream import get

    stem = "SapienzaNLP/bookcoref/predictions/"
    released = {
        n: {d.doc_key: d for d in parse_jsonlines(get(f"{stem}{n}.jsonl", s))}
        for n in ("off_the_shelf/maverick_xl", "off_the_shelf/booknlp")
    }
    farm, (maverick, booknlp) = (
        gold_books("bookcoref/animal-farm", s)["animal_farm_0"],
        released.values(),
    )
    pride = "pride_and_prejudice_1342"
    return {
        "Animal Farm, gold": (farm,),
        "Animal Farm, gold beside Maverick": (farm, maverick["animal_farm_0"]),
        "Pride and Prejudice, Maverick": (maverick[pride],),
        "Pride and Prejudice, BookNLP beside Maverick": (booknlp[pride], maverick[pride]),
    }


def main_thread(tab) -> float:
    "CPU seconds of the page's main thread so far."
    return next(
        m["value"]
        for m in tab.call("Performance.getMetrics")["metrics"]
        if m["name"] == "TaskDuration"
    )


def once(tab, page: Path) -> tuple[float, float, list]:
    "Open a page and scroll through it: seconds until it shows, CPU milliseconds a frame, and what SCROLL returns."
    tab.open(str(page.with_suffix(""))[1:])
    opened, before = tab.wait(OPEN) / 1000, main_thread(tab)
    scrolled = tab.js(SCROLL.replace("STEP", str(STEP)))
    return opened, 1000 * (main_thread(tab) - before) / scrolled[2], scrolled


def in_a_browser(tab, name: str, page: Path) -> Iterator[Row]:
    "The best of three rounds, for a frame waits for other work on the machine too."
    opened, used, scrolled = zip(*(once(tab, page) for _ in range(3)))
    worst, long, frames, most = min(scrolled)
    yield Row(
        f"{name}: seconds until the first words, {page.stat().st_size / 1e6:.2f} MB",
        min(opened),
        2.0,
        "s",
    )
    yield Row(
        f"  its main thread for each of {frames} frames of {STEP} pixels; at most {most:,} elements",
        min(used),
        16.0,
        "CPU ms",
    )
    yield Row(f"  the longest frame; {long} took over 50 ms", worst, 100.0, "ms")


def rows() -> Iterator[Row]:
    sys.path.insert(0, str(HERE.parent / "tests"))
    from browser import CHROMIUM, Tab, browser
    from refnb.core.settings import load_settings
    from refnb.results.pages.book_view import view_book

    if not upstream_is_here() or not CHROMIUM:
        yield absent(
            "books in a browser", "needs Chromium, and the upstream files: set REFNB_UPSTREAM"
        )
        return
    with tempfile.TemporaryDirectory() as tmp, browser(Path(tmp)) as port:
        tab = Tab(port, "file://")
        tab.call("Page.bringToFront")  # a hidden page has no frames
        tab.call("Performance.enable", timeDomain="threadTicks")
        for k, (name, sides) in enumerate(books(load_settings(offline=True)).items()):
            path = Path(tmp) / f"page{k}.html"
            yield Row(
                f"{name}: its page made",
                cpu(lambda sides=sides, path=path: view_book(*sides).write(path)),
                1.0,
            )
            yield from in_a_browser(tab, name, path)
        tab.close()


BENCHES = [rows]

if __name__ == "__main__":
    sys.exit(show(BENCHES))
