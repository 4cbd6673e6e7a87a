"""What an engine logs while it runs: lines of ``{"step": ..., "data": {...}}``, read as they come.

Both engines write such files: verl by its own file logger, TRL by the callback of ``run_recipe``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dph.runs.train.metrics import Metrics
from dph.runs.train.tracking import MetricsLog, Trackers

Logged = Mapping[str, Any]
"""What one line says, under the engine's own names."""


@dataclass(slots=True)
class LogReader:
    """The complete lines of a growing file, each once."""

    path: Path
    _read: int = field(default=0, init=False)

    def new_lines(self) -> list[tuple[int, Logged]]:
        """The steps and values of lines that have come since the last call.

        Raises:
            ValueError: a line is damaged.
        """
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _half = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        rows = [json.loads(line) for line in whole.splitlines() if line.strip()]
        return [(int(row["step"]), row["data"]) for row in rows]


@dataclass(slots=True, kw_only=True)
class StepLog:
    """Lines of an engine as lines of ``metrics.jsonl``.

    ``updates`` lines make a step: those of its optimizer steps. ``convert`` makes the metrics of a
    step out of them.
    """

    reader: LogReader
    metrics: MetricsLog
    trackers: Trackers
    convert: Callable[[list[Logged]], Metrics]
    updates: int
    on_step: Callable[[Metrics], None]
    _waiting: list[Logged] = field(default_factory=list, init=False)

    def follow(self) -> None:
        """Take in what is new."""
        for number, logged in self.reader.new_lines():
            self._waiting.append(logged)
            if number % self.updates:
                continue
            step = number // self.updates
            metrics = {"step": step, **self.convert(self._waiting)}
            self._waiting = []
            self.metrics.write(metrics)
            self.trackers.log(metrics, step=step)
            self.on_step(metrics)
