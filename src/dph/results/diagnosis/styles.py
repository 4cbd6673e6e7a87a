"""Styles of answering: which died, their part in a change of Pass@k, and what they add together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from math import factorial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int

from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.results.diagnosis.totals import fall_of_sum
from dph.runs.evaluate.intervals import LEVEL, RESAMPLES, bootstrap_mean, powers_of_two
from dph.runs.evaluate.metrics import pass_at_k, pass_at_k_curve, require_k_fits
from dph.runs.evaluate.scores import SetScores

Counts = Int[np.ndarray, "problems styles"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StyleCounts:
    """Answers and right answers, a row for each problem and a column for each style.

    Answers that have no style are a column of their own, named None: they are answers too.
    """

    styles: tuple[str | None, ...]
    answers: Counts
    correct: Counts

    @property
    def samples(self) -> int:
        """Answers to each problem."""
        return round(float(self.answers[0].sum()))


def paired_style_counts(
    model: pa.Table, baseline: pa.Table, set_name: str, scores: SetScores, *, samples: int
) -> tuple[StyleCounts, StyleCounts]:
    """The run's and the baseline's counts on a set, with the same columns, styles by name.

    ``scores`` say which problems count and in which order; of each the first ``samples`` answers
    are taken. The tables are as ``comparable_scores`` has accepted them.
    """
    both = [_rows(table, set_name, scores, samples) for table in (model, baseline)]
    ordered = _ordered(*(styles for styles, _ in both))
    mine, theirs = (_counts(styles, correct, ordered) for styles, correct in both)
    return mine, theirs


def set_style_counts(table: pa.Table, set_name: str, scores: SetScores) -> StyleCounts:
    """The counts of one model on a set, over all of its answers; styles by name, None last."""
    styles, correct = _rows(table, set_name, scores, scores.samples)
    return _counts(styles, correct, _ordered(styles))


def pool_style_counts(samples: pa.Table) -> StyleCounts | None:
    """The counts of a pool's answers, problems with a good gold only; None without styles.

    ``samples`` has the columns outcome, problem_id and style, each problem's rows together.
    """
    broken = samples.filter(pc.field("outcome") == Outcome.BAD_GOLD.value)["problem_id"]
    graded = samples.filter(~pc.field("problem_id").isin(broken.combine_chunks()))
    styles = np.array(graded["style"].to_pylist(), dtype=object)
    if all(one is None for one in styles):
        return None
    problems = pc.count_distinct(graded["problem_id"]).as_py()
    correct = graded["outcome"].to_numpy() == Outcome.CORRECT.value
    styles, correct = styles.reshape(problems, -1), correct.reshape(problems, -1)
    return _counts(styles, correct, _ordered(styles))


def _ordered(*styles: np.ndarray) -> tuple[str | None, ...]:
    names = {name for one in styles for name in one.ravel().tolist()}
    return (*sorted(n for n in names if n is not None), *([None] if None in names else []))


def _rows(
    table: pa.Table, set_name: str, scores: SetScores, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    chosen = table.filter(
        (pc.field("set") == set_name)
        & (pc.field("sample_index") >= 0)
        & (pc.field("sample_index") < samples)
        & pc.field("problem_id").isin(pa.array(scores.problem_ids, pa.string()))
    )
    shape = (len(scores.problem_ids), samples)
    correct = chosen["outcome"].to_numpy() == Outcome.CORRECT.value
    styles = np.array(chosen["style"].to_pylist(), dtype=object)
    row = {one: place for place, one in enumerate(chosen["problem_id"].to_pylist()[::samples])}
    order = [row[one] for one in scores.problem_ids]  # a table may have another
    return styles.reshape(shape)[order], correct.reshape(shape)[order]


def _counts(styles: np.ndarray, correct: np.ndarray, names: Sequence[str | None]) -> StyleCounts:
    of_style = [np.asarray(styles == name, dtype=bool) for name in names]
    answers = np.stack([one.sum(axis=1) for one in of_style], axis=1)
    right = np.stack([(one & correct).sum(axis=1) for one in of_style], axis=1)
    return StyleCounts(
        styles=tuple(names), answers=answers.astype(np.int64), correct=right.astype(np.int64)
    )


# Which ways of answering died.
#
# A style's share over a whole set, before and after. A style has died where two things hold: its
# share fell to at most a tenth of what it was (``DIED``), and two draws of the same model would
# show so large a fall with a chance of at most the level. Whether a problem's own few answers
# hold a style says little; over a set a tenfold fall is a fact about the model.
#
# The test is exact: given how many of all answers to a problem are of the style, the second
# draw's part of them is known (``same_model``), and so is the distribution of the sum. Answers to
# one problem resemble each other in style; the test keeps them together.

DIED = 0.1
"""A style has died when its share is at most this part of what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StyleChange:
    """A style before and after: its share of all answers and how often its answers are right.

    ``correct`` is None where there are no answers. ``p_value`` is the chance that two draws of one
    model show so large a fall of the share. Answers without a style (``style`` None) never die.
    """

    style: str | None
    share: float
    baseline_share: float
    correct: float | None
    baseline_correct: float | None
    p_value: float
    died: bool


