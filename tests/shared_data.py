"""Real public data, which is not part of the repository: ``../shared/data``, or ``$DPH_DATA``."""

import os
from pathlib import Path

import pytest

SOME_AND_ALL = pytest.mark.parametrize(
    "every", [pytest.param(20, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
"""A test that takes every twentieth of many rows, and, marked slow, all of them."""


SHARED = Path(os.environ.get("DPH_DATA") or Path(__file__).parents[2] / "shared" / "data")


def shared_data(name: str) -> Path:
    """The directory or file ``name`` of the data; the test is skipped where it is not there."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {path}")
    return path
