"""Five imperfect annotators, one for each style: what each knows decides what each style can solve.

This is how the link from styles to Pass@k is built into the world: a hard term is understood by
one annotator only, so a model that has lost that annotator's style has lost the term with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from dph.lab.worlds.sql.databases import Database
from dph.lab.worlds.sql.questions import CONFUSED_OPERATORS, OPERATORS, Question, read
from dph.lab.worlds.sql.styles import STYLES, write_answer

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


def draw_annotators(sides: Iterable[Iterable[Database]], rng: Random) -> tuple[Annotator, ...]:
    """Decide who knows what, so that every world is equally hard and no annotator knows more.

    On each side (in domain, cross domain) all annotators know about as many terms, and whoever
    misreads one phrase more knows one term more: a style is lost or kept for what it covers, not
    because it is the better one.
    """
    misread = misread_phrases(rng)
    beliefs: dict[str, dict[str, Belief]] = {style: {} for style in STYLES}
    for databases in sides:
        known = {style: 1 - len(misread[style]) for style in STYLES}
        for database in databases:
            knowers = rng.sample(KNOWERS_OF_TERMS, len(KNOWERS_OF_TERMS))
            for table in database.domain.tables:
                for column in table.columns:
                    knowing = least_knowing(known, knowers.pop(), rng)
                    others = [other.name for other in table.numeric if other is not column]
                    for style in STYLES:
                        belief = Belief(column.name, rng.choice(others), style in knowing)
                        beliefs[style][column.term] = belief
    return tuple(Annotator(style, beliefs[style], misread[style]) for style in STYLES)


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
    """How likely somebody is to get a term or a phrase right."""
    return RIGHT_IF_KNOWN if known else 1 - WRONG_IF_UNKNOWN


def _is_right(known: bool, rng: Random) -> bool:
    return rng.random() < chance_of_right(known)
