"""The same methods over several seeds: means, and intervals that speak of another seed.

An interval over problems (evaluation.json) says how a model would do on other problems; it says
nothing about training again. Here a seed is the unit: mean +- t * s / sqrt(n), s the standard
deviation of the n seeds and t the 97.5% quantile of Student's t with n - 1 degrees of freedom
(Student 1908, Biometrika 6). With 3 seeds t is 4.3: such intervals are wide because little is
known. Intervals of fractions are cut at 0 and 1, those of effective styles at 1.
"""

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Any

from dph.errors import DataError, SettingsError

# Quantiles and tails of Student's t distribution, for a few seeds.


def t_quantile(probability: float, degrees: int) -> float:
    """The t below which ``probability`` of the distribution lies.

    Computed as: SciPy's ``stdtrit``, imported with the first quantile: it takes 0.4 s to load.
    Accuracy: 1e-9 relative for 0.5 <= probability <= 0.9995 and degrees <= 1000.

    Raises:
        SettingsError: probability is not in [0.5, 1), or degrees is below 1.

    >>> round(t_quantile(0.975, 2), 4)
    4.3027
    """
    if not 0.5 <= probability < 1:
        raise SettingsError(f"probability must lie in [0.5, 1), got {probability}")
    if degrees < 1:
        raise SettingsError(f"degrees of freedom must be at least 1, got {degrees}")
    from scipy.special import stdtrit  # noqa: PLC0415 - loaded with the first quantile

    return float(stdtrit(degrees, probability))


def t_tail(t: float, degrees: int) -> float:
    """Probability of a value above ``t``: the upper tail.

    Computed as: SciPy's ``stdtr`` at -t, so that small tails keep their digits.
    Limits: 0 at infinity, 1 at minus infinity, 1/2 at 0.

    Raises:
        SettingsError: degrees is below 1.

    >>> round(t_tail(4.302653, 2), 6)
    0.025
    """
    if degrees < 1:
        raise SettingsError(f"degrees of freedom must be at least 1, got {degrees}")
    from scipy.special import stdtr  # noqa: PLC0415 - loaded with the first tail

    return float(stdtr(degrees, -t))


# One number of a set's summary (evaluation.json, or one that was made of several seeds).

PLAIN = ("greedy", "mean", "keep", "explore", "effective_styles")
_TITLES = {"mean": "mean@1", "effective_styles": "effective styles"}


def value_of(summary: Mapping[str, Any], metric: str) -> float | None:
    """The metric's value, a fraction (effective styles: their number); None if it is unknown.

    Raises:
        SettingsError: there is no such metric.

    >>> value_of({"pass_at_k": {"8": 0.5}, "greedy": None}, "pass_at_8")
    0.5
    """
    if metric in PLAIN:
        found = summary.get(metric)
    elif metric.startswith("pass_at_"):
        found = summary["pass_at_k"].get(metric.removeprefix("pass_at_"))
    else:
        raise SettingsError(f"no metric {metric!r}; there is {', '.join(PLAIN)}, pass_at_<k>")
    return None if found is None else float(found)


def interval_of(summary: Mapping[str, Any], metric: str) -> tuple[float, float] | None:
    """The 95% interval of the metric; None where the summary has none."""
    found = summary["ci95"].get(metric)
    return None if found is None else (float(found[0]), float(found[1]))


def error_bars(summary: Mapping[str, Any], metric: str) -> tuple[list[float], list[float]]:
    """The lengths of the interval below and above the value, for ``errorbar``; 0 without one.

    >>> error_bars({"greedy": 0.5, "ci95": {"greedy": [0.25, 1.0]}}, "greedy")
    ([0.25], [0.5])
    """
    value, interval = value_of(summary, metric), interval_of(summary, metric)
    if value is None or interval is None:
        return [0.0], [0.0]
    return [max(0.0, value - interval[0])], [max(0.0, interval[1] - value)]


def metric_title(metric: str) -> str:
    """Title of a metric for people.

    >>> metric_title("pass_at_8"), metric_title("mean")
    ('Pass@8', 'mean@1')
    """
    if metric.startswith("pass_at_"):
        return f"Pass@{metric.removeprefix('pass_at_')}"
    return _TITLES.get(metric, metric)


Summary = Mapping[str, Any]
FRACTIONS = ("greedy", "mean", "keep", "explore", "keep_null", "explore_null")
STYLES = "effective_styles"


