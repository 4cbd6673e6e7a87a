import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.model.sampler.torch import decoding as module
from dph.model.sampler.torch.decoding import nucleus


def by_sorting_everything(probabilities, top_p):
    """1 for the shortest prefix of a stable descending sort that reaches ``top_p``."""
    values, order = probabilities.sort(dim=-1, descending=True, stable=True)
    kept = (values.cumsum(dim=-1, dtype=torch.float64) - values) < top_p
    kept[:, 0] = True
    return torch.zeros_like(probabilities).scatter(1, order, kept.to(probabilities.dtype))


@settings(deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from([1, 5, 40]),
    st.sampled_from([0.1, 1.0, 4.0]),
    st.sampled_from([0.05, 0.5, 0.95, 0.999]),
    st.booleans(),
)
def test_the_largest_values_alone_give_what_sorting_everything_gives(
    seed, prefix, spread, top_p, with_ties
):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(6, 40, generator=generator) * spread
    probabilities = torch.softmax(logits.round() if with_ties else logits, dim=-1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PREFIX", prefix)
        found = nucleus(probabilities, top_p=top_p)
    torch.testing.assert_close(found, by_sorting_everything(probabilities, top_p), rtol=0, atol=0)


def test_a_topk_on_the_device_gives_the_same_values_as_numpy():
    values = torch.rand(3, 40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(module._largest(values, 7), values.topk(7, dim=-1).values)


def test_flat_and_peaked_rows_of_one_batch_at_a_real_vocabulary():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 5000, generator=generator) * torch.tensor([[0.0], [1], [4], [9], [50]])
    probabilities = torch.softmax(logits, dim=-1)
    found = nucleus(probabilities, top_p=0.9)
    assert found[0].sum() > 4000
    assert found[4].sum() == 1
    torch.testing.assert_close(found, by_sorting_everything(probabilities, 0.9), rtol=0, atol=0)
