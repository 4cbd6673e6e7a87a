"""Parts of a change of Pass@k: styles that died, certainty in others, mass between them.

**Equation.** A problem's chance of a right answer is p = sum_s w_s q_s, w_s the share of its
answers that are of style s and q_s the share of those that are right. Let D be the styles that died
(``dead_styles``), W their share together and a = sum over D of w_s q_s. With v_s = w_s / (1 - W),
the shares among the styles that remain,

    p = a + (1 - W) * sum over remaining s of v_s q_s.

Three things change from baseline to run: (a, W), *styles died*; q of the remaining styles,
*certainty*; and v, *moved*. p(S) is p with the things in S as in the run and the others as in the
baseline. The part of each in the change of p is its Shapley value (Shapley 1953), the mean over the
six orders in which the three can change one after another of what it adds:

    part_j(p) = sum over S without j of |S|! (2 - |S|)! / 6 * (p(S + j) - p(S)).

Pass@k depends on p alone: a hundredth of p counts alike whatever took it away. So its change is
shared as that of p is, by the slope between the two models, c0 and c1 right answers of n and f the
unbiased estimate:

    part_j(Pass@k) = part_j(p) * (f(c1) - f(c0)) / ((c1 - c0) / n).

Where c0 = c1 the slope is that of f around c0, and the parts cancel.

**They add up.** In each order the steps telescope to p(run) - p(baseline) = (c1 - c0) / n, a mean
of six equal sums is that sum, and times the slope it is f(c1) - f(c0). No order is preferred; what
changes nothing gets 0; exchanging the two models changes every sign (as long as no style died: a
death has a direction).

**Why not the Shapley value of Pass@k itself.** It asks for Pass@k of models that nobody sampled,
such as one that answers in one style alone, whose q a problem shows in three answers. f is concave,
and noise in q lowers it: at 16 samples that estimate is off by half of its value. p is linear in
each of q, v and (a, W), so its parts are hardly biased (docs/guides/diagnosis.md has
both).

**What is not observed.** q of a style without an answer in one model is taken from the other one,
so nothing counts as a change of certainty that was not seen. Where a model answered a problem in
dead styles alone, v is taken from the other model.

**Accuracy.** Sums agree to 1e-12. The total is unbiased. Where all answers of a style to a problem
are gone without its having died, the change of its q is unknown and what goes with it counts as
moved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import factorial

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import DataError
from dph.results.diagnosis.style_counts import StyleCounts
from dph.runs.evaluate.metrics import pass_at_k_curve, require_k_fits

Values = Float[np.ndarray, "problems"]
_THINGS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassAtKParts:
    """A change of Pass@k problem by problem, run minus baseline, and its three parts."""

    k: int
    total: Values
    styles_died: Values
    certainty: Values
    moved: Values


def pass_at_k_parts(
    model: StyleCounts, baseline: StyleCounts, died: Sequence[str], *, k: int
) -> PassAtKParts:
    """Split each problem's change of Pass@k exactly into its three parts."""
    if model.styles != baseline.styles or model.answers.shape != baseline.answers.shape:
        raise DataError("a change of Pass@k is split between the same problems and styles")
    if model.samples != baseline.samples:
        raise DataError(f"the samples differ: {model.samples} and {baseline.samples} a problem")
    require_k_fits(k, model.samples)
    dead = np.array([style in died for style in model.styles])
    chances = between(model, baseline, dead)
    curve = pass_at_k_curve(model.samples, np.arange(model.samples + 1), [k])[k]
    before, after = baseline.correct.sum(axis=1), model.correct.sum(axis=1)
    slope = model.samples * _slope(curve, before, after)
    died_part, certainty, moved = (slope * part for part in shapley_values(chances))
    return PassAtKParts(
        k=k,
        total=curve[after] - curve[before],
        styles_died=died_part,
        certainty=certainty,
        moved=moved,
    )


def between(
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


def _slope(
    curve: Float[np.ndarray, "counts"],
    before: Int[np.ndarray, "problems"],
    after: Int[np.ndarray, "problems"],
) -> Values:
    """Worth of one more right answer between the counts; around them where they are equal."""
    equal = before == after
    lo = np.where(equal, np.maximum(before - 1, 0), before)
    hi = np.where(equal, np.minimum(after + 1, len(curve) - 1), after)
    return np.asarray((curve[hi] - curve[lo]) / (hi - lo))


def shapley_values(chances: Mapping[tuple[bool, bool, bool], Values]) -> list[Values]:
    """Of each of the three things what it adds, over the orders in which they can change."""
    return [_shapley(chances, thing) for thing in range(_THINGS)]


def _shapley(chances: Mapping[tuple[bool, bool, bool], Values], thing: int) -> Values:
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
    return (
        np.nan_to_num(np.where(np.isnan(a), b, a)),
        np.nan_to_num(np.where(np.isnan(b), a, b)),
    )
