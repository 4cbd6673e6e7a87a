"""The rule: how strengths are chosen and what is tested, said before the first run."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dph.recipe.section import Section

_METRIC = re.compile(r"(greedy|mean|styles|keep|explore|cut_off|pass@[1-9][0-9]*)")
Texts = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


def metric_names(text: str) -> tuple[str, ...]:
    """The metrics that are added up: ``greedy + pass@16`` is two.

    >>> metric_names("greedy + pass@16")
    ('greedy', 'pass@16')

    Raises:
        ValueError: one of them is unknown.
    """
    names = tuple(part.strip() for part in text.split("+"))
    for name in names:
        if not _METRIC.fullmatch(name):
            raise ValueError(
                f"unknown metric {name!r}; there are greedy, mean, pass@K, styles, keep, explore "
                "and cut_off, and sums of them such as 'greedy + pass@16'"
            )
    return names


class ChoiceSettings(Section):
    """``[choose]``: which strength a method gets, by its runs on the development seeds."""

    metric: str = Field("greedy + pass@16", description="what is to be large; + adds up")
    sets: Texts | None = Field(None, description="evaluation sets it is a mean over; default: all")
    worlds: Literal["each", "all"] = Field(
        "each", description="one choice for each world, or one for the mean over all"
    )
    tie: float = Field(0.005, ge=0, description="scores less than this below the best are a tie")
    tie_goes_to: Literal["stronger", "weaker"] = Field(
        "stronger", description="of a tie: the larger strength, the shorter step from the base"
    )

    @field_validator("metric")
    @classmethod
    def _is_known(cls, text: str) -> str:
        metric_names(text)
        return text


class ComparisonSettings(Section):
    """``[[compare]]``: one test on the report seeds, a against b, paired by seed."""

    a: Annotated[str, Field(min_length=1)] = Field(description="label of a method")
    b: Annotated[str, Field(min_length=1)] = Field(description="label of another, or base")
    metric: str = Field(description="as of [choose]")
    set: str | Texts = Field(description="an evaluation set, or several: their mean")
    world: str | None = Field(None, description="name of a world; default: each of them")
    alternative: Literal["greater", "less", "two-sided"] = Field(
        "two-sided", description="a greater than b, less, or either"
    )

    @field_validator("metric")
    @classmethod
    def _is_known(cls, text: str) -> str:
        metric_names(text)
        return text

    @model_validator(mode="after")
    def _are_two(self) -> Self:
        if self.a == self.b:
            raise ValueError(f"a comparison is of two methods, got a = b = {self.a!r}")
        return self

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets of which the mean is compared."""
        return (self.set,) if isinstance(self.set, str) else self.set


class RuleSettings(Section):
    """Everything that is fixed before the first run."""

    choose: ChoiceSettings = ChoiceSettings()
    compare: Annotated[tuple[ComparisonSettings, ...], Field(strict=False)] = ()
    correction: Literal["holm", "none"] = Field(
        "holm", description="of the p-values of all comparisons together"
    )
