"""Names become commits, once, when a run begins."""

from dataclasses import dataclass, field
from pathlib import Path

from dph.errors import SettingsError
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
    """The model's directory: its path, or the one in the cache."""
    if not is_on_hub(model):
        return Path(model.path)
    from dph.model.hub_cache import model_snapshot  # noqa: PLC0415 - huggingface_hub imports slowly

    return model_snapshot(model.path, model.revision, fetch=False)


def problems_file(path: Path) -> Path:
    """A file of problems: its path, or the one in the cache."""
    file = hub_file(path)
    if file is None:
        return path
    from dph.model.hub_cache import dataset_file  # noqa: PLC0415 - huggingface_hub imports slowly

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
                which = f"the directory {model.path} is used, not {self.written} of the Hub"
                self.taken.append(f"model.path: {which}")
            return model
        from dph.model.hub_cache import model_snapshot  # noqa: PLC0415 - imports slowly

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
        from dph.model.hub_cache import commit_of, dataset_file  # noqa: PLC0415 - imports slowly

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
