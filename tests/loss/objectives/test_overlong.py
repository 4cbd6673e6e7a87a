import math

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.objectives import overlong_penalty


def test_falls_linearly_over_the_buffer_and_stays_at_the_penalty():
    lengths = torch.tensor([0, 5, 6, 7, 8, 9, 10, 11, 100])
    penalties = overlong_penalty(lengths, max_tokens=10, buffer=4)
    assert penalties.tolist() == [0.0, 0.0, 0.0, -0.25, -0.5, -0.75, -1.0, -1.0, -1.0]


def test_the_penalty_scales_all_of_it():
    lengths = torch.tensor([6, 8, 12])
    assert overlong_penalty(lengths, max_tokens=10, buffer=4, penalty=0.5).tolist() == [
        0.0,
        -0.25,
        -0.5,
    ]


def test_the_buffer_may_be_the_whole_length():
    assert overlong_penalty(torch.tensor([0, 5]), max_tokens=10, buffer=10).tolist() == [0.0, -0.5]


def test_no_answers_have_no_penalties():
    empty = torch.zeros(0, dtype=torch.long)
    assert overlong_penalty(empty, max_tokens=10, buffer=4).shape == (0,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buffer": 0}, "buffer=0, max_tokens=10"),
        ({"buffer": 11}, "buffer=11, max_tokens=10"),
        ({"buffer": 4, "penalty": -1.0}, "at least 0, got -1.0"),
        ({"buffer": 4, "penalty": math.inf}, "finite and at least 0, got inf"),
    ],
)
def test_a_bad_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        overlong_penalty(torch.tensor([1]), max_tokens=10, **settings)
