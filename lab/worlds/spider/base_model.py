"""The base model of the Spider world: SmolLM2-135M-Instruct after a short fine-tuning.

It is the same for every seed. It lies beside the language model, so that it is made once.
"""

from pathlib import Path

from dph._base.files import held, sha256
from dph.model.policies import directory_fingerprint
from dph.recipe import recipe_digest
from dph.runs.progress import Silent
from dph_corpus.base.recipes import SFTRecipe
from dph_corpus.base.sft import train_sft
from lab.worlds.real.base_model import link_model, require_model
from lab.worlds.spider.world import FINE_TUNING
from lab.worlds.world import Progress, World

STAGE = "spider"
SETTINGS = {
    "max_tokens": 256,
    "sequences_per_step": 2,
    "learning_rate": 1e-4,
    "warmup_steps": 4,
    "checkpoint_every": 20,
}

PATIENCE = 3600.0
"""Seconds to wait for another process that is making the model."""


def fine_tune_base_model(
    world: World,
    directory: Path,
    *,
    seed: int,  # noqa: ARG001  # every kind of world gives it
    steps: int,
    on_progress: Progress | None = None,
) -> None:
    """Make ``directory`` a folder of links to the fine-tuned model, which is made if it is missing.

    Args:
        world: its fine-tuning rows are learnt.
        directory: where the links are made.
        seed: not used: the base model is that of every seed.
        steps: epochs of the fine-tuning.
        on_progress: told when it is done.
    """
    language_model = require_model().resolve()
    rows = world.problems_path(FINE_TUNING)
    made_from = recipe_digest(
        {
            "model": directory_fingerprint(language_model),
            "rows": sha256(rows),
            "epochs": steps,
            **SETTINGS,
        }
    )
    place = language_model.parent / f"spider-{made_from}"
    recipe = SFTRecipe.model_validate(
        {
            "kind": "sft",
            "name": "real-spider",
            "model": language_model,
            "stages": [{"name": STAGE, "rows": [rows.absolute()], "epochs": steps, **SETTINGS}],
        }
    )
    with held(place.with_suffix(".lock"), patience=PATIENCE):
        made = train_sft(recipe, place, Silent())
    link_model(made.resolve(), directory)
    if on_progress is not None:
        on_progress(steps)
