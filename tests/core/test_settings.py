"Settings from files, variables and calls: typed, checked, and never ignored in silence."

import itertools, os
from pathlib import Path
import pytest
from refnb.core.settings import Settings, load_settings, packaged
from refnb.core.types import RefnbError

OTHER = dict.fromkeys(["upstream", "cache", "runs", "reports", "corefud"], "/elsewhere")
OTHER |= dict.fromkeys(["systems", "benchmarks", "corpora", "tables"], "/elsewhere")
OTHER |= dict.fromkeys(["jobs", "timeout", "patience"], "7")
OTHER |= dict(host="https://a.org", offline="true", bookcoref_gold="/elsewhere/gold.jsonl")
OTHER |= dict(bookcoref_silver="/elsewhere/silver.jsonl")
FOLDERS = [k for k, v in OTHER.items() if v == "/elsewhere"]
FOUND = ["runs", "reports", "systems", "benchmarks", "corpora", "tables"]  # beside the file


def ini(folder: Path, data: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.ini").write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def load(start="/", **over) -> Settings:
    "Settings without a variable."
    return load_settings(start, env={}, **over)


def wrong(*parts: str, start="/", env=None, **over) -> str:
    "The one line with which settings are refused."
    with pytest.raises(RefnbError) as e:
        load_settings(start, env=env or {}, **over)
    line = str(e.value)
    assert "\n" not in line and all(p in line for p in parts) and e.value.status == 2, line
    return line


def test_every_setting_has_a_default_and_a_comment():
    lines = packaged("settings.ini").read_text().splitlines()
    keys = [i for i, l in enumerate(lines) if " =" in l and not l.startswith(";")]
    assert {lines[i].split(" =")[0] for i in keys} == set(Settings.__struct_fields__) == set(OTHER)
    assert all(lines[i - 1].startswith(";") for i in keys)


def test_nothing_of_the_process_is_read_when_variables_are_given(monkeypatch):
    monkeypatch.setenv("REFNB_JOBS", "7")
    assert (load().jobs, load_settings("/").jobs) == (0, 7)


# The order of the three sources


@pytest.mark.parametrize("key", OTHER)
def test_a_file_beats_the_default_a_variable_beats_it_and_the_call_beats_both(tmp_path, key):
    default, folder = getattr(load(), key), ini(tmp_path, f"[refnb]\n{key} = {OTHER[key]}\n")
    kind = type(default)
    in_env, in_call = {int: ("9", 3), bool: ("false", True), str: ("/third", "/fourth")}[kind]
    env = {f"REFNB_{key.upper()}": in_env}
    values = [
        getattr(load_settings(folder, **how), key)
        for how in ({"env": {}}, {"env": env}, {"env": env, key: in_call})
    ]
    assert [str(v).lower() for v in values] == [OTHER[key], in_env, str(in_call).lower()]
    assert {type(v) for v in values} == {kind} and values[0] != default


def test_what_a_source_does_not_say_is_left_to_the_next(tmp_path):
    s = load(ini(tmp_path, "[refnb]\njobs = 3"), timeout=None)
    assert s == load(tmp_path, jobs=3) and s.timeout == load().timeout


# Which file


def test_the_nearest_file_upward_counts_and_no_other(tmp_path, monkeypatch):
    ini(tmp_path, "[refnb]\njobs = 1\ntimeout = 11\nruns = here")
    ini(tmp_path / "a/b", "[refnb]\njobs = 2")
    (tmp_path / "a/settings.ini").mkdir()
    want = {".": (1, 11), "a": (1, 11), "a/b": (2, 3600), "a/b/not/yet": (2, 3600)}
    got = {p: load(tmp_path / p) for p in want}
    assert {p: (s.jobs, s.timeout) for p, s in got.items()} == want
    monkeypatch.chdir(tmp_path / "a")
    assert load(".").runs == str(tmp_path.resolve() / "here")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[DEFAULT]\nlib_name = x\n",
        "[other]\njobs = 9\nodd = 1",
        "jobs = 9",
        "\n[broken\nx",
        "[section]\n; see [refnb] in the other file",
        "[a]\nx = [refnb]",
    ],
)
def test_a_file_of_another_tool_is_passed_over(tmp_path, text):
    ini(tmp_path, "[refnb]\njobs = 2")
    assert load(ini(tmp_path / "project", text)).jobs == 2


