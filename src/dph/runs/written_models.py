"""Models made from a finished run: its result as a plain directory, and models between its ends.

<run>/interpolated/0.5/  config.json model.safetensors tokenizer.json ...
                         interpolation.json              the two models that it was made from
                         evaluation.json samples.parquet as of any evaluated model
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from dph._base.files import atomic_path, make_directory, only_writer, read_json, write_json
from dph.errors import CheckpointError, DataError, SettingsError, TrainingError
from dph.model.loading import load_tokenizer
from dph.model.policies import directory_fingerprint, interpolated_weights, load_whole
from dph.recipe.section import Precision
from dph.runs.directory import RunDirectory, step_of
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.finished_models import Ends, ends_of, require_free, require_weights, weight_name
from dph.runs.job import RunJob
from dph.runs.progress import ProgressDisplay
from dph.runs.train.checkpoints import read_progress

NOTE = "interpolation.json"


def interpolated(
    run: str | Path,
    weight: float,
    *,
    extrapolate: bool = False,
    step: int | None = None,
    layers: range | None = None,
) -> Path:
    """The model at ``weight`` between a run's initial policy (0) and its newest checkpoint (1).

    It is kept if it was made from the same two models, else made again without its evaluation.
    Making it takes the memory of three models in float32.

    Args:
        run: a run's directory.
        weight: x in base + x * (final - base).
        extrapolate: whether x may be outside [0, 1].
        step: the checkpoint after this step takes the place of the initial policy.
        layers: only these layers are interpolated; all other weights are the newest checkpoint's.

    Returns:
        The model's directory, ``<run>/interpolated/<weight>``; step and layers are in its name.

    Raises:
        SettingsError: weight or layers are out of range, or the run's recipe cannot be read.
        CheckpointError: the run has no checkpoint, or none of this step.
        ModelError: one of the two models is missing or damaged, or they have not the same shape.
        TrainingError: the disk is full.
        DataError: another process writes into the run.
    """
    require_weights([weight], extrapolate=extrapolate)
    return _interpolate(Path(run), weight, ends_of(Path(run), step=step), layers)


def _interpolate(run: Path, weight: float, ends: Ends, layers: range | None) -> Path:
    name = weight_name(weight)
    if ends.start != ends.base:
        name += f"-from-{step_of(ends.start)}"
    if layers is not None:
        name += f"-layers-{layers.start}-{layers.stop}"
    path = RunDirectory(run).interpolated(name).path
    note = {
        "schema": 1,
        "weight": float(weight),
        "base": str(ends.start.resolve()),
        "base_fingerprint": directory_fingerprint(ends.start),
        "final": ends.final.name,
        "final_fingerprint": directory_fingerprint(ends.final),
    }
    with only_writer(run):
        if not _was_made_from(path, note):
            _make(path, weight, ends, layers, note)
    return path


def _was_made_from(path: Path, note: Mapping[str, Any]) -> bool:
    """True if the model exists and was made from the same two models, even if those have moved."""
    try:
        found = read_json(path / NOTE)
    except DataError:
        return False
    kept = ("schema", "weight", "base_fingerprint", "final_fingerprint")
    return isinstance(found, dict) and all(found.get(key) == note[key] for key in kept)


def _make(
    path: Path, weight: float, ends: Ends, layers: range | None, note: Mapping[str, Any]
) -> None:
    # On the CPU, where two models and their mean fit.
    start, final = (load_whole(end, initial=ends.base) for end in (ends.start, ends.final))
    weights = interpolated_weights(start.state_dict(), final.state_dict(), weight, layers=layers)
    final.load_state_dict(weights)
    make_directory(path.parent)
    try:
        with atomic_path(path) as temporary:
            temporary.mkdir()
            final.save_pretrained(temporary)
            load_tokenizer(ends.final).save_pretrained(temporary)
            write_json(temporary / NOTE, note)
    except SafetensorError as error:  # its way to say that the disk is full
        raise TrainingError(f"cannot write the model {path}: {error}") from error


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolation:
    """A model between the two ends, with the content of its ``evaluation.json``."""

    weight: float
    directory: Path
    evaluation: dict[str, Any]

    @property
    def name(self) -> str:
        return self.directory.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolations:
    """The evaluations of the initial policy, of the models between, and of the run's result."""

    base: dict[str, Any]
    between: tuple[Interpolation, ...]
    final: dict[str, Any]
    retention_k: int


def interpolation_stage(
    job: RunJob,
    weights: Sequence[float],
    progress: ProgressDisplay,
    *,
    step: int | None = None,
    layers: range | None = None,
) -> Interpolations:
    """Make and evaluate the models at ``weights``; finished ones are kept.

    All are made before the first is evaluated, so that a model that cannot be made is known early.
    """
    if job.recipe.model.weights == "nf4":
        raise SettingsError(
            'model.weights = "nf4" would round models between two others to 4 bits, a coarser step '
            'than theirs: set model.weights = "bfloat16"'
        )
    run = job.directory.path
    ends = ends_of(run, step=step)
    _warn_of_another_start(job, ends)
    places = [_interpolate(run, weight, ends, layers) for weight in weights]
    at = job.directory.base.path
    base = evaluate_stage(job, at, progress, model=ends.base)
    final = evaluate_stage(job, run, progress, model=ends.final, base=at)
    between = tuple(
        Interpolation(
            weight=weight,
            directory=place,
            evaluation=evaluate_stage(job, place, progress, model=place, base=at),
        )
        for weight, place in zip(weights, places, strict=True)
    )
    return Interpolations(
        base=base, between=between, final=final, retention_k=job.recipe.evaluate.retention_k
    )


def _warn_of_another_start(job: RunJob, ends: Ends) -> None:
    """Warn if the run is unfinished, or was trained with other inputs than its recipe names now."""
    trained = job.directory.newest_checkpoint or ends.final
    try:
        done = read_progress(trained, digest=job.training_key()).step
    except CheckpointError:
        logger.warning(
            "the settings, or the files that they name, differ from those that %s was trained "
            "with: if it did not begin from %s, the models between the two are meaningless",
            *(trained, ends.base),
        )
        return
    if done < job.recipe.train.steps:
        logger.warning(
            "%s is unfinished, after %d of %d steps; these are models between its initial policy "
            "and %s",
            *(job.directory.path, done, job.recipe.train.steps, ends.final),
        )


def export(run: str | Path, out: str | Path, *, weights: Precision = "float32") -> Path:
    """Write the result of a run as a directory that transformers and vLLM load; returns ``out``.

    An adapter is merged in float32. In bfloat16 the sum is rounded to 8 bits, which loses part of
    small changes of the weights.

    Args:
        run: a run's directory.
        out: the directory of the model, which must not exist yet.
        weights: the precision to save.
    """
    out = Path(out)
    require_free(out)
    make_directory(out.parent)
    with atomic_path(out) as temporary:
        temporary.mkdir()
        save_whole(ends_of(Path(run)), temporary, weights=weights)
    return out


def save_whole(ends: Ends, directory: Path, *, weights: Precision = "float32") -> None:
    """Save the model at the end of a run, with its tokenizer, into an existing directory."""
    model = load_whole(ends.final, initial=ends.base, weights=weights)
    try:
        model.save_pretrained(directory)
        load_tokenizer(ends.final).save_pretrained(directory)
    except SafetensorError as error:  # its way to say that the disk is full
        raise TrainingError(f"cannot write the model {directory}: {error}") from error
