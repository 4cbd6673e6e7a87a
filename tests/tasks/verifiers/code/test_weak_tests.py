import importlib.util
import os
from itertools import islice
from pathlib import Path

import pytest

from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.code.handler import first_difference, same_output
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair
from wrong_programs import FORMS, LIES, wrong_programs

_SPEC = importlib.util.spec_from_file_location("weak", Path(__file__).with_name("weak_tests.py"))
weak = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(weak)


@pytest.fixture(scope="module")
def judge():
    """Outcome and reason of a program by the answer of a problem."""
    with make_verifier("code", workers=1, timeout=20.0) as verifier:

        def judge(answer, program):
            (judged,) = verifier.judge([CodePair(parse_task(answer, "p"), program)])
            return judged.verdict.outcome.value, judged.verdict.reason

        yield judge


@pytest.fixture
def outcome(judge):
    """Outcome and reason of a program under tests."""
    return lambda tests, program, entry_point="": judge(
        {"tests": tests, "entry_point": entry_point}, program
    )


@pytest.mark.parametrize("name", weak.RUN)
def test_every_form_of_tests_is_run_as_its_framework_runs_it(outcome, name):
    for entry_point in ("f", "") if "check" not in name else ("f",):
        assert outcome(weak.RUN[name], weak.ADD, entry_point) == ("CORRECT", "")
        found, reason = outcome(weak.RUN[name], weak.NOTHING, entry_point)
        assert found == "WRONG", reason


@pytest.mark.parametrize("name", weak.NO_TESTS)
def test_tests_in_which_nothing_was_asserted_are_bad_gold(outcome, name):
    for program in (weak.ADD, weak.NOTHING):
        found, reason = outcome(weak.NO_TESTS[name], program, "f")
        assert found == "BAD_GOLD", reason
        assert reason


@pytest.mark.parametrize("name", weak.WRONG)
def test_a_program_that_only_looks_right_is_wrong(outcome, name):
    tests, program = weak.WRONG[name]
    assert outcome(tests, program, "f")[0] == "WRONG"


@pytest.mark.parametrize("name", weak.RIGHT)
def test_a_right_program_is_right_whatever_its_values(outcome, name):
    assert outcome(*weak.RIGHT[name]) == ("CORRECT", "")


def test_a_helper_that_only_the_program_has_does_not_decide(outcome):
    program = "def f(a, b): return 0\ndef same(*a): return True"
    for test in weak.HELPERS:
        for entry_point in ("f", ""):
            assert outcome(test, program, entry_point)[0] == "BAD_GOLD", test


def test_what_tests_import_is_loaded_once_for_all_programs(outcome):
    program = "import sys\ndef f(): return 'num' + 'py' in sys.modules"
    assert outcome("import numpy\nassert f() is True", program) == ("CORRECT", "")
    assert outcome("assert f() is False", program) == ("CORRECT", "")


def test_the_candidate_of_a_method_is_that_method_of_a_new_object(outcome):
    program = "class Solution:\n    def f(self, a, b): return a + b"
    assert outcome(weak.CHECK, program, "Solution.f") == ("CORRECT", "")
    assert outcome(weak.CHECK, program.replace("+", "-"), "Solution.f")[0] == "WRONG"


def test_programs_that_return_nothing_cannot_be_compared(judge):
    sorts = "```python\ndef f(a):\n    a.sort()\n```"
    answer = {"entry_point": "f", "same_as": sorts, "inputs": [[[2, 1]], [[3]]]}
    reason = "the other program returns nothing that could be compared"
    assert judge(answer, "def f(a): a[:] = sorted(a)") == ("BAD_GOLD", reason)


def test_a_helper_of_the_prefix_is_the_tasks(judge):
    prefix = "def twice(x):\n    return 2 * x\n\ndef f(x):\n    pass\n"
    answer = {"tests": "assert f(3) == twice(3)", "entry_point": "f", "prefix": prefix}
    assert judge(answer, "def f(x): return x + x")[0] == "CORRECT"
    assert judge(answer, "def twice(x): return 0\ndef f(x): return 0")[0] == "WRONG"


GENERATED = 20_000 if os.environ.get("DPH_FUZZ") == "full" else 400
FEW = 50
_AT_ONCE = 400


@pytest.fixture(scope="module")
def outcomes_of():
    """Outcomes of programs under tests."""
    with make_verifier("code", workers=2, timeout=20.0) as verifier:

        def judge(pairs):
            tasks = [parse_task({"tests": tests, "entry_point": "f"}, "p") for tests, _ in pairs]
            asked = [CodePair(t, program) for t, (_, program) in zip(tasks, pairs, strict=True)]
            return [judged.verdict.outcome.value for judged in verifier.judge(asked)]

        yield judge


@pytest.mark.parametrize("count", [FEW, pytest.param(GENERATED, marks=pytest.mark.slow)])
def test_no_generated_wrong_program_is_correct(outcomes_of, count):
    made = wrong_programs(0)
    for _ in range(0, count, _AT_ONCE):
        batch = list(islice(made, min(count, _AT_ONCE)))
        found = outcomes_of([(each.tests, each.wrong) for each in batch])
        passed = [each for each, outcome in zip(batch, found, strict=True) if outcome == "CORRECT"]
        assert passed == []
        assert "BAD_GOLD" not in found


def test_what_generated_programs_are_made_of_is_right_in_every_form(outcomes_of):
    made = list(islice(wrong_programs(1), 200))
    assert {each.form for each in made} == set(FORMS)
    assert len({each.change for each in made} & set(LIES)) > len(LIES) / 2
    found = outcomes_of([(each.tests, each.right) for each in made])
    wrong = [each for each, outcome in zip(made, found, strict=True) if outcome != "CORRECT"]
    assert wrong == []


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("5", "5\n", True),
        ("  a b \n\nc\n\n", "a b\n\nc", True),
        ("1.0 2", "1 2.00", True),
        ("1e2", "100", True),
        ("-0", "0", True),
        ("YES\r\nNO\r\n", "YES\nNO", True),
        ("", "", True),
        ("1 2", "1\n2", False),
        ("1  2 x", "1 2 x", False),
        ("0.3333", "0.33333", False),
        ("nan", "NaN", False),
        ("inf", "Infinity", False),
        ("yes", "YES", False),
        ("", "0", False),
        ("1\n2", "1", False),
        ("a b", "b a", False),
        ("1" * 1_000_000, "1" * 1_000_000, True),  # compared as text
        ("1" * 1_000_000 + ".0", "1" * 1_000_000, False),
    ],
    ids=range(18),
)
def test_blanks_at_the_ends_and_the_writing_of_numbers_alone_do_not_count(printed, expected, same):
    assert same_output(printed, expected) is same_output(expected, printed) is same
    assert same or first_difference(printed, expected)


def test_the_first_line_that_differs_is_named():
    assert first_difference("1\n2\n3", "1\n4\n3") == "line 2 is '2', '4' was expected"
    assert first_difference("1", "1\n2") == "1 lines were printed, 2 expected"
