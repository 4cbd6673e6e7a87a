"""Stored answers of the initial policy: a pool, split into two sides.

``dph.runs.presample.presample.presample`` draws a pool; what it leaves behind is read and checked
with these.
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.runs.presample.manifest import (
        Counts,
        Manifest,
        Rule,
        Source,
        ValueSource,
        read_manifest,
        require_fit,
        require_policy,
    )
    from dph.runs.presample.pool import Pool, load_pool
    from dph.runs.presample.tables import RehearsalSample

__all__ = [
    "Counts",
    "Manifest",
    "Pool",
    "RehearsalSample",
    "Rule",
    "Source",
    "ValueSource",
    "load_pool",
    "read_manifest",
    "require_fit",
    "require_policy",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(__all__, "dph.runs.presample.manifest"),
        **dict.fromkeys(("Pool", "load_pool"), "dph.runs.presample.pool"),
        "RehearsalSample": "dph.runs.presample.tables",
    },
)
