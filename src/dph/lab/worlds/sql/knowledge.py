"""Who knows what in a world, and which terms RL never trains: by side, or within three parts.

The first edition balances what annotators know on each side as a whole and draws the held-out terms
from all. How much a style is worth on held-out terms is then mostly luck of the draw: a policy that
has kept the style that is best in training scores 81% in domain with a standard deviation of 9
points between worlds. The second edition balances within trained, held-out and cross-domain terms,
and its held-out terms are equally hard in every world, which takes that to 5.5 points.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from dph.lab.worlds.sql.annotators import (
    KNOWERS_OF_TERMS,
    Annotator,
    Belief,
    draw_annotators,
    least_knowing,
    misread_phrases,
)
from dph.lab.worlds.sql.databases import Database
from dph.lab.worlds.sql.domains import DomainColumn, DomainTable
from dph.lab.worlds.sql.styles import STYLES

HELD_OUT_SHARE = 3
"""One in-domain term in three never occurs in an RL question (first edition)."""
HELD_OUT_KNOWERS = ((5, 3), (5, 3), (5, 3, 1))
"""By how many annotators the held-out terms of each in-domain database are known (second)."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The annotators of a world, and the terms that never occur in an RL question."""

    annotators: tuple[Annotator, ...]
    held_out_terms: frozenset[str]


DrawKnowledge = Callable[[Sequence[Database], Sequence[Database], Random], Knowledge]
"""Called with the in-domain databases, the cross-domain ones and the source of chance."""


def knowledge_by_side(
    inside: Sequence[Database], outside: Sequence[Database], rng: Random
) -> Knowledge:
    """Balance on each side as a whole; any third of the in-domain terms is held out."""
    annotators = draw_annotators((inside, outside), rng)
    terms = [column.term for database in inside for column in database.domain.columns]
    return Knowledge(annotators, frozenset(rng.sample(terms, len(terms) // HELD_OUT_SHARE)))


@dataclass(frozen=True, slots=True)
class _Term:
    """A column that annotators have beliefs about, and how many of them know it."""

    table: DomainTable
    column: DomainColumn
    knowers: int


def knowledge_by_part(
    inside: Sequence[Database], outside: Sequence[Database], rng: Random
) -> Knowledge:
    """Balance within the trained, the held-out and the cross-domain terms.

    Of each part all annotators know equally many terms, give or take one. Whoever misreads two
    phrases gets no term for it, unlike in ``draw_annotators``: RL corrects phrases everywhere.
    """
    misread = misread_phrases(rng)
    trained, held_out, across = _parts(inside, outside, rng)
    beliefs: dict[str, dict[str, Belief]] = {style: {} for style in STYLES}
    for terms in (trained, held_out, across):
        for style, own in _drawn_beliefs(terms, rng).items():
            beliefs[style] |= own
    return Knowledge(
        annotators=tuple(Annotator(style, beliefs[style], misread[style]) for style in STYLES),
        held_out_terms=frozenset(term.column.term for term in held_out),
    )


def knowing_more(
    annotators: Sequence[Annotator], databases: Sequence[Database], rng: Random
) -> tuple[Annotator, ...]:
    """The same annotators with beliefs about more databases, balanced as one part."""
    terms = [term for database in databases for term in _terms(database, rng)]
    more = _drawn_beliefs(terms, rng)
    return tuple(replace(a, beliefs={**a.beliefs, **more[a.style]}) for a in annotators)


def _drawn_beliefs(terms: Sequence[_Term], rng: Random) -> dict[str, dict[str, Belief]]:
    """By style what each annotator takes the terms for; all know equally many, give or take one."""
    beliefs: dict[str, dict[str, Belief]] = {style: {} for style in STYLES}
    known = dict.fromkeys(STYLES, 0)
    for term in sorted(terms, key=lambda term: term.knowers):
        knowing = least_knowing(known, term.knowers, rng)
        others = [other.name for other in term.table.numeric if other is not term.column]
        for style in STYLES:
            belief = Belief(term.column.name, rng.choice(others), style in knowing)
            beliefs[style][term.column.term] = belief
    return beliefs


def _parts(
    inside: Sequence[Database], outside: Sequence[Database], rng: Random
) -> tuple[list[_Term], list[_Term], list[_Term]]:
    """Trained, held-out and cross-domain terms; each database has the usual counts of knowers."""
    trained: list[_Term] = []
    held_out: list[_Term] = []
    wanted = [list(counts) for counts in rng.sample(HELD_OUT_KNOWERS, len(HELD_OUT_KNOWERS))]
    for database, still_wanted in zip(inside, wanted, strict=True):
        for term in _terms(database, rng):
            if term.knowers in still_wanted:
                still_wanted.remove(term.knowers)
                held_out.append(term)
            else:
                trained.append(term)
    return trained, held_out, [term for database in outside for term in _terms(database, rng)]


def _terms(database: Database, rng: Random) -> list[_Term]:
    columns = [(table, column) for table in database.domain.tables for column in table.columns]
    knowers = rng.sample(KNOWERS_OF_TERMS, len(KNOWERS_OF_TERMS))
    return [_Term(*where, count) for where, count in zip(columns, knowers, strict=True)]
