"""Environments in TRL: a recipe's first step is our own, and so is that of TRL's own factory."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers as tf
from datasets import Dataset
from dph.engines.stages.trl_stage import LOG, arguments_of
from dph.engines.trl.run_recipe import main, make_trainer
from dph.engines.trl.trajectories import VERDICT
from dph.runs.presample.stores.store import load_store
from dph.runs.store_stage import store_stage
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import add_response_schema, qwen3_chat_template

from asking_policy import TURN, initial_policy, make_tokenizer, problems
from dph import Outcome, Problem, SettingsError
from dph.engines.stages.engine_log import LogReader
from dph.loss.objectives import make_objective
from dph.recipe import ObjectiveSettings, resolve_recipe, save_recipe
from dph.runs.directory import read_metrics
from dph.runs.plan import open_plan
from dph.runs.presample.pool import load_pool
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.train.collect import Group
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.policy_rows import Scorers, policy_rows
from dph.runs.train.rows import Minibatch
from dph.runs.train.updating import update
from dph.runs.training_stage import train_stage
from dph.tasks.environments import Environment
from dph.tasks.problems import save_problems
from environment_classes import IncrementTo
from scripted_policy import END, by_steps_of, byte_tokenizer, make_draw

TESTS = Path(__file__).parents[2]
AGREE = 1e-5


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model that sometimes asks, and problems."""
    place = tmp_path_factory.mktemp("asking")
    tokenizer = make_tokenizer()
    initial_policy(tokenizer).save_pretrained(place / "model")
    tokenizer.save_pretrained(place / "model")
    save_problems(place / "train.jsonl", problems()[:6])
    return place


def make_recipe(place, engine="trl", **sections):
    table = {
        "method": "dph_f",
        "model": {"path": str(place / "model"), "device": "cpu", "threads": 1},
        "data": {"train": str(place / "train.jsonl"), "modules": [str(TESTS)]},
        "environment": {
            "path": "environment_classes:Lookup",
            "form": "plain",
            "hidden": ["answer"],
            "tokens": 4 * TURN,
            "turns": 4,
        },
        "sampling": {"max_tokens": TURN},
        "presample": {"samples": 8, "threshold": 1, "keep": 8, "pool": str(place / "pool")},
        "objective": {"advantage": {"scale": "none"}},
        "train": {
            "engine": engine,
            "problems": "all",
            "steps": 1,
            "problems_per_step": 6,
            "samples_per_problem": 16,
            "rehearsal_per_step": 12,
            "minibatches": 1,
        },
    }
    for name, values in sections.items():
        table[name] = {**table.get(name, {}), **values} if isinstance(values, dict) else values
    return resolve_recipe(table)


def own_step(place, directory):
    with open_plan(make_recipe(place, "own"), directory) as plan:
        presample_stage(plan, Silent())
        train_stage(plan, Silent())
    (line,) = read_metrics(directory / "metrics.jsonl")
    return line


def trl_steps(recipe, directory):
    directory.mkdir()
    save_recipe(recipe, directory / "recipe.toml")
    assert main([str(directory)]) == 0
    return [logged for _, logged in LogReader(directory / "trl" / LOG).new_lines()]


def test_the_first_step_of_a_recipe_is_that_of_our_own_engine(place, tmp_path):
    own = own_step(place, tmp_path / "own")
    stored = load_pool(place / "pool").rehearsal
    assert any(sample.written and not all(sample.written) for sample in stored)
    # Rows of 24 tokens and a prompt: all at once, and a few to a micro-step.
    for tokens in (10_000, 400):
        small = make_recipe(place).train.model_dump() | {"microbatch_tokens": tokens}
        (trl,) = trl_steps(make_recipe(place, train=small), tmp_path / f"trl{tokens}")
        assert trl["reward"] == pytest.approx(own["reward"], abs=1e-6)
        assert trl["loss"] == pytest.approx(own["policy_loss"], rel=AGREE)
        assert trl["grad_norm"] == pytest.approx(own["grad_norm"], rel=AGREE)
        assert trl["completions/mean_length"] == pytest.approx(own["completion_tokens"])
        assert trl["dph/outcome_wrong"] == pytest.approx(own["outcome_wrong"])
    assert abs(own["policy_loss"]) > 1e-3  # there is something to compare


