"""``dph-corpus run``: a whole cookbook, from raw files to Pass@k."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.display.output import json_text, open_progress, quiet_libraries
from dph.cli.options import JsonOption, SetOption, WorkersOption
from dph_corpus.cli.options import place_of


def run(
    cookbook: Annotated[Path, typer.Argument(metavar="COOKBOOK", help="cookbook.toml.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Output directory [default: the recipe's name]."),
    ] = None,
    overrides: SetOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run all stages of a file in order.

    After a kill, the same command continues: stages that finished with the same inputs and settings
    are skipped. DIR/report.md shows what came in, stayed and was dropped, and all measurements;
    DIR/digests.json has a digest of each stage's output.
    """
    from dph.cli.grade import default_workers
    from dph.cli.request import require_writable
    from dph_corpus.cookbook.settings import load_cookbook

    settings = load_cookbook(cookbook, overrides or ())
    directory = out or Path(settings.name)
    require_writable(directory)
    quiet_libraries()
    from dph_corpus.cookbook.run import run_cookbook

    made = run_cookbook(settings, directory, open_progress(), workers=workers or default_workers())
    if as_json:
        typer.echo(json_text(dict(made)))
        return
    report = directory / "report.md"
    typer.echo(f"{report.read_text(encoding='utf-8')}\nreport: {report}")


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
    from dph.cli.grade import default_workers
    from dph_corpus.running import help_with

    say = open_progress().say
    count = help_with(
        directories,
        workers=workers or default_workers(),
        idle=idle,
        on_progress=lambda _amount, name: say(f"done: {name}"),
    )
    typer.echo(f"{count} shards done; nothing more for {idle:g} s")
