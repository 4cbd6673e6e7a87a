import pytest
import torch

from dph.errors import DataError
from dph.loss.objectives import (
    AlphaDPG,
    BayesianBoundaryGateOfGroup,
    DifferentialSmoothing,
    FocalAdvantage,
    GroupSamples,
    MaxRL,
    PassAtK,
    UniformCorrect,
)
from dph.recipe.advantages import ADVANTAGES

TERMS = {
    "maxrl": MaxRL(),
    "f_grpo": FocalAdvantage(),
    "ucpo": UniformCorrect(),
    "pass_at_k": PassAtK(2),
    "differential_smoothing": DifferentialSmoothing(),
    "alpha_dpg": AlphaDPG(),
    "bbg_group": BayesianBoundaryGateOfGroup(),
}


def test_the_table_of_advantages_marks_those_that_count():
    assert {name for name, row in ADVANTAGES.items() if row.counts} == set(TERMS)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("reward", [0.5, -1.0, 2.0, float("nan")])
def test_an_advantage_that_counts_right_answers_refuses_other_rewards(name, reward):
    rewards = torch.tensor([[1.0, 0.0, reward]])
    samples = GroupSamples(logprobs=torch.zeros(1, 3), lengths=torch.ones(1, 3).long())
    term = TERMS[name]
    with pytest.raises(DataError, match=rf"'{name}' needs rewards of 0 or 1, got {reward:g}"):
        term(rewards, samples) if hasattr(term, "reads") else term(rewards)
