"""Base of a table of settings: frozen, strict, and without unknown keys."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from dph.errors import SettingsError

# ``--set key=value``: what it means in every file that takes it.
#
# The key is dotted, the value is TOML (a bare word is a string), and it takes the place of what the
# file says. Relative paths in it start at the working directory, because that is where it is typed;
# those in the file start at the file's directory.


def read_override(text: str) -> tuple[str, Any]:
    """The key and the value of ``a.b=c``.

    >>> read_override("train.steps = 3"), read_override("model.path=base")
    (('train.steps', 3), ('model.path', 'base'))
    """
    key, equals, said = text.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise SettingsError(f"an override has the form key=value, got {text!r}")
    try:
        value = tomllib.loads(f"value = {said}")["value"]
    except tomllib.TOMLDecodeError:
        value = said.strip()
    return ".".join(parts), value


def put(table: dict[str, Any], key: str, value: Any) -> None:
    """Write the value of a dotted key into ``table``; tables on the way are made."""
    *parents, name = key.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise SettingsError(f"unknown setting {key}: {parent} is not a table")
    table[name] = value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as tables in tables.

    >>> nested({"train.eps": 1e-5, "train.epochs": 2})
    {'train': {'eps': 1e-05, 'epochs': 2}}
    """
    table: dict[str, Any] = {}
    for key, value in values.items():
        put(table, key, value)
    return table


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested tables, under its dotted key."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def faults_of(error: ValidationError) -> list[ErrorDetails]:
    """All of them, without lists that are too short only because an element is wrong.

    pydantic leaves a wrong element out and then finds the list, and the list around it, too short.
    """
    items = error.errors(include_url=False)
    around = {item["loc"][:depth] for item in items for depth in range(len(item["loc"]))}
    return [item for item in items if item["type"] != "too_short" or item["loc"] not in around]


Engine = Literal["own", "verl"]
Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]
Stored = Literal["float32", "bfloat16", "nf4"]
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

    def _require_at_most(self, name: str, limit: str) -> None:
        value, most = getattr(self, name), getattr(self, limit)
        if value > most:
            raise ValueError(f"need {name} <= {limit}, got {name}={value}, {limit}={most}")

    def decided(self, **values: Any) -> Self:
        """The same table with these ``values`` where it says ``auto``."""
        auto = {name: value for name, value in values.items() if getattr(self, name) == "auto"}
        return self.model_copy(update=auto)


def section_in(annotation: Any) -> type[Section] | None:
    """The table that a field holds, always or where there is one; None where it holds a value.

    >>> section_in(Section | None) is Section, section_in(Section) is Section, section_in(int)
    (True, True, None)
    """
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType] or [annotation]
    found = kinds[0] if len(kinds) == 1 else None
    return found if isinstance(found, type) and issubclass(found, Section) else None


# A TOML file of any schema, read and checked with one message for each fault.
#
# For files that are not recipes of a run: what they hold is a ``Section``, and nothing is
# expanded.

Table = TypeVar("Table", bound=Section)


class _Typed(str):
    __slots__ = ()


def start_of_paths(value: str, info: ValidationInfo) -> Path | None:
    """Base of a relative path: the working directory for ``--set``, else the file's directory."""
    if isinstance(value, _Typed):
        return Path.cwd()
    beside = (info.context or {}).get("beside")
    return None if beside is None else Path(beside)


def _placed(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str) or (start := start_of_paths(value, info)) is None:
        return value
    return str(start / value)


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
"""Allowed names of a directory or a part."""
PlacedPath = Annotated[Path, BeforeValidator(_placed), Field(strict=False)]
"""A path that starts at the directory of the file that names it, or where it was typed."""


def read_table(path: Path, what: str = "recipe") -> dict[str, Any]:
    """The file as TOML has it; a message calls it ``what``."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the {what} {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def load_file(kind: type[Table], path: Path, overrides: Sequence[str] = ()) -> Table:
    """Read a file of the schema ``kind``; ``overrides`` are ``a.b=value`` in TOML.

    Relative paths in the file start at its directory, those in overrides at the working directory.
    """
    table = read_table(path)
    for key, value in map(read_override, overrides):
        put(table, key, _marked(value))
    return checked(kind, table, beside=path.resolve().parent, place=str(path))


def checked(kind: type[Table], table: Mapping[str, Any], *, beside: Path, place: str) -> Table:
    """``table`` as a ``kind``; paths start at ``beside``, messages name ``place``."""
    try:
        return kind.model_validate(table, context={"beside": str(beside)})
    except ValidationError as error:
        faults = [fault(item, item["loc"], kind) for item in faults_of(error)]
        raise SettingsError(f"{place}: {'; '.join(faults)}") from error


def _marked(value: Any) -> Any:
    match value:
        case str():
            return _Typed(value)
        case list():
            return [_marked(item) for item in value]
        case dict():
            return {name: _marked(item) for name, item in value.items()}
    return value


def fault(item: ErrorDetails, place: Sequence[str | int], kind: type[BaseModel]) -> str:
    """The fault at ``place`` of a file of ``kind``: the key, the value and what is allowed."""
    key = ".".join(map(str, place))
    message = item["msg"].removeprefix("Value error, ")
    match item["type"]:
        case "missing":
            return f"{key} is missing"
        case "extra_forbidden":
            near = get_close_matches(str(place[-1]), sorted(_names(kind)), n=1)
            return f"unknown key {key}" + (f"; did you mean {near[0]}?" if near else "")
        case "value_error":
            return f"{key}: {message}" if key else message
        case _:
            return f"{key}: {message}, got {item['input']!r:.80}"


def _names(kind: type[BaseModel]) -> Iterator[str]:
    for name, field in kind.model_fields.items():
        yield name
        waiting = [field.annotation]
        while waiting:
            annotation = waiting.pop()
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from _names(annotation)
            waiting.extend(getattr(annotation, "__args__", ()))
