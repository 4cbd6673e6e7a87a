"""docs/results.md and README.md: every interval that they name stands in the README of a study."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INTERVAL = re.compile(r"[+-]?\d+\.\d ± \d+\.\d")
STUDIES = ROOT / "lab" / "studies"


def intervals(*paths):
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return {found for text in texts for found in INTERVAL.findall(text)}


@pytest.mark.skipif(not STUDIES.is_dir(), reason="a wheel has no studies")
@pytest.mark.parametrize("page", ["docs/results.md", "README.md"])
def test_every_interval_of_a_page_is_one_of_a_study(page):
    named = intervals(ROOT / page)
    assert len(named) >= 2
    assert named <= intervals(*STUDIES.rglob("*.md"))
