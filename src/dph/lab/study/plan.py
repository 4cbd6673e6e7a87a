"""The runs of a study, in order, and what was chosen so far."""

from collections.abc import Mapping
from dataclasses import dataclass

from dph.lab.study.choice import Choice
from dph.lab.study.row_files import RowFile
from dph.lab.study.settings import MethodSettings
from dph.lab.study.sites import Site
from dph.lab.study.variants import Variant

DEVELOPMENT, REPORT = "development", "report"
Rows = Mapping[str, RowFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the study, under one label. Several labels may ask for the same run."""

    variant: Variant
    label: str
    seed: int
    split: str

    @property
    def id(self) -> str:
        """The name of its results."""
        return self.variant.run_id(self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """Runs of a method in a world that wait for choices: a seed for each, at most so many."""

    site: Site
    method: MethodSettings
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All runs that are decided, in the order in which they are best made, and what is undecided.

    ``choices`` are by world and label; ``left_out`` are labels that ``if_best`` kept from being
    reported.
    """

    runs: tuple[Run, ...]
    undecided: tuple[Undecided, ...]
    choices: Mapping[tuple[str, str], Choice]
    left_out: frozenset[tuple[str, str]]

    @property
    def total(self) -> int:
        """How many different runs there are, those that are not decided yet among them."""
        return len({run.id for run in self.runs}) + sum(len(left.seeds) for left in self.undecided)

    def missing(self, rows: Rows) -> list[Run]:
        """The runs that are not finished, each once, in order."""
        wanted = {run.id: run for run in reversed(self.runs) if run.id not in rows}
        return [run for run in self.runs if wanted.get(run.id) is run]
