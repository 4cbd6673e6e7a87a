"""Advantages from the mean of a group: GRPO and Dr. GRPO, MaxRL, UCPO, differential smoothing."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.terms import GroupSamples


def right_answers(
    rewards: Float[Tensor, "groups samples"], advantage: str
) -> Bool[Tensor, "groups samples"]:
    """Mask of right samples: those with reward 1. The others have reward 0.

    >>> import torch
    >>> right_answers(torch.tensor([[1.0, 0.0]]), "maxrl").tolist()
    [[True, False]]
    """
    other = rewards[(rewards != 0) & (rewards != 1)]
    if len(other):
        raise DataError(
            f"the advantage {advantage!r} needs rewards of 0 or 1, got {float(other[0]):g}: it "
            "counts right answers, and partial credit is neither right nor wrong"
        )
    return rewards == 1


def given_logprobs(samples: GroupSamples, advantage: str) -> tuple[Tensor, Tensor]:
    """Log-probs (nats) of the samples, and their lengths in tokens."""
    if samples.logprobs is None or samples.lengths is None:
        raise DataError(f"{advantage} reads the log-probs of the samples, which are not given")
    return samples.logprobs, samples.lengths


def has_signal(rewards: Float[Tensor, "groups samples"]) -> Bool[Tensor, "groups"]:
    """Groups with at least two different rewards.

    The others have advantage 0 everywhere: without a KL term they carry no gradient, and
    DAPO's dynamic sampling draws new ones instead.
    """
    if rewards.shape[-1] == 0:
        raise DataError(f"a group needs at least one reward, got shape {tuple(rewards.shape)}")
    return rewards.amax(-1) > rewards.amin(-1)


def group_advantages(
    rewards: Float[Tensor, "groups samples"],
    *,
    scale: Literal["std", "none"] = "std",
    eps: float = 1e-6,
) -> Float[Tensor, "groups samples"]:
    """Advantage of each sample over the mean of its group.

    Equation: (r - mean) / (std + eps) (GRPO, arXiv:2402.03300, section 4.1); r - mean for
    ``scale="none"`` (Dr. GRPO, arXiv:2503.20783).
    The standard deviation is the unbiased one (divisor samples - 1), as in TRL and verl.
    Limits: a group whose rewards are all equal, or with a single sample, gets exactly 0,
    whatever the rounding of its mean.

    Raises:
        SettingsError: ``scale`` is unknown or ``eps`` is not above 0.
        DataError: groups without samples.

    >>> group_advantages(torch.tensor([[1.0, 0.0], [0.1, 0.1]]), scale="none")
    tensor([[ 0.5000, -0.5000],
            [ 0.0000,  0.0000]])
    """
    if scale not in ("std", "none"):
        raise SettingsError(f"advantage scale must be 'std' or 'none', got {scale!r}")
    if not eps > 0:
        raise SettingsError(f"advantage eps must be above 0, got {eps}")
    signal = has_signal(rewards)[:, None]
    centred = rewards - rewards.mean(-1, keepdim=True)
    if scale == "std":
        # One sample has no unbiased deviation; its group has no signal either.
        divisor = max(1, rewards.shape[-1] - 1)
        std = (centred.square().sum(-1, keepdim=True) / divisor).sqrt()
        centred = centred / (std + eps)
    return torch.where(signal, centred, 0.0)


@dataclass(frozen=True, slots=True)
class GroupAdvantage:
    """``group_advantages`` as a term of the loss.

    Raises:
        SettingsError: ``scale`` is neither "std" nor "none".
    """

    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        if self.scale not in ("std", "none"):
            raise SettingsError(f"advantage scale must be 'std' or 'none', got {self.scale!r}")

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample."""
        return group_advantages(rewards, scale=self.scale)


# F-GRPO: groups that mostly succeed count for less.