def style_changes(
    model: StyleCounts, baseline: StyleCounts, *, level: float, died: float = DIED
) -> list[StyleChange]:
    """Every style's change; the chance that any is called dead by mistake is at most ``level``.

    Each style is tested at ``level`` over the number of styles (Bonferroni).
    """
    if not 0 <= died < 1:
        raise SettingsError(f"the share at which a style has died lies in [0, 1), got {died}")
    named = sum(style is not None for style in model.styles)
    changes = []
    for column, style in enumerate(model.styles):
        after, before = model.answers[:, column], baseline.answers[:, column]
        p_value = fall_of_sum(before, after, model.samples)
        fell = after.sum() <= died * before.sum() and p_value <= level / max(1, named)
        changes.append(
            StyleChange(
                style=style,
                share=float(after.sum() / model.answers.sum()),
                baseline_share=float(before.sum() / baseline.answers.sum()),
                correct=_share(int(model.correct[:, column].sum()), int(after.sum())),
                baseline_correct=_share(int(baseline.correct[:, column].sum()), int(before.sum())),
                p_value=p_value,
                died=bool(fell and style is not None),
            )
        )
    return changes


def smallest_rate(model: StyleCounts, baseline: StyleCounts) -> float:
    """The smallest level at which any style's share fell more than two draws of one model show."""
    named = [column for column, style in enumerate(model.styles) if style is not None]
    p_values = [
        fall_of_sum(baseline.answers[:, column], model.answers[:, column], model.samples)
        for column in named
    ]
    return min(1.0, len(named) * min(p_values, default=1.0))


def _share(count: int, of: int) -> float | None:
    return count / of if of else None


