"""What a signal is: a number about a file, or none."""

from collections.abc import Callable
from dataclasses import dataclass

from dph.corpus.signals.view import FileView

Measure = Callable[[FileView], float | None]

_DECIMALS = 8


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal's name and the function that measures it.

    Values are rounded to 8 decimals before a threshold is applied, unless ``exact``.
    """

    name: str
    measure: Measure
    exact: bool = False

    def __call__(self, view: FileView) -> float | None:
        """The value, or None where the file has none."""
        value = self.measure(view)
        if value is None:
            return None
        return float(value) if self.exact else round(float(value), _DECIMALS)


def share(count: float, total: float) -> float | None:
    """``count / total``, or None of nothing."""
    return count / total if total else None
