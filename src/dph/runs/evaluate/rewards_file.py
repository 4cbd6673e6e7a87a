"""Any file of graded samples, ``problem_id`` and ``reward`` a row, as scores by problem."""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from dph._base.files.rows import RowFormat, column_names, read_rows, row_format
from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.runs.evaluate.intervals import (
    RESAMPLES,
    Difference,
    all_equal,
    bootstrap_mean,
    paired_difference,
)
from dph.runs.evaluate.metrics import RETENTION_K, Retention, pass_at_k, retention

_NEEDED = ("problem_id", "reward")
_KNOWN = (*_NEEDED, "outcome", "sample_index", "set")
_NUMBERS = ("reward", "sample_index")
_OUTCOMES = tuple(outcome.value for outcome in Outcome)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProblemRewards:
    """The samples of one problem, in order: rewards, and which are correct."""

    rewards: Float[np.ndarray, "samples"]
    correct: Bool[np.ndarray, "samples"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rewards:
    """Graded samples by problem, in the order of the file.

    ``bad_gold`` are problems that could not be graded (outcome BAD_GOLD); they are left out.
    """

    problems: Mapping[str, ProblemRewards]
    bad_gold: tuple[str, ...] = ()

    @property
    def samples(self) -> Int[np.ndarray, "problems"]:
        """Samples of each problem."""
        return np.array([len(each.correct) for each in self.problems.values()])

    @property
    def correct_matrix(self) -> Bool[np.ndarray, "problems samples"] | None:
        """Correct or not, a row for each problem; None if their numbers of samples differ."""
        if len(set(self.samples.tolist())) != 1:
            return None
        return np.array([each.correct for each in self.problems.values()])

    def only(self, problem_ids: Sequence[str]) -> "Rewards":
        """These problems, in this order."""
        return Rewards(problems={each: self.problems[each] for each in problem_ids})


def read_rewards(path: Path, *, set_name: str | None = None) -> Rewards:
    """Read a file of graded samples: parquet, JSON lines or CSV (dph._base.files.rows.SUFFIXES).

    A sample is correct if its ``outcome`` is CORRECT, or, in a file without outcomes, if its
    reward is 1. One whose grading CRASHED says nothing and is left out. With ``sample_index``
    samples are put into its order and greedy answers (-1) are left out; else they stay in the
    file's.

    Args:
        path: the file.
        set_name: take only rows of this ``set``; a file with several needs it.

    Raises:
        DataError: the file is missing or of another kind, lacks a column, or a row is malformed;
            the message names the row.
    """
    samples: dict[str, dict[int, tuple[float, bool]]] = {}
    bad: dict[str, None] = {}
    crashed: dict[str, None] = {}
    numbered: set[bool] = set()
    sets: dict[str, None] = {}
    for place, row in _rows(path):
        sets[str(row.get("set"))] = None
        if set_name is not None and str(row.get("set")) != set_name:
            continue
        problem_id, reward = _problem_id(row, place), _reward(row, place)
        index, outcome = _index(row, place), _outcome(row, place)
        if index is not None and index < 0:
            continue
        if outcome is Outcome.BAD_GOLD:
            bad[problem_id] = None
        if outcome is Outcome.CRASHED:  # the other answers to the problem count
            crashed[problem_id] = None
            continue
        numbered.add(index is not None)
        if len(numbered) > 1:
            raise DataError(f"{place}: some rows have a sample_index and some have none")
        own = samples.setdefault(problem_id, {})
        index = len(own) if index is None else index
        if index in own:
            raise DataError(f"{place}: sample {index} of problem {problem_id!r} occurs twice")
        own[index] = reward, reward == 1.0 if outcome is None else outcome is Outcome.CORRECT
    _require_one_set(path, sets, set_name)
    bad |= {name: None for name in crashed if name not in samples}
    kept = {name: _of_problem(own) for name, own in samples.items() if name not in bad}
    if not kept:
        raise DataError(f"{path} has no graded samples" + (" that count" if bad else ""))
    return Rewards(problems=kept, bad_gold=tuple(bad))


def _of_problem(samples: Mapping[int, tuple[float, bool]]) -> ProblemRewards:
    ordered = [samples[index] for index in sorted(samples)]
    return ProblemRewards(
        rewards=np.array([reward for reward, _ in ordered], dtype=np.float64),
        correct=np.array([correct for _, correct in ordered], dtype=bool),
    )


def _require_one_set(path: Path, sets: Mapping[str, None], set_name: str | None) -> None:
    if set_name is not None and set_name not in sets:
        raise DataError(f"{path} has no rows of the set {set_name!r}, only of {', '.join(sets)}")
    if set_name is None and len(sets) > 1:
        raise DataError(f"{path} holds several sets, choose one: {', '.join(sets)}")


def _problem_id(row: Mapping[str, Any], place: str) -> str:
    value = row.get("problem_id")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"{place}: problem_id must be text or a whole number, got {value!r}")
    return str(value)


def _reward(row: Mapping[str, Any], place: str) -> float:
    value = row.get("reward")
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise DataError(f"{place}: reward must be a number in [0, 1], got {value!r}")
    return float(value)


def _index(row: Mapping[str, Any], place: str) -> int | None:
    value = row.get("sample_index")
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if value is not None and not whole:
        raise DataError(f"{place}: sample_index must be a whole number, got {value!r}")
    return None if value is None else int(value)


