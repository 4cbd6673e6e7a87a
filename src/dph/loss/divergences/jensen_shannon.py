"""Jensen-Shannon divergence in its generator form: stored samples only, no reference model."""

from dataclasses import dataclass
from math import log
from typing import ClassVar, Final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from dph.loss.divergences.elementwise import apply_generator

LOG_2: Final = log(2.0)

# exp(-800) is 0 in every dtype, so this floor changes no result: it only keeps 0 * -inf away.
_EXP_IS_ZERO: Final = -800.0

_NEAR: Final = 1.0  # nats; inside, 2 sigmoid(x) is written as 1 + tanh(x / 2)


def log_share(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return log(pi / M) = log(2 sigmoid(x)), M = (pi + pi_ref) / 2. No gradient.

    ``log_share(-x)`` is log(pi_ref / M). Relative accuracy also near x = 0, where it is x / 2.
    """
    near = torch.log1p(torch.tanh(x.clamp(-_NEAR, _NEAR) / 2))
    return torch.where(x.abs() <= _NEAR, near, LOG_2 + logsigmoid(x))


def _derivative(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return x.exp() * log_share(x.clamp(min=_EXP_IS_ZERO))


def _value(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    # (u - 1) log(pi/M) + log(pi/M) + log(pi_ref/M); the last two are log(1 - tanh^2(x/2)).
    t = torch.tanh(x.clamp(-_NEAR, _NEAR) / 2)
    near = torch.expm1(x) * torch.log1p(t) + torch.log1p(-t * t)
    return torch.where(x.abs() <= _NEAR, near, _derivative(x) + log_share(-x))


@dataclass(frozen=True, slots=True)
class JensenShannon:
    """Jensen-Shannon divergence (twice the usual one): KL(pi || M) + KL(pi_ref || M).

    Equation: f(u) = u log u - (u + 1) log((u + 1) / 2) (arXiv:2509.07430, equation 7).
    Computed as: u log(2 sigmoid(x)) + log(2 sigmoid(-x)); for |x| <= 1 as
    expm1(x) log1p(t) + log1p(-t^2), t = tanh(x / 2). Gradient u log(2 sigmoid(x)).
    Units: nats a token.
    Limits: x -> -inf: f -> log 2. The pull is strongest, 0.232, at u = 0.302 and fades as
    u |x|: a mode that is lost is not recovered.
    Accuracy: for |x| <= 80: value within 4, gradient within 3 units of eps (relative), down to
    u = 1e-35 for the gradient.
    Overflow: as the family (see ``dph.loss.divergences.base``).

    For the form with one half on policy samples see ``jensen_shannon_definition``.

    >>> JensenShannon()(torch.tensor([0.0, -200.0]))
    tensor([0.0000, 0.6931])
    """

    name: ClassVar[str] = "jensen_shannon"

    def __call__(self, log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return f(exp(log_ratio)) elementwise, in nats."""
        return apply_generator(log_ratio, _value, _derivative)