def t_interval(
    values: Sequence[float], *, lowest: float = -inf, highest: float = inf
) -> tuple[float, float]:
    """95% interval of the mean of ``values``, cut to [lowest, highest].

    Raises:
        DataError: there are fewer than two values.

    >>> lo, hi = t_interval([0.5, 0.7])
    >>> round(lo, 3), round(hi, 3)
    (-0.671, 1.871)
    """
    if len(values) < 2:
        raise DataError(f"an interval over seeds needs at least two of them, got {len(values)}")
    half = t_quantile(0.975, len(values) - 1) * stdev(values) / sqrt(len(values))
    middle = fmean(values)
    return max(lowest, middle - half), min(highest, middle + half)


def prediction_interval(
    values: Sequence[float], *, lowest: float = -inf, highest: float = inf
) -> tuple[float, float]:
    """Interval that one more value lies in with a chance of 95%, cut to [lowest, highest].

    Equation: mean +- t s sqrt(1 + 1 / n), t the 97.5% quantile of Student's t with n - 1 degrees
    of freedom, if the values are normal.

    Raises:
        DataError: there are fewer than two values.

    >>> lo, hi = prediction_interval([0.5, 0.7])
    >>> round(lo, 3), round(hi, 3)
    (-1.601, 2.801)
    """
    low, high = t_interval(values)
    half = (high - low) / 2 * sqrt(len(values) + 1)
    middle = fmean(values)
    return max(lowest, middle - half), min(highest, middle + half)


def aggregate_summaries(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Summaries ``{"base": {"sets"}, "methods": {name: {"sets"}}}`` of several seeds as one.

    The result has the same form, so every table and picture takes it: means over the seeds,
    ``ci95`` t-intervals over the seeds (with the retention and effective styles as well), and
    ``seeds``, how many there are. With one seed there are no intervals.

    Raises:
        DataError: there is no summary, or methods, sets or k differ between seeds.
    """
    if not summaries:
        raise DataError("nothing to aggregate: no summaries were given")
    methods = _same("methods", [list(summary["methods"]) for summary in summaries])
    return {
        "seeds": len(summaries),
        "base": {"sets": aggregate_sets([summary["base"]["sets"] for summary in summaries])},
        "methods": {
            name: {"sets": aggregate_sets([s["methods"][name]["sets"] for s in summaries])}
            for name in methods
        },
    }


def aggregate_sets(sets: Sequence[Summary]) -> dict[str, Any]:
    """The ``sets`` objects of one model trained with several seeds as one.

    Raises:
        DataError: sets or k differ between seeds.
    """
    names = _same("sets", [list(of_seed) for of_seed in sets])
    return {name: _aggregate_set([of_seed[name] for of_seed in sets]) for name in names}


def _aggregate_set(seeds: Sequence[Summary]) -> dict[str, Any]:
    ks = _same("k", [list(seed["pass_at_k"]) for seed in seeds])
    columns = {name: [seed[name] for seed in seeds] for name in FRACTIONS}
    columns |= {f"pass_at_{k}": [seed["pass_at_k"][k] for seed in seeds] for k in ks}
    styles = [seed[STYLES] for seed in seeds]
    intervals = {name: _interval(values, 0.0, 1.0) for name, values in columns.items()}
    return {
        "problems": round(fmean(seed["problems"] for seed in seeds)),
        **{name: _mean(columns[name]) for name in FRACTIONS},
        "pass_at_k": {k: _mean(columns[f"pass_at_{k}"]) for k in ks},
        **({"cut_off": _mean([s.get("cut_off") for s in seeds])} if "cut_off" in seeds[0] else {}),
        "ci95": intervals | {STYLES: _interval(styles, 1.0, inf)},
        "styles": _mean_shares([seed["styles"] for seed in seeds]),
        STYLES: _mean(styles),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _interval(values: Sequence[float | None], lowest: float, highest: float) -> list[float] | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values) or len(known) < 2:
        return None
    return list(t_interval(known, lowest=lowest, highest=highest))


def _mean_shares(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = sorted(set().union(*shares))
    return {name: fmean(of_seed.get(name, 0.0) for of_seed in shares) for name in names}


def _same(what: str, lists: Sequence[list[str]]) -> list[str]:
    for other in lists[1:]:
        if set(other) != set(lists[0]):
            raise DataError(f"seeds differ in their {what}: {lists[0]} and {other}")
    return lists[0]
