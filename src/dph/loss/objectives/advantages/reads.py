"""What an advantage is given beside rewards, and how large its groups have to be."""

from functools import partial
from typing import Any

from dph.errors import SettingsError
from dph.loss.objectives.terms import AnyAdvantage
from dph.recipe.term import READS


def reads_of(advantage: AnyAdvantage) -> frozenset[str]:
    """The names on the attribute ``reads``, none where it has none.

    Raises:
        SettingsError: a name that is not one of ``dph.recipe.term.READS``.
    """
    found = frozenset(_attribute(advantage, "reads", ()))
    if unknown := sorted(found - READS):
        raise SettingsError(
            f"{advantage!r} reads {unknown[0]!r}; an advantage may read {', '.join(sorted(READS))}"
        )
    return found


def least_samples_of(advantage: AnyAdvantage) -> int:
    """The smallest group that it says something about: ``least_samples``, or 1."""
    return int(_attribute(advantage, "least_samples", 1))


def _attribute(advantage: Any, name: str, default: Any) -> Any:
    # A function of one's own with parameters is bound to them, which hides its attributes.
    term = advantage.func if isinstance(advantage, partial) else advantage
    return getattr(term, name, default)
