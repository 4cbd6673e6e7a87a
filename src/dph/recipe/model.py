"""The settings of ``[model]``."""

from typing import Literal, Self

from pydantic import Field, model_validator

from dph.recipe.adapter import AdapterSettings
from dph.recipe.choices import Device, Precision
from dph.recipe.section import Count, Section


class ModelSettings(Section):
    """Which model, where, and in which precision."""

    path: str = Field(
        min_length=1,
        description="directory of a saved transformers model and its tokenizer, or a model of the "
        "Hub as org/name",
    )
    revision: str | None = Field(
        None,
        min_length=1,
        description="branch, tag or commit of a model of the Hub; default: its main branch as it "
        "is when the run begins",
    )
    device: Device = Field("auto", description="auto takes the GPU if there is one")
    dtype: Precision = Field(
        "float32", description="of the computation: bfloat16 multiplies matrices under autocast"
    )
    weights: Precision = Field(
        "float32",
        description="of the weights in memory: bfloat16 halves them, frozen under an adapter or "
        "trained by 8-bit AdamW with stochastic rounding",
    )
    adapter: AdapterSettings | None = Field(
        None, description="a table [model.adapter]: train an adapter and leave the weights alone"
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = Field(
        "sdpa", description="attention implementation of transformers"
    )
    gradient_checkpointing: bool = Field(False, description="recompute activations to save memory")
    threads: Count = Field(0, description="CPU threads of torch; 0 leaves torch's own choice")

    @model_validator(mode="after")
    def _weights_fit_the_computation(self) -> Self:
        if self.weights == "bfloat16" and self.dtype != "bfloat16":
            raise ValueError(
                'weights = "bfloat16" cannot be computed with in float32: set model.dtype = '
                f'"bfloat16" too, got {self.dtype!r}'
            )
        return self
