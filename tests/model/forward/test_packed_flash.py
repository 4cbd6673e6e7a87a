"""FlashAttention's form of packed attention on a counting device, whose kernels are exact sums."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from counting_device import CountingDevice
from dph.model.forward import packed_attention
from dph.model.forward.packed_attention import PackedAttention
from dph.model.forward.packing import pack
from packed_rows import SHAPES, inputs, masked_attention, packed_rows, rows_of, with_borrowed

CUDA = torch.device("cuda")
BETWEEN = [(5, [4, 4]), (3, [2]), (4, [3, 3])]
"""A root without branches stands between two with some."""
LONG = [(300, [40, 200, 130]), (70, [90]), (1, [99])]


@pytest.fixture
def exact(monkeypatch):
    """A device whose FlashAttention takes every dtype."""
    monkeypatch.setattr(packed_attention, "takes_flash", lambda *_, **__: True)
    with CountingDevice(exact=True) as device:
        yield device


@pytest.fixture
def device():
    with CountingDevice() as device:
        yield device


def on_device(device, shape, tensors):
    """The shape's rows and the tensors on the device."""
    sent = [device.send(x).requires_grad_(x.requires_grad) for x in tensors]
    return PackedAttention(packed_rows(shape, device=CUDA)), sent


def compare(device, shape, kv_heads, dtype, **tolerance):
    rows = packed_rows(shape)
    tensors = [x.requires_grad_() for x in inputs(rows, kv_heads, dtype)]
    attention, sent = on_device(device, shape, tensors)
    with device.counting("forward") as counts:
        out = attention(nn.Identity(), *sent, scaling=0.4)
    assert counts.by_operation()["_flash_attention_forward"] >= 1 + len(rows.levels)
    grad = torch.randn(out.shape).to(dtype)
    with device.counting("backward") as counts:
        found = torch.autograd.grad(out, sent, device.send(grad))
    assert counts.by_operation()["_flash_attention_backward"] >= 1 + len(rows.levels)
    exact = [x.detach().double().requires_grad_() for x in tensors]
    expected = masked_attention(rows, *exact)
    wanted = torch.autograd.grad(expected, exact, grad.double())
    for ours, theirs in zip((out, *found), (expected, *wanted), strict=True):
        assert ours.dtype is dtype
        values = device.numbers(ours).double()
        torch.testing.assert_close(values, theirs, **tolerance)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("shape", [*SHAPES, BETWEEN])
def test_it_is_masked_softmax_attention(exact, shape, kv_heads):
    compare(exact, shape, kv_heads, torch.float64)


