"""A run made public: its model card, and the checkpoint that it ended with on the Hub."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.results.publish.card import FinishedRun, model_card, read_finished_run, write_card
    from dph.results.publish.uploading import push

__all__ = ["FinishedRun", "model_card", "push", "read_finished_run", "write_card"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FinishedRun": "dph.results.publish.card",
        "model_card": "dph.results.publish.card",
        "push": "dph.results.publish.uploading",
        "read_finished_run": "dph.results.publish.card",
        "write_card": "dph.results.publish.card",
    },
)
