import pytest
import torch
from torch import nn

from counting_device import CountingDevice
from dph.model.forward import over_vocabulary as module
from dph.model.forward.over_vocabulary import TABLES, blocks, over_vocabulary


def problem(positions=7, size=4, words=11, *, bias=True, dtype=torch.float64):
    torch.manual_seed(0)
    hidden = torch.randn(positions, size, dtype=dtype, requires_grad=True)
    head = nn.Linear(size, words, bias=bias, dtype=dtype)
    return hidden, head


def dense(statistic, hidden, head, temperature):
    """The whole table at once, by plain autograd."""
    logits = head(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    table = torch.log_softmax(logits / temperature, dim=-1)
    return statistic(table, slice(0, len(hidden)))


def statistics(positions=7, words=11, dtype=torch.float64):
    torch.manual_seed(1)
    other = torch.randn(positions, words, dtype=dtype).log_softmax(-1)
    ids = torch.stack([torch.randperm(words)[:3] for _ in range(positions)])
    return {
        "entropy": lambda t, _: -(t.exp() * t).sum(-1, keepdim=True),
        "reverse KL": lambda t, rows: (t.exp() * (t - other[rows])).sum(-1, keepdim=True),
        "forward KL": lambda t, rows: (other[rows].exp() * (other[rows] - t)).sum(-1, keepdim=True),
        "some tokens": lambda t, rows: t.gather(-1, ids[rows]),
    }


NAMES = ["entropy", "reverse KL", "forward KL", "some tokens"]


@pytest.fixture(params=[1, 11, 35, 2**24])
def block(request, monkeypatch):
    monkeypatch.setattr(module, "TABLE", request.param)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_the_whole_table(name, temperature, bias):
    hidden, head = problem(bias=bias)
    statistic = statistics()[name]
    found = over_vocabulary(statistic, hidden, head, temperature)
    expected = dense(statistic, hidden, head, temperature)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn(expected.shape, dtype=torch.float64)
    inputs = [hidden, *head.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, weights),
        torch.autograd.grad(expected, inputs, weights),
        rtol=1e-12,
        atol=1e-12,
    )


def test_under_autocast_products_are_rounded_and_nothing_else():
    hidden, head = problem(40, 16, 60, bias=False, dtype=torch.float32)
    statistic = statistics(40, 60, torch.float32)["entropy"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = over_vocabulary(statistic, hidden, head, 1.0)
        expected = dense(statistic, hidden, head, 1.0)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    ours, theirs = (torch.autograd.grad(v.sum(), hidden)[0] for v in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0.05 * float(theirs.abs().max()))


def test_blocks_hold_every_position_once_and_no_more_numbers_than_allowed(monkeypatch):
    monkeypatch.setattr(module, "TABLE", 100)
    found = list(blocks(10, 30))
    assert [i for rows in found for i in range(rows.start, rows.stop)] == list(range(10))
    assert max(rows.stop - rows.start for rows in found) == 3
    assert len(list(blocks(4, 1000))) == 4  # one position at least
    assert list(blocks(0, 30)) == []
    hidden, head = problem()
    assert over_vocabulary(statistics()["some tokens"], hidden[:0], head, 1.0).shape == (0, 3)
    monkeypatch.setattr(module, "CUDA_TABLE", 1000)
    assert len(list(blocks(10, 30, cuda=True))) == 1


def peak(work):
    """The most bytes that were allocated at one time, beyond what was there at the start."""
    with torch.profiler.profile(profile_memory=True, acc_events=True) as profile:
        work()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    live, most = 0, 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most


def test_memory_is_bounded_by_blocks_however_many_positions_there_are(monkeypatch):
    positions, words, size, block = 512, 2**13, 4, 2**16
    monkeypatch.setattr(module, "TABLE", block)
    hidden, head = problem(positions, size, words, dtype=torch.float32)

    def work():
        def entropy(table, _):
            return -(table.exp() * table).sum(-1, keepdim=True)

        over_vocabulary(entropy, hidden, head, 1.0).sum().backward()

    work()
    hidden.grad = head.weight.grad = head.bias.grad = None
    # exp, the product, and the three gradients of the statistic's own graph
    of_statistic = 5
    gradients = hidden.numel() + 2 * head.weight.numel() + 2 * words + 8 * positions
    bound = 4 * ((TABLES + of_statistic) * block + 2 * gradients)
    assert peak(work) <= bound
    assert bound < 4 * positions * words


def test_a_gpu_gets_a_few_tables_and_the_host_never_waits(monkeypatch):
    words, positions = 151_936, 2048
    assert -(-positions // (module.CUDA_TABLE // words)) == 5
    # The same in small: a 32nd of the positions and of the words.
    monkeypatch.setattr(module, "CUDA_TABLE", module.CUDA_TABLE // 32**2)
    hidden, head = problem(positions // 32, 4, words // 32, bias=False, dtype=torch.float32)
    with CountingDevice() as device:
        states, moved = device.send(hidden).requires_grad_(), device.move(head)
        with torch.autocast("cuda", dtype=torch.bfloat16), device.counting("both") as counts:
            found = over_vocabulary(
                lambda table, _: (table.exp() * table).sum(-1, keepdim=True), states, moved, 1.0
            )
            found.sum().backward()
    assert counts.launches <= 5 * 30  # those of a table are about as many as its operations
    assert counts.waits == 0
