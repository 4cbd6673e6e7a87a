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
        return float(self.values[: self.window].mean())

    @property
    def end(self) -> float:
        return float(self.values[-self.window :].mean())

    @property
    def fell(self) -> bool:
        return self.begin - self.end > NOTICED * max(abs(self.begin), abs(self.end))

    @property
    def rose(self) -> bool:
        return self.end - self.begin > NOTICED * max(abs(self.begin), abs(self.end))

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
    steps, values = map(np.array, zip(*known, strict=True))
    return LogSeries(steps=steps.astype(np.int64), values=values.astype(np.float64))


Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A sentence, what it is about, and the numbers in it (unrounded)."""

    about: str
    text: str
    values: Mapping[str, float | int]


def log_findings(rows: Rows) -> list[Finding]:
    """All that the rows of ``metrics.jsonl`` say, in a fixed order; nothing of what they lack."""
    return [finding for source in _SOURCES for finding in source(rows)] if rows else []


def _finding(about: str, text: str, **values: float) -> Finding:
    return Finding(about=about, text=text, values=values)


def _steps(rows: Rows) -> Iterator[Finding]:
    series = log_series(rows, "step")
    if series is not None:
        text = (
            f"The log has {len(rows)} steps; begin and end below are means over the first and "
            f"last {series.window}."
        )
        yield _finding("steps", text, steps=len(rows), window=series.window)


def _reward(rows: Rows) -> Iterator[Finding]:
    series = log_series(rows, "reward")
    if series is None:
        return
    yield _course("reward", "The mean reward", series, _number)
    (step, highest), end = series.highest(), series.end
    if highest - end > 0.1 * highest:
        text = (
            f"The reward was highest around step {step} ({_number(highest)}) and ended lower "
            f"({_number(end)})."
        )
        yield _finding("reward_peak", text, step=step, highest=highest, end=end)


def _entropy_and_styles(rows: Rows) -> Iterator[Finding]:
    entropy, styles = log_series(rows, "entropy"), log_series(rows, "effective_styles")
    if entropy is not None:
        yield _course("entropy", "The entropy in nats a token", entropy, _number)
    if styles is not None:
        yield _course("styles", "The effective number of styles", styles, _number)
    if entropy is None or styles is None or not (entropy.fell and styles.fell):
        return
    first, second, within = entropy.half_way(), styles.half_way(), entropy.window
    order = f"{'Entropy' if first < second else 'Styles'} fell first"
    if abs(first - second) <= within:
        order = "Entropy and styles fell together"
    text = (
        f"{order}: half of the fall of entropy was over at step {first}, of styles at step "
        f"{second} (to within {within} steps)."
    )
    ends = {"entropy_half_way": first, "styles_half_way": second}
    yield _finding("entropy_or_styles_first", text, **ends, within=within)


def _signal(rows: Rows) -> Iterator[Finding]:
    series = log_series(rows, "zero_variance")
    if series is None:
        return
    mean, begin, end = float(series.values.mean()), series.begin, series.end
    text = (
        f"{_percent(mean)} of the groups had equal rewards, {_percent(begin)} at the beginning and "
        f"{_percent(end)} at the end."
    )
    yield _finding("groups_without_signal", text, mean=mean, begin=begin, end=end)
    ungradable = log_series(rows, "ungradable")
    if ungradable is not None and ungradable.values.any():
        count = int(ungradable.values.sum())
        text = f"{count} groups were left out because their gold answer could not be graded."
        yield _finding("ungradable", text, groups=count)


def _distances(rows: Rows) -> Iterator[Finding]:
    penalty, divergence = log_series(rows, "kl_penalty"), log_series(rows, "divergence")
    if penalty is not None and penalty.values.any():
        yield _course("kl", "The KL to the initial policy, in nats a token,", penalty, _small)
    if divergence is not None and divergence.values.any():
        yield _course("anchor", "The divergence on stored answers, a token,", divergence, _small)
    found = [one for one in (penalty, divergence) if one is not None]
    if found and not any(one.values.any() for one in found):
        text = (
            "The log has no distance to the initial policy: there was no KL penalty and no "
            "rehearsal term to measure it."
        )
        yield _finding("no_distance", text)


def _clipping(rows: Rows) -> Iterator[Finding]:
    sides = {name: log_series(rows, f"clipped_{name}") for name in ("low", "high")}
    known = {name: series for name, series in sides.items() if series is not None}
    if known and not any(series.values.any() for series in known.values()):
        yield _finding("clipping", "No ratio of a token was clipped.")
    elif known:
        values: dict[str, float] = {}
        parts = []
        for name, series in known.items():
            at = int(series.values.argmax())
            mean, most = float(series.values.mean()), float(series.values[at])
            step = int(series.steps[at])
            values |= {f"{name}_mean": mean, f"{name}_most": most, f"{name}_step": step}
            side = "below" if name == "low" else "above"
            parts.append(f"{side} for {_percent(mean)} (at most {_percent(most)}, step {step})")
        text = f"The ratio of the policy's tokens was clipped {' and '.join(parts)} of them."
        yield _finding("clipping", text, **values)


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
            name = outcome.upper()
            text = f"The verifier's outcome was {name} for {_percent(mean)} of the answers."
            yield _finding(outcome, text, mean=mean)
    if unknown := [row["step"] for row in rows if "grad_norm" in row and row["grad_norm"] is None]:
        text = (
            f"The gradient was not finite in {len(unknown)} of {len(rows)} steps, first in step "
            f"{unknown[0]}."
        )
        yield _finding("not_finite", text, steps=len(unknown), first=int(unknown[0]))


def _course(about: str, what: str, series: LogSeries, written: Callable[[float], str]) -> Finding:
    begin, end = series.begin, series.end
    if not (series.fell or series.rose):
        text = f"{what} stayed within a tenth: {written(begin)} at the beginning, {written(end)} "
        return _finding(about, f"{text}at the end.", begin=begin, end=end)
    half_way = series.half_way()
    text = (
        f"{what} {'fell' if series.fell else 'rose'} from {written(begin)} to {written(end)}, half "
        f"of it by step {half_way}."
    )
    return _finding(about, text, begin=begin, end=end, half_way=half_way)


_number, _small = "{:.2f}".format, "{:.2g}".format


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%" if value >= 0.01 or value == 0 else f"{100 * value:.2g}%"


_SOURCES: tuple[Callable[[Rows], Iterator[Finding]], ...] = (
    *(_steps, _reward, _entropy_and_styles, _signal),
    *(_distances, _clipping, _lengths, _broken),
)
