"""Paths in the directory of a study.

<out>/rule.lock.json            which rule the results obey
      study.parquet             what every finished run scored: the study goes on from it
      rows/<run>.json           what runs scored that are not in it yet
      costs.jsonl report.json tables/ figures/
      costs/<run>.json          seconds of each run
      logs/<run>.log            what a run that failed said
      work/<world>/seed_<n>/    world/ base_model/ pool/ base/, and a directory for each run
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dph._base.files import make_directory, read_json, write_json

# The note that a world of a seed is ready for runs: base model, its evaluation, and pools.

NOTE = "prepared.json"


def note_prepared(directory: Path, base: str, pools: Sequence[str]) -> None:
    """Say that the base model (by the id of its run) is evaluated and that these pools are made."""
    before = _pools(directory, base) or []
    write_json(make_directory(directory) / NOTE, {"base": base, "pools": sorted({*before, *pools})})


def is_prepared(directory: Path, base: str, pools: Sequence[str]) -> bool:
    """Whether runs that read these pools can begin."""
    there = _pools(directory, base)
    return there is not None and set(pools) <= set(there)


def _pools(directory: Path, base: str) -> list[str] | None:
    """The pools that are made; None where the base model is not, or is another one."""
    path = directory / NOTE
    found = read_json(path) if path.exists() else {}
    return list(found["pools"]) if found.get("base") == base else None


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of a study that lies in ``out``."""

    out: Path

    @property
    def lock(self) -> Path:
        """The rule that the results obey."""
        return self.out / "rule.lock.json"

    @property
    def rows(self) -> Path:
        """The directory of runs' scores that are not in the table yet."""
        return self.out / "rows"

    @property
    def parquet(self) -> Path:
        """Every score of every run."""
        return self.out / "study.parquet"

    @property
    def costs(self) -> Path:
        """The directory of runs' seconds."""
        return self.out / "costs"

    @property
    def all_costs(self) -> Path:
        """Seconds of all runs, a line each."""
        return self.out / "costs.jsonl"

    @property
    def report(self) -> Path:
        """All tables as one document."""
        return self.out / "report.json"

    @property
    def tables(self) -> Path:
        """The directory of tables."""
        return self.out / "tables"

    @property
    def figures(self) -> Path:
        """The directory of pictures."""
        return self.out / "figures"

    def log(self, job: str) -> Path:
        """Log of a job's stderr."""
        return self.out / "logs" / f"{job}.log"

    def work(self, world: str, seed: int) -> Path:
        """Directory of the runs on a world of a seed."""
        return self.out / "work" / world / f"seed_{seed}"
