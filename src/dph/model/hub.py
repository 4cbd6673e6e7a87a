"""The Hub: names of a recipe become commits once, when a run begins, in huggingface_hub's cache.

huggingface_hub imports slowly, so it is imported only if something is named on the Hub.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from dph._base.files import read_json
from dph.errors import DataError, DphError, ModelError, SettingsError
from dph.recipe import DataSettings, ModelSettings, Recipe, load_recipe
from dph.recipe.places import HubFile, hub_file, is_model_id, names_hub


def is_on_hub(model: ModelSettings) -> bool:
    """True if ``model.path`` is the name of a model on the Hub and no local directory."""
    return is_model_id(model.path) and not Path(model.path).exists()


def uses_hub(recipe: Recipe) -> bool:
    return is_on_hub(recipe.model) or any(map(names_hub, _files(recipe.data)))


def _files(data: DataSettings) -> list[Path]:
    """Files of problems, by local paths or names on the Hub."""
    return [data.train, *(one.path for one in data.sets.values())]


def model_directory(model: ModelSettings) -> Path:
    """The model's directory: its path, or the one in the cache."""
    if is_on_hub(model):
        return model_snapshot(model.path, model.revision, fetch=False)
    return Path(model.path)


def problems_file(path: Path) -> Path:
    """A file of problems: its path, or the one in the cache."""
    file = hub_file(path)
    return path if file is None else dataset_file(file, fetch=False)


_SHOWN = 12
"""Characters of a commit in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A recipe in which every name on the Hub has its commit, and a line about each for people."""

    recipe: Recipe
    taken: tuple[str, ...]


def resolve_names(
    recipe: Recipe, *, run: Path | None = None, written: str | None = None
) -> Resolved:
    """Fetch everything that the recipe names on the Hub, the model first, and report the commits.

    A revision that the recipe leaves open is that of the run in the directory ``run``, if there is
    one: later pushes do not change a run. All files of a data set are of one commit. A recipe of
    local paths only is returned unchanged, and a commit in the cache is not asked for again.

    ``written`` is the model's name in the recipe's file, if ``model.path`` is another by now: a
    directory whose name could be a model of the Hub is reported.
    """
    before = None
    if uses_hub(recipe) and run is not None and (run / "recipe.toml").is_file():
        with suppress(SettingsError):  # refused when that recipe is needed
            before = load_recipe(run / "recipe.toml")
    work = _Resolving(before=before, written=written or recipe.model.path)
    model, data = work.model(recipe.model), work.data(recipe.data)
    if (model, data) != (recipe.model, recipe.data):
        recipe = recipe.model_copy(update={"model": model, "data": data})
    return Resolved(recipe=recipe, taken=tuple(work.taken))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolving:
    before: Recipe | None
    written: str
    taken: list[str] = field(default_factory=list)
    commits: dict[tuple[str, str | None], str] = field(default_factory=dict)
    """Of data sets, by the revision that was asked for."""

    def model(self, model: ModelSettings) -> ModelSettings:
        if not is_on_hub(model):
            there = Path(model.path).is_dir()
            if model.revision is not None:
                what = "is a directory" if there else "is not a name there (org/name)"
                raise SettingsError(
                    f"model.revision = {model.revision!r} belongs to a model of the Hub, but "
                    f"model.path = {model.path!r} {what}"
                )
            if there and is_model_id(self.written):
                which = f"the directory {model.path} is used, not {self.written} of the Hub"
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
        files = map(hub_file, _files(self.before.data)) if self.before else ()
        same = (f.revision for f in files if f and (f.repo, f.path) == (named.repo, named.path))
        revision = self.commits.get(asked) or named.revision or next(same, None)
        found = dataset_file(named.at(revision), fetch=True)
        commit = found.parts[-len(Path(named.path).parts) - 1]
        self.commits[asked] = commit
        self.taken.append(f"{key}: {named.at(None)} of the Hub at {commit[:_SHOWN]}")
        return Path(str(named.at(commit)))


