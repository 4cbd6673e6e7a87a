"""A report of made runs, once for all tests, and a browser that has it open."""

import pytest

from browser import open_browser, opened
from dph.results.report.page import write_report
from dph.results.report.report_data import read_report


@pytest.fixture(scope="session")
def data(hostile_runs):
    return read_report([hostile_runs])


@pytest.fixture(scope="session")
def written(data, tmp_path_factory):
    return write_report(data, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def browser():
    """Closed with its module: as long as it is open an event loop runs in this thread."""
    with open_browser() as context:
        yield context


@pytest.fixture
def open_report(browser, request):
    """Open a report at an address; what the console said has to be nothing at the end."""
    pages = []

    def open_at(address="#/", *, path=None, width=None):
        path = path or request.getfixturevalue("written").path
        page, said = opened(browser, path, address)
        pages.append((page, said))
        if width:
            page.set_viewport_size({"width": width, "height": 900})
            page.reload()
            page.wait_for_selector("html[data-ready=yes]")
        return page

    yield open_at
    for page, said in pages:
        page.close()
        assert said == []
