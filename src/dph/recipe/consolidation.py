"""The settings of ``[consolidation]``: after RL, learning from the policy's own answers."""

from typing import Annotated, Literal, Self
from pydantic import Field, model_validator
from dph.recipe.stores import PromptFileSettings
from dph.recipe.section import Whole
from typing import Self
from pydantic import Field, model_validator
from dph.recipe.section import Count, Positive, Section


# The settings of ``[self_consistency]``: RL on prompts without labels, rewarded by agreement.

class SelfConsistencySettings(PromptFileSettings):
    """Groups of unlabelled prompts in the place of some of a step's problems."""

    problems_per_step: Annotated[Whole, Field(ge=0)] = Field(
        0,
        description="problems of a rollout that are unlabelled, of train.problems_per_step; 0: off",
    )
    reward: Literal["majority", "consensus"] = Field(
        "majority",
        description="majority: 1 for the largest class of the own group (TTRL); consensus: share "
        "of the stored answers that agree",
    )
    store: str | None = Field(
        None, description="name of the [stores.<name>] with the answers and prompts of consensus"
    )

    @model_validator(mode="after")
    def _consensus_has_a_store(self) -> Self:
        if self.reward == "consensus" and self.file is not None:
            raise ValueError(
                "reward='consensus' takes its prompts from its store: leave out file, and choose "
                "among them by only and novel"
            )
        if self.reward == "majority" and self.store is not None:
            raise ValueError(
                f"reward='majority' compares a group with itself and reads no store, got "
                f"store={self.store!r}; name a file, or set reward = 'consensus'"
            )
        return self

    @property
    def active(self) -> bool:
        """Whether a step has unlabelled groups."""
        return self.problems_per_step > 0


class ConsolidationSettings(Section):
    """Updates on a store that the trained policy has filled; no answer is drawn in between."""

    updates: Count = Field(0, description="optimizer steps after RL; 0: off")
    store: str | None = Field(
        None, description="name of the [stores.<name>] that the trained policy fills"
    )
    rows: Positive = Field(256, description="stored answers an update, prompt by prompt")
    rate: float = Field(1.0, gt=0, description="learning rate, in units of train.learning_rate")
    final_rate: float = Field(
        0.1, gt=0, le=1, description="share of the learning rate that is left at the last update"
    )
    checkpoint_every: Positive = Field(50, description="updates between checkpoints")

    @model_validator(mode="after")
    def _has_a_store(self) -> Self:
        if self.updates > 0 and self.store is None:
            raise ValueError(
                f"updates={self.updates} needs store, the name of the [stores.<name>] that the "
                "trained policy fills"
            )
        return self

    @property
    def active(self) -> bool:
        """Whether anything follows RL."""
        return self.updates > 0
