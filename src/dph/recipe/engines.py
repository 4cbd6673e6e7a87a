"""The settings of ``[trl]`` and ``[verl]``: how the engines beside our own are started."""

from typing import Annotated

from pydantic import Field

from dph.recipe.section import Positive, Section

Override = Annotated[str, Field(pattern=r"^[+~]{0,2}[A-Za-z_][\w.@/-]*(=.*)?$")]
"""One of Hydra's: ``key=value``, ``+key=value``, ``++key=value`` or ``~key``."""


class TRLSettings(Section):
    """How TRL is started, for train.engine = "trl"."""

    processes: Positive = Field(
        1, description="processes that train together, one a GPU, started by accelerate"
    )


class VerlSettings(Section):
    """How verl is started, for train.engine = "verl"."""

    nodes: Positive = Field(1, description="machines of the Ray cluster")
    gpus: Positive = Field(1, description="GPUs of each machine")
    address: str | None = Field(
        None,
        min_length=1,
        description="Ray cluster to join, host:port or auto; default: Ray is started on this "
        "machine",
    )
    rollout: str = Field(
        "vllm", min_length=1, description="what draws in verl's training and pre-sampling"
    )
    overrides: Annotated[tuple[Override, ...], Field(strict=False)] = Field(
        (), description="more of verl's own settings, as Hydra overrides; they win"
    )
