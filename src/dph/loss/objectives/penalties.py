"""Penalties on the policy's own samples: KL estimators and exact KL, entropy, overlong answers."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.divergences import ForwardKL
from dph.loss.divergences.base import at_least_float32, categorical_kl
from dph.loss.objectives.surrogates import importance_ratio
from dph.loss.objectives.terms import PolicyTokens

Estimator = Literal["k2", "k3", "unbiased"]


def overlong_penalty(
    lengths: Int[Tensor, "rows"], *, max_tokens: int, buffer: int, penalty: float = 1.0
) -> Float[Tensor, "rows"]:
    """Amount to add to the reward: 0 for short answers, down to ``-penalty`` at the limit.

    Equation: with s = max_tokens - buffer (DAPO, arXiv:2503.14476, equation 13):
    0 for length <= s; penalty (s - length) / buffer up to max_tokens; -penalty above.
    Units: lengths, ``max_tokens`` and ``buffer`` in tokens.

    Raises:
        SettingsError: not 1 <= buffer <= max_tokens, or ``penalty`` is not finite and >= 0.

    >>> import torch
    >>> overlong_penalty(torch.tensor([6, 9, 12]), max_tokens=10, buffer=4).tolist()
    [0.0, -0.75, -1.0]
    """
    if not 1 <= buffer <= max_tokens:
        raise SettingsError(
            f"the overlong buffer must lie in [1, max_tokens], got {buffer=}, {max_tokens=}"
        )
    if not 0 <= penalty < float("inf"):
        raise SettingsError(f"the overlong penalty must be finite and at least 0, got {penalty}")
    start = max_tokens - buffer
    return penalty * ((start - lengths).float() / buffer).clamp(-1.0, 0.0)


@dataclass(frozen=True, slots=True)
class EntropyBonus:
    """Negative entropy of the policy at the positions of its own samples.

    Equation: -H(pi) = sum over v of pi(v) log pi(v) (Williams & Peng, 1991; A3C, arXiv:1602.01783,
    section 4), so that adding it to a loss raises the entropy.
    Gradient: through the distribution at each position; the policy's influence on which positions
    occur is left out, as in TRL and verl.
    Units: nats a token; between -log(vocabulary) and 0.
    Limits: tokens of probability 0 add nothing.
    """

    def over_vocabulary(
        self,
        logprobs: Float[Tensor, "positions vocabulary"],
        _: Float[Tensor, "positions vocabulary"] | None,
        /,
    ) -> Float[Tensor, "positions"]:
        """The value at each position."""
        return (logprobs.exp() * torch.where(logprobs > -torch.inf, logprobs, 0.0)).sum(dim=-1)


@dataclass(frozen=True, slots=True)
class ExactReverseKL:
    """KL(pi || pi_ref) at each position of the policy's samples.

    Equation: sum over v of pi(v) log(pi(v) / pi_ref(v)); mode-seeking. The estimators of
    ``KLPenalty`` use only the sampled token; this has the mean of ``unbiased`` and none of its
    variance, at the price of the initial policy's forward in every update.
    Gradient: through the distribution at each position, not through which positions occur.
    Units: nats a token.
    """

    reads_reference: ClassVar[bool] = True

    def over_vocabulary(
        self,
        logprobs: Float[Tensor, "positions vocabulary"],
        ref_logprobs: Float[Tensor, "positions vocabulary"],
        /,
    ) -> Float[Tensor, "positions"]:
        """The value at each position."""
        return categorical_kl(logprobs, ref_logprobs)


@dataclass(frozen=True, slots=True)
class ExactForwardKL:
    """KL(pi_ref || pi) at each position of the policy's samples.

    Equation: sum over v of pi_ref(v) log(pi_ref(v) / pi(v)); mass-covering: at every position
    that the policy reaches, it keeps the tokens that the initial policy would have drawn there.
    Gradient: through the distribution at each position, not through which positions occur.
    Units: nats a token.
    """

    reads_reference: ClassVar[bool] = True

    def over_vocabulary(
        self,
        logprobs: Float[Tensor, "positions vocabulary"],
        ref_logprobs: Float[Tensor, "positions vocabulary"],
        /,
    ) -> Float[Tensor, "positions"]:
        """The value at each position."""
        return categorical_kl(ref_logprobs, logprobs)


def kl_penalty(
    logprobs: Float[Tensor, "*shape"],
    ref_logprobs: Float[Tensor, "*shape"],
    old_logprobs: Float[Tensor, "*shape"] | None = None,
    *,
    estimator: Estimator,
) -> Float[Tensor, "*shape"]:
    """Per-token penalty on tokens of the policy, as a loss to differentiate.

    ``old_logprobs`` are those of the policy that drew the tokens; None: of this policy.

    Equation: with x = log pi - log pi_ref (J. Schulman, "Approximating KL divergence", 2020):
    k2: x^2 / 2; gradient x. If the policy itself drew the tokens, its expected gradient is that of
    KL(pi || pi_ref) at their prefixes: a true reverse KL.
    k3: exp(-x) - 1 + x; gradient 1 - exp(-x). Then its expected *value* is KL(pi || pi_ref), its
    expected *gradient* that of the forward KL(pi_ref || pi). It is the "KL" of GRPO, verl and TRL
    (``use_bias_correction_kl=False``), and the paper's baseline.
    unbiased: r k3 with r = pi / pi_old; gradient r x. Its expected value is KL(pi || pi_ref) and
    its expected gradient the gradient of that, at the prefixes that pi_old drew, for any pi_old
    (DeepSeek-V3.2, arXiv:2512.02556; TRL's ``use_bias_correction_kl=True``).
    All: tests/loss/divergences/test_policy_estimators.py. k1 (x itself) is left out: as a loss its
    expected gradient is 0.
    Units: nats a token.
    Limits: equal to x^2 / 2 to first order near x = 0 at r = 1; k3 is accurate there as
    ``ForwardKL``.
    Overflow: k3 as ``ForwardKL`` at -x, r as ``importance_ratio``; the gradients of k2 and unbiased
    are finite for |x| <= 1e19 in float32.

    Raises:
        SettingsError: ``estimator`` is none of these.
    """
    _check_estimator(estimator)
    log_ratio = at_least_float32(logprobs) - at_least_float32(ref_logprobs).detach()
    k2 = log_ratio.square() / 2
    if estimator == "k2":
        return k2
    k3 = ForwardKL(form="k3")(-log_ratio)
    if estimator == "k3":
        return k3
    ratio = importance_ratio(logprobs, logprobs if old_logprobs is None else old_logprobs).detach()
    # Not autograd's r k3 + r (1 - exp(-x)): below x = -16 nothing of r x is left in float32.
    return (ratio * k3).detach() + ratio * (k2 - k2.detach())


def _check_estimator(estimator: str) -> None:
    if estimator not in get_args(Estimator):
        raise SettingsError(f"kl_estimator must be 'k2', 'k3' or 'unbiased', got {estimator!r}")


@dataclass(frozen=True, slots=True)
class KLPenalty:
    """``kl_penalty`` as a term of the loss.

    Raises:
        SettingsError: ``estimator`` is none of its three.
    """

    estimator: Estimator = "k3"
    reads_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_estimator(self.estimator)

    def __call__(self, tokens: PolicyTokens) -> Float[Tensor, "rows tokens"]:
        """Nats a token."""
        return kl_penalty(
            tokens.logprobs, tokens.ref_logprobs, tokens.old_logprobs, estimator=self.estimator
        )
