"""Tables that lie next to the code as TOML."""

import tomllib
from importlib.resources import files
from typing import TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


def packaged(place: str, kind: type[T]) -> T:
    """The table in the file ``place`` of the package, checked to be of ``kind``.

    >>> packaged("licences.toml", dict[str, str])["mit license"]
    'MIT'
    """
    text = files("dph_corpus").joinpath(place).read_text(encoding="utf-8")
    return TypeAdapter(kind).validate_python(tomllib.loads(text))
