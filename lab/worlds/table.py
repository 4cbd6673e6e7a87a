"""The table of worlds: one row for each task."""

from collections.abc import Mapping
from dataclasses import fields

from dph.errors import SettingsError
from lab.worlds.countdown.kind import COUNTDOWN
from lab.worlds.real.kind import REAL
from lab.worlds.spider.kind import SPIDER, TASK
from lab.worlds.sql.kind import SQL
from lab.worlds.world import WorldKind

WORLDS: Mapping[str, WorldKind] = {
    "sql": SQL,
    "countdown": COUNTDOWN,
    "real": REAL,
    TASK: SPIDER,
}
"""By task."""


def world_kind(task: str) -> WorldKind:
    """Kind of worlds of a task.

    Raises:
        SettingsError: there is no such task.
    """
    if task not in WORLDS:
        raise SettingsError(f"there is no task {task!r}; choose one of {', '.join(WORLDS)}")
    return WORLDS[task]


def worlds_table() -> str:
    """All worlds as a table in Markdown: what is learnt, and what a study may name of them."""
    lines = ["| task | what is learnt | evaluation sets | sizes | optimizer |"]
    lines.append("|---|---|---|---|---|")
    for task, kind in WORLDS.items():
        sizes = ", ".join(f"`{field.name}` {field.default}" for field in fields(kind.sizes))
        sets = ", ".join(f"`{name}`" for name in kind.sets)
        optimizer = ", ".join(f"`{key}` {value:g}" for key, value in kind.optimizer.items())
        lines.append(f"| {' | '.join((f'`{task}`', kind.summary, sets, sizes, optimizer))} |")
    return "\n".join(lines) + "\n"
