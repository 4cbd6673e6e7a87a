"""A small built Countdown world, shared by its tests."""

import pytest

from lab.worlds.countdown.base_model import make_tokenizer
from lab.worlds.countdown.kind import CountdownSizes
from lab.worlds.countdown.world import build_world

SMALL = CountdownSizes(train=40, in_domain=20, cross_domain=20, unlabelled=15)


@pytest.fixture(scope="session")
def countdown(tmp_path_factory):
    return build_world(tmp_path_factory.mktemp("countdown"), seed=0, sizes=SMALL)


@pytest.fixture(scope="session")
def countdown_tokenizer():
    return make_tokenizer()
