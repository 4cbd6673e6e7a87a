"""``dph recipe check|show``: what a recipe says, without running anything."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption, RecipeArgument, SetOption

recipe_app = typer.Typer(
    name="recipe", help="Check or show a recipe.", no_args_is_help=True, rich_markup_mode=None
)


@recipe_app.command("check")
def check(recipe: RecipeArgument, overrides: SetOption = None, as_json: JsonOption = False) -> None:
    """Say what would run, and everything that is wrong with it: settings, data, verifier, model.

    All that the recipe names is opened, but for the weights. What is not there yet is a note.
    """
    from dph.cli.display.memory import memory_json, memory_lines
    from dph.cli.display.output import json_text
    from dph.cli.display.recipe_plan import stages
    from dph.cli.failure import BAD_INPUT, say_errors
    from dph.runs.preflight import preflight
    from dph.settings import load_recipe

    settings = load_recipe(recipe, overrides=overrides or ())
    plan, found = stages(settings), preflight(settings)
    say_errors(found.errors)
    if as_json:
        content = {
            "valid": not found.errors,
            "recipe": str(recipe),
            "stages": plan,
            "errors": found.errors,
            "notes": found.notes,
            "unchecked": found.unchecked,
            "memory": memory_json(found.memory, found.device) if found.memory else None,
        }
        typer.echo(json_text(content))
    elif not found.errors:
        typer.echo(f"{recipe}: valid, method {settings.method}")
        for line in plan:
            typer.echo(f"  {line}")
        for line in memory_lines(found.memory, found.device) if found.memory else ():
            typer.echo(f"  {line}")
        for note in found.notes:
            typer.echo(f"  note: {note}")
        for line in found.unchecked:
            typer.echo(f"  not checked: {line}")
    if found.errors:
        raise typer.Exit(BAD_INPUT)


@recipe_app.command("show")
def show(
    recipe: Annotated[
        Path | None, typer.Argument(metavar="[RECIPE]", help="Without one: every key there is.")
    ] = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """List every key: its value, where it differs from the default, and its meaning."""
    from dph.cli.display.output import json_text
    from dph.cli.display.recipe_keys import all_keys, keys_of
    from dph.errors import SettingsError
    from dph.settings import load_recipe

    if recipe is None:
        if overrides:
            raise SettingsError("--set needs a recipe to override")
        keys = all_keys()
    else:
        keys = keys_of(load_recipe(recipe, overrides=overrides or ()))
    if as_json:
        typer.echo(json_text({key.name: key.as_json() for key in keys}))
        return
    if recipe is not None:
        typer.echo("* differs from the default")
    for key in keys:
        typer.echo(key.line())
