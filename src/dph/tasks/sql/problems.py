"""From questions to problems: the prompt, what the verifier needs, and what is left out."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dph.records import Problem
from dph.tasks.sql.gold_check import GoldCheck, GoldState
from dph.tasks.sql.prompt import SQLPrompts, database_file
from dph.tasks.sql.bird import SQLQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A question that became no problem, and why."""

    problem_id: str
    db_id: str
    state: GoldState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLProblems:
    """The problems that are left, and those that are not."""

    problems: list[Problem]
    dropped: list[Dropped]

    def counts(self) -> dict[str, int]:
        """How many questions were dropped for each reason, in the order of GoldState."""
        found = Counter(dropped.state for dropped in self.dropped)
        return {state.value: found[state] for state in GoldState if state in found}


def sql_problems(
    questions: Sequence[SQLQuestion],
    *,
    prompts: SQLPrompts,
    checks: Sequence[GoldCheck] | None,
    on_done: Callable[[], None] = lambda: None,
) -> SQLProblems:
    """Problems for the ``sql`` verifier; those whose gold query tells nothing are dropped.

    Args:
        questions: in the order of the problems.
        prompts: writes them.
        checks: one for each question, or None to keep all of them.
        on_done: called after each question.

    Raises:
        DataError: a database or a schema is missing or cannot be read.
    """
    problems: list[Problem] = []
    dropped: list[Dropped] = []
    telling = GoldCheck(state=GoldState.TELLING)
    for question, check in zip(
        questions, checks if checks is not None else [telling] * len(questions), strict=True
    ):
        if check.state is GoldState.TELLING:
            problems.append(_problem(question, prompts))
        else:
            dropped.append(
                Dropped(
                    problem_id=question.question_id,
                    db_id=question.db_id,
                    state=check.state,
                    reason=check.reason,
                )
            )
        on_done()
    return SQLProblems(problems=problems, dropped=dropped)


def _problem(question: SQLQuestion, prompts: SQLPrompts) -> Problem:
    answer = {
        "gold_sql": question.gold_sql,
        "database": database_file(question.db_id),
        "db_id": question.db_id,
        "question": question.question,
        "evidence": question.evidence,
        "difficulty": question.difficulty,
    }
    return Problem(
        problem_id=question.question_id,
        prompt=prompts.prompt(question.db_id, question.question, question.evidence),
        answer={field: value for field, value in answer.items() if value},
    )
