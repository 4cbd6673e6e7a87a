"""A verifier whose file changes while a run stands still: told by name, accepted on request."""

import importlib
import json

import pytest

from dph.errors import CheckpointError, PoolError, VerifierError
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.training_stage import train_stage
from dph.runs.workbench import open_workbench

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
    with open_workbench(make_recipe("dph_f", data=data)) as bench:
        run_stages(bench, run, Silent())
    assert versions(run) == [("own_grader:grade", 1)]
    write_verifier(GRADE + "# a comment\n")
    longer = make_recipe("dph_f", data=data, train={"steps": 3, "keep_checkpoints": 1})
    with (
        open_workbench(longer) as bench,
        pytest.raises(CheckpointError, match=r"verifier file .*own_grader\.py .* changed since"),
    ):
        run_stages(bench, run, Silent())
    with open_workbench(longer, accept_verifier=True) as bench:
        assert run_stages(bench, run, Silent()).trained.step == 3
    assert versions(run) == [("own_grader:grade", 1), ("own_grader:grade", 3)]
    with open_workbench(longer) as bench:  # the pool of the earlier version is accepted with it
        assert run_stages(bench, run, Silent()).trained.step == 3


def test_a_finished_run_records_what_was_accepted(make_recipe, write_verifier, tmp_path):
    recipe = make_recipe("grpo", data={"verifier": "own_grader:grade"})
    with open_workbench(recipe) as bench:
        train_stage(bench, tmp_path / "run", Silent())
    write_verifier(GRADE + "# a comment\n")
    with open_workbench(recipe, accept_verifier=True) as bench:
        train_stage(bench, tmp_path / "run", Silent())
    with open_workbench(recipe) as bench:
        assert train_stage(bench, tmp_path / "run", Silent()).step == 2
    assert versions(tmp_path / "run") == [("own_grader:grade", 1), ("own_grader:grade", 3)]


@pytest.mark.parametrize("stage", [presample_stage, train_stage])
def test_a_pool_of_another_version_is_named_too(make_recipe, write_verifier, tmp_path, stage):
    recipe = make_recipe(data={"verifier": "own_grader:grade"})
    with open_workbench(recipe) as bench:
        presample_stage(bench, tmp_path / "run", Silent())
    write_verifier(GRADE + "# a comment\n")
    with (
        open_workbench(recipe) as bench,
        pytest.raises(PoolError, match=r"own_grader\.py .* changed since the pool .*pool was made"),
    ):
        stage(bench, tmp_path / "run", Silent())
    with open_workbench(recipe, accept_verifier=True) as bench:
        stage(bench, tmp_path / "run", Silent())


def test_an_evaluation_by_another_version_is_made_again_without_being_asked(
    make_recipe, write_verifier, tmp_path
):
    recipe = make_recipe("grpo", data={"verifier": "own_grader:grade"})
    documents = []
    for text in (GRADE, "def grade(response, problem):\n    return True\n"):
        write_verifier(text)
        with open_workbench(recipe) as bench:
            documents.append(
                evaluate_stage(bench, tmp_path / "e", Silent(), model=tmp_path / "model")
            )
    first, second = (document["sets"]["dev"] for document in documents)
    assert second["mean"] == pytest.approx(1 - second["cut_off"])
    assert first["mean"] < second["mean"]


@pytest.mark.parametrize(
    "stage",
    [
        presample_stage,
        train_stage,
        lambda bench, run, progress: evaluate_stage(
            bench, run, progress, model=bench.recipe.model.path
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
        open_workbench(recipe) as bench,
        pytest.raises(VerifierError, match=r"more than data\.verifier_crash_limit = 0\.5 allows"),
    ):
        stage(bench, tmp_path / "run", Silent())


def test_crashes_below_the_limit_are_verdicts(make_recipe, write_verifier, tmp_path):
    write_verifier(CRASH)
    data = {"verifier": "own_grader:grade", "verifier_crash_limit": 1.0}
    with open_workbench(make_recipe("grpo", data=data)) as bench:
        assert train_stage(bench, tmp_path / "run", Silent()).step == 2
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line)["outcome_crashed"] > 0 for line in lines)
