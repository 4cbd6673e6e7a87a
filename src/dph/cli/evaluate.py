"""``dph evaluate``: measure the checkpoint that a run ended with, or any model."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph._base.files import make_directory, read_json, write_json
from dph.cli.options import JsonOption, OutOption, RecipeArgument, Request, SeedOption, SetOption
from dph.errors import DataError, ModelError
from dph.model.hub import model_directory
from dph.runs.result_model import result_model

if TYPE_CHECKING:
    from dph.runs.interpolation import Interpolations


# Which model an evaluation measures, and where it is written.

MADE_FROM = "model.json"
_NOT_TELLING = "checkpoints"
"""Part of every checkpoint's path, so it tells no two of them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedModel:
    """A model's directory and that of its evaluation."""

    model: Path
    directory: Path
    noted: bool = False
    """Whether the directory says in a file of its own which model it is of."""


def measured_model(request: Request, model: Path | None) -> EvaluatedModel:
    """The model to measure and the place of its evaluation.

    Without a name it is the run's result (its newest checkpoint, unless ``evaluate.result`` says
    another), or the recipe's own model where there is none. The result's place is the run directory
    itself, the initial policy's is ``base/`` in it, any other model's is ``models/<its name>/``.
    Where another model of that name was measured, the names of the directories above it are put
    before, as many as it takes.

    Raises:
        SettingsError: the recipe names no evaluation set.
        ModelError: the model is not there.
    """
    run = request.directory
    request.require_sets()
    if model is None:
        result = result_model(run, request.recipe.evaluate)
        if result is not None:
            return EvaluatedModel(model=result, directory=run)
        return EvaluatedModel(model=model_directory(request.recipe.model), directory=run / "base")
    if not any((model / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise ModelError(f"{model} is not the directory of a saved transformers model")
    if model.resolve() == model_directory(request.recipe.model).resolve():
        return EvaluatedModel(model=model, directory=run / "base")
    place = _place_of_its_own(run / "models", model.resolve())
    return EvaluatedModel(model=model, directory=place, noted=True)


@contextmanager
def claimed(measured: EvaluatedModel) -> Iterator[None]:
    """Note in the evaluation's directory which model it is of, unless nothing comes to be there."""
    if not measured.noted:
        yield
        return
    note = measured.directory / MADE_FROM
    make_directory(note.parent)
    write_json(note, {"schema": 1, "path": str(measured.model.resolve())})
    try:
        yield
    finally:
        if [path.name for path in note.parent.iterdir()] == [MADE_FROM]:
            note.unlink()
            with suppress(OSError):  # other models were measured: their directory stays
                note.parent.rmdir()
                note.parent.parent.rmdir()
                note.parent.parent.parent.rmdir()


def _place_of_its_own(models: Path, model: Path) -> Path:
    names = [part for part in model.parts[1:] if part != _NOT_TELLING] or ["model"]
    candidates = [models / "-".join(names[-count:]) for count in range(1, len(names) + 1)]
    return next(place for place in candidates if place == candidates[-1] or _is_for(place, model))


def _is_for(place: Path, model: Path) -> bool:
    """Whether a directory is free, or holds the evaluation of this model."""
    if not place.is_dir() or not any(place.iterdir()):
        return True
    with suppress(DataError, KeyError, TypeError):
        if (place / MADE_FROM).is_file():
            return Path(_evaluated_model_text(place / MADE_FROM, "path")) == model
        return Path(_evaluated_model_text(place / "evaluation.json", "model")).resolve() == model
    return False


def _evaluated_model_text(file: Path, key: str) -> str:
    content: dict[str, Any] = read_json(file)
    return str(content[key])


# ``dph export``: a run's result as a plain model directory.


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, trained.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The model's directory, not there yet.")
    ],
    weights: Annotated[
        str, typer.Option("--weights", help="Precision to save: float32 or bfloat16.")
    ] = "float32",
    as_json: JsonOption = False,
) -> None:
    """Write the checkpoint that a run ended with as a plain model directory; an adapter is merged.

    It is what transformers, vLLM and every other program load, and answers as the run does.
    """
    from typing import get_args

    from dph.cli.display.output import json_text, quiet_libraries
    from dph.errors import SettingsError
    from dph.recipe.section import Precision
    from dph.runs.ends import ends_of, require_free

    if weights not in get_args(Precision):
        raise SettingsError(f'--weights is "float32" or "bfloat16", got {weights!r}')
    require_free(out)
    ends_of(run)
    quiet_libraries()
    from dph.runs.export import export as export_run

    path = export_run(run, out, weights="bfloat16" if weights == "bfloat16" else "float32")
    typer.echo(json_text({"model": str(path), "weights": weights}) if as_json else f"model: {path}")


