import itertools
import random

import pytest
import torch
from torch import nn

from dph.errors import ModelError
from dph.model.forward import packed_attention
from dph.model.forward.packed_attention import PackedAttention
from dph.model.forward.packing import pack

CPU = torch.device("cpu")


def packed_rows(lengths, seed=0):
    """Rows by (prompt length, completion lengths), in shuffled order."""
    numbers = random.Random(seed)
    rows = []
    for prompt, completions in lengths:
        ids = [numbers.randrange(99) for _ in range(prompt)]
        rows += [(ids, [numbers.randrange(99) for _ in range(n)]) for n in completions]
    numbers.shuffle(rows)
    return pack([p for p, _ in rows], [c for _, c in rows], device=CPU, least_saved=0)


def nested_rows(seed=0):
    """Rows of few different tokens: trees of several levels, some rows within others."""
    numbers = random.Random(seed)
    lengths = [(numbers.randrange(1, 12), numbers.randrange(8)) for _ in range(24)]
    rows = [[[numbers.randrange(2) for _ in range(n)] for n in pair] for pair in lengths]
    return pack([p for p, _ in rows], [c for _, c in rows], device=CPU, least_saved=0)


SHAPES = {
    "one group": [(6, [4, 4, 4])],
    "ragged": [(9, [5, 1, 0, 7]), (2, [3, 8]), (5, [6]), (1, [2, 2])],
    "equal groups": [(4, [3, 3]), (4, [3, 3]), (4, [3, 3])],
    "singles": [(3, [2]), (6, [1]), (3, [4])],
    "nothing after the prompt": [(3, [1, 1]), (2, [0])],
    "nested": None,
}


def allowed(rows):
    """Which token sees which: own sequence causally, and for branches each stem above."""
    seen = torch.zeros(len(rows.ids), len(rows.ids), dtype=torch.bool)
    for span in rows.sequences:
        inside = slice(span.start, span.start + span.length)
        seen[inside, inside] = torch.ones(span.length, span.length, dtype=torch.bool).tril()
    for some in itertools.chain(*rows.levels):
        branches = slice(some.tokens.start, some.tokens.start + some.tokens.length)
        seen[branches, some.stem.start : some.stem.start + some.stem.length] = True
    return seen


def inputs(rows, kv_heads, dtype=torch.float64):
    torch.manual_seed(0)
    return [
        torch.randn(1, heads, len(rows.ids), 8, dtype=dtype, requires_grad=True)
        for heads in (4, kv_heads, kv_heads)
    ]


@pytest.mark.parametrize("waste", [0, 4096])
@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_packed_attention_is_masked_softmax_attention(
    monkeypatch, shape, dtype, kv_heads, softcap, waste
):
    monkeypatch.setattr(packed_attention, "_WASTE", waste)
    rows = packed_rows(SHAPES[shape]) if SHAPES[shape] else nested_rows()
    query, key, value = inputs(rows, kv_heads, dtype)
    repeats = 4 // kv_heads
    scores = query @ key.repeat_interleave(repeats, 1).transpose(-1, -2) * 0.4
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    weights = scores.masked_fill(~allowed(rows), -torch.inf).softmax(-1)
    expected = (weights @ value.repeat_interleave(repeats, 1)).transpose(1, 2)
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (query, key, value), grad)
    out = PackedAttention(rows)(nn.Identity(), query, key, value, scaling=0.4, softcap=softcap)
    found = torch.autograd.grad(out, (query, key, value), grad)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype is torch.float32 else {}
    torch.testing.assert_close(out, expected, **tolerance)
    torch.testing.assert_close(found, wanted, **tolerance)


def test_the_scaling_is_one_over_the_root_of_the_size_unless_given():
    rows = packed_rows(SHAPES["ragged"])
    tensors = inputs(rows, 2)
    attention = PackedAttention(rows)
    given = attention(nn.Identity(), *tensors, scaling=8**-0.5)
    torch.testing.assert_close(attention(nn.Identity(), *tensors), given, rtol=0, atol=0)


def test_inputs_of_any_layout_are_taken():
    rows = packed_rows(SHAPES["ragged"])
    tensors = inputs(rows, 2, torch.float32)
    odd = [x.detach().transpose(2, 3).contiguous().transpose(2, 3) for x in tensors]
    attention = PackedAttention(rows)
    expected = attention(nn.Identity(), *tensors)
    torch.testing.assert_close(attention(nn.Identity(), *odd), expected.detach())


def test_under_autocast_it_computes_in_its_dtype():
    rows = packed_rows(SHAPES["ragged"])
    tensors = inputs(rows, 2, torch.float32)
    expected = PackedAttention(rows)(nn.Identity(), *tensors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = PackedAttention(rows)(nn.Identity(), *tensors)
    assert out.dtype is torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0, atol=0.05)
    out.float().sum().backward()
    assert all(x.grad.isfinite().all() for x in tensors)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"s_aux": torch.zeros(4)}, "s_aux"),
        ({"dropout": 0.1}, "dropout"),
        ({"sliding_window": 5}, "a window of 5"),
    ],
)
def test_what_it_cannot_compute_is_refused(options, what):
    rows = packed_rows([(4, [3, 3])])
    with pytest.raises(ModelError, match=f"cannot compute {what}"):
        PackedAttention(rows)(nn.Identity(), *inputs(rows, 2), **options)


def test_a_window_as_long_as_the_rows_changes_nothing():
    rows = packed_rows([(4, [3, 3])])
    tensors = inputs(rows, 2)
    expected = PackedAttention(rows)(nn.Identity(), *tensors)
    found = PackedAttention(rows)(nn.Identity(), *tensors, sliding_window=6)
    assert found.equal(expected)


def test_many_small_groups_take_few_kernel_calls():
    attention = PackedAttention(packed_rows([(8 + i % 3, [4, 5, 3]) for i in range(40)]))
    assert len(attention.tables.causal) < 8
    assert len(attention.tables.shared) < 20


def test_levels_add_few_kernel_calls():
    rows = nested_rows()
    assert len(rows.levels) > 2
    assert len(PackedAttention(rows).tables.shared) < 3 * len(rows.levels)


def test_long_rows_of_unlike_lengths_are_not_padded_to_each_other():
    attention = PackedAttention(packed_rows([(500, [300, 10]), (100, [200, 150])]))
    assert all(table.count == 1 for table in attention.tables.causal)
    assert all(some.bias is None for some in attention.tables.shared)
