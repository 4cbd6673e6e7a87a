from math import exp, log

import pytest

from dph.errors import DataError
from dph.runs.evaluate.metrics import effective_styles, style_shares


def test_shares_are_fractions_in_alphabetical_order():
    shares = style_shares(["plain", "cte", "plain", "alias"])
    assert list(shares.items()) == [("alias", 0.25), ("cte", 0.25), ("plain", 0.5)]
    assert style_shares([]) == {}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_shares_count_as_many_styles_as_there_are(count):
    assert effective_styles({str(i): 1 / count for i in range(count)}) == pytest.approx(count)


def test_unequal_shares_count_as_the_exponential_of_their_entropy():
    expected = exp(-(0.9 * log(0.9) + 0.1 * log(0.1)))
    assert effective_styles({"a": 0.9, "b": 0.1, "never": 0.0}) == pytest.approx(expected)


def test_splitting_every_style_in_two_doubles_the_number():
    shares = {"a": 0.7, "b": 0.3}
    halves = {f"{name}{half}": share / 2 for name, share in shares.items() for half in (1, 2)}
    assert effective_styles(halves) == pytest.approx(2 * effective_styles(shares))


@pytest.mark.parametrize("shares", [{"a": 0.5}, {"a": 1.5, "b": -0.5}])
def test_what_is_no_set_of_shares_is_refused(shares):
    with pytest.raises(DataError, match="add up to 1"):
        effective_styles(shares)
