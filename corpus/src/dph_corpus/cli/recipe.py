"""``dph-corpus base``, ``sft`` and ``recipe``: recipes of models before RL, run and checked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.display.output import json_text, open_progress, quiet_libraries
from dph.cli.options import JsonOption, SetOption, add_verbs, group
from dph.errors import SettingsError
from dph_corpus.cli.options import RECIPES

if TYPE_CHECKING:
    from dph_corpus.base.recipes import LMRecipe

RecipeArgument = Annotated[
    Path, typer.Argument(metavar="RECIPE", help='Recipe with kind = "base" or "sft".')
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Directory [default: runs/<name>].")
]


def base(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a base model on corpora, or continue one.

    The learning rate warms up, stays constant and anneals. Training continues from the newest
    checkpoint. DIR/model has the model and its card; checkpoints are removed at the end.
    """
    settings, directory = _prepared(recipe, "base", overrides, out)
    from dph_corpus.base.base import train_base

    _say(train_base(settings, directory, open_progress()), as_json)


def sft(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a model on responses, in stages.

    Only responses are learnt, in packed rows. Training continues from the newest checkpoint of its
    stage and writes DIR/<stage>/model. Needs dph-corpus[sft].
    """
    settings, directory = _prepared(recipe, "sft", overrides, out)
    from dph_corpus.base.sft import train_sft

    _say(train_sft(settings, directory, open_progress()), as_json)


def _prepared(
    path: Path, kind: str, overrides: list[str] | None, out: Path | None
) -> tuple[Any, Path]:
    """The recipe, checked to be of the kind, and the directory."""
    from dph.cli.request import require_writable
    from dph_corpus.base.recipes import load_lm_recipe

    settings: LMRecipe = load_lm_recipe(path, overrides or ())
    if settings.kind != kind:
        raise SettingsError(
            f'{path} has kind = "{settings.kind}": run `dph-corpus {settings.kind}`'
        )
    directory = out or Path("runs") / settings.name
    require_writable(directory)
    quiet_libraries()
    return settings, directory


def _say(model: Path, as_json: bool) -> None:
    typer.echo(json_text({"model": str(model)}) if as_json else f"model: {model}")


recipe_app = group("recipe", "Check, list and copy recipes.")


def check(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="Recipe of base or sft, or a cookbook.")
    ],
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would run, and report every mistake.

    Everything that the recipe names is opened, except the weights. Files that do not exist yet are
    listed as notes.
    """
    from dph.cli.recipe import say_check
    from dph.runs.check_model import Findings
    from dph_corpus.base.recipes import load_lm_recipe, recipe_kind

    kind = recipe_kind(recipe)
    if kind == "cookbook":
        from dph_corpus.cookbook.settings import load_cookbook
        from dph_corpus.cookbook.stages import STAGES

        load_cookbook(recipe, overrides or ())
        plan, found = [f"{stage.name}: {stage.summary}" for stage in STAGES], Findings()
    else:
        settings = load_lm_recipe(recipe, overrides or ())
        from dph_corpus.base.base import plan as stages
        from dph_corpus.base.base import preflight

        plan, found = stages(settings), preflight(settings)
    say_check(recipe, f"kind {kind}", plan, found, as_json=as_json, program="dph-corpus")


def list_recipes(as_json: JsonOption = False) -> None:
    """List the recipes that come with the package."""
    from dph.cli.recipe import say_recipes

    say_recipes(RECIPES, as_json=as_json)


def copy(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name from `dph-corpus recipe list`, or a folder.")
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
    """Copy a recipe or a folder that comes with the package."""
    from dph.cli.recipe import say_copied

    say_copied(RECIPES, name, out, as_json=as_json)


add_verbs(recipe_app, {"check": check, "list": list_recipes, "copy": copy})
