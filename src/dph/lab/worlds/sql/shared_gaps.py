"""Gaps that annotators share: with some probability, nobody has a separate one.

A gap is a term that an annotator does not know, or a phrase that it misreads. With probability
``correlation`` everybody's gap at a term or phrase is one and the same draw: all have it or nobody,
and all make the same mistake. Otherwise it is everybody's own, as in the world without shared gaps.
How likely an annotator is to have a gap does not depend on ``correlation``; how likely two of them
are to have it together does.

Equation: of a term that k of n annotators know, rho = correlation: P(gap) = 1 - k/n for everybody;
the correlation of two annotators' gaps is rho - (1 - rho) / (n - 1). Without sharing it is
-1 / (n - 1), because exactly k know the term.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from dph.lab.worlds.sql.annotators import Annotator, Belief
from dph.lab.worlds.sql.questions import CONFUSED_OPERATORS, OPERATORS


@dataclass(frozen=True, slots=True)
class _Shared:
    """One draw for everybody: whether it is known, and whose mistake is made (by place)."""

    known: bool
    like: int


def with_shared_gaps(
    annotators: Sequence[Annotator],
    parts: Sequence[Sequence[str]],
    *,
    correlation: float,
    rng: Random,
) -> tuple[Annotator, ...]:
    """The annotators with some of their gaps shared.

    What is shared, and which mistake all make, is drawn alike whatever ``correlation``: what is
    shared at one is shared at every larger one. A shared mistake is one that an annotator made
    before, so whatever tells the own mistakes from the right answer tells it too.

    Args:
        annotators: with gaps of their own.
        parts: terms by part of the world; in each part, of terms that equally many know, the
            shares that are shared and that nobody knows are as near to their chances as they can.
        correlation: from 0 (no gap is shared) to 1 (all are).
        rng: the only source of chance.
    """
    beliefs = {annotator.style: dict(annotator.beliefs) for annotator in annotators}
    for terms, knowers in _equally_known(annotators, parts):
        drawn = _draws(len(terms), knowers, len(annotators), correlation, rng)
        for term, shared in zip(terms, drawn, strict=True):
            if shared is not None:
                own = annotators[shared.like].beliefs[term]
                for known in beliefs.values():
                    known[term] = Belief(own.column, own.mistaken, shared.known)
    misread = _shared_phrases(annotators, correlation, rng)
    return tuple(
        replace(a, beliefs=beliefs[a.style], misread=own)
        for a, own in zip(annotators, misread, strict=True)
    )


def _equally_known(
    annotators: Sequence[Annotator], parts: Sequence[Sequence[str]]
) -> Iterator[tuple[list[str], int]]:
    """The terms of each part that equally many annotators know, and how many that is."""
    for terms in parts:
        knowers = {term: sum(a.beliefs[term].known for a in annotators) for term in terms}
        for count in sorted(set(knowers.values())):
            yield [term for term in terms if knowers[term] == count], count


def _shared_phrases(
    annotators: Sequence[Annotator], correlation: float, rng: Random
) -> list[frozenset[str]]:
    """Phrases that each annotator misreads; exactly one of them misread each phrase before."""
    phrases = [p for p, meaning in OPERATORS.items() if CONFUSED_OPERATORS[p] != meaning]
    count = len(annotators)
    drawn = _draws(len(phrases), count - 1, count, correlation, rng)
    shared = {p: s for p, s in zip(phrases, drawn, strict=True) if s is not None}
    by_all = frozenset(phrase for phrase, draw in shared.items() if not draw.known)
    return [a.misread.difference(shared) | by_all for a in annotators]


def _draws(
    count: int, knowers: int, annotators: int, correlation: float, rng: Random
) -> list[_Shared | None]:
    """For each of ``count`` terms what all share; None where gaps are everybody's own."""
    sharing, knowing = _evenly(count, rng), _evenly(count, rng)
    likes = [rng.randrange(annotators) for _ in range(count)]
    return [
        _Shared(known * annotators < knowers, like) if share < correlation else None
        for share, known, like in zip(sharing, knowing, likes, strict=True)
    ]


def _evenly(count: int, rng: Random) -> list[float]:
    """Numbers of [0, 1), each uniform, and together one in each of ``count`` equal pieces."""
    offset = rng.random()
    return [(place + offset) / count for place in rng.sample(range(count), count)]
