"""Checks of the repository's form: every one names the file and what to do. Run by `make check` and before every commit (`make hooks`)."""

import hashlib, json, os, re, subprocess, sys
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
HOMES = r"(?:/home/|/Users/|/root/|C:\\\\Users\\\\)\w"


def tracked() -> list[Path]:
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / p for p in out.splitlines() if (ROOT / p).is_file()]


def notebooks() -> list[Path]:
    return sorted(p for p in tracked() if p.suffix == ".ipynb")


def source(cell) -> str:
    return "".join(cell["source"])


def hashes() -> dict[Path, str]:
    "The hash of each notebook and module, and of README."
    files = [p for p in tracked() if p.suffix in (".py", ".ipynb")]
    return {
        p: hashlib.sha1(p.read_bytes()).hexdigest()
        for p in [*files, ROOT / "README.md"]
        if p.exists()
    }


def exported() -> list[str]:
    "Format, export and clean change nothing."
    before, env = hashes(), {k: v for k, v in os.environ.items() if k != "IN_TEST"}
    subprocess.run([BIN / "ruff", "format", "-q", "."], cwd=ROOT, env=env, check=True)
    for tool in ("nbdev-export", "nbdev-clean"):
        subprocess.run([BIN / tool], cwd=ROOT, env=env, check=True)
    subprocess.run([sys.executable, ROOT / ".ci/readme.py"], cwd=ROOT, env=env, check=True)
    after = hashes()
    return [
        f"{p.relative_to(ROOT)}: was not formatted, exported or clean; it is now: look, and commit"
        for p in before.keys() | after.keys()
        if before.get(p) != after.get(p)
    ]


def module_of(nb: Path) -> str | None:
    m = re.search(
        r"^#\| default_exp (\S+)",
        "\n".join(source(c) for c in json.loads(nb.read_text())["cells"]),
        re.M,
    )
    return m and m[1]


def orphans() -> list[str]:
    "Every module has its notebook, at the path that its name says."
    made = {module_of(n): n for n in notebooks() if module_of(n)}
    bad = [
        f"refnb/{m.replace('.', '/')}.py: its notebook should be nbs/{m.rsplit('.', 1)[0]}/NN_{m.rsplit('.', 1)[1]}.ipynb, is {n.relative_to(ROOT)}"
        for m, n in made.items()
        if m != "__init__"
        and (
            re.sub(r"^\d+_", "", n.stem) != m.rsplit(".", 1)[1]
            or n.parent != ROOT / "nbs" / Path(*m.split(".")[:-1])
        )
    ]
    for p in (ROOT / "refnb").rglob("*.py"):
        name = ".".join(p.relative_to(ROOT / "refnb").with_suffix("").parts)
        if (
            name not in made
            and p.name != "_modidx.py"
            and (p.name != "__init__.py" or p.read_text().strip())
        ):
            bad.append(f"{p.relative_to(ROOT)}: no notebook exports it; delete it")
    return bad


# Rooms in the order of imports. What a room's own folder holds comes before the rooms inside it.
ROOMS = [
    "core",
    "metrics",
    "benchmarks",
    *(f"benchmarks.{b}" for b in ("identifyme", "altentities", "bookcoref", "kitmus")),
    "models",
    *(
        f"models.{m}"
        for m in ("rules", "language", "pairs", "coreference", "live", "published", "annotation")
    ),
    "results",
    "results.papers",
    "results.pages",
    "commands",
]
# They look things up by name, so they load later modules, inside functions.
LATE = {
    "benchmarks.tasks",
    "benchmarks.identifyme.building",
    "models.registry",
    "models.running",
    "models.sharding",
    "results.reproduce",
    "results.execution",
}


def place(module: str, number: str) -> tuple[int, int]:
    "Where a module is in the order of imports."
    room = module.rpartition(".")[0]
    return ROOMS.index(room) if room in ROOMS else -1, int(number or -1)


