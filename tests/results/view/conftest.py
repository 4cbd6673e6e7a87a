"""Runs that are served once for all tests of a module."""

import pytest

from live_server import serving, wait_for
from report_runs import make_runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("served"), hostile=True, details=True)


@pytest.fixture(scope="module")
def server(runs):
    """The runs analysed and all texts read."""
    with serving([runs]) as found:
        wait_for(lambda: found.get("state")["answers"].endswith("-analysed"))
        wait_for(lambda: found.get("state")["texts"] == [3, 3])
        yield found
