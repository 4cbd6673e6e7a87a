"""The choice of a candidate by the rule, from runs on the development seeds."""

from collections.abc import Sequence
from statistics import fmean
from dph.errors import DataError
from dph.lab.study.rows import OF_VOTES, RowFile
from dph.lab.study.rule import metric_names
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from dph.errors import DataError, SettingsError
from dph.lab.study.candidates import Candidate
from dph.lab.study.rows import RowFile
from dph.lab.study.rule import ChoiceSettings


# Numbers out of finished runs: a metric, or a sum of them, on a set or over several.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was tried of a method on a world, and which of it is reported.

    ``scores`` belong to ``tried`` one by one; None where there were no development runs (there was
    nothing to choose) or they are not finished.
    """

    tried: tuple[Candidate, ...]
    scores: tuple[float | None, ...]
    chosen: Candidate

    @property
    def score(self) -> float | None:
        """Of the chosen one."""
        return self.scores[self.tried.index(self.chosen)]

    def tied(self, tie: float) -> tuple[Candidate, ...]:
        """All that the tie-break chose between; empty where the best score decided alone."""
        known = [score for score in self.scores if score is not None]
        if len(known) < len(self.tried):
            return ()
        found = _within(known, tie)
        return tuple(self.tried[i] for i in found) if len(found) > 1 else ()


def development_score(rows: Sequence[RowFile], rule: ChoiceSettings) -> float:
    """The mean over runs, and over the rule's sets, of the rule's metric.

    Raises:
        SettingsError: the rule names a set or a metric that the runs do not have.
    """
    try:
        return fmean(value_of(row, rule.metric, rule.sets or set_names(row)) for row in rows)
    except DataError as error:
        raise SettingsError(f"the rule's [choose] does not fit: {error}") from error


def best_candidate(
    tried: Sequence[Candidate], scores: Sequence[float], rule: ChoiceSettings
) -> int:
    """The place of the chosen one: of those less than ``tie`` below the best, the firmest.

    ``tie_goes_to = "weaker"`` takes the least firm of them. With ``tie = 0`` only exactly equal
    scores are a tie.

    >>> tried = [Candidate(strength=s) for s in (0.1, 1.0, 10.0)]
    >>> best_candidate(tried, [1.600, 1.598, 1.5], ChoiceSettings(tie=0.005))
    1
    """
    tied = _within(scores, rule.tie)
    strongest = rule.tie_goes_to == "stronger"
    return (max if strongest else min)(tied, key=lambda i: tried[i].firmness)


def _within(scores: Sequence[float], tie: float) -> list[int]:
    """The places of the best score and of those less than ``tie`` below it."""
    best = max(scores)
    return [i for i, score in enumerate(scores) if score == best or best - score < tie]
