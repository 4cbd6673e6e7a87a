"""The objective: the stores that its anchors name, and the files of terms of one's own."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from dph._base.import_path import is_import_path, require_one_module
from dph.errors import DphError
from dph.recipe import Recipe
from dph.recipe.objective import TermSettings
from dph.runs.preflight.findings import Findings
from dph.runs.presample.manifest import read_manifest


def check_objective(recipe: Recipe, findings: Findings) -> None:
    """Read the manifests of stores, and look for the modules of own terms, which may need torch."""
    for name, anchor in recipe.objective.active_anchors.items():
        if anchor.store is not None:
            _check_store(f"objective.anchors.{name}.store", anchor.store, findings)
    own = [(key, term) for key, term in _terms(recipe) if is_import_path(term.chosen)]
    for key, term in own:
        try:
            require_one_module(term.chosen, recipe.data.modules)
        except DphError as error:
            findings.errors.append(f"{key}: {error}")
            continue
        top = term.chosen.partition(":")[0].partition(".")[0]
        if not _is_there(top):
            findings.errors.append(f"{key}: there is no module {top!r} for {term.chosen!r}")
    if own:
        findings.unchecked.append("what the terms of your own compute: they need torch")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # one without a spec, such as the program itself
        return False


def _check_store(key: str, store: Path, findings: Findings) -> None:
    if not store.exists():
        findings.notes.append(f"{key} is not there: {store}")
        return
    try:
        held = read_manifest(store / "manifest.json").counts.rehearsal
    except DphError as error:
        findings.errors.append(f"{key}: {error}")
        return
    if not held:
        findings.errors.append(f"{key}: the pool {store} holds no rehearsal sample")


def _terms(recipe: Recipe) -> Iterator[tuple[str, TermSettings]]:
    """The terms that weigh anything, with the keys that name them."""
    objective = recipe.objective
    yield "objective.advantage.kind", objective.advantage
    yield "objective.surrogate.kind", objective.surrogate
    for name, penalty in objective.active_penalties.items():
        yield f"objective.penalties.{name}.kind", penalty
    for name, anchor in objective.active_anchors.items():
        yield f"objective.anchors.{name}.divergence", anchor
