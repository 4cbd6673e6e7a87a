"""Ingredients of a text-to-SQL world: the sizes of its sets, and differences between editions."""

from dataclasses import asdict, dataclass
from typing import Any

from dph.errors import SettingsError
from dph.lab.worlds.sql.annotators import DrawKnowledge
from dph.lab.worlds.sql.lessons import all_sums

QUESTIONS_WITHOUT_ANSWERS = 600
"""For each of the two parts, in editions that have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLWorldSizes:
    """Number of problems in each set."""

    train: int = 600
    in_domain: int = 150
    cross_domain: int = 150
    arithmetic: int = 77
    unlabelled: int | None = None
    """Questions without answers in each part [default: as many as the edition has]."""

    def __post_init__(self) -> None:
        for name, size in asdict(self).items():
            if size is not None and size < 1:
                raise SettingsError(f"the set {name} needs at least 1 problem, got {size}")
        if self.arithmetic > len(all_sums()):
            raise SettingsError(
                f"there are {len(all_sums())} different sums, got arithmetic={self.arithmetic}"
            )


TINY = SQLWorldSizes(train=48, in_domain=8, cross_domain=8, arithmetic=8, unlabelled=24)
TINY_STEPS = 140
"""A base model of as many steps is right in 38% of its answers (seed 0); one of 60 steps never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """Differences between the editions of this world."""

    number: int
    schema: int
    """Of the manifest; the first edition's says neither its edition nor anything unlabelled."""
    draw_knowledge: DrawKnowledge
    sizes: SQLWorldSizes
    unlabelled: int = 0
    """Questions without answers in each part, where the sizes do not say."""

    correlation: float | None = None
    """How likely a gap is every annotator's; a number makes the edition hostile."""

    def manifest_head(self, seed: int, sizes: SQLWorldSizes) -> dict[str, Any]:
        """Ingredients of a world, for its manifest.

        Raises:
            SettingsError: the sizes ask for a set that this edition does not have.
        """
        counts = asdict(sizes)
        if not self.unlabelled:
            if sizes.unlabelled is not None:
                raise SettingsError(
                    f"edition {self.number} of this world has no questions without answers, "
                    f"got unlabelled={sizes.unlabelled}"
                )
            del counts["unlabelled"]
            return {"schema": self.schema, "seed": seed, "sizes": counts}
        counts["unlabelled"] = sizes.unlabelled or self.unlabelled
        head = {"schema": self.schema, "edition": self.number, "seed": seed, "sizes": counts}
        return head if self.correlation is None else {**head, "correlation": self.correlation}
