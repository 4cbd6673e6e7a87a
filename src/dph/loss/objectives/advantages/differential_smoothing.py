"""Differential smoothing: right answers are flattened, wrong ones sharpened."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.advantages.group import GroupAdvantage, right_answers
from dph.loss.objectives.terms import GroupSamples


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
    Limits: both gammas 0 is GRPO. Groups of right answers alone, or of wrong ones, move too. A
    sum grows with an answer's length, so small gammas are meant for long answers; a mean does
    not, and does not follow the entropy of whole answers either. They agree where every answer
    has one token.
    Differs from the paper: MaxRL's code divides A by the standard deviation with the divisor n;
    here, as everywhere else, it is n - 1.

    Args:
        gamma_p: of right answers.
        gamma_n: of wrong answers; None is ``gamma_p``.
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
        if samples.logprobs is None or samples.lengths is None:
            raise DataError(
                "differential_smoothing reads the log-probs of the samples, which are not given"
            )
        right = right_answers(rewards, "differential_smoothing")
        gamma_n = self.gamma_p if self.gamma_n is None else self.gamma_n
        logprobs = samples.logprobs.to(rewards.dtype)
        if self.logprob == "mean":
            logprobs = logprobs / samples.lengths.clamp(min=1)
        smoothing = torch.where(right, -self.gamma_p * logprobs, gamma_n * logprobs)
        return GroupAdvantage(self.scale)(rewards) + smoothing
