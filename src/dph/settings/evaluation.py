"""The settings of ``[evaluate]``."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from dph.settings.section import Count, Positive, Section, with_default


class EvaluationSettings(Section):
    """What is measured of a model."""

    samples: Positive = Field(32, description="samples a problem")
    k: Annotated[tuple[Positive, ...], Field(strict=False, min_length=1)] = Field(
        (1, 8, 16, 32), description="the k of Pass@k (default: those up to samples)"
    )
    temperature: float = Field(1.0, gt=0, description="softmax temperature")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus")
    max_tokens: Positive | None = Field(
        None, description="longest completion; default: sampling.max_tokens"
    )
    retention_k: Positive = Field(8, description="k of keep and explore")
    seed: Count = Field(0, description="seed of the samples and of the bootstrap")

    @model_validator(mode="before")
    @classmethod
    def _k_follows_samples(cls, data: Any) -> Any:
        return with_default(data, "k", "samples", lambda n: [k for k in (1, 8, 16, 32) if k <= n])

    @model_validator(mode="after")
    def _k_fits(self) -> Self:
        largest = max(self.k)
        if largest > self.samples:
            raise ValueError(f"need 1 <= k <= samples, got k={largest}, samples={self.samples}")
        return self
