"""The training loop for one device.

``dph.training.loop`` is the algorithm, top to bottom.
"""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.training.checkpoint_places import latest_checkpoint
    from dph.training.loop import Actors, Trained, train
    from dph.training.updating import UpdateReport, update

__all__ = [
    "Actors",
    "Trained",
    "UpdateReport",
    "latest_checkpoint",
    "train",
    "update",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Actors": "dph.training.loop",
        "Trained": "dph.training.loop",
        "UpdateReport": "dph.training.updating",
        "latest_checkpoint": "dph.training.checkpoint_places",
        "train": "dph.training.loop",
        "update": "dph.training.updating",
    },
)
