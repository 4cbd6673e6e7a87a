"""The evaluation sets of each world, known without loading it."""

from collections.abc import Mapping
from types import MappingProxyType

from dph.lab.worlds.correlations import CORRELATIONS

_BOTH = ("in_domain", "cross_domain")

WORLD_SETS: Mapping[tuple[str, int], tuple[str, ...]] = MappingProxyType(
    {
        ("sql", 1): (*_BOTH, "arithmetic"),
        ("sql", 2): (*_BOTH, "arithmetic"),
        ("countdown", 1): _BOTH,
        **{(task, 1): (*_BOTH, "arithmetic") for task in CORRELATIONS},
    }
)
"""By task and edition. A world's ``settings`` have the same, in this order."""
