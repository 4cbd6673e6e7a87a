"""The rows of a text-to-SQL world's files."""

from collections.abc import Mapping
from typing import Any

from dph.lab.worlds.sql.question_sets import gold_sql
from dph.lab.worlds.sql.questions import Question
from dph.lab.worlds.sql.sums import Sum


def sql_row(problem_id: str, question: Question, paths: Mapping[str, str]) -> dict[str, Any]:
    """A question with its answer; ``paths`` are those of the databases by name."""
    return {
        "problem_id": problem_id,
        "prompt": question.prompt,
        "gold_sql": gold_sql(question),
        "database": paths[question.domain.name],
        "db_id": question.domain.name,
        "kind": question.kind,
        "terms": list(question.terms),
    }


def unlabelled_row(
    problem_id: str, question: Question, paths: Mapping[str, str], *, part: str
) -> dict[str, Any]:
    """A question without its answer."""
    return {
        "problem_id": problem_id,
        "prompt": question.prompt,
        "database": paths[question.domain.name],
        "db_id": question.domain.name,
        "part": part,
    }


def sum_row(problem_id: str, item: Sum) -> dict[str, Any]:
    """A sum with its answer."""
    return {
        "problem_id": problem_id,
        "prompt": item.prompt,
        "answer": str(item.answer),
        "kind": "arithmetic",
    }
