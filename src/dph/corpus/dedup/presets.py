"""Nearness of near-copies: numbers of bands and rows, and whether candidates are checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dph.errors import SettingsError

_MOST_HASHES = 8192


@dataclass(frozen=True, slots=True)
class Nearness:
    """Two files are candidates if all hashes of one band agree.

    Equation: P(candidates) = 1 - (1 - J**rows)**bands for a Jaccard similarity of J (Leskovec,
    Rajaraman and Ullman, "Mining of massive datasets", 3.4.2).

    Args:
        bands: of the signature; 0 leaves near-copies alone.
        rows: hashes of a band.
        least_jaccard: a candidate is dropped only if its exact similarity to a kept file is at
            least that. None: candidates of candidates are one group, and one file of it is kept.
        seed: of the hashes.

    Raises:
        SettingsError: a number is out of range.
    """

    bands: int
    rows: int
    least_jaccard: float | None = None
    seed: int = 42

    def __post_init__(self) -> None:
        if self.bands < 0 or self.rows < 1 or self.bands * self.rows > _MOST_HASHES:
            raise SettingsError(
                f"need bands >= 0, rows >= 1 and at most {_MOST_HASHES} hashes, got {self.bands} "
                f"bands of {self.rows} rows"
            )
        if self.least_jaccard is not None and not 0 < self.least_jaccard <= 1:
            raise SettingsError(f"least_jaccard must lie in (0, 1], got {self.least_jaccard}")

    @property
    def hashes(self) -> int:
        """Of a signature."""
        return self.bands * self.rows

    def caught(self, similarity: float) -> float:
        """Probability that two files of that Jaccard similarity become candidates.

        >>> round(PRESETS["opencoder"].caught(0.98), 3)
        0.714
        """
        return float(1 - (1 - similarity**self.rows) ** self.bands)

    def json(self) -> dict[str, Any]:
        """The settings as JSON."""
        return asdict(self)


PRESETS: Mapping[str, Nearness] = {
    "opencoder": Nearness(bands=16, rows=128),
    "loose": Nearness(bands=14, rows=8, least_jaccard=0.7),
    "exact": Nearness(bands=0, rows=1),
}
"""``opencoder`` as published: half of the pairs at 0.975. ``loose`` catches half at 0.65, of which
those below 0.7 are kept. ``exact`` drops copies alone."""


def preset(name: str, least_jaccard: float | None = None) -> Nearness:
    """The preset of that name, looking closer where ``least_jaccard`` is given.

    Raises:
        SettingsError: there is none, or the number is out of range.
    """
    if name not in PRESETS:
        raise SettingsError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    found = PRESETS[name]
    if least_jaccard is None:
        return found
    return Nearness(found.bands, found.rows, least_jaccard, found.seed)
