"""The estimate of a recipe's memory, part by part."""

from collections.abc import Iterator
from typing import Any

from dph.runs.memory import Device, MemoryEstimate


def memory_lines(found: MemoryEstimate, device: Device | None) -> Iterator[str]:
    """The peaks of training and sampling and what they are made of."""
    yield (
        f"memory, estimated: training {_size(found.training)} = weights {_size(found.weights)}, "
        f"optimizer {_size(found.optimizer)}, and the more of gradients "
        f"{_size(found.gradients)} with the optimizer's step {_size(found.step)} and activations "
        f"{_size(found.activations)} (without sharing prompts {_size(found.activations_apart)})"
    )
    yield (
        f"memory, estimated: sampling {_size(found.sampling)} = weights, optimizer, cache "
        f"{_size(found.cache)}, logits and prefill {_size(found.logits)}"
    )
    if found.vllm:
        yield f"memory, estimated: vLLM {_size(found.vllm)} while pre-sampling and evaluating"
    if device is not None:
        yield f"memory there is: {_size(device.memory)} ({device.name})"


def memory_json(found: MemoryEstimate, device: Device | None) -> dict[str, Any]:
    """The same in bytes, for machines."""
    parts = ("weights", "gradients", "optimizer", "step", "activations", "activations_apart")
    more = ("cache", "logits", "vllm", "training", "sampling", "peak")
    return {
        **{name: round(getattr(found, name)) for name in (*parts, *more)},
        "device": None if device is None else {"name": device.name, "bytes": round(device.memory)},
    }


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
