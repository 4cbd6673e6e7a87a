"""The evaluation sets of each world, known without loading it."""

from collections.abc import Mapping
from types import MappingProxyType

_BOTH = ("in_domain", "cross_domain")

WORLD_SETS: Mapping[tuple[str, int], tuple[str, ...]] = MappingProxyType(
    {
        ("sql", 1): (*_BOTH, "arithmetic"),
        ("sql", 2): (*_BOTH, "arithmetic"),
        ("countdown", 1): _BOTH,
    }
)
"""By task and edition. A world's ``settings`` have the same, in this order."""
