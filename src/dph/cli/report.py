"""``dph report``: runs as one HTML file to read, to keep and to send."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption

_LARGE = 50_000_000
"""Bytes from which on a browser takes seconds to open a file."""


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run directories, or a directory of runs."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path(
        "report.html"
    ),
    title: Annotated[str, typer.Option(metavar="TEXT", help="What the page is called.")] = (
        "dph report"
    ),
    most_answers: Annotated[
        int | None,
        typer.Option(
            "--most-answers",
            min=1,
            metavar="N",
            help="Keep the N most frequent answers of a run to a problem.",
            show_default="all",
        ),
    ] = None,
    longest: Annotated[
        int,
        typer.Option(
            "--longest", min=1, metavar="N", help="Keep the first N characters of a text."
        ),
    ] = 50_000,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the intervals.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Write what was run and measured, and every answer, as one HTML file without a network.

    Comparison, curves, training, diagnosis, and all problems with the answers of the runs side by
    side. What a run began with is put beside it.
    """
    from dph.cli.display.output import json_text
    from dph.cli.out_file import require_out_file
    from dph.results.report import Limits, read_report, write_report
    from dph.results.report.vega_scripts import require_charts

    require_out_file(out)
    require_charts()
    data = read_report(runs, seed=seed)
    written = write_report(
        data, out, limits=Limits(longest=longest, most=most_answers), title=title
    )
    if as_json:
        document = {"schema": 1, "report": str(out), "bytes": written.size}
        document |= {"code_bytes": written.code, "answers": written.answers}
        document |= {"runs": {str(run.path): run.label for run in data.runs}}
        typer.echo(json_text(document | {"notes": list(data.notes)}))
        return
    for note in data.notes:
        typer.echo(note, err=True)
    typer.echo(f"report: {out}, {written.size / 1e6:.1f} MB, {written.answers:,} answers")
    if written.size > _LARGE:
        typer.echo("a browser opens it slowly; --most-answers and --longest make it smaller")
