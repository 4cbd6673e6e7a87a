"""A run's result as a plain model directory, without the state that only training needs."""

from pathlib import Path

from safetensors import SafetensorError

from dph._base.files import atomic_path, make_directory
from dph.errors import TrainingError
from dph.model.loading import load_tokenizer
from dph.model.policies import load_whole
from dph.recipe.section import Precision
from dph.runs.ends import Ends, ends_of, require_free


def export(run: str | Path, out: str | Path, *, weights: Precision = "float32") -> Path:
    """Write the newest checkpoint of a run as a directory that transformers and vLLM load.

    An adapter is merged into the weights that it was trained on, in float32. In bfloat16 the sum
    is rounded to 8 bits, in which small changes of the weights are partly lost.

    Args:
        run: a run's directory.
        out: where the model comes to lie; it must not be there yet.
        weights: the precision to save.

    Returns:
        ``out``.

    Raises:
        SettingsError: something lies at ``out``, or the run's recipe cannot be read.
        CheckpointError: the run has no checkpoint.
        ModelError: the initial policy is missing, or is not the one that was trained.
        TrainingError: the disk is full.
    """
    out = Path(out)
    require_free(out)
    make_directory(out.parent)
    with atomic_path(out) as temporary:
        temporary.mkdir()
        save_whole(ends_of(Path(run)), temporary, weights=weights)
    return out


def save_whole(ends: Ends, directory: Path, *, weights: Precision = "float32") -> None:
    """Save the model at the end of a run, with its tokenizer, into a directory that is there.

    Raises:
        ModelError: the initial policy is missing, or is not the one that was trained.
        TrainingError: the disk is full.
    """
    model = load_whole(ends.final, initial=ends.base, weights=weights)
    try:
        model.save_pretrained(directory)
        load_tokenizer(ends.final).save_pretrained(directory)
    except SafetensorError as error:  # its way to say that the disk is full
        raise TrainingError(f"cannot write the model {directory}: {error}") from error
