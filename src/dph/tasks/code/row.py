"""What a row of a data set of programs gives."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dph.errors import DataError
from dph.records import Problem

INSTRUCTION = "Answer with one block of code, ```python ... ```, that holds the whole program."
"""What is asked of a model beside the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProblem:
    """A problem, and the data set's own solution where it has one."""

    problem: Problem
    solution: str | None = None


def text_field(row: Mapping[str, Any], name: str, place: str, *, empty: bool = False) -> str:
    """A text that a row has to have.

    Raises:
        DataError: it is missing, no text, or blank (unless ``empty`` allows that).
    """
    value = row.get(name)
    if not isinstance(value, str) or not (empty or value.strip()):
        raise DataError(f"{place}: {name!r} has to be a text, got {value!r:.80}")
    return value


def texts_field(row: Mapping[str, Any], name: str, place: str) -> list[str]:
    """A list of texts; one that is missing is empty.

    Raises:
        DataError: it is something else.
    """
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise DataError(f"{place}: {name!r} has to be a list of texts, got {value!r:.80}")
    return list(value)
