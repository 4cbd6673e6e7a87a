"""The problems on which two evaluated models differ most."""

from dataclasses import dataclass

import numpy as np

from dph.errors import SettingsError
from dph.runs.evaluate.scores import SetScores, require_same_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedProblem:
    """How many samples of a problem two models answered correctly."""

    problem_id: str
    correct: int
    samples: int
    baseline_correct: int
    baseline_samples: int

    @property
    def change(self) -> float:
        """The share of correct samples, minus that of the baseline."""
        return self.correct / self.samples - self.baseline_correct / self.baseline_samples


def changed_problems(model: SetScores, baseline: SetScores, *, most: int) -> list[ChangedProblem]:
    """At most ``most`` problems whose share of correct samples changed, the largest change first.

    Equal changes stay in the order of the set.

    Raises:
        DataError: the two were scored on different problems.
        SettingsError: ``most`` is below 0.
    """
    if most < 0:
        raise SettingsError(f"the number of problems must be at least 0, got {most}")
    require_same_problems(model, baseline, name_a="the model", name_b="the baseline")
    counts, before = model.correct_counts, baseline.correct_counts
    change = np.abs(counts / model.samples - before / baseline.samples)
    ranked = np.argsort(-change, kind="stable")[:most]
    return [
        ChangedProblem(
            problem_id=model.problem_ids[i],
            correct=int(counts[i]),
            samples=model.samples,
            baseline_correct=int(before[i]),
            baseline_samples=baseline.samples,
        )
        for i in ranked
        if change[i] > 0
    ]
