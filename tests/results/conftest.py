"""Evaluated runs that several chapters look at, made once."""

import pytest

from report_runs import make_runs


@pytest.fixture(scope="session")
def plain_runs(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def hostile_runs(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("hostile"), hostile=True, details=True)


@pytest.fixture(scope="session")
def small_runs(tmp_path_factory):
    sets = {"in_domain": 12, "cross_domain": 5}
    return make_runs(tmp_path_factory.mktemp("small"), sets=sets)
