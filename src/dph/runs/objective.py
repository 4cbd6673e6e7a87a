"""The terms of an objective from its settings."""

import inspect
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from dph._base.import_path import is_import_path, load_callable
from dph.errors import SettingsError
from dph.loss.objectives import Anchor, Objective, WeightedPenalty
from dph.recipe.objective import ObjectiveSettings, TermSettings


def make_objective(settings: ObjectiveSettings, directories: Sequence[Path] = ()) -> Objective:
    """The terms that ``[objective]`` asks for, without those of weight 0.

    ``directories`` are searched first for user-defined terms (``data.modules`` of a recipe).

    Raises:
        SettingsError: a user-defined term cannot be imported or does not take its parameters.
    """
    return Objective(
        advantage=_term(settings.advantage, directories),
        surrogate=_term(settings.surrogate, directories),
        penalties={
            name: WeightedPenalty(penalty=_term(term, directories), weight=term.weight)
            for name, term in settings.active_penalties.items()
        },
        anchors={
            name: Anchor(divergence=_term(term, directories), weight=term.weight)
            for name, term in settings.active_anchors.items()
        },
        reduction=settings.reduction,
    )


def _term(settings: TermSettings, directories: Sequence[Path]) -> Any:
    """An instance of a class, or a function with the parameters bound."""
    own = is_import_path(settings.chosen)
    path = settings.chosen if own else settings.table[settings.chosen].path
    made: Any = load_callable(path, directories) if own else resolve_name(path)
    parameters = settings.parameters
    signature = inspect.signature(made)
    taken = inspect.Parameter.VAR_KEYWORD in {p.kind for p in signature.parameters.values()}
    if unknown := [n for n in parameters if not (taken or n in signature.parameters)]:
        raise SettingsError(f"{path} takes no {unknown[0]!r}; its signature is {signature}")
    if not inspect.isclass(made):
        return partial(made, **parameters) if parameters else made
    try:
        return made(**parameters)
    except TypeError as error:
        raise SettingsError(f"{path} cannot be made with {parameters}: {error}") from error