@contextmanager
def bars_for_people() -> Iterator[None]:
    """Hide progress bars off a terminal, unless HF_HUB_DISABLE_PROGRESS_BARS decides."""
    from huggingface_hub import constants  # noqa: PLC0415 - imports slowly
    from huggingface_hub.utils.tqdm import (  # noqa: PLC0415
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    decided = constants.HF_HUB_DISABLE_PROGRESS_BARS is not None or are_progress_bars_disabled()
    if decided or sys.stderr.isatty():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


_LOG_IN = "log in (`hf auth login`, or set HF_TOKEN)"


@contextmanager
def said_plainly(what: str, kind: type[DphError]) -> Iterator[None]:
    """Raise errors of huggingface_hub as ``kind``; the message names ``what`` was asked for.

    Others, such as a full disk, are raised unchanged.
    """
    from huggingface_hub import constants, errors  # noqa: PLC0415 - imports slowly

    end = constants.ENDPOINT
    transport = cast(type[Exception], errors.HfHubHTTPError.__mro__[1])  # of httpx or httpx2
    try:
        yield
    except errors.GatedRepoError as error:
        why = f"access is gated: ask for it on its page at {end}, then {_LOG_IN}"
        raise kind(f"{what}: {why}") from error
    except errors.RepositoryNotFoundError as error:
        why = f"{end} has no such repository, or it is private: check the name, or {_LOG_IN}"
        raise kind(f"{what}: {why}") from error
    except errors.RevisionNotFoundError as error:
        raise kind(f"{what}: the repository has no such revision (branch, tag, commit)") from error
    except errors.RemoteEntryNotFoundError as error:
        raise kind(f"{what}: the repository has no such file") from error
    except errors.LocalEntryNotFoundError as error:
        why = f"it is not in the cache {constants.HF_HUB_CACHE}, or not all of it"
        if constants.HF_HUB_OFFLINE:
            why += ", and HF_HUB_OFFLINE is set: run once without it"
        elif error.__cause__ is not None:
            why += f", and {end} cannot be reached: {reason(error.__cause__)}"
        raise kind(f"{what}: {why}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        hint = f": {_LOG_IN}" if status in (401, 403) else ""
        raise kind(f"{what}: {end} answered {status}: {reason(error)}{hint}") from error
    except errors.HFValidationError as error:
        raise kind(f"{what}: {reason(error)}") from error
    except (errors.OfflineModeIsEnabled, transport) as error:
        raise kind(f"{what}: {end} cannot be reached: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """The first line of an error's message, or the error's name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


_EXPECTED = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.tiktoken", "*.txt"]
_UNWANTED = ["*/*", "consolidated*"]
"""Weights of other libraries: in separate directories, or a second time next to ours."""
_INDEX = "model.safetensors.index.json"


def model_snapshot(name: str, revision: str | None, *, fetch: bool) -> Path:
    """The directory of a model in the cache; its own name is the commit.

    Without ``fetch``, and if the Hub cannot be reached, a branch or a tag is the one that was last
    fetched. A commit that is in the cache as a whole is not asked for again.
    """
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - imports slowly

    what = f"the model {name}" + ("" if revision is None else f" at {revision}")
    with said_plainly(what, ModelError), bars_for_people():
        directory = snapshot_download(
            name,
            revision=revision,
            allow_patterns=_EXPECTED,
            ignore_patterns=_UNWANTED,
            local_files_only=not fetch,
        )
    found = Path(directory)
    for file, meaning in (("config.json", "config"), ("*.safetensors", "weights")):
        if not any(found.glob(file)):
            raise ModelError(
                f"{what}: {found} has no {meaning} ({file}): need a transformers model with "
                f"its weights as safetensors"
            )
    # The cache may have only a part of the model.
    index: Any = read_json(found / _INDEX) if (found / _INDEX).is_file() else {}
    parts = index.get("weight_map", {}) if isinstance(index, dict) else {}
    missing = sorted({part for part in parts.values() if not (found / part).is_file()})
    if missing:
        raise ModelError(
            f"{what}: {len(missing)} weight files are missing in {found}, the first is "
            f"{missing[0]}: run once with access to the Hub"
        )
    return found


def dataset_file(file: HubFile, *, fetch: bool) -> Path:
    """A file of a data set in the cache, where its commit is part of its path.

    Branches, tags and commits are as of ``model_snapshot``.
    """
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - imports slowly

    with said_plainly(str(file), DataError), bars_for_people():
        found = hf_hub_download(
            file.repo,
            file.path,
            repo_type="dataset",
            revision=file.revision,
            local_files_only=not fetch,
        )
    return Path(found)
