"""Runs that are served, once for all tests of a module."""

import pytest

from live_server import serving


@pytest.fixture(scope="module")
def server(hostile_runs):
    with serving([hostile_runs]) as found:
        yield found
