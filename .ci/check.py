"""Checks of the repository's form: every one names the file and what to do. Run by `make check` and before every commit (`make hooks`)."""
import ast, hashlib, json, os, re, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
KEYS = {"an OpenAI key": r"sk-(?:proj-|ant-)?[A-Za-z0-9_-]{24,}", "a Google key": r"AIza[0-9A-Za-z_-]{35}", "a GitHub token": r"gh[pousr]_[A-Za-z0-9]{36}", "an AWS key": r"AKIA[0-9A-Z]{16}",
        "a Hugging Face token": r"hf_[A-Za-z0-9]{30,}", "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----", "a bearer token": r"[Bb]earer [A-Za-z0-9._-]{30,}"}
HOMES = r"(?:/home/|/Users/|/root/|C:\\\\Users\\\\)\w"

def tracked() -> list[Path]:
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT/p for p in out.splitlines() if (ROOT/p).is_file()]

def notebooks() -> list[Path]: return sorted(p for p in tracked() if p.suffix == ".ipynb")
def source(cell) -> str: return "".join(cell["source"])
def hashes() -> dict[Path, str]:
    "The hash of each notebook and module; nbdev's index is not committed."
    files = [p for d in ("nbs", "refnb") for e in ("*.py", "*.ipynb") for p in (ROOT/d).rglob(e) if ".ipynb_checkpoints" not in p.parts and p.name != "_modidx.py"]
    return {p: hashlib.sha1(p.read_bytes()).hexdigest() for p in [*files, ROOT/"README.md"] if p.exists()}

# Phrases that a newcomer stumbles on, and what to write instead; sentences in quotation marks are examples.
PHRASES = {r"\bstands?\b(?![- ](?:in|for|out|alone)\b)": "is, appears", r"\btold\b": "reported", r"\bsaid\b": "written, replied", r"\bas (?:it|they) (?:is|are)(?= *[.,;)])": "unchanged",
           r"\bwho(?:so)?ever\b": "if you", r"\bto be had\b": "available", r"\bgoes on where\b": "resumes", r"\bof ours\b": "our own", r"\bwhat (?:was|were|they are|it is)\b": "the noun that you mean"}

