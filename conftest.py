"""What holds for all tests, of the packages and of the laboratory."""

import os
import sys
from collections.abc import Iterator

import pytest

from forked_programs import fork_program  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    """Files are flushed for the day the power fails, which no test does; waiting takes minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def _the_path_of_modules_stays() -> Iterator[None]:
    """A run puts its recipe's directory on sys.path; the next test has other modules."""
    path = list(sys.path)
    yield
    sys.path[:] = path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests begin, so that no process is left with one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
