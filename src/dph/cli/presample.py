"""``dph presample``: the pool of a recipe."""

import typer

from dph.cli.options import JsonOption, OutOption, RecipeArgument, SeedOption, SetOption


def presample(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sample the initial policy and split the problems into a pool."""
    from dph.cli.display.output import json_text
    from dph.cli.display.pool import pool_json, pool_text
    from dph.cli.display.progress import open_progress
    from dph.cli.display.quiet import quiet_libraries
    from dph.cli.request import read_request

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    quiet_libraries()
    from dph.runs.layout import pool_directory
    from dph.runs.presampling_stage import presample_stage
    from dph.runs.workbench import open_workbench

    with open_workbench(request.recipe) as bench:
        manifest = presample_stage(bench, request.directory, open_progress())
    path = pool_directory(request.recipe, request.directory)
    if as_json:
        typer.echo(json_text(pool_json(path, manifest)))
    else:
        typer.echo(f"{pool_text(manifest)}\npool: {path}")
