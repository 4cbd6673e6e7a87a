"""``dph evaluate``: measure the checkpoint that a run ended with, or any model."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption, OutOption, RecipeArgument, SeedOption, SetOption

ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="DIR",
        help="Model [default: the run's result (evaluate.result), or the recipe's model].",
    ),
]


def evaluate(
    recipe: RecipeArgument,
    model: ModelOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure Pass@k, Mean@k, retention and styles on the recipe's evaluation sets.

    The recipe's own model is measured first, for comparison. What is measured already is kept,
    and every model has a place of its own: the run, base/ in it, or models/<name>/.
    """
    from dph.cli.display.output import json_text, table_text
    from dph.cli.display.progress import open_progress
    from dph.cli.display.quiet import quiet_libraries
    from dph.cli.evaluated_model import claimed, measured_model
    from dph.cli.request import read_request

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    measured = measured_model(request, model)
    quiet_libraries()
    from dph.results.charts.tables import evaluation_table
    from dph.runs.evaluation_stage import evaluate_stage
    from dph.runs.set_problems import SetProblems
    from dph.runs.workbench import open_workbench

    progress, base = open_progress(), request.directory / "base"
    if model is None and measured.directory == base:
        typer.echo(
            f"no checkpoint in {request.directory}: the recipe's model is measured", err=True
        )
    with open_workbench(request.recipe, sets=SetProblems(request.recipe)) as bench:
        request.say_what_was_taken()
        document = evaluate_stage(bench, base, progress, model=bench.initial)
        if measured.directory != base:
            with claimed(measured):
                document = evaluate_stage(
                    bench, measured.directory, progress, model=measured.model, base=base
                )
    typer.echo(json_text(document) if as_json else table_text(evaluation_table(document)))