# ``dph interpolate``: models between a run's initial policy and its result.

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, trained.")]
WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="X,X...",
        help="The x of base + x (final - base), between 0 and 1.",
    ),
]
ExtrapolateOption = Annotated[
    bool, typer.Option("--extrapolate", help="Allow weights below 0 and above 1.")
]


def interpolate(
    run: RunArgument,
    weights: WeightsOption = "0.3,0.5,0.7",
    extrapolate: ExtrapolateOption = False,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Interpolate a run's weights towards its initial policy, and measure every model.

    Each is a plain model directory, RUN/interpolated/<x>, with its evaluation in it; what is made
    and measured already is kept. The table sets them beside the initial policy and the run.
    """
    from dph.cli.display.output import json_text, quiet_libraries
    from dph.cli.display.progress import open_progress
    from dph.cli.options import read_request
    from dph.runs.ends import ends_of, require_weights

    wanted = _numbers(weights)
    require_weights(wanted, extrapolate=extrapolate)
    request = read_request(run / "recipe.toml", overrides=overrides, seed=None, out=run)
    request.require_sets()
    ends_of(run)
    quiet_libraries()
    from dph.runs.interpolation import interpolation_stage
    from dph.runs.set_problems import SetProblems
    from dph.runs.workbench import open_workbench

    with open_workbench(request.recipe, sets=SetProblems(request.recipe)) as bench:
        request.say_what_was_taken()
        made = interpolation_stage(bench, run, wanted, open_progress(), extrapolate=extrapolate)
    typer.echo(json_text(_json(run, made)) if as_json else _interpolate_text(made, run))


def _numbers(text: str) -> list[float]:
    """The weights of ``--weights``.

    Raises:
        SettingsError: one of them is no number.
    """
    from dph.errors import SettingsError

    try:
        return [float(word) for word in text.split(",") if word.strip()]
    except ValueError as error:
        raise SettingsError(
            f"--weights takes numbers with commas between them, such as 0.3,0.5,0.7; got {text!r}"
        ) from error


def _json(run: Path, made: "Interpolations") -> dict[str, Any]:
    return {
        "schema": 1,
        "run": str(run),
        "base": made.base,
        "evaluation": made.final,
        "interpolated": [
            {"weight": each.weight, "directory": str(each.directory), "evaluation": each.evaluation}
            for each in made.between
        ],
        "comparison": _comparison(run, made, as_json=True),
    }


def _interpolate_text(made: "Interpolations", run: Path) -> str:
    places = "\n".join(f"{each.name}: {each.directory}" for each in made.between)
    return f"{_comparison(run, made, as_json=False)}\n\n{places}"


def _comparison(run: Path, made: "Interpolations", *, as_json: bool) -> Any:
    """The initial policy, each interpolation and the run, each against the first."""
    from dph.cli.display.comparison import comparison_json, comparison_text
    from dph.runs.evaluate.comparison import compare
    from dph.runs.evaluate.evaluated_runs import default_ks, read_runs, runs_on_sets

    labels = {
        str(run / "base"): "base",
        **{str(each.directory): each.name for each in made.between},
        str(run): "run",
    }
    scores = read_runs([Path(path) for path in labels], ())
    rows = compare(scores, None, default_ks(scores), 0)
    on_sets = runs_on_sets(scores, retention_k=made.retention_k, problems=0)
    display = comparison_json if as_json else comparison_text
    return display(labels, rows, on_sets)


ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="DIR",
        help="Model [default: the run's result (evaluate.result), or the recipe's model].",
    ),
]


def evaluate(
    recipe: RecipeArgument,
    model: ModelOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure Pass@k, Mean@k, retention and styles on the recipe's evaluation sets.

    The recipe's own model is measured first, for comparison. What is measured already is kept,
    and every model has a place of its own: the run, base/ in it, or models/<name>/.
    """
    from dph.cli.display.output import json_text, quiet_libraries, table_text
    from dph.cli.display.progress import open_progress
    from dph.cli.options import read_request

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    measured = measured_model(request, model)
    quiet_libraries()
    from dph.results.charts.tables import evaluation_table
    from dph.runs.evaluation_stage import evaluate_stage
    from dph.runs.set_problems import SetProblems
    from dph.runs.workbench import open_workbench

    progress, base = open_progress(), request.directory / "base"
    if model is None and measured.directory == base:
        typer.echo(
            f"no checkpoint in {request.directory}: the recipe's model is measured", err=True
        )
    with open_workbench(request.recipe, sets=SetProblems(request.recipe)) as bench:
        request.say_what_was_taken()
        document = evaluate_stage(bench, base, progress, model=bench.initial)
        if measured.directory != base:
            with claimed(measured):
                document = evaluate_stage(
                    bench, measured.directory, progress, model=measured.model, base=base
                )
    typer.echo(json_text(document) if as_json else table_text(evaluation_table(document)))
