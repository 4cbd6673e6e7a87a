"""Advantages that match a target distribution: alpha-DPG and FlowRL."""

from dataclasses import dataclass
from math import log1p
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.advantages.group import GroupAdvantage, group_advantages, right_answers
from dph.loss.objectives.terms import GroupSamples


def alpha_pseudo_rewards(log_ratio: Float[Tensor, "*shape"], alpha: float) -> Tensor:
    """Pseudo-reward of a sample of the policy, with the target p.

    Equation: -f'(pi / p) = ((p / pi)^(1 - alpha) - 1) / (1 - alpha), with the generator
    f(t) = (t^alpha - alpha t + alpha - 1) / (alpha (alpha - 1)) of the alpha-divergence
    D_f(pi || p) = E_p[f(pi / p)] (arXiv:2512.05962, from f-DPG, arXiv:2302.08215).
    Computed as: expm1((1 - alpha) x) / (1 - alpha), x = ``log_ratio`` = log p - log pi in nats.
    Limits: alpha = 0 is p / pi - 1, the forward KL(p || pi); alpha = 1 is log(p / pi), the
    reverse KL(pi || p). Where p = 0, x = -inf: -1 / (1 - alpha), and -inf for alpha = 1.
    Overflow: float32 gives inf above x = 88 / (1 - alpha).

    >>> alpha_pseudo_rewards(torch.tensor([4.0, 1.0, 0.0]).log(), 0.5)
    tensor([ 2.,  0., -2.])
    """
    if alpha == 1:
        return log_ratio
    return torch.expm1((1 - alpha) * log_ratio) / (1 - alpha)


@dataclass(frozen=True, slots=True)
class AlphaDPG:
    """Advantages that make the policy the initial policy conditioned on being right.

    Equation: the target is p(y) = pi_0(y) r(y) / Z, r = 1 for right answers and 0 for wrong ones,
    Z the initial policy's pass rate. A_i = R_i minus the mean of R over the other samples of the
    group, R = ``alpha_pseudo_rewards(log p - log pi_old)``, (p / pi_old)^(1 - alpha) being held at
    1 + clip or less (alpha-DPG, arXiv:2512.05962). E[A grad log pi] at pi = pi_old is exactly minus
    the gradient of D_f(pi || p) where nothing is clipped and Z is right.
    A wrong answer has p = 0 and R = -1 / (1 - alpha), the least there is, so that nothing is
    clipped below. At alpha = 1 it would be -inf, and alpha stays below 1.
    Z is estimated by (c + 1) / (n + 2), c of n right answers in pre-sampling: the posterior mean
    under a uniform prior, as in ``BayesianBoundaryGate``. c / n would be 0, and p infinite, on the
    problems that the initial policy did not solve. Since the baseline takes constants away, a wrong
    Z weights the whole problem by (Z / estimate)^(1 - alpha) where nothing is clipped, and changes
    nothing else there.
    Units: log-probs of whole answers in nats, at the sampling temperature.
    Limits: near alpha = 0 every right answer of the initial policy is covered; near alpha = 1
    (1 - alpha) A is the reward minus the mean of the others. Groups of wrong answers alone have
    exactly 0, those of right answers alone move.
    Differs from the paper: its authors' code leaves 1 / (1 - alpha) out, which is a learning rate;
    estimates Z from the group at hand, by the mean of pi_0 r / pi_old, at most 1 and 1e-4 in the
    place of 0, unless the data name it; and has no ratio that could be clipped. Bound, baseline and
    the default of ``clip`` are theirs.

    Args:
        alpha: from coverage (0) to precision (towards 1); theirs run from 0 to 0.999.
        clip: how far (p / pi_old)^(1 - alpha) may rise above 1.

    Raises:
        SettingsError: alpha is not in [0, 1), or ``clip`` is not finite and above 0.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"logprobs", "ref_logprobs", "base_correct"})
    least_samples: ClassVar[int] = 2

    alpha: float = 0.5
    clip: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            raise SettingsError(
                f"alpha of alpha_dpg must be at least 0 and below 1, got {self.alpha}"
            )
        if not 0 < self.clip < float("inf"):
            raise SettingsError(f"clip of alpha_dpg must be finite and above 0, got {self.clip}")

    def __call__(
        self, rewards: Float[Tensor, "groups samples"], samples: GroupSamples
    ) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample, in groups of at least 2.

        Raises:
            DataError: a reward is neither 0 nor 1, or log-probs or counts are missing.
        """
        right = right_answers(rewards, "alpha_dpg")
        if samples.logprobs is None or samples.ref_logprobs is None:
            raise DataError(
                "alpha_dpg reads the samples' log-probs and the initial policy's, which are not "
                "both given"
            )
        if samples.base_correct is None or samples.base_samples is None:
            raise DataError(
                "alpha_dpg reads the initial policy's right answers, which are not given"
            )
        rate = (samples.base_correct.to(rewards.dtype) + 1) / (samples.base_samples + 2)
        drawn, initial = (x.to(rewards.dtype) for x in (samples.logprobs, samples.ref_logprobs))
        log_ratio = torch.where(right, initial - rate.log()[:, None] - drawn, -torch.inf)
        bounded = log_ratio.clamp(max=log1p(self.clip) / (1 - self.alpha))
        worth = alpha_pseudo_rewards(bounded, self.alpha)
        # n / (n - 1) (R_i - mean) is R_i minus the mean of the others.
        count = rewards.shape[-1]
        return group_advantages(worth, scale="none") * (count / (count - 1))


@dataclass(frozen=True, slots=True)
class FlowRL:
    """Distance of each sample from FlowRL's target, which the group itself normalises.

    Equation: FlowRL (arXiv:2509.15207) minimises w delta^2 with
    delta = log Z(x) + log pi(y) / |y| - beta r - log pi_0(y) / |y|, r the reward of GRPO's
    advantage, (reward - mean) / std. Here A_i = v_i minus the mean of v over the group,
    v = beta r + (log pi_0(y) - log pi_old(y)) / |y|: that is -delta at pi = pi_old, with the log Z
    that makes the group's delta^2 least. The surrogate ``FlowBalance`` is w delta^2 for
    whatever pi becomes.
    Units: log-probs in nats a token, at the sampling temperature; ``beta`` in nats a token.
    Limits: at pi_old = pi_0 it is beta times GRPO's advantage. All A are 0 where
    pi_old(y) = pi_0(y) exp(|y| (beta r(y) - c)) for some c. Groups of equal rewards move back
    towards the initial policy.
    Differs from the paper: there log Z is a network on the mean of the prompt's last hidden
    states, trained together with the policy. The best such network says on each prompt the mean of
    the log Z of its groups; here each group has its own, as in VarGrad (arXiv:2010.10436). A sample
    is part of its group's mean: where r does not depend on the group, the expected gradient is
    (n - 1) / n of that with the best network.

    Args:
        beta: how much a standard deviation of reward weighs; 15 in the authors' code.
        scale: of r: "std", the paper's, or "none" for reward - mean.

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
