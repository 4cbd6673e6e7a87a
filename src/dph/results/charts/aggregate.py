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

from dph.errors import DataError
from dph.results.charts.student_t import t_quantile

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
