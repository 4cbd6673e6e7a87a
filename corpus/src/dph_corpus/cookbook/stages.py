"""The table of stages, in the order they run.

A new stage is a function of the kitchen and a row here. Each keeps what it finished from the same
inputs and settings, so all of them run every time, and a kill costs the shard or the steps since a
checkpoint that it fell into.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from dph.runs.progress import ProgressDisplay
from dph_corpus import Corpus, open_corpus
from dph_corpus.cookbook.settings import DATABASES, SETS, SYNTH, WORLD, Cookbook
from dph_corpus.running import Workers
from lab.worlds.sql.kind import SQLWorldSizes
from lab.worlds.sql.world import SQLWorld, build_world

# What every stage of a cookbook works with.

Digests = Mapping[str, str]
"""Results of a stage by name: digests that are the same wherever and whenever it is made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kitchen:
    """A cookbook, where it is run, and by how many processes.

    ``shards_by`` does the shards of corpora: those processes, or a cluster.
    """

    cookbook: Cookbook
    directory: Path
    progress: ProgressDisplay
    workers: int
    shards_by: Workers

    def world(self) -> SQLWorld:
        """The world of ``[world]``, built if it is not there."""
        settings = self.cookbook.world
        sizes = SQLWorldSizes(**(settings.sizes if settings else {}))
        return build_world(self.directory / "world", seed=self.cookbook.seed, sizes=sizes)

    def place(self, text: str) -> str:
        """A path of the cookbook; what the world writes lies in ``sources``."""
        if text == DATABASES:
            return str(self.world().databases_directory)
        if text.startswith(SYNTH):
            return str(self.corpus_stage("synth", text.removeprefix(SYNTH)) / "rows.parquet")
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


_CORPUS, _MODELS = "dph_corpus.cookbook.corpus_stages", "dph_corpus.cookbook.model_stages"


@dataclass(frozen=True, slots=True)
class CookbookStage:
    """A stage: its name, where its function is (``module:function``), and what it does."""

    name: str
    entry: str
    summary: str

    def run(self, kitchen: Kitchen) -> Digests:
        """Run it; its module is loaded now, torch with it where it trains."""
        module, _, function = self.entry.partition(":")
        stage: Callable[[Kitchen], Digests] = getattr(import_module(module), function)
        return stage(kitchen)


STAGES: tuple[CookbookStage, ...] = (
    CookbookStage(
        "world", "dph_corpus.cookbook.world_stage:world_stage", "databases, questions, SQL files"
    ),
    CookbookStage("ingest", f"{_CORPUS}:ingest_stage", "files to documents"),
    CookbookStage("recall", f"{_CORPUS}:recall_stage", "recalling pages like a corpus"),
    CookbookStage("dedup", f"{_CORPUS}:dedup_stage", "removing copies"),
    CookbookStage("transform", f"{_CORPUS}:transform_stage", "removing notices and secrets"),
    CookbookStage("filter", f"{_CORPUS}:filter_stage", "removing documents of low quality"),
    # Before tests are looked for: what a model wrote is compared with them too.
    CookbookStage(
        "synth",
        "dph_corpus.cookbook.corpus_stages:synth_stage",
        "synthetic rows that pass when executed",
    ),
    CookbookStage("decontaminate", f"{_CORPUS}:decontaminate_stage", "removing parts of test sets"),
    CookbookStage("mix", f"{_CORPUS}:mix_stage", "mixing corpora"),
    CookbookStage("instruct", f"{_CORPUS}:instruct_stage", "rows of fine-tuning"),
    CookbookStage(
        "ablate", "dph_corpus.cookbook.corpus_stages:ablation_stage", "ablation of cleaning"
    ),
    CookbookStage("base", f"{_MODELS}:base_stage", "the base model"),
    CookbookStage("sft", f"{_MODELS}:sft_stage", "fine-tuning in stages"),
    CookbookStage("evaluate", f"{_MODELS}:evaluate_stage_of_models", "Pass@k before RL"),
    CookbookStage("pool", f"{_MODELS}:pool_stage", "pre-sampling"),
    CookbookStage("rl", f"{_MODELS}:rl_stage", "RL by each method, and its Pass@k"),
)
