"""The log of a running engine: lines of ``{"step": ..., "data": {...}}``, read as they come.

Both engines write such files: verl by its own file logger, TRL by the callback of ``run_recipe``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from statistics import fmean
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


# TRL's log of a rollout's optimizer steps as the metrics of a step, under this package's names.

SECONDS = "dph/seconds"
"""Of an optimizer step with what came before it; added to TRL's log by ``run_recipe``."""
VERDICT = "dph/"
"""Prefix of shares of verdicts in a log: ``dph/correct``, ``dph/outcome_wrong``."""

SAME_IN_TRL: Mapping[str, str] = {
    "reward": "reward",
    "entropy": "entropy",
    "zero_variance": "frac_reward_zero_std",
    "clipped_low": "clip_ratio/low_mean",
    "clipped_high": "clip_ratio/high_mean",
    "grad_norm": "grad_norm",
    "completion_tokens": "completions/mean_length",
    "unfinished": "completions/clipped_ratio",
}
"""Our names, and TRL's for the same: means over the lines of a rollout that have them."""


def step_of_trl(logged: Sequence[Logged], recipe: Recipe) -> Metrics:
    """The metrics of one rollout; ``logged`` are the lines of its optimizer steps.

    ``policy_loss`` is the loss that TRL reports without the weighted penalty and anchors.
    ``entropy`` is the mean over whole next-token distributions, where `dph train` has -log pi of
    the sampled tokens: two estimates of the same number.
    """
    train, objective = recipe.train, recipe.objective
    kl = _mean(logged, "kl", missing=0.0)
    anchors = {n: _mean(logged, f"{n}/loss", missing=0.0) for n in objective.active_anchors}
    weights = {name: anchor.weight for name, anchor in objective.active_anchors.items()}
    beta = sum(penalty.weight for penalty in objective.active_penalties.values())
    beside = beta * kl + sum(weights[name] * value for name, value in anchors.items())
    seconds = sum(float(line[SECONDS]) for line in logged)
    length = _mean(logged, SAME_IN_TRL["completion_tokens"])
    tokens = length * train.problems_per_step * train.samples_per_problem
    return {
        **{ours: _mean(logged, theirs) for ours, theirs in SAME_IN_TRL.items()},
        **_verdicts(logged),
        "policy_loss": _mean(logged, "loss") - beside,
        "kl_penalty": kl,
        "divergence": sum(anchors.values()),
        **({f"anchor_{n}": v for n, v in anchors.items()} if len(anchors) > 1 else {}),
        "learning_rate": float(logged[0].get("learning_rate", nan)),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds if seconds else nan,
    }


def _verdicts(logged: Sequence[Logged]) -> dict[str, float]:
    """Shares of outcomes: those that came up, and how many answers were right."""
    names = {name for line in logged for name in line if name.startswith(f"{VERDICT}outcome_")}
    shares = {name.removeprefix(VERDICT): _mean(logged, name) for name in sorted(names)}
    return {
        "correct": _mean(logged, f"{VERDICT}correct"),
        **{name: share for name, share in shares.items() if share},
    }


def _mean(logged: Sequence[Logged], name: str, *, missing: float = nan) -> float:
    values: list[Any] = [line[name] for line in logged if line.get(name) is not None]
    return fmean(map(float, values)) if values else missing


# verl's log of a step as the metrics of a step, under this package's names.

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
"""Metrics of verdicts that the trainers of this package log (``answer_metrics``)."""
_OF_VERDICTS = ("reward", "correct", "zero_variance")
_ANCHOR, _PENALTY = "actor/dph/divergence", "actor/dph/penalty/"


def step_of_verl(logged: Sequence[Logged], recipe: Recipe) -> Metrics:
    """The metrics of one step; ``logged`` is verl's one line of it.

    ``clipped_high`` is verl's share of clipped tokens on either side, ``clipped_low`` that of its
    dual clip. ``unfinished`` counts answers as long as the limit.
    """
    (line,) = logged
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
