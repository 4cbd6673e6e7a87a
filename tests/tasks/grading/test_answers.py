import sqlite3
from contextlib import closing

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.tasks.grading import grade_code, grade_math, grade_sql


@pytest.fixture
def pets(tmp_path):
    path = tmp_path / "pets" / "pets.sqlite"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE pet AS SELECT 'Rex' AS name UNION ALL SELECT 'Rex'")
    return path


ANSWERS = ["SELECT name FROM pet", "SELECT DISTINCT name FROM pet", "SELECT", "DROP TABLE pet"]
GOLDS = ["SELECT name FROM pet"] * 4


def outcomes(verdicts):
    return [verdict.outcome for verdict in verdicts]


@pytest.mark.parametrize(("rule", "second"), [("bird", Outcome.CORRECT), ("strict", Outcome.WRONG)])
def test_statements_are_graded_by_a_rule(pets, rule, second):
    verdicts = grade_sql(ANSWERS, GOLDS, pets, rule=rule)
    assert outcomes(verdicts) == ["CORRECT", second, "INVALID", "INVALID"]


def test_every_answer_may_have_a_database_of_its_own_and_a_gold_that_does_not_run_says_so(
    pets, tmp_path
):
    (tmp_path / "other.db").write_bytes(pets.read_bytes())
    places = [str(pets), pets.parent, tmp_path / "other.db", str(pets.parent)]
    assert outcomes(grade_sql(GOLDS, GOLDS, places, workers=2)) == [Outcome.CORRECT] * 4
    (verdict,) = grade_sql(["SELECT 1"], ["SELECT nothing FROM nowhere"], pets)
    assert verdict.outcome is Outcome.BAD_GOLD
    assert grade_sql([], [], pets) == grade_math([], [], verifier="exact") == []


@pytest.mark.parametrize(
    ("subject", "arguments", "message"),
    [
        ("sql", ("SELECT 1", ["SELECT 1"]), "predictions is a sequence of texts, got one text"),
        ("sql", (["SELECT 1"], "SELECT 1"), "golds is a sequence of texts, got one text"),
        ("sql", (["SELECT 1"], GOLDS), "got 1 predictions, 4 golds, 4 databases"),
        ("sql", ([None], ["SELECT 1"]), r"predictions\[0\] must be text, got None \(NoneType\)"),
        ("math", ("5", ["5"]), "responses is a sequence of texts, got one text, '5'"),
        ("math", (["5"], ["5", "6"]), "got 1 responses, 2 golds"),
        ("math", (["5"], [True]), r"golds\[0\] must be text, got True"),
    ],
)
def test_what_is_not_a_pair_of_sequences_is_refused(pets, subject, arguments, message):
    more = {"verifier": "exact"} if subject == "math" else {"databases": pets}
    with pytest.raises(DataError, match=message):
        {"math": grade_math, "sql": grade_sql}[subject](*arguments, **more)


def test_a_database_that_is_not_there_and_an_unknown_rule_are_refused(pets, tmp_path):
    with pytest.raises(DataError, match=r"there is no database .*tmp.*gone"):
        grade_sql(["SELECT 1"], ["SELECT 1"], [tmp_path / "gone"])
    with pytest.raises(DataError, match="got 1 predictions, 1 golds, 2 databases"):
        grade_sql(["SELECT 1"], ["SELECT 1"], [pets, pets])
    with pytest.raises(SettingsError, match="no SQL rule 'best'"):
        grade_sql(["SELECT 1"], ["SELECT 1"], pets, rule="best")


def test_answers_are_graded_by_the_verifier_that_is_named():
    pytest.importorskip("math_verify")
    responses = [r"so \boxed{\frac{1}{2}}", r"\boxed{5000}", "I cannot tell."]
    assert outcomes(grade_math(responses, ["0.5", 50, "7"])) == ["CORRECT", "WRONG", "NO_ANSWER"]
    assert grade_math(responses, [0.5, 50, 7], verifier="math_qwen")[1].outcome is Outcome.CORRECT
    golds = [5, np.int64(5), np.float32(5)]
    verdicts = grade_math(["so 5"] * 3, golds, verifier="number")
    assert outcomes(verdicts) == [Outcome.CORRECT] * 3
    with pytest.raises(SettingsError, match="there is no verifier 'maths'"):
        grade_math(["5"], ["5"], verifier="maths")


def test_programs_are_graded_against_one_task_or_one_each():
    right, wrong = "def f(x): return x + 1", "def f(x): return x"
    task = {"tests": "assert f(1) == 2", "entry_point": "f"}
    other = {"cases": [{"stdin": "", "stdout": "1"}]}
    found = grade_code([right, wrong], task, timeout=20.0)
    assert [verdict.outcome for verdict in found] == [Outcome.CORRECT, Outcome.WRONG]
    found = grade_code([right, "print(1)"], [task, other], timeout=20.0)
    assert [verdict.outcome for verdict in found] == [Outcome.CORRECT, Outcome.CORRECT]
    with pytest.raises(DataError, match=r"tasks\[1\]: the code verifier needs 'tests' or 'cases'"):
        grade_code([right, right], [task, {}])
    with pytest.raises(DataError, match="1 programs, 2 tasks"):
        grade_code([right], [task, task])
    with pytest.raises(DataError, match="programs is a sequence of texts, got one text"):
        grade_code(right, task)
