"""The diagnosis of one set: problems, totals, styles, Pass@k and features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from dph.records import Problem
from dph.results.diagnosis.changes import (
    Change,
    Levels,
    ProblemChange,
    could_be_lost,
    problem_changes,
)
from dph.results.diagnosis.complementarity import Complementarity, complementarity
from dph.results.diagnosis.decomposition import PassAtKParts, pass_at_k_parts
from dph.results.diagnosis.problem_features import LostFeature, over_represented, problem_features
from dph.results.diagnosis.style_counts import (
    DIED,
    StyleChange,
    StyleCounts,
    paired_style_counts,
    set_style_counts,
    style_changes,
)
from dph.results.diagnosis.totals import Totals, set_totals
from dph.runs.evaluate.intervals import RESAMPLES, Difference, bootstrap_mean
from dph.runs.evaluate.metrics import pass_at_k_curve
from dph.runs.evaluate.scores import SetScores

EvaluatedSet = tuple[pa.Table, SetScores]
PARTS = ("total", "styles_died", "certainty", "moved")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassAtKChange:
    """Pass@k of the baseline and of the run, and the parts of the difference, run minus baseline.

    ``parts`` has ``total``, ``styles_died``, ``certainty`` and ``moved``, means over problems with
    95% intervals; ``of_lost`` the same over the lost problems alone (None where none is), where
    being picked for having fallen makes every number larger than a new draw would; ``by_problem``
    the parts of each problem, in the order of the set.
    """

    k: int
    baseline: float
    run: float
    parts: Mapping[str, Difference]
    of_lost: Mapping[str, float] | None
    by_problem: PassAtKParts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetDiagnosis:
    """All that was found on a set.

    ``samples`` of the run and of the baseline are answers a problem; ``split_samples`` those that
    styles and Pass@k go by, the first of both where their numbers differ. ``styles`` is empty and
    nothing is called moved or died where no answer has a style. ``complementarity`` is the
    baseline's, None if fewer than two styles have enough answers. ``features`` are ordered by
    p-value, over the ``candidates`` problems that could have been lost. ``outcomes`` are shares of
    the answers by outcome, of all problems and of the lost ones, for the baseline and the run.
    """

    problems: Sequence[ProblemChange]
    samples: int
    baseline_samples: int
    split_samples: int
    totals: Totals
    styles: Sequence[StyleChange]
    complementarity: Complementarity | None
    pass_at_k: Mapping[int, PassAtKChange]
    features: Sequence[LostFeature]
    candidates: int
    unused_columns: Mapping[str, str]
    outcomes: Mapping[str, Mapping[str, float]]

    def of(self, change: Change) -> list[ProblemChange]:
        """The problems that this became of."""
        return [one for one in self.problems if one.change is change]

    @property
    def solved_before_alone(self) -> list[ProblemChange]:
        """Problems that only the baseline solved, those that it solved most often first.

        Many were right too seldom to be lost each by itself; Pass@k counts them all.
        """
        alone = [one for one in self.problems if one.baseline_correct and not one.correct]
        return sorted(alone, key=lambda one: -one.baseline_correct)

    @property
    def styles_died(self) -> list[str]:
        """The names of the styles that died."""
        return [one.style for one in self.styles if one.died and one.style is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuestions:
    """Questions to a set: the k of Pass@k, levels for naming, and when a style has died.

    ``seed`` is of the bootstrap with ``resamples`` and of the random choices of the lost.
    """

    ks: Sequence[int]
    levels: Levels
    died: float = DIED
    seed: int = 0
    resamples: int = RESAMPLES


def diagnose_set(
    name: str,
    run: EvaluatedSet,
    baseline: EvaluatedSet,
    problems: Sequence[Problem] | None,
    asked: SetQuestions,
) -> SetDiagnosis:
    """Ask every question about a set; ``problems`` are in the set's order, or not known.

    Features are not named yet: their level is that of all sets (``name_features``).
    """
    (run_table, mine), (baseline_table, theirs) = run, baseline
    levels = asked.levels
    changes = problem_changes(mine, theirs, lost_level=levels.lost, gained_level=levels.gained)
    lost = np.array([one.change is Change.LOST for one in changes])
    samples = min(mine.samples, theirs.samples)
    counts = paired_style_counts(run_table, baseline_table, name, mine, samples=samples)
    styles = style_changes(*counts, level=levels.styles, died=asked.died)
    dead = [one.style for one in styles if one.died and one.style is not None]
    features = problem_features(problems, theirs.correct.mean(axis=1))
    candidates = could_be_lost(changes, level=levels.lost)
    return SetDiagnosis(
        problems=tuple(changes),
        samples=mine.samples,
        baseline_samples=theirs.samples,
        split_samples=samples,
        totals=set_totals(mine, theirs).at(levels.totals),
        styles=tuple(styles) if any(one.style is not None for one in styles) else (),
        complementarity=complementarity(
            set_style_counts(baseline_table, name, theirs),
            seed=asked.seed,
            resamples=asked.resamples,
        ),
        pass_at_k={
            k: _pass_at_k_change(*counts, dead, lost, k, asked) for k in sorted(set(asked.ks))
        },
        features=tuple(over_represented(features, lost, candidates, seed=asked.seed)),
        candidates=int(candidates.sum()),
        unused_columns=features.unused,
        outcomes=_outcomes(name, run_table, baseline_table, mine, lost),
    )


def name_features(found: SetDiagnosis, level: float) -> SetDiagnosis:
    """The same, with those features named whose adjusted p-value is at most ``level``."""
    named = tuple(replace(row, named=row.adjusted <= level) for row in found.features)
    return replace(found, features=named)


def _pass_at_k_change(
    model: StyleCounts,
    baseline: StyleCounts,
    dead: Sequence[str],
    lost: Bool[np.ndarray, "problems"],
    k: int,
    asked: SetQuestions,
) -> PassAtKChange:
    parts = pass_at_k_parts(model, baseline, dead, k=k)
    values = {part: getattr(parts, part) for part in PARTS}
    before, after = (
        float(pass_at_k_curve(side.samples, side.correct.sum(axis=1), [k])[k].mean())
        for side in (baseline, model)
    )
    differences = {}
    for part, of_problem in values.items():
        lo, hi = bootstrap_mean(  # a part that is 0 at every problem is none: no exact interval
            of_problem, seed=asked.seed, resamples=asked.resamples, bounds=(0.0, 0.0)
        )
        differences[part] = Difference(mean=float(of_problem.mean()), lo=lo, hi=hi)
    of_lost = (
        {part: float(value[lost].mean()) for part, value in values.items()} if lost.any() else None
    )
    return PassAtKChange(
        k=k,
        baseline=before,
        run=after,
        parts=differences,
        of_lost=of_lost,
        by_problem=parts,
    )


def _outcomes(
    name: str,
    run: pa.Table,
    baseline: pa.Table,
    scores: SetScores,
    lost: Bool[np.ndarray, "problems"],
) -> dict[str, dict[str, float]]:
    ids = np.array(scores.problem_ids, dtype=object)
    found = {}
    for label, table in (("baseline", baseline), ("run", run)):
        for suffix, chosen in (("", ids), ("_lost", ids[lost])):
            rows = table.filter(
                (pc.field("set") == name)
                & (pc.field("sample_index") >= 0)
                & pc.field("problem_id").isin(pa.array(chosen.tolist(), pa.string()))
            )
            counts = {
                one["values"]: one["counts"] for one in rows["outcome"].value_counts().to_pylist()
            }
            found[label + suffix] = {
                outcome: counts[outcome] / rows.num_rows for outcome in sorted(counts)
            }
    return found
