import pytest

from dph.verifiers.math_units import unit_of, units_differ


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (r"10 \text{ cm}", ("cm", "1")),
        (r"10 \mathrm{~cm}^{2}", None),
        (r"10 \mathrm{cm}^{2}", ("cm", "2")),
        ("10 centimeters", ("cm", "1")),
        ("50 cents", ("cent", "1")),
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
