"""A recipe's training in TRL: the first step is our own, and what is left behind can be used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import first_step
from dph.engines.stages.engine_log import LogReader
from dph.engines.stages.trl_stage import LOG, MODEL, trl_arguments
from dph.engines.trl.config import DPHConfig
from dph.engines.trl.run_recipe import main, make_trainer
from dph.engines.trl_rows import TRL_ROWS
from dph.model.policies import load_policy
from dph.recipe import load_recipe
from dph.runs.directory import read_metrics
from dph.runs.plan import open_plan
from dph.runs.presampling_stage import pool_source
from dph.tasks.problems import save_problems
from small_pools import write_pool_of
from tiny_models import build_tokenizer

ROOT = Path(__file__).parents[3]
RECIPE = """
method = "grpo"
[model]
path = "model"
device = "cpu"
[data]
train = "problems.jsonl"
[sampling]
temperature = {temperature}
max_tokens = {max_tokens}
[presample]
pool = "pool"
[objective.advantage]
scale = "none"
[objective.surrogate]
clip_low = 0.2
clip_high = 0.28
[objective.anchors.rehearsal]
divergence = "forward_kl"
form = "nll"
weight = {eta}
[train]
engine = "trl"
steps = 1
problems_per_step = 4
samples_per_problem = 4
rehearsal_per_step = 8
minibatches = 1
microbatch_tokens = 60
"""


@pytest.fixture
def run(tmp_path):
    """A run directory with the recipe of the first step, its model, problems and pool."""
    model = first_step.make_model()
    model.save_pretrained(tmp_path / "model")
    build_tokenizer().save_pretrained(tmp_path / "model")
    save_problems(tmp_path / "problems.jsonl", first_step.problems())
    rows = first_step.stored_rows()
    write_pool_of(model, tmp_path / "pool", rows, temperature=first_step.TEMPERATURE)
    text = RECIPE.format(
        temperature=first_step.TEMPERATURE, max_tokens=first_step.MAX_TOKENS, eta=first_step.ETA
    )
    (tmp_path / "recipe.toml").write_text(text)
    return tmp_path


def written_rollout(prompts, _trainer):
    """TRL's rollout: the answers that are written down, in the place of drawn ones."""
    seen, rows = {}, {"prompt_ids": [], "completion_ids": [], "logprobs": []}
    for prompt in prompts:
        place = seen[prompt] = seen.get(prompt, -1) + 1
        tokens, _ = first_step.groups()[prompt][place]
        rows["prompt_ids"].append(build_tokenizer().encode(prompt))
        rows["completion_ids"].append(list(tokens))
        rows["logprobs"].append([0.0] * len(tokens))
    return rows


def written_rewards(prompts, completion_ids, **_):
    known = {
        (prompt, tokens): reward
        for prompt, answers in first_step.groups().items()
        for tokens, reward in answers
    }
    return [known[p, tuple(ids)] for p, ids in zip(prompts, completion_ids, strict=True)]


@pytest.mark.parametrize("tokens", [60, 4096], ids=["micro-steps", "at once"])
def test_the_first_step_has_the_loss_and_the_gradient_norm_of_our_own_engine(
    run, tokens, monkeypatch
):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    recipe = load_recipe(run / "recipe.toml", overrides=[f"train.microbatch_tokens={tokens}"])
    with open_plan(recipe, run) as plan:
        trainer = make_trainer(plan)
        assert (trainer.args.gradient_accumulation_steps > 1) == (tokens == 60)
        trainer.rollout_func = written_rollout
        trainer.reward_funcs = [written_rewards]
        trainer.train()
    ((step, logged),) = LogReader(run / "trl" / LOG).new_lines()
    loss, norm = first_step.own_step()
    assert step == 1
    assert logged["loss"] == pytest.approx(loss, rel=first_step.AGREE)
    assert logged["grad_norm"] == pytest.approx(norm, rel=first_step.AGREE)
    # Both terms are there to be seen.
    assert abs(loss) > 1e-3
    assert norm > 1e-2


