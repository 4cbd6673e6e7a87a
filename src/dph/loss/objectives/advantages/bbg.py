"""Bayesian boundary gating: problems that the initial policy solves anyway count for nothing."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.advantages.group import GroupAdvantage, right_answers
from dph.loss.objectives.terms import GroupSamples


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


def boundary_gates(samples: int, k: int, tau: float) -> list[float]:
    """The gate by the number of right answers: 0 where ``boundary_gate`` is below tau (n + 1)."""
    gates = [boundary_gate(correct, samples, k) for correct in range(samples + 1)]
    return [gate if gate >= tau * (samples + 1) else 0.0 for gate in gates]


@dataclass(frozen=True, slots=True)
class BayesianBoundaryGate:
    """GRPO's advantages times the gate of what the initial policy did on the problem.

    Equation: u(m; n, k) A, and 0 where u < tau (n + 1), with m right answers of n in
    pre-sampling (BBG, arXiv:2606.15455, equations 8 and 9 as a public reimplementation quotes
    them; the authors' code was not available, and how they scale u could not be checked).
    Differs from the paper, as far as that reimplementation tells: there m counts the group at
    hand (``BayesianBoundaryGateOfGroup``), and groups without a right answer learn by a signed
    REINFORCE loss, which a group-relative advantage does not have.

    Raises:
        SettingsError: k is below 1, tau is below 0 or not finite, or ``scale`` is unknown.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"base_correct"})

    k: int = 16
    tau: float = 0.01
    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        _check(self.k, self.tau)
        GroupAdvantage(self.scale)

    def __call__(
        self, rewards: Float[Tensor, "groups samples"], samples: GroupSamples
    ) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: the initial policy's counts are missing.
        """
        if samples.base_correct is None or samples.base_samples is None:
            raise DataError("bbg reads the initial policy's right answers, which are not given")
        gates = boundary_gates(samples.base_samples, self.k, self.tau)
        return _gated(rewards, samples.base_correct, gates, self.scale)


@dataclass(frozen=True, slots=True)
class BayesianBoundaryGateOfGroup:
    """The same, with the right answers of the group at hand in the place of the initial policy's.

    It needs no pre-sampling, and rewards of 0 or 1.

    Raises:
        SettingsError: as ``BayesianBoundaryGate``.
    """

    k: int = 16
    tau: float = 0.01
    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        _check(self.k, self.tau)
        GroupAdvantage(self.scale)

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: a reward is neither 0 nor 1.
        """
        right = right_answers(rewards, "bbg_group").sum(-1)
        gates = boundary_gates(rewards.shape[-1], self.k, self.tau)
        return _gated(rewards, right, gates, self.scale)


def _gated(
    rewards: Float[Tensor, "groups samples"],
    right: Int[Tensor, "groups"],
    gates: list[float],
    scale: Literal["std", "none"],
) -> Float[Tensor, "groups samples"]:
    table = torch.tensor(gates, dtype=rewards.dtype, device=rewards.device)
    return table[right][:, None] * GroupAdvantage(scale)(rewards)


def _check(k: int, tau: float) -> None:
    if k < 1:
        raise SettingsError(f"k of bbg must be at least 1, got {k}")
    if not 0 <= tau < float("inf"):
        raise SettingsError(f"tau of bbg must be finite and at least 0, got {tau}")
