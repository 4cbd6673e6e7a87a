import sqlite3
from contextlib import closing

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.tasks.grading import grade_code, grade_math, grade_sql
from dph.tasks.grading.rows import MathRowGrader, SQLRowGrader, answer_column, database_path
from dph.tasks.verifiers.math.verifier import MathVerifier


def make_pets(path, *names):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE pet (name TEXT)")
        connection.executemany("INSERT INTO pet VALUES (?)", [(name,) for name in names])
    return path


@pytest.fixture
def pets(tmp_path):
    return make_pets(tmp_path / "pets" / "pets.sqlite", "Rex", "Rex")


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    root = tmp_path_factory.mktemp("databases")
    make_pets(root / "pets" / "pets.sqlite", "0", "1", "2")
    make_pets(root / "birds" / "birds.sqlite", "0", "1")
    return root


ANSWERS = ["SELECT name FROM pet", "SELECT DISTINCT name FROM pet", "SELECT", "DROP TABLE pet"]
GOLDS = ["SELECT name FROM pet"] * 4


def outcomes(verdicts):
    return [verdict.outcome for verdict in verdicts]


@pytest.mark.parametrize(("rule", "second"), [("bird", Outcome.CORRECT), ("strict", Outcome.WRONG)])
def test_statements_are_graded_by_a_rule(pets, rule, second):
    verdicts = grade_sql(ANSWERS, GOLDS, pets, rule=rule)
    assert outcomes(verdicts) == ["CORRECT", second, "INVALID", "INVALID"]


def test_every_answer_may_have_a_database_and_one_that_is_missing_or_a_gold_that_fails_is_told(
    pets, tmp_path
):
    (tmp_path / "other.db").write_bytes(pets.read_bytes())
    places = [str(pets), pets.parent, tmp_path / "other.db", str(pets.parent)]
    assert outcomes(grade_sql(GOLDS, GOLDS, places, workers=2)) == [Outcome.CORRECT] * 4
    (verdict,) = grade_sql(["SELECT 1"], ["SELECT nothing FROM nowhere"], pets)
    assert verdict.outcome is Outcome.BAD_GOLD
    assert grade_sql([], [], pets) == grade_math([], [], verifier="exact") == []
    with pytest.raises(DataError, match=r"there is no database .*tmp.*gone"):
        grade_sql(["SELECT 1"], ["SELECT 1"], [tmp_path / "gone"])
    with pytest.raises(DataError, match="got 1 predictions, 1 golds, 2 databases"):
        grade_sql(["SELECT 1"], ["SELECT 1"], [pets, pets])
    with pytest.raises(SettingsError, match="no SQL rule 'best'"):
        grade_sql(["SELECT 1"], ["SELECT 1"], pets, rule="best")


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


@pytest.fixture(scope="module")
def grader(databases):
    with SQLRowGrader(databases=databases, rule="strict") as made:
        yield made


GOLD = "SELECT name FROM pet"


def graded_outcomes(grader, rows):
    return [graded.verdict.outcome for graded in grader.grade_rows(rows)]


def test_each_row_is_graded_on_its_own_database(grader, databases):
    count = "SELECT count(*) FROM pet"
    rows = [
        {"db_id": "pets", "gold_sql": count, "pred_sql": "SELECT 3"},
        {"db_id": "birds", "gold_sql": count, "pred_sql": "SELECT 3"},
        {"db_id": "birds/birds.sqlite", "gold_sql": count, "pred_sql": "SELECT 2"},
        {"db_id": str(databases / "pets/pets.sqlite"), "gold_sql": count, "pred_sql": "SELECT 3"},
    ]
    assert graded_outcomes(grader, rows) == ["CORRECT", "WRONG", "CORRECT", "CORRECT"]


