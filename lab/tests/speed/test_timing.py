import pytest
import torch

from lab.benchmarks.speed.timing import Timing, interleaved, relative_error


def test_sides_take_turns_and_every_other_round_goes_backwards():
    calls = []
    times = interleaved({n: lambda n=n: calls.append(n) for n in "ab"}, repeats=2, warm_up=1)
    assert calls == ["b", "a", "a", "b", "b", "a"]
    assert {name: len(timing.seconds) for name, timing in times.items()} == {"a": 2, "b": 2}


def test_a_timing_is_its_median_and_its_range():
    timing = Timing((3.0, 1.0, 2.0))
    assert timing.median == 2
    assert timing.range == (1, 3)


def test_the_relative_error_is_over_all_tensors_together():
    ours = [torch.tensor([3.0, 0.0]), torch.tensor([0.0])]
    peer = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]
    assert relative_error(ours, peer) == pytest.approx(4 / 5)
