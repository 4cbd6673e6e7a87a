"""What the rounds of recall leave: a record of each, the domains, and what the last has learnt."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dph.corpus.recall.review import Section

QUANTILES = (0.5, 0.9, 0.99, 1.0)
"""Of the scores of a round, that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round did.

    ``quantiles`` are those of the scores of all pages, by ``QUANTILES``. ``recall`` and
    ``precision`` are those on the labelled pages, of what it recalls by score or by URL; None
    without any.
    """

    round: int
    seeds: int
    others: int
    by_score: int
    quantiles: Mapping[str, float]
    by_url: int
    related_domains: int
    joined: int
    recall: float | None = None
    precision: float | None = None

    def json(self) -> Mapping[str, Any]:
        """The round as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Pages of a domain in a round."""

    round: int
    domain: str
    pages: int
    recalled: int
    related: bool


@dataclass(frozen=True, slots=True)
class Learnt:
    """What the rounds leave: the last classifier, the domains it calls related, and the way there.

    ``scores`` are those of the last round, shard by shard; ``sections`` are those of the related
    domains, to be reviewed.
    """

    pieces: Path
    classifier: Path
    scores: Sequence[Path]
    related: Sequence[str]
    sections: Mapping[str, Section]
    rounds: Sequence[Round]
    domains: Sequence[Domain]
