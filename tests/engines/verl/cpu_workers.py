"""What a verl worker without an accelerator needs: FSDP2 on a CPU, and a rollout.

verl imports this module where it builds a model (actor_rollout_ref.model.external_lib).
"""

from torch.distributed.fsdp import CPUOffloadPolicy
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.rollout import base, replica

ROLLOUT = "dph_torch"


def _load():
    from engines.verl.cpu_rollout import TorchReplica  # noqa: PLC0415

    return TorchReplica


def _without_pinning(pin_memory):  # noqa: ARG001
    """The reference worker pins memory, for which there has to be an accelerator."""
    return CPUOffloadPolicy(pin_memory=False)


transformer_impl.CPUOffloadPolicy = _without_pinning
if "cpu" not in EngineRegistry._engines["language_model"]["fsdp2"]:
    EngineRegistry.register("language_model", "fsdp2", device="cpu")(FSDPEngineWithLMHead)
if (ROLLOUT, "async") not in base._ROLLOUT_REGISTRY:
    replica.RolloutReplicaRegistry.register(ROLLOUT, _load)
    base._ROLLOUT_REGISTRY[ROLLOUT, "async"] = "engines.verl.cpu_rollout.Pushed"
