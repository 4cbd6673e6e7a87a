"""``dph base``, ``dph sft`` and ``dph quickstart``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.options import JsonOption, SetOption

if TYPE_CHECKING:
    from dph_corpus.base.recipes import LMRecipe


# ``dph base`` and ``dph sft``: models by maximum likelihood, before RL.

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
    from dph.cli.display.output import open_progress
    from dph_corpus.base.base import train_base
    from dph_corpus.base.recipes import BaseRecipe

    assert isinstance(settings, BaseRecipe)
    _say(train_base(settings, directory, open_progress()), as_json)


def sft(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a model on responses, in stages.

    Only responses are learnt, in packed rows. Training continues from the newest checkpoint of its
    stage and writes DIR/<stage>/model. Needs dph-rl[sft].
    """
    settings, directory = _prepared(recipe, "sft", overrides, out)
    from dph.cli.display.output import open_progress
    from dph_corpus.base.recipes import SFTRecipe
    from dph_corpus.base.sft import train_sft

    assert isinstance(settings, SFTRecipe)
    _say(train_sft(settings, directory, open_progress()), as_json)


def _prepared(
    path: Path, kind: str, overrides: list[str] | None, out: Path | None
) -> tuple["LMRecipe", Path]:
    """The recipe, checked, and the directory."""
    from dph.cli.display.output import quiet_libraries
    from dph.cli.request import require_writable
    from dph.errors import SettingsError
    from dph_corpus.base.recipes import load_lm_recipe

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


# ``dph quickstart``: see the collapse, and what prevents it, in minutes on a CPU.


def quickstart(
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Methods to compare, separated by commas; rkl@0.3 sets the strength.",
            show_default="grpo,dph_f,dph_broad, or those of the task's world",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all random draws.")] = 0,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="Task to learn: sql, or another small world.")
    ] = "sql",
    world: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Edition of the task's world.", show_default="the newest"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output directory.")] = Path(
        "quickstart"
    ),
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of worker processes.", show_default="the cores"
        ),
    ] = None,
    tiny: Annotated[
        bool,
        typer.Option(
            "--tiny", help="Only check that everything runs; the numbers are meaningless."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a small world and a base model, and compare methods."""
    from dph.cli.display.output import open_progress, quiet_libraries
    from dph.cli.request import require_writable

    require_writable(out)
    quiet_libraries()
    from dph.cli.display.lab import said_words
    from lab.quickstart.recipes import tiny_size
    from lab.quickstart.run import quickstart as compare_methods
    from lab.worlds import world_kind

    named = ",".join(world_kind(task, world).contenders) if methods is None else methods
    summary = compare_methods(
        out,
        methods=[label.strip() for label in named.split(",") if label.strip()],
        seed=seed,
        progress=open_progress(),
        task=task,
        edition=world,
        jobs=jobs or os.cpu_count() or 1,
        size=tiny_size(task, world) if tiny else None,
    )
    _show(summary, out, words=said_words(summary, task, world), seed=seed, as_json=as_json)


def _show(summary: dict[str, Any], out: Path, *, words: str, seed: int, as_json: bool) -> None:
    """Save the picture and the report, and print the table and where they lie."""
    from dph.cli.display.lab import save_picture, save_report
    from dph.cli.display.output import json_text

    picture, page = save_picture(summary, out), save_report(summary, out)
    if as_json:
        typer.echo(json_text(summary))
        return
    typer.echo(f"{_table(summary)}\nseed {seed}, {_took(summary)}")
    typer.echo(f"picture: {picture}\nreport: {page}\n\n{words}")


def _table(summary: dict[str, Any]) -> str:
    from dph.cli.display.output import table_text
    from dph.results.charts.tables import comparison_table

    return table_text(comparison_table(summary))


def _took(summary: dict[str, Any]) -> str:
    from dph.results.charts.text_table import duration

    return duration(summary["seconds"]["total"])
