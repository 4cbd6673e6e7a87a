"""The table of worlds: one row for each task."""

from collections.abc import Mapping

from dph.errors import SettingsError
from lab.worlds.countdown.kind import COUNTDOWN
from lab.worlds.real.kind import REAL
from lab.worlds.spider.kind import SPIDER, TASK
from lab.worlds.sql.kind import SQL
from lab.worlds.world import WorldKind

WORLDS: Mapping[str, WorldKind] = {"sql": SQL, "countdown": COUNTDOWN, "real": REAL, TASK: SPIDER}
"""By task."""


def world_kind(task: str) -> WorldKind:
    """Kind of worlds of a task."""
    if task not in WORLDS:
        raise SettingsError(f"there is no task {task!r}; choose one of {', '.join(WORLDS)}")
    return WORLDS[task]
