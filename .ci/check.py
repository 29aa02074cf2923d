"""Checks of the repository's form and evidence: every one names the file. Run by `make check` and before every commit (`make hooks`)."""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
KEYS = {
    "an OpenAI key": r"sk-(?:proj-|ant-)?[A-Za-z0-9_-]{24,}",
    "a Google key": r"AIza[0-9A-Za-z_-]{35}",
    "a GitHub token": r"gh[pousr]_[A-Za-z0-9]{36}",
    "an AWS key": r"AKIA[0-9A-Z]{16}",
    "a Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a bearer token": r"[Bb]earer [A-Za-z0-9._-]{30,}",
}
# imports go down this list; what a room's own folder holds comes before the rooms inside it
ROOMS = """core metrics benchmarks benchmarks.bookcoref benchmarks.identifyme benchmarks.altentities benchmarks.kitmus benchmarks.given models
models.language models.pairs models.coreference models.published models.annotation
results results.papers results.pages commands""".split()
# arrows that go up, as an import inside a function or as "module:name" in a string, each with its reason
UP = {
    "models.registry": "the kind of a system's entry names who makes it: all of them would load torch"
}
# what the base does, and packages of extras, which it must not load: most of them are not installed there
LIGHT = ["run sample/identifyme nearest-mention", "score choice sample/identifyme:nearest-mention"]
LIGHT += ["compare identifyme/test published/gpt-4o published/mistral-7b"]
HEAVY = "matplotlib seaborn papermill nbclient ipykernel psutil sklearn statsmodels fastcore torch transformers ray inspect_ai huggingface_hub"
# public names that two modules may define, each with its reason
SHARED = {"run": "the verb of `refnb.run`, and the function that the program `refnb` is"}


def said(*command: object) -> str:
    "What a tool says; a tool that fails in silence is a fault, too."
    env = {k: v for k, v in os.environ.items() if k != "IN_TEST"}
    got = subprocess.run([*map(str, command)], cwd=ROOT, env=env, capture_output=True, text=True)
    return got.stdout + got.stderr or (f"{command[0]} failed" if got.returncode else "")


def files(*kinds: str) -> list[Path]:
    "The files that git knows or would add, of some kinds or all."
    named = said("git", "ls-files", "-co", "--exclude-standard").splitlines()
    return [p for n in named if (p := ROOT / n).is_file() and (not kinds or p.suffix in kinds)]


def notebooks() -> dict[Path, tuple[list[dict], str]]:
    "The cells of each notebook, and the module that it exports."
    out = {}
    for path in sorted(files(".ipynb")):
        cells = json.loads(path.read_text())["cells"]
        for c in cells:
            c["source"] = "".join(c["source"])
        code = "\n".join(c["source"] for c in cells)
        module = re.search(r"^#\| default_exp (\S+)", code, re.M)
        out[path] = cells, module[1] if module else ""
    return out


def write_readme() -> None:
    "Write README.md from nbs/index.ipynb: its text and what its hidden cells show, with links seen from the root."
    parts = []
    for c in json.loads((ROOT / "nbs/index.ipynb").read_text())["cells"]:
        shown = [o["data"]["text/markdown"] for o in c.get("outputs", [])]
        parts += ["".join(x).removeprefix("#| export").strip("\n") for x in shown or [c["source"]]]
    text = re.sub(r"\]\((?!https?:|#|\.\./)", "](nbs/", "\n\n".join(parts)).replace("](../", "](")
    told = "<!-- written from nbs/index.ipynb: edit there -->"
    (ROOT / "README.md").write_text(f"{told}\n\n{text}\n")


def exported() -> list[str]:
    "Format, export, clean and the README change nothing."
    before = {p: p.read_bytes() for p in files(".py", ".ipynb", ".md", ".txt")}
    tools = (["ruff", "format", "-q", "."], ["nbdev-export"], ["nbdev-clean"])
    told = [said(BIN / tool, *how) for tool, *how in tools]
    write_readme()
    after = {p: p.read_bytes() for p in files(".py", ".ipynb", ".md", ".txt")}
    changed = [p for p in before | after if before.get(p) != after.get(p)]
    now = "was not formatted, exported or clean; it is now: look, and commit"
    return [x for x in told if x] + [f"{p.relative_to(ROOT)}: {now}" for p in changed]


def modules() -> list[str]:
    "Every module has a notebook, at the path that its name says, and reaches only what comes before it."
    bad, made = [], {m: (n, cells) for n, (cells, m) in notebooks().items() if m}
    for p in (ROOT / "refnb").rglob("*.py"):
        name = ".".join(p.relative_to(ROOT / "refnb").with_suffix("").parts)
        if name not in made and p.name != "_modidx.py" and p.read_text().strip():
            bad.append(f"{p.relative_to(ROOT)}: no notebook exports it; delete it")
    place = {}
    for m, (n, _) in made.items():
        room, number = m.rpartition(".")[0], re.match(r"\d+", n.stem)
        rank = ROOMS.index(room) if room in ROOMS else len(ROOMS)
        place[m] = rank, int(number[0]) if number else -1
    for m, (n, cells) in made.items():
        room, _, name = m.rpartition(".")
        at, folder = n.relative_to(ROOT), "/".join(["nbs", *room.split(".")])
        if m == "__init__":
            continue
        if re.sub(r"^\d+_", "", n.stem) != name or n.parent != ROOT / folder:
            bad.append(f"{at}: exports {m}, so it should be {folder}/NN_{name}.ipynb")
        if room not in ROOMS:
            bad.append(f"{at}: its folder is not among the rooms of .ci/check.py")
        code = "\n".join(c["source"] for c in cells if c["source"].startswith("#| export"))
        arrows = []
        for room, names in re.findall(r"^[ \t]*from refnb\.([\w.]+) import ([\w, ]+)", code, re.M):
            arrows += [room, *(f"{room}.{x.split()[0]}" for x in names.split(",") if x.strip())]
        arrows += re.findall(r"\bimport refnb\.([\w.]+)", code)
        arrows += re.findall(r"[\"']refnb\.([\w.]+)(?::\w+)?[\"']", code)
        for used in dict.fromkeys(arrows):
            if used in place and place[used] >= place[m] and used != m and m not in UP:
                bad.append(f"{at}: reaches up to refnb.{used}, which does not come before it")
        if m in UP and not any(x in place and place[x] > place[m] for x in arrows):
            bad.append(f"{at}: reaches up to nothing; take it out of the exceptions")
    return bad


