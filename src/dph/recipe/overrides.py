"""``--set key=value``: what it means in every file that takes it.

The key is dotted, the value is TOML (a bare word is a string), and it takes the place of what the
file says. Relative paths in it start at the working directory, because that is where it is typed;
those in the file start at the file's directory.
"""

import tomllib
from dataclasses import dataclass
from typing import Any

from dph.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One ``key=value``, read."""

    key: str
    value: Any

    @property
    def section(self) -> str:
        """The first part of the key."""
        return self.key.partition(".")[0]


def read_override(text: str) -> Override:
    """The key and the value of ``a.b=c``.

    >>> read_override("train.steps = 3").value, read_override("model.path=base").value
    (3, 'base')

    Raises:
        SettingsError: it has another form.
    """
    key, equals, said = text.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise SettingsError(f"an override has the form key=value, got {text!r}")
    try:
        value = tomllib.loads(f"value = {said}")["value"]
    except tomllib.TOMLDecodeError:
        value = said.strip()
    return Override(key=".".join(parts), value=value)


def put(table: dict[str, Any], override: Override) -> None:
    """Write the value into ``table``, nested as in TOML; tables on the way are made.

    Raises:
        SettingsError: what is on the way is not a table.
    """
    *parents, name = override.key.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise SettingsError(f"unknown setting {override.key}: {parent} is not a table")
    table[name] = override.value
