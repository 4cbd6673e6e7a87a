"""One level for a whole diagnosis, shared by its questions and its sets.

A diagnosis asks five questions of every set: which problems were lost, which gained, which styles
died, whether the totals moved, which features the lost have. Each question gets a fifth of the
level. Within a question a set comes in as its smallest adjusted p-value, which is small with a
chance of at most itself where nothing happened; sets are selected by Benjamini and Hochberg
(1995), and of S sets, R of them selected, every list is made at R / S of the question's level. So
a comparison of a model with itself names anything at all with a chance of at most the level, and of
the selected sets' lists a false share of at most a fifth of it is expected, on average over them.

**Source**: Benjamini and Bogomolov (2014), Selective inference on multiple families of hypotheses,
Journal of the Royal Statistical Society B 76. One list over all sets would be simpler, and wrong to
read set by set: a hundred problems found on one set would pay for false ones on another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

FDR = 0.05
"""The level of a whole diagnosis unless another is asked for."""
QUESTIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What an adjusted p-value of each question has to reach for something to be named."""

    lost: float
    gained: float
    styles: float
    totals: float
    features: float


def question_level(fdr: float) -> float:
    """What each question gets of the whole.

    >>> question_level(0.05)
    0.01
    """
    return fdr / QUESTIONS


def list_level(smallest: Sequence[float], level: float) -> float:
    """The level of every set's list, from the smallest adjusted p-value of each set.

    Sets that are not selected have nothing at or below it.

    >>> list_level([0.001, 0.5], 0.01), list_level([0.001, 0.009], 0.01), list_level([0.5], 0.01)
    (0.005, 0.01, 0.01)
    """
    ordered = sorted(smallest)
    selected = [rank for rank, p in enumerate(ordered, 1) if p <= level * rank / len(ordered)]
    return level * (selected[-1] if selected else 1) / len(ordered)
