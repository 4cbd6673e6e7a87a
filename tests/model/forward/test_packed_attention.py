import pytest
import torch
from torch import nn

from dph.errors import ModelError
from dph.model.forward import packed_attention
from dph.model.forward.packed_attention import PackedAttention
from packed_rows import SHAPES, inputs, masked_attention, packed_rows, with_borrowed


@pytest.mark.parametrize("waste", [0, 4096])
@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize(
    ("kv_heads", "dtype"), [(4, torch.float64), (2, torch.float64), (1, torch.float32)]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_packed_attention_is_masked_softmax_attention(
    monkeypatch, shape, dtype, kv_heads, softcap, waste
):
    monkeypatch.setattr(packed_attention, "_WASTE", waste)
    rows = packed_rows(shape)
    tensors = [x.requires_grad_() for x in inputs(rows, kv_heads, dtype)]
    expected = masked_attention(rows, *tensors, softcap=softcap)
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, tensors, grad)
    out = PackedAttention(rows)(nn.Identity(), *tensors, scaling=0.4, softcap=softcap)
    found = torch.autograd.grad(out, tensors, grad)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype is torch.float32 else {}
    torch.testing.assert_close(out, expected, **tolerance)
    torch.testing.assert_close(found, wanted, **tolerance)


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_keys_behind_those_of_the_rows_are_stems_like_others_without_gradient(shape, kv_heads):
    rows = with_borrowed(packed_rows(shape))
    tensors = [x.requires_grad_() for x in inputs(rows, kv_heads, keys=len(rows.ids) + 8)]
    out = PackedAttention(rows)(nn.Identity(), *tensors, scaling=0.4)
    torch.testing.assert_close(out, masked_attention(rows, *tensors))
    with pytest.raises(AssertionError, match="have no gradient"):
        out.sum().backward()


def test_inputs_of_any_layout_are_taken_and_the_scaling_is_one_over_the_root_of_the_size():
    rows = packed_rows("ragged")
    tensors, attention = inputs(rows, 2, torch.float32), PackedAttention(rows)
    expected = attention(nn.Identity(), *tensors)
    given = attention(nn.Identity(), *tensors, scaling=8**-0.5)
    torch.testing.assert_close(given, expected, rtol=0, atol=0)
    odd = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in tensors]
    torch.testing.assert_close(attention(nn.Identity(), *odd), expected)


def test_under_autocast_it_computes_in_its_dtype():
    rows = packed_rows("ragged")
    tensors = [x.requires_grad_() for x in inputs(rows, 2, torch.float32)]
    expected = PackedAttention(rows)(nn.Identity(), *tensors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = PackedAttention(rows)(nn.Identity(), *tensors)
    assert out.dtype is torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0, atol=0.05)
    out.float().sum().backward()
    assert all(x.grad.isfinite().all() for x in tensors)


def test_what_it_cannot_compute_is_refused_and_a_window_as_long_as_the_rows_changes_nothing():
    rows = packed_rows([(4, [3, 3])])
    attention, tensors = PackedAttention(rows), inputs(rows, 2)
    for options, what in (
        ({"s_aux": torch.zeros(4)}, "s_aux"),
        ({"dropout": 0.1}, "dropout"),
        ({"sliding_window": 5}, "a window of 5"),
    ):
        with pytest.raises(ModelError, match=f"cannot compute {what}"):
            attention(nn.Identity(), *tensors, **options)
    expected = attention(nn.Identity(), *tensors)
    assert attention(nn.Identity(), *tensors, sliding_window=6).equal(expected)


def kernel_calls(shape):
    """Tables of nodes, and tables of branches and stems."""
    tables = PackedAttention(packed_rows(shape)).tables
    causal = [some for some in tables if some.causal]
    assert tables[: len(causal)] == causal
    return causal, tables[len(causal) :]


def test_small_groups_and_levels_take_few_kernel_calls_and_unlike_lengths_are_not_padded():
    causal, shared = kernel_calls([(8 + i % 3, [4, 5, 3]) for i in range(40)])
    assert (len(causal) < 8, len(shared) < 20) == (True, True)
    levels = packed_rows("nested").levels
    assert len(levels) > 2
    assert len(kernel_calls("nested")[1]) < 3 * len(levels)
    causal, shared = kernel_calls([(500, [300, 10]), (100, [200, 150])])
    assert all(some.queries.count == 1 for some in causal)
    assert all(some.bias is None for some in shared)
