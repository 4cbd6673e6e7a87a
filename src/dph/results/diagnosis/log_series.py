"""A number of ``metrics.jsonl`` over the steps: how it began and ended, and when it had moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from jaxtyping import Float, Int

WINDOW = 0.1
"""The part of the steps that begin and end are means over."""
NOTICED = 0.1
"""A change is one from this part of the larger of two values on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogSeries:
    """A number at those steps that have it (a value that was not finite is not there)."""

    steps: Int[np.ndarray, "steps"]
    values: Float[np.ndarray, "steps"]

    @property
    def window(self) -> int:
        """Steps at each end that ``begin`` and ``end`` are means over."""
        return max(1, round(WINDOW * len(self.steps)))

    @property
    def begin(self) -> float:
        """The mean of the first steps."""
        return float(self.values[: self.window].mean())

    @property
    def end(self) -> float:
        """The mean of the last steps."""
        return float(self.values[-self.window :].mean())

    @property
    def fell(self) -> bool:
        """Whether the end is noticeably below the beginning."""
        return self._changed and self.end < self.begin

    @property
    def rose(self) -> bool:
        """Whether the end is noticeably above the beginning."""
        return self._changed and self.end > self.begin

    @property
    def _changed(self) -> bool:
        return abs(self.end - self.begin) > NOTICED * max(abs(self.begin), abs(self.end))

    def smoothed(self) -> Float[np.ndarray, "steps"]:
        """Means over the window around each step, of as many steps as there are near the ends."""
        reach = self.window // 2
        values = self.values.tolist()
        near = (values[max(at - reach, 0) : at + reach + 1] for at in range(len(values)))
        return np.array([fmean(part) for part in near])

    def half_way(self) -> int:
        """The first step from which the smoothed number stays nearer to the end."""
        beyond = np.abs(self.smoothed() - self.end) <= abs(self.begin - self.end) / 2
        before = np.flatnonzero(~beyond)
        first = int(before[-1]) + 1 if len(before) else 0
        return int(self.steps[min(first, len(self.steps) - 1)])

    def highest(self) -> tuple[int, float]:
        """The step at which the smoothed number is largest, and that number."""
        smoothed = self.smoothed()
        at = int(smoothed.argmax())
        return int(self.steps[at]), float(smoothed[at])


def log_series(rows: Sequence[Mapping[str, Any]], name: str) -> LogSeries | None:
    """The number ``name`` of the log's rows; None where no row has it."""
    known = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
    if not known:
        return None
    steps, values = zip(*known, strict=True)
    return LogSeries(
        steps=np.array(steps, dtype=np.int64), values=np.array(values, dtype=np.float64)
    )