def test_stored_trajectories_with_distributions_are_rehearsed_as_in_our_own_engine(place, tmp_path):
    hidden = [
        replace(
            p, problem_id=f"u {p.problem_id}", answer={k: p.answer[k] for k in ("key", "value")}
        )
        for p in problems()[6:14]
    ]
    save_problems(tmp_path / "more.jsonl", hidden)
    store = {"file": str(tmp_path / "more.jsonl"), "novel": False, "answers": 8}
    broad = {
        "method": "dph_broad",
        "stores": {"broad": {**store, "place": str(tmp_path / "store")}},
        "objective": {
            "advantage": {"scale": "none"},
            "anchors": {"broad": {"per_step": 12, "whole_prompts": False, "weight": 0.15}},
        },
        "consolidation": {"updates": 0},
    }
    with open_plan(make_recipe(place, "own", **broad), tmp_path / "own") as plan:
        store_stage(plan, Silent())
        train_stage(plan, Silent())
    (own,) = read_metrics(tmp_path / "own" / "metrics.jsonl")
    assert any(not all(row.written) for row in load_store(tmp_path / "store"))
    (trl,) = trl_steps(make_recipe(place, **broad), tmp_path / "trl")
    assert own["divergence"] > 1e-3
    assert trl["broad/loss"] == pytest.approx(own["divergence"], rel=AGREE)
    whole = own["policy_loss"] + 0.15 * own["divergence"]
    assert trl["loss"] == pytest.approx(whole, rel=AGREE)
    assert trl["grad_norm"] == pytest.approx(own["grad_norm"], rel=AGREE)


@pytest.fixture
def plan(place, tmp_path):
    with open_plan(make_recipe(place, method="grpo"), tmp_path) as plan:
        yield plan


def rolled_out(trajectories, ids, process=0):
    """A rollout of 4 trajectories of each problem, in a process of several."""
    trainer = SimpleNamespace(
        asked=[{"problem_id": name} for name in ids],
        rollout=3,
        num_generations=4,
        pad_id=0,
        accelerator=SimpleNamespace(process_index=process),
    )
    return trajectories([], trainer)


def test_processes_that_share_a_group_draw_what_one_would(plan):
    trajectories = make_trainer(plan).rollout_func
    ids = [problem.problem_id for problem in problems()[:3] for _ in range(4)]
    whole = rolled_out(trajectories, ids)
    first, second = (rolled_out(trajectories, ids[6 * p : 6 * p + 6], p) for p in range(2))
    for name in ("prompt_ids", "completion_ids", "env_mask", VERDICT):
        assert whole[name] == first[name] + second[name]


def test_a_trajectory_that_cannot_begin_has_no_reward(plan):
    trainer = make_trainer(plan)
    broken = {"broken": Problem(problem_id="broken", prompt="k0", answer={"nothing": 1})}
    drawing = replace(trainer.rollout_func.draw, crash_limit=1.0)
    told = rolled_out(replace(trainer.rollout_func, draw=drawing, problems=broken), ["broken"] * 4)
    assert (told["completion_ids"], told["env_mask"]) == ([[0]] * 4, [[0]] * 4)
    assert {verdict.outcome for verdict in told[VERDICT]} == {Outcome.CRASHED}
    rewards = trainer.reward_funcs[0](
        problem_id=["broken"] * 4, verdict=told[VERDICT], log_metric=lambda *_: None
    )
    assert rewards == [None] * 4


def test_a_filter_that_trl_could_not_apply_is_refused(place, tmp_path):
    recipe = make_recipe(place, objective={"overlong_filter": True})
    with (
        open_plan(recipe, tmp_path) as plan,
        pytest.raises(SettingsError, match=r"overlong_filter = true.*\[environment\] in TRL"),
    ):
        arguments_of(plan)


