"""The optimizer of each world: settings of AdamW that GRPO does best with on it (docs/study.md)."""

from collections.abc import Mapping
from types import MappingProxyType

from dph.lab.worlds.correlations import CORRELATIONS

FAST: Mapping[str, float] = MappingProxyType({"learning_rate": 5e-4})
"""With which the figures of the first text-to-SQL world were made."""
GENTLE: Mapping[str, float] = MappingProxyType({"learning_rate": 2e-4, "eps": 1e-5})
GENTLER: Mapping[str, float] = MappingProxyType({"learning_rate": 1e-4, "eps": 1e-5})

WORLD_OPTIMIZERS: Mapping[tuple[str, int], Mapping[str, float]] = MappingProxyType(
    {
        ("sql", 1): FAST,
        ("sql", 2): GENTLE,
        ("countdown", 1): GENTLER,
        **{(task, 1): GENTLE for task in CORRELATIONS},
    }
)
"""By task and edition. A world's ``settings`` have the same."""
