"""What recall is told: when a page is recalled, when a domain is related, how a round learns."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dph.errors import SettingsError

FASTTEXT, LINEAR = "fasttext", "sklearn"
CLASSIFIERS = (FASTTEXT, LINEAR)
"""``fasttext`` as OpenCoder's; ``sklearn``, a logistic regression, where floret has no wheel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """All that the outcome depends on but the documents and the reviewed patterns.

    Args:
        rounds: at most so many; a round is the last if it brings nothing to the seed.
        threshold: a page is recalled from this score on, in (0, 1).
        domain_share: a domain is related if more than this share of its pages is recalled, in
            [0, 1).
        classifier: of ``CLASSIFIERS``.
        vocabulary: tokens of the byte-level BPE that a round learns.
        characters: of the head of a page that are read.
        examples: the most pages of either kind that a round learns from.
        seed: of the classifier.

    Raises:
        SettingsError: a value is out of range.
    """

    rounds: int = 3
    threshold: float = 0.5
    domain_share: float = 0.1
    classifier: str = FASTTEXT
    vocabulary: int = 32_000
    characters: int = 10_000
    examples: int = 500_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("vocabulary", 300), ("characters", 1), ("examples", 1)):
            if (value := getattr(self, name)) < least:
                raise SettingsError(f"{name} must be at least {least}, got {value}")
        if not 0 < self.threshold < 1:
            raise SettingsError(f"the threshold must lie in (0, 1), got {self.threshold}")
        if not 0 <= self.domain_share < 1:
            raise SettingsError(f"domain_share must lie in [0, 1), got {self.domain_share}")
        if self.classifier not in CLASSIFIERS:
            raise SettingsError(
                f"a classifier is one of {', '.join(CLASSIFIERS)}, got {self.classifier!r}"
            )

    def json(self) -> Mapping[str, Any]:
        """The settings as JSON."""
        return asdict(self)
