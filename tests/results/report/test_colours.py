import re
from importlib.resources import files

import pytest

from dph.results.charts.palette import looks
from dph.results.report.chart import DARK, contrast, on_dark

KNOWN = ("base", "grpo", "dapo", "rkl", "alpha", "dph_f", "dph_js", "dph_js_definition")
ALL = [look.colour for look in looks([*KNOWN, "dph_broad", *"abcdefgh"]).values()]


@pytest.mark.parametrize("colour", sorted(set(ALL)))
def test_every_colour_of_the_palette_is_seen_on_the_dark_page(colour):
    assert contrast(on_dark(colour), DARK) >= 3.0


def test_contrast_is_that_of_the_standard():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WCAG's own example


def test_the_dark_page_is_the_style_sheets():
    sheet = files("dph.results.report").joinpath("browser", "style.css").read_text()
    assert re.search(r"--paper: light-dark\(#\w+, (#\w+)\)", sheet)[1] == DARK
