"""How soon a report is there in a browser, and how long a filter takes.

    python -m lab.benchmarks.report_page REPORT.html [--chromium PATH] [--repeats 5]

Opens the file without a network, each time in a browser of its own, and prints a table:
milliseconds until it is there, and of CPU time of all of the browser's processes. Times of first
paint, of readiness and of filters are the page's own: from its start, or from the choice to the new
list.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

TICKS = os.sysconf("SC_CLK_TCK")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
DRAWN = """() => [...document.querySelectorAll('#overview .chart')].every(
    (chart) => chart.querySelector('svg.marks'))"""
NOTE_READY = """new MutationObserver(() => {
    if (document.documentElement.dataset.ready) window.readyAt ||= performance.now();
}).observe(document, { attributes: true, subtree: true })"""
OWN_TIMES = {
    "overview: first paint": "performance.getEntriesByType('paint')[0].startTime",
    "overview: ready": "window.readyAt",
}
FILTERS: dict[str, Callable[[Any, int], Any]] = {
    "filter: lost or gained": lambda page, i: page.select_option(
        "#by-change", ("lost", "gained")[i % 2]
    ),
    "filter: has an outcome": lambda page, i: page.select_option("#by-outcome", index=1 + i % 2),
    "filter: correct from": lambda page, i: page.fill("#by-from", str(1 + i % 5)),
    "search in prompts and gold": lambda page, i: page.fill("#by-q", f"s{'elect'[: 1 + i % 4]}"),
    "sorted by a run": lambda page, i: page.click(f"#titles .of-r{i % 2} button"),
}


def cpu_seconds(profile: str) -> float:
    """CPU time of every process of the browser with that profile, so far."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if profile not in (path / "cmdline").read_text(errors="replace"):
                continue
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


@contextmanager
def browser(chromium: str) -> Iterator[tuple[Any, str]]:
    """A browser without a network, and the profile by which its processes are known."""
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium,
            args=ARGUMENTS,
            offline=True,
            timeout=300_000,
            viewport={"width": 1280, "height": 860},
        )
        context.set_default_timeout(300_000)
        try:
            yield context, profile
        finally:
            context.close()


class Times:
    """Milliseconds that went by, and those of CPU time, by what was done."""

    def __init__(self, profile: str) -> None:
        self.profile, self.rows = profile, dict[str, list[tuple[float, float]]]()

    def take(self, name: str, act: Callable[[], float | None]) -> None:
        """Do it; what it returns counts instead of the time that went by."""
        started, before = time.perf_counter(), cpu_seconds(self.profile)
        said = act()
        seconds = time.perf_counter() - started
        cpu = 1000 * (cpu_seconds(self.profile) - before)
        self.rows.setdefault(name, []).append((1000 * seconds if said is None else said, cpu))


def look(context: Any, report: Path, times: Times, repeats: int) -> None:
    """Open the report at its two heaviest pages, and use every filter."""
    page = context.new_page()
    page.add_init_script(NOTE_READY)

    def opened(address: str, there: str) -> None:
        page.goto("about:blank")
        page.goto(f"{report.as_uri()}{address}")
        page.wait_for_selector(there)

    def chosen(act: Callable[[Any, int], Any], i: int) -> float:
        act(page, i)
        return float(page.get_attribute("#list", "data-took"))

    times.take("overview: tables", lambda: opened("#/", "html[data-ready=yes] #overview table"))
    for name, script in OWN_TIMES.items():
        times.take(name, lambda script=script: float(page.evaluate(script)))
    times.take("overview: all charts", lambda: wait_for(page, DRAWN))
    times.take("problems: the list", lambda: opened("#/problems", "#list .rows .row"))
    wait_for(page, "() => document.getElementById('read').textContent === ''")
    for name, act in FILTERS.items():
        for i in range(repeats):
            times.take(name, lambda act=act, i=i: chosen(act, i))
        page.click("#filters button[type=reset]")


def wait_for(page: Any, true: str) -> None:
    """Ask again and again: the page's policy forbids what Playwright would do."""
    while not page.evaluate(true):
        page.wait_for_timeout(20)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rows: dict[str, list[tuple[float, float]]] = {}
    for _ in range(arguments.repeats):
        with browser(arguments.chromium) as (context, profile):
            times = Times(profile)
            look(context, arguments.report.resolve(), times, arguments.repeats)
        for name, found in times.rows.items():
            rows.setdefault(name, []).extend(found)
    print(f"{arguments.report.stat().st_size / 1e6:.1f} MB, load {os.getloadavg()[0]:.0f}")
    print("| | milliseconds, median (worst) | of CPU time |")
    print("| --- | --- | --- |")
    for name, found in rows.items():
        took, cpu = [one for one, _ in found], statistics.median(one for _, one in found)
        print(f"| {name} | {statistics.median(took):.0f} ({max(took):.0f}) | {cpu:.0f} |")


if __name__ == "__main__":
    main()
