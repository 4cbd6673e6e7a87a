import pytest
import torch
from transformers.cache_utils import DynamicLayer

from dph.rollout.cache import SlabLayer, attends_plainly
from tiny_models import build_model


def test_a_slab_returns_what_a_growing_cache_returns_through_any_series_of_steps():
    torch.manual_seed(0)
    slab, grown = SlabLayer(9), DynamicLayer()
    rows = 3
    for tokens, keep in [(4, [0, 0, 1, 2]), (1, None), (2, [3, 1]), (1, [0]), (1, None)]:
        keys, values = torch.randn(rows, 2, tokens, 5), torch.randn(rows, 2, tokens, 5)
        for ours, theirs in zip(slab.update(keys, values), grown.update(keys, values), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        assert slab.get_seq_length() == grown.get_seq_length()
        if keep is not None:
            slab.batch_select_indices(torch.tensor(keep))
            grown.batch_select_indices(torch.tensor(keep))
            rows = len(keep)
    assert slab.get_mask_sizes(1) == grown.get_mask_sizes(1)


@pytest.mark.parametrize(
    ("family", "tokens", "plain"),
    [
        ("llama", 64, True),
        ("qwen2", 64, True),
        ("gpt2", 64, True),
        ("gemma2", 64, True),
        ("gemma2", 65, False),
        ("mistral_window", 5, True),
        ("mistral_window", 6, False),
        ("bloom", 5, False),
    ],
)
def test_attention_is_plain_unless_a_window_is_too_short_or_positions_are_in_the_mask(
    family, tokens, plain
):
    assert attends_plainly(build_model(family), tokens=tokens) is plain
