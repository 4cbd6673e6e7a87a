"""The log of verl's file logger: lines of ``{"step": ..., "data": {...}}``, read as they come."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

from dph.recipe import Recipe
from dph.runs.train.tracking import Metrics, MetricsLog, Trackers

Logged = Mapping[str, Any]
"""Values of one line, under the engine's own names."""


@dataclass(slots=True)
class LogReader:
    """The complete lines of a growing file, each once."""

    path: Path
    _read: int = field(default=0, init=False)

    def new_lines(self) -> list[tuple[int, Logged]]:
        """The steps and values of lines that have come since the last call."""
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
    """Lines of an engine as lines of ``metrics.jsonl``; ``convert`` makes the metrics of a line."""

    reader: LogReader
    metrics: MetricsLog
    trackers: Trackers
    convert: Callable[[Logged], Metrics]
    on_step: Callable[[Metrics], None]

    def follow(self) -> None:
        """Take in what is new."""
        for step, logged in self.reader.new_lines():
            metrics = {"step": step, **self.convert(logged)}
            self.metrics.write(metrics)
            self.trackers.log(metrics, step=step)
            self.on_step(metrics)


VERDICT = "dph/"
"""Prefix of shares of verdicts in a log: ``dph/correct``, ``dph/outcome_wrong``."""

SAME_IN_VERL: Mapping[str, str] = {
    "entropy": "actor/entropy",
    "policy_loss": "actor/pg_loss",
    "clipped_high": "actor/pg_clipfrac",
    "clipped_low": "actor/pg_clipfrac_lower",
    "grad_norm": "actor/grad_norm",
    "learning_rate": "actor/lr",
    "completion_tokens": "response_length/mean",
    "unfinished": "response_length/clip_ratio",
    "seconds": "timing_s/step",
    "seconds_sampling": "timing_s/gen",
    "seconds_update": "timing_s/update_actor",
    "peak_memory_device": "perf/max_memory_allocated_gb",
}
"""Our names, and verl's for the same."""
"""Metrics of verdicts that the trainer of this package logs (``answer_metrics``)."""
_OF_VERDICTS = ("reward", "correct", "zero_variance")
_ANCHOR, _PENALTY = "actor/dph/divergence", "actor/dph/penalty/"


def step_of_verl(line: Logged, recipe: Recipe) -> Metrics:
    """The metrics of one step; ``line`` is verl's of it.

    ``clipped_high`` is verl's share of clipped tokens on either side, ``clipped_low`` that of its
    dual clip. ``unfinished`` counts answers as long as the limit.
    """
    train, objective = recipe.train, recipe.objective
    anchors = {
        name: _value(line, _ANCHOR if len(objective.active_anchors) == 1 else f"{_ANCHOR}/{name}")
        for name in objective.active_anchors
    }
    found = {ours: _value(line, theirs) for ours, theirs in SAME_IN_VERL.items()}
    tokens = found["completion_tokens"] * train.problems_per_step * train.samples_per_problem
    penalties = [float(v) for k, v in line.items() if k.startswith(_PENALTY)]
    return {
        **{name: _value(line, f"{VERDICT}{name}") for name in _OF_VERDICTS},
        **found,
        "kl_penalty": float(line.get("actor/kl_loss", 0.0)) + sum(penalties),
        "divergence": sum(anchors.values()),
        **({f"anchor_{n}": v for n, v in anchors.items()} if len(anchors) > 1 else {}),
        "tokens": tokens,
        "tokens_per_second": tokens / found["seconds"] if found["seconds"] else nan,
        **{
            key.removeprefix(VERDICT): float(value)
            for key, value in sorted(line.items())
            if key.startswith(f"{VERDICT}outcome_")
        },
    }


def _value(line: Logged, name: str) -> float:
    value = line.get(name)
    return nan if value is None else float(value)
