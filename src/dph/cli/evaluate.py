"""``dph evaluate``, ``export`` and ``interpolate``: models that a run ended with, and others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.display.output import json_text, open_progress, quiet_libraries, table_text
from dph.cli.options import (
    JsonOption,
    OutOption,
    RecipeArgument,
    SeedOption,
    SetOption,
    TrainedRunArgument,
    option,
)
from dph.errors import SettingsError

if TYPE_CHECKING:
    from dph.runs.written_models import Interpolations


def export(
    run: TrainedRunArgument,
    out: Annotated[Path, option("--out DIR", "New directory for the model.")],
    weights: str = option("--weights DTYPE", "Precision to save: float32 or bfloat16.", "float32"),
    as_json: JsonOption = False,
) -> None:
    """Write a run's result as a plain model directory.

    The model is the run's result (evaluate.result), with any adapter merged. transformers, vLLM and
    other programs can load it, and it gives the same answers as the run.
    """
    from dph.runs.finished_models import ends_of, require_free

    if weights not in ("float32", "bfloat16"):
        raise SettingsError(f'--weights is "float32" or "bfloat16", got {weights!r}')
    require_free(out)
    ends_of(run)
    quiet_libraries()
    from dph.runs.written_models import export as export_run

    path = export_run(run, out, weights="bfloat16" if weights == "bfloat16" else "float32")
    typer.echo(json_text({"model": str(path), "weights": weights}) if as_json else f"model: {path}")


def interpolate(
    run: TrainedRunArgument,
    weights: str = option(
        "--weights X,X...", "Weight x in base + x (final - base), between 0 and 1.", "0.3,0.5,0.7"
    ),
    extrapolate: bool = option("--extrapolate", "Allow weights below 0 and above 1.", False),
    step: int | None = option(
        "--from STEP", "Mix with the checkpoint after this step instead of base.", None
    ),
    layers: str | None = option(
        "--layers A-B", "Mix only layers A to B - 1, counted from 0; the rest is the run's.", None
    ),
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mix a run's weights with its initial policy's or with an early checkpoint's.

    Every mixture is written as a plain model directory, RUN/interpolated/<x>, and evaluated there;
    finished ones are kept. The table compares them with the initial policy and the run.
    """
    from dph.cli.request import read_request
    from dph.runs.directory import RunDirectory
    from dph.runs.finished_models import ends_of, require_weights

    try:
        wanted = [float(word) for word in weights.split(",") if word.strip()]
    except ValueError as error:
        raise SettingsError(
            f"--weights takes numbers separated by commas, such as 0.3,0.5,0.7; got {weights!r}"
        ) from error
    block = None if layers is None else _layers(layers)
    require_weights(wanted, extrapolate=extrapolate)
    request = read_request(RunDirectory(run).recipe_file, overrides=overrides, seed=None, out=run)
    request.require_sets()
    ends_of(run, step=step)
    with request.prepared("evaluate") as plan:
        from dph.runs.written_models import interpolation_stage

        made = interpolation_stage(plan, wanted, open_progress(), step=step, layers=block)
    compared = _comparison(run, made, as_json=as_json)
    if not as_json:
        places = "\n".join(f"{each.name}: {each.directory}" for each in made.between)
        typer.echo(f"{compared}\n\n{places}")
        return
    between = [
        {"weight": each.weight, "directory": str(each.directory), "evaluation": each.evaluation}
        for each in made.between
    ]
    document = {"schema": 1, "run": str(run), "base": made.base, "evaluation": made.final}
    typer.echo(json_text({**document, "interpolated": between, "comparison": compared}))


def _layers(text: str) -> range:
    """The layers of ``--layers``."""
    from dph.errors import SettingsError

    first, _, end = text.partition("-")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise SettingsError(
            f"--layers takes the first layer and the one after the last (16-24), got {text!r}"
        )
    return range(int(first), int(end))


def _comparison(run: Path, made: "Interpolations", *, as_json: bool) -> Any:
    from dph.cli.display.comparison import comparison_json, comparison_text
    from dph.runs.directory import RunDirectory
    from dph.runs.evaluate.comparison import compare
    from dph.runs.evaluate.evaluated_runs import default_ks, read_runs, runs_on_sets

    labels = {
        str(RunDirectory(run).base.path): "base",
        **{str(each.directory): each.name for each in made.between},
        str(run): "run",
    }
    scores = read_runs([Path(path) for path in labels], ())
    rows = compare(scores, None, default_ks(scores), 0)
    on_sets = runs_on_sets(scores, retention_k=made.retention_k, problems=0, seed=0)
    display = comparison_json if as_json else comparison_text
    return display(labels, rows, on_sets)


def evaluate(
    recipe: RecipeArgument,
    model: Path | None = option(
        "--model DIR",
        "Model [default: the run's result (evaluate.result), or the recipe's model].",
        None,
    ),
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure Pass@k, Mean@k, retention and styles.

    Models are measured on the recipe's evaluation sets, and the recipe's own model first, for
    comparison. Finished measurements are kept: those of the run's result in the run directory, of
    the recipe's model in base/, and of any other model in models/<name>/.
    """
    from dph.cli.request import read_request
    from dph.results.charts.tables import evaluation_table
    from dph.runs.directory import RunDirectory
    from dph.runs.finished_models import measured_model

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    measured = measured_model(request.recipe, request.directory, model)
    progress, base = open_progress(), RunDirectory(request.directory).base.path
    if model is None and measured.directory == base:
        typer.echo(
            f"no checkpoint in {request.directory}: the recipe's model is measured", err=True
        )
    with request.prepared("evaluate") as plan:
        from dph.runs.run import evaluate_stages

        document = evaluate_stages(plan, measured, progress)
    typer.echo(json_text(document) if as_json else table_text(evaluation_table(document)))
