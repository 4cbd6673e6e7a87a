"""Features of problems: the columns of their file, lengths, and how often they were solved.

A feature is a column with a value, or a band of values, that some problems have and others do not:
``db_id = concert``, ``gold_sql: characters = 41 to 63``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import DataError
from dph.records import Problem
from dph.results.diagnosis.changes import newcombe
from dph.results.diagnosis.totals import falls
from dph.runs.evaluate.intervals import Difference

FEWEST = 3
"""Problems that a value needs; a column whose values have fewer on average counts by its length."""
_BANDS = 4
_FEW_NUMBERS = 8
"""Up to this many different numbers are values; more are put into bands."""
ACCURACY = "base model's accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A column and its value or band; ``same_as`` names those that hold of the same problems."""

    column: str
    value: str
    same_as: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.column} = {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """Problems by feature, a row for each; ``unused`` says why columns make no feature."""

    features: tuple[Feature, ...]
    held: Bool[np.ndarray, "features problems"]
    unused: Mapping[str, str]


def problem_features(
    problems: Sequence[Problem] | None, accuracy: Float[np.ndarray, "problems"]
) -> Features:
    """The features of a set's problems; only ``accuracy`` of the baseline if they are unknown."""
    bands = {"0%": accuracy == 0}
    for lo, hi in pairwise((0.0, 0.25, 0.5, 0.75, 1.0)):
        bands[f"over {lo:.0%} to {hi:.0%}"] = (accuracy > lo) & (accuracy <= hi)
    found: dict[tuple[str, str], Bool[np.ndarray, problems]] = {
        (ACCURACY, band): held for band, held in bands.items() if _tells_apart(held)
    }
    unused: dict[str, str] = {}
    for column, values in _columns(problems or ()).items():
        made = {key: held for key, held in _of_column(column, values) if _tells_apart(held)}
        if not made:
            unused[column] = _why_unused(values)
        found |= made
    return _merged(found, unused, len(accuracy))


def _columns(problems: Sequence[Problem]) -> dict[str, list[Any]]:
    """Every column of the file and the prompt, with None where a problem lacks it."""
    names = dict.fromkeys(name for problem in problems for name in problem.answer)
    texts = [
        one.prompt
        if isinstance(one.prompt, str)
        else "\n".join(message["content"] for message in one.prompt)
        for one in problems
    ]
    prompts: dict[str, list[Any]] = {"prompt": texts} if problems else {}
    return prompts | {name: [problem.answer.get(name) for problem in problems] for name in names}


def _of_column(
    column: str, values: Sequence[Any]
) -> Iterator[tuple[tuple[str, str], Bool[np.ndarray, "problems"]]]:
    known = [value for value in values if value is not None]
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)
    if known and all(isinstance(value, list) for value in known):
        items = [set(map(_text, value)) if value is not None else set() for value in values]
        often = Counter(item for one in items for item in one)
        for item in sorted(item for item, times in often.items() if times >= FEWEST):
            yield (column, f"has {item}"), np.array([item in one for one in items])
        yield from _bands(f"{column}: entries", [None if v is None else len(v) for v in values])
    elif numeric and len(set(known)) > _FEW_NUMBERS:
        yield from _bands(column, values)
    elif known and all(isinstance(value, str | bool | int | float) for value in known):
        texts = [None if value is None else _text(value) for value in values]
        distinct = set(map(_text, known))
        if len(distinct) * FEWEST <= len(values):
            for value in sorted(distinct):
                yield (column, value), np.array([text == value for text in texts])
        else:
            lengths = [None if text is None else len(text) for text in texts]
            yield from _bands(f"{column}: characters", lengths)
    missing = np.array([value is None for value in values])
    if missing.any() and not missing.all():
        yield (column, "missing"), missing


def _bands(
    column: str, values: Sequence[float | None]
) -> Iterator[tuple[tuple[str, str], Bool[np.ndarray, "problems"]]]:
    """Quarters of the problems by a number; equal numbers are in one band."""
    numbers = np.array([np.nan if value is None else float(value) for value in values])
    known = numbers[np.isfinite(numbers)]
    if len(set(known.tolist())) < 2:
        return
    edges = np.unique(np.quantile(known, np.linspace(0, 1, _BANDS + 1)[1:], method="inverted_cdf"))
    lowest = -np.inf
    for edge in edges:
        held = (numbers > lowest) & (numbers <= edge)
        lo, hi = numbers[held].min(), numbers[held].max()
        lowest = edge
        yield (column, " to ".join(dict.fromkeys((_number(lo), _number(hi))))), held