def test_a_file_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    "By a disk that fails: root may read everything."
    real = Path.read_text

    def fail(self, *args, **kwargs):
        if self.parent == tmp_path:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *args, **kwargs)

    ini(tmp_path, "[refnb]\njobs = 2")
    monkeypatch.setattr(Path, "read_text", fail)
    wrong("settings.ini", start=tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores permissions")
def test_a_file_that_may_not_be_read_is_told(tmp_path):
    (ini(tmp_path, "[refnb]\njobs = 2") / "settings.ini").chmod(0)
    wrong("settings.ini", start=tmp_path)


# The form of a file


def test_marks_and_line_ends_of_any_editor(tmp_path):
    lines = [b"; a comment", b"[refnb]", b"Jobs = 3", "runs = é 日".encode()]
    for start, end in itertools.product([b"", b"\xef\xbb\xbf"], [b"\n", b"\r\n", b"\r"]):
        s = load(ini(tmp_path, start + end.join(lines)))
        assert (s.jobs, s.runs) == (3, str(tmp_path.resolve() / "é 日")), (start, end)


BROKEN = {
    "a key twice": "[refnb]\njobs = 1\njobs = 2",
    "a section twice": "[refnb]\njobs = 1\n[refnb]\njobs = 2",
    "no value": "[refnb]\njobs",
    "no key": "[refnb]\n= 3",
    "no section": "jobs = 3\n[refnb]\njobs = 2",
    "not utf-8": b"[refnb]\nruns = \xff\n",
    "nul": b"[refnb]\njobs = 3\n\0\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused(tmp_path, name):
    wrong("settings.ini", start=ini(tmp_path, BROKEN[name]))


def test_percent_signs_and_dollars_mean_themselves(tmp_path):
    s = load(ini(tmp_path, "[refnb]\nruns = 100%\nhost = https://h/%(x)s/${HOME}"))
    assert (Path(s.runs).name, s.host) == ("100%", "https://h/%(x)s/${HOME}")


def test_defaults_of_another_tool_are_not_ours(tmp_path):
    "nbdev 2 keeps its settings in [DEFAULT], which configparser would add to every section."
    s = load(ini(tmp_path, "[DEFAULT]\nlib_name = x\njobs = 5\n[refnb]\ntimeout = 3\n"))
    folders = {k: str(tmp_path.resolve() / k) for k in FOUND}
    assert s == load(timeout=3).changed(**folders)


# Unknown keys and wrong values


def test_an_unknown_name_is_refused_with_the_one_that_is_meant(tmp_path):
    wrong("settings.ini", "'job'", "mean jobs", start=ini(tmp_path, "[refnb]\njob = 3"))
    wrong("REFNB_JOB", "mean REFNB_JOBS", env={"REFNB_JOB": "3"})
    wrong("REFNB_", env={"REFNB_": "3"})
    wrong("'job'", "mean jobs", job=3)
    others = {"JOBS": "3", "XREFNB_JOBS": "3", "refnb_jobs": "3", "OPENAI_API_KEY": "x"}
    assert load_settings("/", env=others) == load()


NO_NUMBERS = ["", "many", "1.5", "0x10", "3 ; three", "٣x"]
WRONG = {
    "jobs": [*NO_NUMBERS, "-1"],
    "timeout": [*NO_NUMBERS, "0", "-5"],
    "patience": [*NO_NUMBERS, "0", "-1"],  # no patience would make every connection dead
    "offline": ["", "maybe", "2", "truee", "None"],
}
WRONG_IN_CALL = {"jobs": ["many", 1.5], "offline": ["maybe"], "runs": [3], "timeout": [[1]]}


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_refused_wherever_it_stands(tmp_path, key):
    for value in WRONG[key]:
        wrong("settings.ini", key, start=ini(tmp_path, f"[refnb]\n{key} = {value}"))
        wrong(f"REFNB_{key.upper()}", env={f"REFNB_{key.upper()}": value})


def test_a_wrong_value_in_the_call_is_refused():
    for key, values in WRONG_IN_CALL.items():
        for value in values:
            wrong(key, **{key: value})


def test_true_and_false_in_several_spellings():
    for text, value in zip(["true", "True", "1", "false", "FALSE", "0"], 3 * [True] + 3 * [False]):
        assert load_settings("/", env={"REFNB_OFFLINE": text}).offline is value


# Folders


@pytest.mark.parametrize("key", FOLDERS)
def test_a_folder_is_absolute_and_relative_to_where_it_is_named(tmp_path, key):
    "To the file; for a variable and in the call, to the folder one looks from."
    root = tmp_path.resolve()
    default = getattr(load(tmp_path), key)
    assert not default or Path(default).is_absolute()
    deep = ini(root, f"[refnb]\n{key} = data/x\n") / "deep"
    deep.mkdir()
    env = {f"REFNB_{key.upper()}": "../y"}
    for how, want in [
        ({"env": {}}, root / "data/x"),
        ({"env": env}, root / "y"),
        ({"env": env, key: "z"}, deep / "z"),
        ({"env": env, key: tmp_path / "z"}, tmp_path / "z"),
    ]:
        assert getattr(load_settings(deep, **how), key) == str(want)


def test_home_is_where_it_is(tmp_path, monkeypatch):
    home = tmp_path.resolve()
    monkeypatch.setenv("HOME", str(home))
    assert load_settings("/", env={"REFNB_RUNS": "~/my runs"}).runs == str(home / "my runs")
    assert Path(load().cache).is_relative_to(home)


def test_a_folder_that_cannot_be_is_refused_and_a_host_is_none(tmp_path):
    for value in ("~nobody-of-this-name/x", "a\0b"):
        wrong("REFNB_RUNS", env={"REFNB_RUNS": value})
    assert load(ini(tmp_path, "[refnb]\nhost = mirror")).host == "mirror"
