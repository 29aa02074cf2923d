"What is installed is known by its hash; no script runs code that comes with weights."

import re, tomllib
import tools
from refnb.core.settings import packaged
from refnb.models.environments import environments


def test_the_lock_has_a_hash_for_every_package_and_the_pinned_versions():
    "What only some Pythons or systems need, or builds refnb, is not among the pins."

    def plain(name):
        return re.sub(r"[-_.]+", "-", name).lower()

    text = (tools.ROOT / "requirements.lock").read_text().replace(" \\\n    --hash", " --hash")
    entry = re.compile(r"([\w.-]+)==(\S+)( ; .+?)?((?: --hash=sha256:[0-9a-f]{64})+)")
    lines = [x for x in text.splitlines() if not x.startswith("#")]
    found = {m[1]: m for x in lines if (m := entry.fullmatch(x))}
    pinned = (tools.ROOT / "constraints.txt").read_text().splitlines()
    pins = {plain(x.partition("==")[0]): x.partition("==")[2].strip() for x in pinned}
    assert len(found) == len(lines) > 80
    other = {n for n, m in found.items() if pins.get(plain(n)) != m[2] and not m[3]}
    assert other <= {"torch", "editables", "setuptools"}
    project = tomllib.loads((tools.ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["models"], "hatchling"]
    assert {plain(re.match(r"[\w.-]+", x)[0]) for x in needed} <= set(found)
    assert found["torch"][2].endswith("+cpu") and found["torch"][4].count("sha256") == 3


def test_requirements_of_other_packages_are_exact_and_hashed_and_name_no_host():
    for place in environments().values():
        for file in place.requirements:
            lines = file.read_text().splitlines()
            names = [x for x in lines if re.fullmatch(r"[A-Za-z][\w.-]*==\S+( ;.*)? \\", x)]
            hashes = [x for x in lines if re.match(r"    --hash=sha256:[0-9a-f]{64}", x)]
            assert len(lines) == len(names) + len(hashes), file
            assert len(hashes) >= len(names) and (names or not lines), file


def test_no_script_for_a_package_runs_code_of_a_checkpoint():
    for path in packaged("data/live").glob("*.py"):
        for loose in ("trust_remote_code", "pickle.load", "weights_only=False"):
            assert loose not in path.read_text(), path
