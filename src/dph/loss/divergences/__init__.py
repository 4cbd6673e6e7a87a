"""f-divergences for rehearsal; ``base`` states the convention.

To add one: a class, its name here, a row in ``dph.recipe.terms``, a row in the tests' table.
"""

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from dph.errors import SettingsError
from dph.loss.divergences.base import LOG_RATIO_BOUND, Divergence, PolicyHalf
from dph.loss.divergences.f_divergences import (
    Alpha,
    ForwardKL,
    JensenShannon,
    JensenShannonDefinition,
    ReverseKL,
)

__all__ = [
    "DIVERGENCES",
    "LOG_RATIO_BOUND",
    "Alpha",
    "Divergence",
    "ForwardKL",
    "JensenShannon",
    "JensenShannonDefinition",
    "PolicyHalf",
    "ReverseKL",
    "make_divergence",
]

DIVERGENCES: Mapping[str, type[Any]] = {
    made.name: made
    for made in (ForwardKL, JensenShannon, Alpha, ReverseKL, JensenShannonDefinition)
}
"""Every divergence by its name, which recipes use too."""


def make_divergence(name: str, **parameters: Any) -> Divergence:
    """Build the divergence called ``name``.

    Raises:
        SettingsError: the name or a parameter is unknown, or a parameter is out of range.

    >>> make_divergence("alpha", alpha=0.3)
    Alpha(alpha=0.3)
    """
    if name not in DIVERGENCES:
        near = get_close_matches(name, DIVERGENCES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SettingsError(
            f"unknown divergence {name!r}: choose one of {', '.join(DIVERGENCES)}{hint}"
        )
    cls = DIVERGENCES[name]
    known = [field.name for field in fields(cls)]
    if unknown := sorted(set(parameters) - set(known)):
        raise SettingsError(
            f"divergence {name!r} has no parameter {unknown[0]!r}; it takes: "
            f"{', '.join(known) or 'none'}"
        )
    made: Divergence = cls(**parameters)
    return made
