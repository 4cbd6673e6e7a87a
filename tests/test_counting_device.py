"""The counting device: its counts by hand, its attention by a softmax, its graphs by replays."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from counting_device import CountingDevice, DeviceTensor
from dph.model.forward.kernels import Segments, flash, takes_flash


@pytest.fixture
def device():
    with CountingDevice() as device:
        yield device


def test_an_addition_is_one_launch_and_no_wait(device):
    x = torch.ones(3, device="cuda")
    with device.counting("sum") as counts:
        y = x + x
    assert (counts.launches, counts.waits) == (1, 0)
    assert device.numbers(y).tolist() == [2, 2, 2]
    (place,) = counts.by_place()
    assert place.startswith("test_counting_device.py:")


def test_nothing_counts_outside_a_region_nor_on_the_host_nor_a_view(device):
    x = torch.ones(4, device="cuda")
    x + x
    with device.counting("host") as counts:
        float((torch.ones(3) + 1).sum())
        x.view(2, 2).T[None, 1:].expand(3, -1, -1)
        torch.empty(5, device=x.device)
    assert (counts.launches, counts.waits) == (0, 0)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.sum().item(),
        lambda x: float(x[0]),
        lambda x: bool((x > 0).all()),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: x.to("cpu"),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.empty(3).copy_(x),
        lambda x: x.masked_select(x > 0),
        lambda x: torch.tensor([1, 2], device=x.device),
        lambda x: x[[0, 2]],
        lambda x: torch.ones(3).to(x.device),
        lambda _: torch.ones(3).to("cuda", non_blocking=True),  # from pageable memory
        lambda x: x.copy_(torch.ones(3)),
        lambda x: x.new_tensor([1.0]),
        lambda _: torch.cuda.synchronize(),
    ],
)
def test_the_host_waits_once(device, look):
    x = torch.ones(3, device="cuda")
    with device.counting("look") as counts:
        look(x)
    assert counts.waits == 1


@pytest.mark.parametrize(
    "work",
    [
        lambda _: torch.ones(3).pin_memory().to("cuda", non_blocking=True),
        lambda _: torch.ones(3).pin_memory()[1:].to("cuda", non_blocking=True),
        lambda x: x.copy_(torch.empty(3, pin_memory=True), non_blocking=True),
        lambda x: x.to("cpu", non_blocking=True),  # torch pins the memory that it copies to
        lambda x: torch.empty(3, pin_memory=True).copy_(x, non_blocking=True),
        lambda x: x.index_fill_(0, torch.zeros(1, dtype=torch.long, device="cuda"), 2.0),
    ],
)
def test_a_pinned_copy_is_a_launch_without_a_wait(device, work):
    x = torch.ones(3, device="cuda")
    with device.counting("work") as counts:
        work(x)
    assert counts.launches in (1, 2)
    assert counts.waits == 0


def test_a_masked_index_counts_and_writes_its_rows_before_it_reads_them(device):
    x = torch.tensor([1.0, -1.0, 2.0], device="cuda")
    mask = x > 0
    with device.counting("read") as counts:
        found = x[mask]
    assert counts.by_operation() == {"nonzero": 4, "index": 1}
    with device.counting("fill") as counts:
        x[mask] = 0.0
    assert (counts.launches, counts.waits) == (1, 0)
    assert device.numbers(found).tolist() == [1, 2]
    assert device.numbers(x).tolist() == [0, -1, 0]


@pytest.mark.usefixtures("device")
def test_the_debug_mode_makes_waits_errors():
    x = torch.ones(3, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    x + x
    with pytest.raises(RuntimeError, match="synchronizing"):
        x.sum().item()
    torch.cuda.set_sync_debug_mode("default")
    assert x.sum().item() == 3


def test_everything_ends_with_the_context():
    def replaced():
        return torch.cuda.is_available(), torch.cuda.CUDAGraph, torch.Generator, nn.Module.to

    before = replaced()
    with CountingDevice(free_memory=5, total_memory=7) as device:
        assert torch.cuda.is_available()
        assert torch.cuda.mem_get_info() == (5, 7)
        x = torch.ones(3, device="cuda")
        assert x.device == torch.device("cuda", 0)
        assert x.is_cuda
        assert device.numbers(x).device.type == "cpu"
    assert before == replaced()
    with pytest.raises(RuntimeError, match="was left"):
        x + x


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.layer = nn.Embedding(7, 4), nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        scores = self.head(self.layer(self.embedding(ids)))
        return nn.functional.cross_entropy(scores, ids)


@pytest.mark.parametrize("fused", [True, None])
def test_a_step_moves_weights_as_on_a_cpu(fused):
    ids = torch.tensor([1, 2, 3])

    def trained(model: nn.Module, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
        for _ in range(2):
            model(ids).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
        return norm, list(model.parameters())

    wanted_norm, wanted = trained(Tied(), ids)
    with CountingDevice() as device:
        model = Tied().to("cuda")
        assert model.head.weight is model.embedding.weight
        norm, found = trained(model, ids.to("cuda"))
        assert all(isinstance(p, DeviceTensor) for p in found)
        torch.testing.assert_close(device.numbers(norm), wanted_norm)
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(device.numbers(ours), theirs.detach())


def test_a_fused_step_launches_by_chunks_of_65_536(device):
    parameters = [torch.zeros(n, device="cuda").requires_grad_() for n in (10, 65_537)]
    optimizer = torch.optim.AdamW(parameters, fused=True)
    counted = []
    for _ in range(2):
        for p in parameters:
            p.grad = torch.ones_like(p)
        with device.counting(f"step {len(counted)}") as counts:
            optimizer.step()
        counted.append(counts.by_operation())
    assert counted[1] == {"_foreach_add_": 1, "_fused_adamw_": 1}
    wide = [torch.zeros(320 * 65_536 + 1, device="cuda")]
    with device.counting("wide") as counts:
        torch._foreach_mul_(wide, 2.0)
    assert counts.launches == 2


def test_backward_code_in_python_is_counted_where_it_stands(device):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x * 2

        @staticmethod
        def backward(_, grad):
            return grad * torch.full((), 2.0, device="cuda")

    x = torch.ones(3, device="cuda").requires_grad_()
    out = Doubled.apply(x).sum()
    with device.counting("backward") as counts:
        out.backward()
    with device.counting("grad") as again:
        torch.autograd.grad(Doubled.apply(x).sum(), [x])
    assert device.numbers(x.grad).tolist() == [2, 2, 2]
    assert counts.by_operation()["full"] == again.by_operation()["full"] == 1


QUERIES, KEYS = [0, 3, 3, 5], [0, 4, 6, 8]
"""Bounds of three segments; the second has no query."""


def tables(queries=QUERIES, keys=KEYS) -> Segments:
    def bounds(x):
        return torch.tensor(x, dtype=torch.int32, device="cuda")

    def longest(x):
        return max(b - a for a, b in pairwise(x))

    return Segments(bounds(queries), bounds(keys), longest(queries), longest(keys))


def test_a_query_without_keys_has_the_log_sum_of_the_kernel():
    with CountingDevice(exact=True) as device:
        x = torch.ones(2, 1, 8, device="cuda")
        none = torch.zeros(1, dtype=torch.int32, device="cuda")
        part = flash(x, x, x, tables([0, 2], [0, 2]), scaling=1.0, used=none)
        assert device.numbers(part.log_sum).tolist() == [[math.inf, math.inf]]
        assert not device.numbers(part.out).any()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "changes",
    [
        lambda r: {"segments": r["segments"]._replace(most_queries=2)},
        lambda r: {"segments": r["segments"]._replace(most_keys=3)},
        lambda r: {"segments": r["segments"]._replace(queries=r["segments"].queries.long())},
        lambda r: {name: r[name].float() for name in ("query", "key", "value")},
        lambda r: {"query": r["query"].mT.contiguous().mT},
        lambda r: {name: r[name][..., :6].contiguous() for name in ("query", "key", "value")},
        lambda r: {"key": r["key"].half()},
    ],
)
def test_flash_attention_refuses_what_the_kernel_refuses(changes):
    q, k = (torch.zeros(n, 2, 8, dtype=torch.bfloat16, device="cuda") for n in (5, 8))
    right = {"query": q, "key": k, "value": k, "segments": tables()}
    flash(**right, scaling=1.0)
    assert takes_flash(right["query"], right["value"], softcap=None)
    with pytest.raises(RuntimeError, match="expects"):
        flash(**(right | changes(right)), scaling=1.0)


def counter_step(count: Tensor, table: Tensor) -> Tensor:
    count.add_(1)
    fresh = torch.zeros(2, device="cuda")
    fresh.add_(count)
    table.index_copy_(0, count, fresh[:1].double()[None])
    return fresh * 2


def test_a_captured_step_replays_in_one_launch_on_the_same_tensors(device):
    count = torch.zeros(1, dtype=torch.long, device="cuda")
    table = torch.zeros(4, 1, dtype=torch.float64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with device.counting("capture") as capture, torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        out = counter_step(count, table)
    assert (capture.launches, capture.waits) == (0, 1)  # a capture waits as it begins
    assert device.numbers(count).tolist() == [0]
    assert not device.numbers(table).any()
    with device.counting("replay") as counts:
        graph.replay()
        graph.replay()
    assert (counts.launches, counts.waits, counts.graph_kernels) == (2, 0, 2 * graph.kernels)
    assert graph.kernels == 6
    inside = {"add_": 4, "zeros": 2, "_to_copy": 2, "index_copy_": 2, "mul": 2}
    assert counts.by_operation("inside") == inside
    assert device.numbers(count).tolist() == [2]
    assert device.numbers(out).tolist() == [4, 4]
    assert device.numbers(table)[:, 0].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda _: torch.tensor([1.0], device="cuda"),
        lambda x: x.cpu(),
        lambda _: torch.cuda.synchronize(),
    ],
)
def test_a_wait_within_a_capture_raises_and_leaves_no_graph(device, look):
    x, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph):
            x.add_(1)
            look(x)

    with pytest.raises(RuntimeError, match="capturing"):
        capture()
    assert device.numbers(x).tolist() == [1, 1, 1]
    assert not torch.cuda.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="replayed"):
        graph.replay()


def test_a_graph_reads_pinned_memory_again(device):
    host, x = torch.zeros(2).pin_memory(), torch.ones(2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(host.to("cuda", non_blocking=True))
    host.fill_(5)
    graph.replay()
    assert device.numbers(x).tolist() == [6, 6]
