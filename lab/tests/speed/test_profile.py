import pytest

from lab.benchmarks.speed.profile import spent_in_update
from lab.benchmarks.speed.shapes import TINY, TINY_MODEL
from lab.benchmarks.speed.world import World


def test_the_shares_of_an_update_add_up_to_all_of_it():
    spent = spent_in_update(World(size=TINY_MODEL, shape=TINY))
    assert spent.keys() >= {"attention", "matrix products", "optimizer", "elsewhere"}
    assert spent["matrix products"] > 0
    assert sum(spent.values()) == pytest.approx(1, abs=0.01)
