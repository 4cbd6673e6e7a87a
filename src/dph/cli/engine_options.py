"""Options of ``dph run`` that choose and start an engine: each is one setting of the recipe."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated

import typer

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="NAME", help="Who trains: own, trl or verl [default: train.engine]."
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option("--processes", min=1, metavar="N", help="--engine trl: processes (accelerate)."),
]
NodesOption = Annotated[
    int | None, typer.Option("--nodes", min=1, metavar="N", help="--engine verl: machines.")
]
GpusOption = Annotated[
    int | None, typer.Option("--gpus", min=1, metavar="N", help="--engine verl: GPUs a machine.")
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="--engine verl: Ray cluster to join."),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Print what --engine trl or verl would be started with."),
]

SETTINGS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "processes": ("trl", "trl.processes"),
        "nodes": ("verl", "verl.nodes"),
        "gpus": ("verl", "verl.gpus"),
        "address": ("verl", "verl.address"),
    }
)
"""For each option the engine that it is for, and the setting that it stands for."""


def engine_overrides(engine: str | None, **options: int | str | None) -> list[str]:
    """What the options say, as ``--set`` would."""
    overrides = [] if engine is None else [f"train.engine={engine}"]
    return [*overrides, *_given(options)]


def require_engine_of_options(engine: str, **options: int | str | None) -> None:
    """Refuse an option of an engine that does not run.

    Raises:
        typer.BadParameter: names the option and the engine.
    """
    for name, value in options.items():
        wanted, _ = SETTINGS[name]
        if value is not None and engine != wanted:
            raise typer.BadParameter(
                f"--{name} {value} is of the engine {wanted}; train.engine is {engine!r}"
            )


def _given(options: Mapping[str, int | str | None]) -> Iterator[str]:
    for name, value in options.items():
        if value is not None:
            yield f"{SETTINGS[name][1]}={value}"
