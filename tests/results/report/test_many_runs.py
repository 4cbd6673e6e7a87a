"""The page with as many runs as people compare: nothing is cut, hidden or put on another line."""

import pytest

from browser import MISSING, needs_browser, wait_until
from dph.results.report.page import write_report
from dph.results.report.report_data import read_report
from report_runs import make_runs

axe_sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason=MISSING)
pytestmark = needs_browser

CUT = """selector => [...document.querySelectorAll(selector)]
    .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"""
TOPS = "found => new Set(found.map((one) => one.getBoundingClientRect().top)).size"
FITTED = """[...document.querySelectorAll('#overview .chart')].map((place) =>
    place.querySelector('svg.marks')?.clientWidth === place.clientWidth)"""
SEEN_FITTED = """[...document.querySelectorAll('.chart')].filter((one) => one.checkVisibility())
    .every((one) => [one.clientWidth, undefined].includes(
        one.querySelector('svg.marks')?.clientWidth))"""
LEFTS = "found => found.map((one) => one.getBoundingClientRect().left)"
WIDTHS = "found => new Set(found.map((one) => Math.round(one.getBoundingClientRect().width))).size"
CLIPPED = """() => [...document.querySelectorAll('main *, header *')].filter((one) => {
    const style = getComputedStyle(one);
    return one.checkVisibility() && !one.children.length && one.scrollWidth > one.clientWidth + 1
        && style.overflowX === 'hidden' && style.textOverflow !== 'ellipsis'
        && style.clipPath === 'none';
}).map((one) => one.outerHTML.slice(0, 200))"""
OVERLAPS = """() => {
    const boxes = [...document.querySelectorAll(
        'header label, header button, header select, nav a, main h2, main h3, figure, '
        + '.verdicts li, #run-table > *, .filters > *, .counts, #problem .column, .answer')]
        .filter((one) => one.checkVisibility() && !one.matches('.unseen'))
        .map((one) => [
            one, one.getBoundingClientRect(), one.closest('header'), one.closest('.runs')])
        .filter(([, box]) => box.width && box.height);
    const over = (x, y) => Math.min(x.right, y.right) - Math.max(x.left, y.left) > 1
        && Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top) > 1;
    return boxes.flatMap(([a, x, top, runs]) => boxes
        .filter(([b, y, other, others]) => a !== b && !a.contains(b) && !b.contains(a)
            && top === other && runs === others && over(x, y))
        .map(([b]) => `${a.outerHTML.slice(0, 80)} on ${b.outerHTML.slice(0, 80)}`));
}"""
METHODS = ("dph_f", "grpo", "dapo", "rkl", "dph_js", "alpha", "ucpo")
NUMBERS = ["eleven", *(pytest.param(n, marks=pytest.mark.slow) for n in ("one", "four", "fifty"))]
ADDRESSES = ("#/", "#/training", "#/diagnosis", "#/problems", "#/problem/dev/dev-0000")
NAMES = "main .run, #runs label, #titles .word, #list .id, figcaption, .column h3"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two methods with five seeds each, and the initial policy."""
    return make_runs(tmp_path_factory.mktemp("many"), sets={"dev": 12}, seeds=range(5))


@pytest.fixture(scope="module")
def report_of(place, tmp_path_factory):
    """The report of this many runs; fifty are seven methods with seven seeds each."""
    few = [place / "base", place / "dph_f_0", place / "grpo_0", place / "grpo_1"]
    made = {}

    def make(number):
        if number not in made:
            out = tmp_path_factory.mktemp(number)
            runs = {"one": few[2:3], "four": few, "eleven": [place]}.get(number)
            if runs is None:
                sets = {"dev": 8, "test": 4}
                runs = [make_runs(out / "runs", sets=sets, seeds=range(7), methods=METHODS)]
            made[number] = write_report(read_report(runs), out / "report.html").path
        return made[number]

    return make


@pytest.fixture
def look(open_report, report_of):
    return lambda number, address="#/", width=1440: open_report(
        address, path=report_of(number), width=width
    )


def words(page, selector):
    return page.eval_on_selector_all(selector, "found => found.map((one) => one.textContent)")


def load_again(page):
    page.reload()
    page.wait_for_selector("html[data-ready=yes]")


def shown_runs(page):
    return words(page, "#run-rows tbody th .run")


@pytest.mark.parametrize(
    ("number", "methods", "seeds"),
    [("eleven", 2, 5), pytest.param("fifty", 7, 7, marks=pytest.mark.slow)],
)
def test_runs_are_a_line_and_a_switch_for_each_method_until_seeds_are_asked_for(
    look, number, methods, seeds
):
    page = look(number)
    assert page.locator("#runs label:visible").count() == methods + 1
    assert page.locator("#run-rows tbody tr").count() == methods + 1
    assert page.locator(".verdicts li").count() == methods
    page.select_option("#seeds", "method")
    assert page.locator("#runs label:visible").count() == methods * seeds + 1
    assert page.locator("#run-rows tbody tr:not(.heading)").count() == methods * seeds + 1
    assert len(words(page, "#run-rows .heading")) == methods + 1
    page.select_option("#seeds", "seed")
    last = str(seeds - 1)
    assert [word for word in words(page, "#run-rows .heading") if last in word] == [f"seed {last}"]
    assert "seeds=seed" in page.url
    load_again(page)
    assert page.locator("#run-rows .heading").count() == seeds + 1


def test_a_group_is_switched_as_one_and_an_address_says_the_few_that_are_on(look):
    page = look("eleven")
    page.click("#runs label:has-text('GRPO')")
    assert shown_runs(page).count("GRPO (5 seeds)") == 0
    assert len(page.url.partition("off=")[2].split("+")) == 5
    page.click("#runs label:has-text('DPH-F (')")
    assert page.url.endswith("only=r0")
    load_again(page)
    assert shown_runs(page) == ["Base model"]
    page = look("eleven")
    page.dblclick("#runs label:has-text('GRPO (5')")
    assert shown_runs(page) == ["GRPO (5 seeds)"]
    page.click("#runs label:has-text('DPH-F (5')")
    assert shown_runs(page) == ["DPH-F (5 seeds)", "GRPO (5 seeds)"]
    page.select_option("#seeds", "method")
    page.keyboard.press("Escape")
    page.locator("#overview h2").first.click()
    page.keyboard.press("Shift+Digit2")
    page.keyboard.press("7")
    assert shown_runs(page) == ["DPH-F 0", "GRPO 0"]
    assert "only=r1+r6" in page.url


def test_charts_fit_a_window_that_was_resized_on_another_page(look):
    page = look("one", width=390)
    wait_until(page, f"{FITTED}.length > 0 && {FITTED}.every(Boolean)")
    page.click("nav >> text=Problems")
    page.wait_for_selector("html[data-shown='#/problems']")
    page.set_viewport_size({"width": 900, "height": 900})
    page.click("nav >> text=Overview")
    wait_until(page, f"{FITTED}.every(Boolean)")


@pytest.mark.parametrize("width", [1024, 1440])
@pytest.mark.parametrize("number", ["eleven", pytest.param("fifty", marks=pytest.mark.slow)])
def test_titles_of_a_list_stand_over_their_columns(look, number, width):
    page = look(number, "#/problems", width)
    for row in (".cells .cell", ".last"):
        of_titles, of_rows = (
            page.eval_on_selector_all(f"{rows} {row}", LEFTS)
            for rows in ("#titles", "#list .rows .row:first-child")
        )
        assert of_titles == pytest.approx(of_rows, abs=1)


@pytest.mark.slow
def test_lists_show_at_most_twelve_runs_and_turn_to_the_others(look):
    page = look("fifty", "#/problems")
    assert page.locator("#titles .cells .cell").count() == 12
    page.click("#pages button[aria-label='runs after these']")
    assert "runs 13 to 24 of 50" in page.inner_text("#pages")
    assert "first=13" in page.url
    page.click("#list .rows .row a")
    page.wait_for_selector("#problem .answer")
    assert page.locator("#problem .column").count() == 12
    page.reload()
    page.wait_for_selector("#problem .answer")
    assert "runs 13 to 24 of 50" in page.inner_text("#problem .pages")


def test_words_of_an_address_that_name_nothing_are_told(look):
    page = look("one", "#/nowhere?off=zz&seeds=no", None)
    said = page.inner_text("#wrong")
    for word in ("no page nowhere", "run zz", "seeds=no"):
        assert word in said
    assert page.is_visible("#overview")


def every_page(page, scheme):
    """Every page at every width, each once."""
    page.emulate_media(color_scheme=scheme)
    for width in (390, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        for address in ADDRESSES:
            page.evaluate("address => { location.hash = address }", address)
            page.wait_for_selector(f"html[data-shown='{address}']")
            if "problem/" in address:
                page.wait_for_selector("#problem .answer")
            wait_until(page, SEEN_FITTED)
            yield width, address


@pytest.mark.parametrize("number", NUMBERS)
def test_nothing_is_cut_and_nothing_lies_on_anything_else(look, number):
    page = look(number)
    for place in every_page(page, "light"):
        assert page.evaluate("document.documentElement.scrollWidth") <= place[0], place
        assert page.evaluate(CLIPPED) == [], place
        assert page.evaluate(CUT, NAMES) == [], place
        assert page.evaluate(OVERLAPS) == [], place


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("number", NUMBERS)
def test_axe_finds_no_violation_on_any_page_at_any_width(look, number, scheme):
    page = look(number)
    for place in every_page(page, scheme):
        found = axe_sync.Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], place


def test_with_eleven_runs_the_list_names_its_problems_and_its_runs(look):
    page = look("eleven", "#/problems")
    assert page.locator("#titles .cells .cell").count() == 11
    for cells in ("#list .rows .id", "#titles .cells .word", "#list .rows .cells .cell"):
        assert page.evaluate(CUT, cells) == []
    assert page.locator("#list .rows .row .name").first.bounding_box()["width"] > 150
    page.set_viewport_size({"width": 390, "height": 900})
    load_again(page)  # on a phone counts are whole and bars as long as each other
    assert page.evaluate(CUT, "#list .rows .cells .cell") == []
    assert page.eval_on_selector_all("#list .rows .cells .share", WIDTHS) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_four_columns_of_answers_stand_side_by_side(look):
    page = look("four", "#/problem/dev/dev-0000")
    page.wait_for_selector("#problem .answer")
    assert page.locator("#problem .column").count() == 4
    assert page.eval_on_selector_all("#problem .column", TOPS) == 1
