"""The last step of recall: which pages are kept, by what the last round has scored."""

from collections.abc import Set
from dataclasses import dataclass

import pyarrow as pa

from dph.corpus.documents import Document
from dph.corpus.recall.urls import Patterns, domain_of
from dph.corpus.stage import Drop, Outcome

SCORE, URL = "score", "url"
"""By what a page is kept."""
TABLE = pa.schema([("id", pa.string()), ("score", pa.float64()), ("by", pa.string())])
"""``scores.parquet``: every page; ``by`` is '' for those that go."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Keeps pages that score well, and those of related domains that match a pattern."""

    related: Set[str]
    patterns: Patterns
    threshold: float

    def __call__(self, document: Document, score: float) -> Outcome:
        """Keep the page, or drop it with its score."""
        by = self._by(document, score)
        rows = {"scores": [{"id": document.id, "score": score, "by": by}]}
        if by:
            return Outcome(document, (), rows, {f"by {by}": 1})
        drop = Drop(SCORE, value=score, threshold=f"< {self.threshold:g}")
        return Outcome(None, [drop], rows)

    def _by(self, document: Document, score: float) -> str:
        if score >= self.threshold:
            return SCORE
        known = domain_of(document.url) in self.related
        return URL if known and self.patterns.matches(document.url) else ""
