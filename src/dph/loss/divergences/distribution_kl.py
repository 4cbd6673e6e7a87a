"""Forward KL from stored next-token distributions: all that the initial policy would have said."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.divergences.base import categorical_kl


@runtime_checkable
class DistributionDivergence(Protocol):
    """A divergence on stored positions whose target distribution is known, not only a sample."""

    def over_buckets(
        self,
        targets: Float[Tensor, "positions buckets"],
        logprobs: Float[Tensor, "positions buckets"],
    ) -> Float[Tensor, "positions"]:
        """Its value at each position, nats.

        Buckets are some tokens and, last, all others together: log-probs of the target (-inf for
        what is no bucket of a position) and of the policy, which carry the gradient.
        """
        ...

    def counting(self, log_ratio: Float[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
        """Stored answers that count now, from log pi(y) - log pi_ref(y) of the whole answer."""
        ...


@dataclass(frozen=True, slots=True)
class DistributionKL:
    """KL(q || pi) at stored positions, q the stored distribution (see DistributionSample).

    Equation: sum over the stored tokens v of q(v) log(q(v) / pi(v)), plus q_T log(q_T / pi_T) for
    all other tokens together. It is the KL of the whole distributions where every token is
    stored, and never above it otherwise (data processing); its gradient differs from the whole
    one by how q and pi share their mass *among* the others, which falls with the number of tokens
    stored (lab/benchmarks/truncated_distributions.py). The sum without the last term is no
    divergence: it falls when pi moves mass from the stored tokens' rest onto them, and may be
    negative. It is not offered.
    With ``floor`` > 0 an answer costs only while pi(y) < floor * pi_ref(y), y the stored answer:
    only a fall costs. Which answers do is decided without gradient; the others stay in the
    denominator.
    Units: nats a token.
    Limits: 0, with gradient 0, where pi = q on every bucket. ``floor`` 0: every answer counts.
    Overflow: none: everything is in log space; +inf where q has mass and pi none.

    Raises:
        SettingsError: ``floor`` outside [0, 1].

    >>> q, pi = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    >>> DistributionKL().over_buckets(q, pi)
    tensor([0.1438])
    """

    name: ClassVar[str] = "distribution_kl"
    reads_distributions: ClassVar[bool] = True

    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise SettingsError(f"distribution_kl: floor must lie in [0, 1], got {self.floor}")

    def over_buckets(
        self,
        targets: Float[Tensor, "positions buckets"],
        logprobs: Float[Tensor, "positions buckets"],
    ) -> Float[Tensor, "positions"]:
        """The value at each position, nats."""
        return categorical_kl(targets, logprobs)

    def counting(self, log_ratio: Float[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
        """Answers that count: those that have fallen below the floor, or all."""
        if self.floor == 0:
            return torch.ones_like(log_ratio, dtype=torch.bool)
        return log_ratio < math.log(self.floor)
