"""Results of the rounds of recall: a record of each, the domains, and the last classifier."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dph._base.files import sha256
from dph._base.files.rows import read_rows
from dph.corpus.recall.review import UrlSection
from dph.errors import DataError

# A labelled slice of the pages: what recall and precision of a round are measured on.

_LABELS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class RecallScores(NamedTuple):
    """Of the labelled pages; None where it would divide by 0."""

    recall: float | None
    precision: float | None


def read_labels(path: Path) -> dict[str, bool]:
    """The labels (``relevant``) of pages by their ``id``.

    Raises:
        DataError: it cannot be read, an id is there twice, or a label is neither true nor false.
    """
    labels: dict[str, bool] = {}
    for place, row in read_rows(path, columns=["id", "relevant"]):
        label = _LABELS.get(str(row["relevant"]).strip().lower())
        if label is None:
            raise DataError(f"{place}: relevant must be true or false, got {row['relevant']!r}")
        if row["id"] in labels:
            raise DataError(f"{place}: the id {row['id']!r} occurs twice")
        labels[row["id"]] = label
    return labels


def measure(labels: Mapping[str, bool], recalled: Collection[str]) -> RecallScores:
    """Recall and precision of ``recalled`` among the labelled pages.

    >>> measure({"a": True, "b": True, "c": False}, {"a", "c", "d"})
    RecallScores(recall=0.5, precision=0.5)
    """
    found = sum(label for name, label in labels.items() if name in recalled)
    relevant, named = sum(labels.values()), sum(name in recalled for name in labels)
    return RecallScores(found / relevant if relevant else None, found / named if named else None)


QUANTILES = (0.5, 0.9, 0.99, 1.0)
"""Of the scores of a round, that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Record of one round.

    ``quantiles`` are those of the scores of all pages, by ``QUANTILES``; ``threshold`` is the score
    from which pages are recalled, ``division`` the one that divides them best, which ``divided`` of
    them reach. ``recall`` and ``precision`` are those on the labelled pages, of what it recalls by
    score or by URL; None without any.
    """

    round: int
    seeds: int
    others: int
    by_score: int
    quantiles: Mapping[str, float]
    threshold: float
    division: float
    divided: int
    by_url: int
    related_domains: int
    joined: int
    recall: float | None = None
    precision: float | None = None

    def json(self) -> Mapping[str, Any]:
        """The round as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDomain:
    """Pages of a domain in a round."""

    round: int
    domain: str
    pages: int
    recalled: int
    related: bool


@dataclass(frozen=True, slots=True)
class LearntFiles:
    """Places of a round's BPE and classifier."""

    pieces: Path
    classifier: Path

    def digests(self) -> dict[str, str]:
        """The SHA-256 of both."""
        return {"pieces": sha256(self.pieces), "classifier": sha256(self.classifier)}


@dataclass(frozen=True, slots=True)
class Learnt:
    """Results of the rounds: the last classifier, the domains it calls related, and the records.

    ``scores`` are those of the last round, shard by shard; ``sections`` are those of the related
    domains, to be reviewed.
    """

    files: LearntFiles
    scores: Sequence[Path]
    related: Sequence[str]
    sections: Mapping[str, UrlSection]
    rounds: Sequence[Round]
    domains: Sequence[WebDomain]

    @property
    def threshold(self) -> float:
        """The score from which the last round recalls a page."""
        return self.rounds[-1].threshold
