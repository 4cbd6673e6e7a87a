"""Which language a file is in, and of what type it is, by its name.

``languages.json`` is GitHub Linguist's table of languages (MIT) as OpenCoder's filter assigns it
(MIT): one language an extension, and ``excluded`` beside Linguist's types. It is used instead of a
package because no maintained one tells data from code (identify and Pygments have neither types
nor the data formats), and because rules that compare with the released filter need its choices.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dph.corpus.documents import DocType


@dataclass(frozen=True, slots=True)
class Language:
    """A language's name in lower case ('' if none is known) and the type of its files."""

    name: str
    doc_type: DocType


UNKNOWN = Language("", DocType.UNKNOWN)


def language_of_path(path: str) -> Language:
    """The language of a file by its whole name, else by its longest known extension.

    Case counts where the table says so (``.C`` is C++, ``.c`` is C), and is passed over elsewhere.

    >>> language_of_path("src/CMakeLists.txt").name, language_of_path("notes/PLAN.TXT").name
    ('cmake', 'text')
    """
    name = path.rpartition("/")[2]
    names, extensions = _tables()
    if name in names:
        return names[name]
    parts = name.split(".")
    endings = [".".join(parts[start:]) for start in range(1, len(parts))]
    for ending in (*endings, *(ending.lower() for ending in endings)):
        if ending in extensions:
            return extensions[ending]
    return UNKNOWN


def language_of(filename: str, extension: str) -> Language:
    """The language of a file whose name comes in two parts: the table as it is, the name first."""
    names, extensions = _tables()
    return names.get(filename) or extensions.get(extension) or UNKNOWN


def language_named(name: str) -> Language:
    """The language of that name, in any case; its type is unknown if the table lacks it."""
    if name.lower() == "unknown":
        return UNKNOWN
    return _by_name().get(name.lower(), Language(name.lower(), DocType.UNKNOWN))


@cache
def _rows() -> Mapping[str, Any]:
    text = files("dph.corpus").joinpath("languages.json").read_text(encoding="utf-8")
    rows: Mapping[str, Any] = json.loads(text)
    return rows


@cache
def _by_name() -> Mapping[str, Language]:
    return {name: Language(name, DocType(row["type"])) for name, row in _rows().items()}


@cache
def _tables() -> tuple[Mapping[str, Language], Mapping[str, Language]]:
    """Languages by whole file name, and by extension."""
    languages = _by_name()
    return (
        {n: languages[name] for name, row in _rows().items() for n in row.get("names", ())},
        {e: languages[name] for name, row in _rows().items() for e in row.get("extensions", ())},
    )
