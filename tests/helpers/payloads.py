"""Fifteen texts that do something where they are not made inert, for every field that a server or a file can fill.

A page in which one of them ran has `window.pwned`; the host that some name exists nowhere."""

from pathlib import Path
from refnb.core.files import write_jsonl
from refnb.core.types import Answer, Option, Question

RUN = "window.pwned = (window.pwned ?? 0) + 1"
HOSTILE = [
    f"<script>{RUN}</script>",
    f'"><img src=x onerror="{RUN}">',
    f"'><svg onload='{RUN}'>",
    f"</script><!--<script>{RUN}</script>-->",
    f'</title></textarea></style><iframe srcdoc="<script>parent.{RUN}</script>"></iframe><link rel=stylesheet href=//evil.invalid>',
    f"[a](javascript:{RUN}) | ![b](http://evil.invalid/b.png) | <http://evil.invalid/>",
    f"[c]: javascript:{RUN} [c] `</code>` **d** _e_ ~~f~~ $g$",
    "javascript:window.pwned=1",
    f'http://evil.invalid/" onmouseover="{RUN}" style="background:url(http://evil.invalid/h)',
    '=HYPERLINK("http://evil.invalid","i")',
    "@SUM(1+1)*cmd|' /C calc'!A0; fetch('http://evil.invalid/')",
    r"\input{/etc/passwd} \write18{id} $x_1$ % ^^5c ~ & #",
    "[1em] &amp;&lt;b&gt; {{7*7}} ${7*7} [red]j[/blue] :smile: %s",
    "\x1b]0;k\x07\x1b[2J\x1b]8;;http://evil.invalid\x1b\\l\x1b]8;;\x1b\\\x1b]52;c;cHduZWQ=\x07\x9b31m\x08\x00\rm",
    "\u202egnp.exe\u202c \u2066Zoë 王 🦊\u2069 two\nlines\u2028of\u0085them\tand\x7f",
]
STEERING = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # obeyed by a terminal, or turning a line round
assert len(HOSTILE) == len(set(HOSTILE)) == 15


def asked(text: str, k: int = 0) -> Question:
    "A question with a text in every field."
    return Question(
        f"{k}{text}",
        text,
        f"{text} {text}",
        (0, len(text)),
        (Option(text, text), Option(f"other {text}")),
        (0,),
        {"kind": text, text: text},
    )


SCORE = ("score", "choice", "a.jsonl", "--gold", "q.jsonl", "--by", "kind")


def write_files(folder: Path):
    "Questions and answers full of hostile texts, which SCORE scores."
    questions = [asked(t, k) for k, t in enumerate(HOSTILE)]
    write_jsonl(folder / "q.jsonl", questions)
    write_jsonl(folder / "a.jsonl", [Answer(q.id, (0,), raw=q.doc_key) for q in questions])
