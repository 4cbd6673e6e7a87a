"""The first edition of the text-to-SQL world: kept, so that its figures can be made again."""

from functools import partial

from dph.lab.worlds.sql.base_model import STEPS, train_base_model
from dph.lab.worlds.sql.editions import SQLWorldSizes
from dph.lab.worlds.sql.second_edition import sql_settings
from dph.lab.worlds.sql.world import build_world
from dph.lab.worlds.world import FAST, WorldKind

FIRST_EDITION = WorldKind(
    base_steps=STEPS,
    sizes=SQLWorldSizes,
    build=build_world,
    train_base_model=train_base_model,
    settings=partial(sql_settings, optimizer=FAST),
)
"""Knowledge is balanced for each side as a whole, held-out terms are drawn from all."""
