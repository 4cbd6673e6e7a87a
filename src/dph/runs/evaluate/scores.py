"""The scores of one set of problems, and their summary in evaluation.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import DataError
from dph.runs.evaluate.intervals import RESAMPLES, bootstrap_mean
from dph.runs.evaluate.pass_at_k import pass_at_k_curve
from dph.runs.evaluate.retention import RETENTION_K, Retention, retention
from dph.runs.evaluate.retention import effective_styles


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetScores:
    """What a model scored on a set, problem by problem and sample by sample.

    ``greedy`` is None when no greedy answer was asked for. ``shares`` are the styles of all
    samples (not of the greedy answers), right or wrong; empty without a style classifier.
    ``cut_off`` is the share of all samples that ended at ``max_tokens``; None where it is not
    known.
    """

    problem_ids: tuple[str, ...]
    correct: Bool[np.ndarray, "problems samples"]
    rewards: Float[np.ndarray, "problems samples"]
    greedy: Bool[np.ndarray, "problems"] | None
    shares: Mapping[str, float]
    cut_off: float | None = None

    @property
    def samples(self) -> int:
        """Samples of each problem."""
        return int(self.correct.shape[1])

    @property
    def correct_counts(self) -> Int[np.ndarray, "problems"]:
        """Correct samples of each problem."""
        return np.asarray(self.correct.sum(axis=1))


def metric_values(scores: SetScores, ks: Sequence[int]) -> dict[str, Float[np.ndarray, "problems"]]:
    """Each metric's value for every problem: greedy (if there), mean, pass_at_<k>.

    ``mean`` is Mean@n, the mean reward, in which a verifier may give part of the points;
    greedy and Pass@k count CORRECT answers only.

    Raises:
        SettingsError: a k is not between 1 and the number of samples.
    """
    values = {} if scores.greedy is None else {"greedy": scores.greedy.astype(np.float64)}
    values["mean"] = scores.rewards.mean(axis=1)
    curve = pass_at_k_curve(scores.samples, scores.correct_counts, sorted(set(ks)))
    return values | {f"pass_at_{k}": of_problem for k, of_problem in curve.items()}


def set_summary(
    scores: SetScores,
    *,
    ks: Sequence[int],
    seed: int,
    base: SetScores | None = None,
    retention_k: int = RETENTION_K,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """The object of one set in evaluation.json (docs/artefacts.md): fractions in [0, 1].

    None where nothing is known: greedy without a greedy answer, keep and explore without a base
    model, effective_styles without a style classifier.

    Raises:
        DataError: the base was scored on other problems.
        SettingsError: a k is not between 1 and the number of samples.
    """
    values = metric_values(scores, ks)
    means = {name: float(of_problem.mean()) for name, of_problem in values.items()}
    intervals: dict[str, list[float] | None] = {"greedy": None}
    for name, of_problem in values.items():
        intervals[name] = list(bootstrap_mean(of_problem, seed=seed, resamples=resamples))
    kept = _retention(scores, base, retention_k)
    return {
        "problems": len(scores.problem_ids),
        "greedy": means.get("greedy"),
        "mean": means["mean"],
        "pass_at_k": {str(k): means[f"pass_at_{k}"] for k in sorted(set(ks))},
        "ci95": intervals,
        "cut_off": scores.cut_off,
        "keep": kept.keep,
        "explore": kept.explore,
        "keep_null": kept.keep_null,
        "explore_null": kept.explore_null,
        "styles": dict(scores.shares),
        "effective_styles": effective_styles(scores.shares) if scores.shares else None,
    }


def require_same_problems(a: SetScores, b: SetScores, *, name_a: str, name_b: str) -> None:
    """Refuse to compare scores of different problems, or of the same in another order.

    Raises:
        DataError: they differ; the message names an example.
    """
    if a.problem_ids == b.problem_ids:
        return
    for only, other, owner, lacking in ((a, b, name_a, name_b), (b, a, name_b, name_a)):
        missing = sorted(set(only.problem_ids) - set(other.problem_ids))
        if missing:
            raise DataError(
                f"{name_a} and {name_b} cannot be compared problem by problem: {len(missing)} of "
                f"{owner} are not in {lacking}, for example {missing[0]!r}"
            )
    at = next(
        i for i, (x, y) in enumerate(zip(a.problem_ids, b.problem_ids, strict=True)) if x != y
    )
    raise DataError(
        f"{name_a} and {name_b} list their problems in different orders: "
        f"at {at} one has {a.problem_ids[at]!r}, the other {b.problem_ids[at]!r}"
    )


def _retention(scores: SetScores, base: SetScores | None, k: int) -> Retention:
    if base is None:
        return Retention(keep=None, explore=None, keep_null=None, explore_null=None)
    require_same_problems(scores, base, name_a="the model", name_b="the base model")
    return retention(scores.correct, base.correct, k=k)