def _number(value: float) -> str:
    """Whole numbers in full: dates and times are told apart by their last digits."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:g}"


def _merged(
    found: Mapping[tuple[str, str], Bool[np.ndarray, "problems"]],
    unused: Mapping[str, str],
    problems: int,
) -> Features:
    """Features of the same problems are one."""
    groups: dict[bytes, list[tuple[str, str]]] = {}
    for key, held in found.items():
        groups.setdefault(held.tobytes(), []).append(key)
    features = [
        Feature(
            column=first[0],
            value=first[1],
            same_as=tuple(f"{column} = {value}" for column, value in others),
        )
        for first, *others in groups.values()
    ]
    rows = [found[keys[0]] for keys in groups.values()]
    held = np.array(rows, dtype=bool).reshape(len(rows), problems)
    return Features(features=tuple(features), held=held, unused=unused)


def _tells_apart(held: Bool[np.ndarray, "problems"]) -> bool:
    """True if enough problems have a feature, and not all."""
    return bool(FEWEST <= held.sum() < len(held))


def _why_unused(values: Sequence[Any]) -> str:
    if all(value is None for value in values):
        return "it is empty"
    if any(isinstance(value, dict) for value in values):
        return "its values are objects"
    return "its values do not distinguish problems"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


# Which features the lost problems have more often than others.
#
# Only problems that could have been named are counted (``changes.could_be_lost``): of one that
# the baseline solved once in sixteen no loss can be shown, so being easy would pass for being
# lost. Given how many of them are lost, and if that has nothing to do with a feature, every
# choice of as many is as likely as any other: how many of the lost have the feature is
# hypergeometric (Fisher 1935), one-sided.
#
# Features overlap (a database and the length of its prompts), so they are adjusted together: how
# small does the smallest p-value of all features get when the lost are drawn at random?
# **Source**: Westfall and Young (1993), Resampling-Based Multiple Testing, single-step minP. The
# smallest adjusted p-value is at most x with a chance of at most x where the lost have nothing in
# common, whatever the dependence.

DRAWS = 10_000
_BLOCK = 500
"""Draws at a time; bounds the memory, does not change the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFeature:
    """A feature among problems that could have been lost: how many have it, how many of both were.

    ``difference`` is the share lost of those with the feature minus that of those without, with its
    95% interval of this feature alone. ``p_value`` is exact, ``adjusted`` for all features of the
    set.
    """

    feature: Feature
    lost_with: int
    having: int
    lost_without: int
    lacking: int
    difference: Difference
    p_value: float
    adjusted: float
    named: bool = False
    """True if ``adjusted`` reaches the level of the diagnosis."""


def over_represented(
    features: Features,
    lost: Bool[np.ndarray, "problems"],
    candidates: Bool[np.ndarray, "problems"],
    *,
    seed: int,
    draws: int = DRAWS,
) -> list[LostFeature]:
    """Every feature that some candidates have and others lack, the least likely by chance first.

    Empty where nothing or everything is lost. The same seed gives the same result.
    """
    if (lost & ~candidates).any():
        raise DataError("a problem that was lost must be one that could be lost")
    held, named = features.held[:, candidates], lost[candidates]
    having = held.sum(axis=1)
    told = np.flatnonzero((having > 0) & (having < held.shape[1]))
    if named.all() or not named.any() or not len(told):
        return []
    chances = _chances(having[told], int(named.sum()), held.shape[1])
    with_it = (held[told] & named).sum(axis=1)
    p_values = chances[np.arange(len(told)), with_it]
    smallest = _smallest(held[told], int(named.sum()), chances, seed=seed, draws=draws)
    # The observed choice counts as one of the draws, so that no p-value is 0.
    adjusted = (1 + (smallest[None, :] <= p_values[:, None]).sum(axis=1)) / (draws + 1)
    rows = []
    for at, count, p_value, level in zip(told, with_it, p_values, adjusted, strict=True):
        lost_with, of, lost_without = int(count), int(having[at]), int(named.sum() - count)
        row = LostFeature(
            feature=features.features[at],
            lost_with=lost_with,
            having=of,
            lost_without=lost_without,
            lacking=len(named) - of,
            difference=newcombe(lost_with, of, lost_without, len(named) - of),
            p_value=float(p_value),
            adjusted=float(level),
        )
        rows.append(row)
    return sorted(rows, key=lambda row: row.p_value)


def _chances(
    having: Int[np.ndarray, "features"], lost: int, candidates: int
) -> Float[np.ndarray, "features counts"]:
    """P(at least x of the lost have the feature) for each feature and each x from 0 to the lost."""
    found = np.zeros((len(having), lost + 1))
    for row, total in enumerate(having.tolist()):
        # At least x of the lost have it: at most total - x of the others do.
        others = falls(total, lost, candidates - lost)
        for x in range(min(lost, total) + 1):
            found[row, x] = others[min(total - x, candidates - lost)]
    return found


def _smallest(
    held: Bool[np.ndarray, "features candidates"],
    lost: int,
    chances: Float[np.ndarray, "features counts"],
    *,
    seed: int,
    draws: int,
) -> Float[np.ndarray, "draws"]:
    """The smallest p-value of all features in each of many random choices of the lost."""
    rng = np.random.default_rng(seed)
    features, candidates = held.shape
    found = []
    for start in range(0, draws, _BLOCK):
        order = rng.random((min(_BLOCK, draws - start), candidates)).argpartition(lost - 1, axis=1)
        chosen = np.zeros(order.shape, dtype=np.float32)
        np.put_along_axis(chosen, order[:, :lost], 1.0, axis=1)
        counts = np.rint(held.astype(np.float32) @ chosen.T).astype(np.int64)
        found.append(chances[np.arange(features)[:, None], counts].min(axis=0))
    return np.concatenate(found)
