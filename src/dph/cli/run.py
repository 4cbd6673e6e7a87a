"""``dph run``: all stages of a recipe."""

from typing import TYPE_CHECKING, Any

import typer

from dph.cli.engine_options import (
    AddressOption,
    DryRunOption,
    EngineOption,
    GpusOption,
    NodesOption,
    ProcessesOption,
    engine_overrides,
    require_engine_of_options,
)
from dph.cli.options import (
    AcceptVerifierOption,
    JsonOption,
    OutOption,
    RecipeArgument,
    SeedOption,
    SetOption,
)

if TYPE_CHECKING:
    from dph.cli.request import Request
    from dph.runs.pipeline import RunResult


def run(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    accept_verifier: AcceptVerifierOption = False,
    as_json: JsonOption = False,
    engine: EngineOption = None,
    processes: ProcessesOption = None,
    nodes: NodesOption = None,
    gpus: GpusOption = None,
    address: AddressOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Pre-sample (where the method needs it), train and evaluate; what is done is kept.

    Training is this package's own on one device, or that of TRL or verl.
    """
    from dph.cli.display.output import json_text
    from dph.cli.display.progress import open_progress
    from dph.cli.display.quiet import quiet_libraries
    from dph.cli.request import read_request
    from dph.cli.train import end_interrupted

    options = {"processes": processes, "nodes": nodes, "gpus": gpus, "address": address}
    overrides = [*(overrides or ()), *engine_overrides(engine, **options)]
    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    require_engine_of_options(request.recipe.train.engine, **options)
    if dry_run:
        typer.echo(_dry_run(request))
        return
    quiet_libraries()
    from dph.runs.pipeline import run_stages
    from dph.runs.set_problems import SetProblems
    from dph.runs.workbench import open_workbench

    sets = SetProblems(request.recipe)
    with open_workbench(request.recipe, sets=sets, accept_verifier=accept_verifier) as bench:
        request.say_what_was_taken()
        result = run_stages(bench, request.directory, open_progress())
    typer.echo(json_text(_json(request, result)) if as_json else _text(request, result))
    if result.trained.stopped:
        end_interrupted(result.trained)


def _dry_run(request: "Request") -> str:
    """What the engine would be started with."""
    from dph.cli.display.quiet import quiet_libraries
    from dph.errors import SettingsError

    if request.recipe.train.engine == "own":
        raise SettingsError(
            '--dry-run prints the commands of another engine, and train.engine is "own": name one '
            "(--engine trl, --engine verl); `dph recipe check` says what would run here"
        )
    quiet_libraries()
    from dph.engines.stages.dry_run import commands_text
    from dph.runs.workbench import open_workbench

    with open_workbench(request.recipe) as bench:
        return commands_text(bench, request.directory)


def _json(request: "Request", result: "RunResult") -> dict[str, Any]:
    from dph.cli.display.pool import pool_json
    from dph.runs.layout import pool_directory

    pool = pool_directory(request.recipe, request.directory)
    return {
        "run": str(request.directory),
        "pool": pool_json(pool, result.pool) if result.pool else None,
        **result_json(result),
    }


def _text(request: "Request", result: "RunResult") -> str:
    from dph.cli.display.pool import pool_text

    pool = [pool_text(result.pool)] if result.pool else []
    return "\n\n".join([*pool, *result_texts(result), f"run: {request.directory}"])


def result_json(result: "RunResult") -> dict[str, Any]:
    """What training and evaluation left, for machines."""
    from dph.cli.train import trained_json

    return {
        "training": trained_json(result.trained),
        "base": result.base,
        "evaluation": result.evaluation,
    }


def result_texts(result: "RunResult") -> list[str]:
    """The same for people, one after another."""
    from dph.cli.display.output import table_text
    from dph.cli.train import trained_text
    from dph.results.charts.tables import evaluation_table

    evaluated = [e for e in (result.base, result.evaluation) if e]
    return [trained_text(result.trained), *(table_text(evaluation_table(e)) for e in evaluated)]
