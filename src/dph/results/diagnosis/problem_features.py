"""What problems have in common: the columns of their file, lengths, and how often they were solved.

A feature is a column with a value, or a band of values, that some problems have and others do not:
``db_id = concert``, ``gold_sql: characters = 41 to 63``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dph.records import Problem

FEWEST = 3
"""A value held by fewer problems says nothing about the others, and a column whose values are on
average held by fewer counts by its length."""
_BANDS = 4
_FEW_NUMBERS = 8
"""Up to this many different numbers are values; more are put into bands."""
ACCURACY = "baseline accuracy"
_ACCURACY_BANDS = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A column and its value or band; ``same_as`` names those that hold of the same problems."""

    column: str
    value: str
    same_as: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The feature in one line."""
        return f"{self.column} = {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """Which problem has which feature, a row for each feature.

    ``unused`` says of columns why they make no feature.
    """

    features: tuple[Feature, ...]
    held: Bool[np.ndarray, "features problems"]
    unused: Mapping[str, str]


def problem_features(
    problems: Sequence[Problem] | None, accuracy: Float[np.ndarray, "problems"]
) -> Features:
    """The features of a set's problems, in its order.

    ``accuracy`` is the baseline's share of right answers to each; it is the only feature where the
    problems are None.
    """
    found: dict[tuple[str, str], Bool[np.ndarray, problems]] = {
        (ACCURACY, band): held for band, held in _accuracy_bands(accuracy) if _tells_apart(held)
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
    prompts: dict[str, list[Any]] = {"prompt": [_prompt_text(problem) for problem in problems]}
    if not problems:
        return {}
    return prompts | {name: [problem.answer.get(name) for problem in problems] for name in names}


def _prompt_text(problem: Problem) -> str:
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n".join(message["content"] for message in problem.prompt)


def _of_column(
    column: str, values: Sequence[Any]
) -> Iterator[tuple[tuple[str, str], Bool[np.ndarray, "problems"]]]:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, list) for value in known):
        items = [set(map(_text, value)) if value is not None else set() for value in values]
        for item in sorted(set().union(*items)):
            yield (column, f"has {item}"), np.array([item in one for one in items])
        yield from _bands(f"{column}: entries", [None if v is None else len(v) for v in values])
    elif known and all(_is_number(value) for value in known) and len(set(known)) > _FEW_NUMBERS:
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
        yield (column, f"{lo:g}" if lo == hi else f"{lo:g} to {hi:g}"), held


def _accuracy_bands(
    accuracy: Float[np.ndarray, "problems"],
) -> Iterator[tuple[str, Bool[np.ndarray, "problems"]]]:
    yield "0%", accuracy == 0
    for lo, hi in _ACCURACY_BANDS:
        yield f"over {lo:.0%} to {hi:.0%}", (accuracy > lo) & (accuracy <= hi)


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
    return Features(
        features=tuple(features),
        held=np.array(rows, dtype=bool).reshape(len(rows), problems),
        unused=unused,
    )


def _tells_apart(held: Bool[np.ndarray, "problems"]) -> bool:
    """Whether enough problems have a feature, and not all."""
    return bool(FEWEST <= held.sum() < len(held))


def _why_unused(values: Sequence[Any]) -> str:
    if all(value is None for value in values):
        return "it is empty"
    if any(isinstance(value, dict) for value in values):
        return "its values are objects"
    return "its values tell no problems apart"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
