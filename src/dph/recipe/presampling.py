"""The settings of ``[presample]``."""

import math
from typing import Any, Self

from pydantic import Field, model_validator

from dph.recipe.choices import WrongFinal
from dph.recipe.section import Count, FilePath, Positive, Section, with_default


class PresamplingSettings(Section):
    """How the initial policy's answers split the problems and what is kept."""

    samples: Positive = Field(8, description="samples a problem that decide its side of the split")
    threshold: Positive = Field(
        7, description="near-perfect when at least this many are correct (default: 7/8 of samples)"
    )
    wrong_final: WrongFinal = Field(
        "discard",
        description="near-perfect, but the final sample is wrong: leave it out, or explore it",
    )
    keep: Positive = Field(
        1,
        description="stored answers of a near-perfect problem: the final sample, then correct ones "
        "of those that decided",
    )
    seed: Count | None = Field(
        None,
        description="of the pool's samples, so that runs of several seeds can share a pool; "
        "default: seed",
    )
    pool: FilePath | None = Field(
        None, description="where the pool lies; default: pool/ in the run directory"
    )

    @model_validator(mode="before")
    @classmethod
    def _threshold_follows_samples(cls, data: Any) -> Any:
        return with_default(data, "threshold", "samples", lambda n: math.ceil(7 * n / 8))

    @model_validator(mode="after")
    def _kept_are_drawn(self) -> Self:
        if self.keep > self.samples + 1:
            raise ValueError(
                f"need keep <= samples + 1, got keep={self.keep}, samples={self.samples}"
            )
        return self

    @model_validator(mode="after")
    def _threshold_fits(self) -> Self:
        if self.threshold > self.samples:
            raise ValueError(
                f"need threshold <= samples, got threshold={self.threshold}, samples={self.samples}"
            )
        return self