def names() -> list[str]:
    "One public name at the top of a module, one meaning: functions, classes and constants that two modules define."
    places: dict[str, list[str]] = {}
    for p in sorted((ROOT / "refnb").rglob("*.py")):
        named = set()
        for node in ast.parse(p.read_text()).body if p.name != "_modidx.py" else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                named.add(node.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                parts = (x for target in targets for x in ast.walk(target))
                named |= {x.id for x in parts if isinstance(x, ast.Name)}
        for name in named:
            if not name.startswith("_"):
                places.setdefault(name, []).append(str(p.relative_to(ROOT)))
    do = "give each the noun of its module, or tell the reason in SHARED of .ci/check.py"
    twice = {name: ps for name, ps in places.items() if len(ps) > 1 and name not in SHARED}
    bad = [f"{', '.join(ps)}: both define {name}; {do}" for name, ps in sorted(twice.items())]
    needless = [name for name in SHARED if len(places.get(name, ())) < 2]
    return bad + [
        f".ci/check.py: {name} is not defined twice; take it out of SHARED" for name in needless
    ]


def form() -> list[str]:
    "Titles, and warnings among outputs."
    bad = []
    for n, (cells, _) in notebooks().items():
        at = n.relative_to(ROOT)
        if not re.match(r"# .+\n\n> .", cells[0]["source"]):
            what = "`# Title`, an empty line, `> one line that says what it gives you`"
            bad.append(f"{at}: the first cell must be {what}")
        if any('"stderr"' in json.dumps(c.get("outputs", [])) for c in cells):
            bad.append(f"{at}: a warning among the outputs")
    return bad


def texts() -> list[str]:
    "No key, no folder of somebody's machine, no large file; what runs leave is looked through, too."
    left = {p for d in ("runs", "reports") for p in (ROOT / d).rglob("*") if p.is_file()}
    secret = re.compile(r"(API_KEY|_TOKEN|_SECRET)$")
    values = [v for k, v in os.environ.items() if secret.search(k) and len(v) > 11]
    bad, ours = [], {*files()}
    for p in ours | {x for x in left if x.suffix != ".png"}:
        at, data = p.relative_to(ROOT), p.read_bytes()
        text = data.decode("utf-8", "replace")
        bad += [f"{at}: looks like {what}" for what, key in KEYS.items() if re.search(key, text)]
        if any(v in text for v in values):
            bad.append(f"{at}: holds the value of a secret environment variable")
        if p in left or p == Path(__file__):
            continue
        if len(data) > (15_000_000 if "weights" in p.parts else 1_000_000):
            bad.append(f"{at}: {len(data) / 1e6:.1f} MB; too large to commit")
        if b"\0" not in data and re.search(r"(/home/|/Users/|/root/|C:\\\\Users\\\\)\w", text):
            bad.append(f"{at}: names a folder of somebody's machine")
    return bad


def evidence() -> list[str]:
    """Summaries and reports are as they were written, of inputs and runs of today; the board's pages and the README count
    what they hold. A report that other code made is for `make reproduce`, and no fault."""
    from refnb.core.settings import load_settings
    from refnb.results.board import board_faults, board_pages

    s = load_settings("/", env={}, reports=str(ROOT / "reports"))
    counted, readme = board_pages(s)[0].summary(), (ROOT / "README.md").read_text().split()
    wrong = counted not in " ".join(readme)
    faults = [x.replace(f"{ROOT}/", "") for x in board_faults(s)]
    return faults + ["README.md: has another count than the board; make outputs"] * wrong


def light() -> list[str]:
    "What needs no extra loads no package of one; a package is imported in the function that needs it, by `need`."
    code = f"""import sys; from refnb.commands.cli import main
for call in {LIGHT!r}:
    if main(call.split()): sys.exit(f"refnb {{call}}: fails")
    if loaded := [name for name in {HEAVY.split()!r} if name in sys.modules]:
        sys.exit(f"refnb {{call}}: loads {{', '.join(loaded)}}")"""
    env = {k: v for k, v in os.environ.items() if not k.startswith("REFNB_")}
    env |= {"PYTHONPATH": str(ROOT), "REFNB_OFFLINE": "true"}
    with tempfile.TemporaryDirectory() as out:
        got = subprocess.run(
            [sys.executable, "-c", code], cwd=out, env=env, capture_output=True, text=True
        )
    return got.stderr.splitlines()[-1:] if got.returncode else []


def tools() -> list[str]:
    "ruff, and types by mypy; each line names its place."
    found = said(BIN / "ruff", "check", "-q", "--output-format", "concise", ".")
    found += said(BIN / "mypy", "--no-error-summary")
    return [x for x in found.splitlines() if x.strip() and ": note:" not in x][:40]


def main() -> int:
    checks = [exported, modules, names, form, texts, evidence, light, tools]
    faults = [f"{c.__name__}: {f}" for c in checks for f in c()]
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    print(f"check: {len(checks)} checks, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
