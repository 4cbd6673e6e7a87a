"""Runs that are served once for all tests of a module."""

import pytest

from live_server import serving
from report_runs import make_runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("served"), hostile=True, details=True)


@pytest.fixture(scope="module")
def server(runs):
    with serving([runs]) as found:
        yield found
