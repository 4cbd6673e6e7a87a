"""The f-divergences: forward and reverse KL, Jensen-Shannon, and alpha."""

from dataclasses import dataclass
from math import log
from typing import ClassVar, Final, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from dph.errors import SettingsError
from dph.loss.divergences.base import (
    SERIES_RADIUS,
    alpha_series,
    apply_generator,
    at_least_float32,
    with_derivative,
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


# exp(-800) is 0 in every dtype, so this floor changes no result: it only keeps 0 * -inf away.
_EXP_IS_ZERO = -800.0


def _reverse_derivative(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return x.exp() * x.clamp(min=_EXP_IS_ZERO)


def _reverse_value(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    near = x.abs() <= SERIES_RADIUS
    return torch.where(near, alpha_series(x, 1.0), _reverse_derivative(x) - torch.expm1(x))


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
        return apply_generator(log_ratio, _reverse_value, _reverse_derivative)


LOG_2: Final = log(2.0)

_NEAR: Final = 1.0  # nats; inside, 2 sigmoid(x) is written as 1 + tanh(x / 2)


def log_share(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return log(pi / M) = log(2 sigmoid(x)), M = (pi + pi_ref) / 2. No gradient.

    ``log_share(-x)`` is log(pi_ref / M). Relative accuracy also near x = 0, where it is x / 2.
    """
    near = torch.log1p(torch.tanh(x.clamp(-_NEAR, _NEAR) / 2))
    return torch.where(x.abs() <= _NEAR, near, LOG_2 + logsigmoid(x))


def _jensen_shannon_derivative(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return x.exp() * log_share(x.clamp(min=_EXP_IS_ZERO))


def _jensen_shannon_value(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    # (u - 1) log(pi/M) + log(pi/M) + log(pi_ref/M); the last two are log(1 - tanh^2(x/2)).
    t = torch.tanh(x.clamp(-_NEAR, _NEAR) / 2)
    near = torch.expm1(x) * torch.log1p(t) + torch.log1p(-t * t)
    return torch.where(x.abs() <= _NEAR, near, _jensen_shannon_derivative(x) + log_share(-x))


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
        return apply_generator(log_ratio, _jensen_shannon_value, _jensen_shannon_derivative)


# Jensen-Shannon divergence by its definition: each half on its own samples.
#
# With M = (pi + pi_ref) / 2 at every prefix and x = log pi - log pi_ref,
#
# 2 JS = KL(pi_ref || M) + KL(pi || M) (arXiv:2509.07430, Appendix E)
#
# The first half is an expectation over stored tokens, the second over tokens of the policy, whose
# reference log-probs then need a reference model. The sum of the two has the scale of
# ``JensenShannon``. Log-ratios are not bounded here: nothing but the k3 form of the first half
# grows faster than |x|, and that form is continued as the family is.

_LOWEST = -1e4  # nats; a policy token below it has importance ratio 0, and 0 * -inf is NaN


def reference_half(
    log_ratio: Float[Tensor, "*shape"], *, form: Literal["k3", "nll"] = "k3"
) -> Float[Tensor, "*shape"]:
    """Per-token estimate of KL(pi_ref || M) on stored tokens, y ~ pi_ref.

    Equation: with z = log(M / pi_ref) = log((1 + u) / 2): k3: exp(z) - 1 - z; nll: -z.
    Computed as: z = -log(2 sigmoid(-x)), then the stable k3; for x > 1 its exponential is
    taken from x, since rounding z would be amplified. Gradient: k3:
    sigmoid(x) expm1(x) / 2; nll: -sigmoid(x).
    Units: nats a token.
    Limits: x -> -inf: k3 -> log 2 - 1/2, nll -> log 2; the pull of both fades as u.
    Accuracy: for |x| <= 80: k3 value within 4, k3 gradient within 3, nll both within 2 units
    of eps (relative).
    """
    if form == "k3":
        return apply_generator(
            log_ratio, _reference_k3, lambda x: torch.sigmoid(x) * torch.expm1(x) / 2
        )
    if form == "nll":
        return with_derivative(log_ratio, lambda x: log_share(-x), lambda x: -torch.sigmoid(x))
    raise SettingsError(f"reference_half: form must be 'k3' or 'nll', got {form!r}")


def _reference_k3(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    z = -log_share(-x)
    return torch.where(x > 1.0, torch.expm1(x) / 2 - z, exp_remainder(z))


def policy_half(
    log_ratio: Float[Tensor, "*shape"], ratio: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Per-token estimate of KL(pi || M) on tokens drawn from a sampling policy pi_old.

    Equation: r log(2 sigmoid(x)) - (r - 1) / 2, r = pi / pi_old.
    The last part has mean 0 and changes neither the expected value nor the expected gradient;
    it makes the gradient of a single token, (log(2 sigmoid(x)) - tanh(x / 2) / 2) grad log pi
    at r = 1, vanish where pi = pi_ref instead of being noise there.
    Units: nats a token.
    Limits: x -> -inf: falls as x; x -> +inf: log 2 r. Below x = -1e4 the logarithm stays.
    Overflow: none for finite ``ratio``.
    Differs from the paper: its code takes the k3 form of this half as a direct loss, whose
    gradient is another one.

    Args:
        log_ratio: log pi - log pi_ref, with gradient.
        ratio: pi / pi_old **with its gradient**: ``exp(logprobs - logprobs.detach())`` on the
            samples of the policy itself, ``exp(logprobs - old_logprobs)`` otherwise. A
            detached ratio gives the wrong gradient: samples of pi move with pi.
    """
    share = with_derivative(
        log_ratio, lambda x: log_share(x.clamp(min=_LOWEST)), lambda x: torch.sigmoid(-x)
    )
    return ratio * share - (ratio - 1) / 2


@dataclass(frozen=True, slots=True)
class JensenShannonDefinition:
    """Both halves as a term of the loss: k3 of ``reference_half``, and ``policy_half``.

    Called on stored tokens it is the first half; ``on_policy`` is the second. Each is reduced over
    its own rows, so the halves balance for any numbers of rows.
    """

    name: ClassVar[str] = "jensen_shannon_definition"
    reads_reference: ClassVar[bool] = True

    def __call__(self, log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The half on stored tokens, in nats."""
        return reference_half(log_ratio)

    def on_policy(
        self, log_ratio: Float[Tensor, "*shape"], ratio: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """The half on tokens of the policy, in nats."""
        return policy_half(log_ratio, ratio)


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
