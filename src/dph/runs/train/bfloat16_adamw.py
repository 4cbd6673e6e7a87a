"""AdamW for weights that are kept in bfloat16: 8-bit states, stochastic rounding (torchao).

A step of 1e-6 is far below the distance between two neighbouring numbers of bfloat16 at 0.02,
which is 6e-5: rounded to the nearest, no weight would ever move. Rounded up or down with the
probabilities that make the mean right, it moves by as much as it should on average. Six bytes a
parameter, with the gradient, instead of sixteen.

States are those of Dettmers et al., arXiv:2110.02861: codes of 8 bits and a scale for every 256.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from dph._base.randomness import derived_seed
from dph.errors import SettingsError
from dph.recipe import TrainingSettings
from dph.recipe.extras import TORCHAO

_SIGNED = {"exp_avg": True, "exp_avg_sq": False}
_PARTS = ("codes", "scale")
"""Of a state in 8 bits; the table of the codes' values is always the same."""


def bfloat16_adamw(
    groups: Iterable[dict[str, Any]], train: TrainingSettings, *, seed: int
) -> torch.optim.Optimizer:
    """Torchao's ``AdamW8bit`` whose rounding is a function of (``seed``, step) alone.

    Raises:
        SettingsError: torchao is not installed.
    """
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
    """Random numbers of a step's own; on a CPU no compiler, which costs more than it saves."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._open = contextlib.ExitStack()

    def before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Seed for this step."""
        self._open.close()
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        cuda = parameters[0].is_cuda
        devices = [parameters[0].device] if cuda else []
        self._open.enter_context(torch.random.fork_rng(devices=devices))
        torch.random.manual_seed(derived_seed(self._seed, "rounding", _steps(optimizer)))
        if not cuda:
            self._open.enter_context(torch.compiler.set_stance("force_eager"))

    def after(self, *_: Any) -> None:
        """Leave everybody else's random numbers as they were."""
        self._open.close()


def _steps(optimizer: torch.optim.Optimizer) -> int:
    """Steps that were taken, before a kill too."""
    return max((int(state["step"]) for state in optimizer.state.values()), default=0)


def plain_parts(name: str, state: Tensor) -> dict[str, Tensor]:
    """A state as plain tensors to save: itself, or its codes and its scales."""
    if not hasattr(state, "codes"):
        return {name: state}
    return {f"{name}.{part}": getattr(state, part) for part in _PARTS}


def restore_states(
    optimizer: torch.optim.Optimizer, parameter: Tensor, saved: Mapping[str, Tensor]
) -> None:
    """Put what ``plain_parts`` made of a parameter's states back into ``optimizer``.

    Raises:
        ValueError: it does not fit the parameter.
    """
    states: dict[str, Tensor] = {"step": saved["step"]}
    for name, signed in _SIGNED.items():
        state: Any = optimizer._new_buffer(parameter, signed)  # type: ignore[attr-defined]
        for part, found in plain_parts(name, state).items():
            if part not in saved or saved[part].shape != found.shape:
                raise ValueError(f"{part} is missing or has another shape")
            found.copy_(saved[part])
        states[name] = state
    optimizer.state[parameter] = states
