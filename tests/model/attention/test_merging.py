import pytest
import torch

from dph.model.attention.kernels import AttentionPart, Scoring, kernel_for, merge, merge_evenly

VARIANTS = [
    (torch.float32, None, 8),  # flash
    (torch.float32, 2.0, 8),  # softcap
    (torch.float32, None, 5),  # values of another size
    (torch.float64, None, 8),  # flash has no such type
]


def inputs(dtype, size, keys=9):
    torch.manual_seed(0)
    shapes = ((4, 8), (keys, 8), (keys, size))
    return [torch.randn(3, 2, *shape, dtype=torch.float32).to(dtype) for shape in shapes]


def attend(query, key, value, *, softcap):
    kernel = kernel_for(query, value, softcap=softcap)
    return kernel.forward(query, key, value, Scoring(0.4, softcap))


def oracle(query, key, value, *, softcap):
    """Attention and the log of the softmax's sum by their definition in float64."""
    query, key, value = query.double(), key.double(), value.double()
    scores = query @ key.transpose(2, 3) * 0.4
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    return scores.softmax(dim=-1) @ value, scores.logsumexp(dim=-1)


@pytest.mark.parametrize(("dtype", "softcap", "size"), VARIANTS)
def test_parts_merged_are_attention_over_all_keys_together(dtype, softcap, size):
    query, key, value = inputs(dtype, size)
    first, second, third = (
        attend(query, key[:, :, a:b], value[:, :, a:b], softcap=softcap)
        for a, b in ((0, 4), (4, 6), (6, 9))
    )
    out, log_sum = oracle(query, key, value, softcap=softcap)
    both = merge(merge(first, second), third)
    torch.testing.assert_close(both.out.double(), out, rtol=0, atol=1e-6)
    torch.testing.assert_close(both.log_sum.double(), log_sum, rtol=0, atol=1e-6)
    evenly = merge_evenly(merge(first, second), third)
    torch.testing.assert_close(evenly.double(), out, rtol=0, atol=1e-6)


def test_a_part_with_far_larger_scores_takes_all_the_weight():
    near, far = (
        AttentionPart(torch.ones(1, 1, 1, 1), torch.full((1, 1, 1), 500.0)),
        AttentionPart(torch.zeros(1, 1, 1, 1), torch.full((1, 1, 1), -500.0)),
    )
    for parts in [(near, far), (far, near)]:
        assert merge(*parts).out.item() == merge_evenly(*parts).item() == 1
        assert merge(*parts).log_sum.item() == 500


@pytest.mark.parametrize("rows", [1, 3, 7, 8, 15])
def test_a_row_merged_evenly_does_not_depend_on_the_rows_beside_it(rows):
    torch.manual_seed(0)
    first, second = (
        AttentionPart(torch.randn(16, 3, 5, 8), torch.randn(16, 3, 5)) for _ in range(2)
    )
    some = [AttentionPart(part.out[:rows], part.log_sum[:rows]) for part in (first, second)]
    assert merge_evenly(*some).equal(merge_evenly(first, second)[:rows])
