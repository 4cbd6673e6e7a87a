"""The weights of an interpolation, checked before anything is loaded."""

import math
from collections.abc import Sequence

from dph.errors import SettingsError


def require_weights(weights: Sequence[float], *, extrapolate: bool = False) -> None:
    """Refuse weights that nothing is made of.

    Raises:
        SettingsError: there is none, one comes twice, is not finite, or lies outside [0, 1].
    """
    if not weights:
        raise SettingsError("name at least one weight, such as 0.5")
    for weight in weights:
        if not math.isfinite(weight):
            raise SettingsError(f"a weight must be a finite number, got {weight}")
        if not (extrapolate or 0 <= weight <= 1):
            raise SettingsError(
                f"a weight lies between 0 (the initial policy) and 1 (the newest checkpoint), got "
                f"{weight}; beyond them lies no model that anybody trained (--extrapolate)"
            )
    names = [weight_name(weight) for weight in weights]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SettingsError(f"the weight {twice[0]} is named twice")


def weight_name(weight: float) -> str:
    """The shortest text that reads as this number: the name of its directory.

    >>> [weight_name(x) for x in (0.5, 1.0, 0, 0.30000000000000004)]
    ['0.5', '1', '0', '0.30000000000000004']
    """
    return repr(float(weight) + 0.0).removesuffix(".0")  # -0.0 + 0.0 is 0.0