def phrases() -> list[str]:
    "Prose is in the field's usual English."
    texts = [(n, source(c)) for n in notebooks() for c in json.loads(n.read_text())["cells"] if c["cell_type"] == "markdown"]
    texts += [(ROOT/name, (ROOT/name).read_text()) for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    prose = lambda text: re.sub(r'"[^"\n]*"|`[^`]*`|^    .*$', "", text, flags=re.M)
    return [f"{p.relative_to(ROOT)}: {m[0]!r}: write {instead} ({text[max(0, m.start() - 30):m.end() + 30]!r})" for p, full in texts for text in [prose(full)]
            for phrase, instead in PHRASES.items() for m in re.finditer(phrase, text, re.I)]

def exported() -> list[str]:
    "Format, export and clean change nothing."
    before, env = hashes(), {k: v for k, v in os.environ.items() if k != "IN_TEST"}
    subprocess.run([sys.executable, ROOT/".ci/format.py"], cwd=ROOT, env=env, check=True)
    for tool in ("nbdev-export", "nbdev-clean"): subprocess.run([BIN/tool], cwd=ROOT, env=env, check=True)
    subprocess.run([sys.executable, ROOT/".ci/readme.py"], cwd=ROOT, env=env, check=True)
    after = hashes()
    return [f"{p.relative_to(ROOT)}: was not formatted, exported or clean; it is now: look, and commit" for p in before.keys() | after.keys() if before.get(p) != after.get(p)]

def module_of(nb: Path) -> str|None:
    m = re.search(r"^#\| default_exp (\S+)", "\n".join(source(c) for c in json.loads(nb.read_text())["cells"]), re.M)
    return m and m[1]

def orphans() -> list[str]:
    "Every module has its notebook, at the path that its name says."
    made = {module_of(n): n for n in notebooks() if module_of(n)}
    bad = [f"refnb/{m.replace('.', '/')}.py: its notebook should be nbs/{m.rsplit('.', 1)[0]}/NN_{m.rsplit('.', 1)[1]}.ipynb, is {n.relative_to(ROOT)}" for m, n in made.items()
           if m != "__init__" and (re.sub(r"^\d+_", "", n.stem) != m.rsplit(".", 1)[1] or n.parent != ROOT/"nbs"/Path(*m.split(".")[:-1]))]
    for p in (ROOT/"refnb").rglob("*.py"):
        name = ".".join(p.relative_to(ROOT/"refnb").with_suffix("").parts)
        if name not in made and p.name != "_modidx.py" and (p.name != "__init__.py" or p.read_text().strip()): bad.append(f"{p.relative_to(ROOT)}: no notebook exports it; delete it")
    return bad

# Rooms in the order of imports. What a room's own folder holds comes before the rooms inside it.
ROOMS = ["core", "metrics", "benchmarks", *(f"benchmarks.{b}" for b in ("identifyme", "altentities", "bookcoref", "kitmus")),
         "models", *(f"models.{m}" for m in ("rules", "language", "pairs", "coreference", "live", "published", "annotation")),
         "results", "results.papers", "results.pages", "commands"]
# They look things up by name, so they load later modules, inside functions.
LATE = {"benchmarks.tasks", "benchmarks.identifyme.building", "models.registry", "models.running", "models.sharding", "results.reproduce", "results.execution"}

def place(module: str, number: str) -> tuple[int, int]:
    "Where a module is in the order of imports."
    room = module.rpartition(".")[0]
    return ROOMS.index(room) if room in ROOMS else -1, int(number or -1)

def one_way() -> list[str]:
    "A notebook imports only what comes before it: an earlier room, or a lower number in its own."
    at = {m: place(m, (re.match(r"\d+", n.stem) or [""])[0]) for n in notebooks() if (m := module_of(n))}
    bad = []
    for n in notebooks():
        me = module_of(n)
        if not me or me == "__init__": continue
        if at[me][0] < 0: bad.append(f"{n.relative_to(ROOT)}: its folder is not among the rooms of .ci/check.py")
        for c in json.loads(n.read_text())["cells"]:
            if not source(c).startswith("#| export"): continue
            for indent, used in re.findall(r"^([ \t]*)from refnb\.([\w.]+) import", source(c), re.M):
                if at.get(used, (99, 99)) >= at[me] and not (indent and me in LATE): bad.append(f"{n.relative_to(ROOT)}: imports refnb.{used}, which does not come before it")
            if re.search(r"^\s*(?:from|import) nbdev", source(c), re.M): bad.append(f"{n.relative_to(ROOT)}: exported code imports nbdev")
    return bad

def loose_lines(text: str) -> int:
    "Lines of a cell outside classes, imports, signatures and constants, comments aside: a class stays whole, so that types can be checked."
    lines = sum(not line.lstrip().startswith("# ") for line in text.splitlines())
    if lines <= 40: return lines
    tree = ast.parse(text).body
    whole = sum(n.end_lineno - n.lineno for n in tree if isinstance(n, (ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)))
    return lines - whole - sum(n.body[0].lineno - n.lineno - 1 for n in tree if isinstance(n, ast.FunctionDef))

def form() -> list[str]:
    "Titles, tags, parameters, outputs, sizes of cells."
    bad = []
    for n in notebooks():
        nb, at = json.loads(n.read_text()), n.relative_to(ROOT)
        cells = nb["cells"]
        if not re.match(r"# .+\n\n> .+\n", source(cells[0])): bad.append(f"{at}: the first cell must be `# Title`, an empty line, and `> one line that says what it gives you`")
        tagged = [c for c in cells if c.get("metadata", {}).get("tags")]
        if (ROOT/"nbs/tables") in n.parents and [c["metadata"]["tags"] for c in tagged if "parameters" in c["metadata"]["tags"]] != [["parameters"]]: bad.append(f"{at}: needs exactly one cell tagged `parameters`")
        if (ROOT/"nbs/tables") in n.parents and any("nbdev" in source(c) for c in cells): bad.append(f"{at}: table notebooks do not use nbdev")
        for i, c in enumerate(cells):
            if c["cell_type"] != "code": continue
            if (lines := loose_lines(source(c))) > 45: bad.append(f"{at}, cell {i}: {lines} lines; split it")
            text = json.dumps(c.get("outputs", []))
            if '"stderr"' in text: bad.append(f"{at}, cell {i}: a warning among the outputs")
            if len(text) > 150_000: bad.append(f"{at}, cell {i}: {len(text):,} characters of output")
    return bad

def texts() -> list[str]:
    "No key, no path of a machine, no large file; what runs leave is scanned too."
    bad, left = [], [p for d in ("runs", "reports") if (ROOT/d).is_dir() for p in (ROOT/d).rglob("*") if p.is_file()]
    values = [v for k, v in os.environ.items() if re.search(r"(API_KEY|_TOKEN|_SECRET)$", k) and len(v) > 11]
    for p in {*tracked(), *left}:
        at, data = p.relative_to(ROOT), p.read_bytes()
        if p in left and p.suffix == ".png": continue
        text = data.decode("utf-8", "replace")
        bad += [f"{at}: looks like {what}" for what, key in KEYS.items() if re.search(key, text)]
        if any(v in text for v in values): bad.append(f"{at}: holds the value of a secret environment variable")
        if p not in left and len(data) > (15_000_000 if at.parent.parent == Path("nbs/data/weights") else 1_000_000): bad.append(f"{at}: {len(data)/1e6:.1f} MB; too large to commit")
        if p not in left and p.suffix in (".py", ".ipynb", ".md", ".toml", ".ini", ".yaml", ".json") and p != Path(__file__) and re.search(HOMES, text): bad.append(f"{at}: names a folder of somebody's machine")
    return bad

def tools() -> list[str]:
    "ruff and typos."
    bad = []
    for args in ([BIN/"ruff", "check", "-q", "--output-format", "concise", "."], [BIN/"typos", "--format", "brief"]):
        got = subprocess.run(args, cwd=ROOT, capture_output=True, text=True)
        if got.returncode: bad += [l for l in (got.stdout + got.stderr).splitlines() if l.strip()][:40]
    return bad

def types() -> list[str]:
    "Types, by mypy; it names the line."
    got = subprocess.run([BIN/"mypy", "--no-error-summary"], cwd=ROOT, capture_output=True, text=True)
    return [l for l in (got.stdout + got.stderr).splitlines() if l.strip() and ": note:" not in l][:40] if got.returncode else []

def main() -> int:
    checks = [exported, orphans, one_way, form, phrases, texts, tools, types]
    faults = [(c.__name__, f) for c in checks for f in c()]
    for name, fault in faults: print(f"{name}: {fault}", file=sys.stderr)
    print(f"check: {len(checks)} checks, {len(faults)} faults")
    return bool(faults)

if __name__ == "__main__": sys.exit(main())
