"HTML and Markdown as a reader sees them; reports and a board full of others' texts."

import json
from html.parser import HTMLParser
from pathlib import Path
import pytest
from refnb.core.files import CANARY
from refnb.core.pages import inert
from refnb.core.runs import with_id
from refnb.core.settings import Settings
from refnb.results.board import board
from refnb.results.printed import table_names
from refnb.results.tables import Report

TABLE = "identifyme/table_3_main_results"


def seen(text: str) -> str:
    "A text in one line, as its reader sees it."
    return inert(" ".join(text.split()))


class Markup(HTMLParser):
    "The tags, attributes and text of some HTML."

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attrs, self.text = set(), [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attrs += attrs

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        assert data == f" {CANARY['canary']} {CANARY['wish']} ", data


def rendered(markdown: str) -> str:
    "Markdown as a reader shows it that lets HTML through."
    reader = pytest.importorskip("markdown_it").MarkdownIt("commonmark", {"html": True})
    return reader.enable(["table", "strikethrough"]).render(markdown)


def hostile_report(*texts: str) -> Report:
    "A report with texts as title, notes, mode, rows, columns, runs and reasons."
    report = Report(TABLE, "".join(texts))
    report.printed = report.printed.changed(title="".join(texts), notes=list(texts))
    for text in texts:
        report.add(text, text, -0.5, source=text)
        report.add(text, f"{text} 2", reason=text)
    return report


def file_name(text: str) -> str:
    "A text as a file can be called."
    return text.replace("/", "⁄")


def hostile_board(settings: Settings, *texts: str) -> str:
    "The board and its papers' pages, over stale reports, each of a file that has one text's name."
    written = Report(TABLE).write(settings.reports)
    provenance = json.loads(written.read_text())
    del provenance["id"]
    for text, name in zip(texts, table_names()):
        path = Path(settings.reports) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        stale = provenance | {"table": name, "files": {file_name(text): ""}}
        path.write_bytes(with_id(json.dumps(stale).encode()))
    made = board(settings)
    return "\n".join([made.markdown(), *made.pages().values()])
