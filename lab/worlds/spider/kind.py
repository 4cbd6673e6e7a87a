"""The Spider world as a kind, known without torch, and the place of its data.

Its model is that of the real world, and so is the rate: nothing was chosen here.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from lab.worlds.real.kind import OPTIMIZER, THRESHOLD
from lab.worlds.world import ByPath, World, WorldKind, require_sizes

TASK = "real-spider"
VARIABLE = "DPH_SPIDER"
DATABASES = "database"
"""Spider's folder of databases, and a world's link to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiderSizes:
    """Number of problems in each set.

    ``fine_tuning`` are the questions with answers that the base model is made with.
    """

    fine_tuning: int = 360
    train: int = 200
    in_domain: int = 100
    cross_domain: int = 100

    def __post_init__(self) -> None:
        require_sizes(self)


EPOCHS = 1
"""Of the fine-tuning."""
SETS = ("in_domain", "cross_domain")
MAX_TOKENS = 48
AT_ONCE = 128


def require_spider() -> Path:
    """The directory of Spider, in its official form or in parquet."""
    named = os.environ.get(VARIABLE)
    if named is None or not (Path(named) / DATABASES).is_dir():
        raise SettingsError(
            f"the task {TASK!r} needs Spider's questions and databases: set {VARIABLE} to the "
            "directory that holds train_spider.json (or train.parquet) and database/, got "
            f"{named!r}"
        )
    return Path(named).absolute()


def spider_settings(world: World) -> dict[str, dict[str, Any]]:
    """Tables ``data``, ``sampling``, ``presample`` and ``train``."""
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {name: {"path": str(world.problems_path(name))} for name in SETS},
            "verifier": "sql",
            "styles": "sql",
            "databases": str(world.directory / DATABASES),
        },
        "sampling": {"max_tokens": MAX_TOKENS, "max_rows": AT_ONCE, "cache_tokens": AT_ONCE * 1024},
        "presample": {"samples": 8, "threshold": THRESHOLD},
        "train": dict(OPTIMIZER),
    }


SPIDER = WorldKind(
    summary="Spider's questions with short statements, across on other databases; a real language "
    "model after a short fine-tuning",
    sets=SETS,
    optimizer=OPTIMIZER,
    base_steps=EPOCHS,
    sizes=SpiderSizes,
    build=ByPath("lab.worlds.spider.world:build_world"),
    train_base_model=ByPath("lab.worlds.spider.base_model:fine_tune_base_model"),
    settings=spider_settings,
)
