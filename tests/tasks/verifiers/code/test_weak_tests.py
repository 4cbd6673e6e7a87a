"""Tests that check nothing, and values that cross faithfully: no wrong program is right."""

import importlib.util
from pathlib import Path

import pytest

from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair

_SPEC = importlib.util.spec_from_file_location("weak", Path(__file__).with_name("weak_tests.py"))
weak = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(weak)


@pytest.fixture(scope="module")
def outcome():
    """Outcome and reason of a program under tests."""
    with make_verifier("code", workers=1, timeout=20.0) as verifier:

        def judge(tests, program, entry_point=""):
            task = parse_task({"tests": tests, "entry_point": entry_point}, "p")
            (judged,) = verifier.judge([CodePair(task, program)])
            return judged.verdict.outcome.value, judged.verdict.reason

        yield judge


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


def test_programs_that_return_nothing_cannot_be_compared():
    sorts = "```python\ndef f(a):\n    a.sort()\n```"
    answer = {"entry_point": "f", "same_as": sorts, "inputs": [[[2, 1]], [[3]]]}
    task = parse_task(answer, "p")
    with make_verifier("code", workers=1, timeout=20.0) as verifier:
        (found,) = verifier.judge([CodePair(task, "def f(a): a[:] = sorted(a)")])
    assert found.verdict.outcome.value == "BAD_GOLD"
    assert found.verdict.reason == "the other program returns nothing that could be compared"


def test_a_helper_of_the_prefix_is_the_tasks():
    prefix = "def twice(x):\n    return 2 * x\n\ndef f(x):\n    pass\n"
    answer = {"tests": "assert f(3) == twice(3)", "entry_point": "f", "prefix": prefix}
    cheat = "def twice(x): return 0\ndef f(x): return 0"
    with make_verifier("code", workers=1, timeout=20.0) as verifier:
        found = verifier.judge(
            [
                CodePair(parse_task(answer, "p"), "def f(x): return x + x"),
                CodePair(parse_task(answer, "p"), cheat),
            ]
        )
    assert [judged.verdict.outcome.value for judged in found] == ["CORRECT", "WRONG"]
