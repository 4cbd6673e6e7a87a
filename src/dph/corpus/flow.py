"""What went into a stage and what came out: by kind of document, by reason, by the stage's counts.

Flows of shards add up, in any order, to the flow of the stage.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from dph.corpus.documents import Document, position
from dph.corpus.stage import Outcome

_EXAMPLES = 5
MOST_COUNTED = 40
"""Counts of a stage that its manifest names one by one."""


@dataclass(slots=True)
class Passage:
    """Documents and bytes that came in, and that were kept."""

    documents: int = 0
    bytes: int = 0
    kept_documents: int = 0
    kept_bytes: int = 0

    def add(self, other: "Passage") -> None:
        """Add another passage to this one."""
        self.documents += other.documents
        self.bytes += other.bytes
        self.kept_documents += other.kept_documents
        self.kept_bytes += other.kept_bytes


@dataclass(slots=True)
class Reason:
    """What a reason dropped: hits, those that no other reason hit, bytes, and some ids.

    The examples are the first in the order of a corpus, so they are drawn alike everywhere.
    """

    documents: int = 0
    solo: int = 0
    bytes: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, other: "Reason") -> None:
        """Add what the same reason dropped elsewhere."""
        self.documents += other.documents
        self.solo += other.solo
        self.bytes += other.bytes
        self.examples = sorted({*self.examples, *other.examples}, key=_place)[:_EXAMPLES]


@dataclass(slots=True)
class Flow:
    """The flow of a shard or of a stage.

    ``passages`` are by (doc type, language); ``skipped`` counts what never became a document.
    """

    passages: defaultdict[tuple[str, str], Passage] = field(
        default_factory=lambda: defaultdict(Passage)
    )
    reasons: defaultdict[str, Reason] = field(default_factory=lambda: defaultdict(Reason))
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def record(self, document: Document, outcome: Outcome) -> None:
        """Count what became of ``document``."""
        size = 0 if outcome.document is None else outcome.document.bytes
        kept = int(outcome.document is not None)
        self.passages[document.doc_type, document.language].add(
            Passage(1, document.bytes, kept, size)
        )
        reasons = {drop.reason for drop in outcome.drops}
        for reason in reasons:
            hit = Reason(1, int(len(reasons) == 1), document.bytes, [document.id])
            self.reasons[reason].add(hit)
        self.counts.update(outcome.counts)

    def add(self, other: "Flow") -> None:
        """Add the flow of another shard."""
        for kind, passage in other.passages.items():
            self.passages[kind].add(passage)
        for name, reason in other.reasons.items():
            self.reasons[name].add(reason)
        self.counts.update(other.counts)
        self.skipped.update(other.skipped)

    def bounded(self) -> "Flow":
        """The same with the largest counts alone, and how many others there were and their sum.

        A stage may count by what it finds in documents, which has no end.
        """
        if len(self.counts) <= MOST_COUNTED:
            return self
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        kept, others = ranked[:MOST_COUNTED], ranked[MOST_COUNTED:]
        rest = {f"({len(others)} others)": sum(count for _, count in others)}
        return replace(self, counts=Counter(dict(kept) | rest))

    def total(self) -> Passage:
        """All passages together."""
        total = Passage()
        for passage in self.passages.values():
            total.add(passage)
        return total

    def json(self) -> dict[str, Any]:
        """The flow as JSON, in an order of its own."""
        return {
            "passages": [
                {
                    "doc_type": str(kind[0]),
                    "language": kind[1],
                    "documents": passage.documents,
                    "bytes": passage.bytes,
                    "kept_documents": passage.kept_documents,
                    "kept_bytes": passage.kept_bytes,
                }
                for kind, passage in sorted(self.passages.items())
            ],
            "reasons": {
                name: {
                    "documents": reason.documents,
                    "solo": reason.solo,
                    "bytes": reason.bytes,
                    "examples": reason.examples,
                }
                for name, reason in sorted(self.reasons.items())
            },
            "counts": dict(sorted(self.counts.items())),
            "skipped": dict(sorted(self.skipped.items())),
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """The flow that ``json`` wrote."""
        flow = cls()
        for row in content["passages"]:
            values = {k: v for k, v in row.items() if k not in ("doc_type", "language")}
            flow.passages[row["doc_type"], row["language"]] = Passage(**values)
        for name, reason in content["reasons"].items():
            flow.reasons[name] = Reason(**reason)
        flow.counts.update(content["counts"])
        flow.skipped.update(content["skipped"])
        return flow


def _place(document_id: str) -> tuple[int, str]:
    return position(document_id), document_id
