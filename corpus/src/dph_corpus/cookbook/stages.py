"""The table of stages, in the order they run.

A new stage is a function of the pipeline and a row here. Each keeps the results that it finished
from the same inputs and settings, so all of them run every time, and a kill costs only the shard in
progress, or the steps since a checkpoint.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dph._base.import_path import load_callable
from dph.errors import SettingsError
from dph.runs.progress import ProgressDisplay
from dph_corpus import Corpus, open_corpus
from dph_corpus.cookbook.settings import SYNTH, WORLD, Cookbook

Digests = Mapping[str, str]
"""Results of a stage by name: digests that are the same wherever and whenever it is made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeWorld:
    """Files, test sets and problems that the function of ``[world]`` made.

    Args:
        files: files and directories, by the names that they have in the cookbook after ``world:``.
        tests: test sets that no document may share text with.
        recipe: tables of the recipes of RL.
        digests: of everything that was made; the same for the same settings and seed.
    """

    files: Mapping[str, Path]
    tests: Mapping[str, Path]
    recipe: Mapping[str, Any]
    digests: Digests


@dataclass(slots=True, kw_only=True)
class Pipeline:
    """A cookbook, its directory, and the number of processes."""

    cookbook: Cookbook
    directory: Path
    progress: ProgressDisplay
    workers: int
    world: MadeWorld | None = None
    """Set by the first stage."""

    def place(self, text: str) -> str:
        """The path of an input of the cookbook, which a stage may have made."""
        if text.startswith(SYNTH):
            return str(self.corpus_stage("synth", text.removeprefix(SYNTH)) / "rows.parquet")
        if not text.startswith(WORLD):
            return text
        files = self.world.files if self.world else {}
        if (name := text.removeprefix(WORLD)) not in files:
            known = ", ".join(f"{WORLD}{name}" for name in files)
            raise SettingsError(f"{text} is not made by [world], which makes {known}")
        return str(files[name])

    def tests(self) -> dict[str, Path]:
        """All test sets: those that are named, and the world's."""
        return {**self.cookbook.tests, **(self.world.tests if self.world else {})}

    def corpus_stage(self, stage: str, name: str) -> Path:
        """Output directory of a stage of one corpus."""
        return self.directory / "corpora" / name / stage

    def corpus_stages(self, name: str) -> tuple[str, ...]:
        """The stages that a corpus goes through, in order."""
        last = ("decontaminate",) if self.tests() else ()
        if name in self.cookbook.synth:
            return ("synth", *last)
        recall = ("recall",) if self.cookbook.corpora[name].recall else ()
        return ("ingest", *recall, "dedup", "transform", "filter", *last)

    def before(self, stage: str, name: str) -> Corpus:
        """Input of a stage of a corpus."""
        stages = self.corpus_stages(name)
        return open_corpus(self.corpus_stage(stages[stages.index(stage) - 1], name))

    def cleaned(self, name: str) -> Corpus:
        """A corpus after its last stage of cleaning."""
        return open_corpus(self.corpus_stage(self.corpus_stages(name)[-1], name))


def world_stage(pipeline: Pipeline) -> Digests:
    """Call the function of ``[world]``, which keeps its finished files."""
    table, directory = pipeline.cookbook.world, pipeline.directory / "world"
    if table is None:
        return {}
    make = load_callable(table.make, pipeline.cookbook.modules)
    with pipeline.progress.task("world", 1, "worlds") as advance:
        made = make(
            table.settings, directory, seed=pipeline.cookbook.seed, workers=pipeline.workers
        )
        if not isinstance(made, MadeWorld):
            raise SettingsError(f"{table.make} must return a MadeWorld, got {made!r:.80}")
        advance(1, "")
    pipeline.world = made
    return made.digests


@dataclass(frozen=True, slots=True)
class CookbookStage:
    """A stage: its name, where its function is (``module:function``), and its summary."""

    name: str
    entry: str
    summary: str

    def run(self, pipeline: Pipeline) -> Digests:
        """Run it; its module is loaded now, and torch with it if it trains."""
        module, _, function = self.entry.partition(":")
        stage: Callable[[Pipeline], Digests] = getattr(
            import_module(f"dph_corpus.cookbook.{module}"), function
        )
        return stage(pipeline)


STAGES: tuple[CookbookStage, ...] = (
    CookbookStage("world", "stages:world_stage", "sources, test sets and problems"),
    CookbookStage("ingest", "corpus_stages:ingest_stage", "files to documents"),
    CookbookStage("recall", "corpus_stages:recall_stage", "recalling pages like a corpus"),
    CookbookStage("dedup", "corpus_stages:dedup_stage", "removing copies"),
    CookbookStage("transform", "corpus_stages:transform_stage", "removing notices and secrets"),
    CookbookStage("filter", "corpus_stages:filter_stage", "removing documents of low quality"),
    # Before tests are looked for: texts of a model are compared with them, too.
    CookbookStage("synth", "corpus_stages:synth_stage", "synthetic rows that pass when executed"),
    CookbookStage(
        "decontaminate", "corpus_stages:decontaminate_stage", "removing parts of test sets"
    ),
    CookbookStage("mix", "corpus_stages:mix_stage", "mixing corpora"),
    CookbookStage("instruct", "corpus_stages:instruct_stage", "rows of fine-tuning"),
    CookbookStage("base", "model_stages:base_stage", "the base model"),
    CookbookStage("sft", "model_stages:sft_stage", "fine-tuning in stages"),
    CookbookStage("evaluate", "model_stages:evaluate_stage", "Pass@k before fine-tuning ends"),
    CookbookStage("pool", "model_stages:pool_stage", "pre-sampling"),
    CookbookStage("rl", "model_stages:rl_stage", "RL by each method, and its Pass@k"),
)
