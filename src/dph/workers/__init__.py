"""Killable worker processes: a pool, one process seen from the parent, and the child itself."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.workers.bounded_cache import BoundedCache
    from dph.workers.pool import WorkerPool
    from dph.workers.process import Reply, ReplyKind

__all__ = [
    "BoundedCache",
    "Reply",
    "ReplyKind",
    "WorkerPool",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BoundedCache": "dph.workers.bounded_cache",
        "Reply": "dph.workers.process",
        "ReplyKind": "dph.workers.process",
        "WorkerPool": "dph.workers.pool",
    },
)
