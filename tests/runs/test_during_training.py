import json

import pyarrow.parquet as pq
import pytest

from dph.errors import CheckpointError
from dph.records import Problem
from dph.runs.directory import RunDirectory
from dph.runs.evaluate.progress_file import measured_steps, read_progress_file
from dph.runs.evaluate.samples_file import read_token_details
from dph.runs.evaluate.scores import read_kept_problems
from dph.runs.finished_models import ends_of
from dph.runs.train.tracking import read_metrics
from dph.runs.training_stage import some_problems
from run_stages import evaluated, ran, trained

DURING = {"every": 1, "during": {"samples": 2, "problems": 4}, "keep_best": "dev/greedy"}


def test_a_run_with_everything_on_has_the_weights_and_the_digest_of_one_with_nothing(
    make_recipe, tmp_path
):
    plain = make_recipe("grpo", train={"keep_samples": "none"})
    full = make_recipe(
        "grpo", train={"keep_samples": "all"}, evaluate={**DURING, "token_details": 1}
    )
    first, second = ran(plain, tmp_path / "plain"), ran(full, tmp_path / "full")
    for name in ("model.safetensors", "optimizer.safetensors", "trainer.json"):
        assert (first.trained.checkpoint / name).read_bytes() == (
            second.trained.checkpoint / name
        ).read_bytes()
    assert (tmp_path / "plain" / "samples.parquet").read_bytes() == (
        tmp_path / "full" / "samples.parquet"
    ).read_bytes()
    assert not (tmp_path / "plain" / "training_samples").exists()
    run = tmp_path / "full"
    table = read_progress_file(run / "progress.parquet")
    assert measured_steps(table) == [0, 1, 2]
    assert table.num_rows == 3 * 4
    kept = pq.read_table(run / "training_samples" / "step_000002.parquet")
    assert kept.num_rows == 4 * 4
    assert json.loads(kept["prompt"][0].as_py()).startswith("say ")
    best = json.loads((run / "checkpoints" / "best.json").read_text())
    lines = {line["step"]: line for line in read_metrics(run / "metrics.jsonl")}
    assert best["value"] == lines[best["step"]]["eval/dev/greedy"]
    assert (run / "checkpoints" / f"step_{best['step']:06d}" / "config.json").is_file()
    problems = read_kept_problems(run / "problems.parquet")
    assert len(problems) == 6
    details = read_token_details(run / "tokens.parquet").to_pylist()
    assert len(details) == 6 * 2
    base = read_token_details(run / "base" / "tokens.parquet").to_pylist()
    assert all(row["logprobs"] == row["ref_logprobs"] for row in base)
    assert any(row["logprobs"] != row["ref_logprobs"] for row in details)
    assert all(len(row["pieces"]) == len(row["token_ids"]) for row in details)


@pytest.fixture
def best_recipe(make_recipe):
    """A run that ends with the best of its checkpoints."""

    def make(**sections):
        every = {"every": 1, "during": {"samples": 8}, "keep_best": "dev/mean", "result": "best"}
        train = {"steps": 2, "warmup_steps": 0, **sections.pop("train", {})}
        return make_recipe("grpo", evaluate=every, train=train, **sections)

    return make


def scores_by_step(run):
    lines = read_metrics(run / "metrics.jsonl")
    return {line["step"]: line["eval/dev/mean"] for line in lines}


def test_with_result_best_the_best_checkpoint_is_measured_at_the_end(best_recipe, tmp_path):
    # No weight moves, so that all steps score alike and the first of them is the best.
    recipe, run = best_recipe(train={"steps": 3, "learning_rate": 1e-12}), tmp_path / "run"
    found = ran(recipe, run)
    best = found.trained.checkpoint
    assert len(set(scores_by_step(run).values())) == 1
    assert best == run / "checkpoints" / "step_000001"
    assert found.trained.step == 3
    document = json.loads((run / "evaluation.json").read_text())
    assert document["model"] == str(best)
    assert RunDirectory(run).result(recipe.evaluate) == best
    assert ends_of(run).final == best
    # The same numbers as of an evaluation of that model alone: measured anew, not as it ran.
    alone = evaluated(recipe, tmp_path / "alone", model=best, base=run / "base")
    assert alone["sets"] == document["sets"]
    assert ran(recipe, run).trained == found.trained  # and kept so
    newest = recipe.evaluate.model_copy(update={"result": "newest"})
    newest = trained(recipe.model_copy(update={"evaluate": newest}), run)
    assert newest.checkpoint == run / "checkpoints" / "step_000003"


def test_a_result_that_was_never_scored_is_no_other_checkpoint(best_recipe, tmp_path):
    recipe = best_recipe()
    trained(recipe, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "best.json").unlink()
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* was measured by"):
        trained(recipe, tmp_path / "run")


def test_a_finished_run_is_measured_at_its_end_when_that_is_asked_for_later(make_recipe, tmp_path):
    run, recipe = tmp_path / "run", make_recipe("grpo", evaluate=DURING)
    trained(make_recipe("grpo"), run)
    assert trained(recipe, run).step == 2
    before = (run / "progress.parquet").stat().st_mtime_ns
    trained(recipe, run)
    assert measured_steps(read_progress_file(run / "progress.parquet")) == [0, 2]
    assert (run / "progress.parquet").stat().st_mtime_ns == before


def test_details_are_added_to_a_finished_evaluation_without_drawing_it_again(make_recipe, tmp_path):
    run = tmp_path / "run"
    evaluated(make_recipe("grpo"), run)
    (run / "problems.parquet").unlink()
    before = (run / "samples.parquet").stat().st_mtime_ns
    evaluated(make_recipe("grpo", evaluate={"token_details": 4}), run)
    assert (run / "samples.parquet").stat().st_mtime_ns == before
    assert len(read_kept_problems(run / "problems.parquet")) == 6
    assert read_token_details(run / "tokens.parquet").num_rows == 6 * 5


@pytest.mark.parametrize("count", [1, 5, 10, 11])
def test_some_problems_are_a_fixed_choice_in_the_order_of_the_set(count):
    problems = [Problem(problem_id=str(i), prompt="") for i in range(10)]
    chosen = some_problems(problems, name="dev", count=count, seed=3)
    assert len(chosen) == min(count, 10)
    assert list(chosen) == [p for p in problems if p in chosen]
    assert chosen == some_problems(problems, name="dev", count=count, seed=3)
    others = [some_problems(problems, name="dev", count=5, seed=seed) for seed in range(20)]
    assert len({tuple(p.problem_id for p in chosen) for chosen in others}) > 15  # of 252
