"""``dph recipe check|show|list|copy``: recipes, without running anything."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.options import JsonOption, RecipeArgument, SetOption, Verb, group

if TYPE_CHECKING:
    from dph.runs.preflight.data import Findings

recipe_app = group("recipe", "Check, show, list and copy recipes.")


@recipe_app.command("check", cls=Verb)
def check(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    memory: Annotated[
        float | None,
        typer.Option(
            "--device-memory",
            metavar="GIB",
            help="Memory of the GPU that it must fit [default: of the device at hand].",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would run, and report every mistake.

    Everything that the recipe names is opened, except the weights: data, verifier, model and so on.
    Files that a run will make first are listed as notes.
    """
    from dph.cli.display.machine import memory_lines
    from dph.cli.options import BAD_INPUT, say_errors

    described, plan, found = _looked_at(recipe, overrides or [], memory)
    say_errors(found.errors)
    if as_json:
        _print_json(recipe, plan, found)
    elif not found.errors:
        typer.echo(f"{recipe}: valid, {described}")
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


def _looked_at(
    recipe: Path, overrides: list[str], memory: float | None
) -> tuple[str, list[str], "Findings"]:
    """Description of a recipe of any kind, its plan, and the findings."""
    from dph.errors import SettingsError
    from dph_corpus.base.recipes import load_lm_recipe, recipe_kind

    kind = recipe_kind(recipe)
    if kind and memory is not None:
        raise SettingsError(
            f"--device-memory is for recipes of runs: memory is not estimated for kind {kind}"
        )
    if kind == "cookbook":
        return f"kind {kind}", *_cookbook(recipe, overrides)
    if kind:
        from dph_corpus.base.base import plan, preflight

        of_model = load_lm_recipe(recipe, overrides)
        return f"kind {of_model.kind}", plan(of_model), preflight(of_model)
    from dph.cli.display.recipe_plan import stages
    from dph.recipe import load_recipe
    from dph.runs.memory import device_of
    from dph.runs.preflight import preflight as preflight_run

    settings = load_recipe(recipe, overrides=overrides)
    device = None if memory is None else device_of(memory, settings.model.device)
    return f"method {settings.method}", stages(settings), preflight_run(settings, device=device)


def _cookbook(recipe: Path, overrides: list[str]) -> tuple[list[str], "Findings"]:
    """The stages of a cookbook; those without a table do nothing."""
    from dph.runs.preflight.data import Findings
    from dph_corpus.cookbook.settings import load_cookbook
    from dph_corpus.cookbook.stages import STAGES

    load_cookbook(recipe, overrides)
    return [f"{stage.name}: {stage.summary}" for stage in STAGES], Findings()


def _print_json(recipe: Path, plan: list[str], found: "Findings") -> None:
    from dph.cli.display.machine import memory_json
    from dph.cli.display.output import json_text

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


@recipe_app.command("show", cls=Verb)
def show(
    recipe: Annotated[
        Path | None, typer.Argument(metavar="RECIPE", help="Without a recipe: all keys.")
    ] = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """List every key with its value, default and meaning."""
    from dph.cli.display.output import json_text
    from dph.cli.display.recipe_plan import all_keys, keys_of
    from dph.errors import SettingsError
    from dph.recipe import load_recipe
    from dph_corpus.base.recipes import recipe_kind

    if recipe is None:
        if overrides:
            raise SettingsError("--set needs a recipe to override")
        keys = all_keys()
    elif kind := recipe_kind(recipe):
        raise SettingsError(
            f'{recipe} has kind = "{kind}", and `dph recipe show` lists only the settings of '
            "runs; use `dph recipe check`"
        )
    else:
        keys = keys_of(load_recipe(recipe, overrides=overrides or ()))
    if as_json:
        typer.echo(json_text({key.name: key.as_json() for key in keys}))
        return
    if recipe is not None:
        typer.echo("* differs from the default")
    for key in keys:
        typer.echo(key.line())


@recipe_app.command("list", cls=Verb)
def list_recipes(as_json: JsonOption = False) -> None:
    """List the recipes that come with the package."""
    from dph.cli.display.output import json_text
    from dph.recipe.recipe import shipped_recipes

    found = shipped_recipes()
    if as_json:
        typer.echo(json_text({recipe.name: recipe.summary for recipe in found}))
        return
    for recipe in found:
        typer.echo(f"{recipe.name}: {recipe.summary}")


@recipe_app.command("copy", cls=Verb)
def copy(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name from `dph recipe list`, or its folder.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="File to write [default: its name, in the working directory].",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a recipe or a folder that comes with the package.

    `dph recipe copy example-own-task` is your own task in three small files.
    """
    from dph.cli.display.output import json_text
    from dph.recipe.recipe import copy_recipe

    written = copy_recipe(name, out)
    if as_json:
        typer.echo(json_text({"recipes": [str(path) for path in written]}))
        return
    for path in written:
        typer.echo(f"recipe: {path}")
