"""A check on one machine: its clock, its measurements, and the rows that they fill."""

import gc
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from dph._base.provenance import code_commit
from lab.benchmarks.speed.machine import machine_name, versions
from lab.benchmarks.speed.rows import describe
from lab.benchmarks.speed.runs import Row, Run

SHORT = 300
"""Characters that are kept of an error, its last ones."""
JUDGED = ("gpu_correct", "gpu_recipes")
"""Rows of these pass or do not; the others are figures."""


class Trace(NamedTuple):
    """Calls of the host that put work on the device; kernels and copies that ran there, and when.

    ``busy`` are the seconds in which at least one of them ran.
    """

    launches: int
    kernels: int
    busy: float


def seconds_of(call: Callable[[], Any], *, cuda: bool) -> float:
    """Seconds of a call by the device's own clock, that of the host on a CPU."""
    if not cuda:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def trace_of(call: Callable[[], Any]) -> Trace:
    """The trace of a call, by CUPTI."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    found = profiler.events() or ()
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in found
        if event.device_type == torch.autograd.DeviceType.CUDA  # type: ignore[attr-defined]
        and not getattr(event, "is_user_annotation", False)
        and not event.name.startswith(("Optimizer.", "ProfilerStep"))  # a name for many kernels
    )
    busy, last = 0.0, -math.inf
    for start, end in spans:
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    launches = sum(_launches(event.name) for event in found)
    return Trace(launches=launches, kernels=len(spans), busy=busy / 1e6)


def _launches(name: str) -> bool:
    """Whether an event is a call of the CUDA runtime or driver that puts work on the device."""
    if not name.startswith(("cuda", "cu")):
        return False
    return "Launch" in name or name.startswith(("cudaMemcpy", "cudaMemset", "cuMemcpy", "cuMemset"))


@dataclass(kw_only=True)
class Check:
    """Where and how long it measures, and what it has found.

    No measurement begins once ``seconds`` are over, and one that fails leaves the others alone:
    its row says why.
    """

    device: str
    tiny: bool = False
    seconds: float = 270.0
    rows: list[Row] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @property
    def cuda(self) -> bool:
        """Whether it measures a GPU."""
        return self.device == "cuda"

    @property
    def left(self) -> float:
        """Seconds in which another measurement may begin."""
        return self.seconds - (time.perf_counter() - self.started)

    def row(self, bench: str, case: str, *, shape: str = "", **facts: Any) -> Row:
        """A new row, which measurements fill."""
        run = Run(device=self.device, dtype="bfloat16", threads=torch.get_num_threads())
        card = machine_name(self.device)
        # Rows of several cards stand side by side: a case names its card.
        row = describe(bench, f"{case}, {card}" if self.cuda else case, run, shape=shape)
        row |= {"versions": packages(), "commit": commit(), **facts}
        self.rows.append(row)
        return row

    def note(self, row: Row, **found: Any) -> None:
        """Fill a row, and say so."""
        rounded = {key: _rounded(value) for key, value in found.items()}
        row |= rounded
        passed = time.perf_counter() - self.started
        print(f"[{passed:6.1f} s] {row['case']}: {json.dumps(rounded)}", flush=True)

    @contextmanager
    def guarded(self, row: Row, what: str) -> Iterator[None]:
        """Do something for a row: what fails, out of memory too, is told in it."""
        try:
            yield
        except SkippedError as reason:
            self._tell(row, f"{what}: not measured: {reason}")
        except Exception as error:  # noqa: BLE001  # whatever a card or a driver comes up with
            said = " ".join(str(error).split())[-SHORT:]
            self._tell(row, f"{what}: failed: {type(error).__name__}: {said}")
            if row["bench"] in JUDGED:
                row["passed"] = False
        finally:
            self.tidy()

    def require(self, seconds: float = 0.0) -> None:
        """Refuse to begin what the time is over for.

        Raises:
            SkippedError: ``seconds`` are not left.
        """
        if self.left <= seconds:
            raise SkippedError(f"{seconds:.0f} s are needed, {max(0.0, self.left):.0f} are left")

    def _tell(self, row: Row, why: str) -> None:
        self.note(row, problems=[*row.get("problems", ()), why])

    def measure(
        self,
        row: Row,
        what: str,
        call: Callable[[], Any],
        *,
        repeats: int = 3,
        warm_up: int = 1,
        per: float = 1.0,
        traced: bool = True,
    ) -> float | None:
        """Fill ``<what>_s``, and on a GPU its launches, kernels and idle share; median seconds.

        ``per`` is the number of things that one call does; None where nothing was measured.
        """
        seconds: list[float] = []
        with self.guarded(row, what):
            self.require()
            for _ in range(warm_up):
                call()
            while len(seconds) < repeats and (not seconds or self.left > 0):
                seconds.append(seconds_of(call, cuda=self.cuda))
            found: dict[str, Any] = {f"{what}_s": median(seconds) / per}
            if traced and self.cuda and self.left > 0:
                trace = trace_of(call)
                found[f"{what}_launches"] = trace.launches / per
                found[f"{what}_kernels"] = trace.kernels / per
                if median(seconds) > 0:
                    found[f"{what}_idle"] = max(0.0, 1 - trace.busy / median(seconds))
            self.note(row, **found)
        return median(seconds) / per if seconds else None

    def tidy(self) -> None:
        """Give memory back that nobody needs."""
        if self.cuda:
            gc.collect()
            torch.cuda.empty_cache()

    def begin_peak(self) -> None:
        """Forget the peak of memory so far."""
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()

    def peak_gib(self) -> float | None:
        """The most that torch has held since; unknown on a CPU."""
        return torch.cuda.max_memory_allocated() / 2**30 if self.cuda else None


class SkippedError(Exception):
    """A measurement that there is no time for, or that this machine has nothing for."""


def packages() -> str:
    """Versions of what computes."""
    import importlib.metadata as installed  # noqa: PLC0415

    found = [versions(), f"CUDA {torch.version.cuda}"]
    for name in ("liger-kernel", "triton", "vllm"):
        try:
            found.append(f"{name} {installed.version(name)}")
        except ModuleNotFoundError:
            continue
    return ", ".join(found)


def commit() -> str:
    """The package's commit; a copy without its history is told by DPH_COMMIT."""
    return os.environ.get("DPH_COMMIT") or code_commit()


def problems(rows: Sequence[Row]) -> list[str]:
    """Every problem of every row."""
    return [f"{row['case']}: {problem}" for row in rows for problem in row.get("problems", ())]


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)
