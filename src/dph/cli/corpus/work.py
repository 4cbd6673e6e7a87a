"""``dph corpus work``: help with a stage that another machine runs."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.corpus.options import place_of
from dph.cli.options import WorkersOption


def work(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="URL", parser=place_of, help="The --out of the stage; of several stages, each."
        ),
    ],
    workers: WorkersOption = None,
    idle: Annotated[
        float,
        typer.Option("--idle", min=0, metavar="SECONDS", help="End after this long without work."),
    ] = 600.0,
) -> None:
    """Process shards of a stage that runs on another machine.

    Start it before or after the stage, on as many machines as you like; they need to see only the
    store. If a machine is lost, only the shards that it was processing are lost. This command runs
    functions that the store names: give write access only to people whom you would let run programs
    here.
    """
    from dph.cli.display.output import open_progress
    from dph.cli.grade import default_workers
    from dph.corpus.running import help_with

    say = open_progress().say
    count = help_with(
        directories,
        workers=workers or default_workers(),
        idle=idle,
        on_progress=lambda _amount, name: say(f"done: {name}"),
    )
    typer.echo(f"{count} shards done; nothing more for {idle:g} s")
