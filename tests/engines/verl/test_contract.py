"""What the integration relies on in verl: a new release says here what moved."""

import inspect
from importlib import import_module
from importlib.metadata import version

import pytest
import transfer_queue
from omegaconf import OmegaConf
from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY, PPOTrainer

SIGNATURES = {
    "verl.workers.utils.losses:ppo_loss": "config model_output data dp_group",
    "verl.workers.utils.padding:no_padding_2_padding": "tensor data",
    "verl.workers.engine_workers:TrainingWorker.set_loss_fn": "self loss_fn",
    "verl.workers.engine_workers:TrainingWorker.train_mini_batch": "self data",
    "verl.workers.engine_workers:ActorRolloutRefWorker.set_loss_fn": "self loss_fn",
    "verl.workers.engine_workers:ActorRolloutRefWorker.update_actor": "self data",
    "verl.workers.engine_workers:ActorRolloutRefWorker.compute_log_prob": "self data",
    "verl.trainer.ppo.v1.trainer_base:register_trainer": "name",
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer.__init__": "self config",
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer.on_init_end": "self",
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer.fit": "self agent_loop_manager",
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer.sample": (
        "self global_steps partition_id batch_size"
    ),
    "verl.trainer.ppo.v1.agent_loop_tq:AgentLoopManagerTQ.generate_sequences": "self prompts",
    "verl.trainer.main_ppo:run_ppo": "config task_runner_class",
    "verl.trainer.ppo.utils:need_reference_policy": "config",
    "verl.utils.config:validate_config": "config use_reference_policy use_critic",
    "verl.utils.metric:Metric.__init__": "self aggregation value",
    "verl.utils.tensordict_utils:assign_non_tensor": "tensor_dict kwargs",
    "verl.experimental.reward_loop.reward_manager.base:RewardManagerBase.__init__": (
        "self config tokenizer compute_score"
    ),
    "verl.experimental.reward_loop.reward_manager.base:RewardManagerBase.run_single": "self data",
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._compute_advantage": "self batch metrics",
    "verl.trainer.ppo.core_algos:register_policy_loss": "name",
    "verl.trainer.ppo.core_algos:agg_loss": (
        "loss_mat loss_mask loss_agg_mode dp_size batch_num_tokens global_batch_size "
        "loss_scale_factor"
    ),
    "transfer_queue:kv_batch_put": "keys partition_id fields tags data_parser",
    "transfer_queue:kv_batch_get": "keys partition_id select_fields",
    "transfer_queue:kv_clear": "keys partition_id",
}

FIELDS = {
    "verl.experimental.agent_loop.agent_loop:AgentLoopOutput": (
        "prompt_ids response_ids response_mask response_logprobs num_turns metrics extra_fields"
    ),
    "verl.workers.rollout.replica:TokenOutput": "token_ids log_probs num_preempted extra_fields",
    "transfer_queue:KVBatchMeta": "keys tags partition_id fields extra_info",
}

SOURCES = {
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._update_actor": (
        "self.actor_rollout_wg.update_actor(batch)",
        '"mini_batch_size": ppo_mini_batch_size',
        '"global_batch_size": ppo_mini_batch_size',
        'rename_dict(output["metrics"], "actor/")',
    ),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._balance_batch": ("_dispatch_info",),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer.init": ("self._setup()", "self.on_init_end()"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._compute_advantage": (
        'fields = ["advantages", "returns"]',
        "if self.config.algorithm.use_kl_in_reward:",
        'fields.append("token_level_rewards")',
        'data.batch["rm_scores"]',
        '"rollout_log_probs", "old_log_probs", "ref_log_prob"',
    ),
    "verl.workers.engine_workers:TrainingWorker.train_mini_batch": (
        'key="dataloader_kwargs"',
        'key="mini_batch_size"',
    ),
    "verl.workers.utils.losses:ppo_loss": (
        'data["batch_num_tokens"]',
        'data["global_batch_size"]',
        'data["dp_size"]',
        'fields = ["response_mask", "old_log_probs", "advantages"]',
        'config.policy_loss.get("loss_mode", "vanilla")',
        'config.global_batch_info["batch_num_tokens"] = data["batch_num_tokens"]',
        "rollout_is_weights=rollout_is_weights",
    ),
    "verl.trainer.ppo.v1:agent_loop_tq": ("__rollout_n__", 'f"{uid}_{session_id}_{i}"'),
}


