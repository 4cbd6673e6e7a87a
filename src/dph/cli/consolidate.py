"""``dph consolidate``: a trained model learns from the agreement of its own answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.options import AcceptVerifierOption, JsonOption, SeedOption, SetOption

if TYPE_CHECKING:
    from dph.recipe import Recipe
    from dph.runs.run import RunResult

RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Run directory, a checkpoint, or a saved model."),
]
PromptsOption = Annotated[
    Path,
    typer.Option("--prompts", metavar="FILE", help="Prompts without answers: problem_id, prompt."),
]
RecipeOption = Annotated[
    Path | None,
    typer.Option("--recipe", metavar="FILE", help="Recipe of the task [default: the run's]."),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="New run directory [default: RUN-consolidated]."),
]
LabelledOption = Annotated[
    Path | None,
    typer.Option(
        "--labelled",
        metavar="FILE",
        help="Problems with answers for the forecast [default: training problems].",
    ),
]
ForecastPromptsOption = Annotated[
    int,
    typer.Option(
        "--forecast-prompts", min=2, metavar="N", help="Number of prompts of each kind to try."
    ),
]
ForecastOnlyOption = Annotated[
    bool, typer.Option("--forecast-only", help="Stop after the forecast.")
]


def consolidate(
    run: RunArgument,
    prompts: PromptsOption,
    recipe: RecipeOption = None,
    out: OutOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    labelled: LabelledOption = None,
    forecast_prompts: ForecastPromptsOption = 50,
    forecast_only: ForecastOnlyOption = False,
    accept_verifier: AcceptVerifierOption = False,
    as_json: JsonOption = False,
) -> None:
    """Learn from what a trained model's answers agree on.

    First comes a forecast from a few prompts: how often answers agree, how often the result that
    they agree on is right (if labels show it), and how long everything will take. Then follows a
    separate run next to RUN, which stays unchanged; finished work is kept. dph_broad does the same
    after RL.
    """
    from dph.cli.display.forecast import forecast_text
    from dph.cli.display.output import json_text, open_progress, quiet_libraries
    from dph.cli.request import require_writable
    from dph.cli.run import end_interrupted
    from dph.recipe.recipe import consolidating_recipe
    from dph.runs.finished_models import consolidation_source

    source = consolidation_source(run, recipe)
    asked = consolidating_recipe(source.recipe, prompts, overrides=overrides or (), seed=seed)
    directory = out or source.beside
    source.require_beside(directory)
    require_writable(directory)
    quiet_libraries()
    from dph.runs.consolidation import consolidate_stage, consolidation_forecast
    from dph.runs.plan import open_plan
    from dph.runs.run import consolidation_recipe

    follows = _pinned(consolidation_recipe(asked, source.model), directory)
    progress = open_progress()
    with open_plan(follows, directory, all_sets=True, accept_verifier=accept_verifier) as plan:
        forecast = consolidation_forecast(
            plan, progress, prompts=forecast_prompts, labelled=labelled
        )
        typer.echo(forecast_text(forecast, prompts), err=as_json or not forecast_only)
        if forecast_only:
            if as_json:
                typer.echo(json_text({"run": str(directory), "forecast": forecast}))
            return
        result = consolidate_stage(plan, source, progress)
    typer.echo(_result(directory, follows, result, forecast, as_json=as_json))
    if result.trained.stopped:
        end_interrupted(result.trained)


def _pinned(recipe: "Recipe", directory: Path) -> "Recipe":
    """Names on the Hub, with the commits that the run began with."""
    from dph.model.hub import resolve_names

    return resolve_names(recipe, run=directory).recipe


def _result(
    directory: Path,
    recipe: "Recipe",
    result: "RunResult",
    forecast: dict[str, Any],
    *,
    as_json: bool,
) -> str:
    """Results of the run, and their cost."""
    from dph.cli.display.output import json_text
    from dph.cli.run import result_json, result_texts
    from dph.results.charts.tables import cost_document, cost_words
    from dph.runs.stage_costs import run_cost

    cost = cost_document(run_cost(directory, recipe))
    if as_json:
        run = {"run": str(directory), "forecast": forecast}
        return json_text({**run, **result_json(result), "cost": cost})
    return "\n\n".join([*result_texts(result), f"cost: {cost_words(cost)}", f"run: {directory}"])
