"""Names, colours and shapes."""

import re
from importlib.resources import files

import pytest

from dph.recipe import METHODS
from dph.results.vocabulary import (
    DARK,
    chosen_ks,
    contrast,
    fills,
    looks,
    looks_by_method,
    method_label,
    on_dark,
)
from results.charts.synthetic import NAMES


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("base", "Base model"),
        ("dph_js_definition", "DPH-JS definition"),
        ("dph_js", "DPH-JS"),
        ("dph_js@1.0", "DPH-JS 1.0"),
        ("rkl_0.3", "RKL 0.3"),
        ("pass_at_k_4", "Pass@k training 4"),
        ("maxrl", "MaxRL"),
        ("alphabet", "alphabet"),
        ("alpha_0.5", "Alpha 0.5"),
        ("flowrl", "FlowRL"),
        ("my_method", "my_method"),
    ],
)
def test_methods_are_called_as_people_write_them(name, label):
    assert method_label(name) == label


def test_the_usual_ks_are_shown_if_they_are_there():
    assert chosen_ks({"1": 0, "8": 0, "16": 0, "32": 0}) == ["8", "16"]
    assert chosen_ks({"1": 0, "4": 0}) == ["4"]
    assert chosen_ks({"1": 0, "8": 0, "16": 0}, [1, 16]) == ["1", "16"]


@pytest.mark.parametrize("name", METHODS)
def test_every_named_method_has_a_label(name):
    assert method_label(name) != name


KNOWN = ("base", "grpo", "dapo", "rkl", "alpha", "dph_f", "dph_js", "dph_js_definition")
ALL = [look.colour for look in looks([*KNOWN, *"abcdefgh"]).values()]


def test_up_to_eight_methods_have_different_colours_and_markers():
    chosen = looks(["base", *NAMES]).values()
    assert len({look.colour for look in chosen}) == len({look.shape for look in chosen}) == 9
    strangers = looks([f"mine{i}" for i in range(8)]).values()
    assert len({look.colour for look in strangers}) == 8


def test_no_two_of_many_runs_have_one_colour_and_the_first_has_that_of_its_method():
    chosen = looks_by_method({f"run {i}": "dph_f" for i in range(40)} | {"base": "base", "c": None})
    assert len({look.colour for look in chosen.values()}) == 42
    many = looks(["base", *NAMES])
    assert chosen["run 0"] == looks(["dph_f"])["dph_f"] == many["dph_f"]


def test_other_styles_are_grey():
    chosen = fills(["plain", "other", "cte"])
    assert chosen["other"] == "#DDDDDD"
    assert len(set(chosen.values())) == 3


def test_every_colour_of_the_palette_is_seen_on_the_dark_page_of_the_style_sheet():
    dim = [colour for colour in ALL if contrast(on_dark(colour), DARK) < 3.0]
    assert dim == []
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WCAG's own example
    sheet = files("dph.results.report").joinpath("browser", "style.css").read_text()
    assert re.search(r"--paper: light-dark\(#\w+, (#\w+)\)", sheet)[1] == DARK
