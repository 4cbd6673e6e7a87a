"""Running the two commands as a user would, with what a machine without an accelerator needs."""

import os
import subprocess
import sys

CPU = [
    "actor_rollout_ref.model.external_lib=integrations.verl.cpu_workers",
    "actor_rollout_ref.model.use_remove_padding=False",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "actor_rollout_ref.actor.strategy=fsdp2",
    "actor_rollout_ref.ref.strategy=fsdp2",
    "actor_rollout_ref.actor.use_torch_compile=False",
    "actor_rollout_ref.ref.use_torch_compile=False",
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}",
    "+actor_rollout_ref.ref.fsdp_config.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
    "actor_rollout_ref.ref.fsdp_config.use_torch_compile=False",
    "actor_rollout_ref.rollout.name=dph_torch",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "actor_rollout_ref.rollout.free_cache_engine=False",
    "actor_rollout_ref.rollout.calculate_log_probs=True",
    "reward.num_workers=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "trainer.device=cpu",
    "trainer.val_before_train=False",
    "trainer.nnodes=1",
    "data.dataloader_num_workers=0",
    "ray_kwargs.ray_init.num_cpus=8",
    "+ray_kwargs.ray_init.include_dashboard=False",
]


def command(name, *overrides, ranks, directory):
    """The command line of one of the two modules."""
    return [
        *(sys.executable, "-m", f"dph.integrations.verl.{name}"),
        *CPU,
        f"trainer.n_gpus_per_node={ranks}",
        f"+ray_kwargs.ray_init.num_gpus={ranks}",
        f"trainer.default_local_dir={directory}/checkpoints",
        f"hydra.run.dir={directory}/hydra",
        *overrides,
    ]


def run(name, *overrides, ranks, directory, metrics=None, timeout=300):
    """Run it to its end; returns what it wrote."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if metrics is not None:
        environment["VERL_FILE_LOGGER_PATH"] = str(metrics)
    done = subprocess.run(
        command(name, *overrides, ranks=ranks, directory=directory),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout
