"""What every stage of a cookbook works with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dph.cookbook.settings import SETS, WORLD, Cookbook
from dph.corpus import Corpus, open_corpus
from dph.runs.progress import ProgressDisplay
from dph.worlds.sql.second_edition import SECOND_EDITION
from dph.worlds.sql.world import World, WorldSizes

Digests = Mapping[str, str]
"""What a stage made, by name: digests that are the same wherever and whenever it is made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kitchen:
    """A cookbook, where it is run, and by how many processes."""

    cookbook: Cookbook
    directory: Path
    progress: ProgressDisplay
    workers: int

    def world(self) -> World:
        """The world of ``[world]``, built if it is not there."""
        settings = self.cookbook.world
        sizes = WorldSizes(**(settings.sizes if settings else {}))
        world: World = SECOND_EDITION.build(
            self.directory / "world", seed=self.cookbook.seed, sizes=sizes
        )
        return world

    def place(self, text: str) -> str:
        """A path of the cookbook; what the world writes lies in ``sources``."""
        if not text.startswith(WORLD):
            return text
        name = text.removeprefix(WORLD)
        return str(self.directory / "sources" / (name if name == "sql" else f"{name}.jsonl"))

    def tests(self) -> dict[str, Path]:
        """All test sets: those that are named, and the world's."""
        found: dict[str, Path] = dict(self.cookbook.tests)
        if self.cookbook.world is not None:
            found |= {name: self.directory / "world" / f"{name}.jsonl" for name in SETS}
        return found

    def corpus_stage(self, stage: str, name: str) -> Path:
        """Where a stage of one corpus writes."""
        return self.directory / "corpora" / name / stage

    def cleaned(self, name: str) -> Corpus:
        """A corpus after its last stage of cleaning."""
        last = "decontaminate" if self.tests() else "filter"
        return open_corpus(self.corpus_stage(last, name))
