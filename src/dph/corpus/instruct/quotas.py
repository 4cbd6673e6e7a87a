"""How many rows of each part a stage of fine-tuning takes."""

from collections.abc import Mapping
from types import MappingProxyType

STAGES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "stage1": MappingProxyType(
            {"realuser": 700_000, "diverse": 2_300_000, "infinity": 1_000_000}
        ),
        "stage2": MappingProxyType(
            {"mceval": 36_000, "evol": 111_000, "educational": 110_000, "package": 110_000}
        ),
    }
)
"""OpenCoder's two stages (arXiv:2411.04905): broad first, then verified and of high quality. The
card of the released data has 118,000 educational and 171,000 package rows."""
