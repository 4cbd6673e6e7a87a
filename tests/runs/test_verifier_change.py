import importlib
import json

import pytest

from dph.errors import CheckpointError, PoolError, VerifierError
from dph.runs.presampling_stage import presample_stage
from dph.runs.training_stage import train_stage
from run_stages import evaluated, presampled, ran, staged, trained

GRADE = """
def grade(response, problem):
    return response[:1] != "" and response[:1] in problem.answer["answer"]
"""
CRASH = """
import os
def grade(response, problem):
    os._exit(1)
"""


@pytest.fixture
def write_verifier(tmp_path, monkeypatch):
    """Write the user's file; a new one each time, as after an edit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # before what another test's directory holds

    def write(text):
        (tmp_path / "own_grader.py").write_text(text)
        importlib.invalidate_caches()

    write(GRADE)
    return write


def versions(run):
    (checkpoint,) = (run / "checkpoints").iterdir()
    recorded = json.loads((checkpoint / "trainer.json").read_text())["verifiers"]
    return [(each["name"], each["first_step"]) for each in recorded]


def test_a_changed_file_is_named_and_can_be_accepted_for_good(
    make_recipe, write_verifier, tmp_path
):
    run, data = tmp_path / "run", {"verifier": "own_grader:grade"}
    ran(make_recipe("dph_f", data=data), run)
    assert versions(run) == [("own_grader:grade", 1)]
    write_verifier(GRADE + "# a comment\n")
    longer = make_recipe("dph_f", data=data, train={"steps": 3, "keep_checkpoints": 1})
    with pytest.raises(CheckpointError, match=r"verifier file .*own_grader\.py .* changed since"):
        ran(longer, run)
    assert ran(longer, run, accept_verifier=True).trained.step == 3
    assert versions(run) == [("own_grader:grade", 1), ("own_grader:grade", 3)]
    # The pool of the earlier version is accepted with it.
    assert ran(longer, run).trained.step == 3


def test_a_finished_run_records_what_was_accepted(make_recipe, write_verifier, tmp_path):
    run, recipe = tmp_path / "run", make_recipe("grpo", data={"verifier": "own_grader:grade"})
    trained(recipe, run)
    write_verifier(GRADE + "# a comment\n")
    trained(recipe, run, accept_verifier=True)
    assert trained(recipe, run).step == 2
    assert versions(run) == [("own_grader:grade", 1), ("own_grader:grade", 3)]


def test_a_pool_of_another_version_is_named_too(make_recipe, write_verifier, tmp_path):
    run, recipe = tmp_path / "run", make_recipe(data={"verifier": "own_grader:grade"})
    presampled(recipe, run)
    write_verifier(GRADE + "# a comment\n")
    message = r"own_grader\.py .* changed since the pool .*pool was made"
    for stage in (presample_stage, train_stage):
        with pytest.raises(PoolError, match=message):
            staged(stage, recipe, run)
        staged(stage, recipe, run, accept_verifier=True)


def test_an_evaluation_by_another_version_is_made_again_without_being_asked(
    make_recipe, write_verifier, tmp_path
):
    recipe = make_recipe("grpo", data={"verifier": "own_grader:grade"})
    found = []
    for text in (GRADE, "def grade(response, problem):\n    return True\n"):
        write_verifier(text)
        found.append(evaluated(recipe, tmp_path / "e")["sets"]["dev"])
    first, second = found
    assert second["mean"] == pytest.approx(1 - second["cut_off"])
    assert first["mean"] < second["mean"]


@pytest.mark.slow
def test_every_stage_stops_when_the_verifier_crashes_over_most_answers(
    make_recipe, write_verifier, tmp_path
):
    write_verifier(CRASH)
    recipe = make_recipe("grpo", data={"verifier": "own_grader:grade"})
    for stage in (presampled, trained, evaluated):
        message = r"more than data\.verifier_crash_limit = 0\.5 allows"
        with pytest.raises(VerifierError, match=message):
            stage(recipe, tmp_path / "run")


def test_crashes_below_the_limit_are_verdicts(make_recipe, write_verifier, tmp_path):
    write_verifier(CRASH)
    data = {"verifier": "own_grader:grade", "verifier_crash_limit": 1.0}
    assert trained(make_recipe("grpo", data=data, train={"steps": 1}), tmp_path / "run").step == 1
    (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["outcome_crashed"] > 0
