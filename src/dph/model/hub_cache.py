"""Files of the Hub in huggingface_hub's cache: found there, or fetched into it.

Imported where a recipe names something on the Hub: huggingface_hub is slow to import.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from huggingface_hub import constants, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)

from dph._base.files import read_json
from dph.errors import DataError, DphError, ModelError
from dph.recipe.hub_names import HubFile


@contextmanager
def bars_for_people() -> Iterator[None]:
    """Hide progress bars off a terminal, unless HF_HUB_DISABLE_PROGRESS_BARS decides."""
    decided = constants.HF_HUB_DISABLE_PROGRESS_BARS is not None or are_progress_bars_disabled()
    if decided or sys.stderr.isatty():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


_TRANSPORT = cast(type[Exception], HfHubHTTPError.__mro__[1])

"""HTTPError of httpx or of httpx2, whichever huggingface_hub is built on."""

_LOG_IN = "log in (`hf auth login`, or set HF_TOKEN)"


@contextmanager
def said_plainly(what: str, kind: type[DphError]) -> Iterator[None]:
    """Raise what huggingface_hub raises as ``kind``, with a line about ``what`` was asked for.

    A full disk and the like stay what they are.
    """
    end = constants.ENDPOINT
    try:
        yield
    except GatedRepoError as error:
        raise kind(
            f"{what}: access is gated: ask for it on its page at {end}, then {_LOG_IN}"
        ) from error
    except RepositoryNotFoundError as error:
        raise kind(
            f"{what}: {end} has no such repository, or it is private: check the name, or {_LOG_IN}"
        ) from error
    except RevisionNotFoundError as error:
        raise kind(f"{what}: the repository has no such revision (branch, tag, commit)") from error
    except RemoteEntryNotFoundError as error:
        raise kind(f"{what}: the repository has no such file") from error
    except LocalEntryNotFoundError as error:
        raise kind(f"{what}: {_unreachable(error)}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        hint = f": {_LOG_IN}" if status in (401, 403) else ""
        raise kind(f"{what}: {end} answered {status}: {_line(error)}{hint}") from error
    except HFValidationError as error:
        raise kind(f"{what}: {_line(error)}") from error
    except (OfflineModeIsEnabled, _TRANSPORT) as error:
        raise kind(f"{what}: {end} cannot be reached: {_line(error)}") from error


def _unreachable(error: Exception) -> str:
    place = f"it is not in the cache {constants.HF_HUB_CACHE}, or not all of it"
    if constants.HF_HUB_OFFLINE:
        return f"{place}, and HF_HUB_OFFLINE is set: run once without it"
    if error.__cause__ is None:
        return place
    return f"{place}, and {constants.ENDPOINT} cannot be reached: {_line(error.__cause__)}"


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


_WANTED = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.tiktoken", "*.txt"]

_UNWANTED = ["*/*", "consolidated*"]

"""Weights of other libraries: in separate directories, or a second time next to ours."""

_INDEX = "model.safetensors.index.json"


def model_snapshot(name: str, revision: str | None, *, fetch: bool) -> Path:
    """The directory of a model in the cache; its own name is the commit.

    Where the Hub cannot be reached, and without ``fetch``, a branch or a tag is what it was when it
    was last fetched. A commit that is there as a whole is not asked for again.
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
                f"{what}: {directory} has no {meaning} ({file}): need a transformers model with "
                f"its weights as safetensors"
            )
    index: Any = read_json(directory / _INDEX) if (directory / _INDEX).is_file() else {}
    parts = index.get("weight_map", {}) if isinstance(index, dict) else {}
    missing = sorted({part for part in parts.values() if not (directory / part).is_file()})
    if missing:
        raise ModelError(
            f"{what}: {len(missing)} weight files are missing in {directory}, the first is "
            f"{missing[0]}: run once with access to the Hub"
        )
