"""The settings of ``[model]``."""

from typing import Annotated, Any, Literal
from pydantic import BeforeValidator, Field
from dph.recipe.section import Positive, Section
from typing import Literal, Self
from pydantic import Field, model_validator
from dph.recipe.section import Device, Precision
from dph.recipe.section import Count, Section


# The settings of ``[model.adapter]``.

ALL_LINEAR = "all-linear"
"""Every linear layer but the output layer."""


def _targets(value: Any) -> Any:
    if value == ALL_LINEAR:
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(n, str) and n for n in value):
        return tuple(value)
    raise ValueError(
        f'should be "{ALL_LINEAR}" or a list of names of linear layers such as ["q_proj", '
        f'"v_proj"], got {value!r}'
    )


Targets = Annotated[Literal["all-linear"] | tuple[str, ...], BeforeValidator(_targets)]


class AdapterSettings(Section):
    """Small matrices beside the model's, which are trained in its place (PEFT).

    Whatever ``init`` says, the adapter changes nothing before the first step: with it off the
    model is the initial policy, so methods that compare with that need no second set of weights.
    """

    kind: Literal["lora", "dora"] = Field(
        description="lora (arXiv:2106.09685), or dora, which also trains the length of every row "
        "of weights (arXiv:2402.09353)"
    )
    rank: Positive = Field(16, description="rows of the small matrices")
    alpha: float = Field(32.0, gt=0, description="their product counts alpha / rank times")
    targets: Targets = Field(
        "all-linear",
        description="layers that get an adapter, by the ends of their names; all-linear: every "
        "linear layer but the output layer",
    )
    init: Literal["kaiming", "gaussian", "orthogonal"] = Field(
        "kaiming",
        description="random numbers to start from; all three leave the model as it was",
    )


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
