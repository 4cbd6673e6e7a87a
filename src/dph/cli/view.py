"""``dph view``: the report's page served from run directories, as they grow."""

from pathlib import Path
from typing import Annotated

import typer


def view(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run directories, or a directory of runs."),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 takes a free one.")
    ] = 8391,
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="Address to listen on; others than this machine's own "
            "ask for a token, which is printed.",
        ),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name of this machine to answer to, besides its own."),
    ] = None,
    token: Annotated[
        bool, typer.Option("--token", help="Ask for a token on 127.0.0.1 too.")
    ] = False,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What the page is called.")] = (
        "dph view"
    ),
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the intervals.")] = 0,
) -> None:
    """Serve the report's page of runs that are large or still going, to a browser.

    It follows metrics.jsonl and progress.parquet as they grow, and reads nothing but the run
    directories. Ctrl-C ends it.
    """
    from dph.results.report.vega_scripts import SERVER, require_charts

    require_charts(*SERVER)
    from dph.results.view.guard import access_for
    from dph.results.view.served_runs import ServedRuns
    from dph.results.view.server import serve

    access = access_for(host, name or (), ask=token)
    served = ServedRuns(runs, title=title, seed=seed)
    count = len(served.snapshot.runs)
    typer.echo(f"{count} models, {served.snapshot.answers:,} answers", err=True)
    serve(served, access, port=port, on_ready=lambda address: typer.echo(f"view: {address}"))
