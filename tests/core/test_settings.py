"Settings from files, variables and calls: typed, checked, and never ignored in silence."

import os
from pathlib import Path
import pytest
from refnb.core.settings import FOLDERS, YOURS, Settings, load_settings, packaged
from refnb.core.types import CallError, RefnbError


def ini(folder: Path, data: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.ini").write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def wrong(*parts: str, start="/", env=None, **over) -> str:
    "The one line with which settings are refused."
    with pytest.raises(CallError) as e:
        load_settings(start, env=env or {}, **over)
    line = str(e.value)
    assert "\n" not in line and all(p in line for p in parts) and e.value.status == 2, line
    return line


KEYS = list(Settings.__struct_fields__)
OTHER = dict(
    upstream="/elsewhere",
    host="https://example.org",
    offline="true",
    cache="/elsewhere",
    runs="/elsewhere",
    reports="/elsewhere",
    jobs="7",
    timeout="7",
    patience="7",
    bookcoref_gold="/elsewhere/gold.jsonl",
    corefud="/elsewhere",
    systems="/elsewhere",
    benchmarks="/elsewhere",
    corpora="/elsewhere",
    tables="/elsewhere",
    largest="7",
    ratio="7",
)


def test_every_setting_has_a_default_and_a_comment():
    lines = packaged("settings.ini").read_text().splitlines()
    assert {
        l.split(" =")[0]: lines[i - 1][:1]
        for i, l in enumerate(lines)
        if " =" in l and not l.startswith(";")
    } == dict.fromkeys(KEYS, ";")
    assert set(OTHER) == set(KEYS)


def test_nothing_of_the_process_is_read_when_variables_are_given(monkeypatch):
    monkeypatch.setenv("REFNB_JOBS", "7")
    assert (load_settings("/", env={}).jobs, load_settings("/").jobs) == (0, 7)


# The order of the three sources


@pytest.mark.parametrize("key", KEYS)
def test_a_file_beats_the_default_a_variable_beats_it_and_the_call_beats_both(tmp_path, key):
    kind, default = Settings.__annotations__[key], getattr(load_settings("/", env={}), key)
    folder = ini(tmp_path, f"[refnb]\n{key} = {OTHER[key]}\n")
    from_file = getattr(load_settings(folder, env={}), key)
    assert from_file != default and str(from_file).lower() == OTHER[key] and type(from_file) is kind
    other = {int: "9", bool: "false", str: "/third"}[kind]
    from_env = getattr(load_settings(folder, env={f"REFNB_{key.upper()}": other}), key)
    assert str(from_env).lower() == other and type(from_env) is kind
    said = {int: 3, bool: True, str: "/fourth"}[kind]
    assert (
        getattr(load_settings(folder, env={f"REFNB_{key.upper()}": other}, **{key: said}), key)
        == said
    )


def test_none_in_the_call_says_nothing(tmp_path):
    assert load_settings(ini(tmp_path, "[refnb]\njobs = 3"), env={}, jobs=None).jobs == 3


def test_what_a_file_does_not_say_keeps_its_default(tmp_path):
    assert load_settings(ini(tmp_path, "[refnb]\njobs = 3"), env={}) == load_settings(
        tmp_path, env={}, jobs=3
    )


# Which file


def test_the_nearest_file_upward_counts(tmp_path):
    ini(tmp_path, "[refnb]\njobs = 1\ntimeout = 11")
    ini(tmp_path / "a" / "b", "[refnb]\njobs = 2")
    (tmp_path / "a" / "b" / "c").mkdir()
    jobs = {p: load_settings(tmp_path / p, env={}).jobs for p in (".", "a", "a/b", "a/b/c")}
    assert jobs == {".": 1, "a": 1, "a/b": 2, "a/b/c": 2}
    assert load_settings(tmp_path / "a" / "b", env={}).timeout == 3600, (
        "one file counts, the ones above it do not"
    )


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
    assert load_settings(ini(tmp_path / "project", text), env={}).jobs == 2


def test_a_folder_of_that_name_is_passed_over(tmp_path):
    ini(tmp_path, "[refnb]\njobs = 2")
    (tmp_path / "a" / "settings.ini").mkdir(parents=True)
    assert load_settings(tmp_path / "a", env={}).jobs == 2


def test_a_folder_that_is_not_there_yet(tmp_path):
    assert load_settings(ini(tmp_path, "[refnb]\njobs = 2") / "not" / "yet", env={}).jobs == 2


def test_the_current_folder_is_where_to_look_from(tmp_path, monkeypatch):
    monkeypatch.chdir(ini(tmp_path, "[refnb]\njobs = 2\nruns = here"))
    s = load_settings(env={})
    assert (s.jobs, s.runs) == (2, str(tmp_path.resolve() / "here"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores permissions")
def test_a_file_that_may_not_be_read(tmp_path):
    (ini(tmp_path, "[refnb]\njobs = 2") / "settings.ini").chmod(0)
    with pytest.raises(RefnbError, match="settings.ini"):
        load_settings(tmp_path, env={})


def test_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    "For root, who may read everything: a disk that fails."
    real = Path.read_text

    def fail(self, *args, **kwargs):
        if self.parent == tmp_path:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *args, **kwargs)

    ini(tmp_path, "[refnb]\njobs = 2")
    monkeypatch.setattr(Path, "read_text", fail)
    with pytest.raises(RefnbError, match="settings.ini"):
        load_settings(tmp_path, env={})


# The form of a file


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["", "mark"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_marks_and_line_ends(tmp_path, start, end):
    s = load_settings(
        ini(
            tmp_path,
            start + end.join([b"; a comment", b"[refnb]", b"jobs = 3", "runs = é 日".encode()]),
        ),
        env={},
    )
    assert (s.jobs, s.runs) == (3, str(tmp_path.resolve() / "é 日"))


@pytest.mark.parametrize(
    "data",
    [
        "[refnb]\njobs = 1\njobs = 2",
        "[refnb]\njobs = 1\n[refnb]\njobs = 2",
        "[refnb]\njobs",
        "[refnb]\n= 3",
        "jobs = 3\n[refnb]\njobs = 2",
        b"[refnb]\nruns = \xff\n",
        b"[refnb]\njobs = 3\n\0\n",
    ],
    ids=["a key twice", "a section twice", "no value", "no key", "no section", "not utf-8", "nul"],
)
def test_a_broken_file_is_refused(tmp_path, data):
    wrong("settings.ini", start=ini(tmp_path, data))


def test_percent_signs_and_dollars_mean_themselves(tmp_path):
    s = load_settings(ini(tmp_path, "[refnb]\nruns = 100%\nhost = https://h/%(x)s/${HOME}"), env={})
    assert (Path(s.runs).name, s.host) == ("100%", "https://h/%(x)s/${HOME}")


def test_defaults_of_another_tool_are_not_ours(tmp_path):
    "nbdev 2 keeps its own settings in [DEFAULT], which configparser would add to every section."
    assert load_settings(
        ini(tmp_path, "[DEFAULT]\nlib_name = x\njobs = 5\n[refnb]\ntimeout = 3\n"), env={}
    ) == load_settings("/", env={}, timeout=3).changed(
        **{k: str(tmp_path.resolve() / k) for k in ("runs", "reports", *YOURS)}
    )


def test_keys_in_capitals(tmp_path):
    assert load_settings(ini(tmp_path, "[refnb]\nJobs = 3"), env={}).jobs == 3


# Unknown keys and wrong types


def test_an_unknown_key_in_a_file(tmp_path):
    wrong(
        "settings.ini, [refnb]",
        "unknown setting 'job'",
        "did you mean jobs?",
        start=ini(tmp_path, "[refnb]\njob = 3"),
    )


def test_an_unknown_variable():
    wrong("REFNB_JOB", "did you mean REFNB_JOBS?", env={"REFNB_JOB": "3"})
    wrong("REFNB_", env={"REFNB_": "3"})


def test_an_unknown_name_in_the_call():
    wrong("unknown setting 'job'", "did you mean jobs?", job=3)


def test_other_variables_are_none_of_our_business():
    assert load_settings(
        "/", env={"JOBS": "3", "XREFNB_JOBS": "3", "refnb_jobs": "3", "OPENAI_API_KEY": "x"}
    ) == load_settings("/", env={})


@pytest.mark.parametrize(
    "key, value",
    [
        (k, v)
        for k in ("jobs", "timeout", "patience")
        for v in ("", "many", "1.5", "0x10", "3 ; three", "٣x")
    ]
    + [("offline", v) for v in ("", "maybe", "2", "truee", "None")],
)
def test_a_value_of_the_wrong_type(tmp_path, key, value):
    wrong("settings.ini", key, "is not", start=ini(tmp_path, f"[refnb]\n{key} = {value}"))
    wrong(f"REFNB_{key.upper()}", "is not", env={f"REFNB_{key.upper()}": value})


@pytest.mark.parametrize(
    "key, value",
    [("jobs", "-1"), ("timeout", "0"), ("timeout", "-5"), ("patience", "0"), ("patience", "-1")],
)
def test_a_number_that_cannot_be(tmp_path, key, value):
    "No patience at all would make every connection dead."
    wrong(key, start=ini(tmp_path, f"[refnb]\n{key} = {value}"))
    wrong(f"REFNB_{key.upper()}", env={f"REFNB_{key.upper()}": value})


@pytest.mark.parametrize(
    "key, value",
    [("jobs", "many"), ("jobs", 1.5), ("offline", "maybe"), ("runs", 3), ("timeout", [1])],
)
def test_a_value_of_the_wrong_type_in_the_call(key, value):
    wrong(key, **{key: value})


@pytest.mark.parametrize(
    "text, value",
    [("true", True), ("True", True), ("1", True), ("false", False), ("FALSE", False), ("0", False)],
)
def test_true_and_false(text, value):
    assert load_settings("/", env={"REFNB_OFFLINE": text}).offline is value


# Folders


@pytest.mark.parametrize("key", FOLDERS)
def test_a_folder_is_relative_to_where_it_is_said(tmp_path, key):
    "To the file; for a variable and in the call, to the folder one looks from."
    root = tmp_path.resolve()
    deep = ini(root, f"[refnb]\n{key} = data/x\n") / "deep"
    deep.mkdir()
    assert getattr(load_settings(deep, env={}), key) == str(root / "data/x")
    assert getattr(load_settings(deep, env={f"REFNB_{key.upper()}": "../y"}), key) == str(
        root / "y"
    )
    assert getattr(load_settings(deep, env={}, **{key: "z"}), key) == str(deep / "z")
    assert getattr(load_settings(deep, env={}, **{key: tmp_path / "z"}), key) == str(tmp_path / "z")


@pytest.mark.parametrize("key", FOLDERS)
def test_all_folders_are_absolute(tmp_path, key):
    got = getattr(load_settings(tmp_path, env={}), key)
    assert not got or Path(got).is_absolute()


def test_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    assert load_settings("/", env={"REFNB_RUNS": "~/my runs"}).runs == str(
        tmp_path.resolve() / "my runs"
    )
    assert Path(load_settings("/", env={}).cache).is_relative_to(tmp_path.resolve())


@pytest.mark.parametrize("value", ["~nobody-of-this-name/x", "a\0b"])
def test_a_folder_that_cannot_be(value):
    wrong("REFNB_RUNS", env={"REFNB_RUNS": value})


def test_a_host_is_no_folder(tmp_path):
    assert load_settings(ini(tmp_path, "[refnb]\nhost = mirror"), env={}).host == "mirror"
