import json
import shutil

import pyarrow.parquet as pq
import pytest

import dph
from dph.errors import CheckpointError, PoolError, SettingsError
from dph.model import policies
from dph.recipe import load_recipe
from dph.runs import evaluation_stage as tracked_evaluation
from dph.runs import training_digest
from dph.runs.evaluate.samples_file import samples_digest
from dph.runs.presampling_stage import presample_stage
from dph.runs.train.tracking import read_metrics
from dph.runs.training_stage import train_stage
from own_advantage import COMPARING
from run_stages import evaluated, presampled, ran, staged, trained


def snapshot(directory):
    return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in directory.rglob("*") if p.is_file()}


def test_a_run_leaves_what_the_layout_says_and_a_second_start_changes_nothing(
    make_recipe, tmp_path, monkeypatch
):
    hashed, fingerprint = [], training_digest.directory_fingerprint
    noted = lambda path: hashed.append(path) or fingerprint(path)  # noqa: E731
    monkeypatch.setattr(training_digest, "directory_fingerprint", noted)
    run, recipe = tmp_path / "run", make_recipe()
    first = dph.run(recipe, run)
    assert first.trained.step == 2
    assert first.pool is not None
    assert hashed == [tmp_path / "model"]  # once
    for name in (
        "recipe.toml",
        "pool/manifest.json",
        "checkpoints/step_000002/model.safetensors",
        "metrics.jsonl",
        "samples.parquet",
        "base/evaluation.json",
        "base/samples.parquet",
    ):
        assert (run / name).is_file(), name
    assert json.loads((run / "evaluation.json").read_text()) == first.evaluation
    assert load_recipe(run / "recipe.toml") == recipe.on_device(cuda=False)
    before = snapshot(run)
    assert dph.run(run / "recipe.toml", str(run)) == first
    rewritten = run / "evaluation.json", run / "base" / "evaluation.json"
    assert {p: v for p, v in snapshot(run).items() if p not in rewritten} == {
        p: v for p, v in before.items() if p not in rewritten
    }


@pytest.mark.parametrize(
    ("method", "sections", "loads"),
    [
        ("dph_f", {}, ["model", "step_000002"]),
        ("rkl", {"evaluate": {"every": 1, "samples": 4}}, ["model", "step_000002"]),
        ("dph_f", {"model": {"adapter": {"kind": "lora", "rank": 2}}}, ["model"]),
        # Training took them over, and the tokens of its result are compared with them.
        ("grpo", {"evaluate": {"token_details": 1}}, ["model", "step_000002", "model"]),
    ],
)
def test_a_run_reads_the_initial_weights_once(
    make_recipe, tmp_path, monkeypatch, method, sections, loads
):
    read, load = [], policies.load_model
    noted = lambda path, **named: read.append(path.name) or load(path, **named)  # noqa: E731
    monkeypatch.setattr(policies, "load_model", noted)
    dph.run(make_recipe(method, **sections), tmp_path / "run")
    assert read == loads


