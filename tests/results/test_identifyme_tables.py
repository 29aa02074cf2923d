"IdentifyMe's committed tables against the released spreadsheets, cell by cell, and against the numbers of the specification."

import csv, io
import pytest
from tools import ROOT

openpyxl = pytest.importorskip("openpyxl")
MODELS = {
    "mistralai/Mistral-7B-Instruct-v0.3": "Mistral-7B",
    "meta-llama/Meta-Llama-3.1-8B-Instruct": "Llama-3.1-8B",
    "gpt-4o-mini": "GPT-4o-mini",
    "gemini-1.5-flash": "Gemini-1.5-Flash",
    "gpt-4o": "GPT-4o",
}
GENDERS = [
    f"{a} - {b}"
    for a in ("Male", "Female", "Neutral", "None")
    for b in ("Male", "Female", "Neutral", "None")
]


def table(name: str) -> dict:
    "Cells of a committed report by row and column."
    return {
        (c["row"], c["column"]): c
        for c in csv.DictReader(
            io.StringIO((ROOT / f"reports/identifyme/{name}.csv").read_text(), newline="")
        )
    }


MAIN, NONE, NESTED, MORE = (
    table(n)
    for n in (
        "table_3_main_results",
        "table_5_entity_and_none",
        "table_6_nested_mentions",
        "table_7_breakdowns",
    )
)


@pytest.fixture(scope="module")
def sheet(upstream):
    "A function that reads a released spreadsheet: model -> column -> number."
    from refnb.core.settings import load_settings
    from refnb.core.upstream import files_of, get

    s = load_settings("/", env={}, offline=True, upstream=str(upstream))

    def read(name):
        key = next(f for f in files_of("identifyme-analysis") if f.path.endswith(f"/{name}.xlsx"))
        head, *rows = openpyxl.load_workbook(io.BytesIO(get(key, s))).active.iter_rows(
            values_only=True
        )
        return {MODELS[r[0]]: dict(zip(head[1:], r[1:], strict=True)) for r in rows}

    return read


# column of the summary spreadsheets -> our cell
SUMMARY = {
    "overall": (MAIN, "all"),
    "NOM": (MAIN, "nominal"),
    "PRON": (MAIN, "pronominal"),
    "fan_NOM": (MAIN, "FantasyCoref / nominal"),
    "fan_PRON": (MAIN, "FantasyCoref / pronominal"),
    "lit_NOM": (MAIN, "LitBank / nominal"),
    "lit_PRON": (MAIN, "LitBank / pronominal"),
    "opts": (NONE, "entity"),
    "noa": (NONE, "none"),
    "nested": (NESTED, "nested"),
    "unnested": (NESTED, "not nested"),
    "male": (MORE, "gender: Male"),
    "female": (MORE, "gender: Female"),
    "neutral": (MORE, "gender: Neutral"),
    "pers_pron": (MORE, "pronouns: personal"),
    "othr_pron": (MORE, "pronouns: other"),
    "dialogue": (MORE, "dialogue: yes"),
    "non_dialogue": (MORE, "dialogue: no"),
}


def ours(model: str, column: str) -> dict:
    "Our cell; breakdowns have groups in rows."
    where, name = SUMMARY[column]
    return where[(name, model) if where is MORE else (model, name)]


@pytest.mark.parametrize("file, field", [("summary_accuracy", "ours"), ("summary_count", "n")])
def test_every_summary_cell_is_the_released_one(sheet, file, field):
    cells = [(m, c, v) for m, row in sheet(file).items() for c, v in row.items()]
    assert len(cells) == 5 * 18
    assert [(m, c) for m, c, v in cells if round(float(ours(m, c)[field]), 2) != v] == []


@pytest.mark.parametrize(
    "file, block", [("gender_info", "errors"), ("gender_unnested_info", "errors, not nested")]
)
def test_every_gender_cell_is_the_released_one(sheet, file, block):
    told = sheet(file)
    assert [
        (m, g)
        for m in told
        for g in GENDERS
        if float(MORE[f"{block}: {g}", m]["ours"]) != told[m][g]
    ] == []
    assert sum(len(row) for row in told.values()) == 80


