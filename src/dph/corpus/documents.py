"""A document: one file's text, where it comes from, and what kind of file it is."""

import hashlib
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self
from dph.errors import DataError
import hashlib
import json


class DocType(StrEnum):
    """What a file is, by its name; which rules read it depends on this."""

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
    """Where the file lies in its repository, with ``/``."""
    repo: str = ""
    stars: int = 0
    commit_time: int = 0
    """Seconds since 1970, UTC."""
    licence: str = ""
    """An SPDX expression."""
    url: str = ""
    source: str = ""
    """What the document was read from: the label of an input."""
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
    """``text`` in UTF-8.

    Raises:
        DataError: it holds half of a surrogate pair; ``place`` says where it stands.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: the text is not Unicode: {error}") from error


def position(document_id: str) -> int:
    """Where an id stands in the order of a corpus, in [0, 2**64): the head of its SHA-256.

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
