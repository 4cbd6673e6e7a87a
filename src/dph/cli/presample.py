"""``dph presample``: the pool of a recipe, and its stores."""

import typer

from dph.cli.options import JsonOption, OutOption, RecipeArgument, SeedOption, SetOption


def presample(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sample the initial policy: the pool, and the stores that training reads."""
    from dph.cli.display.output import json_text
    from dph.cli.display.pool import pool_json, pool_text
    from dph.cli.display.progress import open_progress
    from dph.cli.display.quiet import quiet_libraries
    from dph.cli.display.stores import stores_json, stores_text
    from dph.cli.request import read_request

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    quiet_libraries()
    from dph.recipe.store_use import require_files
    from dph.runs.layout import pool_directory, store_directory
    from dph.runs.presampling_stage import presample_stage
    from dph.runs.store_stage import require_prompts, store_stage
    from dph.runs.workbench import open_workbench

    progress = open_progress()
    with open_workbench(request.recipe) as bench:
        request.say_what_was_taken()
        require_files(request.recipe.used_stores, request.recipe.self_consistency)
        require_prompts(bench, *request.recipe.used_stores)  # not after the pool was drawn
        manifest = presample_stage(bench, request.directory, progress)
        stores = store_stage(bench, request.directory, progress)
    path = pool_directory(request.recipe, request.directory)
    places = {name: store_directory(request.recipe, request.directory, name) for name in stores}
    if as_json:
        typer.echo(json_text({**pool_json(path, manifest), **stores_json(stores, places)}))
    else:
        typer.echo(f"{pool_text(manifest)}\npool: {path}")
        for line in stores_text(stores, places):
            typer.echo(line)
