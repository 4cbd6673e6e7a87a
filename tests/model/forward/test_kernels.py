"""Attention kernels against a softmax in float64, parts that are merged, and CUDA's packed form."""

from itertools import accumulate

import pytest
import torch

from counting_device import CountingDevice
from counting_device.attention import PackedFlash
from dph.model.forward.kernels import (
    AttentionPart,
    Explicit,
    FlashCpu,
    Scoring,
    Segments,
    flash,
    flash_backward,
    kernel_for,
    merge,
    merge_evenly,
    takes_flash,
)

PLAIN = Scoring(0.3)
BIAS = torch.tensor([0.0, 0.0, 0.0, -torch.inf, 0.0, -torch.inf])[None, None, None]
SCORINGS = {
    "plain": PLAIN,
    "causal": Scoring(0.3, causal=True),
    "bias": Scoring(0.3, bias=BIAS.expand(2, 1, 1, 6)),
    "softcap": Scoring(0.3, softcap=0.5, causal=True),
}
CASES = [
    (kernel, name)
    for kernel in (FlashCpu(), Explicit())
    for name in SCORINGS
    if not (isinstance(kernel, FlashCpu) and name == "softcap")
]


def inputs(queries=6, keys=6, dtype=torch.float64):
    torch.manual_seed(0)
    return [torch.randn(2, 3, n, 4, dtype=dtype, requires_grad=True) for n in (queries, keys, keys)]


def scores(query, key, scoring):
    s = query @ key.transpose(-1, -2) * scoring.scaling
    if scoring.softcap:
        s = scoring.softcap * torch.tanh(s / scoring.softcap)
    if scoring.causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return s if scoring.bias is None else s + scoring.bias


@pytest.mark.parametrize(("kernel", "name"), CASES)
def test_values_log_sums_and_gradients_are_those_of_softmax_attention(kernel, name):
    query, key, value = inputs()
    s = scores(query, key, SCORINGS[name])
    expected = s.softmax(-1) @ value
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (query, key, value), grad)
    with torch.no_grad():
        out, log_sum = kernel.forward(query, key, value, SCORINGS[name])
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(log_sum.double(), s.logsumexp(-1), rtol=1e-6, atol=1e-6)
        part = AttentionPart(out, log_sum)
        found = kernel.backward(grad, (query, key, value), part, SCORINGS[name])
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def test_flash_is_chosen_for_what_it_can_compute():
    query, _, value = inputs(dtype=torch.float32)
    assert isinstance(kernel_for(query, value, softcap=None), FlashCpu)
    assert isinstance(kernel_for(query, value, softcap=3.0), Explicit)
    assert isinstance(kernel_for(query.double(), value.double(), softcap=None), Explicit)
    assert isinstance(kernel_for(query, value[..., :3], softcap=None), Explicit)
    meta = query.detach().to("meta")
    assert isinstance(kernel_for(meta, meta, softcap=None), Explicit)


@pytest.mark.parametrize(
    ("dtype", "softcap", "size"),
    [
        (torch.float32, None, 4),  # flash
        (torch.float32, 2.0, 4),  # softcap
        (torch.float32, None, 3),  # values of another size
        (torch.float64, None, 4),  # flash has no such type
    ],
)
def test_parts_merged_are_attention_over_all_keys_together(dtype, softcap, size):
    query, key, value = (x.detach() for x in inputs(queries=4, keys=9, dtype=dtype))
    value, scoring = value[..., :size], Scoring(0.4, softcap)
    kernel = kernel_for(query, value, softcap=softcap)
    first, second, third = (
        kernel.forward(query, key[:, :, a:b], value[:, :, a:b], scoring)
        for a, b in ((0, 4), (4, 6), (6, 9))
    )
    exact = scores(query.double(), key.double(), scoring)
    out, log_sum = exact.softmax(-1) @ value.double(), exact.logsumexp(-1)
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


@pytest.mark.parametrize("rows", [1, 7, 8, 15])
def test_a_row_merged_evenly_does_not_depend_on_the_rows_beside_it(rows):
    torch.manual_seed(0)
    parts = [AttentionPart(torch.randn(16, 3, 5, 8), torch.randn(16, 3, 5)) for _ in range(2)]
    some = [AttentionPart(part.out[:rows], part.log_sum[:rows]) for part in parts]
    assert merge_evenly(*some).equal(merge_evenly(*parts)[:rows])


