"""The weight of a term, adapted so that what it measures stays at a target."""

import math
from dataclasses import dataclass

from dph.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class DualAscent:
    """One multiplicative step of dual ascent after each optimizer step.

    Equation: eta <- clip(eta * exp(rate * (min(2, measured / target) - 1)), low, high): the
    constraint measured <= target, eta its multiplier, raised while it is broken and lowered while
    there is room (Lagrangian duality; adaptive KL coefficients, arXiv:1707.06347, section 4).
    Limits: eta stays where measured = target; one step changes it by a factor between
    exp(-rate) and exp(rate), however far off ``measured`` is.

    Raises:
        SettingsError: ``target`` or ``rate`` is not above 0, or not 0 < low <= high.

    >>> DualAscent(target=0.1).next(1.0, measured=0.1)
    1.0
    """

    target: float
    rate: float = 0.2
    low: float = 0.01
    high: float = 10.0

    def __post_init__(self) -> None:
        if not (0 < self.target < math.inf and 0 < self.rate < math.inf):
            raise SettingsError(
                f"target and rate must be above 0, got target {self.target}, rate {self.rate}"
            )
        if not 0 < self.low <= self.high < math.inf:
            raise SettingsError(f"need 0 < low <= high, got {self.low} and {self.high}")

    def next(self, weight: float, *, measured: float) -> float:
        """The weight for the step after the one in which ``measured`` was found."""
        off = min(2.0, measured / self.target) - 1
        return min(self.high, max(self.low, weight * math.exp(self.rate * off)))
