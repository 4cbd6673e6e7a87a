"""Files of the Hub in huggingface_hub's cache: found there, or fetched into it."""

from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download, snapshot_download

from dph._base.files import read_json
from dph.errors import DataError, ModelError
from dph.model.hub.bars import bars_for_people
from dph.model.hub.refusals import said_plainly
from dph.recipe.hub_names import HubFile

_WANTED = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.tiktoken", "*.txt"]
_UNWANTED = ["*/*", "consolidated*"]
"""Weights of other libraries: in directories of their own, or a second time beside ours."""
_INDEX = "model.safetensors.index.json"


def model_snapshot(name: str, revision: str | None, *, fetch: bool) -> Path:
    """The directory of a model in the cache; its own name is the commit.

    Where the Hub cannot be reached, and without ``fetch``, a branch or a tag is what it was when it
    was last fetched. A commit that is there as a whole is not asked for again.

    Raises:
        ModelError: there is no such model or revision, it is gated, it has no weights as
            safetensors, or it cannot be fetched and is not in the cache.
    """
    what = f"the model {name}" + ("" if revision is None else f" at {revision}")
    with said_plainly(what, ModelError), bars_for_people():
        directory = snapshot_download(
            name,
            revision=revision,
            allow_patterns=_WANTED,
            ignore_patterns=_UNWANTED,
            local_files_only=not fetch,
        )
    _require_whole(Path(directory), what)
    return Path(directory)


def dataset_file(file: HubFile, *, fetch: bool) -> Path:
    """A file of a data set in the cache, where its commit is part of its path.

    Branches, tags and commits are as of ``model_snapshot``.

    Raises:
        DataError: there is no such data set, revision or file, it is gated, or it cannot be
            fetched and is not in the cache.
    """
    with said_plainly(str(file), DataError), bars_for_people():
        found = hf_hub_download(
            file.repo,
            file.path,
            repo_type="dataset",
            revision=file.revision,
            local_files_only=not fetch,
        )
    return Path(found)


def commit_of(file: HubFile, path: Path) -> str:
    """The commit of a file that ``dataset_file`` found."""
    below = len(Path(file.path).parts)
    return path.parts[-below - 1]


def _require_whole(directory: Path, what: str) -> None:
    """Refuse a model without weights, and one that the cache has only a part of."""
    for file, meaning in (("config.json", "config"), ("*.safetensors", "weights")):
        if not any(directory.glob(file)):
            raise ModelError(
                f"{what}: there is no {meaning} ({file}) in {directory}: need a model of "
                "transformers with its weights as safetensors"
            )
    index: Any = read_json(directory / _INDEX) if (directory / _INDEX).is_file() else {}
    parts = index.get("weight_map", {}) if isinstance(index, dict) else {}
    missing = sorted({part for part in parts.values() if not (directory / part).is_file()})
    if missing:
        raise ModelError(
            f"{what}: {len(missing)} files of weights are missing in {directory}, the first is "
            f"{missing[0]}: run once where the Hub can be reached"
        )
