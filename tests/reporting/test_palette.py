from dph.reporting.palette import fills, looks, looks_by_method
from reporting.synthetic import NAMES


def test_a_known_method_looks_the_same_in_any_company():
    alone, many = looks(["grpo"]), looks(["base", *NAMES])
    assert alone["grpo"] == many["grpo"]


def test_up_to_eight_methods_have_different_colours_and_markers():
    chosen = looks(["base", *NAMES]).values()
    assert len({look.colour for look in chosen}) == len({look.marker for look in chosen}) == 9
    strangers = looks([f"mine{i}" for i in range(8)]).values()
    assert len({look.colour for look in strangers}) == 8


def test_more_methods_than_colours_start_again():
    assert len(looks([f"mine{i}" for i in range(20)])) == 20


def test_other_styles_are_grey():
    chosen = fills(["plain", "other", "cte"])
    assert chosen["other"] == "#DDDDDD"
    assert len(set(chosen.values())) == 3


def test_a_second_run_of_a_method_has_a_look_of_its_own():
    chosen = looks_by_method({"base": "base", "a": "grpo", "b": "grpo", "c": None})
    assert chosen["a"] == looks(["grpo"])["grpo"]
    assert len(set(chosen.values())) == 4
