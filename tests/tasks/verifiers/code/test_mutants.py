"""No program that gives something else for the tests' inputs is right, whatever form they have."""

import os
from itertools import islice

import pytest

from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair
from wrong_programs import FORMS, LIES, wrong_programs

GENERATED = 20_000 if os.environ.get("DPH_FUZZ") == "full" else 400
FEW = 50
_AT_ONCE = 400


@pytest.fixture(scope="module")
def outcomes():
    """Outcomes of programs under tests."""
    with make_verifier("code", workers=2, timeout=20.0) as verifier:

        def judge(pairs):
            tasks = [parse_task({"tests": tests, "entry_point": "f"}, "p") for tests, _ in pairs]
            asked = [CodePair(t, program) for t, (_, program) in zip(tasks, pairs, strict=True)]
            return [judged.verdict.outcome.value for judged in verifier.judge(asked)]

        yield judge


@pytest.mark.parametrize("count", [FEW, pytest.param(GENERATED, marks=pytest.mark.slow)])
def test_no_generated_wrong_program_is_correct(outcomes, count):
    made = wrong_programs(0)
    for _ in range(0, count, _AT_ONCE):
        batch = list(islice(made, min(count, _AT_ONCE)))
        found = outcomes([(each.tests, each.wrong) for each in batch])
        passed = [each for each, outcome in zip(batch, found, strict=True) if outcome == "CORRECT"]
        assert passed == []
        assert "BAD_GOLD" not in found


def test_what_generated_programs_are_made_of_is_right_in_every_form(outcomes):
    made = list(islice(wrong_programs(1), 200))
    assert {each.form for each in made} == set(FORMS)
    assert len({each.change for each in made} & set(LIES)) > len(LIES) / 2
    found = outcomes([(each.tests, each.right) for each in made])
    wrong = [each for each, outcome in zip(made, found, strict=True) if outcome != "CORRECT"]
    assert wrong == []