def found(path):
    module, _, name = path.partition(":")
    thing = import_module(module)
    for part in name.split("."):
        assert hasattr(thing, part), f"verl moved {path}: there is no {part!r} in {thing!r}"
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("path", SIGNATURES)
def test_it_takes_the_arguments_that_we_give(path):
    names = list(inspect.signature(found(path)).parameters)
    expected = SIGNATURES[path].split()
    assert names == expected, (
        f"{path} takes {names} now, the integration was written for {expected}"
    )


@pytest.mark.parametrize("path", FIELDS)
def test_it_has_the_fields_that_we_use(path):
    cls = found(path)
    names = set(getattr(cls, "model_fields", None) or cls.__dataclass_fields__)
    missing = set(FIELDS[path].split()) - names
    assert not missing, f"{path} has no {sorted(missing)} any more; it has {sorted(names)}"


@pytest.mark.parametrize("path", SOURCES)
def test_it_still_works_with_what_we_hand_it(path):
    source = inspect.getsource(found(path))
    for text in SOURCES[path]:
        assert text in source, f"{path} says {text!r} no longer: read it again"


def test_both_modes_and_pre_sampling_are_registered():
    import_module("dph.engines.verl.trainer")
    import_module("dph.engines.verl.presampler")
    assert {"dph_sync", "dph_colocate_async", "dph_presample"} <= set(TRAINER_REGISTRY)


def test_the_trainer_counts_steps_as_we_read_them():
    source = inspect.getsource(PPOTrainer)
    for name in ("parameter_sync_step", "local_trigger_step", "global_steps", "actor_rollout_wg"):
        assert f"self.{name} = " in source, f"verl's PPOTrainer sets no {name} any more"


def test_rays_actor_class_gives_back_verls_task_runner():
    runner = TaskRunnerV1.__ray_metadata__.modified_class
    assert list(inspect.signature(runner.run).parameters)[:2] == ["self", "config"]


KEYS = {
    "": "data.train_files data.val_files reward.reward_manager.module.path distillation.enabled",
    "trainer.": "v1.trainer_mode use_v1 default_local_dir resume_mode",
    "algorithm.": (
        "adv_estimator norm_adv_by_std_in_grpo filter_groups.metric filter_groups.enable "
        "use_kl_in_reward"
    ),
    "actor_rollout_ref.model.": "use_fused_kernels lora_rank lora.rank lora_adapter_path",
    "actor_rollout_ref.actor.": (
        "shuffle use_kl_loss kl_loss_coef clip_ratio_low clip_ratio_high kl_loss_type "
        "loss_agg_mode loss_scale_factor policy_loss use_dynamic_bsz strategy "
        "ppo_micro_batch_size_per_gpu ulysses_sequence_parallel_size fsdp_config.mixed_precision "
        "fsdp_config.ulysses_sequence_parallel_size fsdp_config.pad_to_length"
    ),
    "actor_rollout_ref.rollout.": (
        "agent.default_agent_loop agent.num_workers agent.agent_loop_config_path temperature top_p "
        "calculate_log_probs prompt_length response_length log_prob_micro_batch_size_per_gpu "
        "log_prob_use_dynamic_bsz"
    ),
}


def test_the_configuration_has_the_keys_that_we_set(composed):
    config = composed("dph_train")
    for key in (start + name for start, names in KEYS.items() for name in names.split()):
        known = OmegaConf.select(config, key, default="none") != "none"
        assert known or "precision" in key, f"verl's configuration has no {key} any more"


def test_these_are_the_releases_that_the_integration_was_written_for():
    assert version("verl").startswith("0.9."), f"verl {version('verl')} is not 0.9"
    assert hasattr(transfer_queue, "kv_list")