def one_way() -> list[str]:
    "A notebook imports only what comes before it: an earlier room, or a lower number in its own."
    at = {
        m: place(m, (re.match(r"\d+", n.stem) or [""])[0])
        for n in notebooks()
        if (m := module_of(n))
    }
    bad = []
    for n in notebooks():
        me = module_of(n)
        if not me or me == "__init__":
            continue
        if at[me][0] < 0:
            bad.append(f"{n.relative_to(ROOT)}: its folder is not among the rooms of .ci/check.py")
        for c in json.loads(n.read_text())["cells"]:
            if not source(c).startswith("#| export"):
                continue
            for indent, used in re.findall(
                r"^([ \t]*)from refnb\.([\w.]+) import", source(c), re.M
            ):
                if at.get(used, (99, 99)) >= at[me] and not (indent and me in LATE):
                    bad.append(
                        f"{n.relative_to(ROOT)}: imports refnb.{used}, which does not come before it"
                    )
            if re.search(r"^\s*(?:from|import) nbdev", source(c), re.M):
                bad.append(f"{n.relative_to(ROOT)}: exported code imports nbdev")
    return bad


def form() -> list[str]:
    "Titles, tags, parameters, warnings among outputs."
    bad = []
    for n in notebooks():
        nb, at = json.loads(n.read_text()), n.relative_to(ROOT)
        cells = nb["cells"]
        if not re.match(r"# .+\n\n> .+\n", source(cells[0])):
            bad.append(
                f"{at}: the first cell must be `# Title`, an empty line, and `> one line that says what it gives you`"
            )
        tagged = [c for c in cells if c.get("metadata", {}).get("tags")]
        if (ROOT / "nbs/tables") in n.parents and [
            c["metadata"]["tags"] for c in tagged if "parameters" in c["metadata"]["tags"]
        ] != [["parameters"]]:
            bad.append(f"{at}: needs exactly one cell tagged `parameters`")
        if (ROOT / "nbs/tables") in n.parents and any("nbdev" in source(c) for c in cells):
            bad.append(f"{at}: table notebooks do not use nbdev")
        for i, c in enumerate(cells):
            if c["cell_type"] != "code":
                continue
            if '"stderr"' in json.dumps(c.get("outputs", [])):
                bad.append(f"{at}, cell {i}: a warning among the outputs")
    return bad


def texts() -> list[str]:
    "No key, no path of a machine, no large file; what runs leave is scanned too."
    bad, left = (
        [],
        [
            p
            for d in ("runs", "reports")
            if (ROOT / d).is_dir()
            for p in (ROOT / d).rglob("*")
            if p.is_file()
        ],
    )
    values = [
        v
        for k, v in os.environ.items()
        if re.search(r"(API_KEY|_TOKEN|_SECRET)$", k) and len(v) > 11
    ]
    for p in {*tracked(), *left}:
        at, data = p.relative_to(ROOT), p.read_bytes()
        if p in left and p.suffix == ".png":
            continue
        text = data.decode("utf-8", "replace")
        bad += [f"{at}: looks like {what}" for what, key in KEYS.items() if re.search(key, text)]
        if any(v in text for v in values):
            bad.append(f"{at}: holds the value of a secret environment variable")
        if p not in left and len(data) > (
            15_000_000 if at.parent.parent == Path("nbs/data/weights") else 1_000_000
        ):
            bad.append(f"{at}: {len(data) / 1e6:.1f} MB; too large to commit")
        if (
            p not in left
            and p.suffix in (".py", ".ipynb", ".md", ".toml", ".ini", ".yaml", ".json")
            and p != Path(__file__)
            and re.search(HOMES, text)
        ):
            bad.append(f"{at}: names a folder of somebody's machine")
    return bad


def tools() -> list[str]:
    "ruff and typos."
    bad = []
    for args in (
        [BIN / "ruff", "check", "-q", "--output-format", "concise", "."],
        [BIN / "typos", "--format", "brief"],
    ):
        got = subprocess.run(args, cwd=ROOT, capture_output=True, text=True)
        if got.returncode:
            bad += [l for l in (got.stdout + got.stderr).splitlines() if l.strip()][:40]
    return bad


def types() -> list[str]:
    "Types, by mypy; it names the line."
    got = subprocess.run(
        [BIN / "mypy", "--no-error-summary"], cwd=ROOT, capture_output=True, text=True
    )
    return (
        [l for l in (got.stdout + got.stderr).splitlines() if l.strip() and ": note:" not in l][:40]
        if got.returncode
        else []
    )


def main() -> int:
    checks = [exported, orphans, one_way, form, texts, tools, types]
    faults = [(c.__name__, f) for c in checks for f in c()]
    for name, fault in faults:
        print(f"{name}: {fault}", file=sys.stderr)
    print(f"check: {len(checks)} checks, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
