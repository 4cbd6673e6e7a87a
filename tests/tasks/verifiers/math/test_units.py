import pytest

from dph.tasks.verifiers.math.units import (
    _UNITS,
    amounts,
    dimensions,
    unit_of,
    unit_product,
    units_differ,
    without_unit,
)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (r"10 \text{ cm}", ("cm", "1")),
        (r"10 \mathrm{~cm}^{2}", None),
        (r"10 \mathrm{cm}^{2}", ("cm", "2")),
        ("10 centimeters", ("cm", "1")),
        ("50 cents", ("cent", "1")),
        ("60 miles per hour", ("mi/h", "1")),
        ("60 mph", ("mi/h", "1")),
        (r"9.8 \text{ m/s}^2", ("m/s", "2")),
        ("3 apples/day", None),
        ("10", None),
        ("3x", None),
        (r"\sin x", None),
        ("10 apples", None),
    ],
)
def test_common_units_are_known(text, unit):
    assert unit_of(text) == unit


def test_units_differ_only_when_both_are_known():
    assert units_differ("10 m", "10 cm")
    assert units_differ("50 dollars", "50 cents")
    assert units_differ(r"5 \text{ cm}^2", r"5 \text{ cm}")
    assert not units_differ("10 meters", r"10 \text{ m}")
    assert not units_differ("10", "10 cm")
    assert units_differ("12 m/s", r"12 \text{ km/h}")
    assert units_differ("12 m", "12 m/s")


def test_amounts_of_one_unit_are_what_stands_before_it():
    assert amounts("5 mph", r"6 \text{ miles per hour}") == ("5", "6")
    assert amounts("5 m", "5 m/s") is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("12 m/s", "12"),
        ("1 2/3 m", "1 2/3"),
        ("60 cents per pound", "60"),
        ("12 per", "12 per"),
        ("3 s^3", "3 s^3"),
        ("3 cm^3", "3"),
        ("5 miles an hour", "5"),
        ("2 pi m", "2 pi"),
        ("m", "m"),
    ],
)
def test_a_unit_in_plain_words_is_left_off(text, rest):
    assert without_unit(text) == rest


@pytest.mark.parametrize(
    ("text", "powers"),
    [
        ("10 m s", {"m": 1, "s": 1}),
        (r"10 \mathrm{~m} \mathrm{~s}^{-1}", {"m": 1, "s": -1}),
        (r"9.8 \text{ m s}^{-2}", {"m": 1, "s": -2}),
        ("5 miles per hour", {"mi": 1, "h": -1}),
        ("60 mph", {"mi": 1, "h": -1}),
        (r"\frac{1}{2} \text{ kg} \cdot \text{m}^2", {"kg": 1, "m": 2}),
        (r"6 \times 10^{-5} m", {"m": 1}),
        ("1,000 m", {"m": 1}),
    ],
)
def test_a_number_and_its_units_are_read_with_their_powers(text, powers):
    assert unit_product(text, _UNITS) == powers


@pytest.mark.parametrize(
    "text",
    ["10", "m s", "10 x", "10 m x", "3x m", "10 J/kg m", "10 ms^{-1}", "10 m or 5 m", "10 deg", ""],
)
def test_anything_else_is_no_product_of_units(text):
    assert unit_product(text, _UNITS) is None


def test_units_that_measure_the_same_have_the_same_dimensions():
    for one, other in [
        ({"J": 1, "s": -1}, {"W": 1}),
        ({"L": 1}, {"cm": 3}),
        ({"s": -1}, {"Hz": 1}),
    ]:
        assert dimensions(one) == dimensions(other)
    assert dimensions({"m": 1, "s": 1}) != dimensions({"s": 1})
