"""The table of worlds: one row for each task and edition."""

from collections.abc import Mapping
from dataclasses import fields

from dph.errors import SettingsError
from lab.worlds.countdown.kind import COUNTDOWN
from lab.worlds.lookup.kind import LOOKUP
from lab.worlds.real.kind import REAL
from lab.worlds.spider.kind import SPIDER
from lab.worlds.sql.kind import HOSTILE, SQL
from lab.worlds.world import WorldKind

WORLDS: Mapping[str, Mapping[int, WorldKind]] = {
    "sql": {2: SQL},
    "countdown": {1: COUNTDOWN},
    "lookup": {1: LOOKUP},
    **{task: {1: kind} for task, kind in {**HOSTILE, **REAL, **SPIDER}.items()},
}
"""By task and edition. The newest edition is the usual one."""


def newest_edition(task: str) -> int:
    """The edition that is meant where none is named.

    Raises:
        SettingsError: there is no such task.
    """
    if task not in WORLDS:
        raise SettingsError(f"there is no task {task!r}; choose one of {', '.join(WORLDS)}")
    return max(WORLDS[task])


def world_kind(task: str, edition: int | None = None) -> WorldKind:
    """Kind of worlds of a task.

    Raises:
        SettingsError: there is no such task or edition.
    """
    newest = newest_edition(task)
    found = WORLDS[task].get(newest if edition is None else edition)
    if found is None:
        known = ", ".join(map(str, WORLDS[task]))
        raise SettingsError(f"the task {task!r} has no world {edition}; it has: {known}")
    return found


def worlds_table() -> str:
    """All worlds as a table in Markdown: what is learnt, and what a study may name of them."""
    lines = ["| task | edition | what is learnt | evaluation sets | sizes | optimizer |"]
    lines.append("|---|---:|---|---|---|---|")
    for task, editions in WORLDS.items():
        for edition, kind in editions.items():
            sizes = ", ".join(f"`{field.name}` {field.default}" for field in fields(kind.sizes))
            sets = ", ".join(f"`{name}`" for name in kind.sets)
            optimizer = ", ".join(f"`{key}` {value:g}" for key, value in kind.optimizer.items())
            cells = (f"`{task}`", str(edition), kind.summary, sets, sizes, optimizer)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
