"""A digest of a set of documents that does not depend on their order or on how they are cut."""

import hashlib
import json

from dph.corpus.documents import FIELDS, Document

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
