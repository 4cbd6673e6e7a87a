"""Complementarity: how much of Pass@k comes from styles of answering that know different things.

A model that keeps to one style still solves what that style solves. So complementarity at k is
Pass@k of the answers as they are, minus Pass@k of the best single style, over the same problems:

    C_k = min over styles s of mean_i [ f(n_i, c_i) - f(n_is, c_is) ],

f the unbiased Pass@k, n_i and c_i the answers and right answers to problem i, n_is and c_is those
in style s; of a style count the problems with at least k answers in it, and styles with fewer than
half of the problems are not asked. Collapsing onto one style costs at least C_k. It is at most 0
if one style knows all that the others know, however bad those are.

**The interval** holds whichever style is best: each style's gap has a bootstrap interval over
problems at a level for all of them together (Bonferroni), and C_k lies between their least lower
and their least upper ends. If styles tie, the best one's luck lowers the estimate by up to one
standard error.

**The null is exact**: if style says nothing of whether an answer is right, the styles of a
problem's answers can be exchanged. ``p_value`` is the share of such exchanges, of all problems at
once, with a C_k at least as large (Phipson and Smyth 2010, Statistical Applications in Genetics and
Molecular Biology 9: the observed one is among them).

**Accuracy**: five built strengths lie in their intervals in at least 95% of draws, and a world
without complementarity is named in 5% of draws at level 0.05
(tests/results/diagnosis/test_complementarity.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from jaxtyping import Float, Int

from dph.errors import SettingsError
from dph.results.diagnosis.styles import StyleCounts
from dph.runs.evaluate.intervals import LEVEL, RESAMPLES, bootstrap_mean, powers_of_two
from dph.runs.evaluate.metrics import pass_at_k

DRAWS = 999
COVERED = 0.5
"""A style is asked if this part of the problems has k answers in it."""

Gaps = Float[np.ndarray, "problems styles"]


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
    counts: StyleCounts, asked: Sequence[int], gaps: Gaps, whole: Float[np.ndarray, "problems"]
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
