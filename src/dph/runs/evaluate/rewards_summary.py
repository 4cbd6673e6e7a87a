"""Mean and Pass@k of graded samples, alone or against others on the same problems."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.intervals import RESAMPLES, Difference, bootstrap_mean, paired_difference
from dph.runs.evaluate.pass_at_k import pass_at_k
from dph.runs.evaluate.retention import RETENTION_K, Retention, retention
from dph.runs.evaluate.rewards_file import Rewards


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over problems with its 95% interval."""

    value: float
    lo: float
    hi: float


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
        estimates.append(Estimate(value=float(of_file.mean()), lo=lo, hi=hi))
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
