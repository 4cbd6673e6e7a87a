"""What a run's directory says about its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json, sha256
from dph.errors import CheckpointError, DataError
from dph.recipe import Recipe, load_recipe
from dph.runs.base_evaluation import find_base
from dph.runs.layout import EVALUATION, RECIPE, pool_directory, store_directory
from dph.runs.presample.manifest import Manifest, read_manifest
from dph.runs.result_model import result_model


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that has a checkpoint, and what was measured of it."""

    directory: Path
    recipe: Recipe
    checkpoint: Path
    base: Mapping[str, Any] | None
    """``evaluation.json`` of the initial policy; None where ``why_alone`` says why."""
    why_alone: str | None
    evaluation: Mapping[str, Any] | None
    """``evaluation.json`` of the checkpoint."""
    pool: Manifest | None
    hashes: Mapping[str, str]
    """SHA-256 of the manifests of the pool and of the stores, by name."""


def read_finished_run(directory: Path) -> FinishedRun:
    """Read a run's directory.

    Raises:
        SettingsError: its recipe cannot be read.
        CheckpointError: it has no checkpoint.
        PoolError: its pool's manifest is damaged.
        DataError: an ``evaluation.json`` is damaged, or is not of the run's result.
    """
    recipe = load_recipe(directory / RECIPE)
    checkpoint = result_model(directory, recipe.evaluate)
    if checkpoint is None:
        raise CheckpointError(f"there is no checkpoint in {directory}: train it first")
    manifest = pool_directory(recipe, directory) / "manifest.json"
    made = {"pool": manifest} if recipe.needs_pool else {}
    for name in recipe.used_stores:
        made[f"store {name}"] = store_directory(recipe, directory, name) / "manifest.json"
    base = find_base(directory)
    return FinishedRun(
        directory=directory,
        recipe=recipe,
        checkpoint=checkpoint,
        base=None if base.directory is None else _document(base.directory / EVALUATION),
        why_alone=base.why_none or None,
        evaluation=_of(checkpoint, directory / EVALUATION),
        pool=read_manifest(manifest) if recipe.needs_pool and manifest.is_file() else None,
        hashes={name: sha256(path) for name, path in made.items() if path.is_file()},
    )


def _of(checkpoint: Path, path: Path) -> Mapping[str, Any] | None:
    document = _document(path)
    if document is not None and Path(document["model"]).name != checkpoint.name:
        raise DataError(
            f"{path} is of {Path(document['model']).name}, but the run ended with "
            f"{checkpoint.name}: run `dph evaluate` first"
        )
    return document


def _document(path: Path) -> Mapping[str, Any] | None:
    if not path.is_file():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or not {"model", "samples", "sets"} <= content.keys():
        raise DataError(f"{path} is no evaluation: it lacks model, samples or sets")
    return content