@dataclass(frozen=True, slots=True)
class FocalAdvantage:
    """Group-relative advantages, scaled down by the success rate of their group.

    Equation: (1 - rate)^gamma A, with A of GRPO and rate = right answers / samples (F-GRPO,
    arXiv:2602.06717, section 4). The code of its authors was not available; that of
    arXiv:2605.00365 has the same formula as a rival, with gamma 0.5.
    Limits: gamma = 0 is GRPO; groups without signal have exactly 0. The sum stays 0, because
    one factor belongs to the whole group.

    Raises:
        SettingsError: gamma is below 0 or not finite, or ``scale`` is neither "std" nor "none".
    """

    gamma: float = 0.5
    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < float("inf"):
            raise SettingsError(f"gamma of f_grpo must be finite and at least 0, got {self.gamma}")
        GroupAdvantage(self.scale)

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: a reward is neither 0 nor 1.
        """
        rate = right_answers(rewards, "f_grpo").to(rewards.dtype).mean(-1, keepdim=True)
        return (1 - rate) ** self.gamma * GroupAdvantage(self.scale)(rewards)


def maxrl_advantages(rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
    """Advantage of each sample over the mean of its group, in units of that mean.

    Equation: (r - mean) / mean, and 0 if no sample is right (MaxRL, arXiv:2602.02710, the
    estimator with a baseline; its authors' code has the denominator mean + 1e-6).
    Computed as: the equation without that eps, which a group with a right answer does not need.
    Limits: exactly 0 where all samples are right, or none. Samples' advantages sum to 0. The
    mean of |A| is 2 (1 - mean), while GRPO's is about 2 sqrt(mean (1 - mean)): the learning rate
    must be tuned again.
    What it climbs: for groups of n, (1/n) sum of A grad log pi is in expectation the gradient of
    the log-likelihood of a right answer, log p = - sum over k of (1 - p)^k / k, cut off after
    k = n - 1 (a test enumerates it; without the baseline it is cut off after n).

    Raises:
        DataError: a reward is neither 0 nor 1.

    >>> maxrl_advantages(torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    tensor([[ 3., -1., -1., -1.],
            [ 0.,  0.,  0.,  0.]])
    """
    right_answers(rewards, "maxrl")
    mean = rewards.mean(-1, keepdim=True)
    return torch.where(mean > 0, (rewards - mean) / mean, 0.0)


@dataclass(frozen=True, slots=True)
class MaxRL:
    """``maxrl_advantages`` as a term of the loss."""

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample."""
        return maxrl_advantages(rewards)


_LEAST_SHARE = 1e-6
"""Of the authors' code: a very rare answer does not take all of the credit."""


@dataclass(frozen=True, slots=True)
class UniformCorrect:
    """GRPO's advantages, redistributed among the right answers of a group.

    Equation: A_i = A n+ ((1 - tau) / n+ + tau v_i / sum v) of the n+ right answers, whose
    advantage in GRPO is A, with v_i = 1 / q_i and q the softmax over them of
    log pi_old(y) / |y|; wrong answers keep GRPO's (UCPO, arXiv:2605.00365; read in the authors'
    code, ``compute_dgrpo_advantage_outcome_invq_l`` with alpha = 0, q at least 1e-6, and tau 0.2
    in their scripts).
    Units: log-probs in nats; per token, so lengths do not decide.
    Limits: tau = 0 is GRPO. The sum over the right answers is GRPO's for every tau. Answers of
    equal mean log-prob have equal advantages.

    Raises:
        SettingsError: tau is outside of [0, 1], or ``scale`` is neither "std" nor "none".
    """

    reads: ClassVar[frozenset[str]] = frozenset({"logprobs"})

    tau: float = 0.2
    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        if not 0 <= self.tau <= 1:
            raise SettingsError(f"tau of ucpo must lie in [0, 1], got {self.tau}")
        GroupAdvantage(self.scale)

    def __call__(
        self, rewards: Float[Tensor, "groups samples"], samples: GroupSamples
    ) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: a reward is neither 0 nor 1, or log-probs are missing.
        """
        logprobs, lengths = given_logprobs(samples, "ucpo")
        right = right_answers(rewards, "ucpo")
        plain = GroupAdvantage(self.scale)(rewards)
        means = (logprobs / lengths.clamp(min=1)).to(rewards.dtype)
        # -inf next to at least one finite entry; a group without any is not used below.
        some = right.any(-1, keepdim=True)
        among = torch.where(right | ~some, means, -torch.inf).softmax(-1)
        rare = torch.where(right, 1 / among.clamp(min=_LEAST_SHARE), 0.0)
        count = right.sum(-1, keepdim=True)
        share = count * rare / rare.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(right, plain * ((1 - self.tau) + self.tau * share), plain)


@dataclass(frozen=True, slots=True)
class DifferentialSmoothing:
    """GRPO's advantages with an entropy bonus on right answers and the opposite on wrong ones.

    Equation: A - gamma_p l(y) where y is right, A + gamma_n l(y) where it is wrong. With
    ``logprob="sum"``, the paper's, l(y) = log pi_old(y), summed over the answer's tokens
    (arXiv:2511.19942, equation 6 as two public reproductions have it; the authors' code was not
    available). With ``logprob="mean"`` l(y) = log pi_old(y) / |y|, the mean a token, as the
    authors of MaxRL run it in their comparison (arXiv:2602.02710; read in their code,
    ``compute_dsgrpo_outcome_advantage``, with both gammas 0.05).
    Units: log-probs in nats; gammas in advantage a nat, of the answer or of a token.
    Limits: both gammas 0 is GRPO. Groups of only right answers, or only wrong ones, move too. A
    sum grows with an answer's length, so small gammas are meant for long answers; a mean does
    not, and does not follow the entropy of whole answers either. They agree if every answer has
    one token.
    Differs from the paper: MaxRL's code divides A by the standard deviation with the divisor n;
    here, as everywhere else but in ``PassAtK``, it is n - 1.

    Args:
        gamma_p: coefficient of right answers.
        gamma_n: coefficient of wrong answers; None is ``gamma_p``.
        scale: of GRPO's advantages.
        logprob: "sum" over an answer's tokens, or "mean" a token.

    Raises:
        SettingsError: a gamma is below 0 or not finite, or ``scale`` or ``logprob`` is unknown.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"logprobs"})

    gamma_p: float = 0.01
    gamma_n: float | None = None
    scale: Literal["std", "none"] = "std"
    logprob: Literal["sum", "mean"] = "sum"

    def __post_init__(self) -> None:
        for name, gamma in (("gamma_p", self.gamma_p), ("gamma_n", self.gamma_n)):
            if gamma is not None and not 0 <= gamma < float("inf"):
                raise SettingsError(
                    f"{name} of differential_smoothing must be finite and at least 0, got {gamma}"
                )
        if self.logprob not in ("sum", "mean"):
            raise SettingsError(
                f"logprob of differential_smoothing must be 'sum' or 'mean', got {self.logprob!r}"
            )
        GroupAdvantage(self.scale)

    def __call__(
        self, rewards: Float[Tensor, "groups samples"], samples: GroupSamples
    ) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: a reward is neither 0 nor 1, or log-probs are missing.
        """
        logprobs, lengths = given_logprobs(samples, "differential_smoothing")
        right = right_answers(rewards, "differential_smoothing")
        gamma_n = self.gamma_p if self.gamma_n is None else self.gamma_n
        logprobs = logprobs.to(rewards.dtype)
        if self.logprob == "mean":
            logprobs = logprobs / lengths.clamp(min=1)
        smoothing = torch.where(right, -self.gamma_p * logprobs, gamma_n * logprobs)
        return GroupAdvantage(self.scale)(rewards) + smoothing
