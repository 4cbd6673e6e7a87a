"""Worlds that are written once, by all kinds whose base model is trained from scratch."""

from functools import partial

import pytest

from lab.tests.worlds.conftest import FEW_PUZZLES, SMALL, build_countdown, build_world
from lab.worlds import fingerprint

BUILT = {
    "countdown": partial(build_countdown, sizes=FEW_PUZZLES),
    "world": partial(build_world, sizes=SMALL),
}


@pytest.fixture(params=BUILT)
def build(request):
    return BUILT[request.param]


def contents(directory):
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory): path.read_bytes() for path in files}


def test_the_same_seed_gives_byte_identical_files_and_another_seed_others(build, tmp_path):
    zero, again, other = (build(tmp_path / f"{i}", seed=seed) for i, seed in enumerate((0, 0, 1)))
    assert contents(again.directory) == contents(zero.directory)
    assert fingerprint(other) != fingerprint(zero)
    train = [world.problems_path("train").read_bytes() for world in (zero, other)]
    assert train[0] != train[1]


def test_a_complete_world_is_kept_and_a_damaged_one_is_made_whole(build, tmp_path):
    world, intact = build(tmp_path, seed=2), contents(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    build(tmp_path, seed=2)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    world.problems_path("train").write_text("damaged")
    build(tmp_path, seed=2)
    assert contents(tmp_path) == intact
    for path in (min(intact), max(intact)):  # a database, where there are any, and world.json
        (tmp_path / path).unlink()
        build(tmp_path, seed=2)
        assert contents(tmp_path) == intact
