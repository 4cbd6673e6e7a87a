import pytest

from dph.tasks.verifiers.math.units import _UNITS, dimensions, unit_product


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
