"""F-GRPO: groups that mostly succeed count for less."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.objectives.advantages.group import GroupAdvantage
from dph.loss.objectives.advantages.right_or_wrong import right_answers


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