def test_every_field_that_the_table_names_is_one_of_the_trainer(run):
    named = {row.key for row in TRL_ROWS.values() if row.kind == "engine"}
    arguments = {"model", "train_dataset", "reward_funcs", "processing_class", "optimizers"}
    arguments.add("rollout_func")
    fields = set(DPHConfig.__dataclass_fields__)
    assert named - arguments - fields == {"accelerate launch --num_processes"}
    recipe = load_recipe(run / "recipe.toml", overrides=["sampling.engine=vllm"])
    told = trl_arguments(recipe, run, longest_prompt=6, cuda=False)
    assert set(told) <= fields
    # Those that the objective becomes are set by DPHConfig itself.
    by_objective = {"scale_rewards", "epsilon", "epsilon_high", "beta", "loss_type"}
    missing = named & fields - set(told)
    assert missing == by_objective | {"mask_truncated_completions"}


def test_the_recipes_objective_is_that_of_the_trainer(run):
    recipe = load_recipe(run / "recipe.toml", overrides=["objective.reduction=sequence_mean"])
    args = DPHConfig(**trl_arguments(recipe, run, longest_prompt=6, cuda=False))
    assert (args.epsilon, args.epsilon_high, args.loss_type) == (0.2, 0.28, "grpo")
    assert args.scale_rewards == "none"
    assert args.terms.anchors["rehearsal"].weight == first_step.ETA
    assert args.stores_in_use == {}


def test_an_error_of_this_package_is_one_line(run, capsys):
    (run / "recipe.toml").write_text((run / "recipe.toml").read_text() + "[data.sets]\nx = 3\n")
    assert main([str(run)]) == 1
    assert capsys.readouterr().err.startswith("dph: ")


def test_interrupted_training_goes_on_from_trls_checkpoint(run):
    text = (run / "recipe.toml").read_text() + "checkpoint_every = 1\n"
    (run / "recipe.toml").write_text(text)
    assert main([str(run)]) == 0
    (run / "recipe.toml").write_text(text.replace("steps = 1\n", "steps = 2\n"))
    assert main([str(run)]) == 0
    steps = [step for step, _ in LogReader(run / "trl" / LOG).new_lines()]
    assert steps == [1, 2]
    assert (run / "trl" / MODEL / "model.safetensors").is_file()
    assert (run / "trl" / "checkpoint-2").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_dph_run_trains_by_trl_evaluates_and_keeps_what_is_done(run, processes):
    text = (run / "recipe.toml").read_text() + '[data.sets]\nsame = "problems.jsonl"\n'
    text += "[evaluate]\nsamples = 2\n"
    text = text.replace("minibatches = 1", "minibatches = 2").replace('"pool"', '"true-pool"')
    (run / "small.toml").write_text(text)
    with open_plan(load_recipe(run / "small.toml"), run) as plan:
        model = load_policy(plan.initial, plan.recipe.model, initial=plan.initial)
        source, grading = pool_source(plan, model), plan.grading
    write_pool_of(
        model,
        run / "true-pool",
        first_step.stored_rows(),
        grading=grading,
        **source.model_dump(exclude={"model"}),
    )
    command = [sys.executable, "-m", "dph", "run", "small.toml", "--engine", "trl", "--json"]
    command += ["--processes", str(processes), "--out", "out", "--set", "train.steps=2"]
    command += ["--set", "train.rehearsal_per_step=8"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    printed = []
    for _ in range(2):
        done = subprocess.run(
            command, cwd=run, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        printed.append(json.loads(done.stdout))
    assert printed[0] == printed[1]
    assert printed[0]["training"]["step"] == 2
    assert printed[0]["evaluation"]["sets"]["same"]["problems"] == 4
    checkpoint = run / "out" / "checkpoints" / "step_000002"
    assert {path.name for path in checkpoint.iterdir()} >= {"model.safetensors", "trainer.json"}
    assert not list(checkpoint.glob("*.bin"))
    lines = read_metrics(run / "out" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert line["grad_norm"] > 0
        assert 0 < line["completion_tokens"] <= first_step.MAX_TOKENS
        outcomes = [value for name, value in line.items() if name.startswith("outcome_")]
        assert sum(outcomes) == pytest.approx(1)
