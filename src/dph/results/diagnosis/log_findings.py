"""Findings in a run's log about the cause: sentences, each from a condition that held.

A sentence says what was measured, when and how much. None says what to do: nothing here has tried
it. That one thing came before another does not make it the cause; the sentences say no more than
the order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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


Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A sentence, what it is about, and the numbers in it (unrounded)."""

    about: str
    text: str
    values: Mapping[str, float | int]


def log_findings(rows: Rows) -> list[Finding]:
    """All that the rows of ``metrics.jsonl`` say, in a fixed order; nothing of what they lack."""
    if not rows:
        return []
    return [finding for source in _SOURCES for finding in source(rows)]


def _steps(rows: Rows) -> Iterator[Finding]:
    series = log_series(rows, "step")
    if series is not None:
        window = series.window
        yield Finding(
            about="steps",
            text=f"The log has {len(rows)} steps; begin and end below are means over the first and "
            f"last {window}.",
            values={"steps": len(rows), "window": window},
        )


def _reward(rows: Rows) -> Iterator[Finding]:
    series = log_series(rows, "reward")
    if series is None:
        return
    yield _course("reward", "The mean reward", series, _number)
    step, highest = series.highest()
    if highest - series.end > 0.1 * highest:
        yield Finding(
            about="reward_peak",
            text=f"The reward was highest around step {step} ({_number(highest)}) and ended lower "
            f"({_number(series.end)}).",
            values={"step": step, "highest": highest, "end": series.end},
        )


def _entropy_and_styles(rows: Rows) -> Iterator[Finding]:
    entropy, styles = log_series(rows, "entropy"), log_series(rows, "effective_styles")
    if entropy is not None:
        yield _course("entropy", "The entropy in nats a token", entropy, _number)
    if styles is not None:
        yield _course("styles", "The effective number of styles", styles, _number)
    if entropy is None or styles is None or not (entropy.fell and styles.fell):
        return
    first, second = entropy.half_way(), styles.half_way()
    apart = entropy.window
    if abs(first - second) <= apart:
        order = "Entropy and styles fell together"
    else:
        order = f"{'Entropy' if first < second else 'Styles'} fell first"
    yield Finding(
        about="entropy_or_styles_first",
        text=f"{order}: half of the fall of entropy was over at step {first}, of styles at step "
        f"{second} (to within {apart} steps).",
        values={"entropy_half_way": first, "styles_half_way": second, "within": apart},
    )


def _signal(rows: Rows) -> Iterator[Finding]:
    series = log_series(rows, "zero_variance")
    if series is None:
        return
    mean = float(series.values.mean())
    yield Finding(
        about="groups_without_signal",
        text=f"Of the groups {_percent(mean)} had equal rewards, {_percent(series.begin)} at the "
        f"beginning and {_percent(series.end)} at the end.",
        values={"mean": mean, "begin": series.begin, "end": series.end},
    )
    ungradable = log_series(rows, "ungradable")
    if ungradable is not None and ungradable.values.any():
        count = int(ungradable.values.sum())
        yield Finding(
            about="ungradable",
            text=f"{count} groups were left out because their gold answer could not be graded.",
            values={"groups": count},
        )


def _distances(rows: Rows) -> Iterator[Finding]:
    penalty, anchor = log_series(rows, "kl_penalty"), log_series(rows, "divergence")
    if penalty is not None and penalty.values.any():
        yield _course("kl", "The KL to the initial policy, in nats a token,", penalty, _small)
    if anchor is not None and anchor.values.any():
        yield _course("anchor", "The divergence on stored answers, a token,", anchor, _small)
    found = [one for one in (penalty, anchor) if one is not None]
    if found and not any(one.values.any() for one in found):
        yield Finding(
            about="no_distance",
            text="The log has no distance to the initial policy: there was no KL penalty and no "
            "anchor to measure it.",
            values={},
        )


def _clipping(rows: Rows) -> Iterator[Finding]:
    sides = {name: log_series(rows, f"clipped_{name}") for name in ("low", "high")}
    known = {name: series for name, series in sides.items() if series is not None}
    if not known:
        return
    if not any(series.values.any() for series in known.values()):
        yield Finding(about="clipping", text="No ratio of a token was clipped.", values={})
        return
    values: dict[str, float | int] = {}
    parts = []
    for name, series in known.items():
        at = int(series.values.argmax())
        values[f"{name}_mean"] = float(series.values.mean())
        values[f"{name}_most"] = float(series.values[at])
        values[f"{name}_step"] = int(series.steps[at])
        side = "below" if name == "low" else "above"
        parts.append(
            f"{_percent(values[f'{name}_mean'])} {side} "
            f"(at most {_percent(values[f'{name}_most'])}, step {values[f'{name}_step']})"
        )
    text = f"Of the policy's tokens the ratio was clipped for {' and '.join(parts)}."
    yield Finding(about="clipping", text=text, values=values)


def _lengths(rows: Rows) -> Iterator[Finding]:
    tokens = log_series(rows, "completion_tokens")
    if tokens is not None:
        yield _course("length", "The mean length of an answer in tokens", tokens, _number)
    cut_off = log_series(rows, "unfinished")
    if cut_off is not None and cut_off.values.any():
        yield _course("cut_off", "The share of answers cut off at max_tokens", cut_off, _percent)


def _broken(rows: Rows) -> Iterator[Finding]:
    for outcome in ("crashed", "timed_out"):
        series = log_series(rows, f"outcome_{outcome}")
        if series is not None:
            mean = float(series.values.sum() / len(rows))  # steps without one do not list it
            yield Finding(
                about=outcome,
                text=f"The verifier's outcome was {outcome.upper()} for {_percent(mean)} of the "
                "answers.",
                values={"mean": mean},
            )
    unknown = [row["step"] for row in rows if "grad_norm" in row and row["grad_norm"] is None]
    if unknown:
        yield Finding(
            about="not_finite",
            text=f"The gradient was not finite in {len(unknown)} of {len(rows)} steps, first in "
            f"step {unknown[0]}.",
            values={"steps": len(unknown), "first": int(unknown[0])},
        )


def _course(about: str, what: str, series: LogSeries, written: Callable[[float], str]) -> Finding:
    begin, end = series.begin, series.end
    values: dict[str, float | int] = {"begin": begin, "end": end}
    if not (series.fell or series.rose):
        text = f"{what} stayed within a tenth: {written(begin)} at the beginning, {written(end)} "
        return Finding(about=about, text=f"{text}at the end.", values=values)
    values["half_way"] = series.half_way()
    text = (
        f"{what} {'fell' if series.fell else 'rose'} from {written(begin)} to {written(end)}, half "
        f"of it by step {values['half_way']}."
    )
    return Finding(about=about, text=text, values=values)


def _number(value: float) -> str:
    return f"{value:.2f}"


def _small(value: float) -> str:
    return f"{value:.2g}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%" if value >= 0.01 or value == 0 else f"{100 * value:.2g}%"


_SOURCES: tuple[Callable[[Rows], Iterator[Finding]], ...] = (
    *(_steps, _reward, _entropy_and_styles, _signal),
    *(_distances, _clipping, _lengths, _broken),
)
