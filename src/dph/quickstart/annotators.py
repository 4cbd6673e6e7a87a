"""Five imperfect annotators, one for each style: what each knows decides what each style can solve.

This is how the link from styles to Pass@k is built into the world: a hard term is understood by
one annotator only, so a model that has lost that annotator's style has lost the term with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from dph.quickstart.databases import Database
from dph.quickstart.questions import CONFUSED_OPERATORS, OPERATORS, Question, read
from dph.quickstart.styles import STYLES, write_answer

KNOWERS_OF_TERMS = (5, 5, 5, 5, 3, 3, 1)
"""How many annotators know each of a database's seven terms: 4 easy, 2 medium, 1 hard."""
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


def draw_annotators(databases: Iterable[Database], rng: Random) -> tuple[Annotator, ...]:
    """Decide who knows what, stratified so that every world is equally hard."""
    beliefs: dict[str, dict[str, Belief]] = {style: {} for style in STYLES}
    for database in databases:
        knowers = rng.sample(KNOWERS_OF_TERMS, len(KNOWERS_OF_TERMS))
        for table in database.domain.tables:
            for column in table.columns:
                knowing = set(rng.sample(STYLES, knowers.pop()))
                others = [other.name for other in table.numeric if other is not column]
                for style in STYLES:
                    belief = Belief(column.name, rng.choice(others), style in knowing)
                    beliefs[style][column.term] = belief
    misreaders = _misreaders(rng)
    return tuple(
        Annotator(
            style,
            beliefs[style],
            frozenset(phrase for phrase, reader in misreaders.items() if reader == style),
        )
        for style in STYLES
    )


def _misreaders(rng: Random) -> dict[str, str]:
    """Each phrase is misread by one annotator, and every annotator misreads at least one."""
    readers = [*STYLES, *(rng.choice(STYLES) for _ in range(len(OPERATORS) - len(STYLES)))]
    rng.shuffle(readers)
    return dict(zip(OPERATORS, readers, strict=True))


def _is_right(known: bool, rng: Random) -> bool:
    return rng.random() < (RIGHT_IF_KNOWN if known else 1 - WRONG_IF_UNKNOWN)
