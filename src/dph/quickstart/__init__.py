"""The quickstart world: small text-to-SQL tasks whose effects show on a CPU in minutes."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.quickstart.base_model import train_base_model
    from dph.quickstart.recipes import Size, parse_contender, quickstart_recipe
    from dph.quickstart.world import World, WorldSizes, build_world

__all__ = [
    "Size",
    "World",
    "WorldSizes",
    "build_world",
    "parse_contender",
    "quickstart_recipe",
    "train_base_model",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Size": "dph.quickstart.recipes",
        "World": "dph.quickstart.world",
        "WorldSizes": "dph.quickstart.world",
        "build_world": "dph.quickstart.world",
        "parse_contender": "dph.quickstart.recipes",
        "quickstart_recipe": "dph.quickstart.recipes",
        "train_base_model": "dph.quickstart.base_model",
    },
)
