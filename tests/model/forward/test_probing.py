import math

import pytest
import torch
from torch import nn
from transformers import LlamaConfig

from dph.model.forward.probing import (
    COUNT,
    DRAWS,
    own_logits,
    probe_tokens,
    root_mean_square,
    rounded_anew,
)
from tiny_models import build_model


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.nothing = nn.Dropout(0.5)
        self.twice = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.twice.weight, 2.0)
        self.eval()

    def forward(self, x):
        return self.twice(self.nothing(x))


@pytest.mark.parametrize(
    ("dtype", "bits"), [(torch.float32, 23), (torch.bfloat16, 7), (torch.float64, 52)]
)
def test_a_number_moves_by_its_rounding_up_or_down(dtype, bits):
    # The output is 3 = 1.5 x 2, where numbers lie 2 x 2^-bits apart: it moves by one or two.
    model, spacing = Doubled().to(dtype), 2.0**-bits
    x = torch.full((64, 1), 1.5, dtype=dtype)
    with torch.no_grad(), rounded_anew(model):
        moved = (model(x) - 3).unique()
    assert moved.min() < 0 < moved.max()
    assert moved.abs().max() <= 4 * spacing
    assert torch.equal(model(x), torch.full_like(x, 3))


def test_a_draw_is_the_same_each_time_another_is_not_and_random_numbers_are_left_alone():
    model, x = build_model("llama"), torch.tensor([[5, 6, 7]])
    torch.manual_seed(3)
    state = torch.get_rng_state()
    found = []
    for draw in (0, 0, 1):
        with torch.no_grad(), rounded_anew(model, draw):
            found.append(model(input_ids=x).logits)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_two_movements_agree_and_more_do_not():
    model = build_model("llama")
    with torch.no_grad():
        (own,) = own_logits(model, [([5, 6, 7, 8], 2)])
    assert own.values.shape == (2, 48)
    assert own.moved.shape == (DRAWS, 2, 48)
    movement = root_mean_square(own.moved, own.values)
    assert 0 < movement < 1e-4
    off = torch.ones_like(own.values) * movement
    assert own.agree_with(own.values)
    assert own.agree_with(own.values + 1.9 * off)
    assert not own.agree_with(own.values + 2.2 * off)


def test_rows_of_different_lengths_go_through_the_model_together_and_see_no_padding():
    model, rows = build_model("llama"), [([5, 6, 7, 8], 2), ([9, 4], 1)]
    with torch.no_grad():
        for own, row in zip(own_logits(model, rows), rows, strict=True):
            assert own.moved.shape == (DRAWS, row[1], 48)
            torch.testing.assert_close(own.values, own_logits(model, [row])[0].values)


def test_a_distance_is_that_of_an_element_and_lost_weights_have_none():
    assert root_mean_square(torch.tensor([3.0, 4.0]), torch.zeros(2)) == pytest.approx(
        math.sqrt(12.5)
    )
    assert root_mean_square(torch.tensor([math.nan]), torch.tensor([math.nan])) == 0


CONFIG = LlamaConfig(vocab_size=1000, bos_token_id=1, eos_token_id=[2, 3], pad_token_id=None)


def test_probe_tokens_are_the_first_of_the_prompts_then_others_the_same_each_time():
    prompts = [[1, 50, 60, 50, 2], [50, 70, 3, *range(80, 100)]]
    assert probe_tokens(CONFIG, prompts) == [50, 60, 70, *range(80, 87)]  # none frames a text
    found = probe_tokens(CONFIG, [[1, 50]])
    assert found[0] == 50
    assert len(set(found) - {1, 2, 3}) == len(set(probe_tokens(CONFIG, []))) == COUNT
    assert found == probe_tokens(CONFIG, [[50]])
    tiny = LlamaConfig(vocab_size=5, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    assert sorted(set(probe_tokens(tiny, []))) == [3, 4]
    assert len(probe_tokens(tiny, [])) == COUNT
    assert probe_tokens(LlamaConfig(vocab_size=3, pad_token_id=0), [[1]]) == [0] * COUNT
