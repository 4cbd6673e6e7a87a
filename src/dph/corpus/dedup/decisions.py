"""Who is dropped, and for whom: copies first, then near-copies among those that are left."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dph.corpus.dedup.candidates import components, keepers_of_copies
from dph.corpus.dedup.marks import Marks
from dph.corpus.dedup.presets import Nearness

EXACT, NEAR = "exact", "near"
"""The reasons for dropping a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """``id`` is dropped for ``kept_id``, which is kept; ``value`` is a known Jaccard similarity."""

    id: str
    reason: str
    kept_id: str
    value: float | None = None

    def row(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


LookCloser = Callable[[Sequence[Sequence[int]], Marks], Sequence[Copy]]
"""Given groups of candidates, says which are near-copies of a kept one."""


def copies_of(marks: Marks, nearness: Nearness, look_closer: LookCloser) -> list[Copy]:
    """Every document to be dropped."""
    keepers = keepers_of_copies(marks)
    alone = np.flatnonzero(keepers == np.arange(len(keepers)))
    groups = components(marks.bands, alone) if nearness.bands else []
    if nearness.least_jaccard is None:
        near = [copy for group in groups for copy in _best_stays(group, marks)]
    else:
        near = [*look_closer(groups, marks)]
    kept_for = {copy.id: copy.kept_id for copy in near}
    exact = []
    for index in np.flatnonzero(keepers != np.arange(len(keepers))).tolist():
        keeper = marks.ids[int(keepers[index])]
        kept_id = kept_for.get(keeper, keeper)
        exact.append(Copy(id=marks.ids[index], reason=EXACT, kept_id=kept_id, value=None))
    return [*exact, *near]


def _best_stays(group: Sequence[int], marks: Marks) -> list[Copy]:
    best = min(group, key=lambda index: int(marks.ranks[index]))
    return [
        Copy(id=marks.ids[index], reason=NEAR, kept_id=marks.ids[best])
        for index in group
        if index != best
    ]
