"""Sets of questions that are worth asking: answerable, and wrong beliefs show in the answer."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from random import Random

from dph.errors import DataError
from dph.records import Problem
from lab.worlds.sql.annotators import Annotator
from lab.worlds.sql.domains import DOMAINS, Database, Domain
from lab.worlds.sql.questions import (
    AGGREGATES,
    COMPARISONS,
    CONFUSED_OPERATORS,
    DIRECTIONS,
    EQUALITY,
    OPERATORS,
    Question,
    WhereCondition,
    draw_question,
    read,
    read_correctly,
    write_plain,
)
from lab.worlds.world import PARTS, NearDuplicates

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
    near: NearDuplicates | None = None,
) -> list[Question]:
    """Draw telling questions, all different.

    Args:
        databases: What to ask about, each as often as the others.
        annotators: Whose wrong beliefs must show in the answers.
        count: How many questions.
        rng: The only source of chance.
        taken: Prompts that must not be drawn again.
        forbidden_terms: Business terms that must not occur.
        near: Tests of which no near-duplicate must be drawn [default: none].
    """
    forbidden = frozenset(forbidden_terms)
    by_name = {database.name: database for database in databases}

    def worth_asking(question: Question) -> bool:
        return (
            forbidden.isdisjoint(question.terms)
            and is_telling(question, by_name[question.domain.name], annotators)
            and not (near is not None and near.leaves_out(question.prompt))
        )

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


# The right answers to the world's unlabelled prompts: the ceiling of what any target can teach.
#
# The files of a world hold none. A question's words say which it is, because every business term of
# a database means one column, so its query can be written again from the prompt.

_DOMAINS = {domain.schema: domain for domain in DOMAINS}
_CONDITION = re.compile(rf"(\w+) ({'|'.join([*COMPARISONS, *EQUALITY])}) (\d+|'\w+')")
_WORDS = re.compile(
    rf"(?:how many|(show|{'|'.join(AGGREGATES)}) (\w+) of) (\w+) (?:with|whose (\w+) has) (?:"
    rf"({'|'.join(DIRECTIONS)}) (\w+)|({_CONDITION.pattern}(?: and {_CONDITION.pattern})?))"
)


def with_right_answers(
    train: Sequence[Problem],  # noqa: ARG001
    file: Sequence[Problem],
    seed: int,  # noqa: ARG001
) -> list[Problem]:
    """The prompts of a file with their right queries, for ``stores.<name>.prompts``.

    Raises:
        DataError: a prompt is none of this world's.
    """
    return [
        replace(problem, answer={**problem.answer, "gold_sql": gold_sql(question_of(problem))})
        for problem in file
    ]


def more_in_domain(train: Sequence[Problem], file: Sequence[Problem], seed: int) -> list[Problem]:
    """The training problems and the labelled prompts of ``file`` about the same databases.

    For ``data.train`` of a study: what labels are worth beside unlabelled prompts.

    Raises:
        DataError: a prompt is none of this world's.
    """
    return _with_more(train, file, seed, about=PARTS[0])


def more_across(train: Sequence[Problem], file: Sequence[Problem], seed: int) -> list[Problem]:
    """The training problems and the labelled prompts of ``file`` about other databases.

    Raises:
        DataError: a prompt is none of this world's.
    """
    return _with_more(train, file, seed, about=PARTS[1])


def _with_more(
    train: Sequence[Problem], file: Sequence[Problem], seed: int, *, about: str
) -> list[Problem]:
    more = [problem for problem in file if problem.answer.get("part") == about]
    return [*train, *with_right_answers(train, more, seed)]


def question_of(problem: Problem) -> Question:
    """The question whose prompt it is.

    Raises:
        DataError: it is none of this world's.
    """
    schema, _, rest = str(problem.prompt).partition(" | ")
    domain, words = _DOMAINS.get(schema), _WORDS.fullmatch(rest.removesuffix(" ->"))
    if domain is None or words is None:
        raise DataError(
            f"{problem.problem_id!r} is not a question of the text-to-SQL world, the only one "
            f"with known answers: {problem.prompt!r:.120}"
        )
    return _question(domain, words)


def _question(domain: Domain, words: re.Match[str]) -> Question:
    verb, shown, table, joined, direction, ordered, tail = words.groups()[:7]
    conditions = tuple(WhereCondition(*found) for found in _CONDITION.findall(tail or ""))
    aggregate = verb if verb in AGGREGATES else None
    return Question(
        domain=domain,
        kind=_kind(shown, aggregate, joined, direction, len(conditions)),
        table=table,
        shown=shown,
        aggregate=aggregate,
        conditions=conditions,
        superlative=(direction, ordered) if direction else None,
        joined=joined,
    )


def _kind(
    shown: str | None,
    aggregate: str | None,
    joined: str | None,
    direction: str | None,
    conditions: int,
) -> str:
    if direction:
        return "superlative"
    if joined:
        return "join"
    if conditions > 1:
        return "two_conditions"
    if shown is None:
        return "count"
    return "aggregate" if aggregate else "list"