@pytest.mark.parametrize(
    ("dtype", "size", "value_size", "softcap", "taken"),
    [
        (torch.bfloat16, 64, 64, None, True),
        (torch.float16, 256, 256, None, True),
        (torch.bfloat16, 8, 8, None, True),
        (torch.float32, 64, 64, None, False),
        (torch.float64, 64, 64, None, False),
        (torch.bfloat16, 12, 12, None, False),
        (torch.bfloat16, 264, 264, None, False),
        (torch.bfloat16, 64, 32, None, False),
        (torch.bfloat16, 64, 64, 30.0, False),
    ],
)
def test_packed_flash_is_taken_where_the_kernel_takes_it_and_on_a_cpu_or_before_ampere_never(
    monkeypatch, dtype, size, value_size, softcap, taken
):
    query, value = (torch.zeros(10, 4, n, dtype=dtype) for n in (size, value_size))
    assert not takes_flash(query, value, softcap=softcap)
    with CountingDevice() as device:
        there = device.send(query), device.send(value)
        assert takes_flash(*there, softcap=softcap) is taken
        assert isinstance(kernel_for(*there, softcap=softcap), Explicit)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
        assert not takes_flash(*there, softcap=softcap)


def test_the_operators_are_there_under_these_names_with_these_arguments():
    forward = torch.ops.aten._flash_attention_forward.default._schema
    places = ["cum_seq_q", "cum_seq_k", "max_q", "max_k", "dropout_p", "is_causal"]
    names = [a.name for a in forward.arguments]
    assert names[:10] == ["query", "key", "value", *places, "return_debug_mask"]
    assert {"scale", "seqused_k"} <= {a.name for a in forward.arguments if a.kwarg_only}
    assert len(forward.returns) == 5
    backward = torch.ops.aten._flash_attention_backward.default._schema
    names = [a.name for a in backward.arguments]
    assert names[:6] == ["grad_out", "query", "key", "value", "out", "logsumexp"]
    assert names[6:12] == places
    assert names[14] == "scale"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("used", [None, [7, 3, 0, 30]])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize(
    "lengths",
    [
        [(7, 7), (40, 40), (1, 5), (33, 300)],
        [(7, 7), (40, 40), (0, 5), (5, 33)],  # nobody asks for the third segment's keys
        [(1, 7), (1, 40), (1, 5), (1, 300)],  # the kernel moves grouped heads to the queries
    ],
)
def test_on_a_gpu_it_is_what_the_counting_device_computes(lengths, kv_heads, causal, used):
    torch.manual_seed(0)
    queries, keys = ([*accumulate(side, initial=0)] for side in zip(*lengths, strict=True))
    shapes = (queries[-1], 4), (keys[-1], kv_heads), (keys[-1], kv_heads), (queries[-1], 4)
    *tensors, grad = (torch.randn(*shape, 64).bfloat16() for shape in shapes)
    bounds = [torch.tensor(side, dtype=torch.int32) for side in (queries, keys)]
    longest = [max(side) for side in zip(*lengths, strict=True)]
    given = None if used is None else torch.tensor(used, dtype=torch.int32)
    plain, options = PackedFlash(exact=True), {"scale": 0.125, "seqused_k": given}
    exact = [x.double() for x in tensors]
    wanted = plain.forward(*exact, *bounds, *longest, 0.0, causal, False, **options)
    sent = [x.cuda() for x in tensors]
    segments = Segments(*(x.cuda() for x in bounds), *longest)
    given = None if given is None else given.cuda()
    part = flash(*sent, segments, scaling=0.125, causal=causal, used=given)
    close(part.out, wanted[0])
    torch.testing.assert_close(part.log_sum.cpu().double(), wanted[1], rtol=0, atol=3e-2)
    if used is None:
        state = wanted[2:4]
        rest = (grad.double(), *exact, *wanted[:2], *bounds, *longest, 0.0, causal, *state)
        found = flash_backward(grad.cuda(), *sent, part, segments, scaling=0.125, causal=causal)
        for ours, theirs in zip(found, plain.backward(*rest, scale=0.125), strict=True):
            close(ours, theirs)


def close(found, wanted, within=3e-2):
    assert found.shape == wanted.shape
    assert (found.cpu().double() - wanted).abs().max() <= within * wanted.abs().max()
