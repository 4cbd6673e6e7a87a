import pytest

from dph.errors import SettingsError
from dph_corpus.mix import ANNEALING, Mixture


def test_the_default_shares_are_the_published_ones_and_fill_the_budget():
    assert sum(ANNEALING.values()) == pytest.approx(100)
    quotas = Mixture(budget=10_000, shares=ANNEALING).quotas()
    assert quotas == {"code": 8394, "algorithmic": 1244, "synthetic": 271, "textbook": 91}


def test_numbers_out_of_range_are_refused():
    with pytest.raises(SettingsError, match="at least 1 byte"):
        Mixture(budget=0, shares={"a": 1})
    for share in (0, -1, float("nan"), float("inf")):
        with pytest.raises(SettingsError, match="the share of a"):
            Mixture(budget=1, shares={"a": share})
    for caps in ({"Java": 1}, {"java": -1}):
        with pytest.raises(SettingsError, match="a cap must be a language in lower case"):
            Mixture(budget=1, shares={"a": 1}, caps=caps)
