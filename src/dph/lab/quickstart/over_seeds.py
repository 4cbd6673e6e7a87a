"""What tables over seeds say of the quickstart's worlds: ``over_seeds.json`` beside this file.

``benchmarks/over_seeds.py`` makes it from a study's report and from docs/first-edition.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dph._base.files import read_json
from dph.errors import DataError

SCHEMA = 1
FILE = Path(__file__).with_name("over_seeds.json")


class Measured(NamedTuple):
    """A mean over seeds and half of its 95% t-interval: per cent, or a number of styles."""

    mean: float
    half: float

    def __str__(self) -> str:
        """As the table has it."""
        return f"{self.mean:.1f} ± {self.half:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSeeds:
    """A world's table: ``methods`` by label, set and metric (greedy, pass@16, styles)."""

    page: str
    seeds: int
    methods: Mapping[str, Mapping[str, Mapping[str, Measured]]]


def read_over_seeds(world: str, path: Path = FILE) -> OverSeeds | None:
    """The table of a world (``sql-1``: task and edition); None where there is none yet.

    Raises:
        DataError: the file has another schema.
    """
    document = read_json(path)
    if document.get("schema") != SCHEMA:
        raise DataError(f"{path} has the schema {document.get('schema')}, not {SCHEMA}")
    found = document["worlds"].get(world)
    if found is None:
        return None
    methods = {
        label: {
            name: {metric: Measured(*values) for metric, values in of_set.items()}
            for name, of_set in sets.items()
        }
        for label, sets in found["methods"].items()
    }
    return OverSeeds(page=found["page"], seeds=found["seeds"], methods=methods)
