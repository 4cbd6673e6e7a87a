"""``dph run``, ``presample``, ``train`` and ``evaluate``: the stages of a recipe."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph._base.files import atomic_path
from dph._base.provenance import install_command
from dph.cli.display.output import json_text, open_progress, quiet_libraries, table_text
from dph.cli.options import (
    INTERRUPTED,
    AcceptVerifierOption,
    JsonOption,
    OutOption,
    RecipeArgument,
    SeedOption,
    SetOption,
    argument,
    option,
)
from dph.errors import SettingsError

if TYPE_CHECKING:
    from dph.cli.request import Request
    from dph.results.diagnosis.styles import Complementarity
    from dph.runs.presample.manifest import Manifest
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
    from dph.cli.request import read_request

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    with request.prepared("train", accept_verifier=accept_verifier) as plan:
        from dph.runs.run import stages_of

        trained = stages_of(plan.recipe).train(plan, open_progress())
    typer.echo(json_text(_trained_json(trained)) if as_json else _trained_text(trained))
    _end_if_interrupted(trained)


def _trained_json(trained: "Trained") -> dict[str, Any]:
    step, stopped = trained.step, trained.stopped
    return {"checkpoint": str(trained.checkpoint), "step": step, "stopped": stopped}


def _trained_text(trained: "Trained") -> str:
    return f"checkpoint after {trained.step} steps: {trained.checkpoint}"


def _end_if_interrupted(trained: "Trained") -> None:
    if trained.stopped:
        typer.echo(f"stopped after step {trained.step}, everything is saved", err=True)
        raise typer.Exit(INTERRUPTED)


def presample(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    write: Path | None = option(
        "--write FILE",
        "Also write the problems in the range of --right, with their pass_rate, as .jsonl or "
        ".parquet for any trainer.",
        None,
    ),
    write_hf: Path | None = option(
        "--write-hf DIR", "The same, as a directory for datasets.load_from_disk.", None
    ),
    right: str | None = option(
        "--right LEAST-MOST",
        "With --write: right answers per problem [default: from 1 to all but 2].",
        None,
    ),
    as_json: JsonOption = False,
) -> None:
    """Sample the initial policy to make the pool."""
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
                from datasets import Dataset

                from dph._base.files.rows import Chunk

                with atomic_path(write_hf) as part:
                    Dataset(Chunk(rows).as_table()).save_to_disk(str(part))
    if as_json:
        typer.echo(json_text({**_pool_json(plan.pool, manifest), "written": written}))
        return
    typer.echo(f"{_pool_text(plan.pool, manifest)}\npool: {plan.pool}")
    for target, count in written.items():
        typer.echo(f"{count} problems with {least} to {most} right answers -> {target}")


def _right_answers(right: str | None, samples: int) -> tuple[int, int]:
    """The range of ``--right``; by default problems that are solved, but not nearly always."""
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
    from dph.cli.results import require_out_file

    if right is not None and not (write or write_hf):
        raise SettingsError("--right goes with --write or --write-hf")
    if write and write.suffix not in (".jsonl", ".parquet"):
        raise SettingsError(f"--write takes a .jsonl or .parquet file, got {write}")
    if write:
        require_out_file(write, "--write")
    if write_hf and not write_hf.exists():
        require_out_file(write_hf, "--write-hf")
    if write_hf and find_spec("datasets") is None:
        raise SettingsError(f"--write-hf needs datasets: {install_command('trl')}")
    if write_hf and write_hf.exists() and not (write_hf / "state.json").exists():
        raise SettingsError(f"--write-hf: {write_hf} already exists and is not a data set")


BAR_WIDTH = 40


def bar_chart(labels: Sequence[str], counts: Sequence[int]) -> str:
    """A horizontal bar for each count; anything above zero is visible.

    >>> print(bar_chart(["0", "1"], [40, 1]))
    0  40 ########################################
    1   1 #
    """
    widest, largest = max(map(len, labels), default=0), max([*counts, 1])
    digits = len(str(largest))
    bars = ["#" * -(-count * BAR_WIDTH // max(largest, BAR_WIDTH)) for count in counts]
    return "\n".join(
        f"{label.rjust(widest)}  {count:{digits}d} {bar}".rstrip()
        for label, count, bar in zip(labels, counts, bars, strict=True)
    )


def _pool_text(pool: Path, manifest: "Manifest") -> str:
    """The histogram, the sizes and what the styles add to each other.

    If a side is empty, also the outcomes and the probable cause.
    """
    from dph.runs.presample.manifest import cut_off_share, likely_cause, shares_text, shortage

    counts, samples = manifest.counts, manifest.source.answers
    chart = bar_chart([str(c) for c in range(samples + 1)], counts.histogram)
    lines = [
        f"correct of {samples}: problems\n{chart}",
        f"{counts.prompts} problems: {counts.exploration} to explore, {counts.rehearsal} to "
        f"rehearse, {counts.discarded} left out (the final sample was wrong)",
        f"{counts.ungradable} ungradable (the gold answer cannot be graded, or the verifier "
        f"crashed on every answer){'; ungradable.parquet lists them' * (counts.ungradable > 0)}",
    ]
    if (cut_off := cut_off_share(counts)) is not None:
        said = f"{100 * cut_off:.1f}% of {sum(counts.outcomes.values())} answers were cut off"
        lines.append(f"{said} at max_tokens = {manifest.source.max_tokens}")
    if (found := _complementarity(pool)) is not None:
        from dph.results.diagnosis.set_diagnosis import complementarity_text

        lines.append(f"styles: {complementarity_text(found)}")
    if missing := shortage(counts):
        outcomes = shares_text(counts.outcomes) or "not known"
        lines.append(
            f"there is {missing}\noutcomes of all answers: {outcomes}\n"
            f"likely cause: {likely_cause(manifest)}"
        )
    return "\n".join(lines)


def _pool_json(pool: Path, manifest: "Manifest") -> dict[str, Any]:
    from dph.runs.presample.manifest import cut_off_share, likely_cause, shortage

    counts, missing, found = manifest.counts, shortage(manifest.counts), _complementarity(pool)
    return {
        "pool": str(pool),
        "samples": manifest.source.answers,
        "problems": counts.prompts,
        **counts.model_dump(mode="json", exclude_unset=True, exclude={"prompts"}),
        "cut_off": cut_off_share(counts),
        "complementarity": found and asdict(found),
        "shortage": f"{missing}: {likely_cause(manifest)}" if missing else None,
    }


def _complementarity(pool: Path) -> "Complementarity | None":
    """Complementarity of the styles of a pool's answers; None without styles."""
    import pyarrow.parquet as pq

    from dph.results.diagnosis.styles import complementarity, pool_style_counts
    from dph.runs.presample.pool import SAMPLES

    columns = ["outcome", "problem_id", "style"]
    counts = pool_style_counts(pq.read_table(pool / SAMPLES, columns=columns))
    return None if counts is None else complementarity(counts)


