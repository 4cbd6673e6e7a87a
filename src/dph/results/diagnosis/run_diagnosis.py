"""A run's diagnosis: what it lost, where Pass@k went, and what its log says."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.results.diagnosis.changes import (
    FDR,
    Change,
    Levels,
    ProblemChange,
    change_levels,
    could_be_lost,
    list_level,
    problem_changes,
    question_level,
)
from dph.results.diagnosis.decomposition import PassAtKParts, pass_at_k_parts
from dph.results.diagnosis.log_findings import Finding, log_findings
from dph.results.diagnosis.problem_features import LostFeature, over_represented, problem_features
from dph.results.diagnosis.style_counts import (
    DIED,
    StyleChange,
    StyleCounts,
    paired_style_counts,
    smallest_rate,
    style_changes,
)
from dph.results.diagnosis.totals import Totals, set_totals
from dph.results.read.run_results import RunResults
from dph.runs.evaluate.evaluated_runs import default_ks
from dph.runs.evaluate.intervals import RESAMPLES, Difference, bootstrap_mean
from dph.runs.evaluate.pass_at_k import pass_at_k_curve
from dph.runs.evaluate.samples_file import comparable_scores
from dph.runs.evaluate.scores import SetScores

# The diagnosis of one set: problems, totals, styles, Pass@k and features.

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
    nothing is called moved or died where no answer has a style. ``features`` are ordered by
    p-value, over the ``candidates`` problems that could have been lost. ``outcomes`` are shares of
    the answers by outcome, of all problems and of the lost ones, for the baseline and the run.
    """

    problems: Sequence[ProblemChange]
    samples: int
    baseline_samples: int
    split_samples: int
    totals: Totals
    styles: Sequence[StyleChange]
    pass_at_k: Mapping[int, PassAtKChange]
    features: Sequence[LostFeature]
    candidates: int
    unused_columns: Mapping[str, str]
    outcomes: Mapping[str, Mapping[str, float]]

    def of(self, change: Change) -> list[ProblemChange]:
        """The problems that this became of."""
        return [one for one in self.problems if one.change is change]

    @property
    def styles_died(self) -> list[str]:
        """The names of the styles that died."""
        return [one.style for one in self.styles if one.died and one.style is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuestions:
    """How a set is asked: the k of Pass@k, what it takes to be named, when a style has died.

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

    Raises:
        DataError: the two were evaluated on different problems.
        SettingsError: a k or the share at which a style has died is out of range.
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
        lo, hi = bootstrap_mean(of_problem, seed=asked.seed, resamples=asked.resamples)
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


Scores = Mapping[str, SetScores]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All that a diagnosis found.

    ``fdr`` bounds it as a whole: of two draws of one model it names anything at all with a chance
    of at most ``fdr``. ``levels`` is what each question's lists got of it
    (``dph.results.diagnosis.changes``).

    ``left_out`` are problems whose gold answer could not be graded, by set. ``notes`` say what
    could not be told, and why.
    """

    run: str
    baseline: str
    fdr: float
    levels: Levels
    died: float
    sets: Mapping[str, SetDiagnosis]
    log: Sequence[Finding]
    left_out: Mapping[str, Sequence[str]]
    notes: Sequence[str]


def diagnose(
    run: str | Path,
    against: str | Path | None = None,
    *,
    sets: Collection[str] = (),
    ks: Sequence[int] | None = None,
    fdr: float = FDR,
    died: float = DIED,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Diagnosis:
    """What an evaluated run lost against its initial policy, or against any other evaluation.

    Args:
        run: a run directory, or one with an evaluation.
        against: another, or a samples file; default: the evaluation of the initial policy.
        sets: say what was found on these alone; default: on all that both were evaluated on.
            Every set is asked all the same, so that no verdict depends on what is shown.
        ks: the k of Pass@k; default: those of 8, 16, 32 that there are samples for.
        fdr: the chance that two draws of one model are told apart in anything.
        died: a style has died when its share is at most this part of what it was.
        seed: of the bootstrap and of the random choices that features are compared with.
        resamples: of the bootstrap.

    Raises:
        DataError: something was not evaluated, or not on the same problems.
        SettingsError: ``fdr``, ``died`` or a k is out of range.
    """
    if not 0 < fdr < 1:
        raise SettingsError(f"a false discovery rate lies between 0 and 1, got {fdr}")
    results = RunResults(Path(run))
    baseline = results.baseline(None if against is None else Path(against))
    tables = {"run": results.answers(texts=False), "baseline": baseline.answers(texts=False)}
    scores = comparable_scores(tables)
    names, notes = _common_sets({"run": results, "baseline": baseline}, scores, sets)
    chosen = {label: {name: of[name] for name in names} for label, of in scores.items()}
    pairs = {
        name: ((tables["run"], scores["run"][name]), (tables["baseline"], scores["baseline"][name]))
        for name in names
    }
    levels = _levels(pairs, question_level(fdr))
    wanted = ks or default_ks(chosen)
    asked = SetQuestions(ks=wanted, levels=levels, died=died, seed=seed, resamples=resamples)
    problems = {
        n: _problems(results, n, pair[0][1].problem_ids, notes) for n, pair in pairs.items()
    }
    found = {n: diagnose_set(n, *pair, problems[n], asked) for n, pair in pairs.items()}
    levels = replace(levels, features=_features_level(found, question_level(fdr)))
    shown = list(dict.fromkeys(sets or names))
    return Diagnosis(
        run=str(results.path),
        baseline=str(baseline.path),
        fdr=fdr,
        levels=levels,
        died=died,
        sets={name: name_features(found[name], levels.features) for name in shown},
        log=tuple(_log(results, notes)),
        left_out=_left_out(tables, {name: chosen["run"][name] for name in shown}),
        notes=tuple(notes),
    )


def _features_level(found: Mapping[str, SetDiagnosis], level: float) -> float:
    smallest = [one.features[0].adjusted if one.features else 1.0 for one in found.values()]
    return list_level(smallest, level)


def _log(results: RunResults, notes: list[str]) -> list[Finding]:
    """What the run's log says; notes of what it does not cover."""
    rows, later = results.log(), len(results.log_after_rl())
    if not rows:
        notes.append(f"{results.path} has no metrics.jsonl, so nothing is said about training")
    if later:
        notes.append(f"{later} updates followed RL (consolidation); the log is of RL")
    return log_findings(rows)


def _levels(pairs: Mapping[str, tuple[EvaluatedSet, EvaluatedSet]], level: float) -> Levels:
    """The level of each question's lists; features are not looked at yet."""
    styles, totals = [], []
    lost, gained = change_levels(
        [(mine, theirs) for (_, mine), (_, theirs) in pairs.values()], level
    )
    for name, ((run_table, mine), (baseline_table, theirs)) in pairs.items():
        samples = min(mine.samples, theirs.samples)
        counts = paired_style_counts(run_table, baseline_table, name, mine, samples=samples)
        styles.append(smallest_rate(*counts))
        totals.append(set_totals(mine, theirs).smallest_rate)
    return Levels(
        lost=lost,
        gained=gained,
        styles=list_level(styles, level),
        totals=list_level(totals, level),
        features=level / len(pairs),
    )


def _common_sets(
    sides: Mapping[str, RunResults], scores: Mapping[str, Scores], wanted: Collection[str]
) -> tuple[list[str], list[str]]:
    """The sets of both, those ``wanted`` among them, and a note of those of only one of the two."""
    for label, of in scores.items():
        for name in wanted:
            if name not in of:
                place = sides[label].path
                raise DataError(
                    f"the {label} {place} was evaluated on {', '.join(of)}, not on {name!r}"
                )
    run, baseline = scores["run"], scores["baseline"]
    both = [name for name in run if name in baseline]
    if not both:
        raise DataError(
            f"{sides['run'].path} was evaluated on {', '.join(run)} and "
            f"{sides['baseline'].path} on {', '.join(baseline)}: there is no set to compare them on"
        )
    one = [] if wanted else [name for name in (*run, *baseline) if name not in both]
    return both, [f"the set {name!r} was evaluated for one of the two only" for name in one]


def _problems(
    results: RunResults, set_name: str, problem_ids: Sequence[str], notes: list[str]
) -> list[Problem] | None:
    """The problems of a set in its order; None with a note where they cannot be had."""
    try:
        found = results.problems(set_name)
    except DataError as error:
        notes.append(f"features of {set_name!r}: only the baseline's accuracy, because {error}")
        return None
    missing = [one for one in problem_ids if one not in found]
    if missing:
        notes.append(
            f"features of {set_name!r}: only the baseline's accuracy, because {len(missing)} of "
            f"its problems are not in the file that the recipe names, for example {missing[0]!r}"
        )
        return None
    return [found[one] for one in problem_ids]


def _left_out(
    tables: Mapping[str, pa.Table], scores: Mapping[str, SetScores]
) -> dict[str, Sequence[str]]:
    """Problems that a set has and the scores have not."""
    left: dict[str, Sequence[str]] = {}
    names = tables["run"]["set"].to_numpy()
    ids = tables["run"]["problem_id"].to_numpy()
    for name, of_set in scores.items():
        there = dict.fromkeys(np.asarray(ids)[names == name].tolist())
        if gone := [one for one in there if one not in set(of_set.problem_ids)]:
            left[name] = tuple(gone)
    return left
