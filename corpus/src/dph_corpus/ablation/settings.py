"""Settings of an ablation."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from dph.recipe.section import Count, Positive, Section, start_of_paths

_RULES = ("fixed", "opencoder", "sql")

NGRAM = "ngram"
DEVELOPMENT_FROM = 1000
"""Distance of the development seeds from the seeds of the table."""


def _rules(value: object, info: ValidationInfo) -> object:
    """The name of a preset, or a file of rules, placed as every other path."""
    if value in _RULES or not isinstance(value, str):
        return value
    if not value.endswith(".toml"):
        names = ", ".join(_RULES)
        raise ValueError(f"must be {names} or a file that ends in .toml, got {value!r}")
    place = (start_of_paths(value, info) or Path()) / value
    if not place.is_file():
        raise ValueError(f"there is no file {place}")
    return str(place)


FilterRules = Annotated[str, BeforeValidator(_rules)]
"""Rules of `dph corpus filter`: the name of a preset, or a file of thresholds and rules."""


class AblationSettings(Section):
    """Arms, amount of text, number of seeds, and models."""

    arms: Literal["cleaning", "deduplication", "filtering", "annealing"] = Field(
        "cleaning", description="family of arms to compare"
    )
    megabytes: Annotated[float, Field(gt=0)] = Field(
        1.0,
        description="megabytes of the corpus, a uniform sample of its documents, not "
        "counting copies",
    )
    copies: float = Field(
        0.0, ge=0, lt=1, description="share of the raw files that are planted copies of others"
    )
    language: str = Field("", description="use only documents of this language")
    dedup: Literal["opencoder", "loose", "exact"] = "opencoder"
    filter: FilterRules = "opencoder"
    models: Annotated[
        tuple[Literal["ngram", "transformer"], ...], Field(strict=False, min_length=1)
    ] = ("ngram", "transformer")
    tokens: Positive = Field(
        120_000, description="tokens that each model is trained on, the same in every arm"
    )
    heldout_tokens: Positive = Field(
        60_000, description="maximum tokens that each model is measured on"
    )
    seeds: Annotated[int, Field(ge=2)] = Field(
        3, description="number of seeds; each draws sequences and weights"
    )
    development: Annotated[int, Field(ge=0)] = Field(
        0, description="number of other seeds run before them, for the power; 0: no power is stated"
    )
    margin: Annotated[float, Field(gt=0)] = Field(
        0.01, description="difference, in bits per byte, below which two arms count as equal"
    )
    heldout_languages: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="languages to measure separately; without any, all code together"
    )
    vocabulary: Annotated[int, Field(ge=261)] = Field(2048, description="of the tokenizer")
    context: Annotated[int, Field(ge=8)] = Field(256, description="tokens of a sequence")
    order: Annotated[int, Field(ge=2, le=5)] = Field(4, description="tokens of an n-gram")
    width: Positive = Field(96, description="of the transformer")
    layers: Positive = 2
    heads: Positive = 4
    sequences_per_step: Positive = 8
    learning_rate: Annotated[float, Field(gt=0)] = 3e-3
    seed: Count = Field(0, description="the first of the seeds")

    @model_validator(mode="after")
    def _a_step_is_learnt(self) -> Self:
        if self.sequences < self.sequences_per_step:
            raise ValueError(
                f"need tokens >= context * sequences_per_step, got tokens={self.tokens}, "
                f"context={self.context}, sequences_per_step={self.sequences_per_step}"
            )
        return self

    @model_validator(mode="after")
    def _an_n_gram_model_has_no_rate(self) -> Self:
        if self.arms == "annealing" and NGRAM in self.models:
            raise ValueError(
                "arms of annealing differ in the learning rate, which an n-gram model does not "
                f"have: models must be transformer, got {', '.join(self.models)}"
            )
        return self

    @model_validator(mode="after")
    def _power_needs_two(self) -> Self:
        if self.development == 1:
            raise ValueError("need development = 0, or at least 2 seeds for a spread, got 1")
        return self

    @property
    def report_seeds(self) -> tuple[int, ...]:
        """The seeds of the table."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def development_seeds(self) -> tuple[int, ...]:
        """Seeds that only tell how much a seed matters."""
        first = self.seed + DEVELOPMENT_FROM
        return tuple(range(first, first + self.development))

    @property
    def steps(self) -> int:
        """Optimizer steps of the transformer."""
        return self.tokens // (self.context * self.sequences_per_step)

    @property
    def sequences(self) -> int:
        """Sequences that every model learns from: those of whole steps."""
        return self.steps * self.sequences_per_step
