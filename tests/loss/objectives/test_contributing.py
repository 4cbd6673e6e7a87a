"""The example of CONTRIBUTING: a file with a formula and one row are a method."""

import re
import sys
import textwrap
from pathlib import Path
from types import MappingProxyType

import pytest
import torch

from dph.loss.objectives import make_objective
from dph.recipe import resolve_recipe
from dph.recipe import terms as term
from dph.recipe.objective import AdvantageSettings
from dph.recipe.terms import ADVANTAGES
from own_advantage import relative_to_mean

TEXT = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
REWARDS = torch.tensor([[1.0, 0.0, 0.5, 0.5], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


def block(start):
    code = re.search(rf"{start}.*?```python\n(.*?) *```", TEXT, re.DOTALL).group(1)
    return textwrap.dedent(code)


@pytest.fixture
def relative(tmp_path, monkeypatch):
    """The file and the row, as a contributor would write them."""
    code = block("<!-- example: method -->")
    (tmp_path / "relative_of_a_contributor.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    row = block("2. One row in the table").replace("    ...\n", "")
    row = row.replace("dph.loss.objectives.relative", "relative_of_a_contributor")
    names = {"Term": term.Term, "parameters": term.parameters}
    exec(row, names)
    table = MappingProxyType({**ADVANTAGES, **names["ADVANTAGES"]})
    monkeypatch.setattr(AdvantageSettings, "table", table)
    yield "relative"
    sys.modules.pop("relative_of_a_contributor", None)


def test_the_example_is_a_method_of_a_recipe_and_computes_its_formula(relative):
    recipe = resolve_recipe(
        {
            "model": {"path": "m"},
            "data": {"train": "t.jsonl"},
            "objective": {"advantage": {"kind": relative}},
        }
    )
    found = make_objective(recipe.objective).advantage(REWARDS)
    assert found.tolist() == [[1, -1, 0, 0], [3, -1, -1, -1], [0, 0, 0, 0]]
    assert torch.equal(found, relative_to_mean(REWARDS))
