"""A verifier whose file changes while a run stands still: told by name, accepted on request."""

import importlib
import json

import pytest

from dph.errors import CheckpointError, PoolError, VerifierError
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.training_stage import train_stage

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
    with open_plan(make_recipe("dph_f", data=data), run) as plan:
        run_stages(plan, Silent())
    assert versions(run) == [("own_grader:grade", 1)]
    write_verifier(GRADE + "# a comment\n")
    longer = make_recipe("dph_f", data=data, train={"steps": 3, "keep_checkpoints": 1})
    with (
        open_plan(longer, run) as plan,
        pytest.raises(CheckpointError, match=r"verifier file .*own_grader\.py .* changed since"),
    ):
        run_stages(plan, Silent())
    with open_plan(longer, run, accept_verifier=True) as plan:
        assert run_stages(plan, Silent()).trained.step == 3
    assert versions(run) == [("own_grader:grade", 1), ("own_grader:grade", 3)]
    with open_plan(longer, run) as plan:  # the pool of the earlier version is accepted with it
        assert run_stages(plan, Silent()).trained.step == 3


def test_a_finished_run_records_what_was_accepted(make_recipe, write_verifier, tmp_path):
    recipe = make_recipe("grpo", data={"verifier": "own_grader:grade"})
    with open_plan(recipe, tmp_path / "run") as plan:
        train_stage(plan, Silent())
    write_verifier(GRADE + "# a comment\n")
    with open_plan(recipe, tmp_path / "run", accept_verifier=True) as plan:
        train_stage(plan, Silent())
    with open_plan(recipe, tmp_path / "run") as plan:
        assert train_stage(plan, Silent()).step == 2
    assert versions(tmp_path / "run") == [("own_grader:grade", 1), ("own_grader:grade", 3)]


@pytest.mark.parametrize("stage", [presample_stage, train_stage])
def test_a_pool_of_another_version_is_named_too(make_recipe, write_verifier, tmp_path, stage):
    recipe = make_recipe(data={"verifier": "own_grader:grade"})
    with open_plan(recipe, tmp_path / "run") as plan:
        presample_stage(plan, Silent())
    write_verifier(GRADE + "# a comment\n")
    with (
        open_plan(recipe, tmp_path / "run") as plan,
        pytest.raises(PoolError, match=r"own_grader\.py .* changed since the pool .*pool was made"),
    ):
        stage(plan, Silent())
    with open_plan(recipe, tmp_path / "run", accept_verifier=True) as plan:
        stage(plan, Silent())


def test_an_evaluation_by_another_version_is_made_again_without_being_asked(
    make_recipe, write_verifier, tmp_path
):
    recipe = make_recipe("grpo", data={"verifier": "own_grader:grade"})
    documents = []
    for text in (GRADE, "def grade(response, problem):\n    return True\n"):
        write_verifier(text)
        with open_plan(recipe, tmp_path / "e") as plan:
            documents.append(
                evaluate_stage(plan, tmp_path / "e", Silent(), model=tmp_path / "model")
            )
    first, second = (document["sets"]["dev"] for document in documents)
    assert second["mean"] == pytest.approx(1 - second["cut_off"])
    assert first["mean"] < second["mean"]


@pytest.mark.parametrize(
    "stage",
    [
        presample_stage,
        train_stage,
        lambda plan, progress: evaluate_stage(
            plan, plan.directory.path, progress, model=plan.initial
        ),
    ],
    ids=["presample", "train", "evaluate"],
)
def test_every_stage_stops_when_the_verifier_crashes_over_most_answers(
    make_recipe, write_verifier, tmp_path, stage
):
    write_verifier(CRASH)
    recipe = make_recipe("grpo", data={"verifier": "own_grader:grade"})
    with (
        open_plan(recipe, tmp_path / "run") as plan,
        pytest.raises(VerifierError, match=r"more than data\.verifier_crash_limit = 0\.5 allows"),
    ):
        stage(plan, Silent())


def test_crashes_below_the_limit_are_verdicts(make_recipe, write_verifier, tmp_path):
    write_verifier(CRASH)
    data = {"verifier": "own_grader:grade", "verifier_crash_limit": 1.0}
    with open_plan(make_recipe("grpo", data=data), tmp_path / "run") as plan:
        assert train_stage(plan, Silent()).step == 2
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line)["outcome_crashed"] > 0 for line in lines)
