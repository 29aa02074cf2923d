"Tiny table notebooks, installed where refnb looks for its own; and the command line in a process of its own."

import contextlib, csv, importlib.util, json, os, runpy, signal, subprocess, sys, tempfile, time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
import hypothesis
import psutil
from refnb.commands.cli import main
from refnb.results import printed
from refnb.results.printed import DIFFERS

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"  # known answers
WITHOUT = Path(__file__).parent / "without"  # what only costs time when it is loaded; see there
HANG = (
    600  # seconds after which something hangs: nothing takes so long, however busy the machine is
)
FULL = bool(os.environ.get("TEST_FULL"))  # everything is tried, as `make test-full` does
EXAMPLES = 100 if FULL else 40  # of a law that is tried on random things, unless it says how many

# Names of tables, to be lent to tiny notebooks.
A, B, C, D, E, F = TABLES = [
    "identifyme/table_1_composition",
    "altentities/table_1_example_responses",
    "altentities/table_4_instructions",
    "altentities/table_6_example_expressions",
    "bookcoref/table_5_prompt",
    "kitmus/table_1_fictional_combinations",
]


def examples(n: int) -> hypothesis.settings:
    "A law is tried on n random things when everything is tried, and on two fifths of them otherwise."
    return hypothesis.settings(max_examples=n if FULL else 2 * n // 5)


# Notebooks

PARAMETERS = """\
value: float = 1.0  # the number
note: str = "none"  # the reason of an empty cell
task: str = "sample/identifyme"  # what is answered
out: str = ""       # folder of reports"""

REPORT = """\
from refnb.results.tables import Report
report = Report(%r, "strict", dict(value=value, note=note, task=task), sample=True)
report.add("a", "all", value)
report.add("b", "all", reason=repr(dict(value=value, note=note, task=task)))
report.write(out)"""


def cell(text: str, *tags: str) -> dict:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"tags": list(tags)},
        "outputs": [],
        "source": text.splitlines(keepends=True),
    }


def notebook(*cells: str | dict, parameters: str = PARAMETERS) -> dict:
    "A notebook of a parameters cell, then these."
    made = [cell(c) if isinstance(c, str) else c for c in cells]
    for i, c in enumerate(made):
        c["id"] = f"cell{i}"
    first = cell(parameters, "parameters") | {"id": "parameters"}
    return {
        "cells": [first, *made],
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def table(name: str, *before: str | dict, after: Iterable[str | dict] = ()) -> dict:
    "The notebook of a table: some cells, its report, some more."
    return notebook(*before, REPORT % name, *after)


def install(folder: Path, name: str, nb: dict | str) -> Path:
    "Write a table's notebook below a folder of notebooks."
    path = folder / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nb if isinstance(nb, str) else json.dumps(nb))
    return path


def look_in(monkeypatch, folder: Path):
    "Have refnb look for tables' notebooks in this folder, in this process."
    real = printed.packaged
    monkeypatch.setattr(
        printed, "packaged", lambda name: folder if name == "tables" else real(name)
    )


def live_in(monkeypatch, home: Path):
    "Give this process folders below `home`, as `clean` gives them to another, and notebooks from `home/tables`, where there are any."
    ours = clean(home)
    for k in set(os.environ) - set(ours):
        monkeypatch.delenv(k)
    for k, v in ours.items():
        monkeypatch.setenv(k, v)
    monkeypatch.chdir(home)
    if (home / "tables").is_dir():
        look_in(monkeypatch, home / "tables")


def _script(path: Path) -> str:
    "The code cells of a notebook, one after the other; parameters that are given replace those of its cell."
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    given = lambda c: (
        "\nglobals().update(_given)" if "parameters" in c["metadata"].get("tags", []) else ""
    )
    return "\n\n".join("".join(c["source"]) + given(c) for c in cells)


def run_cells(path: str | Path, **parameters) -> dict:
    "Run a notebook in this process, which saves the seconds of a kernel; what its cells defined."
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{Path(path).stem}.py"
        script.write_text(_script(Path(path)))
        return runpy.run_path(str(script), {"_given": parameters})


def report_rows(reports: Path, name: str) -> list[dict[str, str]]:
    "The cells of a report, in their order."
    with (reports / f"{name}.csv").open(newline="") as f:
        return list(csv.DictReader(f))


def same_table_3(reports: Path):
    "A new report of Table 3 of IdentifyMe is the committed one."
    name = "identifyme/table_3_main_results"
    assert (reports / f"{name}.csv").read_bytes() == (ROOT / f"reports/{name}.csv").read_bytes()
    new, old = (json.loads((x / f"{name}.json").read_bytes()) for x in (reports, ROOT / "reports"))
    for k in ("table", "title", "sample", "mode", "parameters", "inputs", "runs", "counts"):
        assert new[k] == old[k], k
    assert new["counts"]["match"] == 2 and not DIFFERS.keys() & new["counts"].keys()


