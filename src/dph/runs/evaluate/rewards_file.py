"""Graded samples of any tool as scores by problem, whose numbers of samples may differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.runs.evaluate.answers.read import read_answers
from dph.runs.evaluate.comparison import ComparisonRow, compared
from dph.runs.evaluate.first_loss import (
    Band,
    differences,
    gaussian_band,
    powers_of_two,
    simultaneous_band,
)
from dph.runs.evaluate.intervals import RESAMPLES
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


MODEL, BASE = "model", "base"
"""Names of the two files as the runs of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardsSummary:
    """All that a file of graded samples says.

    ``rows`` are those of ``MODEL`` and, with another file, of ``BASE``; ``band`` and the peer's
    have all k of Pass@k. These and ``retention`` are None without another file; the numbers of
    ``retention`` are None below 2 k samples, or when problems differ in their number of samples.
    """

    problems: int
    fewest_samples: int
    most_samples: int
    left_out: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]
    retention: Retention | None
    band: Band | None
    peer: Band | None


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
    wanted = sorted(set(ks)) if ks else powers_of_two(fewest)
    values = {name: _values(file, wanted) for name, file in zip((MODEL, BASE), files, strict=False)}
    rows = compared(values, BASE if against else MODEL, seed, resamples=resamples)
    apart = differences(values[MODEL], values[BASE]) if against else None
    return RewardsSummary(
        problems=len(ids),
        fewest_samples=fewest,
        most_samples=max(int(file.samples.max()) for file in files),
        left_out=tuple(sorted(bad)),
        rows=tuple(rows),
        retention=_retention(files[0], files[1], retention_k) if against else None,
        band=simultaneous_band(apart, seed=seed, resamples=resamples) if apart else None,
        peer=gaussian_band(apart, seed=seed) if apart else None,
    )


def _values(rewards: Rewards, ks: Sequence[int]) -> dict[str, Float[np.ndarray, "problems"]]:
    """The metrics of every problem, by its own number of samples."""
    problems, samples = rewards.problems, rewards.samples
    least = int(samples.argmin())
    for k in ks:
        if not 1 <= k <= samples[least]:
            raise SettingsError(
                f"need 1 <= k <= samples, got k={k}, but problem {[*problems][least]!r} has "
                f"{samples[least]} samples"
            )
    correct = np.array([each.correct.sum() for each in problems.values()])
    means = np.array([each.rewards.mean() for each in problems.values()])
    return {"mean": means} | {f"pass_at_{k}": pass_at_k(samples, correct, k) for k in ks}


def _retention(model: Rewards, base: Rewards, k: int) -> Retention:
    of_model, of_base = model.correct_matrix, base.correct_matrix
    if of_model is None or of_base is None:
        return Retention(keep=None, explore=None, keep_null=None, explore_null=None)
    return retention(of_model, of_base, k=k)


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