EngineOption = Annotated[
    str | None, option("--engine NAME", "Training engine: own or verl [default: train.engine].")
]


def engine_overrides(engine: str | None, **options: int | str | None) -> list[str]:
    """Overrides of the options, as ``--set`` would give them."""
    given = {"train.engine": engine} | {f"verl.{name}": value for name, value in options.items()}
    return [f"{key}={value}" for key, value in given.items() if value is not None]


def require_engine_of_options(engine: str, **options: int | str | None) -> None:
    for name, value in options.items():
        if value is not None and engine != "verl":
            said = f"--{name} {value} belongs to the engine verl"
            raise typer.BadParameter(f"{said}; train.engine is {engine!r}")


ModelOption = Annotated[
    str | None,
    option(
        "--model MODEL",
        "Instead of a recipe: a model directory, or a model on the Hub. Settings that are not "
        "given are chosen for the machine and the model; the run directory keeps the recipe.",
    ),
]
TaskOption = Annotated[
    str | None,
    option(
        "--task NAME",
        "With --model: published dataset instead of --train: gsm8k, math500, spider or bird.",
    ),
]


def run(
    recipe: Path | None = argument("RECIPE", "Recipe, a TOML file; or give --model.", None),
    model: ModelOption = None,
    train: str | None = option("--train FILE", "With --model: problems to train on.", None),
    test: str | None = option(
        "--test FILE",
        "With --model: problems to evaluate on [default: hold out a tenth of --train].",
        None,
    ),
    verifier: str | None = option(
        "--verifier NAME", "With --model: a verifier's name, or module:function.", None
    ),
    method: str | None = option("--method NAME", "With --model: method [default: dph_f].", None),
    task: TaskOption = None,
    data: str | None = option(
        "--data DIR", "With --task spider or bird: the dataset's directory, as published.", None
    ),
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    accept_verifier: AcceptVerifierOption = False,
    as_json: JsonOption = False,
    engine: EngineOption = None,
    nodes: int | None = option("--nodes N", "With --engine verl: number of machines.", None, min=1),
    gpus: int | None = option("--gpus N", "With --engine verl: GPUs per machine.", None, min=1),
    address: str | None = option(
        "--address HOST:PORT", "With --engine verl: Ray cluster to join.", None
    ),
    dry_run: bool = option(
        "--dry-run", "Print the commands and settings that would start verl.", False
    ),
) -> None:
    """Pre-sample, train and evaluate; finished work is kept.

    Pre-sampling runs if the method needs it. Training runs on one device with this package, or in
    verl (--engine).
    """
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
    _end_if_interrupted(result.trained)


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
    from dph.cli.request import require_writable

    quiet_libraries()
    from dph.runs.command import FILE, asked_for, recipe_of_command, write_chosen

    method = given.pop("method") or "dph_f"
    asked = asked_for(model=model, method=method, **given)
    out = out or Path("runs") / f"{Path(model).name}-{method}"
    require_writable(out)
    chosen = recipe_of_command(asked, out, overrides=overrides, progress=open_progress())
    if (out / FILE).exists():
        typer.echo(f"dph: all settings are those of {out / FILE}", err=True)
    for choice in chosen.choices:
        typer.echo(f"dph: {choice.key} = {choice.value}: {choice.reason}", err=True)
    return write_chosen(chosen, out), out


