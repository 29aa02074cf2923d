"IdentifyMe's committed tables against the released spreadsheets and an independent computation."

import io
import pytest
from refnb.core.settings import load_settings
from refnb.core.upstream import files_of, get
from results_reports import cells_of_report
from tools import ROOT

openpyxl = pytest.importorskip("openpyxl")
MODELS = {
    "mistralai/Mistral-7B-Instruct-v0.3": "Mistral-7B",
    "meta-llama/Meta-Llama-3.1-8B-Instruct": "Llama-3.1-8B",
    "gpt-4o-mini": "GPT-4o-mini",
    "gemini-1.5-flash": "Gemini-1.5-Flash",
    "gpt-4o": "GPT-4o",
}


def committed(name: str) -> dict[tuple[str, str], dict[str, str]]:
    return cells_of_report(ROOT / f"reports/identifyme/{name}.csv")


MAIN, NONE, NESTED, MORE = map(
    committed,
    (
        "table_3_main_results",
        "table_5_entity_and_none",
        "table_6_nested_mentions",
        "table_7_breakdowns",
    ),
)


def ours(cells: dict, row: str, column: str) -> float:
    return float(cells[row, column]["ours"])


@pytest.fixture(scope="module")
def sheet(upstream):
    "A function that reads a released spreadsheet: model -> column -> number."
    s = load_settings("/", env={}, offline=True, upstream=str(upstream))

    def read(name: str) -> dict[str, dict]:
        [file] = [f for f in files_of("identifyme-analysis") if f.path.endswith(f"/{name}.xlsx")]
        book = openpyxl.load_workbook(io.BytesIO(get(file, s)))
        heads, *rows = book.active.iter_rows(values_only=True)
        return {MODELS[r[0]]: dict(zip(heads[1:], r[1:], strict=True)) for r in rows}

    return read


SUMMARY = {  # column of the released summaries -> our table and its column, or row of breakdowns
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


@pytest.mark.parametrize("file, field", [("summary_accuracy", "ours"), ("summary_count", "n")])
def test_every_summary_cell_is_the_released_one(sheet, file, field):
    cells = [(m, c, v) for m, row in sheet(file).items() for c, v in row.items()]
    assert len(cells) == 5 * 18
    for model, column, value in cells:
        table, name = SUMMARY[column]
        cell = table[(name, model) if table is MORE else (model, name)]
        assert round(float(cell[field]), 2) == value, (model, column)


def test_every_gender_cell_is_the_released_one(sheet):
    genders = ("Male", "Female", "Neutral", "None")
    kinds = [f"{a} - {b}" for a in genders for b in genders]
    for file, block in (("gender_info", "errors"), ("gender_unnested_info", "errors, not nested")):
        released = sheet(file)
        assert sum(map(len, released.values())) == 80
        for model, row in released.items():
            for kind in kinds:
                assert ours(MORE, f"{block}: {kind}", model) == row[kind], (block, model, kind)


def test_kinds_of_errors_are_the_released_ones(sheet):
    names = {
        "Option - Option": "entity to entity",
        "Option - NoA": "entity to none",
        "NoA - Option": "none to entity",
    }
    for model, row in sheet("options_info").items():
        kinds = {c: ours(NONE, model, name) for c, name in names.items()}
        assert kinds.items() <= row.items(), model


def test_nested_mentions_are_the_released_ones(sheet):
    for m, row in sheet("nested_info").items():
        count, errors = float(NESTED[m, "nested"]["n"]), ours(NESTED, m, "errors")
        overlapping = ours(NESTED, m, "errors that name an overlapping mention")
        assert row == dict(
            nested_count=count,
            nested_errors=errors,
            nested_accuracy=round(ours(NESTED, m, "nested"), 2),
            in_nested_count=overlapping,
            in_nested_perc_error=round(100 * overlapping / errors, 2),
            in_nested_perc_total=round(100 * overlapping / count, 2),
        )


def test_numbers_are_those_of_an_independent_computation():
    "Recomputed once from the released answers by other code than refnb's."
    known = {
        "table_2_chain_of_thought": [
            ("Mistral-7B", "difference", -1.5),
            ("GPT-4o-mini", "dev / coref", 68.17),
            ("GPT-4o", "dev / base", 80.67),
            ("Llama-3.1-8B", "test / base", 45.5),
            ("Mistral-7B", "test / base", 52.75),
            ("DeepSeek-V2-Lite", "test / desc", 21.56),
        ],
        "table_4_hard_and_random_mentions": [
            ("GPT-4o-mini", "random", 70.48),
            ("GPT-4o-mini", "standard deviation (n)", 1.88),
            ("GPT-4o-mini", "standard deviation (n - 1)", 1.98),
            ("Mistral-7B", "random", 64.77),
            ("Mistral-7B", "standard deviation (n)", 2.07),
            ("GPT-4o", "random", 83.83),
        ],
        "table_5_entity_and_none": [
            ("Gemini-1.5-Flash", "drop", 48.41),
            ("Gemini-1.5-Flash (strict)", "drop", 48.52),
            ("GPT-4o-mini", "none predicted", 249),
            ("Gemini-1.5-Flash", "removed entity named", 34),
        ],
        "table_6_nested_mentions": [("all five", "share of errors", 40.21)],
    }
    for table, cells in known.items():
        for row, column, value in cells:
            assert round(ours(committed(table), row, column), 2) == value, (table, row, column)
    repeated = {
        "mention repeated": [1114, 1064, 1110, 1106, 1121],
        "mention repeated, answer right": [590, 582, 701, 823, 913],
    }
    for row, values in repeated.items():
        assert [ours(MORE, row, m) for m in MODELS.values()] == values


def test_the_human_study_is_of_the_first_25_questions_of_each_kind():
    cells = committed("table_8_human_study_and_prompts")
    rows = [cells[m, "the 50 questions"] for m in MODELS.values()]
    assert [float(c["ours"]) for c in rows] == [46, 50, 62, 66, 70]
    assert {c["n"] for c in rows} == {"50"}
