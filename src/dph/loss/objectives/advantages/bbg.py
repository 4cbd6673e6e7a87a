"""Bayesian boundary gating: problems that the policy already solves get no weight."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.objectives.advantages.group import GroupAdvantage, right_answers


def boundary_gate(correct: int, samples: int, k: int) -> float:
    """Expected gain in a problem's Pass@k from a small rise of its success rate p.

    Equation: u(m; n, k) = E[k (1 - p)^(k - 1)] under the posterior Beta(m + 1, n - m + 1), that
    is, a uniform prior and m right answers of n; = k prod_{j=1}^{k-1} (n - m + j) / (n + 1 + j)
    (arXiv:2606.15455, equation 8). k (1 - p)^(k - 1) is the derivative of 1 - (1 - p)^k.
    Limits: k = 1 is 1. It falls with m: k (n + 1) / (n + k) at m = 0, nearly 0 at m = n.

    Raises:
        SettingsError: k or ``samples`` is below 1, or ``correct`` not in 0 ... samples.

    >>> round(boundary_gate(1, 8, 16), 3), round(boundary_gate(6, 8, 16), 4)
    (2.087, 0.0017)
    """
    if k < 1 or samples < 1 or not 0 <= correct <= samples:
        raise SettingsError(
            f"need k >= 1, samples >= 1 and 0 <= correct <= samples, got {k=}, {samples=}, "
            f"{correct=}"
        )
    gate = float(k)
    for j in range(1, k):
        gate *= (samples - correct + j) / (samples + 1 + j)
    return gate


@dataclass(frozen=True, slots=True)
class BayesianBoundaryGateOfGroup:
    """GRPO's advantages times the gate of the group's own right answers; rewards are 0 or 1.

    Equation: u(m; n, k) A, and 0 where u < tau (n + 1), with m right answers of n in the group
    (BBG, arXiv:2606.15455, equations 8 and 9 as a public reimplementation quotes them; the authors'
    code was not available, and how they scale u could not be checked).
    Differs from the paper, as far as that reimplementation tells: there groups without a right
    answer learn by a signed REINFORCE loss, which a group-relative advantage does not have.

    Raises:
        SettingsError: k is below 1, tau is below 0 or not finite, or ``scale`` is unknown.
    """

    k: int = 16
    tau: float = 0.01
    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SettingsError(f"k of bbg_group must be at least 1, got {self.k}")
        if not 0 <= self.tau < float("inf"):
            raise SettingsError(f"tau of bbg_group must be finite and at least 0, got {self.tau}")
        GroupAdvantage(self.scale)

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: a reward is neither 0 nor 1.
        """
        right = right_answers(rewards, "bbg_group").sum(-1)
        samples = rewards.shape[-1]
        gates = [boundary_gate(correct, samples, self.k) for correct in range(samples + 1)]
        gates = [gate if gate >= self.tau * (samples + 1) else 0.0 for gate in gates]
        table = torch.tensor(gates, dtype=rewards.dtype, device=rewards.device)
        return table[right][:, None] * GroupAdvantage(self.scale)(rewards)