def _dry_run(request: "Request") -> str:
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
    return {
        "run": str(request.directory),
        "pool": _pool_json(request.pool, result.pool) if result.pool else None,
        "training": _trained_json(result.trained),
        "base": result.base,
        "evaluation": result.evaluation,
    }


def _text(request: "Request", result: "RunResult") -> str:
    from dph.results.charts.tables import evaluation_table

    parts = [_pool_text(request.pool, result.pool)] if result.pool else []
    parts.append(_trained_text(result.trained))
    evaluated = filter(None, (result.base, result.evaluation))
    parts += [table_text(evaluation_table(document)) for document in evaluated]
    return "\n\n".join([*parts, f"run: {request.directory}"])


def evaluate(
    recipe: RecipeArgument,
    model: Path | None = option(
        "--model DIR",
        "Model to evaluate [default: the run's result (evaluate.result), or the recipe's model].",
        None,
    ),
    overrides: SetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure Pass@k, Mean@k, retention and styles.

    Models are evaluated on the recipe's evaluation sets, the recipe's own model first, for
    comparison. Finished evaluations are kept: of the run's result in the run directory, of the
    recipe's model in base/, and of any other model in models/<name>/.
    """
    from dph.cli.request import read_request
    from dph.results.charts.tables import evaluation_table
    from dph.runs.directory import RunDirectory
    from dph.runs.finished_models import measured_model

    request = read_request(recipe, overrides=overrides, seed=seed, out=out)
    measured = measured_model(request.recipe, request.directory, model)
    progress, base = open_progress(), RunDirectory(request.directory).base.path
    if model is None and measured.directory == base:
        typer.echo(f"no checkpoint in {request.directory}: evaluating the recipe's model", err=True)
    with request.prepared("evaluate") as plan:
        from dph.runs.run import evaluate_stages

        document = evaluate_stages(plan, measured, progress)
    typer.echo(json_text(document) if as_json else table_text(evaluation_table(document)))
