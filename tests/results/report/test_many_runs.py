"""The page with as many runs as people compare: nothing is cut, hidden or put on another line."""

import pytest

from browser import MISSING, needs_browser, open_browser, opened
from dph.results.report import read_report, write_report
from report_runs import make_runs

pytest.importorskip("axe_playwright_python.sync_playwright", reason=MISSING)
pytestmark = needs_browser

CUT = """selector => [...document.querySelectorAll(selector)]
    .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"""
TOPS = "found => new Set(found.map((one) => one.getBoundingClientRect().top)).size"
WIDTHS = "found => new Set(found.map((one) => Math.round(one.getBoundingClientRect().width))).size"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("many"), sets={"dev": 12}, seeds=range(5))


@pytest.fixture(scope="module")
def eleven(place, tmp_path_factory):
    return write_report(read_report([place]), tmp_path_factory.mktemp("r") / "eleven.html").path


def look(path, address, width, seen):
    with open_browser(viewport={"width": width, "height": 900}) as context:
        page, said = opened(context, path, address)
        seen(page)
        assert said == []


def test_with_eleven_runs_the_list_names_its_problems_and_its_runs(eleven):
    def seen(page):
        assert page.locator("#titles .cells .cell").count() == 11
        assert page.evaluate(CUT, "#list .rows .id") == []
        assert page.evaluate(CUT, "#titles .cells .word") == []
        assert page.evaluate(CUT, "#list .rows .cells .cell") == []
        assert page.locator("#list .rows .row .name").first.bounding_box()["width"] > 150

    look(eleven, "#/problems", 1440, seen)


def test_on_a_phone_counts_are_whole_and_bars_as_long_as_each_other(eleven):
    def seen(page):
        assert page.evaluate(CUT, "#list .rows .cells .cell") == []
        assert page.eval_on_selector_all("#list .rows .cells .share", WIDTHS) == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

    look(eleven, "#/problems", 390, seen)


def test_four_columns_of_answers_stand_side_by_side(place, tmp_path):
    runs = [place / "base", place / "dph_f_0", place / "grpo_0", place / "grpo_1"]
    path = write_report(read_report(runs), tmp_path / "four.html").path

    def seen(page):
        page.wait_for_selector("#problem .answer")
        assert page.locator("#problem .column").count() == 4
        assert page.eval_on_selector_all("#problem .column", TOPS) == 1

    look(path, "#/problem/dev/dev-0000", 1440, seen)
