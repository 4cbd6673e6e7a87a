"""A small built world and a few of its questions, shared by the tests of worlds."""

from random import Random

import pytest

from lab.worlds.countdown.base_model import make_tokenizer as make_countdown_tokenizer
from lab.worlds.countdown.kind import CountdownSizes
from lab.worlds.countdown.world import build_world as build_countdown
from lab.worlds.sql.base_model import make_tokenizer
from lab.worlds.sql.kind import SQLWorldSizes
from lab.worlds.sql.question_sets import draw_questions
from lab.worlds.sql.world import build_world

SMALL = SQLWorldSizes(train=40, in_domain=20, cross_domain=20, arithmetic=12, unlabelled=50)


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return build_world(tmp_path_factory.mktemp("world"), seed=0, sizes=SMALL)


@pytest.fixture(scope="session")
def questions(world):
    return draw_questions(world.databases, world.annotators, 300, Random(1))


@pytest.fixture(scope="session")
def oracles(world):
    return {database.name: database.oracle for database in world.databases}


@pytest.fixture(scope="session")
def world_tokenizer():
    return make_tokenizer()


FEW_PUZZLES = CountdownSizes(train=40, in_domain=20, cross_domain=20, unlabelled=15)


@pytest.fixture(scope="session")
def countdown(tmp_path_factory):
    return build_countdown(tmp_path_factory.mktemp("countdown"), seed=0, sizes=FEW_PUZZLES)


@pytest.fixture(scope="session")
def countdown_tokenizer():
    return make_countdown_tokenizer()
