"""Modules of tests that need packages of other environments, and tests that need a later torch."""

from importlib.metadata import version
from importlib.util import find_spec

import pytest
from packaging.version import Version

collect_ignore = [
    f"{module}.py"
    for module, package in {
        "box_taskset": "verifiers",
        "gym_taskset": "verifiers",
        "openenv_server": "openenv",
    }.items()
    if find_spec(package) is None
]
"""Modules of helpers whose packages are in the environment of `make test-environments` alone."""

if Version(version("torch")) < Version("2.9"):

    @pytest.fixture(autouse=True)
    def _no_counting_device(monkeypatch):
        """On torch 2.8 attention makes its causal mask on the host."""
        why = "the counting device needs torch 2.9"
        monkeypatch.setattr("counting_device.CountingDevice.__enter__", lambda _: pytest.skip(why))
