"""Names become commits, once, when a run begins."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from dph.errors import DataError, DphError, ModelError, SettingsError
from dph.recipe import DataSettings, ModelSettings, Recipe, load_recipe
from dph.recipe.hub_names import HubFile, hub_file, is_model_id, names_hub


def is_on_hub(model: ModelSettings) -> bool:
    """Whether ``model.path`` names a model of the Hub: no directory is called so."""
    return is_model_id(model.path) and not Path(model.path).exists()


def uses_hub(recipe: Recipe) -> bool:
    """Whether the recipe names anything on the Hub."""
    files = (recipe.data.train, *(one.path for one in recipe.data.sets.values()))
    return is_on_hub(recipe.model) or any(map(names_hub, files))


def model_directory(model: ModelSettings) -> Path:
    """The model's directory: its path, or the one in the cache.

    Raises:
        ModelError: it is a model of the Hub and not in the cache, which ``resolve_names`` fills.
    """
    if not is_on_hub(model):
        return Path(model.path)

    return model_snapshot(model.path, model.revision, fetch=False)


def problems_file(path: Path) -> Path:
    """A file of problems: its path, or the one in the cache.

    Raises:
        DataError: it is one of the Hub and not in the cache, which ``resolve_names`` fills.
    """
    file = hub_file(path)
    if file is None:
        return path

    return dataset_file(file, fetch=False)


_SHOWN = 12
"""Characters of a commit that people are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A recipe in which every name on the Hub has its commit, and what was taken from where."""

    recipe: Recipe
    taken: tuple[str, ...]
    """A line for each name, for people."""


def resolve_names(
    recipe: Recipe, *, run: Path | None = None, written: str | None = None
) -> Resolved:
    """Fetch what the recipe names on the Hub, the model first, and say at which commits.

    A revision that the recipe leaves open is the one that the run in the directory ``run`` is at
    already, if there is one: what has been pushed since does not change a run. All files of a data
    set are of one commit. A recipe that names local places alone comes back as it is, and what is
    pinned and in the cache is not asked for again.

    ``written`` is what the recipe's file calls the model, if that is not ``model.path`` any more:
    a directory that is called as a model of the Hub could be is told.

    Raises:
        SettingsError: ``model.revision`` is given for a directory.
        ModelError: the model is not there, is gated, or cannot be fetched.
        DataError: a file of problems is not there, is gated, or cannot be fetched.
    """
    before = _before(run) if uses_hub(recipe) else None
    work = _Work(before=before, written=written or recipe.model.path)
    model, data = work.model(recipe.model), work.data(recipe.data)
    if (model, data) != (recipe.model, recipe.data):
        recipe = recipe.model_copy(update={"model": model, "data": data})
    return Resolved(recipe=recipe, taken=tuple(work.taken))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    before: Recipe | None
    written: str
    taken: list[str] = field(default_factory=list)
    commits: dict[tuple[str, str | None], str] = field(default_factory=dict)
    """Of data sets, by the revision that was asked for."""

    def model(self, model: ModelSettings) -> ModelSettings:
        if not is_on_hub(model):
            _require_no_revision(model)
            if is_model_id(self.written) and Path(model.path).is_dir():
                which = f"the directory {model.path}, not {self.written} of the Hub"
                self.taken.append(f"model.path: {which}")
            return model

        revision = model.revision
        if revision is None and self.before and self.before.model.path == model.path:
            revision = self.before.model.revision
        commit = model_snapshot(model.path, revision, fetch=True).name
        self.taken.append(f"model.path: {model.path} of the Hub at {commit[:_SHOWN]}")
        return model.model_copy(update={"revision": commit})

    def data(self, data: DataSettings) -> DataSettings:
        train = self.file("data.train", data.train)
        sets = {
            name: one.model_copy(update={"path": self.file(f"data.sets.{name}", one.path)})
            for name, one in data.sets.items()
        }
        if (train, sets) == (data.train, data.sets):
            return data
        return data.model_copy(update={"train": train, "sets": sets})

    def file(self, key: str, path: Path) -> Path:
        named = hub_file(path)
        if named is None:
            return path

        asked = (named.repo, named.revision)
        revision = self.commits.get(asked) or named.revision or self._revision_before(named)
        commit = commit_of(named, dataset_file(named.at(revision), fetch=True))
        self.commits[asked] = commit
        self.taken.append(f"{key}: {named.at(None)} of the Hub at {commit[:_SHOWN]}")
        return named.at(commit).where

    def _revision_before(self, named: HubFile) -> str | None:
        if self.before is None:
            return None
        data = self.before.data
        files = [hub_file(path) for path in (data.train, *(s.path for s in data.sets.values()))]
        same = (f.revision for f in files if f and (f.repo, f.path) == (named.repo, named.path))
        return next(same, None)


def _before(run: Path | None) -> Recipe | None:
    """The recipe that a run has; None where there is none that can be read."""
    if run is None or not (run / "recipe.toml").is_file():
        return None
    try:
        return load_recipe(run / "recipe.toml")
    except SettingsError:  # whoever needs that recipe says what is wrong with it
        return None


def _require_no_revision(model: ModelSettings) -> None:
    if model.revision is None:
        return
    what = "is a directory" if Path(model.path).is_dir() else "is not a name there (org/name)"
    raise SettingsError(
        f"model.revision = {model.revision!r} belongs to a model of the Hub, but model.path = "
        f"{model.path!r} {what}"
    )


# Files of the Hub in huggingface_hub's cache: found there, or fetched into it.
#
# Imported where a recipe names something on the Hub: huggingface_hub is slow to import.


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
