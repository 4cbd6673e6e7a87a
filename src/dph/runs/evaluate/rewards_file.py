"""Graded samples of any tool as scores by problem, whose numbers of samples may differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.runs.evaluate.answers.read import read_answers
from dph.runs.evaluate.intervals import (
    RESAMPLES,
    Difference,
    all_equal,
    bootstrap_mean,
    paired_difference,
)
from dph.runs.evaluate.metrics import RETENTION_K, Retention, pass_at_k, retention


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
    """Read graded samples of any tool that ``dph.runs.evaluate.answers.read`` knows.

    A sample is correct if its ``outcome`` is CORRECT, or, in a file without outcomes, if its
    reward is 1. One whose grading CRASHED says nothing and is left out. With ``sample_index``
    samples are put into its order and greedy answers (-1) are left out; else they stay in the
    file's.

    Args:
        path: a file, or a directory of them.
        set_name: take only rows of this ``set``; a file with several needs it.
    """
    answers = read_answers(path).by_problem
    _require_one_set(path, [name for name, _ in answers], set_name)
    kept: dict[str, ProblemRewards] = {}
    bad = []
    for (name, problem_id), of in answers.items():
        if set_name not in (None, name):
            continue
        drawn = [answer for answer in of if answer.index is None or answer.index >= 0]
        graded = [answer for answer in drawn if answer.outcome is not Outcome.CRASHED]
        if any(answer.outcome is Outcome.BAD_GOLD for answer in graded) or len(graded) < bool(
            drawn
        ):
            bad.append(problem_id)
        elif graded:
            kept[problem_id] = ProblemRewards(
                rewards=np.array([answer.reward for answer in graded], dtype=np.float64),
                correct=np.array([answer.outcome is Outcome.CORRECT for answer in graded]),
            )
    if not kept:
        raise DataError(f"{path} has no graded samples" + (" that count" if bad else ""))
    return Rewards(problems=kept, bad_gold=tuple(bad))


def _require_one_set(path: Path, names: Sequence[str], set_name: str | None) -> None:
    sets = dict.fromkeys(names)
    if set_name is not None and set_name not in sets:
        raise DataError(f"{path} has no rows of the set {set_name!r}, only of {', '.join(sets)}")
    if set_name is None and len(sets) > 1:
        raise DataError(f"{path} holds several sets, choose one: {', '.join(sets)}")


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
