"""What the training stage does in every engine: what it asks before, and the log it follows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from dph.engines.stages.engine_log import Logged, LogReader, StepLog
from dph.engines.stages.made_from import require_made_from
from dph.engines.stages.prompts import problems_to_explore
from dph.errors import DataError, SettingsError
from dph.recipe import Recipe
from dph.runs.progress import ProgressDisplay
from dph.runs.store_stage import require_made
from dph.runs.train.actors import Trained
from dph.runs.train.checkpoint_places import latest_checkpoint
from dph.runs.train.metrics import Metrics
from dph.runs.train.tracking import MetricsLog, open_trackers
from dph.runs.training_stage import steps_done
from dph.runs.workbench import Workbench

_NAMES = {"trl": "TRL", "verl": "verl"}


def is_installed(recipe: Recipe) -> bool:
    """Whether the engine that ``train.engine`` names is in this environment."""
    return find_spec(recipe.train.engine) is not None


def require_installed(recipe: Recipe) -> None:
    """Refuse an engine that is not there.

    Raises:
        SettingsError: says how it is installed.
    """
    engine = recipe.train.engine
    if not is_installed(recipe):
        raise SettingsError(
            f'train.engine = "{engine}" needs {_NAMES[engine]} in this environment: '
            f'pip install "dph-rl[{engine}]"'
        )


def require_a_rollout(bench: Workbench, *, why: str) -> None:
    """Refuse fewer problems than a rollout has; ``why`` says what the engine would do.

    Raises:
        DataError: there are fewer.
    """
    recipe, found = bench.recipe, len(bench.problems)
    if found < recipe.train.problems_per_step:
        raise DataError(
            f"train.problems_per_step = {recipe.train.problems_per_step}, and {recipe.data.train} "
            f"has {found} problems: {why}"
        )


def already_trained(
    bench: Workbench, directory: Path, *, place: Path, digest: str
) -> Trained | None:
    """What there is of a finished training; else None, and what training needs is there.

    Raises:
        CheckpointError: the directory, or the engine's own ``place``, holds another run.
    """
    done = steps_done(bench, directory, digest)
    newest = latest_checkpoint(directory / "checkpoints")
    if newest is not None and done == bench.recipe.train.steps:
        return Trained(checkpoint=newest, step=done, stopped=False)
    require_made(bench, directory)
    problems_to_explore(bench, directory)
    require_made_from(place, digest)
    return None


@contextmanager
def following(
    bench: Workbench,
    directory: Path,
    progress: ProgressDisplay,
    *,
    log: Path,
    done: int,
    convert: Callable[[list[Logged]], Metrics],
    updates: int = 1,
) -> Iterator[StepLog]:
    """An engine's ``log`` as metrics, trackers and progress, from step ``done`` on.

    A log that an earlier process left is removed.
    """
    recipe = bench.recipe
    log.unlink(missing_ok=True)
    trackers = open_trackers(recipe.track, recipe, directory)
    title = f"training {recipe.method} in {recipe.train.engine}"
    try:
        with progress.task(title, recipe.train.steps, "steps") as advance:
            advance(done, "")
            yield StepLog(
                reader=LogReader(log),
                metrics=MetricsLog(directory / "metrics.jsonl", step=done),
                trackers=trackers,
                convert=convert,
                updates=updates,
                on_step=lambda metrics: advance(1, f"reward {metrics['reward']:.2f}"),
            )
    finally:
        trackers.close()