def load_script(path: Path):
    "Load a Python file that is in no package, such as one of .ci."
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The command line

ELSEWHERE = """\
import sys
from pathlib import Path
from refnb.results import printed
real, tables = printed.packaged, Path(sys.argv.pop(1))
printed.packaged = lambda name: tables if name == "tables" else real(name)
from refnb.commands.cli import run
run()"""


class Said(NamedTuple):
    "What a command left."

    status: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


def clean(home: Path, **variables: str) -> dict[str, str]:
    "An environment with folders below `home`, without downloads, without a trace of this one's settings."
    ours = {f"REFNB_{k.upper()}": str(home / k) for k in ("reports", "runs", "cache")} | {
        "REFNB_OFFLINE": "true"
    }
    ours |= {
        "JUPYTER_RUNTIME_DIR": str(home / "jupyter"),
        "IPYTHONDIR": str(home / "ipython"),
    }  # a killed kernel leaves files there
    mine = {
        k: v for k, v in os.environ.items() if not k.startswith(("REFNB_", "COVERAGE", "PYTEST_"))
    }
    return (
        mine | ours | {"PYTHONPATH": f"{ROOT}{os.pathsep}{WITHOUT}", "COLUMNS": "100"} | variables
    )


def start(
    home: Path, *args: object, tables: Path | None = None, code: str = "", **variables: str
) -> subprocess.Popen:
    "Start `refnb args`; with notebooks from `tables`, if it is given; or with other code."
    code = code or (ELSEWHERE if tables else "from refnb.commands.cli import run; run()")
    home.mkdir(parents=True, exist_ok=True)
    args = [sys.executable, "-c", code, *([tables] if tables else []), *args]
    return subprocess.Popen(
        list(map(str, args)),
        cwd=home,
        env=clean(home, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # what started the tests may ignore interrupts, and that is inherited
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def ended(process: subprocess.Popen, limit: float = HANG) -> Said:
    "Wait for a command."
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(family(process.pid))
        process.communicate()
        raise
    return Said(process.returncode, out, err)


def refnb(home: Path, *args: object, limit: float = HANG, **how) -> Said:
    "Run `refnb args` in a clean environment below `home`."
    return ended(start(home, *args, **how), limit)


def here(capsys, *args: object) -> Said:
    "Run `refnb args` in this process, which saves a second."
    capsys.readouterr()
    status = main(list(map(str, args)))
    return Said(status, *capsys.readouterr())


def one_line(said: Said, status: int, *parts: str) -> str:
    "The one line with which a command fails."
    assert said.status == status, said
    lines = said.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("refnb: "), said.err
    assert all(p in lines[0] for p in parts), lines[0]
    return lines[0]


# A model


def tiny_writer(folder: Path, texts: Iterable[str]) -> Path:
    "A T5 of random weights, with a tokenizer of its own."
    import tokenizers as tk, torch, transformers as tf

    t = tk.Tokenizer(tk.models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = tk.pre_tokenizers.Metaspace()
    t.train_from_iterator(
        [*texts, "0 1 expression: entity: description:"],
        tk.trainers.BpeTrainer(
            vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False
        ),
    )
    t.post_processor = tk.processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    tf.PreTrainedTokenizerFast(
        tokenizer_object=t,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = tf.T5Config(
            vocab_size=t.get_vocab_size(),
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            pad_token_id=0,
            eos_token_id=1,
        )
        tf.T5ForConditionalGeneration(config).save_pretrained(folder)
    return Path(folder)


# Work, without a clock


def work(call, *args) -> int:
    """Lines of Python that a call runs, each turn of a loop counted: how much it does, alike on every machine.

    The call is made once before, for what is loaded or kept the first time."""
    lines, before = 0, sys.gettrace()

    def count(frame, event, arg):
        nonlocal lines
        lines += 1
        return count

    call(*args)
    sys.settrace(count)
    try:
        call(*args)
    finally:
        sys.settrace(before)
    return lines


def growth(call, small, large) -> float:
    "How many times as much work a call is on something large as on something small."
    return work(call, large) / work(call, small)


# Processes


def family(pid: int) -> list[psutil.Process]:
    "A process and all that descend from it."
    try:
        p = psutil.Process(pid)
        return [p, *p.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    "Those that still run; a zombie does not."

    def runs(p):
        try:
            return p.is_running() and p.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [p for p in processes if runs(p)]


def end(processes: Iterable[psutil.Process]):
    for p in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            p.kill()


def wait(until, what: str, limit: float = HANG):
    "Wait until a function returns something true; that is returned."
    last = time.monotonic() + limit
    while time.monotonic() < last:
        if got := until():
            return got
        time.sleep(0.02)
    raise AssertionError(f"waited {limit} s in vain: {what}")


def gone(processes: list[psutil.Process]):
    "Wait for processes to end; what does not end is killed, and told."
    try:
        wait(lambda: not alive(processes), "processes end")
    finally:
        end(alive(processes))
