"""Pools of killable processes: what a request costs, and what a busy machine does to its verdict.

    pip install pebble loky
    python -m lab.benchmarks.worker_pools [--requests 1000] [--repeats 8]

One worker a pool, the same small request, sides in turn: median and least microseconds a request.
Then a request that computes for 0.6 s under a limit of 1 s, on a core that three other processes
want: right is that it is answered. Only the pools with a limit of time take part in that.
"""

import argparse
import contextlib
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from dph._processes.workers.pool import WorkerPool

_COMPUTED, _LIMIT, _OTHERS = 0.6, 1.0, 3
Side = Callable[[Sequence[float]], list[float]]


def compute(seconds: float) -> float:
    """Use so many seconds of processor time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return seconds


def make(_options: Mapping[str, Any]) -> Callable[[float, Any], float]:
    """The handler of our workers."""
    return lambda seconds, _stage: compute(seconds)


@contextlib.contextmanager
def sides() -> Iterator[dict[str, tuple[Side, bool]]]:
    """Each pool with a worker that is ready, and whether it has a limit of time."""
    import loky  # noqa: PLC0415 - a rival
    import pebble  # noqa: PLC0415 - a rival

    def ours(requests: Sequence[float]) -> list[float]:
        return [reply.value for reply in pool.run(requests)]

    def by_pebble(requests: Sequence[float]) -> list[float]:
        futures = [rival.schedule(compute, args=(each,), timeout=_LIMIT) for each in requests]
        return [future.result() for future in futures]

    with (
        WorkerPool(handler="lab.benchmarks.worker_pools:make", options={}, timeout=_LIMIT) as pool,
        pebble.ProcessPool(max_workers=1) as rival,
        loky.ProcessPoolExecutor(1) as by_loky,
        ProcessPoolExecutor(1) as standard,
    ):
        yield {
            "ours": (ours, True),
            "pebble": (by_pebble, True),
            "loky": (lambda requests: list(by_loky.map(compute, requests)), False),
            "concurrent.futures": (lambda requests: list(standard.map(compute, requests)), False),
        }


def measured(side: Side, requests: int) -> float:
    """Microseconds a request."""
    begun = time.perf_counter()
    side([0.0] * requests)
    return (time.perf_counter() - begun) / requests * 1e6


@contextlib.contextmanager
def crowd() -> Iterator[None]:
    """Other processes that want the core for as long as this lasts."""
    others = [multiprocessing.Process(target=compute, args=(600.0,)) for _ in range(_OTHERS)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.join()


def verdict(side: Side) -> str:
    """What becomes of a request that is within its limit but for the others on its core."""
    with crowd():
        try:
            return "answered" if side([_COMPUTED]) == [_COMPUTED] else "killed"
        except Exception as error:  # noqa: BLE001 - whatever a rival calls it
            return f"killed ({type(error).__name__})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=8)
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with sides() as found:
        times: dict[str, list[float]] = {name: [] for name in found}
        for _ in range(given.repeats + 1):
            for name, (side, _) in found.items():
                times[name].append(measured(side, given.requests))
        for name, (side, limited) in found.items():
            kept = times[name][1:]
            told = f"{statistics.median(kept):.0f} us a request (least {min(kept):.0f})"
            told += f"; on a busy core {verdict(side)}" if limited else "; no limit of time"
            sys.stdout.write(f"{name}: {told}\n")


if __name__ == "__main__":
    main()
