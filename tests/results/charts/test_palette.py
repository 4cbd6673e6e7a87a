import re
from importlib.resources import files

import pytest

from dph.results.charts.palette import DARK, contrast, fills, looks, looks_by_method, on_dark
from results.charts.synthetic import NAMES

KNOWN = ("base", "grpo", "dapo", "rkl", "alpha", "dph_f", "dph_js", "dph_js_definition")
ALL = [look.colour for look in looks([*KNOWN, *"abcdefgh"]).values()]


def test_a_known_method_looks_the_same_in_any_company():
    alone, many = looks(["grpo"]), looks(["base", *NAMES])
    assert alone["grpo"] == many["grpo"]


def test_up_to_eight_methods_have_different_colours_and_markers():
    chosen = looks(["base", *NAMES]).values()
    assert len({look.colour for look in chosen}) == len({look.marker for look in chosen}) == 9
    strangers = looks([f"mine{i}" for i in range(8)]).values()
    assert len({look.colour for look in strangers}) == 8


def test_no_two_of_many_runs_have_one_colour():
    chosen = looks_by_method({f"run {i}": "dph_f" for i in range(40)} | {"base": "base"})
    assert len({look.colour for look in chosen.values()}) == 41


def test_other_styles_are_grey():
    chosen = fills(["plain", "other", "cte"])
    assert chosen["other"] == "#DDDDDD"
    assert len(set(chosen.values())) == 3


def test_a_second_run_of_a_method_has_a_look_of_its_own():
    chosen = looks_by_method({"base": "base", "a": "grpo", "b": "grpo", "c": None})
    assert chosen["a"] == looks(["grpo"])["grpo"]
    assert len(set(chosen.values())) == 4


@pytest.mark.parametrize("colour", sorted(set(ALL)))
def test_every_colour_of_the_palette_is_seen_on_the_dark_page(colour):
    assert contrast(on_dark(colour), DARK) >= 3.0


def test_contrast_is_that_of_the_standard():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WCAG's own example


def test_the_dark_page_is_the_style_sheets():
    sheet = files("dph.results.report").joinpath("browser", "style.css").read_text()
    assert re.search(r"--paper: light-dark\(#\w+, (#\w+)\)", sheet)[1] == DARK
