import pytest

from dph.errors import SettingsError
from dph.results.charts.aggregate import t_quantile


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [  # Abramowitz and Stegun 1964, table 26.10, 97.5%
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (9, 2.262),
        (10, 2.228),
        (30, 2.042),
        (120, 1.980),
    ],
)
def test_quantiles_are_those_of_the_printed_table(degrees, expected):
    assert t_quantile(0.975, degrees) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.975, 0.9995])
@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 40, 999, 1000])
def test_the_distribution_function_of_a_quantile_is_its_probability(probability, degrees):
    # P(T <= t) = 1 - I_x(n/2, 1/2) / 2 at x = n / (n + t^2), for t >= 0.
    mpmath = pytest.importorskip("mpmath")
    t = t_quantile(probability, degrees)
    x = degrees / (degrees + mpmath.mpf(t) ** 2)
    below = 1 - mpmath.betainc(mpmath.mpf(degrees) / 2, 0.5, 0, x, regularized=True) / 2
    assert float(below) == pytest.approx(probability, abs=1e-11)


def test_many_degrees_approach_the_normal_quantile():
    assert t_quantile(0.975, 5000) == pytest.approx(1.959964, abs=5e-4)


@pytest.mark.parametrize(
    ("probability", "degrees", "message"),
    [(1.0, 2, "got 1.0"), (0.4, 2, "got 0.4"), (0.975, 0, "at least 1, got 0")],
)
def test_arguments_out_of_range_are_refused(probability, degrees, message):
    with pytest.raises(SettingsError, match=message):
        t_quantile(probability, degrees)
