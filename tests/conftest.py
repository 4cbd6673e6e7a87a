"""What holds for all tests."""

import os
from importlib.util import find_spec

import pytest

from forked_programs import fork_program  # noqa: F401

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


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """Files are flushed for the day the power fails, which no test does; waiting takes minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


def pytest_collection_modifyitems(items):
    """Files with slow tests begin, so that no process is left with one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
