"""An optimizer's state as plain tensors, ``<parameter index>.<name>``, and back.

The file also says which kernel made the steps, since another rounds differently: a run that one
without the fused kernel began goes on without it, to the same bits.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from dph.errors import CheckpointError
from dph.runs.train.bfloat16_adamw import plain_parts, restore_states

FILE = "optimizer.safetensors"
_ADAMW_STATE = {"step", "exp_avg", "exp_avg_sq"}
_FUSED = {"kernel": "fused"}


def save_optimizer(optimizer: torch.optim.Optimizer, directory: Path) -> None:
    """Write the optimizer's state into ``directory``.

    Raises:
        SafetensorError: the disk is full.
    """
    tensors = {
        f"{index}.{part}": tensor.detach().cpu().contiguous()
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        for part, tensor in plain_parts(name, value).items()
    }
    fused = any(group.get("fused") for group in optimizer.param_groups)
    save_file(tensors, directory / FILE, metadata=_FUSED if fused else None)


def load_optimizer(path: Path, optimizer: torch.optim.Optimizer) -> None:
    """Put the optimizer back into the state that a checkpoint holds.

    Raises:
        CheckpointError: the file is missing, damaged, or of another model.
    """
    try:
        state = _by_parameter(load_file(path / FILE))
        with safe_open(path / FILE, framework="pt") as file:
            fused = file.metadata() == _FUSED
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {path} is damaged: {error}") from error
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if hasattr(optimizer, "_new_buffer"):
        _restore(path, optimizer, parameters, state)
        return
    for number, values in state.items():
        if lacking := sorted(_ADAMW_STATE - values.keys()):
            raise CheckpointError(
                f"the checkpoint {path} is damaged: the optimizer's state of parameter {number} "
                f"lacks {', '.join(lacking)} (it has {', '.join(sorted(values))})"
            )
        shape = values["exp_avg"].shape
        if not 0 <= number < len(parameters) or parameters[number].shape != shape:
            raise CheckpointError(
                f"the checkpoint {path} belongs to another model: parameter {number} has shape "
                f"{tuple(shape)} there"
            )
    groups = optimizer.state_dict()["param_groups"]
    if not fused:
        groups = [{**group, "fused": None} for group in groups]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _restore(
    path: Path,
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.Tensor],
    state: Mapping[int, Mapping[str, torch.Tensor]],
) -> None:
    """States in 8 bits, which torch's own way back would widen."""
    for number, values in state.items():
        try:
            restore_states(optimizer, parameters[number], values)
        except (IndexError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint {path} belongs to another model: the state of parameter "
                f"{number}: {error}"
            ) from error


def _by_parameter(
    tensors: Mapping[str, torch.Tensor],
) -> dict[int, dict[str, torch.Tensor]]:
    """The optimizer's state, from names ``<parameter index>.<name>``.

    Raises:
        ValueError: a name is not of that form.
    """
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        index, dot, name = key.partition(".")
        if not (dot and index.isdecimal()):
            raise ValueError(f"{key!r} is not the name of an optimizer's state")
        state.setdefault(int(index), {})[name] = tensor
    return state
