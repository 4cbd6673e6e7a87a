"""Which documents a mixture takes: of each part the first in the order of a corpus.

That order is by hash of the id, so what is taken is a uniform sample of each part and language, and
without caps a larger budget takes the same documents and more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dph.corpus.mix.shares import Mixture

FULL, CAPPED, TAKEN = "share", "language", "id_taken"
"""Why a document is left out: its part or its language has what it may have, or its id is there
from another part."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document of a part; candidates come in the order of a corpus."""

    part: str
    id: str
    language: str
    bytes: int


class Selection:
    """Takes candidates one by one, and remembers how much was taken."""

    def __init__(self, mixture: Mixture) -> None:
        self._quotas, self._caps = mixture.quotas(), mixture.caps
        self._full: set[str] = set()
        self._last_id = ""
        self.taken: Counter[str] = Counter()
        self._by_language: Counter[str] = Counter()

    def left_out(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, str]]:
        """The candidates that are not taken, each with the reason."""
        for candidate in candidates:
            if reason := self._reason(candidate):
                yield candidate, reason
                continue
            self.taken[candidate.part] += candidate.bytes
            self._by_language[candidate.language] += candidate.bytes
            self._last_id = candidate.id

    def shortfalls(self) -> dict[str, int]:
        """Bytes that each part was to have and its documents did not fill.

        A part that was full but for a document that did not fit has none.
        """
        return {
            part: 0 if part in self._full else quota - self.taken[part]
            for part, quota in self._quotas.items()
        }

    def _reason(self, candidate: Candidate) -> str:
        if candidate.id == self._last_id:
            return TAKEN
        cap = self._caps.get(candidate.language)
        if cap is not None and self._by_language[candidate.language] + candidate.bytes > cap:
            return CAPPED
        if candidate.part in self._full:
            return FULL
        if self.taken[candidate.part] + candidate.bytes > self._quotas[candidate.part]:
            self._full.add(candidate.part)
            return FULL
        return ""
