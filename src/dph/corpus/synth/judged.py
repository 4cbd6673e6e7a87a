"""What became of an answer, whatever kind of row it was to be."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Generic[T]):
    """What became of an answer; ``reason`` is '' if it is kept.

    Args:
        draft: what was read of it; None if nothing could be.
        reason: why it is dropped, a word that is counted.
        note: what was seen.
        killed: wrong ones of its ``mutants`` that were found out.
        mutants: programs or queries that are wrong in one place.
    """

    draft: T | None
    reason: str = ""
    note: str = ""
    killed: int = 0
    mutants: int = 0
