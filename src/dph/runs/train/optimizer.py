"""AdamW with linear warm-up."""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from dph._base.randomness import derived_seed
from dph.errors import CheckpointError, SettingsError
from dph.recipe import TrainingSettings
from dph.recipe.tables import TORCHAO

# AdamW for weights that are kept in bfloat16: 8-bit states, stochastic rounding (torchao).
#
# A step of 1e-6 is far below the distance between two neighbouring numbers of bfloat16 at 0.02,
# which is 6e-5: rounded to the nearest, no weight would ever move. Rounded up or down with the
# probabilities that make the mean right, it moves by as much as it should on average. Six bytes a
# parameter, with the gradient, instead of sixteen. bitsandbytes rounds to the nearest.
#
# States are those of Dettmers et al., arXiv:2110.02861: codes of 8 bits and a scale for every
# 256.

_SIGNED = {"exp_avg": True, "exp_avg_sq": False}
_PARTS = ("codes", "scale")
"""Of a state in 8 bits; the table of the codes' values is always the same."""


def bfloat16_adamw(
    groups: Iterable[dict[str, Any]], train: TrainingSettings, *, seed: int
) -> torch.optim.Optimizer:
    """Torchao's ``AdamW8bit``, whose rounding is a function of (``seed``, step)."""
    try:
        from torchao.optim import AdamW8bit  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise SettingsError(TORCHAO.missing) from error
    optimizer: torch.optim.Optimizer = AdamW8bit(
        list(groups),
        lr=train.learning_rate,
        betas=train.betas,
        eps=train.eps,
        bf16_stochastic_round=True,
    )
    around = _AroundStep(seed)
    optimizer.register_step_pre_hook(around.before)
    optimizer.register_step_post_hook(around.after)
    return optimizer


class _AroundStep:
    """Random numbers of each step; on a CPU no compiler, which costs more than it saves."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._open = contextlib.ExitStack()

    def before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._open.close()
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        cuda = parameters[0].is_cuda
        devices = [parameters[0].device] if cuda else []
        self._open.enter_context(torch.random.fork_rng(devices=devices))
        steps = (int(state["step"]) for state in optimizer.state.values())  # of before a kill too
        torch.random.manual_seed(derived_seed(self._seed, "rounding", max(steps, default=0)))
        if not cuda:
            self._open.enter_context(torch.compiler.set_stance("force_eager"))

    def after(self, *_: Any) -> None:
        self._open.close()


def plain_parts(name: str, state: Tensor) -> dict[str, Tensor]:
    """A state as plain tensors to save: itself, or its codes and its scales."""
    if not hasattr(state, "codes"):
        return {name: state}
    return {f"{name}.{part}": getattr(state, part) for part in _PARTS}


# An optimizer's state as plain tensors, ``<parameter index>.<name>``, and back.
#
# The file also says which kernel made the steps, since another rounds differently: a run that began
# without the fused kernel continues without it, to the same bits.

FILE = "optimizer.safetensors"
_ADAMW_STATE = {"step", "exp_avg", "exp_avg_sq"}
_FUSED = {"kernel": "fused"}


def save_optimizer(optimizer: torch.optim.Optimizer, directory: Path) -> None:
    tensors = {
        f"{index}.{part}": tensor.detach().cpu().contiguous()
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        for part, tensor in plain_parts(name, value).items()
    }
    fused = any(group.get("fused") for group in optimizer.param_groups)
    save_file(tensors, directory / FILE, metadata=_FUSED if fused else None)


def load_optimizer(path: Path, optimizer: torch.optim.Optimizer) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    try:
        for key, tensor in load_file(path / FILE).items():
            index, dot, name = key.partition(".")
            if not (dot and index.isdecimal()):
                raise ValueError(f"{key!r} is not the name of an optimizer's state")
            state.setdefault(int(index), {})[name] = tensor
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
    """Restore states in 8 bits, which ``load_state_dict`` would widen."""
    for number, saved in state.items():
        try:
            parameter = parameters[number]
            states: dict[str, Tensor] = {"step": saved["step"]}
            for name, signed in _SIGNED.items():
                made: Any = optimizer._new_buffer(parameter, signed)  # type: ignore[attr-defined]
                for part, found in plain_parts(name, made).items():
                    if part not in saved or saved[part].shape != found.shape:
                        raise ValueError(f"{part} is missing or has another shape")
                    found.copy_(saved[part])
                states[name] = made
            optimizer.state[parameter] = states
        except (IndexError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint {path} belongs to another model: the state of parameter "
                f"{number}: {error}"
            ) from error


def make_optimizer(
    model: PreTrainedModel, train: TrainingSettings, *, seed: int = 0
) -> torch.optim.Optimizer:
    """AdamW over every trainable parameter; biases and norms are not decayed.

    Weights in float32 take torch's fused kernel, one pass over memory instead of ten; an adapter
    on a CPU keeps the loop. Weights in bfloat16 are rounded at random, by ``seed``.
    """
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() > 1], "weight_decay": train.weight_decay},
        {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if any(p.dtype == torch.bfloat16 for p in trainable):
        return bfloat16_adamw([group for group in groups if group["params"]], train, seed=seed)
    whole = all(p.requires_grad and p.device.type == "cpu" for p in model.parameters())
    fused = all(p.dtype == torch.float32 and (whole or p.is_cuda) for p in trainable)
    return torch.optim.AdamW(
        groups, lr=train.learning_rate, betas=train.betas, eps=train.eps, fused=fused or None
    )


def make_schedule(
    optimizer: torch.optim.Optimizer, train: TrainingSettings, *, done: int
) -> LambdaLR:
    """A learning rate that rises over ``warmup_steps`` optimizer steps and stays, or falls.

    Both are linear; after the run's last optimizer step it has fallen to ``final_rate`` of its
    value. ``done`` optimizer steps have been taken already.
    """
    for group in optimizer.param_groups:
        group["initial_lr"] = train.learning_rate
    warmup = train.warmup_steps
    total, fall = train.steps * train.epochs * train.minibatches, 1.0 - train.final_rate
    return LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / (warmup + 1)) * (1.0 - fall * min(1.0, step / total)),
        last_epoch=done - 1,
    )
