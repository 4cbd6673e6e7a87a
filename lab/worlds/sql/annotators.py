"""Five imperfect annotators, one for each style: what each knows decides what each style can solve.

This is how the link from styles to Pass@k is built into the world: a hard term is understood by
one annotator only, so a model that has lost that annotator's style has lost the term with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
