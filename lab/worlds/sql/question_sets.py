"""Sets of questions that are worth asking: answerable, and wrong beliefs show in the answer."""

from collections.abc import Callable, Collection, Sequence
from random import Random

from lab.worlds.sql.annotators import Annotator
from lab.worlds.sql.domains import Database
from lab.worlds.sql.questions import (
    CONFUSED_OPERATORS,
    OPERATORS,
    Question,
    draw_question,
    read,
    read_correctly,
    write_plain,
)

NOTHING = (frozenset[tuple[object, ...]](), frozenset({(None,)}))
"""Results that say nothing: no row, or the aggregate of no row."""


def gold_sql(question: Question) -> str:
    """The right query, written plainly."""
    return write_plain(read_correctly(question))


def is_telling(question: Question, database: Database, annotators: Sequence[Annotator]) -> bool:
    """Whether the question has an answer that anybody who misunderstands a term gets wrong.

    A superlative must also change its answer when its direction is misread.
    """
    gold = database.oracle(gold_sql(question))
    if gold in NOTHING:
        return False
    columns = {column.term: column.name for column in question.domain.columns}
    operators = tuple(OPERATORS[phrase] for phrase in question.phrases)
    for term in question.terms:
        for mistaken in sorted({annotator.beliefs[term].mistaken for annotator in annotators}):
            wrong = read(question, {**columns, term: mistaken}, operators)
            if database.oracle(write_plain(wrong)) == gold:
                return False
    if question.superlative is None:
        return True
    confused = tuple(CONFUSED_OPERATORS[phrase] for phrase in question.phrases)
    return database.oracle(write_plain(read(question, columns, confused))) != gold


def draw_questions(
    databases: Sequence[Database],
    annotators: Sequence[Annotator],
    count: int,
    rng: Random,
    *,
    taken: Collection[str] = (),
    forbidden_terms: Collection[str] = (),
) -> list[Question]:
    """Draw telling questions, all different.

    Args:
        databases: What to ask about, each as often as the others.
        annotators: Whose wrong beliefs must show in the answers.
        count: How many questions.
        rng: The only source of chance.
        taken: Prompts that must not be drawn again.
        forbidden_terms: Business terms that must not occur.
    """
    forbidden = frozenset(forbidden_terms)
    by_name = {database.name: database for database in databases}

    def worth_asking(question: Question) -> bool:
        database = by_name[question.domain.name]
        return forbidden.isdisjoint(question.terms) and is_telling(question, database, annotators)

    return draw_any_questions(databases, count, rng, taken=taken, keep=worth_asking)


def draw_any_questions(
    databases: Sequence[Database],
    count: int,
    rng: Random,
    *,
    taken: Collection[str] = (),
    keep: Callable[[Question], bool] | None = None,
) -> list[Question]:
    """Draw questions as they come, all different; some have no answer, as users' questions do.

    Args:
        databases: What to ask about, each as often as the others.
        count: How many questions.
        rng: The only source of chance.
        taken: Prompts that must not be drawn again.
        keep: Which questions to keep [default: all].
    """
    drawn: dict[str, Question] = {}
    taken = frozenset(taken)
    while len(drawn) < count:
        question = draw_question(rng.choice(databases).domain, rng)
        if question.prompt in taken or question.prompt in drawn:
            continue
        if keep is None or keep(question):
            drawn[question.prompt] = question
    return list(drawn.values())
