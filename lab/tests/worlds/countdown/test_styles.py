"""The style of an answer is its operators in order."""

import pytest

from dph.tasks.styles import make_style
from lab.worlds.countdown.verifier import operator_order


@pytest.mark.parametrize(
    ("response", "style"),
    [
        ("3 * 7 = 21 , 5 - 2 = 3 , 21 + 3 = 24", "*-+"),
        ("3 * 7 = 99", "*"),
        (" 8 / 2 = 4 ", "/"),
        ("3 * 7 = 21 ,", "other"),
        ("3 * 7 = 21 , 5 - 2", "other"),
        ("3 * 7", "other"),
        ("", "other"),
        ("+ - *", "other"),
    ],
)
def test_right_and_wrong_answers_have_a_style_and_broken_ones_have_none(response, style):
    assert operator_order(response) == style


def test_a_recipe_finds_it_by_its_import_path():
    style = make_style("lab.worlds.countdown.verifier:operator_order", ())
    assert style("2 + 3 = 5") == "+"
