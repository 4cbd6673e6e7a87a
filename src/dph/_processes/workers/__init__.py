"""Killable worker processes: a pool, one process seen from the parent, and the child itself."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph._processes.workers.handler import BoundedCache
    from dph._processes.workers.pool import WorkerPool
    from dph._processes.workers.process import Reply, ReplyKind

__all__ = [
    "BoundedCache",
    "Reply",
    "ReplyKind",
    "WorkerPool",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BoundedCache": "dph._processes.workers.handler",
        "Reply": "dph._processes.workers.process",
        "ReplyKind": "dph._processes.workers.process",
        "WorkerPool": "dph._processes.workers.pool",
    },
)
