from dph.cli.display.recipe_plan import stages
from dph.recipe import resolve_recipe

MINIMAL = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}


def test_an_advantage_other_than_grpos_is_told_and_what_needs_a_pool_makes_one():
    (training, *_) = stages(resolve_recipe({**MINIMAL, "method": "ucpo"}))
    assert "x 8 samples, advantage ucpo (0.2, std), 2 mini-batches" in training
    assert "advantage" not in stages(resolve_recipe({**MINIMAL, "method": "grpo"}))[0]
    presampling, training, *_ = stages(resolve_recipe({**MINIMAL, "method": "bbg"}))
    assert presampling.startswith("pre-sample")
    assert "advantage bbg (16, 0.01, std)" in training
