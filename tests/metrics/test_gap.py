"GAP's F1 by gender and its bias: the released scorer's arithmetic, name by name."

import json
from hypothesis import given, strategies as st
import pytest
from refnb.core.types import NONE, Answer, Option, Question
from refnb.metrics.links import gap_scores
from tools import here

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["masculine", "feminine"]),
        st.integers(0, 2),
        st.sampled_from([0, 1, 2, None]),
    ),
    max_size=30,
)


@given(ROWS)
def test_every_name_is_a_yes_or_no(rows):
    names = (Option("Ann"), Option("Bea"), Option(NONE))
    questions = [
        Question(str(i), str(i), options=names, right=(right,), meta={"gender": gender})
        for i, (gender, right, _) in enumerate(rows)
    ]
    answers = {str(i): Answer(str(i), (c,)) for i, (_, _, c) in enumerate(rows) if c is not None}
    got = gap_scores(questions, answers)
    for gender in ("masculine", "feminine", "overall"):
        tp = fp = fn = 0
        for g, right, chosen in rows:
            for name in (0, 1) if gender in (g, "overall") else ():
                tp += right == name == chosen
                fp += chosen == name != right
                fn += right == name != chosen
        p, r = tp / max(1, tp + fp), tp / max(1, tp + fn)
        assert getattr(got, gender) == pytest.approx((p, r, 2 * tp / max(1, 2 * tp + fp + fn)))
    if got.masculine.f1:
        assert got.bias == pytest.approx(got.feminine.f1 / got.masculine.f1)


def test_a_table_whose_first_name_stands_last_agrees_with_its_own_gold(tmp_path, capsys):
    text = "Bea told Anna that she had won."
    cells = ["g1", text, "she", text.index("she"), "Anna", text.index("Anna"), "FALSE"]
    cells += ["Bea", 0, "TRUE", "http://x"]
    head = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()
    path = tmp_path / "gap.tsv"
    path.write_text("\n".join("\t".join(map(str, row)) for row in (head, cells)))
    said = here(capsys, "score", "choice", path, "--gold", path, "--json")
    assert said.status == 0, said.err
    assert json.loads(said.out)["groups"]["all"]["right"] == 1
