"""``dph compare``: evaluated runs side by side, each against the first."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption

RunsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", help="Run directories; the first is the baseline."),
]
SetNameOption = Annotated[
    list[str] | None,
    typer.Option("--set-name", metavar="NAME", help="Only this set; may be repeated."),
]
KOption = Annotated[
    list[int] | None,
    typer.Option(
        "-k", min=1, metavar="K", help="k of Pass@k; may be repeated [default: 8, 16, 32]."
    ),
]


def compare(
    runs: RunsArgument,
    set_names: SetNameOption = None,
    ks: KOption = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare evaluated runs problem by problem, with 95% intervals of the differences."""
    from dph.cli.display.comparison import comparison_json, default_ks, read_runs
    from dph.cli.display.output import json_text, table_text
    from dph.evaluation.comparison import compare as compare_scores
    from dph.reporting.tables import differences_table

    scores = read_runs(runs, set_names or ())
    rows = compare_scores(scores, None, ks or default_ks(scores), seed)
    if as_json:
        typer.echo(json_text(comparison_json(next(iter(scores)), rows)))
    else:
        typer.echo(table_text(differences_table(rows)))
