"""``dph corpus run``: from raw files to Pass@k in one command, stage by stage.

Files and SQL become a corpus, the corpus a base model, that one a fine-tuned one, and the last is
trained by RL, with and without a divergence to what it was. ``stages`` is the table of what runs.
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.lab.cookbook.run import run_cookbook
    from dph.lab.cookbook.settings import Cookbook, load_cookbook

__all__ = ["Cookbook", "load_cookbook", "run_cookbook"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Cookbook": "dph.lab.cookbook.settings",
        "load_cookbook": "dph.lab.cookbook.settings",
        "run_cookbook": "dph.lab.cookbook.run",
    },
)
