"""``make screenshots``: every page of a report at two widths, in light and dark, to be looked at.

    python tests/screenshots.py OUT [RUN...]

Without runs, of made ones (tests/report_runs.py).
"""

import sys
import tempfile
from pathlib import Path

from browser import open_browser, opened, wait_until, why_no_browser
from dph.pages import read_report, write_report
from report_runs import make_runs

WIDTHS = (1440, 390)
PAGES = {
    "overview": "#/",
    "training": "#/training",
    "diagnosis": "#/diagnosis",
    "problems": "#/problems",
}


def main(out, runs):
    out.mkdir(parents=True, exist_ok=True)
    if (missing := why_no_browser()) is not None:
        sys.exit(missing)
    with tempfile.TemporaryDirectory() as directory:
        places = runs or [make_runs(Path(directory))]
        report = out / "report.html"
        write_report(read_report(places), report)
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                shoot(report, out, width, scheme)


def shoot(report, out, width, scheme):
    size = {"width": width, "height": 900 if width > 600 else 844}
    with open_browser(viewport=size, color_scheme=scheme) as context:
        page, said = opened(context, report)
        for name, address in PAGES.items():
            visit(page, address)
            page.screenshot(path=out / f"{name}-{width}-{scheme}.png", full_page=True)
        address = page.get_attribute("#list .row a", "href")
        visit(page, address)
        page.screenshot(path=out / f"problem-{width}-{scheme}.png", full_page=True)
        if said:
            sys.exit("\n".join(said))


SCROLLED = """async () => {
    for (const chart of document.querySelectorAll('.chart')) {
        chart.scrollIntoView();
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
    window.scrollTo(0, 0);
}"""
DRAWN = """() => [...document.querySelectorAll('.chart')].every(
    (chart) => !chart.offsetParent || chart.querySelector('svg.marks'))"""


def visit(page, address):
    page.evaluate("address => { location.hash = address }", address)
    page.wait_for_selector(f"html[data-shown='{address}']")
    page.evaluate(SCROLLED)
    wait_until(page, DRAWN)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(run) for run in sys.argv[2:]])
