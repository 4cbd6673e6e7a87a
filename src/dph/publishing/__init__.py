"""A run made public: its model card, and the checkpoint that it ended with on the Hub."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.publishing.card import model_card, write_card
    from dph.publishing.finished_run import FinishedRun, read_finished_run
    from dph.publishing.uploading import push

__all__ = ["FinishedRun", "model_card", "push", "read_finished_run", "write_card"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FinishedRun": "dph.publishing.finished_run",
        "model_card": "dph.publishing.card",
        "push": "dph.publishing.uploading",
        "read_finished_run": "dph.publishing.finished_run",
        "write_card": "dph.publishing.card",
    },
)