@pytest.mark.parametrize(
    ("row", "outcome", "words"),
    [
        ({"db_id": None, "gold_sql": GOLD, "pred_sql": GOLD}, "BAD_GOLD", "db_id"),
        ({"db_id": 7, "gold_sql": GOLD, "pred_sql": GOLD}, "BAD_GOLD", "db_id is not text: 7"),
        ({"db_id": "pets", "gold_sql": "", "pred_sql": GOLD}, "BAD_GOLD", "gold_sql"),
        ({"db_id": "pets", "pred_sql": GOLD}, "BAD_GOLD", "gold_sql is not text: None"),
        ({"db_id": "no", "gold_sql": GOLD, "pred_sql": GOLD}, "BAD_GOLD", "no database"),
        ({"db_id": "../pets\0", "gold_sql": GOLD, "pred_sql": GOLD}, "BAD_GOLD", "pets"),
        ({"db_id": "pets", "gold_sql": "SELECT x", "pred_sql": GOLD}, "BAD_GOLD", "no such"),
        ({"db_id": "pets", "gold_sql": GOLD, "pred_sql": None}, "NO_ANSWER", "pred_sql"),
        ({"db_id": "pets", "gold_sql": GOLD}, "NO_ANSWER", "pred_sql is not text"),
        ({"db_id": "pets", "gold_sql": GOLD, "pred_sql": " \n"}, "NO_ANSWER", "no SQL"),
        ({"db_id": "pets", "gold_sql": GOLD, "pred_sql": "-- none"}, "NO_ANSWER", "no SQL"),
        ({"db_id": "pets", "gold_sql": GOLD, "pred_sql": "none"}, "INVALID", "got NONE"),
    ],
)
def test_a_row_that_cannot_be_graded_has_an_outcome_and_a_reason(grader, row, outcome, words):
    good = {"db_id": "pets", "gold_sql": GOLD, "pred_sql": GOLD}
    first, odd, last = grader.grade_rows([good, row, good])
    assert (odd.verdict.outcome, odd.verdict.reward) == (outcome, 0.0)
    assert words in odd.verdict.reason
    assert first.verdict.outcome is last.verdict.outcome is Outcome.CORRECT


def test_a_prediction_is_run_as_it_is_and_a_response_is_read_first(databases, grader):
    text = f"Here it is:\n```sql\n{GOLD}\n```"
    row = {"db_id": "pets", "gold_sql": GOLD, "pred_sql": text, "response": text}
    assert graded_outcomes(grader, [row]) == [Outcome.INVALID]
    with SQLRowGrader(databases=databases, answers="response") as reading:
        assert reading.required == ("db_id", "gold_sql", "response")
        rows = [row, row | {"response": "I do not know"}]
        assert graded_outcomes(reading, rows) == ["CORRECT", "NO_ANSWER"]


def test_the_seconds_are_those_of_the_statement(databases):
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x FROM r) SELECT count(*) FROM r"
    rows = [{"db_id": "pets", "gold_sql": GOLD, "pred_sql": sql} for sql in (GOLD, endless)]
    with SQLRowGrader(databases=databases, timeout=0.4) as made:
        made.grade_rows(rows[:1])
        quick, slow = made.grade_rows(rows)
    assert 0 < quick.seconds < slow.seconds
    assert slow.seconds >= 0.4
    assert slow.verdict.outcome is Outcome.TIMED_OUT


def test_where_a_database_lies_and_that_the_prediction_goes_before_the_response():
    assert [answer_column(each) for each in (["response"], ["response", "pred_sql"], [])] == [
        *("response", "pred_sql", "pred_sql")
    ]
    assert database_path("a") == "a/a.sqlite"
    assert database_path("a.b") == "a.b/a.b.sqlite"
    assert database_path("x/a.db") == "x/a.db"


def test_other_settings_are_another_job_and_workers_are_none(databases, tmp_path):
    def settings(**changed):
        with SQLRowGrader(**{"databases": databases, "rule": "bird"} | changed) as made:
            return made.settings

    assert settings() == settings(workers=2)
    others = [{"rule": "spider"}, {"answers": "response"}, {"timeout": 1.0}]
    others += [{"databases": tmp_path}]
    assert all(settings(**other) != settings() for other in others)


@pytest.fixture(scope="module")
def math_grader():
    pytest.importorskip("math_verify")
    with MathRowGrader(verifier="math") as made:
        yield made


def test_rows_are_graded_in_order_and_what_is_no_text_is_told(math_grader):
    rows = [
        {"gold": "5", "response": r"\boxed{5}"},
        {"gold": None, "response": r"\boxed{5}"},
        {"gold": " ", "response": r"\boxed{5}"},
        {"gold": True, "response": r"\boxed{5}"},
        {"gold": 5, "response": r"\boxed{6}"},
        {"gold": 0.5, "response": r"\boxed{\frac{1}{2}}"},
        {"gold": "5", "response": None},
        {"gold": "5"},
    ]
    graded_outcomes = [graded.verdict.outcome for graded in math_grader.grade_rows(rows)]
    assert graded_outcomes == ["CORRECT", *["BAD_GOLD"] * 3, "WRONG", "CORRECT", *["NO_ANSWER"] * 2]
    assert (math_grader.settings["name"], math_grader.settings["version"]) == (
        "math",
        MathVerifier.version,
    )
    assert math_grader.settings["settings"]["timeout"] == 5.0
    assert math_grader.required == ("gold", "response")
