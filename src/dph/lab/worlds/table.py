"""Which worlds there are: one row for each task and edition."""

from collections.abc import Mapping
from types import MappingProxyType
from dph.lab.worlds.correlations import CORRELATIONS
from collections.abc import Mapping
from pkgutil import resolve_name
from types import MappingProxyType
from dph.errors import SettingsError
from dph.lab.worlds.world import WorldKind


# The evaluation sets of each world, known without loading it.

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


WORLDS: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "sql": MappingProxyType(
            {
                1: "dph.lab.worlds.sql.first_edition:FIRST_EDITION",
                2: "dph.lab.worlds.sql.second_edition:SECOND_EDITION",
            }
        ),
        "countdown": MappingProxyType({1: "dph.lab.worlds.countdown.kind:COUNTDOWN"}),
        "sql-hostile-0": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_0"}),
        "sql-hostile-0.25": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_25"}),
        "sql-hostile-0.5": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_50"}),
        "sql-hostile-0.75": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_75"}),
        "sql-hostile-1": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_100"}),
    }
)
"""By task and edition, where its ``WorldKind`` is. The newest edition is the usual one."""


def newest_edition(task: str) -> int:
    """The edition that is meant where none is named.

    Raises:
        SettingsError: there is no such task.
    """
    if task not in WORLDS:
        raise SettingsError(f"there is no task {task!r}; choose one of {', '.join(WORLDS)}")
    return max(WORLDS[task])


def world_kind(task: str, edition: int | None = None) -> WorldKind:
    """How worlds of a task are made.

    Raises:
        SettingsError: there is no such task or edition.
    """
    edition = edition or newest_edition(task)
    newest_edition(task)
    if edition not in WORLDS[task]:
        known = ", ".join(map(str, WORLDS[task]))
        raise SettingsError(f"the task {task!r} has no world {edition}; it has: {known}")
    kind: WorldKind = resolve_name(WORLDS[task][edition])
    return kind
