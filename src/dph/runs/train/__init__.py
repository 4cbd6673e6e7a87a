"""The training loop for one device.

``dph.runs.train.loop`` is the algorithm, top to bottom.
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.runs.directory import latest_checkpoint
    from dph.runs.train.loop import Actors, Trained, train
    from dph.runs.train.updating import UpdateReport, update

__all__ = ["Actors", "Trained", "UpdateReport", "latest_checkpoint", "train", "update"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Actors": "dph.runs.train.loop",
        "Trained": "dph.runs.train.loop",
        "UpdateReport": "dph.runs.train.updating",
        "latest_checkpoint": "dph.runs.directory",
        "train": "dph.runs.train.loop",
        "update": "dph.runs.train.updating",
    },
)
