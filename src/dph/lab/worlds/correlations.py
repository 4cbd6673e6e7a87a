"""The hostile text-to-SQL worlds by name, known without loading them (docs/hostile-world.md)."""

from collections.abc import Mapping
from types import MappingProxyType

CORRELATIONS: Mapping[str, float] = MappingProxyType(
    {f"sql-hostile-{correlation:g}": correlation for correlation in (0.0, 0.25, 0.5, 0.75, 1.0)}
)
"""By task, how likely it is that a gap is every annotator's."""
