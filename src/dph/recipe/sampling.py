"""The settings of ``[sampling]`` and ``[vllm]``."""

import math
from typing import Any, Self
from pydantic import Field, model_validator
from dph.recipe.section import WrongFinal
from dph.recipe.section import Count, FilePath, Positive, Section, with_default
from typing import Annotated, Literal
from pydantic import Field
from dph.recipe.section import Count, Positive, Section


# The settings of ``[presample]``.

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


class SamplingSettings(Section):
    """How completions are drawn while pre-sampling and training."""

    engine: Literal["torch", "vllm"] = Field(
        "torch", description="what draws while pre-sampling and evaluating; training: always torch"
    )
    temperature: float = Field(1.0, gt=0, description="softmax temperature")
    top_p: float = Field(
        1.0, gt=0, le=1, description="nucleus; log-probs stay those of the full vocabulary"
    )
    max_tokens: Positive = Field(512, description="longest completion, tokens")
    stop: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="more stop tokens beside the end-of-sequence token (text of one token each)"
    )
    max_rows: Positive = Field(256, description="completions decoded side by side")
    cache_tokens: Positive = Field(
        262144,
        description="tokens the cache may hold: each prompt once, and max_tokens a completion",
    )
    cuda_graphs: bool = Field(
        False, description="replay decoding steps as CUDA graphs (not yet run on a GPU)"
    )


class VLLMSettings(Section):
    """How vLLM is set up, for sampling.engine = "vllm"."""

    memory: float = Field(
        0.5,
        gt=0,
        le=1,
        description="share of a GPU's memory (on CPUs: of the machine's); the scoring model needs "
        "some beside",
    )
    gpus: Positive = Field(1, description="GPUs that share one copy of the model")
    context: Count = Field(
        0, description="longest prompt and completion together, tokens; 0: the longest that fits"
    )
    eager: bool = Field(False, description="no CUDA graphs: starts sooner, draws slower")
