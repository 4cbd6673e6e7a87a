"""The documentation site, built as `make docs` does and opened from disk in a browser."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from browser import needs_browser, open_browser, wait_until

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("mkdocs") is None, reason="needs dph-rl[docs] (make docs)"
    ),
]

CUT = """() => [...document.querySelectorAll(".md-content *")].filter((node) => {
    const box = node.getBoundingClientRect();
    if (!box.width || box.right <= innerWidth + 1) return false;
    for (let at = node; at; at = at.parentElement)
        if (["auto", "scroll"].includes(getComputedStyle(at).overflowX)) return false;
    return true;
}).map((node) => `${node.tagName} ${node.textContent.slice(0, 60)}`)"""
"""What reaches over the right edge, and cannot be scrolled to."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", place],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return place


def test_every_page_of_the_navigation_is_built(site):
    for page in ("index.html", "tutorials/trl.html", "notebooks/own_method.html", "example.html"):
        assert (site / page).is_file()
    assert (site / "notebooks/own_method.ipynb").is_file()
    assert "](tutorials/trl.html): `DPHTrainer` is TRL's" in (site / "llms.txt").read_text("utf-8")


@needs_browser
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_cut(site, width):
    with open_browser() as context:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        for path in sorted(site.rglob("*.html")):
            if path.name in {"404.html", "example-report.html"}:
                continue
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(CUT) == [], path


@needs_browser  # Browsers allow no worker there: the site brings a stand-in.
def test_a_search_from_disk_finds_what_a_message_says(site):
    with open_browser() as context:
        page = context.new_page()
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto((site / "tutorials/reading-a-report.html").as_uri())
        page.click(".md-search__input")
        page.keyboard.type("already at step but train.steps", delay=20)
        found = "document.querySelector('.md-search-result__link')?.getAttribute('href') ?? ''"
        wait_until(page, f"({found}).includes('faq.html')")
