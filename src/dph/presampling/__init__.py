"""Pre-sampling: the initial policy's own answers, split and stored as a pool.

``dph.presampling.presample.presample`` draws; what it leaves behind is read and checked with these.
"""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.presampling.manifest import Counts, Manifest, Rule, Source, read_manifest
    from dph.presampling.pool import Pool, load_pool, require_fit
    from dph.presampling.same_policy import require_same_policy
    from dph.presampling.tables import RehearsalSample

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
        "Counts": "dph.presampling.manifest",
        "Manifest": "dph.presampling.manifest",
        "Pool": "dph.presampling.pool",
        "RehearsalSample": "dph.presampling.tables",
        "Rule": "dph.presampling.manifest",
        "Source": "dph.presampling.manifest",
        "load_pool": "dph.presampling.pool",
        "read_manifest": "dph.presampling.manifest",
        "require_fit": "dph.presampling.pool",
        "require_same_policy": "dph.presampling.same_policy",
    },
)