def _outcome(row: Mapping[str, Any], place: str) -> Outcome | None:
    value = row.get("outcome")
    if value is not None and value not in _OUTCOMES:
        raise DataError(f"{place}: outcome must be one of {', '.join(_OUTCOMES)}, got {value!r}")
    return None if value is None else Outcome(value)


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    found = row_format(path)
    if found is RowFormat.PARQUET:
        _require_columns(column_names(path), str(path))
    for place, row in read_rows(path, columns=_KNOWN):
        if found is not RowFormat.PARQUET:
            _require_columns(row if isinstance(row, dict) else {}, place)
        yield place, _with_numbers(row) if found is RowFormat.CSV else row


def _with_numbers(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a CSV file, in which all is text: numbers are read, and an empty cell is none."""
    filled: dict[str, Any] = {name: cell for name, cell in row.items() if cell}
    for name in _NUMBERS:
        with contextlib.suppress(KeyError, ValueError):  # what is not a number is refused as text
            filled[name] = float(filled[name])
    return filled


def _require_columns(names: Any, place: str) -> None:
    if missing := [name for name in _NEEDED if name not in names]:
        raise DataError(
            f"{place}: there is no {' and no '.join(map(repr, missing))}, only "
            f"{', '.join(names) or 'nothing'}; every row needs the id of its problem and its reward"
        )


# Mean and Pass@k of graded samples, alone or against others on the same problems.


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over problems with its 95% interval, exact or by the bootstrap."""

    value: float
    lo: float
    hi: float
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """``mean`` or ``pass_at_<k>``; ``against`` and ``difference`` where there is another file."""

    metric: str
    estimate: Estimate
    against: Estimate | None = None
    difference: Difference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardsSummary:
    """All that a file of graded samples says.

    ``retention`` is None without another file; its numbers are None below 2 k samples, or when
    problems differ in their number of samples.
    """

    problems: int
    fewest_samples: int
    most_samples: int
    left_out: tuple[str, ...]
    rows: tuple[MetricRow, ...]
    retention: Retention | None


def summarize_rewards(
    rewards: Rewards,
    against: Rewards | None = None,
    *,
    ks: Sequence[int] | None = None,
    retention_k: int = RETENTION_K,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> RewardsSummary:
    """Mean reward and unbiased Pass@k over problems, and their differences to ``against``.

    Each problem's Pass@k goes by its own number of samples. A problem that could not be graded
    in one of the files is left out of both. ``ks`` None takes 1, 2, 4 ... up to the fewest
    samples of a problem.

    Raises:
        DataError: the files hold other problems, or nothing is left.
        SettingsError: a problem has fewer samples than a k.
    """
    files = [rewards] if against is None else [rewards, against]
    bad = {name for file in files for name in file.bad_gold}
    _require_same_problems(files, bad)
    ids = [name for name in rewards.problems if name not in bad]
    if not ids:
        raise DataError("no problem could be graded in both files")
    files = [file.only(ids) for file in files]
    fewest = min(int(file.samples.min()) for file in files)
    wanted = sorted(set(ks)) if ks else _powers_of_two(fewest)
    rows = [_row("mean", [_means(file) for file in files], seed, resamples)]
    for k in wanted:
        rows.append(_row(f"pass_at_{k}", [_pass_at(file, k) for file in files], seed, resamples))
    return RewardsSummary(
        problems=len(ids),
        fewest_samples=fewest,
        most_samples=max(int(file.samples.max()) for file in files),
        left_out=tuple(sorted(bad)),
        rows=tuple(rows),
        retention=_retention(files[0], files[1], retention_k) if len(files) > 1 else None,
    )


def _row(
    metric: str, values: Sequence[Float[np.ndarray, "problems"]], seed: int, resamples: int
) -> MetricRow:
    estimates = []
    for of_file in values:
        lo, hi = bootstrap_mean(of_file, seed=seed, resamples=resamples)
        exact = all_equal(of_file)
        estimates.append(Estimate(value=float(of_file.mean()), lo=lo, hi=hi, exact=exact))
    if len(values) == 1:
        return MetricRow(metric=metric, estimate=estimates[0])
    apart = paired_difference(values[0], values[1], seed=seed, resamples=resamples)
    return MetricRow(metric=metric, estimate=estimates[0], against=estimates[1], difference=apart)


def _means(rewards: Rewards) -> Float[np.ndarray, "problems"]:
    return np.array([each.rewards.mean() for each in rewards.problems.values()])


def _pass_at(rewards: Rewards, k: int) -> Float[np.ndarray, "problems"]:
    values = []
    for name, each in rewards.problems.items():
        if not 1 <= k <= len(each.correct):
            raise SettingsError(
                f"need 1 <= k <= samples, got k={k}, but problem {name!r} has "
                f"{len(each.correct)} samples"
            )
        values.append(pass_at_k(len(each.correct), int(each.correct.sum()), k))
    return np.array(values)


def _retention(model: Rewards, base: Rewards, k: int) -> Retention:
    of_model, of_base = model.correct_matrix, base.correct_matrix
    if of_model is None or of_base is None:
        return Retention(keep=None, explore=None, keep_null=None, explore_null=None)
    return retention(of_model, of_base, k=k)


def _powers_of_two(largest: int) -> list[int]:
    return [2**power for power in range(largest.bit_length()) if 2**power <= largest]


def _require_same_problems(files: Sequence[Rewards], bad: set[str]) -> None:
    sets = [set(file.problems) | bad for file in files]
    for number, (mine, other) in enumerate(zip(sets, reversed(sets), strict=True)):
        if only := sorted(mine - other):
            which, lacking = (
                ("the first", "the second") if number == 0 else ("the second", "the first")
            )
            raise DataError(
                f"the files cannot be compared problem by problem: {len(only)} of {which} are not "
                f"in {lacking}, for example {only[0]!r}"
            )
