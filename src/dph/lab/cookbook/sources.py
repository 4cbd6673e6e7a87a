"""Where the files of a cookbook come from: paths, and what its own stages write."""

from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from dph.recipe.toml_file import start_of_paths

WORLD = "world:"
"""What a path begins with that the stage ``world`` writes: ``world:sql``, ``world:annotators``."""
SOURCES = ("sql", "annotators", "executed")
DATABASES = f"{WORLD}databases"
"""The world's databases, for rows of SQL."""
SYNTH = "synth:"
"""What a file of rows begins with that ``[synth.<name>]`` writes."""


def _placed(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str) or value.startswith((WORLD, SYNTH)):
        return value
    if (start := start_of_paths(value, info)) is None:
        return value
    name, equals, path = value.rpartition("=")
    return f"{name}{equals}{start / path}"


Source = Annotated[str, BeforeValidator(_placed)]
"""A path, placed as every other; NAME=PATH keeps its name, and what a stage writes stays."""
