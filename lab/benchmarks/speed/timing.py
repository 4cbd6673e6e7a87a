"""Timing two sides of a comparison turn by turn."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each repeat."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle repeat."""
        return median(self.seconds)

    @property
    def range(self) -> tuple[float, float]:
        """The fastest and the slowest repeat."""
        return min(self.seconds), max(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of one step: the whole and its update."""

    step: float
    update: float


def synchronize() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def clock() -> float:
    """Seconds of this process: of CPU time where it has one thread and no GPU, else of the wall.

    What else runs on the machine then counts for neither side.
    """
    alone = torch.get_num_threads() == 1 and not torch.cuda.is_initialized()
    return time.process_time() if alone else time.perf_counter()


def timed(function: Callable[[], Any]) -> float:
    """Seconds that one call takes."""
    synchronize()
    started = clock()
    function()
    synchronize()
    return clock() - started


def interleaved(
    sides: Mapping[str, Callable[[], Any]], *, repeats: int, warm_up: int = 1
) -> dict[str, Timing]:
    """Time every side ``repeats`` times, turn by turn, so that all see the same machine.

    Every other round goes backwards: no side always follows the same one.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(-warm_up, repeats):
        for name in list(sides)[:: -1 if repeat % 2 else 1]:
            spent = timed(sides[name])
            if repeat >= 0:
                seconds[name].append(spent)
    return {name: Timing(tuple(spent)) for name, spent in seconds.items()}


def relative_error(ours: Sequence[torch.Tensor], peer: Sequence[torch.Tensor]) -> float:
    """|ours - peer| / |peer| over all tensors together."""
    pairs = list(zip(ours, peer, strict=True))
    difference = sum(float((a.double() - b.double()).square().sum()) for a, b in pairs)
    size = sum(float(b.double().square().sum()) for _, b in pairs)
    return float((difference / size) ** 0.5)
