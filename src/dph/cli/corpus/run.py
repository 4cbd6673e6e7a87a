"""``dph corpus run``: a whole cookbook, from raw files to Pass@k."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.corpus.options import EngineOption, open_workers
from dph.cli.options import JsonOption, SetOption, WorkersOption


def run(
    cookbook: Annotated[Path, typer.Argument(metavar="COOKBOOK", help="cookbook.toml.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where everything is written [default: its name]."
        ),
    ] = None,
    overrides: SetOption = None,
    workers: WorkersOption = None,
    engine: EngineOption = "cores",
    as_json: JsonOption = False,
) -> None:
    """Run all stages that the file has tables for, in order; go on where a kill left off.

    What is finished from the same inputs and settings is skipped. DIR/report.md says what came in,
    stayed and was dropped, and what was measured; DIR/digests.json what each stage made.
    """
    from dph.cli.display.output import json_text
    from dph.cli.display.progress import open_progress
    from dph.cli.display.quiet import quiet_libraries
    from dph.cli.grade_run import default_workers
    from dph.cli.request import require_writable
    from dph.lab.cookbook.settings import load_cookbook

    settings = load_cookbook(cookbook, overrides or ())
    directory = out or Path(settings.name)
    require_writable(directory)
    quiet_libraries()
    from dph.lab.cookbook.run import run_cookbook

    made = run_cookbook(
        settings,
        directory,
        open_progress(),
        workers=workers or default_workers(),
        shards_by=open_workers(engine, workers),
    )
    if as_json:
        typer.echo(json_text(dict(made)))
        return
    report = directory / "report.md"
    typer.echo(f"{report.read_text(encoding='utf-8')}\nreport: {report}")
