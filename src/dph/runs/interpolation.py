"""Models between a run's initial policy and its newest checkpoint, as directories of the run.

<run>/interpolated/0.5/  config.json model.safetensors tokenizer.json ...
                         interpolation.json              what it was made from
                         evaluation.json samples.parquet as of any model that is evaluated
"""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from dph._base.files import atomic_path, make_directory, only_writer, read_json, write_json
from dph.errors import DataError, TrainingError
from dph.model.fingerprint import directory_fingerprint
from dph.model.interpolation import interpolated_weights
from dph.model.loading import load_tokenizer
from dph.model.policies import load_whole
from dph.runs.ends import Ends, ends_of
from dph.runs.interpolation_weights import require_weights, weight_name

DIRECTORY = "interpolated"
NOTE = "interpolation.json"
_SCHEMA = 1


def interpolated(run: str | Path, weight: float, *, extrapolate: bool = False) -> Path:
    """The model at ``weight`` between a run's initial policy (0) and its newest checkpoint (1).

    It is made unless it is there and was made from the same two models; an evaluation of another
    model that lay there is gone then. Making it takes the memory of three models in float32.

    Args:
        run: a run's directory.
        weight: x in base + x * (final - base).
        extrapolate: whether x may lie outside [0, 1].

    Returns:
        The model's directory, ``<run>/interpolated/<weight>``.

    Raises:
        SettingsError: the weight is out of range, or the run's recipe cannot be read.
        CheckpointError: the run has no checkpoint.
        ModelError: one of the two models is missing or damaged, or they have not the same shape.
        TrainingError: the disk is full.
        DataError: another process writes into the run.
    """
    return interpolate(Path(run), weight, ends_of(Path(run)), extrapolate=extrapolate)


def interpolate(run: Path, weight: float, ends: Ends, *, extrapolate: bool = False) -> Path:
    """``interpolated`` between two models that are known already.

    Raises:
        DphError: as ``interpolated`` does.
    """
    require_weights([weight], extrapolate=extrapolate)
    path = run / DIRECTORY / weight_name(weight)
    note = _note(weight, ends)
    with only_writer(run):
        if not _was_made_from(path, note):
            _make(path, weight, ends, note)
    return path


def _note(weight: float, ends: Ends) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "weight": float(weight),
        "base": str(ends.base.resolve()),
        "base_fingerprint": directory_fingerprint(ends.base),
        "final": ends.final.name,
        "final_fingerprint": directory_fingerprint(ends.final),
    }


def _was_made_from(path: Path, note: dict[str, Any]) -> bool:
    """Whether the model is there and made from the same; where the two lay does not matter."""
    try:
        found = read_json(path / NOTE)
    except DataError:  # not there, or of somebody else: it is made
        return False
    kept = ("schema", "weight", "base_fingerprint", "final_fingerprint")
    return isinstance(found, dict) and all(found.get(key) == note[key] for key in kept)


def _make(path: Path, weight: float, ends: Ends, note: dict[str, Any]) -> None:
    # On the CPU, where two models and their mean fit.
    base, final = (load_whole(end, initial=ends.base) for end in (ends.base, ends.final))
    weights = interpolated_weights(base.state_dict(), final.state_dict(), weight)
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