class ScriptedTrainer(GRPOTrainer):
    """TRL with its own tools and masks, whose policy says what a script says."""

    def _generate_single_turn(self, prompt_ids, *_, **__):
        tokenizer, rows = self.processing_class, getattr(self, "acting", range(len(prompt_ids)))
        said = [
            self.script(tokenizer.decode(ids), row % self.num_generations)
            for ids, row in zip(prompt_ids, rows, strict=True)
        ]
        self.acting = [row for row, text in zip(rows, said, strict=True) if "<tool_call>" in text]
        return [tokenizer.encode(text + END) for text in said], None

    def _compute_loss(self, model, inputs):
        self.seen = inputs
        return super()._compute_loss(model, inputs)


def small_model(tokenizer):
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "max_position_embeddings": 4096, "initializer_range": 0.3}
    return tf.LlamaForCausalLM(tf.LlamaConfig(vocab_size=len(tokenizer), **size, **heads))


def test_the_first_step_of_trls_own_factory_is_ours(tmp_path):
    tokenizer = byte_tokenizer(qwen3_chat_template)
    tokenizer.pad_token = END
    add_response_schema(tokenizer)
    asked = [(f"to {n}", f"Increment to {n}.", n) for n in (2, 3)]
    trainer = ScriptedTrainer(
        model=small_model(tokenizer),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            num_generations=4,
            per_device_train_batch_size=8,
            max_completion_length=2000,
            max_steps=1,
            scale_rewards="none",
            max_grad_norm=1e9,
            logging_steps=1,
            report_to="none",
        ),
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": text}], "target": n} for _, text, n in asked]
        ),
        processing_class=tokenizer,
        environment_factory=IncrementTo,
    )
    trainer.script = by_steps_of(1)
    trainer.train()
    theirs = next(line for line in trainer.state.log_history if "loss" in line)

    with Environment(IncrementTo) as environment:
        draw = make_draw(tokenizer, environment, by_steps_of(1), tokens=2000)
        rollout = draw(
            [Problem(problem_id=i, prompt=text, answer={"target": n}) for i, text, n in asked],
            samples=4,
            seed=0,
        )
    ours = [graded for group in rollout.groups for graded in group]
    told = trainer.seen
    kept = zip(told["completion_ids"], told["tool_mask"], told["completion_mask"], strict=True)
    rows = [(ids[mask > 0].tolist(), tools[mask > 0].tolist()) for ids, tools, mask in kept]
    own = [graded.completion for graded in ours]
    starts = {
        tuple(ids[mask > 0].tolist())
        for ids, mask in zip(told["prompt_ids"], told["prompt_mask"], strict=True)
    }
    assert starts == set(rollout.prompts)
    assert sorted(rows) == sorted((list(c.token_ids), list(map(int, c.written))) for c in own)
    assert theirs["reward"] == sum(graded.verdict.reward for graded in ours) / 8 == 0.5

    settings = ObjectiveSettings(advantage={"kind": "group", "scale": "none"})
    objective, model = make_objective(settings), small_model(tokenizer)
    forward = TrainingForward(
        model=model,
        pad_id=tokenizer.pad_token_id,
        temperature=1.0,
        dtype="float32",
        token_budget=100_000,
        max_tokens=2000,
    )
    groups = [
        Group(prompt_ids=prompt, completions=group)
        for prompt, group in zip(rollout.prompts, rollout.groups, strict=True)
    ]
    rows = policy_rows(
        groups, forward, Scorers(old=model, reference=None), objective=objective, settings=settings
    )
    report = update(
        Minibatch(groups=rows.groups, stored={}),
        forward,
        torch.optim.AdamW(model.parameters(), lr=0.0),
        objective=objective,
        max_grad_norm=1e9,
    )
    assert theirs["loss"] == pytest.approx(report.policy, rel=AGREE)
    assert theirs["grad_norm"] == pytest.approx(report.grad_norm, rel=AGREE)
