"""Reverse-KL baselines: a penalty on the policy's own samples."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.divergences import ForwardKL
from dph.loss.divergences.precision import at_least_float32
from dph.loss.objectives.terms import PolicyTokens


def kl_penalty(
    logprobs: Float[Tensor, "*shape"],
    ref_logprobs: Float[Tensor, "*shape"],
    *,
    estimator: Literal["k2", "k3"],
) -> Float[Tensor, "*shape"]:
    """Per-token penalty on tokens of the policy, as a loss to differentiate.

    Equation: with x = log pi - log pi_ref (J. Schulman, "Approximating KL divergence", 2020):
    k2: x^2 / 2; gradient x. Its expected gradient is that of KL(pi || pi_ref) at the policy's
    own prefixes: a true reverse KL.
    k3: exp(-x) - 1 + x; gradient 1 - exp(-x). Its expected *value* is KL(pi || pi_ref), its
    expected *gradient* that of the forward KL(pi_ref || pi) on the policy's prefixes. It is
    what GRPO, TRL and verl call "KL", and the paper's baseline.
    Both: tests/loss/divergences/test_policy_estimators.py. k1 (x itself) is left out: as a loss its
    expected gradient is 0.
    Units: nats a token.
    Limits: equal to x^2 / 2 to first order near x = 0; k3 is accurate there as ``ForwardKL``.
    Overflow: k3 as ``ForwardKL`` at -x; k2 is finite for |x| <= 1e19 in float32.

    Raises:
        SettingsError: ``estimator`` is neither "k2" nor "k3".
    """
    log_ratio = at_least_float32(logprobs) - at_least_float32(ref_logprobs).detach()
    if estimator == "k2":
        return log_ratio.square() / 2
    if estimator == "k3":
        return ForwardKL(form="k3")(-log_ratio)
    raise SettingsError(f"kl_estimator must be 'k2' or 'k3', got {estimator!r}")


@dataclass(frozen=True, slots=True)
class KLPenalty:
    """``kl_penalty`` as a term of the loss.

    Raises:
        SettingsError: ``estimator`` is neither "k2" nor "k3".
    """

    estimator: Literal["k2", "k3"] = "k3"
    reads_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.estimator not in ("k2", "k3"):
            raise SettingsError(f"kl_estimator must be 'k2' or 'k3', got {self.estimator!r}")

    def __call__(self, tokens: PolicyTokens) -> Float[Tensor, "rows tokens"]:
        """Nats a token."""
        return kl_penalty(tokens.logprobs, tokens.ref_logprobs, estimator=self.estimator)