# Parts of a change of Pass@k: styles that died, certainty in others, mass between them.
#
# **Equation.** A problem's chance of a right answer is p = sum_s w_s q_s, w_s the share of its
# answers that are of style s and q_s the share of those that are right. Let D be the styles that
# died (``dead_styles``), W their share together and a = sum over D of w_s q_s. With v_s = w_s / (1
# - W), the shares among the styles that remain,
#
#     p = a + (1 - W) * sum over remaining s of v_s q_s.
#
# Three things change from baseline to run: (a, W), *styles died*; q of the remaining styles,
# *certainty*; and v, *moved*. p(S) is p with the things in S as in the run and the others as in the
# baseline. The part of each in the change of p is its Shapley value (Shapley 1953), the mean over
# the six orders in which the three can change one after another of what it adds:
#
#     part_j(p) = sum over S without j of |S|! (2 - |S|)! / 6 * (p(S + j) - p(S)).
#
# Pass@k depends on p alone: a hundredth of p counts alike whatever took it away. So its change is
# shared as that of p is, by the slope between the two models, c0 and c1 right answers of n and f
# the unbiased estimate:
#
#     part_j(Pass@k) = part_j(p) * (f(c1) - f(c0)) / ((c1 - c0) / n).
#
# Where c0 = c1 the slope is that of f around c0, and the parts cancel.
#
# **They add up.** In each order the steps telescope to p(run) - p(baseline) = (c1 - c0) / n, a mean
# of six equal sums is that sum, and times the slope it is f(c1) - f(c0). No order is preferred;
# what changes nothing gets 0; exchanging the two models changes every sign (as long as no style
# died: a death has a direction).
#
# **Why not the Shapley value of Pass@k itself.** It asks for Pass@k of models that nobody sampled,
# such as one that answers in one style alone, whose q a problem shows in three answers. f is
# concave, and noise in q lowers it: at 16 samples that estimate is off by half of its value. p is
# linear in each of q, v and (a, W), so its parts are hardly biased (docs/guides/diagnosis.md has
# both).
#
# **What is not observed.** q of a style without an answer in one model is taken from the other one,
# so nothing counts as a change of certainty that was not seen. Where a model answered a problem in
# dead styles alone, v is taken from the other model.
#
# **Accuracy.** Sums agree to 1e-12. The total is unbiased. Where all answers of a style to a
# problem are gone without its having died, the change of its q is unknown and what goes with it
# counts as moved.

Values = Float[np.ndarray, "problems"]
PARTS = ("total", "styles_died", "certainty", "moved")
_THINGS = 3


def pass_at_k_parts(
    model: StyleCounts, baseline: StyleCounts, died: Sequence[str], *, k: int
) -> dict[str, Values]:
    """Each problem's change of Pass@k, run minus baseline, and its three parts: ``PARTS``."""
    if model.styles != baseline.styles or model.answers.shape != baseline.answers.shape:
        raise DataError("a change of Pass@k is split between the same problems and styles")
    if model.samples != baseline.samples:
        raise DataError(f"the samples differ: {model.samples} and {baseline.samples} a problem")
    require_k_fits(k, model.samples)
    dead = np.array([style in died for style in model.styles])
    chances = _between(model, baseline, dead)
    curve = pass_at_k_curve(model.samples, np.arange(model.samples + 1), [k])[k]
    before, after = baseline.correct.sum(axis=1), model.correct.sum(axis=1)
    # Worth of one more right answer between the counts; around them where they are equal.
    equal = before == after
    lo = np.where(equal, np.maximum(before - 1, 0), before)
    hi = np.where(equal, np.minimum(after + 1, model.samples), after)
    slope = model.samples * ((curve[hi] - curve[lo]) / (hi - lo))
    parts = [slope * _shapley(chances, thing) for thing in range(_THINGS)]
    return dict(zip(PARTS, [curve[after] - curve[before], *parts], strict=True))


def _between(
    model: StyleCounts, baseline: StyleCounts, dead: Bool[np.ndarray, "styles"]
) -> dict[tuple[bool, bool, bool], Values]:
    """p(S) of every problem, by which of (styles died, certainty, moved) are as in the run."""
    sides = (baseline, model)
    mass = [side.answers / side.samples for side in sides]
    right = [side.correct / side.samples for side in sides]
    lost_mass = [m[:, dead].sum(axis=1) for m in mass]
    lost_right = [r[:, dead].sum(axis=1) for r in right]
    certainty = _from_the_other(*(_ratio(r, m) for r, m in zip(right, mass, strict=True)))
    shares = _from_the_other(
        *(_ratio(m[:, ~dead], (m[:, ~dead]).sum(axis=1, keepdims=True)) for m in mass)
    )
    chances = {
        (a, b, c): lost_right[a]
        + (1 - lost_mass[a]) * (shares[c] * certainty[b][:, ~dead]).sum(axis=1)
        for a, b, c in product((False, True), repeat=_THINGS)
    }
    for everything, side in zip((False, True), sides, strict=True):  # without rounding
        chances[everything, everything, everything] = side.correct.sum(axis=1) / side.samples
    return chances


