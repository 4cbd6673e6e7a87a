"""The settings of ``[model]``."""

from typing import Literal

from pydantic import Field

from dph.settings.choices import Device, Precision
from dph.settings.section import Count, Section


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
        "float32", description="bfloat16 computes under autocast over float32 weights"
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = Field(
        "sdpa", description="attention implementation of transformers"
    )
    gradient_checkpointing: bool = Field(False, description="recompute activations to save memory")
    threads: Count = Field(0, description="CPU threads of torch; 0 leaves torch's own choice")
