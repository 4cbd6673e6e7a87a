"""``dph train``: from the pool, or from all problems, to a checkpoint."""

from typing import TYPE_CHECKING, Any

import typer

from dph.cli.options import (
    AcceptVerifierOption,
    JsonOption,
    OutOption,
    RecipeArgument,
    SeedOption,
    SetOption,
)

if TYPE_CHECKING:
    from dph.runs.train.loop import Trained


def train(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    accept_verifier: AcceptVerifierOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train, or go on from the newest checkpoint."""
    from dph.cli.display.output import json_text
    from dph.cli.display.progress import open_progress
    from dph.cli.display.quiet import quiet_libraries
    from dph.cli.request import read_request

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    quiet_libraries()
    from dph.runs.consolidation_stage import trained_policy
    from dph.runs.workbench import open_workbench

    with open_workbench(request.recipe, accept_verifier=accept_verifier) as bench:
        request.say_what_was_taken()
        trained = trained_policy(bench, request.directory, open_progress())
    if as_json:
        typer.echo(json_text(trained_json(trained)))
    else:
        typer.echo(trained_text(trained))
    if trained.stopped:
        end_interrupted(trained)


def trained_json(trained: "Trained") -> dict[str, Any]:
    """Where the weights are, for machines."""
    return {
        "checkpoint": str(trained.checkpoint),
        "step": trained.step,
        "stopped": trained.stopped,
    }


def trained_text(trained: "Trained") -> str:
    """Where the weights are, for people."""
    return f"checkpoint after {trained.step} steps: {trained.checkpoint}"


def end_interrupted(trained: "Trained") -> None:
    """Say what is saved and end with the exit code of an interruption.

    Raises:
        typer.Exit: always.
    """
    from dph.cli.failure import INTERRUPTED

    typer.echo(f"stopped after step {trained.step}, everything is saved", err=True)
    raise typer.Exit(INTERRUPTED)
