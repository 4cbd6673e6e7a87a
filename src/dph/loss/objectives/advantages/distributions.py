"""The advantage that matches a target distribution: FlowRL."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.advantages.group import GroupAdvantage
from dph.loss.objectives.terms import GroupSamples


@dataclass(frozen=True, slots=True)
class FlowRL:
    """Distance of each sample from FlowRL's target, normalised over the group.

    Equation: FlowRL (arXiv:2509.15207) minimises w delta^2 with
    delta = log Z(x) + log pi(y) / |y| - beta r - log pi_0(y) / |y|, r the reward of GRPO's
    advantage, (reward - mean) / std. Here A_i = v_i minus the mean of v over the group,
    v = beta r + (log pi_0(y) - log pi_old(y)) / |y|: that is -delta at pi = pi_old, with the log Z
    that minimises the group's delta^2. The surrogate ``FlowBalance`` is w delta^2 for any later pi.
    Units: log-probs in nats a token, at the sampling temperature; ``beta`` in nats a token.
    Limits: at pi_old = pi_0 it is beta times GRPO's advantage. All A are 0 where
    pi_old(y) = pi_0(y) exp(|y| (beta r(y) - c)) for some c. Groups of equal rewards move back
    towards the initial policy.
    Differs from the paper: there log Z is a network on the mean of the prompt's last hidden
    states, trained together with the policy. The best such network gives for each prompt the mean
    of the log Z of its groups; here each group has its own, as in VarGrad (arXiv:2010.10436). A
    sample is part of its group's mean: if r does not depend on the group, the expected gradient is
    (n - 1) / n of that with the best network.

    Args:
        beta: weight of a standard deviation of reward; 15 in the authors' code.
        scale: "std", the paper's r, or "none" for reward - mean.

    Raises:
        SettingsError: ``beta`` is below 0 or not finite, or ``scale`` is unknown.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"logprobs", "ref_logprobs"})
    least_samples: ClassVar[int] = 2

    beta: float = 15.0
    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        if not 0 <= self.beta < float("inf"):
            raise SettingsError(f"beta of flowrl must be finite and at least 0, got {self.beta}")
        GroupAdvantage(self.scale)

    def __call__(
        self, rewards: Float[Tensor, "groups samples"], samples: GroupSamples
    ) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: log-probs are missing.
        """
        if samples.logprobs is None or samples.lengths is None or samples.ref_logprobs is None:
            raise DataError(
                "flowrl reads the samples' log-probs and the initial policy's, which are not both "
                "given"
            )
        drawn, initial = (x.to(rewards.dtype) for x in (samples.logprobs, samples.ref_logprobs))
        back = (initial - drawn) / samples.lengths.clamp(min=1)
        return self.beta * GroupAdvantage(self.scale)(rewards) + GroupAdvantage("none")(back)
