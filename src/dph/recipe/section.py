"""What a table of settings is: frozen, strict, and without unknown keys."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from typing import Literal
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


# What pydantic says of a wrong table, each fault once.

def faults_of(error: ValidationError) -> list[ErrorDetails]:
    """All of them, without lists that are too short only because an element is wrong.

    pydantic leaves a wrong element out and then finds the list, and the list around it, too short.
    """
    items = error.errors(include_url=False)
    wrong = [item["loc"] for item in items]

    def is_echo(item: ErrorDetails) -> bool:
        place = item["loc"]
        return any(len(loc) > len(place) and loc[: len(place)] == place for loc in wrong)

    return [item for item in items if item["type"] != "too_short" or not is_echo(item)]


# Choices by name that settings offer and other layers take: each list stands here alone.

Engine = Literal["own", "trl", "verl"]
Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]
SharedPrompts = Literal["auto", "always", "never"]
SQLRuleName = Literal["spider", "bird", "bird_soft_f1", "strict", "cartesian"]
WrongFinal = Literal["discard", "explore"]


def _whole(value: Any) -> Any:
    """``4.0`` is 4: strengths of methods are written as numbers of any kind."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
FilePath = Annotated[Path, Field(strict=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Phrase = Annotated[str, Field(pattern=r"\S")]


def with_default(data: Any, name: str, other: str, default: Callable[[int], Any]) -> Any:
    """Let the default of ``name`` follow ``other`` where only the latter was given."""
    given = data.get(other) if isinstance(data, dict) and name not in data else None
    return {**data, name: default(given)} if isinstance(given, int) and given > 0 else data


class Section(BaseModel):
    """A frozen table of settings; an unknown key or a wrong type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def section_in(annotation: Any) -> type[Section] | None:
    """The table that a field holds, always or where there is one; None where it holds a value.

    >>> section_in(Section | None) is Section, section_in(Section) is Section, section_in(int)
    (True, True, None)
    """
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType] or [annotation]
    found = kinds[0] if len(kinds) == 1 else None
    return found if isinstance(found, type) and issubclass(found, Section) else None
