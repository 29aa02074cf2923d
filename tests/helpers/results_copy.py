"A copy of the repository, in which a test changes what it likes."

import json, shutil, subprocess, sys
from pathlib import Path
from tools import ROOT, clean


class Copy:
    "A copy of what the repository says and of the code that reads it."

    def __init__(self, home: Path):
        self.home, left_out = home, shutil.ignore_patterns("weights", "__pycache__", ".batch")
        for name in ("refnb", "nbs", "reports", ".ci"):
            shutil.copytree(ROOT / name, home / name, ignore=left_out)
        for name in ("README.md", "constraints.txt", "settings.ini"):
            shutil.copy(ROOT / name, home / name)

    def python(self, *args: object, **variables: str) -> subprocess.CompletedProcess[str]:
        env = clean(self.home) | {"PYTHONPATH": str(self.home)} | variables
        call = [sys.executable, "-P", *map(str, args)]
        return subprocess.run(call, cwd=self.home, env=env, capture_output=True, text=True)

    def refnb(self, *args: object, **variables: str) -> subprocess.CompletedProcess[str]:
        run = "from refnb.commands.cli import run; run()"
        return self.python("-c", run, *args, **variables)

    def states(self, **variables: str) -> dict[str, str]:
        "What the list of tables says of each report."
        said = self.refnb("list", "tables", "--json", **variables)
        assert not said.returncode, said.stderr
        return {x["table"]: x["report"] for x in json.loads(said.stdout)["tables"]}
