"""``dph compare``: evaluated runs side by side, each against the first."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption

RunsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...",
        help="Run directories; the first is the baseline. One run, or a directory of runs, is "
        "compared with its initial policy.",
    ),
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


ProblemsOption = Annotated[
    int,
    typer.Option(
        "--problems",
        min=0,
        metavar="N",
        help="List the N problems of each set that changed most, for every run.",
    ),
]
RetentionOption = Annotated[
    int, typer.Option(min=1, metavar="K", help="Samples of a draw for keep and explore.")
]


def compare(
    runs: RunsArgument,
    set_names: SetNameOption = None,
    ks: KOption = None,
    retention_k: RetentionOption = 8,
    problems: ProblemsOption = 0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare evaluated runs problem by problem, with 95% intervals of the differences.

    With the styles that are left, and what of the baseline is kept and explored.
    """
    from dph.cli.display.comparison import comparison_json, comparison_text
    from dph.cli.display.output import json_text
    from dph.results.charts.run_labels import run_labels
    from dph.runs.compared_runs import compared_runs
    from dph.runs.evaluate.comparison import compare as compare_scores
    from dph.runs.evaluate.evaluated_runs import default_ks, read_runs, runs_on_sets

    found = compared_runs(runs)
    scores = read_runs(found.runs, set_names or ())
    rows = compare_scores(scores, None, ks or default_ks(scores), seed)
    on_sets = runs_on_sets(scores, retention_k=retention_k, problems=problems)
    labels = run_labels(found.runs)
    for note in found.notes:
        typer.echo(note, err=True)
    if as_json:
        typer.echo(json_text(comparison_json(labels, rows, on_sets)))
    else:
        typer.echo(comparison_text(labels, rows, on_sets))
