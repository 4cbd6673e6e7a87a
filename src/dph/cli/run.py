"""``dph run``: all stages of a recipe."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from dph.cli.request import Request
    from dph.runs.run import RunResult
    from dph.runs.train.loop import Trained


def train(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    accept_verifier: AcceptVerifierOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train, or continue from the newest checkpoint."""
    from dph.cli.display.output import json_text, open_progress
    from dph.cli.request import read_request

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    with request.prepared("train", accept_verifier=accept_verifier) as plan:
        from dph.runs.run import stages_of

        trained = stages_of(plan.recipe).train(plan, open_progress())
    if as_json:
        typer.echo(json_text(trained_json(trained)))
    else:
        typer.echo(trained_text(trained))
    if trained.stopped:
        end_interrupted(trained)


def trained_json(trained: "Trained") -> dict[str, Any]:
    """Location of the weights, for machines."""
    return {
        "checkpoint": str(trained.checkpoint),
        "step": trained.step,
        "stopped": trained.stopped,
    }


def trained_text(trained: "Trained") -> str:
    """Location of the weights, for people."""
    return f"checkpoint after {trained.step} steps: {trained.checkpoint}"


def end_interrupted(trained: "Trained") -> None:
    """Say what is saved and end with the exit code of an interruption."""
    from dph.cli.options import INTERRUPTED

    typer.echo(f"stopped after step {trained.step}, everything is saved", err=True)
    raise typer.Exit(INTERRUPTED)


WriteOption = Annotated[
    Path | None,
    typer.Option(
        "--write",
        metavar="FILE",
        help="Also write the problems with --right right answers, with their pass_rate, for any "
        "trainer: .jsonl or .parquet.",
    ),
]
WriteHFOption = Annotated[
    Path | None,
    typer.Option(
        "--write-hf",
        metavar="DIR",
        help="The same as a directory for datasets.load_from_disk.",
    ),
]
RightOption = Annotated[
    str | None,
    typer.Option(
        "--right",
        metavar="LEAST-MOST",
        help="--write: right answers of a problem [default: from 1 to all but 2].",
    ),
]


