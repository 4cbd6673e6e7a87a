"""Which documents a mixture takes: of each part the first in the order of a corpus.

That order is by hash of the id, so what is taken is a uniform sample of each part and language. A
document that does not fit what is left of its part's share is passed over, and smaller ones after
it still fill that: only the end of a part prefers small documents.
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

        Where a part had documents enough this is less than the smallest that was passed over.
        """
        return {part: quota - self.taken[part] for part, quota in self._quotas.items()}

    def _reason(self, candidate: Candidate) -> str:
        if candidate.id == self._last_id:
            return TAKEN
        cap = self._caps.get(candidate.language)
        if cap is not None and self._by_language[candidate.language] + candidate.bytes > cap:
            return CAPPED
        if self.taken[candidate.part] + candidate.bytes > self._quotas[candidate.part]:
            return FULL
        return ""
