"""The settings of ``[consolidation]``: after RL, learning from the policy's own answers."""

from typing import Self

from pydantic import Field, model_validator

from dph.recipe.section import Count, Positive, Section


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