def test_training_without_its_pool_says_what_to_do(make_recipe, tmp_path):
    with pytest.raises(PoolError, match="run `dph presample` first"):
        trained(make_recipe(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def with_anchor(make_recipe, pool, method="grpo", **sections):
    anchor = {"divergence": "forward_kl", "weight": 0.1, "samples": f"pool:{pool}"}
    return make_recipe(method, objective={"anchors": {"old": anchor}}, **sections)


def test_a_pool_that_is_only_explored_needs_no_stored_answer(make_recipe, tmp_path):
    presampled(make_recipe(), tmp_path / "other")
    explores = {"presample": {"threshold": 4}, "train": {"problems": "exploration"}}
    result = ran(with_anchor(make_recipe, tmp_path / "other/pool", **explores), tmp_path / "run")
    assert result.pool.counts.rehearsal == 0
    assert result.trained.step == 2


def test_a_run_goes_on_whose_anchor_names_the_runs_own_pool(make_recipe, tmp_path):
    run = tmp_path / "run"
    for steps in (1, 2):
        train = {"problems": "exploration", "steps": steps}
        recipe = with_anchor(make_recipe, run / "pool", train=train)
        assert ran(recipe, run).trained.step == steps


def test_a_store_of_longer_answers_than_a_fixed_length_divides_by_is_refused(make_recipe, tmp_path):
    longer = {"sampling": {"max_tokens": 9}, "presample": {"threshold": 1}}
    presampled(make_recipe(**longer), tmp_path / "other")
    recipe = with_anchor(make_recipe, tmp_path / "other/pool", sampling={"max_tokens": 1})
    fixed = recipe.objective.model_copy(update={"reduction": "fixed_length"})
    with pytest.raises(PoolError, match=r"other/pool holds an answer of \d tokens.* divides by 1"):
        trained(recipe.model_copy(update={"objective": fixed}), tmp_path / "run")


def test_a_store_that_is_missing_is_told_before_anything_is_sampled(make_recipe, tmp_path):
    with pytest.raises(PoolError, match="nowhere"):
        ran(with_anchor(make_recipe, tmp_path / "nowhere", "dph_f"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_pool_of_another_model_is_refused(make_recipe, make_model, tmp_path):
    presampled(make_recipe(), tmp_path / "run")
    recipe = make_recipe()
    make_model(seed=1).save_pretrained(tmp_path / "model")
    for stage in (presample_stage, train_stage):
        with pytest.raises(PoolError, match="model fingerprint was"):
            staged(stage, recipe, tmp_path / "run")


def test_a_continued_run_still_refuses_a_pool_that_was_exchanged(make_recipe, tmp_path):
    run = tmp_path / "run"
    presampled(make_recipe(), run)
    trained(make_recipe(), run)
    shutil.rmtree(run / "pool")
    presampled(make_recipe(presample={"samples": 3}), run)
    with pytest.raises(PoolError, match=r"presample\.samples was 3, this run has 4"):
        trained(make_recipe(train={"steps": 3}), run)


def test_a_run_directory_of_other_settings_or_another_model_is_refused(
    make_recipe, make_model, tmp_path
):
    run, recipe = tmp_path / "run", make_recipe("grpo")
    trained(recipe, run)
    said = (run / "recipe.toml").read_bytes()
    with pytest.raises(CheckpointError, match="made with other settings"):
        trained(make_recipe("grpo", train={"learning_rate": 1e-3}), run)
    assert (run / "recipe.toml").read_bytes() == said
    make_model(seed=1).save_pretrained(tmp_path / "model")
    with pytest.raises(CheckpointError, match="made with other settings"):
        trained(recipe, run)


def test_evaluation_needs_a_set(make_recipe, tmp_path):
    recipe = make_recipe("grpo", data={"sets": {}})
    with pytest.raises(SettingsError, match="names no evaluation set"):
        evaluated(recipe, tmp_path / "e")
    assert ran(recipe, tmp_path / "run").evaluation is None


def test_a_set_may_have_its_own_verifier_and_no_style(make_recipe, tmp_path):
    dev = {"path": str(tmp_path / "dev.jsonl")}
    sets = {"dev": dev, "strict": {**dev, "verifier": "letter_grader:grade_strictly"}}
    evaluated(make_recipe(data={"sets": sets}), tmp_path / "e")
    rows = pq.read_table(tmp_path / "e" / "samples.parquet").to_pylist()
    assert {row["outcome"] for row in rows if row["set"] == "strict"} <= {"WRONG", "CUT_OFF"}
    assert any(row["outcome"] == "CORRECT" for row in rows if row["set"] == "dev")


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
    recipe = make_recipe(track={"to": ["wandb"], "answers": 3})
    found = evaluated(recipe, tmp_path / "base")
    evaluated(recipe, tmp_path / "base")
    (told,) = made
    assert told.name == f"{recipe.name}-evaluation-base"
    for name, of_set in found["sets"].items():
        assert told.metrics[f"eval/{name}/mean"] == of_set["mean"]
    assert [table.name for _, table in told.tables] == [f"samples/{one}" for one in found["sets"]]
    assert all(len(table.rows) == 3 < table.answers for _, table in told.tables)
    assert told.closed


def test_a_moved_run_with_a_moved_model_goes_on(make_recipe, tmp_path):
    trained(make_recipe("grpo"), tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    (tmp_path / "model").rename(tmp_path / "model2")
    longer = make_recipe("grpo", train={"steps": 3}, model={"path": str(tmp_path / "model2")})
    assert trained(longer, tmp_path / "moved").step == 3


def test_samples_of_another_precision_are_not_taken_for_this_ones(make_recipe, tmp_path):
    digests = set()
    for dtype in ("float32", "bfloat16"):
        evaluated(make_recipe(model={"dtype": dtype}), tmp_path / "e")
        digests.add(samples_digest(tmp_path / "e" / "samples.parquet"))
    assert len(digests) == 2


def test_a_gold_that_failed_for_one_model_does_not_stop_the_comparison(make_recipe, tmp_path):
    evaluated(make_recipe(), tmp_path / "base")
    path = tmp_path / "base" / "samples.parquet"
    table = pq.read_table(path)
    outcomes = ["BAD_GOLD", *table["outcome"].to_pylist()[1:]]
    place = table.schema.get_field_index("outcome")
    pq.write_table(table.set_column(place, "outcome", [outcomes]), path)
    document = evaluated(make_recipe(), tmp_path / "e", base=tmp_path / "base")
    assert document["sets"]["dev"]["problems"] == 5


def test_a_damaged_pool_is_told_by_pre_sampling_too(make_recipe, tmp_path):
    presampled(make_recipe(), tmp_path / "run")
    with (tmp_path / "run" / "pool" / "rehearsal.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(PoolError, match="remove the pool and pre-sample again"):
        presampled(make_recipe(), tmp_path / "run")


@pytest.mark.parametrize(
    ("method", "objective", "pool"),
    [
        ("rkl", {}, False),
        ("grpo", {"advantage": {"kind": COMPARING}}, False),
        ("dph_f", {}, True),
        pytest.param("flowrl", {}, False, marks=pytest.mark.slow),
    ],
)
def test_only_a_method_that_reads_a_pool_makes_one(tmp_path, make_recipe, method, objective, pool):
    result = ran(make_recipe(method, objective=objective), tmp_path / "run")
    assert result.trained.step == 2
    assert (result.pool is not None) == (tmp_path / "run" / "pool").exists() == pool
    assert any(line["grad_norm"] > 0 for line in read_metrics(tmp_path / "run" / "metrics.jsonl"))
