"""A document: one file's text, where it comes from, and what kind of file it is."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Self

from dph.errors import DataError


class DocType(StrEnum):
    """Kind of a file, by its name; it decides which rules read the file."""

    CODE = "code"
    DATA = "data"
    TEXT = "text"
    UNKNOWN = "unknown"
    """No language has such a name."""
    EXCLUDED = "excluded"
    """A format that no model should learn from: tables, drawings, keys, notebooks as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One file of a corpus. What is not known is '' or 0.

    ``sha256`` is that of ``text`` in UTF-8, and so of the file: only files that are UTF-8 become
    documents, and neither line ends nor byte-order marks are touched. ``bytes`` is the size of the
    file as it came.
    """

    id: str
    text: str
    path: str
    """Path of the file in its repository, with ``/``."""
    repo: str = ""
    stars: int = 0
    commit_time: int = 0
    """Seconds since 1970, UTC."""
    licence: str = ""
    """An SPDX expression."""
    url: str = ""
    source: str = ""
    """Label of the input that the document was read from."""
    language: str = ""
    """Programming or data language, in lower case, by its name in ``languages.json``."""
    natural_language: str = ""
    """An ISO 639-1 code."""
    doc_type: DocType = DocType.UNKNOWN
    bytes: int
    sha256: str

    @classmethod
    def of(cls, text: str, **facts: Any) -> Self:
        """A document of ``text``, whose size and digest are worked out (a given ``bytes`` stays).

        >>> Document.of("é", id="a/b.py", path="b.py").bytes
        2
        """
        data = encoded(text, str(facts.get("id", "")))
        facts.setdefault("bytes", len(data))
        return cls(text=text, sha256=hashlib.sha256(data).hexdigest(), **facts)

    def with_text(self, text: str) -> Self:
        """The same file with another text, and the size and digest of that."""
        data = encoded(text, self.id)
        return replace(self, text=text, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    def row(self) -> dict[str, Any]:
        """The fields by name, as a table stores them."""
        return {name: getattr(self, name) for name in FIELDS}


FIELDS = tuple(field.name for field in fields(Document))
"""The columns of a shard of documents."""


def encoded(text: str, place: str) -> bytes:
    """``text`` in UTF-8; half of a surrogate pair is a DataError that names its ``place``."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: the text is not Unicode: {error}") from error


def position(document_id: str) -> int:
    """Position of an id in the order of a corpus, in [0, 2**64): the head of its SHA-256.

    A corpus is one sequence of documents in the order of (position, id), and a shard a part of
    it. So neither the order of the input nor the number of shards changes the sequence, and its
    beginning is a uniform sample.
    """
    return int.from_bytes(hashlib.sha256(document_id.encode()).digest()[:8], "big")


# A digest of a set of documents that does not depend on their order or on how they are cut.

_MODULUS = 1 << 256


class ContentDigest:
    """The sum of the documents' SHA-256, modulo 2**256 (Bellare and Micciancio's AdHash, 1997).

    Every field counts. Digests of shards add up to that of their corpus.
    """

    def __init__(self, value: str = "0") -> None:
        self._sum = int(value, 16)

    def add(self, document: Document) -> None:
        """Count a document in."""
        fields = [getattr(document, name) for name in FIELDS if name != "text"]
        text = json.dumps(fields, ensure_ascii=False).encode()
        self._sum += int.from_bytes(hashlib.sha256(text).digest(), "big")

    def merge(self, other: str) -> None:
        """Count the documents of another digest in."""
        self._sum += int(other, 16)

    def hex(self) -> str:
        """The digest, 64 characters."""
        return f"{self._sum % _MODULUS:064x}"


# Which language a file is in, and of what type it is, by its name.
#
# ``languages.json`` is GitHub Linguist's table of languages (MIT) as OpenCoder's filter assigns
# it (MIT): one language an extension, and ``excluded`` beside Linguist's types. It is used
# instead of a package because no maintained one tells data from code (identify and Pygments have
# neither types nor the data formats), and because rules that compare with the released filter
# need its choices.


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
    key = _SPELLED.get(name.lower(), name.lower())
    return UNKNOWN if key == "unknown" else _by_name().get(key, Language(key, DocType.UNKNOWN))


_SPELLED = {"c++": "cpp", "c#": "csharp"}
"""Names of languages that the table spells otherwise."""


@cache
def _rows() -> Mapping[str, Any]:
    text = files("dph_corpus").joinpath("languages.json").read_text(encoding="utf-8")
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
