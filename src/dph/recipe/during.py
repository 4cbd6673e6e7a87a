"""The settings of ``[evaluate.during]``: what is measured while training runs."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from dph.recipe.section import Count, Positive, Section, with_default


def require_k(ks: tuple[int, ...], samples: int) -> None:
    """Refuse a k of Pass@k that needs more samples than there are.

    Raises:
        ValueError: it does.
    """
    if max(ks) > samples:
        raise ValueError(f"need 1 <= k <= samples, got k={max(ks)}, samples={samples}")


class DuringSettings(Section):
    """What is measured every ``evaluate.every`` steps of training."""

    samples: Positive = Field(8, description="samples a problem")
    k: Annotated[tuple[Positive, ...], Field(strict=False, min_length=1)] = Field(
        (1, 8), description="the k of Pass@k (default: those up to samples)"
    )
    sets: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="names of evaluation sets; default: all of data.sets"
    )
    problems: Positive = Field(
        64, description="problems of each set, drawn by evaluate.seed; all where it has no more"
    )
    greedy: bool = Field(True, description="draw the greedy answer too")
    compared: Count = Field(
        1,
        description="samples a problem whose next-token distributions are compared with those of "
        "the initial policy, over the whole vocabulary; 0: none, and it is not loaded for that",
    )

    @model_validator(mode="before")
    @classmethod
    def _k_follows_samples(cls, data: Any) -> Any:
        return with_default(data, "k", "samples", lambda n: [k for k in (1, 8) if k <= n])

    @model_validator(mode="after")
    def _fits_the_samples(self) -> Self:
        require_k(self.k, self.samples)
        if self.compared > self.samples:
            raise ValueError(
                f"need compared <= samples, got compared={self.compared}, samples={self.samples}"
            )
        return self
