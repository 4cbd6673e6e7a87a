"""The diagnosis of one set, in numbers and in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

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
    smallest_rates,
    unnamed_fall,
)
from dph.results.diagnosis.features import LostFeature, over_represented, problem_features
from dph.results.diagnosis.log_findings import Finding
from dph.results.diagnosis.styles import (
    DIED,
    Complementarity,
    StyleChange,
    StyleCounts,
    Values,
    complementarity,
    paired_style_counts,
    pass_at_k_parts,
    set_style_counts,
    smallest_rate,
    style_changes,
)
from dph.results.diagnosis.totals import Totals, named_totals, set_totals, smallest_total_rate
from dph.runs.evaluate.intervals import RESAMPLES, Difference, bootstrap_mean
from dph.runs.evaluate.metrics import pass_at_k_curve
from dph.runs.evaluate.scores import SetScores

EvaluatedSet = tuple[pa.Table, SetScores]
"""The samples and the scores of a model on a set."""


@dataclass(frozen=True, eq=False)
class PairedSet:
    """A set as the run and its baseline answered it; of more samples the first ones are split."""

    name: str
    run: EvaluatedSet
    baseline: EvaluatedSet

    @cached_property
    def style_counts(self) -> tuple[StyleCounts, StyleCounts]:
        (mine, scores), (theirs, others) = self.run, self.baseline
        samples = min(scores.samples, others.samples)
        return paired_style_counts(mine, theirs, self.name, scores, samples=samples)

    @cached_property
    def totals(self) -> Totals:
        return set_totals(self.run[1], self.baseline[1])

    def smallest_rates(self) -> dict[str, float]:
        """By question, the smallest level at which anything is named."""
        lost, gained = smallest_rates(self.run[1], self.baseline[1])
        styles, totals = smallest_rate(*self.style_counts), smallest_total_rate(self.totals)
        return {"lost": lost, "gained": gained, "styles": styles, "totals": totals}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassAtKChange:
    """Pass@k of the baseline and of the run, and the parts of the difference, run minus baseline.

    ``parts`` has ``total``, ``styles_died``, ``certainty`` and ``moved``, means over problems with
    95% intervals; ``of_lost`` the same over the lost problems alone (None where none is), where
    being picked for having fallen makes every number larger than a new draw would; ``by_problem``
    the parts of each problem, in the order of the set.
    """

    baseline: float
    run: float
    parts: Mapping[str, Difference]
    of_lost: Mapping[str, float] | None
    by_problem: Mapping[str, Values]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetDiagnosis:
    """All that was found on a set.

    ``samples`` of the run and of the baseline are answers a problem; ``split_samples`` those that
    styles and Pass@k go by, the first of both where their numbers differ. ``styles`` is empty and
    nothing is called moved or died where no answer has a style. ``complementarity`` is the
    baseline's, None if fewer than two styles have enough answers. ``features`` are ordered by
    p-value, over the ``candidates`` problems that could have been lost. ``outcomes`` are shares of
    the answers by outcome, of all problems and of the lost ones, for the baseline and the run.
    ``unnamed_fall`` is a fall that too few answers were drawn for (``changes.unnamed_fall``).
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
    unnamed_fall: tuple[ProblemChange, int] | None = None

    def of(self, change: Change) -> list[ProblemChange]:
        return [one for one in self.problems if one.change is change]

    @property
    def solved_before_alone(self) -> list[ProblemChange]:
        """Problems that only the baseline solved, those that it solved most often first.

        Many were solved too rarely for each to be named lost; Pass@k counts them all.
        """
        alone = [one for one in self.problems if one.baseline_correct and not one.correct]
        return sorted(alone, key=lambda one: -one.baseline_correct)

    @property
    def styles_died(self) -> list[str]:
        return [one.style for one in self.styles if one.died and one.style is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuestions:
    """Questions to a set; ``seed`` is also that of the random choices of the lost."""

    ks: Sequence[int]
    levels: Levels
    died: float = DIED
    seed: int = 0
    resamples: int = RESAMPLES


def diagnose_set(
    pair: PairedSet, problems: Sequence[Problem] | None, asked: SetQuestions
) -> SetDiagnosis:
    """Ask every question about a set; ``problems`` are in the set's order, or not known.

    Features are not named yet: their level is that of all sets (``name_features``).
    """
    (_, mine), (baseline_table, theirs), levels = pair.run, pair.baseline, asked.levels
    changes = problem_changes(mine, theirs, lost_level=levels.lost, gained_level=levels.gained)
    lost = np.array([one.change is Change.LOST for one in changes])
    counts = pair.style_counts
    styles = style_changes(*counts, level=levels.styles, died=asked.died)
    dead = [str(one.style) for one in styles if one.died]
    features = problem_features(problems, theirs.correct.mean(axis=1))
    candidates = could_be_lost(changes, level=levels.lost)
    return SetDiagnosis(
        problems=tuple(changes),
        samples=mine.samples,
        baseline_samples=theirs.samples,
        split_samples=counts[0].samples,
        totals=named_totals(pair.totals, levels.totals),
        styles=tuple(styles) if any(one.style is not None for one in styles) else (),
        complementarity=complementarity(
            set_style_counts(baseline_table, pair.name, theirs),
            seed=asked.seed,
            resamples=asked.resamples,
        ),
        pass_at_k={
            k: _pass_at_k_change(*counts, dead, lost, k, asked) for k in sorted(set(asked.ks))
        },
        features=tuple(over_represented(features, lost, candidates, seed=asked.seed)),
        candidates=int(candidates.sum()),
        unused_columns=features.unused,
        outcomes=_outcomes(pair, lost),
        unnamed_fall=unnamed_fall(changes, level=levels.lost),
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
    before, after = (
        float(pass_at_k_curve(side.samples, side.correct.sum(axis=1), [k])[k].mean())
        for side in (baseline, model)
    )
    differences = {}
    # A part that is 0 at every problem is none: no exact interval.
    drawn = partial(bootstrap_mean, seed=asked.seed, resamples=asked.resamples, bounds=(0.0, 0.0))
    for part, of_problem in parts.items():
        lo, hi = drawn(of_problem)
        differences[part] = Difference(mean=float(of_problem.mean()), lo=lo, hi=hi)
    of_lost = {part: float(values[lost].mean()) for part, values in parts.items() if lost.any()}
    return PassAtKChange(
        baseline=before, run=after, parts=differences, of_lost=of_lost or None, by_problem=parts
    )


def _outcomes(pair: PairedSet, lost: Bool[np.ndarray, "problems"]) -> dict[str, dict[str, float]]:
    ids = np.array(pair.run[1].problem_ids, dtype=object)
    found = {}
    for label, (table, _) in (("baseline", pair.baseline), ("run", pair.run)):
        for suffix, chosen in (("", ids), ("_lost", ids[lost])):
            rows = table.filter(
                (pc.field("set") == pair.name)
                & (pc.field("sample_index") >= 0)
                & pc.field("problem_id").isin(pa.array(chosen.tolist(), pa.string()))
            )
            counts = rows["outcome"].value_counts().to_pylist()
            found[label + suffix] = {
                one["values"]: one["counts"] / rows.num_rows
                for one in sorted(counts, key=lambda one: one["values"])
            }
    return found


NAMED = 0.05
_LISTED = 3


# Findings on a set, in sentences: each from a condition that held, with its numbers.


def set_sentences(name: str, found: SetDiagnosis) -> list[Finding]:
    """The sentences of a set, in a fixed order."""
    return [
        *_problems(name, found),
        *_totals(name, found),
        *_styles(name, found),
        *_complementarity(name, found),
        *_pass_at_k(name, found),
        *_features(name, found),
    ]


def _problems(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    counts = {change.value: len(found.of(change)) for change in Change}
    if counts["lost"] or counts["gained"]:
        text = (
            f"Of {len(found.problems)} problems of {name}, {counts['lost']} lost and "
            f"{counts['gained']} gained right answers, each more than two draws of one model would "
            "show."
        )
    else:
        text = (
            f"Of {len(found.problems)} problems of {name} none was lost or gained beyond what two "
            "draws of one model would show."
        )
    yield Finding(about="problems", text=text, values={"problems": len(found.problems), **counts})
    if found.unnamed_fall is not None:
        one, times = found.unnamed_fall
        first, second = one.baseline_samples, one.samples
        answers = f"{second} answers each" if first == second else f"{first} and {second} answers"
        enough = f"{times * second}" if first == second else f"{times} times as many"
        fall = f"{one.problem_id} fell from {one.baseline_correct}/{first} to 0/{second}"
        yield Finding(
            about="too_few_answers",
            text=f"{answers} are too few to name a lost problem of {name}: {fall}, and with "
            f"{enough} it would be named.",
            values={"answers": second, "times": times},
        )


def _totals(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    texts = {
        "correct_answers": "{observed} of the run's answers on {name} were right; two draws of one "
        "model with as many right answers between them leave it {range}.",
        "solved_before_alone": "{observed} problems of {name} were solved by the base model and "
        "by no answer of the run; two draws of one model leave {range} such problems.",
        "solved_after_alone": "{observed} problems of {name} were solved by the run and by no "
        "answer of the base model; two draws of one model leave {range} such problems.",
    }
    for about, text in texts.items():
        one = found.totals[about]
        if one.named:
            shown = text.format(observed=one.observed, name=name, range=f"{one.lo} to {one.hi}")
            if about == "solved_before_alone" and one.observed > one.expected:
                shown += _named_alone(found)
            values = {key: getattr(one, key) for key in ("observed", "expected", "lo", "hi")}
            yield Finding(about=about, text=shown, values=values)


def _named_alone(found: SetDiagnosis) -> str:
    alone = found.solved_before_alone
    told = [f"{one.problem_id} ({one.baseline_correct}/{one.baseline_samples})" for one in alone]
    more = f" and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
    seldom = sum(one.change is not Change.LOST for one in alone)
    return (
        f" They are {', '.join(told[:_LISTED])}{more}; {seldom} of them were solved too rarely for "
        "each to be named lost."
    )


def _styles(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    dead = [one for one in found.styles if one.died]
    if not dead:
        return
    listed = ", ".join(
        f"{one.style} ({_percent(one.baseline_share)} to {_percent(one.share)})" for one in dead
    )
    alive = sum(one.baseline_share > 0 and one.style is not None for one in found.styles)
    text = f"On {name} {len(dead)} of {alive} styles died: {listed}."
    values = {f"{one.style}": one.share for one in dead}
    yield Finding(about="styles_died", text=text, values=values)


def _complementarity(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    if (one := found.complementarity) is not None:
        text = f"On {name}, before training: {complementarity_text(one)}"
        values = {"k": one.k, "value": one.value, "lo": one.lo, "hi": one.hi, "p": one.p_value}
        yield Finding(about="complementarity", text=text, values=values)


def complementarity_text(found: Complementarity) -> str:
    """Complementarity in one sentence."""
    best, k = found.styles[0], found.k
    interval = f"[{_points(found.lo)}, {_points(found.hi)}] points, p = {found.p_value:.2g}"
    if found.p_value <= NAMED and found.value > 0:
        return (
            f"{_points(found.value)} of the Pass@{k} of {_percent(best.of_all)} come from styles "
            f"that know different things ({interval}); its best style alone, {best.style}, has "
            f"{_percent(best.pass_at_k)}."
        )
    return (
        f"the styles do not add to each other beyond chance: the best one alone, {best.style}, has "
        f"a Pass@{k} of {_percent(best.pass_at_k)}, all together {_percent(best.of_all)} "
        f"({interval})."
    )


def _pass_at_k(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    if not found.pass_at_k or not found.styles:
        return
    k, one = next(iter(found.pass_at_k.items()))
    total = one.parts["total"]
    names = {
        "styles_died": "styles that died",
        "certainty": "certainty inside the styles that remain",
        "moved": "mass moved between those",
    }
    parts = (f"{_points(one.parts[part].mean)} points {what}" for part, what in names.items())
    text = (
        f"Pass@{k} on {name} was {_percent(one.baseline)} and is {_percent(one.run)}, a "
        f"difference of {_points(total.mean)} [{_points(total.lo)}, {_points(total.hi)}] points: "
        f"{', '.join(parts)}."
    )
    values = {part: of_part.mean for part, of_part in one.parts.items()}
    yield Finding(about="pass_at_k", text=text, values={"k": k, **values})


def _features(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    for one in [row for row in found.features if row.named][:_LISTED]:
        text = (
            f"Of the problems of {name} with {one.feature.name}, {one.lost_with} of {one.having} "
            f"that could be lost were lost, of the others {one.lost_without} of {one.lacking}."
        )
        counts = ("lost_with", "having", "lost_without", "lacking")
        values = {name: getattr(one, name) for name in counts}
        yield Finding(about="feature", text=text, values=values)


def _points(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:+.1f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"
