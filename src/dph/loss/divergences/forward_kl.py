"""Forward KL: KL(pi_ref || pi), the mass-covering one."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.divergences.elementwise import (
    SERIES_RADIUS,
    alpha_series,
    apply_generator,
    at_least_float32,
)


def exp_remainder(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return exp(x) - 1 - x, exact also near 0; +inf at both infinities. No gradient."""
    near = x.abs() <= SERIES_RADIUS
    return torch.where(near, alpha_series(x, 0.0), torch.expm1(x) - x)


@dataclass(frozen=True, slots=True)
class ForwardKL:
    """Forward KL in one of two forms with the same expected gradient.

    Equation: f(u) = u - 1 - log u (``k3``, the default); f(u) = -log u (``nll``).
    arXiv:2509.07430, Table 5; k3 after J. Schulman, "Approximating KL divergence" (2020).
    Computed as: k3: expm1(x) - x, by its series for |x| <= 1; gradient expm1(x).
    nll: -x; gradient -1.
    Units: nats a token.
    Limits: x -> -inf: grows as |x|, the pull tends to -1 and never fades. At x = 0 the pull of
    k3 is 0, that of nll still -1: on a single stored answer nll goes on until it is memorised.
    Accuracy: k3 for |x| <= 80: value and gradient within 2 units of eps (relative), eps of the
    dtype that is computed in. nll is exact.
    Overflow: k3 as the family (see ``dph.loss.divergences.base``); nll is linear everywhere.
    Differs from the paper: the value is never clamped. A clamp at +-10 takes the gradient away
    below u = 1.7e-5.

    k3 needs E_ref[u] = 1: stored tokens must be unfiltered samples of the same distribution
    that their log-probs describe. Keeping correct samples only, or sampling with top-p < 1
    while storing full-vocabulary log-probs, biases k3 and not nll (docs/divergences.md).

    Raises:
        SettingsError: ``form`` is neither "k3" nor "nll".

    >>> ForwardKL()(torch.tensor([0.0, -1.0]))
    tensor([0.0000, 0.3679])
    """

    name: ClassVar[str] = "forward_kl"

    form: Literal["k3", "nll"] = "k3"

    def __post_init__(self) -> None:
        if self.form not in ("k3", "nll"):
            raise SettingsError(f"forward_kl: form must be 'k3' or 'nll', got {self.form!r}")

    def __call__(self, log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return f(exp(log_ratio)) elementwise, in nats."""
        if self.form == "nll":
            return -at_least_float32(log_ratio)
        return apply_generator(log_ratio, exp_remainder, torch.expm1)
