import pytest

from dph.records import Outcome
from dph.tasks.grading.rows import MathRowGrader
from dph.tasks.verifiers import MathVerifier

pytest.importorskip("math_verify")


@pytest.fixture(scope="module")
def grader():
    with MathRowGrader(verifier="math") as made:
        yield made


def test_rows_are_graded_in_order_and_what_is_no_text_is_told(grader):
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
    outcomes = [graded.verdict.outcome for graded in grader.grade_rows(rows)]
    assert outcomes == [
        Outcome.CORRECT,
        Outcome.BAD_GOLD,
        Outcome.BAD_GOLD,
        Outcome.BAD_GOLD,
        Outcome.WRONG,
        Outcome.CORRECT,
        Outcome.NO_ANSWER,
        Outcome.NO_ANSWER,
    ]


def test_the_job_depends_on_verifier_and_time_limit(grader):
    assert (grader.settings["name"], grader.settings["version"]) == ("math", MathVerifier.version)
    assert grader.settings["settings"]["timeout"] == 5.0
    assert grader.required == ("gold", "response")
