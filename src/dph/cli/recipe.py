"""``dph recipe check|show|list|copy``: recipes, without running anything."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.display.output import json_text, quiet_libraries
from dph.cli.options import (
    BAD_INPUT,
    JsonOption,
    RecipeArgument,
    SetOption,
    add_verbs,
    argument,
    group,
    option,
    say_error,
)
from dph.cli.run import EngineOption, engine_overrides
from dph.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dph.recipe import Recipe
    from dph.recipe.objective import TermSettings
    from dph.runs.check_model import Findings


def check(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    engine: EngineOption = None,
    memory: float | None = option(
        "--device-memory GIB",
        "Memory of the GPU that it must fit [default: of the device at hand].",
        None,
    ),
    as_json: JsonOption = False,
) -> None:
    """Show what would run, and report every mistake.

    Everything that the recipe names is opened, except the weights: data, verifier, model and so on.
    Files that a run will make first are listed as notes.
    """
    from dph.recipe import load_recipe
    from dph.runs.memory import device_of

    settings = load_recipe(recipe, overrides=[*(overrides or ()), *engine_overrides(engine)])
    device = None if memory is None else device_of(memory, settings.model.device)
    quiet_libraries()
    from dph.runs.check import check as check_recipe

    found = check_recipe(settings, device=device)
    say_check(recipe, f"method {settings.method}", stages(settings), found, as_json=as_json)


def say_check(
    recipe: Path,
    described: str,
    plan: list[str],
    found: "Findings",
    *,
    as_json: bool,
    program: str = "dph",
) -> None:
    from dph.cli.display.machine import memory_json, memory_lines

    for error in found.errors:
        say_error(error, program)
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
        memory = memory_lines(found.memory, found.device) if found.memory else ()
        notes = [f"note: {note}" for note in found.notes]
        unchecked = [f"not checked: {line}" for line in found.unchecked]
        lines = (f"{recipe}: valid, {described}", *plan, *memory, *notes, *unchecked)
        typer.echo("\n  ".join(lines))
    if found.errors:
        raise typer.Exit(BAD_INPUT)


def stages(recipe: "Recipe") -> list[str]:
    from dph.runs.directory import RunDirectory

    presample, settings, sets, found = recipe.presample, recipe.evaluate, recipe.data.sets, []
    if recipe.needs_pool:
        pool = RunDirectory.of(recipe, None).pool(recipe)
        said = f"pre-sample: {presample.samples} samples per problem and a final one"
        found.append(f"{said}, near-perfect from {presample.threshold} correct; pool in {pool}")
    found.append(_training(recipe))
    if not sets:
        return [*found, "evaluate: nothing, because [data.sets] names no set"]
    ks, names = ", ".join(map(str, settings.k)), ", ".join(sets)
    said = f"evaluate: {settings.samples} samples per problem, pass@{ks} on {names}"
    if settings.every:
        during = settings.during
        said += (
            f"; every {settings.every} steps of training {during.samples} samples to at most "
            f"{during.problems} problems of each of {', '.join(settings.during_sets(sets))}"
        )
    return [*found, said]


def _training(recipe: "Recipe") -> str:
    train, objective, unlabelled = recipe.train, recipe.objective, recipe.self_consistency
    few = unlabelled.problems_per_step
    rewarded = f" ({few} unlabelled, rewarded by majority)" if unlabelled.active else ""
    rehearsal = "".join(
        f" + {anchor.per_step or train.rehearsal_per_step} rehearsal samples "
        f"({anchor.divergence}, eta {anchor.weight:g})"
        for anchor in objective.active_anchors.values()
    )
    penalty = "".join(
        f", {'KL' if term.kind == 'kl' else term.kind} penalty {term.weight:g}{_parameters(term)}"
        for term in objective.active_penalties.values()
    )
    kind = objective.advantage.kind
    advantage = "" if kind == "group" else f", advantage {kind}{_parameters(objective.advantage)}"
    return (
        f"train: {train.steps} steps of {train.problems_per_step} problems x "
        f"{train.samples_per_problem} samples{rewarded}{advantage}{rehearsal}{penalty}, "
        f"{train.minibatches} mini-batches x {train.epochs} epochs, "
        f"learning rate {train.learning_rate:g}"
    )


def _parameters(term: "TermSettings") -> str:
    values = ", ".join(str(value) for value in term.parameters.values() if value is not None)
    return f" ({values})" if values else ""


def show(
    recipe: Path | None = argument("RECIPE", "Without a recipe: all keys.", None),
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """List every key with its value, default and meaning."""
    from dph.recipe import load_recipe
    from dph.recipe.keys import keys_of

    if recipe is None and overrides:
        raise SettingsError("--set needs a recipe to override")
    keys = list(keys_of(None if recipe is None else load_recipe(recipe, overrides=overrides or ())))
    if as_json:
        typer.echo(json_text({key.name: key.as_json() for key in keys}))
        return
    if recipe is not None:
        typer.echo("* differs from the default")
    for key in keys:
        typer.echo(key.line())


def list_recipes(as_json: JsonOption = False) -> None:
    """List the recipes that come with the package."""
    from dph.recipe.recipe import RECIPE_PLACES

    say_recipes(RECIPE_PLACES, as_json=as_json)


def say_recipes(places: "Sequence[Path]", *, as_json: bool) -> None:
    from dph.recipe.recipe import shipped_recipes

    found = shipped_recipes(places)
    lines = (f"{name}: {summary}" for name, summary in found.items())
    typer.echo(json_text(found) if as_json else "\n".join(lines))


def copy(
    name: Annotated[str, argument("NAME", "Name from `dph recipe list`, or its folder.")],
    out: Path | None = option(
        "--out PATH", "File to write [default: its name, in the working directory].", None
    ),
    as_json: JsonOption = False,
) -> None:
    """Copy a recipe or a folder that comes with the package.

    `dph recipe copy example-own-task` is your own task in three small files.
    """
    from dph.recipe.recipe import RECIPE_PLACES

    say_copied(RECIPE_PLACES, name, out, as_json=as_json)


def say_copied(places: "Sequence[Path]", name: str, out: Path | None, *, as_json: bool) -> None:
    from dph.recipe.recipe import copy_recipe

    written = [str(path) for path in copy_recipe(name, out, places)]
    lines = (f"recipe: {path}" for path in written)
    typer.echo(json_text({"recipes": written}) if as_json else "\n".join(lines))


recipe_app = group("recipe", "Check, show, list and copy recipes.")
add_verbs(recipe_app, {"check": check, "show": show, "list": list_recipes, "copy": copy})
