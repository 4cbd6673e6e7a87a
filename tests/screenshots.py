"""``make screenshots``: every page of a report and of ``dph view``, at two widths, light and dark.

python tests/screenshots.py OUT [RUN...]; without runs, of made ones (tests/report_runs.py).
"""

import sys
import tempfile
from pathlib import Path

from browser import open_browser, wait_until, why_no_browser
from dph.results.report.page import write_report
from dph.results.report.report_data import read_report
from live_server import serving
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
        places = runs or [make_runs(Path(directory) / "runs", details=True)]
        report = out / "report.html"
        write_report(read_report(places), report)
        shoot_all(out, report.as_uri(), "", offline=True)
        with serving(places) as server:
            shoot_all(out, server.address, "view-", offline=False)


def shoot_all(out, address, prefix, *, offline):
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            size = {"width": width, "height": 900 if width > 600 else 844}
            with open_browser(offline=offline, viewport=size, color_scheme=scheme) as context:
                shoot(context, out, address, f"{prefix}{{}}-{width}-{scheme}.png")


def shoot(context, out, address, name):
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    for title, place in PAGES.items():
        visit(page, place)
        page.screenshot(path=out / name.format(title), full_page=True)
    visit(page, page.get_attribute("#list .row a", "href"))
    page.wait_for_selector("#problem .answer")
    page.screenshot(path=out / name.format("problem"), full_page=True)
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
