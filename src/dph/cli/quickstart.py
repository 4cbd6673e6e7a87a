"""``dph quickstart``: see the collapse, and what prevents it, in minutes on a CPU."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dph.cli.options import JsonOption


def quickstart(
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B,...", help="Methods to compare, by commas; rkl@0.3 sets the strength."
        ),
    ] = "grpo,dph_f,dph_broad",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of everything.")] = 0,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="What is learnt: sql, or another small world.")
    ] = "sql",
    world: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Edition of the task's world.", show_default="the newest"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where everything is written.")] = Path(
        "quickstart"
    ),
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes that share the work.", show_default="the cores"
        ),
    ] = None,
    tiny: Annotated[
        bool,
        typer.Option("--tiny", help="Only try whether everything runs; the numbers mean nothing."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a small world, train a base model that knows it, and compare methods on it."""
    from dph.cli.display.progress import open_progress
    from dph.cli.display.quiet import quiet_libraries
    from dph.cli.request import require_writable

    require_writable(out)
    quiet_libraries()
    from dph.cli.display.quickstart_words import said_words
    from dph.lab.quickstart.recipes import tiny_size
    from dph.lab.quickstart.run import quickstart as compare_methods

    labels = [label.strip() for label in methods.split(",") if label.strip()]
    summary = compare_methods(
        out,
        methods=labels,
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
    from dph.cli.display.output import json_text
    from dph.cli.display.quickstart_picture import save_picture
    from dph.cli.display.quickstart_report import save_report

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
    from dph.results.charts.cells import duration

    return duration(summary["seconds"]["total"])
