"""Environments in TRL: the first step of TRL's own factory is ours."""

import pytest
import torch
import transformers as tf
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import add_response_schema, qwen3_chat_template

from dph import Problem
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective
from dph.runs.train.policy_rows import Scorers, policy_rows
from dph.runs.train.rows import Minibatch
from dph.runs.train.updating import update
from dph.tasks.environments import Environment
from environment_classes import IncrementTo
from loop_parts import group_of, training_forward
from scripted_policy import END, by_steps_of, byte_tokenizer, make_draw

AGREE = 1e-5


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


def trained(script, directory, *, generations, arguments, **settings):
    """TRL's own trainer after a step, and the numbers that it logs."""
    tokenizer = byte_tokenizer(qwen3_chat_template)
    tokenizer.pad_token = END
    add_response_schema(tokenizer)
    usual = {"max_completion_length": 2000, "max_steps": 1, "logging_steps": 1}
    usual |= {"use_cpu": True, "bf16": False, "report_to": "none", "num_generations": generations}
    usual |= {"per_device_train_batch_size": generations, "output_dir": str(directory)}
    trainer = ScriptedTrainer(
        model=small_model(tokenizer),
        args=GRPOConfig(**{**usual, **settings}),
        processing_class=tokenizer,
        **arguments,
    )
    trainer.script = script
    trainer.train()
    return trainer, next(line for line in trainer.state.log_history if "loss" in line)


def test_the_first_step_of_trls_own_factory_is_ours(tmp_path):
    asked = [(f"to {n}", f"Increment to {n}.", n) for n in (2, 3)]
    rows = [{"prompt": [{"role": "user", "content": text}], "target": n} for _, text, n in asked]
    trainer, theirs = trained(
        by_steps_of(1),
        tmp_path,
        generations=4,
        arguments={"train_dataset": Dataset.from_list(rows), "environment_factory": IncrementTo},
        per_device_train_batch_size=8,
        scale_rewards="none",
        max_grad_norm=1e9,
    )
    tokenizer = trainer.processing_class

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
    limits = {"token_budget": 100_000, "max_tokens": 2000}
    forward = training_forward(model, pad_id=tokenizer.pad_token_id, **limits)
    groups = [
        group_of(*group, prompt=prompt)
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
