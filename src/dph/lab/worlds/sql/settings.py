"""What a recipe on the text-to-SQL world says, whatever the method."""

from collections.abc import Mapping
from typing import Any

from dph.lab.worlds.optimizers import GENTLE
from dph.lab.worlds.sql.world import World

MAX_TOKENS = 32
SQL_SETS = ("in_domain", "cross_domain")


def sql_settings(
    world: World, *, optimizer: Mapping[str, float] = GENTLE
) -> dict[str, dict[str, Any]]:
    """Tables ``data``, ``sampling``, ``presample``, and ``train`` with the optimizer."""
    sets = {name: {"path": str(world.problems_path(name))} for name in SQL_SETS}
    arithmetic = {
        "path": str(world.problems_path("arithmetic")),
        "verifier": "number",
        "styles": "dph.lab.worlds.sql.arithmetic:arithmetic_style",
    }
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {**sets, "arithmetic": arithmetic},
            "verifier": "sql",
            "styles": "sql",
            "databases": str(world.databases_directory),
        },
        "sampling": {"max_tokens": MAX_TOKENS},
        "presample": {"samples": 8, "threshold": 7},
        "train": dict(optimizer),
    }
