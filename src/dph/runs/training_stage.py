"""The training stage of a run: from the pool, or from all problems, to a checkpoint."""

from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedModel

from dph.errors import CheckpointError, PoolError, SettingsError
from dph.models.fingerprint import directory_fingerprint
from dph.presampling.pool import Pool, load_pool, require_fit
from dph.records import Problem
from dph.rollout.graded import GradedSampler
from dph.runs.layout import pool_directory
from dph.runs.progress import ProgressDisplay
from dph.runs.workbench import Workbench
from dph.settings import Recipe, changed_settings, load_recipe, recipe_digest, save_recipe
from dph.tasks.problems import problems_fingerprint
from dph.training.checkpoints import latest_checkpoint, read_progress
from dph.training.loop import Actors, Trained, train
from dph.training.metrics import Metrics

_SECTIONS = ("model", "data", "sampling", "presample", "objective", "train")
_WITHOUT_RESULT = {
    "model": {"threads"},
    "data": {"sets", "verifier_workers"},
    "sampling": {"engine"},
    "presample": {"pool"},
    "train": {"checkpoint_every", "keep_checkpoints", "steps"},
}
"""The settings of each section that change no weights."""
_PLACES = {"model": {"path"}, "data": {"train", "databases", "modules"}}
"""What lies there counts, not where it lies."""
_MOST_NAMED = 4


def training_digest(bench: Workbench) -> str:
    """Changes with everything that changes the weights after a given number of steps.

    Paths do not: the model and the problems count by what they are, so a run may be moved.
    """
    recipe = bench.recipe
    return recipe_digest(
        directory_fingerprint(Path(recipe.model.path)),
        problems_fingerprint(bench.problems),
        {"verifier": bench.verifier.name, "version": bench.verifier.version},
        {
            name: getattr(recipe, name).model_dump(
                mode="json",
                exclude=_WITHOUT_RESULT.get(name, set()) | _PLACES.get(name, set()),
            )
            for name in _SECTIONS
        },
        recipe.seed,
    )


def train_stage(bench: Workbench, directory: Path, progress: ProgressDisplay) -> Trained:
    """Train, or go on from the newest checkpoint in ``directory``.

    Raises:
        PoolError: the method needs a pool, and there is none or it does not fit.
        CheckpointError: the directory holds a run with other settings, or with more steps.
        TrainingError: training cannot go on.
    """
    recipe, digest = bench.recipe, training_digest(bench)
    checkpoint = latest_checkpoint(directory / "checkpoints")
    if checkpoint is not None and _steps_done(recipe, directory, digest) == recipe.train.steps:
        return Trained(checkpoint=checkpoint, step=recipe.train.steps, stopped=False)
    policy = bench.load_model(checkpoint or recipe.model.path)
    draw = bench.draw(policy)
    pool = _fitting_pool(bench, directory, policy, draw, initial=checkpoint is None)
    problems = _problems(bench, pool)
    bench.require_prompts_fit(policy.config, problems, max_tokens=draw.parameters.max_tokens)
    reference = None
    if recipe.objective.needs_reference_model:
        reference = bench.load_model(recipe.model.path).requires_grad_(False)
    with progress.task(f"training {recipe.method}", recipe.train.steps, "steps") as advance:

        def start(step: int) -> None:
            save_recipe(recipe, directory / "recipe.toml")
            advance(step, "")

        return train(
            recipe,
            directory,
            Actors(policy=policy, tokenizer=bench.tokenizer, reference=reference, draw=draw),
            problems,
            pool.rehearsal if pool else (),
            digest=digest,
            on_start=start,
            on_step=lambda metrics: advance(1, _note(metrics)),
        )


def steps_done(bench: Workbench, directory: Path) -> int:
    """How far the run in ``directory`` is; 0 where there is none.

    Raises:
        CheckpointError: it is a run with other settings, or with more steps.
    """
    if latest_checkpoint(directory / "checkpoints") is None:
        return 0  # without the digest, which reads the whole model
    return _steps_done(bench.recipe, directory, training_digest(bench))


def _steps_done(recipe: Recipe, directory: Path, digest: str) -> int:
    checkpoint = latest_checkpoint(directory / "checkpoints")
    if checkpoint is None:
        return 0
    try:
        done = read_progress(checkpoint, digest=digest).step
    except CheckpointError as error:
        changed = _changed(directory / "recipe.toml", recipe)
        raise CheckpointError(f"{error} {changed}".rstrip()) from error
    if done > recipe.train.steps:
        raise CheckpointError(
            f"the run in {directory} is at step {done} already, but train.steps = "
            f"{recipe.train.steps}: ask for {done} or more, or train into another directory (--out)"
        )
    return done


def _changed(path: Path, recipe: Recipe) -> str:
    """What the recipe that made a run says otherwise; '' where it cannot be read."""
    try:
        changed = changed_settings(load_recipe(path), recipe)
    except SettingsError:
        return ""
    named = [f"{key} {how}" for key, how in changed.items() if _changes_the_result(key)]
    more = f"; and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return f"[{'; '.join(named[:_MOST_NAMED])}{more}]" if named else ""


def _changes_the_result(key: str) -> bool:
    section, _, rest = key.partition(".")
    name = rest.partition(".")[0]
    return key == "seed" or (
        section in _SECTIONS and name not in _WITHOUT_RESULT.get(section, set())
    )


def _note(metrics: Metrics) -> str:
    note = f"reward {metrics['reward']:.2f}"
    styles = metrics["effective_styles"]
    return note if styles is None else f"{note}, styles {styles:.1f}"


def _fitting_pool(
    bench: Workbench,
    directory: Path,
    policy: PreTrainedModel,
    draw: GradedSampler,
    *,
    initial: bool,
) -> Pool | None:
    if not bench.recipe.needs_pool:
        return None
    path = pool_directory(bench.recipe, directory)
    if not (path / "manifest.json").exists():
        raise PoolError(f"there is no pool in {path}; run `dph presample` first")
    pool = load_pool(path)
    expected = bench.source(policy, draw)
    if not initial:  # the weights have moved on since; everything else must still fit
        stored = pool.manifest.source.model_fingerprint
        expected = expected.model_copy(update={"model_fingerprint": stored})
    require_fit(path, pool.manifest, expected, bench.rule())
    return pool


def _problems(bench: Workbench, pool: Pool | None) -> Sequence[Problem]:
    if bench.recipe.train.problems == "exploration" and pool is not None:
        return pool.exploration
    return bench.problems
