"""Pre-sampling: the initial policy's own answers, split and stored as a pool.

``dph.runs.presample.presample.presample`` draws; what it leaves behind is read and checked with
these.
"""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.runs.presample.manifest import Counts, Manifest, Rule, Source, read_manifest
    from dph.runs.presample.pool import Pool, load_pool, require_fit, require_same_policy
    from dph.runs.presample.tables import RehearsalSample

__all__ = [
    "Counts",
    "Manifest",
    "Pool",
    "RehearsalSample",
    "Rule",
    "Source",
    "load_pool",
    "read_manifest",
    "require_fit",
    "require_same_policy",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Counts": "dph.runs.presample.manifest",
        "Manifest": "dph.runs.presample.manifest",
        "Pool": "dph.runs.presample.pool",
        "RehearsalSample": "dph.runs.presample.tables",
        "Rule": "dph.runs.presample.manifest",
        "Source": "dph.runs.presample.manifest",
        "load_pool": "dph.runs.presample.pool",
        "read_manifest": "dph.runs.presample.manifest",
        "require_fit": "dph.runs.presample.pool",
        "require_same_policy": "dph.runs.presample.pool",
    },
)
