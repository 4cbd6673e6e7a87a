import pytest

from dph.tasks.verifiers.math.units import amounts, unit_of, units_differ, without_unit


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"10 \mathrm{~m} \mathrm{~s}^{-1}", r"10 \mathrm{ m/s}"),
        (r"9.8 \text{ m s}^{-2}", r"9.8 \text{ m/s}^2"),
        (r"10 \text{ ms}^{-1}", r"10 \text{ m/s}"),
        (r"10 \text{ m} \cdot \text{s}^{-1}", r"10 \text{ m/s}"),
        (r"60 \text{ J/s}", r"60 \text{ W}"),
        (r"1 \text{ g/mL}", r"1 \text{ kg/L}"),
        ("5 miles an hour", "5 mph"),
        ("5 miles every hour", "5 mph"),
        ("m g h / L", "h g m / L"),
    ],
)
def test_what_may_be_another_name_of_the_same_is_left_to_others(one, other):
    assert not units_differ(one, other)
    assert not units_differ(other, one)


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
