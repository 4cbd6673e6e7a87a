"""A recipe in verl: its overrides are verl's own keys, and a whole run ends with an evaluation."""

import json

import pytest
import torch
from safetensors.torch import load_file

from dph.engines.stages.verl_command import VerlRun, commands, presample_overrides, train_overrides
from dph.engines.stages.verl_stage import SAME_IN_VERL
from dph.engines.verl.settings import apply_terms, presample_settings, train_settings
from dph.recipe import load_recipe, save_recipe
from dph.runs.directory import read_metrics
from engines.verl.session import CPU, dph_run
from engines.verl.small_world import MAX_TOKENS, build_small_world

RECIPE = """
name = "small"
method = "dph_f"
[model]
path = "model"
device = "cpu"
[data]
train = "problems.jsonl"
verifier = "sql"
databases = "world/databases"
[data.sets]
train = "problems.jsonl"
[sampling]
max_tokens = 24
[presample]
samples = 4
threshold = 4
[objective]
eta = 0.2
[train]
steps = 2
problems_per_step = 4
samples_per_problem = 4
rehearsal_per_step = 6
learning_rate = 1e-4
checkpoint_every = 1
[evaluate]
samples = 2
"""
OURS = ("trainer.", "+actor_rollout_ref.", "actor_rollout_ref.rollout.name")
"""What the recipe says itself, of what a machine without an accelerator needs."""


def verl_table():
    """The section that lets verl run on a CPU, and its Ray start on a busy machine."""
    said = [word for word in CPU if not word.startswith(OURS)]
    words = [*said, "+ray_kwargs.ray_init.num_gpus=1"]
    lines = "".join(f"  {json.dumps(word)},\n" for word in words)
    return f'[verl]\nrollout = "dph_torch"\noverrides = [\n{lines}]\n'


def run_of(directory, *overrides, text=RECIPE):
    """The recipe in ``directory``, as `dph run` gives it to verl."""
    (directory / "small.toml").write_text(text)
    recipe = load_recipe(directory / "small.toml", overrides=overrides).on_device(cuda=False)
    save_recipe(recipe, directory / "recipe.toml")
    return VerlRun(recipe=recipe, directory=directory, model=directory / "model", longest_prompt=40)


def without_hydra(words):
    return [word for word in words if not word.startswith("hydra.")]


def test_every_override_is_a_key_that_verl_has(tmp_path, composed):
    run = run_of(tmp_path, "data.system_prompt=Say: 'SELECT' = {x}", "data.chat=true")
    before = composed("dph_presample", *without_hydra(presample_overrides(run)))
    assert presample_settings(before).samples == 4
    config = composed("dph_train", *without_hydra(train_overrides(run)))
    settings = train_settings(config)
    apply_terms(config, settings.objective)
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert settings.system_prompt == "Say: 'SELECT' = {x}"
    assert settings.objective.anchors["rehearsal"].weight == 0.2
    assert settings.rehearsal_per_step == 6
    assert (actor.clip_ratio_low, actor.clip_ratio_high) == (0.2, 0.28)
    assert (actor.ppo_mini_batch_size, rollout.n, config.data.train_batch_size) == (2, 4, 4)
    assert list(actor.optim.betas) == [0.9, 0.95]
    assert actor.optim.override_optimizer_config.eps == 1e-8
    assert actor.optim.lr == 1e-4
    assert "hf_model" in actor.checkpoint.save_contents
    assert "hf_model" not in actor.checkpoint.load_contents
    assert (rollout.name, rollout.dtype) == ("vllm", "float32")
    assert rollout.max_model_len is None
    assert config.trainer.total_training_steps == 2
    assert config.trainer.device == "cpu"


def test_a_recipe_without_stored_answers_needs_no_pool(tmp_path, composed):
    text = RECIPE.replace('"dph_f"', '"grpo"').replace("[objective]\neta = 0.2\n", "")
    run = run_of(tmp_path, text=text)
    config = composed("dph_train", *without_hydra(train_overrides(run)))
    assert not train_settings(config).reads_pool
    assert next(c.what for c in commands(run, pool=False)) == "training"


@pytest.mark.slow
def test_dph_run_pre_samples_and_trains_in_verl_and_evaluates(tmp_path):
    build_small_world(tmp_path)
    assert f"max_tokens = {MAX_TOKENS}" in RECIPE
    (tmp_path / "small.toml").write_text(RECIPE + verl_table())
    with dph_run(tmp_path) as run:
        printed = [run() for _ in range(2)]
    assert printed[0] == printed[1]
    require_whole_run(tmp_path / "out", printed[0])


def require_whole_run(run, printed):
    assert printed["training"]["step"] == 2
    assert printed["pool"] is not None
    assert printed["evaluation"]["sets"]["train"]["problems"] == 18
    checkpoint = run / "checkpoints" / "step_000002"
    weights = load_file(checkpoint / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    lines = read_metrics(run / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert [name for name in SAME_IN_VERL if line[name] is None] == []
        assert line["grad_norm"] > 0
        assert 0 <= line["reward"] <= 1
        assert line["correct"] == line["outcome_correct"]
        assert 0 < line["completion_tokens"] <= MAX_TOKENS
    assert lines[0]["divergence"] == pytest.approx(0, abs=1e-3)