def _shapley(chances: Mapping[tuple[bool, bool, bool], Values], thing: int) -> Values:
    """The part of one of the three things, over the orders in which they can change."""
    part: Values = np.zeros_like(chances[False, False, False])
    for before in product((False, True), repeat=_THINGS):
        if before[thing]:
            continue
        size = sum(before)
        weight = factorial(size) * factorial(_THINGS - 1 - size) / factorial(_THINGS)
        part += weight * (chances[_with(before, thing)] - chances[_with(before)])
    return np.asarray(part)


def _with(changed: Sequence[bool], thing: int | None = None) -> tuple[bool, bool, bool]:
    a, b, c = (was or i == thing for i, was in enumerate(changed))
    return a, b, c


def _ratio(
    part: Float[np.ndarray, "problems styles"], whole: Float[np.ndarray, "problems _"]
) -> Float[np.ndarray, "problems styles"]:
    """Part by whole; NaN where there is nothing to take a share of."""
    shares: Float[np.ndarray, "problems styles"] = np.full(part.shape, np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares


def _from_the_other(
    a: Float[np.ndarray, "problems styles"], b: Float[np.ndarray, "problems styles"]
) -> tuple[Float[np.ndarray, "problems styles"], Float[np.ndarray, "problems styles"]]:
    """Each where it is known, else the other, else 0: what neither shows has no mass in either."""
    return (np.nan_to_num(np.where(np.isnan(a), b, a)), np.nan_to_num(np.where(np.isnan(b), a, b)))


# Complementarity: how much of Pass@k comes from styles of answering that know different things.
#
# A model that keeps to one style still solves what that style solves. So complementarity at k is
# Pass@k of the answers as they are, minus Pass@k of the best single style, over the same problems:
#
#     C_k = min over styles s of mean_i [ f(n_i, c_i) - f(n_is, c_is) ],
#
# f the unbiased Pass@k, n_i and c_i the answers and right answers to problem i, n_is and c_is those
# in style s; of a style count the problems with at least k answers in it, and styles with fewer
# than half of the problems are not asked. Collapsing onto one style costs at least C_k. It is at
# most 0 if one style knows all that the others know, however bad those are.
#
# **The interval** holds whichever style is best: each style's gap has a bootstrap interval over
# problems at a level for all of them together (Bonferroni), and C_k lies between their least lower
# and their least upper ends. If styles tie, the best one's luck lowers the estimate by up to one
# standard error.
#
# **The null is exact**: if style says nothing of whether an answer is right, the styles of a
# problem's answers can be exchanged. ``p_value`` is the share of such exchanges, of all problems at
# once, with a C_k at least as large (Phipson and Smyth 2010, Statistical Applications in Genetics
# and Molecular Biology 9: the observed one is among them).
#
# **Accuracy**: five built strengths lie in their intervals in at least 95% of draws, and a world
# without complementarity is named in 5% of draws at level 0.05
# (tests/results/diagnosis/test_complementarity.py).

DRAWS = 999
COVERED = 0.5
"""A style is asked if this part of the problems has k answers in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleStyle:
    """Pass@k in one style alone and of all answers, over ``problems`` with k answers in it."""

    style: str
    share: float
    problems: int
    pass_at_k: float
    of_all: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Complementarity:
    """C_k with its 95% interval over problems, and the single styles, the best one first."""

    k: int
    value: float
    lo: float
    hi: float
    p_value: float
    styles: tuple[SingleStyle, ...]


def complementarity(
    counts: StyleCounts,
    *,
    k: int | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
    draws: int = DRAWS,
) -> Complementarity | None:
    """Complementarity of a model's styles at ``k``; None if fewer than two styles can be asked.

    Args:
        counts: answers and right answers by problem and style.
        k: default: the largest power of two that two styles can be asked at.
        seed: of the bootstrap and of the exchanges.
        resamples: of the bootstrap.
        draws: exchanges of the styles.

    Raises:
        SettingsError: k is below 2: a single try has one style.
    """
    if k is not None and k < 2:
        raise SettingsError(f"complementarity needs k >= 2, got k={k}")
    powers = powers_of_two(counts.samples)[1:]
    fitting = [k] if k is not None else takewhile(lambda k: len(_asked(counts, k)) > 1, powers)
    k = max(fitting, default=2)
    if len(asked := _asked(counts, k)) < 2:
        return None
    answers = counts.answers[:, asked]
    table = _estimates(counts.samples, k)
    whole = table[counts.answers.sum(axis=1), counts.correct.sum(axis=1)]
    gaps = whole[:, None] - table[answers, counts.correct[:, asked]]
    value = float(np.nanmean(gaps, axis=0).min())
    intervals = [
        bootstrap_mean(
            gap[~np.isnan(gap)],
            seed=seed,
            resamples=resamples,
            level=1 - (1 - LEVEL) / len(asked),
            bounds=(-1.0, 1.0),
        )
        for gap in gaps.T
    ]
    exchanged = [
        np.nanmean(whole[:, None] - table[answers, right[:, asked]], axis=0).min()
        for right in _exchanges(counts, draws, np.random.default_rng(seed))
    ]
    as_large = int((np.array(exchanged) >= value - 1e-12).sum())
    return Complementarity(
        k=k,
        value=value,
        lo=min(lo for lo, _ in intervals),
        hi=min(hi for _, hi in intervals),
        p_value=(1 + as_large) / (draws + 1),
        styles=_single_styles(counts, asked, gaps, whole),
    )


def _asked(counts: StyleCounts, k: int) -> list[int]:
    """The columns of the styles that enough problems have k answers in."""
    covered = (counts.answers >= k).mean(axis=0)
    return [i for i, s in enumerate(counts.styles) if s is not None and covered[i] >= COVERED]


def _estimates(samples: int, k: int) -> Float[np.ndarray, "answers correct"]:
    """Pass@k by answers and right ones; NaN below k answers."""
    table = np.full((samples + 1, samples + 1), np.nan)
    for n in range(k, samples + 1):
        table[n, : n + 1] = pass_at_k(n, np.arange(n + 1), k)
    return table


def _exchanges(
    counts: StyleCounts, draws: int, rng: np.random.Generator
) -> Iterator[Int[np.ndarray, "problems styles"]]:
    """Right answers by problem and style, the styles of each problem's answers exchanged."""
    places = np.arange(counts.samples)
    right = places < counts.correct.sum(axis=1, keepdims=True)
    ends = counts.answers.cumsum(axis=1)
    for _ in range(draws):
        seen = rng.permuted(right, axis=1).cumsum(axis=1)
        upto = np.where(ends > 0, np.take_along_axis(seen, np.maximum(ends - 1, 0), axis=1), 0)
        yield np.diff(upto, axis=1, prepend=0)


def _single_styles(
    counts: StyleCounts,
    asked: Sequence[int],
    gaps: Float[np.ndarray, "problems styles"],
    whole: Float[np.ndarray, "problems"],
) -> tuple[SingleStyle, ...]:
    styles = []
    for gap, column in zip(gaps.T, asked, strict=True):
        known = ~np.isnan(gap)
        of_all = float(whole[known].mean())
        styles.append(
            SingleStyle(
                style=str(counts.styles[column]),
                share=float(counts.answers[:, column].sum() / counts.answers.sum()),
                problems=int(known.sum()),
                pass_at_k=of_all - float(gap[known].mean()),
                of_all=of_all,
            )
        )
    return tuple(sorted(styles, key=lambda one: one.of_all - one.pass_at_k))
