import json

import pytest

from dph.errors import DataError, SettingsError
from dph.tasks.problems import load_problems
from lab.tests.worlds.conftest import FEW_PUZZLES as SMALL
from lab.worlds import PARTS, UNLABELLED
from lab.worlds.countdown.kind import CountdownSizes
from lab.worlds.countdown.world import OTHERS, TRAINED, build_world, solutions
from small_study import run_here

SETS = ("train", "in_domain", "cross_domain", UNLABELLED)


def rows(world, name):
    return [json.loads(line) for line in world.problems_path(name).read_text().splitlines()]


def test_the_usual_sizes_are_those_of_the_document(tmp_path):
    world = build_world(tmp_path, seed=4)
    assert [len(rows(world, name)) for name in SETS] == [600, 300, 300, 1200]


def test_no_puzzle_occurs_in_two_sets_in_whatever_order_its_numbers_are(countdown):
    files = {path.name for path in countdown.directory.iterdir()}
    assert files == {*(f"{name}.jsonl" for name in SETS), "world.json"}
    of_sets = {name: rows(countdown, name) for name in SETS}
    sizes = {"train": 40, "in_domain": 20, "cross_domain": 20, UNLABELLED: 30}
    assert {name: len(items) for name, items in of_sets.items()} == sizes
    keys = [puzzle.key for name in SETS for puzzle in countdown.puzzles(name)]
    assert len(set(keys)) == len(keys) == 110
    assert len({row["problem_id"] for items in of_sets.values() for row in items}) == 110
    with pytest.raises(SettingsError, match="in_domain needs at least 1"):
        CountdownSizes(in_domain=0)


def test_every_puzzle_lies_in_its_domain_and_has_a_solution(countdown):
    for name, domain in (("train", TRAINED), ("in_domain", TRAINED), ("cross_domain", OTHERS)):
        for row, puzzle in zip(rows(countdown, name), countdown.puzzles(name), strict=True):
            assert (list(puzzle.numbers), puzzle.target) == (row["numbers"], row["target"])
            assert len(puzzle.numbers) == domain.count
            assert solutions(puzzle).derivations > 0


def test_unlabelled_prompts_come_in_two_parts_and_hold_nothing_but_the_prompt(countdown):
    unlabelled = rows(countdown, UNLABELLED)
    assert all(set(row) == {"problem_id", "prompt", "part"} for row in unlabelled)
    assert [row["part"] for row in unlabelled] == [PARTS[0]] * 15 + [PARTS[1]] * 15
    for row, puzzle in zip(unlabelled, countdown.puzzles(UNLABELLED), strict=True):
        assert len(puzzle.numbers) == (4 if row["part"] == "trained" else 3)
        assert solutions(puzzle).derivations > 0
    assert len(load_problems(countdown.problems_path(UNLABELLED))) == 30


def test_a_directory_with_another_world_is_refused(countdown, world):
    with pytest.raises(DataError, match="holds a world with seed=0, not 1"):
        build_world(countdown.directory, seed=1, sizes=SMALL)
    with pytest.raises(DataError, match="sizes"):
        build_world(countdown.directory, seed=0)
    with pytest.raises(DataError, match="holds a world with task=None, not countdown"):
        build_world(world.directory, seed=0, sizes=SMALL)


@pytest.mark.slow
def test_it_runs_from_the_world_to_the_scores(tmp_path):
    sizes = {"train": 8, "in_domain": 3, "cross_domain": 3, "unlabelled": 1}
    _, _, rows = run_here(tmp_path, "countdown", sizes)
    assert {row.method for row in rows.values()} == {"base", "grpo"}
    for row in rows.values():
        assert {score.set for score in row.scores} == {"in_domain", "cross_domain"}
