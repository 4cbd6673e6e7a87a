"""What we rely on in TRL and transformers; a failure names what moved."""

import inspect
from dataclasses import fields

import pytest
import trl
from packaging.version import Version
from transformers import Trainer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from dph.engines.trl import DPHConfig, DPHTrainer
from dph.engines.trl.trainer import METRICS
from engines.trl.small import grpo_config, make_config, make_trainer

LOGPROBS = "_get_per_token_logps_and_entropies"
if hasattr(GRPOTrainer, "_full_logits_logps"):  # to which 1.14 hands its arguments on
    LOGPROBS = "_full_logits_logps"
OVERRIDDEN = ("compute_loss", "_calculate_rewards", "_generate_and_score_completions")
OVERRIDDEN += ("_prepare_inputs", "_get_per_token_logps_and_entropies")
OWN_FIELDS = {field.name for field in fields(DPHConfig)} - {f.name for f in fields(GRPOConfig)}


def test_the_version_is_one_that_the_extra_allows():
    assert Version("1.12") <= Version(trl.__version__) < Version("2"), trl.__version__


@pytest.mark.parametrize(
    ("owner", "name", "parameters"),
    [
        (GRPOTrainer, "__init__", ("self", "model", "reward_funcs", "args", "train_dataset")),
        (
            GRPOTrainer,
            "compute_loss",
            ("self", "model", "inputs", "return_outputs", "num_items_in_batch"),
        ),
        (
            GRPOTrainer,
            "_calculate_rewards",
            ("self", "inputs", "prompts", "completions", "completion_ids_list"),
        ),
        (GRPOTrainer, "_generate_and_score_completions", ("self", "inputs")),
        (
            GRPOTrainer,
            LOGPROBS,
            ("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"),
        ),
        (GRPOTrainer, "_generate_single_turn", ("self", "prompt_ids", "images")),
        (GRPOTrainer, "_prepare_inputs", ("self", "generation_batch")),
        (Trainer, "log", ("self", "logs")),
        (Trainer, "add_callback", ("self", "callback")),
        (TrainerCallback, "on_train_begin", ("self", "args", "state", "control")),
    ],
)
def test_a_method_begins_with_the_parameters_that_we_pass(owner, name, parameters):
    found = tuple(inspect.signature(getattr(owner, name)).parameters)
    moved = f"{owner.__name__}.{name} now takes {found}"
    assert found[: len(parameters)] == parameters, moved


@pytest.mark.parametrize(
    "name",
    [
        *("temperature", "seed", "bf16", "fp16", "gradient_accumulation_steps", "num_iterations"),
        *("epsilon", "epsilon_high", "beta", "use_bias_correction_kl", "scale_rewards"),
        "loss_type",
        *("multi_objective_aggregation", "mask_truncated_completions"),
        *("top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs"),
        *("steps_per_generation", "save_strategy", "save_steps", "max_completion_length"),
        *("use_liger_kernel", "cast_lm_head_to_fp32", "fp16", "torch_compile"),
        "neftune_noise_alpha",
    ],
)
def test_a_setting_that_we_read_is_there(name):
    assert name in {field.name for field in fields(GRPOConfig)}, f"GRPOConfig.{name} is gone"


def test_trl_has_not_taken_a_name_of_ours():
    theirs = {field.name for field in fields(GRPOConfig)}
    assert not OWN_FIELDS & theirs, f"GRPOConfig now has {OWN_FIELDS & theirs} too"


def test_trl_scales_its_loss_for_accumulation_itself():
    # Else transformers divides the rehearsal term by the number of micro-steps once more.
    said = getattr(GRPOTrainer, "loss_is_scaled_for_ga", None) is True  # from 1.15 on
    before = 'compute_loss_func="non-None value to disable scaling"'
    assert said or before in inspect.getsource(GRPOTrainer.__init__), "TRL scales elsewhere"


def test_nothing_else_is_overridden():
    own = {name for name, value in vars(DPHTrainer).items() if callable(value)}
    inherited = {name for name in own if hasattr(GRPOTrainer, name)}
    assert inherited == {"__init__", *OVERRIDDEN}, f"DPHTrainer overrides {inherited}"


def test_a_trainer_has_the_attributes_that_we_read_and_none_of_ours(directory):
    trainer = make_trainer(grpo_config(directory), trainer=GRPOTrainer)
    read = ("accelerator", "model", "processing_class", "state", "temperature", "_metrics")
    read += ("_logs", "reward_weights", "num_generations", "num_generations_eval")
    read += ("use_vllm", "generation_config", "generation_kwargs", "is_fsdp_enabled", "control")
    read += ("_buffered_inputs", "_step", "_entropy_bonus_enabled", "aux_loss_enabled")
    for name in (*read, "max_completion_length"):
        assert hasattr(trainer, name), f"GRPOTrainer.{name} is gone"
    assert "train" in trainer._metrics, "GRPOTrainer._metrics has no 'train'"
    ours = make_trainer(make_config(directory))
    added = {*vars(ours), *vars(DPHTrainer)} - {*vars(trainer), "__init__", *OVERRIDDEN}
    own = ("anchors", "own_advantage", "shared_prompts", "_rewards", "_micro_steps", "_step_sums")
    for name in own:
        assert name in added, f"GRPOTrainer now has an attribute {name!r} of its own"


def test_the_number_of_micro_steps_is_there_when_the_loss_is_computed(directory):
    seen = []

    class Watched(DPHTrainer):
        def compute_loss(self, *arguments, **keywords):
            seen.append((self.current_gradient_accumulation_steps, self.state.global_step))
            return super().compute_loss(*arguments, **keywords)

    args = make_config(
        directory, per_device_train_batch_size=8, gradient_accumulation_steps=2, max_steps=2
    )
    make_trainer(args, trainer=Watched).train()
    assert seen == [(2, 0), (2, 0), (2, 1), (2, 1)], (
        "Trainer.current_gradient_accumulation_steps or state.global_step moved"
    )


def test_what_we_append_to_its_metrics_reaches_its_log(directory):
    trainer = make_trainer(make_config(directory, max_steps=1))
    trainer.train()
    for name in METRICS:
        assert name in trainer.state.log_history[0], f"GRPOTrainer.log dropped {name}"


SOURCES = {
    "_generate_and_score_completions": (
        "rewards_per_func = self._calculate_rewards(inputs, prompts, completions, ",
        "(rewards_per_func * self.reward_weights.to(device).unsqueeze(0)).nansum(dim=1)",
        "self.accelerator.process_index * len(prompts)",
        "rewards.view(-1, num_generations)",
        'self._logs["advantages"].extend(all_process_advantages.tolist())',
        '"advantages": advantages,',
    ),
    "_calculate_rewards": ("rewards_per_func = gather(rewards_per_func)",),
    "_compute_loss": (
        'if self.loss_type in ["grpo", "sapo"]:',
        'elif self.loss_type == "dr_grpo":',
        'elif self.loss_type in ["cispo", "dapo", "vespo"]:',
        'elif self.loss_type in ["grpo", "bnpo", "dr_grpo", "dapo", "luspo"]:',
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_rewards_advantages_and_denominators_are_made_as_we_take_them(name):
    source = inspect.getsource(getattr(GRPOTrainer, name))
    for text in SOURCES[name]:
        assert text in source, f"TRL says {text!r} no longer: read {name}"
