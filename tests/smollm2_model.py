"""A real language model: ``make smollm2`` obtains it. A test that asks for it skips without."""

import pytest

from lab.smollm2 import smollm2_place


@pytest.fixture(scope="session")
def smollm2():
    found = smollm2_place()
    if found is None:
        pytest.skip("needs make smollm2")
    return found
