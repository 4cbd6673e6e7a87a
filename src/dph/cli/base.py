"""``dph base`` and ``dph sft``: models by maximum likelihood, before RL."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.options import JsonOption, SetOption

if TYPE_CHECKING:
    from dph.lab.base.recipes import LMRecipe

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
    """Train a base model on corpora, or continue one: warm-up, constant, annealing.

    Goes on from the newest checkpoint. Leaves DIR/model with its card; checkpoints go at the end.
    """
    settings, directory = _prepared(recipe, "base", overrides, out)
    from dph.cli.display.progress import open_progress
    from dph.lab.base import BaseRecipe, train_base

    assert isinstance(settings, BaseRecipe)
    _say(train_base(settings, directory, open_progress()), as_json)


def sft(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a model in stages, on responses alone, packed. Needs dph-rl[sft].

    Goes on from the newest checkpoint of the stage it was in. Leaves DIR/<stage>/model.
    """
    settings, directory = _prepared(recipe, "sft", overrides, out)
    from dph.cli.display.progress import open_progress
    from dph.lab.base import SFTRecipe, train_sft

    assert isinstance(settings, SFTRecipe)
    _say(train_sft(settings, directory, open_progress()), as_json)


def _prepared(
    path: Path, kind: str, overrides: list[str] | None, out: Path | None
) -> tuple["LMRecipe", Path]:
    """The recipe, checked, and the directory."""
    from dph.cli.display.output import quiet_libraries
    from dph.cli.options import require_writable
    from dph.errors import SettingsError
    from dph.lab.base.recipes import load_lm_recipe

    settings = load_lm_recipe(path, overrides or ())
    if settings.kind != kind:
        raise SettingsError(f'{path} has kind = "{settings.kind}": run `dph {settings.kind}`')
    directory = out or Path("runs") / settings.name
    require_writable(directory)
    quiet_libraries()
    return settings, directory


def _say(model: Path, as_json: bool) -> None:
    from dph.cli.display.output import json_text

    typer.echo(json_text({"model": str(model)}) if as_json else f"model: {model}")
