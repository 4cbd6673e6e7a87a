"""A TOML file of one's own schema, read and checked with one message for each fault.

For files that are not recipes of a run: what they hold is a ``Section``, and nothing is expanded.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from dph.errors import SettingsError
from dph.settings.error_details import faults_of
from dph.settings.section import Section

Table = TypeVar("Table", bound=Section)


def _beside(value: Any, info: ValidationInfo) -> Any:
    directory = (info.context or {}).get("beside")
    if not isinstance(value, str) or directory is None:
        return value
    return str(Path(directory) / value)


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
"""What a directory or a part may be called."""
PlacedPath = Annotated[Path, BeforeValidator(_beside), Field(strict=False)]
"""A path that starts at the directory of the file that names it."""


def read_table(path: Path, what: str = "recipe") -> dict[str, Any]:
    """The file as TOML has it; a message calls it ``what``.

    Raises:
        SettingsError: it is missing or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the {what} {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def load_file(kind: type[Table], path: Path, overrides: Sequence[str] = ()) -> Table:
    """Read a file of the schema ``kind``; ``overrides`` are ``a.b=value`` in TOML.

    Relative paths start at the file's directory, in overrides too.

    Raises:
        SettingsError: the file is missing or not TOML, a key is unknown (the nearest is named), or
            a value has the wrong type or is out of range.
    """
    table = read_table(path)
    for override in overrides:
        _override(table, override)
    return checked(kind, table, beside=path.resolve().parent, place=str(path))


def checked(kind: type[Table], table: Mapping[str, Any], *, beside: Path, place: str) -> Table:
    """``table`` as a ``kind``; paths start at ``beside``, messages name ``place``.

    Raises:
        SettingsError: as for load_file.
    """
    try:
        return kind.model_validate(table, context={"beside": str(beside)})
    except ValidationError as error:
        faults = [fault(item, item["loc"], kind) for item in faults_of(error)]
        raise SettingsError(f"{place}: {'; '.join(faults)}") from error


def _override(table: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    *parents, name = key.strip().split(".")
    if not equals or not name:
        raise SettingsError(f"an override has the form key=value, got {text!r}")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise SettingsError(f"unknown setting {key.strip()}: {parent} is not a table")
    try:
        table[name] = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        table[name] = value.strip()


def fault(item: ErrorDetails, place: Sequence[str | int], kind: type[BaseModel]) -> str:
    """What is wrong at ``place`` of a file of ``kind``: the key, the value and what is allowed."""
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
    """The names of all keys of a schema and of the tables in it."""
    for name, field in kind.model_fields.items():
        yield name
        waiting = [field.annotation]
        while waiting:
            annotation = waiting.pop()
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from _names(annotation)
            waiting.extend(getattr(annotation, "__args__", ()))
