"""The quickstart: methods compared on a world that fits a CPU, in minutes."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.lab.quickstart.recipes import Size, parse_contender, quickstart_recipe
    from dph.lab.quickstart.run import quickstart

__all__ = [
    "Size",
    "parse_contender",
    "quickstart",
    "quickstart_recipe",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Size": "dph.lab.quickstart.recipes",
        "parse_contender": "dph.lab.quickstart.recipes",
        "quickstart": "dph.lab.quickstart.run",
        "quickstart_recipe": "dph.lab.quickstart.recipes",
    },
)
