"""Numbers out of finished runs: a metric, or a sum of them, on a set or over several."""

from collections.abc import Sequence
from statistics import fmean

from dph.errors import DataError
from dph.lab.study.row_files import OF_VOTES, RowFile
from dph.lab.study.rule import metric_names


def set_names(row: RowFile) -> tuple[str, ...]:
    """The evaluation sets of a run, in their order; stores are none."""
    scores = (score for score in row.scores if score.metric not in OF_VOTES)
    return tuple(dict.fromkeys(score.set for score in scores))


def value_of(row: RowFile, metric: str, sets: Sequence[str]) -> float:
    """The mean over ``sets`` of a metric, or of the sum of several (``greedy + pass@16``).

    Raises:
        DataError: the run was not scored on one of the sets, or the metric is not known of it.
    """
    return fmean(sum(_one(row, name, of) for name in metric_names(metric)) for of in sets)


def known_value(row: RowFile, metric: str, sets: Sequence[str]) -> float | None:
    """``value_of``, or None where the run has no such set or metric."""
    try:
        return value_of(row, metric, sets)
    except DataError:
        return None


def _one(row: RowFile, metric: str, of: str) -> float:
    name, _, k = metric.partition("@")
    wanted = ("pass_at_k", int(k)) if name == "pass" else (name, None)
    for score in row.scores:
        if score.set == of and (score.metric, score.k) == wanted and score.value is not None:
            return score.value
    raise DataError(
        f"the run {row.run} has no {metric} on the set {of!r}; its sets are "
        f"{', '.join(map(repr, set_names(row)))}"
    )
