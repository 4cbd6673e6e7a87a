import sqlite3
import subprocess
import sys
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
    assert outcomes(verdicts) == [Outcome.CORRECT, second, Outcome.INVALID, Outcome.INVALID]


def test_every_answer_may_have_a_database_of_its_own(pets, tmp_path):
    (tmp_path / "other.db").write_bytes(pets.read_bytes())
    places = [str(pets), pets.parent, tmp_path / "other.db", str(pets.parent)]
    assert outcomes(grade_sql(GOLDS, GOLDS, places, workers=2)) == [Outcome.CORRECT] * 4


def test_a_gold_that_does_not_run_says_so(pets):
    (verdict,) = grade_sql(["SELECT 1"], ["SELECT nothing FROM nowhere"], pets)
    assert verdict.outcome is Outcome.BAD_GOLD


def test_no_answers_have_no_verdicts(pets):
    assert grade_sql([], [], pets) == grade_math([], [], verifier="exact") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SELECT 1", ["SELECT 1"]), "predictions is a sequence of texts, got one text"),
        ((["SELECT 1"], "SELECT 1"), "golds is a sequence of texts, got one text"),
        ((["SELECT 1"], GOLDS), "got 1 predictions, 4 golds, 4 databases"),
        (([None], ["SELECT 1"]), r"predictions\[0\] must be text, got None \(NoneType\)"),
    ],
)
def test_sql_that_is_not_a_pair_of_sequences_is_refused(pets, arguments, message):
    with pytest.raises(DataError, match=message):
        grade_sql(*arguments, pets)


def test_a_database_that_is_not_there_and_an_unknown_rule_are_refused(pets, tmp_path):
    with pytest.raises(DataError, match=r"there is no database .*tmp.*gone"):
        grade_sql(["SELECT 1"], ["SELECT 1"], [tmp_path / "gone"])
    with pytest.raises(DataError, match="got 1 predictions, 1 golds, 2 databases"):
        grade_sql(["SELECT 1"], ["SELECT 1"], [pets, pets])
    with pytest.raises(SettingsError, match="no SQL rule 'best'"):
        grade_sql(["SELECT 1"], ["SELECT 1"], pets, rule="best")


def test_mathematical_answers_are_graded():
    pytest.importorskip("math_verify")
    responses = [r"so \boxed{\frac{1}{2}}", r"\boxed{5000}", "I cannot tell."]
    assert outcomes(grade_math(responses, ["0.5", 50, "7"])) == [
        Outcome.CORRECT,
        Outcome.WRONG,
        Outcome.NO_ANSWER,
    ]
    assert grade_math(responses, [0.5, 50, 7], verifier="math_qwen")[1].outcome is Outcome.CORRECT


def test_other_verifiers_grade_answers_by_name():
    golds = [5, np.int64(5), np.float32(5)]
    verdicts = grade_math(["so 5"] * 3, golds, verifier="number")
    assert outcomes(verdicts) == [Outcome.CORRECT] * 3
    with pytest.raises(SettingsError, match="there is no verifier 'maths'"):
        grade_math(["5"], ["5"], verifier="maths")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("5", ["5"]), "responses is a sequence of texts, got one text, '5'"),
        ((["5"], "5"), "golds is a sequence of texts, got one text, '5'"),
        ((["5"], ["5", "6"]), "got 1 responses, 2 golds"),
        (([5], ["5"]), r"responses\[0\] must be text, got 5 \(int\)"),
        ((["5"], [True]), r"golds\[0\] must be text, got True"),
    ],
)
def test_math_that_is_not_a_pair_of_sequences_is_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        grade_math(*arguments, verifier="exact")


def test_grading_loads_no_torch():
    code = "import sys, dph.tasks.grading; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