def test_kinds_of_errors_are_the_released_ones(sheet):
    names = {
        "Option - Option": "entity to entity",
        "Option - NoA": "entity to none",
        "NoA - Option": "none to entity",
    }
    assert [
        (m, c)
        for m, row in sheet("options_info").items()
        for c, ours in names.items()
        if float(NONE[m, ours]["ours"]) != row[c]
    ] == []


def test_nested_mentions_are_the_released_ones(sheet):
    for m, row in sheet("nested_info").items():
        count, errors, named = (
            float(NESTED[m, "nested"]["n"]),
            float(NESTED[m, "errors"]["ours"]),
            float(NESTED[m, "errors that name an overlapping mention"]["ours"]),
        )
        got = dict(
            nested_count=count,
            nested_errors=errors,
            nested_accuracy=round(float(NESTED[m, "nested"]["ours"]), 2),
            in_nested_count=named,
            in_nested_perc_error=round(100 * named / errors, 2),
            in_nested_perc_total=round(100 * named / count, 2),
        )
        assert got == row


# What the specification found by its own recomputation (sections 4.2 and 4.5).
@pytest.mark.parametrize(
    "name, row, column, value",
    [
        ("table_2_chain_of_thought", "Mistral-7B", "difference", -1.5),
        ("table_2_chain_of_thought", "GPT-4o-mini", "dev / coref", 68.17),
        ("table_2_chain_of_thought", "GPT-4o", "dev / base", 80.67),
        ("table_2_chain_of_thought", "Llama-3.1-8B", "test / base", 45.5),
        ("table_2_chain_of_thought", "Mistral-7B", "test / base", 52.75),
        ("table_2_chain_of_thought", "DeepSeek-V2-Lite", "test / desc", 21.56),
        ("table_4_hard_and_random_mentions", "GPT-4o-mini", "random", 70.48),
        ("table_4_hard_and_random_mentions", "GPT-4o-mini", "standard deviation (n)", 1.88),
        ("table_4_hard_and_random_mentions", "GPT-4o-mini", "standard deviation (n - 1)", 1.98),
        ("table_4_hard_and_random_mentions", "Mistral-7B", "random", 64.77),
        ("table_4_hard_and_random_mentions", "Mistral-7B", "standard deviation (n)", 2.07),
        ("table_4_hard_and_random_mentions", "GPT-4o", "random", 83.83),
        ("table_5_entity_and_none", "Gemini-1.5-Flash", "drop", 48.41),
        ("table_5_entity_and_none", "Gemini-1.5-Flash (strict)", "drop", 48.52),
        ("table_5_entity_and_none", "GPT-4o-mini", "none predicted", 249),
        ("table_5_entity_and_none", "Gemini-1.5-Flash", "removed entity named", 34),
        ("table_6_nested_mentions", "all five", "share of errors", 40.21),
    ],
)
def test_a_number_that_the_specification_knows(name, row, column, value):
    assert round(float(table(name)[row, column]["ours"]), 2) == value


def test_sum_of_extracted_mentions():
    assert [int(float(MORE["mention repeated", m]["ours"])) for m in MODELS.values()] == [
        1114,
        1064,
        1110,
        1106,
        1121,
    ]
    assert [
        int(float(MORE["mention repeated, answer right", m]["ours"])) for m in MODELS.values()
    ] == [590, 582, 701, 823, 913]


def test_cells_that_differ_from_print_are_explained_on_their_page():
    for path in sorted((ROOT / "reports/identifyme").glob("table_*.csv")):
        page = path.with_suffix(".md").read_text()
        for (row, column), c in table(path.stem).items():
            if c["difference"] not in ("", "0"):
                assert c["reason"], (row, column)
                assert c["reason"] == "unexplained" or f"{row}, {column}" in page, (row, column)


def test_table_8_is_of_the_first_25_of_each_kind():
    rows = table("table_8_human_study_and_prompts")
    assert [float(rows[m, "the 50 questions"]["ours"]) for m in MODELS.values()] == [
        46,
        50,
        62,
        66,
        70,
    ]
    assert {rows[m, "the 50 questions"]["n"] for m in MODELS.values()} == {"50"}
