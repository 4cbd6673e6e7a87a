"""Numbers as people read them in a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNKNOWN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNumber:
    """A number and its interval in the unit that a table shows; None: it is not known.

    >>> str(TableNumber(value=69.32, low=61.0, high=70.04)), str(TableNumber(value=None))
    ('69.3 [61.0, 70.0]', '-')
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return UNKNOWN
        if self.low is None or self.high is None:
            return f"{self.value:.1f}"
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def percent_number(value: float | None, interval: Sequence[float] | None = None) -> TableNumber:
    """A fraction as a number of per cent."""
    return _number(None if value is None else 100 * value, interval and [100 * x for x in interval])


def percent(value: float | None, interval: Sequence[float] | None = None) -> str:
    """A fraction in per cent, with its interval where there is one.

    >>> percent(0.693), percent(0.693, [0.61, 0.7]), percent(None)
    ('69.3', '69.3 [61.0, 70.0]', '-')
    """
    return str(percent_number(value, interval))


def count(value: float | None, interval: Sequence[float] | None = None) -> str:
    """A number with one decimal, with its interval where there is one.

    >>> count(4.321), count(4.321, [4.0, 4.5])
    ('4.3', '4.3 [4.0, 4.5]')
    """
    return str(_number(value, interval))


def points(value: float, interval: Sequence[float]) -> str:
    """A difference of fractions in percentage points, always with its sign.

    >>> points(0.021, [-0.01, 0.05]), points(-0.0001, [-0.001, 0.0])
    ('+2.1 [-1.0, +5.0]', '+0.0 [-0.1, +0.0]')
    """
    middle, lo, hi = (f"{round(100 * x, 1) + 0.0:+.1f}" for x in (value, *interval))
    return f"{middle} [{lo}, {hi}]"


def duration(seconds: float) -> str:
    """A duration for people.

    >>> duration(4.2), duration(200), duration(7300)
    ('4.2 s', '3 min 20 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def set_cells(
    summary: Mapping[str, Any], ks: Sequence[str], *, intervals: bool, cut_off: bool = False
) -> list[str]:
    """greedy, mean, Pass@k for each k, effective styles, and if asked for the share cut off."""
    return [*map(str, set_numbers(summary, ks, intervals=intervals, cut_off=cut_off))]


def set_numbers(
    summary: Mapping[str, Any], ks: Sequence[str], *, intervals: bool, cut_off: bool = False
) -> list[TableNumber]:
    """The numbers of ``set_cells``: fractions in per cent."""
    ci = summary["ci95"] if intervals else {}
    return [
        percent_number(summary["greedy"], ci.get("greedy")),
        percent_number(summary["mean"], ci.get("mean")),
        *(percent_number(summary["pass_at_k"].get(k), ci.get(f"pass_at_{k}")) for k in ks),
        _number(summary["effective_styles"], ci.get("effective_styles")),
        *([percent_number(summary.get("cut_off"))] if cut_off else []),
    ]


def set_header(ks: Sequence[str], *, cut_off: bool = False) -> list[str]:
    """The names of the columns of ``set_cells``."""
    last = ["cut off"] if cut_off else []
    return ["greedy", "mean", *(f"pass@{k}" for k in ks), "styles", *last]


def knows_cut_off(models: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> bool:
    """Whether a model's sets say how many answers were cut off; means over seeds do not."""
    return any(
        summary.get("cut_off") is not None for sets in models.values() for summary in sets.values()
    )


def _number(value: float | None, interval: Sequence[float] | None) -> TableNumber:
    if interval is None:
        return TableNumber(value=value)
    return TableNumber(value=value, low=interval[0], high=interval[1])
