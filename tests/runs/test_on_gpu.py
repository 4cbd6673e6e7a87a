import json
from math import isfinite
from numbers import Real

import pytest
import torch

import dph
from dph.recipe import METHODS
from dph.tasks.problems import save_problems
from letter_task import UNLABELLED

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"


def sections(method, unlabelled):
    """What the method needs beyond the letter task: prompts without labels, larger groups."""
    found = {"model": {"device": DEVICE}}
    if method == "pass_at_k":
        found["train"] = {"samples_per_problem": 8}
    if "self_consistency" in METHODS[method]:
        found["self_consistency"] = {
            "problems_per_step": 2,
            "file": str(unlabelled),
            "agreement": "own_agreement:first_letter",
            "novel": False,
        }
    return found


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_to_its_end(method, make_recipe, tmp_path):
    unlabelled = tmp_path / "unlabelled.jsonl"
    save_problems(unlabelled, UNLABELLED)
    recipe = make_recipe(method, **sections(method, unlabelled))
    done = dph.run(recipe, tmp_path / "run")
    assert done.trained.step == recipe.train.steps
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    numbers = [x for line in lines for x in json.loads(line).values() if isinstance(x, Real)]
    assert numbers
    assert all(map(isfinite, numbers))
