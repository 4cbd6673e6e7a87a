"""Five imperfect annotators, one for each style: what each knows decides what each style can solve.

This is how the link from styles to Pass@k is built into the world: a hard term is understood by
one annotator only, so a model that has lost that annotator's style has lost the term with it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from lab.worlds.sql.domains import Database, DomainColumn, DomainTable
from lab.worlds.sql.questions import (
    CONFUSED_OPERATORS,
    OPERATORS,
    STYLES,
    Question,
    read,
    write_answer,
)

KNOWERS_OF_TERMS = (5, 5, 5, 5, 3, 3, 1)
"""Number of annotators that know each of a database's seven terms: 4 easy, 2 medium, 1 hard."""
RIGHT_IF_KNOWN = 0.96
WRONG_IF_UNKNOWN = 0.86


@dataclass(frozen=True, slots=True)
class Belief:
    """The column of a term, the one an annotator confuses it with, and whether it knows better."""

    column: str
    mistaken: str
    known: bool


@dataclass(frozen=True, slots=True)
class Annotator:
    """One style of writing, and what its writer knows."""

    style: str
    beliefs: Mapping[str, Belief]
    misread: frozenset[str]
    """The operator phrases that this annotator takes for their neighbours."""

    def answer(self, question: Question, rng: Random) -> str:
        """Write an answer, right or wrong."""
        columns = {term: self._column(term, rng) for term in question.terms}
        operators = tuple(self._operator(phrase, rng) for phrase in question.phrases)
        return write_answer(read(question, columns, operators), self.style)

    def _column(self, term: str, rng: Random) -> str:
        belief = self.beliefs[term]
        return belief.column if _is_right(belief.known, rng) else belief.mistaken

    def _operator(self, phrase: str, rng: Random) -> str:
        known = phrase not in self.misread
        return (OPERATORS if _is_right(known, rng) else CONFUSED_OPERATORS)[phrase]


def least_knowing(known: dict[str, int], count: int, rng: Random) -> frozenset[str]:
    """The ``count`` styles that know least so far; they know one term more now."""
    shuffled = rng.sample(STYLES, len(STYLES))
    chosen = frozenset(sorted(shuffled, key=lambda style: known[style])[:count])
    for style in chosen:
        known[style] += 1
    return chosen


def misread_phrases(rng: Random) -> dict[str, frozenset[str]]:
    """Each phrase is misread by one annotator, every annotator misreads one, and one of them two.

    Only phrases that can be misread count: "is" means the same to everybody.
    """
    phrases = [p for p, meaning in OPERATORS.items() if CONFUSED_OPERATORS[p] != meaning]
    rng.shuffle(phrases)
    styles = rng.sample(STYLES, len(STYLES))
    return {style: frozenset(phrases[index :: len(styles)]) for index, style in enumerate(styles)}


def chance_of_right(known: bool) -> float:
    """Probability that somebody gets a term or a phrase right."""
    return RIGHT_IF_KNOWN if known else 1 - WRONG_IF_UNKNOWN


def _is_right(known: bool, rng: Random) -> bool:
    return rng.random() < chance_of_right(known)


# Who knows what in a world, and which terms RL never trains.
#
# Were knowledge balanced over all terms alone, and the held-out terms any third of them, then what
# a style is worth on them would be luck of the draw: a policy that has kept the style that is best
# in training would score 81% in domain with a standard deviation of 9 points between worlds. So
# knowledge is balanced within trained, held-out and cross-domain terms, and held-out terms are
# equally hard in every world: 5.5 points.

HELD_OUT_KNOWERS = ((5, 3), (5, 3), (5, 3, 1))
"""By how many annotators the held-out terms of each in-domain database are known."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The annotators of a world, and the terms that never occur in an RL question."""

    annotators: tuple[Annotator, ...]
    held_out_terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Term:
    """A column that annotators have beliefs about, and how many of them know it."""

    table: DomainTable
    column: DomainColumn
    knowers: int


def draw_knowledge(
    inside: Sequence[Database], outside: Sequence[Database], rng: Random
) -> Knowledge:
    """Balance within the trained, the held-out and the cross-domain terms.

    Of each part all annotators know equally many terms, give or take one. Whoever misreads two
    phrases gets no term for it: RL corrects phrases everywhere.
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


# Gaps that annotators share: with some probability, nobody has a separate one.
#
# A gap is a term that an annotator does not know, or a phrase that it misreads. With probability
# ``correlation`` everybody's gap at a term or phrase is one and the same draw: all have it or
# nobody, and all make the same mistake. Otherwise it is everybody's own, as in the world without
# shared gaps. How likely an annotator is to have a gap does not depend on ``correlation``; how
# likely two of them are to have it together does.
#
# Equation: of a term that k of n annotators know, rho = correlation: P(gap) = 1 - k/n for
# everybody; the correlation of two annotators' gaps is rho - (1 - rho) / (n - 1). Without sharing
# it is -1 / (n - 1), because exactly k know the term.


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
