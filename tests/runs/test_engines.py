"""Every engine's stages are functions that can be found."""

from typing import get_args

import pytest

from dph.recipe import resolve_recipe
from dph.recipe.section import Engine
from dph.runs.run import stages_of

MODEL = {"model": {"path": "m"}, "data": {"train": "p.jsonl"}}


@pytest.mark.parametrize("engine", get_args(Engine))
def test_an_engine_has_every_stage(engine):
    stages = stages_of(resolve_recipe({**MODEL, "method": "grpo", "train": {"engine": engine}}))
    wanted = "dph.runs" if engine == "own" else "dph.engines.stages"
    assert stages.train.__module__.startswith(wanted)
    assert stages.check.__module__.startswith(wanted)
    assert callable(stages.presample)
