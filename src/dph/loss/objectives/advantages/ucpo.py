"""UCPO: among right answers, the improbable ones get more of the credit."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.advantages.group import GroupAdvantage, right_answers
from dph.loss.objectives.terms import GroupSamples

_LEAST_SHARE = 1e-6
"""Of the authors' code: an answer that hardly ever comes does not take all of the credit."""


@dataclass(frozen=True, slots=True)
class UniformCorrect:
    """GRPO's advantages, shared out anew among the right answers of a group.

    Equation: A_i = A n+ ((1 - tau) / n+ + tau v_i / sum v) of the n+ right answers, whose
    advantage in GRPO is A, with v_i = 1 / q_i and q the softmax over them of
    log pi_old(y) / |y|; wrong answers keep GRPO's (UCPO, arXiv:2605.00365; read in the authors'
    code, ``compute_dgrpo_advantage_outcome_invq_l`` with alpha = 0, q at least 1e-6, and tau 0.2
    in their scripts).
    Units: log-probs in nats; per token, so lengths do not decide.
    Limits: tau = 0 is GRPO. The sum over the right answers is GRPO's, whatever tau is. Answers
    of equal mean log-prob have equal advantages.

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
        if samples.logprobs is None or samples.lengths is None:
            raise DataError("ucpo reads the log-probs of the samples, which are not given")
        right = right_answers(rewards, "ucpo")
        plain = GroupAdvantage(self.scale)(rewards)
        means = (samples.logprobs / samples.lengths.clamp(min=1)).to(rewards.dtype)
        # -inf beside at least one finite entry; a group without any is not used below.
        some = right.any(-1, keepdim=True)
        among = torch.where(right | ~some, means, -torch.inf).softmax(-1)
        rare = torch.where(right, 1 / among.clamp(min=_LEAST_SHARE), 0.0)
        count = right.sum(-1, keepdim=True)
        share = count * rare / rare.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(right, plain * ((1 - self.tau) + self.tau * share), plain)