@pytest.mark.parametrize("shape", [*SHAPES, BETWEEN])
def test_in_bfloat16_it_is_as_exact_as_bfloat16_is(device, shape):
    compare(device, shape, 2, torch.bfloat16, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("shape", [*SHAPES, BETWEEN])
def test_keys_behind_those_of_the_rows_are_stems_like_others(exact, shape):
    rows = with_borrowed(packed_rows(shape, device=CUDA))
    tensors = inputs(rows, 2, keys=len(rows.ids) + 8)
    attention = PackedAttention(rows)
    out = attention(nn.Identity(), *map(exact.send, tensors), scaling=0.4)
    torch.testing.assert_close(exact.numbers(out), masked_attention(rows, *tensors))


def test_a_layer_that_is_computed_again_has_the_same_values_and_gradients(exact):
    attention, tensors = on_device(
        exact, "nested", [x.requires_grad_() for x in inputs(packed_rows("nested"), 2)]
    )

    def layer(*tensors):
        return attention(nn.Identity(), *tensors).square()

    out = layer(*tensors)
    again = checkpoint(layer, *tensors, use_reentrant=False)
    assert exact.numbers(again).equal(exact.numbers(out))
    found, wanted = (torch.autograd.grad(x.sum(), tensors) for x in (again, out))
    for ours, theirs in zip(found, wanted, strict=True):
        assert exact.numbers(ours).equal(exact.numbers(theirs))


def counted(prompts, completions, *, levels):
    """Launches of packing, forward and backward in bfloat16, none of which waits."""
    with CountingDevice() as device:
        with device.counting("pack") as packing:
            rows = pack(prompts, completions, device=CUDA)
            attention = PackedAttention(rows)
        assert len(rows.levels) == levels
        tensors = [device.send(x).requires_grad_() for x in inputs(rows, 2, torch.bfloat16)]
        tables = attention.calls  # copied when the first layer asks
        with device.counting("forward") as forward:
            out = attention(nn.Identity(), *tensors)
        grad = device.send(torch.randn(out.shape).bfloat16())
        with device.counting("backward") as backward:
            torch.autograd.grad(out, tensors, grad)
        assert attention.calls is tables
    counts = (packing, forward, backward)
    assert [count.waits for count in counts] == [0, 0, 0]
    return tuple(count.launches for count in counts)


def test_a_layer_launches_the_same_kernels_for_4_and_400_rows():
    # Two calls and a merge of five; backward 2 x (3 + 2 for grouped heads), 3 sums and a copy.
    for samples in (2, 20, 200):
        lengths = [5 + i % 7 for i in range(samples)]
        assert counted(*rows_of([(60, lengths), (80, lengths)]), levels=1) == (1, 7, 14)


def test_two_levels_launch_the_same_kernels_for_few_and_many_rows():
    found = set()
    for samples in (2, 20):
        schemas = [[schema] * 50 for schema in range(4)]
        questions = [[*schema, *[question] * 50] for schema in schemas for question in (5, 6)]
        rows = [(ids, [100 + i] * 3) for ids in questions for i in range(samples)]
        found.add(counted(*zip(*rows, strict=True), levels=2))
    assert len(found) == 1


def test_autocast_decides_which_form_computes_and_neither_waits(device):
    rows = packed_rows("ragged", device=CUDA)
    tensors = [device.send(x) for x in inputs(rows, 2, torch.float32)]
    attention = PackedAttention(rows)
    with device.counting("float32") as plain:
        exact = attention(nn.Identity(), *tensors)
    with torch.autocast("cuda", dtype=torch.bfloat16), device.counting("autocast") as narrow:
        rough = attention(nn.Identity(), *tensors)
    assert "_flash_attention_forward" not in plain.by_operation()
    assert narrow.by_operation()["_flash_attention_forward"] == 2
    assert (plain.waits, narrow.waits) == (0, 0)
    expected = device.numbers(exact)
    torch.testing.assert_close(device.numbers(rough).float(), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize(
    "odd", [{"softcap": 2.0}, {"size": 12}, {"dtype": torch.float32}, {"dtype": torch.float64}]
)
def test_what_flash_attention_does_not_take_is_computed_by_tables(device, odd):
    rows = packed_rows("ragged", device=CUDA)
    dtype = odd.get("dtype", torch.bfloat16)
    tensors = inputs(rows, 2, dtype, size=odd.get("size", 8))
    softcap = odd.get("softcap")
    with device.counting("layer") as counts:
        out = PackedAttention(rows)(
            nn.Identity(), *map(device.send, tensors), scaling=0.4, softcap=softcap
        )
    assert "_flash_attention_forward" not in counts.by_operation()
    assert counts.waits == 0
    expected = masked_attention(rows, *(x.double() for x in tensors), softcap=softcap)
    within = 3e-2 if dtype is torch.bfloat16 else 1e-5
    torch.testing.assert_close(device.numbers(out).double(), expected, rtol=within, atol=within)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("dtype", "within", "size", "kv_heads"),
    [
        (torch.float32, 1e-4, 64, 2),
        (torch.bfloat16, 3e-2, 8, 4),
        (torch.bfloat16, 3e-2, 64, 2),
        (torch.bfloat16, 3e-2, 128, 1),
        (torch.bfloat16, 3e-2, 256, 4),
        (torch.float16, 1e-2, 64, 2),
    ],
)
@pytest.mark.parametrize("shape", [*SHAPES, BETWEEN, LONG])
def test_on_a_gpu_it_is_masked_softmax_attention_in_float64(shape, dtype, within, size, kv_heads):
    rows = packed_rows(shape)
    tensors = inputs(rows, kv_heads, dtype, size=size)
    sent = [x.cuda().requires_grad_() for x in tensors]
    exact = [x.double().requires_grad_() for x in tensors]
    out = PackedAttention(packed_rows(shape, device=CUDA))(nn.Identity(), *sent, scaling=size**-0.5)
    expected = masked_attention(rows, *exact, scaling=size**-0.5)
    grad = torch.randn(out.shape, dtype=torch.float64).to(dtype)
    found = torch.autograd.grad(out, sent, grad.cuda())
    wanted = torch.autograd.grad(expected, exact, grad.double())
    for ours, theirs in zip((out, *found), (expected, *wanted), strict=True):
        assert (ours.cpu().double() - theirs).abs().max() <= within * theirs.abs().max()


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_neither_packing_nor_attention_waits():
    tensors = [x.cuda().requires_grad_() for x in inputs(packed_rows("nested"), 2, torch.bfloat16)]
    grad = torch.randn(1, tensors[0].shape[2], 4, 8, device="cuda").bfloat16()
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = PackedAttention(packed_rows("nested", device=CUDA))(nn.Identity(), *tensors)
        torch.autograd.grad(out, tensors, grad)
    finally:
        torch.cuda.set_sync_debug_mode("default")
