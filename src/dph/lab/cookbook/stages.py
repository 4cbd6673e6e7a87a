"""The table of stages, in the order they run.

A new stage is a function of the kitchen and a row here. Each keeps what it finished from the same
inputs and settings, so all of them run every time, and a kill costs the shard or the steps since a
checkpoint that it fell into.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from dph.lab.cookbook.kitchen import Digests, Kitchen

_CORPUS, _MODELS = "dph.lab.cookbook.corpus_stages", "dph.lab.cookbook.model_stages"


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
        "world", "dph.lab.cookbook.world_stage:world_stage", "databases, questions, SQL files"
    ),
    CookbookStage("ingest", f"{_CORPUS}:ingest_stage", "files to documents"),
    CookbookStage("recall", f"{_CORPUS}:recall_stage", "pages that are like another corpus"),
    CookbookStage("dedup", f"{_CORPUS}:dedup_stage", "copies go"),
    CookbookStage("transform", f"{_CORPUS}:transform_stage", "notices and secrets go"),
    CookbookStage("filter", f"{_CORPUS}:filter_stage", "documents of little worth go"),
    # Before tests are looked for: what a model wrote is compared with them too.
    CookbookStage(
        "synth", "dph.lab.cookbook.synth_stage:synth_stage", "rows that hold when executed"
    ),
    CookbookStage("decontaminate", f"{_CORPUS}:decontaminate_stage", "parts of test sets go"),
    CookbookStage("mix", f"{_CORPUS}:mix_stage", "so much of each corpus"),
    CookbookStage("instruct", f"{_CORPUS}:instruct_stage", "rows of fine-tuning"),
    CookbookStage("ablate", "dph.lab.cookbook.synth_stage:ablation_stage", "does cleaning pay?"),
    CookbookStage("base", f"{_MODELS}:base_stage", "the base model"),
    CookbookStage("sft", f"{_MODELS}:sft_stage", "fine-tuning in stages"),
    CookbookStage("evaluate", f"{_MODELS}:evaluate_stage_of_models", "Pass@k before RL"),
    CookbookStage("pool", f"{_MODELS}:pool_stage", "pre-sampling"),
    CookbookStage("rl", f"{_MODELS}:rl_stage", "RL by each method, and its Pass@k"),
)
