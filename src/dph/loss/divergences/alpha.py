"""Alpha divergence: from reverse KL (alpha -> 0) to forward KL (alpha -> 1)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.divergences.elementwise import SERIES_RADIUS, alpha_series, apply_generator


@dataclass(frozen=True, slots=True)
class Alpha:
    """Alpha divergence, 0 < alpha < 1.

    Equation: f(u) = (u^b - b u - alpha) / (alpha (alpha - 1)), b = 1 - alpha
    (arXiv:2509.07430, Table 5). TRL's f-DPO counts the other way: its alpha is this b.
    Computed as: for |x| <= 1 by its series. Beyond, with g = exp(b x) expm1(alpha x) / alpha,
    which is also the gradient: (g - expm1(x)) / b for alpha < 1/2, else
    (expm1(x) - expm1(b x) / b) / alpha. So nothing cancels at either end of alpha.
    Units: nats a token.
    Limits: x -> -inf: f -> 1 / b, and the pull fades as exp(b x) / alpha.
    Accuracy: for |x| <= 80: value and gradient within 4 + |x| units of eps (relative; b x is
    itself rounded), alpha from 1e-6 to 1 - 1e-6.
    Overflow: as the family (see ``dph.loss.divergences.base``).

    Raises:
        SettingsError: ``alpha`` does not lie strictly between 0 and 1.

    >>> Alpha(0.5)(torch.tensor([0.0, -200.0]))
    tensor([0., 2.])
    """

    name: ClassVar[str] = "alpha"

    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, int | float) or not 0 < self.alpha < 1:
            raise SettingsError(
                f"alpha must be a number strictly between 0 and 1, got {self.alpha!r}; "
                "for the ends use reverse_kl (0) or forward_kl (1)"
            )

    def __call__(self, log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return f(exp(log_ratio)) elementwise, in nats."""
        return apply_generator(log_ratio, self._value, self._derivative)

    def _derivative(self, x: Tensor) -> Tensor:
        a, b = self.alpha, 1.0 - self.alpha
        return torch.exp(b * x) * torch.expm1(a * x) / a

    def _value(self, x: Tensor) -> Tensor:
        a, b = self.alpha, 1.0 - self.alpha
        if a < 0.5:
            far = (self._derivative(x) - torch.expm1(x)) / b
        else:
            far = (torch.expm1(x) - torch.expm1(b * x) / b) / a
        return torch.where(x.abs() <= SERIES_RADIUS, alpha_series(x, b), far)
