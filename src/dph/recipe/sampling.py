"""The settings of ``[sampling]`` and ``[vllm]``."""

from typing import Annotated, Literal

from pydantic import Field

from dph.recipe.section import Count, Positive, Section


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
