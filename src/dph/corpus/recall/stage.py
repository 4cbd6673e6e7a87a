"""The last step of recall: which pages are kept, by what the last round has learnt."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.corpus.documents import Document
from dph.corpus.recall.urls import Patterns, domain_of
from dph.corpus.recall.work import Scorer, load_scorer
from dph.corpus.stage import Drop, Outcome
from dph.files import read_json

SCORE, URL = "score", "url"
"""By what a page is kept."""
TABLE = pa.schema([("id", pa.string()), ("score", pa.float64()), ("by", pa.string())])
"""``scores.parquet``: every page; ``by`` is '' for those that go."""


class Recall:
    """Keeps pages that score well, and those of related domains that match a pattern."""

    def __init__(
        self, scorer: Scorer, related: Set[str], patterns: Patterns, threshold: float
    ) -> None:
        self._score, self._related = scorer, related
        self._patterns, self._threshold = patterns, threshold

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The score of every page."""
        return {"scores": TABLE}

    def __call__(self, document: Document) -> Outcome:
        """Keep the page, or drop it with its score."""
        (value,) = self._score([document.text])
        by = self._by(document, value)
        rows = {"scores": [{"id": document.id, "score": value, "by": by}]}
        if by:
            return Outcome(document, (), rows, {f"by {by}": 1})
        drop = Drop(SCORE, value=value, threshold=f"< {self._threshold:g}")
        return Outcome(None, [drop], rows)

    def _by(self, document: Document, value: float) -> str:
        if value >= self._threshold:
            return SCORE
        known = domain_of(document.url) in self._related
        return URL if known and self._patterns.matches(document.url) else ""


def make_stage(settings: Mapping[str, Any]) -> Recall:
    """The stage of ``settings``; its files are what the last round wrote."""
    files = {name: Path(path) for name, path in settings["files"].items()}
    scorer = load_scorer(
        settings["classifier"],
        files["pieces"],
        files["classifier"],
        characters=settings["characters"],
    )
    found = read_json(files["domains"])
    return Recall(
        scorer, frozenset(found["related"]), Patterns(found["accepted"]), settings["threshold"]
    )
