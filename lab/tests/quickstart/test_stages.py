"""Stages of a quickstart: what comes before what, and what may run side by side."""

import pytest

from dph.recipe import resolve_recipe
from lab.quickstart.stages import QuickstartStage, _next, method_stages, stages_of


def recipe(method, tmp_path):
    table = {
        "name": method,
        "method": method,
        "model": {"path": str(tmp_path)},
        "data": {"train": "train.jsonl", "verifier": "number"},
    }
    if method == "dph_broad":
        table["stores"] = {n: {"file": "asked.jsonl", "tilt": 0.0} for n in ("broad", "after")}
    return resolve_recipe(table)


@pytest.fixture
def recipes(tmp_path):
    return [recipe(method, tmp_path) for method in ("grpo", "dph_f", "dph_broad")]


def in_order(stages):
    """The ids as one process runs them."""
    waiting, undone, found = list(stages), {stage.id for stage in stages}, []
    while waiting:
        stage = _next(waiting, undone)
        found.append(stage.id)
        undone.remove(stage.id)
    return found


def test_what_makes_stores_begins_first_and_waits_for_no_pool(recipes):
    assert in_order(stages_of(recipes)) == [
        "train dph_broad",
        "presample",
        "evaluate base",
        "evaluate dph_broad",
        "train grpo",
        "evaluate grpo",
        "train dph_f",
        "evaluate dph_f",
    ]


def test_what_reads_the_pool_waits_for_it_and_every_evaluation_for_that_of_the_base(recipes):
    needs = {stage.id: stage.needs for stage in stages_of(recipes)}
    assert needs == {
        "presample": set(),
        "evaluate base": set(),
        "train grpo": set(),
        "train dph_f": {"presample"},
        "train dph_broad": set(),
        **{
            f"evaluate {name}": {f"train {name}", "evaluate base"}
            for name in ("grpo", "dph_f", "dph_broad")
        },
    }


def test_what_is_not_among_the_stages_is_there_already(recipes):
    assert in_order(method_stages(recipes[1:2])) == ["train dph_f", "evaluate dph_f"]


def test_nothing_begins_before_what_it_needs(recipes):
    train, evaluate = method_stages(recipes[:1])
    waiting = [evaluate]
    assert _next(waiting, {train.id, evaluate.id}) is None
    assert waiting == [evaluate]
    assert _next(waiting, {evaluate.id}) == evaluate
    assert waiting == []


def test_shared_stages_are_called_alike_whatever_recipe_they_are_done_for(recipes):
    assert {QuickstartStage("presample", one).id for one in recipes} == {"presample"}
