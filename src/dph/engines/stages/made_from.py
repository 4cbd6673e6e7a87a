"""Which recipe an engine's own checkpoints were made from, so that another does not go on."""

from pathlib import Path

from dph._base.files import make_directory, read_json, write_json
from dph.errors import CheckpointError

_FILE = "made_from.json"


def require_made_from(place: Path, digest: str) -> None:
    """Write the digest of ``training_digest`` into a new ``place``, or compare the one there.

    Raises:
        CheckpointError: the engine's checkpoints there were made with other settings.
    """
    path = place / _FILE
    if not path.exists():
        write_json(make_directory(place) / _FILE, {"digest": digest})
    elif dict(read_json(path)).get("digest") != digest:
        raise CheckpointError(
            f"the checkpoints in {place} were made with other settings; continue with the recipe "
            "in its run directory, or train into another one (--out)"
        )
