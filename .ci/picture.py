"""The picture of a book on the front page: `python .ci/picture.py` (needs Chromium and the models extra).

A story of the sample, its gold clusters beside those of coref-minilm, as `refnb view` shows them.
"""

import shutil, subprocess, tempfile
from pathlib import Path
from PIL import Image
import refnb
from refnb.core.corpora import sample
from refnb.results.pages.book_view import view_book

SIZE, OUT = (1400, 860), Path(__file__).parents[1] / "reports/book.png"
browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
story = max(sample(characters=True), key=lambda d: d.size)
[found] = refnb.resolve([story], kinds="persons", singletons=False)
with tempfile.TemporaryDirectory() as folder:
    page, full = Path(folder) / "book.html", Path(folder) / "book.png"
    page.write_text(view_book(story, found, ("gold", "coref-minilm")).page())
    subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder}/profile",
            "--window-size={},{}".format(*SIZE),
            "--virtual-time-budget=4000",
            f"--screenshot={full}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )
    Image.open(full).convert("RGB").quantize(
        256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    ).save(OUT, "PNG", optimize=True)
print(f"{OUT.name}: {OUT.stat().st_size:,} bytes")
