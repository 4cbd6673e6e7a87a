"""``dph run``: all stages of a recipe."""

from typing import Any

import typer

from dph.cli.options import JsonOption, OutOption, RecipeArgument, SeedOption, SetOption


def run(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pre-sample (where the method needs it), train and evaluate; what is done is kept."""
    from dph.cli.evaluation_text import evaluation_text
    from dph.cli.pool_summary import pool_json, pool_text
    from dph.cli.progress import open_progress
    from dph.cli.quiet import quiet_libraries
    from dph.cli.request import read_request, require_evaluation_sets
    from dph.cli.table import json_text
    from dph.cli.train import end_interrupted, trained_json

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    require_evaluation_sets(request.recipe)
    quiet_libraries()
    from dph.runs.evaluation_stage import evaluate_stage
    from dph.runs.layout import pool_directory
    from dph.runs.presampling_stage import presample_stage
    from dph.runs.training_stage import train_stage
    from dph.runs.workbench import open_workbench

    directory, progress = request.directory, open_progress()
    result: dict[str, Any] = {"run": str(directory)}
    with open_workbench(request.recipe) as bench:
        if request.recipe.needs_pool:
            manifest = presample_stage(bench, directory, progress)
            result["pool"] = pool_json(pool_directory(request.recipe, directory), manifest)
            progress.say(pool_text(manifest))
        trained = train_stage(bench, directory, progress)
        result["training"] = trained_json(trained)
        if not trained.stopped:
            result["evaluation"] = evaluate_stage(bench, directory, progress)
    if as_json:
        typer.echo(json_text(result))
    elif not trained.stopped:
        typer.echo(f"{evaluation_text(result['evaluation'])}\nrun: {directory}")
    if trained.stopped:
        end_interrupted(trained)
