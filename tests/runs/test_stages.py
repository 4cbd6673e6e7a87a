"""The stages of a run, one after another, on the letter task."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from dph.errors import CheckpointError, PoolError, SettingsError
from dph.runs import evaluation_stage as tracked_evaluation
from dph.runs.evaluate.samples_file import samples_digest
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.presample.pool import load_pool
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.train.tracking import read_metrics
from dph.runs.training_stage import train_stage
from own_advantage import COMPARING, COUNTING


def snapshot(directory):
    return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in directory.rglob("*") if p.is_file()}


def test_a_run_leaves_what_the_layout_says(make_recipe, tmp_path):
    run = tmp_path / "run"
    with open_plan(make_recipe(), run) as plan:
        result = run_stages(plan, Silent())
    assert result.trained.step == 2
    for name in (
        "recipe.toml",
        "pool/manifest.json",
        "checkpoints/step_000002/model.safetensors",
        "metrics.jsonl",
        "evaluation.json",
        "samples.parquet",
        "base/evaluation.json",
        "base/samples.parquet",
    ):
        assert (run / name).is_file(), name
    assert json.loads((run / "evaluation.json").read_text()) == result.evaluation


def test_a_finished_run_is_not_done_again(make_recipe, tmp_path):
    run = tmp_path / "run"
    with open_plan(make_recipe(), run) as plan:
        first = run_stages(plan, Silent())
        before = snapshot(run)
        again = run_stages(plan, Silent())
    assert again == first
    kept = {p: v for p, v in snapshot(run).items() if p.name not in ("evaluation.json",)}
    assert kept == {p: v for p, v in before.items() if p.name not in ("evaluation.json",)}


@pytest.mark.parametrize("method", ["grpo", "dyjr"])
def test_methods_that_rehearse_nothing_stored_need_no_pool(make_recipe, tmp_path, method):
    with open_plan(make_recipe(method), tmp_path / "run") as plan:
        result = run_stages(plan, Silent())
    assert result.pool is None
    assert not (tmp_path / "run" / "pool").exists()


def test_training_without_its_pool_says_what_to_do(make_recipe, tmp_path):
    with (
        open_plan(make_recipe(), tmp_path / "run") as plan,
        pytest.raises(PoolError, match="run `dph presample` first"),
    ):
        train_stage(plan, Silent())
    assert not (tmp_path / "run").exists()


def test_exploration_leaves_out_what_is_rehearsed(make_recipe, tmp_path):
    with open_plan(make_recipe(), tmp_path / "run") as plan:
        presample_stage(plan, Silent())
    pool = load_pool(tmp_path / "run" / "pool")
    assert not {p.problem_id for p in pool.exploration} & {s.problem_id for s in pool.rehearsal}
    assert pool.rehearsal


def test_a_pool_that_is_only_explored_needs_no_stored_answer(make_recipe, tmp_path):
    with open_plan(make_recipe(), tmp_path / "other") as plan:
        presample_stage(plan, Silent())
    anchor = {
        "divergence": "forward_kl",
        "weight": 0.1,
        "samples": f"pool:{tmp_path / 'other' / 'pool'}",
    }
    recipe = make_recipe(
        "grpo",
        objective={"anchors": {"old": anchor}},
        presample={"threshold": 4},
        train={"problems": "exploration"},
    )
    with open_plan(recipe, tmp_path / "run") as plan:
        result = run_stages(plan, Silent())
    assert result.pool.counts.rehearsal == 0
    assert result.trained.step == 2


def test_a_run_goes_on_whose_anchor_names_the_runs_own_pool(make_recipe, tmp_path):
    run = tmp_path / "run"
    anchor = {"divergence": "forward_kl", "weight": 0.1, "samples": f"pool:{run / 'pool'}"}
    for steps in (1, 2):
        recipe = make_recipe(
            "grpo",
            objective={"anchors": {"old": anchor}},
            train={"problems": "exploration", "steps": steps},
        )
        with open_plan(recipe, run) as plan:
            assert run_stages(plan, Silent()).trained.step == steps


def test_a_store_that_is_missing_is_told_before_anything_is_sampled(make_recipe, tmp_path):
    anchor = {"divergence": "forward_kl", "weight": 0.1, "samples": f"pool:{tmp_path / 'nowhere'}"}
    recipe = make_recipe("dph_f", objective={"anchors": {"old": anchor}})
    with open_plan(recipe, tmp_path / "run") as plan, pytest.raises(PoolError, match="nowhere"):
        run_stages(plan, Silent())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("stage", [presample_stage, train_stage])
def test_a_pool_of_another_model_is_refused(make_recipe, make_model, tmp_path, stage):
    with open_plan(make_recipe(), tmp_path / "run") as plan:
        presample_stage(plan, Silent())
        make_model(seed=1).save_pretrained(tmp_path / "model")
        with pytest.raises(PoolError, match="model fingerprint was"):
            stage(plan, Silent())


def test_a_continued_run_still_refuses_a_pool_that_was_exchanged(make_recipe, tmp_path):
    run = tmp_path / "run"
    with open_plan(make_recipe(), run) as plan:
        presample_stage(plan, Silent())
        train_stage(plan, Silent())
    shutil.rmtree(run / "pool")
    with open_plan(make_recipe(presample={"samples": 3}), run) as plan:
        presample_stage(plan, Silent())
    with (
        open_plan(make_recipe(train={"steps": 3}), run) as plan,
        pytest.raises(PoolError, match="presample.samples was 3, this run has 4"),
    ):
        train_stage(plan, Silent())


def test_a_run_directory_of_other_settings_is_refused(make_recipe, tmp_path):
    run = tmp_path / "run"
    with open_plan(make_recipe("grpo"), run) as plan:
        train_stage(plan, Silent())
    recipe = (run / "recipe.toml").read_bytes()
    with (
        open_plan(make_recipe("grpo", train={"learning_rate": 1e-3}), run) as plan,
        pytest.raises(CheckpointError, match="made with other settings"),
    ):
        train_stage(plan, Silent())
    assert (run / "recipe.toml").read_bytes() == recipe


def test_evaluation_needs_a_set(make_recipe, tmp_path):
    recipe = make_recipe(data={"sets": {}})
    with open_plan(recipe, tmp_path / "run") as plan:
        with pytest.raises(SettingsError, match="names no evaluation set"):
            evaluate_stage(plan, tmp_path / "e", Silent(), model=tmp_path / "model")
        result = run_stages(plan, Silent())
    assert result.evaluation is None


def test_the_base_model_compared_with_itself_keeps_its_null(make_recipe, tmp_path):
    with open_plan(make_recipe(), tmp_path / "e") as plan:
        document = evaluate_stage(plan, tmp_path / "e", Silent(), model=tmp_path / "model")
    scores = document["sets"]["dev"]
    assert scores["keep"] == scores["keep_null"]
    assert scores["explore"] == scores["explore_null"]
    assert set(scores["styles"]) <= {"short", "long"}


def test_a_set_may_have_its_own_verifier_and_no_style(make_recipe, tmp_path):
    sets = {
        "dev": {"path": str(tmp_path / "dev.jsonl")},
        "strict": {
            "path": str(tmp_path / "dev.jsonl"),
            "verifier": "letter_grader:grade_strictly",
        },
    }
    with open_plan(make_recipe(data={"sets": sets}), tmp_path / "e") as plan:
        evaluate_stage(plan, tmp_path / "e", Silent(), model=tmp_path / "model")
    rows = pq.read_table(tmp_path / "e" / "samples.parquet").to_pylist()
    assert {row["outcome"] for row in rows if row["set"] == "strict"} <= {"WRONG", "CUT_OFF"}
    assert any(row["outcome"] == "CORRECT" for row in rows if row["set"] == "dev")


def test_a_method_with_a_reference_model_trains(make_recipe, tmp_path):
    with open_plan(make_recipe("rkl"), tmp_path / "run") as plan:
        assert train_stage(plan, Silent()).step == 2


def test_an_evaluation_is_told_to_trackers_once_with_scores_and_answers(
    make_recipe, tmp_path, monkeypatch
):
    made = []

    class Told:
        def __init__(self, name):
            self.name, self.metrics, self.tables, self.closed = name, {}, [], False
            made.append(self)

        def log(self, metrics, *, step):
            self.metrics |= metrics | {"at": step}

        def log_tables(self, tables, *, step):
            self.tables += [(step, table) for table in tables]

        def close(self):
            self.closed = True

    monkeypatch.setattr(tracked_evaluation, "open_trackers", lambda *_, name: Told(name))
    with open_plan(make_recipe(track={"to": ["wandb"], "answers": 3}), tmp_path / "base") as plan:
        found = evaluate_stage(plan, tmp_path / "base", Silent(), model=plan.initial)
        evaluate_stage(plan, tmp_path / "base", Silent(), model=plan.initial)
    (told,) = made
    assert told.name == f"{plan.recipe.name}-evaluation-base"
    for name, of_set in found["sets"].items():
        assert told.metrics[f"eval/{name}/mean"] == of_set["mean"]
    assert [table.name for _, table in told.tables] == [f"samples/{one}" for one in found["sets"]]
    assert all(len(table.rows) == 3 < table.answers for _, table in told.tables)
    assert told.closed


def test_silence_takes_everything():
    with Silent().task("a", 1, "b") as advance:
        advance(1, "note")
    Silent().say("something")


def test_a_moved_run_with_a_moved_model_goes_on(make_recipe, tmp_path):
    with open_plan(make_recipe("grpo"), tmp_path / "run") as plan:
        train_stage(plan, Silent())
    (tmp_path / "run").rename(tmp_path / "moved")
    (tmp_path / "model").rename(tmp_path / "model2")
    longer = make_recipe("grpo", train={"steps": 3}, model={"path": str(tmp_path / "model2")})
    with open_plan(longer, tmp_path / "moved") as plan:
        assert train_stage(plan, Silent()).step == 3


def test_a_run_of_another_model_is_refused(make_recipe, make_model, tmp_path):
    recipe = make_recipe("grpo")
    with open_plan(recipe, tmp_path / "run") as plan:
        train_stage(plan, Silent())
    make_model(seed=1).save_pretrained(tmp_path / "model")
    with (
        open_plan(recipe, tmp_path / "run") as plan,
        pytest.raises(CheckpointError, match="made with other settings"),
    ):
        train_stage(plan, Silent())


def test_samples_of_another_precision_are_not_taken_for_this_ones(make_recipe, tmp_path):
    digests = []
    for dtype in ("float32", "bfloat16"):
        with open_plan(make_recipe(model={"dtype": dtype}), tmp_path / "e") as plan:
            evaluate_stage(plan, tmp_path / "e", Silent(), model=tmp_path / "model")
        digests.append(samples_digest(tmp_path / "e" / "samples.parquet"))
    assert digests[0] != digests[1]


def test_a_gold_that_failed_for_one_model_does_not_stop_the_comparison(make_recipe, tmp_path):
    with open_plan(make_recipe(), tmp_path / "base") as plan:
        evaluate_stage(plan, tmp_path / "base", Silent(), model=tmp_path / "model")
        path = tmp_path / "base" / "samples.parquet"
        table = pq.read_table(path)
        outcomes = ["BAD_GOLD", *table["outcome"].to_pylist()[1:]]
        place = table.schema.get_field_index("outcome")
        pq.write_table(table.set_column(place, "outcome", [outcomes]), path)
        document = evaluate_stage(
            plan, tmp_path / "e", Silent(), model=tmp_path / "model", base=tmp_path / "base"
        )
    assert document["sets"]["dev"]["problems"] == 5


def test_a_damaged_pool_is_told_by_pre_sampling_too(make_recipe, tmp_path):
    with open_plan(make_recipe(), tmp_path / "run") as plan:
        presample_stage(plan, Silent())
        with (tmp_path / "run" / "pool" / "rehearsal.parquet").open("ab") as file:
            file.write(b"x")
        with pytest.raises(PoolError, match="remove the pool and pre-sample again"):
            presample_stage(plan, Silent())


@pytest.mark.parametrize("method", ["bbg", "alpha_dpg"])
def test_a_method_that_reads_the_initial_policys_counts_makes_its_pool_and_trains(
    tmp_path, make_recipe, method
):
    with open_plan(make_recipe(method), tmp_path / "run") as plan:
        result = run_stages(plan, Silent())
    assert result.trained.step == 2
    assert result.pool is not None
    metrics = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert any(line["grad_norm"] > 0 for line in metrics)


def test_an_advantage_of_ones_own_may_read_the_counts_too(tmp_path, make_recipe):
    recipe = make_recipe("grpo", objective={"advantage": {"kind": COUNTING}})
    assert not recipe.needs_pool  # its code is not asked before it has to run
    with open_plan(recipe, tmp_path / "run") as plan:
        with pytest.raises(PoolError, match=r"there is no pool in .* run `dph presample` first"):
            train_stage(plan, Silent())
        result = run_stages(plan, Silent())
    assert result.trained.step == 2
    assert result.pool is not None


@pytest.mark.parametrize(
    ("method", "objective"), [("grpo", {"advantage": {"kind": COMPARING}}), ("flowrl", {})]
)
def test_an_advantage_may_compare_with_the_initial_policy_without_a_pool(
    tmp_path, make_recipe, method, objective
):
    recipe = make_recipe(method, objective=objective)
    with open_plan(recipe, tmp_path / "run") as plan:
        result = run_stages(plan, Silent())
    assert result.trained.step == 2
    assert result.pool is None
    assert any(line["grad_norm"] > 0 for line in read_metrics(tmp_path / "run" / "metrics.jsonl"))