def presample(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    write: WriteOption = None,
    write_hf: WriteHFOption = None,
    right: RightOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sample the initial policy: make the pool."""
    from dph.cli.display.output import json_text, open_progress
    from dph.cli.display.pool import pool_json, pool_text
    from dph.cli.request import read_request

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    least, most = _right_answers(right, request.recipe.presample.samples)
    _require_targets(write, write_hf, right)
    progress = open_progress()
    with request.prepared("presample") as plan:
        from dph.runs.presample.pool import problems_by_rate, write_problems
        from dph.runs.presampling_stage import presample_stage

        manifest = presample_stage(plan, progress)
        written = {}
        if write or write_hf:
            rows = problems_by_rate(plan.pool, plan.problems, least=least, most=most)
            written = {str(target): len(rows) for target in (write, write_hf) if target}
            if write:
                write_problems(rows, write)
            if write_hf:
                _write_data_set(rows, write_hf)
    if as_json:
        typer.echo(json_text({**pool_json(plan.pool, manifest), "written": written}))
        return
    typer.echo(f"{pool_text(plan.pool, manifest)}\npool: {plan.pool}")
    for target, count in written.items():
        typer.echo(f"{count} problems with {least} to {most} right answers -> {target}")


def _right_answers(right: str | None, samples: int) -> tuple[int, int]:
    """The range of ``--right``, or the default: solved sometimes, and not nearly always."""
    if right is None:
        return 1, max(1, samples - 2)
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", right)
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not least <= most <= samples:
        raise typer.BadParameter(
            f"--right takes LEAST-MOST with 0 <= LEAST <= MOST <= {samples} "
            f"(presample.samples), got {right!r}"
        )
    return least, most


def _require_targets(write: Path | None, write_hf: Path | None, right: str | None) -> None:
    """Refuse targets before anything is sampled for them."""
    from dph._base.provenance import install_command
    from dph.errors import SettingsError

    if right is not None and not (write or write_hf):
        raise SettingsError("--right goes with --write or --write-hf")
    if write and write.suffix not in (".jsonl", ".parquet"):
        raise SettingsError(f"--write takes a .jsonl or .parquet file, got {write}")
    if write_hf and find_spec("datasets") is None:
        raise SettingsError(f"--write-hf needs datasets: {install_command('trl')}")
    if write_hf and write_hf.exists() and not (write_hf / "state.json").exists():
        raise SettingsError(f"--write-hf: {write_hf} already exists and is not a data set")


def _write_data_set(rows: list[dict[str, Any]], directory: Path) -> None:
    from datasets import Dataset

    from dph._base.files.atomic import atomic_path

    with atomic_path(directory) as part:
        Dataset.from_list(rows).save_to_disk(str(part))


EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Training engine: own or verl [default: train.engine].",
    ),
]
NodesOption = Annotated[
    int | None,
    typer.Option("--nodes", min=1, metavar="N", help="--engine verl: number of machines."),
]
GpusOption = Annotated[
    int | None, typer.Option("--gpus", min=1, metavar="N", help="--engine verl: GPUs per machine.")
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="--engine verl: Ray cluster to join."),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the commands and settings that would start verl."),
]


def engine_overrides(engine: str | None, **options: int | str | None) -> list[str]:
    """Overrides of the options, as ``--set`` would give them."""
    chosen = [] if engine is None else [f"train.engine={engine}"]
    return [
        *chosen,
        *(f"verl.{name}={value}" for name, value in options.items() if value is not None),
    ]


def require_engine_of_options(engine: str, **options: int | str | None) -> None:
    """Refuse an option of verl where another engine runs."""
    for name, value in options.items():
        if value is not None and engine != "verl":
            raise typer.BadParameter(
                f"--{name} {value} belongs to the engine verl; train.engine is {engine!r}"
            )


OptionalRecipeArgument = Annotated[
    Path | None, typer.Argument(metavar="[RECIPE]", help="Recipe, a TOML file, or --model.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Instead of a recipe: a directory, or a model of the Hub. Settings that are not given "
        "are chosen by the machine and the model; the recipe is left in the run directory.",
    ),
]
TrainOption = Annotated[
    str | None, typer.Option("--train", metavar="FILE", help="--model: problems to train on.")
]
TestOption = Annotated[
    str | None,
    typer.Option(
        "--test",
        metavar="FILE",
        help="--model: problems to evaluate on [default: a tenth of --train is held out].",
    ),
]
VerifierOption = Annotated[
    str | None,
    typer.Option(
        "--verifier", metavar="NAME", help="--model: a verifier's name, or module:function."
    ),
]
MethodOption = Annotated[
    str | None, typer.Option("--method", metavar="NAME", help="--model: method [default: dph_f].")
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="NAME",
        help="--model: a published set in place of --train: gsm8k, math500, spider, bird.",
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DIR", help="--task spider, bird: the set's directory, as published."
    ),
]


def run(
    recipe: OptionalRecipeArgument = None,
    model: ModelOption = None,
    train: TrainOption = None,
    test: TestOption = None,
    verifier: VerifierOption = None,
    method: MethodOption = None,
    task: TaskOption = None,
    data: DataOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    accept_verifier: AcceptVerifierOption = False,
    as_json: JsonOption = False,
    engine: EngineOption = None,
    nodes: NodesOption = None,
    gpus: GpusOption = None,
    address: AddressOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Pre-sample, train and evaluate; finished work is kept.

    Pre-sampling runs if the method needs it. Training runs on one device with this package, or in
    verl (--engine).
    """
    from dph.cli.display.output import json_text, open_progress
    from dph.cli.request import read_request

    options = {"nodes": nodes, "gpus": gpus, "address": address}
    overrides = [*(overrides or ()), *engine_overrides(engine, **options)]
    given = {"model": model, "train": train, "test": test, "verifier": verifier, "task": task}
    given |= {"data": data, "method": method}
    recipe, out = _recipe_of(recipe, given, out, overrides)
    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    require_engine_of_options(request.recipe.train.engine, **options)
    if dry_run:
        text = _dry_run(request)
        document = {"engine": request.recipe.train.engine, "commands": text}
        typer.echo(json_text(document) if as_json else text)
        return
    with request.prepared("run", accept_verifier=accept_verifier) as plan:
        from dph.runs.run import run_stages

        result = run_stages(plan, open_progress())
    typer.echo(json_text(_json(request, result)) if as_json else _text(request, result))
    if result.trained.stopped:
        end_interrupted(result.trained)


def _recipe_of(
    recipe: Path | None, given: dict[str, str | None], out: Path | None, overrides: list[str]
) -> tuple[Path, Path | None]:
    """The recipe's file and the run directory; the recipe of a command is written there first."""
    said = [f"--{name}" for name, value in given.items() if value is not None]
    if recipe is not None:
        if said:
            raise typer.BadParameter(f"{', '.join(said)} and a recipe: give one or the other")
        return recipe, out
    model = given.pop("model")
    if model is None:
        raise typer.BadParameter("give a recipe, or --model with --train and --verifier")
    from dph.cli.display.output import open_progress, quiet_libraries
    from dph.cli.request import require_writable

    quiet_libraries()
    from dph.runs.command import asked_for, recipe_of_command, write_chosen

    method = given.pop("method") or "dph_f"
    asked = asked_for(model=model, method=method, **given)
    out = out or Path("runs") / f"{Path(model).name}-{method}"
    require_writable(out)
    chosen = recipe_of_command(asked, out, overrides=overrides, progress=open_progress())
    for choice in chosen.choices:
        typer.echo(f"dph: {choice.key} = {choice.value}: {choice.reason}", err=True)
    return write_chosen(chosen, out), out


def _dry_run(request: "Request") -> str:
    """Command and settings that would start the engine."""
    from dph.cli.display.output import quiet_libraries
    from dph.errors import SettingsError

    if request.recipe.train.engine == "own":
        raise SettingsError(
            '--dry-run prints the commands of verl, and train.engine is "own": name it (--engine '
            "verl); `dph recipe check` shows the plan of this engine"
        )
    quiet_libraries()
    from dph.engines.stages.verl_stage import commands_text
    from dph.runs.prepare import prepare

    with prepare(request.recipe, request.directory, stage="presample") as plan:
        return commands_text(plan)


def _json(request: "Request", result: "RunResult") -> dict[str, Any]:
    from dph.cli.display.pool import pool_json
    from dph.runs.directory import RunDirectory

    pool = RunDirectory(request.directory).pool(request.recipe)
    return {
        "run": str(request.directory),
        "pool": pool_json(pool, result.pool) if result.pool else None,
        **result_json(result),
    }


def _text(request: "Request", result: "RunResult") -> str:
    from dph.cli.display.pool import pool_text
    from dph.runs.directory import RunDirectory

    pool = RunDirectory(request.directory).pool(request.recipe)
    shown = [pool_text(pool, result.pool)] if result.pool else []
    return "\n\n".join([*shown, *result_texts(result), f"run: {request.directory}"])


def result_json(result: "RunResult") -> dict[str, Any]:
    """Results of training and evaluation, for machines."""
    return {
        "training": trained_json(result.trained),
        "base": result.base,
        "evaluation": result.evaluation,
    }


def result_texts(result: "RunResult") -> list[str]:
    """The same for people, one after another."""
    from dph.cli.display.output import table_text
    from dph.results.charts.tables import evaluation_table

    evaluated = [e for e in (result.base, result.evaluation) if e]
    return [trained_text(result.trained), *(table_text(evaluation_table(e)) for e in evaluated)]
