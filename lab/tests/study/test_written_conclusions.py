"""What pages say of our study stands in its tables."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TABLES = ROOT / "lab" / "benchmarks" / "study" / "results" / "tables"
PAGES = ("README.md", "docs/results.md")
NUMBER = re.compile(r"[+-]?\d+\.\d ± \d+\.\d")
pytestmark = pytest.mark.skipif(not TABLES.is_dir(), reason="a wheel has no benchmarks")


def prose(page):
    """A page without its generated blocks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"<!-- (\S+): begin -->.*?<!-- \1: end -->", "", text, flags=re.DOTALL)


def _blocks(path):
    """The generated blocks of a page."""
    return "".join(
        re.findall(r"<!-- \S+: begin -->(.*?)<!-- \S+: end -->", path.read_text(), re.DOTALL)
    )


def in_tables():
    """Every mean with its interval, in any table of the study or in a generated block of a page."""
    pages = (ROOT / "docs" / name for name in ("results.md", "real-world.md", "hostile-world.md"))
    texts = [path.read_text() for path in TABLES.glob("*.md")] + [_blocks(page) for page in pages]
    return {number for text in texts for number in NUMBER.findall(text)}


@pytest.mark.parametrize("page", PAGES)
def test_every_interval_in_the_prose_is_one_of_a_table(page):
    assert set(NUMBER.findall(prose(page))) - in_tables() == set()


def test_the_prose_of_the_results_has_intervals_to_check():
    assert len(NUMBER.findall(prose("docs/results.md"))) >= 20
