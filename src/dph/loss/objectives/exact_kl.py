"""KL to the initial policy on new samples, exact over the vocabulary at each position."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from dph.loss.divergences.categorical import categorical_kl


@dataclass(frozen=True, slots=True)
class ExactReverseKL:
    """KL(pi || pi_ref) at each position of the policy's samples.

    Equation: sum over v of pi(v) log(pi(v) / pi_ref(v)); mode-seeking. The estimators k1, k2 and
    k3 (``KLPenalty``) are made from the sampled token alone; this has their mean and none of
    their variance, for the price of the initial policy's forward in every update.
    Gradient: through the distribution at each position, not through which positions come about.
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
    that the policy comes to, it keeps what the initial policy would have said there.
    Gradient: through the distribution at each position, not through which positions come about.
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
