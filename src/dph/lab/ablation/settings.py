"""Settings of an ablation."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dph.recipe.section import Count, Positive, Section

NGRAM = "ngram"


class AblationSettings(Section):
    """Amount of text, number of seeds, and models."""

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
    filter: Literal["fixed", "opencoder", "sql"] = "opencoder"
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

    @property
    def steps(self) -> int:
        """Optimizer steps of the transformer."""
        return self.tokens // (self.context * self.sequences_per_step)

    @property
    def sequences(self) -> int:
        """Sequences that every model learns from: those of whole steps."""
        return self.steps * self.sequences_per_step
