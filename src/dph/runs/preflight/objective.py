"""The objective: pools of anchors, unlabelled prompts, and the files of user-defined terms."""

import importlib.util
from collections.abc import Iterator, Sequence

from dph._base.import_path import is_import_path, require_one_module
from dph.errors import DphError
from dph.recipe import Recipe
from dph.recipe.objective import TermSettings
from dph.runs.preflight.data import Findings, NamedProblems
from dph.runs.presample.manifest import read_manifest
from dph.runs.unlabelled_prompts import Known, file_prompts, require_unlabelled
from dph.tasks.agreement import GOLDS


def check_unlabelled(
    recipe: Recipe, named: Sequence[NamedProblems], findings: Findings
) -> list[NamedProblems]:
    """The prompts without labels, as far as they can be read."""
    settings = recipe.self_consistency
    if not settings.active:
        return []
    key = "self_consistency"
    if settings.agreement is not None:
        _check_module(recipe, f"{key}.agreement", settings.agreement, findings)
    elif recipe.data.verifier not in GOLDS:
        findings.errors.append(
            f"{key}: the verifier {recipe.data.verifier!r} cannot compare two answers: name a "
            f"function that can in {key}.agreement ('module:callable')"
        )
    if settings.file is not None and not settings.file.exists():
        findings.notes.append(f"{key}.file does not exist: {settings.file}")
        return []
    by_key = {part.key: part.problems for part in named}
    sets = {name: by_key.get(f"data.sets.{name}", ()) for name in recipe.data.sets}
    try:
        problems = file_prompts(settings, Known(train=by_key.get("data.train", ()), sets=sets))
        require_unlabelled(problems, per_step=settings.problems_per_step)
    except DphError as error:
        findings.errors.append(str(error))
        return []
    return [
        NamedProblems(
            key=f"{key}.file",
            problems=problems,
            verifier=recipe.data.verifier,
            max_tokens=recipe.sampling.max_tokens,
        )
    ]


def _check_module(recipe: Recipe, key: str, path: str, findings: Findings) -> None:
    try:
        require_one_module(path, recipe.data.modules)
    except DphError as error:
        findings.errors.append(f"{key}: {error}")


def check_objective(recipe: Recipe, findings: Findings) -> None:
    """Read the manifests of pools, and look for the modules of own terms, which may need torch."""
    for name, anchor in recipe.objective.active_anchors.items():
        if anchor.pool is not None:
            key = f"objective.anchors.{name}.samples"
            if not anchor.pool.exists():
                findings.notes.append(f"{key} does not exist: {anchor.pool}")
                continue
            try:
                if not read_manifest(anchor.pool).counts.rehearsal:
                    findings.errors.append(f"{key}: the pool {anchor.pool} has no rehearsal sample")
            except DphError as error:
                findings.errors.append(f"{key}: {error}")
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
