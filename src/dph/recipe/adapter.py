"""The settings of ``[model.adapter]``."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dph.recipe.section import Positive, Section

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
