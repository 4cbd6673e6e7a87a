"""Start verl with a trainer of ours: the checks of verl's entry point, then its task runner."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.utils.device import auto_set_device

from dph.engines.verl.settings import precision
from dph.errors import SettingsError

logger = logging.getLogger(__name__)


@ray.remote
class DPHTaskRunner:
    """verl's task runner, in a process where the trainers of this package are known.

    They are imported here and not through verl's plug-ins, whose errors verl swallows.
    """

    def run(self, config: DictConfig) -> None:
        import dph.engines.verl.presampler  # noqa: PLC0415 - registers in this process
        import dph.engines.verl.trainer  # noqa: F401, PLC0415

        runner = TaskRunnerV1.__ray_metadata__.modified_class
        runner.run(runner(), config)


def launch(config: DictConfig, *, trainer: str) -> None:
    """Run verl's V1 trainer registered under ``trainer``; refuse what cannot rehearse."""
    if not config.trainer.use_v1:
        raise SettingsError("trainer.use_v1=false: rehearsal needs verl's V1 trainers")
    precision(config)
    for name in ("lora_rank", "lora.rank", "lora_adapter_path"):
        if value := OmegaConf.select(config, key := f"actor_rollout_ref.model.{name}"):
            raise SettingsError(
                f"{key}={value}: pools and checkpoints are made of whole weights here, not of an "
                "adapter's; `dph train` and TRL train adapters"
            )
    agent: Any = config.actor_rollout_ref.rollout.agent
    with open_dict(agent):
        if not agent.agent_loop_config_path:  # the user may bring a file of loops
            path = files("dph.engines.verl").joinpath("agent_loops.yaml")
            agent.agent_loop_config_path = str(path)
    _import_in_workers(config)
    _forward_environment(config)
    auto_set_device(config)
    validate_config(
        config=config,
        use_reference_policy=need_reference_policy(config),
        use_critic=need_critic(config),
    )
    with open_dict(config):
        config.trainer.v1.trainer_mode = trainer
    with ending_with_a_node():
        run_ppo(config, task_runner_class=DPHTaskRunner)


LOOK_EVERY = 2.0
"""Seconds between two looks at the nodes of the cluster."""


@contextmanager
def ending_with_a_node() -> Iterator[None]:
    """End this process when Ray loses a node: verl would wait for its answers forever."""
    over = threading.Event()

    def watch() -> None:
        seen: set[str] = set()
        while not over.wait(LOOK_EVERY):
            nodes = ray.nodes() if ray.is_initialized() else []
            for node in nodes:
                if node["Alive"]:
                    seen.add(node["NodeID"])
                elif node["NodeID"] in seen:
                    lost = f"Ray lost the node {node['NodeManagerAddress']}"
                    print(f"dph: {lost}; the same command continues", file=sys.stderr, flush=True)  # noqa: T201
                    os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _import_in_workers(config: DictConfig) -> None:
    """Let verl's workers import ``newer_trl`` before they build a model."""
    model: Any = config.actor_rollout_ref.model
    given = model.external_lib or []
    with open_dict(model):
        names = [given] if isinstance(given, str) else given
        model.external_lib = [*names, "dph.engines.verl.newer_trl"]


def _forward_environment(config: DictConfig) -> None:
    """Tell a cluster that was started elsewhere where the log and the user's modules are."""
    key = "ray_kwargs.ray_init.runtime_env.env_vars"
    names = {"VERL_FILE_LOGGER_PATH", "PYTHONPATH"} & os.environ.keys()
    given = OmegaConf.select(config, key) or {}
    told = {name: os.environ[name] for name in names} | dict(given)
    OmegaConf.update(config, key, told, force_add=True)
