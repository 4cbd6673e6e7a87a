"""``dph quickstart``."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dph.cli.options import JsonOption

# ``dph quickstart``: see the collapse, and what prevents it, in minutes on a CPU.


def quickstart(
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Methods to compare, separated by commas; rkl@0.3 sets the strength.",
            show_default="grpo,dph_f,rkl, or those of the task's world",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all random draws.")] = 0,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="Task to learn: sql, or another small world.")
    ] = "sql",
    world: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Edition of the task's world.", show_default="the newest"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output directory.")] = Path(
        "quickstart"
    ),
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of worker processes.", show_default="the cores"
        ),
    ] = None,
    tiny: Annotated[
        bool,
        typer.Option(
            "--tiny", help="Only check that everything runs; the numbers are meaningless."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a small world and a base model, and compare methods."""
    from dph.cli.display.output import open_progress, quiet_libraries
    from dph.cli.request import require_writable

    require_writable(out)
    quiet_libraries()
    from dph.cli.display.lab import said_words
    from lab.quickstart.recipes import tiny_size
    from lab.quickstart.run import quickstart as compare_methods
    from lab.worlds import world_kind

    named = ",".join(world_kind(task, world).contenders) if methods is None else methods
    summary = compare_methods(
        out,
        methods=[label.strip() for label in named.split(",") if label.strip()],
        seed=seed,
        progress=open_progress(),
        task=task,
        edition=world,
        jobs=jobs or os.cpu_count() or 1,
        size=tiny_size(task, world) if tiny else None,
    )
    _show(summary, out, words=said_words(summary, task, world), seed=seed, as_json=as_json)


def _show(summary: dict[str, Any], out: Path, *, words: str, seed: int, as_json: bool) -> None:
    """Save the picture and the report, and print the table and where they lie."""
    from dph.cli.display.lab import save_picture, save_report
    from dph.cli.display.output import json_text

    picture, page = save_picture(summary, out), save_report(summary, out)
    if as_json:
        typer.echo(json_text(summary))
        return
    typer.echo(f"{_table(summary)}\nseed {seed}, {_took(summary)}")
    typer.echo(f"picture: {picture}\nreport: {page}\n\n{words}")


def _table(summary: dict[str, Any]) -> str:
    from dph.cli.display.output import table_text
    from dph.results.charts.tables import comparison_table

    return table_text(comparison_table(summary))


def _took(summary: dict[str, Any]) -> str:
    from dph.results.charts.text_table import duration

    return duration(summary["seconds"]["total"])
