"""How much of a mixture each part is to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dph.errors import SettingsError

ANNEALING: Mapping[str, float] = MappingProxyType(
    {"code": 83.94, "algorithmic": 12.44, "synthetic": 2.71, "textbook": 0.91}
)
"""OpenCoder's annealing mixture, in billions of tokens and so in percent (arXiv:2411.04905)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """What is wanted of a mixture.

    Args:
        budget: bytes of text in all.
        shares: weight of each part, by its name; only their ratios count.
        caps: the most bytes of a language, by its name in lower case, over all parts.

    Raises:
        SettingsError: a number is out of range.
    """

    budget: int
    shares: Mapping[str, float]
    caps: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise SettingsError(f"the budget must be at least 1 byte, got {self.budget}")
        for name, share in self.shares.items():
            if not 0 < share < 1e9:
                raise SettingsError(f"the share of {name} must lie in (0, 1e9), got {share}")
        for language, cap in self.caps.items():
            if cap < 0 or language != language.lower():
                raise SettingsError(
                    f"a cap is a language in lower case and at least 0 bytes, got {language}={cap}"
                )

    def quotas(self) -> dict[str, int]:
        """The bytes of each part.

        >>> Mixture(budget=1000, shares={"a": 3, "b": 1}).quotas()
        {'a': 750, 'b': 250}
        """
        total = sum(self.shares.values())
        return {name: round(self.budget * share / total) for name, share in self.shares.items()}

    def json(self) -> dict[str, Any]:
        """The settings as JSON."""
        return {
            "budget": self.budget,
            "shares": dict(sorted(self.shares.items())),
            "caps": dict(sorted(self.caps.items())),
        }
