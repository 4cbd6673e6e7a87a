"""The objective: the stores that its anchors name, and the files of user-defined terms."""

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

from dph._base.import_path import is_import_path, require_one_module
from dph.errors import DphError
from dph.recipe import Recipe, StoreSettings
from dph.recipe.objective import TermSettings
from dph.recipe.schema import require_files
from dph.recipe.stores import PromptFileSettings
from dph.records import Problem
from dph.runs.directory import is_made
from dph.runs.preflight.data import Findings, NamedProblems
from dph.runs.presample.manifest import Kind, Manifest, read_manifest
from dph.runs.presample.stores.prompts import (
    Known,
    file_prompts,
    require_unlabelled,
    store_prompts,
)
from dph.tasks.agreement import GOLDS

# The named stores and the unlabelled prompts: their files, who compares, and what is there.


def check_stores(
    recipe: Recipe, named: Sequence[NamedProblems], findings: Findings
) -> list[NamedProblems]:
    """The prompts of every store that training reads, as far as they can be made without torch."""
    known = _known(recipe, named)
    found = []
    after = recipe.consolidation.store if recipe.consolidation.active else None
    followed = {after: recipe.stores[after]} if after is not None else {}
    for name, store in {**recipe.used_stores, **followed}.items():
        try:
            require_files({name: store}, recipe.self_consistency.model_copy(update=_OFF))
        except DphError as error:
            findings.errors.append(str(error))
            continue
        if store.place is not None and is_made(store.place):
            _manifest(f"stores.{name}.place", store.place, "store", findings)
        compares = store.compares or recipe.self_consistency.store == name
        _check_agreement(recipe, f"stores.{name}", store, compares, findings)
        found += _prompts(recipe, f"stores.{name}", store, known, findings)
    return found + _check_unlabelled(recipe, known, findings)


_OFF = {"problems_per_step": 0}


def _known(recipe: Recipe, named: Sequence[NamedProblems]) -> Known:
    by_key = {part.key: part.problems for part in named}
    sets = {name: by_key.get(f"data.sets.{name}", ()) for name in recipe.data.sets}
    train = by_key.get("data.train", ())
    return Known(train=train, sets=sets, modules=recipe.data.modules)


def _prompts(
    recipe: Recipe, key: str, store: StoreSettings, known: Known, findings: Findings
) -> list[NamedProblems]:
    if store.file is not None and not store.file.exists():
        findings.notes.append(f"{key}.file does not exist: {store.file}")
        return []
    if is_import_path(store.prompts):
        findings.unchecked.append(f"{key}: the prompts that {store.prompts!r} makes")
        _check_module(recipe, f"{key}.prompts", store.prompts, findings)
        return []
    if store.prompts == "beginning" or not known.train:
        return []
    try:
        seed = recipe.presampling_seed if store.seed is None else store.seed
        return [_named(recipe, key, store_prompts(key, store, known, seed=seed))]
    except DphError as error:
        findings.errors.append(str(error))
        return []


def _check_unlabelled(recipe: Recipe, known: Known, findings: Findings) -> list[NamedProblems]:
    settings = recipe.self_consistency
    if not settings.active or settings.reward != "majority":
        return []
    try:
        require_files({}, settings)
        _check_agreement(recipe, "self_consistency", settings, True, findings)
        if settings.file is not None and not settings.file.exists():
            findings.notes.append(f"self_consistency.file does not exist: {settings.file}")
            return []
        problems = file_prompts("self_consistency", settings, known)
    except DphError as error:
        findings.errors.append(str(error))
        return []
    try:
        require_unlabelled(problems, per_step=settings.problems_per_step)
    except DphError as error:
        findings.errors.append(str(error))
    return [_named(recipe, "self_consistency.file", problems)]


def _named(recipe: Recipe, key: str, problems: Sequence[Problem]) -> NamedProblems:
    return NamedProblems(
        key=key,
        problems=problems,
        verifier=recipe.data.verifier,
        max_tokens=recipe.sampling.max_tokens,
    )


def _manifest(key: str, place: Path, kind: Kind, findings: Findings) -> Manifest | None:
    try:
        return read_manifest(place, kind)
    except DphError as error:
        findings.errors.append(f"{key}: {error}")
        return None


def _check_agreement(
    recipe: Recipe, key: str, settings: PromptFileSettings, compares: bool, findings: Findings
) -> None:
    if settings.agreement is not None:
        _check_module(recipe, f"{key}.agreement", settings.agreement, findings)
    elif compares and recipe.data.verifier not in GOLDS:
        findings.errors.append(
            f"{key}: the verifier {recipe.data.verifier!r} cannot compare two answers: name a "
            f"function that can in {key}.agreement ('module:callable')"
        )


def _check_module(recipe: Recipe, key: str, path: str, findings: Findings) -> None:
    try:
        require_one_module(path, recipe.data.modules)
    except DphError as error:
        findings.errors.append(f"{key}: {error}")


def check_objective(recipe: Recipe, findings: Findings) -> None:
    """Read the manifests of stores, and look for the modules of own terms, which may need torch."""
    for name, anchor in recipe.objective.active_anchors.items():
        if anchor.pool is not None:
            key = f"objective.anchors.{name}.samples"
            if not anchor.pool.exists():
                findings.notes.append(f"{key} does not exist: {anchor.pool}")
            elif (found := _manifest(key, anchor.pool, "pool", findings)) and (
                not found.counts.rehearsal
            ):
                findings.errors.append(f"{key}: the pool {anchor.pool} has no rehearsal sample")
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
        findings.unchecked.append("the values that your terms compute: they need torch")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # one without a spec, such as the program itself
        return False


def _terms(recipe: Recipe) -> Iterator[tuple[str, TermSettings]]:
    """The terms that weigh anything, with the keys that name them."""
    objective = recipe.objective
    yield "objective.advantage.kind", objective.advantage
    yield "objective.surrogate.kind", objective.surrogate
    for name, penalty in objective.active_penalties.items():
        yield f"objective.penalties.{name}.kind", penalty
    for name, anchor in objective.active_anchors.items():
        yield f"objective.anchors.{name}.divergence", anchor
