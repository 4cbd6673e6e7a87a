"""Reverse KL: KL(pi || pi_ref), the mode-seeking one, on stored samples."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from dph.loss.divergences.elementwise import SERIES_RADIUS, alpha_series, apply_generator

# exp(-800) is 0 in every dtype, so this floor changes no result: it only keeps 0 * -inf away.
_EXP_IS_ZERO = -800.0


def _derivative(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return x.exp() * x.clamp(min=_EXP_IS_ZERO)


def _value(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    near = x.abs() <= SERIES_RADIUS
    return torch.where(near, alpha_series(x, 1.0), _derivative(x) - torch.expm1(x))


@dataclass(frozen=True, slots=True)
class ReverseKL:
    """Reverse KL as an f-divergence of stored reference samples.

    Equation: f(u) = u log u - u + 1 (arXiv:2509.07430, section 3).
    Computed as: u x - expm1(x), by its series for |x| <= 1; gradient u x.
    Units: nats a token.
    Limits: x -> -inf: f -> 1 and the pull fades as u |x|: a lost mode is not recovered.
    Accuracy: for |x| <= 80: value within 3, gradient within 2 units of eps (relative), down to
    u = 1e-35 for the gradient.
    Overflow: as the family (see ``dph.loss.divergences.base``).

    For the reverse KL on samples of the policy itself, see ``dph.loss.objectives.penalties``.

    >>> ReverseKL()(torch.tensor([0.0, -200.0]))
    tensor([0., 1.])
    """

    name: ClassVar[str] = "reverse_kl"

    def __call__(self, log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return f(exp(log_ratio)) elementwise, in nats."""
        return apply_generator(log_ratio, _value, _derivative)
